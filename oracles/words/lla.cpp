#include "oracles/words/lla.hpp"

#include <algorithm>
#include <cmath>

#include "oracles/words/lla_block.hpp"
#include "oracles/words/magnitude.hpp"
#include "oracles/words/parallel.hpp"
#include "reference/core/error.hpp"

namespace assay::words {
namespace {

void check(const LlaProblem& x, const Effort& effort, const Escalation& escalation) {
  require(effort.words >= 2 && effort.words <= 4, "words: expected 2, 3 or 4, got ", effort.words);
  require(escalation.most_words <= 4, "most_words: expected at most 4, got ", escalation.most_words);
  require(supported(effort.isa), "isa: this machine has no ", name_of(effort.isa));
  require(x.keys <= std::size_t{1} << 20 && x.dim >= 1 && x.dim <= std::size_t{1} << 10 && x.values >= 1,
          "extents out of range: ", x.keys, " keys, K = ", x.dim, ", V = ", x.values);
  const auto span = [](const char* name, std::span<const double> a, bool length, double lowest) {
    require(length, name, ": has ", a.size(), " numbers, which fit no shape it may have");
    const auto bad =
        std::find_if_not(a.begin(), a.end(), [&](double e) { return e >= lowest && std::fabs(e) < 0x1p100; });
    require(bad == a.end(), name, ": element ", bad - a.begin(), " is out of range");
  };
  span("q", x.q, x.q.size() == x.queries * x.dim, -0x1p100);
  span("k", x.k, x.k.size() == x.keys * x.dim, -0x1p100);
  span("v", x.v, x.v.size() == x.keys * x.values, -0x1p100);
  const std::size_t n = x.lambda.size();
  span("lambda", x.lambda, n == 1 || n == x.queries || n == x.queries * x.dim, 0);
  require(std::fabs(x.inverse_bandwidth.word[0]) < 0x1p100, "inverse_bandwidth: out of range");
  require(x.window == 0 || x.causal, "window: only causal attention has one");
}

/// Computes the given queries in blocks; late blocks have the most keys and go first.
void run(const lla::Head& head, const std::vector<std::size_t>& queries, int words, const Effort& effort,
         LlaAnswer& answer) {
  const std::size_t blocks = (queries.size() + lla::block_queries - 1) / lla::block_queries;
  in_parallel(blocks, effort.threads, [&](std::size_t i) {
    const std::size_t first = (blocks - 1 - i) * lla::block_queries;
    const std::size_t count = std::min(lla::block_queries, queries.size() - first);
    lla::run_block(head, std::span(queries).subspan(first, count), words, kernels(effort.isa), answer.o);
  });
  for (const std::size_t i : queries) answer.words_used[i] = words;
  answer.o.settle();
}

bool good(const Certified& o, std::size_t row, double target) {
  double largest = 0;
  for (std::size_t c = 0; c < o.columns; ++c) largest = std::max(largest, std::fabs(o.word[0][row * o.columns + c]));
  return o.bound[row * o.columns] <= target * largest;
}

}  // namespace

LlaAnswer lla_forward(const LlaProblem& problem, const Effort& effort, const Escalation& escalation) {
  check(problem, effort, escalation);
  const lla::Head head(problem);
  const int most = std::max(effort.words, escalation.most_words);
  LlaAnswer answer{Certified(most, problem.queries, problem.values), std::vector<int>(problem.queries, 0)};
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < problem.queries; ++i)
    if (head.visible(i).first < head.visible(i).last) left.push_back(i);
  for (int words = effort.words; words <= most && !left.empty(); ++words) {
    run(head, left, words, effort, answer);
    std::erase_if(left, [&](std::size_t i) { return good(answer.o, i, escalation.target); });
  }
  return answer;
}

}  // namespace assay::words
