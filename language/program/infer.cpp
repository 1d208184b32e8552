#include "language/program/infer.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "files/in_words.hpp"
#include "language/program/lists.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

using Operands = std::vector<std::span<const Type>>;

/// "[real K V], [real V K]"
std::string shown(const std::vector<Type>& types) {
  std::string out;
  for (const Type& type : types) out += (out.empty() ? "[" : ", [") + text_of(type) + "]";
  return out;
}

std::size_t arity_of(Op op) {
  if (any_of(op, {Op::const_, Op::int_, Op::size, Op::iota})) return 0;
  if (op == Op::select) return 3;
  const bool two = any_of(op, {Op::pow, Op::contract, Op::add, Op::sub, Op::mul, Op::div, Op::max, Op::lt, Op::le,
                               Op::eq, Op::and_, Op::or_, Op::softmax, Op::logsumexp, Op::solve});
  return two ? 2 : 1;
}

void require_same_axes(const std::vector<Type>& t) {
  for (const Type& x : t) require(x.axes == t[0].axes, "operands have different axes: ", shown(t));
}

Type numbers(Op op, const std::vector<Type>& t) {
  const bool takes_integers = any_of(op, {Op::neg, Op::add, Op::sub, Op::mul, Op::max, Op::lt, Op::le, Op::eq});
  require_same_axes(t);
  for (const Type& x : t) {
    require(x.kind == t[0].kind, "operands differ in kind: ", shown(t));
    require(x.kind == Kind::real || (takes_integers && x.kind == Kind::integer), "takes ",
            takes_integers ? "numbers" : "real numbers", ", not ", shown(t));
  }
  return any_of(op, {Op::lt, Op::le, Op::eq}) ? Type{Kind::boolean, t[0].axes} : t[0];
}

Type truths(const std::vector<Type>& t) {
  require_same_axes(t);
  for (const Type& x : t) require(x.kind == Kind::boolean, "takes truth values, not ", shown(t));
  return t[0];
}

Type selected(const std::vector<Type>& t) {
  require_same_axes(t);
  require(t[0].kind == Kind::boolean && t[1] == t[2], "takes a truth value and two alike, not ", shown(t));
  return t[1];
}

Type expanded(const Type& t, const Attributes& a) {
  Type type = t;
  require(a.axis >= 0 && a.axis <= static_cast<int>(t.axes.size()), "[", text_of(t), "] has no position ", a.axis);
  type.axes.insert(type.axes.begin() + a.axis, a.dim);
  return type;
}

