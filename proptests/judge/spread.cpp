// The estimator of sigma on trial: draws from known distributions, and a small kernel whose rounding sites are known.
#include "judge/sigma/spread.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "judge/sigma/expected.hpp"
#include "proptests/judge/noise.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

constexpr int draws = default_draws;

/// Draws of twice the variance sigma^2 around `exact`, as jittered rounding gives. `noise` makes one draw's deviations.
std::vector<std::vector<double>> draws_of(const std::vector<double>& exact,
                                          const std::function<std::vector<double>()>& noise) {
  std::vector<std::vector<double>> list;
  for (int k = 0; k < draws; ++k) {
    list.push_back(noise());
    for (std::size_t i = 0; i < exact.size(); ++i) list.back()[i] = exact[i] + std::sqrt(2.0) * list.back()[i];
  }
  return list;
}

struct Model {
  const char* name;
  Layout layout;
  std::function<double(int h, int r, int c, Noise&)> sigma;
  bool common = false;  ///< all elements move together
};

std::vector<Model> models() {
  const auto smooth = [](int h, int r, int c, Noise&) { return (h + 1) * std::sqrt(1.0 + r) / (1 + 0.1 * c); };
  const auto rough = [](int, int, int, Noise& random) { return std::exp(0.4 * random.normal()); };
  const auto equal = [](int, int, int, Noise&) { return 0.1; };
  return {
      {"smooth", {2, 40, 16}, smooth},           {"rough", {2, 40, 16}, rough}, {"rough vector", {2, 60, 1}, rough},
      {"one number", {1, 1, 1}, equal},          {"few", {1, 4, 1}, equal},     {"common", {1, 20, 16}, smooth, true},
      {"common vector", {1, 20, 1}, equal, true}};
}

std::vector<double> sigmas_of(const Model& model, Noise& random) {
  std::vector<double> sigma;
  for (int h = 0; h < model.layout.heads; ++h)
    for (int r = 0; r < model.layout.rows; ++r)
      for (int c = 0; c < model.layout.cols; ++c) sigma.push_back(model.sigma(h, r, c, random));
  return sigma;
}

std::vector<double> noise_of(const Model& model, const std::vector<double>& sigma, Noise& random) {
  std::vector<double> noise(sigma.size());
  const double shared = random.normal();
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = sigma[i] * (model.common ? shared : random.normal());
  return noise;
}

TEST(Spread, knows_how_many_elements_are_independent) {
  for (const Model& model : models()) {
    Noise random(4);
    const std::vector<double> sigma = sigmas_of(model, random), exact(sigma.size());
    const Spread spread =
        spread_of(draws_of(exact, [&] { return noise_of(model, sigma, random); }), exact, model.layout, Format::fp64);
    const double truth = model.common ? 1 : static_cast<double>(sigma.size());
    EXPECT_LE(spread.independent, truth * 1.5) << model.name;
    EXPECT_GE(spread.independent, truth / 3) << model.name;
  }
}

/// Neighbours are asked for what they know. Where they know nothing, their guess makes nothing worse than the element's
/// own draws are: a relative error of sqrt(1 / 2 nu).
TEST(Spread, pooling_is_no_worse_than_leaving_elements_alone) {
  const Layout layout{2, 60, 16};
  struct Scatter {
    const char* name;
    std::function<double(Noise&)> sigma;
  };
  const Scatter scatters[] = {
      {"equal", [](Noise&) { return 1.0; }},
      {"lognormal", [](Noise& random) { return std::exp(random.normal()); }},
      {"three decades", [](Noise& random) { return std::pow(10, -3 * random.uniform()); }},
      {"few far below", [](Noise& random) { return random.uniform() < 0.05 ? 1e-3 : 1; }},
      {"few far above", [](Noise& random) { return random.uniform() < 0.05 ? 1e3 : 1; }},
      {"many below", [](Noise& random) { return random.uniform() < 0.4 ? 0.2 : 1; }},
      {"many above", [](Noise& random) { return random.uniform() < 0.4 ? 5 : 1; }},
  };
  for (const Scatter& scatter : scatters) {
    Noise random(6);
    std::vector<double> sigma(layout.size());
    for (double& s : sigma) s = scatter.sigma(random);
    const std::vector<double> exact(sigma.size());
    const auto noise = [&] {
      std::vector<double> errors;
      for (const double s : sigma) errors.push_back(s * random.normal());
      return errors;
    };
    const Spread spread = spread_of(draws_of(exact, noise), exact, layout, Format::fp64);
    double squares = 0;
    for (std::size_t i = 0; i < sigma.size(); ++i) {
      const double off = std::sqrt(spread.drawn[i]) / sigma[i] - 1;
      squares += off * off;
    }
    const double rms = std::sqrt(squares / static_cast<double>(sigma.size()));
    EXPECT_LT(rms, 1.1 * std::sqrt(0.5 / (draws - 1))) << scatter.name;
  }
}

