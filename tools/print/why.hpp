#pragma once
// Why a case fails, on its page.
#include "judge/court/why.hpp"
#include "judge/programs/formula.hpp"
#include "tools/print/rows.hpp"

namespace assay {

/// Adds what the failure looks like to the page's findings and, in JSON, as `first_wrong` and `looks_like`; and what
/// looking further has come to, if that was `asked` for, to its notes and, in JSON, as `why`.
void add_why(Page& page, const Why& why, bool asked);

/// Adds how many errors in the formula the case would have failed, and which not.
void add_formula(Page& page, const FormulaErrors& errors);

}  // namespace assay
