#include "judge/hypotheses/algebra.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "judge/verdict/judge.hpp"
#include "judge/verdict/locate.hpp"

namespace assay::hypotheses {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// A tensor on trial, with its surroundings.
struct Bench {
  const Scene& scene;
  const Arrays& truths;
  const Observed& seen;
  const Array& truth;
  Grid grid;
  const RoomFacts::Ranked& ranked;
  const std::function<void(const Variant&)>& f;

  bool is_gradient() const { return seen.tensor.starts_with("d_"); }
  /// f of the tensor with its rows replaced: row t of head h by row(h, t), none: unknown.
  void rows(const std::string& key, const std::string& what, const std::string& mend, int rank,
            const std::function<std::ptrdiff_t(std::ptrdiff_t)>& row) const {
    Values values(truth.data.size(), unknown);
    for (std::size_t h = 0; h < grid.heads; ++h)
      for (std::size_t t = 0; t < grid.rows; ++t) {
        const std::ptrdiff_t from = row(static_cast<std::ptrdiff_t>(t));
        if (from < 0 || from >= static_cast<std::ptrdiff_t>(grid.rows)) continue;
        std::copy_n(truth.data.begin() + static_cast<std::ptrdiff_t>(grid.at(h, static_cast<std::size_t>(from), 0)),
                    grid.cols, values.begin() + static_cast<std::ptrdiff_t>(grid.at(h, t, 0)));
      }
    f({key, what, mend, std::move(values), rank});
  }
};

struct Constant {
  double value;
  std::string name;
};

/// Factors that kernels forget or apply twice.
std::vector<Constant> constants_of(const Scene& scene) {
  std::vector<Constant> list = {
      {2, "2"}, {0.5, "1/2"}, {4, "4"}, {0.25, "1/4"}, {std::numbers::ln2, "ln 2"}, {1 / std::numbers::ln2, "1/ln 2"}};
  const auto add = [&](double value, const std::string& name) {
    if (value > 0 && value != 1)
      for (const auto& [x, label] : {std::pair{value, name}, std::pair{1 / value, "1/" + name}})
        list.push_back({x, label});
  };
  const auto add_length = [&](const char* input, std::size_t from_end, const std::string& name, bool root) {
    const Array* array = scene.input(input);
    if (array == nullptr || array->shape.size() <= from_end) return;
    const double n = array->shape[array->shape.size() - 1 - from_end];
    add(n, name);
    if (root) add(std::sqrt(n), "sqrt " + name);
  };
  add_length("k", 0, "K", true), add_length("v", 0, "V", true), add_length("v", 1, "T", true);
  add(static_cast<double>(scene.group()), "the heads of a group");
  add(static_cast<double>(scene.own_heads()) / scene.batch, "the heads");
  add(scene.batch, "the batch");
  for (const RoomFacts::Ranked& ranked : scene.fields()) {
    const std::string name(ranked.field.name);
    if (ranked.field.place != Field::Place::param) continue;
    if (ranked.field.domain != Domain::scale && ranked.field.domain != Domain::bandwidth) continue;
    const double x = scene.number(name, 0);
    add(x, name), add(x * x, name + "^2");
  }
  return list;
}

void try_factor(const Bench& b) {
  double products = 0, squares = 0;
  for (std::size_t i = 0; i < b.truth.data.size(); ++i) {
    products += b.seen.weight[i] * b.truth.data[i] * b.seen.got[i];
    squares += b.seen.weight[i] * b.truth.data[i] * b.truth.data[i];
  }
  if (!(squares > 0)) return;
  const double a = products / squares, doubt = 4 / std::sqrt(squares);
  // Without a name of its own, a factor must be more than roundings to one side.
  if (!std::isfinite(a) || std::abs(a - 1) < 0x1p-8 + doubt || std::abs(a) < 0x1p-8 + doubt) return;
  std::string names;
  double value = a;
  for (const Constant& c : constants_of(b.scene)) {
    if (std::abs(std::abs(a) - c.value) > (0x1p-8 + doubt / c.value) * c.value) continue;
    if (names.find(c.name) == std::string::npos) names += (names.empty() ? "" : " or ") + c.name;
    value = std::copysign(c.value, a);
  }
  Values values = b.truth.data;
  for (double& x : values) x *= value;
  const std::string size = fmt::format("{:.4g}", value);
  if (std::abs(a + 1) < 0x1p-8 + doubt) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = -b.truth.data[i];
    b.f({"sign", "the sign reversed", "multiply by -1", std::move(values), 1});
  } else {
    b.f({"factor " + size, size + " times the right values" + (names.empty() ? "" : " (" + names + ")"),
         fmt::format("multiply by {:.4g}", 1 / value), std::move(values), names.empty() ? plain_factor : 200});
  }
}

