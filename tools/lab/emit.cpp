// assay-lab emit: draws of a program as one source, for the host and for CUDA.
#include "language/emit/emit.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "language/program/gradient.hpp"
#include "tools/lab/lab.hpp"

namespace assay {
namespace emit_verb {
namespace {

struct Flags {
  std::string file, output = "-";
  bool gradient = false;
};

int run_emit(const Flags& flags, Console& console) {
  OutputFile file(flags.output, console.out, {flags.file});
  const language::Program program = language::load_program(flags.file);
  file.commit(language::emit(flags.gradient ? language::gradient_of(program) : program).text);
  return exit_passed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("file", flags->file, "FILE.json, a program, as mechanisms/json has them")->required();
  app.add_flag("--gradient", flags->gradient, "the program of its gradients instead");
  app.add_option("-o,--output", flags->output, "where the source goes; - is standard output")->capture_default_str();
  return [flags](Console& console) { return run_emit(*flags, console); };
}

}  // namespace
}  // namespace emit_verb

const Command commands::emit = {"emit", "write draws of a program as one source: C++ for the host, CUDA for a device",
                                emit_verb::add};

}  // namespace assay
