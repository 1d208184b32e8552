#pragma once
// A healthy kernel as launchers and callers see it: arrays by head and token, called on a changed problem, on pieces of
// it, or with its answer changed. Held-out mutants are made of these.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/problem.hpp"

namespace assay::held_out {

using Edit = std::function<void(Problem&)>;
using Names = std::vector<std::string_view>;

/// One call. Arrays have a head axis, [heads], [heads][tokens] or [heads][tokens][...], as generated cases do.
struct Call {
  const Room& room;
  const KernelForm& form;
  const Problem& problem;
  const Policy& policy;
  int tile;

  /// The kernel's answer to another problem. Throws InputError if it cannot run that one; so do all functions here
  /// where there is no such head or row: then a fault shows nothing.
  Answer run(const Problem& changed) const;
  Answer healthy() const { return run(problem); }
  /// The kernel's answer to this problem changed.
  Answer with(const Edit& edit) const;
  /// Outputs of this problem, gradients of the changed one: `taken` of them, or all.
  Answer backward_with(const Edit& edit, const Names& taken = {}) const;

  int tokens() const;
  /// Heads that share a key: 1 where none are shared.
  int group() const;
  bool has_input(std::string_view name) const;
  /// Whether the array of that name, an input's, an output's or a gradient's, has a row for every token.
  bool by_token(std::string_view name) const;
  /// The inputs that the heads of a group share.
  std::vector<std::string> shared_inputs() const;
};

using Values = std::span<double>;

Values head_of(Array& array, int head);
/// The numbers of one row: of arrays [heads][rows][...].
Values row_of(Array& array, int head, int row);
int row_count(const Array& array);
/// Calls f(head, row, its numbers) for all.
void each_row(Array& array, const std::function<void(int, int, Values)>& f);

/// Every number rounded to `format`.
void store_in(Array& array, Format format);
void fill(Array& array, double x);
void multiply(Array& array, double factor);
/// Every head has what the next one should have, the last that of the first.
void rotate_heads(Array& array);
/// Every row has what the row before should have; the first keeps its own.
void shift_rows(Array& array);
/// Memory [heads][m][n] read as if it were [heads][n][m].
void read_transposed(Array& array);
/// Rows [first, last) of every head.
Array rows_between(const Array& array, int first, int last);
/// The rows of both, head by head.
Array rows_joined(const Array& a, const Array& b);

/// f(array) of those of the names that there are.
void edit(Arrays& arrays, const Names& names, const std::function<void(Array&)>& f);

/// A parameter that is a number of the equations; it is there.
double number(const Problem& problem, std::string_view name);
void set_number(Problem& problem, std::string_view name, double x);

/// An error between two calls of one sequence, the second of which continues the first.
struct Seam {
  /// The problem of the second call, with what it was handed.
  std::function<void(const Call&, Problem&)> carried = [](const Call&, Problem&) {};
  /// The cotangents of the first call, with the gradients of what it handed on.
  std::function<void(Arrays&)> returned = [](Arrays&) {};
  int repeated = 0;  ///< tokens before the seam that the second call sees again
};
/// Whether a sequence can be continued: the state is all that is carried.
bool continues(const Call& call);
/// Two calls in place of one, the seam where the second tile of 16 ends, or in the middle of shorter sequences.
Answer in_two_calls(const Call& call, const Seam& seam);
/// The second call's first token.
int seam_of(const Call& call);
/// Tokens [first, last) as a problem of their own: those of a continuation are handed nothing yet.
Problem segment(const Call& call, int first, int last);

}  // namespace assay::held_out
