#pragma once
// --mechanism: a mechanism in place of the one that a case names.
#include <string>

#include "files/safetensors.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}  // namespace CLI

namespace assay {

/// Adds --mechanism NAME|FILE.json.
void add_mechanism_flag(CLI::App& app, std::string& mechanism);

/// The case as if it named that mechanism; as it is where none was typed. Throws InputError if there is no such one.
Safetensors with_mechanism(Safetensors stored, const std::string& mechanism);

}  // namespace assay
