// The mistakes of the papers on local linear attention (L) and Parallax (P), and of the code of the first
// (lla-family.md sections 13 and 15). `printed` is run as it stands there, `corrected` as the specification has it.
#include <algorithm>
#include <utility>

#include "oracles/identities/errata.hpp"
#include "oracles/identities/lla_forms.hpp"

namespace assay::identities {
namespace local_linear {
namespace {

using Values = Erratum::Values;

ExactProblem problem(std::string_view mode, const Params& more = {}) {
  Params params = more;
  params.insert_or_assign("lambda_mode", std::string(mode));
  return seeded("lla", params);
}

/// The same ridge in every dimension.
Vector ridge(const Head& head, const Mp200& lambda) { return Vector(static_cast<std::size_t>(head.k.cols), lambda); }

/// Row i of local linear attention, L(8), with weights exp(s_ij - shift) and a ridge in their unit.
Vector line_output(const Head& head, int i, const Mp200& shift, const Mp200& lambda) {
  const Vector w = exp(-shift) * head.weights(i);
  const Line l = line(w, ridge(head, lambda), head.k, head.q.row(i));
  return intercept(w, l.z, l.rho, l.delta, head.v);
}

/// argmin over b, W of sum w |v - b - W z|^2 / 2 + penalty |W|^2, at z = 0: b, by the normal equations of both.
Vector minimiser(const Head& head, int i, const Mp200& penalty) {
  const Vector w = head.weights(i);
  const Matrix z = offsets(head.k, head.q.row(i), head.visible(i));
  const int K = z.cols;
  Matrix features(z.rows, K + 1);
  for (int j = 0; j < z.rows; ++j)
    for (int x = 0; x <= K; ++x) features(j, x) = x < K ? z(j, x) : Mp200(1);
  Matrix normal = weighted_outer(w, features, features);
  for (int x = 0; x < K; ++x) normal(x, x) += 2 * penalty;
  const Matrix targets = transposed(weighted_outer(w, features, head.v));
  Vector b;
  for (int y = 0; y < head.v.cols; ++y) b.push_back(solve(normal, targets.row(y)).back());
  return b;
}

Values penalty_of_lla() {
  const ExactProblem p = problem("absolute");
  const Head head(p);
  const auto printed = [&](int i) { return minimiser(head, i, seeded_lambda); };
  const auto corrected = [&](int i) { return minimiser(head, i, seeded_lambda / 2); };
  return {head.each_row(printed), head.each_row(corrected), output(p)};
}

/// argmin over W of sum |v - W k|^2 / 2 + penalty |W|^2, at q.
Vector regression(const Head& head, int i, const Mp200& penalty) {
  const Vector ones(static_cast<std::size_t>(i) + 1, Mp200(1));
  const Matrix H = weighted_outer(ones, head.k, head.k) + diagonal(ridge(head, 2 * penalty));
  return weighted_outer(ones, head.v, head.k) * solve(H, head.q.row(i));
}

Values penalty_of_mesanet() {
  const ExactProblem p = seeded("mesanet");
  const Head head(p);
  const auto printed = [&](int i) { return regression(head, i, seeded_lambda); };
  const auto corrected = [&](int i) { return regression(head, i, seeded_lambda / 2); };
  return {head.each_row(printed), head.each_row(corrected), output(p)};
}

Values ridge_under_the_shift() {
  const ExactProblem p = problem("absolute");
  const Head head(p);
  const auto printed = [&](int i) { return line_output(head, i, head.largest_score(i), seeded_lambda); };
  const auto corrected = [&](int i) {
    const Mp200 m = head.largest_score(i);
    return line_output(head, i, m, exp(-m) * seeded_lambda);
  };
  return {head.each_row(printed), head.each_row(corrected), output(p)};
}

/// One row of L-Alg 1 and 2 after the first pass: weights exp(s - m), their sum and uncentred M = sum w k.
struct FlashRow {
  Vector w, M, q;
  Mp200 omega, ridge;
  const Head& head;

