#pragma once
// The vocabulary of tile programs: named rounding sites, shapes, elementwise functions. Under nvcc the same text is
// device code; nothing here needs a CUDA header.
//
// A kernel is a struct template over a Types class with `Args`, `Smem` and
//   template <class X> static void run(X& b, Smem& s, const Args& a, int head, int x)
// that reads like the algorithm: no thread index, no layout, no #ifdef. An executor X offers:
//
//   registers   acc(site, Shape<R,C>)  row(site, Shape<R>, x)  partial(site, Shape<R>)
//               rows(site, f, rows...)  load_row / load_col / store_row
//               acc.map(site, f, rows, cols or accs...)  acc.zip(site, f, acc or tile, rows, cols or accs...)
//               acc.mask(pred(r, c), fill or acc)  acc.scale(row)  acc.row_max()
//               partial.fold(alpha, acc)  partial.total()  dot(site, acc, acc)  dot(site, tile, tile)  any(f, row)
//   products    ab / abt / atb(site, A, B) -> acc    mma / mma_abt / mma_atb(acc, A, B)
//               A: a shared tile or cast(site, acc); pairs that share B in one call
//               abt_async, mma_async, await(acc), exclusive(f)
//               mma_abt / mma / mma_atb(Level, acc, A, B): with the pairs of that level alone (at_level)
//   memory      load(tile, in, head, row[, col])  store(site, out, head, row, acc[, col])
//               load_acc(site, Shape<R,C>, in, head, row[, col]) -> acc
//               put(tile, acc)  sync()  pipeline(Shape<stages>, n, produce, consume)
//               unit_lower_inverse(site, tile, tile): the second is gone then
//   decays      of a row of logs, or of the decays themselves:
//               decay_ratios(site, tile, in, head, row[, lag])  decay_prefix / decay_suffix / decay_total -> row
//               gates_of_ratios / _prefix / _suffix / _total(site, ...) -> row: their adjoints, for log gates; of
//               ratios, the tile is gone then
//               decays(site, Shape<R>, in, head, row) -> row
//   channels    decays with one column per channel:
//               across(tile, acc, h) -> acc: of row i, row i XOR h; the tile is the executor's until then
//               store_line(site, row out, head, row, tile, r): row r of a tile, as numbers from that row on
//               or as a shared tile of factors alpha:
//               channel_prefix(site, tile, alpha[, lag])  channel_suffix(site, tile, alpha)
//               channel_total(site, Shape<R>, alpha, count) -> row
//               channel_scores(sum, site, tile, X, K, alpha[, lag])
//               column_of(row) -> column
//   units       units(site, array, head): powers of two that operands of 8 bits are multiples of (operand_units.hpp)
//   Verbs that one mechanism uses are functions beside it: FALCON-2's sums of value columns
//               (host_value_columns.hpp), MDN's sums of rows that decay (host_decay_scan.hpp).
//   faults      planted("name"_s, healthy, broken): `healthy`, except where that mutant is planted
// Reductions (row_max, total, dot, any), decays, channels and products are collective.
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "kernels/core/size.hpp"
#include "reference/core/format.hpp"

#if defined(__CUDACC__)
#define TILE_FN __device__ __forceinline__
#define TILE_HD __host__ __device__
#else
#define TILE_FN inline
#define TILE_HD
#endif

