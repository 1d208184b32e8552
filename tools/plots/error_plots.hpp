#pragma once
// Drawings of judged tensors.
#include <vector>

#include "judge/court/report_row.hpp"
#include "tools/plots/plot.hpp"

namespace assay {

/// Mechanism by precision, coloured by the worst root mean square of error / sigma; a drawing for each device.
std::vector<Plot> matrix_plots(const std::vector<ReportRow>& rows);
/// The drawings of a wrong tensor: its errors over tokens and dimensions, head by head, as wide as the page; how often
/// each size of error occurs, and how the error goes along the tokens. None of a tensor that has no `errors`.
std::vector<Plot> tensor_plots(const ReportRow& row);
/// All of them.
std::vector<Plot> plots_of(const std::vector<ReportRow>& rows);

}  // namespace assay
