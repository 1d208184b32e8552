#pragma once
// `assay calibrate --model`: how far healthy kernels are from what evidence `model` expects, by room and precision.
#include <string>

#include "tools/court/calibration.hpp"

namespace assay {

/// Runs every healthy kernel that differs in what it rounds (tile shapes, contracts with names, the reference token by
/// token in fp32) on every case asked for, and judges it by the model. The table as text, and whether none FAILs.
struct ModelCalibration {
  Table table;
  CalibrateOptions options;
  std::size_t tensors = 0, undecided = 0, failed = 0;

  bool passed() const { return failed == 0; }
};
ModelCalibration calibrate_model(const CalibrateOptions& options, const CaseDone& done);

/// docs/model.md
std::string model_page(const ModelCalibration& calibration);

}  // namespace assay
