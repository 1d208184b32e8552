#pragma once
// assay mechanism
#include "tools/verbs/command.hpp"

namespace assay::commands {

extern const Command mechanism;

}  // namespace assay::commands
