#include "oracles/multiword/lla/lla_block.hpp"

#include <limits>

namespace assay::words::lla {

std::size_t rounded_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

double norm(const double* x, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return std::sqrt(sum) * (1 + 0x1p-30) + 0x1p-530;
}

Field::Field(int words, std::size_t r, std::size_t s) : rows(r), stride(s) {
  for (int w = 0; w < words; ++w) plane[w].assign(r * s, 0);
}
void Field::clear() {
  for (auto& p : plane) std::fill(p.begin(), p.end(), 0.0);
}
Field::Row Field::row(std::size_t row) {
  Row r{};
  for (int w = 0; w < 4; ++w) r.plane[w] = plane[w].empty() ? nullptr : plane[w].data() + row * stride;
  return r;
}
Field::Row Field::Row::from(std::size_t n) const {
  Row r{};
  for (int w = 0; w < 4; ++w) r.plane[w] = plane[w] == nullptr ? nullptr : plane[w] + n;
  return r;
}

RowSize row_size(const Field::Row& row, std::size_t n, int words) {
  double sum = 0, largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double size = size_at(row, i, words);
    sum += size * size;
    if (!(size <= largest)) largest = size;
  }
  return {std::sqrt(sum) * (1 + 0x1p-30) + 0x1p-530, largest * (1 + 0x1p-30)};
}

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

}  // namespace

System::System(int words, std::size_t queries, std::size_t key_stride, std::size_t dim_stride)
    : unknown(words, queries, dim_stride),
      residual(words, queries, dim_stride),
      pull(words, queries, dim_stride),
      slope(words, queries, key_stride),
      mean(queries) {}

namespace {

/// The keys that any of the queries sees; whole cache lines.
KeyRange covered(const Head& head, std::span<const std::size_t> queries) {
  KeyRange all{std::numeric_limits<std::size_t>::max(), 0};
  for (const std::size_t i : queries) {
    const KeyRange r = head.visible(i);
    all = {std::min(all.first, r.first / 8 * 8), std::max(all.last, r.last)};
  }
  return {all.first, all.first + rounded_up(all.last - all.first, 16)};
}

}  // namespace

Block::Block(const Head& head, std::span<const std::size_t> queries, int words, const Kernels& table)
    : head_(head),
      problem_(head.problem),
      words_(words),
      table_(table),
      kernels_(table.words[words]),
      constants_(constants(words)),
      first_key_(covered(head, queries).first),
      keys_(covered(head, queries).last - first_key_),
      padded_queries_(rounded_up(queries.size(), 4)),
      // An odd multiple of the cache line, as in Head.
      stride_(keys_ + 8),
      weight_(words, padded_queries_, stride_),
      product_(words, padded_queries_, stride_),
      score_(words, padded_queries_, stride_),
      center_(words, padded_queries_, head.dim_stride),
      ridge_(words, padded_queries_, head.dim_stride),
      out_(words, padded_queries_, head.value_stride),
      line_(words, padded_queries_, stride_, head.dim_stride),
      proofs_(queries.size()),
      sum_product_(queries.size()),
      in_float_(queries.size()),
      in_double_(queries.size()) {
  line_.trivial = problem_.slope == Slope::zero;
  for (const std::size_t i : queries) {
    const KeyRange r = head.visible(i);
    Query query{};
    query.index = i, query.keys = {r.first - first_key_, r.last - first_key_};
    queries_.push_back(query);
  }
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
    kernels_.center(center_.row(b), line_.pull.row(b), &head_.q[queries_[b].index * head_.dim_stride],
                    queries_[b].inverse, head_.dim_stride);
}

