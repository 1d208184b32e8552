#include "oracles/multiword/lla/lla_gradients.hpp"

#include <cstring>
#include <limits>
#include <utility>

namespace assay::words::lla {

using portable::times;
using portable::Words;
using portable::words;

Cotangent::Cotangent(const Head& head, std::span<const double> cotangent)
    : g(head.problem.queries * head.value_stride, 0),
      v_transposed(head.problem.values * head.key_stride, 0),
      norm(head.problem.queries, 0),
      largest(head.problem.queries, 0),
      query_max(head.problem.queries, 0),
      value_norm(head.key_rows, 0) {
  const LlaProblem& p = head.problem;
  for (std::size_t i = 0; i < p.queries; ++i) {
    std::copy_n(&cotangent[i * p.values], p.values, &g[i * head.value_stride]);
    norm[i] = lla::norm(&g[i * head.value_stride], p.values);
    for (std::size_t c = 0; c < p.values; ++c)
      largest[i] = std::max(largest[i], std::fabs(cotangent[i * p.values + c]));
    for (std::size_t a = 0; a < p.dim; ++a) query_max[i] = std::max(query_max[i], std::fabs(p.q[i * p.dim + a]));
  }
  for (std::size_t j = 0; j < p.keys; ++j) {
    for (std::size_t c = 0; c < p.values; ++c) v_transposed[c * head.key_stride + j] = p.v[j * p.values + c];
    value_norm[j] = lla::norm(&p.v[j * p.values], p.values);
  }
}

namespace {

/// The columns of d_lambda.
std::size_t ridge_columns(const LlaProblem& p) {
  if (p.slope != Slope::solved) return 0;
  return p.lambda.size() == p.queries * p.dim ? p.dim : 1;
}

}  // namespace

RowResults::RowResults(const LlaProblem& p, int words)
    : o(words, p.queries, p.values),
      d_q(words, p.queries, p.dim),
      d_lambda(words, p.queries, ridge_columns(p)),
      d_probe(words, p.queries, p.slope == Slope::given ? p.dim : 0),
      d_bandwidth(words, p.queries, 1) {}

KeySums::KeySums(const Head& head, int words)
    : d_k(words, head.key_rows, head.dim_stride),
      d_v(words, head.key_rows, head.value_stride),
      k_bound(head.key_rows, 0),
      v_bound(head.key_rows, 0),
      k_size(head.key_rows, 0),
      v_size(head.key_rows, 0),
      blocks(head.key_rows, 0) {}

void KeySums::settle(int words) {
  const Constants& c = constants(words);
  for (std::size_t j = 0; j < blocks.size(); ++j) {
    if (blocks[j] == 0) continue;
    k_bound[j] += (c.chunk_words + 3.03 * blocks[j] * c.add) * k_size[j] + underflow;
    v_bound[j] += (c.chunk + 1.01 * blocks[j] * c.add) * v_size[j] + underflow;
    blocks[j] = 0;
  }
}

Certified KeySums::certified(const Field& sums, const std::vector<double>& bound, std::size_t rows, std::size_t columns,
                             int words) {
  Certified x(words, rows, columns);
  for (std::size_t j = 0; j < rows; ++j)
    for (std::size_t c = 0; c < columns; ++c) {
      for (int w = 0; w < words; ++w) x.word[w][j * columns + c] = sums.plane[w][j * sums.stride + c];
      x.bound[j * columns + c] = bound[j] * safety;
    }
  x.settle();
  return x;
}

/// Bounds on the errors of a row's gradients, and its part of the bounds and sizes of the keys' sums.
struct GradientBlock::RowBound {
  double d_q = 0, d_bandwidth = 0, d_probe = 0;
  std::vector<double> d_lambda;
  std::vector<double> k, v, k_size, v_size;
  double ratio = 0;  ///< the worst of the bounds, relative to the sum of absolute terms
};

GradientBlock::GradientBlock(const Head& head, const Cotangent& cotangent, std::span<const std::size_t> queries,
                             int words, const Kernels& table)
    : Block(head, queries, words, table),
      cotangent_(cotangent),
      factor_(std::fabs(problem_.inverse_bandwidth.word[0]) * (1 + 0x1p-40)),
      factor_error_(problem_.inverse_bandwidth.error_of(words)),
      adjoint_(words, padded_queries_, stride_, head.dim_stride),
      start_(words, padded_queries_, stride_),
      gradient_(words, padded_queries_, stride_),
      shift_(words, padded_queries_, head.dim_stride),
      probe_(words, padded_queries_, head.dim_stride),
      euler_(count()),
      g_(padded_queries_ * head.value_stride, 0),
      q_(padded_queries_ * head.dim_stride, 0),
      k_bound_(keys_, 0),
      v_bound_(keys_, 0),
      k_size_(keys_, 0),
      v_size_(keys_, 0) {
  adjoint_.start = &start_, adjoint_.trivial = problem_.slope != Slope::solved;
  for (std::size_t b = 0; b < count(); ++b) {
    std::copy_n(&cotangent.g[queries_[b].index * head.value_stride], head.value_stride, &g_[b * head.value_stride]);
    std::copy_n(&head.q[queries_[b].index * head.dim_stride], head.dim_stride, &q_[b * head.dim_stride]);
  }
}

/// a, its mean, beta, and with it the slopes phi, the products f, and the residual.
void GradientBlock::solve_adjoint() {
  const double* g[] = {g_.data()};
  kernels_.product_plain(cotangent_.v_transposed.data() + first_key_, head_.key_stride, g, 1, head_.value_stride,
                         start_.row(0), stride_, keys_, padded_queries_, problem_.values);
  for (std::size_t b = 0; b < count(); ++b) {
    double sum[4];
    kernels_.dot(weight_.row(b), start_.row(b), keys_, sum);
    with_words(words_, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const Words<double, W> mean = words_of<W>(sum) * words_of<W>(queries_[b].inverse);
      std::copy_n(mean.w, W, adjoint_.mean[b].data());
    });
  }
  if (problem_.slope == Slope::solved) refine(adjoint_);
  slopes(adjoint_, words_);
  if (problem_.slope != Slope::zero) close(adjoint_, words_);
}

