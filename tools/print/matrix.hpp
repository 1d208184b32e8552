#pragma once
// The verdicts of many kernels at a glance: a line for each kernel, a column for each precision.
#include <cstddef>
#include <vector>

#include "tools/print/rows.hpp"

namespace assay {

/// The width of a terminal of the usual size.
inline constexpr std::size_t terminal_width = 80;

/// In each cell the worst verdict of a kernel's tensors, and how many do not pass: "PASS", "FAIL 3". A table for each
/// device; where its columns do not fit into `width`, further ones for those that are left.
std::vector<Table> verdict_matrix(const std::vector<ReportRow>& rows, std::size_t width = terminal_width);

}  // namespace assay
