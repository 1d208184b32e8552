#pragma once
// The delta family a second time, in 200 digits and from other equations than the references': chunks with their
// gradients (delta-family.md 2.5, 2.6, 3.3), the derivative of an answer along a direction, and the map of one step.
#include <algorithm>
#include <functional>
#include <string_view>

#include "oracles/identities/exact_problem.hpp"

namespace assay::identities::delta {

/// Element i.
inline Mp200& entry(Vector& v, int i) { return v[static_cast<std::size_t>(i)]; }
inline const Mp200& entry(const Vector& v, int i) { return v[static_cast<std::size_t>(i)]; }

/// Row vectors are matrices of one row.
struct Matrix {
  int rows = 0, cols = 0;
  Vector data;

  Matrix() = default;
  Matrix(int r, int c) : rows(r), cols(c), data(static_cast<std::size_t>(r) * static_cast<std::size_t>(c)) {}
  Mp200& operator()(int i, int j) { return data[at(i, j)]; }
  const Mp200& operator()(int i, int j) const { return data[at(i, j)]; }
  /// Row i.
  Matrix operator[](int i) const {
    Matrix row(1, cols);
    for (int j = 0; j < cols; ++j) row(0, j) = (*this)(i, j);
    return row;
  }
  void set_row(int i, const Matrix& row) {
    for (int j = 0; j < cols; ++j) (*this)(i, j) = row(0, j);
  }

 private:
  std::size_t at(int i, int j) const {
    return static_cast<std::size_t>(i) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(j);
  }
};

inline Matrix operator+(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
  return a;
}
inline Matrix operator*(const Mp200& factor, Matrix a) {
  for (Mp200& x : a.data) x *= factor;
  return a;
}
inline Matrix operator-(const Matrix& a, const Matrix& b) { return a + Mp200(-1) * b; }
inline Matrix& operator+=(Matrix& a, const Matrix& b) { return a = a + b; }
inline Matrix& operator-=(Matrix& a, const Matrix& b) { return a = a - b; }
inline Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.cols);
  for (int i = 0; i < a.rows; ++i)
    for (int l = 0; l < a.cols; ++l)
      for (int j = 0; j < b.cols; ++j) c(i, j) += a(i, l) * b(l, j);
  return c;
}
/// a^T; of a row, the column.
inline Matrix transposed(const Matrix& a) {
  Matrix b(a.cols, a.rows);
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.cols; ++j) b(j, i) = a(i, j);
  return b;
}
/// Entry by entry.
inline Matrix hadamard(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] *= b.data[i];
  return a;
}
/// The sum of the products of the entries.
inline Mp200 inner(const Matrix& a, const Matrix& b) {
  Mp200 sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += a.data[i] * b.data[i];
  return sum;
}
inline Matrix identity(int n) {
  Matrix one(n, n);
  for (int i = 0; i < n; ++i) one(i, i) = 1;
  return one;
}
/// I - 2 u u^T / |u|^2 with u = (1, 2, ..., n): orthogonal, and no entry is zero.
inline Matrix reflection(int n) {
  Matrix u(1, n);
  for (int i = 0; i < n; ++i) u(0, i) = i + 1;
  return identity(n) - (2 / inner(u, u)) * (transposed(u) * u);
}
/// By elimination with pivots.
inline Mp200 determinant(Matrix a) {
  Mp200 product = 1;
  for (int c = 0; c < a.cols; ++c) {
    int pivot = c;
    for (int i = c + 1; i < a.rows; ++i)
      if (abs(a(i, c)) > abs(a(pivot, c))) pivot = i;
    if (a(pivot, c) == 0) return 0;
    if (pivot != c) {
      const Matrix row = a[c];
      a.set_row(c, a[pivot]);
      a.set_row(pivot, Mp200(-1) * row);
    }
    product *= a(c, c);
    for (int i = c + 1; i < a.rows; ++i) a.set_row(i, a[i] - a(i, c) / a(c, c) * a[c]);
  }
  return product;
}
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

inline Matrix matrix(const BasicArray<Mp200>& a) {
  Matrix m(a.shape[0], a.shape.size() > 1 ? a.shape[1] : 1);
  m.data = a.data;
  return m;
}
inline BasicArray<Mp200> array(const Matrix& m) { return {{m.rows, m.cols}, m.data}; }

