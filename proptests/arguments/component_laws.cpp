// Identities of the components: short convolution, gated norm, casts (docs/arguments.md).
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "proptests/arguments/records.hpp"
#include "proptests/laws/property.hpp"

namespace assay::arguments {
namespace {

Record convolution(Draw& draw, int T, int D, int W) {
  Record record{"short_conv"};
  record.inputs = {{"x", draw.tensor({T, D})},
                   {"weight", draw.tensor({D, W})},
                   {"bias", draw.tensor({D})},
                   {"initial_state", draw.tensor({D, W - 1})}};
  record.cotangents = {{"o", draw.tensor({T, D})}, {"final_state", draw.tensor({D, W - 1})}};
  return record;
}

ASSAY_PROPERTY(arguments_components, convolutions_continue) {
  Draw draw;
  const int T = 6, W = 2 + draw.below(4), cut = 1 + draw.below(T - 1);  // shorter than W - 1, too
  const Record whole = convolution(draw, T, 2, W);
  Record head = whole, tail = whole;
  for (const auto& [record, from, to] : {std::tuple(&head, 0, cut), {&tail, cut, T}}) {
    record->inputs["x"] = part_of(whole.inputs["x"], from, to);
    record->cotangents["o"] = part_of(whole.cotangents["o"], from, to);
  }
  tail.inputs["initial_state"] = answered(head)["outputs"]["final_state"];
  const Json second = answered(tail);
  head.cotangents["final_state"] = second["gradients"]["initial_state"];
  const Json first = answered(head), both = answered(whole);
  RC_ASSERT(agree(joined(first["outputs"]["o"], second["outputs"]["o"]), both["outputs"]["o"]));
  RC_ASSERT(agree(second["outputs"]["final_state"], both["outputs"]["final_state"]));
  RC_ASSERT(agree(first["gradients"]["initial_state"], both["gradients"]["initial_state"]));
  RC_ASSERT(agree(joined(first["gradients"]["x"], second["gradients"]["x"]), both["gradients"]["x"]));
  for (const char* name : {"weight", "bias"})
    RC_ASSERT(agree(summed(values(first["gradients"][name]), values(second["gradients"][name])),
                    values(both["gradients"][name])));
}

ASSAY_PROPERTY(arguments_components, the_last_tap_alone_is_the_identity) {
  Draw draw;
  const int D = 2, W = 1 + draw.below(4);
  Record record = convolution(draw, 5, D, W);
  record.params["activation"] = "none";
  record.inputs.erase("bias");
  if (W == 1) record.inputs.erase("initial_state"), record.cotangents.erase("final_state");
  record.inputs["weight"] = Json::array();
  for (int d = 0; d < D; ++d) {
    record.inputs["weight"].push_back(Json::array());
    for (int w = 0; w < W; ++w) record.inputs["weight"].back().push_back(w == W - 1 ? "1" : "0");
  }
  RC_ASSERT(values(answered(record)["outputs"]["o"]) == values(record.inputs["x"]));
}

ASSAY_PROPERTY(arguments_components, a_constant_gate_before_the_norm_cancels) {
  Draw draw;
  Record record{"gated_rmsnorm"};
  record.params = {{"eps", "0"}, {"norm_before_gate", false}, {"activation", "sigmoid"}, {"group_size", 2}};
  record.inputs = {{"x", draw.tensor({3, 4}, 0.25, 2)}, {"weight", draw.tensor({4})}};
  const std::string z = draw.decimal(-2, 2);
  record.inputs["z"] = mapped(record.inputs["x"], [&](const Mp100&) { return from_decimal<Mp100>(z); });
  record.cotangents["o"] = draw.tensor({3, 4});
  const Json before = answered(record);
  record.params["norm_before_gate"] = true;
  const Json after = answered(record);
  Values o = values(before["outputs"]["o"]);
  const Mp100 s = 1 / (1 + exp(-from_decimal<Mp100>(z)));
  for (Mp100& x : o) x *= s;
  RC_ASSERT(agree(o, values(after["outputs"]["o"])));
  const Values x = values(record.inputs["x"]), dx = values(before["gradients"]["x"]);  // a norm does not see lengths
  for (std::size_t g = 0; g < x.size(); g += 2)
    RC_ASSERT(abs(x[g] * dx[g] + x[g + 1] * dx[g + 1]) < from_decimal<Mp100>("1e-55"));
}

Record cast(Draw& draw, const std::string& format, int rows, int channels) {
  Record record{"quantize"};
  record.params = {{"format", format}};
  record.inputs = {{"x", draw.tensor({rows, channels}, -4, 4)}};
  return record;
}

ASSAY_PROPERTY(arguments_components, casting_twice_is_casting_once) {
  Draw draw;
  for (const char* format : {"mxfp8_e4m3", "mxfp8_e5m2"})
    for (const char* rounding : {"floor", "ceil", "even", "up"}) {
      Record once = cast(draw, format, 2, 64);
      once.params["scale_rounding"] = rounding;
      const Json first = answered(once)["outputs"];
      Record twice = once;
      twice.inputs["x"] = mapped(first["dequantized"], [](const Mp100& x) { return x; });
      RC_ASSERT(first["dequantized"] == answered(twice)["outputs"]["dequantized"]);
    }
}

ASSAY_PROPERTY(arguments_components, powers_of_two_pass_through_casts) {
  Draw draw;
  Record plain = cast(draw, "mxfp8_e4m3", 1, 32), moved = plain;
  moved.inputs["x"] = mapped(plain.inputs["x"], [](const Mp100& x) { return Mp100(x / 1024); });
  const Json a = answered(plain)["outputs"], b = answered(moved)["outputs"];
  RC_ASSERT(a["codes"] == b["codes"]);
  RC_ASSERT(values(a["scales"])[0] == 1024 * values(b["scales"])[0]);
}

ASSAY_PROPERTY(arguments_components, rounding_scales_up_leaves_half_the_range) {
  Draw draw;
  for (const auto& [format, largest] : {std::pair("fp8_e4m3", 448), {"fp8_e5m2", 57344}, {"mxfp8_e4m3", 448}}) {
    Record record = cast(draw, format, 1, 32);
    record.params["scale_rounding"] = "up";
    Mp100 amax = 0;
    for (const Mp100& x : values(record.inputs["x"])) amax = std::max<Mp100>(amax, abs(x));
    const Mp100 ratio = amax / values(answered(record)["outputs"]["scales"])[0];
    RC_ASSERT(Mp100(largest) / 2 < ratio && ratio <= largest);
  }
}

}  // namespace
}  // namespace assay::arguments
