#pragma once
// The definition of evaluate: included by one translation unit per scalar alone.
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "language/evaluate/evaluate.hpp"
#include "language/evaluate/functions.hpp"
#include "language/evaluate/in_tiles.hpp"
#include "language/evaluate/joint_errors.hpp"
#include "language/evaluate/products.hpp"
#include "language/evaluate/side_by_side.hpp"
#include "language/evaluate/site_rounding.hpp"
#include "language/evaluate/solve.hpp"
#include "language/program/infer.hpp"
#include "reference/core/error.hpp"
#include "reference/errors/erring.hpp"
#include "reference/errors/lines.hpp"

namespace assay::language {
namespace detail {

/// A list that is short as a rule: it asks for no memory then.
template <class T, std::size_t N = 4>
using Few = boost::container::small_vector<T, N>;

/// The indices of a contraction, outer ones first. The last one is for the inner loop.
template <class S>
Few<Index> indices_of(const Contraction& c, const Value<S>& a, const Value<S>& b) {
  std::string letters = c.left + c.right;
  std::ranges::sort(letters);
  letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
  Few<Index> known(letters.size());
  const auto of = [&](char letter) -> Index& { return known[letters.find(letter)]; };
  const auto enter = [&](const std::string& of_one, const Strides& s, std::ptrdiff_t Index::*step, bool Index::*in) {
    for (std::size_t r = 0; r < of_one.size(); ++r) {
      Index& index = of(of_one[r]);
      index.length = s.length[r], index.*step = s.step[r], index.*in = true;
    }
  };
  enter(c.left, a.layout, &Index::left, &Index::in_left);
  enter(c.right, b.layout, &Index::right, &Index::in_right);
  Few<Index> list;
  std::ptrdiff_t step = 1;
  for (std::size_t r = c.result.size(); r-- > 0;) {
    Index& index = of(c.result[r]);
    index.result = step, index.in_result = true;
    step *= index.length;
  }
  for (const char letter : c.result) list.push_back(of(letter));
  for (const Index& index : known)
    if (!index.in_result) list.push_back(index);
  // Innermost: what runs along lines of numbers that lie side by side, a sum before anything else.
  const auto worth = [](const Index& i) {
    if (i.is_summed()) return i.left == 1 && i.right == 1 ? 4 : 2;
    return i.is_free() && i.result == 1 ? (i.left == 1 || i.right == 1 ? 3 : 1) : 0;
  };
  const auto best = std::ranges::max_element(list, [&](const Index& x, const Index& y) { return worth(x) < worth(y); });
  if (best != list.end()) std::rotate(best, best + 1, list.end());
  return list;
}

}  // namespace detail

/// One evaluation.
template <class S>
class Interpreter {
 public:
  Interpreter(const Sizes& sizes, std::optional<Culprit>* culprit, const LaneGroups& lanes = {})
      : sizes_(sizes), culprit_(culprit), lanes_(lanes) {
    if (const PerturbedArithmetic* draw = draw_of<S>()) place_ = draw->place();
  }

  /// The values that are there are `values`' and `known`'s; of the others those that are `wanted`.
  std::vector<Value<S>> run(const Block& block, std::vector<Value<S>> values,
                            const std::vector<Value<S>>* known = nullptr, const std::vector<char>* wanted = nullptr) {
    values.resize(block.last_use.size());
    if (token_ < 0) top_ = &block;
    const auto& [masks, counted] = facts_of(block);
    const std::map<int, Seen> seen = masks.any ? seen_by(block, masks, values, known) : std::map<int, Seen>();
    for (std::size_t n = 0; n < block.nodes.size(); ++n) {
      const Node& node = block.nodes[n];
      const std::size_t v = block.params.size() + n;
      if (known != nullptr && is_there((*known)[v])) {
        values[v] = (*known)[v];
      } else if (!is_there(values[v]) && (wanted == nullptr || (*wanted)[v] != 0)) {
        Mine mine;
        const Operands operands = operands_of(block, n, values, mine);
        const Mine* const others = std::exchange(mine_, &mine);
        go_to(static_cast<int>(v));
        std::optional<PerturbedArithmetic::Pause> exactly;
        if (!counted.empty() && counted[v] != 0) exactly.emplace();
        values[v] = value_at(node, static_cast<int>(v), operands, masks, seen);
        mine_ = others;
        if constexpr (std::is_same_v<S, Sized>)
          if (node.op == Op::softmax) up_to_a_constant(values[static_cast<std::size_t>(node.args[0])], *operands[1]);
        if (culprit_ != nullptr && node.op != Op::scan) look_for_culprit(node, operands, values[v]);
      }
      for (const int a : node.args)
        if (block.last_use[static_cast<std::size_t>(a)] == static_cast<int>(n))
          values[static_cast<std::size_t>(a)] = {};
    }
    std::vector<Value<S>> results;
    for (const int r : block.results) results.push_back(values[static_cast<std::size_t>(r)]);
    return results;
  }

 private:
  /// The numbers that a mask lets see are in [first, last).
  struct Seen {
    int first = 0, last = 0;
  };

  /// The factors of matrices, by the numbers that they were made of.
  struct Factors {
    std::shared_ptr<const Numbers<S>> reals;
    Strides layout;
    bool definite = false;
    std::vector<std::unique_ptr<const Factored<S>>> each;
  };

  using V = Value<S>;
  using Operands = detail::Few<const V*>;
  using Mine = detail::Few<V, 3>;
  using Errors = JointErrorsOf<S>;
  using Records = std::vector<typename Errors::Record>;

  static Operands operands_of(const Node& node, const std::vector<V>& values) {
    Operands operands;
    for (const int a : node.args) operands.push_back(&values[static_cast<std::size_t>(a)]);
    return operands;
  }
  /// The operands of node n, which reads some of them last: those move to `mine`.
  static Operands operands_of(const Block& block, std::size_t n, std::vector<V>& values, Mine& mine) {
    const Node& node = block.nodes[n];
    Operands operands = operands_of(node, values);
    mine.reserve(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (block.last_use[static_cast<std::size_t>(node.args[i])] != static_cast<int>(n)) continue;
      const auto again = std::find(node.args.begin(), node.args.begin() + static_cast<std::ptrdiff_t>(i), node.args[i]);
      if (again == node.args.begin() + static_cast<std::ptrdiff_t>(i))
        mine.push_back(std::move(values[static_cast<std::size_t>(node.args[i])]));
      operands[i] = again == node.args.begin() + static_cast<std::ptrdiff_t>(i)
                        ? &mine.back()
                        : operands[static_cast<std::size_t>(again - node.args.begin())];
    }
    return operands;
  }
  /// Random numbers of a draw are those of that value of the block from here on.
  void go_to(int v) {
    place_.node = static_cast<std::uint32_t>(v);
    if (PerturbedArithmetic* draw = draw_of<S>()) draw->go_to(place_);
  }
  static bool is_there(const V& v) { return v.reals || v.integers || v.truths || v.results || v.lazy || v.product; }

  /// The value v of a block.
  V value_at(const Node& node, int v, const Operands& a, const ScoreMasks& masks, const std::map<int, Seen>& seen) {
    if constexpr (Several<S>)
      if (varies(node)) return by_group(node, v, a);
    if (masks.any)
      if (const auto range = seen.find(masks.mask[static_cast<std::size_t>(v)]); range != seen.end())
        return restricted(node, a, range->second);
    return value_of(node, a);
  }

  V value_of(const Node& node, const Operands& a) {
    const Attributes& at = node.attributes;
    switch (node.op) {
      case Op::const_:
        return at.fraction.empty() ? V::of(Strides{}, std::vector<Truth>{at.truth ? Truth::yes : Truth::no})
                                   : V::of(Strides{}, std::vector<S>{constant<S>(at.fraction)});
      case Op::int_:
        return V::of(Strides{}, std::vector<std::int64_t>{at.value});
      case Op::size:
        return V::of(Strides{}, std::vector<std::int64_t>{extent_of(at.dim, sizes_)});
      case Op::iota: {
        std::vector<std::int64_t> n(static_cast<std::size_t>(extent_of(at.dim, sizes_)));
        std::iota(n.begin(), n.end(), 0);
        return V::of(shape_of(node.types[0], sizes_), std::move(n));
      }
      case Op::round:
        return rounded(*a[0], at.spec);
      case Op::get:
        return (*a[0]->results)[static_cast<std::size_t>(at.i)];
      case Op::scan:
        return scan(node, a);
      case Op::expand:
        return a[0]->viewed(a[0]->layout.with(at.axis, extent_of(at.dim, sizes_), 0));
      case Op::transpose: {
        Strides s = a[0]->layout;
        for (std::size_t r = 0; r < at.perm.size(); ++r) {
          const auto from = static_cast<std::size_t>(at.perm[r]);
          s.length[r] = a[0]->layout.length[from], s.step[r] = a[0]->layout.step[from];
        }
        return a[0]->viewed(s);
      }
      case Op::index:
        return element(*a[0], at.axis, at.i);
      case Op::contract:
        return goes_in_place<S> && node.is_added && culprit_ == nullptr ? product(at, *a[0], *a[1])
                                                                        : contract(at, *a[0], *a[1]);
      case Op::softmax:
      case Op::logsumexp:
        return rows(node.op == Op::softmax, *a[0], *a[1]);
      case Op::solve:
        return solved(at, *a[0], *a[1]);
      default:
        return computed(node, a);
    }
  }

