#pragma once
// The error of a recurrence's kernel along a sequence of any length: the kernel and its exact answer go side by side,
// segment after segment, each with its own states. docs/drift.md says how everything here is derived.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "judge/drift/growth.hpp"
#include "judge/verdict/judge.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "oracles/core/trajectory.hpp"

namespace assay {

/// The inputs of a long sequence, segment by segment: segment i is a seeded case of its own, the first one that of
/// `spec`, so that no more than one is in memory.
class Segments {
 public:
  Segments(const Room& room, CaseSpec spec, long tokens, int segment);

  long count() const { return (tokens_ + segment_ - 1) / segment_; }
  /// The first token of segment i, or one behind the last segment's last.
  long begin(long i) const { return std::min(i * segment_, tokens_); }
  /// Without cotangents; its states are what its case begins with.
  Problem at(long i) const;

 private:
  const Room& room_;
  CaseSpec spec_;
  long tokens_, segment_;
};

/// Makes `next` the continuation of the segment `before`, which has left `outputs`.
void carry_on(const Room& room, const Problem& before, const Arrays& outputs, Problem& next);

/// One problem of consecutive segments, each without what it would carry on.
Problem joined(const Room& room, const std::vector<Problem>& segments);

/// A kernel that goes on from its own states.
class StreamedKernel {
 public:
  StreamedKernel(const Room& room, const KernelForm& form, Policy policy, int tile)
      : room_(room), form_(form), policy_(std::move(policy)), tile_(tile) {}

  /// The answer to the next segment. The random rounding modes draw other numbers in every one.
  Answer advance(const Problem& segment);

 private:
  const Room& room_;
  const KernelForm& form_;
  Policy policy_;
  int tile_;
  long segment_ = 0;
  Problem before_;
  Arrays left_;
};

/// A run of a kernel, and how far it goes.
struct DriftSpec {
  std::shared_ptr<const Room> room;
  const KernelForm* form = nullptr;
  std::shared_ptr<const KernelForm> of_program = nullptr;  ///< the form, where it is a program's
  std::string output = "o";                                ///< the tensor that is followed, beside the states
  int tile = 0;
  CaseSpec inputs;                                    ///< the length of its shape does not count
  Format precision = Format::bf16;                    ///< whose contract the kernel keeps; exact: no site rounds
  std::vector<std::pair<std::string, Format>> sites;  ///< that hold another format than the contract's
  long tokens = 1'000'000;
  int segment = 256;
  long prefix = 16384;  ///< what the error at the end is predicted from, and sites are told apart on
  int sequences = 8;    ///< whose prefixes the prediction is made from: this one and others of its style
  int draws = 4;        ///< of a correct kernel, for the budget; 0: there is none
  double budget = 0;    ///< the error of a token relative to the segment's outputs; 0: derived from the draws
  bool by_site = true;  ///< every site alone, over the prefix
  int threads = 1;      ///< the results do not depend on it
};

/// Sums over tokens [first, last), or over states after those.
struct DriftWindow {
  long first = 0, last = 0;
  double tokens = 0, count = 0;           ///< sum of their positions, and how many there were
  double error_squared = 0, squared = 0;  ///< of the exact values

  double position() const { return tokens / count; }
  double error() const { return std::sqrt(error_squared / squared); }
};

/// The windows, three to an octave.
class DriftWindows {
 public:
  void add(long token, double error_squared, double squared);
  /// A short last window is part of the one before.
  void close();
  const std::vector<DriftWindow>& all() const { return windows_; }
  /// The points of windows that end by `last`, but for the first: its tokens are of one tile and read no rounded state.
  std::vector<GrowthPoint> points(long last) const;

 private:
  std::vector<DriftWindow> windows_;
};

/// The measurements of one tensor.
struct DriftSeries {
  std::string tensor;
  DriftWindows windows;
  std::optional<GrowthFit> fit, early;  ///< of all windows, and of the prefixes of all sequences
  double spread = 0;                    ///< of the logarithm of one sequence's error around that of the mean one
  double ended_at = 0, ended = 0;       ///< the last window
  double predicted() const { return early->best().at(ended_at); }
  /// The bounds of the errors that are not ruled out, for one sequence.
  double low() const;
  double high() const;
  /// Whether there was something to predict.
  bool has_prediction() const { return early.has_value() && ended > 0; }
  /// Whether the prefixes say it within a factor of two: nothing else is open, and no error as large as the values,
  /// for that obeys no law of small ones.
  bool determined() const { return low() >= predicted() / 2 && high() <= 2 * predicted() && high() < 1; }
  bool predicted_well() const { return predicted() <= 2 * ended && ended <= 2 * predicted(); }
};

/// A site that rounds alone.
struct DriftSite {
  std::string site;
  Format format = Format::exact;
  double error = 0;  ///< of the outputs of the prefix, relatively
  double share = 0;  ///< of the sum of all sites' squares
  std::optional<GrowthFit> fit;
};

/// Where the kernel first was what no correct one is.
struct DriftExcess {
  long token = 0;
  std::string place;  ///< "o[0][17]" of head 0 and channel 17 within its token
  double sigmas = 0;  ///< the error there, 0 where the budget was given
};

struct Drift {
  DriftSpec spec;
  std::vector<DriftSeries> series;   ///< the output first
  long tokens = 0;                   ///< fewer than asked for where numbers overflowed
  std::optional<long> overflows_at;  ///< the first token of the segment in which the kernel's numbers did
  std::optional<DriftExcess> first_past, first_past_in_segment;
  double worst_sigmas = 0;
  std::vector<DriftSite> sites;  ///< the largest share first
  std::optional<double> memory;  ///< of the recurrence: GrowthFacts::memory
  int sequences = 0;             ///< whose prefixes the prediction was made from
  double prefix_error = 0;       ///< of the whole kernel over the prefix, relatively
  double unrounded_error = 0;    ///< of the same program where no site rounds
  double reference_off = 0;      ///< the exact outputs may be off by this, relatively: estimated
  double proven_off = 0;         ///< they are off by this at most over the first proven_tokens
  long proven_tokens = 0;

  /// The exact answer is sharp enough.
  bool decided() const;
  /// A token is past the budget, something overflows, or an error is not within a factor of two of what the prefixes
  /// were taken to determine.
  bool failed() const;
  /// Neither, and what was to be predicted was determined.
  bool passed() const;
};

/// Tokens in which the exact recurrence forgets all but 1/e of the square of a perturbation of its first states, from
/// how it forgets over the second half of the sequence: GrowthFacts::memory.
std::optional<double> memory_of(const DriftSpec& spec, long tokens);

/// Called with how many segments there are, after each of them.
using DriftDone = std::function<void(std::size_t total, std::string_view what)>;

/// Throws InputError with one sentence if the room is no recurrence that can be streamed, or the form takes no such
/// problem.
Drift measure_drift(const DriftSpec& spec, const DriftDone& done = {});

/// The output of a room that a drift follows: o, or else the first that has a row for every token; "" if none has.
std::string output_of(const Room& room);

/// Why `room` cannot be streamed, or "".
std::string stream_obstacle(const Room& room, const Params& params);

}  // namespace assay
