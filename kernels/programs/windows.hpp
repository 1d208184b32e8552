#pragma once
// The windows of FALCON's mini-batch rooms: the pairs (x_j, v_j) of a head lie in a row, the tail that came in first,
// and row t writes those of its window I_t.
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// Which pairs a row writes: the newest `window` of those that have come, or all (0). `first`: the first row that
/// writes.
struct Windows {
  int tail, first, window;
  TILE_HD constexpr int end(int row) const { return imax(0, tail + row - first + 1); }
  TILE_HD constexpr int begin(int row) const { return window > 0 ? imax(0, end(row) - window) : 0; }
  TILE_HD constexpr bool hold(int row, int pair) const { return row >= first && pair >= begin(row) && pair < end(row); }
  /// Rows [first_row, last_row) have any of pairs [p0, p1) in their windows.
  TILE_HD constexpr int first_row(int p0) const { return imax(0, p0 - tail + first); }
  TILE_HD constexpr int last_row(int p1, int len) const {
    return window > 0 ? imin(len, imax(0, p1 - 1 + window - tail + first)) : len;
  }
};

/// Shared loops of the programs of a chunk: pairs come in tiles of C.
template <ExecutorTypes B, Size C>
struct Windowed {
  /// Tiles of the pairs in the windows of a chunk: [first, first + count).
  struct Tiles {
    int first, count;
  };
  TILE_FN static Tiles tiles_of(const Windows& windows, int row0, int len) {
    const int first = windows.begin(row0) / C;
    return {first, imax(1, ceil_div(windows.end(imin(row0 + C, len) - 1), C) - first)};
  }
  /// Numbers of the pairs, summed over the window of each row.
  template <class Ex, class St, class Row>
  TILE_FN static auto over_windows(Ex& b, St site, const Windows& windows, int row0, int pair0, const Row& numbers) {
    auto A = b.acc(site, Shape<C, C>{}), one = A;
    one.map(site, [](auto x) { return x + 1; });
    A.map(
        site, [](auto, auto x) { return x; }, b.column_of(numbers));
    A.mask([&](int r, int c) { return windows.hold(row0 + r, pair0 + c); }, 0);
    return b.dot(site, A, one);
  }
  /// Numbers of the rows, summed over the rows in whose windows each pair is.
  template <class Ex, class St, class Row>
  TILE_FN static auto over_rows(Ex& b, St site, const Windows& windows, int row0, int pair0, const Row& numbers) {
    auto A = b.acc(site, Shape<C, C>{}), one = A;
    one.map(site, [](auto x) { return x + 1; });
    A.map(
        site, [](auto, auto x) { return x; }, b.column_of(numbers));
    A.mask([&](int r, int c) { return windows.hold(row0 + c, pair0 + r); }, 0);
    return b.dot(site, A, one);
  }
  /// A as a tile, of pairs or of rows.
  template <class Ex, class Tile>
  TILE_FN static void put_windows(Ex& b, const Windows& windows, int row0, int pair0, Tile& tile) {
    auto A = b.acc("M"_s, Shape<C, C>{});
    A.map("M"_s, [](auto x) { return x + 1; });
    A.mask([&](int r, int c) { return windows.hold(row0 + r, pair0 + c); }, 0);
    b.put(tile, A);
  }
  /// D diag(w) from D.
  template <class Ex, class D, class Tile, class RowIn>
  TILE_FN static void put_weighted(Ex& b, D& d, const RowIn& weight, int head, int row0, Tile& tile) {
    auto W = b.acc("M"_s, Shape<C, C>{});
    W.zip(
        "M"_s, [](auto, auto x) { return x; }, d);
    W.map(
        "M"_s, [](auto x, auto w) { return x * w; }, b.load_col("weight"_s, Shape<1, C>{}, weight, head, row0));
    b.put(tile, W);
  }
  /// z o w.
  template <class Ex, class RowIn>
  TILE_FN static auto weights_to_end(Ex& b, const RowIn& weight, const RowIn& gamma, int head, int row0) {
    const auto to_end = b.decay_suffix("decay"_s, Shape<C>{}, gamma, head, row0);
    return b.rows(
        "weight"_s, [](auto x, auto y) { return x * y; }, b.load_row("weight"_s, Shape<C>{}, weight, head, row0),
        to_end);
  }
};

}  // namespace assay::tile