Type transposed(const Type& t, const Attributes& a) {
  std::vector<int> sorted = a.perm, all(t.axes.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  std::string perm;
  for (const int i : a.perm) perm += (perm.empty() ? "" : ", ") + std::to_string(i);
  require(sorted == all, "[", perm, "] is no permutation of the axes of [", text_of(t), "]");
  Type type = t;
  for (std::size_t i = 0; i < all.size(); ++i) type.axes[i] = t.axes[static_cast<std::size_t>(a.perm[i])];
  return type;
}

Type without_axis(Op op, const Type& t, const Attributes& a) {
  require(a.axis >= 0 && a.axis < static_cast<int>(t.axes.size()), "[", text_of(t), "] has no axis ", a.axis);
  const Dim& dim = t.axes[static_cast<std::size_t>(a.axis)];
  if (op == Op::index)
    require(dim.name.empty() && a.i >= 0 && a.i < dim.written, "index ", a.i, " into axis ", text_of(dim),
            ": only axes of a written length have indices, from 0");
  else
    require(t.kind != Kind::boolean, "takes numbers, not [", text_of(t), "]");
  Type type = t;
  type.axes.erase(type.axes.begin() + a.axis);
  return type;
}

Type rows(Op op, const std::vector<Type>& t) {
  require(t[0].kind == Kind::real && t[1].kind == Kind::boolean, "takes scores and a mask, not ", shown(t));
  require_same_axes(t);
  require(!t[0].axes.empty(), "[", text_of(t[0]), "] has no axis to sum over");
  Type type = t[0];
  if (op == Op::logsumexp) type.axes.pop_back();
  return type;
}

Type contracted(const std::vector<Type>& t, const Attributes& a) {
  const Contraction c = contraction_from(a.spec);
  require(t[0].kind == Kind::real && t[1].kind == Kind::real, "takes real numbers, not ", shown(t));
  require(c.left.size() == t[0].axes.size() && c.right.size() == t[1].axes.size(), "\"", a.spec, "\" does not fit ",
          shown(t));
  std::map<char, Dim> dims;
  for (const auto& [letters, type] : {std::pair(&c.left, t.data()), std::pair(&c.right, t.data() + 1)})
    for (std::size_t i = 0; i < letters->size(); ++i) {
      const Dim& known = dims.emplace((*letters)[i], type->axes[i]).first->second;
      require(known == type->axes[i], "axis ", text_of(type->axes[i]), " meets axis ", text_of(known));
    }
  Type type;
  for (const char letter : c.result) type.axes.push_back(dims.at(letter));
  return type;
}

/// The right-hand side's type: its axes are those of the matrices but the last, and one more if it has several columns.
Type solved(const std::vector<Type>& t) {
  require(t[0].kind == Kind::real && t[1].kind == Kind::real, "takes real numbers, not ", shown(t));
  const std::vector<Dim>&A = t[0].axes, &b = t[1].axes;
  require(A.size() >= 2 && A[A.size() - 1] == A[A.size() - 2], "A is [", text_of(t[0]), "], not square");
  require(b.size() == A.size() || b.size() + 1 == A.size(), "b is [", text_of(t[1]),
          "], neither a vector nor a matrix beside A of [", text_of(t[0]), "]");
  for (std::size_t i = 0; i + 1 < A.size(); ++i)
    require(b[i] == A[i], "axis ", text_of(b[i]), " of b meets axis ", text_of(A[i]), " of A");
  return t[1];
}

/// The types that the step's parameters must have.
std::vector<Type> step_params(const std::vector<Type>& t, std::size_t n, std::size_t m) {
  std::vector<Type> want = t;
  for (std::size_t i = n; i < n + m; ++i) {
    require(!want[i].axes.empty() && want[i].axes[0] == t[n].axes[0], "sequences of different first axes: ",
            shown({t.begin() + static_cast<std::ptrdiff_t>(n), t.begin() + static_cast<std::ptrdiff_t>(n + m)}));
    want[i].axes.erase(want[i].axes.begin());
  }
  return want;
}

std::vector<Type> scanned(const std::vector<Type>& t, const Attributes& a) {
  require(a.xs > 0, "needs at least one sequence");
  require(a.carry >= 0 && static_cast<std::size_t>(a.carry) + static_cast<std::size_t>(a.xs) <= t.size(), "has ",
          t.size(), " operands, fewer than its states and sequences");
  const auto n = static_cast<std::size_t>(a.carry), m = static_cast<std::size_t>(a.xs);
  require(!t[n].axes.empty(), "sequences of different first axes: ", shown({t[n]}));
  const std::vector<Type> want = step_params(t, n, m);
  require(want.size() == a.body->params.size(), "the step has ", a.body->params.size(), " parameters and gets ",
          want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    require(want[i] == a.body->params[i], "parameter ", i, " of the step is [", text_of(a.body->params[i]),
            "] and gets [", text_of(want[i]), "]");
  require(a.body->results.size() >= n, "the step has ", a.body->results.size(), " results, fewer than its states");
  std::vector<Type> types;
  for (std::size_t i = 0; i < a.body->results.size(); ++i) {
    types.push_back(a.body->result_type(i));
    if (i < n)
      require(types[i] == t[i], "the state enters as [", text_of(t[i]), "] and leaves as [", text_of(types[i]), "]");
    else
      types[i].axes.insert(types[i].axes.begin(), t[n].axes[0]);
  }
  require(!types.empty(), "the step has no results");
  return types;
}

Type one(Op op, const std::vector<Type>& t, const Attributes& a) {
  switch (op) {
    case Op::const_:
      return {a.fraction.empty() ? Kind::boolean : Kind::real, {}};
    case Op::int_:
    case Op::size:
      return {Kind::integer, {}};
    case Op::iota:
      return {Kind::integer, {a.dim}};
    case Op::real:
      require(t[0].kind == Kind::integer, "converts integers, not ", shown(t));
      return {Kind::real, t[0].axes};
    case Op::pow:
      require_same_axes(t);
      require(t[0].kind == Kind::real && t[1].kind == Kind::integer, "takes a number and an integer exponent, not ",
              shown(t));
      return t[0];
    case Op::not_:
    case Op::and_:
    case Op::or_:
      return truths(t);
    case Op::select:
      return selected(t);
    case Op::expand:
      return expanded(t[0], a);
    case Op::transpose:
      return transposed(t[0], a);
    case Op::index:
    case Op::sum:
      return without_axis(op, t[0], a);
    case Op::shift:
    case Op::cumsum:
      require(!t[0].axes.empty() && t[0].kind == Kind::real, "takes real numbers with a first axis, not ", shown(t));
      return t[0];
    case Op::softmax:
    case Op::logsumexp:
      return rows(op, t);
    case Op::contract:
      return contracted(t, a);
    case Op::solve:
      return solved(t);
    default:
      return numbers(op, t);
  }
}

void require_small(const Type& type) {
  require(type.axes.size() <= most_axes, "[", text_of(type), "] has more than ", most_axes, " axes");
  double written = 1;
  for (const Dim& dim : type.axes) written *= dim.name.empty() ? dim.written : 1;
  require(written <= most_written, "[", text_of(type), "] is too large");
}

Contraction read_contraction(std::string_view spec) {
  const std::size_t comma = spec.find(','), arrow = spec.find("->");
  const bool whole = comma != std::string_view::npos && arrow != std::string_view::npos && comma < arrow;
  require(whole, "\"", spec, "\" is not of the form ab,bc->ac");
  const Contraction c{std::string(spec.substr(0, comma)), std::string(spec.substr(comma + 1, arrow - comma - 1)),
                      std::string(spec.substr(arrow + 2))};
  for (const std::string* letters : {&c.left, &c.right, &c.result}) {
    const auto is_letter = [](char l) { return l >= 'a' && l <= 'z'; };
    require(std::all_of(letters->begin(), letters->end(), is_letter), "\"", spec, "\" is not of the form ab,bc->ac");
    std::string sorted = *letters;
    std::sort(sorted.begin(), sorted.end());
    require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "an index occurs twice in one operand");
  }
  for (const char l : c.left + c.right + c.result) {
    const auto in = [&](const std::string& list) { return list.find(l) != std::string::npos ? 1 : 0; };
    require(in(c.left) + in(c.right) + in(c.result) >= 2, "index ", std::string(1, l),
            " is in one of both operands and the result alone, and must be in two");
  }
  return c;
}

}  // namespace

