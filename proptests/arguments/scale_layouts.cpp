// Scales as caches have them, swizzled or in pages: they lie where published kernels have them, and answers are those
// of scales by rows and columns. proptests/transcripts/arguments.md has what is refused, and a kernel that reads them
// so.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "arguments/file_rooms.hpp"
#include "arguments/scale_layout.hpp"
#include "files/problem_file.hpp"

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

}  // namespace
}  // namespace assay::arguments