void try_orders(const Bench& b) {
  const Grid& n = b.grid;
  if (n.by_token && n.rows > 2) {
    b.rows("late", "a token late (row t holds token t - 1)", "write token t to row t", 20,
           [](auto t) { return t - 1; });
    b.rows("early", "a token early (row t holds token t + 1)", "write token t to row t", 20,
           [](auto t) { return t + 1; });
    b.rows("reversed", "in reverse order of tokens", "write token t to row t", 20,
           [&](auto t) { return static_cast<std::ptrdiff_t>(n.rows) - 1 - t; });
  }
  for (const bool back : {false, true}) {
    if (n.rows < 2 || n.cols < 2 || (back && n.rows == n.cols)) break;
    Values values = b.truth.data;
    read_transposed(n, values, !back);
    b.f({"transposed", "transposed: rows and columns exchanged in memory", "exchange the last two axes",
         std::move(values), 30});
  }
  const std::size_t heads = n.heads / static_cast<std::size_t>(b.scene.batch);
  if (!n.by_token || heads < 2 || n.rows < 2) return;
  for (const bool back : {false, true}) {
    Values values = b.truth.data;
    exchange_axes(n, b.scene.batch, values, !back);
    b.f({"axes",
         back ? "[B, T, H, d] in memory read as [B, H, T, d]" : "written as [B, H, T, d], which is [B, T, H, d]",
         "tokens come before heads", std::move(values), 30});
  }
}

/// The tensor along one of its axes: element e of index i is number i * stride + offsets[e].
struct Along {
  std::string one;  ///< "head"
  std::size_t size = 1, stride = 1;
  std::vector<std::size_t> offsets;
};

Along along(const Grid& n, std::string one) {
  const bool heads = one == "head", rows = one == "row";
  Along axis{std::move(one), heads ? n.heads : rows ? n.rows : n.cols, heads ? n.rows * n.cols : rows ? n.cols : 1, {}};
  for (std::size_t h = 0; h < (heads ? 1 : n.heads); ++h)
    for (std::size_t r = 0; r < (rows ? 1 : n.rows); ++r)
      for (std::size_t c = 0; c < (heads || rows ? n.cols : 1); ++c) axis.offsets.push_back(n.at(h, r, c));
  return axis;
}

/// The states of packed sequences, each with `heads` heads.
Along along_sequences(const Grid& n, std::size_t heads) {
  const std::size_t each = heads * n.rows * n.cols;
  Along axis{"sequence", n.heads / heads, each, {}};
  for (std::size_t e = 0; e < each; ++e) axis.offsets.push_back(e);
  return axis;
}

/// Which index of the truth each index of the answer is most like, of those at most `reach` away.
std::vector<std::size_t> sources(const Bench& b, const Along& axis, std::size_t reach) {
  std::vector<std::size_t> of(axis.size);
  const auto distance = [&](std::size_t i, std::size_t j, double most) {
    double squares = 0;
    for (std::size_t e = 0; e < axis.offsets.size() && squares < most; ++e) {
      const std::size_t at = i * axis.stride + axis.offsets[e];
      const double d = b.seen.got[at] - b.truth.data[j * axis.stride + axis.offsets[e]];
      squares += b.seen.weight[at] * d * d;
    }
    return squares;
  };
  for (std::size_t i = 0; i < axis.size; ++i) {
    double least = distance(i, of[i] = i, std::numeric_limits<double>::infinity());
    for (std::size_t j = i - std::min(i, reach); j < std::min(axis.size, i + reach + 1); ++j)
      if (const double squares = distance(i, j, least); squares < least) least = squares, of[i] = j;
  }
  return of;
}

bool is_counted(const Along& axis) { return axis.one == "head" || axis.one == "sequence"; }

