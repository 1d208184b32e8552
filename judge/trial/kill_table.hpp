#pragma once
// Which acceptance rule tells which planted fault from the healthy kernel, and how often a rule rejects a kernel that
// has none: the judge beside the rules that others use, on the same cases, answers and references.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "judge/trial/fault_trials.hpp"
#include "judge/trial/rivals.hpp"
#include "judge/verdict/judge.hpp"
#include "kernels/core/kernel_room.hpp"
#include "reference/core/format.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

/// Whether held-out mutants are run beside the planted ones.
enum class HeldOut { too, only, no };
inline constexpr HeldOut all_held_out[] = {HeldOut::too, HeldOut::only, HeldOut::no};
/// "too", "only" or "no".
std::string_view name_of(HeldOut which);

/// The request; an empty list means all mechanisms, and the precisions of `fault_precisions_of`.
struct MutantOptions {
  std::vector<std::string> mechanisms;
  std::vector<Format> precisions;
  int trials = 0;  ///< cases of a kernel at most; 0: all
  std::uint64_t seed = fault_seed;
  int healthy = 0;            ///< runs of healthy kernels on fresh cases
  double seconds = 0;         ///< no run but the first of those begins after so many; 0: there is no limit
  bool healthy_only = false;  ///< no mutants, and no rules but the judge
  std::string power;          ///< the mutant whose detection is measured over seeds, "" for none
  bool shrinks = false;       ///< how small the smallest cases are on which mutants fail
  int power_tokens = 4096;    ///< the longest sequences of those
  HeldOut held_out = HeldOut::too;
  bool arguments = false;   ///< of tile programs with arguments, on the cases of judge/trial/argument_cases.hpp
  int threads = 0;          ///< 0: all cores; the results do not depend on it
  int part = 1, parts = 1;  ///< every so manyth kernel, from that one on

  /// The command that makes the same tables again, all parts of them.
  std::string command() const;
};

/// Called after each piece of work, from one thread at a time, with how many there are.
using WorkDone = std::function<void(std::size_t total, std::string_view what)>;

/// Numbers of cases, by the precision of their inputs.
struct Counts {
  std::array<int, std::size(all_formats)> by_format{};

  int& operator[](Format format) { return by_format[static_cast<std::size_t>(format)]; }
  int operator[](Format format) const { return by_format[static_cast<std::size_t>(format)]; }
  int total() const { return std::accumulate(by_format.begin(), by_format.end(), 0); }
};

/// Rules by number: 0 is the judge by contract, r + 1 rival r, and after them evidence `model`, which rejects nothing
/// in rooms without one.
inline constexpr std::size_t judge_rule = 0;
inline std::size_t model_rule() { return rivals().size() + 1; }
inline std::size_t rule_count() { return rivals().size() + 2; }

/// A rule kills a mutant if, on one of its cases, it rejects the mutant's answers and accepts the healthy kernel's.
struct MutantRow {
  std::string_view room, form;
  const Mutant* mutant = nullptr;
  int trials = 0;             ///< cases
  Counts shown;               ///< those in which a bit of its answers is not the healthy kernel's
  std::vector<Counts> kills;  ///< those in which each rule kills it
  LayerReport layers;         ///< of the judge, over all cases, of the tensors that differ
  std::string conviction;     ///< the first case and tensor by which the judge kills it; "" if there is none
  bool held_out = false;

  bool killed(std::size_t rule = judge_rule) const { return kills[rule].total() > 0; }
};

struct KillTable {
  MutantOptions options;
  std::vector<MutantRow> rows;
  int healthy_runs = 0;                  ///< one for each case of a kernel
  std::vector<int> alarms;               ///< of them, those that each rule rejects
  std::vector<std::string> judged;       ///< and those that the judge does
  std::vector<std::size_t> places = {};  ///< of each row, the kernel's among all

  /// Mutants of which some bit shows.
  int shown() const;
  int shown(Format precision) const;
  /// Mutants that a rule kills, and that it kills in that precision.
  int killed(std::size_t rule = judge_rule) const;
  int killed(std::size_t rule, Format precision) const;
  /// Mutants that one part of the judge rejects.
  int killed(Layer layer) const;
  /// The share of the cases in which a bit of a mutant shows that a rule kills it in.
  double share_of_cases(std::size_t rule) const;
  std::vector<Format> precisions() const;
  /// The table of the held-out mutants alone, or of the planted ones.
  KillTable part(bool held_out) const;
};

/// Throws InputError on names that do not exist.
KillTable make_kill_table(const MutantOptions& options, const WorkDone& done);

/// Healthy kernels on fresh cases: every form in turn, drawn precisions, styles, settings and small shapes.
struct HealthyTable {
  int asked = 0, drawn = 0;  ///< cases; fewer than asked for are drawn where time is up
  int runs = 0;
  int vacuous = 0, undecided = 0;  ///< runs with such a tensor and none that fails
  int widened = 0;                 ///< runs with a tensor whose sigma took in the very run that is judged
  int widened_sums = 0;            ///< runs with a tensor of which the sigma of a sum over a slice did
  int overflowing = 0;             ///< runs without a failure in which a contract's own roundings overflow
  int unanswered = 0;              ///< drawn, but not counted as runs: no enclosure decides a comparison
  int tensors = 0;
  std::vector<int> rejected;  ///< runs that each rule rejects
  struct Alarm {
    std::string command, reason;
  };
  std::vector<Alarm> alarms;  ///< runs with a tensor that the judge fails
};
HealthyTable run_healthy(const MutantOptions& options, const WorkDone& done);

/// The smaller case made of the first one of two sequences, grouped heads and several chunks on which a mutant fails.
struct ShrinkRow {
  std::string_view room, form, mutant;
  CaseSpec smallest;
  int runs = 0;
  bool stopped = false;            ///< by the limit of usual_shrink_runs
  bool small = false;              ///< one head, two chunks and 16 dimensions, within that
  bool one_group = false;          ///< the same with one key/value head, whose group of query heads may be several
  bool shows_in_one_head = false;  ///< in one of the cases of one head that are tried
};
/// The rows of the planted mutants that are taken; those that fail no such case are left out. Held-out ones are bugs
/// around problems of the size of their cases, and nothing in others.
std::vector<ShrinkRow> measure_shrinking(const MutantOptions& options, const std::function<bool()>& takes,
                                         const WorkDone& done);

/// Detection of one mutant in bf16 under the contract that accumulates in fp32, by the length of the sequence.
struct PowerRow {
  std::string_view room, form;
  Style style{};
  int seq_len = 0, seeds = 0;
  int detected = 0;  ///< seeds under which some output fails
  int in_reads = 0;  ///< those under which o does, which alone every user has
  int alarms = 0;    ///< and those under which the healthy kernel does
  double rms = 0;    ///< of o, the root mean square of error / sigma in units of its limit, averaged over seeds
};
/// For each of `power_styles`, lengths double from 64 to `power_tokens` and end with the first at which o fails under
/// every seed.
std::vector<PowerRow> measure_power(const MutantOptions& options, const WorkDone& done);

}  // namespace assay
