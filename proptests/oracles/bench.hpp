#pragma once
// A kernel's answer to one case, judged, and what is said of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "judge/held_out/call.hpp"
#include "judge/hypotheses/hypotheses.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/trial/fault_trials.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/index.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

/// A healthy form on one case, with what is expected of it.
struct Bench {
  const Room& room;
  const KernelForm& form;
  CaseSpec spec;
  Problem problem;
  Policy policy;
  int tile;
  Expectation expectation;

  held_out::Call call() const { return {room, form, problem, policy, tile}; }
};

inline Bench bench_of(const Room& room, const KernelForm& form, const CaseSpec& spec) {
  Problem problem = room.make(spec);
  const KernelUnderTest kernel{&form, spec.precision, smallest_tile(form), 1};
  Expectation expectation = expect(oracle_of(room, problem), kernel, problem, default_draws);
  return {room, form, spec, std::move(problem), kernel.policy(), kernel.tile, std::move(expectation)};
}

inline CaseSpec spec_of(const Room& room, const KernelForm& form, const Params& params = {},
                        Style style = Style::normal) {
  CaseSpec spec{std::string(room.name), {1, fault_length, 4, 2, 16, 12, 0}, Format::bf16, style, fault_seed, params};
  if (form.iterative) spec.shape.key_dim = 8, spec.shape.value_dim = 6;
  if (!groups_heads(room.inputs())) spec.shape.shared_heads = 0;
  if (form.name == "split_decode") spec.shape.query_len = 3;
  return spec;
}

/// The usual case of a room's first form, or that with these parameters, made once.
inline const Bench& bench_for(std::string_view name, const Params* asked = nullptr) {
  static std::map<std::string, Bench> benches;
  const Params params = asked != nullptr ? *asked : Params();
  const std::string key = std::string(name) + flags_of(params);
  auto at = benches.find(key);
  if (at == benches.end()) {
    const Room& room = listed_room(name);
    const KernelForm& form = find_kernels(kernel_rooms(), name)->forms.front();
    at = benches.emplace(key, bench_of(room, form, spec_of(room, form, params))).first;
  }
  return at->second;
}

/// Number c of row t of head h of an array [heads, tokens, channels] or [heads, tokens].
inline double number_at(const Array& a, int h, int t, int c = 0) { return a.data[laws::index(a, h, t, c)]; }
inline double& number_at(Array& a, int h, int t, int c = 0) { return a.data[laws::index(a, h, t, c)]; }
/// Row i of head g of one times row j of head h of another.
inline double dot(const Array& a, int g, int i, const Array& b, int h, int j) {
  double sum = 0;
  for (int c = 0; c < a.shape[2]; ++c) sum += number_at(a, g, i, c) * number_at(b, h, j, c);
  return sum;
}

inline double param_of(const Problem& problem, const char* name) {
  return std::stod(std::get<std::string>(problem.params.at(name)));
}

/// What is expected of a tensor that a correct kernel has to `sigma`.
inline Expected known_to(const Array& truth, const std::vector<double>& sigma) {
  Expected e;
  e.shape = truth.shape, e.sigma = sigma;
  for (const double x : truth.data) e.value.push_back({x, 0});
  e.bound.assign(sigma.size(), 0), e.reach.assign(sigma.size(), element_sigmas);
  return e;
}

inline std::string sentences(const Causes& causes) {
  std::string all;
  for (const LooksLike& cause : causes.list) all += cause.sentence(false) + "; ";
  return all;
}

struct Told {
  bool fails = false;
  Causes causes;
  std::optional<FirstWrong> first;

  std::string text() const { return sentences(causes); }
};

inline void expect_said(const std::string& said, const std::string& named) {
  EXPECT_NE(said.find(named), std::string::npos) << named << "; said: " << said;
}

/// `got`, in the order of a report, with the verdict on each tensor.
inline std::vector<Suspect> suspects_of(const Bench& bench, const Named<std::vector<double>>& got) {
  std::vector<Suspect> suspects;
  for (std::size_t t = 0; t < got.size(); ++t) {
    const Expected& e = bench.expectation.tensors[t].second;
    suspects.push_back({got[t].first, e.shape, &e, &got[t].second, judge(e, got[t].second).verdict == Verdict::fail});
  }
  return suspects;
}

inline Told told_of(const Bench& bench, const Answer& answer) {
  const Named<std::vector<double>> got = in_report_order(answer, bench.expectation);
  const std::vector<Suspect> suspects = suspects_of(bench, got);
  Told told;
  told.fails = std::ranges::any_of(suspects, &Suspect::fails);
  told.causes = causes_of(bench.room, bench.problem, bench.spec.shape.batch, suspects);
  told.first = first_wrong(bench.room, bench.spec.shape.batch, suspects);
  return told;
}
/// Expects these words among what is said of an answer.
inline void expect_named(const Bench& bench, const Answer& answer, const std::string& named) {
  expect_said(told_of(bench, answer).text(), named);
}

}  // namespace assay
