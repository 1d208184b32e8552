// The statements of a step.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "language/emit/step.hpp"

namespace assay::language::device {

void Step::meet() {
  if (is_dirty_) line("MEET;");
  is_dirty_ = false;
}

/// Whether the text of v reads an element at an index of its own: one that another thread may have written.
bool Step::takes_elements(int v) const {
  const Node* node = scope_.block().node(v);
  if (node == nullptr || work(v) != Work::text) return false;
  return node->op == Op::index || reads_elements(v);
}

bool Step::reads_elements(int v) const {
  return std::ranges::any_of(scope_.read_by(v), [this](int a) { return takes_elements(a); });
}

/// The indices of a value where those of axes are known.
Indices Step::indices(int v, const Names& names) const {
  Indices at;
  for (const Dim& dim : scope_.axes(v)) {
    const auto found = std::find_if(names.begin(), names.end(), [&](const auto& known) { return known.first == dim; });
    at.push_back(found != names.end() ? found->second : "0");  // elsewhere elements only repeat
  }
  return at;
}

Letters Step::letters(const Sum& sum, const Names& names) {
  Letters at;
  for (const auto& [letter, axis] : sum.axes) {
    at[letter] = "0";
    for (const auto& [dim, text] : names)
      if (dim == axis) at[letter] = text;
  }
  return at;
}

Place Step::vector_place(int v, std::string base) const {
  const std::vector<char>& varies = scope_.varies(v);
  const auto axis = static_cast<std::size_t>(std::find(varies.begin(), varies.end(), 1) - varies.begin());
  return [base = std::move(base), axis](const Indices& at) { return fmt::format("{}[{}]", base, at[axis]); };
}

Place Step::matrix_place(int v, std::string base) const {
  std::size_t row = 0, column = 0;
  for (std::size_t i = 0; i < scope_.axes(v).size(); ++i)
    if (scope_.varies(v)[i] != 0) (scope_.axes(v)[i] == *column_ ? column : row) = i;
  return [base = std::move(base), length = columns(), row, column](const Indices& at) {
    return fmt::format("TILE({}, {}, {}, {})", base, at[row], at[column], length);
  };
}

void Step::add_vector(int v, const Dim& axis) { shared_.vectors.emplace_back(name(v), length_of(axis)); }

/// A vector that was just stored, as every contraction reads it: once, not once for each row or column.
void Step::add_reads(int v) {
  if (scope_.axes(v).size() != 1) return;
  const std::string length = length_of(scope_.axes(v)[0]);
  std::set<std::string> known;
  for (const int u : need_) {
    const std::optional<int> c = scope_.contraction_of(u);
    for (const int operand : {0, 1}) {
      if (!c || scope_.block().node(*c)->args[index(operand)] != v) continue;
      const int part = scope_.part_of(*c, operand);
      const std::string copy = fmt::format("{}_{}_{}", name(v), *c, part);
      if (!known.insert(copy).second) continue;
      shared_.vectors.emplace_back(copy, length);
      line(fmt::format("EACH(i, {}) {}[i] = {};", length, copy, scope_.read(*c, operand, {"i"})));
      scope_.put_read(*c, part, vector_place(v, copy));
      is_dirty_ = true;
    }
  }
}

void Step::declare_states() {
  for (int j = 0; j < carry(); ++j) {
    const std::vector<Dim>& axes = scope_.axes(j);
    if (axes.empty()) {
      line(fmt::format("double {} = 0;", name(j)));
      scope_.put(j, [own = name(j)](const Indices&) { return own; });
    } else if (axes.size() == 1) {
      add_vector(j, axes[0]);
      scope_.put(j, vector_place(j, name(j)));
    } else {
      if (axes.size() > 2 || !column_ || !is_among(axes, *column_))
        scope_.refuse(j, "is a state that is no matrix of columns, and no text is emitted for that yet");
      line(fmt::format("PRIVATE({}, {}, {});", name(j), length_of(row_of(axes)), columns()));
      scope_.put(j, matrix_place(j, name(j)));
    }
  }
}

void Step::over_state(int state, const std::function<std::string(const Indices&)>& statement) {
  const std::vector<Dim>& axes = scope_.axes(state);
  if (axes.empty()) return line(statement({}));
  if (axes.size() == 1) {
    line(fmt::format("EACH(i, {}) {}", length_of(axes[0]), statement({"i"})));
    is_dirty_ = true;
    return;
  }
  const Dim& row = row_of(axes);
  line(fmt::format("FOR_TILE(r, {}, c, {}) {}", length_of(row), columns(),
                   statement(indices(state, {{row, "r"}, {*column_, "c"}}))));
}

void Step::compute() {
  line(scope_.declared_keys("(unsigned)t"));
  for (const int v : need_)
    if (work(v) == Work::param && v >= carry()) load(v);
  int top = 0;
  for (const int v : need_) top = std::max(top, level_.at(v));
  for (const int v : kept_)
    line(fmt::format("PRIVATE({}, {}, {});", name(v), length_of(row_of(scope_.varying(v))), columns()));
  for (int level = 0; level <= top; ++level) {
    std::vector<int> here;
    std::copy_if(need_.begin(), need_.end(), std::back_inserter(here), [&](int v) { return level_.at(v) == level; });
    std::vector<Dim> rows;
    for (const int v : here) {
      if (work(v) == Work::plain || work(v) == Work::sum) compute_plain(v);
      if (is_in_pass(v)) add_once(rows, row_of(axes_of_work(v)));
    }
    for (const Dim& row : rows) {
      std::vector<int> values;
      for (const int v : need_)
        if (is_in_pass(v) && row_of(axes_of_work(v)) == row && (level_.at(v) == level || is_made_again(v, level)))
          values.push_back(v);
      compute_pass(row, values);
    }
  }
}

/// Loads a value that the step reads besides its states.
void Step::load(int v) {
  if (scope_.has_place(v)) return;  // it is put somewhere already, for all steps
  const int from = scan_.args[index(v)];
  const bool is_row = v < carry() + scan_.attributes.xs;
  const Place outer = [this, from, is_row](const Indices& at) {
    return outer_.written(from, is_row ? with_first("t", at) : at);
  };
  const std::vector<Dim>& axes = scope_.axes(v);
  if (!scope_.is_real(v) || axes.size() > 1) return scope_.put(v, outer);
  if (axes.empty()) {
    line(fmt::format("const double {} = {};", name(v), outer({})));
    return scope_.put(v, [own = name(v)](const Indices&) { return own; });
  }
  add_vector(v, axes[0]);
  line(fmt::format("EACH(i, {}) {}[i] = {};", length_of(axes[0]), name(v), outer({"i"})));
  scope_.put(v, vector_place(v, name(v)));
  is_dirty_ = true;
  add_reads(v);
}

/// A number or a vector that is no sum over a matrix.
void Step::compute_plain(int v) {
  const auto found = sums_.find(v);
  const Sum* sum = work(v) == Work::sum ? &found->second : nullptr;
  if (sum != nullptr || reads_elements(v)) meet();
  const std::vector<Dim> axes = scope_.varying(v);
  Names names;
  if (!axes.empty()) names.emplace_back(axes[0], "i");
  const Indices at = indices(v, names);
  if (axes.empty() && sum != nullptr)
    return put_number(v, fmt::format("sum = {}; {}", scope_.start(*sum, letters(*sum, names), at),
                                     scope_.chain(*sum, letters(*sum, names), "sum")));
  if (axes.empty()) {
    line(fmt::format("const double {} = {};", name(v), scope_.formula(v, at)));
    return scope_.put(v, [own = name(v)](const Indices&) { return own; });
  }
  add_vector(v, axes[0]);
  const std::string each = fmt::format("EACH(i, {})", length_of(axes[0]));
  if (sum == nullptr)
    line(fmt::format("{} {}[i] = {};", each, name(v), scope_.formula(v, at)));
  else
    line(fmt::format("{} {{ double sum = {}; {} {}[i] = sum; }}", each, scope_.start(*sum, letters(*sum, names), at),
                     scope_.chain(*sum, letters(*sum, names), "sum"), name(v)));
  scope_.put(v, vector_place(v, name(v)));
  is_dirty_ = true;
  add_reads(v);
}

/// A number that one thread makes as `sum` for all.
void Step::put_number(int v, const std::string& statements) {
  meet();  // others may still read the last one there
  line(fmt::format("ONCE {{ double sum; {} *stage = sum; }}", statements));
  line(fmt::format("MEET;\nconst double {} = *stage;", name(v)));
  scope_.put(v, [own = name(v)](const Indices&) { return own; });
  is_dirty_ = true;  // nobody may write there until all have read it
}

/// A pass over rows: matrices and terms of sums, some rows of every group at a time, then the sums of these.
void Step::compute_pass(const Dim& row, const std::vector<int>& values) {
  meet();
  const Names names{{row, "r"}, {*column_, "c"}};
  std::vector<int> by_rows, by_columns;
  std::vector<std::string> at_the_end;
  line(fmt::format("for (int first = 0; first == 0 || first < {}; first += stage_lines) {{", length_of(row)));
  for (const int v : values)
    if (work(v) == Work::by_rows) line(fmt::format("TERMS(term{}, {});", v, columns()));
  line(fmt::format("FOR_STAGE(j, line, r, first, {}) EACH_COLUMN(c, {}) {{", length_of(row), columns()));
  for (const int v : values) {
    const std::string put = fmt::format(", r, c, {}) = t{};", columns(), v);
    if (is_late(v)) {
      const bool is_of_rows = work(v) == Work::by_rows;
      std::vector<int>& list = is_of_rows ? by_rows : by_columns;
      line(fmt::format("{} = {};",
                       is_of_rows ? fmt::format("TERM(term{}, j, c, {})", v, columns())
                                  : fmt::format("STAGE({}, line, {})[c]", list.size(), columns()),
                       scope_.term(sums_.at(v), letters(sums_.at(v), names))));
      list.push_back(v);
      continue;
    }
    line(fmt::format("const double t{} = {};", v, scope_.formula(v, indices(v, names))));
    if (kept_.contains(v)) line("TILE(" + name(v) + put);
    if (in_place_.contains(v)) at_the_end.push_back("TILE(" + name(in_place_.at(v)) + put);
    scope_.put(v, [local = fmt::format("t{}", v)](const Indices&) { return local; });
  }
  for (std::string& statement : at_the_end) line(std::move(statement));
  line("}");
  for (const int v : values) {
    if (is_late(v)) continue;
    scope_.forget(v);
    if (kept_.contains(v)) scope_.put(v, matrix_place(v, name(v)));
    if (in_place_.contains(v)) scope_.put(v, matrix_place(v, name(in_place_.at(v))));
  }
  if (!by_rows.empty()) add_rows(row, by_rows);
  if (!by_columns.empty()) add_columns(row, by_columns);
  line("}");
  if (!by_rows.empty() && by_columns.empty()) line("MEET;");
  for (const int v : by_rows) scope_.put(v, vector_place(v, name(v))), add_reads(v);
  for (const int v : by_columns)
    if (work(v) == Work::by_columns) add_reads(v);
  for (const int v : by_columns) {
    const Sum& sum = sums_.at(v);
    if (work(v) == Work::to_number)
      put_number(v, fmt::format("sum = {}; for (int r = 0; r < {}; ++r) sum = {};",
                                scope_.start(sum, letters(sum, {}), indices(v, {})), length_of(row),
                                scope_.with_dot(sum, letters(sum, {{row, "r"}}), "sum", name(v) + "_rows[r]")));
  }
}

/// Sums over rows: a thread a column, and groups in turn, since their rows follow each other.
void Step::add_rows(const Dim& row, const std::vector<int>& sums) {
  const Names names{{row, "r"}, {*column_, "c"}};
  std::string begin, rows, end;
  for (const int v : sums) {
    const Sum& sum = sums_.at(v);
    const Letters at = letters(sum, names);
    const std::string own = fmt::format("sum{}", v), term = fmt::format("TERM(term{}, j, c, {})", v, columns()),
                      start = sum.start >= 0 ? scope_.written(sum.start, indices(sum.start, names)) : "0.0";
    add_vector(v, *column_);
    if (!sum.is_dots) {
      begin += fmt::format("double {} = is_first ? {} : {}[c];\n", own, start, name(v));
      rows += fmt::format("{} = {}{};\n", own, sum.is_plain ? fmt::format("r == 0 ? {} : ", term) : "",
                          scope_.added(sum, at, own, term));
      end += fmt::format("{}[c] = {};\n", name(v), own);
      continue;
    }
    const std::string moments = fmt::format("moments{}", v), kept = name(v) + "_moments";
    shared_.vectors.emplace_back(kept, "16 * " + columns());
    begin += fmt::format("Moments {} = {{}};\nif (!is_first) {} = kept_moments({}, c, {});\n", moments, moments, kept,
                         columns());
    rows += fmt::format("add_term({}, r, {});\n", moments, term);
    end += fmt::format("keep_moments({}, c, {}, {});\n{}[c] = {};\n", kept, columns(), moments, name(v),
                       scope_.with_dot(sum, at, start, scope_.dot(sum, at, moments)));
  }
  line(fmt::format("IN_TURN(first, {}) EACH_COLUMN(c, {}) {{", length_of(row), columns()));
  line(fmt::format("const bool is_first = first == 0 && group == 0;\n(void)is_first;\n{}", begin));
  line(fmt::format("FOR_STAGE(j, line, r, first, {}) {{\n{}}}\n{}}}", length_of(row), rows, end));
}

/// Sums over columns, which have put their terms on the stage: some threads a row.
void Step::add_columns(const Dim& row, const std::vector<int>& sums) {
  shared_.stages = std::max(shared_.stages, static_cast<int>(sums.size()));
  line("MEET;");
  std::map<int, std::size_t> by;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const int v = sums[i];
    const Sum& sum = sums_.at(v);
    by[v] = by.contains(sum.start) ? by.at(sum.start) : i;  // who made it goes on with it
    const Letters at = letters(sum, {{row, "r"}, {*column_, "c"}});
    const bool is_number = work(v) == Work::to_number;
    const std::string rows = length_of(row), to = name(v) + (is_number ? "_rows" : "");
    shared_.vectors.emplace_back(to, rows);
    if (!is_number) scope_.put(v, vector_place(v, to));
    const std::string start = sum.start >= 0 ? scope_.written(sum.start, indices(sum.start, {{row, "r"}}))
                              : sum.is_plain ? fmt::format("({} > 0 ? *at : 0.0)", columns())
                                             : "0.0";
    line(fmt::format("EACH_FROM({} * groups * lanes / {}, i, stage_lines * threads_a_line) {{", by.at(v), sums.size()));
    line("const int line = i / threads_a_line, r = first + line;");
    line(fmt::format("const double* const at = STAGE({}, line, {});", i, columns()));
    if (sum.is_dots) {
      const std::string dot = scope_.dot(sum, at, "moments");
      line(fmt::format("const Moments moments = moments_of(at, {});", columns()));
      line(
          fmt::format("if (r < {}) {}[r] = {};\n}}", rows, to, is_number ? dot : scope_.with_dot(sum, at, start, dot)));
      continue;
    }
    line(fmt::format("if (i % threads_a_line == 0 && r < {}) {{\ndouble sum = {};", rows, start));
    line(fmt::format("for (int c = {}; c < {}; ++c) sum = {};", sum.is_plain ? 1 : 0, columns(),
                     scope_.added(sum, at, "sum", "at[c]")));
    line(fmt::format("{}[r] = sum;\n}}\n}}", to));
  }
  line("MEET;");
}

