#include "oracles/identities/falcon_formulas.hpp"

#include <algorithm>

#include "reference/core/error.hpp"

namespace assay::identities::falcon_formulas {

// ---- small matrices -------------------------------------------------------------------

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

template <class F>
Matrix filled(int rows, int cols, F&& f) {
  Matrix a(rows, cols);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) a(i, j) = f(i, j);
  return a;
}

}  // namespace

Matrix operator+(const Matrix& a, const Matrix& b) {
  return filled(a.rows, a.cols, [&](int i, int j) { return Mp200(a(i, j) + b(i, j)); });
}

Matrix operator-(const Matrix& a, const Matrix& b) {
  return filled(a.rows, a.cols, [&](int i, int j) { return Mp200(a(i, j) - b(i, j)); });
}

Matrix operator*(const Matrix& a, const Matrix& b) {
  require(a.cols == b.rows, "matrices of ", a.cols, " columns and ", b.rows, " rows have no product");
  return filled(a.rows, b.cols, [&](int i, int j) {
    Mp200 sum = 0;
    for (int l = 0; l < a.cols; ++l) sum += a(i, l) * b(l, j);
    return sum;
  });
}

Matrix operator*(const Mp200& factor, const Matrix& a) {
  return filled(a.rows, a.cols, [&](int i, int j) { return Mp200(factor * a(i, j)); });
}

Matrix& operator+=(Matrix& a, const Matrix& b) { return a = a + b; }

Matrix transposed(const Matrix& a) {
  return filled(a.cols, a.rows, [&](int i, int j) { return a(j, i); });
}

Matrix entrywise(const Matrix& a, const Matrix& b) {
  return filled(a.rows, a.cols, [&](int i, int j) { return Mp200(a(i, j) * b(i, j)); });
}

Matrix lower(const Matrix& a, int k) {
  return filled(a.rows, a.cols, [&](int i, int j) { return j <= i + k ? a(i, j) : Mp200(0); });
}

Matrix unit(int n) { return diagonal(Vector(at(n), 1)); }

Matrix diagonal(const Vector& d) {
  Matrix a(static_cast<int>(d.size()), static_cast<int>(d.size()));
  for (int i = 0; i < a.rows; ++i) a(i, i) = d[at(i)];
  return a;
}

Mp200 dot(const Matrix& a, const Matrix& b) {
  Mp200 sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += a.data[i] * b.data[i];
  return sum;
}

Vector row_dots(const Matrix& a, const Matrix& b) {
  Vector dots;
  for (int i = 0; i < a.rows; ++i) dots.push_back(dot(rows_of(a, i, 1), rows_of(b, i, 1)));
  return dots;
}

Matrix rows_of(const Matrix& a, int first, int count) {
  return filled(count, a.cols, [&](int i, int j) { return a(first + i, j); });
}

Matrix column_of(const Matrix& a, int j) {
  return filled(a.rows, 1, [&](int i, int) { return a(i, j); });
}

void add_rows(Matrix& to, int first, const Matrix& rows) {
  for (int i = 0; i < rows.rows; ++i)
    for (int j = 0; j < rows.cols; ++j) to(first + i, j) += rows(i, j);
}

Matrix solve_lower(const Matrix& L, const Matrix& b) {
  Matrix x = b;
  for (int i = 0; i < L.rows; ++i)
    for (int l = 0; l < i; ++l)
      for (int j = 0; j < b.cols; ++j) x(i, j) -= L(i, l) * x(l, j);
  return x;
}

Matrix solve_lower_transposed(const Matrix& L, const Matrix& b) {
  Matrix x = b;
  for (int i = L.rows - 1; i >= 0; --i)
    for (int l = i + 1; l < L.rows; ++l)
      for (int j = 0; j < b.cols; ++j) x(i, j) -= L(l, i) * x(l, j);
  return x;
}

Matrix solve(Matrix a, Matrix b) {
  const int n = a.rows;
  for (int c = 0; c < n; ++c) {
    int pivot = c;
    for (int i = c + 1; i < n; ++i)
      if (abs(a(i, c)) > abs(a(pivot, c))) pivot = i;
    require(a(pivot, c) != 0, "a singular matrix has no inverse");
    for (int j = 0; j < n; ++j) std::swap(a(c, j), a(pivot, j));
    for (int j = 0; j < b.cols; ++j) std::swap(b(c, j), b(pivot, j));
    for (int i = 0; i < n; ++i) {
      if (i == c) continue;
      const Mp200 factor = a(i, c) / a(c, c);
      for (int j = c; j < n; ++j) a(i, j) -= factor * a(c, j);
      for (int j = 0; j < b.cols; ++j) b(i, j) -= factor * b(c, j);
    }
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < b.cols; ++j) b(i, j) /= a(i, i);
  return b;
}

Matrix matrix_of(const BasicArray<Mp200>& array) {
  Matrix a(array.shape.front(), array.shape.size() > 1 ? array.shape[1] : 1);
  a.data = array.data;
  return a;
}

BasicArray<Mp200> array_of(const Matrix& a) { return {{a.rows, a.cols}, a.data}; }
BasicArray<Mp200> array_of(const Vector& a) { return {{static_cast<int>(a.size())}, a}; }

// ---- a problem as the formulas see it ----------------------------------------------------

