#include <unistd.h>

#include <iostream>

#include "tools/command.hpp"

int main(int argc, char** argv) {
  assay::Console console{std::cout, std::cerr, isatty(STDERR_FILENO) == 1};
  return assay::run({argv + 1, argv + argc}, console);
}