void Step::store(int v, const Place& to) {
  const std::vector<Dim>& axes = scope_.axes(v);
  if (!scope_.is_real(v)) scope_.refuse(v, "is a row that is no real number, and no text is emitted for that yet");
  if (takes_elements(v) || axes.size() > 1) meet();
  if (axes.empty()) return line(fmt::format("ONCE {} = {};", to({}), scope_.written(v, {})));
  if (axes.size() == 1)
    return line(fmt::format("EACH(i, {}) {} = {};", length_of(axes[0]), to({"i"}), scope_.written(v, {"i"})));
  if (axes.size() == 2 && column_ && is_among(axes, *column_) && axes[0] != axes[1]) {
    const Dim& row = row_of(axes);
    const Indices at = indices(v, {{row, "r"}, {*column_, "c"}});
    return line(
        fmt::format("FOR_TILE(r, {}, c, {}) {} = {};", length_of(row), columns(), to(at), scope_.written(v, at)));
  }
  if (axes.size() > 2 || scope_.varying(v).size() > 1)
    scope_.refuse(v, "is a row that is no matrix of columns, and no text is emitted for that yet");
  line(fmt::format("EACH(i, {}) for (int j = 0; j < {}; ++j) {} = {};", length_of(axes[0]), length_of(axes[1]),
                   to({"i", "j"}), scope_.written(v, {"i", "j"})));
}

void Step::advance() {
  const std::vector<int> next = next_states();
  bool has_vectors = false;
  for (int j = 0; j < carry(); ++j) has_vectors = has_vectors || scope_.axes(j).size() == 1;
  if (has_vectors) line("MEET;");  // others may still read them
  for (int j = 0; j < carry(); ++j) {
    const int v = next[index(j)], root = scope_.looked_at(v);
    const auto place = in_place_.find(root);
    if (v == j || (place != in_place_.end() && place->second == j)) continue;
    for (const int of : stored_under(v))
      if (of != j && of < carry())
        scope_.refuse(v, "is one state and becomes another, and no text is emitted for that yet");
    if (takes_elements(v) || (scope_.axes(j).size() == 2 && scope_.varying(v).size() < 2)) meet();
    over_state(j,
               [&](const Indices& at) { return fmt::format("{} = {};", scope_.place(j)(at), scope_.written(v, at)); });
  }
  line("MEET;");
  is_dirty_ = false;
}

}  // namespace assay::language::device
