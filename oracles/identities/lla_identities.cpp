// Identities and limits of softmax attention, Parallax, local linear attention and their uniform-weight relatives
// (lla-family.md sections 3 to 7, 9 and 10).
#include <numeric>

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

constexpr Name section_9 = "lla-family.md 9", section_10 = "lla-family.md 10", section_12 = "lla-family.md 12";

ExactProblem line_problem(Name mode) { return seeded("lla", {{"lambda_mode", std::string(mode)}}); }
ExactProblem mean_problem() { return seeded("affine_mesanet", {{"lambda_scaling", "mean"}}); }

Vector values_of(const ExactProblem& p, Name name) { return p.inputs.find(name)->second.data; }
void set(ExactProblem& p, Name name, const Matrix& value) { p.inputs.find(name)->second = value.array(); }
bool has(const ExactProblem& p, Name name) { return p.inputs.contains(name); }

ExactProblem with_ridge(ExactProblem p, const Mp200& lambda) { return set_ridge(p, lambda), p; }
ExactProblem with_param(ExactProblem p, Name name, const Param& value) {
  return p.params.insert_or_assign(std::string(name), value), p;
}
ExactProblem with_bandwidth(ExactProblem p, const Mp200& h) { return p.set_number("bandwidth", h), p; }
ExactProblem with(ExactProblem p, Name name, const Matrix& value) { return set(p, name, value), p; }

Matrix input(const ExactProblem& p, Name name) { return Matrix(p.inputs.find(name)->second); }

/// Rows [first, end) of a matrix stored row by row.
Vector rows_from(const Vector& rows, int first, int width) {
  return {rows.begin() + static_cast<std::ptrdiff_t>(first) * width, rows.end()};
}
Vector first_rows(const Vector& rows, int count, int width) {
  return {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count) * width};
}
/// Every second row, the second one first.
Vector odd_rows(const Vector& rows, int width) {
  Vector odd;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if ((i / static_cast<std::size_t>(width)) % 2 == 1) odd.push_back(rows[i]);
  return odd;
}
/// A vector for each of `count` rows.
Vector repeated(const Vector& row, int count) {
  Vector all;
  for (int i = 0; i < count; ++i) all.insert(all.end(), row.begin(), row.end());
  return all;
}

Mp200 mean(const Vector& x) { return std::accumulate(x.begin(), x.end(), Mp200(0)) / static_cast<int>(x.size()); }

/// (a + ridge)^{-1} x.
Vector ridge_solve(const Matrix& a, const Mp200& ridge, const Vector& x) {
  return solve(a + diagonal(Vector(x.size(), ridge)), x);
}

/// What lambda is divided by in eps_i: omega_i, omega_i exp(-m_i) or 1.
Mp200 mass_of(Name mode, const Head& head, int i) {
  if (mode == "mass") return 1;
  const Mp200 omega = head.softmax(i).omega;
  return mode == "max" ? omega * exp(-head.largest_score(i)) : omega;
}

Vector ridge_slope(const ExactProblem& p, Name mode) {
  const Head head(p);
  return head.each_row([&](int i) {
    const Moments m = head.softmax(i);
    return -mass_of(mode, head, i) * (m.X * m.zbar);
  });
}

Identity ridge_to_infinity(Name name, Name mode) {
  return {name,
          "lla",
          "lambda = 1/eps: o -> softmax_attention, with -(omega / lambda) X zbar",
          section_9,
          1,
          [=](const Mp200& eps) {
            const ExactProblem p = line_problem(mode);
            return output(with_ridge(p, 1 / eps)) - output(in_room("softmax_attention", p));
          },
          [=] { return ridge_slope(line_problem(mode), mode); }};
}

Identity ridge_to_infinity_second_order(Name name, Name mode) {
  return {name,
          "lla",
          "lambda = 1/eps: o - softmax_attention + (omega / lambda) X zbar -> 0, with (omega / lambda)^2 X C zbar",
          section_9,
          2,
          [=](const Mp200& eps) {
            const ExactProblem p = line_problem(mode);
            return output(with_ridge(p, 1 / eps)) - output(in_room("softmax_attention", p)) -
                   eps * ridge_slope(p, mode);
          },
          [=] {
            const Head head(line_problem(mode));
            return head.each_row([&](int i) {
              const Moments m = head.softmax(i);
              const Mp200 mass = mass_of(mode, head, i);
              return mass * mass * (m.X * (m.C * m.zbar));
            });
          }};
}

Identity ridge_of_dimensions_to_infinity() {
  const auto ridge = [](const Mp200& eps) {
    return BasicArray<Mp200>{{7, 4}, repeated({1 / eps, 2 / eps, 3 / eps, 4 / eps}, 7)};
  };
  return {"ridge_of_dimensions_to_infinity",
          "lla",
          "lambda = diag(1, 2, 3, 4) / eps: o -> softmax_attention, with -X lambda^{-1} zbar",
          section_9,
          1,
          [=](const Mp200& eps) {
            ExactProblem p = line_problem("mass");
            p.inputs["lambda"] = ridge(eps);
            return output(p) - output(in_room("softmax_attention", p));
          },
          [] {
            const Head head(line_problem("mass"));
            return head.each_row([&](int i) {
              const Moments m = head.softmax(i);
              return -(m.X * solve(diagonal({1, 2, 3, 4}), m.zbar));
            });
          }};
}

/// vbar - X C^+ zbar, of every row.
Vector limit_of_ridge(const ExactProblem& p) {
  const Head head(p);
  return head.each_row([&](int i) {
    const Moments m = head.softmax(i);
    return m.vbar - m.X * pseudo_solve(m.C, m.zbar);
  });
}

