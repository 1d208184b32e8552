// Identities of local linear attention that no program expresses: its program has neither lambda0 limit nor conjugate
// gradients (lla-family.md sections 5, 9 and 12). The others are in mechanisms/identities.
#include "oracles/identities/identities.hpp"
#include "oracles/identities/lla_forms.hpp"

namespace assay::identities {
namespace local_linear {
namespace {

using Name = std::string_view;

Identity identity(Name name, Name mechanism, Name statement, Name source, const std::function<Vector()>& left,
                  const std::function<Vector()>& right) {
  return {name, mechanism, statement, source, 0, [=](const Mp200&) { return left() - right(); }, right};
}

constexpr Name section_9 = "lla-family.md 9", section_12 = "lla-family.md 12";

ExactProblem line_problem(Name mode) { return seeded("lla", {{"lambda_mode", std::string(mode)}}); }
ExactProblem with_ridge(ExactProblem p, const Mp200& lambda) { return set_ridge(p, lambda), p; }

Vector first_rows(const Vector& rows, int count, int width) {
  return {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count) * width};
}
/// A vector for each of `count` rows.
Vector repeated(const Vector& row, int count) {
  Vector all;
  for (int i = 0; i < count; ++i) all.insert(all.end(), row.begin(), row.end());
  return all;
}

/// Local linear attention with the weights, moments and y = tilt(moments) of each row.
template <class F>
Vector centred_line(const ExactProblem& p, F&& tilt) {
  const Head head(p);
  return head.each_row([&](int i) {
    const Moments m = head.softmax(i);
    return m.vbar - m.X * tilt(m);
  });
}

/// vbar - X C^+ zbar, of every row.
Vector limit_of_ridge(const ExactProblem& p) {
  return centred_line(p, [](const Moments& m) { return pseudo_solve(m.C, m.zbar); });
}

ExactProblem in_the_limit(ExactProblem p) {
  p.params.insert_or_assign("lambda0", std::string("limit"));
  return p;
}

Identity no_ridge() {
  return identity(
      "no_ridge", "lla", "lambda = 0 under lambda0 limit: o = vbar - X C^+ zbar, C singular in early rows", section_12,
      [] { return output(in_the_limit(with_ridge(line_problem("mass"), 0))); },
      [] { return limit_of_ridge(line_problem("mass")); });
}

/// Neither coordinates nor keys make up C alone.
Identity ridge_of_dimensions_to_zero(Name name, const Params& params) {
  return {name,
          "lla",
          "lambda = diag(eps, eps, 3, 4): o -> that of lambda = diag(0, 0, 3, 4) under lambda0 limit",
          section_12,
          1,
          [=](const Mp200& eps) {
            const auto with = [&](const Mp200& ridge) {
              ExactProblem p = seeded("lla", params);
              p.inputs["lambda"] = {{7, 4}, repeated({ridge, ridge, 3, 4}, 7)};
              return p;
            };
            return output(with(eps)) - output(in_the_limit(with(0)));
          },
          [] { return Vector{}; }};
}

ExactProblem conjugate_gradients(long iterations, Name tolerance = "0") {
  return seeded("lla", {{"solver", "cg"}, {"iterations", iterations}, {"tolerance", std::string(tolerance)}});
}

/// After one step, rho is on the first residual: x = (zbar.zbar) / (zbar.Sigma zbar) zbar, Sigma with sum w = 1.
Vector one_step() {
  return centred_line(conjugate_gradients(1), [](const Moments& m) {
    const Matrix Sigma = m.C + outer(m.zbar, m.zbar) + diagonal(Vector(m.zbar.size(), seeded_lambda));
    const Vector x = dot(m.zbar, m.zbar) / dot(m.zbar, Sigma * m.zbar) * m.zbar;
    return 1 / (1 - dot(m.zbar, x)) * x;
  });
}

std::vector<Identity> solver_identities() {
  constexpr Name section_5 = "lla-family.md 5";
  const auto softmax = [] { return output(in_room("softmax_attention", line_problem("mass"))); };
  const auto direct = [] { return output(line_problem("mass")); };
  return {
      identity(
          "no_steps", "lla", "solver cg, iterations = 0: o = softmax_attention", section_9,
          [] { return output(conjugate_gradients(0)); }, softmax),
      identity(
          "no_steps_within_tolerance", "lla", "solver cg, tolerance above every residual: o = softmax_attention",
          section_5, [] { return output(conjugate_gradients(4, "1e6")); }, softmax),
      identity(
          "one_step", "lla", "solver cg, iterations = 1: o from rho on the first residual", section_5,
          [] { return output(conjugate_gradients(1)); }, one_step),
      identity(
          "steps_of_full_rank", "lla", "solver cg, iterations = K: o = that of solver direct", section_9,
          [] { return output(conjugate_gradients(4)); }, direct),
      identity(
          "steps_of_the_rank", "lla",
          "solver cg, iterations = 2: the rows that see two keys at most are those of solver direct", section_9,
          [] { return first_rows(output(conjugate_gradients(2)), 2, 3); }, [=] { return first_rows(direct(), 2, 3); })};
}

}  // namespace
}  // namespace local_linear

std::vector<Identity> lla_identities() {
  using local_linear::ridge_of_dimensions_to_zero;
  std::vector<Identity> list = {
      local_linear::no_ridge(), ridge_of_dimensions_to_zero("ridge_of_dimensions_to_zero", {}),
      ridge_of_dimensions_to_zero("absolute_ridge_of_dimensions_to_zero", {{"lambda_mode", "absolute"}}),
      ridge_of_dimensions_to_zero("ridge_of_dimensions_to_zero_in_blocks",
                                  {{"blocks", 2L}, {"block_form", "centered"}})};
  for (const Identity& l : local_linear::solver_identities()) list.push_back(l);
  return list;
}

}  // namespace assay::identities