namespace {

bool says(const ExactProblem& p, std::string_view param, const Param& value) {
  const auto it = p.params.find(param);
  return it != p.params.end() && it->second == value;
}

bool associative(const ExactProblem& p) { return p.mechanism == "falcon2a" || p.mechanism == "falcon3a"; }

const Vector& vector_of(const ExactProblem& p, std::string_view name) { return p.inputs.find(name)->second.data; }

Matrix input(const ExactProblem& p, std::string_view name) { return matrix_of(p.inputs.find(name)->second); }

Matrix cotangent(const ExactProblem& p, std::string_view name) { return matrix_of(p.cotangents.find(name)->second); }

/// What the chunkwise algorithms read and, for one chunk, cut.
struct Sequence {
  Matrix q, x, v, d_o;
};
Sequence sequence_of(const ExactProblem& p) {
  return {input(p, "q"), write_features(p), input(p, "v"), cotangent(p, "o")};
}

/// Cotangents with x, eta and gamma as independent inputs.
struct Gradients {
  Matrix q, x, v, state;
  Vector eta, gamma;

  explicit Gradients(const ExactProblem& p)
      : q(input(p, "q").rows, input(p, "q").cols),
        x(q.rows, q.cols),
        v(q.rows, input(p, "v").cols),
        state(cotangent(p, "final_state")),
        eta(at(q.rows)),
        gamma(at(q.rows)) {}
};

/// From x_t to the keys they are.
void put_keys(const ExactProblem& p, const Matrix& x, BasicArrays<Mp200>& gradients) {
  gradients["x"] = array_of(x);
  if (!shifted(p)) return void(gradients["k"] = array_of(x));
  Matrix k(x.rows, x.cols);
  add_rows(k, 0, rows_of(x, 1, x.rows - 1));
  gradients["k"] = array_of(k);
  if (first_row(p) == 0) gradients["k_carry"] = {{x.cols}, rows_of(x, 0, 1).data};
}

/// The way back through the gains and the window's mean energy (section 2), raw ridge.
BasicAnswer<Mp200> through_gains(const ExactProblem& p, const Path& path, Gradients d) {
  BasicAnswer<Mp200> answer;
  answer.outputs = {{"o", array_of(path.o)}, {"final_state", array_of(path.final_state)}};
  const Matrix x = write_features(p);
  if (p.mechanism == "deltanet") {
    answer.gradients["beta"] = array_of(d.eta);
  } else {
    const Gains g = gains_of(p);
    Vector d_beta(at(x.rows)), d_lambda(at(x.rows)), d_alpha(at(x.rows));
    for (int t = first_row(p); t < x.rows; ++t) {
      const std::size_t i = at(t);
      if (p.mechanism == "falcon3a") {
        d_alpha[i] = -d.gamma[i];
      } else if (g.follows[i]) {
        d.eta[i] -= g.ridge[i] * d.gamma[i];
        d_lambda[i] -= g.eta[i] * d.gamma[i];
      }
      const Mp200 d_denominator = -d.eta[i] * g.eta[i] / g.denominator[i];
      d_beta[i] = d.eta[i] / g.denominator[i];
      d_lambda[i] += d_denominator;
      const Rows w = window_at(p, t);
      add_rows(d.x, w.first, Mp200(2 * d_denominator / w.count) * rows_of(x, w.first, w.count));
    }
    answer.gradients["beta"] = array_of(d_beta);
    if (p.mechanism == "falcon3a")
      answer.gradients["alpha"] = array_of(d_alpha);
    else
      answer.gradients["lambda"] = array_of(d_lambda);
  }
  answer.gradients["q"] = array_of(d.q);
  answer.gradients["v"] = array_of(d.v);
  answer.gradients["initial_state"] = array_of(d.state);
  put_keys(p, d.x, answer.gradients);
  return answer;
}

/// First row and length of every chunk.
std::vector<Rows> chunks_of(int rows, int chunk) {
  std::vector<Rows> chunks;
  for (int a = 0; a < rows; a += chunk) chunks.push_back({a, std::min(chunk, rows - a)});
  return chunks;
}

Vector slice(const Vector& a, const Rows& rows) {
  return {a.begin() + rows.first, a.begin() + rows.first + rows.count};
}

Matrix slice(const Matrix& a, const Rows& rows) { return rows_of(a, rows.first, rows.count); }

/// u_0 = 0, u_i = u_{i-1} + log gamma_i.
Vector log_prefixes(const Vector& gamma) {
  Vector u{0};
  for (const Mp200& g : gamma) u.push_back(u.back() + log1p(Mp200(g - 1)));
  return u;
}

/// delta_i = exp(u_i), i = 1..C.
Vector exponentials(const Vector& u) {
  Vector delta;
  for (std::size_t i = 1; i < u.size(); ++i) delta.push_back(exp(u[i]));
  return delta;
}

/// d(log gamma_i) = du_i + du_{i+1} + ...; du_0 is dropped.
Vector suffix_sums(const Vector& d_u) {
  Vector sums(d_u.begin() + 1, d_u.end());
  for (std::size_t i = sums.size() - 1; i-- > 0;) sums[i] += sums[i + 1];
  return sums;
}

}  // namespace

bool shifted(const ExactProblem& p) {
  return p.mechanism == "deltanet" ? says(p, "alignment", std::string("next_latent"))
                                   : !says(p, "alignment", std::string("same_step"));
}

int first_row(const ExactProblem& p) { return shifted(p) && !says(p, "sequence_start", false) ? 1 : 0; }

int window_of(const ExactProblem& p) {
  const auto it = p.params.find("window");
  return it == p.params.end() ? 1 : static_cast<int>(std::get<long>(it->second));
}

Matrix write_features(const ExactProblem& p) {
  Matrix k = input(p, "k");
  if (!shifted(p)) return k;
  Matrix x(k.rows, k.cols);
  if (first_row(p) == 0) add_rows(x, 0, transposed(input(p, "k_carry")));
  add_rows(x, 1, rows_of(k, 0, k.rows - 1));
  return x;
}

Rows window_at(const ExactProblem& p, int t) {
  const int first = std::max(first_row(p), t - window_of(p) + 1);
  return {first, std::max(0, t - first + 1)};
}

