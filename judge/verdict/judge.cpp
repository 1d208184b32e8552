#include "judge/verdict/judge.hpp"

#include <algorithm>
#include <array>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>

#include "files/in_words.hpp"
#include "oracles/multiword/parallel_sums.hpp"
#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

std::size_t at(const Layout& n, int head, int row, int col) {
  return (static_cast<std::size_t>(head) * static_cast<std::size_t>(n.rows) + static_cast<std::size_t>(row)) *
             static_cast<std::size_t>(n.cols) +
         static_cast<std::size_t>(col);
}

bool always(const Layout&) { return true; }
bool has_rows(const Layout& n) { return n.rows > 1; }
bool has_cols(const Layout& n) { return n.cols > 1; }
bool has_heads(const Layout& n) { return n.heads > 1; }
bool is_square(const Layout& n) { return n.rows > 1 && n.rows == n.cols; }

using Tensor1 = std::vector<double>;

/// The corruption that every tensor must show whose values stand out of a correct kernel's errors.
constexpr std::string_view zeros = "zeros";

constexpr Corruption all_corruptions[] = {
    {zeros, "nothing was computed", always, [](const Tensor1&, const Layout&, int, int, int) { return 0.0; }},
    {"sign_flip", "every element negated", always,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) { return -t[at(n, h, r, c)]; }},
    {"one_nan", "the middle element is NaN", always,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) {
       const std::size_t i = at(n, h, r, c);
       return i == t.size() / 2 ? not_a_number : t[i];
     }},
    {"rows_shifted", "every row holds the one before it", has_rows,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) { return t[at(n, h, (r + n.rows - 1) % n.rows, c)]; },
     false, false, true},
    {"rows_reversed", "last row first", has_rows,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) { return t[at(n, h, n.rows - 1 - r, c)]; }, false,
     false, true},
    {"last_row_stale", "the last row repeats the one before it", has_rows,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) { return t[at(n, h, std::min(r, n.rows - 2), c)]; },
     true, false, true},
    {"last_row_zero", "the last row was not written", has_rows,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) { return r < n.rows - 1 ? t[at(n, h, r, c)] : 0; },
     true},
    {"previous_tile", "the last tile of (at most 64) rows repeats the one before it", has_rows,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) {
       const int tile = std::min(64, n.rows / 2), first = (n.rows - 1) / tile * tile;
       return t[at(n, h, r < first ? r : r - tile, c)];
     },
     false, false, true},
    {"columns_rotated", "every column holds the one before it", has_cols,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) { return t[at(n, h, r, (c + n.cols - 1) % n.cols)]; }},
    {"last_column_zero", "the last column was not written", has_cols,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) { return c < n.cols - 1 ? t[at(n, h, r, c)] : 0; }},
    {"transposed", "rows and columns of every head exchanged", is_square,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) { return t[at(n, h, c, r)]; }, false, true},
    {"heads_swapped", "the first two heads exchanged", has_heads,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) { return t[at(n, h < 2 ? 1 - h : h, r, c)]; }, false,
     true},
    {"last_head_zero", "the last head was not written", has_heads,
     [](const Tensor1& t, const Layout& n, int h, int r, int c) { return h < n.heads - 1 ? t[at(n, h, r, c)] : 0; }},
};

/// Whether f(head, row, col, index) holds of an element; by one thread asked in their order, up to the first of which
/// it does.
template <class F>
bool any_element(const Layout& n, int threads, F&& f) {
  const auto C = static_cast<std::size_t>(n.cols), R = static_cast<std::size_t>(n.rows);
  return words::first_in_parallel(
             n.size() / C, threads,
             [&](std::size_t row) {
               for (std::size_t c = 0; c < C; ++c)
                 if (f(static_cast<int>(row / R), static_cast<int>(row % R), static_cast<int>(c), row * C + c))
                   return true;
               return false;
             })
      .has_value();
}

