#pragma once
// assay contract
#include "tools/command.hpp"

namespace assay::commands {

extern const Command contract;

}  // namespace assay::commands