namespace assay::tile {

/// A rounding site is a type named by a string: "P"_s. Bodies name sites; a contract says which format each has.
template <std::size_t N>
struct FixedString {
  char s[N]{};
  constexpr FixedString(const char (&t)[N]) {  // NOLINT(google-explicit-constructor): literals are meant to convert
    for (std::size_t i = 0; i < N; ++i) s[i] = t[i];
  }
  constexpr std::string_view view() const { return {s, N - 1}; }
};

template <FixedString S>
struct Site {
  static constexpr std::string_view name() { return S.view(); }
};
template <FixedString S>
TILE_HD constexpr Site<S> operator""_s() {
  return {};
}

template <Size R, Size C = 1>
struct Shape {};

/// Pairs of rows i and j by halves of halves: of level h, a power of two, are those with j in the first half of 2h rows
/// and i in the second. Level 0 are the pairs of a row with itself; every pair i >= j is of one level.
struct Level {
  int h;
};
TILE_HD constexpr bool at_level(Level level, int i, int j) {
  return level.h == 0 ? i == j : (i & level.h) != 0 && (i ^ j) >= level.h && (i ^ j) < 2 * level.h;
}

/// Steps of a software-pipelined loop.
struct First {};
struct Middle {};
struct Last {};

struct Nothing {};
/// A tile that is there only if it is needed.
template <bool Needed, class Tile>
using TileIf = std::conditional_t<Needed, Tile, Nothing>;

/// Tiles that lie in one memory where an executor says so (InTurn): an element of the next is written by whoever read
/// that of the last, when nobody else needs it.
template <class A, class B, class C = Nothing>
struct SideBySide {
  A first;
  B second;
  [[no_unique_address]] C third;
};

/// The first, if it is there to choose.
template <bool First, class A, class B>
TILE_FN auto& chosen(A& first, B& second) {
  if constexpr (First)
    return first;
  else
    return second;
}

/// Two results of one collective operation.
template <class A, class B>
struct Two {
  A a;
  B b;
};

/// The kind of value that a site holds; a contract gives each role a format.
enum class Role : unsigned char { operand, gate, accumulator, output };

/// The sites of a kernel form and the format of each: a constexpr policy on the device, the start of a run-time one
/// here.
struct SiteTable {
  struct Entry {
    char name[16]{};
    Role role{};
    Format format{};
    Blocks blocks{};
    constexpr std::string_view view() const { return name; }
    /// Whether its numbers are multiples of scales of blocks.
    constexpr bool by_blocks() const { return format != Format::exact && !blocks.none(); }
  };
  struct Init {
    const char* name;
    Role role;
  };
  static constexpr int capacity = 96;
  Entry entries[capacity]{};
  int size = 0;

  template <std::size_t N>
  constexpr explicit SiteTable(const Init (&sites)[N]) {
    add(sites);
  }
  /// These sites and more.
  template <std::size_t N>
  constexpr SiteTable with(const Init (&sites)[N]) const {
    SiteTable t = *this;
    t.add(sites);
    return t;
  }
  constexpr int find(std::string_view site) const {
    for (int i = 0; i < size; ++i)
      if (entries[i].view() == site) return i;
    return -1;
  }
  constexpr const Entry& entry(std::string_view site) const { return entries[require(site)]; }
  constexpr Format at(std::string_view site) const { return entry(site).format; }
  constexpr bool has_blocks() const {
    for (int i = 0; i < size; ++i)
      if (entries[i].by_blocks()) return true;
    return false;
  }
  constexpr SiteTable with(std::string_view site, Format f, const Blocks& blocks = {}) const {
    SiteTable t = *this;
    Entry& changed = t.entries[require(site)];
    changed.format = f, changed.blocks = blocks;
    return t;
  }
  constexpr SiteTable without(std::string_view site) const {
    SiteTable t = *this;
    for (int i = require(site); i + 1 < size; ++i) t.entries[i] = entries[i + 1];
    t.entries[--t.size] = {};
    return t;
  }
  constexpr SiteTable with(Role role, Format f) const {
    SiteTable t = *this;
    for (int i = 0; i < size; ++i)
      if (entries[i].role == role) t.entries[i].format = f, t.entries[i].blocks = {};
    return t;
  }
  constexpr SiteTable all(Format f) const {
    SiteTable t = *this;
    for (int i = 0; i < size; ++i) t.entries[i].format = f, t.entries[i].blocks = {};
    return t;
  }
  /// The contract of a precision: operands and outputs stored in it, gates and accumulators in fp32 (fp64 for fp64).
  /// tf32 leaves memory as fp32 and fp8 leaves as bf16, as kernels do.
  constexpr SiteTable contract(Format precision) const {
    const bool wide = precision == Format::fp64 || precision == Format::exact;
    const bool narrow = precision == Format::e4m3 || precision == Format::e5m2;
    const Format inner = wide ? precision : Format::fp32;
    return with(Role::operand, precision)
        .with(Role::gate, inner)
        .with(Role::accumulator, inner)
        .with(Role::output, precision == Format::tf32 ? Format::fp32
                            : narrow                  ? Format::bf16
                                                      : precision);
  }

