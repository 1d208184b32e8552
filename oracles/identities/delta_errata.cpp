// The errata of Momentum DeltaNet and its baselines (delta-family.md section 8).
#include <limits>

#include "oracles/identities/delta_forms.hpp"
#include "oracles/identities/errata.hpp"
#include "reference/core/rounding.hpp"

namespace assay::identities {
namespace delta {
namespace {

using Values = Erratum::Values;
/// What an operation's result is rounded to.
using RoundingRule = std::function<Mp200(const Mp200&)>;

Mp200 unrounded(const Mp200& x) { return x; }
Mp200 to_format(const Mp200& x, Format format) { return round_to(static_cast<double>(x), format); }
Mp200 to_fp32(const Mp200& x) { return to_format(x, Format::fp32); }

/// The logs that the published chunk code works with, of positions 1 .. n: prefix sums of log alpha and log mu, x, and
/// the prefix log-sum-exp of x (section 2.7).
struct Logs {
  Vector alpha, mu, x, c;
};

Logs logs(const Momentum& m, int first, int n, const Mp200& added, const RoundingRule& r) {
  Logs l;
  l.alpha = l.mu = {0};
  l.x = l.c = {-std::numeric_limits<Mp200>::infinity()};
  for (int i = 1; i <= n; ++i) {
    const auto at = static_cast<std::size_t>(i), token = static_cast<std::size_t>(first + i - 1);
    l.alpha.push_back(r(l.alpha.back() + r(log(m.alpha[token]))));
    l.mu.push_back(r(l.mu.back() + r(log(m.mu[token]))));
    l.x.push_back(r(r(r(log(r(m.beta[token] + added))) + l.mu[at]) - l.alpha[at]));
    const Mp200 largest = i == 1 || l.x[at] > l.c[at - 1] ? l.x[at] : l.c[at - 1];
    const Mp200 before = i == 1 ? Mp200(0) : r(exp(r(l.c[at - 1] - largest)));
    l.c.push_back(r(largest + r(log(r(before + r(exp(r(l.x[at] - largest))))))));
  }
  return l;
}

/// 1 - c_{j-1} / c_i.
Mp200 later_part(const Logs& l, int i, int j, const RoundingRule& r) {
  const auto row = static_cast<std::size_t>(i), column = static_cast<std::size_t>(j);
  return j == 1 ? Mp200(1) : r(1 - r(exp(r(l.c[column - 1] - l.c[row]))));
}
/// a_i c_i / m_j.
Mp200 leading_part(const Logs& l, int i, int j, const RoundingRule& r) {
  const auto row = static_cast<std::size_t>(i), column = static_cast<std::size_t>(j);
  return r(exp(r(r(l.alpha[row] - l.mu[column]) + l.c[row])));
}

/// Section 2.7 with `added` to every beta, each operation rounded.
CoefficientRule log_domain(const Mp200& added, const RoundingRule& r) {
  return [added, r](const Momentum& m, int first, int n) {
    const Logs l = logs(m, first, n, added, r);
    Coefficients c{{1}, {0}, {1}, Matrix(n + 1, n + 1), Matrix(n + 1, n + 1)};
    for (int i = 1; i <= n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      c.a.push_back(r(exp(l.alpha[at])));
      c.b.push_back(r(exp(r(l.alpha[at] + l.c[at]))));
      c.m.push_back(r(exp(l.mu[at])));
      for (int j = 1; j <= i; ++j) {
        c.rho(i, j) = r(exp(r(l.mu[at] - entry(l.mu, j))));
        c.gamma(i, j) = r(leading_part(l, i, j, r) * later_part(l, i, j, r));
      }
    }
    return c;
  };
}

const Mp200 millionth = Mp200(1) / 1000000;

Mp200 decimal(std::string_view text) { return from_decimal<Mp200>(text); }

/// One head of mdn under constant gates and from zero states.
ExactProblem constant_gates(int T, std::string_view log_alpha, std::string_view log_mu, std::string_view beta) {
  ExactProblem p = make("mdn", {}, T);
  for (const auto& [name, value] : {std::pair{"log_alpha", log_alpha},
                                    {"log_mu", log_mu},
                                    {"beta", beta},
                                    {"initial_state", std::string_view("0")},
                                    {"initial_momentum", std::string_view("0")}})
    p = filled(p, name, decimal(value));
  return p;
}

Values constant_on_beta() {
  const ExactProblem p = constant_gates(7, "-0.05", "-0.2", "1e-4");
  const Momentum x = momentum(p);
  return {chunked(x, 7, log_domain(millionth, unrounded)).S.data, chunked(x, 7, log_domain(0, unrounded)).S.data,
          flat(answer(p).outputs, {"final_state"})};
}

/// With tokens that should do nothing appended.
Momentum padded(Momentum x, int tokens) {
  const int more = tokens - x.tokens();
  for (Matrix* m : {&x.q, &x.k, &x.v, &x.p}) {
    m->rows += more;
    m->data.resize(m->data.size() + static_cast<std::size_t>(more) * static_cast<std::size_t>(m->cols));
  }
  for (Vector* gate : {&x.alpha, &x.mu}) gate->resize(static_cast<std::size_t>(tokens), Mp200(1));
  for (Vector* step : {&x.beta, &x.eta}) step->resize(static_cast<std::size_t>(tokens), Mp200(0));
  return x;
}

/// The constant of E1 is taken off the tokens beforehand: what is left is the padding's.
Values padding_with_a_step() {
  const ExactProblem p = make("mdn");
  const Momentum full = padded(momentum(p), 16);
  Momentum lowered = full;
  for (int t = 0; t < 7; ++t) entry(lowered.beta, t) -= millionth;
  return {chunked(lowered, 16, log_domain(millionth, unrounded)).S.data, chunked(full, 16).S.data,
          flat(answer(p).outputs, {"final_state"})};
}

/// One chunk of T tokens with its coefficients in fp32 and everything else exact.
Values coefficients_in_fp32(int T, std::string_view log_mu) {
  const ExactProblem p = constant_gates(T, "-0.05", log_mu, "0.3");
  const Momentum x = momentum(p);
  return {chunked(x, T, log_domain(0, to_fp32)).o.data, chunked(x, T).o.data, flat(answer(p).outputs, {"o"})};
}

/// The gradients of the log gates by the log-domain form in reverse.
struct GateGradients {
  Vector log_alpha, log_mu;
};

enum class Upper { masked_before, masked_after };

/// For one chunk with p = 0 from zero states, where o = s (Gamma o Q K^T diag(eta)) V. `extra` is added to
/// 1 - c_{j-1} / c_i where it is divided by.
GateGradients log_domain_gradients(const Momentum& m, const Matrix& d_o, Upper upper, const Mp200& extra) {
  const int T = m.tokens();
  // Exact, but for the range of fp32.
  const auto overflowing = [](const Mp200& x) {
    return x > info(Format::fp32).max_finite ? std::numeric_limits<Mp200>::infinity() : x;
  };
  const Logs l = logs(m, 0, T, 0, unrounded);
  Vector d_alpha(static_cast<std::size_t>(T) + 1), d_mu(d_alpha), d_c(d_alpha);
  for (int i = 1; i <= T; ++i)
    for (int j = 1; j <= (upper == Upper::masked_after ? T : i); ++j) {
      const auto row = static_cast<std::size_t>(i), column = static_cast<std::size_t>(j);
      const Mp200 weight =
          j > i ? Mp200(0) : m.scale * m.eta[column - 1] * dot(m.q[i - 1], m.k[j - 1]) * dot(d_o[i - 1], m.v[j - 1]);
      const Mp200 leading = leading_part(l, i, j, overflowing), later = later_part(l, i, j, overflowing);
      const Mp200 d_leading = weight * leading * later;
      const Mp200 share = extra == 0 ? Mp200(1) : later / (later + extra);
      const Mp200 d_later = -weight * leading * (1 - later) * share;
      d_alpha[row] += d_leading;
      d_mu[column] -= d_leading;
      d_c[row] += d_leading - d_later;
      if (j > 1) d_c[column - 1] += d_later;
    }
  for (std::size_t j = 1; j < d_c.size(); ++j) {
    Mp200 d_x = 0;
    for (std::size_t i = j; i < d_c.size(); ++i) d_x += d_c[i] * exp(l.x[j] - l.c[i]);
    d_mu[j] += d_x;
    d_alpha[j] -= d_x;
  }
  for (std::size_t i = d_c.size() - 1; i-- > 1;) d_alpha[i] += d_alpha[i + 1], d_mu[i] += d_mu[i + 1];
  return {{d_alpha.begin() + 1, d_alpha.end()}, {d_mu.begin() + 1, d_mu.end()}};
}

ExactProblem only_reads(ExactProblem p) {
  p.cotangents.erase("final_state");
  p.cotangents.erase("final_momentum");
  return filled(p, "p", 0);
}

Values mask_after_the_exponential() {
  const ExactProblem p = only_reads(constant_gates(26, "-1", "-4", "0.3"));
  const Momentum x = momentum(p);
  const Matrix d_o = matrix(p.cotangents, "o");
  return {log_domain_gradients(x, d_o, Upper::masked_after, 0).log_alpha,
          log_domain_gradients(x, d_o, Upper::masked_before, 0).log_alpha, numbers(answer(p).gradients, "log_alpha")};
}

Values constant_in_the_backward() {
  const ExactProblem p = only_reads(constant_gates(12, "-0.05", "-1", "0.3"));
  const Momentum x = momentum(p);
  const Matrix d_o = matrix(p.cotangents, "o");
  return {log_domain_gradients(x, d_o, Upper::masked_before, millionth).log_mu,
          log_domain_gradients(x, d_o, Upper::masked_before, 0).log_mu, numbers(answer(p).gradients, "log_mu")};
}

ExactProblem front_end() {
  ExactProblem p = make("mdn_front_end");
  p.inputs.erase("log_d");
  return p;
}

/// Queries of norm 1e-3.
Values norm_of_the_decode_kernel() {
  ExactProblem p = front_end();
  Matrix q = matrix(p.inputs, "q");
  for (int t = 0; t < q.rows; ++t) q.set_row(t, 1 / (1000 * sqrt(dot(q[t], q[t]))) * q[t]);
  named(p.inputs, "q") = array(q);
  const auto o = [&](const std::function<Mp200(const Mp200&)>& inverse_norm) {
    return chunked(momentum(prepared(p, 0, inverse_norm)), 7).o.data;
  };
  return {o([](const Mp200& square) { return 1 / (sqrt(square) + millionth); }),
          o([](const Mp200& square) { return 1 / sqrt(square + millionth); }), flat(answer(p).outputs, {"o"})};
}

/// phi = 1e-3, where the angle is all of the decay but for exp(-800).
Values cosine_in_fp32() {
  const Mp200 phi = Mp200(1) / 1000;
  ExactProblem p = make("mdn_gates", {}, 1);
  p = filled(filled(p, "a_log", -800), "e", 0);  // eta = 1
  p = filled(p, "log_factor", log(phi));
  const Mp200 cosine = to_fp32(cos(to_fp32(atan(to_fp32(phi)))));
  return {{to_fp32(log(to_fp32(cosine * cosine)))}, {-log(1 + phi * phi)}, numbers(answer(p).outputs, "log_alpha")};
}

Values dropped_step() {
  const ExactProblem p = make("mdn");
  Momentum dropped = momentum(p);
  dropped.eta = products(dropped.eta, dropped.beta);
  Momentum absorbed = dropped;
  for (std::size_t t = 1; t < dropped.beta.size(); ++t) absorbed.mu[t] *= dropped.beta[t] / dropped.beta[t - 1];
  absorbed.M = dropped.beta[0] * absorbed.M;
  for (Momentum* x : {&dropped, &absorbed}) x->beta.assign(7, Mp200(1));
  return {chunked(dropped, 7).o.data, chunked(absorbed, 7).o.data, flat(answer(p).outputs, {"o"})};
}

/// The six steps of section 2.9: the product of their spectral radii, and the spectral radius of their product.
Values product_of_stable_steps() {
  struct Step {
    std::string_view angle, eta, strength, decay, mu;
  };
  constexpr Step steps[] = {{"-0.42", "1.6", "0", "0.99", "0.99"},    {"2.73", "1.99", "0.99", "0.99", "0.99"},
                            {"1.16", "1.99", "0.99", "0.99", "0.99"}, {"1.16", "1.99", "0.99", "0.99", "0.99"},
                            {"-0.36", "0.5", "0.08", "0.99", "0.37"}, {"2.75", "1.37", "0", "0.99", "0.39"}};
  ExactProblem p = make("mdn", {}, 6, 2, 4);
  const auto set = [&](std::string_view name, std::size_t i, const Mp200& x) { named(p.inputs, name).data[i] = x; };
  for (std::size_t t = 0; t < 6; ++t) {
    const Mp200 eta = decimal(steps[t].eta), phi = eta * decimal("0.39"), angle = decimal(steps[t].angle);
    const Mp200 alpha = decimal(steps[t].decay) / (1 + phi * phi);
    set("log_alpha", t, log(alpha));
    set("log_mu", t, log(decimal(steps[t].mu)));
    set("beta", t, phi * phi / (1 + phi * phi) * decimal(steps[t].strength));
    set("eta", t, eta);
    for (const auto& [i, x] : {std::pair<std::size_t, Mp200>{2 * t, cos(angle)}, {2 * t + 1, sin(angle)}}) {
      set("k", i, x);
      set("p", i, alpha * x);
    }
  }
  const Momentum x = momentum(p);
  Mp200 radii = 1;
  Matrix all = unit(4);
  for (int t = 0; t < 6; ++t) {
    radii *= spectral_radius(step_map(x, t));
    all = step_map(x, t) * all;
  }
  return {{radii}, {spectral_radius(all)}, {spectral_radius(map_of_the_room(p))}};
}

/// Decays that a few tokens feel.
ExactProblem strongly_decaying(std::string_view mechanism) {
  return with(make(mechanism), "log_decay", [](const Mp200& g) { return g - 1; });
}

Values comba_on_the_decayed_state() {
  const ExactProblem p = strongly_decaying("comba");
  const FirstOrder x = first_order(p);
  FirstOrder naive = x;
  naive.error = Error::decayed;
  return {chunked(naive, 7).o.data, chunked(x, 7).o.data, flat(answer(p).outputs, {"o"})};
}

/// FALCON (2.8) as written, g (I - beta k k^T) S + beta k v^T, or with g on the identity alone.
Values falcon_rule() {
  const ExactProblem p = strongly_decaying("gated_deltanet");
  const FirstOrder x = first_order(p);
  const auto o = [&](bool on_both) {
    Matrix S = x.S, read(x.tokens(), x.v.cols);
    for (int t = 0; t < x.tokens(); ++t) {
      const Mp200& g = x.D(t, 0);
      const Mp200& beta = entry(x.beta, t);
      const Matrix k = transposed(x.k[t]), erased = beta * (k * x.k[t]);
      const Matrix map = on_both ? g * (unit(k.rows) - erased) : g * unit(k.rows) - erased;
      S = map * S + beta * (k * x.v[t]);
      read.set_row(t, x.scale * (x.q[t] * S));
    }
    return read.data;
  };
  return {o(false), o(true), flat(answer(p).outputs, {"o"})};
}

Values keys_in_16_bits() {
  const ExactProblem p = front_end();
  const Momentum x = momentum(prepared(p, 0, [](const Mp200& square) { return 1 / sqrt(square + millionth); }));
  Momentum rounded = x;
  for (Mp200& value : rounded.p.data) value = to_format(value, Format::fp16);
  for (int t = 0; t < 7; ++t) rounded.k.set_row(t, entry(x.eta, t) * x.k[t]);
  for (Mp200& value : rounded.k.data) value = to_format(value, Format::fp16);
  rounded.eta.assign(7, Mp200(1));
  return {chunked(rounded, 7).o.data, chunked(x, 7).o.data, flat(answer(p).outputs, {"o"})};
}

Values forgotten_initial_state() {
  const ExactProblem p = make("deltanet");
  const FirstOrder x = first_order(p);
  FirstOrder fresh = x;
  fresh.S = Matrix(x.S.rows, x.S.cols);
  return {chunked(fresh, 7).o.data, chunked(x, 7).o.data, flat(answer(p).outputs, {"o"})};
}

ErrataChapter chapter() {
  return {"Momentum DeltaNet and its baselines",
          "delta-family.md, section 8",
          {
              {"E1", "authors' chunk reference and kernels", "log(beta + 1e-6)",
               "log(beta): 1e-6 / beta of every write, here at beta = 1e-4", "S_T", constant_on_beta},
              {"E2", "authors' chunk reference", "pads the last chunk with beta = 0, which becomes 1e-6, and mu = 1",
               "padding does nothing; as printed S_T is off by 1e-6 M_T per token, here 9", "S_T", padding_with_a_step},
              {"E3", "numerical stability of the split exponent, all chunk code",
               "Gamma_ij = exp(la_i - lm_j + lc_i) (1 - exp(lc_{j-1} - lc_i)) in fp32",
               "Gamma_ij = alpha_i Gamma_{i-1,j} + beta_i rho_ij; cancels for mu < alpha, here 24 tokens of log mu = "
               "-1, log "
               "alpha = -0.05",
               "o", [] { return coefficients_in_fp32(24, "-1"); }},
              {"E4", "same", "the same exponents, \"upper overflow\"",
               "no exponents; NaN for (C - 1)(log alpha - log mu) > 88.7, here 32 tokens of log mu = -3", "o",
               [] { return coefficients_in_fp32(32, "-3"); }},
              {"E5", "authors' chunk reference under autograd", "exponentiates, then masks: 0 times inf in reverse",
               "masks before exponentiating", "dlog_alpha", mask_after_the_exponential},
              {"E6", "authors' backward kernel", "1 / (1 - c_{j-1} / c_i + 1e-6)",
               "1 / (1 - c_{j-1} / c_i), here 12 tokens of log mu = -1, log alpha = -0.05", "dlog_mu",
               constant_in_the_backward},
              {"E7", "l2 norm of the decode kernel", "x / (|x| + 1e-6), in the tests x / max(|x|, 1e-12)",
               "x / sqrt(|x|^2 + 1e-6) as in training, here |q| = 1e-3", "o", norm_of_the_decode_kernel},
              {"E8",
               "min_log_mu",
               "default -1 in the paper; -2 in the layer and the 400M configurations, -1 for 1B",
               "has no default: every case states it",
               "log_mu",
               {}},
              {"E9", "layer gates", "log(cos^2(arctan phi)) in fp32", "-log(1 + phi^2), here phi = 1e-3", "log_alpha",
               cosine_in_fp32},
              {"E10",
               "layer with more value than key heads",
               "per-head parameters by key heads, gates by value heads",
               "parameters per value head; as printed the shapes do not broadcast",
               "gates",
               {}},
              {"E11",
               "authors' repository",
               "FLA_CACHE_RESULTS is not defined, with a Triton that autotunes with "
               "cache_results",
               "define it; as printed the import fails",
               "import",
               {}},
              {"E12", "paper, footnote on absorbed scalars", "beta or eta can be dropped: eta' = beta eta, beta' = 1",
               "only with mu'_t = mu_t beta_t / beta_{t-1} and M_0' = beta_1 M_0", "o", dropped_step},
              {"E13", "paper, section 3.2", "every step has spectral radius < 1, so the dynamics is stable",
               "says nothing of products: the six steps of section 2.9, below 0.99 each, have 1.667 together",
               "spectral radius", product_of_stable_steps},
              {"E14",
               "authors' tests",
               "gates of one law, beta in [0.25, 0.37], backward against the chunk reference",
               "compare with the recurrence, log mu far below log alpha and beta near 0 included; as printed E1 to E6 "
               "stay unseen",
               "tests",
               {}},
              {"E15", "FLA comba, naive recurrence", "e = v - (alpha S)^T p",
               "e = v - S^T p, as in the paper, the chunk form and the decode kernel", "o", comba_on_the_decayed_state},
              {"E16", "FALCON (2.8), read as an error on the undecayed state", "(g I - beta k k^T) S + beta k v^T",
               "g (I - beta k k^T) S + beta k v^T, which is the error on the decayed state", "o", falcon_rule},
              {"E17", "authors' training kernel", "alpha k and eta k rounded to the 16-bit type of the inputs",
               "not rounded, as in decode", "o", keys_in_16_bits},
              {"E18", "FLA naive forms",
               "delta_rule and retention are [B,H,T,D], others [B,T,H,D]; delta_rule by chunks starts "
               "from zero; some need T mod C = 0",
               "convert explicitly; starts from S_0", "o", forgotten_initial_state},
          }};
}

}  // namespace
}  // namespace delta

ErrataChapter delta_errata() { return delta::chapter(); }

}  // namespace assay::identities