  V computed(const Node& node, const Operands& a) {
    switch (node.op) {
      case Op::shift:
        return shifted(*a[0], node.attributes.by);
      case Op::cumsum:
        return summed_up(*a[0], node.attributes.reverse);
      case Op::sum:
        return a[0]->reals ? sum<S>(*a[0], node.attributes.axis) : sum<std::int64_t>(*a[0], node.attributes.axis);
      case Op::select:
        return select(*a[0], *a[1], *a[2]);
      case Op::lt:
      case Op::le:
      case Op::eq:
        return comparison(node.op, *a[0], *a[1]);
      case Op::and_:
      case Op::or_:
      case Op::not_:
        return logic(node.op, a);
      case Op::real:
        return map<S>(*a[0], [](const V& x, std::ptrdiff_t i) { return S(static_cast<double>(x.integer(i))); });
      case Op::pow:
        return zip<S>(*a[0], *a[1], [](const V& x, const V& n, std::ptrdiff_t i, std::ptrdiff_t j) {
          return defined<S>([&](const S& base) { return power(base, n.integer(j)); }, x.real(i));
        });
      default:
        return a[0]->integers ? whole(node.op, a) : arithmetic(node, a);
    }
  }

  // ---- element by element

  /// A mark that an algorithm rounds there means nothing but in emulated arithmetic.
  static V rounded(const V& x, [[maybe_unused]] const std::string& site) {
    if constexpr (std::is_same_v<S, Emulated>) {
      SiteRounding* const rounding = SiteRounding::current();
      const Format format = rounding == nullptr ? Format::exact : rounding->at(site);
      if (format != Format::exact)
        return map<S>(x, [&](const V& v, std::ptrdiff_t i) { return S(rounding->rounded(v.real(i).value, format)); });
    }
    return x;
  }

  template <class R, class F>
  static V map(const V& x, F&& f) {
    std::vector<R> out;
    out.reserve(x.layout.count());
    PerturbedArithmetic* const draw = draw_of<S>();
    walk<1>({&x.layout}, [&](std::size_t n, const auto& at) {
      if (draw != nullptr) draw->at_element(n);
      out.push_back(f(x, at[0]));
    });
    return V::of(x.layout, std::move(out));
  }
  template <class R, class F>
  static V zip(const V& x, const V& y, F&& f) {
    std::vector<R> out;
    out.reserve(x.layout.count());
    PerturbedArithmetic* const draw = draw_of<S>();
    walk<2>({&x.layout, &y.layout}, [&](std::size_t n, const auto& at) {
      if (draw != nullptr) draw->at_element(n);
      out.push_back(f(x, y, at[0], at[1]));
    });
    return V::of(x.layout, std::move(out));
  }

  /// Whether sums, differences and products of two numbers are those of doubles, of which draws round all at once.
  static bool is_of_doubles(Op op) {
    return (op == Op::add || op == Op::sub || op == Op::mul) && (std::is_same_v<S, double> || draw_of<S>() != nullptr);
  }
  /// Results of operations, each the number `round` of its element that a draw errs by.
  static void round_all([[maybe_unused]] std::vector<S>& x, [[maybe_unused]] int round = 0) {
    if constexpr (std::is_same_v<S, Emulated>)
      if (!x.empty()) draw_of<S>()->operations(&x.front().value, x.size(), static_cast<std::uint32_t>(round));
  }
  /// g(what the operation makes of two doubles).
  template <class G>
  static void as_doubles(Op op, bool absorb, G&& g) {
    if (op == Op::add) return g([](double a, double b) { return a + b; });
    if (op == Op::sub) return g([](double a, double b) { return a - b; });
    if (absorb) return g([](double a, double b) { return a == 0 ? 0.0 : a * b; });
    return g([](double a, double b) { return a * b; });
  }
  /// x_i becomes f(x_i, y_i), for dense x.
  template <class F>
  static void onto(std::vector<S>& x, const Strides& of_y, const std::vector<S>& y, F&& f) {
    using Offsets = std::array<std::ptrdiff_t, 1>;
    walk_lines<1>({&of_y}, [&](std::size_t n, const Offsets& at, const Offsets& by, int length) {
      S* const to = x.data() + n;
      const S* const from = y.data() + at[0];
      if (by[0] == 1)
        for (int i = 0; i < length; ++i) to[i] = S(f(machine(to[i]), machine(from[i])));
      else
        for (int i = 0; i < length; ++i) to[i] = S(f(machine(to[i]), machine(from[i * by[0]])));
    });
  }
  /// f(x_i, y_i), all of them.
  template <class F>
  static std::vector<S> joined(const V& x, const V& y, F&& f) {
    std::vector<S> out(x.layout.count());
    using Offsets = std::array<std::ptrdiff_t, 2>;
    walk_lines<2>({&x.layout, &y.layout}, [&](std::size_t n, const Offsets& at, const Offsets& by, int length) {
      S* const to = out.data() + n;
      const S *const p = x.reals->list.data() + at[0], *const q = y.reals->list.data() + at[1];
      if (by[0] == 1 && by[1] == 1)
        for (int i = 0; i < length; ++i) to[i] = S(f(machine(p[i]), machine(q[i])));
      else if (by[0] == 0 && by[1] == 1)
        for (int i = 0; i < length; ++i) to[i] = S(f(machine(*p), machine(q[i])));
      else
        for (int i = 0; i < length; ++i) to[i] = S(f(machine(p[i * by[0]]), machine(q[i * by[1]])));
    });
    return out;
  }

  /// Whether no other value has the numbers, which nothing reads again.
  bool may_be_taken(const V& v) const {
    const bool last = mine_ != nullptr && !mine_->empty() && &v >= mine_->data() && &v < mine_->data() + mine_->size();
    return last && v.reals.use_count() == 1 && v.layout.is_dense() && v.reals->list.size() == v.layout.count();
  }
  /// The numbers of a value, row-major; its own where they may be taken.
  std::vector<S> numbers_taken(const V& v) {
    if (!may_be_taken(v)) return v.in_rows();
    return std::move(const_cast<std::vector<S>&>(v.reals->list));  // NOLINT: made by Value::of, and not const
  }

  /// The sum of a value and a contraction.
  V plus_product(const V& x, const Product<S>& p) {
    const auto sum = static_cast<int>(place_.node);
    if (x.product) {
      go_to(x.product->value);
      const V product = contract(x.product->how, x.product->left, x.product->second());
      go_to(sum);
      return plus_product(product, p);
    }
    const Holes holes = holes_in(p.how, p.left, p.second());
    go_to(p.value);
    if (holes == Holes::none) return contract_whole(contraction_from(p.how.spec), p.left, p.second(), &x);
    const V product = contract(p.how, p.left, p.second());
    go_to(sum);
    return zip<S>(x, product,
                  [](const V& a, const V& b, std::ptrdiff_t i, std::ptrdiff_t j) { return S(a.real(i) + b.real(j)); });
  }

  /// Does the arithmetic in the place of x where no other value has it. `exchanged`: x is the second operand, which
  /// changes no bit.
  V in_place(const Node& node, const V& x, const V& y, bool exchanged) {
    const Op op = node.op;
    if (x.product) return plus_product(y, *x.product);
    if (y.product) return plus_product(x, *y.product);
    std::vector<S> out;
    if constexpr (is_machine<S>)
      if (is_of_doubles(op)) {
        as_doubles(op, node.attributes.absorb, [&](auto f) {
          if (!may_be_taken(x))
            out = joined(x, y, f);
          else
            out = numbers_taken(x), onto(out, y.layout, y.reals->list, f);
        });
        round_all(out);
        return V::of(x.layout, std::move(out));
      }
    out = numbers_taken(x);
    PerturbedArithmetic* const draw = draw_of<S>();
    walk<1>({&y.layout}, [&](std::size_t n, const auto& at) {
      if (draw != nullptr) draw->at_element(n);
      S& to = out[n];
      const S& by = y.real(at[0]);
      if (exchanged)
        to = op == Op::add ? S(by + to) : S(by * to);
      else if (op == Op::add)
        to += by;
      else if (op == Op::sub)
        to -= by;
      else if (!node.attributes.absorb)
        to *= by;
      else
        to = absorbed(to, S(to * by));
    });
    return V::of(x.layout, std::move(out));
  }

