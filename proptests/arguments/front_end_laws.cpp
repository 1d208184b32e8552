// Identities of front ends, sequences and states in the tile programs themselves, to the bit.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/core/batch.hpp"
#include "proptests/arguments/tile_cases.hpp"

namespace assay::arguments {
namespace {

constexpr const char* mechanisms[] = {"deltanet", "gated_deltanet", "comba", "linear_attention",
                                      "retnet",   "mamba2",         "gla",   "kda"};
constexpr const char* gated[] = {"gated_deltanet", "comba", "mamba2", "gla", "kda"};
constexpr Shape shared_keys = {.batch = 1, .seq_len = 40, .heads = 4, .shared_heads = 2, .key_dim = 16, .value_dim = 8};

bool is_gated(const std::string& mechanism) {
  return std::find(std::begin(gated), std::end(gated), mechanism) != std::end(gated);
}
bool is_delta(const std::string& mechanism) {
  return mechanism == "deltanet" || mechanism == "gated_deltanet" || mechanism == "comba" || mechanism == "kda";
}

/// With every front end that the mechanism has.
Drawn whole(const std::string& mechanism) {
  Drawn drawn{.mechanism = mechanism, .form = "chunkwise", .shape = shared_keys};
  drawn.params = words_of({{"l2_norm", "root"}, {"l2_eps", "1e-6"}});
  if (is_gated(mechanism)) drawn.params["gate"] = std::string("softplus");
  if (is_delta(mechanism)) drawn.params["beta_gate"] = std::string("sigmoid");
  return drawn;
}

Policy in_bf16(const KernelForm& form) { return policy_of(form, Format::bf16); }
const KernelForm& form_of(std::string_view mechanism) {
  return tile::kernel_rooms::with_arguments(mechanism)->forms.front();
}
Answer answered(const Problem& problem, const std::string& mechanism) {
  const KernelForm& form = form_of(mechanism);
  return answer_of_sequences(form, problem, in_bf16(form), 0);
}

class FrontEndLaws : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Recurrences, FrontEndLaws, ::testing::ValuesIn(mechanisms),
                         [](const auto& instance) { return std::string(instance.param); });

/// Rows [first, last) of what has rows in `bthd`, of a batch of one; the state of that sequence.
Problem sequence_of(const Problem& packed, int n, int first, int last) {
  Problem own = packed;
  own.inputs.erase("cu_seqlens");
  const auto cut = [&](Array& x) {
    const std::size_t each = x.data.size() / static_cast<std::size_t>(x.shape[1]);
    x.data = {x.data.begin() + static_cast<std::ptrdiff_t>(each) * first,
              x.data.begin() + static_cast<std::ptrdiff_t>(each) * last};
    x.shape[1] = last - first;
  };
  const auto state = [&](Array& x) {
    const std::size_t each = x.data.size() / static_cast<std::size_t>(x.shape[0]);
    x.data = {x.data.begin() + static_cast<std::ptrdiff_t>(each) * n,
              x.data.begin() + static_cast<std::ptrdiff_t>(each) * (n + 1)};
    x.shape[0] = 1;
  };
  for (auto* arrays : {&own.inputs, &own.cotangents})
    for (auto& [name, array] : *arrays) {
      if (name.ends_with("_state"))
        state(array);
      else if (array.shape.size() > 2)
        cut(array);
    }
  return own;
}

TEST_P(FrontEndLaws, PackedSequencesAreSeparateCalls) {
  Drawn drawn = whole(GetParam());
  drawn.with = {{"cu_seqlens", "0,0,1,18,18,40"}};
  const Problem packed = drawn.problem().problem;
  const Answer all = answered(packed, GetParam());
  const int bounds[] = {0, 0, 1, 18, 18, 40};
  const Array &o = all.outputs.at("o"), &states = all.outputs.at("final_state");
  for (int n = 0; n < 5; ++n) {
    const int first = bounds[n], rows = bounds[n + 1] - first;
    const std::size_t each = states.data.size() / 5;
    const auto own_state = states.data.begin() + static_cast<std::ptrdiff_t>(each) * n;
    if (rows == 0) {  // no rows: what came in
      const std::vector<double>& in = packed.inputs.at("initial_state").data;
      EXPECT_TRUE(std::equal(own_state, own_state + static_cast<std::ptrdiff_t>(each),
                             in.begin() + static_cast<std::ptrdiff_t>(each) * n));
      continue;
    }
    const Answer one = answered(sequence_of(packed, n, first, first + rows), GetParam());
    EXPECT_TRUE(std::equal(own_state, own_state + static_cast<std::ptrdiff_t>(each),
                           one.outputs.at("final_state").data.begin()))
        << n;
    const Array& part = one.outputs.at("o");
    for (int h = 0; h < 4; ++h)
      EXPECT_TRUE(std::equal(part.data.begin() + h * rows * 8, part.data.begin() + (h + 1) * rows * 8,
                             o.data.begin() + (h * 40 + first) * 8))
          << n;
  }
}

/// Numbers that gates and norms map to numbers that every format has.
TEST_P(FrontEndLaws, AFrontEndAndARecurrenceAreTheRecurrenceOfItsNumbers) {
  const std::string mechanism = GetParam();
  Problem with = whole(mechanism).problem().problem;
  with.params["l2_eps"] = std::string("0");
  Problem plain = with;
  for (const char* name : {"l2_norm", "l2_eps", "gate", "beta_gate"}) plain.params.erase(name);
  for (const char* name : {"q", "k", "p"}) {
    if (!with.inputs.contains(name)) continue;
    Array &raw = with.inputs.at(name), &unit = plain.inputs.at(name);
    for (std::size_t i = 0; i < raw.data.size(); ++i) {
      const std::size_t row = i / 16;
      const bool on = i % 16 == row % 7;
      raw.data[i] = on ? std::ldexp(row % 3 == 0 ? -1.0 : 1.0, static_cast<int>(row % 5) - 2) : 0;
      unit.data[i] = on ? (row % 3 == 0 ? -1 : 1) : 0;
    }
  }
  if (is_delta(mechanism)) {
    Array& b = with.inputs.at("b");
    b.data.assign(b.data.size(), 0);
    Array beta = b;
    beta.data.assign(beta.data.size(), 0.5);
    plain.inputs.erase("b"), plain.inputs["beta"] = beta;
  }
  if (is_gated(mechanism)) {
    with.params["gate"] = std::string("logsigmoid"), with.params["gate_min"] = std::string("-0.125");
    with.inputs.erase("a_log"), with.inputs.erase("dt_bias");
    Array& a = with.inputs.at("a");
    a.data.assign(a.data.size(), -100);
    Array log_decay = a;
    log_decay.data.assign(a.data.size(), -0.125);
    for (const char* name : {"a", "a_log", "dt_bias"}) plain.inputs.erase(name);
    plain.inputs["log_decay"] = log_decay;
  }
  plain.inputs["cu_seqlens"] = Array({2}, {0.0, 40.0});  // still a case with arguments
  const Answer a = answered(with, mechanism), b = answered(plain, mechanism);
  EXPECT_EQ(a.outputs.at("o").data, b.outputs.at("o").data);
  EXPECT_EQ(a.outputs.at("final_state").data, b.outputs.at("final_state").data);
  EXPECT_EQ(a.gradients.at("v").data, b.gradients.at("v").data);
  EXPECT_EQ(a.gradients.at("initial_state").data, b.gradients.at("initial_state").data);
}

TEST_P(FrontEndLaws, KindsOfNormsAgreeWithoutEps) {
  Problem root = whole(GetParam()).problem().problem;
  root.params["l2_eps"] = std::string("0");
  Problem sum = root, max = root;
  sum.params["l2_norm"] = std::string("sum"), max.params["l2_norm"] = std::string("max");
  const Answer a = answered(root, GetParam());
  EXPECT_EQ(differences(a, answered(sum, GetParam())), "");
  EXPECT_EQ(differences(a, answered(max, GetParam())), "");
}

TEST_P(FrontEndLaws, HeadsThatShareAKeyAreHeadsWithTheirOwn) {
  const Problem shared = whole(GetParam()).problem().problem;
  Problem own = shared;
  for (const char* name : {"q", "k", "p"}) {
    if (!own.inputs.contains(name)) continue;
    Array &x = own.inputs.at(name), from = x;  // [1, T, 2, K]
    x = Array({1, 40, 4, 16});
    for (std::size_t t = 0; t < 40; ++t)
      for (std::size_t h = 0; h < 4; ++h)
        for (std::size_t d = 0; d < 16; ++d) x.data[(t * 4 + h) * 16 + d] = from.data[(t * 2 + h / 2) * 16 + d];
  }
  const Answer a = answered(shared, GetParam()), b = answered(own, GetParam());
  EXPECT_EQ(a.outputs.at("o").data, b.outputs.at("o").data);
  EXPECT_EQ(a.gradients.at("v").data, b.gradients.at("v").data);
}

class GateLaws : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Recurrences, GateLaws, ::testing::ValuesIn(gated),
                         [](const auto& instance) { return std::string(instance.param); });

