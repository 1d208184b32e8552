// Scans: their loops, and states that are computed again on the way back.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "language/emit/emitter.hpp"
#include "language/evaluate/in_tiles.hpp"
#include "language/program/lists.hpp"

namespace assay::language::device {
namespace {

/// The rows of a tile's tokens, in an array that has those of all.
Place rows_of_tile(Place all) {
  return [all = std::move(all)](Indices at) {
    at[0] = fmt::format("(first + {})", at[0]);
    return all(at);
  };
}

}  // namespace

std::string Emitter::name_of_scan(int v) const { return fmt::format("{}: scan {}", program_.name, v); }

/// How many steps a scan has.
std::string Emitter::steps(int v) const {
  const Node& node = scan_at(v);
  return length_of(block_.type(node.args[index(node.attributes.carry)]).axes[0]);
}

/// The token of step n.
std::string Emitter::token(int v) const {
  return scan_at(v).attributes.reverse ? fmt::format("const int t = {} - 1 - n; (void)t;", steps(v))
                                       : "const int t = n; (void)t;";
}

bool Emitter::is_replayed(int v) const {
  for (const auto& [get, from] : replayed_)
    if (from.scan == v) return true;
  return false;
}

/// The array in which a scan keeps a state; the first index says which one.
Place Emitter::kept(int v, const Step& step, int state) const {
  std::vector<Dim> axes{Dim{}};
  for (const Dim& dim : step.scope().axes(state)) axes.push_back(dim);
  return dense(fmt::format("check{}_{}", v, state), std::move(axes));
}

void Emitter::scan(int v) {
  const Node& node = scan_at(v);
  Shared shared;
  Step step(v, top_, name_of_scan(v), fmt::format("x{}_", v), shared);
  std::vector<int> wanted = step.next_states();
  std::vector<Row> rows;
  std::map<int, Place> finals;
  for (const int get : need_) {
    const Node* of = block_.node(get);
    if (of == nullptr || of->op != Op::get || of->args[0] != v || replayed_.contains(get)) continue;
    const int i = of->attributes.i;
    top_.put(get, storage(get));
    if (i < step.carry()) {
      finals[i] = top_.place(get);
      continue;
    }
    wanted.push_back(node.attributes.body->results[index(i)]);
    rows.push_back({wanted.back(), [to = top_.place(get)](const Indices& at) { return to(with_first("t", at)); }});
  }
  step.plan(wanted, free_);
  std::vector<Again> agains = agains_of(v, step, shared);
  step.declare_states();
  for (int j = 0; j < step.carry(); ++j)
    step.over_state(j, [&](const Indices& at) {
      return fmt::format("{} = {};", step.scope().place(j)(at), top_.written(node.args[index(j)], at));
    });
  step.expect_others();
  if (agains.empty())
    loop(v, step, rows);
  else
    loop_back(v, step, rows, agains);
  for (const auto& [j, to] : finals)
    step.over_state(j, [&, j = j, &to = to](const Indices& at) {
      return fmt::format("{}{} = {};", at.empty() ? "ONCE " : "", to(at), step.scope().place(j)(at));
    });
  line("{");
  std::string at = "shared", count = "0";
  for (const auto& [name, length] : shared.vectors) {
    line(fmt::format("double* const {} = {};", name, at));
    at = name + " + " + length, count += " + " + length;
  }
  line(fmt::format("double* const stage = {};\n(void)stage;", at));
  shared_.push_back(fmt::format("{} + {} * stage_lines * (lanes + 1)", count, shared.stages));
  for (const Dim& dim : shared.columns) add_once(columns_, dim);
  for (std::string& one : step.take_lines()) line(std::move(one));
  line("MEET;");
  line("}");
}

/// Says how many tokens go side by side.
void Emitter::find_tokens(int v) {
  const Block& step = *tiles_.at(v);
  std::string text = fmt::format("long largest{} = 1;\n", v);
  std::set<std::string> known;
  for (int u = 0; u < values_of(step); ++u) {
    const std::vector<Dim>& axes = step.type(u).axes;
    if (axes.empty() || axes[0].name != tokens_of_tile) continue;
    const std::string count = count_of({axes.begin() + 1, axes.end()});
    if (known.insert(count).second)
      text += fmt::format("largest{0} = largest{0} < {1} ? {1} : largest{0};\n", v, count);
  }
  tokens_of_tiles_.push_back(
      text + fmt::format("const int tokens{0} = tokens_in_tile(largest{0}, {1}, {2});\n(void)tokens{0};", v,
                         most_numbers_of_tile, most_tokens_of_tile));
}

/// Tiles of tokens one after the other, their values node by node; states in the place of the last ones.
void Emitter::scan_in_tiles(int v) {
  const Node& node = scan_at(v);
  const Block& step = *tiles_.at(v);
  const int carry = node.attributes.carry, own = carry + node.attributes.xs;
  Scope scope(step, name_of_scan(v), v + 1);
  Nodes nodes(scope, lines_, /*in_tiles=*/true, [this, v](int of, const std::vector<Dim>& axes) {
    return buffer_of_tile(fmt::format("factors{}_{}", v, of), v, axes);
  });
  std::vector<int> wanted;
  std::vector<Row> rows;
  for (const int get : need_) {
    const Node* of = block_.node(get);
    if (of == nullptr || of->op != Op::get || of->args[0] != v) continue;
    const int i = of->attributes.i;
    const Place to = storage(get);
    top_.put(get, to);
    wanted.push_back(step.results[index(i)]);
    if (i >= carry) {
      rows.push_back({wanted.back(), to});
      continue;
    }
    scope.put(i, to);
    nodes_.copy(top_.axes(get), to, [&](const Indices& at) { return top_.written(node.args[index(i)], at); });
  }
  for (int p = carry; p < static_cast<int>(node.args.size()); ++p) {
    const Place all = [this, of = node.args[index(p)]](const Indices& at) { return top_.written(of, at); };
    scope.put(p, p < own ? rows_of_tile(all) : all);
  }
  find_tokens(v);
  line(fmt::format("for (int first = 0; first < {0}; first += tokens{1}) {{", steps(v), v));
  line(fmt::format("const int {} = least(tokens{}, {} - first);", length_of({tokens_of_tile, 0}), v, steps(v)));
  line(scope.declared_keys("(unsigned)first"));
  const std::vector<int> need = scope.needed(wanted);
  nodes.find_seen(need);
  std::map<int, int> state_of;  // values that are states on their way
  for (int j = 0; j < carry; ++j) state_of[j] = j;
  for (const int u : need) {
    const Node* const made = step.node(u);
    if (made == nullptr || scope.is_text(u) || scope.is_inside(u)) continue;
    for (const int a : made->args)
      if (state_of.contains(a)) state_of[u] = state_of.at(a);
    const bool is_state = state_of.contains(u);
    const Place to =
        is_state ? scope.place(state_of.at(u))
                 : where_it_varies(scope, u, buffer_of_tile(fmt::format("tile{}_{}", v, u), v, scope.varying(u)));
    nodes.compute(u, to, is_state);
    scope.put(u, to);
  }
  for (const Row& row : rows)
    nodes.copy(scope.axes(row.value), rows_of_tile(row.to),
               [&](const Indices& at) { return scope.written(row.value, at); });
  line("}");
}

/// A part of the workspace for an array of as many tokens as go side by side.
std::string Emitter::buffer_of_tile(std::string name, int v, std::vector<Dim> axes) {
  std::erase_if(axes, [](const Dim& dim) { return dim.name == tokens_of_tile; });
  return buffer(std::move(name), fmt::format("{} * tokens{}", count_of(axes), v));
}

/// The scans whose states this one reads back; their states of a segment have a place.
std::vector<Emitter::Again> Emitter::agains_of(int v, Step& step, Shared& shared) {
  std::vector<Again> agains;
  const Node& node = scan_at(v);
  for (int p = step.carry(); p < step.carry() + node.attributes.xs; ++p) {
    const auto found = replayed_.find(node.args[index(p)]);
    if (found == replayed_.end()) continue;
    const int from = found->second.scan, state = found->second.state;
    auto again = std::find_if(agains.begin(), agains.end(), [from](const Again& one) { return one.scan == from; });
    if (again == agains.end()) {
      agains.push_back(
          {from, std::make_unique<Step>(from, top_, name_of_scan(from), fmt::format("y{}_{}_", v, from), shared), {}});
      again = agains.end() - 1;
      again->step->plan(again->step->next_states(), free_);
    }
    std::vector<Dim> axes{Dim{}};
    for (const Dim& dim : again->step->scope().axes(state)) axes.push_back(dim);
    const std::string name = fmt::format("segment{}_{}_{}", v, from, state);
    if (!again->states.contains(state))
      again->states[state] =
          dense(buffer(name, count_of(again->step->scope().axes(state)) + " * launch.segment"), std::move(axes));
    step.scope().put(p,
                     [of = again->states.at(state)](const Indices& at) { return of(with_first("(n - begin)", at)); });
  }
  return agains;
}

/// Every so many steps.
void Emitter::keep_states(int v, Step& step) {
  step.line("if (n % launch.segment == 0) {");
  for (int j = 0; j < step.carry(); ++j) {
    const Place to = kept(v, step, j);
    buffer(fmt::format("check{}_{}", v, j),
           fmt::format("(({} + launch.segment - 1) / launch.segment) * {}", steps(v), count_of(step.scope().axes(j))));
    step.over_state(j, [&](const Indices& at) {
      return fmt::format("{}{} = {};", at.empty() ? "ONCE " : "", to(with_first("(n / launch.segment)", at)),
                         step.scope().place(j)(at));
    });
  }
  step.line("}");
}

void Emitter::body(Step& step, const std::vector<Row>& rows) {
  for (const Row& row : rows)
    if (step.is_of_states(row.value)) step.store(row.value, row.to);
  step.compute();
  for (const Row& row : rows)
    if (!step.is_of_states(row.value)) step.store(row.value, row.to);
  step.advance();
}

void Emitter::loop(int v, Step& step, const std::vector<Row>& rows) {
  step.line(fmt::format("for (int n = 0; n < {}; ++n) {{", steps(v)));
  step.line(token(v));
  if (is_replayed(v)) keep_states(v, step);
  body(step, rows);
  step.line("}");
}

/// Segment by segment from the end: other scans' states from those that they keep, then the steps.
void Emitter::loop_back(int v, Step& step, const std::vector<Row>& rows, std::vector<Again>& agains) {
  if (is_replayed(v))
    top_.refuse(v, "reads states back and has others that are read back, and no text is emitted for that yet");
  step.line(
      fmt::format("for (int begin = ({} - 1) / launch.segment * launch.segment; begin >= 0; "
                  "begin -= launch.segment) {{",
                  steps(v)));
  step.line(fmt::format("const int end = begin + launch.segment < {0} ? begin + launch.segment : {0};", steps(v)));
  for (Again& again : agains) {
    compute_segment(again);
    for (std::string& one : again.step->take_lines()) step.line(std::move(one));
  }
  step.expect_others();
  step.meet();
  step.line("for (int n = end - 1; n >= begin; --n) {");
  step.line(token(agains.front().scan));
  step.expect_others();
  body(step, rows);
  step.line("}");
  step.line("}");
}

/// States before every step of a segment, by that step again.
void Emitter::compute_segment(Again& again) {
  Step& step = *again.step;
  step.line("{");
  step.declare_states();
  for (int j = 0; j < step.carry(); ++j)
    step.over_state(j, [&](const Indices& at) {
      return fmt::format("{} = {};", step.scope().place(j)(at),
                         kept(again.scan, step, j)(with_first("(begin / launch.segment)", at)));
    });
  step.line("for (int n = begin; n < end; ++n) {");
  step.line(token(again.scan));
  for (const auto& [state, to] : again.states)
    step.over_state(state, [&, state = state, &to = to](const Indices& at) {
      return fmt::format("{} = {};", to(with_first("(n - begin)", at)), step.scope().place(state)(at));
    });
  step.line("if (n + 1 == end) break;");
  step.expect_others();
  step.compute();
  step.advance();
  step.line("}");
  step.line("}");
}

}  // namespace assay::language::device
