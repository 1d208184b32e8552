// Scales as caches have them, swizzled or in pages: they lie where published kernels have them, answers are those of
// scales by rows and columns, and a kernel that reads them so is named.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "arguments/file_case.hpp"
#include "arguments/file_rooms.hpp"
#include "arguments/scale_layout.hpp"
#include "files/problem_file.hpp"
#include "judge/hypotheses/hypotheses.hpp"
#include "proptests/arguments/records.hpp"
#include "reference/core/error.hpp"

namespace assay::arguments {
namespace {

/// A case of that style; `scale_layout` "": of none.
CaseSpec request_in(const char* style, const std::string& scale_layout,
                    std::vector<std::pair<std::string, std::string>> with = {}) {
  CaseSpec request;
  request.mechanism = "softmax_attention";
  request.shape = {
      .batch = 1, .seq_len = 40, .heads = 4, .shared_heads = 2, .key_dim = 64, .value_dim = 64, .query_len = 8};
  request.argument_style = style, request.with = std::move(with);
  if (!scale_layout.empty()) request.params["scale_layout"] = scale_layout;
  return request;
}
CaseSpec in_two_sequences(CaseSpec request, const char* layout) {
  request.shape.batch = 2, request.layout = layout;
  return request;
}
std::vector<double> stored_numbers(const Safetensors& file, const std::string& name) {
  return load(name, file.tensors.at(name)).data;
}

TEST(ScaleLayouts, HaveThePlacesOfPublishedKernels) {
  const ScaleMatrix tiles{ScaleLayout::swizzled_128x4, 200, 6}, groups{ScaleLayout::swizzled_4x4, 8, 8};
  EXPECT_EQ(tiles.stored_rows(), 256);
  EXPECT_EQ(tiles.stored_cols(), 8);
  EXPECT_EQ(groups.stored(), 64U);
  struct Place {
    ScaleMatrix matrix;
    int row, col;
    std::size_t place;
  };
  for (const auto& [matrix, row, col, place] : {Place{tiles, 0, 3, 3},
                                                {tiles, 1, 0, 16},
                                                {tiles, 32, 0, 4},
                                                {tiles, 127, 3, 511},
                                                {tiles, 0, 4, 512},
                                                {tiles, 128, 0, 1024},
                                                {tiles, 161, 5, 3 * 512 + 21},
                                                {groups, 1, 0, 1},
                                                {groups, 0, 2, 8},
                                                {groups, 3, 7, 31},
                                                {groups, 6, 5, 54}})
    EXPECT_EQ(matrix.place(row, col), place) << row << ", " << col;
  for (const ScaleMatrix& matrix : {tiles, groups}) {
    std::set<std::size_t> places;
    for (int r = 0; r < matrix.rows; ++r)
      for (int c = 0; c < matrix.cols; ++c) places.insert(matrix.place(r, c));
    EXPECT_EQ(places.size(), static_cast<std::size_t>(matrix.rows * matrix.cols));
    EXPECT_LT(*places.rbegin(), matrix.stored());
  }
}

/// The case and the same with scales by rows and columns: what lies elsewhere, answers, and gradients that lie as the
/// scales do.
TEST(ScaleLayouts, ChangeNoAnswer) {
  const CaseSpec requests[] = {
      request_in("nvfp4", "swizzled_4x4"),
      request_in("nvfp4", "swizzled_128x4"),
      request_in("mxfp8", "swizzled_128x4"),
      in_two_sequences(request_in("nvfp4", "swizzled_4x4"), "bthd"),
      in_two_sequences(request_in("nvfp4", "swizzled_4x4", {{"page_table", "8"}}), "bthd"),
      in_two_sequences(request_in("nvfp4", "swizzled_4x4", {{"page_table", "8"}}), "bhtd"),
  };
  for (const CaseSpec& request : requests) {
    CaseSpec plain = request;
    plain.params.erase("scale_layout");
    const Safetensors swizzled = draw_case(request, "test"), linear = draw_case(plain, "test");
    const ProblemFile a = read_problem(swizzled, "case"), b = read_problem(linear, "case");
    ASSERT_FALSE(a.refusal) << a.refusal->message;
    const std::vector<double> there = stored_numbers(swizzled, "v_scale"), here = stored_numbers(linear, "v_scale");
    EXPECT_NE(there, here);
    const Scattered &as_stored = a.scattered.at("d_v_scale"), &by_rows = b.scattered.at("d_v_scale");
    EXPECT_EQ(as_stored.shape, swizzled.tensors.at("v_scale").shape);
    ASSERT_EQ(as_stored.at.size(), by_rows.at.size());
    for (std::size_t i = 0; i < as_stored.at.size(); ++i)
      ASSERT_EQ(there.at(as_stored.at[i]), here.at(by_rows.at[i])) << i;
    const Answer mine = answer_in_doubles(a.problem), right = answer_in_doubles(b.problem);
    for (const auto& [name, array] : right.outputs) EXPECT_EQ(mine.outputs.at(name).data, array.data) << name;
    for (const auto& [name, array] : right.gradients) EXPECT_EQ(mine.gradients.at(name).data, array.data) << name;
    EXPECT_TRUE(right.gradients.contains("v_scale"));
  }
}

/// A scale for every token and head lies as JSON has it, and in pages as these do; o does not depend on it.
TEST(ScaleLayouts, ScalesOfTokensAreInTheirPages) {
  const Safetensors rows = draw_case(request_in("fp8_per_token_head", ""), "test"),
                    pages = draw_case(request_in("fp8_per_token_head", "", {{"page_table", "8"}}), "test");
  EXPECT_EQ(rows.tensors.at("k_scale").shape, (std::vector<int>{2, 40}));
  EXPECT_EQ(pages.tensors.at("k_scale").shape, (std::vector<int>{6, 8, 2}));
  const Answer a = answer_in_doubles(read_problem(rows, "case").problem),
               b = answer_in_doubles(read_problem(pages, "case").problem);
  EXPECT_EQ(a.outputs.at("o").data, b.outputs.at("o").data);
  EXPECT_EQ(a.gradients.at("q").data, b.gradients.at("q").data);
  EXPECT_EQ(a.gradients.at("k_scale").data.size(), b.gradients.at("k_scale").data.size());
}

std::string refusal_of(const CaseSpec& request) {
  try {
    draw_case(request, "test");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}
TEST(ScaleLayouts, RefuseWhatHasNoPlace) {
  CaseSpec narrow = request_in("nvfp4", "swizzled_4x4"),
           no_blocks = request_in("", "swizzled_128x4", {{"k_scale", ""}});
  narrow.shape.value_dim = 32;
  EXPECT_EQ(refusal_of(narrow), "v_scale: 40 rows and 2 columns of blocks; in swizzled_4x4 both are multiples of 4");
  EXPECT_EQ(refusal_of(no_blocks),
            "params.scale_layout: is of blocks, and scale_block is missing, which says of what size");
  EXPECT_EQ(refusal_of(request_in("nvfp4", "swizzled_128x4", {{"page_table", "8"}})),
            "k_scale: swizzled_128x4 is of whole matrices, and these scales are of pages");
  const std::string unknown = refusal_of(request_in("nvfp4", "128x4"));
  EXPECT_TRUE(unknown.starts_with("params.scale_layout: there is no 128x4")) << unknown;
  EXPECT_TRUE(unknown.ends_with("; there are linear, swizzled_128x4, swizzled_4x4")) << unknown;
  CaseSpec tall = request_in("", "", {{"page_table", "8"}, {"k_scale", ""}});
  tall.params["scale_block"] = std::string("2,16");
  EXPECT_EQ(refusal_of(tall), "--param: scale_block: blocks of keys in pages have one row");
}
/// Scales by rows and columns in a file that says otherwise, and those of other pages.
TEST(ScaleLayouts, RefuseOtherSizes) {
  Safetensors tiles = draw_case(request_in("nvfp4", "swizzled_128x4"), "test");
  tiles.tensors.at("k_scale") = draw_case(request_in("nvfp4", ""), "test").tensors.at("k_scale");
  const ProblemFile wrong = read_problem(std::move(tiles), "case");
  ASSERT_TRUE(wrong.refusal);
  EXPECT_TRUE(wrong.refusal->message.starts_with(
      "k_scale: expected [128, 4] for 40 rows and 4 columns of blocks in swizzled_128x4, got shape "))
      << wrong.refusal->message;
  Safetensors pages = draw_case(request_in("fp8_per_token_head", "", {{"page_table", "8"}}), "test");
  pages.tensors.at("k_scale") =
      draw_case(request_in("fp8_per_token_head", "", {{"page_table", "16"}}), "test").tensors.at("k_scale");
  const ProblemFile other = read_problem(std::move(pages), "case");
  ASSERT_TRUE(other.refusal);
  EXPECT_TRUE(other.refusal->message.ends_with("is of pages: expected one for all or for a head, or [6, 8] of them"))
      << other.refusal->message;
}
TEST(ScaleLayouts, AreOfFiles) {
  Record record;
  record.mechanism = "softmax_attention";
  record.params = {{"scale", "1"}, {"scale_block", {1, 2}}, {"scale_layout", "swizzled_4x4"}};
  record.inputs = Json::parse(R"({"q": [["1", "2"]], "k": [["1", "2"]], "v": [["1", "2"]], "v_scale": [["1"]]})");
  const Json said = attempted(record);
  EXPECT_EQ(said["status"], "DOMAIN");
  EXPECT_NE(
      said["message"].get<std::string>().find("params.scale_layout: is of files; JSON has scales by rows and columns"),
      std::string::npos)
      << said;
}

/// What is said of a kernel that reads the scales of a case by rows and columns.
std::string said_of_a_linear_reader(const CaseSpec& request) {
  const ProblemFile file = read_problem(draw_case(request, "test"), "case");
  Problem linear = file.problem;
  linear.params.erase("scale_layout");
  const Array right = answer_in_doubles(file.problem).outputs.at("o"), got = answer_in_doubles(linear).outputs.at("o");
  Expected expected;
  expected.shape = right.shape;
  for (const double x : right.data) expected.value.push_back({x, 0});
  expected.sigma.assign(right.data.size(), 0x1p-20), expected.bound.assign(right.data.size(), 0);
  expected.reach.assign(right.data.size(), element_sigmas);
  std::string all;
  for (const LooksLike& cause :
       causes_of_arguments(file.problem, {{"o", right.shape, &expected, &got.data, true}}).list)
    all += cause.sentence(true) + "; ";
  return all;
}
TEST(ScaleLayouts, AreNamedWhereAKernelReadsByRows) {
  const CaseSpec requests[] = {
      request_in("nvfp4", "swizzled_4x4"),
      in_two_sequences(request_in("nvfp4", "swizzled_4x4", {{"page_table", "8"}, {"lengths_k", "40,32"}}), "bthd")};
  for (const CaseSpec& request : requests) {
    const std::string said = said_of_a_linear_reader(request);
    EXPECT_NE(said.find("v_scale read linearly, which the file has in swizzled_4x4"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace assay::arguments
