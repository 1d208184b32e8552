#include "judge/sigma/spread.hpp"

#include <algorithm>
#include <bit>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/polygamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <tuple>
#include <utility>

#include "kernels/core/tile.hpp"
#include "oracles/multiword/parallel_sums.hpp"
#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Statistics of statistics need no long doubles.
using InDoubles = boost::math::policies::policy<boost::math::policies::promote_double<false>>;

/// Mean and sample variance of every element over the draws.
struct Moments {
  std::vector<double> mean, variance;
};

Moments moments_of(const Runs& draws, int threads = 1) {
  const std::size_t n = draws[0].size();
  const auto count = static_cast<double>(draws.size());
  Moments m{std::vector<double>(n), std::vector<double>(n)};
  words::for_each_in_parallel(n, threads, [&](std::size_t i) {
    // Relative to the first draw: the spread is often many digits below the value.
    double sum = 0, squares = 0;
    for (const auto& draw : draws) sum += draw[i] - draws[0][i];
    for (const auto& draw : draws) {
      const double d = (draw[i] - draws[0][i]) - sum / count;
      squares += d * d;
    }
    m.mean[i] = draws[0][i] + sum / count;
    m.variance[i] = squares / (count - 1);
  });
  return m;
}

/// What a guess says of an element. It says nothing of one whose own draws contradict it, nor where it is zero.
enum class Word : unsigned char { of_it, contradicted, none };

/// A guess at each element's variance from its neighbours', and how much the guess is worth.
struct Prior {
  std::vector<double> variance;
  double freedom = 0;
  std::vector<Word> says = {};
  double worth = 0;   ///< freedom to all elements, if they moved independently
  double factor = 1;  ///< what the guess is off by

  /// The guess for an element whose draws have that variance: one that stood still in all of them may move as far as
  /// any of its neighbours did.
  double of(std::size_t i, double own) const { return variance[i] * (own > 0 && says[i] == Word::of_it ? factor : 1); }
};

enum class Pooling {
  mean,       ///< of the head
  separable,  ///< (row mean) * (column mean) / (mean); the mean for vectors, where a row mean is the element itself
  nearby,     ///< mean of the four rows before and after, in the same column
};

constexpr int window = 4;

/// The x > 0 of which trigamma(x) = y, by the convex iteration of Smyth (2004, appendix): it falls to its limit.
double inverse_trigamma(double y) {
  double x = 0.5 + 1 / y;
  for (int i = 0; i < 50; ++i) {
    const double at = boost::math::trigamma(x, InDoubles());
    const double step = at * (1 - at / y) / boost::math::polygamma(2, x, InDoubles());
    x += step;
    if (std::fabs(step) < 1e-8 * x) break;
  }
  return x;
}

/// Sample variances in units of their guess: how many degrees of freedom d the guess is worth, and the factor that it
/// is off by, if they are factor * F(nu, d). docs/judge-derivation.md,
/// "Sixteen draws are few: pooling".
class Ratios {
 public:
  struct Sums {
    std::size_t set_aside = 0;  ///< elements of which the guess says nothing any more
    double count = 0, moved = 0, logarithms = 0, squared_logarithms = 0, ratios = 0, squares = 0;
    void operator+=(const Sums& more) {
      set_aside += more.set_aside, count += more.count, moved += more.moved;
      logarithms += more.logarithms, squared_logarithms += more.squared_logarithms;
      ratios += more.ratios, squares += more.squares;
    }
    /// In units in which no square overflows.
    void add(double ratio, double logarithm) {
      ++count, ratios += ratio, squares += ratio * ratio;
      if (ratio > 0) ++moved, logarithms += logarithm, squared_logarithms += logarithm * logarithm;
    }
  };
  Ratios(double nu, const Sums& of) : nu_(nu), of_(of) {}

  double freedom() const { return std::min(by_moments(), by_logarithms()); }

  double factor(double d) const {
    return of_.moved == 0
               ? 1
               : tile::ex2((of_.logarithms / of_.moved - mean_logarithm(nu_) + mean_logarithm(d)) / std::numbers::ln2);
  }