/// The softplus's error above a threshold of 20 is less than fp32 resolves.
TEST_P(GateLaws, ASoftplusThresholdOf20ChangesNoBit) {
  Drawn drawn = whole(GetParam());
  drawn.style = "saturated_gates";
  const Problem without = drawn.problem().problem;
  Problem with = without;
  with.params["softplus_threshold"] = std::string("20");
  EXPECT_EQ(differences(answered(with, GetParam()), answered(without, GetParam())), "");
  with.params["softplus_threshold"] = std::string("1");
  EXPECT_NE(differences(answered(with, GetParam()), answered(without, GetParam())), "");
}

/// Steps that are a power of two.
TEST(StepLaws, StepsAreDecaysAndValuesTimesThem) {
  Drawn drawn = whole("mamba2");
  drawn.params.erase("gate"), drawn.params["scale"] = std::string("1");
  drawn.with = {{"dt", "0.5"}, {"rate", "-1"}};
  Problem steps = drawn.problem().problem;
  steps.params["dt_softplus"] = false;
  Problem plain = steps;
  plain.params.erase("dt_softplus");
  for (const char* name : {"dt", "rate"}) plain.inputs.erase(name);
  Array log_decay = steps.inputs.at("dt");
  for (double& x : log_decay.data) x = -0.5;
  plain.inputs["log_decay"] = log_decay;
  for (double& x : plain.inputs.at("v").data) x *= 0.5;
  const Answer a = answered(steps, "mamba2"), b = answered(plain, "mamba2");
  EXPECT_EQ(differences({a.outputs, {{"q", a.gradients.at("q")}}}, b), "");
}

}  // namespace
}  // namespace assay::arguments
