// Identities and limits of the FALCON family (falcon-family.md sections 1, 2 and 5).
#include <algorithm>
#include <numeric>
#include <utility>

#include "oracles/identities/falcon_formulas.hpp"
#include "oracles/identities/identities.hpp"
#include "reference/families/dense.hpp"

namespace assay::identities {
namespace falcon_formulas {
namespace {

using Name = std::string_view;
using Names = std::vector<Name>;

constexpr Name section_1 = "falcon-family.md 1", section_2 = "falcon-family.md 2", section_5 = "falcon-family.md 5";

// ---- statements -----------------------------------------------------------------------

struct Sides {
  Vector left, right;
};

Identity identity(Name name, Name mechanism, Name statement, const std::function<Sides()>& sides,
                  Name source = section_5) {
  return {name,
          mechanism,
          statement,
          source,
          0,
          [sides](const Mp200&) {
            const Sides s = sides();
            return difference(s.left, s.right);
          },
          [sides] { return sides().right; }};
}

/// Numbers that are at least zero.
Identity never_negative(Name name, Name mechanism, Name statement, const std::function<Vector()>& slack) {
  return {name,
          mechanism,
          statement,
          section_5,
          0,
          [slack](const Mp200&) {
            Vector below = slack();
            for (Mp200& x : below) x = x < 0 ? x : Mp200(0);
            return below;
          },
          slack};
}

Identity first_order(Name name, Name mechanism, Name statement, std::function<Vector(const Mp200&)> distance,
                     std::function<Vector()> coefficient, Name source = section_5) {
  return {name, mechanism, statement, source, 1, std::move(distance), std::move(coefficient)};
}

using List = std::vector<Identity>;

void append(List& list, const List& more) { list.insert(list.end(), more.begin(), more.end()); }
void append(Vector& all, const Vector& more) { all.insert(all.end(), more.begin(), more.end()); }

// ---- problems ----------------------------------------------------------------------------

constexpr int T = 7, K = 4, V = 3;

/// Without cotangents of the outgoing tail.
ExactProblem seeded(Name mechanism, const Params& params = {}, int tokens = T, int keys = K, int values = V) {
  ExactProblem p = make(mechanism, params, tokens, keys, values);
  for (auto& [name, array] : p.cotangents)
    if (name.starts_with("final_tail")) array.data.assign(array.data.size(), 0);
  return p;
}

bool windowed(Name mechanism) { return mechanism.starts_with("falcon3"); }
/// The room's parameters with a window where it has one.
Params with_window(Name mechanism, Params params = {}) {
  if (windowed(mechanism)) params["window"] = 3L;
  return params;
}
ExactProblem family(Name mechanism, const Params& params = {}) {
  return seeded(mechanism, with_window(mechanism, params));
}

Vector& values(ExactProblem& p, Name name) { return p.inputs.find(name)->second.data; }
const Vector& values(const ExactProblem& p, Name name) { return p.inputs.find(name)->second.data; }
Matrix matrix(const ExactProblem& p, Name name) { return matrix_of(p.inputs.find(name)->second); }
ExactProblem filled(ExactProblem p, Name name, const Mp200& value) {
  Vector& v = values(p, name);
  v.assign(v.size(), value);
  return p;
}
ExactProblem times(ExactProblem p, Name name, const Mp200& factor) {
  values(p, name) = scaled(values(p, name), factor);
  return p;
}
ExactProblem with(ExactProblem p, Name name, const Matrix& a) {
  p.inputs.find(name)->second = array_of(a);
  return p;
}
ExactProblem with(ExactProblem p, Name name, const Vector& a) {
  p.inputs.find(name)->second = array_of(a);
  return p;
}
ExactProblem with_number(ExactProblem p, Name param, const Mp200& value) {
  p.set_number(param, value);
  return p;
}
ExactProblem as(ExactProblem p, Name mechanism, const Params& params = {}) {
  p.mechanism = mechanism;
  for (const auto& [name, value] : params) p.params.insert_or_assign(name, value);
  return p;
}
/// Gains in (3/2, 2) and ridges so large that most steps have a negative decay.
ExactProblem overshooting(ExactProblem p) {
  for (Mp200& lambda : values(p, "lambda")) lambda += 8;
  for (Mp200& beta : values(p, "beta")) beta = (beta + 6) / 4;
  return p;
}
/// Keys of length one.
ExactProblem unit_keys(ExactProblem p) {
  Matrix k = matrix(p, "k");
  const Vector squares = row_dots(k, k);
  for (int t = 0; t < k.rows; ++t)
    for (int i = 0; i < k.cols; ++i) k(t, i) /= sqrt(squares[static_cast<std::size_t>(t)]);
  return with(std::move(p), "k", k);
}

Vector outputs(ExactProblem p) {
  p.cotangents.clear();
  return flat(answer(p).outputs, {"o", "final_state"});
}
Vector output(ExactProblem p, Name name) {
  p.cotangents.clear();
  return flat(answer(p).outputs, {name});
}

/// Outputs and all gradients that rooms and algorithms share.
Vector everything(const ExactProblem& p, const BasicAnswer<Mp200>& a) {
  Names names;
  for (const Name name : {"q", "k", "v", "beta", "lambda", "alpha", "initial_state"})
    if (p.inputs.contains(name)) names.push_back(name);
  Vector all = flat(a.outputs, {"o", "final_state"});
  append(all, flat(a.gradients, names));
  return all;
}
Vector everything(const ExactProblem& p) { return everything(p, answer(p)); }

Mp200 sum_of_products(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), Mp200(0));
}

Params same_step() { return {{"alignment", std::string("same_step")}}; }

// ---- chunks and segments -------------------------------------------------------------------

using Form = std::function<BasicAnswer<Mp200>(const ExactProblem&, int)>;

Identity chunks(Name name, Name mechanism, Name statement, const ExactProblem& p, const Form& form) {
  return identity(name, mechanism, statement, [=] {
    const Vector room = everything(p);
    Sides s;
    for (int chunk = 1; chunk <= T + 2; ++chunk) {
      append(s.left, everything(p, form(p, chunk)));
      append(s.right, room);
    }
    return s;
  });
}

BasicAnswer<Mp200> by_channel(const ExactProblem& p, const std::function<BasicAnswer<Mp200>(const ExactProblem&)>& f) {
  std::vector<BasicAnswer<Mp200>> channels(V);
  for (int j = 0; j < V; ++j) channels[static_cast<std::size_t>(j)] = f(channel_of(p, j));
  return of_channels(channels);
}
BasicAnswer<Mp200> ratio_by_channel(const ExactProblem& p, int chunk) {
  return by_channel(p, [chunk](const ExactProblem& channel) { return ratio_formula(channel, chunk); });
}
BasicAnswer<Mp200> lite_by_channel(const ExactProblem& p, int chunk) {
  return by_channel(p, [chunk](const ExactProblem& channel) { return lite_formula(channel, chunk); });
}

List chunk_identities() {
  constexpr Name wy = "chunks of 1..T+2 tokens, WY kernel (4.1), forward and gradients",
                 log_domain = "chunks of 1..T+2 tokens, log-domain form, clamped, forward and gradients",
                 ratio = "chunks of 1..T+2 tokens, ratio kernel (4.6), gamma < 0 too, forward and gradients",
                 masked = "chunks of 1..T+2 tokens, masked attention (4.5), forward and gradients";
  const Params floor = {{"decay_floor", "0.875"}};  // some rows at the floor, some above
  const auto lite = [](const ExactProblem& p, int chunk) { return lite_formula(p, chunk); };
  const auto mask = [](const ExactProblem& p, int chunk) { return masked_formula(p, chunk); };
  return {
      chunks("chunks_wy", "deltanet", wy, seeded("deltanet", {{"alignment", "next_latent"}, {"scale", "1"}}),
             [](const ExactProblem& p, int chunk) { return wy_formula(p, chunk); }),
      chunks("chunks_by_ratios", "falcon1", ratio, overshooting(family("falcon1")), ratio_formula),
      chunks("chunks_by_ratios", "falcon2", ratio, overshooting(family("falcon2")), ratio_by_channel),
      chunks("chunks", "falcon2", log_domain, family("falcon2", floor), lite_by_channel),
      chunks("chunks", "falcon2_lite", log_domain, family("falcon2_lite", floor), lite),
      chunks("chunks", "falcon2a", masked, family("falcon2a"), mask),
      chunks("chunks", "falcon3", log_domain, family("falcon3", floor), flow_formula),
      chunks("chunks_by_ratios", "falcon3", ratio, overshooting(family("falcon3")), ratio_formula),
      chunks("chunks", "falcon3a", masked, family("falcon3a"), mask),
  };
}

BasicArray<Mp200>& add(BasicArray<Mp200>& to, int row, const Vector& more) {
  const std::size_t from = static_cast<std::size_t>(row) * more.size();
  for (std::size_t i = 0; i < more.size(); ++i) to.data[from + i] += more[i];
  return to;
}

/// A sequence of `p` in two segments, what one hands the other included: outputs and gradients of the whole.
BasicAnswer<Mp200> in_two_segments(const ExactProblem& p, int first) {
  const std::pair<Name, Name> carried[] = {{"final_state", "initial_state"},
                                           {"final_normalizer", "initial_normalizer"},
                                           {"final_tail_k", "tail_k"},
                                           {"final_tail_v", "tail_v"}};
  ExactProblem head = segment_of(p, 0, first), tail = segment_of(p, first, T - first);
  ExactProblem forward = head;
  forward.cotangents.clear();
  const BasicAnswer<Mp200> before = answer(forward);
  for (const auto& [out, in] : carried)
    if (const auto it = before.outputs.find(out); it != before.outputs.end() && !it->second.data.empty())
      tail.inputs.insert_or_assign(std::string(in), it->second);
  BasicAnswer<Mp200> second = answer(tail);
  for (const auto& [out, in] : carried)
    if (const auto it = second.gradients.find(in); it != second.gradients.end())
      head.cotangents.insert_or_assign(std::string(out), it->second);
  BasicAnswer<Mp200> whole = answer(head);
  for (auto& [name, array] : whole.outputs) {
    if (name == "o")
      append(array.data, second.outputs.at(name).data);
    else
      array = second.outputs.at(name);
  }
  for (const Name name : {"q", "k", "v", "beta", "lambda", "alpha"})
    if (const auto it = whole.gradients.find(name); it != whole.gradients.end())
      append(it->second.data, second.gradients.find(name)->second.data);
  if (tail.inputs.contains("k_carry")) add(whole.gradients["k"], first - 1, second.gradients.at("k_carry").data);
  return whole;
}

Vector all_numbers(const BasicAnswer<Mp200>& a, const BasicAnswer<Mp200>& names) {
  Vector all;
  for (const auto& [name, array] : names.outputs) append(all, a.outputs.at(name).data);
  for (const auto& [name, array] : names.gradients) append(all, a.gradients.at(name).data);
  return all;
}

Identity segments(Name name, const ExactProblem& p) {
  constexpr Name statement = "4 + 3 tokens with everything carried: outputs and gradients of the whole";
  return {name,
          listed_room(p.mechanism).name,
          statement,
          section_5,
          0,
          [p](const Mp200&) {
            const BasicAnswer<Mp200> whole = answer(p);
            return difference(all_numbers(in_two_segments(p, 4), whole), all_numbers(whole, whole));
          },
          [p] {
            const BasicAnswer<Mp200> whole = answer(p);
            return all_numbers(whole, whole);
          }};
}

/// L with A = L L^T.
Matrix cholesky(const Matrix& a) {
  Matrix L(a.rows, a.cols);
  for (int j = 0; j < a.cols; ++j)
    for (int i = j; i < a.rows; ++i) {
      Mp200 rest = a(i, j);
      for (int l = 0; l < j; ++l) rest -= L(i, l) * L(j, l);
      L(i, j) = i == j ? Mp200(sqrt(rest)) : Mp200(rest / L(j, j));
    }
  return L;
}

/// rls starts at a multiple of I. With P = L L^T it continues as S = L S', x' = L^T x, q' = L^T q, P'_0 = I.
Sides rls_segments() {
  ExactProblem p = seeded("rls");
  p.cotangents.clear();
  const BasicAnswer<Mp200> whole = answer(p), head = answer(segment_of(p, 0, 4));
  const Matrix L = cholesky(matrix_of(head.outputs.at("final_covariance")));
  ExactProblem tail = segment_of(p, 4, T - 4);
  for (const Name name : {"q", "k"}) tail = with(tail, name, matrix(tail, name) * L);
  tail.inputs["k_carry"].data = (transposed(L) * matrix(tail, "k_carry")).data;
  tail.inputs["initial_state"] = array_of(solve(L, matrix_of(head.outputs.at("final_state"))));
  tail = filled(tail, "lambda", 1);
  const BasicAnswer<Mp200> second = answer(tail);
  Sides s{head.outputs.at("o").data, flat(whole.outputs, {"o", "final_state", "final_covariance"})};
  append(s.left, second.outputs.at("o").data);
  append(s.left, (L * matrix_of(second.outputs.at("final_state"))).data);
  append(s.left, (L * matrix_of(second.outputs.at("final_covariance")) * transposed(L)).data);
  return s;
}

List segment_identities() {
  return {
      segments("shifted_segments", seeded("deltanet", {{"alignment", "next_latent"}})),
      segments("segments", make("falcon1")),
      segments("segments", make("falcon2")),
      segments("segments", make("falcon2_lite", {{"decay_floor", "0.75"}})),
      segments("segments", make("falcon2a")),
      segments("segments_normalized", make("falcon2a", {{"normalization", "features"}})),
      segments("segments", make("falcon3", {{"window", 3L}})),
      segments("segments", make("falcon3a", {{"window", 3L}})),
      identity("segments", "rls", "4 + 3 tokens with state and covariance carried: outputs of the whole", rls_segments),
  };
}

// ---- one room as another ---------------------------------------------------------------------

Sides window_of_one(Name other, const Params& params) {
  const ExactProblem p = seeded("falcon3", params);
  ExactProblem without = as(p, other);
  without.params.erase("window");
  std::erase_if(without.cotangents, [](const auto& c) { return c.first.starts_with("final_tail"); });
  return {everything(p), everything(without)};
}

/// All pairs (x_j, v_j) alike.
ExactProblem constant_stream(ExactProblem p) {
  Matrix k = matrix(p, "k"), v = matrix(p, "v");
  for (int t = 1; t < T; ++t) {
    for (int i = 0; i < k.cols; ++i) k(t, i) = k(0, i);
    for (int j = 0; j < v.cols; ++j) v(t, j) = v(1, j);
  }
  return with(with(std::move(p), "k", k), "v", v);
}

Sides constant_regression() {
  const ExactProblem p = constant_stream(seeded("falcon3", {{"window", 3L}}));
  ExactProblem single = as(p, "falcon1");
  single.params.erase("window");
  return {outputs(p), outputs(single)};
}
Sides constant_association() {
  const ExactProblem p = constant_stream(seeded("falcon3a", {{"window", 3L}}));
  return {outputs(p), outputs(as(p, "falcon3a", {{"window", 1L}}))};
}

/// falcon2 with one gain for all channels; its dbeta summed over them.
Sides tied_gains() {
  const ExactProblem p = seeded("falcon2_lite", {{"decay_floor", "0.75"}});
  ExactProblem tied = as(p, "falcon2");
  Matrix beta(T, V);
  for (int t = 0; t < T; ++t)
    for (int j = 0; j < V; ++j) beta(t, j) = values(p, "beta")[static_cast<std::size_t>(t)];
  tied = with(tied, "beta", beta);
  BasicAnswer<Mp200> a = answer(tied);
  Matrix ones(T, V);
  ones.data.assign(ones.data.size(), 1);
  a.gradients["beta"] = array_of(row_dots(matrix_of(a.gradients["beta"]), ones));
  return {everything(tied, a), everything(p)};
}

Sides independent_channels() {
  const ExactProblem p = seeded("falcon2");
  return {everything(p), everything(p, by_channel(p, answer))};
}

/// The delta rule with these step sizes.
ExactProblem delta_rule(const ExactProblem& p, const Vector& eta) {
  ExactProblem d{"deltanet", {{"alignment", "next_latent"}, {"scale", "1"}}, p.inputs, {}};
  d.inputs.erase("lambda");
  return with(d, "beta", eta);
}

ExactProblem without_ridge() { return filled(seeded("falcon1"), "lambda", 0); }

Sides ridge_zero() {
  const ExactProblem p = without_ridge();
  return {outputs(p), outputs(delta_rule(p, gains_of(p).eta))};
}
Sides unit_keys_without_ridge() {
  const ExactProblem p = with_number(unit_keys(without_ridge()), "eps", 0);
  return {outputs(p), outputs(delta_rule(p, values(p, "beta")))};
}

List reductions() {
  constexpr Name one = "window 1: outputs and gradients of falcon1", constant = "equal pairs: any window is window 1";
  return {
      identity("window_of_one", "falcon3", one,
               [] {
                 return window_of_one("falcon1", {{"window", 1L}});
               }),
      identity("window_of_one_clamped", "falcon3", "window 1 and a decay floor: outputs and gradients of falcon2_lite",
               [] {
                 return window_of_one("falcon2_lite", {{"window", 1L}, {"decay_floor", "0.75"}});
               }),
      identity("constant_stream", "falcon3", constant, constant_regression),
      identity("constant_stream", "falcon3a", constant, constant_association),
      identity("tied_gains", "falcon2", "equal gains: falcon2_lite, dbeta summed over channels", tied_gains),
      identity("independent_channels", "falcon2", "every column is falcon1 with V = 1", independent_channels),
      identity("ridge_zero", "falcon1", "lambda = 0: deltanet with beta / (|x|^2 + eps)", ridge_zero),
      identity("unit_keys", "falcon1", "|x| = 1, lambda = eps = 0: deltanet", unit_keys_without_ridge),
  };
}

// ---- what a write achieves ----------------------------------------------------------------------

/// beta = 1, lambda = eps = 0.
ExactProblem full_steps() { return with_number(filled(without_ridge(), "beta", 1), "eps", 0); }

/// Rows of o after the first.
Vector live_rows(const Vector& o) { return {o.begin() + V, o.end()}; }

/// o_t = S_t^T x_t with q = x.
Vector reads_of_the_written(const ExactProblem& p) { return live_rows(output(with(p, "q", write_features(p)), "o")); }
/// S_{t-1}^T x_t: row t-1 read with q_{t-1} = k_{t-1}.
Vector reads_before_the_write(const ExactProblem& p) {
  Vector o = output(with(p, "q", matrix(p, "k")), "o");
  o.resize(o.size() - V);
  return o;
}

Sides writes_are_exact() {
  const ExactProblem p = full_steps();
  return {reads_of_the_written(p), live_rows(values(p, "v"))};
}

Sides residual_after_the_write() {
  const ExactProblem p = overshooting(seeded("falcon1"));
  const Gains g = gains_of(p);
  const Vector before = reads_before_the_write(p), after = reads_of_the_written(p), v = live_rows(values(p, "v"));
  Sides s;
  for (std::size_t n = 0; n < v.size(); ++n) {
    const std::size_t t = n / V + 1;
    const Mp200 alpha = 1 - g.gamma[t];
    s.left.push_back(v[n] - after[n]);
    s.right.push_back((1 - g.eta[t] * g.energy[t]) * (v[n] - before[n]) + alpha * before[n]);
  }
  return s;
}

/// Gram and Schmidt on the rows.
Matrix orthonormal_rows(Matrix a) {
  for (int t = 0; t < a.rows; ++t) {
    Matrix row = rows_of(a, t, 1);
    for (int s = 0; s < t; ++s) row = row - dot(row, rows_of(a, s, 1)) * rows_of(a, s, 1);
    row = Mp200(1 / sqrt(dot(row, row))) * row;
    for (int i = 0; i < a.cols; ++i) a(t, i) = row(0, i);
  }
  return a;
}

Sides orthonormal_keys_are_kept() {
  ExactProblem p = seeded("falcon1", {{"eps", "0"}}, 5, 5);
  p = filled(filled(p, "lambda", 0), "beta", 1);
  p = with(p, "k", orthonormal_rows(matrix(p, "k")));
  const Matrix S = matrix_of(answer(p).outputs.at("final_state"));
  return {(rows_of(write_features(p), 1, 4) * S).data, live_rows(values(p, "v"))};
}

List writes() {
  return {
      identity("full_step_stores", "falcon1", "beta = 1, lambda = eps = 0: S_t^T x_t = v_t", writes_are_exact),
      identity("residual_after_the_write", "falcon1", "raw: v - S_t^T x = (1 - eta |x|^2) r + alpha S_{t-1}^T x",
               residual_after_the_write),
      identity("orthonormal_keys_are_kept", "falcon1",
               "orthonormal keys, beta = 1, lambda = eps = 0: S_T^T x_s = v_s for all s", orthonormal_keys_are_kept),
  };
}

// ---- recursive least squares -----------------------------------------------------------------------------

/// o and S_T where S_t depends on the pairs up to t: `state(X, V)`, rows are pairs.
Vector reads_of(const ExactProblem& p, const std::function<Matrix(const Matrix&, const Matrix&)>& state) {
  const Matrix x = write_features(p), v = matrix(p, "v"), q = matrix(p, "q");
  Vector all;
  Matrix S;
  for (int t = 0; t < q.rows; ++t) {
    S = state(rows_of(x, first_row(p), t), rows_of(v, first_row(p), t));
    append(all, (rows_of(q, t, 1) * S).data);
  }
  append(all, S.data);
  return all;
}

Sides batch_ridge() {
  const ExactProblem p = seeded("rls");
  const Mp200 lambda = values(p, "lambda")[0];
  const Matrix prior = lambda * matrix(p, "initial_state");
  const auto precision = [&](const Matrix& x) { return lambda * unit(K) + transposed(x) * x; };
  Sides s{flat(answer(p).outputs, {"o", "final_state", "final_covariance"}),
          reads_of(p, [&](auto& x, auto& v) { return solve(precision(x), transposed(x) * v + prior); })};
  append(s.right, solve(precision(write_features(p)), unit(K)).data);
  return s;
}

Identity precision_to_infinity() {
  const ExactProblem p = filled(seeded("rls"), "lambda", 1);
  const Matrix S0 = matrix(p, "initial_state");
  return first_order(
      "precision_to_infinity", "rls", "lambda = 1/eps: S_T -> S_0",
      [=](const Mp200& eps) {
        return difference(outputs(filled(p, "lambda", 1 / eps)), reads_of(p, [&](auto&, auto&) { return Matrix(S0); }));
      },
      [=] { return reads_of(p, [&](auto& x, auto& v) { return transposed(x) * (v - x * S0); }); });
}

/// S_T = S_0 + X^T (X X^T + lambda)^{-1} (V - X S_0) where the rows of X are independent.
Identity precision_to_zero() {
  const ExactProblem p = seeded("rls", {}, K + 1);
  const Matrix S0 = matrix(p, "initial_state");
  const auto weights = [=](const Matrix& x, const Matrix& r) { return solve(x * transposed(x), r); };
  return first_order(
      "precision_to_zero", "rls", "lambda -> 0, as many independent x as T <= K: the interpolation nearest to S_0",
      [=](const Mp200& eps) {
        return difference(outputs(filled(p, "lambda", eps)),
                          reads_of(p, [&](auto& x, auto& v) { return S0 + transposed(x) * weights(x, v - x * S0); }));
      },
      [=] {
        return reads_of(
            p, [&](auto& x, auto& v) { return Mp200(-1) * (transposed(x) * weights(x, weights(x, v - x * S0))); });
      });
}

List least_squares() {
  return {identity("batch_ridge", "rls", "the ridge regression of all pairs so far, lambda once", batch_ridge),
          precision_to_infinity(), precision_to_zero()};
}

// ---- masks ------------------------------------------------------------------------------------------------------

ExactProblem gated(Name mechanism, const ExactProblem& p, const Vector& gamma, const Vector& rho) {
  Matrix k = write_features(p);
  Vector log_decay;
  for (int t = 0; t < k.rows; ++t) {
    const auto i = static_cast<std::size_t>(t);
    for (int l = 0; l < k.cols; ++l) k(t, l) *= rho[i];
    log_decay.push_back(log(gamma[i]));
  }
  ExactProblem g{std::string(mechanism), {{"scale", "1"}}, {}, {}};
  for (const char* name : {"q", "v", "initial_state"}) g.inputs[name] = p.inputs.at(name);
  g.inputs["k"] = array_of(k);
  g.inputs["log_decay"] = array_of(log_decay);
  return g;
}

Sides gated_linear_attention() {
  const ExactProblem p = seeded("falcon3a", {{"window", 1L}});
  const Gains g = gains_of(p);
  ExactProblem other = gated("gla", p, g.gamma, g.eta);
  Matrix per_channel(T, K);
  for (int t = 0; t < T; ++t)
    for (int i = 0; i < K; ++i) per_channel(t, i) = values(other, "log_decay")[static_cast<std::size_t>(t)];
  return {outputs(p), outputs(with(other, "log_decay", per_channel))};
}

/// rho = beta' / |x|^2 is eta for beta' = eta |x|^2.
Sides direct_gates() {
  const ExactProblem p = seeded("falcon2a");
  const Gains g = gains_of(p);
  ExactProblem other = as(p, "falcon3a", {{"window", 1L}, {"eps", "0"}});
  other.params.erase("eps_normalizer");
  other.inputs.erase("lambda");
  Vector alpha = g.gamma, beta = g.eta;
  for (std::size_t t = 0; t < alpha.size(); ++t) {
    alpha[t] = 1 - alpha[t];
    beta[t] *= g.energy[t];
  }
  beta[0] = 1;
  other.inputs["alpha"] = array_of(alpha);
  return {outputs(with(other, "beta", beta)), outputs(p)};
}

Sides writes_add_up() {
  const ExactProblem p = filled(seeded("falcon3a", {{"window", 3L}}), "alpha", 0);
  const Recurrence r = recurrence_of(p);
  Matrix S = r.initial_state;
  for (int t = 0; t < T; ++t) S += r.eta(t, 0) * r.N[static_cast<std::size_t>(t)];
  return {output(p, "final_state"), S.data};
}

/// One key and one value channel per token, and queries that see all keys: o(t, j) is M(t, j).
ExactProblem impulses(long window) {
  ExactProblem p = seeded("falcon3a", {{"window", window}, {"eps", "0"}}, T, T, T);
  p = filled(filled(p, "q", 1), "initial_state", 0);
  return with(with(p, "k", unit(T)), "v", unit(T));
}

Sides mask_factors() {
  Sides s;
  for (const long window : {1L, 3L, 9L}) {
    const ExactProblem p = impulses(window);
    append(s.left, output(p, "o"));
    append(s.right, mask_of(p).data);
  }
  return s;
}

Sides row_sums() {
  Sides s;
  for (const long window : {1L, 3L, 9L}) {
    ExactProblem p = impulses(window);
    const Matrix M = matrix_of(answer(p).outputs.at("o"));
    const Vector alpha = values(p, "alpha"), rho = values(p, "beta");
    Mp200 sum = 0;
    for (int t = 0; t < T; ++t) {
      const auto i = static_cast<std::size_t>(t);
      if (t > 0) sum = (1 - alpha[i]) * sum + rho[i];
      const Vector weights = rows_of(M, t, 1).data;
      s.left.push_back(std::accumulate(weights.begin(), weights.end(), Mp200(0)));
      s.right.push_back(sum);
    }
  }
  return s;
}

/// H_B - H_{j-2} + (j - 2) / B up to j = B, then 1; tokens counted from 1, and done with their B steps at T.
Sides harmonic_weights() {
  constexpr int B = 3;
  const Matrix M = matrix_of(answer(filled(filled(impulses(B), "alpha", 0), "beta", 1)).outputs.at("o"));
  Sides s;
  for (int j = 2; j + B - 1 <= T; ++j) {
    Mp200 weight = j > B ? Mp200(1) : Mp200(Mp200(j - 2) / B);
    for (int n = j - 1; n <= B && j <= B; ++n) weight += Mp200(1) / n;
    s.left.push_back(M(T - 1, j - 1));
    s.right.push_back(weight);
  }
  return s;
}

/// (rho / B) (gamma^first + ... + gamma^last), from j = B + 1 on.
Sides stationary_mask() {
  constexpr int B = 3;
  ExactProblem p = impulses(B);
  const Mp200 rho = values(p, "beta")[0], gamma = 1 - values(p, "alpha")[0];
  p = filled(filled(p, "beta", rho), "alpha", 1 - gamma);
  const Matrix M = matrix_of(answer(p).outputs.at("o"));
  Sides s;
  for (int j = B + 1; j <= T; ++j)
    for (int t = j; t <= T; ++t) {
      const int first = std::max(0, t - j - B + 1), count = t - j - first + 1;
      s.left.push_back(M(t - 1, j - 1));
      s.right.push_back(rho / B * pow(gamma, first) * (1 - pow(gamma, count)) / (1 - gamma));
    }
  return s;
}

List masks() {
  return {
      identity("gated_linear_attention", "falcon3a", "window 1: gla with k = rho x and gamma = 1 - alpha",
               gated_linear_attention),
      identity("direct_gates", "falcon2a", "falcon3a, window 1, rho = eta and alpha = eta lambda", direct_gates),
      identity("writes_add_up", "falcon3a", "alpha = 0: S_T = S_0 + sum rho N", writes_add_up),
      identity("harmonic_weights", "falcon3a",
               "alpha = 0, rho = 1: token j weighs 1, or H_B - H_{j-2} + (j-2)/B if j <= B", harmonic_weights),
      identity("mask_factors", "falcon3a", "the weights are M = D Diag(rho) A", mask_factors),
      identity("mask_row_sums", "falcon3a", "rows of M sum to D rho whatever the window", row_sums),
      identity("stationary_mask", "falcon3a",
               "constant gates, j > B: M(t, j) = (rho / B) sum of gamma^u, u = max(0, t-j-B+1)..t-j", stationary_mask),
  };
}

// ---- descent -----------------------------------------------------------------------------------------------------

/// The room's S_0, S_1, ..., S_T.
std::vector<Matrix> states(const ExactProblem& p) {
  std::vector<Matrix> all{matrix(p, "initial_state")};
  for (int t = 1; t <= T; ++t) {
    ExactProblem prefix = segment_of(p, 0, t);
    prefix.cotangents.clear();
    all.push_back(matrix_of(answer(prefix).outputs.at("final_state")));
  }
  return all;
}

Mp200 largest_eigenvalue(const Matrix& a) {
  Tensor<Mp200, 2> tensor(a.rows, a.cols);
  tensor.data = a.data;
  return largest_eigenpair(tensor).value;
}

/// f(S) = <S, C S> / 2 - <S, N> + ridge |S|^2 / 2 up to a constant: the objective of every room.
struct Objective {
  Matrix C, N;
  Mp200 ridge, step;