Gains gains_of(const ExactProblem& p) {
  const Matrix x = write_features(p);
  const Vector energies = row_dots(x, x);
  const std::size_t T = energies.size();
  Gains g{Vector(T, 0), Vector(T, 0), Vector(T, 1), Vector(T, 0), Vector(T, 1), std::vector<bool>(T, true)};
  for (int t = first_row(p); t < x.rows; ++t) {
    const std::size_t i = at(t);
    const Rows w = window_at(p, t);
    for (int j = w.first; j < w.first + w.count; ++j) g.energy[i] += energies[at(j)] / w.count;
    if (p.mechanism != "falcon3a") {
      g.ridge[i] = vector_of(p, "lambda")[i];
      if (p.params.contains("ridge_coupling")) g.ridge[i] *= g.energy[i];
    }
    g.denominator[i] = g.energy[i] + g.ridge[i] + p.number("eps");
    g.eta[i] = vector_of(p, "beta")[i] / g.denominator[i];
    g.gamma[i] = 1 - (p.mechanism == "falcon3a" ? vector_of(p, "alpha")[i] : Mp200(g.eta[i] * g.ridge[i]));
    if (p.mechanism != "falcon3a" && p.params.contains("decay_floor") && g.gamma[i] <= p.number("decay_floor")) {
      g.gamma[i] = p.number("decay_floor");
      g.follows[i] = false;
    }
  }
  return g;
}

ExactProblem segment_of(const ExactProblem& p, int first, int count) {
  ExactProblem segment = p;
  const auto cut = [&](BasicArrays<Mp200>& arrays, const BasicArrays<Mp200>& whole, std::string_view name) {
    const auto it = arrays.find(name);
    if (it == arrays.end() || it->second.shape.empty()) return;  // rls has one lambda
    const std::vector<int>& shape = whole.find(name)->second.shape;
    it->second.data = rows_of(matrix_of(whole.find(name)->second), first, count).data;
    it->second.shape = shape;
    it->second.shape.front() = count;
  };
  for (const std::string_view name : {"q", "k", "v", "beta", "lambda", "alpha"}) cut(segment.inputs, p.inputs, name);
  cut(segment.cotangents, p.cotangents, "o");
  if (first > 0 && shifted(p)) {
    segment.params["sequence_start"] = false;
    segment.inputs["k_carry"] = {{input(p, "k").cols}, rows_of(input(p, "k"), first - 1, 1).data};
  }
  return segment;
}

ExactProblem channel_of(const ExactProblem& p, int j) {
  ExactProblem channel = p;
  channel.mechanism = "falcon1";
  for (const std::string_view name : {"v", "initial_state"})
    channel.inputs.find(name)->second = array_of(column_of(input(p, name), j));
  channel.inputs["beta"] = array_of(column_of(input(p, "beta"), j).data);
  for (auto& [name, array] : channel.cotangents) array = array_of(column_of(matrix_of(array), j));
  return channel;
}

BasicAnswer<Mp200> of_channels(const std::vector<BasicAnswer<Mp200>>& channels) {
  const auto beside = [&](const auto& part, std::string_view name) {
    const int rows = part(channels.front()).find(name)->second.shape.front();
    return array_of(filled(rows, static_cast<int>(channels.size()),
                           [&](int i, int j) { return part(channels[at(j)]).find(name)->second.data[at(i)]; }));
  };
  const auto outputs = [](const BasicAnswer<Mp200>& a) -> const BasicArrays<Mp200>& { return a.outputs; };
  const auto gradients = [](const BasicAnswer<Mp200>& a) -> const BasicArrays<Mp200>& { return a.gradients; };
  BasicAnswer<Mp200> all = channels.front();
  for (auto& [name, array] : all.outputs) array = beside(outputs, name);
  for (auto& [name, array] : all.gradients) {
    if (name == "v" || name == "initial_state" || name == "beta") {
      array = beside(gradients, name);
      continue;
    }
    for (std::size_t j = 1; j < channels.size(); ++j)
      for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] += channels[j].gradients.at(name).data[i];
  }
  return all;
}

// ---- the affine recurrence -----------------------------------------------------------------

Recurrence recurrence_of(const ExactProblem& p) {
  const Matrix x = write_features(p), v = input(p, "v");
  Recurrence r{input(p, "q"), input(p, "initial_state"), {}, {}, Matrix(v.rows, v.cols), Matrix(v.rows, v.cols)};
  for (int t = 0; t < x.rows; ++t) {
    Matrix C(x.cols, x.cols), N(x.cols, v.cols);
    const Rows w = window_at(p, t);
    if (w.count > 0) {
      const Matrix pairs = transposed(slice(x, w));
      N = Mp200(Mp200(1) / w.count) * (pairs * slice(v, w));
      if (!associative(p)) C = Mp200(Mp200(1) / w.count) * (pairs * slice(x, w));
    }
    r.C.push_back(C);
    r.N.push_back(N);
  }
  for (int j = 0; j < v.cols; ++j) {
    const Gains g = gains_of(p.mechanism == "falcon2" ? channel_of(p, j) : p);
    for (int t = 0; t < v.rows; ++t) {
      r.eta(t, j) = g.eta[at(t)];
      r.gamma(t, j) = g.gamma[at(t)];
    }
  }
  return r;
}

namespace {

/// S Diag(gamma_t) + (N - C S) Diag(eta_t).
Matrix step(const Recurrence& r, int t, const Matrix& S, const Matrix& N, const Matrix& eta, const Matrix& gamma) {
  const Matrix write = N - r.C[at(t)] * S;
  return filled(S.rows, S.cols, [&](int i, int j) { return Mp200(S(i, j) * gamma(t, j) + write(i, j) * eta(t, j)); });
}

}  // namespace

