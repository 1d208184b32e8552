// Cases with arguments: what they are blind to, and that every sequence of a batch is its own. Kernels that are wrong
// as published ones were are mutants of tile programs, and in docs/published-bugs.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "arguments/file_rooms.hpp"
#include "files/problem_file.hpp"
#include "files/safetensors.hpp"
#include "judge/court/argument_form.hpp"
#include "proptests/tools/cli.hpp"

namespace assay::arguments {
namespace {

class ArgumentChecks : public CliFiles {};

/// Keys of length one in coordinates: these outputs cannot show whether they have been normalised. Other lengths show
/// it.
TEST_F(ArgumentChecks, SayWhatACaseIsBlindTo) {
  for (const float length : {1.0F, 2.0F}) {
    const std::string file = path("case.safetensors"), out = path("out.safetensors");
    ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,24,2,16", "--no-cotangents", "--param", "l2_norm=root",
                         "--param", "l2_eps=0", "--precision", "fp32", "-o", file})
                  .code,
              0);
    Safetensors drawn = read_safetensors(file);
    for (const char* name : {"q", "k"}) {
      Array rows({1, 24, 2, 16});
      for (std::size_t i = 0; i < rows.data.size(); ++i) rows.data[i] = i % 16 == i / 16 * 7 % 16 ? length : 0;
      drawn.tensors[name] = store(rows, "F32");
    }
    write_safetensors(std::filesystem::path(file), drawn);
    ASSERT_EQ(run_assay({"oracle", file, "-o", out}).code, 0);
    const Ran said = run_assay({"check", file, out, "--no-cache"});
    EXPECT_EQ(said.code, 0) << said.out << said.err;
    EXPECT_EQ(said.out.find("l2_norm left out") != std::string::npos, length == 1) << said.out;
  }
}

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