/// Whether an element is infinite, as it must or may be: its dtype holds no number of that size.
bool is_beyond_dtype(const Expected& e, double got, std::size_t i) {
  if (!std::isinf(got)) return false;
  const double may_be_off = std::copysign(e.reach[i] * e.sigma[i] + e.bound[i], got);
  return round_to(e.value[i].hi + may_be_off, e.stored, Overflow::ieee) == got;
}

double error_at(const Expected& e, double got, std::size_t i) {
  return is_beyond_dtype(e, got, i) ? 0 : (got - e.value[i].hi) - e.value[i].lo;
}

double excess_of_size(const Expected& e, double error, std::size_t i) {
  const double limit = e.reach[i] * e.sigma[i] + e.bound[i];
  const double excess = limit > 0 ? error / limit : (error == 0 ? 0 : infinite);
  return std::isnan(excess) ? infinite : excess;
}
double excess_of(const Expected& e, double got, std::size_t i) {
  return excess_of_size(e, std::fabs(error_at(e, got, i)), i);
}

double z_of_size(const Expected& e, double error, std::size_t i) {
  const double z = e.sigma[i] > 0 ? error / e.sigma[i] : (error <= e.bound[i] ? 0 : infinite);
  return std::isnan(z) ? infinite : z;
}

/// The first element that is no number and ought to be one.
std::optional<std::size_t> not_a_number_at(const Expected& e, const std::vector<double>& got, int threads = 1) {
  return words::first_in_parallel(
      got.size(), threads, [&](std::size_t i) { return !std::isfinite(got[i]) && !is_beyond_dtype(e, got[i], i); });
}

/// The first element of which the contract's own roundings overflow.
std::optional<std::size_t> overflow_at(const Expected& e, int threads = 1) {
  return words::first_in_parallel(e.sigma.size(), threads, [&](std::size_t i) { return std::isinf(e.sigma[i]); });
}

struct Worst {
  double value = -1;
  std::size_t at = 0;
  void see(double x, std::size_t i) {
    if (x > value || (std::isnan(x) && !std::isnan(value))) value = x, at = i;
  }
  void operator+=(const Worst& later) { see(later.value, later.at); }
};

/// The elements that may spread at all.
std::size_t spreading(const Expected& e) {
  return e.sigma.size() - static_cast<std::size_t>(std::count(e.sigma.begin(), e.sigma.end(), 0.0));
}

/// Root mean square of error / sigma over these, of which there are so many.
double rms_z(const Expected& e, std::size_t spreading, const std::vector<double>& got, int threads) {
  const double squares = words::sum_of_blocks(got.size(), threads, [&](std::size_t first, std::size_t last) {
    double sum = 0;
    for (std::size_t i = first; i < last; ++i) {
      const double z = e.sigma[i] == 0 ? 0 : z_at(e, got, i);
      sum += z * z;
    }
    return sum;
  });
  return spreading == 0 ? 0 : std::sqrt(squares / static_cast<double>(spreading));
}

/// The sums over slices of one tensor's errors, against limits that its answer does not change.
class Sums {
 public:
  Sums(const Expected& e, const std::vector<double>& weight, const std::vector<SliceSum>& sums, int threads)
      : e_(e), weight_(weight), sums_(sums), threads_(threads) {
    if (sums.empty()) return;
    // The oracle's bound is on top.
    limits_ =
        sums_of<1>(e.bound.size(), [&](std::size_t i) { return std::array{std::fabs(weight[i]) * e.bound[i]}; })[0];
    limits_.resize(sums.size());
    for (std::size_t s = 0; s < limits_.size(); ++s) limits_[s] += sums[s].reach * sums[s].sigma;
  }