/// Neighbours that no draw moves say nothing of one that all move.
TEST(Spread, exact_neighbours_are_no_witnesses) {
  const Layout layout{1, 40, 3};
  const std::vector<double> exact(layout.size());
  std::vector<std::vector<double>> samples(draws, exact);
  for (int k = 0; k < draws; ++k) samples[static_cast<std::size_t>(k)][61] = k % 2 == 0 ? 1 : -1;
  const Spread spread = spread_of(samples, exact, layout, Format::fp64);
  EXPECT_NEAR(spread.sigma[61] * spread.sigma[61], 0.5 * draws / (draws - 1), 1e-12);
  EXPECT_NEAR(spread.freedom[61], draws - 1, 1e-9);
}

/// Sums go block by block: all of them count, and threads change no bit.
TEST(Spread, of_a_large_tensor_has_the_same_bits_on_any_number_of_threads) {
  constexpr int many = 32;
  const Layout layout{2, 4099, 16};  // two blocks, and some
  Noise random(3);
  const std::vector<double> exact(layout.size(), 1.0);
  std::vector<std::vector<double>> list(many, std::vector<double>(layout.size()));
  for (std::vector<double>& draw : list) std::ranges::generate(draw, [&] { return random.normal(); });
  const Spread one = spread_of(list, exact, layout, Format::fp64, 1),
               five = spread_of(list, exact, layout, Format::fp64, 1, {}, 5);
  EXPECT_EQ(one.sigma, five.sigma);
  EXPECT_EQ(one.freedom, five.freedom);
  EXPECT_EQ(one.independent, five.independent);
  EXPECT_EQ(one.excess, five.excess);
  // Draws of independent elements estimate tr(Sigma^2) by the squares of a traceless symmetric nu x nu matrix of normal
  // numbers. The estimate is enlarged by two standard errors. Five sigma of it; a block left out halves it.
  const double nu = many - 1, numbers = nu * (nu + 1) / 2 - 1;
  EXPECT_NEAR(one.independent / static_cast<double>(layout.size()) * (1 + 4 / nu), 1, 5 * std::sqrt(2 / numbers));
}

/// Three draws that agree know nothing of what they would scatter by, and the limit is still a number.
TEST(Spread, of_one_number_that_stands_still_has_a_limit) {
  const std::vector<std::vector<double>> still(3, {1.5});
  const Spread spread = spread_of(still, std::vector<double>{1}, {1, 1, 1}, Format::fp64);
  EXPECT_EQ(spread.sigma[0], 0.5);
  EXPECT_GT(rms_limit(spread, 1e-6), 1);
}

