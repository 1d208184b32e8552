#pragma once
// Making blocks, and their canonical form.
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "language/program/program.hpp"

namespace assay::language {

/// The attributes of an operation along an axis, or that makes one at that position.
inline Attributes along(const Dim& dim, int axis = 0) { return {.dim = dim, .axis = axis}; }

/// Appends nodes to a block; equal nodes are one.
class Builder {
 public:
  explicit Builder(std::vector<Type> params) { block_.params = std::move(params); }

  const Block& block() const { return block_; }
  const Type& type(int v) const { return block_.type(v); }
  /// The number of the value. Throws InputError, one sentence without the place, if the operands do not fit.
  int emit(Op op, std::vector<int> args, Attributes attributes = {});
  /// As above, another node even if there is an equal one.
  int append(Op op, std::vector<int> args, Attributes attributes);
  int zeros(const Type& of);
  /// A value without axes at every place of these.
  int spread(int v, const std::vector<Dim>& axes);
  std::shared_ptr<const Block> finish(std::vector<int> results) &&;

 private:
  void mark_added();

  Block block_;
  std::vector<std::string> texts_;  ///< of the nodes, as a file has them
  std::unordered_map<std::string, int> known_;
};

/// The block with its results in the order of their names, and the names so.
Block sorted_by_name(Block body, std::vector<std::string>& outputs);

/// Equal nodes merged, broadcasts and signs that undo each other removed, nodes that nothing needs dropped; depth first
/// from the results, the outer values of a scan in the order of first use. The same computation, and its own canonical
/// form.
std::shared_ptr<const Block> canonical(const Block& block);

}  // namespace assay::language
