#pragma once
// Helpers for lists in passes over a program's nodes.
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "language/program/program.hpp"

namespace assay::language {

/// A value's or an operand's number as the index of a list.
constexpr std::size_t index(int v) { return static_cast<std::size_t>(v); }

/// 0, 1, ..., n - 1: where a block's first values are in one that begins alike.
inline std::vector<int> first_values(std::size_t n) {
  std::vector<int> list(n);
  std::iota(list.begin(), list.end(), 0);
  return list;
}
/// Values of a block in another, which has value v at at[v].
inline std::vector<int> mapped(std::vector<int> values, const std::vector<int>& at) {
  for (int& v : values) v = at[index(v)];
  return values;
}

/// Parameters and results of nodes of a block.
inline int values_of(const Block& body) { return body.first() + static_cast<int>(body.nodes.size()); }

/// Whether an operation is one of these.
inline bool any_of(Op op, std::initializer_list<Op> list) { return std::ranges::find(list, op) != list.end(); }

/// Whether element i of a value is made of elements i of the operands alone.
inline bool is_elementwise(Op op) {
  return any_of(op, {Op::add, Op::sub,  Op::mul,     Op::div,      Op::neg, Op::exp,  Op::log,    Op::sqrt,
                     Op::abs, Op::tanh, Op::sigmoid, Op::softplus, Op::max, Op::pow,  Op::real,   Op::detach,
                     Op::lt,  Op::le,   Op::eq,      Op::and_,     Op::or_, Op::not_, Op::select, Op::round});
}

}  // namespace assay::language