  FlashRow(const Head& h, int i) : w(exp(-h.largest_score(i)) * h.weights(i)), q(h.q.row(i)), head(h) {
    M = weighted_sum(w, h.k);
    for (const Mp200& x : w) omega += x;
    ridge = exp(-h.largest_score(i)) * seeded_lambda;
  }
  Vector mu() const { return M - omega * q; }
  /// Sigma p as L-Alg 2 has it, where line 9's row sums and line 10's M are the caller's.
  Vector product(const Vector& p, const Mp200& along_q, const Vector& key_sum) const {
    Vector sum = ridge * p + along_q * (omega * q - key_sum) - dot(key_sum, p) * q;
    for (int j = 0; j < static_cast<int>(w.size()); ++j)
      sum = sum + (w[static_cast<std::size_t>(j)] * dot(head.k.row(j), p)) * head.k.row(j);
    return sum;
  }
  Vector matrix_free(const Vector& p) const { return product(p, dot(p, q), M); }
  Vector output(const Vector& rho, const Mp200& delta) const {
    const Matrix z = offsets(head.k, q, static_cast<int>(w.size()));
    return intercept(w, z, rho, delta, head.v);
  }
};

/// `steps` steps of conjugate gradients from zero on `multiply`(x) = b.
template <class F>
Vector conjugate_gradients(const Vector& b, int steps, F&& multiply) {
  Vector x(b.size()), r = b, p = b;
  for (int t = 0; t < steps && norm(r) > 0; ++t) {
    const Vector Sp = multiply(p);
    const Mp200 square = dot(r, r), alpha = square / dot(p, Sp);
    x = x + alpha * p;
    r = r - alpha * Sp;
    p = r + dot(r, r) / square * p;
  }
  return x;
}

/// L-Alg 1 line 14 and what follows, with `omega` for the sum of the weights.
Vector from_sum(const FlashRow& row, const Mp200& omega) {
  const Vector mu = row.M - omega * row.q;
  const Vector rho =
      conjugate_gradients(mu, static_cast<int>(mu.size()), [&](const Vector& p) { return row.matrix_free(p); });
  return row.output(rho, row.omega - dot(mu, rho));
}

Values sum_of_the_last_tile() {
  const ExactProblem p = problem("absolute", {{"causal", false}});
  const Head head(p);
  constexpr std::size_t last_tile = 6;  // of three keys each, the third has one
  const auto printed = [&](int i) {
    const FlashRow row(head, i);
    Mp200 last = 0;
    for (std::size_t j = last_tile; j < row.w.size(); ++j) last += row.w[j];
    return from_sum(row, last);
  };
  const auto corrected = [&](int i) {
    const FlashRow row(head, i);
    return from_sum(row, row.omega);
  };
  return {head.each_row(printed), head.each_row(corrected), output(p)};
}

/// FlashLLA with K steps on a product of L-Alg 2: `multiply`(row, p).
template <class F>
Vector flash(const Head& head, F&& multiply) {
  return head.each_row([&](int i) {
    const FlashRow row(head, i);
    const Vector rho = conjugate_gradients(row.mu(), head.k.cols, [&](const Vector& p) { return multiply(row, p); });
    return row.output(rho, row.omega - dot(row.mu(), rho));
  });
}

Values query_sum_of_the_right_hand_side() {
  const ExactProblem p = problem("absolute", {{"solver", "cg"}, {"iterations", 4L}, {"tolerance", "0"}});
  const Head head(p);
  const auto printed = [](const FlashRow& row, const Vector& x) { return row.product(x, dot(row.mu(), row.q), row.M); };
  const auto corrected = [](const FlashRow& row, const Vector& x) { return row.product(x, dot(x, row.q), row.M); };
  return {flash(head, printed), flash(head, corrected), output(p)};
}

Values centred_key_sum() {
  const ExactProblem p = problem("absolute", {{"solver", "cg"}, {"iterations", 4L}, {"tolerance", "0"}});
  const Head head(p);
  const auto printed = [](const FlashRow& row, const Vector& x) { return row.product(x, dot(x, row.q), row.mu()); };
  // With the centred sum, the other signs: - (p.q) mu - (mu.p) q - omega (p.q) q.
  const auto corrected = [](const FlashRow& row, const Vector& x) {
    return row.product(x, dot(x, row.q), row.mu()) - (2 * row.omega * dot(x, row.q)) * row.q;
  };
  return {flash(head, printed), flash(head, corrected), output(p)};
}

Values no_causal_mask() {
  const ExactProblem p = problem("absolute");
  const Head head(p);
  Head sees_all = head;
  sees_all.causal = false;
  const auto by_row = [](const Head& h) {
    return h.each_row([&](int i) { return line_output(h, i, 0, seeded_lambda); });
  };
  return {by_row(sees_all), by_row(head), output(p)};
}

/// A row in the backward pass of L-App D, in whatever unit its weights have.
struct BackwardRow {
  Vector w, a, c, u, dmu;
  Line l;
  Mp200 beta, e;  // e = sum_a ridge_a dridge_a

