// Tile programs with arguments: judged by the programs of arguments/programs, laws to the bit, and mutants.
#include <gtest/gtest.h>

#include <cstdlib>

#include "judge/held_out/arguments.hpp"
#include "kernels/core/batch.hpp"
#include "proptests/arguments/tile_cases.hpp"

namespace assay::arguments {
namespace {

constexpr Shape unequal = {
    .batch = 1, .seq_len = 40, .heads = 4, .shared_heads = 2, .key_dim = 16, .value_dim = 16, .query_len = 24};
constexpr Shape equal = {.batch = 1, .seq_len = 40, .heads = 2, .key_dim = 16, .value_dim = 16};

/// The first so many rows of every query's tensor of a batch of one, without cotangents.
Problem first_rows(Problem problem, int rows) {
  problem.cotangents.clear();
  for (const char* name : {"q", "rho"}) {
    const auto found = problem.inputs.find(name);
    if (found == problem.inputs.end()) continue;
    Array& x = found->second;
    x.data.resize(x.data.size() / static_cast<std::size_t>(x.shape[1]) * static_cast<std::size_t>(rows));
    x.shape[1] = rows;
  }
  return problem;
}

class TilePrograms : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Arguments, TilePrograms,
                         ::testing::Values("softmax_attention", "parallax", "deltanet", "gated_deltanet", "comba",
                                           "linear_attention", "retnet", "mamba2", "gla", "kda"),
                         [](const auto& instance) { return std::string(instance.param); });

const KernelRoom& held_out_of(const std::string& mechanism) {
  return *held_out_with_arguments(mechanism + std::string(room_suffix));
}
bool has_mutant(const KernelRoom& room, std::string_view name) {
  return std::any_of(room.forms.begin(), room.forms.end(), [&](const KernelForm& form) {
    return std::any_of(form.mutants.begin(), form.mutants.end(), [&](const Mutant& m) { return m.name == name; });
  });
}

/// One in so many of what takes minutes as a whole; all with ASSAY_EVERY=1, and by `assay mutants --arguments`.
class OneIn {
 public:
  explicit OneIn(int many) {
    const char* asked = std::getenv("ASSAY_EVERY");
    every_ = asked == nullptr ? many : std::max(1, std::atoi(asked));
  }
  bool takes() { return met_++ % every_ == 0; }

 private:
  int every_, met_ = 0;
};

TEST_P(TilePrograms, PassUnderContracts) {
  OneIn sampled(2);
  for (const ArgumentCase& one : argument_cases(GetParam())) {
    if (!sampled.takes()) continue;
    const bool softmax = one.request.mechanism == "softmax_attention" && one.request.precision == Format::bf16;
    const std::vector<const char*> contracts = one.name == "sink" ? std::vector{"flash_attention", "torch_sdpa", "fla"}
                                               : softmax          ? std::vector{"flash_attention"}
                                                                  : std::vector{name_of(one.request.precision)};
    for (const char* contract : contracts) {
      const Judged found = judged(one, *tile::kernel_rooms::with_arguments(GetParam()), "", contract);
      EXPECT_TRUE(keeps(found)) << one.name << ", " << contract << '\n' << words(found);
    }
  }
}
TEST_P(TilePrograms, KillTheirMutants) {
  OneIn sampled(3);
  for (const ArgumentCase& one : argument_cases(GetParam()))
    for (const std::string_view mutant : one.mutants) {
      if (!sampled.takes()) continue;
      const bool is_held_out = has_mutant(held_out_of(GetParam()), mutant);
      const KernelRoom& room = is_held_out ? held_out_of(GetParam()) : *tile::mutant_rooms::with_arguments(GetParam());
      if (!is_held_out && !has_mutant(room, mutant)) continue;  // of an argument that others take
      const Judged found = judged(one, room, std::string(mutant), name_of(one.request.precision));
      EXPECT_EQ(found.verdict, Verdict::fail) << one.name << ", " << mutant << '\n' << words(found);
    }
}
/// Every mutant that a form has is one that some case above kills.
TEST_P(TilePrograms, HaveNoOtherMutants) {
  const std::vector<ArgumentCase> cases = argument_cases(GetParam());
  for (const KernelRoom* room : {tile::mutant_rooms::with_arguments(GetParam()), &held_out_of(GetParam())})
    for (const KernelForm& form : room->forms)
      for (const Mutant& mutant : form.mutants)
        EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                                [&](const ArgumentCase& one) {
                                  return one.form == form.name && std::find(one.mutants.begin(), one.mutants.end(),
                                                                            mutant.name) != one.mutants.end();
                                }))
            << form.name << ", " << mutant.name;
}

// ---- laws, to the bit

/// What the form answers in bf16.
Answer answered(const Problem& problem, const std::string& mechanism, const char* form = "tiled") {
  const KernelForm& found = form_of(*tile::kernel_rooms::with_arguments(mechanism), form);
  return answer_of_sequences(found, problem, policy_of(found, Format::bf16), 0);
}
Problem drawn_problem(const char* mechanism, Params params,
                      std::vector<std::pair<std::string, std::string>> with = {{"lse", ""}}) {
  return Drawn{.mechanism = mechanism, .shape = unequal, .params = std::move(params), .with = std::move(with)}
      .problem()
      .problem;
}

class TileLaws : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Arguments, TileLaws, ::testing::Values("softmax_attention", "parallax"),
                         [](const auto& instance) { return std::string(instance.param); });

