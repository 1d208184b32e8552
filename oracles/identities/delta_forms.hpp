#pragma once
// The delta family a second time, in 200 digits and from other equations than the references': chunks (delta-family.md
// 2.5, 3.3), and the map of one step.
#include <algorithm>
#include <functional>
#include <string_view>

#include "oracles/identities/exact_problem.hpp"
#include "oracles/identities/matrix.hpp"

namespace assay::identities::delta {

/// Element i.
inline Mp200& entry(Vector& v, int i) { return v[static_cast<std::size_t>(i)]; }
inline const Mp200& entry(const Vector& v, int i) { return v[static_cast<std::size_t>(i)]; }

/// lim |A^n|^{1/n} over n = 2^m, m = 700: the constant in front of radius^n is gone to the 2^-700th power.
inline Mp200 spectral_radius(Matrix a) {
  Mp200 log_radius = 0, weight = 1;
  for (int m = 0; m < 700; ++m) {
    const Mp200 size = norm(a.data);
    log_radius += weight * log(size);
    a = 1 / size * a;
    a = a * a;
    weight /= 2;
  }
  return exp(log_radius);
}

inline BasicArray<Mp200> array(const Matrix& m) { return m.array(); }

/// The array of that name, of a map that may be const.
template <class Arrays200>
auto& named(Arrays200& arrays, std::string_view name) {
  const auto it = arrays.find(name);
  require(it != arrays.end(), name, ": missing");
  return it->second;
}
inline Matrix matrix(const BasicArrays<Mp200>& arrays, std::string_view name) { return Matrix(named(arrays, name)); }
inline const Vector& numbers(const BasicArrays<Mp200>& arrays, std::string_view name) {
  return named(arrays, name).data;
}
inline Vector exponentials(Vector v) {
  for (Mp200& x : v) x = exp(x);
  return v;
}

inline ExactProblem with(ExactProblem p, std::string_view input, const std::function<Mp200(const Mp200&)>& f) {
  for (Mp200& x : named(p.inputs, input).data) x = f(x);
  return p;
}
inline ExactProblem filled(ExactProblem p, std::string_view input, const Mp200& value) {
  return with(std::move(p), input, [value](const Mp200&) { return value; });
}
/// Entry by entry, b running over rows of a.
inline BasicArray<Mp200> row_products(BasicArray<Mp200> a, const Vector& b) {
  const std::size_t width = a.data.size() / b.size();
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] *= b[i / width];
  return a;
}
inline Vector products(Vector a, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
  return a;
}
/// The same inputs and cotangents for another room.
inline ExactProblem as(ExactProblem p, std::string_view mechanism, const std::vector<std::string_view>& dropped = {}) {
  p.mechanism = mechanism;
  for (const std::string_view name : dropped) p.inputs.erase(std::string(name));
  return p;
}

/// An mdn problem from one of mdn_front_end without correction or with D = exp(log_d): inverse_norm is the factor of N
/// by |x|^2 (section 2.3).
inline ExactProblem prepared(const ExactProblem& p, const Mp200& D,
                             const std::function<Mp200(const Mp200& square)>& inverse_norm) {
  const auto normalized = [&](Matrix x) {
    for (int t = 0; t < x.rows; ++t) x.set_row(t, inverse_norm(dot(x[t], x[t])) * x[t]);
    return x;
  };
  ExactProblem core = as(p, "mdn", {"log_d"});
  core.params.erase("l2_eps");
  named(core.inputs, "q") = array(normalized(matrix(p.inputs, "q") - D * matrix(p.inputs, "k")));
  named(core.inputs, "k") = array(normalized(matrix(p.inputs, "k")));
  core.inputs["p"] = row_products(named(core.inputs, "k"), exponentials(numbers(p.inputs, "log_alpha")));
  return core;
}

/// Momentum DeltaNet (section 2.2), its gates as numbers.
struct Momentum {
  Mp200 scale;
  Matrix q, k, v, p;
  Vector alpha, mu, beta, eta;
  Matrix S, M;

  int tokens() const { return k.rows; }
};

struct MomentumOutputs {
  Matrix o, S, M;
};

inline Mp200 scale_of(const ExactProblem& problem, int K) {
  return problem.params.contains("scale") ? problem.number("scale") : Mp200(1 / sqrt(Mp200(K)));
}

