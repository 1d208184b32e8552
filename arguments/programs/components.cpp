// The components that are mechanisms of their own: a short convolution, a gated norm.
#include <algorithm>

#include "arguments/programs/families.hpp"
#include "arguments/programs/library.hpp"
#include "oracles/core/bind.hpp"
#include "oracles/scalars/scalar.hpp"

namespace assay::arguments {
namespace {

/// The same numbers in other axes.
Picked reshaped(Picked picked, std::vector<int> shape) {
  picked.shape = std::move(shape);
  return picked;
}

bool is_zero(const std::string& number) {
  const auto x = from_decimal<Mp50>(number);
  return x == 0;
}

}  // namespace

Plan plan_convolution(const Given& given) {
  const bool none = given.choice("activation", {"silu", "none"}) == "none";
  Plan plan(part(none ? "short_conv-activation-none" : "short_conv"));
  const Tensor x = taken(given, plan, "x", 2), weight = taken(given, plan, "weight", 2);
  const bool heads = x.heads;
  const int channels = x.shape.back(), width = weight.shape.back();
  require_domain(width > 0, -1, "weight: expected a width of at least 1, got 0");
  plan.padded.insert("x");
  plan.tokens["x"] = plan.tokens["o"] = heads ? 1 : 0;
  const Sequences sequences = sequences_of(given, x.rows());
  std::vector<int> state = {channels, width - 1};
  if (heads) state.insert(state.begin(), x.shape[0]);
  if (sequences.packed) state.insert(state.begin(), sequences.count());
  if (const auto initial = given.numbers("initial_state")) {
    require_domain(initial->shape == state || (width == 1 && initial->count() == 0), -1,
                   "initial_state: expected shape ", assay::detail::shape_text(state), ", the last ", width - 1,
                   " inputs of every channel, got ", assay::detail::shape_text(initial->shape));
    plan.gradients.insert("initial_state");
  }
  Numbers before{state, {}};
  before.data.assign(before.count(), "0");
  plan.inputs["initial_state"] = given.numbers("initial_state").value_or(before);
  const Tensor o = output(given, plan, "o", x.shape, heads);
  if (width > 1) output(given, plan, "final_state", state, heads);
  std::vector<Tensor> shared = {weight};
  if (given.has_input("bias")) shared.push_back(taken(given, plan, "bias", 1));
  for (int n = 0; n < sequences.count(); ++n) {
    Piece& piece = plan.pieces.emplace_back();
    const std::vector<int>& rows = sequences.queries[static_cast<std::size_t>(n)];
    piece.inputs["x"] = rows_of(x, rows);
    for (const Tensor& tensor : shared) piece.inputs[tensor.name] = whole_of(tensor);
    Picked own = picked("initial_state", {{1, first(static_cast<int>(before.count()))}});
    if (sequences.packed) {
      const std::size_t one = before.count() / static_cast<std::size_t>(sequences.count());
      own.at.assign(one, 0);
      for (std::size_t i = 0; i < one; ++i) own.at[i] = static_cast<std::size_t>(n) * one + i;
    }
    own.shape = {state.begin() + (sequences.packed ? 1 : 0), state.end()};
    piece.inputs["initial_state"] = own;
    piece.outputs.emplace("o", placed(rows_of(o, rows)));
    own.from = "final_state";
    if (width > 1) piece.outputs.emplace("final_state", placed(own));
  }
  return plan;
}

Plan plan_norm(const Given& given) {
  const std::string activation = given.choice("activation", {"silu", "sigmoid"});
  Plan plan(part(activation == "silu" ? "gated_rmsnorm" : "gated_rmsnorm-activation-sigmoid"));
  const bool before = given.truth("norm_before_gate", true);
  plan.params["norm_before_gate"] = before;
  const auto eps = given.number("eps");
  require_domain(eps.has_value(), -1, "params.eps: missing");
  require_domain(sign_of(*eps) >= 0, -1, "params.eps: expected at least 0, got ", *eps);
  plan.params["eps"] = *eps;
  const Tensor x = taken(given, plan, "x", 2), z = taken(given, plan, "z", 2);
  require_domain(x.shape == z.shape, -1, "z: expected the shape of x, ", assay::detail::shape_text(x.shape), ", got ",
                 assay::detail::shape_text(z.shape));
  const int channels = x.shape.back(), size = given.integer("group_size", 1).value_or(std::max(channels, 1));
  require_domain(channels % size == 0, -1, "params.group_size: ", size, " does not divide ", channels, " channels");
  plan.tokens = {{"x", x.heads ? 1 : 0}, {"z", x.heads ? 1 : 0}, {"o", x.heads ? 1 : 0}};
  std::vector<int> grouped = x.shape;
  grouped.back() = channels / size, grouped.push_back(size);
  Piece& piece = plan.pieces.emplace_back();
  piece.inputs["x"] = reshaped(whole_of(x), grouped);
  piece.inputs["z"] = reshaped(whole_of(z), grouped);
  if (given.has_input("weight")) {
    const Tensor weight = taken(given, plan, "weight", 1);
    std::vector<int> shape = weight.shape;
    require_domain(shape.back() == channels, -1, "weight: expected ", channels, " numbers, got ", shape.back());
    shape.back() = channels / size, shape.push_back(size);
    piece.inputs["weight"] = reshaped(whole_of(weight), shape);
  }
  piece.outputs.emplace("o", placed(reshaped(whole_of(output(given, plan, "o", x.shape, x.heads)), grouped)));
  admit_numbers(plan);
  if (!is_zero(*eps)) return plan;
  // The normed numbers are nothing where x is, and before the norm also where silu(z) is.
  const Numbers &xs = plan.inputs.at("x"), &zs = plan.inputs.at("z");
  const bool gated = !before && activation == "silu";
  for (std::size_t g = 0; g < xs.data.size(); g += static_cast<std::size_t>(size)) {
    bool nothing = true;
    for (std::size_t i = g; i < g + static_cast<std::size_t>(size); ++i)
      nothing = nothing && (is_zero(xs.data[i]) || (gated && is_zero(zs.data[i])));
    const auto row = static_cast<int>(g / static_cast<std::size_t>(channels) % static_cast<std::size_t>(x.rows()));
    if (nothing) throw Refusal(Status::singular, row, text("x: row ", row, " has a group of zeros, and eps is 0"));
  }
  return plan;
}

}  // namespace assay::arguments
