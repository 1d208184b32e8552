// DeltaNet: the inverse by doubling, a published form, and values in many columns.
#include "kernels/delta/deltanet.hpp"

#include <utility>

#include "kernels/launches/recurrence.hpp"
#include "proptests/core/published_form.hpp"
#include "proptests/laws/aimed_laws.hpp"
#include "proptests/laws/laws.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay::laws {
namespace {

// ---- the inverse by doubling

Subject neumann() { return subject(kernel_rooms(), "deltanet", "neumann"); }

/// 64 unit keys, beta = 1, with that mean correlation.
Problem alike(double correlation, Format precision) {
  Problem p = listed_room("deltanet").make({"deltanet", {1, 64, 1, 1, 64, 8, 0}, precision, Style::normal, 5, {}});
  for (double& x : p.inputs.at("beta").data) x = 1;
  Array& k = p.inputs.at("k");
  const Stream stream(7, "k");
  for (int t = 0; t < 64; ++t) {
    double* key = &k.data[index(k, 0, t, 0)];
    double squares = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      key[i] =
          std::sqrt(correlation) + std::sqrt(1 - correlation) * stream.normal(64 * static_cast<std::size_t>(t) + i);
      squares += key[i] * key[i];
    }
    for (int i = 0; i < 64; ++i) key[i] /= std::sqrt(squares);
  }
  round_span(k.data.data(), k.data.size(), precision);
  return p;
}

/// The largest element of A^8, A the strict lower triangle of the keys' products.
double largest_eighth_power(const Array& k) {
  constexpr int C = 64;
  std::vector<double> A(C * C), square(C * C);
  const auto at = [](int r, int c) { return static_cast<std::size_t>(r * C + c); };
  for (int r = 0; r < C; ++r)
    for (int c = 0; c < r; ++c)
      for (int i = 0; i < C; ++i) A[at(r, c)] += k.data[index(k, 0, r, i)] * k.data[index(k, 0, c, i)];
  for (int n = 1; n < 8; n *= 2) {
    std::fill(square.begin(), square.end(), 0);
    for (int r = 0; r < C; ++r)
      for (int j = 0; j < r; ++j)
        for (int c = 0; c < j; ++c) square[at(r, c)] += A[at(r, j)] * A[at(j, c)];
    A = square;
  }
  return *std::max_element(A.begin(), A.end());
}

/// judge.md 3.9: in chunks of 64 max |A^8| is binomial(62, 7) times the eighth power of the mean correlation (1.1e6 and
/// 1.7e8 were measured at 0.5 and 0.9, which may be off by 1 / 8 in 64 dimensions), and the inverse is below 1 beside
/// its diagonal: fp16 overflows, and what cancels is lost in all formats.
TEST(deltanet_neumann, fails_where_keys_are_alike) {
  const Subject s = subject(kernel_rooms(), "deltanet", "chunkwise");
  constexpr double binomial = 491'796'152;
  for (const double correlation : {0.5, 0.9})
    for (const Format precision : {Format::fp16, Format::bf16, Format::fp32}) {
      const Problem p = alike(correlation, precision);
      EXPECT_NEAR(std::pow(largest_eighth_power(p.inputs.at("k")) / binomial, 0.125), correlation, 0.125);
      std::map<std::string, SiteStats, std::less<>> stats;
      Policy policy = Policy::of(neumann().form.sites, precision);
      policy.stats = &stats;
      const Arrays got = flat(neumann().form.run(p, policy, 0));
      EXPECT_EQ(stats.at("powerc").overflows > 0, precision == Format::fp16);
      EXPECT_EQ(std::isnan(got.at("o").data.front()), precision == Format::fp16);  // 0 * inf, in rows before it, too
      policy = Policy::of(s.form.sites, precision);
      std::map<std::string, SiteStats, std::less<>> healthy;
      policy.stats = &healthy;
      s.form.run(p, policy, 0);
      EXPECT_EQ(healthy.at("Tc").max_abs, 1);
      for (const auto& [name, verdict] : verdicts(s, neumann().form, p, precision))
        EXPECT_EQ(verdict, Verdict::fail) << name << ' ' << correlation;
    }
}

