#pragma once
// Which units the operands of a softmax room are in, chosen on the host from the inputs, and those that have scales of
// blocks.
#include <optional>
#include <vector>

#include "kernels/core/attention.hpp"
#include "kernels/core/operand_units.hpp"

namespace assay::tile {

/// A problem's inputs with operands of 8 bits in units of their heads: for each operand of a key/value head, and of the
/// query heads that read it, the smallest power of two by which its largest number is within the format's range. Units
/// are from 2^-48 to 2^48, so that no product of two leaves the range of the sums. Without a site `descale`, all are 1.
///
/// Operands whose sites have blocks are rounded here, for all passes and tiles: kernels round them once, as arrays, and
/// blocks do not end where tiles do. They have no units, and a load rounds them no more.
class ScaledOperands {
 public:
  /// `scale`: of the scores, as it enters the kernel. `inputs` outlive this.
  ScaledOperands(const AttentionShape& shape, const Arrays& inputs, const Policy& policy, double scale);

  const Arrays& inputs() const { return scaled_ ? *scaled_ : inputs_; }
  /// [kv heads]
  const std::vector<OperandUnits<double>>& units() const { return units_; }
  /// In the executor's scalar, rounded at their site.
  template <class T>
  std::vector<OperandUnits<T>> units(const Policy& policy) const {
    if (policy.sites.find("descale") < 0) return std::vector<OperandUnits<T>>(units_.size());
    std::vector<OperandUnits<T>> list;
    for (const OperandUnits<double>& u : units_) {
      const auto at_site = [&](double x) { return gate_scalar<T>(policy, "descale", static_cast<T>(x)); };
      list.push_back({at_site(u.query), at_site(u.key), at_site(u.value), at_site(u.probe), at_site(u.weight)});
    }
    return list;
  }

 private:
  void round_in_blocks(const Policy& policy);

  const Arrays& inputs_;
  std::vector<OperandUnits<double>> units_;
  std::optional<Arrays> scaled_;
};

}  // namespace assay::tile
