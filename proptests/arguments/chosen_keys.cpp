// Lists of chosen keys are masks, however they are written; keys not chosen are not read; their gradient is 0.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "arguments/drawn_case.hpp"
#include "arguments/file_case.hpp"
#include "arguments/file_rooms.hpp"
#include "files/problem_file.hpp"

namespace assay::arguments {
namespace {

/// Two sequences, four heads of q that share two of k.
CaseSpec lists_request(Params params = {}, std::vector<std::pair<std::string, std::string>> with = {}) {
  CaseSpec request{
      .mechanism = "softmax_attention",
      .shape =
          {.batch = 2, .seq_len = 20, .heads = 4, .shared_heads = 2, .key_dim = 8, .value_dim = 8, .query_len = 12},
      .precision = Format::fp32,
      .params = std::move(params),
      .with = {{"topk_indices", ""}, {"lse", ""}}};
  for (auto& one : with) request.with.push_back(std::move(one));
  return request;
}
Problem lists_case(const CaseSpec& request = lists_request()) {
  return read_problem(draw_case(request, "test"), "case").problem;
}
double& element(Array& array, std::initializer_list<int> index) {
  std::size_t at = 0, axis = 0;
  for (const int i : index) at = at * static_cast<std::size_t>(array.shape[axis++]) + static_cast<std::size_t>(i);
  return array.data.at(at);
}

/// The case with the mask that its lists of keys, or of blocks of three, say, and numbers where nothing is read.
Problem with_mask(const Problem& lists) {
  const int block = lists.params.contains("topk_block_size") ? 3 : 1;
  Problem masked = lists;
  Array chosen = lists.inputs.at("topk_indices");
  const int B = chosen.shape[0], T = chosen.shape[1], G = chosen.shape[2], n = chosen.shape[3],
            H = lists.inputs.at("q").shape[2], S = lists.inputs.at("k").shape[1];
  Array mask({B, H, T, S});
  for (int b = 0; b < B; ++b)
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < T; ++i)
        for (int e = 0; e < n; ++e) {
          const int entry = static_cast<int>(element(chosen, {b, i, h * G / H, e}));
          for (int j = entry * block; entry >= 0 && j < std::min(S, (entry + 1) * block); ++j)
            element(mask, {b, h, i, j}) = 1;
        }
  masked.inputs.erase("topk_indices"), masked.params.erase("topk_block_size");
  masked.inputs["mask"] = std::move(mask);
  for (const char* name : {"k", "v"})
    for (double& x : masked.inputs.at(name).data)
      if (std::isnan(x)) x = 0;
  return masked;
}
void expect_same(const Problem& a, const Problem& b) {
  const Answer left = answer_in_doubles(a), right = answer_in_doubles(b);
  EXPECT_EQ(left.outputs, right.outputs);
  EXPECT_EQ(left.gradients, right.gradients);
}

TEST(ChosenKeys, AreAMask) {
  for (const Params& params : {Params{{"causal", true}}, Params{{"causal", false}}, Params{{"topk_block_size", 3L}}}) {
    const Problem lists = lists_case(lists_request(params, {{"sink", ""}}));
    expect_same(lists, with_mask(lists));
  }
}
TEST(ChosenKeys, HideWhatAMaskHidesToo) {
  Problem lists = lists_case();
  const Problem chosen = with_mask(lists);
  Array other(chosen.inputs.at("mask").shape);
  for (std::size_t i = 0; i < other.data.size(); ++i) other.data[i] = i % 3 == 0 ? 0 : 1;
  lists.inputs["mask"] = other;
  Problem both = chosen;
  for (std::size_t i = 0; i < other.data.size(); ++i) both.inputs.at("mask").data[i] *= other.data[i];
  expect_same(lists, both);
}
TEST(ChosenKeys, ComeInAnyOrder) {
  const Problem lists = lists_case();
  Problem reversed = lists;
  Array& entries = reversed.inputs.at("topk_indices");
  const auto n = static_cast<std::ptrdiff_t>(entries.shape.back());
  for (auto list = entries.data.begin(); list != entries.data.end(); list += n) std::reverse(list, list + n);
  expect_same(lists, reversed);
}
TEST(ChosenKeys, EndWhereTheirLengthSays) {
  const Problem lists = lists_case(lists_request({}, {{"topk_length", ""}}));
  Problem cut = lists, spoilt = lists;
  const Array lengths = lists.inputs.at("topk_length");
  Array &shorter = cut.inputs.at("topk_indices"), &others = spoilt.inputs.at("topk_indices");
  const std::size_t n = static_cast<std::size_t>(shorter.shape[3]), heads = static_cast<std::size_t>(shorter.shape[2]);
  std::size_t behind = 0;
  for (std::size_t i = 0; i < shorter.data.size(); ++i)
    if (static_cast<double>(i % n) >= lengths.data[i / n / heads]) shorter.data[i] = -1, others.data[i] = -7, ++behind;
  EXPECT_GT(behind, shorter.data.size() / 8);
  cut.inputs.erase("topk_length");
  expect_same(lists, cut);
  expect_same(lists, spoilt);
}
TEST(ChosenKeys, LieInEveryLayout) {
  CaseSpec request = lists_request();
  const Answer rows_first = answer_in_doubles(lists_case(request));
  request.layout = "bhtd";
  EXPECT_EQ(rows_first.outputs, answer_in_doubles(lists_case(request)).outputs);
  request.shape.batch = 1, request.shape.shared_heads = 1, request.layout = "thd";
  Problem one = lists_case(request), without_heads = one;
  std::vector<int>& shape = without_heads.inputs.at("topk_indices").shape;
  ASSERT_EQ(shape.size(), 3U);
  shape.erase(shape.begin() + 1);
  expect_same(one, without_heads);
}

/// Keys that are not chosen are NaN in a case as it is drawn, and have a gradient all the same.
TEST(ChosenKeys, HaveAGradientOfZeroWhereNobodyChoseThem) {
  const Problem lists = lists_case();
  Array k = lists.inputs.at("k"), dk = answer_in_doubles(lists).gradients.at("k");
  const int B = k.shape[0], S = k.shape[1], G = k.shape[2];
  ASSERT_EQ(dk.shape, (std::vector{G, B * S, k.shape[3]}));
  int unread = 0;
  for (int b = 0; b < B; ++b)
    for (int j = 0; j < S; ++j)
      for (int g = 0; g < G; ++g) {
        const bool is_nan = std::isnan(element(k, {b, j, g, 0}));
        EXPECT_EQ(element(dk, {g, b * S + j, 0}) == 0, is_nan) << b << ' ' << j << ' ' << g;
        unread += is_nan ? 1 : 0;
      }
  EXPECT_GE(unread, 2 * B);
}

}  // namespace
}  // namespace assay::arguments