 private:
  template <std::size_t N>
  constexpr void add(const Init (&sites)[N]) {
    static_assert(N <= capacity);
    for (const Init& x : sites) {
      if (size == capacity) throw std::length_error("more sites than a contract's table holds");
      for (int i = 0; x.name[i] != 0; ++i) entries[size].name[i] = x.name[i];
      entries[size++].role = x.role;
    }
  }
  constexpr int require(std::string_view site) const {
    const int i = find(site);
    if (i < 0) throw std::out_of_range("site not in the contract's table");
    return i;
  }
};

// Elementwise functions. The host ones are our own: libm differs between machines, and emulations must not.
#if defined(__CUDACC__)
TILE_FN float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TILE_FN double ex2(double x) { return ::exp2(x); }
TILE_FN float lg2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TILE_FN double lg2(double x) { return ::log2(x); }
TILE_FN float maxi(float a, float b) { return fmaxf(a, b); }
TILE_FN double maxi(double a, double b) { return fmax(a, b); }
#else
double ex2(double x);
long double ex2(long double x);
double lg2(double x);
long double lg2(long double x);
template <class T>
T maxi(T a, T b) {
  return a < b ? b : a;
}
#endif
TILE_HD constexpr int imin(int a, int b) { return a < b ? a : b; }
TILE_HD constexpr int imax(int a, int b) { return a < b ? b : a; }
TILE_HD constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// Which keys each query sees: causal masks are end-aligned, a window keeps the newest keys (0: no window).
struct Visibility {
  int queries, keys, window;
  bool causal;
  int ahead = 0;  ///< keys beyond its own position that a causal query sees: 0, except in a fault
  TILE_HD constexpr int end(int row) const {
    return causal ? imax(0, imin(row + keys - queries + 1 + ahead, keys)) : keys;
  }
  TILE_HD constexpr int begin(int row) const { return window > 0 ? imax(0, row + keys - queries + 1 - window) : 0; }
  TILE_HD constexpr bool operator()(int row, int key) const {
    return row < queries && key >= begin(row) && key < end(row);
  }
  /// Whether each of rows [r0, r1) sees all keys [k0, k1): such a tile needs no mask.
  TILE_HD constexpr bool all(int r0, int r1, int k0, int k1) const {
    return r1 <= queries && begin(r1 - 1) <= k0 && k1 <= end(r0);
  }
  /// Keys seen by any of rows [r0, r1).
  TILE_HD constexpr int first_key(int r0) const { return imin(begin(r0), keys); }
  TILE_HD constexpr int last_key(int r1) const { return end(imin(r1, queries) - 1); }
  /// Rows that see any of keys [k0, k1).
  TILE_HD constexpr int first_row(int k0) const { return causal ? imax(0, k0 - keys + queries - ahead) : 0; }
  TILE_HD constexpr int last_row(int k1) const {
    return window > 0 ? imin(queries, imax(0, k1 - 1 + window - keys + queries)) : queries;
  }
};

/// The types of every executor's Types class.
template <class B>
concept ExecutorTypes = requires {
  typename B::Real;
  typename B::In;
  typename B::Out;
  typename B::RowIn;
  typename B::RowOut;
  typename B::template Tile<"S", 64, 64>;
};

}  // namespace assay::tile