  /// Sums of errors, nearer to zero by what the summation itself may have rounded: errors that cancel each other leave
  /// no more than that.
  std::vector<double> of_errors(const std::vector<double>& got) const {
    if (limits_.empty()) return {};
    auto [sums, terms] = sums_of<2>(got.size(), [&](std::size_t i) {
      const double error = weight_[i] * error_at(e_, got[i], i);
      return std::array{error, std::fabs(error)};
    });
    sums.resize(limits_.size());
    const double rounding = static_cast<double>(e_.value.size() + 4) * unit_roundoff(Format::fp64);
    for (std::size_t s = 0; s < sums.size(); ++s)
      sums[s] = std::copysign(std::max(std::fabs(sums[s]) - rounding * terms[s], 0.0), sums[s]);
    return sums;
  }

  /// The one that is the most of its limit; -1 where none is looked at.
  Worst worst(const std::vector<double>& sums) const {
    Worst worst;
    for (std::size_t s = 0; s < sums.size(); ++s)
      worst.see(limits_[s] > 0 ? std::fabs(sums[s]) / limits_[s] : (sums[s] == 0 ? 0 : infinite), s);
    return worst;
  }

  /// The smallest gain that takes one of them beyond its limit.
  double smallest_gain(const std::vector<double>& sums, const std::vector<double>& got) const {
    double gain = infinite;
    if (limits_.empty()) return gain;
    const std::vector<double> sizes = sizes_of([&](std::size_t i) { return got[i]; });
    for (std::size_t s = 0; s < sums.size(); ++s)
      if (sizes[s] != 0)
        gain = std::min(gain, (limits_[s] - std::copysign(1.0, sizes[s]) * sums[s]) / std::fabs(sizes[s]));
    return gain;
  }

  std::string name(std::size_t slice) const { return sums_[slice].slice.name(); }

  /// The sums over slices of weighted values: of(i).
  template <class F>
  std::vector<double> sizes_of(F&& of) const {
    return sums_of<1>(e_.value.size(), [&](std::size_t i) { return std::array{weight_[i] * of(i)}; })[0];
  }

 private:
  /// The sums over slices of K terms that the first `count` elements have; of those without weight, nothing.
  template <std::size_t K, class F>
  std::array<std::vector<double>, K> sums_of(std::size_t count, F&& terms) const {
    return slice_sums<K>(e_.layout, weight_.empty() ? 0 : count, threads_,
                         [&](std::size_t i) { return weight_[i] == 0 ? std::array<double, K>{} : terms(i); });
  }

  const Expected& e_;
  const std::vector<double>& weight_;
  const std::vector<SliceSum>& sums_;
  int threads_;
  std::vector<double> limits_;
};

/// Sums of errors in units of sigma, and of the values with a gain; and how many elements may spread.
struct AllSums {
  Sums leans, gains;
  std::size_t spreading;
  int threads;
  AllSums(const Expected& e, int some)
      : leans(e, e.weight, e.sums, some),
        gains(e, e.gain_weight, e.gains, some),
        spreading(assay::spreading(e)),
        threads(some) {}
};

/// The rule itself, as the corruptions meet it. Written so that NaN is rejected.
bool accepts(const Expected& e, const AllSums& all, const std::vector<double>& got, double times = 1) {
  const auto is_within = [&](std::size_t i) { return excess_at(e, got, i) <= times; };
  if (!words::all_in_parallel(got.size(), all.threads, is_within)) return false;
  const auto within = [&](const Sums& sums) { return sums.worst(sums.of_errors(got)).value <= times; };
  return rms_z(e, all.spreading, got, all.threads) <= times * (e.rms_limit + oracle_share) && within(all.leans) &&
         within(all.gains);
}

/// Whether the truth is told from its own corruption: a symmetric matrix is right when it is transposed, and equal
/// heads are when they are exchanged.
bool changes_truth(const Expected& e, const Corruption& c) {
  Tensor1 hi, lo, bound = e.bound;
  for (const HiLo& value : e.value) hi.push_back(value.hi), lo.push_back(value.lo);
  for (Tensor1* part : {&hi, &lo, &bound}) *part = c.applied(*part, e.layout);
  for (std::size_t i = 0; i < hi.size(); ++i)
    if (!(std::fabs((hi[i] - e.value[i].hi) + (lo[i] - e.value[i].lo)) <= std::fabs(bound[i]) + e.bound[i]))
      return true;
  return false;
}