/// Without arguments the steps are nothing: the bits are those of the room's own form.
TEST_P(TileLaws, NoArgumentIsThePlainForm) {
  Problem problem = drawn_problem(GetParam(), {});
  problem.cotangents.erase("lse");
  const KernelForm& form = find_kernels(kernel_rooms(), GetParam())->forms.front();
  Problem plain = FileCase::of(problem)->folded_doubles().problems().front();
  plain.mechanism = GetParam();
  plain.params = {{"bandwidth", std::to_string(plain.inputs.at("bandwidth").data[0])}};
  plain.inputs.erase("bandwidth");
  EXPECT_EQ(differences(form.run(plain, policy_of(form, Format::bf16), 0), answered(problem, GetParam())), "");
}
TEST_P(TileLaws, AWindowOfAllKeysIsNone) {
  for (const char* form : {"tiled", "split_decode"}) {
    Problem all = drawn_problem(GetParam(), {}), wide = drawn_problem(GetParam(), {{"window_left", 40L}});
    if (form == std::string_view("split_decode")) all = first_rows(all, 8), wide = first_rows(wide, 8);
    EXPECT_EQ(differences(answered(all, GetParam(), form), answered(wide, GetParam(), form)), "") << form;
  }
}
TEST_P(TileLaws, ACapBeyondAllScoresIsAnyOther) {
  const Answer a = answered(drawn_problem(GetParam(), words_of({{"soft_cap", "1152921504606846976"}})), GetParam());
  const Answer b = answered(drawn_problem(GetParam(), words_of({{"soft_cap", "2305843009213693952"}})), GetParam());
  EXPECT_EQ(differences(a, b), "");
}
TEST_P(TileLaws, AMaskOfEverythingIsNone) {
  const Problem problem = drawn_problem(GetParam(), {});
  Problem masked = problem;
  masked.inputs["mask"] = Array({24, 40}, std::vector<double>(24 * 40, 1.0));
  EXPECT_EQ(differences(answered(problem, GetParam()), answered(masked, GetParam())), "");
}
TEST_P(TileLaws, OneDocumentIsNone) {
  const Problem problem = drawn_problem(GetParam(), {});
  Problem marked = problem;
  marked.inputs["documents_q"] = Array({24}, std::vector<double>(24, 7.0));
  marked.inputs["documents_k"] = Array({40}, std::vector<double>(40, 7.0));
  EXPECT_EQ(differences(answered(problem, GetParam()), answered(marked, GetParam())), "");
}
TEST_P(TileLaws, SignedSlopesAreDistancesWhereNobodyLooksAhead) {
  const Answer a = answered(drawn_problem(GetParam(), {}, {{"alibi_slopes", ""}}), GetParam());
  const Answer b =
      answered(drawn_problem(GetParam(), words_of({{"alibi_form", "signed"}}), {{"alibi_slopes", ""}}), GetParam());
  EXPECT_EQ(differences(a, b), "");
}

TEST(TileLawsOfSinks, ASinkOfMinusInfinityIsNone) {
  for (const char* form : {"tiled", "split_decode"}) {
    Problem with = drawn_problem("softmax_attention", {}, {{"sink", ""}});
    if (form == std::string_view("split_decode")) with = first_rows(with, 8);
    Problem without = with;
    without.inputs.erase("sink");
    with.inputs.at("sink").data.assign(4, -INFINITY);
    EXPECT_EQ(differences(answered(with, "softmax_attention", form), answered(without, "softmax_attention", form)), "");
    // And of one head alone.
    Problem some = with;
    some.inputs.at("sink").data = {-INFINITY, 1, 2, 3};
    const Array a = answered(some, "softmax_attention", form).outputs.at("o"),
                b = answered(without, "softmax_attention", form).outputs.at("o");
    EXPECT_TRUE(
        std::equal(a.data.begin(), a.data.begin() + static_cast<std::ptrdiff_t>(a.data.size() / 4), b.data.begin()));
  }
}

/// Sequences in a pack, in one launch each, and one by one.
TEST_P(TileLaws, PackedSequencesAreSeparateCalls) {
  const Problem packed = Drawn{.mechanism = GetParam(),
                               .shape = equal,
                               .params = words_of({{"soft_cap", "2"}}),
                               .with = {{"cu_seqlens", "0,0,1,18,18,40"}, {"alibi_slopes", ""}, {"lse", ""}}}
                             .problem()
                             .problem;
  const Answer whole = answered(packed, GetParam());
  const KernelForm& form = form_of(*tile::kernel_rooms::with_arguments(GetParam()), "tiled");
  const auto& sequences = FileCase::of(packed)->folded_doubles().problems();
  const std::vector<Problem> list(sequences.begin(), sequences.end());
  const Policy policy = policy_of(form, Format::bf16);
  const std::vector<Answer> together = run_packed(form, list, policy, 0);
  std::vector<double> o(whole.outputs.at("o").data.size());
  int row = 0;
  for (std::size_t n = 0; n < list.size(); ++n) {
    EXPECT_EQ(differences(form.run(list[n], policy, 0), together[n]), "") << n;
    const Array& one = together[n].outputs.at("o");
    const int rows = one.shape[1], width = one.shape[2];
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < rows * width; ++i)
        o[static_cast<std::size_t>((h * 40 + row) * width + i)] =
            one.data[static_cast<std::size_t>(h * rows * width + i)];
    row += rows;
  }
  EXPECT_EQ(o, whole.outputs.at("o").data);
}

}  // namespace
}  // namespace assay::arguments