/// The array of that name, of a map that may be const.
template <class Arrays200>
auto& named(Arrays200& arrays, std::string_view name) {
  const auto it = arrays.find(name);
  require(it != arrays.end(), name, ": missing");
  return it->second;
}
inline Matrix matrix(const BasicArrays<Mp200>& arrays, std::string_view name) { return matrix(named(arrays, name)); }
inline const Vector& numbers(const BasicArrays<Mp200>& arrays, std::string_view name) {
  return named(arrays, name).data;
}
inline Vector mapped(Vector v, const std::function<Mp200(const Mp200&)>& f) {
  for (Mp200& x : v) x = f(x);
  return v;
}
inline Vector exponentials(const Vector& v) {
  return mapped(v, [](const Mp200& x) { return exp(x); });
}
inline Vector logarithms(const Vector& v) {
  return mapped(v, [](const Mp200& x) { return log(x); });
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
    for (int t = 0; t < x.rows; ++t) x.set_row(t, inverse_norm(inner(x[t], x[t])) * x[t]);
    return x;
  };
  ExactProblem core = as(p, "mdn", {"log_d"});
  core.params.erase("l2_eps");
  named(core.inputs, "q") = array(normalized(matrix(p.inputs, "q") - D * matrix(p.inputs, "k")));
  named(core.inputs, "k") = array(normalized(matrix(p.inputs, "k")));
  core.inputs["p"] = row_products(named(core.inputs, "k"), exponentials(numbers(p.inputs, "log_alpha")));
  return core;
}

/// Momentum DeltaNet (section 2.2), its gates as numbers. As a direction or a gradient: what belongs to each of them.
struct Momentum {
  Mp200 scale;
  Matrix q, k, v, p;
  Vector alpha, mu, beta, eta;
  Matrix S, M;

  int tokens() const { return k.rows; }
};

struct MomentumOutputs {
  Matrix o, S, M;

  Vector flat() const {
    Vector all = o.data;
    for (const Matrix* m : {&S, &M}) all.insert(all.end(), m->data.begin(), m->data.end());
    return all;
  }
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

/// The direction that moves nothing.
inline Momentum still(Momentum x) {
  for (Matrix* m : {&x.q, &x.k, &x.v, &x.p, &x.S, &x.M}) m->data.assign(m->data.size(), Mp200(0));
  for (Vector* v : {&x.alpha, &x.mu, &x.beta, &x.eta}) v->assign(v->size(), Mp200(0));
  return x;
}

/// The derivative of the outputs along d (d.scale is not read).
inline MomentumOutputs rates(const Momentum& x, const Momentum& d) {
  Matrix S = x.S, M = x.M, dS = d.S, dM = d.M;
  MomentumOutputs rate{Matrix(x.tokens(), x.v.cols), {}, {}};
  for (int t = 0; t < x.tokens(); ++t) {
    const auto i = static_cast<std::size_t>(t);
    const Matrix e = x.v[t] - x.p[t] * S, de = d.v[t] - x.p[t] * dS - d.p[t] * S;
    const Matrix ke = transposed(x.k[t]) * e, dke = transposed(d.k[t]) * e + transposed(x.k[t]) * de;
    dM = x.mu[i] * dM + d.mu[i] * M - d.eta[i] * ke - x.eta[i] * dke;
    M = x.mu[i] * M - x.eta[i] * ke;
    dS = x.alpha[i] * dS + d.alpha[i] * S - x.beta[i] * dM - d.beta[i] * M;
    S = x.alpha[i] * S - x.beta[i] * M;
    rate.o.set_row(t, x.scale * (x.q[t] * dS + d.q[t] * S));
  }
  rate.S = dS, rate.M = dM;
  return rate;
}

/// The product of gates first .. last, 1 if there are none.
inline Mp200 product(const Vector& gate, int first, int last) {
  Mp200 all = 1;
  for (int l = first; l <= last; ++l) all *= entry(gate, l);
  return all;
}

/// Gamma_ij = sum_{l = j..i} beta_l (alpha_{l+1} .. alpha_i) (mu_{j+1} .. mu_l): what token j's gradient weighs in the
/// state after token i, as the sum that defines it.
inline Mp200 gamma(const Momentum& x, int i, int j) {
  Mp200 sum = 0;
  for (int l = j; l <= i; ++l) sum += entry(x.beta, l) * product(x.alpha, l + 1, i) * product(x.mu, j + 1, l);
  return sum;
}
/// b_i = sum_{l <= i} beta_l (alpha_{l+1} .. alpha_i) (mu_1 .. mu_l): what -M_0 weighs in it.
inline Mp200 momentum_weight(const Momentum& x, int i) {
  Mp200 sum = 0;
  for (int l = 0; l <= i; ++l) sum += entry(x.beta, l) * product(x.alpha, l + 1, i) * product(x.mu, 0, l);
  return sum;
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

/// A chunk: the states before it, its coefficients and its errors.
struct Chunk {
  int first, n;
  Matrix S, M;
  Coefficients c;
  Matrix E;
};

/// Section 2.5. `chunks`, if given, takes what the gradients need.
inline MomentumOutputs chunked(const Momentum& x, int C, const CoefficientRule& rule = stable_coefficients,
                               std::vector<Chunk>* chunks = nullptr) {
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
      for (int j = 0; j < i; ++j) e -= (c.gamma(i, j + 1) * eta(j) * inner(p, x.k[first + j])) * E[j];
      E.set_row(i, e);
      Matrix y = c.a[at + 1] * (q * out.S) - c.b[at + 1] * (q * out.M);
      for (int j = 0; j <= i; ++j) y += (c.gamma(i + 1, j + 1) * eta(j) * inner(q, x.k[first + j])) * E[j];
      out.o.set_row(first + i, x.scale * y);
    }
    for (int j = 0; j < n; ++j) {
      const Matrix gradient = eta(j) * (transposed(x.k[first + j]) * E[j]);
      S += c.gamma(n, j + 1) * gradient;
      M -= c.rho(n, j + 1) * gradient;
    }
    if (chunks != nullptr) chunks->push_back({first, n, out.S, out.M, c, E});
    out.S = S, out.M = M;
  }
  return out;
}

