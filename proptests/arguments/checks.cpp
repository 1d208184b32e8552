// assay check on cases with arguments: right kernels pass, kernels that are wrong as published ones were fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "files/problem_file.hpp"
#include "judge/court/argument_form.hpp"
#include "proptests/arguments/kernels.hpp"
#include "proptests/core/share.hpp"
#include "proptests/tools/cli.hpp"

namespace assay::arguments {
namespace {

/// A case, and bugs that it must show.
struct Judged {
  const char* name;
  std::vector<std::string> words;  ///< of `assay case`
  std::vector<const char*> bugs;
};

const std::vector<Judged>& attention_cases() {
  static const std::vector<Judged> all = {
      {"cap_and_sinks",
       {"--shape", "1,24/40,4/2,16", "--param", "soft_cap=2", "--with", "sink", "--with", "lse", "--param",
        "scale=0.5"},
       {"s tanh s", "sink counted twice", "lse off by ln 2", "forgets the cap's slope", "drops the cotangent of lse",
        "centres the scores' gradient", "starts at the first key"}},
      {"window_and_alibi",
       {"--shape", "1,24/40,2,16", "--param", "window_left=6", "--with", "alibi_slopes", "--param", "scale=0.25"},
       {"window one off", "starts at the first key", "lse off by ln 2"}},
      {"signed_alibi",
       {"--shape", "1,24,2,16", "--param", "causal=false", "--with", "alibi_slopes", "--param", "alibi_form=signed",
        "--param", "window_right=4"},
       {"sign of ALiBi's distance"}},
      {"masks_of_a_batch",
       {"--shape", "2,12/20,2,8", "--with", "mask", "--with", "bias", "--param", "causal=false", "--style",
        "empty_rows"},
       {"averages in an empty row", "lse of an empty row is +inf", "no gradient of bias"}},
      {"documents",
       {"--shape", "1,40,2,16", "--style", "short_documents", "--with", "lse"},
       {"ignores documents", "drops the cotangent of lse"}},
      {"bias_before_the_scale",
       {"--shape", "1,16,2,16", "--with", "bias", "--param", "bias_place=before_scale", "--param", "scale=0.25"},
       {"no gradient of bias"}},
      {"low_lse",
       {"--shape", "1,16,2,16", "--style", "low_lse", "--precision", "fp32"},
       {"exponential of lse", "lse off by ln 2"}},
      {"high_lse", {"--shape", "1,16,2,16", "--style", "high_lse", "--precision", "fp32"}, {"exponential of lse"}},
      {"packed_with_padding",
       {"--shape", "1,40,4/2,16", "--style", "short_sequences"},
       {"reads padding", "lse off by ln 2"}},
      {"lengths_of_a_batch",
       {"--shape", "3,10/20,2,16", "--with", "lengths_k=20,7,0", "--with", "lengths_q=10,4,3"},
       {"reads padding", "starts at the first key"}},
  };
  return all;
}

const std::vector<Judged>& delta_cases() {
  static const std::vector<Judged> all = {
      {"packed_v_first",
       {"--shape", "1,40,4/2,8", "--style", "short_sequences", "--param", "state_layout=v_first"},
       {"empty sequences end in zero", "states with K first"}},
      {"raw_gates",
       {"--shape", "1,32,2,16", "--param", "gate=softplus", "--param", "beta_gate=sigmoid", "--param", "beta_scale=2"},
       {"forgets dt_bias", "beta without its factor"}},
      {"normalised",
       {"--shape", "1,30,2,8", "--style", "tiny_norms", "--precision", "fp32"},
       {"eps outside of the root"}},
      {"saturated", {"--shape", "1,28,2,8", "--style", "saturated_gates", "--precision", "fp32"}, {"forgets dt_bias"}},
      {"one_token", {"--shape", "2,1,2,8", "--param", "gate=softplus"}, {"forgets dt_bias"}},
  };
  return all;
}

class ArgumentChecks : public CliFiles {
 protected:
  /// The output of `assay check` for the kernel with that bug.
  Ran checked(const std::string& mechanism, const Judged& judged, std::uint64_t seed, const std::string& bug) {
    std::vector<std::string> words = {"case", mechanism};
    words.insert(words.end(), judged.words.begin(), judged.words.end());
    for (const char* word : {"--seed", "", "-o", ""}) words.emplace_back(word);
    words[words.size() - 3] = std::to_string(seed), words.back() = path("case.safetensors");
    const Ran made = run_assay(words);
    if (made.code != 0) return made;
    UserKernel kernel(read_safetensors(path("case.safetensors")), bug);
    write_safetensors(std::filesystem::path(path("out.safetensors")),
                      mechanism == "softmax_attention" ? kernel.attention() : kernel.delta_rule());
    return run_assay({"check", path("case.safetensors"), path("out.safetensors"), "--no-cache"});
  }

  /// One in nine seeds and bugs of every case, or more.
  void judge(const std::string& mechanism, const std::vector<Judged>& cases) {
    Share seeds(9), bugs(9);
    while (seeds.goes_on())
      for (const Judged& judged : cases)
        for (const std::uint64_t seed : {0, 1, 2}) {
          if (!seeds.takes()) continue;
          const Ran healthy = checked(mechanism, judged, seed, "");
          EXPECT_EQ(healthy.code, 0) << judged.name << ", seed " << seed << ":\n" << healthy.out << healthy.err;
          EXPECT_NE(healthy.out.find("model"), std::string::npos) << judged.name;
        }
    while (bugs.goes_on())
      for (const Judged& judged : cases)
        for (const char* bug : judged.bugs) {
          if (!bugs.takes()) continue;
          const Ran wrong = checked(mechanism, judged, 0, bug);
          EXPECT_EQ(wrong.code, 1) << judged.name << " with the bug: " << bug << '\n' << wrong.out << wrong.err;
        }
  }
};

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

TEST_F(ArgumentChecks, OfAttentionPassAndFail) { judge("softmax_attention", attention_cases()); }
TEST_F(ArgumentChecks, OfGatedDeltaRulePassAndFail) { judge("gated_deltanet", delta_cases()); }

}  // namespace
}  // namespace assay::arguments
