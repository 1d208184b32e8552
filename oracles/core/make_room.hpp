#pragma once
// A room's reference, instantiated with every scalar: what the registry entry of a room points at.
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "oracles/core/bind.hpp"
#include "oracles/core/diagnostics.hpp"
#include "oracles/core/in_words.hpp"
#include "oracles/core/oracle.hpp"
#include "oracles/core/room.hpp"
#include "oracles/core/term_sizes_of.hpp"
#include "oracles/core/trajectory_of.hpp"
#include "oracles/scalars/emulated.hpp"
#include "oracles/scalars/scalar.hpp"

namespace assay {
namespace detail {

/// How far `high` may be from the truth, judged by the same computation in a lower precision: the difference is that
/// one's error, and the higher one's is smaller by the ratio of the precisions, give or take the luck of 2^20.
template <class L, class H>
H error_of(const L& low, const H& high) {
  using std::abs, std::ldexp;
  return ldexp(H(abs(high - H(low))), std::numeric_limits<L>::digits - std::numeric_limits<H>::digits + 20);
}

template <class S>
bool is_undefined(const S& x) {
  using std::isnan;
  return isnan(x);
}
inline bool is_undefined(const Ball& x) { return x.is_undefined(); }

inline bool is_count(std::string_view name) { return name == "diagnostics.density" || name == "rows.iterations"; }

/// One number of the tensor called `name`.
template <class S>
Cell cell(std::string_view name, const S& x, int digits) {
  if (is_undefined(x)) return {"", name == "score" ? Cell::Kind::left_out : Cell::Kind::undefined};
  if (is_count(name)) return {std::to_string(static_cast<long>(to_double(x))), Cell::Kind::count};
  return {to_decimal(x, digits), Cell::Kind::decimal};
}

/// `high` as a cell if `low` agrees to its first digits, and no number within its error prints otherwise.
template <class L, class H>
std::optional<Cell> settled(std::string_view name, const L& low, const H& high, int digits) {
  using std::abs, std::isfinite;
  const bool finite = isfinite(low) && isfinite(high);
  if (finite && abs(high - H(low)) > abs(high) / 2) return std::nullopt;
  const H error = finite ? error_of(low, high) : H(0);
  Cell below = cell(name, H(high - error), digits);
  const bool same =
      !finite ? below == cell(name, low, digits) : error == H(0) || below == cell(name, H(high + error), digits);
  return same ? std::optional(std::move(below)) : std::nullopt;
}

/// As above, when there is no higher tier: what cannot be told from zero is zero. Where nothing but rounding errors is
/// left, the lower tier's are of another size, or happen to cancel.
template <class L, class H>
Cell best_guess(std::string_view name, const L& low, const H& high, int digits) {
  using std::abs, std::isfinite;
  const bool noise = isfinite(low) && isfinite(high) && (low == L(0) || abs(high) <= error_of(low, high));
  return cell(name, noise ? H(0) : high, digits);
}

/// At most half a unit of the last of `digits` digits of x, and a twentieth of it at least.
inline double half_unit(const Ball& x, int digits) { return 0.5 * std::abs(x.middle()) * std::pow(10.0, -digits); }

/// A number as a cell; nothing if its ball is too wide to tell the digits. With `last`, what cannot be told from zero
/// is zero. `bound` becomes at least the distance of the truth from what is printed.
inline std::optional<Cell> narrow_cell(std::string_view name, const Ball& x, int digits, bool last, double& bound) {
  if (x.is_undefined()) return cell(name, x, digits);
  if (is_count(name)) return x.radius() == 0 ? std::optional(cell(name, x, digits)) : std::nullopt;
  std::optional<std::string> text = x.decimal(digits);
  if (!text && last && std::isfinite(x.radius()) && x.contains_zero()) text = "0.0";
  // A number that lies half way between two decimals: either is right, and the bound says so.
  if (!text && last && x.radius() <= 1e-20 * half_unit(x, digits)) text = x.middle_decimal(digits);
  if (!text) return std::nullopt;
  if (!text->ends_with("inf")) bound = std::max(bound, (x - Ball::parse(*text)).largest_size());
  return Cell{std::move(*text), Cell::Kind::decimal};
}

/// The arrays with every number as a cell, and their bounds. A tensor with a ball that is too wide is left out if it is
/// the last time, and nothing is found before.
inline std::optional<BasicArrays<Cell>> narrow_cells(const BasicArrays<Ball>& arrays, std::string_view prefix,
                                                     int digits, bool last, Decimals& result) {
  BasicArrays<Cell> cells;
  for (const auto& [name, array] : arrays) {
    BasicArray<Cell> to{array.shape, {}};
    double bound = 0;
    for (const Ball& x : array.data) {
      std::optional<Cell> cell = narrow_cell(name, x, digits, last, bound);
      if (!cell) break;
      to.data.push_back(std::move(*cell));
    }
    const bool whole = to.data.size() == array.data.size();
    if (!whole && !last) return std::nullopt;
    if (!whole) continue;
    result.bounds[std::string(prefix) + name] = bound;
    cells[name] = std::move(to);
  }
  return cells;
}

inline std::optional<Decimals> narrow_enough(const BasicAnswer<Ball>& answer, int digits, bool last) {
  Decimals result;
  auto outputs = narrow_cells(answer.outputs, "", digits, last, result);
  if (!outputs) return std::nullopt;
  auto gradients = narrow_cells(answer.gradients, "d_", digits, last, result);
  if (!gradients) return std::nullopt;
  result.outputs = std::move(*outputs), result.gradients = std::move(*gradients);
  return result;
}

/// Bounds of the tensors that narrow_cells left out, for what is printed of them: as far as their balls reach.
inline void add_wide_bounds(const BasicArrays<Ball>& arrays, const BasicArrays<Cell>& printed, std::string_view prefix,
                            Decimals& result) {
  for (const auto& [name, array] : arrays) {
    if (result.bounds.contains(std::string(prefix) + name)) continue;
    const std::vector<Cell>& cells = printed.find(name)->second.data;
    double bound = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Ball& x = array.data[i];
      if (x.is_undefined() && cells[i].text.empty()) continue;
      bound = std::max(bound, (x - Ball::parse(cells[i].text.empty() ? "inf" : cells[i].text)).largest_size());
    }
    if (std::isfinite(bound)) result.bounds[std::string(prefix) + name] = bound;
  }
}

/// The arrays as pairs of doubles with their distance from the numbers, rounded up to a power of two; nothing if a
/// ball is wider than the pair's own rounding of the number, or than 2^-10 of that of the tensor's largest.
inline std::optional<BasicArrays<Enclosed>> narrow_pairs(const BasicArrays<Ball>& arrays, bool last) {
  BasicArrays<Enclosed> pairs;
  for (const auto& [name, array] : arrays) {
    BasicArray<Enclosed>& to = pairs[name];
    to.shape = array.shape;
    double largest = 0;
    for (const Ball& x : array.data) largest = std::max(largest, std::abs(x.middle()));
    for (const Ball& x : array.data) {
      const double hi = x.middle();
      const Ball rest = x - Ball(hi);
      const double lo = rest.middle(), bound = (rest - Ball(lo)).largest_size();
      if (!last && !(bound <= 0x1p-105 * std::max(std::abs(hi), 0x1p-10 * largest))) return std::nullopt;
      to.data.push_back({{hi, lo}, power_of_two_above(bound)});
    }
  }
  return pairs;
}

inline std::optional<BasicAnswer<Enclosed>> narrow_pairs(const BasicAnswer<Ball>& answer, bool last) {
  auto outputs = narrow_pairs(answer.outputs, last), gradients = narrow_pairs(answer.gradients, last);
  if (!outputs || !gradients) return std::nullopt;
  return BasicAnswer<Enclosed>{std::move(*outputs), std::move(*gradients)};
}

/// The largest radius of any tensor, relative to the tensor's largest number; 0 if all is exact. Underflows count as
/// nothing in a tensor of zeros.
inline double widest(const BasicAnswer<WordBall>& answer) {
  double ratio = 0;
  for (const auto* arrays : {&answer.outputs, &answer.gradients})
    for (const auto& [name, array] : *arrays) {
      double largest = 0x1p-900, radius = 0;
      for (const WordBall& x : array.data)
        largest = std::max(largest, std::abs(x.word[0])), radius = std::max(radius, x.radius);
      ratio = std::max(ratio, radius / largest);
    }
  return ratio;
}

/// Whether a count came out as more numbers than one.
inline bool has_open_count(const BasicAnswer<WordBall>& answer) {
  return std::any_of(answer.outputs.begin(), answer.outputs.end(), [](const auto& tensor) {
    return is_count(tensor.first) && std::any_of(tensor.second.data.begin(), tensor.second.data.end(),
                                                 [](const WordBall& x) { return x.radius > 0; });
  });
}

/// A number as a cell. `bound` becomes at least the distance of the truth from what is printed.
inline Cell word_cell(std::string_view name, const WordBall& x, int digits, double& bound) {
  if (std::isnan(x.word[0])) return cell(name, x.word[0], digits);
  if (is_count(name)) return cell(name, x.word[0], digits);
  std::string text = to_decimal(x, digits);
  if (std::isfinite(x.word[0])) bound = std::max(bound, (x.radius + distance(x, text)) * (1 + 0x1p-40));
  return {std::move(text), Cell::Kind::decimal};
}

inline BasicArrays<Cell> word_cells(const BasicArrays<WordBall>& arrays, std::string_view prefix, int digits,
                                    Decimals& result) {
  BasicArrays<Cell> cells;
  for (const auto& [name, array] : arrays) {
    BasicArray<Cell>& to = cells[name];
    to.shape = array.shape;
    double bound = 0;
    for (const WordBall& x : array.data) to.data.push_back(word_cell(name, x, digits, bound));
    if (std::isfinite(bound)) result.bounds[std::string(prefix) + name] = bound;
  }
  return cells;
}

inline Decimals word_decimals(const BasicAnswer<WordBall>& answer, int digits) {
  Decimals result;
  result.outputs = word_cells(answer.outputs, "", digits, result);
  result.gradients = word_cells(answer.gradients, "d_", digits, result);
  return result;
}

inline Enclosed word_pair(const WordBall& x) {
  if (!std::isfinite(x.radius)) return {{x.word[0], x.word[1]}, x.radius};
  const double rest = std::abs(x.word[2]) + std::abs(x.word[3]);
  return {{x.word[0], x.word[1]}, power_of_two_above((x.radius + rest) * (1 + 0x1p-40))};
}

/// f of every number, tensors side by side.
template <class To, class From, class F>
BasicAnswer<To> converted(const BasicAnswer<From>& answer, int threads, const F& f) {
  BasicAnswer<To> result;
  std::vector<std::pair<const BasicArray<From>*, BasicArray<To>*>> all;
  for (const auto& [name, array] : answer.outputs) all.emplace_back(&array, &result.outputs[name]);
  for (const auto& [name, array] : answer.gradients) all.emplace_back(&array, &result.gradients[name]);
  words::in_parallel(all.size(), threads, [&](std::size_t t) {
    const BasicArray<From>& from = *all[t].first;
    BasicArray<To>& to = *all[t].second = BasicArray<To>(from.shape);
    words::for_each_in_parallel(from.data.size(), words::threads_of_each(threads, all.size()),
                                [&](std::size_t i) { to.data[i] = f(from.data[i]); });
  });
  return result;
}

inline BasicAnswer<Enclosed> word_pairs(const BasicAnswer<WordBall>& answer, int threads) {
  return converted<Enclosed>(answer, threads, word_pair);
}

template <class S>
HiLo hi_lo(const S& x) {
  const W2 pair = to_w2(x);
  return {pair.hi, pair.lo};
}
template <class S>
BasicAnswer<HiLo> pairs_of(const BasicAnswer<S>& answer) {
  return convert_answer<HiLo>([](std::string_view, const S& x) { return hi_lo(x); }, answer);
}
inline Answer doubles_of(const BasicAnswer<Emulated>& answer) {
  const PerturbedArithmetic* const draw = PerturbedArithmetic::current();
  return converted<double>(answer, draw != nullptr ? draw->threads() : 1, [](const Emulated& x) { return x.value; });
}
/// Without their bounds.
inline BasicAnswer<HiLo> pairs_of(const BasicAnswer<Enclosed>& answer) {
  return convert_answer<HiLo>([](std::string_view, const Enclosed& x) { return x.value; }, answer);
}

/// Rational numbers are off by what printing rounds away.
inline void add_bounds(const BasicArrays<Rational>& exact, const BasicArrays<Cell>& printed, std::string_view prefix,
                       Decimals& result) {
  for (const auto& [name, array] : exact) {
    double& bound = result.bounds[std::string(prefix) + name];
    const std::vector<Cell>& cells = printed.find(name)->second.data;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!isfinite(array.data[i])) continue;
      const Rational off = abs(array.data[i] - Rational::parse(cells[i].text));
      if (off != Rational(0))
        bound = std::max({bound, to_double(off) * (1 + 0x1p-40), std::numeric_limits<double>::denorm_min()});
    }
  }
}

