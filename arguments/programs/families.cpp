#include "arguments/programs/families.hpp"

#include <utility>

#include "files/in_words.hpp"
#include "oracles/core/bind.hpp"

namespace assay::arguments {

Plan plan_of(const Given& given, const Facts& facts) {
  switch (facts.family) {
    case Family::attention:
      return plan_attention(given, facts);
    case Family::recurrence:
      return plan_recurrence(given, facts);
    case Family::convolution:
      return plan_convolution(given);
    default:
      return plan_norm(given);
  }
}

Tensor taken(const Given& given, Plan& plan, const std::string& name, int rank) {
  std::optional<Numbers> numbers = given.numbers(name);
  require_domain(numbers.has_value(), -1, name, ": missing");
  plan.gradients.insert(name);
  return put(plan, name, *std::move(numbers), rank);
}

Tensor put(Plan& plan, const std::string& name, Numbers numbers, int rank) {
  const auto axes = static_cast<int>(numbers.shape.size());
  require_domain(axes == rank || axes == rank + 1, -1, name, ": expected ", counted(rank, "axis", "axes"),
                 " or the same with heads in front, got shape ", assay::detail::shape_text(numbers.shape));
  Tensor tensor{name, numbers.shape, axes == rank + 1};
  require_domain(!tensor.heads || tensor.shape[0] > 0, -1, name, ": expected at least one head");
  plan.inputs[name] = std::move(numbers);
  return tensor;
}

Picked whole_of(const Tensor& tensor) { return picked(tensor.name, whole_axes(tensor.shape)); }

Picked rows_of(const Tensor& tensor, const std::vector<int>& rows) {
  std::vector<PickedAxis> axes = whole_axes(tensor.shape);
  axes[tensor.heads ? 1 : 0].elements = rows;
  return picked(tensor.name, axes);
}

Tensor output(const Given& given, Plan& plan, const std::string& name, std::vector<int> shape, bool heads) {
  plan.outputs[name] = shape;
  if (auto cotangent = given.cotangent(name)) plan.cotangents[name] = *std::move(cotangent);
  return {name, std::move(shape), heads};
}

}  // namespace assay::arguments
