#pragma once
// Golden problems: a room's inputs as a kernel stores them, and what is expected of it, in one safetensors file.
#include <string>
#include <vector>

#include "files/safetensors.hpp"
#include "oracles/core/room.hpp"

namespace assay {

/// The problems of a room's golden file, by name: tile edges, the room's settings, the styles that matter to it.
struct GoldenCase {
  std::string name;
  CaseSpec spec;
};
std::vector<GoldenCase> golden_cases(const Room& room);

/// fixtures/NAME.safetensors, computed afresh: keys `case/field` for inputs and cotangents (`case/d_o`) in the dtype
/// the kernel reads, `case/out.field` and `case/grad.field` for expected values as F64 pairs x + x.lo with x.bound, the
/// distance from the truth. Metadata: one JSON record a case (mechanism, params, shape, style, seed, precision), the
/// generator, and the SHA-256 of every tensor. Bit-identical under every compiler and thread count.
Safetensors golden_file(const Room& room);

/// One sentence for each difference between two files; empty if they hold the same.
std::vector<std::string> differences(const Safetensors& expected, const Safetensors& found);

}  // namespace assay