inline Momentum momentum(const ExactProblem& problem) {
  const auto& in = problem.inputs;
  const Matrix k = matrix(in, "k");
  return {scale_of(problem, k.cols),
          matrix(in, "q"),
          k,
          matrix(in, "v"),
          matrix(in, "p"),
          exponentials(numbers(in, "log_alpha")),
          exponentials(numbers(in, "log_mu")),
          numbers(in, "beta"),
          numbers(in, "eta"),
          matrix(in, "initial_state"),
          matrix(in, "initial_momentum")};
}

/// Of a chunk of n tokens: a_i, b_i, m_i for i = 0 .. n and Gamma_ij, rho_ij for 1 <= j <= i <= n, counted from 1.
struct Coefficients {
  Vector a, b, m;
  Matrix gamma, rho;
};

/// Section 2.5, the stable evaluation.
inline Coefficients stable_coefficients(const Momentum& x, int first, int n) {
  Coefficients c{Vector(static_cast<std::size_t>(n) + 1), {}, {}, Matrix(n + 1, n + 1), Matrix(n + 1, n + 1)};
  c.b = c.m = c.a;
  c.a[0] = c.m[0] = 1;
  for (int i = 1; i <= n; ++i) {
    const auto at = static_cast<std::size_t>(i), token = static_cast<std::size_t>(first + i - 1);
    c.a[at] = x.alpha[token] * c.a[at - 1];
    c.m[at] = x.mu[token] * c.m[at - 1];
    c.b[at] = x.alpha[token] * c.b[at - 1] + x.beta[token] * c.m[at];
    for (int j = 1; j <= i; ++j) {
      c.rho(i, j) = j == i ? Mp200(1) : Mp200(x.mu[token] * c.rho(i - 1, j));
      c.gamma(i, j) = x.alpha[token] * c.gamma(i - 1, j) + x.beta[token] * c.rho(i, j);
    }
  }
  return c;
}

using CoefficientRule = std::function<Coefficients(const Momentum&, int first, int n)>;

/// Section 2.5.
inline MomentumOutputs chunked(const Momentum& x, int C, const CoefficientRule& rule = stable_coefficients) {
  MomentumOutputs out{Matrix(x.tokens(), x.v.cols), x.S, x.M};
  for (int first = 0; first < x.tokens(); first += C) {
    const int n = std::min(C, x.tokens() - first);
    const Coefficients c = rule(x, first, n);
    Matrix E(n, x.v.cols), S = c.a.back() * out.S - c.b.back() * out.M, M = c.m.back() * out.M;
    const auto eta = [&](int j) { return entry(x.eta, first + j); };
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const Matrix q = x.q[first + i], p = x.p[first + i];
      Matrix e = x.v[first + i] - c.a[at] * (p * out.S) + c.b[at] * (p * out.M);
      for (int j = 0; j < i; ++j) e -= (c.gamma(i, j + 1) * eta(j) * dot(p, x.k[first + j])) * E[j];
      E.set_row(i, e);
      Matrix y = c.a[at + 1] * (q * out.S) - c.b[at + 1] * (q * out.M);
      for (int j = 0; j <= i; ++j) y += (c.gamma(i + 1, j + 1) * eta(j) * dot(q, x.k[first + j])) * E[j];
      out.o.set_row(first + i, x.scale * y);
    }
    for (int j = 0; j < n; ++j) {
      const Matrix gradient = eta(j) * (transposed(x.k[first + j]) * E[j]);
      S += c.gamma(n, j + 1) * gradient;
      M -= c.rho(n, j + 1) * gradient;
    }
    out.S = S, out.M = M;
  }
  return out;
}

/// The map of token t on [S; M] stacked (section 2.9), as the matrix it is.
inline Matrix step_map(const Momentum& x, int t) {
  const auto i = static_cast<std::size_t>(t);
  const int K = x.k.cols;
  const Matrix kp = transposed(x.k[t]) * x.p[t];
  Matrix A(2 * K, 2 * K);
  for (int r = 0; r < K; ++r)
    for (int c = 0; c < K; ++c) {
      const Mp200 diagonal = r == c ? 1 : 0;
      A(r, c) = x.alpha[i] * diagonal - x.beta[i] * x.eta[i] * kp(r, c);
      A(r, K + c) = -x.beta[i] * x.mu[i] * diagonal;
      A(K + r, c) = x.eta[i] * kp(r, c);
      A(K + r, K + c) = x.mu[i] * diagonal;
    }
  return A;
}

