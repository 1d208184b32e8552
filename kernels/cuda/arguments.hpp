#pragma once
// What a host hands to tile programs on a device, and how it names them: the same text for both compilers.
#if defined(__CUDACC_RTC__)
#include "kernels/cuda/device_std.cuh"
#endif
#include <cstdint>
#include <type_traits>

#include "kernels/core/tile.hpp"

namespace assay::tile {

/// The contract of a precision, fixed at compile time.
template <const SiteTable& Sites, Format Precision>
struct StaticPolicy {
  using Real = std::conditional_t<Precision == Format::fp64, double, float>;
  static constexpr Format precision = Precision;
  static constexpr const SiteTable& sites = Sites;
  static constexpr SiteTable table = Sites.contract(Precision);
};
/// The format that policy P gives a site: an unknown site does not compile.
template <class P, FixedString S>
inline constexpr Format format_of = P::table.at(S.view());

// ---- arrays

/// Where the rows of heads lie: `beside` heads share a group, row by row, as in torch's [B, T, H, cols]; or each head
/// is one. From a group's first row to the next group's there are `group_rows` of a head; in a pack, other sequences'
/// too.
struct HeadRows {
  int rows, group_rows, beside;
  std::uint32_t share;  ///< of 2^31, rounded up: a product in place of a division, exact where heads * beside < 2^31
  TILE_FN int group(int head) const { return static_cast<int>((static_cast<std::uint64_t>(head) * share) >> 31); }
  /// A row of memory, from which a head's next is `beside` rows away.
  TILE_FN std::size_t at(int head, int row) const {
    const int g = group(head);
    return (static_cast<std::size_t>(g) * static_cast<std::size_t>(group_rows) + static_cast<std::size_t>(row)) *
               static_cast<std::size_t>(beside) +
           static_cast<std::size_t>(head - g * beside);
  }
};
struct RowsIn : HeadRows {
  const void* p;
  bool logs = true;  ///< of decays: logs of them, not the decays themselves
};
struct RowsOut : HeadRows {
  void* p;
};
struct MatrixIn : HeadRows {
  const void* p;
  int cols;
};
struct MatrixOut : HeadRows {
  void* p;
  int cols;
};
/// The driver's CUtensorMap, of columns, heads of a group, rows and groups.
struct alignas(64) TensorMap {
  std::uint64_t words[16];
};
struct MappedIn : HeadRows {
  TensorMap map;
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

/// Independent blocks 0, 1, ... of every head, the first of all heads first: systems of early tokens take the most
/// steps.
struct BlockGrid {
  int heads, blocks;
  int items() const { return heads * blocks; }
  TILE_FN void get(int i, int& head, int& x) const { head = i % heads, x = i / heads; }
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

/// Where element i of an array is, counted by heads, rows and columns.
struct ElementAt {
  int head, row, column;
  TILE_FN ElementAt(std::size_t i, int rows, int cols) {
    const auto n = static_cast<std::size_t>(cols), of_head = static_cast<std::size_t>(rows), r = divided(i, n),
               h = divided(r, of_head);
    head = static_cast<int>(h), row = static_cast<int>(r - h * of_head), column = static_cast<int>(i - r * n);
  }
};

/// Each head of `total` the sum of `of_head` parts, ascending, each sum rounded at `part`, the total at `out`. A turn
/// sums At, by which columns divide.
template <Format Part, Format Total, int At>
struct PartSums {
  MatrixIn parts;
  MatrixOut total;
  int of_head;
  TILE_FN void operator()(std::size_t i) const {
    const ElementAt e(i * At, total.rows, total.cols);
    Several<Part> sum{};
    for (int p = 0; p < of_head; ++p) {
      const auto terms = *reinterpret_cast<const Several<Part>*>(
          static_cast<const Element<Part>*>(parts.p) + parts.at(e.head * of_head + p, e.row) * parts.cols + e.column);
      for (int k = 0; k < At; ++k) sum.x[k] += terms.x[k];
    }
    Several<Total> rounded;
    for (int k = 0; k < At; ++k) rounded.x[k] = Element<Total>(round_as<Total>(sum.x[k]));
    *reinterpret_cast<Several<Total>*>(static_cast<Element<Total>*>(total.p) + total.at(e.head, e.row) * total.cols +
                                       e.column) = rounded;
  }

 private:
  template <Format F>
  struct alignas(At * sizeof(Element<F>)) Several {
    Element<F> x[At];
  };
};
/// Row r of every head of `to` from row map(r) of `from`, or full of `missing` where that is none.
template <Format F, class Map>
struct MappedRows {
  MatrixIn from;
  MatrixOut to;
  Map map;
  float missing;
  TILE_FN void operator()(std::size_t i) const {
    using E = Element<F>;
    const ElementAt e(i, to.rows, to.cols);
    const int row = map(e.row);
    static_cast<E*>(to.p)[to.at(e.head, e.row) * to.cols + e.column] =
        row < 0 ? E(missing) : static_cast<const E*>(from.p)[from.at(e.head, row) * to.cols + e.column];
  }
};
/// Row x of every head of `total` from row x of `start`, or zeros where that has no address, and the rows of `from`
/// that it is a sum of, the total rounded.
template <Format From, Format Total, class Terms>
struct RowSums {
  MatrixIn from, start;
  MatrixOut total;
  Terms terms;
  TILE_FN void operator()(std::size_t i) const {
    const ElementAt e(i, total.rows, total.cols);
    const auto of = [&](const MatrixIn& x, int row) {
      return static_cast<const Element<From>*>(x.p)[x.at(e.head, row) * x.cols + e.column];
    };
    const int n = terms.count(e.row);
    Element<From> sum = start.p == nullptr ? Element<From>(0) : of(start, e.row);
    for (int k = 0; k < n; ++k) sum += of(from, terms.row(e.row, k));
    static_cast<Element<Total>*>(total.p)[total.at(e.head, e.row) * total.cols + e.column] =
        Element<Total>(round_as<Total>(sum));
  }
};
/// The first column of every row of `from` to that of `to`.
template <Format From, Format To>
struct FirstElements {
  MatrixIn from;
  MatrixOut to;
  TILE_FN void operator()(std::size_t i) const {
    using Real = std::conditional_t<From == Format::fp64, double, float>;
    const ElementAt e(i, to.rows, 1);
    const auto x = static_cast<const Element<From>*>(from.p)[from.at(e.head, e.row) * from.cols];
    static_cast<Element<To>*>(to.p)[to.at(e.head, e.row) * to.cols] = Element<To>(round_as<To>(static_cast<Real>(x)));
  }
};

/// What fits in an argument, and waits for nobody.
struct FewBytes {
  void* to;
  unsigned char bytes[2048];
  TILE_FN void operator()(std::size_t i) const { static_cast<unsigned char*>(to)[i] = bytes[i]; }
};

}  // namespace assay::tile
