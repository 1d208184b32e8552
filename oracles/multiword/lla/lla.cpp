#include "oracles/multiword/lla/lla.hpp"

#include <algorithm>
#include <cmath>

#include "oracles/multiword/lla/lla_block.hpp"
#include "oracles/multiword/lla/lla_gradients.hpp"
#include "oracles/multiword/magnitude.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"

namespace assay::words {
namespace {

void check_span(const char* name, std::span<const double> a, bool length, double lowest) {
  require(length, name, ": has ", a.size(), " numbers, which fit no shape it may have");
  const auto bad =
      std::find_if_not(a.begin(), a.end(), [&](double e) { return e >= lowest && std::fabs(e) < 0x1p100; });
  require(bad == a.end(), name, ": element ", bad - a.begin(), " is out of range");
}

void check(const LlaProblem& x, const Effort& effort, const Escalation& escalation) {
  require(effort.words >= 2 && effort.words <= 4, "words: expected 2, 3 or 4, got ", effort.words);
  require(escalation.most_words <= 4, "most_words: expected at most 4, got ", escalation.most_words);
  require(supported(effort.isa), "isa: this machine has no ", name_of(effort.isa));
  require(x.keys <= std::size_t{1} << 20 && x.dim >= 1 && x.dim <= std::size_t{1} << 10 && x.values >= 1,
          "extents out of range: ", x.keys, " keys, K = ", x.dim, ", V = ", x.values);
  check_span("q", x.q, x.q.size() == x.queries * x.dim, -0x1p100);
  check_span("k", x.k, x.k.size() == x.keys * x.dim, -0x1p100);
  check_span("v", x.v, x.v.size() == x.keys * x.values, -0x1p100);
  const std::size_t n = x.lambda.size();
  const bool solved = x.slope == Slope::solved;
  require(solved || x.mode == RidgeMode::mass, "mode: only a ridge has one");
  check_span("lambda", x.lambda, solved ? n == 1 || n == x.queries || n == x.queries * x.dim : n == 0, 0);
  const std::size_t probes = x.slope == Slope::given ? x.queries * x.dim : 0;
  if (const Certified* rho = x.probe_in_words) {
    check_span("probe", rho->word[0], rho->bound.size() == probes, -0x1p100);
    check_span("the bound of probe", rho->bound, rho->bound.size() == probes, 0);
  } else {
    check_span("probe", x.probe, x.probe.size() == probes, -0x1p100);
  }
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
    lla::Block block(head, std::span(queries).subspan(first, count), words, kernels(effort.isa));
    block.solve();
    block.output(answer.o);
  });
  for (const std::size_t i : queries) answer.words_used[i] = words;
  answer.o.settle();
}

/// Queries that see keys.
std::vector<std::size_t> seeing(const lla::Head& head) {
  std::vector<std::size_t> queries;
  for (std::size_t i = 0; i < head.problem.queries; ++i)
    if (head.visible(i).first < head.visible(i).last) queries.push_back(i);
  return queries;
}

/// One round of blocks, as in run(). Keys get their parts from blocks in the blocks' order.
std::vector<char> run_gradients(const lla::Head& head, const lla::Cotangent& cotangent,
                                const std::vector<std::size_t>& queries, int words, const Effort& effort,
                                const Escalation& escalation, lla::RowResults& results, lla::KeySums& sums) {
  const std::size_t blocks = (queries.size() + lla::block_queries - 1) / lla::block_queries;
  const std::size_t stage = std::max<std::size_t>(64, lla::rounded_up(head.key_rows / 64, 16));
  const std::size_t stages = (head.key_rows + stage - 1) / stage;
  std::vector<char> counts(queries.size(), 0);
  Turns turns(stages);
  in_parallel(blocks, effort.threads, [&](std::size_t i) {
    try {
      const std::size_t first = (blocks - 1 - i) * lla::block_queries;
      const std::size_t count = std::min(lla::block_queries, queries.size() - first);
      lla::GradientBlock block(head, cotangent, std::span(queries).subspan(first, count), words, kernels(effort.isa));
      const std::vector<char> of_block = block.run(escalation, results);
      std::copy(of_block.begin(), of_block.end(), counts.begin() + static_cast<std::ptrdiff_t>(first));
      for (std::size_t s = 0; s < stages; ++s)
        turns.in_turn(s, i, [&] { block.commit({s * stage, std::min(head.key_rows, (s + 1) * stage)}, sums); });
    } catch (...) {
      turns.abandon();
      throw;
    }
  });
  sums.settle(words);
  return counts;
}

