// Planning of a step: where and when each value is computed.
#include "language/emit/step.hpp"

#include <algorithm>

namespace assay::language::device {

Step::Step(int v, const Scope& outer, std::string where, std::string name, Shared& shared)
    : scan_(*outer.block().node(v)),
      outer_(outer),
      scope_(*scan_.attributes.body, std::move(where), v + 1),
      name_(std::move(name)),
      shared_(shared) {}

std::vector<int> Step::next_states() const {
  const std::vector<int>& results = scope_.block().results;
  return {results.begin(), results.begin() + carry()};
}

void Step::plan(const std::vector<int>& values, const std::vector<Dim>& tokens) {
  need_ = scope_.needed(values);
  refuse_what_is_unknown(tokens);
  choose_columns();
  work_.clear();
  for (const int v : need_) work_[v] = work_of(v);
  find_readers(values);
  find_levels();
  find_kept();
}

bool Step::is_late(int v) const {
  return work(v) == Work::by_rows || work(v) == Work::by_columns || work(v) == Work::to_number;
}

/// Whether a pass over rows makes it.
bool Step::is_in_pass(int v) const { return is_late(v) || work(v) == Work::matrix; }

/// The axes that its computation runs over.
std::vector<Dim> Step::axes_of_work(int v) const {
  std::vector<Dim> axes = scope_.varying(v);
  if (const std::optional<Sum> sum = scope_.sum_of(v))
    for (const char letter : sum->gone) axes.push_back(sum->axes.at(letter));
  return axes;
}

const Dim& Step::row_of(const std::vector<Dim>& axes) const { return axes[0] == *column_ ? axes[1] : axes[0]; }

void Step::refuse_what_is_unknown(const std::vector<Dim>& tokens) const {
  for (const int v : need_) {
    const Node* node = scope_.block().node(v);
    if (node != nullptr &&
        any_of(node->op, {Op::scan, Op::get, Op::softmax, Op::logsumexp, Op::solve, Op::shift, Op::cumsum}))
      scope_.refuse(v, "no text is emitted for this operation in a step yet");
    if (scope_.is_text(v)) {
      const int of = node->args.empty() ? 0 : node->args[0];
      const bool is_row = of >= carry() && of < scope_.block().first();  // in the memory of all threads
      if (node->op == Op::index && scope_.varying(of).size() > 1 && !is_row)
        scope_.refuse(v, "no text is emitted for a row that a step takes out of a matrix yet");
      continue;
    }
    if (!scope_.is_real(v)) continue;
    const std::vector<Dim> axes = axes_of_work(v);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (std::count(axes.begin(), axes.end(), axes[i]) > 1)
        scope_.refuse(v, "runs over axis " + text_of(axes[i]) + " twice, and no text is emitted for that yet");
      if (is_among(tokens, axes[i]))
        scope_.refuse(v, "is as long as axis " + text_of(axes[i]) + ", and steps have no room for that yet");
    }
    if (axes.size() > 2) scope_.refuse(v, "runs over more than two axes, and no text is emitted for that yet");
  }
}

/// The axis that all matrices have; V, if there is a choice.
void Step::choose_columns() {
  column_.reset();
  std::vector<Dim> common;
  for (const bool of_results : {true, false}) {
    bool is_first = true;
    for (const int v : need_) {
      if (!scope_.is_real(v) || scope_.is_text(v)) continue;
      const std::vector<Dim> axes = axes_of_work(v);
      if (axes.size() < 2 || (of_results && scope_.varying(v).size() < 2)) continue;
      std::vector<Dim> still;
      for (const Dim& dim : axes)
        if (is_first || is_among(common, dim)) still.push_back(dim);
      if (still.empty()) scope_.refuse(v, "shares no axis with all other matrices of the step");
      common = std::move(still), is_first = false;
    }
    if (!is_first) break;
  }
  if (common.empty()) return;
  const auto named = std::find_if(common.begin(), common.end(), [](const Dim& dim) { return dim.name == "V"; });
  column_ = named != common.end() ? *named : common.back();
  add_once(shared_.columns, *column_);
}

Step::Work Step::work_of(int v) {
  if (v < scope_.block().first()) return Work::param;
  if (scope_.is_text(v) || !scope_.is_real(v)) return Work::text;
  std::optional<Sum> sum = scope_.sum_of(v);
  if (!sum) return scope_.varying(v).size() > 1 ? Work::matrix : Work::plain;
  const std::vector<Dim> axes = axes_of_work(v);
  const Sum& of = sums_.insert_or_assign(v, std::move(*sum)).first->second;
  if (axes.size() < 2 || !is_among(axes, *column_)) return Work::sum;
  const Dim& inner = of.axes.at(of.gone.back());
  if (of.gone.size() == 1) return inner == *column_ ? Work::by_columns : Work::by_rows;
  if (inner != *column_)
    scope_.refuse(v, "sums over columns outside, and over rows within them, and no text is emitted for that yet");
  return Work::to_number;
}