 private:
  /// By the squared coefficient of variation of F, 2 (nu + d - 2) / (nu (d - 4)): it sees variances far above their
  /// guess.
  double by_moments() const {
    if (!(of_.ratios > 0)) return infinite;
    const double excess = nu_ * (of_.squares * of_.count / (of_.ratios * of_.ratios) - 1);
    return excess > 2 ? (4 * excess + 2 * nu_ - 4) / (excess - 2) : infinite;
  }

  /// By the variance of its logarithm, trigamma(nu / 2) + trigamma(d / 2): it sees variances far below their guess.
  /// Zeros have none and are left out.
  double by_logarithms() const {
    if (of_.moved < 3) return infinite;
    const double excess = (of_.squared_logarithms - of_.logarithms * of_.logarithms / of_.moved) / (of_.moved - 1) -
                          boost::math::trigamma(nu_ / 2, InDoubles());
    return excess > 0 ? 2 * inverse_trigamma(excess) : infinite;
  }

  /// The mean logarithm of chi-square / d.
  static double mean_logarithm(double d) {
    return std::isinf(d) ? 0 : boost::math::digamma(d / 2, InDoubles()) - tile::lg2(d / 2) * std::numbers::ln2;
  }

  double nu_;
  Sums of_;
};

/// The mean of the four rows before and after it, in the same column.
void guess_nearby(const double* x, std::size_t R, std::size_t C, double* __restrict guess) {
  for (std::size_t r = 0; r < R; ++r) {
    const std::size_t from = r < window ? 0 : r - window, to = std::min(R, r + window + 1);
    const auto others = static_cast<double>(to - from - 1);
    double* const of_row = guess + r * C;
    std::fill_n(of_row, C, 0.0);
    for (std::size_t at = from; at < to; ++at)
      for (std::size_t c = 0; at != r && c < C; ++c) of_row[c] += x[at * C + c] / others;
  }
}

/// The memory of ratios and their logarithms.
struct Scratch {
  std::vector<double> ratio, logarithm;
};

/// Sample variances in units of the guess, and their logarithms; the power of two above all of them.
double take_ratios(const std::vector<double>& variance, int threads, Scratch& scratch, Prior& prior) {
  struct Largest {
    double value = 0;
    void operator+=(const Largest& other) { value = std::max(value, other.value); }
  };
  const Largest largest = words::sum_of_blocks(variance.size(), threads, [&](std::size_t first, std::size_t last) {
    Largest of_block;
    for (std::size_t i = first; i < last; ++i) {
      const double guess = prior.variance[i], ratio = guess > 0 && variance[i] > 0 ? variance[i] / guess : 0;
      scratch.ratio[i] = ratio, scratch.logarithm[i] = ratio > 0 ? tile::lg2(ratio) * std::numbers::ln2 : 0;
      // Neighbours that stand still say nothing of an element that moves.
      const bool contradicts = std::isinf(ratio) || (guess == 0 && variance[i] > 0);
      prior.says[i] = contradicts ? Word::contradicted : guess > 0 ? Word::of_it : Word::none;
      if (!contradicts) of_block.value = std::max(of_block.value, ratio);
    }
    return of_block;
  });
  return largest.value > 0 ? std::ldexp(1.0, std::ilogb(largest.value) + 1) : 1;
}

