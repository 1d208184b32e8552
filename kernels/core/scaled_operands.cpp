#include "kernels/core/scaled_operands.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include "reference/core/blocks.hpp"

namespace assay::tile {
namespace {

using Units = OperandUnits<double>;
constexpr double largest = 0x1p48;

struct Operand {
  std::string_view site;
  const char* input;
  double Units::*unit;
};
constexpr Operand operands[] = {
    {"Q", "q", &Units::query}, {"K", "k", &Units::key}, {"V", "v", &Units::value}, {"R", "rho", &Units::probe}};

/// The unit in which numbers up to `size` fill the format.
double unit_of(double size, const FormatInfo& format) {
  if (size == 0) return 1;
  const double unit = std::ldexp(1.0, std::ilogb(size) - format.max_exponent);
  return std::clamp(size > unit * format.max_finite ? 2 * unit : unit, 1 / largest, largest);
}

}  // namespace

ScaledOperands::ScaledOperands(const AttentionShape& shape, const Arrays& inputs, const Policy& policy, double scale)
    : inputs_(inputs), units_(static_cast<std::size_t>(shape.kv_heads)) {
  round_in_blocks(policy);
  if (policy.sites.find("descale") < 0) return;
  const auto narrow = [&](std::string_view site) {
    const int at = policy.sites.find(site);
    if (at < 0 || policy.sites.entries[at].by_blocks()) return false;
    return info(policy.sites.entries[at].format).bits == 8;
  };
  for (const auto& [site, input, unit] : operands) {
    if (!narrow(site)) continue;
    const std::vector<double>& data = inputs.at(input).data;
    std::vector<double> sizes(units_.size());
    for (std::size_t i = 0; i < data.size(); ++i) {
      double& size = sizes[i * sizes.size() / data.size()];
      size = std::max(size, std::fabs(data[i]));
    }
    for (std::size_t h = 0; h < sizes.size(); ++h) units_[h].*unit = unit_of(sizes[h], info(policy.sites.at(site)));
  }
  // A weight of one becomes the largest power of two of the format.
  double weight = std::numeric_limits<double>::infinity();
  for (const std::string_view site : {"P", "P1", "P2"})
    if (narrow(site)) weight = std::min(weight, std::ldexp(1.0, info(policy.sites.at(site)).max_exponent));
  for (Units& u : units_) {
    if (std::isfinite(weight)) u.weight = weight;
    // Where a bandwidth is next to beyond its format's range: the product with a masked score of -inf would be NaN.
    if (narrow("Q"))
      while (scale * u.query * u.key < info(Format::fp32).min_positive && u.query < largest) u.query *= 2;
  }
  for (const auto& [site, input, unit] : operands) {
    if (!narrow(site)) continue;
    if (!scaled_) scaled_ = inputs;
    std::vector<double>& data = scaled_->at(input).data;
    for (std::size_t i = 0; i < data.size(); ++i) data[i] /= units_[i * units_.size() / data.size()].*unit;
  }
}

void ScaledOperands::round_in_blocks(const Policy& policy) {
  constexpr std::uint64_t first_stream = 64;  // counted from the end, behind those of launches
  for (std::size_t s = 0; s < std::size(operands); ++s) {
    const int at = policy.sites.find(operands[s].site);
    if (at < 0 || !policy.sites.entries[at].by_blocks()) continue;
    const SiteTable::Entry& site = policy.sites.entries[at];
    const Array& exact = inputs_.at(operands[s].input);
    if (exact.data.empty()) continue;
    if (!scaled_) scaled_ = inputs_;
    std::vector<double>& data = scaled_->at(operands[s].input).data;
    const std::size_t axes = exact.shape.size(), cols = static_cast<std::size_t>(exact.shape.back()),
                      rows = axes < 2 ? 1 : static_cast<std::size_t>(exact.shape[axes - 2]);
    RandomBits random{RandomBits{policy.seed}.at(~(first_stream + s)), 0};
    for (std::size_t first = 0; first < data.size(); first += rows * cols)
      round_by_blocks(data.data() + first, rows, cols, {site.format, site.blocks}, policy.rounding, random);
    if (policy.stats == nullptr) continue;
    SiteStats& stats = (*policy.stats)[std::string(site.view())];
    for (std::size_t i = 0; i < data.size(); ++i) stats.add(exact.data[i], data[i]);
  }
}

}  // namespace assay::tile
