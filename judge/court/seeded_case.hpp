#pragma once
// Cases that `assay case` has made: what they were made from, so that they can be made again, smaller or from another
// seed.
#include <map>
#include <string>
#include <utility>

#include "arguments/drawn_case.hpp"
#include "files/safetensors.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

/// Inputs all of whose numbers are one, by name, as it was typed: "log_mu" is "-0.5".
using Fill = std::map<std::string, std::string>;
/// " --fill log_alpha=-0.05 --fill log_mu=-0.5"
std::string flags_of(const Fill& fill);
/// The inverse for one of them. Throws InputError unless it is NAME=NUMBER.
Fill::value_type fill_from(const std::string& flag);

/// The name and the numbers in "sink" or "sink=NUMBERS", as --with has it.
std::pair<std::string, std::string> with_from(const std::string& flag);

struct SeededCase {
  std::shared_ptr<const Room> room;  ///< null of a component (docs/arguments.md), which has arguments
  CaseSpec spec;
  Fill fill = {};

  bool has_arguments() const { return arguments::asks_for_arguments(spec); }
  /// Throws InputError if the case has no input that `fill` names.
  Safetensors make() const;
  /// "build/assay case --mechanism ... -o PATH"
  std::string command(const std::string& path) const;
};

/// The case that the file was made from. Throws InputError that begins with `flag` and the path unless the file names
/// it and holds, bit for bit, what that makes.
SeededCase read_seeded_case(const std::string& path, const std::string& flag);

}  // namespace assay