/// Whether a copy changes a part of the tensor in which something is to be seen: zeros there would be beyond the limits
/// of an element or, of that part alone, of the root mean square.
bool changes_what_is_seen(const Expected& e, const std::vector<double>& got, const std::vector<double>& copy) {
  double squares = 0, count = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (copy[i] == got[i]) continue;
    const double size = std::fabs(e.value[i].hi);
    if (!(size <= e.reach[i] * e.sigma[i] + e.bound[i])) return true;
    if (e.sigma[i] > 0) squares += size / e.sigma[i] * (size / e.sigma[i]), ++count;
  }
  return count > 0 && !(std::sqrt(squares / count) <= e.rms_limit + oracle_share);
}

/// Measurements of neighbours, element by element.
struct Measured {
  Worst error, ulps, z, excess;
  double squares = 0;                            ///< of errors
  std::size_t beyond = 0;                        ///< their limits
  double bound_over_sigma = 0;                   ///< the largest
  double gain = infinite;                        ///< the smallest that takes one that may spread beyond its limit
  double xx = 0, xz = 0, zz = 0, spreading = 0;  ///< sums over those, x and z being the number and its error over sigma

  void see(const Expected& e, double got, double typical, std::size_t i) {
    const double off = error_at(e, got, i), size = std::fabs(off), of_sigma = z_of_size(e, size, i),
                 of_limit = excess_of_size(e, size, i);
    squares += off * off;
    error.see(size, i), z.see(of_sigma, i), excess.see(of_limit, i);
    ulps.see(size / spacing(e.ulp_format, std::max(std::fabs(e.value[i].hi), typical)), i);
    beyond += of_limit <= 1 ? 0 : 1;
    const double sigma = e.sigma[i];
    if (sigma > 0) bound_over_sigma = std::max(bound_over_sigma, e.bound[i] / sigma);
    if (sigma == 0) return;  // any gain shows there, if it does not round away
    const double room = e.reach[i] * sigma + e.bound[i] - (got > 0 ? off : -off), x = got / sigma;
    if (got != 0) gain = std::min(gain, room / std::fabs(got));
    xx += x * x, xz += x * (off / sigma), zz += of_sigma * of_sigma, ++spreading;
  }
  void operator+=(const Measured& later) {
    error += later.error, ulps += later.ulps, z += later.z, excess += later.excess;
    squares += later.squares, beyond += later.beyond;
    bound_over_sigma = std::max(bound_over_sigma, later.bound_over_sigma), gain = std::min(gain, later.gain);
    xx += later.xx, xz += later.xz, zz += later.zz, spreading += later.spreading;
  }
  double rms_z() const { return spreading == 0 ? 0 : std::sqrt(zz / spreading); }
  /// The smallest g > 0 at which numbers (1 + g) leave the limit of some element that may spread, or of the root mean
  /// square: there the sum of (z + g x)^2 is as many times `limit`^2.
  double smallest_gain(double limit) const {
    const double rest = spreading * limit * limit - zz;
    return xx > 0 && rest >= 0 ? std::min(gain, (std::sqrt(xz * xz + xx * rest) - xz) / xx) : gain;
  }
};