Path run(const Recurrence& r) {
  Path path{Matrix(r.q.rows, r.initial_state.cols), r.initial_state};
  for (int t = 0; t < r.q.rows; ++t) {
    path.final_state = step(r, t, path.final_state, r.N[at(t)], r.eta, r.gamma);
    add_rows(path.o, t, rows_of(r.q, t, 1) * path.final_state);
  }
  return path;
}

// ---- 4.1: Algorithms 7 and 8 -------------------------------------------------------------------

namespace {

struct WyChunk {
  Matrix q, x, v;
  Vector sigma;
  Matrix S_in, U, L, M, E, o, S_out;
};

/// Z - Gamma of Algorithm 7 is one solve, E.
WyChunk wy_forward(const Matrix& q, const Matrix& x, const Matrix& v, const Vector& eta, const Matrix& S) {
  WyChunk c{q, x, v, {}, S, {}, {}, {}, {}, {}, {}};
  for (const Mp200& e : eta) c.sigma.push_back(sqrt(e));
  c.U = transposed(x) * diagonal(c.sigma);
  c.L = unit(x.rows) + lower(transposed(c.U) * c.U, -1);
  c.E = solve_lower(c.L, diagonal(c.sigma) * v - transposed(c.U) * S);
  c.M = lower(q * c.U, 0);
  c.o = q * S + c.M * c.E;
  c.S_out = S + c.U * c.E;
  return c;
}

struct WyGradients {
  Matrix q, x, v, state;
  Vector eta;
};

WyGradients wy_backward(const WyChunk& c, const Matrix& d_o, const Matrix& d_S_out, const Trial& trial) {
  const Matrix d_M = lower(d_o * transposed(c.E), 0);
  const Matrix d_E = transposed(trial.line("E7", c.M, d_M)) * d_o + transposed(c.U) * d_S_out;
  const Matrix h = solve_lower_transposed(c.L, d_E);
  const Matrix solved = lower(h * transposed(c.E), -1);
  const Matrix d_L = trial.line("E6", Mp200(-1) * solved, solved);
  const Matrix d_U =
      transposed(c.q) * d_M + d_S_out * transposed(c.E) - c.S_in * transposed(h) + c.U * (d_L + transposed(d_L));
  WyGradients d{d_o * transposed(c.S_in) + d_M * transposed(c.U),
                transposed(d_U * diagonal(c.sigma)),
                diagonal(c.sigma) * h,
                d_S_out + transposed(c.q) * d_o - c.U * h,
                {}};
  const Vector through_x = row_dots(c.x, transposed(d_U)), through_v = row_dots(c.v, h);
  for (std::size_t i = 0; i < c.sigma.size(); ++i) {
    const Mp200 d_sigma = through_x[i] + through_v[i];
    const bool live = trial.line("E8", c.sigma[i] > 0, d_sigma > 0);
    d.eta.push_back(live ? Mp200(d_sigma / (2 * c.sigma[i])) : Mp200(0));
  }
  return d;
}

}  // namespace

BasicAnswer<Mp200> wy_formula(const ExactProblem& p, int chunk, const Trial& trial) {
  const Sequence s = sequence_of(p);
  Vector eta = vector_of(p, "beta");
  if (first_row(p) == 1) eta[0] = 0;
  const std::vector<Rows> rows = chunks_of(s.q.rows, chunk);
  Path path{Matrix(s.q.rows, s.v.cols), input(p, "initial_state")};
  std::vector<WyChunk> chunks;
  for (const Rows& r : rows) {
    chunks.push_back(wy_forward(slice(s.q, r), slice(s.x, r), slice(s.v, r), slice(eta, r), path.final_state));
    add_rows(path.o, r.first, chunks.back().o);
    path.final_state = chunks.back().S_out;
  }
  Gradients d(p);
  for (std::size_t k = rows.size(); k-- > 0;) {
    const WyGradients c = wy_backward(chunks[k], slice(s.d_o, rows[k]), d.state, trial);
    add_rows(d.q, rows[k].first, c.q);
    add_rows(d.x, rows[k].first, c.x);
    add_rows(d.v, rows[k].first, c.v);
    std::copy(c.eta.begin(), c.eta.end(), d.eta.begin() + rows[k].first);
    d.state = c.state;
  }
  return through_gains(p, path, d);
}

// ---- 4.3: Algorithms 10 and 11 -------------------------------------------------------------------

namespace {

/// One chunk of Algorithm 10: the WY kernel on renormalized gains and values.
struct LiteChunk {
  Vector u, delta, eta_hat;
  WyChunk wy;
};

LiteChunk lite_forward(const Sequence& s, const Rows& r, const Vector& eta_hat, const Vector& gamma, const Matrix& S) {
  const Vector u = log_prefixes(slice(gamma, r)), hat = slice(eta_hat, r);
  Matrix v_hat = slice(s.v, r);
  for (int i = 0; i < r.count; ++i)
    for (int j = 0; j < v_hat.cols; ++j) v_hat(i, j) *= exp(Mp200(-u[at(i)]));
  return {u, exponentials(u), hat, wy_forward(slice(s.q, r), slice(s.x, r), v_hat, hat, S)};
}

}  // namespace

