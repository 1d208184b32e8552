#include "judge/trial/rivals.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// Formats that the tables below have no line for go by the wider one that holds them in memory.
Format listed(Format dtype) {
  return dtype == Format::tf32 ? Format::fp32 : dtype == Format::exact ? Format::fp64 : dtype;
}

bool is_low(Format dtype) { return info(listed(dtype)).bits < 32; }

double error_at(const Evidence& t, std::size_t i) { return t.got[i] - t.want[i]; }

/// The largest |x - want|, infinite where anything is NaN.
double largest_error(std::span<const double> x, std::span<const double> want) {
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::fabs(x[i] - want[i]);
    if (!(error <= largest)) largest = std::isnan(error) ? HUGE_VAL : error;
  }
  return largest;
}

double largest(std::span<const double> x) {
  double most = 0;
  for (const double value : x) most = std::max(most, std::fabs(value));
  return most;
}

double sum_of_squares(std::span<const double> x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return sum;
}

double squared_error(const Evidence& t) {
  double sum = 0;
  for (std::size_t i = 0; i < t.got.size(); ++i) sum += error_at(t, i) * error_at(t, i);
  return sum;
}

/// How many elements are further off than atol + rtol |want|.
std::size_t mismatches(const Evidence& t, double rtol, double atol) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < t.got.size(); ++i)
    if (!(std::fabs(error_at(t, i)) <= atol + rtol * std::fabs(t.want[i]))) ++count;
  return count;
}

bool all_close(const Evidence& t, double rtol, double atol) { return mismatches(t, rtol, atol) == 0; }

struct Tolerance {
  double rtol, atol;
};

bool torch(const Evidence& t) {
  const Format dtype = listed(t.dtype);
  const auto [rtol, atol] = dtype == Format::fp16   ? Tolerance{1e-3, 1e-5}
                            : dtype == Format::fp64 ? Tolerance{1e-7, 1e-7}
                            : dtype == Format::fp32 ? Tolerance{1.3e-6, 1e-5}
                                                    : Tolerance{1.6e-2, 1e-5};
  return all_close(t, rtol, atol);
}

/// RMS(e) / (RMS(r) + 1e-8); NaN if anything is.
double fla_ratio(const Evidence& t) {
  const auto n = static_cast<double>(t.got.size());
  return std::sqrt(squared_error(t) / n) / (std::sqrt(sum_of_squares(t.want) / n) + 1e-8);
}

bool fla(const Evidence& t) { return largest_error(t.got, t.want) <= 1e-6 || fla_ratio(t) < 0.005; }

bool fla_ci(const Evidence& t) {
  const double ratio = fla_ratio(t), error = largest_error(t.got, t.want);
  return !std::isnan(ratio) && (error <= 1e-6 || ratio < 0.005 || ratio < 0.01 || error <= 0.3);
}

/// The reference as FlashAttention's tests have it: computed in fp32 or wider, rounded to the dtype.
std::vector<double> in_dtype(const Evidence& t) {
  std::vector<double> rounded;
  rounded.reserve(t.want.size());
  for (const double x : t.want) rounded.push_back(round_to(x, t.dtype));
  return rounded;
}

bool flash_attention_2(const Evidence& t) {
  const std::vector<double> r = in_dtype(t);
  return largest_error(t.got, r) <= (t.gradient ? 3 : 2) * largest_error(t.baseline, r);
}

bool flash_attention_3(const Evidence& t) {
  const std::vector<double> r = in_dtype(t);
  double atol = 0;
  for (const double x : r) atol = std::max(atol, std::fabs(round_to(round_to(x + 0.3, t.dtype) - 0.3, t.dtype) - x));
  return largest_error(t.got, r) <= 2 * largest_error(t.baseline, r) + 2 * atol;
}

bool ck_tile(const Evidence& t) { return is_low(t.dtype) ? all_close(t, 1e-3, 1e-3) : all_close(t, 1e-5, 3e-6); }

bool benchdnn(const Evidence& t) {
  const double eps = 2 * unit_roundoff(listed(t.dtype));
  const double threshold = (t.gradient ? 32 : 8) * (1 + static_cast<double>(t.keys)) * eps;
  for (std::size_t i = 0; i < t.got.size(); ++i) {
    const double error = std::fabs(error_at(t, i)), size = std::fabs(t.want[i]);
    const bool small = size <= 1e-5;
    if (!(error == 0 || (small && error < 0x1p-23) || (small ? error : error / size) <= threshold)) return false;
  }
  return true;
}

double ggml_error(const Evidence& t) {
  const double error = squared_error(t);
  return error == 0 ? 0 : error / sum_of_squares(t.got);
}
bool ggml(const Evidence& t) { return ggml_error(t) <= 5e-4; }
bool ggml_strict(const Evidence& t) { return ggml_error(t) <= 1e-7; }

