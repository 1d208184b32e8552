#pragma once
// Sigma against the errors of healthy kernels, over rooms, precisions, styles and seeds.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "judge/trial/calibration.hpp"
#include "kernels/core/kernel_room.hpp"
#include "reference/core/format.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

/// Sigma is calibrated if the root mean square of z lies in here, of every variant whose standard is its own; kernels
/// that round less than their standard may lie below.
inline constexpr double least_rms = 0.7, most_rms = 1.3;
/// The most that the limit of half of the elements may be, in units of their error, if sigma is calibrated.
inline constexpr double most_slack = 100;

/// The styles of the cases unless others are asked for: in fp64, which is emulated in long double and ten times slower,
/// only the first.
inline constexpr Style calibration_styles[] = {Style::normal, Style::outlier_channels, Style::long_memory};

/// The request; an empty list means all, of `styles` those above.
struct CalibrateOptions {
  std::vector<std::string> mechanisms, forms, variants;
  std::vector<Format> precisions;
  std::vector<Style> styles;
  int seeds = 1;            ///< cases of each kernel, precision and style
  std::size_t cases = 0;    ///< the first so many of all those; 0: all
  double seconds = 0;       ///< no case but the first begins after so many; 0: there is no limit
  std::uint64_t seed = 0;   ///< the first
  std::string shape;        ///< "B,T,H,K,V"; "": one that is ragged in every tile
  int threads = 0;          ///< 0: all cores; the results do not depend on it
  int part = 1, parts = 1;  ///< every so manyth kernel, from that one on

  /// The command that measures the same again, all parts of it.
  std::string command() const;
};

/// A variant of a kernel in one precision, or in all.
struct CalibrationRow {
  std::string_view room, form;
  std::string variant;
  Fit fit = Fit::same;
  std::size_t cases = 0;  ///< that were run
  std::array<Gauge, std::size(all_formats)> by_precision = {};
  std::vector<std::string> alarms = {};  ///< cases with an element beyond its limit, as the command that shows them

  Gauge whole() const;
  /// Whether its root mean square is where it should be, no element is beyond its limit, and limits are tight. Where
  /// the standard describes another kernel nothing is asked.
  bool passed() const;
};

struct Calibration {
  CalibrateOptions options;
  std::size_t cases = 0, asked = 0;      ///< that were run, and that would have been without a limit
  std::vector<CalibrationRow> rows;      ///< of variants that a case was run of
  std::vector<std::size_t> places = {};  ///< of each row, the kernel's among all
  std::size_t unanswered = 0;            ///< cases to which no enclosure decides a comparison

  /// The gauge of all variants of which anything is asked.
  Gauge whole() const;
  bool passed() const;
};

/// Called after each case, from one thread at a time, with how many there are.
using CaseDone = std::function<void(std::size_t total, std::string_view what)>;

/// Throws InputError on names that do not exist, and where a shape fits no kernel.
Calibration calibrate(const CalibrateOptions& options, const CaseDone& done);

}  // namespace assay
