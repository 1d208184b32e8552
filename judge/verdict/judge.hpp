#pragma once
// The judge: is a tensor what a correct kernel could have answered, and could this data have told us if it were not?
// docs/judge-derivation.md says how every limit is derived; none is typed.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "judge/sigma/spread.hpp"
#include "judge/verdict/slices.hpp"
#include "oracles/core/oracle.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/format.hpp"

namespace assay {

enum class Verdict {
  pass,         ///< what a correct kernel could have answered
  fail,         ///< what no correct kernel answers
  unseen,       ///< a correct kernel's errors are as large as the values: of this tensor nothing can be seen
  vacuous,      ///< within its limits, but so would a wrong tensor have been
  undecided,    ///< the oracle is not sharp enough to say
  unsupported,  ///< the kernel does not take this problem
  error,        ///< the kernel or the oracle threw
};
inline constexpr Verdict all_verdicts[] = {Verdict::pass,      Verdict::fail,        Verdict::unseen, Verdict::vacuous,
                                           Verdict::undecided, Verdict::unsupported, Verdict::error};
/// Whether it says nothing against the kernel.
constexpr bool passes(Verdict verdict) { return verdict == Verdict::pass || verdict == Verdict::unseen; }
/// Whether the answer is within the limits that it is judged by. VACUOUS and UNSEEN say of the data that others are,
/// too.
constexpr bool is_within(Verdict verdict) { return passes(verdict) || verdict == Verdict::vacuous; }
/// "PASS", "FAIL", ...
std::string_view name_of(Verdict verdict);
/// The meaning of a verdict, in a few words.
std::string_view summary_of(Verdict verdict);

/// Probability that a run of correct kernels fails: of all tensors that are judged together, in any of their elements,
/// root mean squares or sums over slices.
inline constexpr double false_alarm_rate = 1e-6;
/// No element within this many sigma fails, however few there are: 2.6e-12 of a correct kernel's are beyond.
inline constexpr double element_sigmas = 7;

/// The limits that the tensors of a kernel share.
struct Limits {
  double sigmas = element_sigmas;  ///< of a spread that is known, that no element exceeds
  double tensor_rate = 0;          ///< probability that the root mean square rejects one tensor, and that its sums do
};
/// The limits under which `tensors` of a correct kernel, with so many elements together, fail with probability `rate`
/// at most (Bonferroni): one third each for the elements, the root mean squares and the sums over slices.
Limits limits_of(double rate, std::size_t tensors, std::size_t elements);

/// The oracle must be this much sharper than sigma, or the verdict is UNDECIDED.
inline constexpr double oracle_share = 0.01;

/// The expectation of a tensor before the kernel under test has answered, element by element.
struct Expected {
  std::vector<int> shape;
  Layout layout;
  Format ulp_format = Format::fp64;  ///< the contract's output format: errors are also given in its units
  std::vector<HiLo> value;           ///< the oracle's
  std::vector<double> bound;         ///< how far the oracle may be off
  std::vector<double> sigma;  ///< standard deviation of a correct kernel's error; infinite: the contract overflows
  std::vector<double> reach;  ///< multiple of sigma that no element of a correct kernel exceeds
  double rms_limit = 0;       ///< nor the root mean square of error / sigma this
  std::vector<SliceSum> sums = {};       ///< nor the sums of weight * error over slices these; none: not looked at
  std::vector<double> weight = {};       ///< 1 / sigma where the draws show sigma, else 0
  std::vector<SliceSum> gains = {};      ///< nor the sums of gain_weight * error these; none: not looked at
  std::vector<double> gain_weight = {};  ///< value / sigma^2 where sigma is known, else 0
  double stall = 0;    ///< where draws do not show what rounding does (docs/judge-derivation.md): by how much, rms
  int draws = 0;       ///< that sigma was learnt from
  double widened = 0;  ///< where they do not show what another witness does: the same
  std::function<std::string(std::size_t)> place = {};  ///< what an element is called; where null, its index in `shape`
  Format stored = Format::fp64;         ///< what sigma takes the last rounding to be to (judge/sigma/stored.hpp)
  std::vector<double> freedom = {};     ///< degrees of freedom with which sigma is known; none: `reach` stays as it is
  double known_reach = element_sigmas;  ///< the reach of a sigma that is known exactly
};

/// Expected::gain_weight, of all elements that may be off: of slices that are too large by the same part, no other sum
/// of errors shows a smaller one.
std::vector<double> gain_weights(const Expected& expected, int threads = 1);

/// With limits so many times as wide: of elements, of their root mean square, and of sums over slices.
Expected with_limits(Expected expected, double times);

/// Whether the oracle is not sharp enough to judge what is expected, and where.
std::optional<std::size_t> undecided_at(const Expected& expected, int threads = 1);

/// One way in which a tensor can be wrong; a test that it passes shows nothing.
struct Corruption {
  std::string_view name, what;
  bool (*applies)(const Layout& layout);
  /// What stands in that element then.
  double (*element)(const std::vector<double>& tensor, const Layout& layout, int head, int row, int col);
  bool one_row = false;       ///< changes one row: of a vector, a single element, which may well be within its sigma
  bool may_be_right = false;  ///< mechanisms have the symmetry: Gram matrices, and heads of a group that see one key
  bool moves_rows = false;    ///< rows take each other's place, which are alike where all see one key

