#pragma once
// How RapidCheck draws a case: lengths around the tile edges, heads grouped or not, every style, the room's own
// options. On a failure it prints words that the command line takes.
#include <rapidcheck.h>

#include <ostream>

#include "arguments/drawn_case.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

/// The subject of a law: a form of a room, at one of its tile shapes, on one case.
struct LawCase {
  CaseSpec spec;
  int tile = 0;

  friend std::ostream& operator<<(std::ostream& os, const LawCase& c) {
    return os << "build/assay report " << c.spec.repro() << arguments::argument_flags(c.spec) << " (tile " << c.tile
              << ")";
  }
};

/// Formats that kernels come in.
inline constexpr Format kernel_precisions[] = {Format::fp64, Format::fp32, Format::tf32, Format::bf16,
                                               Format::fp16, Format::e4m3, Format::e5m2};

/// Cases for a form of a room, in one of the room's settings (window, alignment, error ...).
rc::Gen<LawCase> law_cases(const Room& room, const KernelForm& form);

}  // namespace assay
