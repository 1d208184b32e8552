#include "judge/drift/growth.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "kernels/core/tile.hpp"

namespace assay {
namespace {

constexpr double log2_e = 1.4426950408889634;
constexpr double infinite = std::numeric_limits<double>::infinity();

double exponential(double x) { return tile::ex2(x * log2_e); }
double logarithm(double x) { return tile::lg2(x) / log2_e; }

double growth(Law law, double t) {
  switch (law) {
    case Law::root:
      return t;
    case Law::saturating_root:
      return 1 - exponential(-t);
    case Law::linear:
      return t * t;
    case Law::saturating_linear:
      return (1 - exponential(-t)) * (1 - exponential(-t));
    case Law::exponential:
      return exponential(2 * t);
    case Law::bounded:
      break;
  }
  return 0;
}

/// Roundings may change what a recurrence forgets, as a decay that rounds to 1 does, but few do.
constexpr double contradiction_probability = 1e-3;

/// Under a memory of m tokens laws have times of m and 2 m where the values themselves are as large as ever. Where
/// those are sums under the same memory, relative squares begin as t / 2 and t^2 / 3 and end at m and 2 m^2, as laws
/// with times of 2 m and sqrt(6) m do.
constexpr double root_of_6 = 2.449489742783178;

/// A law before there are points.
struct Before {
  double time_low = 1, time_high = 1;  ///< the same where its time is known, or where it has none
  double probability = 1;

  bool time_known() const { return time_low == time_high; }
};

Before before(Law law, const GrowthFacts& facts, double first, double last) {
  Before b;
  if (law == Law::bounded) return b;
  // An error that has not begun to saturate is a root or a line. One that grows by less than e over the points is a
  // line, and from fp64's last bit to the whole value is e^37.
  if (law == Law::exponential)
    b = {last / 37, last};
  else if (has_time(law))
    b = {first, std::max(first, last / 3)};
  if (!facts.memory || *facts.memory < 0) return b;
  const double memory = *facts.memory;
  bool contradicted = law == Law::exponential;
  if (law == Law::saturating_root || law == Law::saturating_linear) {
    if (memory >= facts.horizon)
      contradicted = true;
    else if (memory > last / 3)
      b = law == Law::saturating_root ? Before{memory, 2 * memory} : Before{2 * memory, root_of_6 * memory};
  } else if (law != Law::exponential) {
    contradicted = memory < facts.horizon;
  }
  if (contradicted) b.probability = contradiction_probability;
  return b;
}

int constants_of(Law law, const Before& b) { return law == Law::bounded ? 1 : b.time_known() ? 2 : 3; }

/// The least of f on [low, high]: the best of `count` points in even steps, then golden section around it.
template <class F>
std::pair<double, double> least(double low, double high, int count, F&& f) {
  double best = low, value = infinite;
  const double step = (high - low) / (count - 1);
  for (int i = 0; i < count; ++i)
    if (const double x = low + i * step, y = f(x); y < value) best = x, value = y;
  constexpr double golden = 0.6180339887498949;
  double a = std::max(low, best - step), b = std::min(high, best + step);
  for (int i = 0; i < 20; ++i) {
    const double c = b - golden * (b - a), d = a + golden * (b - a), yc = f(c), yd = f(d);
    yc < yd ? b = d : a = c;
    if (yc < value) best = c, value = yc;
    if (yd < value) best = d, value = yd;
  }
  return {best, value};
}

/// The points' logarithms against a law whose constants are being sought, whitened by the model of what is left.
class Fit {
 public:
  Fit(const std::vector<GrowthPoint>& points, const GrowthFacts& facts, bool walks)
      : points_(points),
        facts_(facts),
        logs_(points.size()),
        g_(points.size()),
        carried_(points.size()),
        scale_(points.size(), 1) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      logs_[i] = logarithm(points[i].error);
      if (i == 0 || !walks) continue;
      carried_[i] = points[i - 1].tokens / points[i].tokens;
      const double rest = 1 - carried_[i] * carried_[i];
      scale_[i] = 1 / std::sqrt(rest), determinant_ += logarithm(rest);
    }
  }

