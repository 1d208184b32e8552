#pragma once
// Launch code of local linear attention that the CPU and the device share: its options, and the systems that conjugate
// gradients cannot solve. No formula of the room is here.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/lla.hpp"
#include "kernels/core/attention.hpp"
#include "kernels/launches/ridge_rows.hpp"

namespace assay::tile {

/// The shape of a problem with the options of its systems.
struct LlaShape : AttentionShape {
  RidgeUnit ridge = RidgeUnit::mass;
  SystemBlocks blocks{1, 1};
  bool about_query = false;  // the system is Sigma, or its blocks
  bool converges = true;     // else it is left after `steps`
  int steps = 0;
  double tolerance = 0;

  explicit LlaShape(const Problem& problem) : AttentionShape(problem) {
    enum class Solver { direct, cg } solver = Solver::direct;
    enum class Form { sigma, centered } form = Form::sigma;
    OptionReader read(problem.params);
    read("lambda_mode", ridge, {{"mass", RidgeUnit::mass}, {"absolute", RidgeUnit::absolute}, {"max", RidgeUnit::max}});
    read("solver", solver, {{"direct", Solver::direct}, {"cg", Solver::cg}});
    read("iterations", steps);
    read("blocks", blocks.count);
    read("block_form", form, {{"sigma", Form::sigma}, {"centered", Form::centered}});
    blocks.columns = std::max(1, key_dim / blocks.count);
    converges = solver == Solver::direct;
    about_query = !converges || (blocks.count > 1 && form == Form::sigma);
    // In exact arithmetic as many steps as dimensions; rounding costs more of them.
    if (converges) steps = 16 + 4 * blocks.columns;
    if (!converges) tolerance = number_param(problem.params, "tolerance", tolerance);
  }

  /// Residuals this small relative to the right-hand side end a solve: an eighth of what the operands can tell.
  double relative(Format operand) const {
    if (!converges) return 0;
    return operand == Format::exact ? 0x1p-62 : unit_roundoff(operand) / 8;
  }

  RidgeRows ridges() const { return {head_axis, heads, queries, key_dim}; }
};

/// Beyond this condition of a system conjugate gradients are not asked to converge.
inline constexpr double largest_condition = 0x1p40;

/// Why conjugate gradients cannot solve these systems, or "": their condition is at most that of the longest offset
/// between two keys over the smallest ridge.
inline std::string system_obstacle(const Problem& problem) {
  const LlaShape shape(problem);
  const Array& lambda = problem.inputs.at("lambda");
  if (shape.queries == 0 || shape.keys == 0) return "";
  const double smallest = *std::min_element(lambda.data.begin(), lambda.data.end());
  if (!(smallest > 0)) return "lambda: conjugate gradients need a ridge in every dimension, got 0";
  if (!shape.converges) return "";
  const auto longest = [&](const char* name) {
    const Array& a = problem.inputs.at(name);
    double most = 0, square = 0;
    for (std::size_t i = 0; i < a.data.size(); ++i) {
      square = i % static_cast<std::size_t>(shape.key_dim) == 0 ? 0 : square;
      square += a.data[i] * a.data[i];
      most = std::max(most, square);
    }
    return std::sqrt(most);
  };
  const double q = longest("q"), k = longest("k");
  double unit = 1;
  if (shape.ridge != RidgeUnit::mass) unit /= shape.keys;
  if (shape.ridge == RidgeUnit::absolute) unit *= std::exp(-q * k / shape.bandwidth);
  const double offset = 2 * k + (shape.about_query ? q : 0), condition = 1 + offset * offset / (smallest * unit);
  return condition <= largest_condition
             ? ""
             : text("lambda: too small for conjugate gradients: the condition may reach ", condition);
}

/// Why the tiled form cannot run this problem, or "".
inline std::string lla_obstacle(const Problem& problem) {
  const std::string dims = head_dim_obstacle(problem);
  return dims.empty() ? system_obstacle(problem) : dims;
}

/// Why raw moments cannot be those of this problem's systems, or "".
inline std::string centre_obstacle(const Problem& problem) {
  const LlaShape shape(problem);
  return shape.blocks.count > 1 && !shape.about_query ? "raw moments are moved to q: blocks of C are about kbar" : "";
}
inline std::string lla_raw_obstacle(const Problem& problem) {
  const std::string centre = centre_obstacle(problem);
  return centre.empty() ? lla_obstacle(problem) : centre;
}

}  // namespace assay::tile
