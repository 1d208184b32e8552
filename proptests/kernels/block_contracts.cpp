// Contracts with scales of blocks: a kernel that quantises as they say passes, written here once more from the
// definitions, and fails in bf16; one that masks a tile wrongly fails in four bits, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "judge/contract/contract.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/sigma/model.hpp"
#include "judge/verdict/judge.hpp"
#include "kernels/core/kernel_room.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

constexpr int tokens = 64, dim = 32, heads = 2;

const KernelForm& tiled_attention() { return find_kernels(kernel_rooms(), "softmax_attention")->forms.front(); }

Problem causal_problem() {
  Problem problem =
      listed_room("softmax_attention")
          .make({"softmax_attention", {1, tokens, heads, 0, dim, dim, 0}, Format::bf16, Style::normal, 5});
  problem.cotangents.clear();
  return problem;
}

// ---- a kernel with four or eight bits, from the definitions

using Rows = std::vector<std::vector<double>>;

/// The magnitudes that a format holds, ascending.
std::vector<double> magnitudes_of(Format format) {
  if (format == Format::e2m1) return {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::vector<double> list;
  if (format == Format::int8)
    for (int i = 0; i <= 127; ++i) list.push_back(i);
  else
    for (std::uint16_t code = 0; code < 0x7f; ++code) list.push_back(decode(code, Format::e4m3));
  return list;
}

double nearest(double x, const std::vector<double>& magnitudes) {
  const auto above = std::lower_bound(magnitudes.begin(), magnitudes.end(), std::fabs(x));
  if (above == magnitudes.end()) return std::copysign(magnitudes.back(), x);
  if (above == magnitudes.begin()) return 0;
  const double low = *(above - 1), high = *above;
  return std::copysign(std::fabs(x) - low < high - std::fabs(x) ? low : high, x);
}

/// Rounds the numbers of those places as multiples of one scale, which is rounded to e4m3 where it is asked for.
void quantise(Rows& x, const std::vector<std::pair<int, int>>& places, Format format, bool scale_in_e4m3) {
  const std::vector<double> magnitudes = magnitudes_of(format), of_scales = magnitudes_of(Format::e4m3);
  const auto at = [&](const std::pair<int, int>& place) -> double& {
    return x[static_cast<std::size_t>(place.first)][static_cast<std::size_t>(place.second)];
  };
  double most = 0;
  for (const auto& place : places) most = std::max(most, std::fabs(at(place)));
  double scale = most / magnitudes.back();
  if (scale_in_e4m3) scale = nearest(scale, of_scales);
  for (const auto& place : places) at(place) = scale == 0 ? 0 : nearest(at(place) / scale, magnitudes) * scale;
}

/// All blocks of rows by columns; rows whose `share_of` is the same share a scale.
void quantise_blocks(
    Rows& x, int rows, int cols, Format format, bool scale_in_e4m3,
    const std::function<int(int)>& share_of = [](int) { return 0; }) {
  for (int r = 0; r < tokens; r += rows)
    for (int c = 0; c < dim; c += cols)
      for (int share = 0; share < 8; ++share) {
        std::vector<std::pair<int, int>> places;
        for (int i = r; i < std::min(tokens, r + rows); ++i)
          for (int j = c; share_of(i - r) == share && j < std::min(dim, c + cols); ++j) places.emplace_back(i, j);
        if (!places.empty()) quantise(x, places, format, scale_in_e4m3);
      }
}

void less_their_mean(Rows& keys) {
  for (std::size_t c = 0; c < dim; ++c) {
    double sum = 0;
    for (const auto& key : keys) sum += key[c];
    for (auto& key : keys) key[c] -= sum / tokens;
  }
}

/// Weights of a row in e2m1 by 16, whose largest is that of the row times 448 by 6; the scales of blocks are rounded
/// after.
void quantise_weights(std::vector<double>& p) {
  const std::vector<double> magnitudes = magnitudes_of(Format::e2m1), scales = magnitudes_of(Format::e4m3);
  const double unit = *std::max_element(p.begin(), p.end()) / (448 * 6);
  for (std::size_t first = 0; first < p.size(); first += 16) {
    const auto begin = p.begin() + static_cast<std::ptrdiff_t>(first);
    const double scale = *std::max_element(begin, begin + 16) / 6, stored = nearest(scale / unit, scales) * unit;
    for (std::size_t i = first; i < first + 16; ++i) p[i] = scale == 0 ? 0 : nearest(p[i] / scale, magnitudes) * stored;
  }
}

struct Kernel {
  std::function<void(Rows& q, Rows& k, Rows& v)> operands;
  std::function<void(std::vector<double>& p)> weights;
};

Kernel int8_kernel() {
  return {[](Rows& q, Rows& k, Rows& v) {
            quantise_blocks(q, 16, dim, Format::int8, false, [](int i) { return i % 8; });
            less_their_mean(k);
            quantise_blocks(k, 128, dim, Format::int8, false, [](int i) { return i % 8 / 2; });
            quantise_blocks(v, tokens, 1, Format::e4m3, false);
          },
          [](std::vector<double>& p) {
            const std::vector<double> magnitudes = magnitudes_of(Format::e4m3);
            for (double& x : p) x = nearest(448 * x, magnitudes) / 448;
          }};
}
/// Values and weights in fp16, and a scale for 128 queries and for 64 keys.
Kernel int8_kernel_with_values_in_fp16() {
  return {[](Rows& q, Rows& k, Rows&) {
            quantise_blocks(q, 128, dim, Format::int8, false);
            less_their_mean(k);
            quantise_blocks(k, 64, dim, Format::int8, false);
          },
          [](std::vector<double>& p) {
            for (double& x : p) x = round_to(x, Format::fp16);
          }};
}
Kernel four_bit_kernel() {
  return {[](Rows& q, Rows& k, Rows& v) {
            less_their_mean(k);
            quantise_blocks(q, 1, 16, Format::e2m1, true);
            quantise_blocks(k, 1, 16, Format::e2m1, true);
            quantise_blocks(v, 16, 1, Format::e2m1, true);
          },
          quantise_weights};
}

/// By the contracts that they keep.
std::vector<std::pair<std::string, Kernel>> quantising_kernels() {
  return {{"sage_attention", int8_kernel_with_values_in_fp16()},
          {"sage_attention2", int8_kernel()},
          {"sage_attention3", four_bit_kernel()}};
}

/// o of a kernel that sees what `sees` says, stored in bf16.
std::vector<double> answer_of(const Kernel& kernel, const Problem& problem, const std::function<bool(int, int)>& sees) {
  const double bandwidth = std::stod(std::get<std::string>(problem.params.at("bandwidth")));
  std::vector<double> o;
  for (int h = 0; h < heads; ++h) {
    const auto rows_of = [&](const char* name) {
      Rows rows;
      const auto head = problem.inputs.at(name).data.begin() + h * tokens * dim;
      for (int i = 0; i < tokens; ++i) rows.emplace_back(head + i * dim, head + (i + 1) * dim);
      return rows;
    };
    Rows q = rows_of("q"), k = rows_of("k"), v = rows_of("v");
    kernel.operands(q, k, v);
    for (int i = 0; i < tokens; ++i) {
      const std::vector<double>& query = q[static_cast<std::size_t>(i)];
      std::vector<double> s(tokens, -INFINITY), p(tokens);
      for (int j = 0; j < tokens; ++j) {
        const std::vector<double>& key = k[static_cast<std::size_t>(j)];
        double product = 0;
        for (std::size_t c = 0; c < dim; ++c) product += query[c] * key[c];
        if (sees(i, j)) s[static_cast<std::size_t>(j)] = product / bandwidth;
      }
      const double top = *std::max_element(s.begin(), s.end());
      double mass = 0;
      for (std::size_t j = 0; j < tokens; ++j) p[j] = std::exp(s[j] - top), mass += p[j];
      kernel.weights(p);
      for (std::size_t c = 0; c < dim; ++c) {
        double sum = 0;
        for (std::size_t j = 0; j < tokens; ++j) sum += p[j] * v[j][c];
        o.push_back(round_to(sum / mass, Format::bf16));
      }
    }
  }
  return o;
}

bool causal(int i, int j) { return j <= i; }
/// The mask of one tile on the diagonal is left out: its rows see all of its keys.
bool without_the_mask_of_a_tile(int i, int j) { return causal(i, j) || (i / 16 == 1 && j / 16 == 1); }
bool one_key_more(int i, int j) { return j <= i + 1; }

Verdict verdict_of(const Problem& problem, const std::vector<double>& o, const Contract& contract) {
  const KernelUnderTest kernel{&tiled_attention(), contract.precision, 0, 1, &contract};
  const Expectation e = expect(oracle_of(listed_room("softmax_attention"), problem), kernel, problem, default_draws);
  for (const auto& [name, expected] : e.tensors)
    if (name == "o") return judge(expected, o).verdict;
  return Verdict::unsupported;
}

TEST(BlockContracts, pass_what_is_quantised_as_they_say) {
  const Problem problem = causal_problem();
  for (const auto& [name, kernel] : quantising_kernels()) {
    const std::vector<double> o = answer_of(kernel, problem, causal);
    EXPECT_EQ(verdict_of(problem, o, *find_contract(name)), Verdict::pass) << name;
    EXPECT_EQ(verdict_of(problem, o, *find_contract("bf16")), Verdict::fail) << name;
  }
  const std::vector<double> four = answer_of(four_bit_kernel(), problem, causal);
  EXPECT_EQ(verdict_of(problem, four, *find_contract("sage_attention2")), Verdict::fail);
}

/// SageAttention#340: four bits under a causal mask, off by 2.7.
TEST(BlockContracts, fail_a_mask_that_is_wrong_in_a_tile) {
  const Problem problem = causal_problem();
  for (const auto& [name, kernel] : quantising_kernels())
    for (const auto& sees : {without_the_mask_of_a_tile, one_key_more})
      EXPECT_EQ(verdict_of(problem, answer_of(kernel, problem, sees), *find_contract(name)), Verdict::fail) << name;
}

/// The model knows no algorithm in bf16 that is so far off, and one whose operands have the scales of their blocks.
TEST(BlockContracts, are_known_to_the_model) {
  const Problem problem = causal_problem();
  const Oracle oracle = oracle_of(listed_room("softmax_attention"), problem);
  const std::vector<double> o = answer_of(four_bit_kernel(), problem, causal);
  const auto by_model = [&](const BlockOperands& operands) {
    ModelRuns runs{.precision = Format::bf16, .drawn = {}, .operands = operands};
    add_model_runs(runs, problem, default_draws, 1);
    for (const auto& [name, expected] : expect_by_model(oracle, runs, [](const std::string&) { return Format::bf16; }))
      if (name == "o") return judge(expected, o).verdict;
    return Verdict::unsupported;
  };
  const Policy policy = find_contract("sage_attention3")->policy(tiled_attention().sites);
  const BlockOperands four_bits = BlockOperands::of(policy, Format::bf16);
  EXPECT_EQ(four_bits.inputs.size(), 3U);
  EXPECT_EQ(four_bits.weights, Format::e2m1);
  EXPECT_TRUE(BlockOperands::of(Policy::of(tiled_attention().sites, Format::bf16), Format::bf16).none());
  EXPECT_EQ(by_model({}), Verdict::fail);
  EXPECT_NE(by_model(four_bits), Verdict::fail);
}

/// Our own programs under every contract with blocks: they pass it, and no narrower one of single numbers explains
/// them.
TEST(BlockContracts, are_kept_by_our_programs) {
  const Problem problem = causal_problem();
  for (const Contract& contract : block_contracts())
    for (const KernelForm& form : find_kernels(kernel_rooms(), "softmax_attention")->forms) {
      ASSERT_EQ(contract.obstacle(form.sites), "") << contract.name;
      EXPECT_TRUE(contract.has_blocks()) << contract.name;
      EXPECT_FALSE(contract.plain()) << contract.name;
      if (!form.obstacle(problem).empty()) continue;
      const Policy policy = contract.policy(form.sites);
      EXPECT_TRUE(policy.sites.has_blocks() && !policy.sites.all(Format::exact).has_blocks()) << contract.name;
      EXPECT_FALSE(policy.sites.with("K", Format::bf16).entry("K").by_blocks()) << contract.name;
      const std::vector<double> o = form.run(problem, policy, 0).outputs.at("o").data;
      EXPECT_EQ(verdict_of(problem, o, contract), Verdict::pass) << contract.name;
      EXPECT_EQ(verdict_of(problem, o, *find_contract("bf16")), Verdict::fail) << contract.name;
    }
}

/// A row of tiles sees the same keys: what is rounded does not depend on the tile, but for weights.
TEST(BlockContracts, round_operands_alike_in_all_tiles) {
  const Problem problem = causal_problem();
  const Contract contract = parse_contract(
      R"({"name": "x", "base": "bf16", "sites": {"Q": "int8/32xall every 8", "K": "int8/128xall centred",
          "V": "e4m3/allx1", "P": "exact"}})",
      "f");
  Policy policy = contract.policy(tiled_attention().sites);
  for (const char* exact : {"S", "O", "p", "m", "l", "alpha", "inv", "scale", "out"})
    policy.sites = policy.sites.with(exact, Format::fp64);
  const std::vector<double> one = tiled_attention().run(problem, policy, 0).outputs.at("o").data;
  for (const int tile : {1, 2}) {
    const std::vector<double> other = tiled_attention().run(problem, policy, tile).outputs.at("o").data;
    // A sum of `tokens` products each in two orders, of weights that sum to one; values are below 8.
    const double bound = 4 * tokens * dim * 0x1p-53 * 8;
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(other[i], one[i], bound) << tile;
  }
}

}  // namespace
}  // namespace assay
