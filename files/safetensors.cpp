#include "files/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>

#include "files/input_file.hpp"
#include "files/new_file.hpp"
#include "files/strict_json.hpp"
#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian; this writer copies bytes");

struct Dtype {
  const char* name;
  Format format;
  std::size_t size;
};
constexpr Dtype dtypes[] = {{"F64", Format::fp64, 8}, {"F32", Format::fp32, 4},     {"BF16", Format::bf16, 2},
                            {"F16", Format::fp16, 2}, {"F8_E4M3", Format::e4m3, 1}, {"F8_E5M2", Format::e5m2, 1}};

const Dtype& dtype_named(std::string_view name, std::string_view tensor) {
  for (const Dtype& d : dtypes)
    if (name == d.name) return d;
  throw InputError(text(tensor, ": dtype ", excerpt(name),
                        " is not a floating-point type this tool reads (F64, F32, BF16, F16, F8_E4M3, "
                        "F8_E5M2)"));
}

template <class T>
void put(std::uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T take(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

std::string dtype_of(Format format) {
  if (format == Format::tf32) return "F32";
  for (const Dtype& d : dtypes)
    if (format == d.format) return d.name;
  throw InputError(text(name_of(format), ": no safetensors dtype stores it"));
}

std::string exact_dtype(const Array& array) {
  for (const Format f : {Format::bf16, Format::fp32})
    if (std::ranges::all_of(array.data, [f](double x) { return round_to(x, f) == x; })) return dtype_of(f);
  return dtype_of(Format::fp64);
}

StoredTensor store(const Array& array, const std::string& dtype) {
  const Dtype& d = dtype_named(dtype, "store");
  StoredTensor out{dtype, array.shape, std::vector<std::uint8_t>(array.data.size() * d.size)};
  for (std::size_t i = 0; i < array.data.size(); ++i) {
    std::uint8_t* at = out.bytes.data() + i * d.size;
    const double x = array.data[i];
    if (d.size == 8)
      put(at, x);
    else if (d.size == 4)
      put(at, static_cast<float>(x));
    else if (d.size == 2)
      put(at, encode(x, d.format, Overflow::ieee));
    else
      *at = static_cast<std::uint8_t>(encode(x, d.format, Overflow::ieee));
  }
  return out;
}

Array load(const std::string& name, const StoredTensor& tensor) {
  const Dtype& d = dtype_named(tensor.dtype, name);
  Array out(tensor.shape);
  // Of more numbers than there are codes each code is decoded once.
  std::vector<double> known;
  if (constexpr std::size_t byte = 256; d.size <= 2 && out.data.size() > (d.size == 2 ? byte * byte : byte))
    for (std::size_t code = 0; code < (d.size == 2 ? byte * byte : byte); ++code)
      known.push_back(decode(static_cast<std::uint16_t>(code), d.format));
  const auto decoded = [&](std::uint16_t code) { return known.empty() ? decode(code, d.format) : known[code]; };
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    const std::uint8_t* at = tensor.bytes.data() + i * d.size;
    out.data[i] = d.size == 8   ? take<double>(at)
                  : d.size == 4 ? static_cast<double>(take<float>(at))
                  : d.size == 2 ? decoded(take<std::uint16_t>(at))
                                : decoded(*at);
  }
  return out;
}

namespace {

template <class T>
Array integers_of(const StoredTensor& tensor) {
  Array out(tensor.shape);
  for (std::size_t i = 0; i < out.data.size(); ++i)
    out.data[i] = static_cast<double>(take<T>(tensor.bytes.data() + i * sizeof(T)));
  return out;
}

template <class T>
StoredTensor integers_from(const Array& array, const std::string& dtype) {
  StoredTensor out{dtype, array.shape, std::vector<std::uint8_t>(array.data.size() * sizeof(T))};
  for (std::size_t i = 0; i < array.data.size(); ++i)
    put(out.bytes.data() + i * sizeof(T), static_cast<T>(array.data[i]));
  return out;
}

}  // namespace

std::optional<Array> load_integers(const StoredTensor& tensor) {
  if (tensor.dtype == "I64") return integers_of<std::int64_t>(tensor);
  if (tensor.dtype == "I32") return integers_of<std::int32_t>(tensor);
  if (tensor.dtype == "U8" || tensor.dtype == "BOOL") return integers_of<std::uint8_t>(tensor);
  return std::nullopt;
}

StoredTensor store_integers(const Array& array, const std::string& dtype) {
  if (dtype == "I64") return integers_from<std::int64_t>(array, dtype);
  return dtype == "I32" ? integers_from<std::int32_t>(array, dtype) : integers_from<std::uint8_t>(array, dtype);
}

namespace {

/// JSON without names that occur twice or brackets in brackets in brackets.
nlohmann::json parse_header(const std::string& text, const std::string& where) {
  // As many names as the header has room for: objects are trees.
  StrictJson<nlohmann::json> document({.depth = 4, .names = text.size()},
                                      [&](const std::string& why) { throw InputError(where + ": " + excerpt(why)); });
  nlohmann::json::sax_parse(text, &document);
  return std::move(document).take();
}

/// The bytes before those of the tensors: length and header.
std::string preamble(const Safetensors& file) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::size_t offset = 0;
  for (const auto& [name, tensor] : file.tensors) {
    header[name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto size = static_cast<std::uint64_t>(text.size());
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

/// Reads `size` bytes at `offset` of a source into `to`.
using ReadAt = std::function<void(std::uint64_t offset, std::size_t size, std::uint8_t* to)>;

/// A tenth of what the format's own reader takes: some 100,000 tensors, whose names and places fill 250 MB of memory.
constexpr std::uint64_t largest_header = 10'000'000;

/// A tensor of a header: where its bytes lie, behind the header.
struct Described {
  std::string name;
  StoredTensor tensor;  ///< without its bytes
  std::uint64_t first = 0, last = 0;
};

/// Bytes of a number of that dtype.
std::size_t size_of(const std::string& dtype, const std::string& tensor) {
  constexpr std::pair<std::string_view, std::size_t> integers[] = {{"I64", 8}, {"I32", 4}, {"U8", 1}, {"BOOL", 1}};
  for (const auto& [name, size] : integers)
    if (dtype == name) return size;
  return dtype_named(dtype, tensor).size;
}

/// Refuses a byte 0, which a header may spell as \u0000: sentences and paths would end there.
void require_no_zero(const std::string& name, const std::string& what) {
  require(name.find('\0') == std::string::npos, what, " has a byte 0");
}

Described described(const std::string& name, const nlohmann::json& entry, const std::string& where,
                    std::uint64_t data_size) {
  require_no_zero(name, where + ": the name of a tensor");
  const std::string place = text(where, ": tensor ", excerpt(name), ": ");
  require(entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() && entry.contains("shape") &&
              entry["shape"].is_array() && entry.contains("data_offsets") && entry["data_offsets"].is_array() &&
              entry["data_offsets"].size() == 2 && entry["data_offsets"][0].is_number_unsigned() &&
              entry["data_offsets"][1].is_number_unsigned(),
          place, "expected dtype, shape and two data_offsets");
  Described d{name, {}, entry["data_offsets"][0].get<std::uint64_t>(), entry["data_offsets"][1].get<std::uint64_t>()};
  d.tensor.dtype = entry["dtype"].get<std::string>();
  require(d.first <= d.last && d.last <= data_size, place, "data_offsets lie outside the file");
  const std::size_t size = size_of(d.tensor.dtype, text(where, ": tensor ", excerpt(name)));
  constexpr std::size_t most_axes = 16;
  require(entry["shape"].size() <= most_axes, place, "more than ", most_axes, " axes");
  std::uint64_t count = 1;
  for (const auto& extent : entry["shape"]) {
    require(extent.is_number_unsigned() && extent.get<std::uint64_t>() <= std::numeric_limits<int>::max(), place,
            "a shape is out of range");
    const auto times = extent.get<std::uint64_t>();
    d.tensor.shape.push_back(static_cast<int>(times));
    // Compared by division: the product could wrap to what the file does have.
    require(times == 0 || count <= data_size / times, place, "the shape holds more than the file");
    count *= times;
  }
  require(count * size == d.last - d.first, place, "dtype and shape do not match its bytes");
  return d;
}

/// The tensors of a header. Throws InputError unless each byte up to their end is one tensor's: what is allocated is
/// never more than the file, and nothing lies where it is not read.
std::vector<Described> tensors_of(const nlohmann::json& header, const std::string& where, std::uint64_t data_size) {
  std::vector<Described> all;
  for (const auto& [name, entry] : header.items())
    if (name != "__metadata__") all.push_back(described(name, entry, where, data_size));
  std::vector<const Described*> in_file;
  for (const Described& d : all)
    if (d.first < d.last) in_file.push_back(&d);
  std::sort(in_file.begin(), in_file.end(), [](const Described* a, const Described* b) { return a->first < b->first; });
  std::uint64_t end = 0;
  for (const Described* d : in_file) {
    require(end <= d->first, where, ": tensor ", excerpt(d->name), ": shares bytes with another tensor");
    require(end == d->first, where, ": ", d->first - end, " bytes in front of tensor ", excerpt(d->name),
            " belong to no tensor");
    end = d->last;
  }
  return all;
}

/// Where the bytes of the last one end.
std::uint64_t end_of(const std::vector<Described>& tensors) {
  std::uint64_t end = 0;
  for (const Described& d : tensors) end = std::max(end, d.last);
  return end;
}

std::uint64_t header_size_of(const ReadAt& read, std::uint64_t file_size, const std::string& where) {
  require(file_size >= 8, where, ": ", file_size, " bytes are too few for a safetensors file");
  std::uint64_t size = 0;
  read(0, sizeof size, reinterpret_cast<std::uint8_t*>(&size));
  require(size <= largest_header, where, ": the header claims ", size, " bytes, more than the ", largest_header,
          " that this tool reads");
  return size;
}

nlohmann::json header_of(const ReadAt& read, std::uint64_t header_size, std::uint64_t file_size,
                         const std::string& where) {
  require(header_size <= file_size - 8, where, ": the header claims ", header_size, " bytes, the file has ",
          file_size - 8, " after it");
  std::string text(header_size, ' ');
  read(8, text.size(), reinterpret_cast<std::uint8_t*>(text.data()));
  require(text.find('\0') == std::string::npos, where, ": the header has a byte 0");
  nlohmann::json header = parse_header(text, where + ": the header");
  require(header.is_object(), where, ": the header is not a JSON object");
  return header;
}

/// Every size is checked before what it is the size of is allocated.
Safetensors read_from(std::uint64_t file_size, const ReadAt& read, const std::string& where) {
  const std::uint64_t header_size = header_size_of(read, file_size, where);
  const nlohmann::json header = header_of(read, header_size, file_size, where);
  Safetensors file;
  if (const auto metadata = header.find("__metadata__"); metadata != header.end()) {
    require(metadata->is_object(), where, ": __metadata__ is not an object");
    for (const auto& [key, value] : metadata->items()) {
      require_no_zero(key, where + ": a name in __metadata__");
      require(value.is_string(), where, ": __metadata__.", excerpt(key), " is not a string");
      require_no_zero(value.get_ref<const std::string&>(), text(where, ": __metadata__.", excerpt(key)));
      file.metadata[key] = value.get<std::string>();
    }
  }
  const std::uint64_t data_size = file_size - 8 - header_size;
  std::vector<Described> tensors = tensors_of(header, where, data_size);
  require(end_of(tensors) == data_size, where, ": ", data_size - end_of(tensors),
          " bytes at the end belong to no tensor");
  for (Described& d : tensors) {
    d.tensor.bytes.resize(d.last - d.first);
    read(8 + header_size + d.first, d.tensor.bytes.size(), d.tensor.bytes.data());
    file.tensors[d.name] = std::move(d.tensor);
  }
  return file;
}

}  // namespace

std::vector<std::uint8_t> serialize(const Safetensors& file) {
  const std::string head = preamble(file);
  std::vector<std::uint8_t> bytes(head.begin(), head.end());
  for (const auto& [name, tensor] : file.tensors) bytes.insert(bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
  return bytes;
}

Safetensors parse_safetensors(const std::vector<std::uint8_t>& bytes, const std::string& where) {
  const auto read = [&](std::uint64_t offset, std::size_t size, std::uint8_t* to) {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), size, to);
  };
  return read_from(bytes.size(), read, where);
}

bool is_safetensors(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") return true;
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return false;
  std::array<char, 8> head{};
  std::ifstream file(path, std::ios::binary);
  return file.read(head.data(), head.size()) && head.back() == 0;
}

Safetensors read_safetensors(const std::filesystem::path& path) {
  const std::string where = path.string();
  InputFile file(where);
  const auto read = [&](std::uint64_t offset, std::size_t size, std::uint8_t* to) { file.read_at(offset, size, to); };
  if (!file.is_pipe()) return read_from(file.size(), read, where);
  // No more is read of a pipe than its header speaks of, so that one without an end has one.
  std::vector<std::uint8_t> bytes;
  const auto known = [&](std::uint64_t offset, std::size_t size, std::uint8_t* to) {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), size, to);
  };
  file.append_up_to(8, bytes);
  const std::uint64_t data = 8 + header_size_of(known, bytes.size(), where);
  file.append_up_to(data, bytes);
  const nlohmann::json header = header_of(known, data - 8, bytes.size(), where);
  constexpr std::uint64_t most_of_a_pipe = std::uint64_t{1} << 32;
  file.append_up_to(data + end_of(tensors_of(header, where, most_of_a_pipe)), bytes);
  return read_from(bytes.size(), known, where);
}

void write_safetensors(std::ostream& out, const Safetensors& file) {
  out << preamble(file);
  for (const auto& [name, tensor] : file.tensors)
    out.write(reinterpret_cast<const char*>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
}

void write_safetensors(const std::filesystem::path& path, const Safetensors& file) {
  NewFile out(path);
  write_safetensors(out.stream(), file);
  out.commit();
}

}  // namespace assay
