#pragma once
// Values of a block that are arrays, as text: each is made by all threads, one value after the other.
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "language/emit/matrices.hpp"
#include "language/emit/scope.hpp"
#include "language/evaluate/side_by_side.hpp"

namespace assay::language::device {

/// Numbers behind a pointer, of the axes of value v along which its elements vary.
Place where_it_varies(const Scope& scope, int v, std::string base);

class Nodes {
 public:
  using Statements = std::function<std::vector<std::string>(const Indices&)>;

  /// A part of the workspace for an array that value v needs besides itself.
  using Buffer = std::function<std::string(int v, const std::vector<Dim>& axes)>;

  /// Adds to `lines`. `in_tiles`: the block is the step of a tile (language/evaluate/in_tiles.hpp). Keeps references.
  Nodes(Scope& scope, std::vector<std::string>& lines, bool in_tiles, Buffer buffer);

  /// A loop over the elements of an array; threads meet after it.
  void over(const std::vector<Dim>& axes, const Statements& statements);
  /// Puts all elements of an array into another.
  void copy(const std::vector<Dim>& axes, const Place& to, const Place& from);
  /// Says which numbers masks let see, before what they leave out is computed.
  void find_seen(const std::vector<int>& need);
  /// Puts a node that is no scan where `to` says. `in_place`: that is where the first term of a sum is.
  void compute(int v, const Place& to, bool in_place = false);
  /// Whether anything that it made calls functions of `products_text`.
  bool has_calls() const { return has_calls_; }

 private:
  void line(std::string text) { lines_.push_back(std::move(text)); }
  std::vector<std::string> cumulated(int v, const Place& to, const Indices& at) const;
  std::vector<std::string> shifted(const Node& node, const Place& to, const Indices& at) const;
  std::vector<std::string> computed(int v, const Place& to, const Indices& varying) const;
  void scored(int v, const Place& to);
  void solved(int v, const Place& to);
  std::optional<Cut> cut_of(int contraction) const;
  void multiply(int v, int contraction, const Place& to, bool in_place);

  Scope& scope_;
  std::vector<std::string>& lines_;
  bool in_tiles_, has_calls_ = false;
  Buffer buffer_;
  int factored_ = -1;  ///< matrices, and where their factors are
  std::string factors_;
  ScoreMasks masks_;
  std::set<int> seen_;  ///< masks that were looked at
};

}  // namespace assay::language::device