BasicAnswer<Mp200> lite_formula(const ExactProblem& p, int chunk, const Trial& trial, const Vector& first,
                                const Mp200& dummy) {
  Sequence s = sequence_of(p);
  const Gains g = gains_of(p);
  for (std::size_t i = 0; i < first.size(); ++i) s.x.data[i] = first[i];
  const int live = first_row(p);
  Vector eta_hat;
  for (std::size_t t = 0; t < g.eta.size(); ++t) eta_hat.push_back(g.eta[t] / g.gamma[t]);
  if (live == 1) eta_hat[0] = dummy;

  const std::vector<Rows> rows = chunks_of(s.q.rows, chunk);
  const Matrix S_init = input(p, "initial_state");
  Path path{Matrix(s.q.rows, s.v.cols), S_init};
  std::vector<LiteChunk> chunks;
  for (const Rows& r : rows) {
    const LiteChunk& c = chunks.emplace_back(lite_forward(s, r, eta_hat, g.gamma, path.final_state));
    add_rows(path.o, r.first, diagonal(c.delta) * c.wy.o);
    path.final_state = c.delta.back() * c.wy.S_out;
  }

  BasicAnswer<Mp200> answer;
  answer.outputs = {{"o", array_of(path.o)}, {"final_state", array_of(path.final_state)}};
  const int T = s.q.rows;
  Matrix d_q(T, s.q.cols), d_x(T, s.q.cols), d_v(T, s.v.cols);
  Vector d_eta(at(T)), d_beta(at(T)), d_lambda(at(T));
  Matrix d_S = trial.line("G3", cotangent(p, "final_state"), Matrix(S_init.rows, S_init.cols));
  for (std::size_t k = rows.size(); k-- > 0;) {
    const LiteChunk& c = chunks[k];
    const Rows& r = rows[k];
    Vector d_u(at(r.count) + 1);
    const Matrix d_o_hat = diagonal(c.delta) * slice(s.d_o, r);
    const Vector read = row_dots(d_o_hat, c.wy.o);
    for (int i = 0; i < r.count; ++i) d_u[at(i) + 1] += read[at(i)];
    const Matrix S_next = c.delta.back() * c.wy.S_out;
    const Matrix d_S_hat = c.delta.back() * trial.line("E10", d_S, S_next);
    d_u.back() += dot(trial.line("E10", d_S_hat, c.wy.S_out), c.wy.S_out);
    const WyGradients wy = wy_backward(c.wy, d_o_hat, d_S_hat, {});
    add_rows(d_q, r.first, wy.q);
    add_rows(d_x, r.first, wy.x);
    d_S = wy.state;
    Vector d_log_gamma(at(r.count));
    for (int i = 0; i < r.count; ++i) {
      const int t = r.first + i;
      const Mp200 scale = exp(Mp200(-c.u[at(i)])), inverse = 1 / g.gamma[at(t)];
      for (int j = 0; j < s.v.cols; ++j) {
        const Mp200& hat = wy.v(i, j);
        const Mp200& forward = c.wy.v(i, j);
        d_v(t, j) += trial.line("E11", Mp200(0), hat) + scale * trial.line("E12", hat, forward);
        d_u[at(i)] -= scale * trial.line("E13", hat, forward) * s.v(t, j);
      }
      if (t < live) continue;
      const Mp200 hat = trial.line("E14", wy.eta[at(i)], eta_hat[at(t)]);
      d_eta[at(t)] += trial.line("E11", Mp200(0), wy.eta[at(i)]) + inverse * hat;
      d_log_gamma[at(i)] -= g.eta[at(t)] * inverse * hat;
    }
    const Vector prefix = suffix_sums(d_u);
    for (int i = 0; i < r.count; ++i) {
      const int t = r.first + i;
      if (t < live) continue;
      d_log_gamma[at(i)] += prefix[at(i)];
      const Mp200 log_gamma = c.u[at(i) + 1] - c.u[at(i)];
      Mp200 d_alpha = -trial.line("E15", d_log_gamma[at(i)], log_gamma) / g.gamma[at(t)];
      if (!g.follows[at(t)]) d_alpha = 0;
      d_eta[at(t)] += g.ridge[at(t)] * d_alpha;
      d_lambda[at(t)] += g.eta[at(t)] * d_alpha;
      const Mp200 d_denominator = -g.eta[at(t)] * d_eta[at(t)] / g.denominator[at(t)];
      d_beta[at(t)] = d_eta[at(t)] / g.denominator[at(t)];
      add_rows(d_x, t, Mp200(2 * d_denominator) * rows_of(s.x, t, 1));
      d_lambda[at(t)] += d_denominator;
    }
  }
  answer.gradients = {{"q", array_of(d_q)},
                      {"v", array_of(d_v)},
                      {"beta", array_of(d_beta)},
                      {"lambda", array_of(d_lambda)},
                      {"initial_state", array_of(trial.line("E16", d_S, S_init))}};
  put_keys(p, d_x, answer.gradients);
  return answer;
}

// ---- 4.4: Algorithm 4 ------------------------------------------------------------------------------

namespace {

/// One chunk on (time, rank) columns: windows padded with zeros to B.
struct FlowChunk {
  Vector u, delta, s;  // s_i = eta^_i / B_i
  Matrix q, X, V_hat;  // columns of X and rows of V^
  Matrix A, C, W, U, S_in, Z, P, o;
  Matrix before, upto;  // block(column) < block(row); block(column) <= row
};

FlowChunk flow_forward(const ExactProblem& p, const Sequence& s, const Gains& g, const Rows& r, const Matrix& S) {
  const int B = window_of(p), N = r.count * B;
  FlowChunk c;
  c.u = log_prefixes(slice(g.gamma, r));
  c.delta = exponentials(c.u);
  c.q = slice(s.q, r);
  c.X = Matrix(s.x.cols, N);
  c.V_hat = Matrix(N, s.v.cols);
  Vector scale(at(N));
  for (int i = 0; i < r.count; ++i) {
    const int t = r.first + i;
    const Rows w = window_at(p, t);
    c.s.push_back(g.eta[at(t)] / g.gamma[at(t)] / std::max(1, w.count));
    for (int b = 0; b < B; ++b) scale[at(i * B + b)] = c.s.back();
    for (int b = 0; b < w.count; ++b) {
      for (int l = 0; l < s.x.cols; ++l) c.X(l, i * B + b) = s.x(w.first + b, l);
      for (int j = 0; j < s.v.cols; ++j) c.V_hat(i * B + b, j) = s.v(w.first + b, j) * exp(Mp200(-c.u[at(i)]));
    }
  }
  c.before = filled(N, N, [B](int i, int j) { return Mp200(j / B < i / B ? 1 : 0); });
  c.upto = filled(r.count, N, [B](int i, int j) { return Mp200(j / B <= i ? 1 : 0); });
  c.A = c.X * diagonal(scale);
  c.C = unit(N) + entrywise(c.before, transposed(c.X) * c.A);
  c.W = solve(c.C, Mp200(-1) * transposed(c.X));
  c.U = solve(c.C, c.V_hat);
  c.S_in = S;
  c.Z = c.U + c.W * S;
  c.P = entrywise(c.q * c.A, c.upto);
  c.o = c.q * S + c.P * c.Z;
  return c;
}

}  // namespace

