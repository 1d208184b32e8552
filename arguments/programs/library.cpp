#include "arguments/programs/library.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "files/embedded.hpp"
#include "reference/core/error.hpp"
#include "reference/core/inputs.hpp"

namespace assay::arguments {
namespace {

using language::Program;

/// Reads an entry when it is asked for, and keeps it.
const Program& read(const EmbeddedText& entry) {
  static std::mutex guard;
  static std::map<const EmbeddedText*, std::unique_ptr<const Program>> known;
  const std::lock_guard lock(guard);
  std::unique_ptr<const Program>& program = known[&entry];
  if (!program)
    program = std::make_unique<const Program>(language::read_program(entry.text, std::string(entry.name())));
  return *program;
}

thread_local PlantedPart* planted = nullptr;

const EmbeddedText* find(std::string_view folder, std::string_view name) {
  const auto it = std::ranges::find_if(embedded_programs,
                                       [&](const EmbeddedText& e) { return e.folder() == folder && e.name() == name; });
  return it == embedded_programs.end() ? nullptr : &*it;
}

std::string spelled(const language::Setting& setting) { return language::spelled(setting, ""); }

}  // namespace

PlantedPart::PlantedPart(std::string name, language::Program stand_in)
    : name_(std::move(name)), stand_in_(std::move(stand_in)) {
  planted = this;
}
PlantedPart::~PlantedPart() { planted = nullptr; }

const char* embedded_text(std::string_view folder, std::string_view name) { return find(folder, name)->text; }

const Program& part(std::string_view name) {
  if (planted != nullptr) planted->asked.emplace(name);
  if (planted != nullptr && planted->name_ == name) return planted->stand_in_;
  const EmbeddedText* entry = find("arguments", name);
  require(entry != nullptr, "no part is called ", name);
  return read(*entry);
}

const Program* find_mechanism_program(std::string_view mechanism) {
  const EmbeddedText* entry = find("mechanisms", mechanism);
  return entry == nullptr ? nullptr : &read(*entry);
}

const Program* find_mechanism_program(std::string_view mechanism, const Params& params) {
  const Program* plain = find_mechanism_program(mechanism);
  if (plain == nullptr) return nullptr;
  const std::string prefix = std::string(mechanism) + '-';
  for (const EmbeddedText& entry : embedded_programs) {
    const std::string_view name = entry.name();
    if (entry.folder() != std::string_view("mechanisms") || (name != mechanism && !name.starts_with(prefix))) continue;
    const Program& program = read(entry);
    bool agrees = program.name == plain->name;
    for (const auto& [setting, value] : program.settings) {
      const auto param = params.find(setting);
      agrees = agrees && spelled(value) ==
                             (param == params.end() ? spelled(plain->settings.at(setting)) : word_of(param->second));
    }
    if (agrees) return &program;
  }
  return nullptr;
}

const Program& mechanism_program(std::string_view mechanism, const Params& params) {
  if (const Program* program = find_mechanism_program(mechanism, params)) return *program;
  const Program* plain = find_mechanism_program(mechanism);
  require(plain != nullptr, "no program is called ", mechanism);
  std::string wanted;
  for (const auto& [name, setting] : plain->settings)
    if (const auto param = params.find(name); param != params.end())
      wanted += (wanted.empty() ? "" : ", ") + name + " = " + word_of(param->second);
  throw Refusal(Status::domain, -1, text(mechanism, ": no program with ", wanted));
}

}  // namespace assay::arguments