/// delta-family.md 6.5: the largest error of the inverse in fp32, of identical unit keys and beta = 1 in chunks of 16,
/// 32 and 64. 0, 8 and 3.4e10 were measured with the factors in another order: here 8 is the most and the last an order
/// of magnitude.
template <int C, bool Doubling>
double error_of_inverse() {
  tile::HostArray<double> x(1, C, 16), beta(1, C, 1), inverse(1, C, C);
  std::fill(x.data.begin(), x.data.end(), 0.25);
  std::fill(beta.data.begin(), beta.data.end(), 1);
  using System = tile::GatedDeltaSystem<tile::HostBlock<double>, C, 16, tile::DeltaRule::plain, Doubling>;
  typename System::Args arguments{};
  arguments.k = x.in(), arguments.beta = beta.row_in(), arguments.inverse = inverse.out();
  arguments.len = C, arguments.group = arguments.shared_heads = 1;
  tile::host_launch<System, double>(Policy::of(tile::deltanet_neumann_sites, Format::fp32), arguments, 1,
                                    [](int head) { return std::pair(head, 0); });
  EXPECT_TRUE(std::ranges::all_of(inverse.data, [](double element) { return std::isfinite(element); }));
  double error = 0;
  for (int r = 0; r < C; ++r)
    for (int c = 0; c < C; ++c)
      error = std::max(error, std::fabs(inverse.data[static_cast<std::size_t>(r * C + c)] - (r == c       ? 1
                                                                                             : r == c + 1 ? -1
                                                                                                          : 0)));
  return error;
}
TEST(deltanet_neumann, inverse_is_as_far_off_as_measured) {
  EXPECT_EQ((error_of_inverse<16, true>()), 0);
  EXPECT_LE((error_of_inverse<32, true>()), 8);
  EXPECT_NEAR(std::log10(error_of_inverse<64, true>()), std::log10(3.4e10), 1);
  EXPECT_EQ((error_of_inverse<64, false>()), 0);
}

/// In exact arithmetic it is the same, gradients included: where steps are small no power is large, and 64 bits are
/// enough to say so.
ASSAY_PROPERTY(deltanet_neumann, exact_policy_is_the_oracle_where_steps_are_small) {
  const Subject s = subject(kernel_rooms(), "deltanet", "chunkwise");
  const LawCase c = *law_cases(s.room, s.form);
  Problem p = s.problem(c);
  for (double& x : p.inputs.at("beta").data) x /= 8;
  expect_within(flat(neumann().run(p, Format::exact, c.tile)), values_of(oracle_of(s.room, p)),
                allowance(s, p, Format::fp64, c.tile), 1);
}

/// Columns of the values do not see each other: the first ones have the bits that they have alone.
TEST(deltanet_chunkwise, value_columns_have_the_bits_of_fewer) {
  const Subject s = subject(kernel_rooms(), "deltanet", "chunkwise");
  constexpr int many = 100, few = 60;
  const auto first = [](const Array& a) {
    Array b({a.shape[0], a.shape[1], few}, {});
    for (std::size_t i = 0; i < a.data.size(); ++i)
      if (i % many < few) b.data.push_back(a.data[i]);
    return b;
  };
  for (const Format precision : {Format::bf16, Format::fp32})
    for (int tile = 0; tile < static_cast<int>(s.form.tiles.size()); ++tile) {
      Problem p = s.room.make({"deltanet", {1, 70, 2, 1, 16, many, 0}, precision, Style::normal, 3, {}});
      p.cotangents.clear();
      Problem narrow = p;
      for (const char* name : {"v", "initial_state"}) narrow.inputs.at(name) = first(p.inputs.at(name));
      const Answer wide = s.run(p, precision, tile), got = s.run(narrow, precision, tile);
      for (const auto& [name, array] : got.outputs) EXPECT_EQ(array, first(wide.outputs.at(name))) << name << tile;
    }
}

}  // namespace
}  // namespace assay::laws
