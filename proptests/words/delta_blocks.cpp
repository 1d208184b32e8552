// Slabs by blocks of threads, as GPUs run them, have the bits of the CPU's: here their code runs on the CPU, and a
// phase is a loop; on a GPU `assay-lab bench draws` compares.
#include "oracles/multiword/blocks/delta_blocks.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "oracles/multiword/blocks/delta_block_back.hpp"
#include "oracles/multiword/delta.hpp"
#include "proptests/words/delta_cases.hpp"

namespace assay::words {
namespace {

int runs = 0;  // of the executor below

/// Whatever a block does not write is no number.
std::vector<double> unwritten(std::size_t n) {
  return std::vector<double>(n, std::numeric_limits<double>::quiet_NaN());
}

template <int W>
void run_blocks(const DeltaBlocks& x, std::size_t blocks, std::size_t work) {
  for (std::size_t block = 0; block < blocks; ++block) {
    portable::BlockColumns<W> columns;
    double* own = x.work + block * (work / blocks);
    portable::DeltaBlockBack<W>(x, block, columns, own, own).run();
  }
}

bool run_here(SlabRun& run) {
  const BlocksRun blocks(run);
  std::vector<double> work = unwritten(blocks.work()), down = unwritten(blocks.down());
  const DeltaBlocks x = blocks.arguments(blocks.up().data(), work.data(), down.data());
  if (run.prepared.words == 2) run_blocks<2>(x, blocks.blocks(), work.size());
  if (run.prepared.words == 3) run_blocks<3>(x, blocks.blocks(), work.size());
  if (run.prepared.words == 4) run_blocks<4>(x, blocks.blocks(), work.size());
  blocks.take(down, run);
  ++runs;
  return true;
}

constexpr SlabExecutor here = {[](std::size_t, std::size_t, std::size_t, int, bool) { return 1; }, run_here};

/// Slabs go there as long as this lives.
struct ByBlocks {
  ByBlocks() { slabs_with(&here); }
  ByBlocks(const ByBlocks&) = delete;
  ByBlocks& operator=(const ByBlocks&) = delete;
  ~ByBlocks() { slabs_with(nullptr); }
};

void expect_same_bits(const DeltaCase& c) {
  const GradientData data(c);
  for (int words = 2; words <= 4; ++words) {
    const Effort effort{words, 1, best_isa()};
    const auto back = [&] { return delta_backward(data.problem, data.cotangent, effort); };
    const auto forward = [&] { return delta_forward(data.problem, effort); };
    const int before = runs;
    const auto [gradients, answer] = [&] {
      const ByBlocks blocks;
      portable::last_task_first = words % 2 == 0;  // threads do not wait for each other within a phase
      return std::pair(back(), forward());
    }();
    portable::last_task_first = false;
    EXPECT_EQ(runs, before + (c.T == 0 ? 0 : 2));
    const DeltaGradients expected = back();
    const DeltaAnswer outputs = forward();
    const auto got = tensors_of(gradients), want = tensors_of(expected);
    for (std::size_t n = 0; n < got.size(); ++n)
      EXPECT_TRUE(same_bits(*got[n].second, *want[n].second)) << c << ", " << words << " words: " << got[n].first;
    EXPECT_TRUE(same_bits(answer.o, outputs.o) && same_bits(answer.final_state, outputs.final_state))
        << c << ", " << words << " words";
  }
}

TEST(WordsDeltaBlocks, EveryRuleHasTheSlabsBits) {
  for (const DeltaDecay decay : {DeltaDecay::none, DeltaDecay::per_step, DeltaDecay::per_channel})
    for (const DeltaError error : {DeltaError::none, DeltaError::undecayed, DeltaError::decayed})
      if (error != DeltaError::undecayed || decay != DeltaDecay::per_channel)
        expect_same_bits({23, 37, 11, decay, error, KeyStyle::normal, false, true, 6});
}

/// And no steps stay here.
TEST(WordsDeltaBlocks, SoHaveSeveralBlocksAndTheLastOnesColumns) {
  for (const std::size_t values : {1, 64, 72, 131})
    expect_same_bits(
        {7, 35, values, DeltaDecay::per_step, DeltaError::decayed, KeyStyle::normal, false, values != 72, 0});
  expect_same_bits({.K = 3, .V = 2});
}

}  // namespace
}  // namespace assay::words