/// factor * the sum of all entries.
Certified total(const Certified& x, const Factor& factor) {
  Certified sum(x.words, 1, 1);
  lla::with_words(x.words, [&](auto w) {
    constexpr int W = decltype(w)::value;
    auto all = portable::words<double, W>(0);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < x.bound.size(); ++i) {
      portable::Words<double, W> term;
      for (int n = 0; n < W; ++n) term.w[n] = x.word[n][i];
      all = all + term;
      error += x.bound[i], size += 1.01 * portable::size_of(term);
    }
    const Constants& c = constants(W);
    const double of_factor = std::fabs(factor.word[0]) * (1 + 0x1p-40);
    error += 1.01 * c.add * static_cast<double>(x.bound.size()) * size;
    sum.bound[0] = (of_factor * (error + 1.01 * (c.multiply + factor.error_of(W)) * size) + underflow) * safety;
    const auto product = all * lla::words_of<W>(factor.word.data());
    for (int n = 0; n < W; ++n) sum.word[n][0] = product.w[n];
  });
  sum.settle();
  return sum;
}

Factor minus(Factor x) {
  for (double& w : x.word) w = -w;
  return x;
}

}  // namespace

LlaAnswer lla_forward(const LlaProblem& problem, const Effort& effort, const Escalation& escalation) {
  check(problem, effort, escalation);
  const lla::Head head(problem);
  const int most = std::max(effort.words, escalation.most_words);
  LlaAnswer answer{Certified(most, problem.queries, problem.values), std::vector<int>(problem.queries, 0)};
  std::vector<std::size_t> left = seeing(head);
  for (int words = effort.words; words <= most && !left.empty(); ++words) {
    run(head, left, words, effort, answer);
    std::erase_if(left, [&](std::size_t i) { return answer.o.meets(i, escalation.target); });
  }
  return answer;
}

LlaGradients lla_backward(const LlaProblem& problem, std::span<const double> g, const Effort& effort,
                          const Escalation& escalation) {
  check(problem, effort, escalation);
  check_span("g", g, g.size() == problem.queries * problem.values, -0x1p100);
  const lla::Head head(problem);
  const lla::Cotangent cotangent(head, g);
  const int most = std::max(effort.words, escalation.most_words);
  lla::RowResults rows(problem, most);
  lla::KeySums sums(head, most);
  std::vector<int> words_used(problem.queries, 0);
  std::vector<std::size_t> left = seeing(head);
  for (int words = effort.words; words <= most && !left.empty(); ++words) {
    const std::vector<char> counts =
        run_gradients(head, cotangent, left, words, effort, {escalation.target, most}, rows, sums);
    std::vector<std::size_t> again;
    for (std::size_t n = 0; n < left.size(); ++n) {
      words_used[left[n]] = words;
      if (!counts[n]) again.push_back(left[n]);
    }
    left = again;
  }
  for (Certified* x : {&rows.o, &rows.d_q, &rows.d_lambda, &rows.d_probe, &rows.d_bandwidth}) x->settle();
  const bool one_lambda = problem.slope == Slope::solved && problem.lambda.size() == 1;
  LlaGradients d;
  d.d_k = lla::KeySums::certified(sums.d_k, sums.k_bound, problem.keys, problem.dim, most);
  d.d_v = lla::KeySums::certified(sums.d_v, sums.v_bound, problem.keys, problem.values, most);
  d.d_lambda = one_lambda ? total(rows.d_lambda, exactly(1)) : std::move(rows.d_lambda);
  d.d_bandwidth = total(rows.d_bandwidth, minus(problem.inverse_bandwidth));
  d.o = std::move(rows.o), d.d_q = std::move(rows.d_q), d.d_probe = std::move(rows.d_probe);
  d.words_used = std::move(words_used);
  return d;
}

}  // namespace assay::words