Identity ridge_to_zero(Name name, Name mode) {
  return {name,
          "lla",
          "lambda = eps: o -> vbar - X C^+ zbar, C singular in early rows, with (lambda / omega) X (C^+)^2 zbar",
          section_9,
          1,
          [=](const Mp200& eps) {
            const ExactProblem p = line_problem(mode);
            return output(with_ridge(p, eps)) - limit_of_ridge(p);
          },
          [=] {
            const Head head(line_problem(mode));
            return head.each_row([&](int i) {
              const Moments m = head.softmax(i);
              return (1 / mass_of(mode, head, i)) * (m.X * pseudo_solve(m.C, pseudo_solve(m.C, m.zbar)));
            });
          }};
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

Identity ridge_to_infinity_gradients() {
  return {"ridge_to_infinity_gradients",
          "lla",
          "lambda = 1/eps: dq, dk and dv -> those of softmax_attention",
          section_9,
          1,
          [](const Mp200& eps) {
            const ExactProblem p = line_problem("mass");
            return flat(answer(with_ridge(p, 1 / eps)).gradients, {"q", "k", "v"}) -
                   flat(answer(in_room("softmax_attention", p)).gradients, {"q", "k", "v"});
          },
          [] { return Vector{}; }};
}

/// The same ridge in the three units of lambda_mode.
std::vector<Identity> ridge_modes() {
  const auto in_mode = [](Name mode) {
    ExactProblem p = line_problem(mode);
    const Head head(p);
    const Vector lambda = head.each_row(
        [&](int i) { return Vector{mass_of(mode, head, i) / mass_of("absolute", head, i) * seeded_lambda}; });
    p.inputs["lambda"] = {{7}, lambda};
    return output(p);
  };
  const auto absolute = [] { return output(line_problem("absolute")); };
  return {identity(
              "ridge_by_mass", "lla", "lambda_mode mass at lambda_i = lambda / omega_i: o = that of mode absolute",
              "lla-family.md 3", [=] { return in_mode("mass"); }, absolute),
          identity(
              "ridge_by_max", "lla", "lambda_mode max at lambda_i = lambda exp(-m_i): o = that of mode absolute",
              "lla-family.md 3", [=] { return in_mode("max"); }, absolute),
          identity(
              "ridge_by_dimension", "lla", "lambda of [T][K] with equal elements: o = that of one number",
              "lla-family.md 3",
              [] {
                ExactProblem p = line_problem("absolute");
                p.inputs["lambda"] = {{7, 4}, Vector(28, seeded_lambda)};
                return output(p);
              },
              absolute)};
}

std::vector<Identity> ridge_limits() {
  std::vector<Identity> list = {
      ridge_to_infinity("ridge_to_infinity", "mass"),
      ridge_to_infinity("absolute_ridge_to_infinity", "absolute"),
      ridge_to_infinity("max_ridge_to_infinity", "max"),
      ridge_to_infinity_second_order("ridge_to_infinity_second_order", "mass"),
      ridge_to_infinity_second_order("absolute_ridge_to_infinity_second_order", "absolute"),
      ridge_to_infinity_second_order("max_ridge_to_infinity_second_order", "max"),
      ridge_of_dimensions_to_infinity(),
      ridge_to_infinity_gradients(),
      ridge_to_zero("ridge_to_zero", "mass"),
      ridge_to_zero("absolute_ridge_to_zero", "absolute"),
      ridge_to_zero("max_ridge_to_zero", "max"),
      no_ridge(),
      ridge_of_dimensions_to_zero("ridge_of_dimensions_to_zero", {}),
      ridge_of_dimensions_to_zero("absolute_ridge_of_dimensions_to_zero", {{"lambda_mode", "absolute"}}),
      ridge_of_dimensions_to_zero("ridge_of_dimensions_to_zero_in_blocks",
                                  {{"blocks", 2L}, {"block_form", "centered"}})};
  for (const Identity& l : ridge_modes()) list.push_back(l);
  return list;
}

/// The derivative by 1/h, at equal weights, of vbar - X y: along a given y, or where (C + ridge) y = zbar and the ridge
/// has a derivative of its own (D of section 9).
struct UniformRow {
  Moments m;
  Vector s;      // scores less their mean
  Mp200 mean_s;  // their mean

  UniformRow(const Head& head, int i) : m(head.uniform(i)), s(head.h * head.scores(i)), mean_s(mean(s)) {
    for (Mp200& x : s) x -= mean_s;
  }
  /// E[s (rows - mean) (k - kbar).y].
  Vector third(const Matrix& rows, const Vector& row_mean, const Matrix& k, const Vector& y) const {
    Vector sum(row_mean.size());
    for (int j = 0; j < static_cast<int>(s.size()); ++j)
      sum = sum + (s[static_cast<std::size_t>(j)] * dot(k.row(j) - m.kbar, y)) * (rows.row(j) - row_mean);
    return (Mp200(1) / static_cast<int>(s.size())) * sum;
  }
  Vector slope_with_probe(const Head& head, int i, const Vector& y) const {
    return m.X * head.q.row(i) - third(head.v, m.vbar, head.k, y);
  }
  Vector slope_with_ridge(const Head& head, int i, const Mp200& ridge, const Mp200& ridge_slope) const {
    const Vector q = head.q.row(i), y = ridge_solve(m.C, ridge, m.zbar);
    const Vector dy = ridge_solve(m.C, ridge, m.C * q - third(head.k, m.kbar, head.k, y) - ridge_slope * y);
    return slope_with_probe(head, i, y) - m.X * dy;
  }
};

Identity bandwidth_to_infinity_of_softmax() {
  return {"bandwidth_to_infinity",
          "softmax_attention",
          "bandwidth = 1/eps: o -> value_averaging, with X_u q",
          section_9,
          1,
          [](const Mp200& eps) {
            const ExactProblem p = seeded("softmax_attention");
            return output(with_bandwidth(p, 1 / eps)) - output(in_room("value_averaging", p));
          },
          [] {
            const Head head(seeded("softmax_attention"));
            return head.each_row([&](int i) { return head.uniform(i).X * head.q.row(i); });
          }};
}

Identity bandwidth_to_infinity_of_parallax() {
  return {"bandwidth_to_infinity",
          "parallax",
          "bandwidth = 1/eps: o -> affine_linear_attention, with X_u q - T_v rho",
          section_9,
          1,
          [](const Mp200& eps) {
            const ExactProblem p = seeded("parallax");
            return output(with_bandwidth(p, 1 / eps)) - output(in_room("affine_linear_attention", p));
          },
          [] {
            const Head head(seeded("parallax"));
            return head.each_row([&](int i) { return UniformRow(head, i).slope_with_probe(head, i, head.rho.row(i)); });
          }};
}

/// The ridge of a mode at equal weights and its derivative by 1/h: omega = n (1 + sbar / h + ...), and for mode max
/// omega' = n (1 + (sbar - max s) / h + ...).
std::pair<Mp200, Mp200> ridge_at_equal_weights(Name mode, const Head& head, int i, const Mp200& mean_s) {
  const Mp200 shared = seeded_lambda / head.visible(i);
  if (mode == "mass") return {seeded_lambda, 0};
  return {shared, -shared * (mode == "max" ? mean_s - head.h * head.largest_score(i) : mean_s)};
}

Identity bandwidth_to_infinity_of_lla(Name name, Name mode, Name statement) {
  return {name,
          "lla",
          statement,
          section_9,
          1,
          [=](const Mp200& eps) {
            const ExactProblem p = line_problem(mode);
            const ExactProblem uniform =
                with_param(in_room("affine_mesanet", p), "lambda_scaling", mode == "mass" ? "mean" : "sum");
            return output(with_bandwidth(p, 1 / eps)) - output(uniform);
          },
          [=] {
            const Head head(line_problem(mode));
            return head.each_row([&](int i) {
              const UniformRow row(head, i);
              const auto [ridge, slope] = ridge_at_equal_weights(mode, head, i, row.mean_s);
              return row.slope_with_ridge(head, i, ridge, slope);
            });
          }};
}

/// One query whose scores, times the bandwidth, are `first` and `second` on two keys.
ExactProblem two_keys(Name mechanism, const Params& params, const Mp200& first, const Mp200& second) {
  ExactProblem p = seeded(mechanism, params, 2);
  const Matrix k = input(p, "k");
  Matrix q(1, k.cols);
  q.data = transposed(k) * solve(k * transposed(k), {first, second});
  set(p, "q", q);
  if (has(p, "rho")) set(p, "rho", Matrix(BasicArray<Mp200>{{1, 4}, row(p.inputs.find("rho")->second, 1)}));
  p.cotangents.clear();
  return p;
}

/// Two keys whose scores differ by 1 / h, where exp(-1 / h) = eps is the second key's weight.
Identity bandwidth_to_zero(Name name, Name mechanism, const Params& params, Name statement,
                           const std::function<Mp200(const Head&)>& along) {
  const auto problem = [=] { return two_keys(mechanism, params, 3, 2); };
  return {name,
          mechanism,
          statement,
          section_9,
          1,
          [=](const Mp200& eps) {
            const ExactProblem p = problem();
            return output(with_bandwidth(p, 1 / -log(eps))) - input(p, "v").row(0);
          },
          [=] {
            const Head head(problem());
            return (1 - along(head)) * (head.v.row(1) - head.v.row(0));
          }};
}

/// Mode absolute: the ridge vanishes faster than the second key's weight, and the line through both keys is left.
Identity absolute_bandwidth_to_zero() {
  const auto problem = [] { return two_keys("lla", {{"lambda_mode", "absolute"}}, 3, 1); };
  const auto along = [](const Head& head, int power) {
    const Vector d = head.k.row(1) - head.k.row(0);
    return dot(d, head.k.row(0) - head.q.row(0)) / pow(dot(d, d), power) * (head.v.row(1) - head.v.row(0));
  };
  return {"absolute_bandwidth_to_zero",
          "lla",
          "exp(-1 / bandwidth) = eps: o -> the line through the two nearest keys, not the value of the nearest",
          section_9,
          1,
          [=](const Mp200& eps) {
            const ExactProblem p = problem();
            const Head head(p);
            return output(with_bandwidth(p, 1 / -log(eps))) - (head.v.row(0) - along(head, 1));
          },
          [=] { return seeded_lambda * along(Head(problem()), 2); }};
}

std::vector<Identity> bandwidth_limits() {
  const auto key_offset = [](const Head& head) { return head.k.row(1) - head.k.row(0); };
  const auto none = [](const Head&) { return Mp200(0); };
  const auto probe = [=](const Head& head) { return dot(key_offset(head), head.rho.row(0)); };
  const auto line = [=](const Head& head) {
    return dot(key_offset(head), head.k.row(0) - head.q.row(0)) / seeded_lambda;
  };
  constexpr Name nearest = "exp(-1 / bandwidth) = eps: o -> the value of the nearest key";
  return {bandwidth_to_infinity_of_softmax(),
          bandwidth_to_infinity_of_parallax(),
          bandwidth_to_infinity_of_lla("bandwidth_to_infinity", "mass",
                                       "bandwidth = 1/eps: o -> affine_mesanet with lambda on the means"),
          bandwidth_to_infinity_of_lla("absolute_bandwidth_to_infinity", "absolute",
                                       "bandwidth = 1/eps: o -> affine_mesanet with lambda on the sums, with D"),
          bandwidth_to_infinity_of_lla("max_bandwidth_to_infinity", "max",
                                       "bandwidth = 1/eps: o -> affine_mesanet with lambda on the sums, with D where "
                                       "sbar - max s stands for sbar"),
          bandwidth_to_zero("bandwidth_to_zero", "softmax_attention", {}, nearest, none),
          bandwidth_to_zero("bandwidth_to_zero", "parallax", {}, nearest, probe),
          bandwidth_to_zero("bandwidth_to_zero", "lla", {}, nearest, line),
          bandwidth_to_zero("max_bandwidth_to_zero", "lla", {{"lambda_mode", "max"}}, nearest, line),
          absolute_bandwidth_to_zero()};
}

/// The paper's rho* and eta = tbar / (1 - tbar) of a row, tbar = mu.rho* / omega.
std::pair<Vector, Mp200> probe_and_boundary(const Head& head, int i, const Mp200& ridge) {
  const Line l = line(head.weights(i), Vector(static_cast<std::size_t>(head.k.cols), ridge), head.k, head.q.row(i));
  const Mp200 tilt = dot(l.mu, l.rho) / l.omega;
  return {l.rho, tilt / (1 - tilt)};
}

/// Parallax along (1 + eta)^power rho*, its distance from softmax attention times (1 + eta)^(1 - power).
Vector parallax_along_the_line(int power) {
  const ExactProblem p = line_problem("absolute");
  const Head head(p);
  const auto by_row = [&](const auto& f) {
    return head.each_row([&](int i) {
      const auto [rho, eta] = probe_and_boundary(head, i, seeded_lambda);
      return f(rho, Mp200(1 + eta));
    });
  };
  ExactProblem along = in_room("parallax", p);
  along.inputs["rho"] = {{head.q.rows, head.k.cols},
                         by_row([&](const Vector& rho, const Mp200& growth) { return pow(growth, power) * rho; })};
  const Vector softmax = output(in_room("softmax_attention", p));
  Vector tilted = output(along) - softmax;
  const Vector factors = by_row([&](const Vector&, const Mp200& growth) {
    return Vector(static_cast<std::size_t>(head.v.cols), pow(growth, 1 - power));
  });
  for (std::size_t i = 0; i < tilted.size(); ++i) tilted[i] *= factors[i];
  return tilted + softmax;
}

Vector affine_linear_along(Name scaling) {
  const ExactProblem p = seeded("affine_mesanet", {{"lambda_scaling", std::string(scaling)}});
  const Head head(p);
  ExactProblem along = in_room("affine_linear_attention", p);
  along.inputs["rho"] = {{7, 4}, head.each_row([&](int i) {
                           const Moments m = head.uniform(i);
                           const Mp200 unit = scaling == "mean" ? Mp200(1) : m.omega;
                           return ridge_solve(m.C, seeded_lambda / unit, m.zbar);
                         })};
  return output(along);
}

ExactProblem without_probe(ExactProblem p, Name name) {
  for (Mp200& x : p.inputs.find(name)->second.data) x = 0;
  return p;
}

std::vector<Identity> probe_identities() {
  const auto lla = [] { return output(line_problem("absolute")); };
  return {
      identity("probe_of_the_line", "lla", "o - softmax_attention = (1 + eta) (parallax(rho*) - softmax_attention)",
               section_9, lla, [] { return parallax_along_the_line(0); }),
      identity("tilt_of_the_line", "lla", "o = parallax((1 + eta) rho*)", section_9, lla,
               [] { return parallax_along_the_line(1); }),
      identity(
          "probe_of_the_line", "affine_mesanet", "o = affine_linear_attention((C_u + lambda / i)^{-1} zbar)",
          "lla-family.md 0", [] { return output(seeded("affine_mesanet")); },
          [] { return affine_linear_along("sum"); }),
      identity(
          "probe_of_the_line_on_means", "affine_mesanet",
          "lambda on the means: o = affine_linear_attention((C_u + lambda)^{-1} zbar)", "lla-family.md 0",
          [] { return output(mean_problem()); }, [] { return affine_linear_along("mean"); }),
      identity(
          "no_probe", "parallax", "rho = 0: o = softmax_attention", section_9,
          [] { return output(without_probe(seeded("parallax"), "rho")); },
          [] { return output(in_room("softmax_attention", seeded("parallax"))); }),
      identity(
          "no_probe", "parallax_gate", "w_r = 0: o = softmax_attention", section_9,
          [] { return output(without_probe(seeded("parallax_gate"), "w_r")); },
          [] { return output(in_room("softmax_attention", seeded("parallax_gate"))); }),
      identity(
          "half_open_gate", "parallax_gate", "w_g = 0: o = parallax(W_r x / 2)", "lla-family.md 2",
          [] { return output(without_probe(seeded("parallax_gate"), "w_g")); },
          [] {
            const ExactProblem p = seeded("parallax_gate");
            ExactProblem half = in_room("parallax", p);
            half.cotangents.clear();
            half.inputs["rho"] = (Mp200(1) / 2 * (input(p, "x") * transposed(input(p, "w_r")))).array();
            return output(half);
          }),
      identity(
          "no_probe", "affine_linear_attention", "rho = 0: o = value_averaging", section_9,
          [] { return output(without_probe(seeded("affine_linear_attention"), "rho")); },
          [] { return output(in_room("value_averaging", seeded("affine_linear_attention"))); }),
      identity(
          "linear_in_the_probe", "parallax", "o(3 rho) - softmax_attention = 3 (o(rho) - softmax_attention)", section_9,
          [] {
            const ExactProblem p = seeded("parallax");
            return output(with(p, "rho", Mp200(3) * input(p, "rho")));
          },
          [] {
            const ExactProblem p = seeded("parallax");
            return 3 * output(p) - 2 * output(in_room("softmax_attention", p));
          })};
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

/// lla with K blocks of one dimension: y_a from its own variance alone.
Vector blocks_of_one(bool sigma) {
  return centred_line(line_problem("mass"), [=](const Moments& m) {
    Vector y = m.zbar;
    Mp200 tilt = 0;
    for (std::size_t a = 0; a < y.size(); ++a) {
      const int d = static_cast<int>(a);
      y[a] /= m.C(d, d) + seeded_lambda + (sigma ? m.zbar[a] * m.zbar[a] : Mp200(0));
      tilt += y[a] * m.zbar[a];
    }
    return sigma ? 1 / (1 - tilt) * y : y;
  });
}

ExactProblem in_blocks(long blocks, Name form) {
  return seeded("lla", {{"blocks", blocks}, {"block_form", std::string(form)}});
}

std::vector<Identity> block_identities() {
  constexpr Name section_6 = "lla-family.md 6";
  const auto full = [] {
    return centred_line(line_problem("mass"), [](const Moments& m) { return ridge_solve(m.C, seeded_lambda, m.zbar); });
  };
  return {identity(
              "one_block_of_sigma", "lla", "blocks = 1, block_form sigma: o = the line from C + lambda", section_9,
              [] { return output(in_blocks(1, "sigma")); }, full),
          identity(
              "one_block_centered", "lla", "blocks = 1, block_form centered: o = the line from C + lambda", section_9,
              [] { return output(in_blocks(1, "centered")); }, full),
          identity(
              "blocks_of_one_dimension", "lla", "blocks = K, block_form sigma: rho_a = zbar_a / Sigma_aa", section_6,
              [] { return output(in_blocks(4, "sigma")); }, [] { return blocks_of_one(true); }),
          identity(
              "centered_blocks_of_one_dimension", "lla",
              "blocks = K, block_form centered: y_a = zbar_a / (Var(k_a) + lambda)", section_6,
              [] { return output(in_blocks(4, "centered")); }, [] { return blocks_of_one(false); })};
}

/// What a mechanism does of its own accord, and a statement that holds for several of them.
ExactProblem plain(Name mechanism) { return seeded(mechanism); }
constexpr Name softmax_family[] = {"softmax_attention", "parallax", "lla"};
constexpr Name uniform_family[] = {"affine_linear_attention", "affine_mesanet"};
constexpr Name template_members[] = {"softmax_attention",       "parallax",      "lla", "value_averaging",
                                     "affine_linear_attention", "affine_mesanet"};

Identity wide_window(Name mechanism) {
  return identity(
      "window_of_all", mechanism, "window = T: o = that without a window", section_9,
      [=] { return output(with_param(plain(mechanism), "window", 7L)); }, [=] { return output(plain(mechanism)); });
}

Identity window_of_one(Name mechanism) {
  return identity(
      "window_of_one", mechanism, "window = 1: o = v", section_9,
      [=] { return output(with_param(plain(mechanism), "window", 1L)); },
      [=] { return values_of(plain(mechanism), "v"); });
}

Identity last_row_sees_all(Name mechanism) {
  return identity(
      "last_row_sees_all", mechanism, "causal = false: the last row is that of causal = true", section_10,
      [=] { return rows_from(output(with_param(plain(mechanism), "causal", false)), 6, 3); },
      [=] { return rows_from(output(plain(mechanism)), 6, 3); });
}

Identity one_key(Name mechanism, Name statement, const std::function<Mp200(const Head&)>& factor) {
  const auto problem = [=] {
    ExactProblem p = seeded(mechanism, {}, 1);
    if (mechanism == "linear_attention") p.set_number("scale", 1);
    return p;
  };
  return identity(
      "one_key", mechanism, statement, section_9, [=] { return output(problem()); },
      [=] { return factor(Head(problem())) * values_of(problem(), "v"); });
}

Identity equal_keys(Name mechanism) {
  const auto problem = [=] {
    ExactProblem p = plain(mechanism);
    if (!has(p, "k")) return p;
    return with(p, "k", Matrix(BasicArray<Mp200>{{7, 4}, repeated(input(p, "k").row(0), 7)}));
  };
  return identity(
      "equal_keys", mechanism, "equal keys: o = value_averaging", section_9, [=] { return output(problem()); },
      [=] { return output(in_room("value_averaging", problem())); });
}

/// Queries moved to the weighted mean of the keys they see, again and again: at this bandwidth the distance from the
/// fixed point falls below a tenth each time.
ExactProblem queries_at_the_mean() {
  ExactProblem p = with_bandwidth(seeded("lla", {}, 5), 64);
  for (int step = 0; step < 200; ++step) {
    const Head head(p);
    p.inputs["q"].data = head.each_row([&](int i) {
      const Vector w = head.weights(i);
      return 1 / std::accumulate(w.begin(), w.end(), Mp200(0)) * weighted_sum(w, head.k);
    });
  }
  return p;
}

Identity query_at_the_mean() {
  return identity(
      "query_at_the_mean", "lla", "q = kbar(q): o = softmax_attention", section_9,
      [] { return output(queries_at_the_mean()); },
      [] { return output(in_room("softmax_attention", queries_at_the_mean())); });
}

/// Every row of a matrix twice.
Matrix twice(const Matrix& rows) {
  Matrix result(2 * rows.rows, rows.cols);
  for (int i = 0; i < result.rows; ++i)
    for (int x = 0; x < rows.cols; ++x) result(i, x) = rows(i / 2, x);
  return result;
}

Identity doubled_tokens(Name name, Name mechanism, const Params& params, const Mp200& lambda, Name statement) {
  return identity(
      name, mechanism, statement, section_9,
      [=] {
        ExactProblem p = seeded(mechanism, params);
        p.cotangents.clear();
        for (const Name tensor : {"q", "k", "v", "rho"})
          if (has(p, tensor)) set(p, tensor, twice(input(p, tensor)));
        return odd_rows(output(p), 3);
      },
      [=] {
        ExactProblem p = seeded(mechanism, params);
        if (has(p, "lambda")) set_ridge(p, lambda);
        return output(p);
      });
}

/// Equal neighbouring keys with values of their own, or with their mean.
ExactProblem paired_keys(Name mechanism, bool mean_values) {
  ExactProblem p = seeded(mechanism, {}, 6);
  Matrix k = input(p, "k"), v = input(p, "v");
  for (int i = 0; i < 6; ++i)
    for (int x = 0; x < 4; ++x) k(i, x) = k(i / 2 * 2, x);
  for (int i = 0; i < 6 && mean_values; i += 2)
    for (int x = 0; x < 3; ++x) v(i, x) = v(i + 1, x) = (v(i, x) + v(i + 1, x)) / 2;
  return with(with(p, "k", k), "v", v);
}

Identity duplicate_keys(Name mechanism) {
  return identity(
      "duplicate_keys", mechanism, "values of equal keys replaced by their mean: o unchanged", section_10,
      [=] { return odd_rows(output(paired_keys(mechanism, false)), 3); },
      [=] { return odd_rows(output(paired_keys(mechanism, true)), 3); });
}

std::vector<Identity> token_identities() {
  std::vector<Identity> list;
  for (const Name m : softmax_family) {
    list.push_back(wide_window(m));
    list.push_back(window_of_one(m));
    list.push_back(last_row_sees_all(m));
  }
  for (const Name m : template_members)
    list.push_back(one_key(m, "T = 1: o = v", [](const Head&) { return Mp200(1); }));
  const auto score = [](const Head& head) { return dot(head.q.row(0), head.k.row(0)); };
  list.push_back(one_key("linear_attention", "T = 1, scale = 1: o = (k.q) v", score));
  list.push_back(one_key("mesanet", "T = 1: o = (k.q) / (k.k + lambda) v", [=](const Head& head) {
    return score(head) / (dot(head.k.row(0), head.k.row(0)) + seeded_lambda);
  }));
  for (const Name m : template_members)
    if (m != "value_averaging") list.push_back(equal_keys(m));
  list.push_back(query_at_the_mean());
  const Mp200 whole = seeded_lambda, half = whole / 2;
  const Params means = {{"lambda_scaling", "mean"}};
  constexpr Name halved = "every token twice: o = that at lambda / 2", same = "every token twice: o unchanged";
  list.push_back(doubled_tokens("doubled_tokens", "softmax_attention", {}, whole, same));
  list.push_back(doubled_tokens("doubled_tokens", "parallax", {}, whole, same));
  list.push_back(doubled_tokens("doubled_tokens", "lla", {}, whole, same));
  list.push_back(doubled_tokens("absolute_doubled_tokens", "lla", {{"lambda_mode", "absolute"}}, half, halved));
  list.push_back(doubled_tokens("max_doubled_tokens", "lla", {{"lambda_mode", "max"}}, half, halved));
  list.push_back(doubled_tokens("doubled_tokens", "value_averaging", {}, whole, same));
  list.push_back(doubled_tokens("doubled_tokens", "affine_linear_attention", {}, whole, same));
  list.push_back(doubled_tokens("doubled_tokens", "affine_mesanet", {}, half, halved));
  list.push_back(doubled_tokens("doubled_tokens_by_means", "affine_mesanet", means, whole, same));
  list.push_back(doubled_tokens("doubled_tokens", "mesanet", {}, half, halved));
  list.push_back(doubled_tokens("doubled_tokens_by_means", "mesanet", means, whole, same));
  for (const Name m : softmax_family) list.push_back(duplicate_keys(m));
  for (const Name m : uniform_family) list.push_back(duplicate_keys(m));
  return list;
}

Identity constant_values(Name mechanism) {
  const auto constant = [=] {
    const ExactProblem p = plain(mechanism);
    return with(p, "v", Matrix(BasicArray<Mp200>{{7, 3}, repeated(input(p, "v").row(0), 7)}));
  };
  return identity(
      "constant_values", mechanism, "v_j = c: o = c", section_10, [=] { return output(constant()); },
      [=] { return values_of(constant(), "v"); });
}

Identity linear_in_values(Name mechanism) {
  const auto at = [=](const Mp200& own, const Mp200& other) {
    const ExactProblem p = plain(mechanism), q = make(mechanism, {}, 7, 4, 3, 2);
    return output(with(p, "v", own * input(p, "v") + other * input(q, "v")));
  };
  return identity(
      "linear_in_values", mechanism, "o(2 v - 3 w) = 2 o(v) - 3 o(w)", section_10, [=] { return at(2, -3); },
      [=] { return 2 * at(1, 0) - 3 * at(0, 1); });
}

/// Values on a plane over the keys, and what it is at the queries; row i has a ridge only while its keys do not span.
struct Plane {
  ExactProblem problem;
  Vector at_queries;   // of the rows without a ridge
  Vector coefficient;  // of lambda in those rows: slope (C, or G / i)^{-1} (kbar, or 0, less q)
  static constexpr int K = 4, V = 3, T = 7, first = K;

  explicit Plane(Name mechanism, const Params& params = {}) : problem(seeded(mechanism, params, T, K, V)) {
    const bool intercept = mechanism != "mesanet";
    const ExactProblem other = make("softmax_attention", {}, V, K, V, 5);
    const Matrix slope = input(other, "k"), k = input(problem, "k");
    const Vector base = intercept ? input(other, "v").row(0) : Vector(V);
    Matrix v(T, V);
    v.data.clear();
    for (int j = 0; j < T; ++j) append(v.data, base + slope * k.row(j));
    set(problem, "v", v);
    const Head head(problem);
    for (int i = first; i < T; ++i) {
      append(at_queries, base + slope * head.q.row(i));
      const Moments m = params.contains("lambda_mode") || mechanism == "lla" ? head.softmax(i) : head.uniform(i);
      const Matrix gram = m.C + Mp200(intercept ? 0 : 1) * outer(m.kbar, m.kbar);
      const Vector offset = intercept ? m.zbar : -head.q.row(i);
      append(coefficient, 1 / (mechanism == "lla" ? Mp200(1) : m.omega) * (slope * solve(gram, offset)));
    }
  }
  ExactProblem with_lambda(const Mp200& lambda) const {
    ExactProblem p = problem;
    Vector by_row(T, lambda);
    std::fill(by_row.begin(), by_row.begin() + first, Mp200(1));
    p.inputs["lambda"] = {{T}, by_row};
    return p;
  }
  Vector at(const Mp200& lambda) const { return rows_from(output(with_lambda(lambda)), first, V); }

 private:
  static void append(Vector& all, const Vector& more) { all.insert(all.end(), more.begin(), more.end()); }
};

std::vector<Identity> plane_limits() {
  std::vector<Identity> list;
  for (const Name m : {"lla", "affine_mesanet", "mesanet"}) {
    const bool intercept = m != "mesanet";
    list.push_back(identity(
        "plane_reproduced", m,
        intercept ? "lambda = 0, v_j = b + B k_j: o = b + B q where K + 1 keys are seen"
                  : "lambda = 0, v_j = B k_j: o = B q where K + 1 keys are seen",
        section_10, [=] { return Plane(m).at(0); }, [=] { return Plane(m).at_queries; }));
    list.push_back({"ridge_to_zero_on_a_plane", m,
                    intercept ? "lambda = eps, v_j = b + B k_j: o -> b + B q, with lambda B C^{-1} zbar"
                              : "lambda = eps, v_j = B k_j: o -> B q, with -lambda B G^{-1} q",
                    section_9, 1, [=](const Mp200& eps) { return Plane(m).at(eps) - Plane(m).at_queries; },
                    [=] { return Plane(m).coefficient; }});
  }
  return list;
}

/// A reflection after a rotation by the angle of the triangle 3, 4, 5 in the first two dimensions: exact numbers.
Matrix rotation() {
  Matrix turn = diagonal({1, 1, 1, 1});
  turn(0, 0) = turn(1, 1) = Mp200(3) / 5, turn(0, 1) = Mp200(4) / 5, turn(1, 0) = Mp200(-4) / 5;
  const Vector u = {1, -2, 3, 1};
  return (diagonal({1, 1, 1, 1}) + Mp200(-2) / dot(u, u) * outer(u, u)) * turn;
}

Identity rotated(Name mechanism) {
  return identity(
      "rotation", mechanism, "q U, k U, rho U for an orthogonal U: o unchanged", section_10,
      [=] {
        ExactProblem p = plain(mechanism);
        for (const Name tensor : {"q", "k", "rho"})
          if (has(p, tensor)) set(p, tensor, input(p, tensor) * rotation());
        return output(p);
      },
      [=] { return output(plain(mechanism)); });
}

Identity rescaled(Name mechanism) {
  return identity(
      "scaling", mechanism, "3 q, 3 k, 9 bandwidth, 9 lambda, rho / 3: o unchanged", section_10,
      [=] {
        ExactProblem p = plain(mechanism);
        for (const Name tensor : {"q", "k"})
          if (has(p, tensor)) set(p, tensor, Mp200(3) * input(p, tensor));
        if (has(p, "rho")) set(p, "rho", Mp200(1) / 3 * input(p, "rho"));
        if (has(p, "lambda")) set_ridge(p, 9 * seeded_lambda);
        if (p.params.contains("bandwidth")) p.set_number("bandwidth", 9 * p.number("bandwidth"));
        return output(p);
      },
      [=] { return output(plain(mechanism)); });
}

ExactProblem moved(const ExactProblem& p, Name tensor, const Vector& by) {
  Matrix a = input(p, tensor);
  for (int i = 0; i < a.rows; ++i)
    for (int x = 0; x < a.cols; ++x) a(i, x) += by[static_cast<std::size_t>(x)];
  return with(p, tensor, a);
}

Identity moved_keys(Name mechanism) {
  const bool line = mechanism == "affine_mesanet";
  return identity(
      "translation", mechanism, line ? "k + c, q + c: o unchanged" : "k + c: o unchanged", section_10,
      [=] {
        const Vector c = {1, -2, 3, Mp200(1) / 2};
        const ExactProblem p = moved(plain(mechanism), "k", c);
        return output(line ? moved(p, "q", c) : p);
      },
      [=] { return output(plain(mechanism)); });
}

/// A shift of queries and keys at right angles to every difference of keys keeps a row's scores but for a constant.
Identity moved_line() {
  const auto problem = [] { return seeded("lla", {}, 3); };
  return identity(
      "translation", "lla", "k + c, q + c where c.(k_j - k_1) = 0: o unchanged", section_10,
      [=] {
        const ExactProblem p = problem();
        const Matrix between = offsets(input(p, "k"), input(p, "k").row(0), 3);
        Matrix differences(2, 4);
        differences.data = rows_from(between.data, 1, 4);
        Vector c = {1, -2, 3, 1};
        c = c - transposed(differences) * solve(differences * transposed(differences), differences * c);
        return output(moved(moved(p, "k", c), "q", c));
      },
      [=] { return output(problem()); });
}

Matrix reversed(const Matrix& rows) {
  Matrix result(rows.rows, rows.cols);
  for (int i = 0; i < rows.rows; ++i)
    for (int x = 0; x < rows.cols; ++x) result(i, x) = rows(rows.rows - 1 - i, x);
  return result;
}

/// The last row sees all tokens, and has its query and probe in another place.
Identity permuted(Name mechanism) {
  return identity(
      "permutation", mechanism, "k and v in reverse order: the last row unchanged", section_10,
      [=] {
        const ExactProblem p = plain(mechanism);
        const ExactProblem turned = with(p, "v", reversed(input(p, "v")));
        return rows_from(output(has(p, "k") ? with(turned, "k", reversed(input(p, "k"))) : turned), 6, 3);
      },
      [=] { return rows_from(output(plain(mechanism)), 6, 3); });
}

/// A key dimension that is 1 in every key and `feature` in every query: all scores of a row shift by feature / h.
ExactProblem with_constant_feature(ExactProblem p, const Mp200& feature) {
  const auto widened = [](const Matrix& rows, const Mp200& last) {
    Matrix wide(rows.rows, rows.cols + 1);
    for (int i = 0; i < rows.rows; ++i)
      for (int x = 0; x < wide.cols; ++x) wide(i, x) = x < rows.cols ? rows(i, x) : last;
    return wide;
  };
  set(p, "q", widened(input(p, "q"), feature));
  set(p, "k", widened(input(p, "k"), 1));
  if (has(p, "rho")) set(p, "rho", widened(input(p, "rho"), 2));
  return p;
}

/// The elements of a gradient in the last dimension.
Vector last_column(const BasicArrays<Mp200>& gradients, Name name) {
  const Matrix d(gradients.find(name)->second);
  Vector column;
  for (int i = 0; i < d.rows; ++i) column.push_back(d(i, d.cols - 1));
  return column;
}

std::vector<Identity> shift_identities() {
  constexpr Name section_3 = "lla-family.md 3", section_4 = "lla-family.md 4";
  const auto shifted = [](Name mechanism, const Params& params) {
    return with_constant_feature(seeded(mechanism, params), Mp200(3) / 2);
  };
  std::vector<Identity> list;
  const auto unchanged = [&](Name name, Name mechanism, const Params& params) {
    list.push_back(identity(
        name, mechanism, "scores s_ij + c: o unchanged", section_3, [=] { return output(shifted(mechanism, params)); },
        [=] { return output(seeded(mechanism, params)); }));
  };
  const auto no_sum = [&](Name name, Name mechanism, const Params& params) {
    list.push_back({name, mechanism, "sum_j dL/ds_ij = 0", section_10, 0,
                    [=](const Mp200&) { return last_column(answer(shifted(mechanism, params)).gradients, "q"); },
                    [=] { return flat(answer(shifted(mechanism, params)).gradients, {"q"}); }});
  };
  unchanged("shifted_scores", "softmax_attention", {});
  unchanged("shifted_scores", "parallax", {});
  unchanged("shifted_scores", "lla", {});
  unchanged("max_shifted_scores", "lla", {{"lambda_mode", "max"}});
  list.push_back(identity(
      "absolute_shifted_scores", "lla", "scores s_ij + c: o = that at lambda exp(-c)", section_3,
      [=] {
        return output(shifted("lla", {{"lambda_mode", "absolute"}}));
      },
      [] {
        const ExactProblem p = line_problem("absolute");
        const Mp200 shift = Mp200(3) / 2 / p.number("bandwidth");
        return output(with_ridge(p, exp(-shift) * seeded_lambda));
      }));
  no_sum("score_gradients_cancel", "softmax_attention", {});
  no_sum("score_gradients_cancel", "parallax", {});
  no_sum("score_gradients_cancel", "lla", {});
  no_sum("max_score_gradients_cancel", "lla", {{"lambda_mode", "max"}});
  const auto euler = [=] {
    ExactProblem p = shifted("lla", {{"lambda_mode", "absolute"}});
    p.inputs["lambda"] = {{7}, {1, 2, 3, 4, 5, 6, 7}};
    return p;
  };
  list.push_back(identity(
      "euler", "lla", "lambda_mode absolute: sum_j dL/ds_ij = -lambda_i dL/dlambda_i", section_4,
      [=] { return euler().number("bandwidth") * last_column(answer(euler()).gradients, "q"); },
      [=] {
        Vector d = flat(answer(euler()).gradients, {"lambda"});
        for (std::size_t i = 0; i < d.size(); ++i) d[i] *= -static_cast<int>(i + 1);
        return d;
      }));
  return list;
}

/// One problem of a mechanism, with a cotangent of o alone, and its gradients.
struct WithGradients {
  ExactProblem problem;
  BasicArrays<Mp200> gradients;

  explicit WithGradients(Name mechanism, const Params& params = {}) : problem(seeded(mechanism, params)) {
    std::erase_if(problem.cotangents, [](const auto& entry) { return entry.first != "o"; });
    gradients = answer(problem).gradients;
  }
  /// <x, dx>; zero if the mechanism has no such tensor.
  Mp200 along(Name name) const {
    const auto d = gradients.find(name);
    if (d == gradients.end()) return 0;
    return dot(name == "bandwidth" ? Vector{problem.number(name)} : values_of(problem, name), d->second.data);
  }
};

Identity scaling_of_gradients(Name name, Name mechanism, const Params& params) {
  return {
      name,
      mechanism,
      "<q, dq> + <k, dk> - <rho, drho> + 2 bandwidth dbandwidth + 2 <lambda, dlambda> = 0",
      section_10,
      0,
      [=](const Mp200&) {
        const WithGradients g(mechanism, params);
        return Vector{g.along("q") + g.along("k") - g.along("rho") + 2 * g.along("bandwidth") + 2 * g.along("lambda")};
      },
      [=] { return Vector{WithGradients(mechanism, params).along("k")}; }};
}

Identity rotation_of_gradients(Name mechanism) {
  const auto product = [=] {
    const WithGradients g(mechanism);
    Matrix sum(4, 4);
    for (const Name name : {"q", "k", "rho"})
      if (has(g.problem, name)) sum = sum + transposed(input(g.problem, name)) * Matrix(g.gradients.find(name)->second);
    return sum;
  };
  return {"rotation_of_gradients",
          mechanism,
          "q^T dq + k^T dk + rho^T drho is symmetric",
          section_10,
          0,
          [=](const Mp200&) { return product().data - transposed(product()).data; },
          [=] { return product().data; }};
}

Identity translation_of_gradients(Name mechanism) {
  const bool line = mechanism == "affine_mesanet";
  return {"translation_of_gradients",
          mechanism,
          line ? "sum_j dk_j + sum_i dq_i = 0" : "sum_j dk_j = 0",
          section_10,
          0,
          [=](const Mp200&) {
            const WithGradients g(mechanism);
            const Vector ones(7, Mp200(1));
            const Vector sum = weighted_sum(ones, Matrix(g.gradients.find("k")->second));
            return line ? sum + weighted_sum(ones, Matrix(g.gradients.find("q")->second)) : sum;
          },
          [=] { return flat(WithGradients(mechanism).gradients, {"k"}); }};
}

std::vector<Identity> invariances() {
  std::vector<Identity> list;
  for (const Name m : template_members) list.push_back(constant_values(m));
  for (const Name m : template_members) list.push_back(linear_in_values(m));
  for (const Name m : {"mesanet", "linear_attention"}) list.push_back(linear_in_values(m));
  for (const Identity& l : plane_limits()) list.push_back(l);
  for (const Name m :
       {"softmax_attention", "parallax", "lla", "affine_linear_attention", "affine_mesanet", "mesanet"}) {
    list.push_back(rotated(m));
    list.push_back(rescaled(m));
    list.push_back(permuted(m));
    list.push_back(rotation_of_gradients(m));
    list.push_back(scaling_of_gradients("scaling_of_gradients", m, {}));
  }
  list.push_back(scaling_of_gradients("absolute_scaling_of_gradients", "lla", {{"lambda_mode", "absolute"}}));
  list.push_back(scaling_of_gradients("max_scaling_of_gradients", "lla", {{"lambda_mode", "max"}}));
  list.push_back(rotated("linear_attention"));
  list.push_back(permuted("value_averaging"));
  for (const Name m : {"softmax_attention", "parallax", "affine_linear_attention", "affine_mesanet"}) {
    list.push_back(moved_keys(m));
    list.push_back(translation_of_gradients(m));
  }
  list.push_back(moved_line());
  for (const Identity& l : shift_identities()) list.push_back(l);
  return list;
}

/// o, its limit and the slope of a member with equal weights, row by row.
template <class F>
Vector uniform_rows(const ExactProblem& p, F&& of_row) {
  const Head head(p);
  return head.each_row([&](int i) { return of_row(head.uniform(i), head.q.row(i)); });
}

/// S_i = sum v k^T and G_i = sum k k^T from moments.
Matrix state_of(const Moments& m) { return m.omega * (m.X + outer(m.vbar, m.kbar)); }
Matrix gram_of(const Moments& m) { return m.omega * (m.C + outer(m.kbar, m.kbar)); }

Identity affine_ridge_to_infinity(Name name, Name scaling, Name statement) {
  const auto problem = [=] { return seeded("affine_mesanet", {{"lambda_scaling", std::string(scaling)}}); };
  return {name,
          "affine_mesanet",
          statement,
          section_9,
          1,
          [=](const Mp200& eps) {
            return output(with_ridge(problem(), 1 / eps)) - output(in_room("value_averaging", problem()));
          },
          [=] {
            return uniform_rows(problem(), [=](const Moments& m, const Vector&) {
              return -(scaling == "mean" ? Mp200(1) : m.omega) * (m.X * m.zbar);
            });
          }};
}

Identity affine_ridge_to_zero() {
  return {"ridge_to_zero",
          "affine_mesanet",
          "lambda = eps on the means: o -> vbar - X_u C_u^+ zbar, with lambda X_u (C_u^+)^2 zbar",
          section_9,
          1,
          [](const Mp200& eps) {
            const ExactProblem p = mean_problem();
            return output(with_ridge(p, eps)) - uniform_rows(p, [](const Moments& m, const Vector&) {
                     return m.vbar - m.X * pseudo_solve(m.C, m.zbar);
                   });
          },
          [] {
            return uniform_rows(mean_problem(), [](const Moments& m, const Vector&) {
              return m.X * pseudo_solve(m.C, pseudo_solve(m.C, m.zbar));
            });
          }};
}

Identity mesanet_ridge_to_infinity(Name name, Name scaling, Name normalization, Name statement) {
  const auto problem = [=] { return seeded("mesanet", {{"lambda_scaling", std::string(scaling)}}); };
  return {name,
          "mesanet",
          statement,
          section_9,
          1,
          [=](const Mp200& eps) {
            const ExactProblem p = problem();
            ExactProblem sums = with_param(in_room("linear_attention", p), "normalization", std::string(normalization));
            sums.set_number("scale", 1);
            std::erase_if(sums.cotangents, [](const auto& entry) { return entry.first != "o"; });
            return 1 / eps * output(with_ridge(p, 1 / eps)) - output(sums);
          },
          [=] {
            return uniform_rows(problem(), [=](const Moments& m, const Vector& q) {
              const Mp200 unit = scaling == "mean" ? m.omega : Mp200(1);
              return Mp200(-1) / (unit * unit) * (state_of(m) * (gram_of(m) * q));
            });
          }};
}

Identity mesanet_ridge_to_zero() {
  return {"ridge_to_zero",
          "mesanet",
          "lambda = eps: o -> S G^+ q, G singular in early rows, with -lambda S (G^+)^2 q",
          section_9,
          1,
          [](const Mp200& eps) {
            const ExactProblem p = seeded("mesanet");
            return output(with_ridge(p, eps)) - uniform_rows(p, [](const Moments& m, const Vector& q) {
                     return state_of(m) * pseudo_solve(gram_of(m), q);
                   });
          },
          [] {
            return uniform_rows(seeded("mesanet"), [](const Moments& m, const Vector& q) {
              return -(state_of(m) * pseudo_solve(gram_of(m), pseudo_solve(gram_of(m), q)));
            });
          }};
}

/// Tokens in pairs (k, v), (-k, -v): after each pair the means vanish, and with them the intercept.
ExactProblem symmetric_tokens(Name mechanism, const Params& params) {
  ExactProblem p = seeded(mechanism, params, 6);
  for (const Name tensor : {"k", "v"}) {
    Matrix a = input(p, tensor);
    for (int i = 1; i < a.rows; i += 2)
      for (int x = 0; x < a.cols; ++x) a(i, x) = -a(i - 1, x);
    set(p, tensor, a);
  }
  return p;
}

Identity no_intercept(Name name, const Params& params) {
  return identity(
      name, "affine_mesanet", "tokens in pairs (k, v), (-k, -v): o = mesanet after each pair", "lla-family.md 7",
      [=] { return odd_rows(output(symmetric_tokens("affine_mesanet", params)), 3); },
      [=] { return odd_rows(output(in_room("mesanet", symmetric_tokens("affine_mesanet", params))), 3); });
}

Identity no_intercept_along_a_probe() {
  const auto problem = [] { return symmetric_tokens("affine_linear_attention", {}); };
  return identity(
      "no_intercept", "affine_linear_attention",
      "tokens in pairs (k, v), (-k, -v): o = linear_attention at -rho, divided by the count", "lla-family.md 7",
      [=] { return odd_rows(output(problem()), 3); },
      [=] {
        ExactProblem p = problem();
        p.inputs["q"] = (Mp200(-1) * input(p, "rho")).array();
        ExactProblem sums = with_param(in_room("linear_attention", p), "normalization", "count");
        sums.cotangents.clear();
        sums.set_number("scale", 1);
        return odd_rows(output(sums), 3);
      });
}

std::vector<Identity> uniform_limits() {
  return {affine_ridge_to_infinity("ridge_to_infinity", "sum",
                                   "lambda = 1/eps: o -> value_averaging, with -(i / lambda) X_u zbar"),
          affine_ridge_to_infinity("ridge_to_infinity_on_means", "mean",
                                   "lambda = 1/eps on the means: o -> value_averaging, with -X_u zbar / lambda"),
          affine_ridge_to_zero(),
          mesanet_ridge_to_infinity("ridge_to_infinity", "sum", "none",
                                    "lambda = 1/eps: lambda o -> linear_attention, with -S G q / lambda"),
          mesanet_ridge_to_infinity("ridge_to_infinity_on_means", "mean", "count",
                                    "lambda = 1/eps on the means: lambda o -> linear_attention divided by the count, "
                                    "with -S G q / (i^2 lambda)"),
          mesanet_ridge_to_zero(),
          no_intercept("no_intercept", {}),
          no_intercept("no_intercept_on_means", {{"lambda_scaling", "mean"}}),
          no_intercept_along_a_probe()};
}

}  // namespace
}  // namespace local_linear

std::vector<Identity> lla_identities() {
  std::vector<Identity> list;
  for (const auto& part :
       {local_linear::ridge_limits(), local_linear::bandwidth_limits(), local_linear::probe_identities(),
        local_linear::solver_identities(), local_linear::block_identities(), local_linear::token_identities(),
        local_linear::invariances(), local_linear::uniform_limits()})
    list.insert(list.end(), part.begin(), part.end());
  return list;
}

}  // namespace assay::identities
