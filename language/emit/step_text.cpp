// The statements of a step.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

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
  for (const int v : need_)
    for (std::string& key : scope_.keys_of(v, "(unsigned)t")) line(std::move(key));
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
      if (is_in_loop(v)) add_once(rows, row_of(axes_of_work(v)));
    }
    for (const Dim& row : rows) {
      std::vector<int> values;
      for (const int v : here)
        if (is_in_loop(v) && row_of(axes_of_work(v)) == row) values.push_back(v);
      compute_loop(row, values);
    }
    for (const int v : here)
      if (work(v) == Work::by_columns || work(v) == Work::to_number) compute_by_columns(v);
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
  if (axes.empty()) {
    line(fmt::format("{}double {} = {};", sum != nullptr ? "" : "const ", name(v),
                     sum != nullptr ? scope_.start(*sum, letters(*sum, names), at) : scope_.formula(v, at)));
    if (sum != nullptr) line(scope_.chain(*sum, letters(*sum, names), name(v)));
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
}

/// The loop over rows of a level: matrices, and sums over rows, a column a thread.
void Step::compute_loop(const Dim& row, const std::vector<int>& values) {
  meet();
  const Names names{{row, "r"}, {*column_, "c"}};
  for (const int v : values)
    if (work(v) == Work::by_rows) {
      const Sum& sum = sums_.at(v);
      line(fmt::format("OWN(sum{}, {}, c, {});", v, columns(),
                       sum.start >= 0 ? scope_.written(sum.start, indices(sum.start, names)) : "0.0"));
      if (sum.is_dots) line(fmt::format("OWN_MOMENTS(moments{}, {});", v, columns()));
    }
  line(fmt::format("FOR_TILE(r, {}, c, {}) {{", length_of(row), columns()));
  std::vector<std::string> at_the_end;
  for (const int v : values) {
    if (work(v) == Work::by_rows) {
      add_rows(v, names);
      continue;
    }
    line(fmt::format("const double t{} = {};", v, scope_.formula(v, indices(v, names))));
    const std::string put = fmt::format(", r, c, {}) = t{};", columns(), v);
    if (kept_.contains(v)) line("TILE(" + name(v) + put);
    if (in_place_.contains(v)) at_the_end.push_back("TILE(" + name(in_place_.at(v)) + put);
    scope_.put(v, [local = fmt::format("t{}", v)](const Indices&) { return local; });
  }
  for (std::string& statement : at_the_end) line(std::move(statement));
  line("}");
  for (const int v : values) {
    if (work(v) == Work::by_rows) {
      add_vector(v, *column_);
      std::string whole = fmt::format("sum{} OF(c)", v);
      if (const Sum& sum = sums_.at(v); sum.is_dots)
        whole = scope_.with_dot(sum, letters(sum, names), whole, fmt::format("moments{} OF(c)", v));
      line(fmt::format("EACH(c, {}) {}[c] = {};", columns(), name(v), whole));
      scope_.put(v, vector_place(v, name(v)));
      is_dirty_ = true;
      continue;
    }
    scope_.forget(v);
    if (kept_.contains(v)) scope_.put(v, matrix_place(v, name(v)));
    if (in_place_.contains(v)) scope_.put(v, matrix_place(v, name(in_place_.at(v))));
  }
}

/// The next term of a sum over rows.
void Step::add_rows(int v, const Names& names) {
  const Sum& sum = sums_.at(v);
  const Letters at = letters(sum, names);
  const std::string to = fmt::format("sum{} OF(c)", v), term = scope_.term(sum, at);
  if (sum.is_dots)
    line(fmt::format("add_term(moments{} OF(c), r, {});", v, term));
  else if (sum.is_plain)
    line(fmt::format("{0} = r == 0 ? {1} : {2};", to, term, scope_.added(sum, at, to, term)));
  else
    line(fmt::format("{} = {};", to, scope_.added(sum, at, to, term)));
}

/// The statements that add a row of the stage to `sum`.
std::string Step::sum_of_stage(const Sum& sum, const Names& names) const {
  const Letters at = letters(sum, names);
  const std::string term = fmt::format("stage[r * ({} + 1) + c]", columns());
  const std::string loop = fmt::format("for (int c = {}; c < {}; ++c)", sum.is_plain ? 1 : 0, columns());
  if (!sum.is_dots) return fmt::format("{} sum = {};", loop, scope_.added(sum, at, "sum", term));
  return fmt::format("Moments moments = {{}}; {} add_term(moments, c, {}); sum = {};", loop, term,
                     scope_.with_dot(sum, at, "sum", "moments"));
}

/// A sum over columns: terms go through shared memory, some rows at a time. A thread a row adds them up; of a number
/// every thread adds all.
void Step::compute_by_columns(int v) {
  meet();
  const Sum& sum = sums_.at(v);
  const bool is_number = work(v) == Work::to_number;
  const std::vector<Dim> axes = axes_of_work(v);
  const Dim& row = row_of(axes);
  const Names names{{row, "(first + r)"}, {*column_, "c"}};
  if (is_number)
    line(fmt::format("double {} = {};", name(v), scope_.start(sum, letters(sum, {}), indices(v, {}))));
  else
    add_vector(v, row);
  line(fmt::format("for (int first = 0; first < {}; first += stage_rows) {{", length_of(row)));
  line(fmt::format("const int rows = {0} - first < stage_rows ? {0} - first : stage_rows;", length_of(row)));
  line(fmt::format("FOR_TILE(r, rows, c, {0}) stage[r * ({0} + 1) + c] = {1};", columns(),
                   scope_.term(sum, letters(sum, names))));
  line("MEET;");
  if (is_number) {
    line(fmt::format("for (int r = 0; r < rows; ++r) {{ double sum = {0}; {1} {0} = sum; }}", name(v),
                     sum_of_stage(sum, names)));
    scope_.put(v, [own = name(v)](const Indices&) { return own; });
  } else {
    const std::string start = sum.is_plain    ? fmt::format("stage[r * ({} + 1)]", columns())
                              : sum.start < 0 ? "0.0"
                                              : scope_.written(sum.start, indices(sum.start, names));
    line(fmt::format("EACH(r, rows) {{ double sum = {}; {} {}[first + r] = sum; }}", start, sum_of_stage(sum, names),
                     name(v)));
    scope_.put(v, vector_place(v, name(v)));
  }
  line("MEET; }");
  is_dirty_ = false;
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
