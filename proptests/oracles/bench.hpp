#pragma once
// A kernel's answer to one case, judged, and what is said of it.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "judge/held_out/call.hpp"
#include "judge/hypotheses/hypotheses.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/trial/fault_trials.hpp"
#include "kernels/core/kernel_room.hpp"

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

struct Told {
  bool fails = false;
  Causes causes;
  std::optional<FirstWrong> first;

  std::string text() const {
    std::string all;
    for (const LooksLike& cause : causes.list) all += cause.sentence(false) + "; ";
    return all;
  }
};

inline Told told_of(const Bench& bench, const Answer& answer) {
  const Named<std::vector<double>> got = in_report_order(answer, bench.expectation);
  std::vector<Suspect> suspects;
  Told told;
  for (std::size_t t = 0; t < got.size(); ++t) {
    const Expected& e = bench.expectation.tensors[t].second;
    const bool fails = judge(e, got[t].second).verdict == Verdict::fail;
    suspects.push_back({got[t].first, e.shape, &e, &got[t].second, fails});
    told.fails = told.fails || fails;
  }
  told.causes = causes_of(bench.room, bench.problem, bench.spec.shape.batch, suspects);
  told.first = first_wrong(bench.room, bench.spec.shape.batch, suspects);
  return told;
}

}  // namespace assay
