// The emulation of wide heads in a device's blocks of columns: one block has the bits of the form, several round the
// parts of dq and dk once more.
#include "tools/gpu/wide_emulation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "kernels/arguments/rooms.hpp"
#include "tools/gpu/argument_cases.hpp"

namespace assay {
namespace {

double distance(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += (a.data[i] - b.data[i]) * (a.data[i] - b.data[i]);
  return std::sqrt(sum);
}

/// A problem of 43 tokens, with a front end.
Problem problem_of(int value_dim) {
  for (Problem& p : device_cases::packed("deltanet", 24, value_dim, false))
    if (p.inputs.at("k").shape[1] == 43) return p;
  throw std::runtime_error("no case of 43 tokens");
}

class WideEmulation : public testing::Test {
 protected:
  static constexpr int tile = 1;  // of chunks of 32 tokens, as the device's are
  const KernelForm& form = tile::kernel_rooms::with_arguments("deltanet")->forms.front();
  RunInBlocks in_blocks = in_blocks_of_wide_heads("deltanet");
  Policy bf16 = Policy::of(form.sites, Format::bf16);
};

TEST_F(WideEmulation, OfOneBlockIsTheForm) {
  const Problem problem = problem_of(16);
  const Answer whole = form.run(problem, bf16, tile), blocks = in_blocks(problem, bf16, tile);
  EXPECT_EQ(blocks.outputs, whole.outputs);
  EXPECT_EQ(blocks.gradients, whole.gradients);
}

TEST_F(WideEmulation, OfTwoBlocksRoundsThePartsOfQueriesAndKeys) {
  const Problem problem = problem_of(40);
  const Answer whole = form.run(problem, bf16, tile), blocks = in_blocks(problem, bf16, tile);
  EXPECT_EQ(blocks.outputs, whole.outputs);
  for (const char* name : {"q", "k"}) EXPECT_NE(blocks.gradients.at(name), whole.gradients.at(name)) << name;
  EXPECT_EQ(blocks.gradients.at("v"), whole.gradients.at("v"));
  // Sums over 40 columns in two orders.
  const double apart = 2 * 40 * unit_roundoff(Format::fp64);
  const Policy exact = Policy::exact(form.sites);
  const Answer truth = form.run(problem, exact, tile), same = in_blocks(problem, exact, tile);
  for (const auto& [name, array] : truth.gradients)
    EXPECT_LE(distance(same.gradients.at(name), array), apart * distance(array, Array(array.shape))) << name;
}

TEST_F(WideEmulation, KnowsWhoHasNoParts) {
  for (const char* mechanism : {"gated_deltanet", "mamba2", "gla", "kda", "softmax_attention"})
    EXPECT_EQ(in_blocks_of_wide_heads(mechanism), nullptr) << mechanism;
}

}  // namespace
}  // namespace assay
