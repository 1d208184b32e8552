#pragma once
// Is sigma as large as healthy kernels' errors? Variants of a kernel that are all right, each judged by what is
// expected under the contract that describes it. records/calibration.md is what comes of it.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "judge/contract/contract.hpp"
#include "judge/verdict/judge.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/format.hpp"

namespace assay {

/// A form at one of its tile shapes, and how it rounds.
struct Rounds {
  const KernelForm* form = nullptr;
  int tile = 0;
  Contract contract;
};

/// The relation of a kernel's standard to it.
enum class Fit {
  same,    ///< rounds where the kernel does, and so has its spread
  wider,   ///< rounds there and elsewhere: the kernel's error is smaller
  biased,  ///< is this kernel, which rounds to one side: draws know nothing of it, and sigma is taken from its own run
  other,   ///< describes another kernel, and promises nothing of this one
};
/// "same", "wider", "biased", "other".
std::string_view name_of(Fit fit);
/// Whether limits and spread of the standard are to hold for the kernel, and could fail to.
constexpr bool asks_anything(Fit fit) { return fit == Fit::same || fit == Fit::wider; }

/// A kernel that is right, and the one whose spread says how far off it may be.
struct HealthyVariant {
  std::string name;  ///< "tile 32", "sums of 4", "token by token", ...
  Rounds kernel, standard;
  Fit fit = Fit::same;
};

/// The variants of `form`, a healthy one of room `room`, in that precision: every tile shape, other blocks of products
/// in an accumulator, sites that round no more, rounding toward zero, contracts with names that fit, and the reference
/// token by token.
std::vector<HealthyVariant> healthy_variants(std::string_view room, const KernelForm& form, Format precision);

/// The names of the variants in any precision, in the order of a table.
std::vector<std::string> variant_names(std::string_view room, const KernelForm& form);

/// The evidence of judged tensors on sigma and the limits. An element's limit is reach * sigma + bound, as the judge
/// has it.
struct Gauge {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;        ///< with a sigma above zero
  std::uint64_t exact_elements = 0;  ///< without: their error may not exceed the oracle's bound
  std::uint64_t beyond_seven = 0;    ///< |error| > 7 sigma, however well sigma is known
  std::uint64_t widened = 0;  ///< tensors whose sigma took in the contract's own rounding, which draws did not foresee
  std::uint64_t beyond_limit = 0;  ///< |error| > limit, those without sigma included
  std::uint64_t undecided = 0;     ///< tensors left out: the oracle is not 100 times sharper, or the contract overflows
  double squares = 0;              ///< of z = error / sigma
  double largest = 0;              ///< |z|
  double of_limit = 0;             ///< the largest |error| / limit

  void add(const Expected& expected, const std::vector<double>& got);
  void join(const Gauge& other);
  /// Root mean square of z; 0 of no elements.
  double rms() const;
  /// Median over the elements with sigma of limit / |error|, to an eighth of an octave; infinity where most are exact.
  double median_slack() const;

  static constexpr int per_octave = 8, octaves = 24;
  /// Counts of limit / |error| by eighths of an octave from 1/2 on; the last one is of all that is larger.
  std::array<std::uint64_t, per_octave * octaves + 1> slack{};
};

/// Runs and judges every variant on `problem`, a case of room `room` in the variants' precision: a gauge for each.
/// Throws InputError where the oracle has no answer.
std::vector<Gauge> gauge(const Room& room, const std::vector<HealthyVariant>& variants, const Problem& problem);

}  // namespace assay