namespace {

/// The first of the heaviest keys.
template <int W>
std::size_t heaviest_key(const Query& query, const Field::Row& weight) {
  std::size_t best = query.keys.first;
  for (std::size_t j = best; j < query.keys.last; ++j)
    if (weight.plane[0][j] >= weight.plane[0][best] * (1 - 0x1p-50) &&
        (words_at<W>(weight, j) - words_at<W>(weight, best)).w[0] > 0)
      best = j;
  return best;
}

/// The factor of lambda in shifted units: exp(-m), max w or sum w.
template <int W>
Words<double, W> ridge_unit(RidgeMode mode, const Query& query, const Field::Row& weight, const Kernels& table) {
  if (mode == RidgeMode::mass) return words_of<W>(query.omega);
  if (mode == RidgeMode::max) return words_at<W>(weight, query.heaviest);
  double x[8] = {-query.shift}, y[8 * W];
  table.words[W].exp_of_doubles(x, y);
  return words_of<W>(y);
}

}  // namespace

void Block::set_ridge(std::size_t b) {
  Query& query = queries_[b];
  // Beside the error of the weights, which row_errors() adds: of exp, or of telling which weight is the largest.
  const double relative = problem_.mode == RidgeMode::absolute ? 1.01 * constants_.exp
                          : problem_.mode == RidgeMode::max    ? 4.1 * constants_.add
                                                               : 0;
  double least = std::numeric_limits<double>::infinity(), most = 0, largest_lambda = 0;
  with_words(words_, [&](auto w) {
    constexpr int W = decltype(w)::value;
    if constexpr (W > 1) {
      if (problem_.mode == RidgeMode::max) query.heaviest = heaviest_key<W>(query, weight_.row(b));
      const Words<double, W> unit = ridge_unit<W>(problem_.mode, query, weight_.row(b), table_);
      std::copy_n(unit.w, W, query.unit);
      for (std::size_t a = 0; a < problem_.dim; ++a) {
        const double lambda = head_.lambda(query.index, a);
        const Words<double, W> x = times(unit, lambda);
        put<W>(ridge_.row(b), a, x);
        least = std::min(least, x.w[0]), most = std::max(most, x.w[0]);
        largest_lambda = std::max(largest_lambda, lambda);
      }
    }
  });
  // exp overflows beyond 500; below -500 it is dropped, which costs lambda times dropped_weight.
  const bool overflow = problem_.mode == RidgeMode::absolute && query.shift < exp_lowest;
  const double dropped = problem_.mode == RidgeMode::absolute && -query.shift < exp_lowest ? dropped_weight : 0;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  query.unit_error = overflow ? infinity : (query.unit[0] * relative + dropped) * safety;
  query.ridge_most = most * safety;
  query.ridge_error =
      overflow ? infinity
               : (most * (relative + 1.01 * constants_.multiply_plain) + largest_lambda * dropped) * safety + underflow;
  query.ridge_least = least;
}

/// eta = rho / omega. The error of a rho in words, and the words of it that are not taken, are its error.
void Block::set_probe(std::size_t b) {
  Query& query = queries_[b];
  const Certified* in_words = problem_.probe_in_words;
  double squares = 0;
  with_words(words_, [&](auto w) {
    constexpr int W = decltype(w)::value;
    const auto inverse = words_of<W>(query.inverse);
    for (std::size_t a = 0; a < problem_.dim; ++a) {
      const std::size_t at = query.index * problem_.dim + a;
      if (in_words == nullptr) {
        put<W>(line_.unknown.row(b), a, times(inverse, problem_.probe[at]));
        continue;
      }
      Words<double, W> rho{};
      double error = in_words->bound[at];
      for (int n = 0; n < in_words->words; ++n) {
        const double word = in_words->word[static_cast<std::size_t>(n)][at];
        if (n < W)
          rho.w[n] = word;
        else
          error += std::fabs(word);
      }
      put<W>(line_.unknown.row(b), a, inverse * rho);
      squares += error * error;
    }
  });
  // An error whose square underflows counts, too.
  if (in_words != nullptr) query.probe_error = std::sqrt(squares) * (1 + 0x1p-30) + underflow;
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

void Block::slopes(System& system, int words) {
  const WordKernels& kernels = table_.words[words];
  const std::size_t stride = head_.dim_stride;
  for (int w = 0; w < words; ++w) {
    if (system.start == nullptr)
      std::fill(system.slope.plane[w].begin(), system.slope.plane[w].end(), 0.0);
    else
      system.slope.plane[w] = system.start->plane[w];
  }
  if (!system.trivial)
    kernels.product(head_.k_transposed.data() + first_key_, head_.key_stride,
                    static_cast<ConstPlanes>(system.unknown.row(0)), 1, stride, system.slope.row(0), stride_, keys_,
                    padded_queries_, problem_.dim);
  for (std::size_t b = 0; b < count(); ++b) {
    double offset[4];
    kernels.dot(center_.row(b), system.unknown.row(b), stride, offset);
    with_words(words, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const auto sum = words_of<W>(offset) + words_of<W>(system.mean[b].data());
      std::copy_n(sum.w, W, offset);
    });
    kernels.residual(system.slope.row(b), product_.row(b), weight_.row(b), offset, keys_, sum_product_[b].data());
  }
}