BasicAnswer<Mp200> flow_formula(const ExactProblem& p, int chunk) {
  const Sequence s = sequence_of(p);
  const Gains g = gains_of(p);
  const int B = window_of(p);
  const std::vector<Rows> rows = chunks_of(s.q.rows, chunk);
  Path path{Matrix(s.q.rows, s.v.cols), input(p, "initial_state")};
  std::vector<FlowChunk> chunks;
  for (const Rows& r : rows) {
    const FlowChunk& c = chunks.emplace_back(flow_forward(p, s, g, r, path.final_state));
    add_rows(path.o, r.first, diagonal(c.delta) * c.o);
    // The chunk map of Phase 2: S_out = M S + b.
    const Matrix map = c.delta.back() * (unit(c.A.rows) + c.A * c.W), bias = c.delta.back() * (c.A * c.U);
    path.final_state = map * c.S_in + bias;
  }
  Gradients d(p);
  for (std::size_t k = rows.size(); k-- > 0;) {
    const FlowChunk& c = chunks[k];
    const Rows& r = rows[k];
    Vector d_u(at(r.count) + 1);
    const Matrix d_o_hat = diagonal(c.delta) * slice(s.d_o, r), d_S_hat = c.delta.back() * d.state;
    const Vector read = row_dots(d_o_hat, c.o);
    for (int i = 0; i < r.count; ++i) d_u[at(i) + 1] += read[at(i)];
    d_u.back() += dot(d_S_hat, c.S_in + c.A * c.Z);
    const Matrix OZ = entrywise(d_o_hat * transposed(c.Z), c.upto);
    const Matrix F = solve(transposed(c.C), transposed(c.P) * d_o_hat + transposed(c.A) * d_S_hat);
    const Matrix H = entrywise(c.before, F * transposed(c.Z)), R = Mp200(-1) * c.X;
    const Matrix d_R = c.S_in * transposed(F) + c.A * transposed(H);
    const Matrix d_A = R * H + d_S_hat * transposed(c.Z) + transposed(c.q) * OZ;
    add_rows(d.q, r.first, d_o_hat * transposed(c.S_in) + OZ * transposed(c.A));
    d.state = transposed(c.q) * d_o_hat + d_S_hat + R * F;
    Vector d_s(at(r.count));
    for (int i = 0; i < r.count; ++i) {
      const Rows w = window_at(p, r.first + i);
      const Mp200 inverse = exp(Mp200(-c.u[at(i)]));
      for (int b = 0; b < w.count; ++b) {
        const int n = i * B + b;
        for (int l = 0; l < s.x.cols; ++l) {
          d.x(w.first + b, l) += c.s[at(i)] * d_A(l, n) - d_R(l, n);
          d_s[at(i)] += d_A(l, n) * c.X(l, n);
        }
        for (int j = 0; j < s.v.cols; ++j) {
          d.v(w.first + b, j) += F(n, j) * inverse;
          d_u[at(i)] -= F(n, j) * c.V_hat(n, j);
        }
      }
    }
    const Vector prefix = suffix_sums(d_u);
    for (int i = 0; i < r.count; ++i) {
      const int t = r.first + i;
      const Mp200& gamma = g.gamma[at(t)];
      d.eta[at(t)] = d_s[at(i)] / gamma / std::max(1, window_at(p, t).count);
      d.gamma[at(t)] = (prefix[at(i)] - c.s[at(i)] * d_s[at(i)]) / gamma;
    }
  }
  return through_gains(p, path, d);
}

// ---- 4.5: Algorithms 5 and 6 ---------------------------------------------------------------------------

namespace {

/// One chunk: J is the rows that its windows touch.
struct MaskedChunk {
  Rows J;
  Vector u, delta;
  Matrix q, X, V, D, A, M, S_in;
};

Matrix decay_ratios(const Vector& u) {
  const int C = static_cast<int>(u.size()) - 1;
  return filled(C, C, [&](int i, int s) { return s <= i ? exp(Mp200(u[at(i) + 1] - u[at(s) + 1])) : Mp200(0); });
}

MaskedChunk masked_chunk(const ExactProblem& p, const Sequence& s, const Gains& g, const Rows& r, const Matrix& S) {
  MaskedChunk c;
  const int first = std::max(first_row(p), r.first - window_of(p) + 1);
  c.J = {first, std::max(0, r.first + r.count - first)};
  c.u = log_prefixes(slice(g.gamma, r));
  c.delta = exponentials(c.u);
  c.q = slice(s.q, r);
  c.X = slice(s.x, c.J);
  c.V = slice(s.v, c.J);
  c.D = decay_ratios(c.u);
  c.A = filled(r.count, c.J.count, [&](int i, int j) {
    const Rows w = window_at(p, r.first + i);
    const int row = c.J.first + j;
    return row >= w.first && row < w.first + w.count ? Mp200(Mp200(1) / w.count) : Mp200(0);
  });
  c.M = c.D * diagonal(slice(g.eta, r)) * c.A;
  c.S_in = S;
  return c;
}

}  // namespace

