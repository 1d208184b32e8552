#include "judge/trial/fault_trials.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace assay {

int smallest_tile(const KernelForm& form) {
  const auto elements = [](std::string_view name) {
    double product = 1, number = 0;
    for (const char c : name) {
      const bool digit = c >= '0' && c <= '9';
      if (!digit && number > 0) product *= std::exchange(number, 0);
      if (digit) number = 10 * number + (c - '0');
    }
    return product * (number > 0 ? number : 1);
  };
  const auto less = [&](std::string_view a, std::string_view b) { return elements(a) < elements(b); };
  return static_cast<int>(std::min_element(form.tiles.begin(), form.tiles.end(), less) - form.tiles.begin());
}

std::span<const Format> fault_precisions_of(const KernelForm& form) {
  static constexpr Format with_units[] = {Format::fp32, Format::bf16, Format::e4m3};
  if (form.sites.find("descale") < 0) return fault_precisions;
  return with_units;
}

std::vector<FaultTrial> fault_trials(const Room& room, const KernelForm& form, std::span<const Style> styles,
                                     std::span<const Format> precisions, std::uint64_t seed, int seq_len) {
  std::vector<FaultTrial> list;
  const int smallest = smallest_tile(form);
  const Shape shape = form.iterative ? Shape{1, seq_len, 4, 2, 8, 6, 0} : Shape{1, seq_len, 4, 2, 16, 12, 0};
  for (const Style style : styles)
    for (const Format precision : precisions)
      for (const Params& params : room.variants()) {
        CaseSpec spec{std::string(room.name), shape, precision, style, seed, params};
        if (!groups_heads(room.inputs())) spec.shape.shared_heads = 0;
        if (form.name == "split_decode") spec.shape.query_len = 3;
        Problem problem = room.make(spec);
        if (!form.obstacle(problem).empty()) continue;
        list.push_back({spec, smallest, std::move(problem)});
      }
  return list;
}

std::string_view name_of(Layer layer) {
  constexpr std::string_view names[] = {"exact", "finite", "element", "rms", "sum"};
  return names[static_cast<int>(layer)];
}

void LayerReport::join(const LayerReport& other) {
  for (std::size_t l = 0; l < std::size(all_layers); ++l) rejects[l] = rejects[l] || other.rejects[l];
  element = std::max(element, other.element);
  rms = std::max(rms, other.rms);
  sum = std::max(sum, other.sum);
}

LayerReport layers_of(const Expected& expected, const std::vector<double>& got, const Judgement& judgement) {
  LayerReport report;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double excess = excess_at(expected, got, i);
    if (!std::isfinite(got[i]) && !std::isinf(expected.sigma[i]))
      report.rejects[static_cast<int>(Layer::finite)] = true;
    else if (expected.sigma[i] == 0)
      report.rejects[static_cast<int>(Layer::exact)] |= !(excess <= 1);
    else
      report.element = std::max(report.element, excess);
  }
  report.rms = judgement.rms_z / (expected.rms_limit + oracle_share);
  report.sum = judgement.worst_sum;
  report.rejects[static_cast<int>(Layer::element)] = !(report.element <= 1);
  report.rejects[static_cast<int>(Layer::rms)] = !(report.rms <= 1);
  report.rejects[static_cast<int>(Layer::sum)] = !(report.sum <= 1);
  return report;
}

}  // namespace assay
