#pragma once
// FALCON-1, one head (falcon-family.md 3.1).
#include <string_view>

#include "reference/families/falcon_rule.hpp"

namespace assay {

struct falcon1 : FalconRule<false> {
  static constexpr std::string_view name = "falcon1";
  static constexpr std::string_view summary = "normalised delta rule with a ridge that decays the state";
};

}  // namespace assay
