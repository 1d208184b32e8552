#pragma once
// Rows as the programs read them that show what a change has broken.
#include <string>
#include <vector>

#include "tools/print/rows.hpp"

namespace assay {

/// JUnit's XML: a suite for each kernel and precision, a case for each tensor, at the page's artifact. VACUOUS and
/// UNDECIDED are failures, as FAIL is; UNSUPPORTED and ERROR are errors.
std::string as_junit(const Page& page, const std::vector<ReportRow>& rows);

/// SARIF 2.1.0: a result for each row that is not PASS. Its place is the page's artifact or, without one, the tile
/// program of the mechanism. In each format the tensor that is wrong first says from where on, and causes.
std::string as_sarif(const Page& page, const std::vector<ReportRow>& rows);

/// Annotations of a GitHub workflow: an error at the page's artifact for each row that is not PASS, a notice for each
/// blind spot; for who reads the log a line of evidence for each that is, the counts and the command.
std::string as_github(const Page& page, const std::vector<ReportRow>& rows);

}  // namespace assay
