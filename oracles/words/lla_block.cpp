#include "oracles/words/lla_block.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "oracles/words/magnitude.hpp"

namespace assay::words::lla {

Field::Field(int words, std::size_t r, std::size_t s) : rows(r), stride(s) {
  for (int w = 0; w < words; ++w) plane[w].assign(r * s, 0);
}
void Field::clear() {
  for (auto& p : plane) std::fill(p.begin(), p.end(), 0.0);
}
Field::Row Field::row(std::size_t row) {
  Row r{};
  for (int w = 0; w < 4; ++w) r.plane[w] = plane[w].data() + row * stride;
  return r;
}

namespace {

std::size_t rounded_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// Upper bound on the 2-norm of `n` numbers.
double norm(const double* x, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return std::sqrt(sum) * (1 + 0x1p-30) + 0x1p-530;
}

}  // namespace

Head::Head(const LlaProblem& p)
    : problem(p),
      dim_stride(rounded_up(p.dim, 32)),
      value_stride(rounded_up(p.values, 16)),
      key_rows(rounded_up(p.keys, 16) + 16),
      // Not a power of two: those fall on the same cache lines.
      key_stride(key_rows + 8),
      q(p.queries * dim_stride, 0),
      k(key_rows * dim_stride, 0),
      k_transposed(p.dim * key_stride, 0),
      v(key_rows * value_stride, 0),
      k_float(k.size(), 0),
      key_norm(key_rows, 0),
      value_max(key_rows, 0),
      query_norm(p.queries, 0) {
  for (std::size_t i = 0; i < p.queries; ++i) {
    std::copy_n(&p.q[i * p.dim], p.dim, &q[i * dim_stride]);
    query_norm[i] = norm(&q[i * dim_stride], p.dim);
  }
  for (std::size_t j = 0; j < p.keys; ++j) {
    for (std::size_t a = 0; a < p.dim; ++a) {
      k[j * dim_stride + a] = k_transposed[a * key_stride + j] = p.k[j * p.dim + a];
      k_float[j * dim_stride + a] = static_cast<float>(p.k[j * p.dim + a]);
    }
    key_norm[j] = norm(&k[j * dim_stride], p.dim);
    for (std::size_t c = 0; c < p.values; ++c) {
      v[j * value_stride + c] = p.v[j * p.values + c];
      value_max[j] = std::max(value_max[j], std::fabs(p.v[j * p.values + c]));
    }
  }
}

KeyRange Head::visible(std::size_t i) const {
  if (!problem.causal) return {0, problem.keys};
  const std::size_t ahead = i + 1 + problem.keys;
  const std::size_t last = ahead > problem.queries ? std::min(problem.keys, ahead - problem.queries) : 0;
  const std::size_t first = problem.window == 0 || problem.window > last ? 0 : last - problem.window;
  return {first, last};
}

double Head::lambda(std::size_t i, std::size_t a) const {
  const std::size_t n = problem.lambda.size();
  return problem.lambda[n == 1 ? 0 : n == problem.queries ? i : i * problem.dim + a];
}

namespace {

using portable::plus;
using portable::size_of;
using portable::times;
using portable::Words;
using portable::words;

/// f(std::integral_constant<int, words>()).
template <class F>
decltype(auto) with_words(int words, F&& f) {
  if (words == 2) return f(std::integral_constant<int, 2>());
  if (words == 3) return f(std::integral_constant<int, 3>());
  return f(std::integral_constant<int, 4>());
}

template <int W>
Words<double, W> words_of(const double* x) {
  Words<double, W> r;
  std::copy_n(x, W, r.w);
  return r;
}

/// out = 1 / x by Newton's iteration; returns a bound on its relative error.
template <int W>
double invert(const double* x, double* out) {
  const Words<double, W> b = words_of<W>(x);
  Words<double, W> y = words<double, W>(1 / x[0]), residual{};
  for (int i = 0; i < 4; ++i) {
    residual = plus(-(y * b), 1.0);
    if (i < 3) y = y + y * residual;
  }
  std::copy_n(y.w, W, out);
  return 1.01 * (size_of(residual) + 1.1 * (constants(W).multiply + 2 * constants(W).add)) * safety;
}

/// Sizes of all entries of a row, in the 2-norm, rounded up.
double size_norm(Field& f, std::size_t row, std::size_t n, int words) {
  const Field::Row r = f.row(row);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double size = 0;
    for (int w = words; w-- > 0;) size = size * 0x1p53 + std::fabs(r.plane[w][i]);
    sum += size * size;
  }
  return std::sqrt(sum) * (1 + 0x1p-30) + 0x1p-530;
}

/// What is known of one query beside the fields.
struct Query {
  std::size_t index;
  KeyRange keys;             ///< relative to the block's first key
  double shift = 0;          ///< m, a double
  double omega[4] = {};      ///< sum of the computed weights
  double inverse[4] = {};    ///< 1 / omega
  double inverse_error = 0;  ///< relative, to the exact sum of the computed weights
  double ridge_least = 0;    ///< lower bound of the exact ridge
  double ridge_most = 0;     ///< upper bound of the computed ridge's sizes
  double ridge_error = 0;    ///< absolute, of every ridge entry
  double eigenvalue = 0;     ///< lower bound of the smallest eigenvalue of A
  double eta_size = 0;       ///< largest entry of eta, to measure corrections by
  double correction = 0, last_correction = 0;
  bool in_double = false;
};

/// Factors U and U^T of every query's preconditioner.
template <class R>
struct Factors {
  std::vector<R> U, L;
};

class Block {
 public:
  Block(const Head& head, std::span<const std::size_t> queries, int words, const Kernels& table);
  void run(Certified& o);