  Growth of(Law law) {
    const Before b = known(law);
    Growth fit{.law = law, .time = b.time_low};
    if (!b.time_known())
      fit.time = tile::ex2(least(tile::lg2(b.time_low), tile::lg2(b.time_high), 25, [&](double time) {
                             return best_share(law, tile::ex2(time), 25).second;
                           }).first);
    double share = 0, squares = 0;
    if (law == Law::bounded)
      std::fill(g_.begin(), g_.end(), 0.0), squares = residual(0);
    else
      std::tie(share, squares) = best_share(law, fit.time, 97);
    set_constants(fit, law == Law::bounded ? 0 : part(share));
    unlikeliness_ = unlikeliness(squares);
    squares = 0;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const double off = logs_[i] - logarithm(fit.at(points_[i].tokens));
      squares += off * off;
    }
    fit.scatter = std::sqrt(squares / static_cast<double>(points_.size()));
    return fit;
  }

  /// Twice the negative logarithm of how likely the points are under the law that of() was last asked for.
  double unlikeliness() const { return unlikeliness_; }
  /// The same of the law's evidence.
  double criterion(Law law) const {
    const Before b = known(law);
    return unlikeliness_ + constants_of(law, b) * logarithm(static_cast<double>(points_.size())) -
           2 * logarithm(b.probability);
  }

  /// Adds what is no more unlikely than `most` to `open`, from the best of its law outwards.
  void collect(const Growth& best, double most, std::vector<Growth>& open) {
    const Law law = best.law;
    const Before b = known(law);
    const double octaves = tile::lg2(b.time_high / b.time_low);
    const int times = b.time_known() ? 0 : 12, shares = law == Law::bounded ? 0 : 96;
    // Steps that become larger and larger.
    const auto step = [](int i, int count) { return count == 0 ? 0.0 : i * std::abs(i) / (1.0 * count * count); };
    for (int i = -times; i <= times; ++i) {
      Growth fit{.law = law, .time = best.time * tile::ex2(octaves * step(i, times))};
      if (fit.time < b.time_low || fit.time > b.time_high) continue;
      const double share = law == Law::bounded ? 0 : best_share(law, fit.time, 97).first;
      for (int j = -shares; j <= shares; ++j) {
        const double m = law == Law::bounded ? 0 : part(share + 96 * step(j, shares));
        const double spare = most - unlikeliness(residual(m)), scale = offset_;
        if (!(spare >= 0)) continue;
        // As far as the scale may be off for that.
        const double apart = std::sqrt(spare / ones_) * deviation_;
        for (const double offset : {scale - apart, scale + apart}) {
          offset_ = offset;
          set_constants(fit, m);
          open.push_back(fit);
        }
      }
    }
  }

 private:
  static double part(double share) { return 1 / (1 + tile::ex2(-share)); }

  Before known(Law law) const { return before(law, facts_, points_.front().tokens, points_.back().tokens); }

  void set_growth(Law law, double time) {
    const double last = growth(law, points_.back().tokens / time);
    for (std::size_t i = 0; i < points_.size(); ++i)
      g_[i] = law == Law::bounded ? 0 : growth(law, points_[i].tokens / time) / last;
  }

  /// (1 - m) + m g / g(last), times the scale that residual(m) has left.
  void set_constants(Growth& fit, double m) const {
    const double scale = exponential(2 * offset_);
    fit.floor = std::sqrt(scale * (1 - m));
    if (fit.law != Law::bounded) fit.rise = std::sqrt(scale * m / growth(fit.law, points_.back().tokens / fit.time));
  }

  /// Gaussian, the variance being the likeliest one that is no smaller than what is known of it; its root is left in
  /// deviation_.
  double unlikeliness(double squares) {
    const auto n = static_cast<double>(points_.size());
    const double least = facts_.spread * facts_.spread, variance = std::max(squares / n, least);
    deviation_ = std::sqrt(variance);
    return n * logarithm(variance) + squares / variance + determinant_;
  }

  std::pair<double, double> best_share(Law law, double time, int count) {
    set_growth(law, time);
    const auto found = least(-48, 48, count, [&](double share) { return residual(part(share)); });
    residual(part(found.first));  // leaves its offset
    return found;
  }

  /// Sum of whitened squares at the best scale, whose logarithm is left in offset_, and its weight in ones_.
  double residual(double m) {
    double squares = 0, products = 0, ones = 0, before = 0;
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      const double off = logs_[i] - logarithm((1 - m) + m * g_[i]) / 2;
      const double fresh = (off - carried_[i] * before) * scale_[i], one = (1 - carried_[i]) * scale_[i];
      squares += fresh * fresh, products += fresh * one, ones += one * one, before = off;
    }
    offset_ = products / ones, ones_ = ones;
    return std::max(0.0, squares - products * offset_);
  }

  const std::vector<GrowthPoint>& points_;
  const GrowthFacts& facts_;
  std::vector<double> logs_, g_, carried_, scale_;
  double offset_ = 0, ones_ = 1, deviation_ = 1, determinant_ = 0, unlikeliness_ = 0;
};

}  // namespace