/// "rows 31, 63, 95 in places 32, 64, 96"; of heads and sequences all places.
std::string places_in_words(const Along& axis, const std::vector<std::size_t>& of) {
  std::string from, to;
  std::size_t told = 0;
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (of[i] == i && !is_counted(axis)) continue;
    if (told++ >= 8) continue;
    from += (told == 1 ? "" : ", ") + std::to_string(of[i]), to += (told == 1 ? "" : ", ") + std::to_string(i);
  }
  const std::string more = told > 8 ? ", ..." : "";
  return axis.one + "s " + from + more + " in places " + (is_counted(axis) ? "0, 1, ..." : to + more);
}

/// Sequences, heads, rows and columns that lie where others should.
void try_places(const Bench& b) {
  constexpr std::size_t far = 128;
  std::vector<Along> axes;
  const std::size_t own = b.scene.own_heads();
  if (!b.scene.in_parts && b.grid.heads > own && b.grid.heads % own == 0) axes.push_back(along_sequences(b.grid, own));
  for (const char* one : {"head", "row", "column"}) axes.push_back(along(b.grid, one));
  Values known;
  for (const Along& axis : axes) {
    const bool heads = is_counted(axis);
    if (axis.size < 2 || (heads && axis.size > 64) || axis.offsets.size() < (heads ? 4 : 8)) continue;
    const std::vector<std::size_t> of = sources(b, axis, heads ? axis.size : far);
    std::vector<std::size_t> sorted = of;
    std::sort(sorted.begin(), sorted.end());
    const bool repeats = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
    if (std::is_sorted(of.begin(), of.end()) && !repeats) continue;
    Values values(b.truth.data.size());
    bool reversed = axis.size > 2;
    for (std::size_t i = 0; i < axis.size; ++i) {
      reversed = reversed && of[i] == axis.size - 1 - i;
      for (const std::size_t e : axis.offsets) values[i * axis.stride + e] = b.truth.data[of[i] * axis.stride + e];
    }
    if (values == known) continue;
    known = values;
    const std::string list = places_in_words(axis, of);
    b.f({list,
         axis.one + (repeats    ? "s taken from others (" + list + ")"
                     : reversed ? "s in reverse order"
                                : "s permuted (" + list + ")"),
         "write " + axis.one + " i to place i", std::move(values), heads ? 25 : 70});
  }
}

/// Rows or columns that are off by one factor where the others are right: a block of channels, a row of every chunk.
void try_gains(const Bench& b) {
  for (const char* one : {"row", "column"}) {
    const Along axis = along(b.grid, one);
    std::vector<int> off;
    Values factors, doubts;
    double products = 0, squares = 0;
    std::size_t counted = 0;  // of what is on trial
    for (std::size_t i = 0; i < axis.size; ++i) {
      double xy = 0, xx = 0;
      for (const std::size_t e : axis.offsets) {
        const std::size_t at = i * axis.stride + e;
        xy += b.seen.weight[at] * b.truth.data[at] * b.seen.got[at];
        xx += b.seen.weight[at] * b.truth.data[at] * b.truth.data[at];
      }
      const double a = xx > 0 ? xy / xx : 1, doubt = xx > 0 ? 4 / std::sqrt(xx) : 0;
      counted += xx > 0 ? 1 : 0;
      if (!(std::abs(a - 1) > 0x1p-8 + doubt)) continue;
      off.push_back(static_cast<int>(i)), factors.push_back(a), doubts.push_back(doubt);
      products += xy, squares += xx;
    }
    if (off.empty() || off.size() == counted) continue;
    const double a = products / squares;
    bool alike = std::abs(a) > 0x1p-8;
    for (std::size_t i = 0; i < off.size(); ++i)
      alike = alike && std::abs(factors[i] - a) <= 0x1p-6 * std::abs(a) + doubts[i];
    if (!alike) continue;
    Values values = b.truth.data;
    for (const int i : off)
      for (const std::size_t e : axis.offsets) values[static_cast<std::size_t>(i) * axis.stride + e] *= a;
    const std::string place = describe({axis.one, axis.one + 's', static_cast<int>(axis.size)}, off);
    b.f({"gain in " + place, fmt::format("{:.4g} times the right values in {}", a, place),
         fmt::format("multiply them by {:.4g}", 1 / a), std::move(values), plain_factor});
  }
}

