#pragma once
// assay contract
#include "tools/verbs/command.hpp"

namespace assay::commands {

extern const Command contract;

}  // namespace assay::commands
