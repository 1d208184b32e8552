#pragma once
// The gradient of a log decay as chunk kernels and fla's recurrent ones take it: summed up from the end of the
// sequence, of what q.dq and k.dk of every token differ by. Terms that cancel in that difference leave their errors.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reference/core/format.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// Errors of such sums where operands are rounded to that format and sums to fp32 (of wider operands, as the operands):
/// of the operands, per channel and within a chunk of 64 tokens; of the sums, over the whole sequence. What the
/// roundings of dq and dk have in common cancels. All by the names of a report, "d_log_decay"; empty where no gate has
/// a gradient.
struct GateErrors {
  Arrays variances;
  std::vector<Arrays> samples;
};
/// Asked for the sizes of the terms of these two tensors, for all elements of a row together or for each alone. Numbers
/// of size 0 are held exactly in any order, and have no errors; null where that is not known, or is so of none.
using TermSizes = std::function<const Arrays*(const std::string& gain, const std::string& loss, bool each)>;

/// The errors of a kernel that has answered so.
GateErrors gate_errors(const Problem& problem, Format operands, const Arrays& answered, const TermSizes& sizes,
                       int samples);

/// Adds the errors of a kernel that sums q dq - k dk themselves, as its dq and dk come: the differences of these sums
/// between `exact` and the draws, whose variance is twice a kernel's, and a sample of each witness. Nothing where the
/// gradient is no such sum: dk has another part in a rule that corrects what it reads.
void add_errors_of_runs(const Problem& problem, const Arrays& exact, const std::vector<Arrays>& drawn,
                        const std::vector<Arrays>& witnesses, GateErrors& errors);

/// The answer of `run` if it summed the gradients of gates up from the end, of its own dq and dk; nothing where no
/// gradient of a gate is such a sum.
std::optional<Arrays> with_gates_summed(const Problem& problem, const Arrays& exact, const Arrays& run);

/// Adds one sample of them to the gradients of all log decays in `answered`. The number of threads changes no bit.
void cumulate_gates(const Problem& problem, Format operands, std::uint64_t seed, int threads, Arrays& answered);

}  // namespace assay
