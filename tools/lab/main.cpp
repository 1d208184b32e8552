#include "tools/lab/lab.hpp"
#include "tools/program.hpp"

int main(int argc, char** argv) { return assay::program(assay::lab_command_line(), {argv + 1, argv + argc}); }
