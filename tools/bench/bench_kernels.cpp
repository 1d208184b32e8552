#include "tools/bench/bench_kernels.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "judge/sigma/expected.hpp"
#include "reference/core/error.hpp"
#include "reference/core/inputs.hpp"
#include "tools/bench/bench_engines.hpp"

namespace assay {
namespace {

constexpr int heads = 2, few_queries = 4;

/// Processor time of the quickest of three calls, or of as many as make a twentieth of a second.
template <class F>
double timed(F&& f) {
  constexpr double enough = 0.05;
  double best = std::numeric_limits<double>::infinity(), passed = 0;
  for (int calls = 0; calls < 3 || passed < enough; ++calls) {
    const double start = words::processor_time();
    f();
    const double once = words::processor_time() - start;
    best = std::min(best, once), passed += once;
  }
  return best;
}

/// A problem that the form can run, with all queries or a few; nothing if there is none.
std::optional<Problem> problem_of(const Room& room, const KernelForm& form, CaseSpec& spec) {
  for (const int queries : {0, std::min(few_queries, spec.shape.seq_len)}) {
    spec.shape.query_len = queries;
    try {
      Problem problem = room.make(spec);
      if (!form.obstacle(problem).empty()) continue;
      if (!form.has_gradients) problem.cotangents.clear();
      return problem;
    } catch (const InputError&) {  // a room with one query per key
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<KernelCost> bench_kernel(const Room& room, const KernelForm& form, const std::vector<Format>& precisions,
                                     int tokens, int dim) {
  CaseSpec spec;
  spec.mechanism = room.name, spec.params = room.variants().front();
  spec.shape = {1, tokens, heads, groups_heads(room.inputs()) ? 1 : 0, dim, dim, 0};
  const std::optional<Problem> problem = problem_of(room, form, spec);
  if (!problem) return {};
  const auto seconds_of = [&](Policy policy, const Problem& p) {
    policy.threads = 1;
    return timed([&] { form.run(p, policy, 0); });
  };
  const double exact = seconds_of(Policy::exact(form.sites), *problem);
  const double oracle = timed([&] { oracle_of(room, *problem); });
  std::vector<KernelCost> rows;
  for (const Format precision : precisions) {
    spec.precision = precision;
    Problem rounded = room.make(spec);
    if (!form.has_gradients) rounded.cotangents.clear();
    const double seconds = seconds_of(Policy::of(form.sites, precision), rounded);
    rows.push_back({std::string(room.name), std::string(form.name), name_of(precision), text_of(spec.shape),
                    seconds / (heads * spec.shape.queries()), seconds / exact, seconds / oracle});
  }
  return rows;
}

}  // namespace assay
