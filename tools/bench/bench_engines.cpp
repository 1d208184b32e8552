#include "tools/bench/bench_engines.hpp"

#include <algorithm>
#include <array>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <ctime>
#include <random>

#include "oracles/multiword/delta.hpp"
#include "oracles/multiword/lla/lla.hpp"
#include "oracles/scalars/precise.hpp"

namespace assay::words {
namespace {

/// The number that the engines are compared with: Boost's own 50 digits.
using BinFloat50 =
    boost::multiprecision::number<boost::multiprecision::cpp_bin_float<50>, boost::multiprecision::et_off>;

/// Median time of three runs.
template <class F>
double timed(F&& f) {
  std::array<double, 3> t{};
  for (double& x : t) {
    const double start = processor_time();
    f();
    x = processor_time() - start;
  }
  std::sort(t.begin(), t.end());
  return t[1];
}

std::vector<double> numbers(std::size_t n, double size, std::mt19937_64& bits) {
  std::vector<double> x(n);
  for (double& e : x) e = size * (std::ldexp(static_cast<double>(bits() >> 11), -52) - 1);
  return x;
}

double log2_worst(const Certified& o) {
  double bound = 0, largest = 0;
  for (const double b : o.bound) bound = std::max(bound, b);
  for (const double x : o.word[0]) largest = std::max(largest, std::fabs(x));
  return std::log2(bound / largest);
}

/// Times of the two slow types and of every tier, as rows.
class Rows {
 public:
  Rows(std::string mechanism, double in_double, double in_mp50) : mechanism_(std::move(mechanism)) {
    double_ = in_double, mp50_ = in_mp50;
    add("double loop", in_double, 0);
    add("cpp_bin_float_50", in_mp50, 0);
  }
  void add(const std::string& tier, double seconds, double log2_bound) {
    rows.push_back({mechanism_, tier, seconds, seconds / double_, mp50_ / seconds, log2_bound});
  }
  std::vector<BenchRow> rows;

 private:
  std::string mechanism_;
  double double_ = 1, mp50_ = 1;
};

/// run(words, isa) -> seconds and bound, for every tier.
template <class F>
void add_tiers(Rows& rows, F&& run) {
  for (const Isa isa : all_isas)
    for (int words = 2; words <= 4 && supported(isa); ++words) {
      const auto [seconds, bound] = run(words, isa);
      rows.add(std::to_string(words) + " words " + std::string(name_of(isa)), seconds, bound);
    }
}

/// Gates that are open for most of the time, keys of length one.
struct DeltaInputs {
  std::vector<double> q, k, v, beta, log_decay;
  DeltaProblem problem;  ///< of these