Contraction contraction_from(std::string_view spec) {
  // Programs are walked token by token, and ask for the same few each time.
  constexpr std::size_t most = 256;
  thread_local std::map<std::string, Contraction, std::less<>> known;
  if (const auto found = known.find(spec); found != known.end()) return found->second;
  Contraction read = read_contraction(spec);
  if (known.size() == most) known.clear();
  return known.emplace(std::string(spec), std::move(read)).first->second;
}

bool is_of_matrices(const Contraction& c) {
  const auto has = [](const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; };
  return std::ranges::any_of(c.left, [&](char l) { return !has(c.result, l); }) &&
         std::ranges::any_of(c.result, [&](char l) { return !has(c.right, l); }) &&
         std::ranges::any_of(c.result, [&](char l) { return !has(c.left, l); });
}

std::vector<Type> infer(Op op, const std::vector<std::span<const Type>>& operands, const Attributes& attributes) {
  std::vector<Type> types;
  if (op == Op::get) {
    require(operands.size() == 1, "takes 1 operand, not ", operands.size());
    require(attributes.i >= 0 && static_cast<std::size_t>(attributes.i) < operands[0].size(), "there is no result ",
            attributes.i);
    return {operands[0][static_cast<std::size_t>(attributes.i)]};
  }
  std::vector<Type> t;
  for (const std::span<const Type>& operand : operands) t.push_back(operand.front());
  if (op == Op::scan) {
    types = scanned(t, attributes);
  } else {
    const std::size_t arity = arity_of(op);
    require(t.size() == arity, "takes ", counted(arity, "operand"), ", not ", t.size());
    types = {one(op, t, attributes)};
  }
  for (const Type& type : types) require_small(type);
  return types;
}

}  // namespace assay::language
