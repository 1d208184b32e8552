#pragma once
// A verdict in words, with what it was about saved: for tests (tools/gtest.hpp).
#include <filesystem>
#include <functional>
#include <string>

#include "judge/court/judge_answer.hpp"

namespace assay {

/// The first fault and its likely cause, the tensors that did not pass, where, and the command that shows it again, in
/// lines. Saves the answer, and the case if it is no file yet, in the folder that `where` names, which is made; where
/// that cannot be, it says so.
std::string explain(const Judged& judged, const std::function<std::filesystem::path()>& where);

}  // namespace assay