 private:
  void weigh();
  void centre();
  void set_ridge(std::size_t b);
  template <class R>
  bool factor(std::size_t b, Factors<R>& factors, const Preconditioner<R>& kernels, const R* keys);
  template <class R>
  void raise_eigenvalue(std::size_t b, std::vector<R>& A, const Factors<R>& factors, const Preconditioner<R>& kernels);
  void precondition(std::size_t b);
  void refine();
  void residual(int words);
  bool correct();
  double bound(std::size_t b);
  void output(Certified& o);

  std::size_t count() const { return queries_.size(); }
  double weight(std::size_t b, std::size_t j) const { return weight_.plane[0][b * weight_.stride + j]; }

  const Head& head_;
  const LlaProblem& problem_;
  const int words_;
  const Kernels& table_;
  const WordKernels& kernels_;
  const Constants& constants_;
  std::vector<Query> queries_;
  std::size_t first_key_, keys_, padded_queries_;
  Field weight_, slope_, pull_weight_, out_weight_;     // [query][key]: w, t = x . eta, u = w t, w / omega - u
  Field center_, pull_, eta_, residual_, ridge_, out_;  // [query][dim]
  std::vector<std::array<double, 4>> sum_u_;
  std::vector<Factors<float>> in_float_;
  std::vector<Factors<double>> in_double_;
};

Block::Block(const Head& head, std::span<const std::size_t> queries, int words, const Kernels& table)
    : head_(head),
      problem_(head.problem),
      words_(words),
      table_(table),
      kernels_(table.words[words]),
      constants_(constants(words)),
      first_key_(std::numeric_limits<std::size_t>::max()),
      padded_queries_(rounded_up(queries.size(), 4)) {
  std::size_t last = 0;
  for (const std::size_t i : queries) {
    const KeyRange r = head.visible(i);
    first_key_ = std::min(first_key_, r.first / 8 * 8);
    last = std::max(last, r.last);
    Query query{};
    query.index = i, query.keys = r;
    queries_.push_back(query);
  }
  keys_ = rounded_up(last - first_key_, 16);
  for (Query& q : queries_) q.keys.first -= first_key_, q.keys.last -= first_key_;
  // An odd multiple of the cache line, as in Head.
  const std::size_t stride = rounded_up(keys_, 16) + 8;
  for (Field* f : {&weight_, &slope_, &pull_weight_, &out_weight_}) *f = Field(words, padded_queries_, stride);
  for (Field* f : {&center_, &pull_, &eta_, &residual_, &ridge_}) *f = Field(words, padded_queries_, head.dim_stride);
  out_ = Field(words, padded_queries_, head.value_stride);
  sum_u_.resize(count());
  in_float_.resize(count());
  in_double_.resize(count());
}

/// Scores, shift, weights and their sum.
void Block::weigh() {
  std::vector<double> q(padded_queries_ * head_.dim_stride, 0);
  for (std::size_t b = 0; b < count(); ++b)
    std::copy_n(&head_.q[queries_[b].index * head_.dim_stride], head_.dim_stride, &q[b * head_.dim_stride]);
  const double* rows[] = {q.data()};
  kernels_.product_plain(head_.k_transposed.data() + first_key_, head_.key_stride, rows, 1, head_.dim_stride,
                         weight_.row(0), weight_.stride, keys_, padded_queries_, problem_.dim);
  const double* factor = problem_.inverse_bandwidth.word.data();
  for (std::size_t b = 0; b < count(); ++b) {
    Query& query = queries_[b];
    query.shift = -std::numeric_limits<double>::infinity();
    for (std::size_t j = query.keys.first; j < query.keys.last; ++j)
      query.shift = std::max(query.shift, weight(b, j) * factor[0]);
    kernels_.weights(weight_.row(b), keys_, query.keys.first, query.keys.last, factor, query.shift, query.omega);
    const double reciprocal_error =
        with_words(words_, [&](auto w) { return invert<decltype(w)::value>(query.omega, query.inverse); });
    query.inverse_error = 1.01 * (reciprocal_error + constants_.add * (static_cast<double>(keys_) / 8 + 8)) * safety;
  }
}

/// Weighted mean of the keys and the right-hand side c - q.
void Block::centre() {
  kernels_.product(head_.k.data() + first_key_ * head_.dim_stride, head_.dim_stride,
                   static_cast<ConstPlanes>(weight_.row(0)), 1, weight_.stride, center_.row(0), center_.stride,
                   head_.dim_stride, padded_queries_, keys_);
  for (std::size_t b = 0; b < count(); ++b)
    kernels_.center(center_.row(b), pull_.row(b), &head_.q[queries_[b].index * head_.dim_stride], queries_[b].inverse,
                    head_.dim_stride);
}

/// The factor of lambda in shifted units: exp(-m), max w or sum w.
template <int W>
Words<double, W> ridge_unit(RidgeMode mode, const Query& query, Field& weight, std::size_t b, const Kernels& table) {
  if (mode == RidgeMode::mass) return words_of<W>(query.omega);
  if (mode == RidgeMode::absolute) {
    double x[8] = {-query.shift}, y[8 * W];
    table.words[W].exp_of_doubles(x, y);
    return words_of<W>(y);
  }
  const Field::Row row = weight.row(b);
  std::size_t best = query.keys.first;
  const auto at = [&](std::size_t j) {
    Words<double, W> x;
    for (int w = 0; w < W; ++w) x.w[w] = row.plane[w][j];
    return x;
  };
  for (std::size_t j = best; j < query.keys.last; ++j)
    if (row.plane[0][j] >= row.plane[0][best] * (1 - 0x1p-50) && (at(j) - at(best)).w[0] > 0) best = j;
  return at(best);
}

void Block::set_ridge(std::size_t b) {
  Query& query = queries_[b];
  // Beside the error of the weights, which bound() adds: of exp, or of telling which weight is the largest.
  const double relative = problem_.mode == RidgeMode::absolute ? 1.01 * constants_.exp
                          : problem_.mode == RidgeMode::max    ? 4.1 * constants_.add
                                                               : 0;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  with_words(words_, [&](auto w) {
    constexpr int W = decltype(w)::value;
    const Words<double, W> unit = ridge_unit<W>(problem_.mode, query, weight_, b, table_);
    for (std::size_t a = 0; a < problem_.dim; ++a) {
      const double lambda = head_.lambda(query.index, a);
      const Words<double, W> x = times(unit, lambda);
      for (int i = 0; i < W; ++i) ridge_.plane[i][b * ridge_.stride + a] = x.w[i];
      least = std::min(least, x.w[0]), most = std::max(most, x.w[0]);
    }
  });
  // exp overflows beyond 500; below -500 it is dropped, which costs lambda times dropped_weight.
  const bool overflow = problem_.mode == RidgeMode::absolute && query.shift < exp_lowest;
  double largest_lambda = 0;
  for (std::size_t a = 0; a < problem_.dim; ++a)
    largest_lambda = std::max(largest_lambda, head_.lambda(query.index, a));
  const double dropped = problem_.mode == RidgeMode::absolute && -query.shift < exp_lowest ? dropped_weight : 0;
  query.ridge_most = most * safety;
  query.ridge_error =
      overflow ? std::numeric_limits<double>::infinity()
               : (most * (relative + 1.01 * constants_.multiply_plain) + largest_lambda * dropped) * safety + underflow;
  query.ridge_least = least;
}

/// Builds A in R, factors it, and raises the proven lower bound of its smallest eigenvalue if that is possible.
template <class R>
bool Block::factor(std::size_t b, Factors<R>& factors, const Preconditioner<R>& kernels, const R* keys) {
  const std::size_t d = problem_.dim, stride = head_.dim_stride;
  const KeyRange range = queries_[b].keys;
  std::vector<R> root_weight(range.last - range.first), center(stride), z(64 * stride), A(stride * stride);
  for (std::size_t j = range.first; j < range.last; ++j)
    root_weight[j - range.first] = static_cast<R>(std::sqrt(weight(b, j)));
  for (std::size_t a = 0; a < d; ++a) center[a] = static_cast<R>(center_.plane[0][b * center_.stride + a]);
  kernels.covariance(keys + (first_key_ + range.first) * stride, root_weight.data(), center.data(),
                     range.last - range.first, stride, z.data(), A.data());
  for (std::size_t a = 0; a < d; ++a) A[a * stride + a] += static_cast<R>(ridge_.plane[0][b * ridge_.stride + a]);
  factors.U = A;
  factors.L.resize(stride * stride);
  if (!kernels.cholesky(factors.U.data(), d, stride)) return false;
  kernels.transpose(factors.U.data(), factors.L.data(), d, stride);
  raise_eigenvalue(b, A, factors, kernels);
  return true;
}

/// If the factorisation of the computed A - s I runs through, the smallest eigenvalue of the exact A is at least s
/// minus what all roundings of it may amount to (Rump 2006); docs/error-analysis.md, section 5.4.
template <class R>
void Block::raise_eigenvalue(std::size_t b, std::vector<R>& A, const Factors<R>& factors,
                             const Preconditioner<R>& kernels) {
  Query& query = queries_[b];
  const std::size_t d = problem_.dim, stride = head_.dim_stride;
  constexpr double u = std::is_same_v<R, float> ? 0x1p-24 : 0x1p-53;
  double center = 0, mass = 0, farthest = 0;
  for (std::size_t a = 0; a < d; ++a)
    center += center_.plane[0][b * center_.stride + a] * center_.plane[0][b * center_.stride + a];
  center = std::sqrt(center);
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j) {
    const double reach = head_.key_norm[first_key_ + j] + center;
    mass += weight(b, j) * reach * reach;
    farthest = std::max(farthest, reach);
  }
  const double n = static_cast<double>(query.keys.last - query.keys.first), dim = static_cast<double>(d);
  const double trace = mass + dim * query.ridge_most;
  const double slack =
      (64 + n / 64 + dim + 40) * u * trace * 1.05 + query.ridge_error + n * dim * 0x1p-120 * (1 + farthest * farthest);
  // Inverse iteration guesses where the smallest eigenvalue is.
  std::vector<R> x(stride, R(0));
  for (std::size_t a = 0; a < d; ++a) x[a] = R(1) + static_cast<R>(a) / static_cast<R>(d);
  double guess = 0;
  for (int i = 0; i < 3; ++i) {
    double length = 0;
    for (std::size_t a = 0; a < d; ++a) length += static_cast<double>(x[a]) * static_cast<double>(x[a]);
    for (std::size_t a = 0; a < d; ++a) x[a] = static_cast<R>(static_cast<double>(x[a]) / std::sqrt(length));
    kernels.solve(factors.U.data(), factors.L.data(), x.data(), d, stride);
  }
  for (std::size_t a = 0; a < d; ++a) guess += static_cast<double>(x[a]) * static_cast<double>(x[a]);
  guess = 1 / std::sqrt(guess);
  if (!std::isfinite(guess)) return;
  for (double s = 0.7 * guess; s > 2 * slack && s - slack > query.eigenvalue;) {
    std::vector<R> shifted = A;
    for (std::size_t a = 0; a < d; ++a) shifted[a * stride + a] -= static_cast<R>(s);
    if (kernels.cholesky(shifted.data(), d, stride)) {
      query.eigenvalue = (s * (1 - 2 * u) - slack) * (1 - 0x1p-30);
      return;
    }
    s *= 0.3;
  }
}

