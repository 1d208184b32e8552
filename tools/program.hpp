#pragma once
// What a program does around its verbs. Python's module has that of `assay`, too.
#include <string>
#include <vector>

namespace assay {

struct CommandLine;

/// Runs one verb on the process's own streams. Gives the exit code.
int program(const CommandLine& line, const std::vector<std::string>& args);

}  // namespace assay
