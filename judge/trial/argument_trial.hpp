#pragma once
// A tile program's own answer to a case with arguments, healthy or with a fault, and what the judge says of it.
#include <string>
#include <string_view>

#include "judge/court/judge_answer.hpp"
#include "judge/trial/argument_cases.hpp"
#include "kernels/core/kernel_room.hpp"

namespace assay {

/// The file of a kernel that stores outputs in that precision, and statistics and gradients of numbers in fp32, or in
/// fp64 as the outputs.
Safetensors file_of_answer(const ProblemFile& file, const Answer& answer, Format precision);

/// The verdict on the answer of a room's form to the case, by that contract. `room` is a mechanism's own, whose forms
/// take one sequence, or of cases, whose name ends with "+arguments". `cache` keeps truth and sigma; null: nothing.
Judged judged_answer(const ArgumentCase& one, const KernelRoom& room, std::string_view fault,
                     const std::string& contract, Cache* cache, int threads = 1);

}  // namespace assay
