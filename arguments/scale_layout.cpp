#include "arguments/scale_layout.hpp"

#include <string>
#include <utility>
#include <vector>

#include "files/did_you_mean.hpp"
#include "reference/core/error.hpp"

namespace assay::arguments {
namespace {

constexpr std::pair<ScaleLayout, std::string_view> scale_layouts[] = {{ScaleLayout::linear, "linear"},
                                                                      {ScaleLayout::swizzled_128x4, "swizzled_128x4"},
                                                                      {ScaleLayout::swizzled_4x4, "swizzled_4x4"}};

constexpr int tile_rows = 128, tile_cols = 4, strip_rows = 32;  // of swizzled_128x4
constexpr int token_group = 4;                                  // of swizzled_4x4

constexpr int up_to_multiple(int n, int size) { return (n + size - 1) / size * size; }

}  // namespace

ScaleLayout scale_layout_from(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [layout, word] : scale_layouts) {
    if (word == name) return layout;
    known.emplace_back(word);
  }
  throw Refusal(Status::domain, -1, text("params.scale_layout: ", there_is_no(name, known)));
}

std::string_view name_of(ScaleLayout layout) { return scale_layouts[static_cast<std::size_t>(layout)].second; }

bool is_swizzled(ScaleLayout layout, std::string_view input) {
  return layout == ScaleLayout::swizzled_128x4 || (layout == ScaleLayout::swizzled_4x4 && input == "v_scale");
}

bool is_of_blocks(std::string_view input, std::size_t axes, bool is_paged) {
  return axes == (is_paged && input != "q_scale" ? 4U : 3U);
}

void ScaleMatrix::admit(std::string_view input) const {
  require_domain(layout != ScaleLayout::swizzled_4x4 || (rows % token_group == 0 && cols % token_group == 0), -1, input,
                 ": ", rows, " rows and ", cols, " columns of blocks; in swizzled_4x4 both are multiples of ",
                 token_group);
}

int ScaleMatrix::stored_rows() const {
  return layout == ScaleLayout::swizzled_128x4 ? up_to_multiple(rows, tile_rows) : rows;
}
int ScaleMatrix::stored_cols() const {
  return layout == ScaleLayout::swizzled_128x4 ? up_to_multiple(cols, tile_cols) : cols;
}

std::size_t ScaleMatrix::place(int row, int col) const {
  const int wide = stored_cols();
  if (layout == ScaleLayout::swizzled_4x4) {
    const int each = cols / token_group, from = row;
    row = from / token_group * token_group + col / each;
    col = col % each * token_group + from % token_group;
  }
  if (layout == ScaleLayout::swizzled_128x4) {
    constexpr int strips = tile_rows / strip_rows;
    const int tile = row / tile_rows * (wide / tile_cols) + col / tile_cols;
    const int within = (row % strip_rows * strips + row % tile_rows / strip_rows) * tile_cols + col % tile_cols;
    return static_cast<std::size_t>(tile) * static_cast<std::size_t>(tile_rows * tile_cols) +
           static_cast<std::size_t>(within);
  }
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(wide) + static_cast<std::size_t>(col);
}

}  // namespace assay::arguments
