#pragma once
// Texts of a block's values: for an element at given indices, an expression of C++ that gives the evaluator's bits.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "language/program/program.hpp"

namespace assay::language::device {

/// Texts of indices, one for every axis.
using Indices = std::vector<std::string>;
/// The same with another one in front.
inline Indices with_first(std::string first, Indices at) {
  at.insert(at.begin(), std::move(first));
  return at;
}
/// The text of an element of what is stored.
using Place = std::function<std::string(const Indices&)>;
/// Texts of the indices that the letters of a contraction stand for.
using Letters = std::map<char, std::string>;

/// "n_K", or "2".
std::string length_of(const Dim& dim);
/// "((long)(t)) * n_K + k": where an element lies among those of an array, row-major.
std::string flat(const std::vector<Dim>& axes, const Indices& at, std::string_view type = "long");
/// "1L * n_K * n_V"
std::string count_of(const std::vector<Dim>& axes);
/// "(int)(1L * n_K)"
std::string int_count(const std::vector<Dim>& axes);
/// The index of each axis, of an element's number.
Indices indices_of(const std::vector<Dim>& axes, std::string number);
/// Numbers that lie row-major behind a pointer.
Place dense(std::string base, std::vector<Dim> axes);
/// Nested calls of the emitted `most`.
std::string largest_of(const std::vector<std::string>& numbers);

inline bool is_among(const std::vector<Dim>& axes, const Dim& dim) {
  return std::find(axes.begin(), axes.end(), dim) != axes.end();
}
inline void add_once(std::vector<Dim>& axes, const Dim& dim) {
  if (!is_among(axes, dim)) axes.push_back(dim);
}

/// A value that is made of a sum: start + term + term + ...
struct Sum {
  int value = 0, base = 0;  ///< base: the contraction, or the value itself
  int start = -1;           ///< what the terms are added to; -1: to zero
  bool is_plain = false;    ///< of numbers, not of products: begins with the first one
  std::map<char, Dim> axes;
  std::string kept, gone;  ///< letters of the result, and those that are summed, outer ones first
  std::string loops;       ///< of products: all letters, outer ones first
  bool is_dots = false;    ///< of products: the innermost letter is summed
};

class Scope {
 public:
  /// `where` names the block in messages. Keeps a reference to it. `number`: the block's of a draw
  /// (PerturbedArithmetic::Place).
  Scope(const Block& block, std::string where, int number);

  const Block& block() const { return block_; }
  /// Statements that declare the keys of the random numbers of all its values at that token; threads meet after them.
  std::string declared_keys(const std::string& token) const;
  const std::vector<Dim>& axes(int v) const { return block_.type(v).axes; }
  bool is_real(int v) const { return block_.type(v).kind == Kind::real; }
  /// Whether elements along each axis may differ: others only repeat.
  const std::vector<char>& varies(int v) const { return varies_[static_cast<std::size_t>(v)]; }
  /// The axes that vary.
  std::vector<Dim> varying(int v) const;
  /// Whether it is an expression wherever it is read, and never stored.
  bool is_text(int v) const;
  /// The value behind views.
  int looked_at(int v) const;
  /// Whether an addition takes in the contraction, and nothing else reads it.
  bool is_inside(int v) const { return inside_.contains(v); }
  /// The values that the computation of v reads.
  std::vector<int> read_by(int v) const;
  /// All that the targets need, in order.
  std::vector<int> needed(const std::vector<int>& targets) const;

  /// Says where v is stored from here on.
  void put(int v, Place place) { places_[v] = std::move(place); }
  void forget(int v) { places_.erase(v); }
  /// The contraction that the computation of v makes, itself or within an addition; nothing where it makes none.
  std::optional<int> contraction_of(int v) const;
  /// Says where the operands of a contraction that are v lie as it reads them.
  void put_read(int contraction, int part, Place place) { reads_[{contraction, part}] = std::move(place); }
  /// An operand as a contraction reads it.
  std::string read(int contraction, int operand, const Indices& at) const;
  /// Which of the random numbers of its operands are those of that one: the same on both sides is rounded once.
  int part_of(int contraction, int operand) const;
  bool has_place(int v) const { return places_.contains(v); }
  const Place& place(int v) const { return places_.at(v); }

  /// An element: read where it is stored, computed where it is not.
  std::string written(int v, const Indices& at) const;
  /// An element, computed; no sum.
  std::string formula(int v, const Indices& at) const;
  std::optional<Sum> sum_of(int v) const;
  /// As sum_of, of what need not be one.
  Sum any_sum_of(int v) const;
  std::string term(const Sum& sum, const Letters& at) const;
  /// The sum's first text; `at` are indices of the value.
  std::string start(const Sum& sum, Letters letters, const Indices& at) const;
  /// "for (int s0 = 0; ...) to += term;"
  std::string chain(const Sum& sum, Letters letters, const std::string& to) const;
  /// `to` and one term more, of a sum that is no dot.
  std::string added(const Sum& sum, const Letters& at, const std::string& to, const std::string& term) const;
  /// The dot whose terms have these moments, and `to` with a dot.
  std::string dot(const Sum& sum, const Letters& at, const std::string& moments) const;
  std::string with_dot(const Sum& sum, const Letters& at, const std::string& to, const std::string& dot) const;
  /// An element's random numbers come from that key and index: "key7_0, (long)(i)".
  std::string numbers_of(int v, const Indices& at) const;
  /// An element's number in an array.
  std::string number_of(const std::vector<Dim>& axes, const Indices& at) const;
  /// "keys7[4]": of computed numbers (0), left operands (1) and right ones (2).
  std::string key_of(int v, int part) const;

  /// Throws InputError, one sentence that names the node.
  [[noreturn]] void refuse(int v, const std::string& why) const;

 private:
  /// Whether a draw needs random numbers for what the node computes.
  bool errs_in_draws(int v) const;
  std::vector<char> varies_of(int v) const;
  std::optional<int> product_in(int v) const;
  Indices through(const Node& view, Indices at) const;
  std::string arithmetic(const Node& node, int v, const Indices& at) const;
  std::string operation(const Node& node, int v, const Indices& at) const;
  std::string product(int contraction, const Letters& at) const;
  std::string loops_of(const Node& contraction) const;
  std::string numbers_of(const Sum& sum, const Letters& at) const;

  const Block& block_;
  std::string where_;
  int number_;
  std::vector<char> counted_;  ///< values that do not err
  std::vector<std::vector<char>> varies_;
  std::set<int> inside_;
  std::map<int, Place> places_;
  std::map<std::pair<int, int>, Place> reads_;  ///< by contraction and part
};

}  // namespace assay::language::device
