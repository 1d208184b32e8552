#include "kernels/gpu/device_array.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/core/pack.hpp"
#include "kernels/gpu/launches.hpp"
#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

using language::device::address_of;

template <class E>
E element_of(double x, Format format) {
  if constexpr (sizeof(E) <= 2)
    return static_cast<E>(encode(x, format));
  else
    return static_cast<E>(round_to(x, format));
}

template <class E>
double value_of(E e, Format format) {
  if constexpr (sizeof(E) <= 2)
    return decode(e, format);
  else
    return static_cast<double>(e);
}

/// f(E{}) with the type that holds one element: the code of an 8-bit or 16-bit format, a float, a double.
template <class F>
auto with_element(Format format, F f) {
  switch (info(format).bits) {
    case 8:
      return f(std::uint8_t{});
    case 16:
      return f(std::uint16_t{});
    case 32:
      return f(float{});
    case 64:
      return f(double{});
    default:
      throw InputError(text("device array: no memory format for ", name_of(format)));
  }
}

/// On the run's stream; `from` may be gone afterwards.
void upload(std::byte* to, const std::byte* from, std::size_t bytes) {
  const tile::GpuRun& run = tile::GpuRun::current();
  tile::FewBytes few{};
  if (bytes <= sizeof few.bytes) {
    few.to = to;
    std::memcpy(few.bytes, from, bytes);
    tile::take_turns(few, bytes);
  } else if (!run.rests()) {
    run.stream()->upload(address_of(to), from, bytes);
    run.stream()->wait();
  }
}

}  // namespace

/// The request for the memory of one array: served for all sequences of a pack together, or alone.
struct DeviceArray::Allocation : pack::Request {
  DeviceArray& array;
  explicit Allocation(DeviceArray& a) : array(a) {}

  /// Arrays of the same heads and columns side by side; a number of chunks may be one of heads.
  static void serve(std::span<pack::Request* const> requests) {
    std::vector<DeviceArray*> rest;
    for (pack::Request* r : requests) rest.push_back(&static_cast<Allocation*>(r)->array);
    while (!rest.empty()) {
      const auto others = std::stable_partition(rest.begin(), rest.end(), [&first = *rest[0]](const DeviceArray* a) {
        return a->format_ == first.format_ && a->heads_ == first.heads_ && a->cols_ == first.cols_;
      });
      allocate({rest.begin(), others});
      rest.erase(rest.begin(), others);
    }
  }

  static void allocate(std::span<DeviceArray* const> arrays) {
    int rows = 0;
    std::size_t bytes = 0;
    for (const DeviceArray* a : arrays) rows += a->rows_, bytes += a->bytes();
    const tile::GpuRun& run = tile::GpuRun::current();
    const GpuMemory memory = run.memory(bytes);
    // Who has results on the GPU measures, and has been judged before.
    if (!run.lists() && !run.keeps()) run.stream()->fill(address_of(memory.at.get()), 0xff, bytes);
    std::size_t first = 0;
    for (DeviceArray* a : arrays) {
      a->memory_ = memory.at, a->request_ = memory.request, a->beside_ = memory.beside;
      if (memory.at != nullptr) a->data_ = reinterpret_cast<std::byte*>(memory.at.get()) + first;
      a->group_rows_ = rows;
      first += a->bytes() / static_cast<std::size_t>(std::max(1, a->heads_));
    }
  }
};

DeviceArray::DeviceArray(Format format, int heads, int rows, int cols)
    : format_(format), heads_(heads), rows_(rows), cols_(cols), group_rows_(rows) {
  Allocation request(*this);
  if (pack::active()) {
    pack::meet({Allocation::serve}, request);
  } else {
    pack::Request* const alone[] = {&request};
    Allocation::serve(alone);
  }
}

DeviceArray::DeviceArray(Format format, int heads, int rows, int cols, const GpuTensor& of)
    : format_(format), heads_(heads), rows_(rows), cols_(cols), group_rows_(rows), beside_(of.beside), data_(of.data) {}