void Block::close(System& system, int words) {
  const WordKernels& kernels = table_.words[words];
  const std::size_t stride = head_.dim_stride;
  system.residual.clear();
  kernels.product(head_.k.data() + first_key_ * stride, stride, static_cast<ConstPlanes>(product_.row(0)), 1, stride_,
                  system.residual.row(0), stride, stride, padded_queries_, keys_);
  for (std::size_t b = 0; b < count(); ++b)
    kernels.residual_end(system.residual.row(b), system.pull.row(b), ridge_.row(b), system.unknown.row(b),
                         center_.row(b), sum_product_[b].data(), stride);
}

namespace {

/// x <- preconditioner^-1 x, scaled by the largest of x. False, and x as it was, where R overflows all the same: a
/// matrix in float may be as small as 2^-149.
template <class R>
bool solve(const Factors<R>& f, const Preconditioner<R>& kernels, std::vector<double>& x, std::size_t d) {
  double largest = 0;
  for (const double e : x) largest = std::max(largest, std::fabs(e));
  if (!(largest > 0) || !std::isfinite(largest)) return std::fill(x.begin(), x.end(), 0.0), true;
  const int exponent = std::ilogb(largest);
  std::vector<R> y(x.size());
  for (std::size_t a = 0; a < x.size(); ++a) y[a] = static_cast<R>(std::ldexp(x[a], -exponent));
  kernels.solve(f.U.data(), f.L.data(), y.data(), d, x.size());
  if (!std::all_of(y.begin(), y.end(), [](R e) { return std::isfinite(e); })) return false;
  for (std::size_t a = 0; a < x.size(); ++a) x[a] = std::ldexp(static_cast<double>(y[a]), exponent);
  return true;
}

/// Whether a correction was hardly smaller than the one before. A level's first says how little the level below could
/// see, and nothing about the factor.
bool stalled(const Query& query, int step, int level) {
  return step > level && query.last_correction > 0 && query.correction > 0.35 * query.last_correction;
}

}  // namespace

/// unknown += preconditioner^-1 residual for every query, and how large that was.
void Block::correct(System& system) {
  const std::size_t stride = head_.dim_stride;
  for (std::size_t b = 0; b < count(); ++b) {
    Query& query = queries_[b];
    const double* r = system.residual.row(b).plane[0];
    std::vector<double> x(r, r + stride);
    if (!query.in_double && !lla::solve(in_float_[b], table_.in_float, x, problem_.dim)) {
      query.in_double = true;
      precondition(b);
    }
    if (query.in_double) lla::solve(in_double_[b], table_.in_double, x, problem_.dim);
    double largest = 0, unknown = 0;
    with_words(words_, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const Field::Row row = system.unknown.row(b);
      for (std::size_t a = 0; a < problem_.dim; ++a) {
        const Words<double, W> e = plus(words_at<W>(row, a), x[a]);
        put<W>(row, a, e);
        largest = std::max(largest, std::fabs(x[a])), unknown = std::max(unknown, std::fabs(e.w[0]));
      }
    });
    query.last_correction = query.correction;
    query.correction = largest == 0 ? 0 : largest / unknown;
  }
}