/// Fresh errors of the true sigma against limits from the draws, many times over.
TEST(Spread, limits_raise_false_alarms_no_more_often_than_stated) {
  constexpr double rate = 0.01, sigmas = 3;
  const double element_rate = std::erfc(sigmas / std::sqrt(2.0));
  for (const Model& model : models()) {
    Noise random(5);
    const std::vector<double> sigma = sigmas_of(model, random), exact(sigma.size());
    const int trials = sigma.size() > 100 ? 300 : 3000;
    int alarms = 0;
    double elements = 0, over = 0;
    for (int t = 0; t < trials; ++t) {
      const Spread spread =
          spread_of(draws_of(exact, [&] { return noise_of(model, sigma, random); }), exact, model.layout, Format::fp64);
      const std::vector<double> error = noise_of(model, sigma, random);
      double squares = 0;
      for (std::size_t i = 0; i < error.size(); ++i) {
        const double z = error[i] / spread.sigma[i];
        squares += z * z, ++elements;
        over += std::fabs(z) <= equivalent_sigmas(sigmas, spread.freedom[i]) ? 0 : 1;
      }
      // Without the allowance of sqrt(2) for how values lie between grid points: these errors need none.
      const double limit = rms_limit(spread, rate) / std::sqrt(2.0);
      alarms += std::sqrt(squares / static_cast<double>(error.size())) <= limit ? 0 : 1;
    }
    EXPECT_LE(alarms, trials * rate + 5 * std::sqrt(trials * rate)) << model.name;
    // Elements of one trial may move together: only trials are surely independent.
    const double independent = model.common ? trials : elements;
    EXPECT_LE(over / elements, element_rate + 5 * std::sqrt(element_rate / independent)) << model.name;
  }
}

/// Draws of a sum whose terms are known, too, of sigmas that fall by a ratio from one to the next. How often an error
/// of the true sigma is beyond a limit is worked out for each, far into the tails.
TEST(Spread, of_a_sum_is_known_by_its_terms) {
  struct Sum {
    std::size_t draws, terms;
  };
  for (const Sum& sum : {Sum{8, 8}, Sum{16, 2}, Sum{16, 8}})
    for (const double ratio : {1.0, 0.8})
      for (const double sigmas : {3.0, 4.5, 6.0}) {
        constexpr int trials = 2000;
        Noise random(7);
        double beyond = 0, by_terms = 0, alone = 0;
        for (int t = 0; t < trials; ++t) {
          std::vector<std::vector<double>> sums(sum.draws, {0}), each(sum.draws);
          double variance = 0;
          for (std::size_t i = 0; i < sum.terms; ++i) {
            const double sigma = std::pow(ratio, i);
            variance += sigma * sigma;
            for (std::size_t k = 0; k < sum.draws; ++k)
              each[k].push_back(sigma * random.normal()), sums[k][0] += each[k].back();
          }
          const auto limit = [&](const std::vector<std::vector<double>>& terms) {
            const Spread spread = spread_of(sums, std::vector<double>{0}, {1, 1, 1}, Format::fp64, 1, terms);
            return equivalent_sigmas(sigmas, spread.freedom[0]) * spread.sigma[0] / std::sqrt(variance);
          };
          const double known = limit(each);
          beyond += std::erfc(known / std::sqrt(2.0)) / trials, by_terms += known, alone += limit({});
        }
        EXPECT_LE(beyond, std::erfc(sigmas / std::sqrt(2.0))) << sum.draws << " draws of " << sum.terms << ' ' << ratio;
        EXPECT_LT(by_terms, alone);
      }
}

TEST(Spread, equivalent_sigmas_are_students) {
  for (const double freedom : {11.0, 20.0, 50.0, 300.0, 1e5}) {
    const boost::math::students_t student(freedom);
    const double tail = cdf(complement(boost::math::normal(), 7.0));
    const double exact = quantile(complement(student, tail));
    EXPECT_GE(equivalent_sigmas(7, freedom) / exact, 1 - 1e-3)
        << freedom;  // it errs on the wide side, at most 4 % here
    EXPECT_LE(equivalent_sigmas(7, freedom) / exact, 1.04) << freedom;
  }
  EXPECT_EQ(equivalent_sigmas(7, std::numeric_limits<double>::infinity()), 7);
}

