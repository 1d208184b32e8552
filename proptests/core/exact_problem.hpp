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

inline ExactProblem exact(const Problem& problem) {
  const auto widen = [](const Arrays& arrays) {
    ExactArrays result;
    for (const auto& [name, a] : arrays) result[name] = {a.shape, {a.data.begin(), a.data.end()}};
    return result;
  };
  return {problem.id, problem.mechanism, problem.params, widen(problem.inputs), widen(problem.cotangents)};
}

/// What the room answers, in 100 digits.
inline ExactAnswer answer(const Room& room, const ExactProblem& problem) {
  constexpr int digits = 110;  // more than Mp100 has
  const auto print = [](const ExactArrays& arrays) {
    BasicArrays<std::string> result;
    for (const auto& [name, a] : arrays) {
      BasicArray<std::string>& to = result[name];
      to.shape = a.shape;
      for (const Mp100& x : a.data) to.data.push_back(to_decimal(x, digits));
    }
    return result;
  };
  const auto parse = [](const BasicArrays<Cell>& arrays) {
    ExactArrays result;
    for (const auto& [name, a] : arrays) {
      ExactArray& to = result[name];
      to.shape = a.shape;
      for (const Cell& x : a.data)  // what is undefined stays zero
        to.data.push_back(x.kind == Cell::Kind::undefined ? Mp100(0) : from_decimal<Mp100>(x.text));
    }
    return result;
  };
  const Decimals printed = room.decimals(
      {problem.id, std::string(room.name), problem.params, print(problem.inputs), print(problem.cotangents)},
      {.digits = digits, .tier = Tier::mp100, .diagnostics = false});
  return {parse(printed.outputs), parse(printed.gradients)};
}

inline ExactAnswer answer(std::string_view room, const ExactProblem& problem) {
  const Room* const found = find_room(room);
  require(found != nullptr, room, ": no such room");
  return answer(*found, problem);
}

/// "" if `got` is `want` but for the last twenty of 100 digits of the tensor's largest number: what a few dozen steps
/// that lose a digit now and then leave.
inline std::string same(std::string_view name, const ExactArray& got, const ExactArray& want) {
  static const Mp100 error("1e-80");
  if (got.data.size() != want.data.size())
    return text(name, ": ", got.data.size(), " numbers where ", want.data.size(), " are expected");
  Mp100 largest = 0;
  for (const Mp100& x : want.data) largest = std::max(largest, Mp100(abs(x)));
  for (std::size_t i = 0; i < want.data.size(); ++i)
    if (!(abs(got.data[i] - want.data[i]) <= error * largest))
      return text(name, ", element ", i, ": ", to_decimal(got.data[i], 20), " instead of ",
                  to_decimal(want.data[i], 20));
  return "";
}

/// The first of `names` in which the arrays differ.
inline std::string same(const ExactArrays& got, const ExactArrays& want, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::string s = same(name, got.at(name), want.at(name)); !s.empty()) return s;
  return "";
}

/// The first output or gradient in which the answers differ; both must have the same ones.
inline std::string same(const ExactAnswer& got, const ExactAnswer& want) {
  for (const auto& [a, b] : {std::pair{&got.outputs, &want.outputs}, {&got.gradients, &want.gradients}}) {
    if (a->size() != b->size()) return "not the same tensors";
    for (const auto& [name, array] : *b) {
      if (!a->contains(name)) return name + ": missing";
      if (std::string s = same(name, a->at(name), array); !s.empty()) return s;
    }
  }
  return "";
}

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
inline ExactArray product(const ExactArray& a, const ExactArray& b) {
  return mapped(a, b, [](const Mp100& x, const Mp100& y) { return Mp100(x * y); });
}
inline ExactArray sum(const ExactArray& a, const ExactArray& b) {
  return mapped(a, b, [](const Mp100& x, const Mp100& y) { return Mp100(x + y); });
}
/// Row t of `a` times number t of `by`, for arrays [H][T][...] and [H][T].
inline ExactArray scaled_rows(const ExactArray& a, const ExactArray& by) {
  ExactArray out = a;
  const std::size_t width = by.data.empty() ? 1 : a.data.size() / by.data.size();
  for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] *= by.data[i / width];
  return out;
}
/// Number t is the product of row t of `a` and row t of `b`.
inline ExactArray row_products(const ExactArray& a, const ExactArray& b) {
  ExactArray out({a.shape[0], a.shape[1]});
  const auto width = static_cast<std::size_t>(a.shape[2]);
  for (std::size_t i = 0; i < a.data.size(); ++i) out.data[i / width] += a.data[i] * b.data[i];
  return out;
}

/// Output heads of a problem whose arrays have a head axis.
inline int heads_of(const ExactProblem& problem) { return problem.cotangents.begin()->second.shape[0]; }

/// What head `head` of `own` sees of an array [H][rows][columns] or [H][rows]; then as one column.
inline ExactMatrix head_of(const ExactArray& a, int own, int head) {
  const int block = head / (own / a.shape[0]), columns = a.shape.size() > 2 ? a.shape[2] : 1;
  ExactMatrix m(a.shape[1], columns);
  std::copy_n(a.data.begin() + static_cast<std::ptrdiff_t>(m.data.size()) * block, m.data.size(), m.data.begin());
  return m;
}

/// Puts a head's matrix where head_of takes it from.
inline void set_head(ExactArray& a, int head, const ExactMatrix& m) {
  std::copy(m.data.begin(), m.data.end(), a.data.begin() + static_cast<std::ptrdiff_t>(m.data.size()) * head);
}

/// The first problem with one key/value head for every output head: gradients are then those of one head each.
inline ExactProblem ungrouped(ExactProblem problem) {
  const int own = heads_of(problem);
  for (auto& [name, a] : problem.inputs) {
    const int shared = a.shape[0];
    if (shared == own) continue;
    ExactArray wide(a.shape);
    wide.shape[0] = own;
    wide.data.clear();
    const std::size_t size = a.data.size() / static_cast<std::size_t>(shared);
    for (int h = 0; h < own; ++h) {
      const auto from = a.data.begin() + static_cast<std::ptrdiff_t>(size) * (h / (own / shared));
      wide.data.insert(wide.data.end(), from, from + static_cast<std::ptrdiff_t>(size));
    }
    a = std::move(wide);
  }
  return problem;
}

inline Mp100 parameter(const ExactProblem& problem, std::string_view name) {
  return from_decimal<Mp100>(std::get<std::string>(problem.params.find(name)->second));
}

}  // namespace assay::laws
