#include "tools/seeded.hpp"

#include <charconv>
#include <sstream>

#include "fixtures/problem_file.hpp"
#include "reference/core/error.hpp"
#include "tools/case_flags.hpp"
#include "tools/child.hpp"

namespace assay {
namespace {

/// Words of the command line that the file keeps.
Params params_in(const std::string& generator) {
  Params params;
  std::istringstream words(generator);
  for (std::string word; words >> word;)
    if (word == "--param" && words >> word) params.insert(param_from(word));
  return params;
}

}  // namespace

Safetensors SeededCase::make() const { return case_file(*room, spec, cotangents, ASSAY_VERSION); }

std::string SeededCase::command(const std::string& path) const {
  return "build/assay case " + spec.repro() + (cotangents ? "" : " --no-cotangents") + " -o " + shell_word(path);
}

SeededCase read_seeded_case(const std::string& path, const std::string& flag) {
  require(is_safetensors(path), path, ": not a safetensors file; `assay case` writes the cases that can be checked");
  const Safetensors file = read_safetensors(path);
  const std::string stranger = text(flag, ": ", path, ": expected a case that `assay case` has made: ");
  const auto said = [&](const char* key) {
    const auto it = file.metadata.find(key);
    require(it != file.metadata.end(), stranger, "__metadata__.", key, " is missing");
    return it->second;
  };
  SeededCase seeded;
  seeded.spec.mechanism = said("mechanism");
  seeded.room = find_room(seeded.spec.mechanism);
  require(seeded.room != nullptr, stranger, "there is no mechanism ", seeded.spec.mechanism);
  const auto precision = format_from(said("precision"));
  const auto style = style_from(said("style"));
  require(precision && style, stranger, "its precision or its style is unknown");
  const std::string seed = said("seed"), generator = said("generator");
  const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), seeded.spec.seed);
  require(error == std::errc{} && end == seed.data() + seed.size(), stranger, "its seed is no number");
  seeded.spec.precision = *precision, seeded.spec.style = *style;
  seeded.cotangents = generator.find(" --no-cotangents") == std::string::npos;
  try {
    seeded.spec.shape = shape_from(said("shape"));
    seeded.spec.params = params_in(generator);
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