/// e, which the weights hand to the scores: -eta.r of a given eta = rho / omega, or the ridge's unit's, the sum of
/// ridge d_ridge = -sum of ridge eta beta.
void GradientBlock::set_euler(std::size_t b) {
  const std::size_t stride = head_.dim_stride;
  double sum[4];
  if (problem_.slope == Slope::given) {
    kernels_.dot(line_.unknown.row(b), adjoint_.residual.row(b), stride, sum);
  } else {
    kernels_.multiply(probe_.row(b), line_.unknown.row(b), adjoint_.unknown.row(b), stride);
    kernels_.dot(ridge_.row(b), probe_.row(b), stride, sum);
  }
  with_words(words_, [&](auto w) {
    constexpr int W = decltype(w)::value;
    std::copy_n((-words_of<W>(sum)).w, W, euler_[b].data());
  });
}

/// D / h, S, eta beta and e.
void GradientBlock::differentiate() {
  const std::size_t stride = head_.dim_stride;
  const double* factor = problem_.inverse_bandwidth.word.data();
  for (std::size_t b = 0; b < count(); ++b) {
    const Query& query = queries_[b];
    double share[4] = {};
    set_euler(b);
    with_words(words_, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const Words<double, W> e = words_of<W>(euler_[b].data()) * words_of<W>(query.inverse);
      if (problem_.mode == RidgeMode::mass) std::copy_n(e.w, W, share);
    });
    kernels_.score_gradient(gradient_.row(b), score_.row(b), adjoint_.slope.row(b), weight_.row(b), share, factor,
                            keys_);
    if (problem_.mode == RidgeMode::max)
      with_words(words_, [&](auto w) {
        constexpr int W = decltype(w)::value;
        const Words<double, W> e = words_of<W>(euler_[b].data()) * words_of<W>(factor);
        put<W>(gradient_.row(b), query.heaviest, words_at<W>(gradient_.row(b), query.heaviest) + e);
      });
  }
  kernels_.product(head_.k.data() + first_key_ * stride, stride, static_cast<ConstPlanes>(gradient_.row(0)), 1, stride_,
                   shift_.row(0), stride, stride, padded_queries_, keys_);
}