BasicAnswer<Mp200> masked_formula(const ExactProblem& p, int chunk, const Trial& trial) {
  const Sequence s = sequence_of(p);
  const Gains g = gains_of(p);
  const std::vector<Rows> rows = chunks_of(s.q.rows, chunk);
  Path path{Matrix(s.q.rows, s.v.cols), input(p, "initial_state")};
  std::vector<MaskedChunk> chunks;
  for (const Rows& r : rows) {
    const MaskedChunk& c = chunks.emplace_back(masked_chunk(p, s, g, r, path.final_state));
    add_rows(path.o, r.first, diagonal(c.delta) * (c.q * c.S_in) + entrywise(c.q * transposed(c.X), c.M) * c.V);
    const Vector end = rows_of(c.M, r.count - 1, 1).data;
    path.final_state = c.delta.back() * c.S_in + transposed(c.X) * (diagonal(end) * c.V);
  }
  Gradients d(p);
  d.state = trial.line("G2", d.state, Matrix(d.state.rows, d.state.cols));
  for (std::size_t k = rows.size(); k-- > 0;) {
    const MaskedChunk& c = chunks[k];
    const Rows& r = rows[k];
    const Matrix d_o = slice(s.d_o, r), H = c.q * c.S_in;
    Vector d_delta = row_dots(trial.line("E2", d_o, diagonal(c.delta) * H), H);
    const Matrix d_H = diagonal(trial.line("E1", c.delta, d_delta)) * d_o;
    const Matrix P = c.q * transposed(c.X), W = entrywise(P, c.M), d_W = d_o * transposed(c.V);
    const Matrix d_P = entrywise(d_W, c.M);
    const Vector end = rows_of(c.M, r.count - 1, 1).data;
    const Matrix write = c.X * d.state;
    add_rows(d.q, r.first, d_H * transposed(c.S_in) + d_P * c.X);
    add_rows(d.x, c.J.first, transposed(d_P) * c.q + diagonal(end) * (c.V * transposed(d.state)));
    add_rows(d.v, c.J.first, transposed(trial.line("E3", W, d_W)) * d_o + diagonal(end) * write);
    Matrix d_M = entrywise(d_W, P);
    const Vector at_end = row_dots(write, c.V);
    for (int j = 0; j < c.J.count; ++j) d_M(r.count - 1, j) += at_end[at(j)];
    d_delta.back() += dot(d.state, c.S_in);
    d.state = transposed(c.q) * d_H + c.delta.back() * d.state;

    const Matrix d_D = d_M * transposed(diagonal(slice(g.eta, r)) * c.A);
    const Vector d_rho = row_dots(transposed(c.D) * d_M, c.A);
    const Matrix G = lower(entrywise(d_D, c.D), 0);
    Vector d_u(at(r.count) + 1);
    for (int i = 0; i < r.count; ++i) {
      d_u[at(i) + 1] += c.delta[at(i)] * d_delta[at(i)];
      for (int l = 0; l < r.count; ++l) d_u[at(i) + 1] += G(i, l) - G(l, i);
    }
    const Vector d_log_gamma = suffix_sums(d_u);
    for (int i = 0; i < r.count; ++i) {
      const std::size_t t = at(r.first + i);
      d.eta[t] = d_rho[at(i)];
      d.gamma[t] = trial.line("E4", d_log_gamma[at(i)], Mp200(c.u[at(i) + 1] - c.u[at(i)])) / g.gamma[t];
      d.gamma[t] *= trial.line("E5", 1, 2);
    }
  }
  return through_gains(p, path, d);
}

Matrix mask_of(const ExactProblem& p) {
  const Gains g = gains_of(p);
  const int T = static_cast<int>(g.eta.size());
  const Matrix A = filled(T, T, [&](int s, int j) {
    const Rows w = window_at(p, s);
    return j >= w.first && j < w.first + w.count ? Mp200(Mp200(1) / w.count) : Mp200(0);
  });
  return decay_ratios(log_prefixes(g.gamma)) * diagonal(g.eta) * A;
}

// ---- 4.6: the ratio kernel -------------------------------------------------------------------------------

namespace {

/// One chunk; block t holds the pairs of step t.
struct RatioChunk {
  Rows rows;
  Vector gamma, w;              // w_t = eta_t / B_t
  std::vector<Matrix> X, Z, Y;  // rows are pairs
  Matrix S;

