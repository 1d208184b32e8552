#include "language/evaluate/channels.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "language/program/builder.hpp"
#include "language/program/infer.hpp"
#include "language/program/lists.hpp"

namespace assay::language {
namespace {

/// b u (w . x), numbers of the block that is made; without u the number b (w . x) of a column.
struct Term {
  int b, u, w;
};
/// A value in terms of the state x: a x and terms, or terms alone.
struct Form {
  bool has_rows = true;
  std::optional<int> a;
  std::vector<Term> terms;
};

/// Goes from the state to its next value. The block's parameters are all of the body's values.
class Walk {
 public:
  Walk(const Block& body, int state, const std::vector<char>& linear, const std::string& columns)
      : body_(body), state_(state), b_(types_of(body)) {
    for (int v = 0; v < values_of(body); ++v) moves_.push_back(static_cast<char>(v == state_ || linear[index(v)] != 0));
    const std::vector<Dim>& axes = body.type(state_).axes;
    const bool first = axes[0].name == columns;
    columns_ = axes[first ? 0 : 1], rows_ = axes[first ? 1 : 0];
  }

  /// The block, or nothing where the step has no such form.
  std::shared_ptr<const Block> made() && {
    known_[state_] = Form{true, constant("1", columns_), {}};
    const std::optional<Form>& form = of(body_.results[index(state_)]);
    if (!form || !form->has_rows || form->terms.size() > 1) return nullptr;
    std::vector<int> results = {form->a ? *form->a : constant("0", columns_)};
    for (const Term& term : form->terms) results.insert(results.end(), {term.b, term.u, term.w});
    return std::move(b_).finish(std::move(results));
  }

 private:
  static std::vector<Type> types_of(const Block& body) {
    std::vector<Type> types(index(values_of(body)));
    for (int v = 0; v < values_of(body); ++v) types[index(v)] = body.types(v).front();
    return types;
  }

  int e(Op op, std::vector<int> args, Attributes a = {}) { return b_.emit(op, std::move(args), std::move(a)); }
  int repeated(int v, const Dim& dim) { return e(Op::expand, {v}, language::along(dim)); }
  int constant(const char* number, const Dim& dim) { return repeated(e(Op::const_, {}, {.fraction = number}), dim); }

  /// The body's value v, which does not depend on the state, as numbers along `dim` alone.
  std::optional<int> along(int v, const Dim& dim) {
    const auto key = std::pair(v, dim == columns_);
    if (const auto found = along_.find(key); found != along_.end()) return found->second;
    return along_[key] = made_along(v, dim);
  }
  std::optional<int> made_along(int v, const Dim& dim) {
    const Type& type = body_.type(v);
    if (type.axes.empty()) return repeated(v, dim);
    if (type.axes == std::vector<Dim>{dim}) return v;
    const Node* node = body_.node(v);
    if (node == nullptr) return std::nullopt;
    const bool other = node->op == Op::expand && !(node->attributes.dim == dim);
    if (other || node->op == Op::transpose) return along(node->args[0], dim);
    std::vector<int> args;
    for (const int arg : node->args) {
      const std::optional<int> one = is_elementwise(node->op) ? along(arg, dim) : std::nullopt;
      if (!one) return std::nullopt;
      args.push_back(*one);
    }
    return e(node->op, std::move(args), node->attributes);
  }

  /// Both, with equal vectors taken together.
  std::optional<Form> sum(const std::optional<Form>& x, const std::optional<Form>& y) {
    if (!x || !y || x->has_rows != y->has_rows) return std::nullopt;
    Form form = *x;
    form.a = x->a && y->a ? e(Op::add, {*x->a, *y->a}) : x->a ? x->a : y->a;
    for (const Term& term : y->terms) {
      const auto same = std::find_if(form.terms.begin(), form.terms.end(),
                                     [&](const Term& other) { return other.u == term.u && other.w == term.w; });
      if (same == form.terms.end())
        form.terms.push_back(term);
      else
        same->b = e(Op::add, {same->b, term.b});
    }
    return form;
  }

  std::optional<Form> negated(std::optional<Form> form) {
    if (!form) return form;
    if (form->a) form->a = e(Op::neg, {*form->a});
    for (Term& term : form->terms) term.b = e(Op::neg, {term.b});
    return form;
  }