/// [K][V] to [V][K], of every head.
inline void transpose(BasicArray<Cell>& state) {
  const std::size_t rank = state.shape.size(), K = static_cast<std::size_t>(state.shape[rank - 2]),
                    V = static_cast<std::size_t>(state.shape[rank - 1]);
  std::swap(state.shape[rank - 2], state.shape[rank - 1]);
  const std::vector<Cell> from = state.data;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::size_t head = i / (K * V), k = i % (K * V) / V, v = i % V;
    state.data[(head * V + v) * K + k] = from[i];
  }
}

/// Calls `f` with a value of the tier's scalar.
template <class F>
decltype(auto) with_scalar(Tier tier, F&& f) {
  switch (tier) {
    case Tier::fp64:
      return f(double());
    case Tier::mp50:
      return f(Mp50());
    case Tier::mp100:
      return f(Mp100());
    case Tier::exact:
      return f(Rational());
    case Tier::w2:
    case Tier::w3:
    case Tier::w4:
    case Tier::mp200:
    case Tier::ball:
      break;
  }
  return f(Mp200());
}

template <class S>
Decimals printed(const BasicAnswer<S>& answer, int digits) {
  Decimals result{
      convert_answer<Cell>([&](std::string_view name, const S& x) { return cell(name, x, digits); }, answer), {}};
  if constexpr (std::is_same_v<S, Rational>) {
    add_bounds(answer.outputs, result.outputs, "", result);
    add_bounds(answer.gradients, result.gradients, "d_", result);
  }
  return result;
}