void Block::precondition(std::size_t b) {
  Query& query = queries_[b];
  if (!query.in_double) query.in_double = !factor(b, in_float_[b], table_.in_float, head_.k_float.data());
  // A factor that fails in double leaves the identity: the residual will say how bad the answer is.
  if (query.in_double && !factor(b, in_double_[b], table_.in_double, head_.k.data())) {
    const std::size_t stride = head_.dim_stride;
    std::fill(in_double_[b].U.begin(), in_double_[b].U.end(), 0.0);
    for (std::size_t a = 0; a < stride; ++a) in_double_[b].U[a * stride + a] = 1;
    in_double_[b].L = in_double_[b].U;
  }
}

/// residual = c - q - ridge eta - sum_j w_j (x_j . eta)(k_j - c) with `words` words.
void Block::residual(int words) {
  const WordKernels& kernels = table_.words[words];
  const std::size_t stride = head_.dim_stride;
  slope_.clear();
  kernels.product(head_.k_transposed.data() + first_key_, head_.key_stride, static_cast<ConstPlanes>(eta_.row(0)), 1,
                  eta_.stride, slope_.row(0), slope_.stride, keys_, padded_queries_, problem_.dim);
  for (std::size_t b = 0; b < count(); ++b) {
    double offset[4];
    kernels.dot(center_.row(b), eta_.row(b), stride, offset);
    kernels.residual(slope_.row(b), pull_weight_.row(b), weight_.row(b), offset, keys_, sum_u_[b].data());
  }
  residual_.clear();
  kernels.product(head_.k.data() + first_key_ * stride, stride, static_cast<ConstPlanes>(pull_weight_.row(0)), 1,
                  pull_weight_.stride, residual_.row(0), residual_.stride, stride, padded_queries_, keys_);
  for (std::size_t b = 0; b < count(); ++b)
    kernels.residual_end(residual_.row(b), pull_.row(b), ridge_.row(b), eta_.row(b), center_.row(b), sum_u_[b].data(),
                         stride);
}