  /// Whether accepting it makes a verdict VACUOUS; otherwise it is only reported.
  bool must_be_rejected(const Layout& layout) const { return !one_row || layout.cols > 1; }
  std::vector<double> applied(const std::vector<double>& tensor, const Layout& layout, int threads = 1) const;
};
std::span<const Corruption> corruptions();

struct Judgement {
  Verdict verdict = Verdict::error;
  std::string reason;         ///< one sentence unless PASS
  std::string advice;         ///< of UNDECIDED: what may decide it
  double relative_error = 0;  ///< Frobenius norms: error / value
  double max_error = 0;       ///< largest |error|, at
  std::size_t max_error_at = 0;
  double worst_ulps = 0;  ///< largest |error| in ulps, at the value or the tensor's RMS if that is larger
  std::size_t worst_ulps_at = 0;
  std::size_t beyond = 0;    ///< elements beyond their limits
  std::size_t infinite = 0;  ///< elements that are infinite, as they must be: their dtype holds no number of that size
  bool not_finite = false;   ///< others are, or are no numbers
  double excess = 0;         ///< how many times the limit that is exceeded most: of elements, root mean square, sums
  double worst_z = 0;        ///< largest |error| / sigma, at
  std::size_t worst_z_at = 0;
  double rms_z = 0, rms_limit = 0;
  double worst_sum = 0;  ///< largest signed sum of error / sigma over a slice, in units of its limit; of
  std::string worst_sum_slice;
  double worst_gain = 0;  ///< the same of errors that go with the values; of
  std::string worst_gain_slice;
  double gain = 0;              ///< by this part its values are too large
  double bound_over_sigma = 0;  ///< the oracle's worst, 0 where it is exact
  double smallest_gain = 0;     ///< a tensor scaled by 1 + this, or by more, would have been rejected
  std::vector<std::string_view> accepted_corruptions;  ///< that must be rejected
  std::vector<std::string_view> blind_spots;           ///< accepted ones that need not be
  std::vector<std::string_view> rejected_corruptions;

  friend bool operator==(const Judgement&, const Judgement&) = default;
};

/// |error| / sigma of an element: 0 within the oracle's bound where sigma is 0, infinite beyond it, and where anything
/// is NaN.
double z_at(const Expected& expected, const std::vector<double>& got, std::size_t i);
/// Its |error| in units of its limit: above 1 it is rejected; NaN counts as infinite.
double excess_at(const Expected& expected, const std::vector<double>& got, std::size_t i);

/// Judges `got`; throws InputError if it has not as many elements as expected. NaN fails, and infinity where the dtype
/// holds the number. The number of threads changes no bit.
Judgement judge(const Expected& expected, const std::vector<double>& got, int threads = 1);
/// Whether answers to one expectation are FAIL, without what judge() measures besides: what does not depend on them is
/// worked out once. Keeps a reference to the expectation.
class Rejection {
 public:
  explicit Rejection(const Expected& expected, int threads = 1);
  Rejection(const Rejection&) = delete;
  Rejection& operator=(const Rejection&) = delete;
  ~Rejection();

  /// `got` may end early: what it leaves out is exact. `times`: whether it is so many times beyond the limits.
  bool rejects(const std::vector<double>& got, double times = 1) const;

 private:
  struct Known;
  std::unique_ptr<const Known> known_;
};
/// The same of one answer.
bool rejects(const Expected& expected, const std::vector<double>& got);

/// The judgement that counts for a tensor that was judged by several expectations, one of which is that of a correct
/// kernel. It is rejected if each rejects it, and then the first one counts, unless it has more than twice as many
/// elements beyond their limits as another; it is VACUOUS if one that accepts it accepts a wrong tensor, too.
std::size_t fitting(const std::vector<Judgement>& judgements);

}  // namespace assay
