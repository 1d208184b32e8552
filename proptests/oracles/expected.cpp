// Expectations of the real kernels: healthy ones are near sigma, and the oracle's bound holds against 50 digits.
#include "oracles/core/expected.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "oracles/core/judge.hpp"

namespace assay {
namespace {

Problem small_problem(const Room& room, const KernelForm& form, Format precision, Style style) {
  CaseSpec spec{.mechanism = std::string(room.name),
                .shape = {.seq_len = 80, .heads = 2, .shared_heads = 1, .key_dim = 16, .value_dim = 16},
                .precision = precision,
                .style = style,
                .seed = 11,
                .params = {}};
  if (!groups_heads(room.inputs())) spec.shape.shared_heads = 0;
  if (form.iterative) spec.shape.key_dim = spec.shape.value_dim = 8;
  Problem problem = room.make(spec);
  if (!form.obstacle(problem).empty()) {
    spec.shape.query_len = 3;
    problem = room.make(spec);
  }
  if (!form.has_gradients) problem.cotangents.clear();
  return problem;
}

TEST(Expected, healthy_kernels_are_near_sigma) {
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm& form : kernels->forms)
      for (const Format precision : {Format::fp32, Format::bf16, Format::fp16, Format::tf32}) {
        if (!form.unstable.empty()) continue;
        const Room* room = find_room(kernels->name);
        const Problem problem = small_problem(*room, form, precision, Style::normal);
        const Expectation expectation =
            expect(oracle_of(*room, problem), {&form, precision, 0, 1}, problem, default_draws(precision));
        EXPECT_FALSE(expectation.tensors.empty());
        for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
          const auto& [name, expected] = expectation.tensors[t];
          const Judgement j = judge(expected, expectation.emulated[t].second);
          // A number that stands alone can take more draws than these.
          if (expected.value.size() == 1 && j.verdict == Verdict::vacuous) continue;
          EXPECT_EQ(j.verdict, Verdict::pass)
              << room->name << ' ' << form.name << ' ' << name_of(precision) << ' ' << name << ' ' << j.reason;
          if (std::ranges::all_of(expected.sigma, [](double sigma) { return sigma == 0; })) {  // copies of what came in
            EXPECT_EQ(j.max_error, 0) << room->name << ' ' << form.name << ' ' << name;
            continue;
          }
          if (expected.value.size() < 100) continue;  // few elements are near sigma only on average
          // The more a tensor's elements err together, the further the judge lets their mean be from 1, and the less it
          // says: the gradients of a decay, or all that reads retnet's one decay.
          EXPECT_GT(j.rms_z, std::min(0.7, 1 / j.rms_limit))
              << room->name << ' ' << form.name << ' ' << name_of(precision) << ' ' << name;
          EXPECT_LT(j.rms_z, std::max(1.3, j.rms_limit))
              << room->name << ' ' << form.name << ' ' << name_of(precision) << ' ' << name;
        }
      }
}

/// One division, whose residual is so small that no draw moves it: the nearest double is right, its neighbour is not.
TEST(Expected, the_nearest_double_is_right) {
  const Room& room = *find_room("value_averaging");
  const KernelForm& form = find_kernels(kernel_rooms(), "value_averaging")->forms.front();
  const Problem problem = room.make({"value_averaging", {1, 32, 4, 0, 2, 16, 0}, Format::fp64, Style::integers, 0, {}});
  const Expectation expectation =
      expect(oracle_of(room, problem, 4), {&form, Format::fp64, 0, 1}, problem, default_draws(Format::fp64));
  for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
    const auto& [name, expected] = expectation.tensors[t];
    std::vector<double> got = expectation.emulated[t].second;
    EXPECT_EQ(judge(expected, got).verdict, Verdict::pass) << name << ' ' << judge(expected, got).reason;
    bool between = false;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double lo = std::fabs(expected.value[i].lo),
                   spacing = std::nextafter(std::fabs(got[i]), 1e300) - std::fabs(got[i]);
      if (lo == 0 || expected.sigma[i] > lo || expected.reach[i] * lo > 0.5 * spacing)
        continue;  // others may well be an ulp away
      between = true;
      got[i] = std::nextafter(got[i], 1e300);
      break;
    }
    EXPECT_EQ(judge(expected, got).verdict, between ? Verdict::fail : Verdict::pass) << name;
  }
}

/// 50 digits say how far the words really are.
TEST(Expected, bounds_hold_against_fifty_digits) {
  double tightest = 0;
  for (const KernelRoom* kernels : kernel_rooms())
    for (const Style style : {Style::normal, Style::nearly_parallel_keys, Style::gate_ends, Style::subnormals}) {
      const Room* room = find_room(kernels->name);
      const KernelForm& form = kernels->forms.front();
      const Problem problem = small_problem(*room, form, Format::bf16, style);
      const BasicAnswer<HiLo> exact = room->values(problem, Tier::mp50);
      for (const auto& [name, tensor] : oracle_of(*room, problem).tensors) {
        const BasicArray<HiLo>& truth =
            name.starts_with("d_") ? exact.gradients.at(name.substr(2)) : exact.outputs.at(name);
        for (std::size_t i = 0; i < truth.data.size(); ++i) {
          const double off = (tensor.value[i].hi - truth.data[i].hi) + (tensor.value[i].lo - truth.data[i].lo);
          EXPECT_LE(std::fabs(off), tensor.bound[i]) << room->name << ' ' << name << place(tensor.shape, i);
          if (off != 0) tightest = std::max(tightest, std::fabs(off) / tensor.bound[i]);
        }
      }
    }
  EXPECT_GT(tightest, 0);  // w2 differs somewhere, or this compares a thing with itself
}

TEST(Expected, refuses_a_kernel_of_another_shape) {
  const KernelRoom& kernels = *kernel_rooms()[0];
  const Room& room = *find_room(kernels.name);
  const KernelForm& form = kernels.forms.front();
  const Problem problem = small_problem(room, form, Format::bf16, Style::normal);
  Oracle oracle = oracle_of(room, problem);
  oracle.tensors[0].second.shape.back() += 1;
  EXPECT_THROW(expect(oracle, {&form, Format::bf16, 0, 1}, problem, default_draws(Format::bf16)), InputError);
  oracle.tensors.clear();
  EXPECT_THROW(expect(oracle, {&form, Format::bf16, 0, 1}, problem, default_draws(Format::bf16)), InputError);
}

}  // namespace
}  // namespace assay
