#pragma once
// Cases on which planted faults show, and which part of the judge sees them.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "judge/verdict/judge.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

/// A case that a form is run on, at one of its tile shapes.
struct FaultTrial {
  CaseSpec spec;
  int tile;
  Problem problem;
  std::string command = {};  ///< that draws it, where `spec` does not say all of it

  std::string repro() const { return command.empty() ? spec.repro() : command; }
};

/// The tile of the fewest elements, which short problems fill most often: the one whose name's numbers multiply to the
/// least.
int smallest_tile(const KernelForm& form);

/// Inputs in which memory and scores do what most faults need in order to show.
inline constexpr Style fault_styles[] = {Style::normal, Style::rising_scores, Style::long_memory};
/// fp32 shows what is lost to a narrower format, bf16 what a user runs.
inline constexpr Format fault_precisions[] = {Format::fp32, Format::bf16};
/// Those, and e4m3 for forms whose operands have units there.
std::span<const Format> fault_precisions_of(const KernelForm& form);
inline constexpr std::uint64_t fault_seed = 11;

/// Long enough for several tiles and a ragged end.
inline constexpr int fault_length = 43;
/// Two tiles, the second ragged: what halves with every token is exact in fp64 for no longer.
inline constexpr int exact_length = 19;

/// Several groups of heads, each setting of the room that the form can run. Settings change fastest: most faults show
/// in all styles, some in one setting.
std::vector<FaultTrial> fault_trials(const Room& room, const KernelForm& form, std::span<const Style> styles,
                                     std::span<const Format> precisions, std::uint64_t seed,
                                     int seq_len = fault_length);

/// The parts of the judge, each of which can reject alone; the sharper first.
enum class Layer {
  exact,    ///< an element that no rounding of the contract moves, and so has no tolerance
  finite,   ///< an element that is NaN or infinite
  element,  ///< an element beyond its multiple of sigma
  rms,      ///< the root mean square of error / sigma
  sum,      ///< the signed sum of error / sigma over a slice
};
inline constexpr Layer all_layers[] = {Layer::exact, Layer::finite, Layer::element, Layer::rms, Layer::sum};
std::string_view name_of(Layer layer);

/// The verdicts of the judge's parts on a tensor, and how near to rejecting it they are.
struct LayerReport {
  bool rejects[std::size(all_layers)] = {};
  double element = 0;  ///< the worst error of an element with a spread, in units of its limit
  double rms = 0;      ///< the root mean square, in units of its limit
  double sum = 0;      ///< the worst sum over a slice, in units of its limit

  bool rejected_by(Layer layer) const { return rejects[static_cast<int>(layer)]; }
  /// Takes in the report on another tensor.
  void join(const LayerReport& other);
};
/// `judgement` is judge's of the same tensor.
LayerReport layers_of(const Expected& expected, const std::vector<double>& got, const Judgement& judgement);

}  // namespace assay
