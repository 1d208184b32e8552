// Cases with arguments: every sequence of a batch is its own. Kernels that are wrong as published ones were are mutants
// of tile programs, and in docs/published-bugs.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "arguments/file_rooms.hpp"
#include "files/problem_file.hpp"
#include "judge/court/argument_form.hpp"

namespace assay::arguments {
namespace {

/// Sequences of a batch that are equal are answered alike to nearest, and at random each in its own way.
TEST(ArgumentForms, GiveSequencesRandomBitsOfTheirOwn) {
  const CaseSpec request{.mechanism = "softmax_attention",
                         .shape = {.batch = 2, .seq_len = 8, .heads = 1, .key_dim = 4, .value_dim = 4},
                         .params = {{"soft_cap", std::string("2")}},
                         .cotangents = false};
  Problem problem = read_problem(draw_case(request, "test"), "case").problem;
  for (const char* name : {"q", "k", "v"}) {
    std::vector<double>& x = problem.inputs.at(name).data;
    std::copy_n(x.begin(), x.size() / 2, x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2));
  }
  const KernelForm& form = find_argument_forms(problem.mechanism)->forms.front();
  for (const Rounding rounding : {Rounding::nearest_even, Rounding::jittered}) {
    Policy policy = Policy::of(form.sites, Format::bf16);
    policy.rounding = rounding, policy.threads = 1;
    const std::vector<double> o = form.run(problem, policy, 0).outputs.at("o").data;
    const auto second = o.begin() + static_cast<std::ptrdiff_t>(o.size() / 2);
    EXPECT_EQ(std::equal(o.begin(), second, second), rounding == Rounding::nearest_even) << name_of(rounding);
  }
}

/// Each has the bias of its own heads, [B, H, Tq, Tk].
TEST(ArgumentForms, GiveSequencesABiasOfTheirOwn) {
  constexpr int tokens = 8, heads = 2, dims = 4;
  const CaseSpec request{.mechanism = "softmax_attention",
                         .shape = {.batch = 2, .seq_len = tokens, .heads = heads, .key_dim = dims, .value_dim = dims},
                         .with = {{"bias", ""}},
                         .cotangents = false};
  const Problem both = read_problem(draw_case(request, "test"), "case").problem;
  ASSERT_EQ(both.inputs.at("bias").shape, (std::vector<int>{2, heads, tokens, tokens}));
  const std::vector<double> o = answer_in_doubles(both).outputs.at("o").data;  // [H][B T][V]
  constexpr std::ptrdiff_t rows = tokens * dims;
  for (const std::ptrdiff_t n : {0, 1}) {
    Problem one = both;
    for (const char* name : {"q", "k", "v", "bias"}) {
      Array& x = one.inputs.at(name);
      const auto each = static_cast<std::ptrdiff_t>(x.data.size() / 2);
      x.data = {x.data.begin() + n * each, x.data.begin() + (n + 1) * each};
      x.shape.front() = 1;
    }
    const std::vector<double> alone = answer_in_doubles(one).outputs.at("o").data;
    ASSERT_EQ(2 * alone.size(), o.size());
    for (std::ptrdiff_t h = 0; h < heads; ++h)
      EXPECT_TRUE(std::equal(alone.begin() + h * rows, alone.begin() + (h + 1) * rows, o.begin() + (2 * h + n) * rows))
          << "head " << h << " of sequence " << n;
  }
}

}  // namespace
}  // namespace assay::arguments