void Step::find_readers(const std::vector<int>& values) {
  readers_.clear(), last_.clear();
  std::map<int, std::vector<int>> direct;
  for (const int v : need_)
    for (const int a : scope_.read_by(v)) direct[a].push_back(v);
  for (auto v = need_.rbegin(); v != need_.rend(); ++v) {  // readers come after what they read
    std::vector<int>& list = readers_[*v];
    for (const int reader : direct[*v]) {
      if (work(reader) != Work::text) {
        list.push_back(reader);
        continue;
      }
      const std::vector<int>& through = readers_.at(reader);
      list.insert(list.end(), through.begin(), through.end());
    }
  }
  for (const int v : values) last_.merge(stored_under(v));
}

/// The stored values that the text of v reads.
std::set<int> Step::stored_under(int v) const {
  if (work(v) != Work::text) return {v};
  std::set<int> list;
  for (const int a : scope_.read_by(v)) list.merge(stored_under(a));
  return list;
}

/// Whether v is made of that sum only at its end, by the same threads.
bool Step::is_start_alone(int v, int of) const {
  if (work(v) != Work::by_columns || work(of) != Work::by_columns || sums_.at(v).start != of) return false;
  const std::vector<int> read = scope_.read_by(v);
  return std::ranges::count(read, of) == 1 && row_of(axes_of_work(v)) == row_of(axes_of_work(of));
}

/// Matrices are made as late as their readers let them.
void Step::find_levels() {
  level_.clear();
  for (const int v : need_) {
    int level = 0;
    for (const int a : scope_.read_by(v))
      level = std::max(level, level_.at(a) + (is_late(a) && !is_start_alone(v, a) ? 1 : 0));
    level_[v] = level;
  }
  for (auto v = need_.rbegin(); v != need_.rend(); ++v) {
    if (work(*v) != Work::matrix || readers_.at(*v).empty()) continue;
    int first = level_.at(readers_.at(*v)[0]);
    for (const int reader : readers_.at(*v)) first = std::min(first, level_.at(reader));
    level_[*v] = std::max(level_.at(*v), first);
  }
}

/// The levels whose passes read a value.
std::set<int> Step::levels_of_readers(int v) const {
  std::set<int> levels;
  for (const int reader : readers_.at(v)) {
    if (again_.contains(reader))
      levels.merge(levels_of_readers(reader));
    else
      levels.insert(level_.at(reader));
  }
  return levels;
}

bool Step::is_made_again(int v, int level) const { return again_.contains(v) && levels_of_readers(v).contains(level); }

/// Whether a matrix is made of one that is stored, and of numbers and vectors: reading it would cost as much.
bool Step::is_cheap(int v) const {
  const Node* node = scope_.block().node(v);
  if (!any_of(node->op, {Op::neg, Op::add, Op::sub, Op::mul}) || scope_.contraction_of(v)) return false;
  std::set<int> under;
  for (const int a : scope_.read_by(v)) under.merge(stored_under(a));
  std::erase_if(under, [&](int of) { return scope_.varying(of).size() < 2; });
  return under.size() == 1 && !again_.contains(*under.begin());
}

void Step::find_kept() {
  again_.clear(), kept_.clear(), in_place_.clear();
  std::vector<int> next;
  for (const int v : next_states()) next.push_back(scope_.looked_at(v));
  for (const int v : need_)
    if (work(v) == Work::matrix && !last_.contains(v) && levels_of_readers(v).size() > 1 && is_cheap(v))
      again_.insert(v);
  for (const int v : need_) {
    if (work(v) != Work::matrix || again_.contains(v)) continue;
    const int level = level_.at(v);
    const auto state = std::find(next.begin(), next.end(), v);
    const int j = static_cast<int>(state - next.begin());
    const auto is_read_behind = [&](int other) {
      return readers_.contains(other) &&
             std::ranges::any_of(levels_of_readers(other), [&](int l) { return l > level; });
    };
    if (std::count(next.begin(), next.end(), v) == 1 && scope_.axes(j).size() == 2 && !last_.contains(j) &&
        !is_read_behind(j))
      in_place_[v] = j;
    else if (last_.contains(v) || is_read_behind(v))
      kept_.insert(v);
  }
}

bool Step::is_of_states(int v) const {
  return std::ranges::all_of(stored_under(v), [&](int of) { return of < carry(); });
}

}  // namespace assay::language::device