  BackwardRow(const Head& head, int i, Vector weights, const Mp200& lambda, const Vector& g) : w(std::move(weights)) {
    l = line(w, ridge(head, lambda), head.k, head.q.row(i));
    beta = dot(g, intercept(w, l.z, l.rho, l.delta, head.v)) / l.delta;
    for (std::size_t j = 0; j < w.size(); ++j) {
      a.push_back(dot(g, head.v.row(static_cast<int>(j))));
      c.push_back(a[j] * w[j] / l.delta);
    }
    u = solve(l.Sigma, weighted_sum(c, l.z));
    dmu = 2 * beta * l.rho - u;
    e = lambda * dot(l.rho, u - beta * l.rho);
  }
  int keys() const { return l.z.rows; }
  Vector z(int j) const { return l.z.row(j); }
  const Mp200& weight(int j) const { return w[static_cast<std::size_t>(j)]; }
  /// Gamma.S of key j: what the weights have from the values alone.
  Mp200 value_term(int j) const { return c[static_cast<std::size_t>(j)] * (1 - dot(z(j), l.rho)); }
  Mp200 linear_term(int j) const { return dot(z(j), dmu); }
  /// -r(dMu).r(R) / 2 and r(U).r(R) / 2.
  Mp200 offset_term(int j) const { return -dot(z(j), dmu) * dot(z(j), l.rho) / 2; }
  Mp200 system_term(int j) const { return dot(z(j), u) * dot(z(j), l.rho) / 2; }
  Vector dz(int j) const {
    const Mp200 along = dot(z(j), l.rho);
    return weight(j) * (dmu + along * u + (dot(z(j), u) - 2 * beta * along) * l.rho) -
           c[static_cast<std::size_t>(j)] * l.rho;
  }
};

Mp200 score_gradient(const BackwardRow& row, int j) {
  return row.value_term(j) + row.weight(j) * (-row.beta + row.linear_term(j) + row.offset_term(j) + row.system_term(j));
}
Mp200 score_gradient_41(const BackwardRow& row, int j) {
  return row.value_term(j) + row.weight(j) * (row.linear_term(j) + row.offset_term(j) + row.system_term(j));
}
Mp200 score_gradient_42(const BackwardRow& row, int j) {
  return row.value_term(j) + row.weight(j) * (-row.beta + row.linear_term(j) + row.offset_term(j)) + row.system_term(j);
}

/// dq_i = sum_j D_ij k_j / h + sign sum_j dz_ij.
template <class F>
Vector query_gradient(const Head& head, const BackwardRow& row, F&& D, int sign = -1) {
  Vector dq(static_cast<std::size_t>(head.k.cols));
  for (int j = 0; j < row.keys(); ++j) dq = dq + D(row, j) / head.h * head.k.row(j) + sign * row.dz(j);
  return dq;
}

/// dq of mode absolute with `of_row`(head, row), whose weights are exp(s - m).
template <class F>
Vector query_gradients(const ExactProblem& p, F&& of_row) {
  const Head head(p);
  const Matrix g(p.cotangents.find("o")->second);
  return head.each_row([&](int i) {
    const Mp200 scale = exp(-head.largest_score(i));
    return of_row(head, BackwardRow(head, i, scale * head.weights(i), scale * seeded_lambda, g.row(i)));
  });
}

Vector query_gradient_of(const ExactProblem& p) { return flat(answer(p).gradients, {"q"}); }

Values mass_term_of_41() {
  const ExactProblem p = problem("absolute");
  const auto with = [](auto D) {
    return [=](const Head& head, const BackwardRow& row) { return query_gradient(head, row, D); };
  };
  return {query_gradients(p, with(score_gradient_41)), query_gradients(p, with(score_gradient)), query_gradient_of(p)};
}

Values sign_of_the_offsets() {
  const ExactProblem p = problem("absolute");
  const auto with = [](int sign) {
    return [=](const Head& head, const BackwardRow& row) { return query_gradient(head, row, score_gradient, sign); };
  };
  return {query_gradients(p, with(+1)), query_gradients(p, with(-1)), query_gradient_of(p)};
}

Values parentheses_of_42() {
  const ExactProblem p = problem("absolute");
  const auto with = [](auto D) {
    return [=](const Head& head, const BackwardRow& row) { return query_gradient(head, row, D); };
  };
  return {query_gradients(p, with(score_gradient_42)), query_gradients(p, with(score_gradient)), query_gradient_of(p)};
}

/// The row in the unit of exp(s - m), where mode max has its lambda and mode mass lambda omega'.
BackwardRow shifted_row(const Head& head, int i, bool mass, const Vector& g) {
  const Vector w = exp(-head.largest_score(i)) * head.weights(i);
  Mp200 omega = 0;
  for (const Mp200& x : w) omega += x;
  return {head, i, w, mass ? omega * seeded_lambda : seeded_lambda, g};
}

/// dq where the ridge follows the weights: `chain`(row, j, e) is added to D_ij.
template <class F>
Vector query_gradients_with_chain(const ExactProblem& p, bool mass, F&& chain) {
  const Head head(p);
  const Matrix g(p.cotangents.find("o")->second);
  return head.each_row([&](int i) {
    const BackwardRow row = shifted_row(head, i, mass, g.row(i));
    return query_gradient(head, row, [&](const BackwardRow& r, int j) { return score_gradient(r, j) + chain(r, j); });
  });
}

Values gradient_through_the_shift() {
  const ExactProblem p = problem("max");
  const auto printed = [](const BackwardRow&, int) { return Mp200(0); };
  const auto corrected = [](const BackwardRow& row, int j) {
    return row.weight(j) == *std::max_element(row.w.begin(), row.w.end()) ? row.e : Mp200(0);
  };
  return {query_gradients_with_chain(p, false, printed), query_gradients_with_chain(p, false, corrected),
          query_gradient_of(p)};
}

Values detached_ridge() {
  const ExactProblem p = problem("mass");
  const auto printed = [](const BackwardRow&, int) { return Mp200(0); };
  const auto corrected = [](const BackwardRow& row, int j) { return row.weight(j) / row.l.omega * row.e; };
  return {query_gradients_with_chain(p, true, printed), query_gradients_with_chain(p, true, corrected),
          query_gradient_of(p)};
}

/// vbar - X (C + lambda)^{-1} zbar at equal weights.
Vector affine_regression(const Head& head, int i, const Mp200& lambda) {
  const Moments m = head.uniform(i);
  return m.vbar - m.X * solve(m.C + diagonal(ridge(head, lambda)), m.zbar);
}

Values ridge_on_means() {
  const ExactProblem p = seeded("affine_mesanet");
  const Head head(p);
  const auto printed = [&](int i) { return affine_regression(head, i, seeded_lambda); };
  const auto corrected = [&](int i) { return affine_regression(head, i, seeded_lambda / (i + 1)); };
  return {head.each_row(printed), head.each_row(corrected), output(p)};
}

Values ridge_without_the_intercept() {
  const ExactProblem p = seeded("mesanet");
  const Head head(p);
  const auto printed = [&](int i) { return regression(head, i, (i + 1) * seeded_lambda / 2); };
  const auto corrected = [&](int i) { return regression(head, i, seeded_lambda / 2); };
  return {head.each_row(printed), head.each_row(corrected), output(p)};
}

/// After tokens (k, v), (-k, -v) both means vanish.
Values standard_linear_attention() {
  ExactProblem p = seeded("affine_linear_attention", {}, 2);
  for (const std::string_view name : {"k", "v"}) {
    Matrix a(p.inputs.find(name)->second);
    for (int x = 0; x < a.cols; ++x) a(1, x) = -a(0, x);
    p.inputs.find(name)->second = a.array();
  }
  const Head head(p);
  const Vector of_state = weighted_outer({1, 1}, head.v, head.k) * head.rho.row(1), o = output(p);
  const Vector averaged = Mp200(1) / 2 * of_state;
  return {averaged, -averaged, {o.begin() + head.v.cols, o.end()}};
}

/// vbar - X rho with weights 2^(scale q.k).
Vector parallax_in_powers_of_two(const Head& head, const Mp200& scale) {
  return head.each_row([&](int i) {
    Vector w;
    for (const Mp200& s : head.scores(i)) w.push_back(pow(Mp200(2), Mp200(scale * head.h * s)));
    const Moments m = moments(w, head.k, head.v, head.q.row(i));
    return m.vbar - m.X * head.rho.row(i);
  });
}

Values powers_of_two() {
  const ExactProblem p = seeded("parallax");
  const Head head(p);
  return {parallax_in_powers_of_two(head, 1 / head.h), parallax_in_powers_of_two(head, 1 / (log(Mp200(2)) * head.h)),
          output(p)};
}

Values orthogonal_probe() {
  const ExactProblem line_problem = problem("absolute");
  ExactProblem p = in_room("parallax", line_problem);
  const Matrix direction(make("parallax", {}, 7, 4, 3).inputs.find("rho")->second);
  const Head head(p);
  p.inputs["rho"] = {{7, 4}, head.each_row([&](int i) {
                       const Line l = line(head.weights(i), ridge(head, seeded_lambda), head.k, head.q.row(i));
                       const Vector any = direction.row(i);
                       return any - dot(any, l.rho) / dot(l.rho, l.rho) * l.rho;
                     })};
  const Head probed(p);
  const auto printed = [&](int i) { return probed.softmax(i).vbar; };
  const auto corrected = [&](int i) {
    const Moments m = probed.softmax(i);
    return m.vbar - m.X * probed.rho.row(i);
  };
  return {head.each_row(printed), head.each_row(corrected), output(p)};
}

/// Queries and keys of norm 1, where exp(-|q - k|^2 / (2 h)) is exp(q.k / h) but for exp(1 / h).
Values radial_kernel() {
  ExactProblem p = problem("absolute");
  for (const std::string_view name : {"q", "k"}) {
    Matrix a(p.inputs.find(name)->second);
    for (int i = 0; i < a.rows; ++i) {
      const Mp200 length = norm(a.row(i));
      for (int x = 0; x < a.cols; ++x) a(i, x) /= length;
    }
    p.inputs.find(name)->second = a.array();
  }
  const Head head(p);
  const auto printed = [&](int i) { return line_output(head, i, 0, seeded_lambda); };
  const auto corrected = [&](int i) {
    Vector w;
    const Matrix z = offsets(head.k, head.q.row(i), head.visible(i));
    for (int j = 0; j < z.rows; ++j) w.push_back(exp(-dot(z.row(j), z.row(j)) / (2 * head.h)));
    const Line l = line(w, ridge(head, seeded_lambda), head.k, head.q.row(i));
    return intercept(w, l.z, l.rho, l.delta, head.v);
  };
  set_ridge(p, exp(1 / head.h) * seeded_lambda);
  return {head.each_row(printed), head.each_row(corrected), output(p)};
}

/// |X rho| and |X|_2 of the last row, for two value dimensions.
struct Covariance {
  Mp200 along, norm_of_probe, norm_of_matrix;

