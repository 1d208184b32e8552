#include "tools/cases/mechanism_flag.hpp"

#include <CLI/CLI.hpp>
#include <utility>

#include "tools/cases/case_flags.hpp"

namespace assay {

void add_mechanism_flag(CLI::App& app, std::string& mechanism) {
  app.add_option("--mechanism", mechanism,
                 "whose problem it is, in place of what the case says: a name that `assay list` has, or the file of a "
                 "program, gdn2.json");
}

Safetensors with_mechanism(Safetensors stored, const std::string& mechanism) {
  if (mechanism.empty()) return stored;
  stored.metadata["mechanism"] = room_named(mechanism, "--mechanism").name;
  return stored;
}

}  // namespace assay