TEST(Spread, counts_a_bias_that_no_draw_shows) {
  const std::size_t n = 64;
  const std::vector<double> exact(n, 3.0);
  const std::vector<std::vector<double>> stuck(draws, std::vector<double>(n, 2.5));
  const Spread spread = spread_of(stuck, exact, {1, 8, 8}, Format::fp64);
  for (const double sigma : spread.sigma) EXPECT_NEAR(sigma, 0.5, 1e-12);
}

TEST(Spread, adds_the_output_rounding_only_where_there_is_one) {
  const std::vector<double> exact = {1.0, 1.001, 3.0, -5.003};
  const std::vector<std::vector<double>> same(draws, exact);
  const Spread spread = spread_of(same, exact, {1, 2, 2}, Format::bf16);
  EXPECT_EQ(spread.sigma[0], 0);
  EXPECT_DOUBLE_EQ(spread.sigma[1], 0x1p-7 / std::sqrt(12.0));
  EXPECT_EQ(spread.sigma[2], 0);
  EXPECT_DOUBLE_EQ(spread.sigma[3], 0x1p-5 / std::sqrt(12.0));
  // On the grid already: whatever rounded them has been drawn, here evenly to both neighbours of the exact value.
  std::vector<std::vector<double>> on_grid(draws, {1.0});
  for (int k = 0; k < draws; k += 2) on_grid[static_cast<std::size_t>(k)] = {1.0078125};
  const double variance = 0x1p-14 / 4 * draws / (draws - 1);
  EXPECT_DOUBLE_EQ(spread_of(on_grid, {{1.00390625}}, {1, 1, 1}, Format::bf16).sigma[0], std::sqrt(variance / 2));
  EXPECT_DOUBLE_EQ(spread_of(on_grid, {{1.00390625}}, {1, 1, 1}, Format::e4m3).sigma[0],
                   std::sqrt(variance / 2 + 0x1p-6 / 12));
  // Nor does jitter draw what subnormal numbers lose.
  on_grid.assign(draws, {0x1p-9});
  const Spread subnormal = spread_of(on_grid, {{0x1.2p-9}}, {1, 1, 1}, Format::e4m3);
  EXPECT_DOUBLE_EQ(subnormal.sigma[0], std::sqrt(0x1p-24 + 0x1p-18 / 12));
}

TEST(Spread, spacing_is_that_of_the_binade) {
  for (const Format format : all_formats)
    for (int exponent = -1076; exponent <= 1024; ++exponent)
      for (const double factor : {1.0, -1.0, 1.5, 2 - 0x1p-52}) {
        const double x = std::ldexp(factor, exponent);
        const FormatInfo f = info(format);
        const int binade = x == 0 || !std::isfinite(x) ? f.min_exponent : std::max(std::ilogb(x), f.min_exponent);
        EXPECT_EQ(spacing(format, x), std::ldexp(1.0, binade - f.mantissa_bits)) << name_of(format) << ' ' << x;
      }
}

// ---- a small kernel ----

constexpr int depth = 8;
constexpr tile::SiteTable::Init toy_roles[] = {
    {"P", tile::Role::operand}, {"S", tile::Role::accumulator}, {"out", tile::Role::output}};
constexpr tile::SiteTable toy_sites(toy_roles);

std::size_t at(int row, int cols, int col) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(col);
}

/// o = w v, every product rounded at P, every partial sum at S.
Answer toy(const Problem& problem, const Policy& policy, int) {
  const Array &w = problem.inputs.at("w"), &v = problem.inputs.at("v");
  const int rows = w.shape[1], cols = v.shape[2];
  RandomBits random{policy.seed};
  const auto round = [&](const char* site, double x) {
    const Format format = policy.sites.at(site);
    return format == Format::exact ? x : round_to(x, format, policy.rounding, random.next());
  };
  Array o({1, rows, cols});
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      double sum = 0;
      for (int k = 0; k < depth; ++k) {
        const double x = w.data[at(r, depth, k)] * v.data[at(k, cols, c)];
        sum = round("S", sum + round("P", x));
      }
      o.data[at(r, cols, c)] = round("out", sum);
    }
  return {{{"o", o}}, {}};
}
constexpr std::string_view toy_tiles[] = {"1x1"};
std::string no_obstacle(const Problem&) { return ""; }
constexpr KernelForm toy_form = {"toy", "", toy_sites, toy_tiles, {}, false, no_obstacle, toy};

