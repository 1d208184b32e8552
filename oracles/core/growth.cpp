#include "oracles/core/growth.hpp"

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

int constants_of(Law law) { return law == Law::bounded ? 1 : has_time(law) ? 3 : 2; }

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
  Fit(const std::vector<GrowthPoint>& points, bool walks)
      : points_(points), logs_(points.size()), g_(points.size()), carried_(points.size()), scale_(points.size(), 1) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      logs_[i] = logarithm(points[i].error);
      if (i == 0 || !walks) continue;
      carried_[i] = points[i - 1].tokens / points[i].tokens;
      const double rest = 1 - carried_[i] * carried_[i];
      scale_[i] = 1 / std::sqrt(rest), determinant_ += logarithm(rest);
    }
  }

  /// Twice the negative logarithm of the law's evidence. Points are known to a thousandth at best: laws that are nearer
  /// than that are equally near.
  double criterion(const Growth& fit) const {
    const auto n = static_cast<double>(points_.size());
    return n * logarithm(squares_ / n + 1e-6) + determinant_ + constants_of(fit.law) * logarithm(n);
  }

  Growth of(Law law) {
    Growth fit{.law = law};
    const double last = points_.back().tokens, first = points_.front().tokens;
    double share = 0;
    if (has_time(law)) {
      // What has not begun to saturate is a root or a line. What grows by less than e over the points is a line, and
      // from fp64's last bit to the whole value is e^37.
      const bool saturates = law != Law::exponential;
      const double low = tile::lg2(saturates ? first : last / 37), high = tile::lg2(saturates ? last / 3 : last);
      fit.time = tile::ex2(
          least(low, high, 25, [&](double time) { return best_share(law, tile::ex2(time), 25).second; }).first);
    }
    if (law == Law::bounded)
      std::fill(g_.begin(), g_.end(), 0.0), squares_ = residual(0);
    else
      std::tie(share, squares_) = best_share(law, fit.time, 97);
    // (1 - m) + m g / g(last), times a scale.
    const double m = part(share), scale = exponential(2 * offset_);
    if (law == Law::bounded) {
      fit.floor = std::sqrt(scale);
    } else {
      fit.floor = std::sqrt(scale * (1 - m));
      fit.rise = std::sqrt(scale * m / growth(law, last / fit.time));
    }
    double squares = 0;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const double off = logs_[i] - logarithm(fit.at(points_[i].tokens));
      squares += off * off;
    }
    fit.scatter = std::sqrt(squares / static_cast<double>(points_.size()));
    return fit;
  }

 private:
  static double part(double share) { return 1 / (1 + tile::ex2(-share)); }

  std::pair<double, double> best_share(Law law, double time, int count) {
    const double last = growth(law, points_.back().tokens / time);
    for (std::size_t i = 0; i < points_.size(); ++i) g_[i] = growth(law, points_[i].tokens / time) / last;
    const auto found = least(-48, 48, count, [&](double share) { return residual(part(share)); });
    residual(part(found.first));  // leaves its offset
    return found;
  }

  /// Sum of whitened squares at the best scale, whose logarithm is left in offset_.
  double residual(double m) {
    double squares = 0, products = 0, ones = 0, before = 0;
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      const double off = logs_[i] - logarithm((1 - m) + m * g_[i]) / 2;
      const double fresh = (off - carried_[i] * before) * scale_[i], one = (1 - carried_[i]) * scale_[i];
      squares += fresh * fresh, products += fresh * one, ones += one * one, before = off;
    }
    offset_ = products / ones;
    return std::max(0.0, squares - products * offset_);
  }

  const std::vector<GrowthPoint>& points_;
  std::vector<double> logs_, g_, carried_, scale_;
  double offset_ = 0, squares_ = 0, determinant_ = 0;
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
  for (const Growth& g : laws)
    if (g.probability >= fair_probability) low = std::min(low, g.at(tokens));
  return low;
}

double GrowthFit::high(double tokens) const {
  double high = best().at(tokens);
  for (const Growth& g : laws)
    if (g.probability >= fair_probability) high = std::max(high, g.at(tokens));
  return high;
}

std::optional<GrowthFit> fit_growth(std::span<const GrowthPoint> points) {
  std::vector<GrowthPoint> kept;
  for (const GrowthPoint& p : points)
    if (p.error > 0 && std::isfinite(p.error)) kept.push_back(p);
  if (kept.size() < fewest_growth_points) return std::nullopt;
  Fit independent(kept, false), walk(kept, true);
  GrowthFit result;
  std::vector<std::pair<double, double>> criteria;
  double best = infinite, sum = 0;
  for (const Law law : all_laws) {
    const Growth a = independent.of(law), b = walk.of(law);
    criteria.emplace_back(independent.criterion(a), walk.criterion(b));
    result.laws.push_back(criteria.back().first <= criteria.back().second ? a : b);
    best = std::min({best, criteria.back().first, criteria.back().second});
  }
  for (std::size_t i = 0; i < criteria.size(); ++i) {
    const auto& [a, b] = criteria[i];
    sum += result.laws[i].probability = exponential((best - a) / 2) + exponential((best - b) / 2);
  }
  for (Growth& g : result.laws) g.probability /= sum;
  std::stable_sort(result.laws.begin(), result.laws.end(),
                   [](const Growth& a, const Growth& b) { return a.probability > b.probability; });
  return result;
}

}  // namespace assay