/// Factors again in double where the float factor gains too little: less than three bits in the first correction of a
/// correction, or no more where a float factor of any use would still gain. True if there was one.
bool Block::strengthen(int step, int level) {
  bool weak = false;
  for (std::size_t b = 0; b < count(); ++b) {
    Query& query = queries_[b];
    if (query.in_double || step == 0) continue;
    const bool first = step == 1 && query.correction > query.last_correction / 8;
    if (!first && !(stalled(query, step, level) && query.correction > 0x1p-30)) continue;
    query.in_double = weak = true;
    precondition(b);
  }
  return weak;
}

/// Climbs the ladder 1, 2, ... words; each level is left when its residual has nothing more to say.
void Block::refine(System& system) {
  constexpr int most_steps = 60;
  int words = 1, level = 0;  // level: its first step
  for (Query& query : queries_) query.correction = query.last_correction = 0, query.settled = false;
  for (int step = 0; step < most_steps; ++step) {
    residual(system, words);
    correct(system);
    if (strengthen(step, level)) {
      for (Query& query : queries_) query.correction = query.last_correction = 0, query.settled = false;
      system.unknown.clear();
      step = -1, words = 1, level = 0;
      continue;
    }
    // The next correction is this one times the gain; below the level's resolution another step gains nothing.
    bool done = true;
    for (Query& query : queries_) {
      const double gain =
          query.last_correction > 0 ? std::min(0.125, query.correction / query.last_correction) : 0x1p-10;
      // A query that stalled once has come to the noise of the level, whatever the next correction happens to be.
      query.settled =
          query.settled || stalled(query, step, level) || query.correction * gain < std::ldexp(1.0, 12 - 53 * words);
      done = done && query.settled;
    }
    if (!done) continue;
    for (Query& query : queries_) query.settled = false;
    if (words == words_) return;
    ++words, level = step + 1;
  }
}

void Block::solve() {
  weigh();
  if (problem_.slope != Slope::zero) centre();
  if (problem_.slope == Slope::given) {
    for (std::size_t b = 0; b < count(); ++b) set_probe(b);
    slopes(line_, words_);
  }
  if (problem_.slope == Slope::solved) {
    for (std::size_t b = 0; b < count(); ++b) {
      set_ridge(b);
      precondition(b);
    }
    refine(line_);
    residual(line_, words_);  // of the final eta: what the bound rests on, and the slopes of the output
  }
  for (std::size_t b = 0; b < count(); ++b)
    kernels_.output(score_.row(b), weight_.row(b), queries_[b].inverse, product_.row(b), keys_);
}

void Block::output(Certified& o) {
  std::vector<double> bounds(count());
  for (std::size_t b = 0; b < count(); ++b) bounds[b] = bound(b);
  kernels_.product(head_.v.data() + first_key_ * head_.value_stride, head_.value_stride,
                   static_cast<ConstPlanes>(score_.row(0)), 1, stride_, out_.row(0), out_.stride, head_.value_stride,
                   padded_queries_, keys_);
  for (std::size_t b = 0; b < count(); ++b)
    for (std::size_t c = 0; c < problem_.values; ++c) {
      const std::size_t to = queries_[b].index * problem_.values + c;
      for (int w = 0; w < words_; ++w) o.word[w][to] = out_.plane[w][b * out_.stride + c];
      for (int w = words_; w < o.words; ++w) o.word[w][to] = 0;
      o.bound[to] = bounds[b];
    }
}

}  // namespace assay::words::lla
