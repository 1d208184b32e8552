// Mistakes about packed sequences are named: where states begin and end, and whose they are. The answers are written
// out here, token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "arguments/file_case.hpp"
#include "files/problem_file.hpp"
#include "judge/hypotheses/hypotheses.hpp"
#include "proptests/oracles/bench.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

constexpr int n_heads = 2, n_tokens = 60, n_keys = 6, n_values = 5, n_sequences = 3;

const ProblemFile& packed_case() {
  static const ProblemFile file =
      read_problem(arguments::draw_case({.mechanism = "mamba2",
                                         .shape = {1, n_tokens, n_heads, 0, n_keys, n_values, 0},
                                         .with = {{"cu_seqlens", "0,22,41,60"}},
                                         .cotangents = false},
                                        "test"),
                   "case");
  return file;
}

/// A kernel that begins with the initial state of a sequence before some rows, and stores the state of each sequence
/// before others.
struct PackedKernel {
  std::map<int, int> starts = {{0, 0}, {22, 1}, {41, 2}};
  std::vector<int> ends = {22, 41, 60};
  bool loses_first_decay = false, sums_run_on = false;

  /// Number c of row t and head h, of tensors [B, T, H, c] and [B, T, H].
  static double number(const char* name, int t, int h, int c = 0) {
    const Array& x = packed_case().problem.inputs.at(name);
    const int width = x.shape.size() == 4 ? x.shape[3] : 1;
    return x.data[static_cast<std::size_t>((t * n_heads + h) * width + c)];
  }

  Arrays answer() const {
    Array o({n_heads, n_tokens, n_values}), end({n_sequences * n_heads, n_keys, n_values});
    for (int h = 0; h < n_heads; ++h) {
      std::vector<double> state(static_cast<std::size_t>(n_keys * n_values), 0.0);
      double sum = 0;
      for (int t = 0; t < n_tokens; ++t) {
        if (const auto start = starts.find(t); start != starts.end())
          for (std::size_t i = 0; i < state.size(); ++i) {
            const auto first = static_cast<std::size_t>(start->second * n_heads + h) * state.size();
            state[i] =
                packed_case().problem.inputs.at("initial_state").data[first + i] * (sums_run_on ? std::exp(sum) : 1);
          }
        const double g = number("log_decay", t, h);
        const double decay = loses_first_decay && starts.contains(t) ? 1 : std::exp(g);
        sum += g;
        for (int i = 0; i < n_keys; ++i)
          for (int c = 0; c < n_values; ++c) {
            double& x = state[static_cast<std::size_t>(i * n_values + c)];
            x = decay * x + number("k", t, h, i) * number("v", t, h, c);
            o.data[static_cast<std::size_t>((h * n_tokens + t) * n_values + c)] +=
                number("q", t, h, i) * x / std::sqrt(n_keys);
          }
        for (int n = 0; n < n_sequences; ++n)
          if (t + 1 == ends[static_cast<std::size_t>(n)])
            std::copy(state.begin(), state.end(), end.data.begin() + (n * n_heads + h) * n_keys * n_values);
      }
    }
    return {{"o", std::move(o)}, {"final_state", std::move(end)}};
  }
};

/// The cause named for outputs that a correct kernel has nearly exactly; `axes`: of final_state.
std::string said_of_packed(const Arrays& got, const std::vector<NamedAxis>* axes = nullptr) {
  const Arrays truth = PackedKernel{}.answer();
  std::vector<Expected> expected;
  for (const auto& [name, array] : truth)
    expected.push_back(known_to(array, std::vector<double>(array.data.size(), 0x1p-20)));
  std::vector<Suspect> suspects;
  for (const auto& [name, array] : truth) {
    const std::vector<double>& mine = got.at(name).data;
    suspects.push_back({name, array.shape, &expected[suspects.size()], &mine, mine != array.data,
                        name == "final_state" ? axes : nullptr});
  }
  const ProblemFile& file = packed_case();
  const auto first = first_wrong(*file.room, file.batch, suspects);
  return sentences(causes_of_arguments(file.problem, suspects)) + (first ? first->sentence : "");
}

TEST(CausesOfSequences, know_the_right_kernel) {
  const Arrays mine = PackedKernel{}.answer();
  const Answer right = arguments::FileCase::of(packed_case().problem)->answer_in_doubles();
  for (const auto& [name, array] : mine) {
    const std::vector<double>& truth = right.outputs.at(name).data;
    ASSERT_EQ(array.data.size(), truth.size()) << name;
    // Sums of some hundred products in another order.
    for (std::size_t i = 0; i < truth.size(); ++i)
      EXPECT_NEAR(array.data[i], truth[i], 1e-12 * (1 + std::abs(truth[i])));
  }
}

TEST(CausesOfSequences, name_states_that_begin_and_end_elsewhere) {
  const std::pair<PackedKernel, const char*> kernels[] = {
      {{.starts = {{0, 0}}}, "the state carried from one sequence into the next"},
      {{.starts = {{0, 0}, {23, 1}, {42, 2}}}, "states begun anew one row late"},
      {{.starts = {{0, 0}, {21, 1}, {40, 2}}}, "states begun anew one row early"},
      {{.starts = {{0, 0}, {22, 1}}}, "sequence 2 going on from the state of sequence 1"},
      {{.starts = {{0, 0}, {16, 1}, {32, 2}}}, "states begun anew with the chunk of 16 rows"},
      {{.starts = {{0, 2}, {22, 0}, {41, 1}}}, "initial states of the sequence before"},
      {{.ends = {21, 40, 59}}, "final states before each sequence's last token"},
      {{.ends = {60, 41, 22}}, "sequences in reverse order"},
      {{.loses_first_decay = true}, "the decay of each sequence's first token lost"},
      {{.sums_run_on = true}, "sums of log decays that run on from the sequence before"},
  };
  for (const auto& [kernel, named] : kernels) expect_said(said_of_packed(kernel.answer()), named);
}

TEST(CausesOfSequences, refuse_states_of_other_heads) {
  Problem p = packed_case().problem;
  Array& state = p.inputs.at("initial_state");
  state = Array({n_sequences, n_heads + 1, n_keys, n_values});
  EXPECT_THROW(arguments::FileCase{p}, InputError);
}

TEST(CausesOfSequences, say_which_sequence) {
  const auto file = arguments::FileCase::of(packed_case().problem);
  EXPECT_EQ(file->judged().at("o").borders, (std::vector<int>{0, 22, 41, 60}));
  EXPECT_EQ(file->judged().at("final_state").states, n_sequences);
  const std::vector<NamedAxis> axes = {{"sequence", "sequences", n_sequences},
                                       {"head", "heads", n_heads},
                                       {"key dimension", "key dimensions", n_keys},
                                       {"value dimension", "value dimensions", n_values}};
  Arrays larger = PackedKernel{}.answer();
  std::vector<double>& end = larger.at("final_state").data;
  for (std::size_t i = end.size() / n_sequences; i < 2 * end.size() / n_sequences; ++i) end[i] *= 3;
  const std::string said = said_of_packed(larger, &axes);
  expect_said(said, "looks like 3 times the right values in sequence 1 of 3 (");
  expect_said(said, "final_state is wrong in sequence 1 of 3, in all heads");
}

}  // namespace
}  // namespace assay