/// What all tokens of an mdn problem do to [S; M], as its room does it: the answer for v = 0 and a basis of states. The
/// problem needs V = 2 K.
inline Matrix map_of_the_room(ExactProblem problem) {
  const int K = matrix(problem.inputs, "k").cols;
  Matrix S(K, 2 * K), M(S);
  for (int i = 0; i < K; ++i) S(i, i) = M(i, K + i) = 1;
  named(problem.inputs, "initial_state") = array(S);
  named(problem.inputs, "initial_momentum") = array(M);
  for (Mp200& x : named(problem.inputs, "v").data) x = 0;
  const BasicAnswer<Mp200> got = answer(problem);
  Matrix map(2 * K, 2 * K);
  map.data = flat(got.outputs, {"final_state", "final_momentum"});
  return map;
}

enum class Error { none, decayed, undecayed };

/// The first-order family (section 3.1), D [T, K] as numbers.
struct FirstOrder {
  Error error;
  Mp200 scale;
  Matrix q, k, v, p;
  Vector beta;
  Matrix D, S;

  int tokens() const { return k.rows; }
};

struct FirstOrderOutputs {
  Matrix o, S;
};

/// The rows of the table of section 3.1.
inline FirstOrder first_order(const ExactProblem& problem) {
  const auto& in = problem.inputs;
  const std::string_view name = problem.mechanism;
  const Matrix k = matrix(in, "k");
  const auto option = problem.params.find("error");
  const bool undecayed =
      name == "comba" || (option != problem.params.end() && option->second == Param(std::string("undecayed")));
  const auto param = problem.params.find("head");
  const int head = param == problem.params.end() ? 0 : static_cast<int>(std::get<long>(param->second));
  FirstOrder x{!in.contains("beta") ? Error::none
               : undecayed          ? Error::undecayed
                                    : Error::decayed,
               scale_of(problem, k.cols),
               matrix(in, "q"),
               k,
               matrix(in, "v"),
               in.contains("p") ? matrix(in, "p") : k,
               in.contains("beta") ? numbers(in, "beta") : Vector(static_cast<std::size_t>(k.rows), Mp200(1)),
               Matrix(k.rows, k.cols),
               matrix(in, "initial_state")};
  for (int t = 0; t < k.rows; ++t)
    for (int i = 0; i < k.cols; ++i) {
      x.D(t, i) = 1;
      if (name == "retnet") x.D(t, i) -= ldexp(Mp200(1), -5 - head);
      if (!in.contains("log_decay")) continue;
      const Matrix g = matrix(in, "log_decay");
      x.D(t, i) = exp(g(t, g.cols == 1 ? 0 : i));
    }
  return x;
}

/// diag(D) S.
inline Matrix decayed(const Matrix& D, Matrix S) {
  for (int i = 0; i < S.rows; ++i)
    for (int j = 0; j < S.cols; ++j) S(i, j) *= D(0, i);
  return S;
}

/// The running product of the decays of tokens first .. last of a chunk, per channel.
inline Matrix decay_product(const Matrix& D, int first, int last) {
  Matrix all(1, D.cols);
  for (Mp200& x : all.data) x = 1;
  for (int l = first; l <= last; ++l) all = entrywise(all, D[l]);
  return all;
}

/// Section 3.3.
inline FirstOrderOutputs chunked(const FirstOrder& x, int C) {
  FirstOrderOutputs out{Matrix(x.tokens(), x.v.cols), x.S};
  for (int first = 0; first < x.tokens(); first += C) {
    const int end = std::min(first + C, x.tokens());
    Matrix E = x.v;
    for (int i = first; i < end; ++i) {
      Matrix y = entrywise(decay_product(x.D, first, i), x.q[i]) * out.S;
      if (x.error != Error::none) {
        const Matrix p = x.error == Error::decayed ? entrywise(x.D[i], x.p[i]) : x.p[i];
        Matrix e = x.v[i] - entrywise(decay_product(x.D, first, i - 1), p) * out.S;
        for (int j = first; j < i; ++j) {
          const Mp200 L = dot(entrywise(p, decay_product(x.D, j + 1, i - 1)), x.k[j]);
          e -= entry(x.beta, j) * L * E[j];
        }
        E.set_row(i, e);
      }
      for (int j = first; j <= i; ++j) {
        const Mp200 A = dot(entrywise(x.q[i], decay_product(x.D, j + 1, i)), x.k[j]);
        y += entry(x.beta, j) * A * E[j];
      }
      out.o.set_row(i, x.scale * y);
    }
    Matrix S = decayed(decay_product(x.D, first, end - 1), out.S);
    for (int j = first; j < end; ++j) {
      const Matrix write = entrywise(decay_product(x.D, j + 1, end - 1), x.k[j]);
      S += entry(x.beta, j) * (transposed(write) * E[j]);
    }
    out.S = S;
  }
  return out;
}

}  // namespace assay::identities::delta
