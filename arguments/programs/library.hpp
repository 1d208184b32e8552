#pragma once
// The programs of mechanisms/ and arguments/programs/, and other JSON which the binary carries with it.
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "language/program/program.hpp"
#include "reference/core/problem.hpp"

namespace assay::arguments {

/// The text of FOLDER/.../NAME.json, which there is.
const char* embedded_text(std::string_view folder, std::string_view name);
/// The program arguments/programs/json/NAME.json.
const language::Program& part(std::string_view name);

/// For tests: while it lives, this thread's part() gives `stand_in` for the part of that name, and remembers what was
/// asked for.
class PlantedPart {
 public:
  explicit PlantedPart(std::string name = "", language::Program stand_in = {});
  PlantedPart(const PlantedPart&) = delete;
  PlantedPart& operator=(const PlantedPart&) = delete;
  ~PlantedPart();

  std::set<std::string, std::less<>> asked;

 private:
  friend const language::Program& part(std::string_view name);
  std::string name_;
  language::Program stand_in_;
};

/// The program of that mechanism in mechanisms/json; null if there is none.
const language::Program* find_mechanism_program(std::string_view mechanism);

/// The program for the settings that `params` say and the defaults of the others; null if those were not traced.
const language::Program* find_mechanism_program(std::string_view mechanism, const Params& params);
/// The same, or throws Refusal (DOMAIN).
const language::Program& mechanism_program(std::string_view mechanism, const Params& params);

}  // namespace assay::arguments
