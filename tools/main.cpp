#include "files/shown.hpp"
#include "tools/program.hpp"
#include "tools/verbs/command.hpp"

int main(int argc, char** argv) {
  assay::called_by({argv[0]});
  return assay::program(assay::command_line(), {argv + 1, argv + argc});
}
