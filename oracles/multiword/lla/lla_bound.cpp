// docs/error-analysis.md, section 5, with its names: what a row of local linear attention may be off by.
#include <limits>
#include <utility>

#include "oracles/multiword/lla/lla_block.hpp"

namespace assay::words::lla {

RowErrors Block::row_errors(std::size_t b) {
  const Query& query = queries_[b];
  const Constants& c = constants_;
  RowErrors row;
  row.rows = static_cast<double>(keys_) / 8 + 9;
  row.gamma_d = matrix_accumulation(words_, static_cast<int>(problem_.dim));
  row.gamma_n = matrix_accumulation(words_, static_cast<int>(keys_));
  row.gamma_dot = c.multiply + c.add * 1.01 * (static_cast<double>(head_.dim_stride) / 8 + 9);
  row.center_size = row_size(center_.row(b), problem_.dim, words_).norm;
  row.omega = query.omega[0] * (1 - 0x1p-40);
  const auto from = head_.key_norm.begin() + static_cast<std::ptrdiff_t>(first_key_);
  row.key_size = *std::max_element(from, from + static_cast<std::ptrdiff_t>(keys_));

  const double factor = std::fabs(problem_.inverse_bandwidth.word[0]) * (1 + 0x1p-40);
  const double score = factor * head_.query_norm[query.index];
  row.weight_per_key = 1.02 * score * (row.gamma_d + problem_.inverse_bandwidth.error_of(words_) + c.multiply + c.add);
  row.weight = 1.02 * (c.add * std::fabs(query.shift) + c.exp);
  // The proofs of exp and of the factors 1.01 want small errors and scores whose words are in order.
  row.tame = row.weight_per_key * row.key_size + row.weight < 0x1p-20 && score * row.key_size < 0x1p40;
  if (!row.tame) return row;

  double sum_ek = 0, sum_k = 0;
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j) {
    const double kn = head_.key_norm[first_key_ + j], e = weight_error(row, b, j);
    row.sum_e += e, sum_ek += e * kn, sum_k += weight(b, j) * kn, row.largest_e = std::max(row.largest_e, e);
  }
  sum_k *= 1 + 0x1p-39;
  const double mean_k = sum_k / row.omega;
  row.mean = 1.01 / row.omega *
             (sum_ek + 1.01 * mean_k * row.sum_e + (row.gamma_n + query.inverse_error + 1.01 * c.multiply) * sum_k);
  row.normalised = 1.01 * (row.sum_e / row.omega + query.inverse_error + c.multiply);

  if (problem_.slope != Slope::solved) {
    row.eigenvalue = 1;  // only energies of 0 are divided by it
    return row;
  }
  const double unit_share = problem_.mode == RidgeMode::mass  ? row.sum_e + query.inverse_error * row.omega * 1.01
                            : problem_.mode == RidgeMode::max ? row.largest_e
                                                              : 0;
  double largest_lambda = 0;
  for (std::size_t a = 0; a < problem_.dim; ++a)
    largest_lambda = std::max(largest_lambda, head_.lambda(query.index, a));
  row.unit = query.unit_error + unit_share * 1.01;
  row.ridge = query.ridge_error + largest_lambda * unit_share * 1.01;
  row.eigenvalue = weakest_eigenvalue(b, row, sum_k, mean_k);
  return row;
}

/// Lower bound of the exact matrix's smallest eigenvalue: less what A is off by when its weights and mean are.
double Block::weakest_eigenvalue(std::size_t b, const RowErrors& row, double sum_k, double mean_k) {
  const Query& query = queries_[b];
  const double reach = std::max(row.center_size, mean_k) * 1.01, omega_most = query.omega[0] * (1 + 0x1p-39);
  double d_matrix = 2.02 * row.mean * (sum_k + omega_most * reach) + 1.01 * omega_most * row.mean * row.mean;
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j) {
    const double x = head_.key_norm[first_key_ + j] + reach;
    d_matrix += weight_error(row, b, j) * x * x;
  }
  const double proven = query.eigenvalue - row.ridge - d_matrix * 1.01;
  return std::max({proven, query.ridge_least * (1 - 0x1p-40) - row.ridge, 0.0});
}