  /// Multiplied, or divided, by numbers that do not depend on the state.
  std::optional<Form> scaled(std::optional<Form> form, Op op, int by) {
    if (!form) return form;
    if (const std::optional<int> number = along(by, columns_)) {
      if (form->a) form->a = e(op, {*form->a, *number});
      for (Term& term : form->terms) term.b = e(op, {term.b, *number});
      return form;
    }
    const std::optional<int> row = form->has_rows && !form->a ? along(by, rows_) : std::nullopt;
    if (!row) return std::nullopt;
    for (Term& term : form->terms) term.u = e(op, {term.u, *row});
    return form;
  }

  /// The numbers y . (a x + ...) of the columns.
  Form read(const Form& form, int y) {
    Form read{false, {}, {}};
    const Attributes dot{.spec = "a,a->"};
    if (form.a) read.terms.push_back({*form.a, -1, y});
    for (const Term& term : form.terms)
      read.terms.push_back({e(Op::mul, {term.b, repeated(e(Op::contract, {term.u, y}, dot), columns_)}), -1, term.w});
    return read;
  }

  /// The numbers of the columns times y.
  static Form written(Form form, int y) {
    form.has_rows = true;
    for (Term& term : form.terms) term.u = y;
    return form;
  }

  std::optional<Form> contracted(const Node& node, const Form& form, bool first) {
    const Contraction c = contraction_from(node.attributes.spec);
    const std::string &mine = first ? c.left : c.right, &its = first ? c.right : c.left;
    const int other = node.args[first ? 1 : 0];
    const std::vector<Dim>& axes = body_.type(node.args[first ? 0 : 1]).axes;
    const char column = mine[axes[0] == columns_ ? 0 : 1];
    if (c.result.find(column) == std::string::npos) return std::nullopt;
    const bool scales = c.result.size() == mine.size() && its.find_first_not_of(mine) == std::string::npos;
    if (scales && its.size() < 2) return scaled(form, Op::mul, other);
    const std::optional<int> row = its.size() == 1 ? along(other, rows_) : std::nullopt;
    if (!row) return std::nullopt;
    if (form.has_rows && c.result.size() == 1) return read(form, *row);
    if (!form.has_rows && c.result.size() == 2) return written(form, *row);
    return std::nullopt;
  }

  const std::optional<Form>& of(int v) {
    if (const auto known = known_.find(v); known != known_.end()) return known->second;
    return known_[v] = made_of(*body_.node(v));
  }

  std::optional<Form> made_of(const Node& node) {
    const bool first = moves_[index(node.args[0])] != 0;
    const bool both = node.args.size() == 2 && first && moves_[index(node.args[1])] != 0;
    const int moved = node.args[first ? 0 : 1];
    if (moves_[index(moved)] == 0) return std::nullopt;  // chosen by a condition
    const std::optional<Form>& form = of(moved);
    if (!form) return form;
    switch (node.op) {
      case Op::add:
        return both ? sum(form, of(node.args[1])) : form;
      case Op::sub:
        return both ? sum(form, negated(of(node.args[1]))) : first ? form : negated(form);
      case Op::neg:
        return negated(form);
      case Op::detach:
      case Op::round:
      case Op::transpose:
        return form;
      case Op::mul:
      case Op::div:
        return scaled(form, node.op, node.args[first ? 1 : 0]);
      case Op::expand:
        if (form->has_rows || !(node.attributes.dim == rows_)) return std::nullopt;
        return written(*form, constant("1", rows_));
      case Op::sum:
        if (!form->has_rows || body_.type(moved).axes[index(node.attributes.axis)] == columns_) return std::nullopt;
        return read(*form, constant("1", rows_));
      case Op::contract:
        return contracted(node, *form, first);
      default:
        return std::nullopt;
    }
  }

  const Block& body_;
  int state_;
  Builder b_;
  std::vector<char> moves_;
  Dim columns_, rows_;
  std::map<int, std::optional<Form>> known_;
  std::map<std::pair<int, bool>, std::optional<int>> along_;
};

}  // namespace

std::shared_ptr<const Block> channels_of(const Block& body, int state, const std::vector<char>& linear,
                                         const std::string& columns) {
  const std::vector<Dim>& axes = body.type(state).axes;
  return axes.size() != 2 || axes[0] == axes[1] ? nullptr : Walk(body, state, linear, columns).made();
}

}  // namespace assay::language
