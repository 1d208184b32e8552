#pragma once
// How far a correct kernel spreads around its own exact run: sigma per element, from draws with randomised rounding.
// docs/judge-derivation.md derives everything here.
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "oracles/core/room.hpp"
#include "reference/core/format.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

/// A tensor as the judge sees it: vectors are one column, a number is one element.
struct Layout {
  int heads = 1, rows = 1, cols = 1;
  std::size_t size() const {
    return static_cast<std::size_t>(heads) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  }
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// The layout of [H][T][d] and [H][T] with a head axis, of [T][d], [T] and [] without. The last one of more axes has
/// the columns, and all indices of those before it together are rows.
Layout layout_of(const std::vector<int>& shape, bool head_axis);

/// Runs of a kernel, each as long as the others. They are kept elsewhere.
class Runs {
 public:
  Runs(const std::vector<std::vector<double>>& runs) : list_(runs.begin(), runs.end()) {}
  Runs(std::vector<std::span<const double>> runs) : list_(std::move(runs)) {}

  std::size_t size() const { return list_.size(); }
  std::span<const double> operator[](std::size_t k) const { return list_[k]; }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  std::vector<std::span<const double>> list_;
};

/// The answer of a kernel in which nothing rounds, in doubles, and where it is to more digits, if that is known.
class ExactRun {
 public:
  ExactRun(std::vector<double> value, std::vector<HiLo> located = {})
      : value_(std::move(value)), kept_(std::move(located)), located_(kept_) {}
  /// The truth itself, which is kept elsewhere.
  static ExactRun at(std::span<const HiLo> truth) {
    ExactRun exact{std::vector<double>()};
    exact.located_ = truth;
    return exact;
  }
  ExactRun(ExactRun&&) = default;
  ExactRun(const ExactRun&) = delete;
  ExactRun& operator=(ExactRun&&) = delete;
  ExactRun& operator=(const ExactRun&) = delete;
  ~ExactRun() = default;

  double value(std::size_t i) const { return value_.empty() ? located_[i].hi : value_[i]; }
  bool is_located() const { return !located_.empty(); }
  double distance(double x, std::size_t i) const {
    return located_.empty() ? x - value_[i] : (x - located_[i].hi) - located_[i].lo;
  }

 private:
  std::vector<double> value_;
  std::vector<HiLo> kept_;
  std::span<const HiLo> located_;
};

/// The spread of one tensor in the draws.
struct Spread {
  std::vector<double> sigma;    ///< standard deviation of a correct kernel's error
  std::vector<double> freedom;  ///< degrees of freedom with which the draws know sigma
  double independent = 0;       ///< how many independent elements a mean square over the tensor is worth
  double draws = 0;             ///< how many; of a number with terms, how many without them know its sigma as well
  std::vector<double> drawn =
      {};              ///< the part of sigma^2 that the draws scatter by; the rest is bias and last rounding
  double excess = 1;   ///< the true variance in units of sigma^2, in the mean over elements and over what it may be
  double doubled = 2;  ///< the draws' variance in units of that of a kernel's own roundings
};

/// The guess for a head's x[R][C]: the mean or, `separable`, (row mean) * (column mean) / (mean).
void guess_of_head(const double* x, std::size_t R, std::size_t C, bool separable, double* __restrict guess);

/// Distance between neighbours of `format` at x; its smallest positive number at and near zero.
double spacing(Format format, double x);

/// Whether x is a number of `format`.
bool representable(Format format, double x);

/// `draws` are the outputs of one kernel under jittered rounding with different seeds, at least three; `exact` is the
/// same kernel with no rounding. Elements are finally rounded to `stored`, unless the draws already lie on that grid.
/// `doubled` is Spread::doubled: 2 of jittered rounding, 1 of draws that spread as kernels do. `terms`: of a tensor of
/// one number, the terms of independent errors that every draw has added up, or none.
Spread spread_of(const Runs& draws, const ExactRun& exact, const Layout& layout, Format stored, double doubled = 2,
                 const std::vector<std::vector<double>>& terms = {}, int threads = 1);

/// An element's distance, or its root mean square over the four rows before and after it in its column if that is
/// larger.
double with_neighbours(const std::vector<double>& distances, const Layout& layout, std::size_t element);

/// `witness` is what a kernel that keeps the contract answers. Where it is further from `exact` than draws allow of any
/// kernel, draws are not all that rounding does: then sigma becomes at least that distance, of the element and of its
/// neighbours, and at least what the tensor's typical element asks for, and the root mean square of distance / sigma
/// before that is returned; else 0. An element that no draw moves and the witness does has that distance for its sigma
/// in any case.
double widen(Spread& spread, const std::vector<double>& witness, const ExactRun& exact, const Layout& layout,
             double sigmas, double false_alarm_rate);

/// The multiple of an estimated standard deviation that is exceeded as rarely as `sigmas` of a known one, which is
/// estimated with `freedom` degrees of freedom: `sigmas` for many, more for few.
double equivalent_sigmas(double sigmas, double freedom);

/// The limit on the root mean square of error/sigma at that false-alarm rate.
double rms_limit(const Spread& spread, double false_alarm_rate);

}  // namespace assay