/// x <- preconditioner^-1 x, scaled so that no float overflows.
template <class R>
void solve(const Factors<R>& f, const Preconditioner<R>& kernels, std::vector<double>& x, std::size_t d) {
  double largest = 0;
  for (const double e : x) largest = std::max(largest, std::fabs(e));
  if (!(largest > 0) || !std::isfinite(largest)) return std::fill(x.begin(), x.end(), 0.0);
  const int exponent = std::ilogb(largest);
  std::vector<R> y(x.size());
  for (std::size_t a = 0; a < x.size(); ++a) y[a] = static_cast<R>(std::ldexp(x[a], -exponent));
  kernels.solve(f.U.data(), f.L.data(), y.data(), d, x.size());
  for (std::size_t a = 0; a < x.size(); ++a) x[a] = std::ldexp(static_cast<double>(y[a]), exponent);
}

/// eta += preconditioner^-1 residual for every query, and how large that was. False if a float factor is too weak.
bool Block::correct() {
  const std::size_t stride = head_.dim_stride;
  bool strong = true;
  for (std::size_t b = 0; b < count(); ++b) {
    Query& query = queries_[b];
    std::vector<double> x(residual_.plane[0].begin() + static_cast<std::ptrdiff_t>(b * stride),
                          residual_.plane[0].begin() + static_cast<std::ptrdiff_t>((b + 1) * stride));
    if (query.in_double)
      solve(in_double_[b], table_.in_double, x, problem_.dim);
    else
      solve(in_float_[b], table_.in_float, x, problem_.dim);
    double largest = 0, eta = 0;
    with_words(words_, [&](auto w) {
      constexpr int W = decltype(w)::value;
      for (std::size_t a = 0; a < problem_.dim; ++a) {
        Words<double, W> e;
        for (int i = 0; i < W; ++i) e.w[i] = eta_.plane[i][b * stride + a];
        e = plus(e, x[a]);
        for (int i = 0; i < W; ++i) eta_.plane[i][b * stride + a] = e.w[i];
        largest = std::max(largest, std::fabs(x[a])), eta = std::max(eta, std::fabs(e.w[0]));
      }
    });
    query.last_correction = query.correction;
    query.correction = largest == 0 ? 0 : largest / eta;
    // Less than three bits in the first correction of a correction.
    if (!query.in_double && query.last_correction > 0 && query.correction > query.last_correction / 8) strong = false;
  }
  return strong;
}

