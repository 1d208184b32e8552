#pragma once
// The safetensors file format: an 8-byte little-endian header length, a JSON header, then the tensors' bytes.
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reference/core/format.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

/// One tensor as stored: `dtype` is safetensors' name (F64, F32, BF16, F16, F8_E4M3, F8_E5M2).
struct StoredTensor {
  std::string dtype;
  std::vector<int> shape;
  std::vector<std::uint8_t> bytes;
};

struct Safetensors {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// The dtype that stores values of a format; tf32 is stored as F32.
std::string dtype_of(Format format);
/// The narrowest of BF16, F32 and F64 that holds every value exactly.
std::string exact_dtype(const Array& array);

/// `array` in that dtype, rounded to nearest even if it has to be; what is too large becomes infinity (NaN in F8_E4M3),
/// never a number.
StoredTensor store(const Array& array, const std::string& dtype);
/// The values of a stored tensor as doubles. Throws InputError for a dtype that is not a floating-point number.
Array load(const std::string& name, const StoredTensor& tensor);

/// The values of a stored tensor of integers (I64, I32, U8) or truth values (BOOL); nothing of any other.
std::optional<Array> load_integers(const StoredTensor& tensor);
/// `array`, whose numbers are integers, in one of those dtypes.
StoredTensor store_integers(const Array& array, const std::string& dtype);

/// The bytes of a file: tensors in alphabetical order, header padded to 8 bytes with spaces. The same content gives the
/// same bytes.
std::vector<std::uint8_t> serialize(const Safetensors& file);
/// Parses bytes; every size is checked before anything is allocated. Throws InputError naming `where` and the fault.
Safetensors parse_safetensors(const std::vector<std::uint8_t>& bytes, const std::string& where);

/// By the name, or because the eighth byte is zero: the last of a header's length, and nothing that a text has.
bool is_safetensors(const std::filesystem::path& path);

/// As above, of the file at `path`, without a second copy of its bytes.
Safetensors read_safetensors(const std::filesystem::path& path);
void write_safetensors(std::ostream& out, const Safetensors& file);
/// As above, in place of the file at `path` once it is whole (files/new_file.hpp).
void write_safetensors(const std::filesystem::path& path, const Safetensors& file);

}  // namespace assay