std::string_view name_of(Law law) {
  constexpr std::string_view names[] = {"bounded", "sqrt(t)", "saturating sqrt(t)", "t", "saturating t", "exp(t)"};
  return names[static_cast<int>(law)];
}

std::string_view formula_of(Law law) {
  constexpr std::string_view formulas[] = {"floor",
                                           "sqrt(floor^2 + rise^2 t)",
                                           "sqrt(floor^2 + rise^2 (1 - exp(-t / time)))",
                                           "sqrt(floor^2 + rise^2 t^2)",
                                           "sqrt(floor^2 + rise^2 (1 - exp(-t / time))^2)",
                                           "sqrt(floor^2 + rise^2 exp(2 t / time))"};
  return formulas[static_cast<int>(law)];
}

double Growth::at(double tokens) const { return std::sqrt(floor * floor + rise * rise * growth(law, tokens / time)); }

double GrowthFit::low(double tokens) const {
  double low = best().at(tokens);
  for (const Growth& g : open) low = std::min(low, g.at(tokens));
  return low;
}

double GrowthFit::high(double tokens) const {
  double high = best().at(tokens);
  for (const Growth& g : open) high = std::max(high, g.at(tokens));
  return high;
}

std::optional<GrowthFit> fit_growth(std::span<const GrowthPoint> points, const GrowthFacts& facts) {
  std::vector<GrowthPoint> kept;
  for (const GrowthPoint& p : points)
    if (p.error > 0 && std::isfinite(p.error)) kept.push_back(p);
  if (kept.size() < fewest_growth_points) return std::nullopt;
  const double last = kept.back().tokens;
  GrowthFacts known = facts;
  known.horizon = std::max(known.horizon, last);
  Fit independent(kept, known, false), walk(kept, known, true);
  GrowthFit result;
  struct Evidence {
    Growth a, b;
    double independent, walk, likeliest;
  };
  std::vector<Evidence> evidence;
  double best = infinite, sum = 0;
  for (const Law law : all_laws) {
    const Growth a = independent.of(law), b = walk.of(law);
    evidence.push_back({a, b, independent.criterion(law), walk.criterion(law),
                        std::min(independent.unlikeliness(), walk.unlikeliness())});
    const Evidence& e = evidence.back();
    result.laws.push_back(e.independent <= e.walk ? a : b);
    best = std::min({best, e.independent, e.walk});
  }
  for (std::size_t i = 0; i < evidence.size(); ++i)
    sum += result.laws[i].probability =
        exponential((best - evidence[i].independent) / 2) + exponential((best - evidence[i].walk) / 2);
  for (std::size_t i = 0; i < evidence.size(); ++i) {
    Growth& g = result.laws[i];
    g.probability /= sum;
    if (known.horizon <= last || g.probability < fair_probability) continue;
    const double most = evidence[i].likeliest - 2 * logarithm(fair_probability);
    independent.collect(evidence[i].a, most, result.open), walk.collect(evidence[i].b, most, result.open);
  }
  std::ranges::stable_sort(result.laws, [](const Growth& a, const Growth& b) { return a.probability > b.probability; });
  return result;
}

}  // namespace assay
