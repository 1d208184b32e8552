#include "language/emit/prelude.hpp"

namespace assay::language::device {
namespace {

constexpr std::string_view products = R"products(
// ---- products of matrices (language/evaluate/products.hpp), and rows of scores
namespace {

#ifdef __CUDACC__
#define DEVICE_MEMBER __device__
#define SHARED(type, name, n) __shared__ type name[n]
#define SOME_UNROLLED _Pragma("unroll 4")
#else
#define DEVICE_MEMBER
#define SHARED(type, name, n) type name[n]
#define SOME_UNROLLED
#endif

constexpr int unlimited = 0x7fffffff;
DEVICE int least(int a, int b) { return b < a ? b : a; }
// How many tokens go side by side where a token's largest value has so many numbers (language/evaluate/in_tiles.hpp).
DEVICE int tokens_in_tile(long largest, int most_numbers, int most_tokens) {
  return largest > most_numbers ? 1 : least(most_tokens, (int)(most_numbers / largest));
}
#ifdef __CUDACC__
constexpr int warp = 32;
DEVICE int lane_of_warp() { return (int)threadIdx.x % warp; }
DEVICE unsigned vote(bool x) { return __ballot_sync(0xffffffffU, x); }
DEVICE bool any_of_warp(bool x) { return __any_sync(0xffffffffU, x); }
DEVICE double from_lane(double x, int lane) { return __shfl_sync(0xffffffffU, x, lane); }
#define MEET_WARP __syncwarp()
DEVICE int bits_in(unsigned x) { return __popc(x); }
DEVICE int first_bit(unsigned x) { return __ffs((int)x) - 1; }
DEVICE int first_of(int width) { return (int)threadIdx.x / width; }
DEVICE int step_of(int width) { return (int)blockDim.x / width; }
DEVICE int thread_of_line() { return (int)threadIdx.x % threads_a_line; }
DEVICE int sum_in_line(int x) {
  for (int l = threads_a_line / 2; l > 0; l /= 2) x += __shfl_xor_sync(0xffffffffU, x, l, threads_a_line);
  return x;
}
DEVICE void widen(int* range, int low, int high) {
  if (low < high) atomicMin(range, low), atomicMax(range + 1, high);
}
#else
constexpr int warp = 1;
DEVICE int lane_of_warp() { return 0; }
DEVICE unsigned vote(bool x) { return x; }
DEVICE bool any_of_warp(bool x) { return x; }
DEVICE double from_lane(double x, int) { return x; }
#define MEET_WARP (void)0
DEVICE int bits_in(unsigned x) { return (int)x; }
DEVICE int first_bit(unsigned) { return 0; }
// Threads work in groups of that width: which one this thread is of, and how many there are.
DEVICE int first_of(int) { return 0; }
DEVICE int step_of(int) { return 1; }
DEVICE int thread_of_line() { return 0; }
DEVICE int sum_in_line(int x) { return x; }
DEVICE void widen(int* range, int low, int high) {
  if (low < high) range[0] = least(range[0], low), range[1] = most(range[1], high);
}
#endif

// Lines or terms: of two axes, where `inner` is not 0 the length of the inner one.
struct Group {
  int count, inner;
};
// By how much something goes on along the inner axis and the outer one.
struct Steps {
  long inner, outer;
};
DEVICE long along(Steps by, Group g, int i) {
  return g.inner == 0 ? i * by.inner : i / g.inner * by.outer + i % g.inner * by.inner;
}
// A matrix, its lines and terms; the numbers of its random ones, which go on likewise.
struct Operand {
  const double* first;
  Steps line, term;
  long number;
  Steps line_number, term_number;
  Key key;
  bool by_terms;  // terms lie side by side
};
// Sums, each added to what `start` has, if anything.
struct Result {
  double* first;
  const double* start;
  Steps row, column, start_row, start_column;
  long number;
  Steps row_number, column_number;
  Key key;
};
DEVICE const double* address(const double& x) { return &x; }
DEVICE double value_at(const Operand& x, Group lines, Group terms, int line, int term) {
  return x.first[along(x.line, lines, line) + along(x.term, terms, term)];
}
DEVICE double as_read(const Draw& draw, const Operand& x, Group lines, Group terms, int line, int term, double value) {
  return as_read(draw, x.key, x.number + along(x.line_number, lines, line) + along(x.term_number, terms, term), value);
}
DEVICE double read_at(const Draw& draw, const Operand& x, Group lines, Group terms, int line, int term) {
  return as_read(draw, x, lines, terms, line, term, value_at(x, lines, terms, line, term));
}
DEVICE double start_at(const Result& to, Group rows, Group columns, int r, int c) {
  return to.start == 0 ? 0.0 : to.start[along(to.start_row, rows, r) + along(to.start_column, columns, c)];
}

// What the number of terms says of a sum's width, which many sums share.
struct Width {
  int terms;
  double third, half, by;
  bool is_power;
};
DEVICE Width width_for(int terms) {
  Width w;
  const int n = most(terms, 1);
  w.terms = terms, w.third = (double)n / 3, w.half = (double)n / 2, w.is_power = (n & (n - 1)) == 0;
  w.by = w.is_power ? 1.0 / n : n;
  return w;
}
// `start` and a sum of products.
DEVICE double add_sum(const Draw& draw, Key key, long n, double start, double sum, double squares, const Width& w) {
  const double mean = w.is_power ? sum * sum * w.by : sum * sum / w.by;
  const double width = width_of(draw, sum, squares, w.third, w.half, mean);
  const double total = start + (sum + centred(of_round(key, n, 0), n) * width);
  return narrow && w.terms != 0 ? one_off(draw, key, n, 1, total, 1) : total;
}
DEVICE double add_one_product(const Draw& draw, Key key, long n, double start, double x, double y) {
  const double term = x * y;
  return add_sum(draw, key, n, start, term, term * term, width_for(x != 0 && y != 0));
}
DEVICE void put(const Draw& draw, const Result& to, Group rows, Group columns, int r, int c, double start, double sum,
                double squares, const Width& w) {
  const long n = to.number + along(to.row_number, rows, r) + along(to.column_number, columns, c);
  to.first[along(to.row, rows, r) + along(to.column, columns, c)] =
      add_sum(draw, to.key, n, start, sum, squares, w);
}

struct Total {
  double sum, squares;
};
// Of n terms and of their squares, in eight sums each, by the threads of a line. Every warp has to come here as a whole.
template <class Term>
DEVICE Total total_of(int n, const Term& term) {
  Total total = {0, 0};
#ifdef __CUDACC__
  double sum = 0, squares = 0;
  SOME_UNROLLED for (int i = thread_of_line(); i < n; i += threads_a_line) {
    const double one = term(i);
    sum += one, squares += one * one;
  }
  for (int l = 0; l < threads_a_line; ++l) {
    total.sum += __shfl_sync(0xffffffffU, sum, l, threads_a_line);
    total.squares += __shfl_sync(0xffffffffU, squares, l, threads_a_line);
  }
#else
  Moments moments = {};
  for (int i = 0; i < n; ++i) add_term(moments, i, term(i));
  for (int l = 0; l < 8; ++l) total.sum += moments.sums[l], total.squares += moments.squares[l];
#endif
  return total;
}
// Sums of the products of lines, one of a and one of b each.
RARE void dots(const Draw& draw, Group lines, Group terms, const Operand& a, const Operand& b, const Result& to) {
  const Group one = {1, 0};
  for (int begin = 0; begin < lines.count; begin += step_of(threads_a_line)) {
    const int n = begin + first_of(threads_a_line);
    int of_a = 0, of_b = 0;
    const Total total = total_of(n < lines.count ? terms.count : 0, [&](int s) {
      const double x = read_at(draw, a, lines, terms, n, s), y = read_at(draw, b, lines, terms, n, s);
      of_a += x != 0, of_b += y != 0;
      return x * y;
    });
    const Width width = width_for(least(sum_in_line(of_a), sum_in_line(of_b)));
    if (n < lines.count && thread_of_line() == 0)
      put(draw, to, lines, one, n, 0, start_at(to, lines, one, n, 0), total.sum, total.squares, width);
  }
  MEET;
}

// The terms without those at both ends that are zero in all rows, and the rows without those at both ends in which all
// are zero: first and last of both.
DEVICE void find_terms(const Draw& draw, int* range, Group rows, Group terms, const Operand& row) {
  ONCE range[0] = range[2] = unlimited, range[1] = range[3] = 0;
  MEET;
  int first = unlimited, last = 0, first_row = unlimited, last_row = 0;
  SOME_UNROLLED EACH(i, rows.count * terms.count) {
    const int r = i / terms.count, s = i - r * terms.count;
    const bool is_zero = read_at(draw, row, rows, terms, r, s) == 0;
    first = is_zero ? first : least(first, s), last = is_zero ? last : most(last, s + 1);
    first_row = is_zero ? first_row : least(first_row, r), last_row = is_zero ? last_row : most(last_row, r + 1);
  }
  widen(range, first, last), widen(range + 2, first_row, last_row);
  MEET;
}

#ifdef __CUDACC__
constexpr int depth = 16, lines_of_thread = 4;
constexpr int line_groups(int threads) { return threads < 128 ? 1 : 4; }
constexpr int panel_columns(int threads) { return threads / 32 / line_groups(threads) * 32; }
constexpr int panel_rows(int threads) { return line_groups(threads) * lines_of_thread; }
constexpr int row_numbers(int threads) { return depth * panel_rows(threads); }
constexpr int column_numbers(int threads) { return depth * (panel_columns(threads) + 1); }
constexpr int stage_of_products(int threads) { return 2 * (row_numbers(threads) + column_numbers(threads)); }

// A part of a panel: rows and columns of it for `depth` terms. Columns stay where there are no more.
struct Part {
  int r0, c0, from;
};

// `lines` lines of an operand in the parts of panels: each thread fetches some numbers, which then go on the stage.
template <int threads, int lines>
struct Fetched {
  static constexpr int loads = (depth * lines + threads - 1) / threads;
  double numbers[loads];

