#pragma once
// A room's reference, instantiated with every scalar: what the registry entry of a room points at.
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "oracles/core/bind.hpp"
#include "oracles/core/diagnostics.hpp"
#include "oracles/core/room.hpp"
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

/// One number of the tensor called `name`.
template <class S>
Cell cell(std::string_view name, const S& x, int digits) {
  using std::isnan;
  if (isnan(x)) return {"", name == "score" ? Cell::Kind::left_out : Cell::Kind::undefined};
  if (name == "diagnostics.density") return {std::to_string(static_cast<long>(to_double(x))), Cell::Kind::count};
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

/// One array from all of `sources`, which differ in precision alone: `convert(elements...)`.
template <class To, class F, class First, class... Rest>
BasicArrays<To> convert_arrays(F&& convert, const BasicArrays<First>& first, const BasicArrays<Rest>&... rest) {
  BasicArrays<To> result;
  for (const auto& [name, array] : first) {
    BasicArray<To>& to = result[name];
    to.shape = array.shape;
    for (std::size_t i = 0; i < array.data.size(); ++i)
      to.data.push_back(convert(name, array.data[i], rest.find(name)->second.data[i]...));
  }
  return result;
}

template <class To, class F, class... Sources>
BasicAnswer<To> convert_answer(F&& convert, const BasicAnswer<Sources>&... sources) {
  return {convert_arrays<To>(convert, sources.outputs...), convert_arrays<To>(convert, sources.gradients...)};
}

/// Calls `f` with a value of the tier's scalar.
template <class F>
decltype(auto) with_scalar(Tier tier, F&& f) {
  switch (tier) {
    case Tier::fp64:
      return f(double());
    case Tier::w2:
      return f(W2());
    case Tier::mp50:
      return f(Mp50());
    case Tier::mp100:
      return f(Mp100());
    case Tier::mp200:
      break;
  }
  return f(Mp200());
}

}  // namespace detail

/// The functions behind a room's entry.
template <class M>
struct RoomFunctions {
  static Decimals decimals(const BasicProblem<std::string>& problem, const DecimalOptions& options) {
    const Binding<M, std::string> binding(problem);
    const AnswerParts parts{!problem.cotangents.empty(), true, options.diagnostics};
    Decimals result = options.tier ? detail::with_scalar(*options.tier,
                                                         [&]<class S>(const S&) {
                                                           return printed(answer<M, S>(binding, parts), options.digits);
                                                         })
                                   : certified(binding, parts, options.digits);
    count_empty_rows(result);
    return result;
  }

  /// In S whatever the options' tier.
  template <class S>
  static Decimals decimals_in(const BasicProblem<std::string>& problem, const DecimalOptions& options) {
    const Binding<M, std::string> binding(problem);
    return printed(answer<M, S>(binding, {!problem.cotangents.empty(), true, options.diagnostics}), options.digits);
  }

  static BasicAnswer<HiLo> values(const Problem& problem, Tier tier) {
    return detail::with_scalar(tier, [&]<class S>(const S&) { return values_in<S>(problem, tier); });
  }

  /// In S whatever the tier.
  template <class S>
  static BasicAnswer<HiLo> values_in(const Problem& problem, Tier) {
    const Binding<M, double> binding(problem);
    return detail::convert_answer<HiLo>([](std::string_view, const S& x) { return hi_lo(x); },
                                        answer<M, S>(binding, {!problem.cotangents.empty(), false, false}));
  }

  static BasicArrays<HiLo> slopes(const Problem& problem, const Arrays& tangent) {
    using D = Dual<Mp50>;
    const Directed<D> binding(problem, tangent);
    return detail::convert_arrays<HiLo>([](std::string_view, const D& x) { return hi_lo(x.slope); },
                                        answer<M, D>(binding, {}).outputs);
  }

  static Problem make(const CaseSpec& spec) { return make_problem<M>(spec); }

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

  template <class S>
  static HiLo hi_lo(const S& x) {
    const W2 pair = to_w2(x);
    return {pair.hi, pair.lo};
  }

  template <class S>
  static Decimals printed(const BasicAnswer<S>& answer, int digits) {
    return detail::convert_answer<Cell>(
        [&](std::string_view name, const S& x) { return detail::cell(name, x, digits); }, answer);
  }

  /// Right to the last digit: two tiers vouch for every digit, and where they cannot, two higher ones do.
  static Decimals certified(const Binding<M, std::string>& binding, const AnswerParts& parts, int digits) {
    const auto mp100 = answer<M, Mp100>(binding, parts);
    bool all_settled = true;
    Decimals result = detail::convert_answer<Cell>(
        [&](std::string_view name, const Mp100& high, const Mp50& low) -> Cell {
          if (!all_settled) return {};
          std::optional<Cell> cell = detail::settled(name, low, high, digits);
          all_settled = cell.has_value();
          return std::move(cell).value_or(Cell{});
        },
        mp100, answer<M, Mp50>(binding, parts));
    if (all_settled) return result;
    return detail::convert_answer<Cell>(
        [&](std::string_view name, const Mp200& high, const Mp100& low) {
          std::optional<Cell> cell = detail::settled(name, low, high, digits);
          return cell ? std::move(*cell) : detail::best_guess(name, low, high, digits);
        },
        answer<M, Mp200>(binding, parts), mp100);
  }

  /// Rows that see no key are legal, and counted (lla-family.md section 12).
  static void count_empty_rows(Decimals& result) {
    const auto sums = result.outputs.find("rows.row_sum");
    if (sums == result.outputs.end()) return;
    const auto empty = std::count(sums->second.data.begin(), sums->second.data.end(), Cell{"0.0", Cell::Kind::decimal});
    if (empty > 0) result.outputs["empty_rows"] = {{}, {Cell{std::to_string(empty), Cell::Kind::count}}};
  }
};

/// The registry entry of room M.
template <class M>
constexpr Room make_room() {
  using F = RoomFunctions<M>;
  return {.name = M::name,
          .summary = M::summary,
          .options = M::Options::names,
          .inputs = &F::template fields<M::template Inputs>,
          .outputs = &F::template fields<M::template Outputs>,
          .variants = &M::Options::variants,
          .decimals = &F::decimals,
          .values = &F::values,
          .slopes = &F::slopes,
          .make = &F::make,
          .shifted = &F::shifted};
}

}  // namespace assay