/// The pooled mean of the variances, per head; worth no more than `most`.
void pool(const std::vector<double>& variance, const Layout& layout, Pooling pooling, double nu, double most,
          int threads, Scratch& scratch, Prior& prior) {
  const auto R = static_cast<std::size_t>(layout.rows), C = static_cast<std::size_t>(layout.cols);
  if (pooling == Pooling::separable && (R == 1 || C == 1)) pooling = Pooling::mean;
  if (pooling == Pooling::nearby && R == 1) pooling = Pooling::mean;
  const std::size_t N = variance.size();
  prior.variance.resize(N), prior.says.resize(N), scratch.ratio.resize(N), scratch.logarithm.resize(N);
  words::in_parallel(N / (R * C), threads, [&](std::size_t head) {
    const double* const own = &variance[head * R * C];
    double* const guess = &prior.variance[head * R * C];
    if (pooling == Pooling::nearby)
      guess_nearby(own, R, C, guess);
    else
      guess_of_head(own, R, C, pooling == Pooling::separable, guess);
  });
  // No guess is worth more than the draws that went into it, the element's own not counted.
  const auto elements = static_cast<double>(R * C);
  const double others = pooling == Pooling::nearby      ? std::min<double>(2 * window, static_cast<double>(R - 1))
                        : pooling == Pooling::separable ? elements / static_cast<double>(R + C - 1) - 1
                                                        : elements - 1;
  const double unit = take_ratios(variance, threads, scratch, prior);
  double least = 0, largest = infinite;
  for (bool is_first = true;; is_first = false) {
    const Ratios::Sums sums = words::sum_of_blocks(N, threads, [&](std::size_t first, std::size_t last) {
      Ratios::Sums of_block;
      for (std::size_t i = first; i < last; ++i) {
        if (prior.says[i] != Word::of_it) continue;
        const double ratio = scratch.ratio[i];
        if (ratio == 0 || (ratio >= least && ratio <= largest))
          of_block.add(ratio / unit, scratch.logarithm[i]);
        else
          prior.says[i] = Word::contradicted, ++of_block.set_aside;
      }
      return of_block;
    });
    if (!is_first && sums.set_aside == 0) break;
    const Ratios kept(nu, sums);
    const double scatter = kept.freedom();
    prior.factor = kept.factor(scatter);
    prior.worth = std::min(scatter, nu * others), prior.freedom = std::min(prior.worth, most);
    if (!(prior.freedom > 0)) break;
    // Elements whose like the model shows only once in five hundred are set aside.
    constexpr double tail = 1e-3;
    const boost::math::fisher_f_distribution<double, InDoubles> model(nu, prior.freedom);
    least = prior.factor * quantile(model, tail), largest = prior.factor * quantile(complement(model, tail));
  }
  const auto aside = std::count(prior.says.begin(), prior.says.end(), Word::contradicted);
  prior.worth *= 1 - static_cast<double>(aside) / static_cast<double>(N);
}

/// Sums of products of two draws, lower triangle.
struct Gram {
  std::vector<double> sums;
  void operator+=(const Gram& more) { std::ranges::transform(sums, more.sums, sums.begin(), std::plus<>()); }
};

/// tr(Sigma^2) of the draws' covariance after dividing every element by `scale` (0 drops it): the unbiased estimator of
/// Bai and Saranadasa (Statistica Sinica 6, 1996, eq. 3.3).
double squared_correlations(const Runs& draws, const std::vector<double>& mean, const std::vector<double>& scale,
                            int threads) {
  const std::size_t K = draws.size();
  const auto of_block = [&](std::size_t first, std::size_t last) {
    std::vector<double> sums(K * K), z(K);
    for (std::size_t i = first; i < last; ++i) {
      if (!(scale[i] > 0)) continue;
      for (std::size_t k = 0; k < K; ++k) z[k] = (draws[k][i] - mean[i]) / scale[i];
      for (std::size_t k = 0; k < K; ++k)
        for (std::size_t l = 0; l <= k; ++l) sums[k * K + l] += z[k] * z[l];
    }
    return Gram{std::move(sums)};
  };
  const std::vector<double> gram = words::sum_of_blocks(mean.size(), threads, of_block).sums;
  const auto nu = static_cast<double>(K - 1);
  double trace = 0, squares = 0;
  for (std::size_t k = 0; k < K; ++k) {
    trace += gram[k * K + k] / nu;
    for (std::size_t l = 0; l <= k; ++l) squares += (l == k ? 1 : 2) * (gram[k * K + l] / nu) * (gram[k * K + l] / nu);
  }
  return std::max(0.0, nu * nu / ((nu + 2) * (nu - 1)) * (squares - trace * trace / nu));
}

