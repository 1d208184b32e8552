#include "language/emit/nodes.hpp"

#include <fmt/format.h>

#include <utility>

#include "language/program/infer.hpp"
#include "language/program/lists.hpp"

namespace assay::language::device {

Place where_it_varies(const Scope& scope, int v, std::string base) {
  return [all = dense(std::move(base), scope.varying(v)), varies = scope.varies(v)](const Indices& at) {
    Indices own;
    for (std::size_t i = 0; i < at.size(); ++i)
      if (varies[i] != 0) own.push_back(at[i]);
    return all(own);
  };
}

Nodes::Nodes(Scope& scope, std::vector<std::string>& lines, bool in_tiles, Buffer buffer)
    : scope_(scope), lines_(lines), in_tiles_(in_tiles), buffer_(std::move(buffer)) {
  if (in_tiles) masks_ = masks_of(scope.block());
}

void Nodes::over(const std::vector<Dim>& axes, const Statements& statements) {
  line(fmt::format("EACH_LONG(n, {}) {{", count_of(axes)));
  Indices at(axes.size());
  std::string rest = "n";
  for (std::size_t i = axes.size(); i-- > 0;) {
    at[i] = fmt::format("i{}", i);
    line(i > 0 ? fmt::format("const int {} = (int)({} % {});", at[i], rest, length_of(axes[i]))
               : fmt::format("const int {} = (int)({});", at[i], rest));
    rest += " / " + length_of(axes[i]);
  }
  for (std::string& statement : statements(at)) line(std::move(statement));
  line("}");
  line("MEET;");
}

void Nodes::copy(const std::vector<Dim>& axes, const Place& to, const Place& from) {
  over(axes, [&](const Indices& at) { return std::vector<std::string>{fmt::format("{} = {};", to(at), from(at))}; });
}

void Nodes::find_seen(const std::vector<int>& need) {
  for (const int v : need) {
    if (!masks_.any || masks_.mask[index(v)] < 0 || !seen_.insert(masks_.mask[index(v)]).second) continue;
    const int mask = masks_.mask[index(v)];
    const std::vector<Dim>& axes = scope_.axes(mask);
    const Indices at = indices_of(axes, "(int)n");
    line(fmt::format("SHARED(int, seen{}, 2);\nONCE seen{}[0] = unlimited, seen{}[1] = 0;\nMEET;", mask, mask, mask));
    line("{\nint low = unlimited, high = 0;");
    line(fmt::format("SOME_UNROLLED EACH_LONG(n, {}) if ({} != 0) low = least(low, {}), high = most(high, {} + 1);",
                     count_of(axes), scope_.written(mask, at), at.back(), at.back()));
    line(fmt::format("widen(seen{}, low, high);\n}}\nMEET;", mask));
    line(fmt::format("const int from{0} = least(seen{0}[0], seen{0}[1]), n_seen{0} = seen{0}[1] - from{0};", mask));
    line(fmt::format("(void)n_seen{};", mask));
  }
}

void Nodes::compute(int v, const Place& to, bool in_place) {
  const Node& node = *scope_.block().node(v);
  const std::vector<Dim>& axes = scope_.axes(v);
  const std::optional<int> contraction = scope_.contraction_of(v);
  const bool multiplies =
      contraction &&
      (in_tiles_ || is_of_matrices(contraction_from(scope_.block().node(*contraction)->attributes.spec)));
  has_calls_ = has_calls_ || multiplies || any_of(node.op, {Op::solve, Op::softmax, Op::logsumexp});
  if (node.op == Op::solve)
    solved(v, to);
  else if (any_of(node.op, {Op::softmax, Op::logsumexp}))
    scored(v, to);
  else if (node.op == Op::cumsum)
    over(std::vector<Dim>(axes.begin() + 1, axes.end()), [&](const Indices& at) { return cumulated(v, to, at); });
  else if (node.op == Op::shift)
    over(axes, [&](const Indices& at) { return shifted(node, to, at); });
  else if (multiplies)
    multiply(v, *contraction, to, in_place);
  else
    over(scope_.varying(v), [&](const Indices& at) { return computed(v, to, at); });
}

std::vector<std::string> Nodes::cumulated(int v, const Place& to, const Indices& at) const {
  const Node& node = *scope_.block().node(v);
  const Indices whole = with_first("t", at);
  const std::string length = length_of(scope_.axes(node.args[0])[0]);
  return {"double sum = 0;",
          fmt::format("for (int step = 0; step < {}; ++step) {{", length),
          node.attributes.reverse ? fmt::format("const int t = {} - 1 - step;", length) : "const int t = step;",
          fmt::format("const double x = {};", scope_.written(node.args[0], whole)),
          fmt::format("sum = step == 0 ? x : rounded(draw, {}, 0, x + sum);", scope_.numbers_of(v, whole)),
          fmt::format("{} = sum; }}", to(whole))};
}

std::vector<std::string> Nodes::shifted(const Node& node, const Place& to, const Indices& at) const {
  Indices from = at;
  from[0] = fmt::format("({} - ({}))", at[0], node.attributes.by);
  return {fmt::format("{} = {} >= 0 && {} < {} ? {} : 0.0;", to(at), from[0], from[0],
                      length_of(scope_.axes(node.args[0])[0]), scope_.written(node.args[0], from))};
}

/// `varying`: indices of the axes that vary.
std::vector<std::string> Nodes::computed(int v, const Place& to, const Indices& varying) const {
  Indices at;
  std::size_t next = 0;
  for (const char varies : scope_.varies(v)) at.push_back(varies != 0 ? varying[next++] : "0");
  const std::optional<Sum> sum = scope_.sum_of(v);
  if (!sum) return {fmt::format("{} = {};", to(at), scope_.formula(v, at))};
  Letters letters;
  for (std::size_t i = 0; i < sum->kept.size(); ++i) letters[sum->kept[i]] = at[i];
  return {fmt::format("double sum = {};", scope_.start(*sum, letters, at)),
          (in_tiles_ && sum->is_plain ? "SOME_UNROLLED " : "") + scope_.chain(*sum, letters, "sum"),
          fmt::format("{} = sum;", to(at))};
}

/// Softmax and logsumexp, a row of scores each.
void Nodes::scored(int v, const Place& to) {
  const Node& node = *scope_.block().node(v);
  const std::vector<Dim>& axes = scope_.axes(node.args[0]);
  const std::vector<Dim> rows(axes.begin(), axes.end() - 1);
  const bool is_softmax = node.op == Op::softmax;
  Indices row = indices_of(rows, "r"), at = row;
  at.push_back("i");
  const std::string place = to(is_softmax ? at : row), mask = std::to_string(node.args[1]);
  const bool is_known = seen_.contains(node.args[1]);
  line(fmt::format("scored<{}>(draw, {}, {}, {}, {}, {},", is_softmax, scope_.key_of(v, 0), int_count(rows),
                   length_of(axes.back()), is_known ? "from" + mask : "0",
                   is_known ? "n_seen" + mask : length_of(axes.back())));
  line(fmt::format("[&](int r, int i) {{ return {}; }},", scope_.written(node.args[0], at)));
  line(fmt::format("[&](int r, int i) {{ (void)r, (void)i; return (int)({}); }},", scope_.written(node.args[1], at)));
  line(fmt::format("[&](int r, int i, double x) {{ (void)r, (void)i; {} = x; }},", place));
  line(fmt::format("[&](int r, int i) {{ (void)r, (void)i; return {}; }});", is_softmax ? place : "0.0"));
}

/// Solutions of definite systems. The factors of the matrices that were factored last are there still.
void Nodes::solved(int v, const Place& to) {
  const Node& node = *scope_.block().node(v);
  const int matrix = node.args[0];
  if (!node.attributes.definite) scope_.refuse(v, "no text is emitted for systems that are not definite yet");
  const std::vector<Dim>&all = scope_.axes(matrix), &axes = scope_.axes(v);
  const std::vector<Dim> lead(all.begin(), all.end() - 2);
  const std::string n = length_of(all.back()), key = scope_.key_of(v, 0);
  if (factored_ != matrix) {
    factored_ = matrix, factors_ = buffer_(v, all);
    copy(all, dense(factors_, all), [&](const Indices& at) { return scope_.written(matrix, at); });
    line(fmt::format("factor(draw, {}, {}, {}, {});", key, int_count(lead), n, factors_));
  }
  copy(axes, to, [&](const Indices& at) { return scope_.written(node.args[1], at); });
  line(fmt::format("solve(draw, {}, {}, {}, {}, {}, {}, &{});", key, int_count(lead), n,
                   axes.size() == all.size() ? length_of(axes.back()) : "1", node.attributes.absorb, factors_,
                   to(Indices(axes.size(), "0"))));
}

/// The columns of a contraction's result that count.
std::optional<Cut> Nodes::cut_of(int contraction) const {
  const int mask = masks_.any ? masks_.mask[index(contraction)] : -1;
  if (mask < 0 || scope_.block().node(contraction)->is_added) return std::nullopt;
  return Cut{fmt::format("from{}", mask), Dim{fmt::format("seen{}", mask), 0}};
}

/// A contraction as products of matrices, itself or within an addition.
void Nodes::multiply(int v, int contraction, const Place& to, bool in_place) {
  const std::optional<Cut> cut = cut_of(contraction);
  if (cut)
    over(scope_.axes(v), [&](const Indices& all) {
      return std::vector<std::string>{fmt::format("if ({0} < {1} || {0} >= {1} + {2}) {3} = 0;", all.back(), cut->first,
                                                  length_of(cut->length), to(all))};
    });
  const Matrices matrices(scope_, v, contraction, cut, to);
  if (matrices.have_sums())
    for (std::string& one : matrices.product(in_place)) line(std::move(one));
  else
    over(matrices.axes(), [&](const Indices& at) { return std::vector<std::string>{matrices.element(at)}; });
}

}  // namespace assay::language::device