  explicit Covariance(const Head& head) {
    const int i = head.queries() - 1;
    const Moments m = head.softmax(i);
    along = norm(m.X * head.rho.row(i));
    norm_of_probe = norm(head.rho.row(i));
    const Matrix square = m.X * transposed(m.X);
    const Mp200 trace = square(0, 0) + square(1, 1);
    const Mp200 determinant = square(0, 0) * square(1, 1) - square(0, 1) * square(1, 0);
    norm_of_matrix = sqrt((trace + sqrt(trace * trace - 4 * determinant)) / 2);
  }
};

/// diagnostics.cpa of the room's last row.
Mp200 reported_cpa(const ExactProblem& p) {
  BasicProblem<std::string> text{"", p.mechanism, p.params, {}, {}};
  for (const auto& [name, array] : p.inputs) {
    BasicArray<std::string>& to = text.inputs[name];
    to.shape = array.shape;
    for (const Mp200& x : array.data) to.data.push_back(text_of(x));
  }
  const Decimals d = listed_room(p.mechanism).decimals(text, {.digits = 195, .tier = Tier::mp200});
  return from_decimal<Mp200>(d.outputs.find("diagnostics.cpa")->second.data.back().text);
}

Values alignment_without_parentheses() {
  const ExactProblem p = seeded("parallax", {}, 7, 4, 2);
  const Covariance c{Head(p)};
  return {{c.along / c.norm_of_probe * c.norm_of_matrix},
          {c.along / (c.norm_of_probe * c.norm_of_matrix)},
          {reported_cpa(p)}};
}

/// A row's backward pass with what the forward pass has saved, and weights exp(scale q.k - m) made again.
Vector query_gradients_at_scale(const ExactProblem& p, const Mp200& scale) {
  const Head saved(p);
  Head again = saved;
  again.h = 1 / scale;
  const Matrix g(p.cotangents.find("o")->second);
  return saved.each_row([&](int i) {
    BackwardRow row = shifted_row(saved, i, true, g.row(i));
    const Vector w = exp(-saved.largest_score(i)) * again.weights(i);
    for (std::size_t j = 0; j < w.size(); ++j) row.c[j] = row.a[j] * w[j] / row.l.delta;
    row.w = w;
    return query_gradient(
        again, row, [](const BackwardRow& r, int j) { return score_gradient(r, j) + r.weight(j) / r.l.omega * r.e; });
  });
}

/// The scale 2^{-1/2} of K = 2 loses 1e-4 in bf16, like those of K = 32 and 128.
Values scale_in_bf16() {
  ExactProblem p = seeded("lla", {}, 7, 2, 3);
  const Mp200 scale = 1 / sqrt(Mp200(2)), bf16 = Mp200(0x1.6ap-1);
  p.set_number("bandwidth", 1 / scale);
  return {query_gradients_at_scale(p, bf16), query_gradients_at_scale(p, scale), query_gradient_of(p)};
}

/// A small ridge, so that the first rows' denominators are small.
Values constant_in_the_denominator() {
  ExactProblem p = problem("mass");
  const Mp200 lambda = ldexp(Mp200(1), -16);
  set_ridge(p, lambda);
  const Head head(p);
  const auto with = [&](const Mp200& added) {
    return head.each_row([&](int i) {
      const FlashRow row(head, i);
      const Line l = line(row.w, ridge(head, row.omega * lambda), head.k, row.q);
      return row.output(l.rho, l.delta + (l.delta < 0 ? -added : added));
    });
  };
  return {with(from_decimal<Mp200>("1e-12")), with(0), output(p)};
}

/// Steps until stop(r.r, r0.r0); the last row of mode mass, alone.
template <class F>
Vector stopped_row(const ExactProblem& p, F&& stop) {
  const Head head(p);
  const FlashRow row(head, 0);
  const Line l = line(row.w, ridge(head, row.omega * seeded_lambda), head.k, row.q);
  const Mp200 first = dot(l.mu, l.mu);
  int steps = 0;
  for (; steps < head.k.cols; ++steps) {
    const Vector x = conjugate_gradients(l.mu, steps, [&](const Vector& d) { return l.Sigma * d; });
    const Vector r = l.mu - l.Sigma * x;
    if (stop(dot(r, r), first)) break;
  }
  const Vector rho = conjugate_gradients(l.mu, steps, [&](const Vector& d) { return l.Sigma * d; });
  return row.output(rho, row.omega - dot(l.mu, rho));
}

Values tolerance_on_the_square() {
  ExactProblem p = problem("mass", {{"solver", "cg"}, {"iterations", 4L}});
  const Mp200 relative = Mp200(1) / 16;
  p.inputs["q"] = {{1, 4}, Matrix(p.inputs["q"]).row(6)};
  p.cotangents.clear();
  p.set_number("tolerance", relative * norm(FlashRow(Head(p), 0).mu()));
  const auto printed = [&](const Mp200& square, const Mp200& first) { return square <= relative * first; };
  const auto corrected = [&](const Mp200& square, const Mp200& first) { return square <= relative * relative * first; };
  return {stopped_row(p, printed), stopped_row(p, corrected), output(p)};
}

ErrataChapter chapter() {
  return {
      "Local linear attention and Parallax",
      "lla-family.md, sections 13 and 15; L is the paper on local linear attention, P the one on Parallax",
      {{"E1", "L(6)", "penalty lambda |W|_F^2, where the data term has 1/2",
        "(lambda / 2) |W|_F^2; as printed, L(7) has 2 lambda", "o", penalty_of_lla},
       {"E2", "L(1) vs L(2)", "the same factor; and the brace names the inverse H_i, P(9) the matrix",
        "(lambda / 2) |W|_F^2", "o", penalty_of_mesanet},
       {"E3", "L sec. 3.2; L-Alg 2 line 10", "homogeneous in w: lambda P with max-shifted W",
        "lambda exp(-m_i) P; as printed it is lambda_mode max", "o", ridge_under_the_shift},
       {"E4", "L-Alg 1 line 14", "brsum(W), where W is the last tile alone", "bcast(omega) of all tiles", "o",
        sum_of_the_last_tile},
       {"E5", "L-Alg 2 line 9", "P_Q = brsum(Y.Q)", "brsum(P.Q) of the step's P", "o",
        query_sum_of_the_right_hand_side},
       {"E6", "L-Alg 2 lines 9-10", "M_r, the name of the centred sum of Alg 1 line 14, for the uncentred one",
        "M uncentred, or centred with all signs minus", "o", centred_key_sum},
       {"E7", "L-Alg 1 lines 8-11, 19; L-Alg 2 line 6", "no causal mask", "tril as in L(14), in every pass", "o",
        no_causal_mask},
       {"E8", "L(41)", "no -w beta term", "gamma s - w beta + ..., as in L(32) and (42)", "dq", mass_term_of_41},
       {"E9", "L(50) with L(48)-(49)", "Delta_Q = Delta_W^Q + Delta_Z^Q", "minus, as in L(36)", "dq",
        sign_of_the_offsets},
       {"E10", "L(42)-(43)", "unbalanced parentheses: the last term reads as outside W.( )", "inside W.( )", "dq",
        parentheses_of_42},
       {"E11", "L-App D with L-Alg 1 and 2", "no gradient through m, which the printed lambda follows",
        "sum_a lambda_a dlambda_a on the score of the arg-max", "dq", gradient_through_the_shift},
       {"E12", "L-App D", "dlambda and dh are missing", "-x y / omega and -sum D s / h", "dlambda, dh", {}},
       {"E13", "P(9)-(10), (13)", "ridge lambda on the averaged H",
        "lambda / i, the limit of P(3); or lambda_mode mass", "o", ridge_on_means},
       {"E14", "P(5) vs P(9), \"drop intercept\"", "ridge lambda on sums in P(5), i lambda by P(9)", "say which", "o",
        ridge_without_the_intercept},
       {"E15", "P sec. 3.2, P(12) with vbar = kbar = 0", "\"standard Linear Attention\"",
        "-S rho / i: the sign and 1/i (the number is of the sign alone)", "o", standard_linear_attention},
       {"E16", "P-Alg 1 lines 4-5", "exp2 with an unspecified s, read as 1/h", "s = log2(e) / h", "o", powers_of_two},
       {"E17", "P sec. 3.2, text", "a probe orthogonal to rho* does not contribute: o = softmax attention",
        "only null(X_i) does not", "o", orthogonal_probe},
       {"E18", "L sec. 2.1", "the constant of the RBF kernel \"cancels\"",
        "in softmax attention alone; in LLA it divides lambda", "o", radial_kernel},
       {"t1", "L sec. 3.1", "conjugate gradients \"twice\" in the backward", "one solve (u) suffices", "-", {}},
       {"t2",
        "L(27)",
        "W_lam in R^{d x d_lam} times x_i; \"d_lam = d_h, head dimension\"",
        "the transpose; one per head is probably meant for the number of heads",
        "-",
        {}},
       {"t3", "P after (8)", "t_ij - t_i", "t_ij - tbar_i", "-", {}},
       {"t4",
        "L-Table 1",
        "block-diagonal steps T d^2 / g^2; LLA compute T d^2",
        "g blocks of (d/g)^2: d^2 / g per step; a matrix-free product costs n d per step and query",
        "-",
        {}},
       {"t5", "P(17)", "numerator / |rho| |X|_2, no parentheses", "divided by the product", "cpa",
        alignment_without_parentheses},
       {"15a", "FlashLLA, backward", "the ridge lambda omega constant under changes of q and k",
        "p_ij sum_a lambda_a dlambda_a more on every score", "dq", detached_ridge},
       {"15b", "FlashLLA, backward", "the scale saved in the type of the inputs, bf16", "saved in fp32 at least", "dq",
        scale_in_bf16},
       {"15c",
        "FlashLLA, backward, T no multiple of the tile",
        "padded rows load denominator 0 and weight 1: NaN",
        "masked rows",
        "dk, dv",
        {}},
       {"15d",
        "FlashLLA, few steps in bf16",
        "omega - mu.rho of an unconverged rho passes near zero",
        "sum w (1 - z.rho), over the rounded terms that the output sums",
        "o",
        {}},
       {"15e", "FlashLLA, denominator", "1e-12 sign(delta) added to delta", "delta", "o", constant_in_the_denominator},
       {"15f", "FlashLLA, conjugate gradients", "stops where |r|^2 <= rtol |r0|^2: rtol acts on the square",
        "|r| <= rtol |r0|", "o", tolerance_on_the_square}}};
}

}  // namespace
}  // namespace local_linear

ErrataChapter lla_errata() { return local_linear::chapter(); }

}  // namespace assay::identities
