#pragma once
// Cases of every family of mechanisms as plans.
#include "arguments/given.hpp"
#include "arguments/plan.hpp"
#include "arguments/registry.hpp"
#include "arguments/sequences.hpp"

namespace assay::arguments {

/// The plan of the mechanism's family, which is not `quantizer` or `other`.
Plan plan_of(const Given& given, const Facts& facts);
Plan plan_attention(const Given& given, const Facts& facts);
Plan plan_recurrence(const Given& given, const Facts& facts);
Plan plan_convolution(const Given& given);
Plan plan_norm(const Given& given);
/// The answer of the component `quantize`, exactly.
Decimals quantized(const Given& given, int digits);

/// A tensor of the case that goes into a plan.
struct Tensor {
  std::string name;
  std::vector<int> shape;  ///< heads first where it has some
  bool heads = false;

  int rows() const { return shape[heads ? 1 : 0]; }
  int head_count() const { return heads ? shape[0] : 0; }
};

/// The tensor `name`, which has `rank` axes of one head and perhaps an axis of heads before them; its numbers go into
/// the plan. Throws Refusal if it is missing or has other axes.
Tensor taken(const Given& given, Plan& plan, const std::string& name, int rank);
/// As above, of numbers that are no tensor of the case.
Tensor put(Plan& plan, const std::string& name, Numbers numbers, int rank);

/// All of it.
Picked whole_of(const Tensor& tensor);
/// Those rows of it.
Picked rows_of(const Tensor& tensor, const std::vector<int>& rows);
/// Declares the output `name` of that shape and takes its cotangent.
Tensor output(const Given& given, Plan& plan, const std::string& name, std::vector<int> shape, bool heads);

}  // namespace assay::arguments
