#pragma once
// A page of judged tensors in each of its formats.
#include <string>
#include <vector>

#include "tools/print/rows.hpp"

namespace assay {

/// The page as text, with a line end. Numbers for people are rounded to three digits, those for programs are exact.
std::string print(const Page& page, const std::vector<ReportRow>& rows, RowsFormat format);

}  // namespace assay
