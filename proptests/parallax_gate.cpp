// Gated Parallax: Parallax with the probe formed by hand (lla-family.md section 2).
#include <gtest/gtest.h>

#include <string>

#include "proptests/core/bad_inputs.hpp"
#include "proptests/laws/lla_laws.hpp"
#include "proptests/laws/reference_laws.hpp"

namespace assay::laws {
namespace {

/// gate = 1 / (1 + exp(-w_g.x)), rho = gate W_r x, and from there parallax: outputs, and gradients of all it reads.
std::string is_parallax_along_the_gated_probe(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p);
  ExactProblem parallax = of_output_alone(p);
  for (const char* name : {"x", "w_r", "w_g"}) parallax.inputs.erase(name);
  ExactArray rho = p.inputs.at("q"), gate({H, rho.shape[1]});
  for (int head = 0; head < H; ++head) {
    const ExactMatrix x = head_of(p.inputs.at("x"), H, head), w_r = head_of(p.inputs.at("w_r"), H, head),
                      w_g = head_of(p.inputs.at("w_g"), H, head);
    ExactMatrix probe(x.size(0), w_r.size(0)), gates(x.size(0), 1);
    for (int i = 0; i < x.size(0); ++i) {
      Mp100 z = 0;
      for (int a = 0; a < x.size(1); ++a) z += w_g(a, 0) * x(i, a);
      gates(i, 0) = 1 / (1 + exp(-z));
      for (int b = 0; b < w_r.size(0); ++b)
        for (int a = 0; a < x.size(1); ++a) probe(i, b) += gates(i, 0) * w_r(b, a) * x(i, a);
    }
    set_head(rho, head, probe), set_head(gate, head, gates);
  }
  parallax.inputs["rho"] = rho;
  if (std::string s = near("rho", got.outputs.at("rho"), rho); !s.empty()) return s;
  if (std::string s = near("gate", got.outputs.at("gate"), gate); !s.empty()) return s;
  ExactAnswer want = answer("parallax", parallax);
  // The probe is an output as well, with a cotangent of its own.
  want.gradients.at("rho") = sum(want.gradients.at("rho"), p.cotangents.at("rho"));
  return same_rows(got, want, {"q", "k", "v", "bandwidth", "rho"});
}

/// W_r = 0 is softmax attention.
std::string no_weights_are_softmax_attention(const Room& room, const Problem& given) {
  ExactProblem p = of_output_alone(exact(given));
  for (Mp100& x : p.inputs.at("w_r").data) x = 0;
  ExactProblem softmax = p;
  for (const char* name : {"x", "w_r", "w_g"}) softmax.inputs.erase(name);
  return same_rows(answer(room, p), answer("softmax_attention", softmax), {"q", "k", "v", "bandwidth"});
}

/// The probe is linear in x and W_r behind the gate: W_r.dW_r = rho.drho.
std::string weights_scale_the_probe(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const ExactAnswer got = answer(room, p);
  Mp100 of_weights = 0, of_probe = 0;
  for (const Mp100& x : product(p.inputs.at("w_r"), got.gradients.at("w_r")).data) of_weights += x;
  for (const Mp100& x : product(got.outputs.at("rho"), got.gradients.at("rho")).data) of_probe += x;
  return near("W_r.dW_r", {{}, {of_weights}}, {{}, {of_probe}});
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(parallax_gate, is_parallax_along_the_gated_probe)
ASSAY_REFERENCE_OBEYS(parallax_gate, no_weights_are_softmax_attention)
ASSAY_REFERENCE_OBEYS(parallax_gate, weights_scale_the_probe)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(parallax_gate, is_parallax_along_the_gated_probe, backward_is_the_adjoint)

namespace assay {
namespace {

using bad_inputs::changed, bad_inputs::refusal, bad_inputs::result_of;

/// Two tokens, K = 2, V = 1, D = 3.
Json good_case() {
  return Json::parse(R"({"id": "a", "mechanism": "parallax_gate", "params": {"bandwidth": "2"}, "inputs": {
    "q": [["1", "2"], ["0.5", "1"]], "k": [["1", "0"], ["0", "1"]], "v": [["1"], ["2"]],
    "x": [["1", "2", "3"], ["4", "5", "6"]], "w_r": [["1", "0", "1"], ["0", "1", "1"]], "w_g": ["1", "-1", "0.5"]},
    "cotangents": {"o": [["1"], ["1"]]}})");
}

TEST(parallax_gate_bad_inputs, the_table) {
  ASSERT_EQ(result_of(good_case()).status, Status::ok) << result_of(good_case()).message;
  const struct {
    const char* place;
    Json value;
    Status status;
    int row;
    const char* message;
  } table[] = {
      {"/params/bandwidth", "0", Status::domain, -1, "bandwidth: expected a finite number > 0"},
      {"/params/window", 0, Status::domain, -1, "window: expected at least 1, got 0"},
      {"/inputs/rho", Json::parse(R"([["1", "2"], ["0", "1"]])"), Status::domain, -1,
       "inputs.rho: unknown to parallax_gate"},
      {"/inputs/x", nullptr, Status::domain, -1, "x: missing"},
      {"/inputs/w_g", Json::array({"1", "2"}), Status::domain, -1, "w_g: expected D = 3, got 2"},
      {"/inputs/x/1/2", "nan", Status::nonfinite, 1, "x[1][2]: not a finite number"},
      {"/inputs/w_r/1/2", "inf", Status::nonfinite, -1, "w_r[1][2]: not a finite number"},
      {"/inputs/w_g/2", "-inf", Status::nonfinite, -1, "w_g[2]: not a finite number"},
      {"/cotangents/gate", Json::array({"1", "nan"}), Status::nonfinite, 1, "cotangents.gate[1]: not a finite number"},
  };
  for (const auto& row : table)
    EXPECT_EQ(refusal(changed(good_case(), row.place, row.value), row.status, row.row, row.message), "") << row.place;
}

/// A closed or open gate is closed or open in double too: no overflow of exp on either side.
TEST(parallax_gate_extremes, gates_at_their_ends) {
  const Json record = changed(good_case(), "/inputs/w_g", Json::parse(R"(["2000", "0", "-1500"])"));
  const CaseResult r = result_of(record, {.digits = 10, .tier = Tier::fp64});
  ASSERT_EQ(r.status, Status::ok) << r.message;
  EXPECT_EQ(r.answer.outputs.at("gate").data[0].text, "0.0");
  const CaseResult open = result_of(changed(record, "/inputs/w_g/0", "8000"), {.digits = 10, .tier = Tier::fp64});
  ASSERT_EQ(open.status, Status::ok) << open.message;
  EXPECT_EQ(std::stod(open.answer.outputs.at("gate").data[0].text), 1);
  for (const Cell& x : open.answer.gradients.at("w_g").data) EXPECT_EQ(std::stod(x.text), 0);
}

}  // namespace
}  // namespace assay