  Mp200 at(const Matrix& S) const { return dot(S, C * S) / 2 - dot(S, N) + ridge * dot(S, S) / 2; }
  Matrix gradient(const Matrix& S) const { return C * S - N + ridge * S; }
  /// f(S) - step (2 - step L) / 2 |grad|^2, L the largest curvature.
  Mp200 promised(const Matrix& S) const {
    const Mp200 L = largest_eigenvalue(C) + ridge;
    const Matrix g = gradient(S);
    return at(S) - step * (2 - step * L) / 2 * dot(g, g);
  }
};

/// f(S_t) on the left, what the step promised on the right; falcon2 by column.
Sides descent(const ExactProblem& p) {
  const std::vector<Matrix> S = states(p);
  const Recurrence r = recurrence_of(p);
  const bool by_column = p.mechanism == "falcon2";
  Sides s;
  for (int t = first_row(p); t < T; ++t)
    for (int j = 0; j < (by_column ? V : 1); ++j) {
      const auto i = static_cast<std::size_t>(t);
      const auto part = [&](const Matrix& a) { return by_column ? column_of(a, j) : a; };
      const Mp200 eta = r.eta(t, j);
      const Mp200 ridge = p.mechanism == "falcon3a" ? Mp200((1 - r.gamma(t, j)) / eta) : values(p, "lambda")[i];
      const Objective f{r.C[i], part(r.N[i]), ridge, eta};
      s.left.push_back(f.at(part(S[i + 1])));
      s.right.push_back(f.promised(part(S[i])));
    }
  return s;
}

Identity descends(Name mechanism, const ExactProblem& p) {
  return never_negative("descent", mechanism, "raw: f(S_t) <= f(S_{t-1}) - eta (2 - eta L) |grad f|^2 / 2", [p] {
    const Sides s = descent(p);
    return difference(s.right, s.left);
  });
}

List descents() {
  constexpr Name equality = "f(S_t) = f(S_{t-1}) - eta (2 - eta L) |grad f|^2 / 2";
  return {
      descends("falcon1", seeded("falcon1")),
      descends("falcon2", seeded("falcon2")),
      descends("falcon3", seeded("falcon3", {{"window", 3L}})),
      identity("descent_without_ridge", "falcon1", "lambda = 0: f(S_t) = f(S_{t-1}) - eta (2 - eta L) |grad f|^2 / 2",
               [] { return descent(without_ridge()); }),
      identity("descent_equality", "falcon2a", equality, [] { return descent(seeded("falcon2a")); }),
      identity("descent_equality", "falcon3a", equality, [] { return descent(family("falcon3a")); }),
  };
}

// ---- transitions ----------------------------------------------------------------------------------------------------

/// S_0 = I, v = 0 and V = K: S_T is the product of the transitions A_t.
ExactProblem transition(Name mechanism, const Params& params, int tokens = 1) {
  Params all = with_window(mechanism, params);
  all.merge(same_step());
  ExactProblem p = seeded(mechanism, all, tokens, K, K);
  return with(filled(p, "v", 0), "initial_state", unit(K));
}

/// A x = along x, and A y = gamma y on all that is orthogonal to x.
Sides eigenvalues(const ExactProblem& p, const Mp200& gamma, const Mp200& along) {
  const Matrix A = matrix_of(answer(p).outputs.at("final_state")), x = transposed(write_features(p));
  const Matrix y = unit(K) - Mp200(1 / dot(x, x)) * (x * transposed(x));
  Sides s{(A * x).data, (along * x).data};
  append(s.left, (A * y).data);
  append(s.right, (gamma * y).data);
  return s;
}
Sides raw_eigenvalues() {
  const ExactProblem p = overshooting(transition("falcon1", {}));
  const Gains g = gains_of(p);
  return eigenvalues(p, g.gamma[0], g.gamma[0] - g.eta[0] * g.energy[0]);
}
Sides eigenvalues_without_eps() {
  const ExactProblem p = transition("falcon1", {{"eps", "0"}});
  return eigenvalues(p, gains_of(p).gamma[0], 1 - values(p, "beta")[0]);
}
Sides clamped_eigenvalues() {
  const ExactProblem p = overshooting(transition("falcon1", {{"decay_floor", "0.75"}}));
  const Mp200 floor = p.number("decay_floor"), energy = gains_of(p).energy[0];
  const Mp200 eta = values(p, "beta")[0] / (energy + values(p, "lambda")[0] + p.number("eps"));
  return eigenvalues(p, floor, floor - eta * energy);
}

/// The pivots of I - A^T A, which are positive where |A| < 1.
Vector contraction_pivots(const ExactProblem& p) {
  const Matrix A = matrix_of(answer(p).outputs.at("final_state"));
  Matrix rest = unit(K) - transposed(A) * A;
  Vector pivots;
  for (int c = 0; c < K; ++c) {
    pivots.push_back(rest(c, c));
    for (int i = c + 1; i < K; ++i)
      for (int j = K; j-- > c;) rest(i, j) -= rest(i, c) * rest(c, j) / rest(c, c);
  }
  return pivots;
}

Identity contracts(Name name, Name mechanism, Name statement, const ExactProblem& p) {
  return never_negative(name, mechanism, statement, [p] { return contraction_pivots(p); });
}

/// One write into nothing: |S_1| = |eta x v^T|, and beta |v| / (2 sqrt(lambda + eps)).
Sides write_size(ExactProblem p, const Mp200& square_of_x) {
  const Vector x = values(p, "k");
  p = times(p, "k", sqrt(Mp200(square_of_x / sum_of_products(x, x))));
  const Mp200 least = values(p, "lambda")[0] + p.number("eps");
  return {{norm(output(p, "final_state"))}, {values(p, "beta")[0] * norm(values(p, "v")) / (2 * sqrt(least))}};
}
ExactProblem single_write() { return filled(seeded("falcon1", same_step(), 1), "initial_state", 0); }
Mp200 attained(const ExactProblem& p) { return values(p, "lambda")[0] + p.number("eps"); }

Vector write_size_slack() {
  const ExactProblem p = single_write();
  Vector slack;
  for (const int eighths : {1, 4, 7, 9, 12, 64}) {
    const Sides s = write_size(p, attained(p) * eighths / 8);
    slack.push_back(s.right[0] - s.left[0]);
  }
  return slack;
}

List transitions() {
  return {
      identity("eigenvalues", "falcon1", "raw: A_t has gamma - eta |x|^2 along x and gamma across", raw_eigenvalues),
      identity("eigenvalues_without_eps", "falcon1", "raw, eps = 0: A_t has 1 - beta along x", eigenvalues_without_eps),
      identity("eigenvalues_clamped", "falcon1", "clamped: A_t has floor - eta |x|^2 along x, not 1 - beta",
               clamped_eigenvalues),
      contracts("contraction", "falcon1", "raw, beta in (0, 2): |A_t| <= 1", overshooting(transition("falcon1", {}))),
      contracts("contraction_clamped", "falcon1", "clamped, beta in (0, 2): |A_t| <= 1",
                overshooting(transition("falcon1", {{"decay_floor", "0.75"}}))),
      contracts("contraction", "falcon3", "raw, beta in (0, 2): |A_T ... A_1| <= 1",
                overshooting(transition("falcon3", {}, 4))),
      never_negative("write_size", "falcon1", "|eta x r^T| <= beta |r| / (2 sqrt(lambda + eps))", write_size_slack),
      identity("write_size_attained", "falcon1",
               "|x|^2 = lambda + eps: |eta x r^T| = beta |r| / (2 sqrt(lambda + eps))",
               [] { return write_size(single_write(), attained(single_write())); }),
  };
}

// ---- relations to other mechanisms ----

/// gated_deltanet with decay g, write strength b and values y.
ExactProblem gated_delta_rule(const ExactProblem& p, Name error, const Vector& b, const Matrix& y) {
  const Gains g = gains_of(p);
  ExactProblem d = gated("gated_deltanet", p, g.gamma, Vector(T, 1));
  d.params["error"] = std::string(error);
  d.inputs["beta"] = array_of(b);
  return with(d, "v", y);
}

/// g = gamma, b = eta / gamma, and values gamma v.
Sides as_gated_delta_rule() {
  const ExactProblem p = seeded("falcon1");
  const Gains g = gains_of(p);
  Vector b = g.eta;
  for (std::size_t t = 0; t < b.size(); ++t) b[t] /= g.gamma[t];
  return {outputs(gated_delta_rule(p, "decayed", b, diagonal(g.gamma) * matrix(p, "v"))), outputs(p)};
}
Sides as_undecayed_delta_rule() {
  const ExactProblem p = seeded("falcon1");
  return {outputs(gated_delta_rule(p, "undecayed", gains_of(p).eta, matrix(p, "v"))), outputs(p)};
}

Sides as_state_space_duality() {
  const ExactProblem p = seeded("falcon2a");
  const Gains g = gains_of(p);
  return {outputs(gated("mamba2", p, g.gamma, g.eta)), outputs(p)};
}

/// beta_t ratio / (1 + ratio) = 2^-5, the decay of RetNet's first head, for the ratio 1.
Sides as_retention() {
  Params params = same_step();
  params.merge(Params{{"ridge_coupling", "live"}, {"eps", "0"}});
  const ExactProblem p = filled(filled(seeded("falcon2a", params), "lambda", 1), "beta", Mp200(1) / 16);
  ExactProblem other = gated("retnet", p, Vector(T, 1), gains_of(p).eta);
  other.inputs.erase("log_decay");
  return {outputs(other), outputs(p)};
}

Sides as_linear_attention() {
  Params params = same_step();
  params["eps"] = "0";
  const ExactProblem p = filled(filled(unit_keys(seeded("falcon2a", params)), "lambda", 0), "beta", 1);
  ExactProblem other = gated("linear_attention", p, Vector(T, 1), Vector(T, 1));
  other.inputs.erase("log_decay");
  return {outputs(other), outputs(p)};
}

/// One token of mamba2 for every pair of a window; only the first decays, and the last is read.
Sides window_as_tokens() {
  const ExactProblem p = family("falcon3a");
  const Gains g = gains_of(p);
  const Matrix x = write_features(p), v = matrix(p, "v"), q = matrix(p, "q");
  Vector keys, outs, queries, log_decay;
  std::vector<std::size_t> last;
  for (int t = 0; t < T; ++t) {
    const auto i = static_cast<std::size_t>(t);
    const Rows w = window_at(p, t);
    for (int j = 0; j < std::max(1, w.count); ++j) {
      const Mp200 weight = w.count == 0 ? Mp200(0) : Mp200(g.eta[i] / w.count);
      append(keys, scaled(rows_of(x, std::min(w.first + j, T - 1), 1).data, weight));
      append(outs, rows_of(v, std::min(w.first + j, T - 1), 1).data);
      append(queries, rows_of(q, t, 1).data);
      log_decay.push_back(j == 0 ? Mp200(log(g.gamma[i])) : Mp200(0));
    }
    last.push_back(log_decay.size() - 1);
  }
  ExactProblem other{"mamba2", {{"scale", "1"}}, {}, {}};
  const int tokens = static_cast<int>(log_decay.size());
  other.inputs["q"] = {{tokens, K}, queries};
  other.inputs["k"] = {{tokens, K}, keys};
  other.inputs["v"] = {{tokens, V}, outs};
  other.inputs["log_decay"] = array_of(log_decay);
  other.inputs["initial_state"] = p.inputs.at("initial_state");
  const BasicAnswer<Mp200> a = answer(other);
  Sides s{{}, outputs(p)};
  for (const std::size_t t : last) append(s.left, rows_of(matrix_of(a.outputs.at("o")), static_cast<int>(t), 1).data);
  append(s.left, a.outputs.at("final_state").data);
  return s;
}

List relations() {
  return {
      identity("gated_delta_rule", "falcon1", "gated_deltanet with g = gamma, b = eta / gamma and values gamma v",
               as_gated_delta_rule),
      identity("undecayed_delta_rule", "falcon1", "gated_deltanet, error = undecayed, with g = gamma and b = eta",
               as_undecayed_delta_rule),
      identity("state_space_duality", "falcon2a", "mamba2 with a = gamma, B = eta x, C = q", as_state_space_duality),
      identity("retention", "falcon2a", "constant gamma: retnet with k = eta x", as_retention),
      identity("linear_attention", "falcon2a", "eta = gamma = 1: linear_attention", as_linear_attention),
      identity("window_as_tokens", "falcon3a", "mamba2 with one token per pair of a window", window_as_tokens),
  };
}

// ---- conventions (sections 1 to 3) ----

/// A shifted start from S_0 = 0 is the unshifted rule on (k_1..k_{T-1}; v_2..v_T), behind o_1 = 0.
Sides shift_of_a_start() {
  const ExactProblem p = filled(seeded("falcon1"), "initial_state", 0);
  ExactProblem unshifted = segment_of(as(p, "falcon1", same_step()), 1, T - 1);
  unshifted.inputs["k"] = segment_of(p, 0, T - 1).inputs.at("k");
  Sides s{outputs(p), Vector(V, 0)};
  append(s.right, outputs(unshifted));
  return s;
}

Sides idle_clamp() {
  const ExactProblem p = seeded("falcon1");
  return {everything(as(p, "falcon1", {{"decay_floor", "0.001"}})), everything(p)};
}

/// A zero feature writes nothing and decays by 1 - beta lambda / (lambda + eps).
Sides zero_features() {
  const ExactProblem p = filled(seeded("falcon1"), "k", 0);
  Mp200 decay = 1;
  for (std::size_t t = 1; t < T; ++t)
    decay *= 1 - values(p, "beta")[t] * values(p, "lambda")[t] / (values(p, "lambda")[t] + p.number("eps"));
  return {output(p, "final_state"), scaled(values(p, "initial_state"), decay)};
}

/// Without energy, ridge and eps a step does nothing.
Sides zero_denominators() {
  const ExactProblem p = with_number(filled(filled(seeded("falcon1"), "k", 0), "lambda", 0), "eps", 0);
  return {output(p, "final_state"), values(p, "initial_state")};
}

ExactProblem normalized() { return seeded("falcon2a", {{"normalization", "features"}}); }

/// The normalizer as a value channel of ones, in a problem that does not divide.
Matrix numerators_and_denominators(const ExactProblem& p) {
  ExactProblem plain = as(p, "falcon2a", {{"normalization", "none"}});
  plain.cotangents.clear();
  const auto widened = [](const Matrix& a, const Vector& last) {
    Matrix wide(a.rows, a.cols + 1);
    for (int i = 0; i < a.rows; ++i) {
      for (int j = 0; j < a.cols; ++j) wide(i, j) = a(i, j);
      wide(i, a.cols) = last[static_cast<std::size_t>(i)];
    }
    return wide;
  };
  plain = with(plain, "v", widened(matrix(p, "v"), Vector(T, 1)));
  plain = with(plain, "initial_state", widened(matrix(p, "initial_state"), values(p, "initial_normalizer")));
  plain.inputs.erase("initial_normalizer");
  return matrix_of(answer(plain).outputs.at("o"));
}

/// Numerators over (denominator + eps)^power.
Vector divided(const Matrix& reads, const Mp200& eps, int power) {
  Vector o;
  for (int t = 0; t < T; ++t)
    for (int j = 0; j < V; ++j) o.push_back(reads(t, j) / pow(Mp200(reads(t, V) + eps), power));
  return o;
}
Sides normalizer_is_a_channel() {
  const ExactProblem p = normalized();
  return {output(p, "o"), divided(numerators_and_denominators(p), p.number("eps_normalizer"), 1)};
}
Identity eps_normalizer_to_zero() {
  const ExactProblem p = with_number(normalized(), "eps_normalizer", 0);
  return first_order(
      "eps_normalizer_to_zero", "falcon2a", "eps_normalizer -> 0: o -> S^T q / z.q",
      [p](const Mp200& eps) { return difference(output(with_number(p, "eps_normalizer", eps), "o"), output(p, "o")); },
      [p] { return scaled(divided(numerators_and_denominators(p), 0, 2), -1); }, "falcon-family.md 3.4");
}

ExactProblem norm_problem(const Mp200& eps) { return with_number(make("rmsnorm"), "eps", eps); }
Vector mean_squares(const Matrix& x) { return scaled(row_dots(x, x), Mp200(1) / x.cols); }
Vector rows_over(const Matrix& x, int power) {
  const Vector squares = mean_squares(x);
  Matrix y = x;
  for (int t = 0; t < x.rows; ++t)
    for (int i = 0; i < x.cols; ++i) y(t, i) /= pow(Mp200(sqrt(squares[static_cast<std::size_t>(t)])), power);
  return y.data;
}

Sides norm_of_a_normalized_row() {
  const Mp200 eps = Mp200(1) / 8;
  const ExactProblem p = norm_problem(eps);
  Sides s{mean_squares(matrix_of(answer(p).outputs.at("y"))), {}};
  for (const Mp200& square : mean_squares(matrix(p, "x"))) {
    const Mp200 r = sqrt(square);
    s.right.push_back(r * r / ((r + eps) * (r + eps)));
  }
  return s;
}
Identity eps_of_rmsnorm_to_zero() {
  return first_order(
      "eps_to_zero", "rmsnorm", "eps -> 0: y -> x / r",
      [](const Mp200& eps) {
        const ExactProblem p = norm_problem(eps);
        return difference(output(p, "y"), rows_over(matrix(p, "x"), 1));
      },
      [] { return scaled(rows_over(matrix(norm_problem(0), "x"), 2), -1); }, section_2);
}

List conventions() {
  return {
      identity("shift_of_a_start", "falcon1", "S_0 = 0: the unshifted rule on (k_1..k_{T-1}; v_2..v_T) behind o_1 = 0",
               shift_of_a_start, section_1),
      identity("idle_clamp", "falcon1", "a floor below every decay: raw, gradients too", idle_clamp, section_1),
      identity("zero_features", "falcon1", "x = 0: no write, S_T = prod (1 - beta lambda / (lambda + eps)) S_0",
               zero_features, section_1),
      identity("zero_denominators", "falcon1", "x = 0, lambda = eps = 0: S_T = S_0", zero_denominators, section_1),
      identity("norm", "rmsnorm", "|y|^2 = d (r / (r + eps))^2", norm_of_a_normalized_row, section_2),
      eps_of_rmsnorm_to_zero(),
      identity("normalizer_is_a_channel", "falcon2a", "the normalizer is a value channel of ones",
               normalizer_is_a_channel, "falcon-family.md 3.4"),
      eps_normalizer_to_zero(),
  };
}

/// The rows of programs have their places among the others: affine forms, limits of gains, symmetries.
List all_limits() {
  const List gains = program_identities("falcon_gains");
  const auto first_limit = std::find_if(gains.begin(), gains.end(), [](const Identity& one) { return one.order > 0; });
  List list = conventions();
  list.insert(list.end(), gains.begin(), first_limit);
  for (const auto& part : {chunk_identities, segment_identities, reductions}) append(list, part());
  list.insert(list.end(), first_limit, gains.end());
  append(list, writes());
  append(list, program_identities("falcon_family"));
  for (const auto& part : {least_squares, masks, descents, transitions, relations}) append(list, part());
  return list;
}

}  // namespace
}  // namespace falcon_formulas

std::vector<Identity> falcon_identities() { return falcon_formulas::all_limits(); }

}  // namespace assay::identities
