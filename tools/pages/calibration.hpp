#pragma once
// `assay-lab calibrate`: its tables, its pages, and its JSON, which can be read again.
#include <string>
#include <vector>

#include "judge/trial/calibrate.hpp"
#include "judge/trial/calibrate_model.hpp"
#include "tools/print/table.hpp"

namespace assay {

/// The joined measurements of runs of seeds in a row, each as `print` writes it in JSON: as if it had been one run.
/// Throws InputError on a file that is none or is of other cases, on a run that was cut off, and on seeds that lack or
/// are there twice.
Calibration merged(const std::vector<std::string>& paths);

/// The measurements that `json_text` has written; throws InputError, one sentence that begins with `path`, on others.
Calibration calibration_of(const std::string& contents, const std::string& path);

/// The table as text, with a line end.
std::string print(const Calibration& calibration, TableFormat format);

/// All that was measured, as `merged` reads it.
std::string json_text(const Calibration& calibration);

/// records/calibration.md.
std::string calibration_page(const Calibration& calibration);

Table table_of(const ModelCalibration& calibration);
/// The tensors of healthy kernels that it FAILs.
Table alarms_of(const ModelCalibration& calibration);
/// records/model.md
std::string model_page(const ModelCalibration& calibration);

}  // namespace assay