/// The digits of a room that answers in scalar S by `answer(S())`: two tiers vouch for every digit, and where they
/// cannot, two higher ones do.
template <class F>
Decimals agreed(const F& answer, int digits) {
  const BasicAnswer<Mp100> mp100 = answer(Mp100());
  bool all_settled = true;
  Decimals result{convert_answer<Cell>(
                      [&](std::string_view name, const Mp100& high, const Mp50& low) -> Cell {
                        if (!all_settled) return {};
                        std::optional<Cell> found = settled(name, low, high, digits);
                        all_settled = found.has_value();
                        return std::move(found).value_or(Cell{});
                      },
                      mp100, answer(Mp50())),
                  {}};
  if (all_settled) return result;
  return {convert_answer<Cell>(
              [&](std::string_view name, const Mp200& high, const Mp100& low) {
                std::optional<Cell> found = settled(name, low, high, digits);
                return found ? std::move(*found) : best_guess(name, low, high, digits);
              },
              answer(Mp200()), mp100),
          {}};
}

/// The result of `narrow` for `balls`() in `bits` bits, then twice as many, until there is one; it is told when it is
/// the last time. Nothing where a comparison stays undecided.
template <class F, class N>
auto in_balls(const F& balls, long bits, N&& narrow) {
  constexpr long widest = 4096;
  decltype(narrow(BasicAnswer<Ball>(), false)) result;
  for (; !result && bits <= widest; bits *= 2) {
    const BallPrecision precision(bits);
    try {
      result = narrow(balls(), 2 * bits > widest);
    } catch (const Undecided&) {
      continue;  // more bits may tell
    }
  }
  return result;
}

