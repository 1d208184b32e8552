#include "tools/plots/drift_plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/core/error.hpp"

namespace assay {
namespace {

constexpr double plot_width = 640;

/// Powers of ten around what is drawn.
Scale powers_around(const std::vector<double>& values, double first, double last) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double from = std::floor(std::log10(*low)), to = std::max(std::ceil(std::log10(*high)), from + 1);
  return {std::pow(10.0, from), std::pow(10.0, to), first, last, true};
}

bool drawable(double x) { return std::isfinite(x) && x > 0; }

std::string title_of(const Drift& drift, const DriftSeries& series) {
  std::string title = series.tensor + ": error relative to the exact values, along the tokens";
  if (series.fit) title += text("; law ", name_of(series.fit->best().law), " (line)");
  if (series.has_prediction()) title += text("; upright: not ruled out from the first ", drift.spec.prefix, " tokens");
  if (drift.spec.budget > 0) title += "; dashed: the budget";
  return title;
}

Plot curve_of(const Drift& drift, const DriftSeries& series) {
  Plot plot("drift", title_of(drift, series), plot_width, 280);
  std::vector<double> tokens, errors;
  for (const DriftWindow& w : series.windows.all())
    if (drawable(w.error())) tokens.push_back(std::max(w.position(), 1.0)), errors.push_back(w.error());
  if (errors.empty()) return plot;
  std::vector<double> heights = errors;
  if (drift.spec.budget > 0) heights.push_back(drift.spec.budget);
  if (series.has_prediction())
    for (const double end : {series.low(), series.high()})
      if (drawable(end)) heights.push_back(end);
  const Scale x = powers_around(tokens, 70, plot_width - 24), y = powers_around(heights, 235, 24);
  draw_axes(plot, x, y, "token", "error");
  std::vector<std::pair<double, double>> measured, law;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    measured.emplace_back(x.at(tokens[i]), y.at(errors[i]));
    if (series.fit && drawable(series.fit->best().at(tokens[i])))
      law.emplace_back(x.at(tokens[i]), y.at(series.fit->best().at(tokens[i])));
  }
  plot.curve(measured, "curve"), plot.curve(law, "law");
  if (drift.spec.budget > 0) plot.line(x.first, y.at(drift.spec.budget), x.last, y.at(drift.spec.budget), "limit");
  if (series.has_prediction() && drawable(series.low()) && drawable(series.high()))
    plot.line(x.at(series.ended_at), y.at(series.low()), x.at(series.ended_at), y.at(series.high()), "interval");
  if (drift.first_past && drift.first_past->token > 0 && &series == &drift.series.front()) {  // of outputs
    const double at = x.at(static_cast<double>(drift.first_past->token));
    plot.line(at, y.first, at, y.last, "limit");
    plot.words(at + 4, y.last + 12, text("past the budget at token ", drift.first_past->token), "bad");
  }
  return plot;
}

Plot shares_of(const Drift& drift) {
  constexpr double row = 22;
  std::vector<std::string> names;
  for (const DriftSite& site : drift.sites) names.push_back(text(site.site, " (", name_of(site.format), ")"));
  const double left = margin_of(names, 110);
  Plot plot("sites", "every site alone: its share of the sum of squares", plot_width,
            30 + row * static_cast<double>(drift.sites.size()));
  for (std::size_t i = 0; i < drift.sites.size(); ++i) {
    const DriftSite& site = drift.sites[i];
    const double y = 10 + row * static_cast<double>(i),
                 length = (plot_width - left - 60) * std::clamp(site.share, 0.0, 1.0);
    const std::string& name = names[i];
    const std::string share = fmt::format("{:.1f}%", 100 * site.share);
    plot.words(left - 6, y + 14, name, {}, "end");
    plot.rect(left, y, std::max(1.0, length), row - 4, "bar", name + ' ' + share);
    plot.words(left + length + 6, y + 14, share);
  }
  return plot;
}

}  // namespace

std::vector<Plot> drift_plots(const Drift& drift) {
  std::vector<Plot> plots;
  for (const DriftSeries& series : drift.series) plots.push_back(curve_of(drift, series));
  if (!drift.sites.empty()) plots.push_back(shares_of(drift));
  return plots;
}

}  // namespace assay
