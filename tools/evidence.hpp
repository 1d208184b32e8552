#pragma once
// The two kinds of evidence of a tensor, side by side: is it right (model), does it keep its promise (contract)?
#include <functional>
#include <string>
#include <vector>

#include "oracles/core/model.hpp"
#include "tools/rows.hpp"

namespace assay {

/// Which evidence a verdict rests on.
enum class Decides { model, contract };

/// Adds the model's evidence to rows that a contract has judged, one for each tensor of the oracle that is asked for,
/// and lets `decides` set the verdict. Where the model decides and leaves a tensor open, it passes if it passes under
/// the contract, or under another named one of the precision. Nothing where the room has no model.
void weigh(const Trial& trial, std::vector<ReportRow>& rows, const Answer& got, Decides decides);

/// What the columns `model` and `contract` mean: lines for the head of a page.
std::vector<std::string> evidence_legend(Format precision, const std::string& contract, Decides decides);

}  // namespace assay
