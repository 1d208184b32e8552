#pragma once
// Where the scales of an operand's blocks lie in a file: by rows and columns, or in the order in which kernels read
// them.
#include <cstddef>
#include <string_view>

namespace assay::arguments {

/// How a matrix of scales lies. swizzled_128x4: in tiles of 128 rows and 4 columns, of which rows r, r + 32, r + 64 and
/// r + 96 are next to one another, with padding (cuBLAS, TensorRT-LLM). swizzled_4x4: of values alone, every four rows
/// turned so that a scale and those of the next three rows are next to one another (TensorRT-LLM's and vLLM's caches).
enum class ScaleLayout { linear, swizzled_128x4, swizzled_4x4 };
/// Throws Refusal (DOMAIN) if there is no such layout.
ScaleLayout scale_layout_from(std::string_view name);
std::string_view name_of(ScaleLayout layout);
/// Whether that input's scales of blocks do not lie by rows and columns.
bool is_swizzled(ScaleLayout layout, std::string_view input);
/// Whether the input has a scale for every block and not for a row, a head or all; `axes`: those that it has with heads
/// in front, `is_paged`: whether keys are in pages.
bool is_of_blocks(std::string_view input, std::size_t axes, bool is_paged);

/// The scales of one head, or of a page of it.
struct ScaleMatrix {
  ScaleLayout layout = ScaleLayout::linear;
  int rows = 0, cols = 0;

  /// Throws Refusal (DOMAIN), a sentence that begins with `input`, if so many rows and columns cannot lie so.
  void admit(std::string_view input) const;
  /// What the file has of both.
  int stored_rows() const;
  int stored_cols() const;
  std::size_t stored() const {
    return static_cast<std::size_t>(stored_rows()) * static_cast<std::size_t>(stored_cols());
  }
  /// Which of the stored numbers the scale in that row and column is.
  std::size_t place(int row, int col) const;
};

}  // namespace assay::arguments