SystemErrors GradientBlock::adjoint_errors(std::size_t b, const RowErrors& row, std::vector<double>& a_size,
                                           double& mean_size) {
  const Query& query = queries_[b];
  const Constants& c = constants_;
  const double gamma_v = matrix_accumulation(words_, static_cast<int>(problem_.values));
  const double of_a = gamma_v * cotangent_.norm[query.index], gamma_rows = c.multiply + 1.01 * c.add * row.rows;
  double sum_wa = 0, sum_ea = 0, sum_wv = 0;
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j) {
    const double w = weight(b, j) * (1 + 0x1p-39), vn = cotangent_.value_norm[first_key_ + j];
    a_size[j] = 1.01 * (size_at(start_.row(b), j, words_) + of_a * vn);
    sum_wa += w * a_size[j], sum_wv += w * vn, sum_ea += weight_error(row, b, j) * a_size[j];
  }
  mean_size = sum_wa / row.omega;
  const double mean_error = 1.01 / row.omega *
                                (sum_ea + 1.01 * mean_size * row.sum_e + 1.01 * of_a * sum_wv +
                                 (gamma_rows + query.inverse_error + 1.01 * c.multiply) * sum_wa) +
                            underflow;
  const double N = row_size(adjoint_.unknown.row(b), problem_.dim, words_).norm;
  const double constant = 1.01 * (row.gamma_dot + 2 * c.add) * (row.center_size * N + 1.01 * mean_size) + row.mean * N +
                          mean_error + underflow;
  std::vector<double> slope(keys_, 0);
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j)
    slope[j] = of_a * cotangent_.value_norm[first_key_ + j] +
               1.01 * (row.gamma_d + c.add) * (a_size[j] + head_.key_norm[first_key_ + j] * N) + constant;
  return system_errors(b, row, adjoint_, std::move(slope), 0, 0);
}

/// The keys that may be the heaviest in truth: in ridge mode max, e may be theirs. A copy of the heaviest that comes
/// later never is.
std::vector<char> GradientBlock::rivals(std::size_t b, const RowErrors& row) const {
  std::vector<char> rivals(keys_, 0);
  const Query& query = queries_[b];
  const std::size_t first = query.heaviest;
  const double limit = weight(b, first) * (1 - 0x1p-40) - weight_error(row, b, first);
  const auto key = [&](std::size_t j) { return &head_.k[(first_key_ + j) * head_.dim_stride]; };
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j) {
    if (j == first || !(weight(b, j) * (1 + 0x1p-40) + weight_error(row, b, j) >= limit)) continue;
    if (j > first && std::memcmp(key(j), key(first), problem_.dim * sizeof(double)) == 0) continue;
    rivals[j] = rivals[first] = 1;
  }
  return rivals;
}

double GradientBlock::euler_error(std::size_t b, const RowErrors& row, const SystemErrors& line,
                                  const SystemErrors& adjoint) {
  if (problem_.slope != Slope::solved) {
    const double r = row_size(adjoint_.residual.row(b), problem_.dim, words_).norm;
    return 1.01 * (line.size * (adjoint.missed + row.gamma_dot * r) + line.norm * (r + adjoint.missed)) + underflow;
  }
  const double most = queries_[b].ridge_most;
  return 1.01 * (std::sqrt(most + row.ridge) * (line.energy * adjoint.size + adjoint.energy * line.size) +
                 line.energy * adjoint.energy + row.ridge * line.size * adjoint.size +
                 most * line.size * adjoint.size * (row.gamma_dot + constants_.multiply)) +
         underflow;
}

