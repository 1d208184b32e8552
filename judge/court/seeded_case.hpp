#pragma once
// Cases that `assay case` has made: what they were made from, so that they can be made again, smaller or from another
// seed.
#include <map>
#include <string>

#include "files/safetensors.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

/// The seeded problem of `spec`, in the dtypes of its precision. `tool_version` goes into the metadata.
Safetensors case_file(const Room& room, const CaseSpec& spec, bool cotangents, std::string_view tool_version);

/// Inputs all of whose numbers are one, by name, as it was typed: "log_mu" is "-0.5".
using Fill = std::map<std::string, std::string>;
/// " --fill log_alpha=-0.05 --fill log_mu=-0.5"
std::string flags_of(const Fill& fill);
/// The inverse for one of them. Throws InputError unless it is NAME=NUMBER.
Fill::value_type fill_from(const std::string& flag);

struct SeededCase {
  const Room* room = nullptr;
  CaseSpec spec;
  bool cotangents = true;
  Fill fill = {};

  /// Throws InputError if the room has no input that `fill` names.
  Safetensors make() const;
  /// "build/assay case --mechanism ... -o PATH"
  std::string command(const std::string& path) const;
};

/// What the file was made from. Throws InputError that begins with `flag` and the path unless it says so and holds,
/// bit for bit, what that makes.
SeededCase read_seeded_case(const std::string& path, const std::string& flag);

}  // namespace assay