/// Rows that see no key are legal, and counted (lla-family.md section 12).
inline void count_empty_rows(Decimals& result) {
  const auto sums = result.outputs.find("rows.row_sum");
  if (sums == result.outputs.end()) return;
  const auto empty = std::count(sums->second.data.begin(), sums->second.data.end(), Cell{"0.0", Cell::Kind::decimal});
  if (empty == 0) return;
  result.outputs["empty_rows"] = {{}, {Cell{std::to_string(empty), Cell::Kind::count}}};
  if (result.bounds.contains("rows.row_sum")) result.bounds["empty_rows"] = 0;
}

}  // namespace detail

template <class M>
inline constexpr bool has_diagnostics = requires(const typename M::Options options,
                                                 const typename M::template Inputs<double> in) {
  diagnostics(options, in);
};

/// The functions behind a room's entry.
template <class M>
struct RoomFunctions {
  /// In S whatever the tier.
  template <class S>
  static BasicAnswer<HiLo> values_in(const Problem& problem, Tier) {
    const Binding<M, double> binding(problem);
    return detail::pairs_of(answer<M, S>(binding, !problem.cotangents.empty()));
  }

  static std::optional<BasicAnswer<Enclosed>> enclosed(const Problem& problem) {
    const Binding<M, double> binding(problem);
    return detail::in_balls(
        [&] { return answer<M, Ball>(binding, !problem.cotangents.empty()); }, 192,
        [](const BasicAnswer<Ball>& balls, bool last) { return detail::narrow_pairs(balls, last); });
  }