/// Climbs the ladder 1, 2, ... words; each level is left when its residual has nothing more to say.
void Block::refine() {
  constexpr int most_steps = 60;
  int words = 1;
  for (int step = 0; step < most_steps; ++step) {
    residual(words);
    const bool strong = correct();
    if (step == 1 && !strong) {
      for (std::size_t b = 0; b < count(); ++b) {
        Query& query = queries_[b];
        if (!query.in_double && query.correction > query.last_correction / 8) query.in_double = true, precondition(b);
        query.correction = query.last_correction = 0;
      }
      eta_.clear();
      step = -1, words = 1;
      continue;
    }
    // The next correction is this one times the gain; below the level's resolution another step gains nothing.
    bool done = true;
    for (const Query& query : queries_) {
      const double gain =
          query.last_correction > 0 ? std::min(0.125, query.correction / query.last_correction) : 0x1p-10;
      const bool stalled = step > 0 && query.last_correction > 0 && query.correction > 0.35 * query.last_correction;
      done = done && (stalled || query.correction * gain < std::ldexp(1.0, 12 - 53 * words));
    }
    if (!done) continue;
    if (words == words_) return;
    ++words;
  }
}

/// docs/error-analysis.md, section 5, with its names.
double Block::bound(std::size_t b) {
  const Query& query = queries_[b];
  const Constants& c = constants_;
  const std::size_t dim = problem_.dim, n = query.keys.last - query.keys.first;
  const double rows = static_cast<double>(keys_) / 8 + 9;
  const double gamma_d = matrix_accumulation(words_, static_cast<int>(dim));
  const double gamma_n = matrix_accumulation(words_, static_cast<int>(keys_));
  const double gamma_dot = c.multiply + c.add * 1.01 * (static_cast<double>(head_.dim_stride) / 8 + 9);
  const double factor = std::fabs(problem_.inverse_bandwidth.word[0]) * (1 + 0x1p-40);
  const double factor_error = problem_.inverse_bandwidth.error_of(words_);
  const double qn = head_.query_norm[query.index];
  const double N = size_norm(eta_, b, dim, words_), C = size_norm(center_, b, dim, words_);
  const double rn = size_norm(residual_, b, dim, words_), omega = query.omega[0] * (1 - 0x1p-40);

  // Relative error of weight j: per_key * |k_j| + constant.
  const double per_key = 1.02 * factor * qn * (gamma_d + factor_error + c.multiply + c.add);
  const double constant = 1.02 * (c.add * std::fabs(query.shift) + c.exp);
  const auto largest = [&](const std::vector<double>& of) {
    const auto from = of.begin() + static_cast<std::ptrdiff_t>(first_key_);
    return *std::max_element(from, from + static_cast<std::ptrdiff_t>(keys_));
  };
  const double largest_key = largest(head_.key_norm), largest_value = largest(head_.value_max);
  // The proofs of exp and of the factors 1.01 want small errors and scores whose words are in order.
  const bool tame = per_key * largest_key + constant < 0x1p-20 && factor * qn * largest_key < 0x1p40;
  if (!tame) return std::numeric_limits<double>::infinity();
  const auto weight_error = [&](std::size_t j) {
    const double w = weight(b, j);
    return w == 0 ? dropped_weight : w * (per_key * head_.key_norm[first_key_ + j] + constant) * (1 + 0x1p-39);
  };

  double sum_e = 0, sum_ek = 0, sum_k = 0, largest_e = 0;
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j) {
    const double kn = head_.key_norm[first_key_ + j], e = weight_error(j);
    sum_e += e, sum_ek += e * kn, sum_k += weight(b, j) * kn, largest_e = std::max(largest_e, e);
  }
  sum_k *= 1 + 0x1p-39;
  const double mean_k = sum_k / omega;
  const double dc =
      1.01 / omega * (sum_ek + 1.01 * mean_k * sum_e + (gamma_n + query.inverse_error + 1.01 * c.multiply) * sum_k);

  double du = 0, uk = 0, u0 = 0, direct = 0, square = 0;
  const double inverse_omega = 1.01 / omega;
  const double normalised = 1.01 * (sum_e / omega + query.inverse_error + c.multiply);
  const Field::Row t = slope_.row(b);
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j) {
    const double kn = head_.key_norm[first_key_ + j], vm = head_.value_max[first_key_ + j];
    const double w = weight(b, j) * (1 + 0x1p-39), e = weight_error(j);
    double ts = 0;
    for (int i = words_; i-- > 0;) ts = ts * 0x1p53 + std::fabs(t.plane[i][j]);
    const double tau = N * ((gamma_d + c.add) * kn + (gamma_dot + c.add) * C + dc);
    const double u = 1.01 * w * ts, eu = 1.01 * w * (tau + c.multiply * ts) + e * (1.01 * ts + tau);
    du += eu * (kn + C), uk += u * kn, u0 += u;
    direct += vm * (eu + inverse_omega * (e + w * normalised) + (c.add + gamma_n) * 1.01 * (w * inverse_omega + u));
    square += (w + e) * vm * vm;
  }
  const double ridge_share = problem_.mode == RidgeMode::mass  ? sum_e + query.inverse_error * omega * 1.01
                             : problem_.mode == RidgeMode::max ? largest_e
                                                               : 0;
  double largest_lambda = 0;
  for (std::size_t a = 0; a < dim; ++a) largest_lambda = std::max(largest_lambda, head_.lambda(query.index, a));
  const double d_ridge = query.ridge_error + largest_lambda * ridge_share * 1.01;
  // What A itself is off by when its weights and mean are.
  const double reach = std::max(C, mean_k) * 1.01, omega_most = query.omega[0] * (1 + 0x1p-39);
  double d_matrix = 2.02 * dc * (sum_k + omega_most * reach) + 1.01 * omega_most * dc * dc;
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j) {
    const double x = head_.key_norm[first_key_ + j] + reach;
    d_matrix += weight_error(j) * x * x;
  }
  const double everything = C + qn + query.ridge_most * N + uk + C * u0;
  const double r = rn + dc + d_ridge * N + du + gamma_n * uk + c.add * rows * C * u0 +
                   1.01 * (4 * c.add + 2 * c.multiply) * everything;
  const double eigenvalue =
      std::max(query.eigenvalue - d_ridge - d_matrix * 1.01, query.ridge_least * (1 - 0x1p-40) - d_ridge);
  if (!(eigenvalue > 0)) return std::numeric_limits<double>::infinity();
  const double total = direct + std::sqrt(square) * r / std::sqrt(eigenvalue);
  const double floor = underflow * static_cast<double>(n) * (1 + largest_key) * (1 + N + C);
  return (total * 1.0001 + floor * (1 + largest_value) * (1 + std::sqrt(square / eigenvalue))) * safety;
}

