#pragma once
// Answers of healthy algorithms that the model's draws do not show: asked before the model says that none answers so
// (docs/judge-derivation.md, "Model").
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "judge/sigma/expected.hpp"
#include "judge/verdict/judge.hpp"
#include "kernels/core/policy.hpp"
#include "reference/core/format.hpp"

namespace assay {

struct ModelRuns;

/// Whether algorithms differ in that tensor of a mechanism by whether they store states as operands: a gate's gradient,
/// a sum of products of two states. The expectation where they do is asked for when a tensor is beyond the one where
/// they do not.
bool multiplies_states(std::string_view mechanism, std::string_view tensor, Format precision);

/// Whether the state is carried in fewer digits than the other policy, of the same kernel, has for it.
bool has_narrower_state(const tile::SiteTable& sites, const tile::SiteTable& than);

/// The answers of the room's own tile program, in every shape, as hardware runs it: under the contract of the
/// precision, with its sums cut off, and in tf32 its operands, as tensor cores do, and under the contracts of
/// libraries. Not those of contracts that keep a state in fewer digits, which is a promise of its own. Outputs are not
/// rounded.
std::vector<Arrays> healthy_answers(const Problem& problem, Format precision, int threads);

/// Learns what it is asked for when it is first asked.
class OtherAlgorithms {
 public:
  /// All that it is given must live as long. `stored` and `rate` as in expect_by_model().
  OtherAlgorithms(const Problem& problem, const Oracle& oracle, Format precision, int draws, int threads,
                  std::function<Format(const std::string&)> stored, double rate = false_alarm_rate);

  /// With the sigma of its terms where the model's is zero, as it is of a difference of equal numbers: kernels sum what
  /// it is a difference of in orders of their own. Nothing where all are known, or no sizes are.
  std::optional<Expected> with_terms(const std::string& tensor, const Expected& expected);
  /// With sigma at least what operands below the normal numbers of their format leave: an algorithm may put every
  /// factor that comes later, a decay or a step, into one. Nothing where that is too little to count.
  std::optional<Expected> below_normal(const std::string& tensor, const Expected& expected);
  /// With sigma at least what one rounding does in the largest term of an element. Algorithms multiply and add in
  /// orders of their own: a chunk's sums are made of all that its tokens write, and what the recurrence has overwritten
  /// since still rounds there. Gates' gradients are sums from the end. Nothing where that is too little to count.
  std::optional<Expected> in_terms(const std::string& tensor, const Expected& expected);
  /// The expectation where states are stored as operands; null for a tensor in which all algorithms are alike.
  const Expected* in_stored_states(const std::string& tensor);
  /// The expectation where log decays are summed up over the whole sequence, as in one chunk; null where that is as the
  /// model has it.
  const Expected* in_one_chunk(const std::string& tensor);
  /// `expected` by the model, with sigma at least what those of our own kernels do that the model would FAIL, and
  /// limits without the model's factor; nothing where it would FAIL none.
  std::optional<Expected> as_ours(const std::string& tensor, const Expected& expected);

 private:
  /// The sizes that roundings of that tensor are relative to, computed when they are first asked for; null where they
  /// are not known.
  using SizesIn = std::optional<Arrays>(std::string_view, const Problem&, Format, int);
  const std::vector<double>* sizes_of(const std::string& tensor, std::optional<Arrays>& kept, SizesIn* sizes, Format in,
                                      const Expected& expected) const;

  /// The expectation of that tensor by draws like `runs`, made when they are first asked for; null if there is none.
  const Expected* drawn(Named<Expected>& kept, ModelRuns runs, const std::string& tensor) const;

  const Problem& problem_;
  const Oracle& oracle_;
  Format precision_;
  int draws_, threads_;
  std::function<Format(const std::string&)> stored_;
  double rate_;
  Named<Expected> in_stored_states_, in_one_chunk_;
  std::optional<std::vector<Arrays>> ours_;
  /// Sizes of terms: where sums round, where operands do, and where these are below the normal numbers.
  std::optional<Arrays> terms_, operands_, below_normal_;
};

}  // namespace assay
