#pragma once
// The step of a scan as text. A value is a number, which every thread has; a vector, which threads share, an element
// each; or a matrix, of which a thread has some rows of a column. All matrices of a step have one axis in common, that
// of columns.
//
// Values are sorted in levels, and a sum over a matrix ends one. A level is: numbers and vectors; a pass over rows,
// some at a time, in which all matrices are made and sums grow: those over rows by a thread a column, those over
// columns by some threads a row, which find the terms in shared memory. So every sum runs in the evaluator's order.
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "language/emit/scope.hpp"
#include "language/program/lists.hpp"

namespace assay::language::device {

/// The contents of a scan's shared memory: names and lengths of vectors, and the axes of columns of its matrices.
struct Shared {
  std::vector<std::pair<std::string, std::string>> vectors;
  std::vector<Dim> columns;
  int stages = 1;  ///< sums over columns that have terms there at once, at most
};

class Step {
 public:
  /// The step of scan v in `outer`. `name` starts the names of its values. Keeps references to all of them.
  Step(int v, const Scope& outer, std::string where, std::string name, Shared& shared);

  Scope& scope() { return scope_; }
  const Scope& scope() const { return scope_; }
  int carry() const { return scan_.attributes.carry; }
  /// The next states, as values.
  std::vector<int> next_states() const;
  /// Decides where and when everything is computed that the values need. `tokens`: axes that are too long for vectors.
  void plan(const std::vector<int>& values, const std::vector<Dim>& tokens);

  // These add lines.
  void line(std::string text) { lines_.push_back(std::move(text)); }
  std::vector<std::string> take_lines() { return std::exchange(lines_, {}); }
  void declare_states();
  /// A statement for every element of a state.
  void over_state(int state, const std::function<std::string(const Indices&)>& statement);
  /// All that was planned.
  void compute();
  /// Puts the elements of a row where `to` says.
  void store(int v, const Place& to);
  /// The next states become states, and all threads meet.
  void advance();
  /// Whether a row is read before the states change: it is made of states alone.
  bool is_of_states(int v) const;
  /// Threads meet, unless nothing was written since they did.
  void meet();
  /// Other threads may have written the next operands.
  void expect_others() { is_dirty_ = true; }

 private:
  enum class Work { param, text, plain, sum, matrix, by_rows, by_columns, to_number };

  std::string name(int v) const { return name_ + std::to_string(v); }
  Work work(int v) const { return work_.at(v); }
  bool is_late(int v) const;
  bool is_in_pass(int v) const;
  bool is_made_again(int v, int level) const;
  std::vector<Dim> axes_of_work(int v) const;
  const Dim& row_of(const std::vector<Dim>& axes) const;
  std::string columns() const { return length_of(*column_); }
  void refuse_what_is_unknown(const std::vector<Dim>& tokens) const;
  void choose_columns();
  Work work_of(int v);
  void find_readers(const std::vector<int>& values);
  void find_levels();
  std::set<int> stored_under(int v) const;
  bool is_start_alone(int v, int of) const;
  std::set<int> levels_of_readers(int v) const;
  bool is_cheap(int v) const;
  void find_kept();

  bool takes_elements(int v) const;
  bool reads_elements(int v) const;
  using Names = std::vector<std::pair<Dim, std::string>>;
  Indices indices(int v, const Names& names) const;
  static Letters letters(const Sum& sum, const Names& names);
  Place vector_place(int v, std::string base) const;
  Place matrix_place(int v, std::string base) const;
  void add_vector(int v, const Dim& axis);
  void add_reads(int v);
  void load(int v);
  void compute_plain(int v);
  void compute_pass(const Dim& row, const std::vector<int>& values);
  void put_number(int v, const std::string& statements);
  void add_rows(const Dim& row, const std::vector<int>& sums);
  void add_columns(const Dim& row, const std::vector<int>& sums);

  const Node& scan_;
  const Scope& outer_;
  Scope scope_;
  std::string name_;
  Shared& shared_;
  std::optional<Dim> column_;
  std::vector<int> need_;
  std::map<int, Work> work_;
  std::map<int, Sum> sums_;
  std::map<int, int> level_;
  std::map<int, std::vector<int>> readers_;  ///< with what they read through texts
  std::set<int> last_;                       ///< what is read when all is computed
  std::set<int> again_;                      ///< matrices that are made in every pass that reads them
  std::set<int> kept_;                       ///< matrices that are read outside the pass that makes them
  std::map<int, int> in_place_;              ///< next states that are written over the state of that number
  std::vector<std::string> lines_;
  bool is_dirty_ = true;  ///< whether something is in shared memory that threads have not met about
};

}  // namespace assay::language::device