  explicit DeltaInputs(const BenchSize& size) {
    std::mt19937_64 bits(1);
    const std::size_t T = size.tokens, d = size.dim;
    q = numbers(T * d, 1, bits), k = numbers(T * d, std::sqrt(3 / static_cast<double>(d)), bits);
    v = numbers(T * d, 1, bits), beta = numbers(T, 1, bits), log_decay = numbers(T, 0.01, bits);
    for (double& x : beta) x = std::fabs(x);
    for (double& x : log_decay) x = -std::fabs(x);
    problem.steps = T, problem.keys = problem.values = d;
    problem.q = q, problem.k = k, problem.v = v, problem.beta = beta, problem.log_decay = log_decay;
    problem.scale = reciprocal_sqrt(static_cast<double>(d));
  }
};

/// The recurrence as anyone would write it, the state of a value in a row.
template <class S>
S delta_loop(const DeltaProblem& x, std::size_t steps) {
  using std::exp;
  const std::size_t K = x.keys, V = x.values;
  std::vector<S> state(K * V, S(0)), q(K), k(K);
  S last = S(0);
  for (std::size_t t = 0; t < steps; ++t) {
    for (std::size_t i = 0; i < K; ++i) q[i] = S(x.q[t * K + i]), k[i] = S(x.k[t * K + i]);
    const S alpha = exp(S(x.log_decay[t])), beta = S(x.beta[t]);
    for (std::size_t j = 0; j < V; ++j) {
      S* s = &state[j * K];
      S read = S(0), o = S(0);
      for (std::size_t i = 0; i < K; ++i) read += s[i] * k[i];
      const S e = beta * (S(x.v[t * V + j]) - alpha * read);
      for (std::size_t i = 0; i < K; ++i) {
        s[i] = alpha * s[i] + k[i] * e;
        o += s[i] * q[i];
      }
      last = o;
    }
  }
  return last;
}

/// One query by the textbook: Sigma, Cholesky, two triangular solves.
template <class S>
S lla_loop(const LlaProblem& x, std::size_t query) {
  using std::exp, std::sqrt;
  const std::size_t d = x.dim, n = x.keys;
  const S scale = S(1) / sqrt(S(static_cast<double>(d)));
  std::vector<S> z(n * d), w(n), A(d * d, S(0)), mu(d, S(0));
  S largest = S(-1e300), omega = S(0);
  for (std::size_t j = 0; j < n; ++j) {
    S s = S(0);
    for (std::size_t a = 0; a < d; ++a) {
      s += S(x.q[query * d + a]) * S(x.k[j * d + a]);
      z[j * d + a] = S(x.k[j * d + a]) - S(x.q[query * d + a]);
    }
    w[j] = s * scale;
    if (w[j] > largest) largest = w[j];
  }
  for (std::size_t j = 0; j < n; ++j) {
    w[j] = exp(w[j] - largest);
    omega += w[j];
    for (std::size_t a = 0; a < d; ++a) {
      const S t = w[j] * z[j * d + a];
      mu[a] += t;
      for (std::size_t b = 0; b <= a; ++b) A[a * d + b] += t * z[j * d + b];
    }
  }
  for (std::size_t a = 0; a < d; ++a) {
    A[a * d + a] += S(x.lambda[0]);
    for (std::size_t b = 0; b <= a; ++b) {
      S t = A[a * d + b];
      for (std::size_t c = 0; c < b; ++c) t -= A[a * d + c] * A[b * d + c];
      A[a * d + b] = a == b ? S(sqrt(t)) : S(t / A[b * d + b]);
    }
  }
  std::vector<S> rho = mu;
  for (std::size_t a = 0; a < d; ++a) {
    for (std::size_t b = 0; b < a; ++b) rho[a] -= A[a * d + b] * rho[b];
    rho[a] /= A[a * d + a];
  }
  S denominator = omega, sum = S(0);
  for (std::size_t a = d; a-- > 0;) {
    for (std::size_t b = a + 1; b < d; ++b) rho[a] -= A[b * d + a] * rho[b];
    rho[a] /= A[a * d + a];
    denominator -= mu[a] * rho[a];
  }
  std::vector<S> o(x.values, S(0));
  for (std::size_t j = 0; j < n; ++j) {
    S s = S(1);
    for (std::size_t a = 0; a < d; ++a) s -= z[j * d + a] * rho[a];
    s *= w[j] / denominator;
    for (std::size_t c = 0; c < x.values; ++c) o[c] += s * S(x.v[j * x.values + c]);
  }
  for (const S& e : o) sum += e;
  return sum;
}

/// Keeps the compiler from dropping a loop whose result is never read.
template <class S>
void keep(const S& x) {
  [[maybe_unused]] volatile double sink = static_cast<double>(x);
}

}  // namespace

double processor_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double bin_float_over_mp50() {
  const DeltaInputs inputs({4, 64, 4});
  const double slow = timed([&] { keep(delta_loop<BinFloat50>(inputs.problem, 4)); });
  return slow / timed([&] { keep(delta_loop<Mp50>(inputs.problem, 4)); });
}

std::vector<BenchRow> bench_delta(const BenchSize& size) {
  const std::size_t T = size.tokens;
  const DeltaInputs inputs(size);
  const DeltaProblem& problem = inputs.problem;
  const auto slow = static_cast<double>(size.sample), all = static_cast<double>(T);
  Rows rows("gated_deltanet", timed([&] { keep(delta_loop<double>(problem, T)); }) / all,
            timed([&] { keep(delta_loop<BinFloat50>(problem, size.sample)); }) / slow);
  add_tiers(rows, [&](int words, Isa isa) {
    double bound = 0;
    const double t = timed([&] { bound = log2_worst(delta_forward(problem, {words, 1, isa}).o); });
    return std::pair(t / all, bound);
  });
  return rows.rows;
}

std::vector<BenchRow> bench_lla(const BenchSize& size) {
  constexpr std::size_t queries = 32;
  std::mt19937_64 bits(2);
  const std::size_t n = size.tokens, d = size.dim;
  const auto q = numbers(queries * d, std::sqrt(3), bits), k = numbers(n * d, std::sqrt(3), bits);
  const auto v = numbers(n * d, std::sqrt(3), bits), lambda = std::vector<double>{1e-3};
  LlaProblem problem;
  problem.queries = queries, problem.keys = n, problem.dim = problem.values = d;
  problem.q = q, problem.k = k, problem.v = v, problem.lambda = lambda, problem.mode = RidgeMode::max;
  problem.inverse_bandwidth = reciprocal_sqrt(static_cast<double>(d));
  const auto slow = static_cast<double>(size.sample);
  const auto several = [&](auto loop) {
    for (std::size_t i = 0; i < size.sample; ++i) keep(loop(queries - 1 - i % queries));
  };
  Rows rows("lla", timed([&] { several([&](std::size_t i) { return lla_loop<double>(problem, i); }); }) / slow,
            timed([&] { several([&](std::size_t i) { return lla_loop<BinFloat50>(problem, i); }); }) / slow);
  add_tiers(rows, [&](int words, Isa isa) {
    double bound = 0;
    const double t = timed([&] { bound = log2_worst(lla_forward(problem, {words, 1, isa}, {1, words}).o); });
    return std::pair(t / static_cast<double>(queries), bound);
  });
  return rows.rows;
}

}  // namespace assay::words