/// o = sum_j (w_j / omega - u_j) v_j.
void Block::output(Certified& o) {
  std::vector<double> bounds(count());
  for (std::size_t b = 0; b < count(); ++b) {
    bounds[b] = bound(b);
    kernels_.output(out_weight_.row(b), weight_.row(b), queries_[b].inverse, pull_weight_.row(b), keys_);
  }
  kernels_.product(head_.v.data() + first_key_ * head_.value_stride, head_.value_stride,
                   static_cast<ConstPlanes>(out_weight_.row(0)), 1, out_weight_.stride, out_.row(0), out_.stride,
                   head_.value_stride, padded_queries_, keys_);
  for (std::size_t b = 0; b < count(); ++b)
    for (std::size_t c = 0; c < problem_.values; ++c) {
      const std::size_t to = queries_[b].index * problem_.values + c;
      for (int w = 0; w < words_; ++w) o.word[w][to] = out_.plane[w][b * out_.stride + c];
      for (int w = words_; w < o.words; ++w) o.word[w][to] = 0;
      o.bound[to] = bounds[b];
    }
}

void Block::run(Certified& o) {
  weigh();
  centre();
  for (std::size_t b = 0; b < count(); ++b) {
    set_ridge(b);
    precondition(b);
  }
  refine();
  residual(words_);  // of the final eta: what the bound rests on, and the slopes of the output
  output(o);
}

}  // namespace

void run_block(const Head& head, std::span<const std::size_t> queries, int words, const Kernels& table, Certified& o) {
  Block(head, queries, words, table).run(o);
}

}  // namespace assay::words::lla
