// Maps in the scans beside them: the same values, and recurrences as they are.
#include "language/evaluate/fused.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "language/answers/answer.hpp"
#include "oracles/scalars/scalar.hpp"
#include "proptests/language/programs.hpp"

namespace assay::language {
namespace {

long scans_of(const Block& block) {
  return std::count_if(block.nodes.begin(), block.nodes.end(), [](const Node& node) { return node.op == Op::scan; });
}

TEST(Fused, AttentionAndItsBackwardPassAreOneScan) {
  for (const char* name : {"softmax_attention", "forgetting_attention", "sink_attention", "alibi_attention"}) {
    const Program program = load_program(in_library(name));
    const Mechanism plain(program);
    Program gradient = plain.gradient;
    const long before = scans_of(*gradient.body);
    gradient.body = fused(gradient.body);
    EXPECT_LT(scans_of(*gradient.body), before) << name;
    const Mechanism joined(program, gradient);
    const Problem problem = made(program_room(in_library(name)), "1,9,2,4,4");
    const BasicAnswer<Mp50> a = answer<Mp50>(Posed<double>(plain, problem), true),
                            b = answer<Mp50>(Posed<double>(joined, problem), true);
    const auto compare = [&](const BasicArrays<Mp50>& first, const BasicArrays<Mp50>& second) {
      ASSERT_EQ(first.size(), second.size());
      for (const auto& [tensor, array] : first)
        for (std::size_t i = 0; i < array.data.size(); ++i)
          ASSERT_LT(abs(Mp50(array.data[i] - second.at(tensor).data[i])), Mp50("1e-45")) << name << ' ' << tensor;
    };
    compare(a.outputs, b.outputs);
    compare(a.gradients, b.gradients);
    EXPECT_FALSE(a.gradients.empty());
  }
}

TEST(Fused, RecurrencesStayWhatTheyAre) {
  for (const char* name : {"gated_deltanet", "mdn", "gsa"}) {
    const Mechanism mechanism(load_program(in_library(name)));
    EXPECT_EQ(fused(mechanism.gradient.body), mechanism.gradient.body) << name;
  }
}

}  // namespace
}  // namespace assay::language