  static BasicArrays<HiLo> slopes(const Problem& problem, const Arrays& tangent) {
    using D = Dual<Mp50>;
    const Directed<D> binding(problem, tangent);
    return detail::convert_arrays<HiLo>([](std::string_view, const D& x) { return detail::hi_lo(x.slope); },
                                        answer<M, D>(binding, false).outputs);
  }

  /// rows.* and diagnostics.*, which compare and count: proven, whatever the tier.
  static Decimals rows(const BasicProblem<std::string>& problem, const DecimalOptions& options) {
    const Binding<M, std::string> binding(problem);
    Decimals result;
    for (const bool of_diagnostics : {false, true}) {
      if (of_diagnostics && !(has_diagnostics<M> && options.diagnostics)) continue;
      const auto answer_in = [&]<class S>(const S&, const AnswerParts&) {
        return BasicAnswer<S>{answer_rows<M, S>(binding, of_diagnostics), {}};
      };
      Decimals more = proven(answer_in, {}, options.digits);
      result.outputs.merge(more.outputs), result.bounds.merge(more.bounds);
    }
    detail::count_empty_rows(result);
    return result;
  }

  static bool shifted(const Params& params) {
    const auto options = M::Options::read(params);
    if constexpr (requires { options.shifted(); }) return options.shifted();
    return false;
  }