/// A few numbers that are those beside them: an index that is one off, a lane that was not written.
void try_neighbours(const Bench& b) {
  std::vector<std::size_t> off;
  for (std::size_t i = 0; i < b.truth.data.size() && off.size() <= 8; ++i)
    if (std::sqrt(b.seen.weight[i]) * std::abs(b.seen.got[i] - b.truth.data[i]) > element_sigmas) off.push_back(i);
  if (off.empty() || off.size() > 8) return;
  for (const char* one : {"column", "row", "head"}) {
    const Along axis = along(b.grid, one);
    for (const bool next : {false, true}) {
      Values values = b.truth.data;
      const bool all = std::all_of(off.begin(), off.end(), [&](std::size_t i) {
        const std::size_t index = i / axis.stride % axis.size;
        if (index == (next ? axis.size - 1 : 0)) return false;
        const std::size_t other = next ? i + axis.stride : i - axis.stride;
        values[i] = b.seen.got[other];
        return b.seen.got[i] == b.seen.got[other];
      });
      if (!all) continue;
      const std::string what = fmt::format("the {} {}'s", next ? "next" : "previous", axis.one);
      b.f({"neighbours " + what,
           off.size() == 1 ? "one number that is " + what : fmt::format("{} numbers that are {}", off.size(), what),
           "write each number to its own place", std::move(values), 70});
    }
  }
}

/// Numbers that are zero and should not be: nothing was written there.
void try_holes(const Bench& b) {
  Values values = b.truth.data;
  std::size_t holes = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (b.seen.weight[i] > 0 && b.seen.got[i] == 0 && values[i] != 0) values[i] = 0, ++holes;
  if (holes > 0 && holes < values.size())
    b.f({"holes", fmt::format("{} of {} numbers zero: nothing was written there", holes, values.size()),
         "write every row, column and head", std::move(values), 80});
}

void try_others(const Bench& b) {
  b.f({"zeros", "zero: nothing was written", "write it", Values(b.truth.data.size(), 0.0), 0});
  for (const auto& [name, other] : b.truths) {
    if (name == b.seen.tensor || other.shape != b.truth.shape || other.data == b.truth.data) continue;
    const bool pair = name.starts_with("d_") == b.is_gradient();
    if (!pair) continue;
    const auto [first, second] = std::minmax(name, b.seen.tensor);
    b.f({"values " + first + ' ' + second, first + " and " + second + " exchanged, or one written twice",
         "check which is written where", other.data, 15});
    if (!b.is_gradient()) continue;
    Values sum = b.truth.data;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other.data[i];
    b.f({"plus " + name, name + " added to it, too", "write each to its own tensor", std::move(sum), 50});
  }
  if (b.ranked.field.domain != Domain::state || b.is_gradient()) return;
  for (const auto& [name, state] : b.scene.problem.inputs)
    if (name.starts_with("initial_") && state.shape == b.truth.shape && state.data != b.truth.data)
      b.f({"unchanged " + name, name + " itself", "write the state after the last token", state.data, 10});
}

/// Gradients that every head has for itself, summed as those of what heads share.
void try_group_sums(const Bench& b) {
  const std::size_t group = b.scene.group(), n = b.grid.rows * b.grid.cols;
  if (!b.is_gradient() || b.ranked.field.heads != Field::Heads::own || group < 2 || b.grid.heads % group != 0) return;
  Values values(b.truth.data.size(), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t h = 0; h < group; ++h) values[i] += b.truth.data[(i / n / group * group + h) * n + i % n];
  b.f({"group sums", "summed over the heads of each group, each of which has its own", "write each head its own",
       std::move(values), 40});
}

