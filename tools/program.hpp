#pragma once
// The parts of a program around its verbs. Python's module has those of `assay`, too.
#include <string>
#include <vector>

namespace assay {

struct CommandLine;

/// Runs one verb on the process's own streams. Gives the exit code.
int program(const CommandLine& line, const std::vector<std::string>& args);

}  // namespace assay