/// Measures both kinds of sums; the smallest gain that takes one of them beyond its limit.
double measure_sums(const Expected& e, const AllSums& all, const std::vector<double>& got, Judgement& j) {
  const std::vector<double> leans = all.leans.of_errors(got), gains = all.gains.of_errors(got);
  if (const Worst sum = all.leans.worst(leans); sum.value >= 0)
    j.worst_sum = sum.value, j.worst_sum_slice = all.leans.name(sum.at);
  if (const Worst sum = all.gains.worst(gains); sum.value >= 0) {
    const double size = all.gains.sizes_of([&](std::size_t i) { return e.value[i].hi; })[sum.at];
    j.worst_gain = sum.value, j.worst_gain_slice = all.gains.name(sum.at);
    j.gain = size > 0 ? gains[sum.at] / size : 0;
  }
  return std::min(all.leans.smallest_gain(leans, got), all.gains.smallest_gain(gains, got));
}

/// Sets the verdict and the reason from the measurements; `excess`: of the worst element.
void decide(const Expected& e, const std::vector<double>& got, const Worst& excess, int threads, Judgement& j) {
  const auto at = [&e](std::size_t i) {
    const std::string index = e.place ? e.place(i) : place(e.shape, i);
    return index.empty() ? "it" : index;  // a number of no axes has none
  };
  const auto set = [&j](Verdict verdict, const std::string& reason) { j.verdict = verdict, j.reason = reason; };
  if (const std::optional<std::size_t> i = overflow_at(e, threads))
    return set(Verdict::unsupported, text(at(*i), ": the contract's own roundings overflow"));
  if (const std::optional<std::size_t> i = not_a_number_at(e, got, threads)) {
    j.not_finite = true;
    return set(Verdict::fail, text(at(*i), " is ", unsigned_nan(got[*i]), ", not a finite number"));
  }
  if (const std::optional<std::size_t> i = undecided_at(e, threads))
    return set(Verdict::undecided,
               text(at(*i), ": the oracle may be off by ", e.bound[*i], ", more than 1% of sigma = ", e.sigma[*i]));
  if (!(excess.value <= 1) && e.sigma[excess.at] == 0)
    return set(Verdict::fail, text(at(excess.at), " is ", got[excess.at], ", expected ", e.value[excess.at].hi,
                                   ": nothing of it is rounded, in any order"));
  if (!(excess.value <= 1))
    return set(Verdict::fail, text(at(excess.at), " is ", got[excess.at], ", expected ", e.value[excess.at].hi,
                                   ": off by ", std::fabs(error_at(e, got[excess.at], excess.at)), ", allowed ",
                                   e.reach[excess.at] * e.sigma[excess.at] + e.bound[excess.at]));
  if (!(j.rms_z <= e.rms_limit + oracle_share))
    return set(Verdict::fail, text("root mean square of error / sigma is ", j.rms_z, ", limit ", e.rms_limit));
  if (!(j.worst_sum <= 1))
    return set(Verdict::fail, text("errors of ", j.worst_sum_slice, " lean to one side: their sum is ", j.worst_sum,
                                   " times its limit"));
  if (!(j.worst_gain <= 1))
    return set(Verdict::fail,
               text("values of ", j.worst_gain_slice, " are ", 100 * std::fabs(j.gain), "% too ",
                    j.gain > 0 ? "large" : "small", ": ", j.worst_gain, " times what errors may make them"));
  const auto accepts = [&j](std::string_view name) {
    return std::find(j.accepted_corruptions.begin(), j.accepted_corruptions.end(), name) !=
           j.accepted_corruptions.end();
  };
  if (accepts(zeros))
    return set(Verdict::unseen, "nothing to see: a correct kernel's errors are as large as its values");
  if (!j.accepted_corruptions.empty()) {
    std::string names;
    for (const std::string_view name : j.accepted_corruptions) names += (names.empty() ? "" : ", ") + std::string(name);
    return set(Verdict::vacuous, text("would also have passed with ", names));
  }
  set(Verdict::pass, "");
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  constexpr std::string_view names[] = {"PASS", "FAIL", "UNSEEN", "VACUOUS", "UNDECIDED", "UNSUPPORTED", "ERROR"};
  return names[static_cast<int>(verdict)];
}

