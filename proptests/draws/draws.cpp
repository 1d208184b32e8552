// Draws by DrawBlock have the bits of HostBlock's: here its code runs on the CPU, a thread to a block; on a GPU
// tools/gpu/draw_check.cpp compares.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "kernels/draws/draw_numbers.hpp"
#include "kernels/draws/drawn.hpp"
#include "kernels/draws/rooms.hpp"
#include "kernels/programs/scores.hpp"
#include "proptests/core/share.hpp"
#include "reference/core/error.hpp"
#include "reference/core/inputs.hpp"
#include "reference/core/rounding.hpp"
// Made by CMake: the rooms' references.
#include <draw_references.hpp>

namespace assay {
namespace {

using std::bit_cast;

/// Numbers of every binade, both signs, halfway points, zeros, infinities and NaN.
std::vector<double> numbers() {
  std::vector<double> all = {0.0,
                             -0.0,
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN(),
                             1.0};
  RandomBits random{7};
  for (int i = 0; i < 40000; ++i) all.push_back(std::ldexp(static_cast<double>(random.next() >> 12), -46) - 32);
  for (int exponent = -1074; exponent < 1024; ++exponent)
    for (int i = 0; i < 4; ++i) {
      const double tail = static_cast<double>(random.next() >> (i * 15)) * std::ldexp(1.0, -64 + i * 15);
      all.push_back(std::ldexp(1 + tail, exponent) * (i % 2 == 0 ? 1 : -1));
      all.push_back(std::ldexp(1 + std::ldexp(std::floor(std::ldexp(tail, 12)), -12), exponent));
    }
  return all;
}
std::uint64_t bits(double x) { return x != x ? ~std::uint64_t{0} : bit_cast<std::uint64_t>(x); }

TEST(Draws, FunctionsHaveTheHostsBits) {
  for (const double x : numbers()) {
    ASSERT_EQ(bits(draws::exp2_of(x)), bits(tile::ex2(x))) << x;
    ASSERT_EQ(bits(draws::log2_of(x)), bits(tile::lg2(x))) << x;
    ASSERT_EQ(bits(draws::tanh_of(x)), bits(tile::hyperbolic_tangent(x))) << x;
    for (const double y : {0.0, -0.0, 1.0, x, -x, std::numeric_limits<double>::quiet_NaN()})
      ASSERT_EQ(bits(draws::larger_of(x, y)), bits(tile::maxi(x, y))) << x << " " << y;
  }
}

TEST(Draws, RoundingHasTheHostsBits) {
  for (const Rounding rounding : all_roundings)
    for (const Format format : all_formats) {
      Policy policy = Policy::exact(draw_rooms()[0]->forms[0].sites);
      policy.rounding = rounding;
      const draws::DrawPolicy plain(policy);
      std::vector<double> host = numbers();
      const std::vector<double> before = host;
      RandomBits random{99, 5};
      if (format != Format::exact) round_span(host.data(), host.size(), format, rounding, random);
      const draws::Rounder rounder = draws::rounder_of(plain, format, 99, 5);
      for (std::size_t i = 0; i < host.size(); ++i)
        ASSERT_EQ(bits(rounder(before[i], i)), bits(host[i]))
            << name_of(format) << " " << name_of(rounding) << " " << before[i];
    }
}

Problem make(const CaseSpec& spec) {
#define DRAW_ROOM(name) \
  if (spec.mechanism == #name) return make_problem<name>(spec);
  ASSAY_DRAW_ROOMS
#undef DRAW_ROOM
  throw InputError(text(spec.mechanism, ": no such room"));
}

/// Names of the tensors that differ in some bit.
std::string different(const Arrays& a, const Arrays& b) {
  std::string names = a.size() == b.size() ? "" : " another number of tensors";
  for (const auto& [name, array] : a) {
    const auto it = b.find(name);
    const bool same = it != b.end() && it->second.shape == array.shape &&
                      std::equal(array.data.begin(), array.data.end(), it->second.data.begin(),
                                 [](double x, double y) { return bits(x) == bits(y); });
    if (!same) names += " " + name;
  }
  return names;
}

/// That of a form's answers, by the executor for draws and by the host's.
void compare(const KernelForm& host, const KernelForm& drawn, const Problem& problem, const Policy& policy,
             const std::string& what) {
  const Answer a = host.run(problem, policy, 0), b = drawn.run(problem, policy, 0);
  EXPECT_EQ(different(a.outputs, b.outputs) + different(a.gradients, b.gradients), "") << what;
}

Problem problem_of(const KernelForm& form, const CaseSpec& spec, const Setting& setting) {
  CaseSpec own = spec;
  own.style = setting.style, own.params = setting.params;
  own.shape.query_len = std::min(spec.shape.seq_len, setting.queries);
  if (form.name == "split_decode" && setting.queries == 0) own.shape.query_len = 3;
  Problem problem = make(own);
  if (!form.has_gradients || setting.without_probe) problem.cotangents.clear();
  if (setting.without_probe) std::fill(problem.inputs.at("rho").data.begin(), problem.inputs.at("rho").data.end(), 0.0);
  if (setting.exchanges_decays) std::swap(problem.inputs.at("log_alpha"), problem.inputs.at("log_mu"));
  return problem;
}

/// One setting in three, or more.
TEST(Draws, EveryFormHasTheHostsBits) {
  Share sampled(3);
  while (sampled.goes_on())
    for (const KernelRoom* room : draw_rooms()) {
      const KernelRoom* host = find_kernels(kernel_rooms(), room->name);
      ASSERT_NE(host, nullptr);
      ASSERT_EQ(room->forms.size(), host->forms.size());
      for (std::size_t f = 0; f < room->forms.size(); ++f) {
        const KernelForm& form = host->forms[f];
        ASSERT_EQ(room->forms[f].name, form.name);
        for (const Setting& setting : form.settings()) {
          const CaseSpec spec{std::string(room->name), {1, 70, 2, 0, 16, 16, 0}, Format::bf16, {}, 0, {}};
          const Problem problem = problem_of(form, spec, setting);
          if (!form.obstacle(problem).empty() || !sampled.takes()) continue;
          for (const Rounding rounding : {Rounding::jittered, Rounding::nearest_even}) {
            Policy policy = Policy::of(form.sites, Format::bf16);
            policy.rounding = rounding, policy.seed = 1234567;
            compare(form, room->forms[f], problem, policy,
                    text(room->name, '/', form.name, ' ', name_of(rounding), flags_of(setting.params)));
          }
        }
      }
    }
}

TEST(Draws, EveryPrecisionHasTheHostsBits) {
  for (const std::string_view name : {"softmax_attention", "parallax", "gated_deltanet", "kda"})
    for (const Format precision : {Format::fp32, Format::tf32, Format::fp16, Format::e4m3}) {
      const KernelForm &form = find_kernels(kernel_rooms(), name)->forms[0],
                       &drawn = find_kernels(draw_rooms(), name)->forms[0];
      const CaseSpec spec{std::string(name), {1, 40, 2, 0, 16, 16, 0}, precision, {}, 3, {}};
      for (const Rounding rounding : {Rounding::jittered, Rounding::stochastic, Rounding::toward_zero}) {
        Policy policy = Policy::of(form.sites, precision);
        policy.rounding = rounding, policy.seed = 42;
        compare(form, drawn, make(spec), policy, text(name, ' ', name_of(precision), ' ', name_of(rounding)));
      }
    }
}

TEST(Draws, WhatIsNotCompiledIsRefused) {
  const KernelForm& form = find_kernels(draw_rooms(), "gated_deltanet")->forms[0];
  const Problem problem = make({"gated_deltanet", {1, 20, 1, 0, 16, 16, 0}, Format::bf16, {}, 0, {}});
  EXPECT_THROW(form.run(problem, Policy::exact(form.sites), 0), NotDrawn);
  EXPECT_THROW(form.run(problem, Policy::of(form.sites, Format::bf16), 1), NotDrawn);
  const Problem wide = make({"gated_deltanet", {1, 20, 1, 0, 64, 64, 0}, Format::bf16, {}, 0, {}});
  EXPECT_THROW(form.run(wide, Policy::of(form.sites, Format::bf16), 0), NotDrawn);
}

/// Counts what it is asked for, and runs it as draws are run here.
int asked = 0;
constexpr DrawExecutor counting = {[](const KernelForm& form) {
                                     ++asked;
                                     return drawn_form(form);
                                   },
                                   [](const Problem& problem) { return problem.inputs.at("q").shape[1] < 30 ? 0 : 5; }};

TEST(Draws, GoToTheExecutorThatIsChosenWhereItTakesThem) {
  const KernelForm& form = find_kernels(kernel_rooms(), "gated_deltanet")->forms[0];
  const Problem problem = make({"gated_deltanet", {1, 40, 2, 0, 16, 16, 0}, Format::bf16, {}, 0, {}});
  const Problem small = make({"gated_deltanet", {1, 20, 2, 0, 16, 16, 0}, Format::bf16, {}, 0, {}});
  Policy policy = Policy::of(form.sites, Format::bf16);
  policy.rounding = Rounding::jittered, policy.threads = 1;
  const auto drawn = [&](const Problem& p, const Policy& how) {
    const Answer a = form.run(p, how, 0), b = draw(form, p, how, 0);
    EXPECT_EQ(different(a.outputs, b.outputs) + different(a.gradients, b.gradients), "");
    return std::exchange(asked, 0);
  };
  EXPECT_EQ(drawn(problem, policy), 0);
  EXPECT_EQ(draws_at_once(form, problem), 1);
  draw_with(&counting);
  EXPECT_EQ(draws_at_once(form, problem), 5);
  EXPECT_EQ(draws_at_once(form, small), 1);
  EXPECT_EQ(draws_at_once(find_kernels(draw_rooms(), "gated_deltanet")->forms[0], problem), 1)
      << "none of kernel_rooms";
  asked = 0;
  EXPECT_EQ(drawn(problem, policy), 1);
  EXPECT_EQ(drawn(small, policy), 0);
  EXPECT_EQ(drawn(problem, Policy::exact(form.sites)), 1) << "it does not take this contract: the CPU's runs it";
  std::map<std::string, SiteStats, std::less<>> stats;
  Policy counted = policy;
  counted.stats = &stats;
  EXPECT_EQ(drawn(problem, counted), 0);
  EXPECT_FALSE(stats.empty());
  draw_with(nullptr);
  EXPECT_EQ(drawn(problem, policy), 0);
}

}  // namespace
}  // namespace assay
