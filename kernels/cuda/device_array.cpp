#include "kernels/cuda/device_array.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/core/pack.hpp"
#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

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

}  // namespace

void cuda_check(cudaError_t status, const char* file, int line) {
  if (status != cudaSuccess) throw DeviceError(text("CUDA: ", cudaGetErrorString(status), " (", file, ":", line, ")"));
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  cuda_check(cudaMalloc(&data_, std::max<std::size_t>(bytes, 16)));  // kernels take the address of empty arrays too
}
DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }
DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

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
    const auto buffer = std::make_shared<DeviceBuffer>(bytes);
    if (bytes > 0) cuda_check(cudaMemset(buffer->data(), 0xff, bytes));
    auto* first = static_cast<std::byte*>(buffer->data());
    for (DeviceArray* a : arrays) {
      a->buffer_ = buffer;
      a->data_ = first;
      a->head_rows_ = rows;
      first += a->bytes() / static_cast<std::size_t>(std::max(1, a->heads_));
    }
  }
};

DeviceArray::DeviceArray(Format format, int heads, int rows, int cols)
    : format_(format), heads_(heads), rows_(rows), cols_(cols), head_rows_(rows) {
  Allocation request(*this);
  if (pack::active()) {
    pack::meet({Allocation::serve}, request);
  } else {
    pack::Request* const alone[] = {&request};
    Allocation::serve(alone);
  }
}

DeviceArray::DeviceArray(Format format, int heads, int rows, int cols, std::span<const double> values)
    : DeviceArray(format, heads, rows, cols) {
  require(values.size() == count(), "device array: expected ", count(), " values, got ", values.size());
  if (values.empty()) return;
  with_element(format, [&](auto e) {
    std::vector<decltype(e)> host(values.size());
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = element_of<decltype(e)>(values[i], format);
    copy(data_, host.data(), cudaMemcpyHostToDevice);
  });
}

void DeviceArray::copy(void* to, const void* from, cudaMemcpyKind kind) const {
  if (head_rows_ == rows_) return cuda_check(cudaMemcpy(to, from, bytes(), kind));
  const std::size_t dense = bytes() / static_cast<std::size_t>(heads_), step = bytes() / count() * head_step();
  const bool up = kind == cudaMemcpyHostToDevice;
  cuda_check(
      cudaMemcpy2D(to, up ? step : dense, from, up ? dense : step, dense, static_cast<std::size_t>(heads_), kind));
}

std::size_t DeviceArray::bytes() const {
  return with_element(format_, [&](auto e) { return count() * sizeof(e); });
}
std::size_t DeviceArray::count() const {
  return static_cast<std::size_t>(heads_) * static_cast<std::size_t>(rows_) * static_cast<std::size_t>(cols_);
}

std::vector<double> DeviceArray::values() const {
  std::vector<double> values(count());
  if (values.empty()) return values;
  with_element(format_, [&](auto e) {
    std::vector<decltype(e)> host(values.size());
    copy(host.data(), data_, cudaMemcpyDeviceToHost);
    for (std::size_t i = 0; i < host.size(); ++i) values[i] = value_of(host[i], format_);
  });
  return values;
}

}  // namespace assay
