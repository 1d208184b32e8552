#pragma once
// Windows of pairs as rows of tiles, a row for every pair that a token writes: what FALCON-3's programs read.
#include "kernels/programs/windows.hpp"

namespace assay::tile {

/// How tokens and the pairs of their windows lie in the rows of tiles, `height` each: `tokens` of them with `ranks`
/// rows each, or one token in `parts` tiles.
struct BatchRows {
  Windows windows;
  int len, height, tokens, ranks, parts;

  /// The rows for windows of up to `longest` pairs.
  static constexpr BatchRows of(const Windows& windows, int len, int longest, int height) {
    const int ranks = imax(1, imin(longest, height));
    return {windows, len, height, height / ranks, ranks, imax(1, ceil_div(longest, height))};
  }
  TILE_HD constexpr int groups() const { return imax(1, ceil_div(len, tokens)); }
  TILE_HD constexpr int tiles() const { return groups() * parts; }
  TILE_HD constexpr int group(int tile) const { return tile / parts; }
  TILE_HD constexpr int token(int row) const { return row / ranks; }
  TILE_HD constexpr int size(int t) const { return t < len ? windows.end(t) - windows.begin(t) : 0; }
  /// The first part of a window is there without pairs too.
  TILE_HD constexpr bool leads(int tile) const { return tile % parts == 0; }
  TILE_HD constexpr bool used(int tile) const { return leads(tile) || size(group(tile)) > tile % parts * height; }
  TILE_HD constexpr bool last_used(int tile) const { return (tile + 1) % parts == 0 || !used(tile + 1); }
  /// Tokens that a tile has, of which the last may be one short of all.
  TILE_HD constexpr int tokens_of(int tile) const { return imin(tokens, len - group(tile) * tokens); }

  // Rows of all tiles are counted through.
  TILE_HD constexpr int count() const { return tiles() * height; }
  /// The first row of token t in part p of its window.
  TILE_HD constexpr int row_of(int t, int p) const { return (t / tokens * parts + p) * height + t % tokens * ranks; }
  TILE_HD constexpr int row_of_pair(int t, int i) const { return row_of(t, i / ranks) + i % ranks; }
  TILE_HD constexpr int parts_of(int t) const { return imax(1, ceil_div(size(t), ranks)); }
  /// The token that a row is for, or -1.
  TILE_HD constexpr int token_at(int row) const {
    const int t = group(row / height) * tokens + row % height / ranks;
    return row % height / ranks < tokens && t < len && used(row / height) ? t : -1;
  }
};

/// The number of the pair or the token that a row of the tiles holds, or -1.
struct PairOfRow {
  BatchRows rows;
  TILE_HD constexpr int operator()(int row) const {
    const int t = rows.token_at(row), i = row / rows.height % rows.parts * rows.ranks + row % rows.height % rows.ranks;
    return t >= 0 && i < rows.size(t) ? rows.windows.begin(t) + i : -1;
  }
};
struct WriterOfRow {
  BatchRows rows;
  TILE_HD constexpr int operator()(int row) const { return PairOfRow{rows}(row) >= 0 ? rows.token_at(row) : -1; }
};
/// The last row of a token reads, the first one decays.
struct ReaderOfRow {
  BatchRows rows;
  TILE_HD constexpr int operator()(int row) const {
    return row % rows.height % rows.ranks == rows.ranks - 1 ? rows.token_at(row) : -1;
  }
};
struct DecayOfRow {
  BatchRows rows;
  TILE_HD constexpr int operator()(int row) const {
    return row % rows.height % rows.ranks == 0 ? rows.token_at(row) : -1;
  }
};
struct FirstRowOfToken {
  BatchRows rows;
  TILE_HD constexpr int operator()(int t) const { return rows.row_of(t, 0); }
};

/// The rows that add up to a pair or a token, in the order of the sum.
struct RowsOfPair {
  BatchRows rows;
  TILE_HD constexpr int count(int j) const {
    return imax(0, rows.windows.last_row(j + 1, rows.len) - rows.windows.first_row(j));
  }
  TILE_HD constexpr int row(int j, int i) const {
    const int t = rows.windows.first_row(j) + i;
    return rows.row_of_pair(t, j - rows.windows.begin(t));
  }
};
struct RowsOfWriter {
  BatchRows rows;
  TILE_HD constexpr int count(int t) const { return rows.size(t); }
  TILE_HD constexpr int row(int t, int i) const { return rows.row_of_pair(t, i); }
};
struct RowsOfReader {
  BatchRows rows;
  TILE_HD constexpr int count(int t) const { return rows.parts_of(t); }
  TILE_HD constexpr int row(int t, int i) const { return rows.row_of(t, i) + rows.ranks - 1; }
};

/// The longest window of any token: of up to `window` pairs, or of all where that is 0.
constexpr int longest_window(int window, int pairs) { return window > 0 ? imin(window, pairs) : pairs; }

/// Rows of the windows of all tokens, side by side.
constexpr long rows_side_by_side(int len, int pairs, int window) {
  return static_cast<long>(len) * longest_window(window, pairs);
}

/// The inputs of the programs of both forms. X, V and Q are rows of tiles, weights and decays a number for each; the
/// decay of a token is in its first row, the others hold 1.
template <ExecutorTypes B>
struct BatchInputs {
  typename B::In q, x, v;
  typename B::RowIn weight, gamma;
  BatchRows rows;
  int group, shared_heads;
};

}  // namespace assay::tile