std::string_view summary_of(Verdict verdict) {
  constexpr std::string_view summaries[] = {"what a correct kernel could have answered",
                                            "what no correct kernel answers",
                                            "nothing to see: a correct kernel's errors are as large as the values",
                                            "within its limits, but so would a wrong tensor have been",
                                            "the oracle is not sharp enough to say",
                                            "the kernel does not take this problem",
                                            "the kernel or the oracle threw"};
  return summaries[static_cast<int>(verdict)];
}

Limits limits_of(double rate, std::size_t tensors, std::size_t elements) {
  const double of_element = rate / 3 / static_cast<double>(elements);
  const double sigmas = quantile(complement(boost::math::normal_distribution<double>(), of_element / 2));
  return {std::max(element_sigmas, sigmas), rate / 3 / static_cast<double>(tensors)};
}

std::vector<double> gain_weights(const Expected& e, int threads) {
  std::vector<double> weights(e.value.size());
  words::for_each_in_parallel(weights.size(), threads, [&](std::size_t i) {
    const double value = e.value[i].hi, sigma = e.sigma[i];
    // A value that is lost beside its errors shows no gain.
    const double weight =
        std::fabs(value) > unit_roundoff(Format::fp64) * sigma && sigma > 0 ? value / sigma / sigma : 0;
    weights[i] = std::isfinite(weight) ? weight : 0;
  });
  return weights;
}

Expected with_limits(Expected expected, double times) {
  for (double& reach : expected.reach) reach *= times;
  for (auto* sums : {&expected.sums, &expected.gains})
    for (SliceSum& sum : *sums) sum.reach *= times;
  expected.rms_limit *= times;
  return expected;
}

std::optional<std::size_t> undecided_at(const Expected& e, int threads) {
  return words::first_in_parallel(e.sigma.size(), threads, [&](std::size_t i) {
    return !std::isfinite(e.bound[i]) || (e.sigma[i] > 0 && !(e.bound[i] <= oracle_share * e.sigma[i]));
  });
}

std::span<const Corruption> corruptions() { return all_corruptions; }

std::size_t fitting(const std::vector<Judgement>& judgements) {
  for (const Verdict verdict :
       {Verdict::vacuous, Verdict::unseen, Verdict::pass, Verdict::undecided, Verdict::unsupported})
    for (std::size_t i = 0; i < judgements.size(); ++i)
      if (judgements[i].verdict == verdict) return i;
  const auto fewest = std::min_element(judgements.begin(), judgements.end(),
                                       [](const Judgement& a, const Judgement& b) { return a.beyond < b.beyond; });
  const auto first = std::find_if(judgements.begin(), judgements.end(),
                                  [&](const Judgement& j) { return j.beyond <= 2 * fewest->beyond; });
  return static_cast<std::size_t>(first - judgements.begin());
}

double z_at(const Expected& e, const std::vector<double>& got, std::size_t i) {
  return z_of_size(e, std::fabs(error_at(e, got[i], i)), i);
}

double excess_at(const Expected& e, const std::vector<double>& got, std::size_t i) { return excess_of(e, got[i], i); }

std::vector<double> Corruption::applied(const std::vector<double>& tensor, const Layout& layout, int threads) const {
  std::vector<double> wrong(tensor.size());
  any_element(layout, threads, [&](int h, int r, int c, std::size_t i) {
    wrong[i] = element(tensor, layout, h, r, c);
    return false;
  });
  return wrong;
}

struct Rejection::Known {
  const Expected& e;
  AllSums sums;
  bool overflows = overflow_at(e, sums.threads).has_value(), is_undecided = undecided_at(e, sums.threads).has_value();
};

Rejection::Rejection(const Expected& expected, int threads) : known_(new Known{expected, AllSums(expected, threads)}) {}
Rejection::~Rejection() = default;