DeviceArray DeviceArray::zeros(Format format, int heads, int rows, int cols) {
  DeviceArray array(format, heads, rows, cols);
  const tile::GpuRun& run = tile::GpuRun::current();
  if (!run.rests())
    array.each_part([&](std::size_t there, std::size_t, std::size_t bytes) {
      run.stream()->fill(address_of(array.data_) + there, 0, bytes);
    });
  return array;
}

DeviceArray::DeviceArray(Format format, int heads, int rows, int cols, std::span<const double> values)
    : DeviceArray(format, heads, rows, cols) {
  require(values.size() == count(), "device array: expected ", count(), " values, got ", values.size());
  if (values.empty()) return;
  with_element(format, [&](auto e) {
    std::vector<decltype(e)> host(values.size());
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = element_of<decltype(e)>(values[i], format);
    each_part([&](std::size_t there, std::size_t here, std::size_t part) {
      upload(static_cast<std::byte*>(data_) + there, reinterpret_cast<const std::byte*>(host.data()) + here, part);
    });
  });
}

template <class F>
void DeviceArray::each_part(F f) const {
  if (group_rows_ == rows_) return f(0, 0, bytes());
  const std::size_t dense = bytes() / static_cast<std::size_t>(heads_),
                    step = dense / static_cast<std::size_t>(rows_) * static_cast<std::size_t>(group_rows_);
  for (std::size_t h = 0; h < static_cast<std::size_t>(heads_); ++h) f(h * step, h * dense, dense);
}

tile::HeadRows DeviceArray::lie() const {
  return {rows_, group_rows_, beside_, static_cast<std::uint32_t>(((1U << 31) + beside_ - 1) / beside_)};
}
std::size_t DeviceArray::bytes() const {
  return with_element(format_, [&](auto e) { return count() * sizeof(e); });
}
std::size_t DeviceArray::count() const {
  return static_cast<std::size_t>(heads_) * static_cast<std::size_t>(rows_) * static_cast<std::size_t>(cols_);
}

std::vector<double> DeviceArray::values() const {
  const tile::GpuRun& run = tile::GpuRun::current();
  std::vector<double> values(count(), 1);  // plans refuse decays of zero
  if (values.empty() || run.lists() || run.keeps()) return values;
  with_element(format_, [&](auto e) {
    std::vector<decltype(e)> host(values.size());
    each_part([&](std::size_t there, std::size_t here, std::size_t bytes) {
      run.stream()->download(reinterpret_cast<std::byte*>(host.data()) + here, address_of(data_) + there, bytes);
    });
    for (std::size_t i = 0; i < host.size(); ++i) values[i] = value_of(host[i], format_);
  });
  return values;
}

tile::MappedIn mapped(const DeviceArray& array, Format format, int tile_rows) {
  const tile::GpuRun& run = tile::GpuRun::current();
  tile::MappedIn in{array.lie(), {}};
  if (array.count() == 0 || run.rests()) return in;                            // nothing is loaded of it
  constexpr int of_fp16 = 6, of_bf16 = 9, swizzle_128 = 3, promotion_256 = 3;  // CU_TENSOR_MAP_...
  constexpr std::uint64_t element = 2;
  const auto cols = static_cast<std::uint64_t>(array.cols()), rows = static_cast<std::uint64_t>(array.rows()),
             beside = static_cast<std::uint64_t>(in.beside), of_head = cols * element, of_row = beside * of_head;
  const std::uint64_t extents[] = {cols, beside, rows, static_cast<std::uint64_t>(array.heads()) / beside},
                      strides[] = {of_head, of_row, static_cast<std::uint64_t>(in.group_rows) * of_row};
  const std::uint32_t box[] = {64, 1, static_cast<std::uint32_t>(tile_rows), 1}, unit[] = {1, 1, 1, 1};
  const auto encode = run.gpu().driver().encode_tensor_map;
  if (encode == nullptr) throw DeviceError("the driver is too old for Hopper's tensor maps");
  run.gpu().must(encode(&in.map, format == Format::bf16 ? of_bf16 : of_fp16, 4, array.data(), extents, strides, box,
                        unit, 0, swizzle_128, promotion_256, 0));
  return in;
}

}  // namespace assay