/// Section 2.6 for one chunk. `grad` holds the gradients G, N of the states after it in S, M, and leaves with those of
/// the states before it; alpha and mu take the gradients of the logs.
inline void chunk_gradients(const Momentum& x, const Chunk& chunk, const Matrix& d_o, Momentum& grad) {
  const auto& [first, n, S, M, c, E] = chunk;
  const Matrix G = grad.S, N = grad.M;
  const Mp200& s = x.scale;
  const auto row = [first = first](const Matrix& m, int i) { return m[first + i - 1]; };
  const auto eta = [&, first = first](int j) { return entry(x.eta, first + j - 1); };
  const auto error = [&E = E](int j) { return E[j - 1]; };
  const auto a = [&c = c](int i) { return entry(c.a, i); };
  const auto b = [&c = c](int i) { return entry(c.b, i); };

  Matrix dE(n + 1, E.cols), dR(n + 2, E.cols), X(n + 2, n + 1), F(n + 2, n + 1);
  for (int j = 1; j <= n; ++j) {
    Matrix sum = c.gamma(n, j) * (row(x.k, j) * G) - c.rho(n, j) * (row(x.k, j) * N);
    for (int i = j; i <= n; ++i) {
      sum += s * c.gamma(i, j) * inner(row(x.q, i), row(x.k, j)) * row(d_o, i);
      X(i, j) = s * inner(row(d_o, i), error(j));
    }
    dE.set_row(j, eta(j) * sum);
  }
  for (int j = n; j >= 1; --j) {
    Matrix sum = dE[j];
    for (int i = j + 1; i <= n; ++i) sum -= (c.gamma(i - 1, j) * eta(j) * inner(row(x.p, i), row(x.k, j))) * dR[i];
    dR.set_row(j, sum);
  }
  for (int i = 1; i <= n; ++i)
    for (int j = 1; j < i; ++j) F(i, j) = -inner(dR[i], error(j));

  Matrix d_gamma(n + 1, n + 1);
  Vector da(static_cast<std::size_t>(n) + 1), db(da);
  for (int i = 1; i <= n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    Matrix dq = s * (a(i) * (row(d_o, i) * transposed(S)) - b(i) * (row(d_o, i) * transposed(M)));
    Matrix dp = b(i - 1) * (dR[i] * transposed(M)) - a(i - 1) * (dR[i] * transposed(S));
    Matrix dk = c.gamma(n, i) * (error(i) * transposed(G)) - c.rho(n, i) * (error(i) * transposed(N));
    Mp200 d_eta = inner(row(x.k, i), dk);
    for (int j = 1; j <= i; ++j) {
      dq += X(i, j) * c.gamma(i, j) * eta(j) * row(x.k, j);
      dp += (F(i, j) * c.gamma(i - 1, j) * eta(j)) * row(x.k, j);
      d_gamma(i, j) = X(i, j) * eta(j) * inner(row(x.q, i), row(x.k, j));
      if (i < n) d_gamma(i, j) += F(i + 1, j) * eta(j) * inner(row(x.p, i + 1), row(x.k, j));
      if (i == n) d_gamma(i, j) += eta(j) * inner(row(x.k, j) * G, error(j));
    }
    for (int l = i; l <= n; ++l) {
      const Matrix through = X(l, i) * c.gamma(l, i) * row(x.q, l) + (F(l, i) * c.gamma(l - 1, i)) * row(x.p, l);
      dk += through;
      d_eta += inner(row(x.k, i), through);
    }
    da[at] = s * inner(row(x.q, i) * S, row(d_o, i)) + (i == n ? inner(G, S) : Mp200(0));
    db[at] = -s * inner(row(x.q, i) * M, row(d_o, i)) - (i == n ? inner(G, M) : Mp200(0));
    if (i < n) {
      da[at] -= inner(row(x.p, i + 1) * S, dR[i + 1]);
      db[at] += inner(row(x.p, i + 1) * M, dR[i + 1]);
    }
    grad.q.set_row(first + i - 1, dq);
    grad.p.set_row(first + i - 1, dp);
    grad.k.set_row(first + i - 1, eta(i) * dk);
    grad.v.set_row(first + i - 1, dR[i]);
    entry(grad.eta, first + i - 1) = d_eta;
  }
  grad.S = a(n) * G;
  grad.M = c.m.back() * N - b(n) * G;
  for (int i = 1; i <= n; ++i) {
    const Matrix read = transposed(row(x.q, i)) * row(d_o, i), predicted = transposed(row(x.p, i)) * dR[i];
    grad.S += s * a(i) * read - a(i - 1) * predicted;
    grad.M += b(i - 1) * predicted - s * b(i) * read;
  }

  // The coefficient recurrences in reverse, with accumulators x, y for the rows of Gamma and rho, A, B, h for a, b, m.
  Vector acc_x(static_cast<std::size_t>(n) + 1), acc_y(acc_x);
  for (int j = 1; j <= n; ++j) entry(acc_y, j) = -eta(j) * inner(row(x.k, j) * N, error(j));
  Mp200 A = 0, B = 0, h = inner(N, M);
  for (int i = n; i >= 1; --i) {
    const auto at = static_cast<std::size_t>(i), token = static_cast<std::size_t>(first + i - 1);
    A += da[at];
    B += db[at];
    Mp200 d_beta = B * c.m[at], d_alpha = B * c.b[at - 1] + A * c.a[at - 1], d_mu = 0;
    for (int j = 1; j <= i; ++j) {
      const auto column = static_cast<std::size_t>(j);
      acc_x[column] += d_gamma(i, j);
      d_beta += acc_x[column] * c.rho(i, j);
      acc_y[column] += x.beta[token] * acc_x[column];
      if (j == i) continue;
      d_alpha += acc_x[column] * c.gamma(i - 1, j);
      d_mu += acc_y[column] * c.rho(i - 1, j);
      acc_x[column] *= x.alpha[token];
      acc_y[column] *= x.mu[token];
    }
    h += x.beta[token] * B;
    d_mu += h * c.m[at - 1];
    grad.alpha[token] = x.alpha[token] * d_alpha;
    grad.mu[token] = x.mu[token] * d_mu;
    grad.beta[token] = d_beta;
    A *= x.alpha[token];
    B *= x.alpha[token];
    h *= x.mu[token];
  }
}