  template <template <class> class Fields>
  static std::vector<RoomFacts::Ranked> fields() {
    std::vector<RoomFacts::Ranked> list;
    const Fields<double> fields;
    Fields<double>::each(fields, [&](const Field& f, const auto& tensor) { list.push_back({f, tensor.rank}); });
    return list;
  }

  /// In as many words as it takes, up to four; nothing where these decide no comparison.
  template <class X>
  static std::optional<BasicAnswer<WordBall>> narrow_words(const Binding<M, X>& binding, const AnswerParts& parts,
                                                           WordEffort effort) {
    std::optional<BasicAnswer<WordBall>> found;
    if (parts.gradients) effort.words = std::max(effort.words, words_of_gradients<M>);
    for (; effort.words <= 4; ++effort.words) {
      try {
        found = answer_in_words<M, X>(binding, parts, effort);
      } catch (const Undecided&) {
        continue;
      }
      // A word more narrows everything by 2^-53 or so. Where four would not do, the first answer stands, with its
      // bound.
      const double ratio = detail::widest(*found);
      if (ratio <= word_target || std::ldexp(ratio, 53 * (effort.words - 4)) > 0x1p10 * word_target) break;
    }
    return found;
  }

  /// Right to the last digit, by enclosures narrow enough for all numbers to round alike; what they cannot decide, by
  /// two tiers that agree. `answer_in`(a number of the scalar, parts) is the answer.
  template <class F>
  static Decimals proven(const F& answer_in, const AnswerParts& parts, int digits) {
    Decimals result;
    BasicAnswer<Ball> wide;
    const auto add = [&](Decimals&& more) {
      result.outputs.merge(more.outputs), result.gradients.merge(more.gradients), result.bounds.merge(more.bounds);
    };
    // Whether nothing is left out.
    const auto enclose = [&](const AnswerParts& some) {
      bool whole = false;
      const auto balls_of = [&] { return answer_in(Ball(), some); };
      auto found = detail::in_balls(balls_of, 128 + 4 * digits, [&](BasicAnswer<Ball> balls, bool last) {
        auto cells = detail::narrow_enough(balls, digits, last);
        whole =
            cells && cells->outputs.size() == balls.outputs.size() && cells->gradients.size() == balls.gradients.size();
        if (cells && !whole) wide.outputs.merge(balls.outputs), wide.gradients.merge(balls.gradients);
        return cells;
      });
      if (found) add(std::move(*found));
      return whole;
    };
    if (enclose(parts)) return result;
    // Where no enclosure decides the gradients, it may well decide the outputs.
    if (parts.gradients && result.outputs.empty()) enclose({false, parts.caches});
    add(detail::agreed([&]<class S>(const S& x) { return answer_in(x, parts); }, digits));
    detail::add_wide_bounds(wide.outputs, result.outputs, "", result);
    detail::add_wide_bounds(wide.gradients, result.gradients, "d_", result);
    return result;
  }

 private:
  /// A binding whose inputs carry slopes.
  template <class D>
  class Directed : public Binding<M, double> {
   public:
    Directed(const Problem& problem, const Arrays& tangent) : Binding<M, double>(problem), tangent_(tangent) {}

    template <class S>
    typename M::template Inputs<S> inputs(int head) const {
      auto in = this->template given_inputs<S>(head);
      auto direction = this->template tangent<S>(tangent_, head);
      std::vector<std::vector<S>*> slopes;
      this->for_each(direction, [&](const Field&, auto& tensor) { slopes.push_back(&tensor.data); });
      auto slope = slopes.begin();
      this->for_each(in, [&](const Field& f, auto& tensor) {
        if (f.place != Field::Place::derived)
          for (std::size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i].slope = (**slope)[i].value;
        ++slope;
      });
      return this->completed(std::move(in));
    }

   private:
    const Arrays& tangent_;
  };
};

/// The declarations of reference M; `Base`, a Room, answers.
template <class M, class Base>
class DeclaredRoom : public Base {
  using F = RoomFunctions<M>;