Problem toy_problem() {
  Noise random(1);
  Array w({1, 48, depth}), v({1, depth, 32});
  for (Array* a : {&w, &v})
    for (double& x : a->data) x = round_to(random.normal(), Format::fp32);
  Problem problem;
  problem.inputs = {{"w", w}, {"v", v}};
  return problem;
}

/// fp32 factors have exact products in double, and eight of those an exact sum in long double to 2^-64.
Oracle toy_oracle(const Problem& problem) {
  const Array &w = problem.inputs.at("w"), &v = problem.inputs.at("v");
  const int rows = w.shape[1], cols = v.shape[2];
  Oracle::Tensor o{{1, rows, cols}, {}, {}};
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      long double sum = 0;
      for (int k = 0; k < depth; ++k) sum += w.data[at(r, depth, k)] * v.data[at(k, cols, c)];
      const auto hi = static_cast<double>(sum);
      o.value.push_back({hi, static_cast<double>(sum - static_cast<long double>(hi))});
      o.bound.push_back(0x1p-60 * std::fabs(hi));
    }
  return {{{"o", o}}, true};
}

TEST(SpreadOfAKernel, is_that_of_its_rounding_sites) {
  for (const Format precision : {Format::bf16, Format::fp16, Format::tf32, Format::e4m3}) {
    const Problem problem = toy_problem();
    const Oracle oracle = toy_oracle(problem);
    const KernelUnderTest kernel{&toy_form, precision, 0, 1};
    const Expectation expectation = expect(oracle, kernel, problem, draws);
    const Expected& e = expectation.tensors[0].second;
    const Format output = kernel.policy().sites.at("out");
    EXPECT_EQ(e.ulp_format, output);
    const Array &w = problem.inputs.at("w"), &v = problem.inputs.at("v");
    double estimated = 0, known = 0;
    for (int r = 0; r < 48; ++r)
      for (int c = 0; c < 32; ++c) {
        const auto i = at(r, 32, c);
        // A uniform error on a spacing s has variance s^2 / 12.
        double variance = std::pow(spacing(output, oracle.tensors[0].second.value[i].hi), 2) / 12;
        for (int k = 0; k < depth; ++k)
          variance += std::pow(spacing(precision, w.data[at(r, depth, k)] * v.data[at(k, 32, c)]), 2) / 12;
        estimated += e.sigma[i] * e.sigma[i], known += variance;
      }
    // 1536 elements of 15 degrees of freedom know the sum to 0.9 %, and the clipped bias adds up to 2 * 0.48 / 16 to
    // it; spacings that jump within reach of an element, e4m3's above all, cost another few percent.
    EXPECT_GT(estimated / known, 0.95) << name_of(precision);
    EXPECT_LT(estimated / known, 1.15) << name_of(precision);
  }
}

/// Squares of numbers this small are zero.
TEST(Spread, is_never_zero_where_the_kernels_own_rounding_moves) {
  const std::vector<double> exact = {0x1p-600, 0x1p-600};
  std::vector<std::vector<double>> moving(draws, exact);
  for (int k = 0; k < draws; k += 2) moving[static_cast<std::size_t>(k)][0] += 0x1p-652;
  Spread spread = spread_of(moving, exact, {1, 2, 1}, Format::fp64);
  EXPECT_EQ(spread.sigma, (std::vector<double>{0, 0}));
  widen(spread, {exact[0] + 0x1p-652, exact[1]}, exact, {1, 2, 1}, 7, 1e-6);
  EXPECT_EQ(spread.sigma, (std::vector<double>{0x1p-652, 0}));
}

}  // namespace
}  // namespace assay
