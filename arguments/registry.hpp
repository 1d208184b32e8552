#pragma once
// The one table of arguments: their names, where they stand in a case, and which mechanisms take them.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/given.hpp"
#include "language/program/program.hpp"
#include "oracles/core/room.hpp"

namespace assay::arguments {

/// Mechanisms that take the same arguments.
enum class Family { attention, recurrence, convolution, norm, quantizer, other };

/// The facts that decide which arguments a mechanism takes.
struct Facts {
  std::string name;
  Family family = Family::other;
  const language::Program* program = nullptr;  ///< of a recurrence
  std::shared_ptr<const Room> room;            ///< null for the components, which have none
};
/// Throws Refusal (UNSUPPORTED) as find_room does.
Facts facts_of(const std::string& mechanism);

enum class Part { params, inputs, cotangents };
constexpr const char* name_of(Part part) {
  return part == Part::params ? "params" : part == Part::inputs ? "inputs" : "cotangents";
}

/// Arguments that go together.
enum class Group {
  scores,
  sink,
  operands,
  chosen,
  sequences,
  both_sequences,
  states,
  gate,
  log_gate,
  write_gate,
  norm,
  step
};

/// A cotangent stands for the output of its name.
struct Argument {
  std::string_view name;
  Part part;
  Group group;
  std::string_view what;  ///< its shape and meaning, for pages
};
std::span<const Argument> all_arguments();

/// Why the mechanism does not take it; "" if it does.
std::string why_not(const Facts& facts, const Argument& argument);
/// Whether the mechanism takes an argument of that name.
bool takes_argument(const Facts& facts, std::string_view name);
bool is_argument(std::string_view name);

/// Whether the numbers of the argument of that name are integers: rows, keys, pages, documents.
bool holds_integers(std::string_view name);

/// The names that the mechanism has without any argument.
std::vector<std::string> own_names(const Facts& facts, Part part);

/// Whether the mechanism's room does not know that name, and the table does.
bool is_argument(const Facts& facts, Part part, std::string_view name);

/// Refuses names that the mechanism does not take, with the reason, and unknown names.
void admit_names(const Given& given, const Facts& facts);

}  // namespace assay::arguments