  /// Whether both are states where those are stored: matrices of which no axis repeats the same numbers.
  bool are_stored_states([[maybe_unused]] const Operands& a) const {
    const int matrix = in_tiles_ ? 2 : 1;
    if constexpr (requires { S::stores_states(); })
      return S::stores_states() && std::ranges::all_of(a, [matrix](const V* x) {
               const auto& steps = x->layout.step;
               return x->layout.rank > matrix && std::count(steps.begin(), steps.begin() + x->layout.rank, 0) == 0;
             });
    return false;
  }

  static S product_of_states(const S& a, const S& b) {
    S product(0);
    add_product_of_states(product, a, b);
    return product;
  }

  /// The products of stored states, which are operands.
  static V products_of_states(const V& a, const V& b, bool absorb) {
    const auto [left, right] = both_read(a, b);
    return zip<S>(left, right, [absorb](const V& x, const V& y, std::ptrdiff_t i, std::ptrdiff_t j) {
      return absorb && is_zero(x.real(i)) ? S(0) : product_of_states(x.real(i), y.real(j));
    });
  }

  V arithmetic(const Node& node, const Operands& a) {
    const Op op = node.op;
    const bool absorb = node.attributes.absorb;
    if constexpr (!Several<S>)
      if (op == Op::mul && are_stored_states(a)) return products_of_states(*a[0], *a[1], absorb);
    if constexpr (goes_in_place<S>)  // unless somebody looks at what the operands were
      if (culprit_ == nullptr && a.size() == 2 && a[0] != a[1] &&
          (op == Op::add || op == Op::sub || (op == Op::mul && (Several<S> || !absorb || is_of_doubles(op))))) {
        // Sums and products go where there is room.
        const bool exchanged = op != Op::sub && !absorb && a[0]->reals && !a[0]->layout.is_dense();
        return exchanged ? in_place(node, *a[1], *a[0], true) : in_place(node, *a[0], *a[1], false);
      }
    if (a.size() == 1)
      return map<S>(*a[0], [op](const V& x, std::ptrdiff_t i) {
        return defined<S>([op](const S& one) { return function<S>(op, one); }, x.real(i));
      });
    return zip<S>(*a[0], *a[1], [op, absorb](const V& x, const V& y, std::ptrdiff_t i, std::ptrdiff_t j) {
      const S& one = x.real(i);
      if constexpr (!absorbs_products<S>)
        if (absorb && is_zero(one)) return S(0);
      S result = defined<S>([op](const S& p, const S& q) { return function<S>(op, p, q); }, one, y.real(j));
      if constexpr (absorbs_products<S>)
        if (absorb) return absorbed(one, result);
      return result;
    });
  }

  static std::int64_t whole(Op op, std::int64_t x, std::int64_t y) {
    std::int64_t r = 0;
    const bool beyond = op == Op::neg || op == Op::sub ? __builtin_sub_overflow(x, y, &r)
                        : op == Op::add                ? __builtin_add_overflow(x, y, &r)
                                                       : op == Op::mul && __builtin_mul_overflow(x, y, &r);
    require_domain(!beyond, -1, name_of(op), ": an integer of more than 64 bits");
    return op == Op::max ? std::max(x, y) : r;
  }
  static V whole(Op op, const Operands& a) {
    if (op == Op::neg)
      return map<std::int64_t>(*a[0], [](const V& x, std::ptrdiff_t i) { return whole(Op::neg, 0, x.integer(i)); });
    return zip<std::int64_t>(*a[0], *a[1], [op](const V& x, const V& y, std::ptrdiff_t i, std::ptrdiff_t j) {
      return whole(op, x.integer(i), y.integer(j));
    });
  }

  static V comparison(Op op, const V& x, const V& y) {
    if (x.integers)
      return zip<Truth>(x, y, [op](const V& a, const V& b, std::ptrdiff_t i, std::ptrdiff_t j) {
        const std::int64_t p = a.integer(i), q = b.integer(j);
        return (op == Op::lt ? p < q : op == Op::le ? p <= q : p == q) ? Truth::yes : Truth::no;
      });
    return zip<Truth>(x, y, [op](const V& a, const V& b, std::ptrdiff_t i, std::ptrdiff_t j) {
      return compared(op, a.real(i), b.real(j));
    });
  }

  /// Kleene's: what does not depend on the undefined one is known.
  static V logic(Op op, const Operands& a) {
    if (op == Op::not_)
      return map<Truth>(*a[0], [](const V& x, std::ptrdiff_t i) {
        const Truth t = x.truth(i);
        return t == Truth::undefined ? t : t == Truth::yes ? Truth::no : Truth::yes;
      });
    const Truth decisive = op == Op::and_ ? Truth::no : Truth::yes;
    return zip<Truth>(*a[0], *a[1], [decisive](const V& x, const V& y, std::ptrdiff_t i, std::ptrdiff_t j) {
      const Truth p = x.truth(i), q = y.truth(j);
      if (p == decisive || q == decisive) return decisive;
      return p == Truth::undefined ? p : q;
    });
  }

  template <class R>
  static const std::vector<R>& numbers_of(const V& v) {
    if constexpr (std::is_same_v<R, S>)
      return v.reals->list;
    else if constexpr (std::is_same_v<R, Truth>)
      return *v.truths;
    else
      return *v.integers;
  }

  static bool same(const S& x, const S& y) { return is_zero(x) && is_zero(y); }
  static bool same(std::int64_t x, std::int64_t y) { return x == y; }
  static bool same(Truth x, Truth y) { return x == y; }

  template <class R>
  static R no_number(const R&) {
    if constexpr (std::is_same_v<R, S>) return undefined<S>();
    if constexpr (std::is_same_v<R, Truth>) return Truth::undefined;
    throw Refusal(Status::nonfinite, -1, "select: a condition that is undefined chooses an integer");
  }

  template <class R>
  static V selected(const V& c, const V& x, const V& y) {
    std::vector<R> out;
    out.reserve(c.layout.count());
    const std::vector<R>&p = numbers_of<R>(x), &q = numbers_of<R>(y);
    walk<3>({&c.layout, &x.layout, &y.layout}, [&](std::size_t, const auto& at) {
      const R &one = p[static_cast<std::size_t>(at[1])], &other = q[static_cast<std::size_t>(at[2])];
      const Truth t = c.truth(at[0]);
      if (t == Truth::undefined && !same(one, other))
        out.push_back(no_number(one));
      else
        out.push_back(t == Truth::no ? other : one);
    });
    return V::of(c.layout, std::move(out));
  }
  static V select(const V& c, const V& x, const V& y) {
    if (x.reals) return selected<S>(c, x, y);
    return x.truths ? selected<Truth>(c, x, y) : selected<std::int64_t>(c, x, y);
  }

  // ---- along axes

  static V element(const V& x, int axis, int i) {
    Strides s = x.layout.without(axis);
    s.offset += x.layout.step[Strides::at(axis)] * i;
    return x.viewed(s);
  }

  template <class R>
  static R added(const R& x, const R& y) {
    if constexpr (std::is_same_v<R, S>)
      return defined<S>([](const S& a, const S& b) { return S(a + b); }, x, y);
    else
      return whole(Op::add, x, y);
  }

  template <class R>
  static V sum(const V& x, int axis) {
    const Strides rest = x.layout.without(axis);
    const std::ptrdiff_t step = x.layout.step[Strides::at(axis)];
    const int n = x.layout.length[Strides::at(axis)];
    const std::vector<R>& from = numbers_of<R>(x);
    constexpr std::size_t several = 8;
    if constexpr (std::is_same_v<R, S> && is_machine<S>)
      if (n > 0 && rest.count() >= several && is_of_doubles(Op::add)) {  // side by side, each in its order
        std::vector<S> out = element(x, axis, 0).in_rows();
        Strides of_term = rest;
        for (int i = 1; i < n; ++i) {
          of_term.offset += step;
          onto(out, of_term, from, [](double a, double b) { return a + b; });
          round_all(out, i - 1);
        }
        return V::of(rest, std::move(out));
      }
    std::vector<R> out;
    out.reserve(rest.count());
    PerturbedArithmetic* const draw = draw_of<R>();
    walk<1>({&rest}, [&](std::size_t here, const auto& at) {
      if (draw != nullptr) draw->at_element(here);
      R total = n > 0 ? from[static_cast<std::size_t>(at[0])] : R(0);
      for (int i = 1; i < n; ++i) total = added(total, from[static_cast<std::size_t>(at[0] + step * i)]);
      out.push_back(std::move(total));
    });
    return V::of(rest, std::move(out));
  }

