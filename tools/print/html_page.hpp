#pragma once
// Rows as a browser shows them.
#include <string>
#include <vector>

#include "tools/print/rows.hpp"

namespace assay {

/// One page of HTML that is well-formed XML, too, and needs nothing besides itself: no script, no link. A table for
/// each kernel; under a tensor that did not pass, why, where, and the command that shows it again.
std::string as_html(const Page& page, const std::vector<ReportRow>& rows);

}  // namespace assay
