#include <malloc.h>
#include <unistd.h>

#include <iostream>
#include <limits>

#include "tools/command.hpp"

namespace {

/// Oracles take and drop states of megabytes at every token: memory that the process keeps has no page to be zeroed
/// again. docs/case-format.md, "Against other arithmetic".
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  assay::Console console{std::cout, std::cerr, isatty(STDERR_FILENO) == 1};
  return assay::run({argv + 1, argv + argc}, console);
}