  static V shifted(const V& x, int by) {
    const Strides dense = x.layout.dense();
    const int n = x.layout.length[0];
    std::vector<S> out(x.layout.count(), S(0));
    const std::size_t row = n > 0 ? out.size() / static_cast<std::size_t>(n) : 0;
    walk<1>({&x.layout}, [&](std::size_t i, const auto& at) {
      const std::int64_t to = static_cast<std::int64_t>(i / row) + by;
      if (to >= 0 && to < n) out[static_cast<std::size_t>(to) * row + i % row] = x.real(at[0]);
    });
    return V::of(dense, std::move(out));
  }

  static V summed_up(const V& x, bool reverse) {
    std::vector<S> out = x.in_rows();
    const int n = x.layout.length[0];
    const std::size_t row = n > 0 ? out.size() / static_cast<std::size_t>(n) : 0;
    PerturbedArithmetic* const draw = draw_of<S>();
    for (int t = 1; t < n; ++t) {
      const auto to = static_cast<std::size_t>(reverse ? n - 1 - t : t), from = reverse ? to + 1 : to - 1;
      for (std::size_t i = 0; i < row; ++i) {
        if (draw != nullptr) draw->at_element(to * row + i);
        out[to * row + i] = added(out[to * row + i], out[from * row + i]);
      }
    }
    return V::of(x.layout, std::move(out));
  }

  // ---- what a mask leaves out

  /// What is known of a block before it is evaluated.
  struct Facts {
    ScoreMasks masks;           ///< of several tokens at once
    std::vector<char> counted;  ///< in a draw
  };
  const Facts& facts_of(const Block& block) {
    if (const auto found = facts_.find(&block); found != facts_.end()) return found->second;
    Facts facts;
    if (Several<S> || in_tiles_) facts.masks = masks_of(block);
    if (draw_of<S>() != nullptr) facts.counted = counted_by(block);
    return facts_.emplace(&block, std::move(facts)).first->second;
  }

  /// Computes what masks are made of, before anything else, and says what they let see.
  std::map<int, Seen> seen_by(const Block& block, const ScoreMasks& masks, std::vector<V>& values,
                              const std::vector<V>* known) {
    for (std::size_t n = 0; n < block.nodes.size(); ++n) {
      const std::size_t v = block.params.size() + n;
      if (masks.early[v] == 0 || is_there(values[v])) continue;
      const Node& node = block.nodes[n];
      const Operands operands = operands_of(node, values);
      if (known != nullptr && is_there((*known)[v]))
        values[v] = (*known)[v];
      else
        values[v] = value_at(node, static_cast<int>(v), operands, {}, {});
    }
    std::map<int, Seen> seen;
    for (const int m : masks.mask) {
      if (m < 0 || seen.contains(m)) continue;
      std::vector<V> each = {values[static_cast<std::size_t>(m)]};
      if (varying_ != nullptr && varying_->contains(m)) each = varying_->at(m);
      Seen range{std::numeric_limits<int>::max(), 0};
      for (const V& one : each)
        walk_lines<1>({&one.layout}, [&](std::size_t, const auto& at, const auto& by, int length) {
          for (int here = 0; here < length; ++here)
            if (one.truth(at[0] + by[0] * here) != Truth::no)
              range = {std::min(range.first, here), std::max(range.last, here + 1)};
        });
      seen.emplace(m, range);
    }
    return seen;
  }

  /// A contraction of which nothing beyond that range of its last axis counts: zeros are there.
  V restricted(const Node& node, const Operands& a, const Seen& seen) {
    const Contraction c = contraction_from(node.attributes.spec);
    const char along = c.result.back();
    const bool left = c.left.find(along) != std::string::npos;
    const V& whole = left ? *a[0] : *a[1];
    const std::size_t axis = (left ? c.left : c.right).find(along);
    const int length = whole.layout.length[axis], first = std::min(seen.first, seen.last);
    if (node.is_added || (first == 0 && seen.last == length)) return value_of(node, a);
    Strides part = whole.layout;
    part.offset += part.step[axis] * first, part.length[axis] = seen.last - first;
    const V few = whole.viewed(part);
    // Where both operands have the axis, both are cut.
    V other = left ? *a[1] : *a[0];
    const std::size_t again = (left ? c.right : c.left).find(along);
    if (again != std::string::npos) {
      Strides cut = other.layout;
      cut.offset += cut.step[again] * first, cut.length[again] = seen.last - first;
      other = other.viewed(cut);
    }
    const V made = contract(node.attributes, left ? few : other, left ? other : few);
    Strides all = made.layout;
    all.length[Strides::at(all.rank - 1)] = length;
    std::vector<S> out(all.count(), S(0));
    auto to = out.begin() + first;
    walk_lines<1>({&made.layout}, [&](std::size_t, const auto& at, const auto&, int few_of_line) {
      std::copy_n(made.reals->list.begin() + at[0], few_of_line, to);
      to += length;
    });
    return V::of(all, std::move(out));
  }

  // ---- tokens side by side

  /// Whether integers or truth values that it reads are others in other groups of lanes.
  bool varies(const Node& node) const {
    return varying_ != nullptr && std::ranges::any_of(node.args, [&](int a) { return varying_->contains(a); });
  }
  V by_group(const Node& node, int v, const Operands& operands) {
    std::vector<V> each;
    for (int g = 0; g < lanes_.groups; ++g) {
      Operands own = operands;
      for (std::size_t i = 0; i < own.size(); ++i)
        if (const auto found = varying_->find(node.args[i]); found != varying_->end())
          own[i] = &found->second[static_cast<std::size_t>(g)];
      each.push_back(value_of(node, own));
    }
    if (each[0].reals) return blended(each);
    return varying_->insert_or_assign(v, std::move(each)).first->second[0];
  }

  static void copy_lane(S& to, int lane, const S& from, int other) {
    static_assert(std::is_trivially_copyable_v<S> || !Several<S>);
    auto* bytes = reinterpret_cast<char*>(&to);
    const auto* read = reinterpret_cast<const char*>(&from);
    constexpr std::size_t row = words::pack_size * sizeof(double);
    for (std::size_t w = 0; w < sizeof(S); w += row)
      std::memcpy(bytes + w + static_cast<std::size_t>(lane) * sizeof(double),
                  read + w + static_cast<std::size_t>(other) * sizeof(double), sizeof(double));
  }

  /// The numbers of each group, in its lanes.
  V blended(const std::vector<V>& each) const {
    std::vector<S> out = each[0].in_rows();
    for (int g = 1; g < lanes_.groups; ++g) {
      const V& one = each[static_cast<std::size_t>(g)];
      walk<1>({&one.layout}, [&](std::size_t i, const auto& at) {
        for (int h = 0; h < lanes_.heads; ++h)
          copy_lane(out[i], g * lanes_.heads + h, one.real(at[0]), g * lanes_.heads + h);
      });
    }
    return V::of(each[0].layout, std::move(out));
  }
  /// Those of one group, in all lanes.
  V spread(const V& x, int group) const {
    std::vector<S> out;
    out.reserve(x.layout.count());
    walk<1>({&x.layout}, [&](std::size_t, const auto& at) {
      S& to = out.emplace_back(x.real(at[0]));
      for (int lane = 0; lane < words::pack_size; ++lane)
        copy_lane(to, lane, x.real(at[0]), group * lanes_.heads + lane % lanes_.heads);
    });
    return V::of(x.layout, std::move(out));
  }

  // ---- sums of products

  /// The effect of numbers that do not exist on sums of products.
  enum class Holes { none, undefined, absorbed };

  V product(const Attributes& at, const V& a, const V& b) const {
    V later;
    later.product = std::make_shared<const Product<S>>(Product<S>{at, a, b, static_cast<int>(place_.node), &a == &b});
    return later;
  }

  /// Whether all numbers are finite and known. Asked once of the numbers that views share.
  static bool is_whole(const V& x) {
    const auto all = [](const auto& numbers) {
      return std::all_of(numbers.begin(), numbers.end(), [](const S& one) { return is_sound(one); });
    };
    if (!x.reals->sound.has_value()) x.reals->sound = all(x.reals->list);
    if (*x.reals->sound) return true;
    bool whole = true;
    walk<1>({&x.layout}, [&](std::size_t, const auto& i) { whole = whole && is_sound(x.real(i[0])); });
    return whole;
  }