/// docs/error-analysis.md, section 6.2 and 6.3, with its names.
GradientBlock::RowBound GradientBlock::bound(std::size_t b) {
  const auto& [row, line, score] = proofs_[b];
  const Query& query = queries_[b];
  const Constants& c = constants_;
  RowBound to;
  to.k.assign(keys_, 0);
  to.v = to.k_size = to.v_size = to.k;
  std::vector<double> a_size(keys_, 0);
  double mean_size = 0;
  const SystemErrors adjoint = adjoint_errors(b, row, a_size, mean_size);
  const Field::Row t = line_.slope.row(b), phi = adjoint_.slope.row(b);
  const double inverse = 1.01 / row.omega, root = 1.01 / std::sqrt(row.eigenvalue);
  const double g = cotangent_.largest[query.index], q = cotangent_.query_max[query.index];
  const double euler = with_words(
      words_, [&](auto w) { return 1.01 * portable::size_of(words_of<decltype(w)::value>(euler_[b].data())); });
  const double d_euler = euler_error(b, row, line, adjoint);
  const bool mass = problem_.mode == RidgeMode::mass, max = problem_.mode == RidgeMode::max;
  const std::vector<char> rivals = max ? this->rivals(b, row) : std::vector<char>();
  double shift = 0, shift_size = 0, shift_terms = 0, k = 0, k_terms = 0, v = 0, v_terms = 0, probe_terms = 0;
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j) {
    const double kn = head_.key_norm[first_key_ + j], reach = kn + 1.01 * row.center_size + row.mean;
    const double w = weight(b, j) * (1 + 0x1p-39), e = weight_error(row, b, j);
    const double along = std::min(w > 0 ? 1.01 / std::sqrt(w) : std::numeric_limits<double>::infinity(), reach * root);
    const double ps = 1.01 * size_at(phi, j, words_), ts = 1.01 * size_at(t, j, words_);
    const double u = w * (inverse + ts) * 1.01, f = 1.01 * w * ps;
    const double du = (w + e) * along * line.energy + score[j] + underflow;
    const double d_phi = along * adjoint.energy + adjoint.slope[j];
    const double df = (w + e) * along * adjoint.energy + adjoint.product[j] + underflow;
    double D = 1.01 * u * ps, dD = du * (ps + d_phi) + u * d_phi + c.multiply * D + underflow;
    if (mass) {
      const double share = w * inverse * euler;
      dD += inverse * ((w + e) * d_euler + euler * 1.01 * (e + w * (row.normalised + 3 * c.multiply)));
      D += 1.01 * share;
    }
    if (max && j == query.heaviest) D += euler, dD += d_euler;
    if (max && rivals[j]) dD += euler + d_euler;
    const double h = 1.01 * factor_ * D, dh = 1.01 * factor_ * (dD + D * (c.multiply + 2.02 * c.add + factor_error_));
    to.v[j] = g * du, to.v_size[j] = g * u;
    to.k[j] = q * dh + (line.largest + line.norm) * df + f * line.norm + (adjoint.largest + adjoint.norm) * du +
              u * adjoint.norm;
    to.k_size[j] = 1.01 * (q * h + line.largest * f + adjoint.largest * u);
    shift += dh * kn, shift_size += h * kn;
    // Terms before they cancel: what bounds are measured against.
    const double terms = a_size[j] + mean_size + adjoint.size * reach;
    const double D_terms = factor_ * (u * terms + (mass ? w * inverse * euler : 0));
    shift_terms += D_terms * kn, k += to.k[j], v += du, v_terms += u;
    probe_terms += w * inverse * terms * reach;
    k_terms += q * D_terms + line.largest * w * terms + adjoint.largest * u;
  }
  const double S = row_size(shift_.row(b), problem_.dim, words_).norm, qn = head_.query_norm[query.index];
  const double product = shift + row.gamma_n * shift_size + underflow;
  to.d_q = product + adjoint.norm + 1.01 * c.add * (S + adjoint.largest);
  to.d_bandwidth = qn * product + 1.01 * (c.multiply_plain + 1.01 * c.add * static_cast<double>(problem_.dim)) * qn * S;
  if (problem_.slope == Slope::solved) bound_ridge(b, row, line, adjoint, to);
  if (problem_.slope == Slope::given) bound_probe(b, row, adjoint, to);
  const auto relative = [](double error, double of) {
    if (error <= 0x1p-960) return 0.0;
    return error <= 0x1p1000 ? error / of : std::numeric_limits<double>::infinity();
  };
  to.ratio = std::max({relative(to.d_q, shift_terms + adjoint.largest), relative(k, k_terms), relative(v, v_terms),
                       relative(to.d_probe, probe_terms)});
  return to;
}

