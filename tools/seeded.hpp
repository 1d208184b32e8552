#pragma once
// Cases that `assay case` has made: what they were made from, so that they can be made again, smaller or from another
// seed.
#include <string>

#include "fixtures/safetensors.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

struct SeededCase {
  const Room* room = nullptr;
  CaseSpec spec;
  bool cotangents = true;

  Safetensors make() const;
  /// "build/assay case --mechanism ... -o PATH"
  std::string command(const std::string& path) const;
};

/// What the file was made from. Throws InputError that begins with `flag` and the path unless it says so and holds,
/// bit for bit, what that makes.
SeededCase read_seeded_case(const std::string& path, const std::string& flag);

}  // namespace assay