 public:
  constexpr DeclaredRoom() : Base(M::name, M::summary, M::Options::names) {}
  std::vector<RoomFacts::Ranked> inputs() const override { return F::template fields<M::template Inputs>(); }
  std::vector<RoomFacts::Ranked> outputs() const override { return F::template fields<M::template Outputs>(); }
  std::vector<Params> variants() const override { return M::Options::variants(); }
  Problem make(const CaseSpec& spec) const override { return make_problem<M>(spec); }
  bool shifted(const Params& params) const override { return F::shifted(params); }
};

/// Room M of the registry, answered by its reference.
template <class M>
class MadeRoom : public DeclaredRoom<M, Room> {
  using F = RoomFunctions<M>;
  static_assert(!has_diagnostics<M>);

 public:
  Decimals decimals(const BasicProblem<std::string>& problem, const DecimalOptions& options) const override {
    const Binding<M, std::string> binding(problem);
    const AnswerParts parts{!problem.cotangents.empty(), true};
    const auto answer_in = [&]<class S>(const S&, const AnswerParts& some) {
      BasicAnswer<S> found = answer<M, S>(binding, some.gradients);
      if (some.caches) found.outputs.merge(answer_rows<M, S>(binding, false));
      return found;
    };
    const Tier tier = options.tier.value_or(Tier::ball);
    const int words = words_of(tier);
    const auto found = words > 0 ? F::narrow_words(binding, parts, {words, 1}) : std::nullopt;
    Decimals result;
    if (found && !detail::has_open_count(*found))
      result = detail::word_decimals(*found, options.digits);
    else if (words > 0 || tier == Tier::ball)
      result = F::proven(answer_in, parts, options.digits);
    else
      result = detail::with_scalar(
          tier, [&]<class S>(const S& x) { return detail::printed(answer_in(x, parts), options.digits); });
    detail::count_empty_rows(result);
    return result;
  }

  BasicAnswer<HiLo> values(const Problem& problem, Tier tier) const override {
    if (tier == Tier::ball || words_of(tier) > 0) {
      auto pairs = tier == Tier::ball ? std::nullopt : in_words(problem, {words_of(tier), 1});
      if (!pairs) pairs = F::enclosed(problem);
      if (!pairs && tier != Tier::ball) return F::template values_in<Mp100>(problem, tier);
      require(pairs.has_value(), M::name, ": no enclosure decides a comparison of equal numbers");
      return detail::pairs_of(*pairs);
    }
    return detail::with_scalar(tier, [&]<class S>(const S&) { return F::template values_in<S>(problem, tier); });
  }

  std::optional<BasicAnswer<Enclosed>> enclosed(const Problem& problem) const override { return F::enclosed(problem); }
  std::optional<BasicAnswer<Enclosed>> in_words(const Problem& problem, const WordEffort& effort) const override {
    const Binding<M, double> binding(problem);
    const bool gradients = !problem.cotangents.empty();
    auto found = engine_answer(binding, gradients, effort);
    if (!found) found = F::narrow_words(binding, {gradients, false}, effort);
    if (!found) return std::nullopt;
    return detail::word_pairs(*found, effort.threads);
  }

  BasicArrays<HiLo> slopes(const Problem& problem, const Arrays& tangent) const override {
    return F::slopes(problem, tangent);
  }
  std::unique_ptr<Trajectory> trajectory(Tier tier) const override { return trajectory_of<M>(tier); }
};

/// A room whose model is its reference in emulated arithmetic; `Answered` answers.
template <class M, template <class> class Answered>
class ModelledByReference : public Answered<M> {
 public:
  Answer emulated(const Problem& problem) const override {
    return detail::doubles_of(answer<M, Emulated>(Binding<M, double>(problem), !problem.cotangents.empty()));
  }
  std::optional<Arrays> term_sizes(const Problem& problem, const HeldIn& numbers, int threads) const override {
    return term_sizes_of<M>(problem, numbers, threads);
  }
};

}  // namespace assay
