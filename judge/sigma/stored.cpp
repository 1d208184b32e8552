#include "judge/sigma/stored.hpp"

#include <algorithm>
#include <cmath>

#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// The largest effects of rounding one element to a dtype.
struct Storage {
  double variance = 0;  ///< added to sigma^2
  double off = 0;       ///< what the truth is moved by, with its sign
  double flip = 0;      ///< how much more it may be moved by, together with others, if the truth is as good as a tie
};

Storage storage_of(const Expected& e, std::size_t i, double spacing_there, Format dtype) {
  const double off = (round_to(e.value[i].hi, dtype, Overflow::ieee) - e.value[i].hi) - e.value[i].lo;
  // Beyond the dtype's largest number an answer is infinite, and the judge's to fail.
  Storage storage{spacing_there * spacing_there / 12, std::isfinite(off) ? off : 0, 0};
  storage.variance = std::max(storage.variance, storage.off * storage.off);
  // A kernel whose error is certainly below half a spacing rounds as the truth does, but near a tie to either side.
  const double half = spacing_there / 2, error = e.reach[i] * e.sigma[i] + e.bound[i];
  if (error < half && half - std::fabs(storage.off) <= error) storage.flip = spacing_there;
  return storage;
}

/// Limits of sums over slices, the weights being what they were: roundings are independent, but numbers that are equal
/// round alike.
void allow_in_sums(const Layout& layout, const std::vector<double>& weight, const std::vector<Storage>& storage,
                   std::vector<SliceSum>& sums) {
  if (sums.empty()) return;
  std::vector<double> variance(storage.size()), off(storage.size()), flips(storage.size());
  for (std::size_t i = 0; i < storage.size(); ++i) {
    variance[i] = weight[i] * storage[i].variance;
    off[i] = storage[i].off, flips[i] = std::copysign(storage[i].flip, weight[i]);
  }
  const std::vector<double> variances = slice_sums(layout, weight, variance), offs = slice_sums(layout, weight, off),
                            all = slice_sums(layout, weight, flips);
  for (std::size_t s = 0; s < sums.size(); ++s) {
    SliceSum& sum = sums[s];
    const double lean = std::fabs(offs[s]) + all[s];
    sum.sigma = std::sqrt(sum.sigma * sum.sigma + variances[s]);
    // The lean is certain and no multiple of it is allowed.
    if (lean > 0) sum.sigma += lean / sum.reach;
  }
}

}  // namespace

Format narrowest_of(std::span<const Format> formats, const std::vector<double>& values) {
  Format stored = Format::fp64;
  for (const Format format : formats)
    if (info(format).mantissa_bits < info(stored).mantissa_bits &&
        std::all_of(values.begin(), values.end(), [=](double x) { return representable(format, x); }))
      stored = format;
  return stored;
}

Format stored_format(const std::vector<double>& values) {
  constexpr Format formats[] = {Format::bf16, Format::fp16, Format::tf32, Format::fp32};
  return narrowest_of(formats, values);
}

bool is_narrower(Format format, Format than) {
  const FormatInfo a = info(format), b = info(than);
  return a.mantissa_bits < b.mantissa_bits || a.max_finite < b.max_finite || a.min_positive > b.min_positive;
}

bool allow_storage(Expected& e, Format dtype) {
  if (!is_narrower(dtype, e.stored)) return false;
  std::vector<Storage> storage(e.value.size());
  bool any = false;
  for (std::size_t i = 0; i < e.value.size(); ++i) {
    const double x = e.value[i].hi, sigma = e.sigma[i];
    if (std::isinf(sigma)) continue;  // the contract's own roundings overflow: nothing is known
    const double size = std::sqrt(x * x + sigma * sigma), s = spacing(dtype, size);
    if (sigma > 0 && s <= spacing(e.stored, size)) continue;
    if (sigma == 0) {
      if (e.value[i].lo == 0 && representable(dtype, x)) continue;
      e.bound[i] += s / 2, any = true;
      continue;
    }
    storage[i] = storage_of(e, i, s, dtype), any = true;
  }
  if (!any) return false;
  allow_in_sums(e.layout, e.weight, storage, e.sums);
  allow_in_sums(e.layout, e.gain_weight, storage, e.gains);
  for (std::size_t i = 0; i < storage.size(); ++i) {
    if (storage[i].variance == 0) continue;
    const double before = e.sigma[i] * e.sigma[i], total = before + storage[i].variance;
    e.sigma[i] = std::sqrt(total);
    if (e.freedom.empty()) continue;
    // Satterthwaite: only what was known before is uncertain.
    e.freedom[i] *= (total / before) * (total / before);
    e.reach[i] = equivalent_sigmas(e.known_reach, e.freedom[i]);
  }
  e.stored = dtype;
  if (is_narrower(dtype, e.ulp_format)) e.ulp_format = dtype;
  return true;
}

}  // namespace assay
