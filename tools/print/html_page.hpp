#pragma once
// Rows as a browser shows them.
#include <string>
#include <utility>
#include <vector>

#include "tools/plots/plot.hpp"
#include "tools/print/rows.hpp"

namespace assay {

/// One page of HTML that is well-formed XML, too, and needs nothing besides itself: no script, no link. A table for
/// each kernel; under a tensor that did not pass, why, where, and the command that shows it again. A page of one answer
/// has the verdict first, then the tensor that is wrong first; where others fail is folded.
std::string as_html(const Page& page, const std::vector<ReportRow>& rows);
/// The same of any verb's drawings and tables, each under its heading.
std::string as_html(const std::string& title, const std::vector<std::string>& header, const std::vector<Plot>& plots,
                    const std::vector<std::pair<std::string, Table>>& tables, const std::vector<std::string>& notes);

}  // namespace assay