bool all_on_grid(const Runs& draws, Format stored, int threads) {
  return words::all_in_parallel(draws[0].size(), threads, [&](std::size_t i) {
    return std::ranges::all_of(draws, [&](std::span<const double> draw) { return representable(stored, draw[i]); });
  });
}

}  // namespace

void guess_of_head(const double* x, std::size_t R, std::size_t C, bool separable, double* __restrict guess) {
  std::vector<double> row(R), col(C);
  double grand = 0;
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t c = 0; c < C; ++c) {
      const double y = x[r * C + c];
      row[r] += y / static_cast<double>(C), col[c] += y / static_cast<double>(R);
      grand += y / static_cast<double>(R * C);
    }
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t c = 0; c < C; ++c)
      guess[r * C + c] = !separable ? grand : grand == 0 ? 0 : row[r] * col[c] / grand;
}

Layout layout_of(const std::vector<int>& shape, bool head_axis) {
  Layout layout;
  std::size_t at = 0;
  if (head_axis && !shape.empty()) layout.heads = shape[at++];
  if (at < shape.size()) layout.rows = shape[at++];
  if (at < shape.size()) layout.cols = shape[at++];
  // The last one of more axes has the columns, and every index of the others is a row.
  for (; at < shape.size(); ++at) layout.rows *= std::exchange(layout.cols, shape[at]);
  return layout;
}

double spacing(Format format, double x) {
  const FormatInfo f = info(format);
  constexpr int bias = 1023, beyond = 2047;  // of zeros and subnormal numbers the exponent is below that of any format
  const int biased = static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52) & beyond;
  const int last = std::max(biased == beyond ? f.min_exponent : biased - bias, f.min_exponent) - f.mantissa_bits;
  return last > -bias ? std::bit_cast<double>(static_cast<std::uint64_t>(last + bias) << 52) : std::ldexp(1.0, last);
}

bool representable(Format format, double x) {
  const FormatInfo f = info(format);
  constexpr int bias = 1023, digits = 52;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int exponent = static_cast<int>(bits >> digits & 2047) - bias;
  const bool is_short = (bits & ((std::uint64_t{1} << (digits - f.mantissa_bits)) - 1)) == 0;
  if (is_short && exponent >= f.min_exponent && std::fabs(x) <= f.max_finite) return true;
  return !std::isfinite(x) || round_to(x, format) == x;
}

/// Whether draws of a sum's terms tell how alike the terms are: docs/judge-derivation.md,
/// "Sixteen draws are few: pooling".
static bool tell_of_terms(const std::vector<std::vector<double>>& terms) {
  return terms.size() >= 8 && terms.size() * terms[0].size() >= 32;
}

/// The variance of a sum of independent terms, which pool theirs as the elements of a vector do, and the degrees of
/// freedom with which it is known: their estimates may err together, as they share a guess.
static std::pair<double, double> variance_of_sum(const std::vector<std::vector<double>>& terms) {
  const Layout vector{1, static_cast<int>(terms[0].size()), 1};
  const Spread each = spread_of(terms, ExactRun(moments_of(terms).mean), vector, Format::fp64, 1);
  double variance = 0, deviation = 0;
  for (std::size_t i = 0; i < each.drawn.size(); ++i)
    variance += each.drawn[i], deviation += each.drawn[i] / std::sqrt(each.freedom[i]);
  const double worth = variance / deviation;
  return {variance, std::isfinite(worth) ? worth * worth : static_cast<double>(terms.size() - 1)};
}

namespace {

/// Sums over the elements that may err.
struct Weights {
  double excess = 0, diagonal = 0, counted = 0;
  void operator+=(const Weights& more) { excess += more.excess, diagonal += more.diagonal, counted += more.counted; }
};

/// What the draws and the guess say together.
struct Blend {
  const Moments& m;
  const Prior& prior;
  const ExactRun& exact;
  Format stored;
  double doubled, nu, draws;
  bool rounds;  ///< the draws are not on the grid of `stored`
  double smallest_normal = std::ldexp(1.0, info(stored).min_exponent);