/// Tries factors that were multiplied in by the row, or left out.
void try_row_factors(const Bench& b) {
  if (!b.grid.by_token || !b.is_gradient()) return;
  struct Factor {
    std::string more, less;
    std::function<double(double)> f;
  };
  for (const std::string& input : b.scene.inputs()) {
    const RoomFacts::Ranked& ranked = *b.scene.described(input);
    const Array& x = *b.scene.input(input);
    const Grid from = grid_of(ranked, x.shape);
    const bool own = "d_" + input == b.seen.tensor;
    if (!from.by_token || from.heads != b.grid.heads || from.rows != b.grid.rows || (from.cols != 1 && !own)) continue;
    std::vector<Factor> factors;
    if (ranked.field.domain == Domain::log_decay) {
      factors.push_back(
          {own ? "multiplied by the decay once more" : "multiplied by exp(" + input + ") once more",
           own ? "the gradient of the decay itself, not of its logarithm" : "without its factor exp(" + input + ")",
           [](double g) { return std::exp(g); }});
      if (own)
        factors.push_back({"the gradient of the decay's logit, not of its logarithm", "divided by 1 - decay",
                           [](double g) { return -std::expm1(g); }});
    } else if (ranked.field.domain != Domain::query && ranked.field.domain != Domain::key &&
               ranked.field.domain != Domain::value && ranked.field.domain != Domain::probe) {
      factors.push_back({own ? "the gradient of log " + input : "multiplied by " + input + " once more",
                         own ? "divided by " + input : "without its factor " + input, [](double v) { return v; }});
      if (own)
        factors.push_back({"the gradient of " + input + "'s logit, not of " + input + " itself",
                           "divided by " + input + " (1 - " + input + ")", [](double v) { return v * (1 - v); }});
    }
    for (const Factor& factor : factors)
      for (const bool less : {false, true}) {
        Values values = b.truth.data;
        for (std::size_t h = 0; h < b.grid.heads; ++h)
          for (std::size_t r = 0; r < b.grid.rows; ++r)
            for (std::size_t c = 0; c < b.grid.cols; ++c) {
              double& v = values[b.grid.at(h, r, c)];
              const double by = factor.f(x.data[from.at(h, r, from.cols == 1 ? 0 : c)]);
              v = less ? (std::abs(by) > 1e-12 ? v / by : unknown) : v * by;
            }
        const std::string& what = less ? factor.less : factor.more;
        b.f({"row factor " + input + what, what, "check what it is differentiated by", std::move(values), 40});
      }
  }
}

/// Gradients of log decays are summed from the last token to the first.
void try_sums(const Bench& b) {
  if (!b.grid.by_token || !b.is_gradient() || b.ranked.field.domain != Domain::log_decay || b.grid.rows < 2) return;
  const Grid& n = b.grid;
  const auto last = [&](std::size_t t, std::size_t chunk) { return std::min(n.rows, (t / chunk + 1) * chunk); };
  const auto make = [&](const auto& at) {
    Values values(b.truth.data.size());
    for (std::size_t h = 0; h < n.heads; ++h)
      for (std::size_t t = 0; t < n.rows; ++t)
        for (std::size_t c = 0; c < n.cols; ++c) {
          const auto d = [&](std::size_t row) { return row < n.rows ? b.truth.data[n.at(h, row, c)] : 0.0; };
          values[n.at(h, t, c)] = at(d, t);
        }
    return values;
  };
  b.f({"not summed", "not summed over later tokens (the reverse cumulative sum missing)",
       "sum it from the last token to the first", make([](const auto& d, std::size_t t) { return d(t) - d(t + 1); }),
       40});
  b.f({"summed forward", "summed over earlier tokens, not later ones", "sum it from the last token to the first",
       make([](const auto& d, std::size_t t) { return d(0) - d(t + 1); }), 40});
  b.f({"summed past itself", "summed over later tokens without its own", "the sum begins with token t itself",
       make([](const auto& d, std::size_t t) { return d(t + 1); }), 45});
  b.f({"summed twice", "summed over later tokens twice", "sum it from the last token to the first, once",
       make([&](const auto& d, std::size_t t) {
         double sum = 0;
         for (std::size_t later = t; later < n.rows; ++later) sum += d(later);
         return sum;
       }),
       40});
  for (const std::size_t chunk : {16, 32, 64, 128})
    if (chunk < n.rows)
      b.f({"summed in chunks", fmt::format("summed within chunks of {} tokens only", chunk),
           "add what later chunks owe", make([&](const auto& d, std::size_t t) { return d(t) - d(last(t, chunk)); }),
           45});
}

