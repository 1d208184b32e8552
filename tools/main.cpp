#include "tools/program.hpp"
#include "tools/verbs/command.hpp"

int main(int argc, char** argv) { return assay::program(assay::command_line(), {argv + 1, argv + argc}); }