/// Ascend's small-value domain: below `domain` an element counts as wrong if it is off by more than `error`.
struct SmallValues {
  double domain, error;
};
SmallValues small_values(Format dtype) {
  if (dtype == Format::fp16) return {0x1p-11, 0x1p-16};
  if (dtype == Format::bf16) return {0x1p-8, 0x1p-16};
  if (dtype == Format::e4m3) return {0x1p-4, 0x1p-6};
  if (dtype == Format::e5m2) return {0x1p-3, 0x1p-5};
  return {0x1p-14, 0x1p-30};
}

/// The measures of Ascend's ATK for one side: largest and mean relative error and RMSE of the values that are not
/// small, and how many of the small ones are wrong.
struct AtkMetrics {
  double mare = 0, mere = 0, rmse = 0, small_wrong = 0;
};
AtkMetrics atk_metrics(std::span<const double> x, std::span<const double> want, const SmallValues& small) {
  AtkMetrics m;
  double count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::fabs(x[i] - want[i]);
    if (std::isnan(error)) return {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL};
    if (std::fabs(want[i]) < small.domain) {
      m.small_wrong += error > small.error ? 1 : 0;
      continue;
    }
    const double q = error / (std::fabs(want[i]) + 1e-7);
    m.mare = std::max(m.mare, q);
    m.mere += q, m.rmse += error * error, ++count;
  }
  if (count > 0) m.mere /= count, m.rmse = std::sqrt(m.rmse / count);
  return m;
}

bool ascend_atk(const Evidence& t) {
  const SmallValues small = small_values(t.dtype);
  const AtkMetrics dut = atk_metrics(t.got, t.want, small), benchmark = atk_metrics(t.baseline, t.want, small);
  const auto within = [&](double ours, double theirs, double ratio) {
    return ours <= ratio * std::max(theirs, small.error);
  };
  return within(dut.mare, benchmark.mare, 5) && within(dut.mere, benchmark.mere, 1.5) &&
         within(dut.rmse, benchmark.rmse, 1.5) && dut.small_wrong <= 2 * std::max(benchmark.small_wrong, 1.0);
}

bool cudnn_frontend(const Evidence& t) {
  return all_close(t, 2e-2, t.of_key_or_value && listed(t.dtype) == Format::bf16 ? 7e-2 : 2e-2);
}

bool cutlass_fmha(const Evidence& t) {
  double sum = 0;
  for (std::size_t i = 0; i < t.got.size(); ++i) sum += std::fabs(error_at(t, i));
  return largest_error(t.got, t.want) < 1e-2 && sum / static_cast<double>(t.got.size()) < 1e-3;
}

bool kernelbench(const Evidence& t) { return is_low(t.dtype) ? all_close(t, 1e-2, 1e-2) : all_close(t, 1e-4, 1e-4); }

double inner_product(const Evidence& t) {
  double sum = 0;
  for (std::size_t i = 0; i < t.got.size(); ++i) sum += t.got[i] * t.want[i];
  return sum;
}

bool deepgemm(const Evidence& t) {
  const double squares = sum_of_squares(t.got) + sum_of_squares(t.want);
  return squares == 0 || 1 - 2 * inner_product(t) / squares < 1e-3;
}

bool flashinfer(const Evidence& t) { return all_close(t, 1e-2, 1e-2); }

bool flashinfer_cosine(const Evidence& t) {
  const double sizes = std::sqrt(sum_of_squares(t.got)) * std::sqrt(sum_of_squares(t.want));
  return sizes == 0 ? squared_error(t) == 0 : inner_product(t) / sizes > 0.99;
}

bool lapack(const Evidence& t) {
  return largest_error(t.got, t.want) <= 30 * unit_roundoff(listed(t.dtype)) * largest(t.want);
}

bool has_nan(const Evidence& t) {
  return std::any_of(t.got.begin(), t.got.end(), [](double x) { return std::isnan(x); });
}

bool aiter(const Evidence& t) {
  return !has_nan(t) && static_cast<double>(mismatches(t, 1e-2, 1e-2)) <= 0.05 * static_cast<double>(t.got.size());
}

bool parallax_decode(const Evidence& t) {
  const double error = largest_error(t.got, t.want);
  return error == 0 || error / largest(t.want) < 1e-2;
}