bool Rejection::rejects(const std::vector<double>& got, double times) const {
  const auto& [e, sums, overflows, is_undecided] = *known_;
  if (overflows) return false;
  return not_a_number_at(e, got, sums.threads).has_value() || (!is_undecided && !accepts(e, sums, got, times));
}

bool rejects(const Expected& expected, const std::vector<double>& got) { return Rejection(expected).rejects(got); }

Judgement judge(const Expected& e, const std::vector<double>& got, int threads) {
  const std::size_t N = e.value.size();
  require(got.size() == N, "expected ", N, " elements, got ", got.size());
  require(N > 0, "a tensor without elements cannot be judged");
  std::vector<double> replaced;
  Judgement j;
  for (auto i = words::first_in_parallel(N, threads, [&](std::size_t n) { return is_beyond_dtype(e, got[n], n); });
       i && *i < N; ++*i) {
    if (!is_beyond_dtype(e, got[*i], *i)) continue;
    if (replaced.empty()) replaced = got;
    replaced[*i] = e.value[*i].hi, ++j.infinite;
  }
  const std::vector<double>& numbers = replaced.empty() ? got : replaced;
  const double values = words::sum_of_blocks(N, threads, [&](std::size_t first, std::size_t last) {
    double squares = 0;
    for (std::size_t i = first; i < last; ++i) squares += e.value[i].hi * e.value[i].hi;
    return squares;
  });
  const double typical = std::sqrt(values / static_cast<double>(N));
  const Measured all = words::sum_of_blocks(N, threads, [&](std::size_t first, std::size_t last) {
    Measured some;
    for (std::size_t i = first; i < last; ++i) some.see(e, numbers[i], typical, i);
    return some;
  });
  j.relative_error = all.squares == 0 ? 0 : unsigned_nan(std::sqrt(all.squares / values));
  j.max_error = all.error.value, j.max_error_at = all.error.at;
  j.worst_ulps = all.ulps.value, j.worst_ulps_at = all.ulps.at;
  j.worst_z = all.z.value, j.worst_z_at = all.z.at;
  j.beyond = all.beyond, j.bound_over_sigma = all.bound_over_sigma;
  j.rms_z = all.rms_z(), j.rms_limit = e.rms_limit;
  const AllSums sums(e, threads);
  const double seen = measure_sums(e, sums, numbers, j), rms_limit = e.rms_limit + oracle_share;
  j.excess = std::max({0.0, all.excess.value, j.rms_z / rms_limit, j.worst_sum, j.worst_gain});
  j.smallest_gain = std::max(0.0, std::min(seen, all.smallest_gain(rms_limit)));
  std::vector<double> wrong;
  for (const Corruption& c : all_corruptions) {
    if (!c.applies(e.layout)) continue;
    // Most of them show in one of the first elements.
    const bool shows_alone = any_element(e.layout, threads, [&](int head, int row, int col, std::size_t i) {
      return !(excess_of(e, c.element(numbers, e.layout, head, row, col), i) <= 1);
    });
    if (!shows_alone) wrong = c.applied(numbers, e.layout, threads);
    if (shows_alone || !accepts(e, sums, wrong)) {
      j.rejected_corruptions.push_back(c.name);
      continue;
    }
    // A corruption that has nowhere to show, such as a missing last row in which zeros would pass, is not required to;
    // nor is any where the truth is zero throughout: zeros are right there.
    const bool nothing_seen = !j.accepted_corruptions.empty() && j.accepted_corruptions.front() == zeros;
    const auto shows = [&] { return nothing_seen ? wrong != numbers : changes_what_is_seen(e, numbers, wrong); };
    const bool required = values > 0 && c.must_be_rejected(e.layout) && (c.applies == always || shows()) &&
                          (!c.may_be_right || changes_truth(e, c));
    (required ? j.accepted_corruptions : j.blind_spots).push_back(c.name);
  }
  decide(e, numbers, all.excess, threads, j);
  return j;
}

}  // namespace assay
