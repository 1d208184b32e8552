#pragma once
// `assay-lab calibrate --model`: how far healthy kernels are from what evidence `model` expects, by room and precision.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "judge/trial/calibrate.hpp"

namespace assay {

/// The results of a room in a precision. Errors are as the column `model` has them.
struct ModelRow {
  std::string room;
  Format precision{};
  std::size_t tensors = 0, passed = 0, undecided = 0, failed = 0, other = 0;
  double median = 0, high = 0, largest = 0;  ///< high: 99% are smaller
};

/// A tensor of a healthy kernel that the model FAILs.
struct ModelAlarm {
  std::string room;
  Format precision{};
  Style style{};
  std::uint64_t seed = 0;
  std::string variant, tensor;
  double excess = 0;
};

struct ModelCalibration {
  CalibrateOptions options;
  std::vector<ModelRow> rows = {};
  std::vector<ModelAlarm> alarms = {};

  /// The sum over all rows.
  std::size_t count(std::size_t ModelRow::*of) const;
  bool passed() const { return count(&ModelRow::failed) == 0; }
};
/// Runs every healthy kernel that differs in what it rounds (tile shapes, contracts with names, the reference token by
/// token in fp32) on every case asked for, and judges it by the model.
ModelCalibration calibrate_model(const CalibrateOptions& options, const CaseDone& done);

}  // namespace assay