  /// Most have no holes, and go the fast way.
  static Holes holes_in(const Attributes& at, const V& a, const V& b) {
    if (!must_be_asked<S> && !at.absorb) return Holes::none;
    if (is_whole(b) && (!must_be_asked<S> || is_whole(a))) return Holes::none;
    return at.absorb ? Holes::absorbed : Holes::undefined;
  }

  V contract(const Attributes& at, const V& a, const V& b) {
    const Contraction c = contraction_from(at.spec);
    switch (holes_in(at, a, b)) {
      case Holes::none:
        return contract_whole(c, a, b);
      case Holes::undefined:
        return contract<Holes::undefined>(c, a, b);
      default:
        return contract<Holes::absorbed>(c, a, b);
    }
  }

  /// An operand as contractions of a draw read it, row-major; elsewhere as it is.
  static V as_read(const V& x, [[maybe_unused]] PerturbedArithmetic::Part part) {
    if constexpr (std::is_same_v<S, Emulated>) {
      const PerturbedArithmetic* draw = PerturbedArithmetic::current();
      const std::size_t n = x.layout.count();
      if (draw == nullptr || n == 0) return x;
      Strides rows = x.layout.dense();
      rows.offset = x.layout.offset;
      const bool lies_so = rows == x.layout;
      if (lies_so && !draw->errs_in_operands()) return x;
      std::vector<S> in_rows;
      if (!lies_so) {
        in_rows = x.in_rows();
        if (!draw->errs_in_operands()) return V::of(x.layout, std::move(in_rows));
      }
      std::vector<S> read(n);
      draw->reads(part, &(lies_so ? x.real(x.layout.offset) : in_rows.front()).value, n, &read.front().value);
      return V::of(x.layout, std::move(read));
    }
    return x;
  }

  /// Both operands of a product. What stands on both sides is the same operand and rounded once: a Gram matrix stays
  /// one.
  static std::pair<V, V> both_read(const V& a, const V& b) {
    const V left = as_read(a, PerturbedArithmetic::Part::left);
    return {left, &a == &b ? left : as_read(b, PerturbedArithmetic::Part::right)};
  }

  /// Contracts operands that have no holes. The sums are added to `first`, if it is there.
  V contract_whole(const Contraction& c, const V& a, const V& b, const V* first = nullptr) {
    if (draw_of<S>() == nullptr) return contract<Holes::none>(c, a, b, first);
    const auto [left, right] = both_read(a, b);
    if constexpr (std::is_same_v<S, Emulated>)
      if (in_tiles_ || is_of_matrices(c)) return multiplied(c, left, right, first);
    return contract<Holes::none>(c, left, right, first);
  }

  /// The shape of a contraction.
  static Strides shape_of_contraction(const Contraction& c, const V& a, const V& b) {
    Strides shape;
    for (const char letter : c.result) {
      const std::size_t left = c.left.find(letter);
      const Strides& from = left != std::string::npos ? a.layout : b.layout;
      shape.length[Strides::at(shape.rank++)] = from.length[left != std::string::npos ? left : c.right.find(letter)];
    }
    return shape;
  }

  static const double* first_number(const V& x) {
    return x.reals->list.empty() ? nullptr : &x.real(x.layout.offset).value;
  }
  /// A contraction of a draw, as products of matrices.
  V multiplied(const Contraction& c, const V& a, const V& b, const V* first) {
    const Strides shape = shape_of_contraction(c, a, b);
    std::vector<S> out = first != nullptr ? numbers_taken(*first) : std::vector<S>(shape.count(), S(0));
    const auto indices = detail::indices_of(c, a, b);
    if (!out.empty()) add_products(indices, first_number(a), first_number(b), &out.front().value, *draw_of<S>());
    return V::of(shape, std::move(out));
  }

  template <Holes holes>
  V contract(const Contraction& c, const V& a, const V& b, const V* first = nullptr) {
    detail::Few<Index> indices = detail::indices_of(c, a, b);
    const Strides shape = shape_of_contraction(c, a, b);
    std::vector<S> out = first != nullptr ? numbers_taken(*first) : std::vector<S>(shape.count(), S(0));
    if (indices.empty()) indices.push_back({1, 0, 0, 0, false, false, false});
    const Index inner = indices.back();
    indices.pop_back();
    detail::Few<int> at(indices.size(), 0);
    const bool nothing =
        inner.length == 0 || std::any_of(indices.begin(), indices.end(), [](const Index& i) { return i.length == 0; });
    std::ptrdiff_t left = a.layout.offset, right = b.layout.offset, to = 0;
    while (!nothing) {
      const V* const scaled = inner.is_free() ? (inner.in_left ? &a : &b) : nullptr;
      const S& by = inner.in_left ? b.real(right) : a.real(left);
      if (holes != Holes::none || scaled == nullptr || !adds_nothing(by, *scaled))
        line<holes>(inner, &a.real(left), &b.real(right), out.data() + to);
      std::size_t r = indices.size();
      while (r > 0) {
        const Index& i = indices[--r];
        left += i.left, right += i.right, to += i.result;
        if (++at[r] < i.length) break;
        left -= i.left * i.length, right -= i.right * i.length, to -= i.result * i.length;
        at[r] = 0;
        if (r == 0) return V::of(shape, std::move(out));
      }
      if (indices.empty()) break;
    }
    return V::of(shape, std::move(out));
  }

  /// Whether that many times numbers of x is nothing: what a mask left out, in packs.
  static bool adds_nothing([[maybe_unused]] const S& by, [[maybe_unused]] const V& x) {
    if constexpr (Several<S>) {
      const auto sizes = by.sizes();
      return std::all_of(sizes.at.begin(), sizes.at.end(), [](double size) { return size == 0; }) && is_whole(x);
    } else {
      return false;
    }
  }

  /// The innermost loop: a sum of products, or a line of them.
  template <Holes holes>
  static void line(const Index& i, const S* a, const S* b, S* to) {
    if constexpr (holes != Holes::none) {
      for (int n = 0; n < i.length; ++n) {
        S& sum = to[i.result * n];
        const S &x = a[i.left * n], &y = b[i.right * n];
        S product = defined<S>([](const S& p, const S& q) { return S(p * q); }, x, y);
        if constexpr (holes == Holes::absorbed) product = absorbed(x, product);
        sum = added(sum, product);
      }
    } else if (i.is_summed()) {
      add_dot(*to, Line<const S>{a, i.left, i.length}, Line<const S>{b, i.right, i.length});
    } else if (i.is_free() && i.in_left) {
      add_scaled(Line<S>{to, i.result, i.length}, *b, Line<const S>{a, i.left, i.length});
    } else if (i.is_free()) {
      add_scaled(Line<S>{to, i.result, i.length}, *a, Line<const S>{b, i.right, i.length});
    } else {
      for (int n = 0; n < i.length; ++n)
        add_dot(to[i.result * n], Line<const S>{a + i.left * n, 1, 1}, Line<const S>{b + i.right * n, 1, 1});
    }
  }

  // ---- systems of equations

  /// The factors of A's matrices, one after the other. Those of the matrices asked for last are kept: a step back
  /// solves with the matrix of its step.
  const Factors& factors_of(const V& A, bool definite) {
    if (factors_.reals == A.reals && factors_.layout == A.layout && factors_.definite == definite) return factors_;
    const int last = A.layout.rank - 1, n = A.layout.length[Strides::at(last)];
    const Strides lead = A.layout.without(last).without(last - 1);
    Strides matrix{2, {n, n}, {A.layout.step[Strides::at(last - 1)], A.layout.step[Strides::at(last)]}, 0};
    factors_ = {A.reals, A.layout, definite, {}};
    walk<1>({&lead}, [&](std::size_t, const auto& first) {
      matrix.offset = first[0];
      factors_.each.push_back(std::make_unique<const Factored<S>>(A.viewed(matrix).in_rows(), n, definite));
    });
    return factors_;
  }

