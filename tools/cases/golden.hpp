#pragma once
// Golden problems: a room's inputs as a kernel stores them, and what is expected of it, in one safetensors file.
#include <string>
#include <string_view>
#include <vector>

#include "arguments/drawn_case.hpp"
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

/// Problems with arguments (docs/arguments.md) of a mechanism that a tile program of ours takes with them, by name;
/// none of any other: packed sequences of no token and of one, masks, pages, front ends, states inside of sequences.
struct GoldenRequest {
  std::string name;
  CaseSpec request;
};
std::vector<GoldenRequest> golden_requests(std::string_view mechanism);
/// fixtures/arguments/NAME.safetensors, as above: `case/field` is what `assay case` writes, and what is expected is
/// what `assay oracle --tier ball` answers. NaN stands for padding, -inf for the lse of a row that sees nothing.
Safetensors golden_arguments_file(std::string_view mechanism);

/// One sentence for each difference between two files; empty if they hold the same. How tight a proven bound is depends
/// on the version of FLINT: two bounds are the same where both keep `word_target`.
std::vector<std::string> differences(const Safetensors& expected, const Safetensors& found);

}  // namespace assay
