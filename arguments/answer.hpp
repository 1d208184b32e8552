#pragma once
// Cases with arguments: `assay oracle`'s door for them.
#include "files/case_file.hpp"

namespace assay::arguments {

/// Answers one case, whether it has arguments or not. Never throws for anything in the case.
CaseResult answer_any(const Case& c, const DecimalOptions& options);

}  // namespace assay::arguments
