#pragma once
// Problems and answers in 100 digits, for identities whose two sides no double could hold: exp(g) k as a key, say.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/core/room.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/core/error.hpp"
#include "reference/core/problem.hpp"

namespace assay::laws {

using ExactArray = BasicArray<Mp100>;
using ExactArrays = BasicArrays<Mp100>;
using ExactProblem = BasicProblem<Mp100>;
using ExactAnswer = BasicAnswer<Mp100>;
using ExactMatrix = Tensor<Mp100, 2>;

ExactProblem exact(const Problem& problem);

/// What the room answers, in 100 digits.
ExactAnswer answer(const Room& room, const ExactProblem& problem);

ExactAnswer answer(std::string_view room, const ExactProblem& problem);

/// "" if `got` is `want` but for the last twenty of 100 digits of the tensor's largest number: what a few dozen steps
/// that lose a digit now and then leave.
std::string same(std::string_view name, const ExactArray& got, const ExactArray& want);

/// The first of `names` in which the arrays differ.
std::string same(const ExactArrays& got, const ExactArrays& want, const std::vector<std::string>& names);

/// The first output or gradient in which the answers differ; both must have the same ones.
std::string same(const ExactAnswer& got, const ExactAnswer& want);

/// The same numbers under another operation, element by element; arrays of one shape.
template <class F>
ExactArray mapped(const ExactArray& a, F&& f) {
  ExactArray out = a;
  for (Mp100& x : out.data) x = f(x);
  return out;
}
template <class F>
ExactArray mapped(const ExactArray& a, const ExactArray& b, F&& f) {
  ExactArray out = a;
  for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] = f(a.data[i], b.data[i]);
  return out;
}
ExactArray product(const ExactArray& a, const ExactArray& b);
ExactArray sum(const ExactArray& a, const ExactArray& b);
/// Row t of `a` times number t of `by`, for arrays [H][T][...] and [H][T].
ExactArray scaled_rows(const ExactArray& a, const ExactArray& by);
/// Number t is the product of row t of `a` and row t of `b`.
ExactArray row_products(const ExactArray& a, const ExactArray& b);

/// Output heads of a problem whose arrays have a head axis.
int heads_of(const ExactProblem& problem);

/// What head `head` of `own` sees of an array [H][rows][columns] or [H][rows]; then as one column.
ExactMatrix head_of(const ExactArray& a, int own, int head);

/// Puts a head's matrix where head_of takes it from.
void set_head(ExactArray& a, int head, const ExactMatrix& m);

/// The first problem with one key/value head for every output head: gradients are then those of one head each.
ExactProblem ungrouped(ExactProblem problem);

Mp100 parameter(const ExactProblem& problem, std::string_view name);

}  // namespace assay::laws