  V solved(const Attributes& at, const V& A, const V& b) {
    const Factors& factors = factors_of(A, at.definite);
    const int last = A.layout.rank - 1;
    const bool several = b.layout.rank == A.layout.rank;
    const auto n = static_cast<std::size_t>(A.layout.length[Strides::at(last)]),
               columns = static_cast<std::size_t>(several ? b.layout.length[Strides::at(last)] : 1);
    const std::vector<S> from = b.in_rows();
    std::vector<S> out(from.size());
    for (std::size_t first = 0; first < out.size(); first += n * columns)
      for (std::size_t c = 0; c < columns; ++c) {
        if (PerturbedArithmetic* draw = draw_of<S>()) draw->at_element(1 + first + c);  // factors have element 0's
        std::vector<S> x;
        for (std::size_t i = 0; i < n; ++i) x.push_back(from[first + i * columns + c]);
        factors.each[first / (n * columns)]->solve(x, at.absorb);
        for (std::size_t i = 0; i < n; ++i) out[first + i * columns + c] = std::move(x[i]);
      }
    return V::of(b.layout, std::move(out));
  }

  // ---- rows of scores

  static V rows(bool softmax, const V& s, const V& seen) {
    const int last = s.layout.rank - 1;
    const Strides rest = s.layout.without(last), mask = seen.layout.without(last);
    const std::ptrdiff_t step = s.layout.step[Strides::at(last)], mask_step = seen.layout.step[Strides::at(last)];
    const int n = s.layout.length[Strides::at(last)];
    std::vector<S> out;
    out.reserve(softmax ? s.layout.count() : rest.count());
    PerturbedArithmetic* const draw = draw_of<S>();
    walk<2>({&rest, &mask}, [&](std::size_t here, const auto& at) {
      if (draw != nullptr) draw->at_element(here);
      std::vector<S> x;
      std::vector<int> where;
      bool open = false;
      for (int i = 0; i < n; ++i) {
        const Truth t = seen.truth(at[1] + mask_step * i);
        open = open || t == Truth::undefined;
        if (t == Truth::yes) x.push_back(s.real(at[0] + step * i)), where.push_back(i);
      }
      for (const S& one : x) open = open || (must_be_asked<S> && is_undefined(one));
      row(softmax, open, n, std::move(x), where, out);
    });
    return V::of(softmax ? s.layout : rest, std::move(out));
  }

  /// Scores whose weights are known. Kernels go on with the logarithms of the weights, since gradients of scores add up
  /// to zero: a score that is exactly zero is as large there as what all scores of its row are less.
  void up_to_a_constant(V& s, const V& seen) {
    bool any = false;
    if (s.reals) walk<1>({&s.layout}, [&](std::size_t, const auto& at) { any = any || s.real(at[0]).nothing(); });
    if (!any) return;
    const int last = s.layout.rank - 1;
    const Strides rest = s.layout.without(last);
    const std::ptrdiff_t step = s.layout.step[Strides::at(last)];
    const V constants = rows(false, s, seen);
    std::vector<S> out;
    out.reserve(s.layout.count());
    walk<2>({&rest, &constants.layout}, [&](std::size_t, const auto& at) {
      S constant = constants.real(at[1]);
      constant.value = 0;
      for (int i = 0; i < s.layout.length[Strides::at(last)]; ++i) {
        const S& score = s.real(at[0] + step * i);
        out.push_back(score.nothing() && std::isfinite(constant.size) ? constant : score);
      }
    });
    s = V::of(s.layout, std::move(out));
  }

  /// Reduces the visible scores of one row; `open`: some of it is undefined, and so is all.
  static void row(bool softmax, bool open, int n, std::vector<S> x, const std::vector<int>& where,
                  std::vector<S>& out) {
    const std::size_t first = out.size();
    if (softmax) out.resize(first + static_cast<std::size_t>(n), open ? undefined<S>() : S(0));
    if (!softmax && (open || x.empty()))
      out.push_back(open ? undefined<S>() : S(-std::numeric_limits<double>::infinity()));
    if (open || x.empty()) return;
    S top = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) top = maximum(top, x[i]);
    const S shift = shift_near(top);
    S total = S(0);
    for (S& one : x) {
      one = exponential(S(one - shift));
      total += one;
    }
    if (!softmax) return out.push_back(S(logarithm(total) + shift));
    for (std::size_t i = 0; i < x.size(); ++i) out[first + static_cast<std::size_t>(where[i])] = quotient(x[i], total);
  }

  // ---- scans

  /// Which of the step's values are the same for all tokens: those of constants and outer values. Contractions round
  /// afresh at every use, and are none; so does all that errs.
  std::vector<V> common(const Block& body, int own, const std::vector<V>& args) {
    std::vector<char> fixed(body.last_use.size(), 0);
    std::vector<V> known(body.last_use.size());
    for (std::size_t p = static_cast<std::size_t>(own); p < body.params.size(); ++p) fixed[p] = 1, known[p] = args[p];
    for (std::size_t n = 0; n < body.nodes.size(); ++n) {
      const Node& node = body.nodes[n];
      const std::size_t v = body.params.size() + n;
      if (node.op == Op::scan || node.op == Op::contract || node.op == Op::get || errs<S>()) continue;
      Operands operands;
      bool all = true;
      for (const int a : node.args) {
        all = all && fixed[static_cast<std::size_t>(a)] != 0;
        operands.push_back(&known[static_cast<std::size_t>(a)]);
      }
      if (!all) continue;
      fixed[v] = 1, known[v] = value_of(node, operands);
      if (culprit_ != nullptr) look_for_culprit(node, operands, known[v]);
    }
    return known;
  }

  /// Rows of a scan, token by token.
  struct Rows {
    Strides shape;
    std::vector<S> reals;
    std::vector<std::int64_t> integers;
    std::vector<Truth> truths;

    /// Rows that follow each other go behind those that are there: numbers are not zeros first.
    template <class R>
    void copy(const V& row, const std::vector<R>& from, std::size_t first, std::vector<R>& to) const {
      using Offsets = std::array<std::ptrdiff_t, 1>;
      if (to.empty()) to.reserve(shape.count());
      if (first == to.size() && row.layout.is_dense())
        return void(to.insert(to.end(), from.begin() + row.layout.offset,
                              from.begin() + row.layout.offset + static_cast<std::ptrdiff_t>(row.layout.count())));
      to.resize(shape.count(), R(0));
      walk_lines<1>({&row.layout}, [&](std::size_t n, const Offsets& at, const Offsets& by, int length) {
        const auto line = from.begin() + at[0];
        for (int i = 0; i < length; ++i) to[first + n + static_cast<std::size_t>(i)] = line[by[0] * i];
      });
    }
    void take(const V& row, int t, int tokens = 1) {
      const std::size_t first = row.layout.count() / static_cast<std::size_t>(tokens) * static_cast<std::size_t>(t);
      if (row.reals) copy(row, row.reals->list, first, reals);
      if (row.integers) copy(row, *row.integers, first, integers);
      if (row.truths) copy(row, *row.truths, first, truths);
    }
    V value(Kind kind) && {
      if (kind == Kind::real) return V::of(shape, std::move(reals));
      return kind == Kind::integer ? V::of(shape, std::move(integers)) : V::of(shape, std::move(truths));
    }
  };

  /// The operands that a scan reads besides its states.
  struct Reading {
    const Node& node;
    std::vector<V> sequences, args;  ///< args: of the step, where outer values have their place
    std::optional<std::vector<V>> known;

    int length() const { return sequences[0].layout.length[0]; }
    int token(int n) const { return node.attributes.reverse ? length() - 1 - n : n; }
  };
  static V row_of(const V& x, int t) { return x.lazy ? x.lazy->row(x.lazy_index, t) : element(x, 0, t); }
  Reading reading_of(const Node& node, const Operands& a) const {
    const auto carry = static_cast<std::size_t>(node.attributes.carry),
               own = carry + static_cast<std::size_t>(node.attributes.xs);
    Reading r{node, {}, std::vector<V>(a.size()), {}};
    for (std::size_t i = carry; i < own; ++i) r.sequences.push_back(*a[i]);
    for (std::size_t i = own; i < a.size(); ++i) r.args[i] = *a[i];
    return r;
  }

  /// The states of a scan between two steps, and those whose errors are taken together.
  struct Carried {
    std::vector<V> state;
    std::vector<Errors> joints;
    Records records;  ///< of the joints in the step before
  };

  /// Numbers of a column.
  std::size_t rows_of(const Block& body, const Joint& joint) const {
    const auto columns = static_cast<std::size_t>(extent_of({joint.columns, 0}, sizes_));
    std::size_t rows = 0;
    for (const int s : joint.states) rows += columns > 0 ? shape_of(body.type(s), sizes_).count() / columns : 0;
    return rows;
  }

