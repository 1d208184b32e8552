#include "tools/bench/bench_draws.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

#include "language/answers/by_text.hpp"
#include "language/answers/by_tier.hpp"
#include "language/device/cuda_texts.hpp"
#include "language/room.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/scalars/perturbed.hpp"
#include "reference/core/error.hpp"
#include "reference/core/sha256.hpp"
#include "tools/bench/bench_tiles.hpp"
#include "tools/bench/beside.hpp"
#include "tools/print/table.hpp"

namespace assay {
namespace {

constexpr int together = 4;  // as many draws as a verdict needs at first

Answer drawn(const language::Mechanism& mechanism, const Problem& problem, std::uint64_t seed, int threads) {
  using Arithmetic = PerturbedArithmetic;
  const Arithmetic draw(Format::bf16, Arithmetic::Operands::nearest, seed, Arithmetic::States::wide, threads);
  return language::emulated(mechanism, problem);
}

std::string digest_of_text(const language::Mechanism& mechanism) {
  constexpr std::size_t digits = 12;
  return Sha256().update(language::emit(mechanism.gradient).text).hex().substr(0, digits);
}

std::vector<std::string> row_of(const std::string& file, const std::string& size, language::TextExecutor& gpu,
                                const std::string& kept, std::size_t& differ) {
  const auto mechanism = language::find_mechanism(file);
  require(mechanism != nullptr, file, ": expected a program's file");
  const Shape shape = shape_from(size);
  const std::string digest = digest_of_text(*mechanism);
  if (auto row = kept_row(kept, {mechanism->program.name, digest, text_of(shape)}); !row.empty()) return row;
  const auto room = find_room(file);
  const Problem problem = room->make({.mechanism = file, .shape = shape});
  const int threads = words::threads_or_all(0);
  Answer by_text, by_evaluator;
  language::draw_by_text(&gpu);
  by_text = drawn(*mechanism, problem, 1, 1);  // compiles it
  const double one = seconds_of([&] { drawn(*mechanism, problem, 1, 1); });
  const double several = seconds_of(
      [&] { words::in_parallel(together, together, [&](std::size_t k) { drawn(*mechanism, problem, k, 1); }); });
  language::draw_by_text(nullptr);
  const double evaluator = seconds_of([&] { by_evaluator = drawn(*mechanism, problem, 1, threads); });
  ComparedBits compared;
  compared.add(by_text, by_evaluator);
  differ += compared.differ;
  return {mechanism->program.name,
          digest,
          text_of(shape),
          std::to_string(compared.numbers),
          std::to_string(compared.differ),
          fmt::format("{:.2f}", one),
          fmt::format("{:.2f}", several),
          fmt::format("{:.2f}", evaluator)};
}

}  // namespace

std::string page_of_draws(const std::vector<std::string>& files, const std::vector<std::string>& shapes,
                          const std::vector<std::string>& rooms, const std::string& kept, std::size_t& differ) {
  std::string why;
  const auto gpu = language::cuda_texts({}, strict_news(), why);
  require(gpu != nullptr, "draws on a GPU: ", why);
  const std::string machine =
      fmt::format("an {}, beside all {} cores of the host", gpu->name(), std::thread::hardware_concurrency());
  require(kept.empty() || kept.find(machine) != std::string::npos, "--keep: that page is not of ", machine);
  Table table = Table()
                    .words({"program", "source", "shape"})
                    .numbers({"numbers", "differ", "a draw, s", text(together, " draws at once, s"), "evaluator, s"});
  for (const std::string& file : files)
    for (const std::string& shape : shapes) table.rows.push_back(row_of(file, shape, *gpu, kept, differ));
  const std::string tiles = tiles_on_gpu(rooms, kept, differ).markdown(),
                    slabs = slabs_on_gpu_beside_cpu(kept, differ).markdown();
  return fmt::format(R"(<!-- written by `assay-lab bench draws -o records/emitted.md`, on a GPU -->

# What judges on a GPU

Compiled by NVRTC and run on {}. **Differ** counts numbers whose bits are not the CPU's; **source** is
the digest of the code that was compiled.

## Draws of programs

A program's gradients as `assay-lab emit --gradient` writes them: one draw of evidence `model` in bf16, with its copies from and to the
host, beside the evaluator's.

{}
## Draws of tile programs

Evidence `contract`: every form at 1,70,2,64, in bf16 with each way to round, in fp16 and in fp32, and at 1,1024,8,64 in bf16, which the
seconds are of.

{}
## Truth

Slabs of delta rules in two to four words: outputs, gradients and their bounds, at small sizes and at 1,4096,16,128 in two words, which
the seconds are of.

{})",
                     machine, table.markdown(), tiles, slabs);
}

std::vector<std::string> stale_in_page(const std::string& page, const std::string& folder) {
  std::set<std::string> stale;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    std::string bar, name, digest;
    cells >> bar >> name >> bar >> digest;
    const auto file = std::filesystem::path(folder) / (name + ".json");
    std::string today = digest_of_device_code(name);
    if (today.empty() || std::filesystem::exists(file)) {
      if (name.empty() || !std::filesystem::exists(file)) continue;
      today = digest_of_text(*language::find_mechanism(file.string()));
    }
    if (today != digest)
      stale.insert(name + ": its text is another one today; run `assay-lab bench draws` again on a GPU");
  }
  return {stale.begin(), stale.end()};
}

}  // namespace assay