/// The gradients of <d.o, o> + <d.S, S_T> + <d.M, M_T>, chunk by chunk.
inline Momentum chunked_gradients(const Momentum& x, const MomentumOutputs& d, int C) {
  std::vector<Chunk> chunks;
  chunked(x, C, stable_coefficients, &chunks);
  Momentum grad = still(x);
  grad.S = d.S, grad.M = d.M;
  std::reverse(chunks.begin(), chunks.end());
  for (const Chunk& chunk : chunks) chunk_gradients(x, chunk, d.o, grad);
  return grad;
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

/// The first-order family (section 3.1), D [T, K] as numbers. As a direction: what belongs to each of them.
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

  Vector flat() const {
    Vector all = o.data;
    all.insert(all.end(), S.data.begin(), S.data.end());
    return all;
  }
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

inline FirstOrder still(FirstOrder x) {
  for (Matrix* m : {&x.q, &x.k, &x.v, &x.p, &x.D, &x.S}) m->data.assign(m->data.size(), Mp200(0));
  x.beta.assign(x.beta.size(), Mp200(0));
  return x;
}

/// diag(D) S.
inline Matrix decayed(const Matrix& D, Matrix S) {
  for (int i = 0; i < S.rows; ++i)
    for (int j = 0; j < S.cols; ++j) S(i, j) *= D(0, i);
  return S;
}

/// The derivative of the outputs along d (d.scale is not read).
inline FirstOrderOutputs rates(const FirstOrder& x, const FirstOrder& d) {
  Matrix S = x.S, dS = d.S;
  FirstOrderOutputs rate{Matrix(x.tokens(), x.v.cols), {}};
  for (int t = 0; t < x.tokens(); ++t) {
    const auto i = static_cast<std::size_t>(t);
    const Matrix R = decayed(x.D[t], S), dR = decayed(d.D[t], S) + decayed(x.D[t], dS);
    Matrix e = x.v[t], de = d.v[t];
    if (x.error != Error::none) {
      const bool of_decayed = x.error == Error::decayed;
      e -= x.p[t] * (of_decayed ? R : S);
      de -= x.p[t] * (of_decayed ? dR : dS) + d.p[t] * (of_decayed ? R : S);
    }
    const Matrix ke = transposed(x.k[t]) * e, dke = transposed(d.k[t]) * e + transposed(x.k[t]) * de;
    dS = dR + d.beta[i] * ke + x.beta[i] * dke;
    S = R + x.beta[i] * ke;
    rate.o.set_row(t, x.scale * (x.q[t] * dS + d.q[t] * S));
  }
  rate.S = dS;
  return rate;
}

/// The running product of the decays of tokens first .. last of a chunk, per channel.
inline Matrix decay_product(const Matrix& D, int first, int last) {
  Matrix all(1, D.cols);
  for (Mp200& x : all.data) x = 1;
  for (int l = first; l <= last; ++l) all = hadamard(all, D[l]);
  return all;
}

/// Section 3.3.
inline FirstOrderOutputs chunked(const FirstOrder& x, int C) {
  FirstOrderOutputs out{Matrix(x.tokens(), x.v.cols), x.S};
  for (int first = 0; first < x.tokens(); first += C) {
    const int end = std::min(first + C, x.tokens());
    Matrix E = x.v;
    for (int i = first; i < end; ++i) {
      Matrix y = hadamard(decay_product(x.D, first, i), x.q[i]) * out.S;
      if (x.error != Error::none) {
        const Matrix p = x.error == Error::decayed ? hadamard(x.D[i], x.p[i]) : x.p[i];
        Matrix e = x.v[i] - hadamard(decay_product(x.D, first, i - 1), p) * out.S;
        for (int j = first; j < i; ++j) {
          const Mp200 L = inner(hadamard(p, decay_product(x.D, j + 1, i - 1)), x.k[j]);
          e -= entry(x.beta, j) * L * E[j];
        }
        E.set_row(i, e);
      }
      for (int j = first; j <= i; ++j) {
        const Mp200 A = inner(hadamard(x.q[i], decay_product(x.D, j + 1, i)), x.k[j]);
        y += entry(x.beta, j) * A * E[j];
      }
      out.o.set_row(i, x.scale * y);
    }
    Matrix S = decayed(decay_product(x.D, first, end - 1), out.S);
    for (int j = first; j < end; ++j) {
      const Matrix write = hadamard(decay_product(x.D, j + 1, end - 1), x.k[j]);
      S += entry(x.beta, j) * (transposed(write) * E[j]);
    }
    out.S = S;
  }
  return out;
}

}  // namespace assay::identities::delta