/// d_lambda = -unit eta beta, of every dimension or summed.
void GradientBlock::bound_ridge(std::size_t b, const RowErrors& row, const SystemErrors& line,
                                const SystemErrors& adjoint, RowBound& to) {
  const double unit = 1.01 * queries_[b].unit[0], multiply = 2.05 * constants_.multiply;
  const auto error = [&](double x, double y, double gamma) {
    return 1.01 * (row.unit * (x + line.norm) * (y + adjoint.norm) +
                   unit * (line.norm * (y + adjoint.norm) + x * adjoint.norm + x * y * gamma)) +
           underflow;
  };
  const bool by_dimension = problem_.lambda.size() == problem_.queries * problem_.dim;
  if (!by_dimension) to.d_lambda = {error(line.size, adjoint.size, row.gamma_dot + multiply)};
  for (std::size_t a = 0; by_dimension && a < problem_.dim; ++a)
    to.d_lambda.push_back(
        error(size_at(line_.unknown.row(b), a, words_), size_at(adjoint_.unknown.row(b), a, words_), multiply));
}

/// d_rho = r / omega.
void GradientBlock::bound_probe(std::size_t b, const RowErrors& row, const SystemErrors& adjoint, RowBound& to) {
  const double r = row_size(adjoint_.residual.row(b), problem_.dim, words_).norm;
  to.d_probe = 1.01 / row.omega * (adjoint.missed + row.normalised * r) + underflow;
}

namespace {

/// Number `at` of a result, and its error.
template <int W>
void set(Certified& to, std::size_t at, const Words<double, W>& x, double error) {
  for (int n = 0; n < to.words; ++n) to.word[n][at] = n < W ? x.w[n] : 0;
  to.bound[at] = error * safety;
}

}  // namespace

/// The row's own results.
void GradientBlock::write(std::size_t b, const RowBound& bound, RowResults& results) {
  const std::size_t i = queries_[b].index, dim = problem_.dim;
  with_words(words_, [&](auto w) {
    constexpr int W = decltype(w)::value;
    const Field::Row S = shift_.row(b), beta = adjoint_.unknown.row(b);
    Words<double, W> along = words<double, W>(0);
    for (std::size_t a = 0; a < dim; ++a) {
      set(results.d_q, i * dim + a, words_at<W>(S, a) - words_at<W>(beta, a), bound.d_q);
      along = along + times(words_at<W>(S, a), q_[b * head_.dim_stride + a]);
    }
    set(results.d_bandwidth, i, along, bound.d_bandwidth);
  });
  if (problem_.slope == Slope::solved) write_ridge(b, bound, results);
  if (problem_.slope == Slope::given) write_probe(b, bound, results);
}

void GradientBlock::write_ridge(std::size_t b, const RowBound& bound, RowResults& results) {
  const std::size_t i = queries_[b].index, dim = problem_.dim;
  with_words(words_, [&](auto w) {
    constexpr int W = decltype(w)::value;
    const Field::Row beta = adjoint_.unknown.row(b), probe = probe_.row(b);
    const Words<double, W> minus_unit = -words_of<W>(queries_[b].unit);
    if (results.d_lambda.columns == 1 && dim > 1) {
      double sum[4];
      kernels_.dot(line_.unknown.row(b), beta, head_.dim_stride, sum);
      set(results.d_lambda, i, minus_unit * words_of<W>(sum), bound.d_lambda[0]);
    } else {
      for (std::size_t a = 0; a < dim; ++a)
        set(results.d_lambda, i * dim + a, minus_unit * words_at<W>(probe, a), bound.d_lambda[a]);
    }
  });
}