bool parallax_median(const Evidence& t) {
  if (has_nan(t)) return false;
  std::vector<double> errors;
  errors.reserve(t.got.size());
  for (std::size_t i = 0; i < t.got.size(); ++i)
    errors.push_back(error_at(t, i) == 0 ? 0 : std::fabs(error_at(t, i)) / std::fabs(t.want[i]));
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>((errors.size() - 1) / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  return *middle < 1e-2;
}

constexpr Rival all_rivals[] = {
    {"torch", "|e| <= atol + rtol |r|; rtol/atol: bf16 1.6e-2/1e-5, fp16 1e-3/1e-5, fp32 1.3e-6/1e-5, fp64 1e-7/1e-7",
     "torch.testing.assert_close", "faults of the size of its constants", torch},
    {"fla", "max|e| <= 1e-6 or RMS(e) / (RMS(r) + 1e-8) < 0.005", "fla/utils/_testing.py, assert_close",
     "what is wrong in few elements", fla},
    {"fla_ci", "as fla, or the ratio < 0.01, or max|e| <= 0.3", "the same under FLA_CI_ENV=1, as its workflows set it",
     "whatever is smaller than 0.3", fla_ci},
    {"flash_attention_2", "max|o - r| <= 2 max|b - r|, gradients 3 max|b - r|", "flash-attention tests, FA2",
     "late rows and small channels; the baseline's own error", flash_attention_2},
    {"flash_attention_3", "max|o - r| <= 2 max|b - r| + 2 max|(r + 0.3 - 0.3) - r|", "hopper/test_flash_attn.py, FA3",
     "as flash_attention_2, and what is lost beside 0.3", flash_attention_3},
    {"ck_tile", "|e| <= atol + rtol |r|; rtol/atol: 16 bits 1e-3/1e-3, fp32 1e-5/3e-6", "ck_tile check_err, defaults",
     "faults of the size of its constants", ck_tile},
    {"benchdnn", "|e| / |r| <= 8 (1 + keys) eps, gradients 32 (1 + keys) eps; |e| where |r| <= 1e-5",
     "oneDNN, benchdnn SDPA", "everything, zeros too, from 16 keys on in bf16", benchdnn},
    {"ggml", "sum e^2 / sum o^2 <= 5e-4", "ggml tests/test-backend-ops.cpp, flash_attn_ext",
     "what is wrong in few elements; 2% of everything", ggml},
    {"ggml_strict", "sum e^2 / sum o^2 <= 1e-7", "ggml tests/test-backend-ops.cpp, default",
     "what is wrong in few elements", ggml_strict},
    {"ascend_atk", "MARE, MERE, RMSE at most 5, 1.5, 1.5 times the baseline's; small values wrong: twice as many",
     "Ascend ATK, level L1", "the baseline's own error", ascend_atk},
    {"cudnn_frontend", "|e| <= 2e-2 + 2e-2 |r|; dK, dV in bf16 7e-2 + 2e-2 |r|", "cudnn-frontend SDPA tests",
     "gradients smaller than the constants", cudnn_frontend},
    {"cutlass_fmha", "max|e| < 1e-2 and mean|e| < 1e-3", "CUTLASS examples 77 and 88",
     "what is small as a whole; it rejects what is large", cutlass_fmha},
    {"kernelbench", "|e| <= 1e-2 + 1e-2 |r|, fp32 1e-4 + 1e-4 |r|", "KernelBench",
     "faults of the size of its constants", kernelbench},
    {"deepgemm", "1 - 2 <o, r> / (|o|^2 + |r|^2) < 1e-3", "DeepGEMM, calc_diff", "what is wrong in few elements",
     deepgemm},
    {"flashinfer", "|e| <= 1e-2 + 1e-2 |r|", "flashinfer tests", "faults of the size of its constants", flashinfer},
    {"flashinfer_cosine", "cos(o, r) > 0.99", "flashinfer tests", "gains; what is wrong in few elements",
     flashinfer_cosine},
    {"aiter", "|e| <= 1e-2 + 1e-2 |r| but for 5% of the elements", "aiter checkAllclose", "one head of twenty", aiter},
    {"lapack", "max|e| / (max|r| eps) <= 30, eps half the spacing", "LAPACK TESTING, dget04 with rcond 1, dtest.in",
     "late rows and small channels; 12% of the largest in bf16", lapack},
    {"parallax_decode", "max|e| / max|r| < 1e-2", "Parallax decode tests", "late rows and small channels",
     parallax_decode},
    {"parallax_median", "the median of |e| / |r| < 1e-2", "Parallax Helion train and varlen checks",
     "half of the elements", parallax_median},
};

}  // namespace

std::span<const Rival> rivals() { return all_rivals; }

const Rival* find_rival(std::string_view name) {
  const auto* const it = std::ranges::find_if(all_rivals, [&](const Rival& r) { return r.name == name; });
  return it == std::end(all_rivals) ? nullptr : it;
}

}  // namespace assay
