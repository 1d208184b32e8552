#include "tools/program.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <iostream>
#include <limits>

#include "files/new_file.hpp"
#include "tools/verbs/command.hpp"

namespace assay {
namespace {

/// Oracles take and drop states of megabytes at every token: memory that the process keeps has no page to be zeroed
/// again. docs/case-format.md, "Against other arithmetic".
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

/// Fills closed standard streams: the first file that we open would take their place. The stand-in cannot be read from,
/// or written to, so that results that get lost are an error.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    const int file = open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_RDWR);
    if (file >= 0 && file != stream) {
      dup2(file, stream);
      close(file);
    }
  }
}

}  // namespace

int program(const CommandLine& line, const std::vector<std::string>& args) {
  open_standard_streams();
  keep_freed_memory();
  remove_unfinished_files_on_signals();
  Console console{std::cout, std::cerr, isatty(STDERR_FILENO) == 1, isatty(STDOUT_FILENO) == 1};
  return run(line, args, console);
}

}  // namespace assay