void GradientBlock::write_probe(std::size_t b, const RowBound& bound, RowResults& results) {
  with_words(words_, [&](auto w) {
    constexpr int W = decltype(w)::value;
    const auto inverse = words_of<W>(queries_[b].inverse);
    for (std::size_t a = 0; a < problem_.dim; ++a)
      set(results.d_probe, queries_[b].index * problem_.dim + a, words_at<W>(adjoint_.residual.row(b), a) * inverse,
          bound.d_probe);
  });
}

/// Takes a row out of the sums over queries.
void GradientBlock::drop(std::size_t b) {
  for (Field* f : {&score_, &product_, &gradient_, &line_.unknown, &adjoint_.unknown})
    for (int w = 0; w < words_; ++w) std::fill_n(f->row(b).plane[w], f->stride, 0.0);
}

void GradientBlock::add_bounds(const RowBound& bound) {
  for (std::size_t j = 0; j < keys_; ++j) {
    k_bound_[j] += bound.k[j], v_bound_[j] += bound.v[j];
    k_size_[j] += bound.k_size[j], v_size_[j] += bound.v_size[j];
  }
}

std::vector<char> GradientBlock::run(const Escalation& escalation, RowResults& results) {
  solve();
  output(results.o);
  solve_adjoint();
  differentiate();
  std::vector<char> counts(count(), 1);
  for (std::size_t b = 0; b < count(); ++b) {
    const std::size_t i = queries_[b].index;
    // A row that no loss looks at has no gradients, whatever its system is like.
    const bool seen = cotangent_.largest[i] > 0, last = words_ >= escalation.most_words;
    const RowBound bound = seen ? this->bound(b) : RowBound();
    counts[b] = last || (results.o.meets(i, escalation.target) && bound.ratio <= escalation.target);
    if (counts[b] && seen)
      write(b, bound, results), add_bounds(bound);
    else
      drop(b);
  }
  // d_k wants -f eta.
  for (auto& plane : line_.unknown.plane)
    for (double& x : plane) x = -x;
  return counts;
}

void GradientBlock::commit(KeyRange keys, KeySums& sums) {
  const std::size_t first = std::max(keys.first, first_key_), last = std::min(keys.last, first_key_ + keys_);
  if (first >= last) return;
  const std::size_t at = first - first_key_, n = last - first, dim = head_.dim_stride, values = head_.value_stride;
  const Field::Row D = gradient_.row(0).from(at), u = score_.row(0).from(at), f = product_.row(0).from(at);
  const Field::Row d_k = sums.d_k.row(first), d_v = sums.d_v.row(first);
  kernels_.product(g_.data(), values, static_cast<ConstPlanes>(u), stride_, 1, d_v, values, values, n, count());
  kernels_.product(q_.data(), dim, static_cast<ConstPlanes>(D), stride_, 1, d_k, dim, dim, n, count());
  const Field::Row minus_eta = line_.unknown.row(0), beta = adjoint_.unknown.row(0);
  if (!line_.trivial)
    kernels_.product_words(static_cast<ConstPlanes>(minus_eta), dim, static_cast<ConstPlanes>(f), stride_, 1, d_k, dim,
                           dim, n, count());
  if (!adjoint_.trivial)
    kernels_.product_words(static_cast<ConstPlanes>(beta), dim, static_cast<ConstPlanes>(u), stride_, 1, d_k, dim, dim,
                           n, count());
  for (std::size_t j = 0; j < n; ++j) {
    sums.k_bound[first + j] += k_bound_[at + j], sums.v_bound[first + j] += v_bound_[at + j];
    sums.k_size[first + j] += k_size_[at + j], sums.v_size[first + j] += v_size_[at + j];
    ++sums.blocks[first + j];
  }
}

}  // namespace assay::words::lla
