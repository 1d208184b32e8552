// Cases that drawn ones do not reach: masks with more and fewer queries than keys, rows that see nothing, every
// compiled dimension, lengths beyond two tiles. A kernel that rounds nothing is the oracle there, in every tile shape.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "judge/sigma/residues.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/oracle.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/format.hpp"

namespace assay {
namespace {

constexpr std::string_view attention_rooms[] = {"softmax_attention", "parallax"},
                           delta_rooms[] = {"deltanet", "gated_deltanet"};

struct Fixed {
  const char* name;
  std::span<const std::string_view> rooms;
  Shape shape;
  Params params = {};  ///< of attention; delta rules are run in all their variants
  friend std::ostream& operator<<(std::ostream& os, const Fixed& f) { return os << f.name; }
};

const Fixed fixed_cases[] = {
    {"both_directions", attention_rooms, {1, 40, 2, 1, 9, 17, 0}, {{"causal", false}}},
    {"few_queries_in_both_directions", attention_rooms, {1, 70, 2, 1, 9, 17, 3}, {{"causal", false}}},
    {"fewer_queries", attention_rooms, {1, 90, 4, 1, 9, 17, 20}},
    {"fewer_queries_in_a_window", attention_rooms, {1, 90, 4, 2, 9, 17, 20}, {{"window", 30L}}},
    {"rows_that_see_nothing", attention_rooms, {1, 20, 2, 2, 9, 17, 50}},
    {"rows_that_see_nothing_in_a_window", attention_rooms, {1, 17, 1, 1, 9, 17, 90}, {{"window", 3L}}},
    {"a_window_wider_than_the_sequence", attention_rooms, {1, 40, 1, 1, 9, 17, 0}, {{"window", 100L}}},
    {"rows_that_see_nothing_of_their_first_tile", attention_rooms, {1, 130, 1, 1, 9, 17, 0}, {{"window", 64L}}},
    {"two_splits_of_a_window", attention_rooms, {1, 300, 2, 1, 9, 17, 5}, {{"window", 280L}}},
    {"packed_rows", attention_rooms, {1, 77, 4, 1, 9, 17, 16}},
    {"wide_keys", attention_rooms, {1, 33, 1, 1, 64, 3, 0}},
    {"wide_values", attention_rooms, {1, 70, 1, 1, 3, 65, 20}},
    {"the_widest", attention_rooms, {1, 40, 1, 1, 128, 128, 16}},
    {"square", delta_rooms, {1, 33, 2, 1, 16, 16, 0}},
    {"beyond_square", delta_rooms, {1, 33, 2, 1, 17, 20, 0}},
    {"wide_keys_and_values", delta_rooms, {1, 33, 1, 1, 70, 65, 0}},
    {"wide_values_of_a_state", delta_rooms, {1, 33, 1, 1, 5, 140, 0}},
    {"one_token", delta_rooms, {1, 1, 2, 1, 5, 3, 0}},
    {"three_chunks", delta_rooms, {1, 130, 2, 1, 5, 3, 0}},
};

/// The first number that is further from the oracle than half a last bit of every input and cotangent moves its tensor,
/// or "". The kernel has eleven bits more than that, and its answer is rounded once.
std::string off_the_oracle(const Oracle& oracle, const KernelForm& form, const Problem& p, int tile) {
  const Arrays got = flat(form.run(p, Policy::exact(form.sites), tile)), moved = residues(form, p, tile);
  for (const auto& [name, tensor] : oracle.tensors) {
    if (p.cotangents.empty() && name.starts_with("d_")) continue;
    const Array& answer = got.at(name);
    double most = 0;
    for (const double x : moved.at(name).data) most = std::max(most, x);
    for (std::size_t i = 0; i < tensor.value.size(); ++i) {
      const double want = tensor.value[i].hi,
                   limit = most + tensor.bound[i] + unit_roundoff(Format::fp64) * std::fabs(want);
      if (!(std::fabs(answer.data.at(i) - want) <= limit))
        return text(name, place(tensor.shape, i), ": got ", answer.data[i], ", want ", want, ", allowed ", limit);
    }
  }
  return "";
}

class FixedCases : public ::testing::TestWithParam<Fixed> {};

TEST_P(FixedCases, are_the_oracles_where_nothing_rounds) {
  int tried = 0;
  for (const std::string_view name : GetParam().rooms) {
    const Room& room = listed_room(name);
    const bool recurrent = GetParam().rooms.data() == delta_rooms;
    for (const Params& params : recurrent ? room.variants() : std::vector<Params>{GetParam().params}) {
      const CaseSpec spec{std::string(name), GetParam().shape, Format::bf16, Style::normal, 3, params};
      const Problem whole = room.make(spec);
      const Oracle oracle = oracle_of(room, whole);
      for (const KernelForm& form : find_kernels(kernel_rooms(), name)->forms) {
        Problem problem = whole;
        if (!form.has_gradients) problem.cotangents.clear();
        if (!form.unstable.empty() || !form.obstacle(problem).empty()) continue;
        for (int tile = 0; tile < static_cast<int>(form.tiles.size()); ++tile, ++tried)
          EXPECT_EQ(off_the_oracle(oracle, form, problem, tile), "")
              << spec.repro() << ' ' << form.name << " tile " << tile;
      }
    }
  }
  EXPECT_GE(tried, 6);
}

INSTANTIATE_TEST_SUITE_P(Kernels, FixedCases, ::testing::ValuesIn(fixed_cases),
                         [](const auto& of) { return std::string(of.param.name); });

TEST(KernelMutants, say_what_they_do_and_where_they_were_seen) {
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm& form : kernels->forms)
      for (const Mutant& m : form.mutants)
        EXPECT_FALSE(m.what.empty() || m.seen.empty()) << kernels->name << ' ' << form.name << ' ' << m.name;
}

}  // namespace
}  // namespace assay