  const StepPlan& plan_for(const Reading& r) {
    const Block& body = *r.node.attributes.body;
    const bool joins = Several<S> && r.length() > joint_steps;
    const auto key = std::pair(&body, joins);
    if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
    StepPlan plan = plan_of(body, r.node.attributes.carry, joins);
    const bool large = std::ranges::any_of(
        plan.joints, [&](const Joint& joint) { return joint.tangent && rows_of(body, joint) > most_joint_rows; });
    if (large) plan = plan_of(body, r.node.attributes.carry, false);
    return plans_.emplace(key, std::move(plan)).first->second;
  }

  Carried carried(const Reading& r, std::vector<V> state) {
    Carried c{std::move(state), {}, {}};
    join(plan_for(r), c);
    return c;
  }

  /// Takes the errors of states together that are of one joint.
  static void join(const StepPlan& plan, Carried& c) {
    if constexpr (Several<S>) {
      c.joints.clear();
      for (const Joint& joint : plan.joints) {
        std::vector<V> states;
        for (const int s : joint.states) states.push_back(c.state[static_cast<std::size_t>(s)]);
        c.joints.emplace_back(joint, std::move(states));
      }
    }
  }

  /// Runs the step on the states, which become the next ones, and on the rows of a token; returns its own rows if
  /// `rows`. `again` has the errors of a step that is made again.
  std::vector<V> step(Reading& r, Carried& c, int t, bool rows, const Records* again = nullptr) {
    const Block& body = *r.node.attributes.body;
    const StepPlan& plan = plan_for(r);
    if (!r.known) r.known = common(body, r.node.attributes.carry + r.node.attributes.xs, r.args);
    std::vector<V> values, before;
    values.reserve(body.last_use.size());
    values = r.args;
    for (std::size_t i = 0; i < r.sequences.size(); ++i) values[c.state.size() + i] = row_of(r.sequences[i], t);
    if (plan.joints.empty()) {  // sums over tokens go on in their place
      std::move(c.state.begin(), c.state.end(), values.begin());
    } else {
      std::copy(c.state.begin(), c.state.end(), values.begin());
      before = values;
    }
    const bool joined = go_jointly(body, *r.known, values, c, again);
    const std::vector<char>& wanted = rows ? plan.late : plan.late_states;
    std::vector<V> out = joined ? run(body, std::move(values), &*r.known, &wanted)
                                : run(body, std::move(before), &*r.known, rows ? nullptr : &plan.all_states);
    std::copy_n(out.begin(), c.state.size(), c.state.begin());
    store(c.state, r.node.attributes.reverse ? Kept::gradient : Kept::state);
    if (!joined) join(plan, c);
    out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(c.state.size()));
    return out;
  }

  /// Matrices that a step carries on, as a kernel stores them: states, and their gradients, which run back.
  static void store([[maybe_unused]] std::vector<V>& states, [[maybe_unused]] Kept what) {
    if constexpr (std::is_same_v<S, Emulated>) {
      if (!EmulatedArithmetic::stores(what)) return;
      for (V& state : states)
        if (state.reals && state.layout.rank > 1)
          state = map<S>(state, [what](const V& x, std::ptrdiff_t i) {
            return S(EmulatedArithmetic::carried(what, x.real(i).value));
          });
    }
  }

  /// The next states of all joints, put where the step has them. False if nothing is known of what becomes of their
  /// errors.
  bool go_jointly(const Block& body, const std::vector<V>& known, std::vector<V>& values, Carried& c,
                  const Records* again) {
    if constexpr (Several<S>) {
      c.records.clear();
      if (!c.joints.empty()) values.resize(body.last_use.size());
      for (Errors& errors : c.joints) {
        const Joint& joint = errors.joint();
        for (std::size_t n = 0; n < body.nodes.size(); ++n) {
          const std::size_t v = body.params.size() + n;
          if (joint.given[v] != 0 && !is_there(values[v]))
            values[v] = is_there(known[v]) ? known[v] : value_of(body.nodes[n], operands_of(body.nodes[n], values));
        }
        std::vector<V> near = values, own = errors.take_near();
        for (std::size_t k = 0; k < joint.states.size(); ++k)
          near[static_cast<std::size_t>(joint.states[k])] = std::move(own[k]);
        const auto* record = again != nullptr ? &(*again)[c.records.size()] : nullptr;
        const bool goes_on =
            advanced(body, joint, errors, run(body, std::move(near), &known, &joint.linear), values, record);
        c.records.push_back(errors.last());
        if (!goes_on) return false;
      }
    }
    return true;
  }

  /// `out`: what the step makes of the states by their own errors.
  bool advanced(const Block& body, const Joint& joint, Errors& errors, const std::vector<V>& out,
                std::vector<V>& values, const typename Errors::Record* record) {
    if constexpr (Several<S>) {
      std::vector<V> next;
      for (const int s : joint.states) next.push_back(out[static_cast<std::size_t>(s)]);
      const bool known = record != nullptr ? errors.advance(std::move(next), *record)
                         : joint.channels  ? errors.advance_by(std::move(next),
                                                               Interpreter(sizes_, nullptr).run(*joint.channels, values))
                                           : errors.advance(std::move(next), mapped(joint, errors, values));
      if (!known) return false;
      for (std::size_t k = 0; k < joint.states.size(); ++k) {
        const int v = body.results[static_cast<std::size_t>(joint.states[k])];
        if (v >= body.first()) values[static_cast<std::size_t>(v)] = errors.whole(k);
      }
    }
    return true;
  }

  /// The product of the steps, this one included.
  std::vector<V> mapped(const Joint& joint, Errors& errors, const std::vector<V>& values) {
    Sizes sizes = sizes_;
    sizes[joint.columns] = errors.rows();
    std::vector<V> args = errors.take_map();
    for (const int v : joint.constants) args.push_back(values[static_cast<std::size_t>(v)]);
    return Interpreter(sizes, nullptr).run(*joint.tangent, std::move(args));
  }

  bool goes_side_by_side(const Reading& r) {
    if (!Several<S> || lanes_.groups < 2 || token_ >= 0 || culprit_ != nullptr || r.length() < lanes_.groups)
      return false;
    const auto key = r.node.attributes.body.get();
    const auto found = adds_up_.find(key);
    return found != adds_up_.end() ? found->second
                                   : adds_up_.emplace(key, adds_up(*key, r.node.attributes.carry)).first->second;
  }

  /// The first tokens of a scan whose step adds them up, a group of lanes each; how many they were. The states are then
  /// those after them.
  int go_side_by_side(Reading& r, std::vector<V>& state, std::vector<Rows>& rows) {
    const Block& body = *r.node.attributes.body;
    const int groups = lanes_.groups, steps = r.length() / groups;
    if (!r.known) r.known = common(body, r.node.attributes.carry + r.node.attributes.xs, r.args);
    std::vector<V> sums;  // of every group its own
    sums.reserve(state.size());
    for (const V& s : state) sums.push_back(V::of(s.layout.dense(), std::vector<S>(s.layout.count(), S(0))));
    std::map<int, std::vector<V>> varying;
    for (int n = 0; n < steps; ++n) {
      std::vector<V> values = r.args;
      varying.clear();
      for (std::size_t i = 0; i < r.sequences.size(); ++i) {
        std::vector<V> each;
        each.reserve(static_cast<std::size_t>(groups));
        for (int g = 0; g < groups; ++g) each.push_back(row_of(r.sequences[i], r.token(n * groups + g)));
        V& value = values[state.size() + i];
        value = each[0].reals ? blended(each) : each[0];
        if (!value.reals) varying.emplace(static_cast<int>(state.size() + i), std::move(each));
      }
      std::move(sums.begin(), sums.end(), values.begin());
      token_ = r.token(n * groups), varying_ = &varying;
      std::vector<V> out = run(body, std::move(values), &*r.known);
      token_ = -1, varying_ = nullptr;
      for (std::size_t k = 0; k < rows.size(); ++k)
        for (int g = 0; g < groups; ++g) rows[k].take(spread(out[state.size() + k], g), r.token(n * groups + g));
      out.resize(state.size());
      sums = std::move(out);
    }
    for (std::size_t k = 0; k < state.size(); ++k)
      for (int g = 0; g < groups; ++g)
        state[k] = zip<S>(state[k], spread(sums[k], g), [](const V& a, const V& b, std::ptrdiff_t i, std::ptrdiff_t j) {
          return S(a.real(i) + b.real(j));
        });
    return steps * groups;
  }

  /// The step of a scan for many tokens at once. In draws alone: elsewhere an order of sums has been promised.
  std::shared_ptr<const Block> tile_step(const Reading& r) const {
    if (draw_of<S>() == nullptr || token_ >= 0 || culprit_ != nullptr) return nullptr;
    const Attributes& scan = r.node.attributes;
    return step_of_tile(*scan.body, scan.carry, scan.xs);
  }

  /// All tokens of a scan in tiles of them, the last one with those that are left.
  void go_in_tiles(const Block& step, const Reading& r, std::vector<V>& state, std::vector<Rows>& rows) {
    const int tokens = tile_of(step, sizes_);
    Sizes sizes = sizes_;
    Interpreter one(sizes, nullptr);
    one.in_tiles_ = true, one.place_.block = body_at(place_);
    for (int first = 0; first < r.length(); first += tokens) {
      const int n = sizes[tokens_of_tile] = std::min(tokens, r.length() - first);
      one.token_ = first, one.place_.token = static_cast<std::uint32_t>(first);
      std::vector<V> values = r.args;
      std::move(state.begin(), state.end(), values.begin());
      for (std::size_t i = 0; i < r.sequences.size(); ++i) {
        Strides part = r.sequences[i].layout;
        part.offset += part.step[0] * first, part.length[0] = n;
        values[state.size() + i] = r.sequences[i].viewed(part);
      }
      std::vector<V> out = one.run(step, std::move(values));
      for (std::size_t k = 0; k < rows.size(); ++k) rows[k].take(out[state.size() + k], first, n);
      out.resize(state.size());
      state = std::move(out);
    }
  }

  /// The states of a scan, of which every so many are kept; the others are computed again, with the same result.
  class Replay final : public LazyRows<S> {
   public:
    Replay(const Sizes& sizes, Reading reading, std::uint32_t block)
        : again_(sizes, nullptr),
          reading_(std::move(reading)),
          every_(std::max(1, static_cast<int>(std::sqrt(reading_.length())))) {
      again_.token_ = 0, again_.place_.block = block;
    }

    /// Before step n.
    void enter(int n, const Carried& c) {
      if (n % every_ != 0) return;
      kept_.push_back(c);
      if constexpr (Several<S>)
        for (Errors& errors : kept_.back().joints) errors.forget_map();
    }
    /// After it.
    void leave(const Carried& c) { records_.push_back(c.records); }
    V row(std::size_t k, int t) override {
      const int n = reading_.token(t);
      if (n / every_ != part_) compute(n / every_);
      return states_[static_cast<std::size_t>(n % every_)][k];
    }

   private:
    void compute(int part) {
      part_ = part, states_.clear();
      Carried c = kept_[static_cast<std::size_t>(part)];
      states_.push_back(c.state);
      for (int n = part * every_; n + 1 < std::min((part + 1) * every_, reading_.length()); ++n) {
        const int t = reading_.token(n);
        again_.place_.token = static_cast<std::uint32_t>(t);
        again_.step(reading_, c, t, false, &records_[static_cast<std::size_t>(n)]);
        states_.push_back(c.state);
      }
    }

    Interpreter again_;
    Reading reading_;
    int every_, part_ = -1;
    std::vector<Carried> kept_;
    std::vector<Records> records_;  ///< of every step
    std::vector<std::vector<V>> states_;
  };

  /// The number of the body of the scan at that place: of one of the program's own scans, the one after its value's.
  static std::uint32_t body_at(const PerturbedArithmetic::Place& scan) {
    if (scan.block == 0) return scan.node + 1;
    const RandomBits nested{(std::uint64_t{scan.block} << 32) | scan.token};
    return static_cast<std::uint32_t>(nested.at(scan.node)) | (std::uint32_t{1} << 31);
  }

  V scan(const Node& node, const Operands& a) {
    const auto carry = static_cast<std::size_t>(node.attributes.carry);
    Reading reading = reading_of(node, a);
    const int T = reading.length(), outer = token_;
    std::vector<V> state;
    for (std::size_t i = 0; i < carry; ++i) state.push_back(*a[i]);
    std::vector<Rows> rows;
    std::shared_ptr<Replay> replay;
    std::vector<char> lazy(node.types.size(), 0);
    for (std::size_t i = carry; i < node.types.size(); ++i) {
      // Memory costs a double more than its arithmetic does.
      const std::size_t limit = ReplayLimit::bytes() / (is_machine<S> ? 16 : 1);
      const bool large = shape_of(node.types[i], sizes_).count() * sizeof(S) >= limit;
      if (large && outer < 0 && is_replayed(*top_, node, i)) lazy[i] = 1;
      rows.push_back({shape_of(node.types[i], sizes_), {}, {}, {}});
    }
    if (std::count(lazy.begin(), lazy.end(), 1) > 0)
      replay = std::make_shared<Replay>(sizes_, reading, body_at(place_));
    int done = 0;
    if (const auto tile = tile_step(reading)) go_in_tiles(*tile, reading, state, rows), done = T;
    if constexpr (Several<S>) {
      try {
        if (!replay && goes_side_by_side(reading)) done = go_side_by_side(reading, state, rows);
      } catch (const Divided&) {  // then one after the other
        token_ = outer, varying_ = nullptr;
      }
    }
    Carried c = carried(reading, std::move(state));
    const PerturbedArithmetic::Place place = place_;
    place_.block = body_at(place);
    for (int n = done; n < T; ++n) {
      const int t = reading.token(n);
      token_ = outer < 0 ? t : outer, place_.token = static_cast<std::uint32_t>(t);
      if (replay) replay->enter(n, c);
      const std::vector<V> out = step(reading, c, t, true);
      if (replay) replay->leave(c);
      for (std::size_t i = 0; i < out.size(); ++i)
        if (lazy[carry + i] == 0) rows[i].take(out[i], t);
    }
    token_ = outer, place_ = place;
    std::vector<V> results = std::move(c.state);
    for (std::size_t i = carry; i < node.types.size(); ++i) {
      if (lazy[i] == 0) {
        results.push_back(std::move(rows[i - carry]).value(node.types[i].kind));
        continue;
      }
      V& value = results.emplace_back();
      value.layout = rows[i - carry].shape, value.lazy = replay;
      value.lazy_index = static_cast<std::size_t>(node.attributes.body->results[i]);
    }
    return V::of(std::move(results));
  }

  // ---- who made it

  enum class Sick { no, beyond, undefined };
  static Sick worst(const V& v, std::vector<int>* where) {
    Sick found = Sick::no;
    if (!v.reals) return found;
    walk<1>({&v.layout}, [&](std::size_t n, const auto& at) {
      using std::isfinite;
      const S& x = v.real(at[0]);
      const Sick one = is_undefined(x) ? Sick::undefined : isfinite(x) ? Sick::no : Sick::beyond;
      if (one <= found) return;
      found = one;
      if (where == nullptr) return;
      where->assign(static_cast<std::size_t>(v.layout.rank), 0);
      for (std::size_t r = where->size(); r-- > 0;) {
        const auto length = static_cast<std::size_t>(v.layout.length[r]);
        (*where)[r] = static_cast<int>(n % length), n /= length;
      }
    });
    return found;
  }

  void look_for_culprit(const Node& node, const Operands& a, const V& made) {
    if (culprit_->has_value() && undefined_found_) return;
    if constexpr (!Several<S> && !std::is_same_v<S, Ball>) {
      Culprit culprit{node.op, token_, {}};
      const Sick sick = worst(made, &culprit.element);
      if (sick == Sick::no || (sick == Sick::beyond && culprit_->has_value())) return;
      for (const V* x : a)
        if (worst(*x, nullptr) >= sick) return;
      *culprit_ = std::move(culprit);
      undefined_found_ = sick == Sick::undefined;
    }
  }

  const Sizes& sizes_;
  const Block* top_ = nullptr;  ///< the outermost block
  std::optional<Culprit>* culprit_;
  bool undefined_found_ = false;
  int token_ = -1;
  PerturbedArithmetic::Place place_;                         ///< of the value that is computed
  bool in_tiles_ = false;                                    ///< the block is the step of a tile
  const Mine* mine_ = nullptr;                               ///< operands that are not read again
  std::map<std::pair<const Block*, bool>, StepPlan> plans_;  ///< of the steps, with and without joints
  std::map<const Block*, Facts> facts_;
  std::map<const Block*, bool> adds_up_;
  Factors factors_;
  LaneGroups lanes_;
  std::map<int, std::vector<V>>* varying_ = nullptr;  ///< of a step: values that differ between groups of lanes
};

template <class S>
std::vector<Value<S>> evaluate(const Block& block, std::vector<Value<S>> args, const Sizes& sizes,
                               std::optional<Culprit>* culprit, const LaneGroups& lanes) {
  return Interpreter<S>(sizes, culprit, lanes).run(block, std::move(args));
}

}  // namespace assay::language