/// Every row by a factor of its own: what it was divided by was not the sum of its weights. Rows are long enough to
/// tell a factor from other errors, which explain one part in so many.
void try_normalisers(const Bench& b) {
  if (!b.grid.by_token || b.grid.cols < 16) return;
  Values values = b.truth.data, factors;
  double products = 0, squares = 0;
  each_row(b.grid, values, [&](std::size_t h, std::size_t r, std::span<double> row) {
    double xy = 0, xx = 0;
    for (std::size_t c = 0; c < row.size(); ++c) xy += row[c] * b.seen.got[b.grid.at(h, r, c)], xx += row[c] * row[c];
    factors.push_back(xx > 0 ? xy / xx : 1);
    products += xy, squares += xx;
    for (double& x : row) x *= factors.back();
  });
  // Other causes are likelier for one factor of all rows, for rows that are nothing, and for few rows.
  const double all = squares > 0 ? products / squares : 1;
  const auto own = std::count_if(factors.begin(), factors.end(), [&](double a) {
    return std::abs(a - 1) > 0x1p-8 && std::abs(a) > 0x1p-8 && std::abs(a - all) > 0x1p-5 * std::abs(all);
  });
  if (own >= 8)
    b.f({"normalisers", "every row the right one times a number of its own",
         "check what rows are divided by, or weighted with", std::move(values), plain_factor + 1,
         1 / static_cast<double>(b.grid.cols)});
}

/// Gradients of gates are summed from a chunk's last token to its first, so what is missing at its last token is
/// missing from all of them alike.
void try_chunk_terms(const Bench& b) {
  if (!b.grid.by_token || !b.is_gradient() || b.ranked.field.domain != Domain::log_decay) return;
  const Grid& n = b.grid;
  for (const std::size_t chunk : {128, 64, 32, 16}) {
    if (n.rows < 8 || (chunk > n.rows && chunk != 128)) continue;
    Values values = b.truth.data;
    double before = 0, after = 0;
    for (std::size_t h = 0; h < n.heads; ++h)
      for (std::size_t begin = 0; begin < n.rows; begin += chunk)
        for (std::size_t c = 0; c < n.cols; ++c) {
          const std::size_t end = std::min(begin + chunk, n.rows);
          double sum = 0, count = 0;
          for (std::size_t t = begin; t < end; ++t) {
            const std::size_t i = n.at(h, t, c);
            sum += b.seen.weight[i] * (b.seen.got[i] - b.truth.data[i]), count += b.seen.weight[i];
          }
          for (std::size_t t = begin; count > 0 && t < end; ++t) {
            const std::size_t i = n.at(h, t, c);
            values[i] += sum / count;
            before += b.seen.weight[i] * std::pow(b.seen.got[i] - b.truth.data[i], 2);
            after += b.seen.weight[i] * std::pow(b.seen.got[i] - values[i], 2);
          }
        }
    if (after > 0.01 * before) continue;  // numbers to choose freely explain some of any error
    b.f({fmt::format("chunk terms {}", chunk),
         chunk < n.rows ? fmt::format("off by one number in each chunk of {} tokens", chunk)
                        : "off by one number at all tokens",
         "check the term of the chunk's last token (what the state after it owes), which later sums carry",
         std::move(values), plain_factor + 2 + static_cast<int>(128 / chunk)});  // the longest chunk says most
  }
}

/// The corruptions that the judge makes of every tensor.
void try_corruptions(const Bench& b) {
  static constexpr std::string_view known[] = {"zeros",         "sign_flip",  "one_nan",      "rows_shifted",
                                               "rows_reversed", "transposed", "heads_swapped"};
  const Layout layout{static_cast<int>(b.grid.heads), static_cast<int>(b.grid.rows), static_cast<int>(b.grid.cols)};
  for (const Corruption& corruption : corruptions()) {
    if (std::ranges::find(known, corruption.name) != std::end(known) || !corruption.applies(layout)) continue;
    Values values = corruption.applied(b.truth.data, layout);
    if (values != b.truth.data)
      b.f({std::string(corruption.name), std::string(corruption.what), "write every row, column and head",
           std::move(values), 60});
  }
}

}  // namespace

void each_variant(const Scene& scene, const Arrays& truths, const Observed& seen,
                  const std::function<void(const Variant&)>& f) {
  const RoomFacts::Ranked* ranked = scene.described(seen.tensor);
  const auto truth = truths.find(seen.tensor);
  if (ranked == nullptr || truth == truths.end()) return;
  const Bench bench{scene, truths, seen, truth->second, grid_of(*ranked, truth->second.shape), *ranked, f};
  try_others(bench);
  try_factor(bench);
  try_orders(bench);
  try_places(bench);
  try_gains(bench);
  try_neighbours(bench);
  try_holes(bench);
  try_group_sums(bench);
  try_row_factors(bench);
  try_sums(bench);
  try_normalisers(bench);
  try_chunk_terms(bench);
  try_corruptions(bench);
}

}  // namespace assay::hypotheses
