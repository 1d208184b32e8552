#pragma once
// The program `assay`, which Python's module has, too.
#include <string>
#include <vector>

namespace assay {

/// Runs one verb on the process's own streams, with the kernels that have faults to plant. Gives the exit code.
int program(const std::vector<std::string>& args);

}  // namespace assay