  /// Product of gamma_r over s < r <= t, counted from 1; s = 0 is the state coming in.
  Mp200 ratio(int t, int s) const {
    Mp200 product = 1;
    for (int r = s + 1; r <= t; ++r) product *= gamma[at(r - 1)];
    return product;
  }
  int length() const { return rows.count; }
};

RatioChunk ratio_forward(const ExactProblem& p, const Sequence& s, const Gains& g, const Rows& r, const Matrix& S) {
  RatioChunk c{r, slice(g.gamma, r), {}, {}, {}, {}, S};
  for (int t = 1; t <= r.count; ++t) {
    const Rows w = window_at(p, r.first + t - 1);
    const Matrix& X = c.X.emplace_back(slice(s.x, w));
    c.w.push_back(g.eta[at(r.first + t - 1)] / std::max(1, w.count));
    Matrix Z = slice(s.v, w) - c.ratio(t - 1, 0) * (X * S);
    for (int i = 1; i < t; ++i) Z = Z - c.ratio(t - 1, i) * (X * transposed(c.X[at(i - 1)]) * c.Y[at(i - 1)]);
    c.Z.push_back(Z);
    c.Y.push_back(c.w.back() * Z);
  }
  return c;
}

Matrix ratio_reads(const RatioChunk& c, const Matrix& q) {
  Matrix o(c.length(), c.S.cols);
  for (int t = 1; t <= c.length(); ++t) {
    const Matrix q_t = rows_of(q, t - 1, 1);
    add_rows(o, t - 1, c.ratio(t, 0) * (q_t * c.S));
    for (int s = 1; s <= t; ++s)
      add_rows(o, t - 1, c.ratio(t, s) * (q_t * transposed(c.X[at(s - 1)]) * c.Y[at(s - 1)]));
  }
  return o;
}

Matrix ratio_exit(const RatioChunk& c) {
  Matrix S = c.ratio(c.length(), 0) * c.S;
  for (int s = 1; s <= c.length(); ++s) S += c.ratio(c.length(), s) * (transposed(c.X[at(s - 1)]) * c.Y[at(s - 1)]);
  return S;
}

/// The reverse of one chunk; d.state comes in as dS_out and goes out as dS_in.
void ratio_backward(const ExactProblem& p, const RatioChunk& c, const Matrix& q, const Matrix& d_o, Gradients& d) {
  const int C = c.length(), first = c.rows.first;
  const Matrix d_S_out = d.state;
  std::vector<Matrix> f(at(C)), d_X(at(C));
  Vector d_log_gamma(at(C) + 1);  // gamma_r dgamma_r at r, from 1
  // A term counts for every gamma_r in (s, t].
  const auto count = [&](int s, int t, const Mp200& term) {
    for (int r = s + 1; r <= t; ++r) d_log_gamma[at(r)] += term;
  };
  d.state = c.ratio(C, 0) * d_S_out;
  count(0, C, c.ratio(C, 0) * dot(c.S, d_S_out));
  for (int t = C; t >= 1; --t) {
    const Matrix &X = c.X[at(t - 1)], &Y = c.Y[at(t - 1)];
    Matrix e = c.ratio(C, t) * d_S_out;
    for (int i = t; i <= C; ++i) e += c.ratio(i, t) * (transposed(rows_of(q, i - 1, 1)) * rows_of(d_o, i - 1, 1));
    for (int s = t + 1; s <= C; ++s)
      e = e - Mp200(c.ratio(s - 1, t) * c.w[at(s - 1)]) * (transposed(c.X[at(s - 1)]) * f[at(s - 1)]);
    f[at(t - 1)] = X * e;
    d_X[at(t - 1)] = c.ratio(C, t) * (Y * transposed(d_S_out));
    count(t, C, dot(d_X[at(t - 1)], X));
  }
  for (int t = 1; t <= C; ++t) {
    const Matrix &X = c.X[at(t - 1)], &f_t = f[at(t - 1)];
    const Matrix q_t = rows_of(q, t - 1, 1), d_o_t = rows_of(d_o, t - 1, 1);
    const Rows w = window_at(p, first + t - 1);
    d.eta[at(first + t - 1)] = dot(f_t, c.Z[at(t - 1)]) / std::max(1, w.count);
    add_rows(d.v, w.first, c.w[at(t - 1)] * f_t);
    const Matrix d_P = Mp200(-c.w[at(t - 1)] * c.ratio(t - 1, 0)) * f_t;
    d_X[at(t - 1)] += d_P * transposed(c.S);
    count(0, t - 1, dot(d_P, X * c.S));
    d.state += transposed(X) * d_P + c.ratio(t, 0) * (transposed(q_t) * d_o_t);
    add_rows(d.q, first + t - 1, c.ratio(t, 0) * (d_o_t * transposed(c.S)));
    count(0, t, c.ratio(t, 0) * dot(d_o_t, q_t * c.S));
    for (int s = 1; s < t; ++s) {
      const Matrix& X_s = c.X[at(s - 1)];
      const Matrix d_gram = Mp200(-c.ratio(t - 1, s) * c.w[at(t - 1)]) * (f_t * transposed(c.Y[at(s - 1)]));
      d_X[at(t - 1)] += d_gram * X_s;
      d_X[at(s - 1)] += transposed(d_gram) * X;
      count(s, t - 1, dot(d_gram, X * transposed(X_s)));
    }
    for (int s = 1; s <= t; ++s) {
      const Matrix d_score = c.ratio(t, s) * (c.Y[at(s - 1)] * transposed(d_o_t));
      d_X[at(s - 1)] += d_score * q_t;
      add_rows(d.q, first + t - 1, transposed(d_score) * c.X[at(s - 1)]);
      count(s, t, dot(d_score, c.X[at(s - 1)] * transposed(q_t)));
    }
  }
  for (int t = 1; t <= C; ++t) {
    add_rows(d.x, window_at(p, first + t - 1).first, d_X[at(t - 1)]);
    d.gamma[at(first + t - 1)] = d_log_gamma[at(t)] / c.gamma[at(t - 1)];
  }
}

}  // namespace

BasicAnswer<Mp200> ratio_formula(const ExactProblem& p, int chunk) {
  const Sequence s = sequence_of(p);
  Gains g;
  if (p.mechanism == "deltanet") {
    g.eta = vector_of(p, "beta");
    g.gamma = Vector(g.eta.size(), 1);
  } else {
    g = gains_of(p);
  }
  const std::vector<Rows> rows = chunks_of(s.q.rows, chunk);
  Path path{Matrix(s.q.rows, s.v.cols), input(p, "initial_state")};
  std::vector<RatioChunk> chunks;
  for (const Rows& r : rows) {
    const RatioChunk& c = chunks.emplace_back(ratio_forward(p, s, g, r, path.final_state));
    add_rows(path.o, r.first, ratio_reads(c, slice(s.q, r)));
    path.final_state = ratio_exit(c);
  }
  Gradients d(p);
  for (std::size_t k = rows.size(); k-- > 0;)
    ratio_backward(p, chunks[k], slice(s.q, rows[k]), slice(s.d_o, rows[k]), d);
  return through_gains(p, path, d);
}

}  // namespace assay::identities::falcon_formulas
