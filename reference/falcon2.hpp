#pragma once
// FALCON-2, one head (falcon-family.md 3.3).
#include <string_view>

#include "reference/families/falcon_rule.hpp"

namespace assay {

struct falcon2 : FalconRule<true> {
  static constexpr std::string_view name = "falcon2";
  static constexpr std::string_view summary = "FALCON-1 with a step size per value channel";
};

}  // namespace assay