  static DEVICE_MEMBER int line_of(int j, bool by_terms) {
    const int i = (int)threadIdx.x + j * threads;
    return by_terms ? i / depth : i % lines;
  }
  static DEVICE_MEMBER int term_of(int j, bool by_terms) {
    const int i = (int)threadIdx.x + j * threads;
    return by_terms ? i % depth : i / lines;
  }
  DEVICE_MEMBER void fetch(const Operand& x, Group all, Group terms, int line0, int last_line, int from, int last) {
    UNROLLED for (int j = 0; j < loads; ++j)
      numbers[j] = value_at(x, all, terms, least(line0 + line_of(j, x.by_terms), last_line - 1),
                            least(from + term_of(j, x.by_terms), last - 1));
  }
  // Returns whether any of them is zero.
  DEVICE_MEMBER bool put(const Draw& draw, const Operand& x, Group all, Group terms, int line0, int last_line, int from,
                         int last, double* to, int pitch) const {
    bool has_zeros = false;
    UNROLLED for (int j = 0; j < loads; ++j) {
      const int l = line_of(j, x.by_terms), s = term_of(j, x.by_terms);
      const double one = as_read(draw, x, all, terms, least(line0 + l, last_line - 1), least(from + s, last - 1),
                                 numbers[j]);
      if (l < lines && s < depth) to[s * pitch + l] = one;
      has_zeros = has_zeros || (one == 0 && line0 + l < last_line && from + s < last);
    }
    return has_zeros;
  }
};

// Sums over terms [first, last) of rows [first_row, last_row) and all columns. A thread has some rows of a column.
template <int threads>
DEVICE void multiply_panels(const Draw& draw, Group rows, Group columns, Group terms, const Operand& row,
                            const Operand& column, const Result& to, int first, int last, int first_row,
                            int last_row) {
  constexpr int wide = panel_columns(threads), high = panel_rows(threads), of_warps = wide / 32;
  extern __shared__ double shared[];
  double *const all_columns = shared + 2 * row_numbers(threads), *on_rows = shared, *on_columns = all_columns;
  const int mine = (int)threadIdx.x / 32 % of_warps * 32 + (int)threadIdx.x % 32,
            lines = (int)threadIdx.x / 32 / of_warps * lines_of_thread;
  const bool columns_stay = last - first <= depth;
  Fetched<threads, high> of_row;
  Fetched<threads, wide> of_columns;
  double sum[lines_of_thread] = {}, squares[lines_of_thread] = {}, start[lines_of_thread] = {};
  int terms_of_rows[lines_of_thread] = {}, terms_of_column = 0;
  bool column_zeros = false, more = first < last && first_row < last_row && 0 < columns.count;
  Width width = width_for(0);
  Part next = {first_row, 0, first};
  const auto fetch = [&] {
    of_row.fetch(row, rows, terms, next.r0, last_row, next.from, last);
    if (!columns_stay || next.r0 == first_row)
      of_columns.fetch(column, columns, terms, next.c0, columns.count, next.from, last);
  };
  if (more) fetch();
  while (more) {
    const Part here = next;
    if (!columns_stay || here.r0 == first_row) {
      on_columns = on_columns == all_columns ? all_columns + column_numbers(threads) : all_columns;
      column_zeros = of_columns.put(draw, column, columns, terms, here.c0, columns.count, here.from, last, on_columns,
                                    wide + 1);
    }
    on_rows = on_rows == shared ? shared + row_numbers(threads) : shared;
    const bool row_zeros = of_row.put(draw, row, rows, terms, here.r0, last_row, here.from, last, on_rows, high),
               some = __syncthreads_or(row_zeros || column_zeros);
    next.from += depth;
    if (next.from >= last) next.from = first, next.r0 += high;
    if (next.r0 >= last_row) next.r0 = first_row, next.c0 += wide;
    more = next.c0 < columns.count;
    if (more) fetch();
    const bool is_last = here.from + depth >= last, is_mine = lines < high && here.c0 + mine < columns.count;
    if (is_last && is_mine)
      UNROLLED for (int j = 0; j < lines_of_thread; ++j)
        start[j] = start_at(to, rows, columns, least(here.r0 + lines + j, last_row - 1), here.c0 + mine);
    const double *const x = on_rows + lines, *const y = on_columns + mine;
    const int n = is_mine ? least(depth, last - here.from) : 0;
    const auto go = [&](int s) {
      const double by = y[s * (wide + 1)];
      UNROLLED for (int j = 0; j < lines_of_thread; ++j) {
        const double term = x[s * high + j] * by;
        sum[j] += term, squares[j] += term * term;
      }
    };
    if (n == depth) {
      UNROLLED for (int s = 0; s < depth; ++s) go(s);
    } else {
      for (int s = 0; s < n; ++s) go(s);
    }
    for (int s = 0; some && s < n; ++s) {
      terms_of_column += y[s * (wide + 1)] != 0;
      for (int j = 0; j < lines_of_thread; ++j) terms_of_rows[j] += x[s * high + j] != 0;
    }
    if (!some) {
      terms_of_column += n;
      for (int j = 0; j < lines_of_thread; ++j) terms_of_rows[j] += n;
    }
    if (!is_last) continue;
    UNROLLED for (int j = 0; j < lines_of_thread; ++j) {
      const int r = here.r0 + lines + j, found = least(terms_of_rows[j], terms_of_column);
      if (found != width.terms) width = width_for(found);
      if (is_mine && r < last_row)
        put(draw, to, rows, columns, r, here.c0 + mine, start[j], sum[j], squares[j], width);
      sum[j] = squares[j] = 0, terms_of_rows[j] = 0;
    }
    terms_of_column = 0;
  }
  MEET;
}
#else
constexpr int stage_of_products(int) { return 0; }
template <int threads>
DEVICE void multiply_panels(const Draw& draw, Group rows, Group columns, Group terms, const Operand& row,
                            const Operand& column, const Result& to, int first, int last, int first_row,
                            int last_row) {
  for (int r = first_row; r < last_row; ++r)
    for (int c = 0; c < columns.count; ++c) {
      double sum = 0, squares = 0;
      int of_row = 0, of_column = 0;
      for (int s = first; s < last; ++s) {
        const double x = read_at(draw, row, rows, terms, r, s), y = read_at(draw, column, columns, terms, c, s),
                     term = x * y;
        sum += term, squares += term * term, of_row += x != 0, of_column += y != 0;
      }
      put(draw, to, rows, columns, r, c, start_at(to, rows, columns, r, c), sum, squares,
          width_for(least(of_row, of_column)));
    }
}
#endif

// All sums over terms of rows and columns, the same terms of both. in_place: those without terms are there already.
template <int threads>
RARE void multiply(const Draw& draw, bool in_place, Group rows, Group columns, Group terms, const Operand& row,
                   const Operand& column, const Result& to) {
  if (rows.count == 1 && columns.count == 1) return dots(draw, rows, terms, row, column, to);
  SHARED(int, range, 4);
  find_terms(draw, range, rows, terms, row);
  const int first = least(range[0], range[1]), first_row = least(range[2], range[3]), last_row = range[3];
  if (!in_place)
    EACH_LONG(i, (long)rows.count * columns.count) {
      const int r = (int)(i / columns.count), c = (int)(i - (long)r * columns.count);
      if (r < first_row || r >= last_row)
        to.first[along(to.row, rows, r) + along(to.column, columns, c)] = start_at(to, rows, columns, r, c);
    }
  multiply_panels<threads>(draw, rows, columns, terms, row, column, to, first, range[1], first_row, last_row);
}

// ---- systems of equations (language/evaluate/solve.hpp): definite ones, A = L D L^T

// x less the products of n numbers, `step_a` and `step_b` apart: the one that is `round` and `element` of the draw.
DEVICE double less_products(const Draw& draw, Key key, long element, unsigned round, double x, const double* a,
                            long step_a, const double* b, long step_b, int n) {
  const Total products = total_of(n, [&](int k) { return a[k * step_a] * b[k * step_b]; });
  double total = x - products.sum;
  const double terms = n + 1,
               width = width_of(draw, total, products.squares + x * x, terms / 3, terms / 2, total * total / terms);
  if (is_finite(width)) total += centred(of_round(key, element, round), element) * width;
  return narrow ? one_off(draw, key, element, round + 1, total, 1) : total;
}
// The factors of matrices [n, n], in their place: L below the diagonal, D on it, L D above. The first number of one that
// is not positive definite is none.
RARE void factor(const Draw& draw, Key key, int matrices, int n, double* a) {
  for (int m = 0; m < matrices; ++m, a += (long)n * n) {
    const long base = (long)m * (n * (n - 1L) / 2);
    for (int j = 0; j < n; ++j) {
      const long at_j = base + (j - 1L) * n - j * (j - 1L) / 2;  // of the first dot of column j
      for (int begin = j; j > 0 && begin < n; begin += step_of(threads_a_line)) {
        const int i = begin + first_of(threads_a_line), own = least(i, n - 1);
        const unsigned round = !every || i == j + 1 ? 0 : i == j && j == 1 ? (unsigned)n - 1 : 1;
        const double one = less_products(draw, key, at_j + own - j, round, a[(long)own * n + j], a + (long)own * n, 1,
                                         a + j, n, j);
        if (i < n && thread_of_line() == 0) a[(long)j * n + i] = one;
      }
      EACH(i, j == 0 ? n : 0) a[i] = a[(long)i * n];
      MEET;
      const double pivot = a[(long)j * n + j];
      if (!(pivot > 0)) break;  // all threads, which meet below
      EACH(i, n)
        if (i > j)
          a[(long)i * n + j] = j == 0 ? rounded(draw, key, base, (unsigned)i - 1, a[i] / pivot)
                                      : rounded(draw, key, at_j + i - j + 1, 0, a[(long)j * n + i] / pivot);
      MEET;
    }
    bool is_definite = true;
    for (int j = 0; j < n; ++j) is_definite = is_definite && a[(long)j * n + j] > 0;
    MEET;
    if (!is_definite) ONCE a[0] = none();
    MEET;
  }
}
// Puts the solutions of systems, of which every matrix has `columns`, where the right-hand sides are: x[n][columns] of
// each matrix. absorb: zeros stay zeros.
RARE void solve(const Draw& draw, Key key, int matrices, int n, int columns, bool absorb, const double* a, double* x) {
  for (int system = first_of(warp); system < matrices * columns; system += step_of(warp)) {
    const int m = system / columns, c = system % columns;
    const double* const own = a + (long)m * n * n;
    double* const to = x + (long)m * n * columns + c;
    bool is_zero = absorb;
    for (int i = 0; absorb && i < n; ++i) is_zero = is_zero && to[(long)i * columns] == 0;
    const bool has_none = is_none(own[0]);
    const auto put = [&](int i, double value) {
      MEET_WARP;  // all have read what is there
      if (lane_of_warp() == 0) to[(long)i * columns] = is_zero ? 0.0 : has_none ? none() : value;
      MEET_WARP;
    };
    const long first = 1 + (long)m * n * columns + c, then = first + n - 1;
    for (int i = 1; i < n; ++i)
      put(i, less_products(draw, key, first + i - 1, 0, to[(long)i * columns], own + (long)i * n, 1, to, columns, i));
    for (int i = n - 1; i >= 0; --i) {
      const int behind = n - 2 - i;  // dots of this way before, but for the first, which has none
      const long element = then + most(behind, 0);
      const double quotient = to[(long)i * columns] / own[(long)i * n + i];
      double one = rounded(draw, key, element, every && behind == 0 ? 1 : 0, quotient);
      if (behind >= 0)
        one = less_products(draw, key, element, !every ? 0 : behind == 0 ? 2 : 1, one, own + (i + 1L) * n + i, n,
                            to + (i + 1L) * columns, columns, n - 1 - i);
      put(i, one);
    }
  }
  MEET;
}

// Rows of n scores, of which mask(r, i) lets see some, `many` of them from `from` on at most: their softmax by
// put(r, i, x), or the logarithm of the sum of their powers by put(r, 0, x). A warp takes a row. taken(r, i) is what was
// put there.
template <bool is_softmax, class Score, class Mask, class Put, class Taken>
DEVICE void scored(const Draw& draw, Key key, int rows, int n, int from, int many, const Score& score, const Mask& mask,
                   const Put& put, const Taken& taken) {
  constexpr unsigned each = every ? 3 : 1;
  const int lane = lane_of_warp(), end = from + many;
  for (int r = first_of(warp); r < rows; r += step_of(warp)) {
    double top = -endless();
    bool is_open = false;
    unsigned seen = 0;
    SOME_UNROLLED for (int i = from + lane; i < end; i += warp) {
      const int sees = mask(r, i);
      const double x = score(r, i);
      is_open = is_open || sees == 2, seen |= sees == 1;
      top = sees == 1 ? maximum(top, x) : top;
    }
    is_open = any_of_warp(is_open), seen = any_of_warp(seen != 0);
    for (int l = warp / 2; l > 0; l /= 2) top = maximum(top, from_lane(top, lane ^ l));
    if (is_open || seen == 0) {
      const double x = is_open ? none() : is_softmax ? 0.0 : -endless();
      for (int i = lane; i < (is_softmax ? n : 1); i += warp) put(r, i, x);
      continue;
    }
    if (is_softmax) {
      for (int i = lane; i < from; i += warp) put(r, i, 0.0);
      for (int i = end + lane; i < n; i += warp) put(r, i, 0.0);
    }
    const double shift = is_finite(top) ? top : 0.0;
    double total = 0, ahead = from + lane < end ? score(r, from + lane) : 0.0;
    for (int first = from; first < end; first += warp) {
      const int i = first + lane;
      const double x = ahead;
      if (i + warp < end) ahead = score(r, i + warp);
      const bool sees = i < end && mask(r, i) == 1;
      unsigned those = vote(sees);
      const unsigned round = each * (seen - 1 + (unsigned)bits_in(those & ((1U << lane) - 1)));
      double power = -1;
      if (sees) {
        power = exponential(rounded(draw, key, r, round, x - shift));
        power = one_off(draw, key, r, round + (every ? 1 : 0), power, draw.sum_unit == 0x1p-52 ? 1 : 4);
      }
      if (is_softmax && i < end) put(r, i, power);
      const auto add = [&](int other) {
        total += from_lane(power, other);
        total = rounded(draw, key, r, each * seen - 1, total);
        ++seen;
      };
      if (bits_in(those) == warp) {
        UNROLLED for (int l = 0; l < warp; ++l) add(l);
      } else {
        for (; those != 0; those &= those - 1) add(first_bit(those));
      }
    }
    unsigned behind = each * (seen - 1);
    if (!is_softmax) {
      const double log = rounded(draw, key, r, behind, logarithm(total));
      if (lane == 0) put(r, 0, rounded(draw, key, r, behind + 1, log + shift));
      continue;
    }
    SOME_UNROLLED for (int first = from; first < end; first += warp) {
      const int i = first + lane;
      const double power = i < end ? taken(r, i) : -1;
      const unsigned those = vote(power >= 0);
      const unsigned round = behind + (unsigned)bits_in(those & ((1U << lane) - 1));
      if (i < end) put(r, i, power >= 0 ? rounded(draw, key, r, round, quotient(power, total)) : 0.0);
      behind += (unsigned)bits_in(those);
    }
  }
  MEET;
}

}  // namespace
)products";

}  // namespace

std::string_view products_text() { return products; }

}  // namespace assay::language::device
