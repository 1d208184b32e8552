#include "tools/baseline/baseline_change.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "judge/verdict/judge.hpp"

namespace assay {
namespace {

/// Statistics of the errors' logarithms. An error that is exact on some seeds counts there as the smallest inexact one.
struct Logs {
  double mean = 0, variance_of_mean = 0;
  double count = 0;
};

Logs logs_of(const std::vector<double>& errors, double smallest) {
  Logs logs;
  logs.count = static_cast<double>(errors.size());
  for (const double x : errors) logs.mean += std::log(std::max(x, smallest)) / logs.count;
  for (const double x : errors) {
    const double off = std::log(std::max(x, smallest)) - logs.mean;
    logs.variance_of_mean += off * off / (logs.count - 1) / logs.count;
  }
  return logs;
}

/// The t that is exceeded as rarely, of a difference of two means.
double welch_limit(const Logs& a, const Logs& b, double rate) {
  const double x = a.variance_of_mean, y = b.variance_of_mean;
  if (x + y == 0) return 0;
  const double freedom = (x + y) * (x + y) / (x * x / (a.count - 1) + y * y / (b.count - 1));
  return quantile(complement(boost::math::students_t_distribution<double>(freedom), rate));
}

std::string verdict_that_fails(const BaselineRow& before, const BaselineRow& after) {
  const std::string fail(name_of(Verdict::fail));
  const auto fails = [&](const BaselineRow& row) {
    return std::find(row.verdicts.begin(), row.verdicts.end(), fail) != row.verdicts.end();
  };
  return fails(after) && !fails(before) ? "was never " + fail + ", and is" : "";
}

/// Whether errors and verdicts are those of before. In units of sigma they may be other ones: of an answer that is far
/// within its limits sigma is known from fewer draws.
bool has_moved(const BaselineRow& before, BaselineRow after) {
  after.rms_z = before.rms_z, after.worst_z = before.worst_z;
  return before != after;
}

Comparison compared(const BaselineRow& before, const BaselineRow& after, double rate) {
  Comparison c{.row = after};
  if (!has_moved(before, after)) {
    c.before = c.after = std::exp(logs_of(after.relative_error, std::numeric_limits<double>::min()).mean);
    if (std::ranges::all_of(after.relative_error, [](double x) { return x == 0; })) c.before = c.after = 0;
    return c;
  }
  const auto set = [&c](Change change, std::string why) { c.change = change, c.why = std::move(why); };
  double smallest = std::numeric_limits<double>::infinity();
  for (const auto* row : {&before, &after})
    for (const double x : row->relative_error)
      if (x > 0) smallest = std::min(smallest, x);
  const auto finite = [](const BaselineRow& row) {
    return std::all_of(row.relative_error.begin(), row.relative_error.end(), [](double x) { return std::isfinite(x); });
  };
  const auto exact = [](const BaselineRow& row) {
    return std::all_of(row.relative_error.begin(), row.relative_error.end(), [](double x) { return x == 0; });
  };
  if (!finite(after)) {
    c.after = c.growth = std::numeric_limits<double>::quiet_NaN();
    set(Change::worse, "its error is not finite");
    return c;
  }
  if (!finite(before)) {  // no noise to compare with
    c.before = c.growth = c.noise = std::numeric_limits<double>::quiet_NaN();
    c.after = exact(after) ? 0 : std::exp(logs_of(after.relative_error, smallest).mean);
    const std::string why = verdict_that_fails(before, after);
    set(why.empty() ? Change::better : Change::worse, why);
    return c;
  }
  if (std::isinf(smallest)) {  // exact before and after
    c.growth = 1;
    const std::string why = verdict_that_fails(before, after);
    set(why.empty() ? Change::noise : Change::worse, why);
    return c;
  }
  const Logs was = logs_of(before.relative_error, smallest), is = logs_of(after.relative_error, smallest);
  const double limit = welch_limit(was, is, rate) * std::sqrt(was.variance_of_mean + is.variance_of_mean),
               growth = is.mean - was.mean;
  c.before = exact(before) ? 0 : std::exp(was.mean), c.after = exact(after) ? 0 : std::exp(is.mean);
  c.growth = c.after / c.before, c.noise = std::exp(limit);
  if (exact(before))
    set(Change::worse, "was exact");
  else if (exact(after))
    set(Change::better, "");
  else
    set(growth > limit ? Change::worse : growth < -limit ? Change::better : Change::noise, "");
  if (c.change != Change::worse)
    if (const std::string why = verdict_that_fails(before, after); !why.empty()) set(Change::worse, why);
  return c;
}

}  // namespace

double student_tail(double t, double freedom) {
  return cdf(complement(boost::math::students_t_distribution<double>(freedom), t));
}

std::string_view name_of(Change change) {
  constexpr std::string_view names[] = {"same", "noise", "better", "WORSE", "MISSING", "new"};
  return names[static_cast<int>(change)];
}

std::vector<Comparison> compare_rows(const std::vector<BaselineRow>& before, const std::vector<BaselineRow>& after,
                                     double rate) {
  std::vector<Comparison> list;
  const double each = rate / static_cast<double>(std::max<std::size_t>(1, before.size()));
  for (const BaselineRow& was : before) {
    const auto is = std::find_if(after.begin(), after.end(), [&](const BaselineRow& x) { return same_place(x, was); });
    if (is == after.end())
      list.push_back({.row = was, .change = Change::missing});
    else
      list.push_back(compared(was, *is, each));
  }
  for (const BaselineRow& is : after)
    if (std::none_of(before.begin(), before.end(), [&](const BaselineRow& x) { return same_place(x, is); }))
      list.push_back({.row = is, .change = Change::added});
  return list;
}

}  // namespace assay
