#pragma once
// FALCON-2-lite, one head (falcon-family.md 3.2): the map of FALCON-1, usually with a decay floor, which its chunkwise
// forms need: they work with the logarithm of the decay.
#include <string_view>
#include <vector>

#include "reference/core/problem.hpp"
#include "reference/falcon1.hpp"

namespace assay {

struct falcon2_lite : falcon1 {
  static constexpr std::string_view name = "falcon2_lite";
  static constexpr std::string_view summary = "FALCON-1 with its decay kept above a floor";

  struct Options : falcon1::Options {
    static std::vector<Params> variants() {
      return {{},
              {{"decay_floor", "0.875"}},
              {{"sequence_start", false}, {"decay_floor", "0.5"}, {"ridge_coupling", "detach"}},
              {{"alignment", "same_step"}, {"decay_floor", "0.5"}, {"ridge_coupling", "live"}}};
    }

    static Options read(const Params& params) { return {falcon1::Options::read(params)}; }
  };
};

}  // namespace assay
