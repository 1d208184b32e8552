// Momentum DeltaNet: the published weights, as logarithms of sums, and inputs that do not grow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "proptests/core/published_form.hpp"
#include "proptests/core/witness.hpp"
#include "proptests/laws/aimed_laws.hpp"
#include "proptests/laws/laws.hpp"

namespace assay::laws {
namespace {

Subject mdn_chunkwise() { return subject(kernel_rooms(), "mdn", "chunkwise"); }
const KernelForm& log_domain() { return subject(kernel_rooms(), "mdn", "log_domain").form; }

/// The form where the state decays as the faster of both or as its square, never slower than the momentum, and no step
/// is next to nothing.
class Tame final : public LikeRoom {
 public:
  using LikeRoom::LikeRoom;
  Problem make(const CaseSpec& spec) const override {
    Problem p = LikeRoom::make(spec);
    std::vector<double>& log_alpha = p.inputs.at("log_alpha").data;
    for (std::size_t t = 0; t < log_alpha.size(); ++t)
      log_alpha[t] = std::ldexp(std::min(log_alpha[t], p.inputs.at("log_mu").data[t]), static_cast<int>(t % 2));
    for (double& beta : p.inputs.at("beta").data) beta = std::max(beta, 0.125);
    return p;
  }
};
Subject tame() {
  static const Tame room(listed_room("mdn"));
  return {room, log_domain()};
}

/// In exact arithmetic it is the same, gradients included: where little cancels, 64 bits are enough to say so.
#define ASSAY_LOG_DOMAIN_OBEYS(law) \
  ASSAY_PROPERTY(mdn_log_domain, law) { law(tame(), *law_cases(tame().room, tame().form)); }
ASSAY_LOG_DOMAIN_OBEYS(exact_policy_is_the_oracle)
ASSAY_LOG_DOMAIN_OBEYS(tile_shape_changes_nothing)
ASSAY_LOG_DOMAIN_OBEYS(same_bits_twice)
ASSAY_LOG_DOMAIN_OBEYS(every_element_is_written)
ASSAY_LOG_DOMAIN_OBEYS(the_future_changes_no_bit)
ASSAY_LOG_DOMAIN_OBEYS(heads_are_independent)
ASSAY_LOG_DOMAIN_OBEYS(backward_is_the_adjoint)
ASSAY_LOG_DOMAIN_OBEYS(linear_in_values)
ASSAY_LOG_DOMAIN_OBEYS(reads_are_linear_in_the_query)
ASSAY_LOG_DOMAIN_OBEYS(segments_concatenate)

/// 128 tokens with the same gates, and steps of 0.3, as section 6.2 has them.
Problem with_gates(double log_alpha, double log_mu, Format precision) {
  Problem p = listed_room("mdn").make({.mechanism = "mdn",
                                       .shape = {.seq_len = 128, .heads = 1, .key_dim = 8, .value_dim = 8},
                                       .precision = precision,
                                       .style = Style::normal,
                                       .seed = 5,
                                       .params = {}});
  set_all(p.inputs.at("log_alpha"), log_alpha);
  set_all(p.inputs.at("log_mu"), log_mu);
  set_all(p.inputs.at("beta"), 0.3);
  return p;
}

/// The verdicts on the published form in its first tile.
std::map<std::string, Verdict> of_log_domain(double log_alpha, double log_mu, Format precision) {
  return verdicts(mdn_chunkwise(), log_domain(), with_gates(log_alpha, log_mu, precision), precision);
}

/// Section 6.2: digits go where mu decays faster than alpha, all of them at fp32 and, later, at fp64; then NaN.
TEST(mdn_log_domain, fails_where_mu_decays_faster_than_alpha) {
  struct Gates {
    double log_alpha, log_mu;
    Format precision;
  };
  for (const Gates& g :
       {Gates{-0.05, -0.3, Format::fp32}, Gates{-0.05, -0.5, Format::fp32}, Gates{-0.05, -0.5, Format::bf16},
        Gates{-0.05, -0.5, Format::fp64}, Gates{-0.01, -1.5, Format::fp32}, Gates{-1, -2, Format::bf16}}) {
    const auto verdict = of_log_domain(g.log_alpha, g.log_mu, g.precision);
    for (const char* name : {"o", "d_q", "d_k", "d_v", "d_p", "d_log_alpha", "d_log_mu", "d_beta", "d_eta"})
      EXPECT_EQ(verdict.at(name), Verdict::fail)
          << name << ' ' << g.log_alpha << ' ' << g.log_mu << ' ' << name_of(g.precision);
  }
}

TEST(mdn_log_domain, passes_where_it_does_not) {
  for (const auto& [log_alpha, log_mu] : {std::pair{-1.0, -0.1}, {-0.5, -0.5}})
    for (const auto& [name, verdict] : of_log_domain(log_alpha, log_mu, Format::bf16))
      EXPECT_EQ(verdict, Verdict::pass) << name << ' ' << log_alpha;
}

/// Section 6.2: o in fp32 and fp64, here the same to half an order of magnitude where a digit is left, and the healthy
/// form in fp32, here to an order. Where something cancels, gradients of gates and steps lose more than o.
TEST(mdn_log_domain, is_as_far_off_as_measured) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  struct Measured {
    double log_alpha, log_mu, healthy, fp32, fp64;
  };
  for (const Measured& m : {Measured{-1, -0.1, 1e-7, 4e-6, 3e-15}, Measured{-0.5, -0.5, 2e-7, 3e-6, 7e-15},
                            Measured{-0.05, -0.2, 9e-7, 1e-3, 1e-12}, Measured{-0.05, -0.3, 6e-7, 0.18, 3e-10},
                            Measured{-0.05, -0.5, 3e-7, 0.86, 1e-4}, Measured{-0.05, -1, 3e-7, 0.74, 0.75},
                            Measured{-0.01, -1.5, 2e-6, nan, 0.77}, Measured{-0.05, -2, 2e-7, nan, 0.55},
                            Measured{-1, -2, 1e-7, 0.7, 0.7}}) {
    const Problem p = with_gates(m.log_alpha, m.log_mu, Format::fp32);
    const Oracle truth = oracle_of(mdn_chunkwise().room, p);
    EXPECT_NEAR(std::log10(errors_of(truth, mdn_chunkwise().run(p, Format::fp32, 0)).at("o")), std::log10(m.healthy), 1)
        << m.log_alpha << ' ' << m.log_mu;
    for (const auto& [precision, measured] : {std::pair{Format::fp32, m.fp32}, {Format::fp64, m.fp64}}) {
      const Policy policy = Policy::of(log_domain().sites, precision);
      const auto errors = errors_of(truth, log_domain().run(p, policy, 0));
      const std::string place = text(m.log_alpha, ' ', m.log_mu, ' ', name_of(precision));
      const double o = errors.at("o");
      if (std::isnan(measured))
        EXPECT_TRUE(std::isnan(o)) << place;
      else if (measured > 0.5)
        EXPECT_GT(o, 0.5) << place;
      else
        EXPECT_NEAR(std::log10(o), std::log10(measured), 0.5) << place;
      if (std::isnan(measured) || m.log_mu >= m.log_alpha) continue;
      for (const char* name : {"d_log_alpha", "d_log_mu", "d_beta"})
        EXPECT_FALSE(errors.at(name) <= o) << name << place;
    }
  }
}

TEST(mdn_inputs, states_do_not_grow_from_token_to_token) {
  // A factor of 3 percent a token would be 10^13 after 1024 tokens; norms of what is written are about 1.
  for (const Style style : all_styles) {
    if (style == Style::integers || style == Style::dyadic) continue;  // few tokens, each answer exact
    const Problem p = listed_room("mdn").make({"mdn", shape_from("1,1024,1,16,16"), Format::fp64, style, 0, {}});
    const Answer a = mdn_chunkwise().run(p, Format::exact, 64);
    for (const Arrays* arrays : {&a.outputs, &a.gradients})
      for (const auto& [name, array] : *arrays)
        for (const double x : array.data) ASSERT_LT(std::abs(x), 65504) << name << ' ' << name_of(style);
  }
}

}  // namespace
}  // namespace assay::laws