SystemErrors Block::system_errors(std::size_t b, const RowErrors& row, System& system, std::vector<double> slope,
                                  double pull_error, double pull_size) {
  const Query& query = queries_[b];
  const Constants& c = constants_;
  const RowSize unknown = row_size(system.unknown.row(b), problem_.dim, words_);
  const double N = unknown.norm, C = row.center_size;
  const Field::Row t = system.slope.row(b);
  SystemErrors errors{N, unknown.largest, 0, 0, 0, std::move(slope), std::vector<double>(keys_, 0)};
  double du = 0, uk = 0, u0 = 0;
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j) {
    const double kn = head_.key_norm[first_key_ + j], w = weight(b, j) * (1 + 0x1p-39);
    const double ts = size_at(t, j, words_), tau = errors.slope[j], u = 1.01 * w * ts;
    const double eu = 1.01 * w * (tau + c.multiply * ts) + weight_error(row, b, j) * (1.01 * ts + tau);
    errors.product[j] = eu;
    du += eu * (kn + C), uk += u * kn, u0 += u;
  }
  const double everything = pull_size + query.ridge_most * N + uk + C * u0;
  const double floor =
      underflow * static_cast<double>(query.keys.last - query.keys.first) * (1 + row.key_size) * (1 + N + C);
  errors.missed = pull_error + row.ridge * N + du + row.gamma_n * uk + c.add * row.rows * C * u0 +
                  1.01 * (4 * c.add + 2 * c.multiply) * everything + floor;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool proven = row.tame && row.eigenvalue > 0;
  if (problem_.slope != Slope::solved) {
    errors.energy = errors.norm = proven ? 0 : infinity;
    return errors;
  }
  const double residual = row_size(system.residual.row(b), problem_.dim, words_).norm + errors.missed;
  errors.energy = proven ? residual / std::sqrt(row.eigenvalue) * safety : infinity;
  errors.norm = proven ? errors.energy / std::sqrt(row.eigenvalue) * safety : infinity;
  return errors;
}

SystemErrors Block::line_errors(std::size_t b, const RowErrors& row) {
  const double N = row_size(line_.unknown.row(b), problem_.dim, words_).norm, C = row.center_size;
  const double per_key = N * (row.gamma_d + constants_.add);
  // A given eta is off by the errors of rho and of 1 / omega, which are errors of the slopes.
  const double of_probe = 1.01 / row.omega * queries_[b].probe_error;
  const double given = problem_.slope == Slope::given ? 1.01 * N * row.normalised + of_probe + underflow : 0;
  const double constant = N * ((row.gamma_dot + constants_.add) * C + row.mean) + 1.01 * given * (C + row.mean);
  std::vector<double> slope(keys_);
  for (std::size_t j = 0; j < keys_; ++j)
    slope[j] = (per_key + 1.01 * given) * head_.key_norm[first_key_ + j] + constant;
  SystemErrors errors =
      system_errors(b, row, line_, std::move(slope), row.mean, C + head_.query_norm[queries_[b].index]);
  errors.norm += given;
  return errors;
}

std::vector<double> Block::score_errors(std::size_t b, const RowErrors& row, const SystemErrors& line) {
  const Field::Row t = line_.slope.row(b);
  const double inverse = 1.01 / row.omega;
  std::vector<double> errors(keys_, 0);
  for (std::size_t j = queries_[b].keys.first; j < queries_[b].keys.last; ++j) {
    const double w = weight(b, j) * (1 + 0x1p-39), e = weight_error(row, b, j);
    const double u = 1.01 * w * size_at(t, j, words_);
    errors[j] = line.product[j] + inverse * (e + w * row.normalised) + constants_.add * 1.01 * (w * inverse + u);
  }
  return errors;
}

double Block::bound(std::size_t b) {
  const Query& query = queries_[b];
  auto& [row, line, score] = proofs_[b];
  row = row_errors(b);
  line = line_errors(b, row);
  score = score_errors(b, row, line);
  if (!row.tame) return std::numeric_limits<double>::infinity();
  const Field::Row t = line_.slope.row(b);
  const double inverse = 1.01 / row.omega;
  double direct = 0, square = 0, largest_value = 0;
  for (std::size_t j = query.keys.first; j < query.keys.last; ++j) {
    const double vm = head_.value_max[first_key_ + j], w = weight(b, j) * (1 + 0x1p-39);
    const double size = w * inverse + 1.01 * w * size_at(t, j, words_);
    direct += vm * (score[j] + row.gamma_n * 1.01 * size);
    square += (w + weight_error(row, b, j)) * vm * vm;
    largest_value = std::max(largest_value, vm);
  }
  const double total = direct + std::sqrt(square) * line.energy;
  const double floor = underflow * static_cast<double>(query.keys.last - query.keys.first) * (1 + row.key_size) *
                       (1 + line.size + row.center_size) * (1 + largest_value);
  return (total * 1.0001 + floor) * safety;
}

}  // namespace assay::words::lla