  /// sigma^2 of element i, which `spread` gets.
  double element(std::size_t i, Spread& spread, Weights& weights) const {
    const bool alone = prior.says[i] == Word::contradicted;
    // An element that stood still in all draws is none of the model's: its guess counts where it has a mean.
    const double weight = m.variance[i] > 0 ? prior.freedom : std::max(0.0, prior.freedom - 2);
    const double drawn =
        alone ? m.variance[i] : (weight * prior.of(i, m.variance[i]) + nu * m.variance[i]) / (weight + nu);
    // Jittered rounding has twice the variance of nearest_even.
    const double inner = drawn / doubled, off = exact.distance(m.mean[i], i), x = exact.value(i);
    // The exact run has been rounded to a double, unless it is known where it was.
    const double rounded = exact.is_located() ? 0 : spacing(Format::fp64, x);
    const double bias = std::max(0.0, off * off - drawn / draws - rounded * rounded / 12);
    double last = 0;
    // Below the smallest normal number jitter is finer than the grid: that rounding has not been drawn either.
    const bool undrawn = rounds || std::fabs(x) < smallest_normal;
    if (undrawn && (inner > 0 || m.mean[i] != x || !representable(stored, x))) {
      const double s = spacing(stored, std::sqrt(x * x + inner));
      last = s * s / 12;
    }
    const double total = inner + bias + last;
    spread.sigma[i] = std::sqrt(total), spread.drawn[i] = inner;
    // Satterthwaite: only the drawn part is uncertain.
    const double known = alone ? nu : prior.freedom + nu;
    spread.freedom[i] = inner > 0 ? known * (total / inner) * (total / inner) : infinite;
    if (!(total > 0)) return total;
    const double a = inner / total, b = last / total;
    // drawn / chi-square(d) * d has the mean drawn * d / (d - 2).
    if (a > 0) weights.excess += a * 2 / std::max(known - 2, 0.0);
    weights.diagonal += 2 * a * b + b * b, ++weights.counted;
    return total;
  }
};

}  // namespace

Spread spread_of(const Runs& draws, const ExactRun& exact, const Layout& layout, Format stored, double doubled,
                 const std::vector<std::vector<double>>& terms, int threads) {
  const std::size_t N = layout.size(), K = draws.size();
  require(K >= 3, "sigma needs three draws or more, got ", K);
  auto nu = static_cast<double>(K - 1);
  Moments m = moments_of(draws, threads);
  if (N == 1 && tell_of_terms(terms)) std::tie(m.variance[0], nu) = variance_of_sum(terms);

  // Neighbours that always move together are one witness, not many.
  std::vector<double> scale(N);
  const auto varying = words::sum_of_blocks(N, threads, [&](std::size_t first, std::size_t last) {
    double count = 0;
    for (std::size_t i = first; i < last; ++i) scale[i] = std::sqrt(m.variance[i]), count += scale[i] > 0 ? 1 : 0;
    return count;
  });
  const double together = squared_correlations(draws, m.mean, scale, threads);
  const double most = together > 0 ? nu * std::max(0.0, varying * varying / together - 1) : infinite;

  // The guess that is worth most counts. The separable one of a vector is the mean.
  std::vector<Pooling> poolings = {Pooling::separable};
  if (layout.rows > 1 && layout.cols > 1) poolings.push_back(Pooling::mean);
  if (layout.rows > 1) poolings.push_back(Pooling::nearby);
  Prior prior, other;
  Scratch scratch;
  for (const Pooling pooling : poolings) {
    pool(m.variance, layout, pooling, nu, most, threads, scratch, other);
    if (pooling == poolings.front() || prior.worth < other.worth) std::swap(prior, other);
  }

  Spread spread{std::vector<double>(N), std::vector<double>(N), 0, nu + 1, std::vector<double>(N)};
  spread.doubled = doubled;
  const bool rounds = !all_on_grid(draws, stored, threads);
  const Blend blend{m, prior, exact, stored, doubled, nu, static_cast<double>(K), rounds};
  const Weights weights = words::sum_of_blocks(N, threads, [&](std::size_t first, std::size_t last) {
    Weights sums;
    for (std::size_t i = first; i < last; ++i) scale[i] = std::sqrt(doubled * blend.element(i, spread, sums));
    return sums;
  });
  // Output roundings are independent. Two standard errors (2 / nu each) on the correlations that the draws only
  // estimate.
  const double correlations = squared_correlations(draws, m.mean, scale, threads) * (1 + 4 / nu) + weights.diagonal;
  const double counted = weights.counted;
  if (counted > 0) spread.excess = 1 + weights.excess / counted;
  spread.independent = counted == 0 ? 0 : std::clamp(counted * counted / correlations, 1.0, counted);
  return spread;
}

