#include "judge/court/seeded_case.hpp"

#include <cmath>
#include <sstream>

#include "arguments/registry.hpp"
#include "files/names.hpp"
#include "files/problem_file.hpp"
#include "files/shown.hpp"
#include "reference/core/error.hpp"
#include "reference/core/parse_number.hpp"
#include "reference/core/sha256.hpp"

namespace assay {
namespace {

/// Takes what the file keeps of the command line that made it.
void read_words(const std::string& generator, SeededCase& seeded) {
  std::istringstream words(generator);
  for (std::string flag, word; words >> flag;) {
    if (!flag.starts_with("--") || flag == "--no-cotangents" || !(words >> word)) continue;
    if (word.size() > 1 && word.front() == '\'' && word.back() == '\'') word = word.substr(1, word.size() - 2);
    if (flag == "--param") seeded.spec.params.insert(param_from(word));
    if (flag == "--fill") seeded.fill.insert(fill_from(word));
    if (flag == "--with") seeded.spec.with.push_back(with_from(word));
    if (flag == "--layout") seeded.spec.layout = word;
  }
}

/// The numbers of a tensor, what is padding left as it is.
void fill_with(const std::string& name, StoredTensor& tensor, double number, Json& digests) {
  require(!load_integers(tensor).has_value(), "--fill: ", name, " has no numbers but integers; --with ", name,
          "=NUMBERS says them");
  Array array = load(name, tensor);
  for (double& x : array.data)
    if (!std::isnan(x)) x = number;
  tensor = store(array, tensor.dtype);
  digests[name] = sha256(load(name, tensor));
}

/// Whether the least that a case of that shape holds, in numbers, is not much more than the file holds.
bool is_of_size(const Shape& s, const Safetensors& file) {
  double stored = 0;
  for (const auto& [name, tensor] : file.tensors) stored += static_cast<double>(tensor.bytes.size());
  const double heads = static_cast<double>(s.batch) * s.heads, dims = static_cast<double>(s.key_dim) + s.value_dim,
               tokens = static_cast<double>(s.seq_len) + s.query_len;
  return heads * tokens * dims + heads * s.key_dim * s.value_dim <= 1e6 + 64 * stored;
}

double number_of(const Fill::value_type& filled) {
  const auto x = parse_number<double>(filled.second);
  require(x && std::isfinite(*x), "--fill: ", filled.first, ": ", filled.second, " is no number");
  return *x;
}

}  // namespace

std::string flags_of(const Fill& fill) {
  std::string flags;
  for (const auto& [name, number] : fill) flags += text(" --fill ", name, '=', number);
  return flags;
}

Fill::value_type fill_from(const std::string& flag) {
  const std::size_t equals = flag.find('=');
  require(equals != std::string::npos && equals > 0, "--fill: expected NAME=NUMBER, got ", flag);
  Fill::value_type filled{flag.substr(0, equals), flag.substr(equals + 1)};
  number_of(filled);
  return filled;
}

std::pair<std::string, std::string> with_from(const std::string& flag) {
  const std::size_t equals = flag.find('=');
  return {flag.substr(0, equals), equals == std::string::npos ? "" : flag.substr(equals + 1)};
}

Safetensors SeededCase::make() const {
  Safetensors file = arguments::draw_case(spec, ASSAY_VERSION);
  if (fill.empty()) return file;
  Json digests = Json::parse(file.metadata.at("sha256"));
  for (const auto& filled : fill) {
    const auto it = file.tensors.find(filled.first);
    require(it != file.tensors.end(), "--fill: ", spec.mechanism, " has no input ", filled.first, "; this case has ",
            names_in(file.tensors, [](const auto& tensor) { return tensor.first; }));
    fill_with(filled.first, it->second, number_of(filled), digests);
  }
  file.metadata["sha256"] = digests.dump();
  file.metadata["generator"] += flags_of(fill);
  return file;
}

std::string SeededCase::command(const std::string& path) const {
  return text("build/assay case ", spec.repro(), arguments::argument_flags(spec), flags_of(fill),
              spec.cotangents ? "" : " --no-cotangents", " -o ", shown_word(path));
}

SeededCase read_seeded_case(const std::string& path, const std::string& flag) {
  const Safetensors file = read_case(path);
  const std::string stranger = text(flag, ": ", path, ": expected a case that `assay case` has made: ");
  const auto said = [&](const char* key) {
    const auto it = file.metadata.find(key);
    require(it != file.metadata.end(), stranger, "__metadata__.", key, " is missing");
    return it->second;
  };
  SeededCase seeded;
  seeded.spec.mechanism = said("mechanism");
  seeded.room = find_room(seeded.spec.mechanism);
  const bool is_component =
      seeded.room == nullptr && arguments::facts_of(seeded.spec.mechanism).family != arguments::Family::other;
  require(seeded.room != nullptr || is_component, stranger, "there is no mechanism ", seeded.spec.mechanism);
  const auto precision = format_from(said("precision"));
  const bool has_style = arguments::set_style(seeded.spec, said("style"));
  require(precision && has_style, stranger, "its precision or its style is unknown");
  const auto seed = parse_number<std::uint64_t>(said("seed"));
  require(seed.has_value(), stranger, "its seed is no number");
  const std::string generator = said("generator");
  seeded.spec.precision = *precision, seeded.spec.seed = *seed;
  seeded.spec.cotangents = generator.find(" --no-cotangents") == std::string::npos;
  try {
    seeded.spec.shape = shape_from(said("shape"));
    read_words(generator, seeded);
    require(is_of_size(seeded.spec.shape, file), "its shape is larger than its tensors");
    const Safetensors again = seeded.make();
    bool same = again.tensors.size() == file.tensors.size();
    for (const auto& [name, tensor] : again.tensors) {
      const auto it = file.tensors.find(name);
      same = same && it != file.tensors.end() && it->second.bytes == tensor.bytes && it->second.dtype == tensor.dtype;
    }
    require(same, "its tensors are others");
  } catch (const InputError& e) {
    throw InputError(stranger + e.what());
  }
  return seeded;
}

}  // namespace assay
