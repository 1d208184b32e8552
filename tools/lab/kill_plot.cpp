#include "tools/lab/kill_plot.hpp"

#include <string>
#include <vector>

#include "reference/core/error.hpp"

namespace assay {
namespace {

struct Kernel {
  std::string name;
  int shown = 0;
  std::vector<int> killed;  ///< by each rule
};

std::vector<Kernel> kernels_of(const KillTable& kills) {
  std::vector<Kernel> kernels;
  for (const MutantRow& row : kills.rows) {
    const std::string name = text(row.room, ' ', row.form);
    if (kernels.empty() || kernels.back().name != name) kernels.push_back({name, 0, std::vector<int>(rule_count())});
    if (row.shown.total() == 0) continue;
    ++kernels.back().shown;
    for (std::size_t rule = 0; rule < rule_count(); ++rule) kernels.back().killed[rule] += row.killed(rule) ? 1 : 0;
  }
  return kernels;
}

/// Blue for all of them, red for none.
std::string style_of(int killed, int shown) {
  const double share = shown == 0 ? 1 : static_cast<double>(killed) / shown;
  return share >= 1      ? "h2"
         : share >= 0.75 ? "h1"
         : share >= 0.5  ? "h0"
         : share >= 0.25 ? "h3"
         : share > 0     ? "h4"
                         : "h5";
}

std::string name_of_rule(std::size_t rule) {
  if (rule == judge_rule) return "assay, by contract";
  return rule == model_rule() ? "assay, by model" : std::string(rivals()[rule - 1].name);
}

}  // namespace

Plot kill_plot(const KillTable& kills) {
  constexpr double width = 58, row_height = 20, top = 24;
  const std::vector<Kernel> kernels = kernels_of(kills);
  std::vector<std::string> names;
  for (const Kernel& kernel : kernels) names.push_back(kernel.name);
  const double left = margin_of(names, 200);
  const double bottom = top + row_height * static_cast<double>(kernels.size());
  Plot plot("kills", "planted faults of which a bit shows, and how many of them each rule kills",
            left + width * static_cast<double>(rule_count()), bottom + 20 + 16 * static_cast<double>(rule_count()));
  for (std::size_t rule = 0; rule < rule_count(); ++rule) {
    plot.words(left + width * (static_cast<double>(rule) + 0.5), top - 7, text(rule), {}, "middle");
    plot.words(left, bottom + 20 + 16 * static_cast<double>(rule), text(rule, ": ", name_of_rule(rule)));
  }
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const double y = top + row_height * static_cast<double>(k);
    plot.words(left - 8, y + 13, kernels[k].name, {}, "end");
    for (std::size_t rule = 0; rule < rule_count(); ++rule) {
      const std::string style = style_of(kernels[k].killed[rule], kernels[k].shown);
      const std::string words = text(kernels[k].killed[rule], '/', kernels[k].shown);
      const double x = left + width * static_cast<double>(rule);
      plot.rect(x, y, width - 2, row_height - 2, style, text(kernels[k].name, ", ", name_of_rule(rule), ": ", words));
      plot.words(x + width / 2 - 1, y + 13, words, style == "h5" ? "dark" : "on", "middle");
    }
  }
  return plot;
}

}  // namespace assay
