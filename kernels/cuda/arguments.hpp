#pragma once
// What a host hands to tile programs on a device, and how it names them: the same text for both compilers.
#if defined(__CUDACC_RTC__)
#include "kernels/cuda/device_std.cuh"
#endif
#include <cstdint>
#include <type_traits>

#include "kernels/core/products.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// The contract of a precision, fixed at compile time.
template <const SiteTable& Sites, Format Precision>
struct StaticPolicy {
  using Real = std::conditional_t<Precision == Format::fp64, double, float>;
  static constexpr Format precision = Precision;
  static constexpr const SiteTable& sites = Sites;
  static constexpr SiteTable table = Sites.contract(Precision);
  static constexpr int products = products_per_rounding(Precision);
};
/// The format that policy P gives a site: an unknown site does not compile.
template <class P, FixedString S>
inline constexpr Format format_of = P::table.at(S.view());

// ---- arrays. `head_rows`: from a head's first row to the next head's. In a pack other sequences' rows lie in between.

struct RowsIn {
  const void* p;
  int rows, head_rows;
  bool logs = true;  ///< of decays: logs of them, not the decays themselves
};
struct RowsOut {
  void* p;
  int rows, head_rows;
};
struct MatrixIn {
  const void* p;
  int rows, cols, head_rows;
};
struct MatrixOut {
  void* p;
  int rows, cols, head_rows;
};
/// The driver's CUtensorMap.
struct alignas(64) TensorMap {
  std::uint64_t words[16];
};

// ---- grids

/// Row tiles of a triangle of work: heads in groups whose keys and values fit the L2 cache; inside a group the longest
/// tiles first.
struct RowGrid {
  int heads, tiles, step, group;
  bool first_is_longest;  // key tiles of a causal backward pass
  int items() const { return heads * tiles; }
  TILE_FN void get(int i, int& head, int& x) const {
    const int per = group * tiles, g = i / per, rest = i - g * per, size = imin(group, heads - g * group);
    head = g * group + rest % size;
    x = (first_is_longest ? rest / size : tiles - 1 - rest / size) * step;
  }
};

/// Independent blocks 0, 1, ... of every head.
struct BlockGrid {
  int heads, blocks;
  int items() const { return heads * blocks; }
  TILE_FN void get(int i, int& head, int& x) const { head = i / blocks, x = i % blocks; }
};

/// The part of a pack's launch for one sequence. Tensor maps in arguments are fenced in lines of 128.
template <class Args, class Grid>
struct alignas(128) PackedSequence {
  Args args;
  Grid grid;
  int first;  ///< of its blocks
};

// ---- turns: f(i) for every element of an array

template <Format F>
struct ElementOf;
template <Format F>
using Element = typename ElementOf<F>::type;
template <Format F, class T>
TILE_FN T round_as(T x);

/// Numbers of 64 bits divide slowly; those of arrays rarely have them.
TILE_FN std::size_t divided(std::size_t x, std::size_t y) {
  return (x | y) >> 32 == 0 ? static_cast<std::uint32_t>(x) / static_cast<std::uint32_t>(y) : x / y;
}

/// total[h] = sum of the parts h * of_head, ..., (h + 1) * of_head - 1, ascending, each sum rounded at `part`, the
/// total at `out`: elements [heads * of_head][n] to [heads][n]; `part_step` and `total_step` lie from one to the next.
/// A turn sums At, by which all of these divide.
template <Format Part, Format Total, int At>
struct PartSums {
  const void* parts;
  void* total;
  int of_head;
  std::size_t n, part_step, total_step;
  TILE_FN void operator()(std::size_t i) const {
    const std::size_t head = divided(i * At, n), at = i * At - head * n;
    const auto* part = static_cast<const Element<Part>*>(parts) + head * of_head * part_step + at;
    Several<Part> sum{};
    for (int p = 0; p < of_head; ++p) {
      const auto terms = *reinterpret_cast<const Several<Part>*>(part + p * part_step);
      for (int k = 0; k < At; ++k) sum.x[k] += terms.x[k];
    }
    Several<Total> rounded;
    for (int k = 0; k < At; ++k) rounded.x[k] = Element<Total>(round_as<Total>(sum.x[k]));
    *reinterpret_cast<Several<Total>*>(static_cast<Element<Total>*>(total) + head * total_step + at) = rounded;
  }

 private:
  template <Format F>
  struct alignas(At * sizeof(Element<F>)) Several {
    Element<F> x[At];
  };
};
/// Row r of every head of `to` from row map(r) of `from`, or full of `missing` where that is none; heads lie
/// `from_rows` and `head_rows` rows apart.
template <Format F, class Map>
struct MappedRows {
  const void* from;
  void* to;
  Map map;
  int from_rows, to_rows, head_rows, cols;
  float missing;
  TILE_FN void operator()(std::size_t i) const {
    using E = Element<F>;
    const std::size_t r = divided(i, cols), c = i - r * cols, head = divided(r, to_rows), x = r - head * to_rows;
    const int row = map(static_cast<int>(x));
    static_cast<E*>(to)[(head * head_rows + x) * cols + c] =
        row < 0 ? E(missing) : static_cast<const E*>(from)[(head * from_rows + row) * cols + c];
  }
};
/// Row x of every head of `total` from row x of `start`, or zeros, and the rows of `from` that it is a sum of, the
/// total rounded; heads lie `from_rows`, `start_rows` and `head_rows` rows apart.
template <Format From, Format Total, class Terms>
struct RowSums {
  const void *from, *start;
  void* total;
  Terms terms;
  int from_rows, start_rows, total_rows, head_rows, cols;
  TILE_FN void operator()(std::size_t i) const {
    using E = Element<From>;
    const std::size_t r = divided(i, cols), c = i - r * cols, head = divided(r, total_rows);
    const int x = static_cast<int>(r - head * total_rows), n = terms.count(x);
    E sum = start == nullptr ? E(0) : static_cast<const E*>(start)[(head * start_rows + x) * cols + c];
    for (int k = 0; k < n; ++k) sum += static_cast<const E*>(from)[(head * from_rows + terms.row(x, k)) * cols + c];
    static_cast<Element<Total>*>(total)[(head * head_rows + x) * cols + c] = Element<Total>(round_as<Total>(sum));
  }
};
/// The first column of every row of `from` to that of `to`; heads lie `from_rows` and `to_rows` rows apart.
template <Format From, Format To>
struct FirstElements {
  const void* from;
  void* to;
  int rows, from_rows, to_rows, from_cols, to_cols;
  TILE_FN void operator()(std::size_t i) const {
    using Real = std::conditional_t<From == Format::fp64, double, float>;
    const std::size_t head = divided(i, rows), r = i - head * rows;
    static_cast<Element<To>*>(to)[(head * to_rows + r) * to_cols] = Element<To>(
        round_as<To>(static_cast<Real>(static_cast<const Element<From>*>(from)[(head * from_rows + r) * from_cols])));
  }
};

/// What fits in an argument, and waits for nobody.
struct FewBytes {
  void* to;
  unsigned char bytes[2048];
  TILE_FN void operator()(std::size_t i) const { static_cast<unsigned char*>(to)[i] = bytes[i]; }
};

}  // namespace assay::tile