double with_neighbours(const std::vector<double>& distances, const Layout& layout, std::size_t element) {
  const auto R = static_cast<std::size_t>(layout.rows), C = static_cast<std::size_t>(layout.cols);
  const std::size_t r = element / C % R, first = element - r * C;
  const std::size_t from = r < window ? 0 : r - window, to = std::min(R, r + window + 1);
  double nearby = 0;
  for (std::size_t at = from; at < to; ++at) {
    const double x = distances[first + at * C];
    nearby += x * x / static_cast<double>(to - from);
  }
  return std::max(distances[element], std::sqrt(nearby));
}

namespace {

/// The factor that sigma would need for these multiples of it, if errors were normal: by their median, which a few that
/// stand out do not move.
double typical(std::vector<double> z) {
  constexpr double median_of_normal = 0.6744897501960817;
  const auto middle = z.begin() + static_cast<std::ptrdiff_t>(z.size() / 2);
  std::nth_element(z.begin(), middle, z.end());
  return *middle / median_of_normal;
}

}  // namespace

double widen(Spread& spread, const std::vector<double>& witness, const ExactRun& exact, const Layout& layout,
             double sigmas, double false_alarm_rate) {
  const std::size_t N = layout.size();
  std::vector<double> off(N), multiples;
  double sum = 0;
  bool beyond = false;
  for (std::size_t i = 0; i < N; ++i) {
    off[i] = std::fabs(exact.distance(witness[i], i));
    if (!std::isfinite(off[i])) return 0;  // overflows are the judge's to fail
    if (spread.sigma[i] == 0) spread.sigma[i] = off[i];
    if (!(spread.sigma[i] > 0)) continue;
    const double z = off[i] / spread.sigma[i];
    multiples.push_back(z), sum += z * z;
    beyond = beyond || z > equivalent_sigmas(sigmas, spread.freedom[i]);
  }
  if (multiples.empty()) return 0;
  const double rms = std::sqrt(sum / static_cast<double>(multiples.size()));
  if (!beyond && rms <= rms_limit(spread, false_alarm_rate)) return 0;
  const double all = typical(std::move(multiples));
  for (std::size_t i = 0; i < N; ++i)
    if (spread.sigma[i] > 0)
      spread.sigma[i] = std::max({spread.sigma[i], all * spread.sigma[i], with_neighbours(off, layout, i)});
  return rms;
}

double equivalent_sigmas(double sigmas, double freedom) {
  if (freedom > 1e9) return sigmas;
  // Wallace's transformation (Biometrika 46, 1959): sqrt(d ln(1 + t^2 / d)) (8d + 1) / (8d + 3) is nearly normal.
  const double w = sigmas * (8 * freedom + 3) / (8 * freedom + 1);
  constexpr double log2_e = 1.4426950408889634;
  return std::sqrt(freedom * (tile::ex2(w * w / freedom * log2_e) - 1));
}

double rms_limit(const Spread& spread, double false_alarm_rate) {
  if (!(spread.independent > 0)) return infinite;
  const double n = spread.independent, nu = spread.draws - 1;
  const boost::math::fisher_f_distribution<double> ratio(n, n * nu);
  // The squared error of one nearest_even rounding is at most the variance of jittered, twice what it is on average.
  return std::sqrt(spread.doubled * spread.excess * quantile(complement(ratio, false_alarm_rate)));
}

}  // namespace assay
