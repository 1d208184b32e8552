// Drift: laws are told apart, a streamed kernel is the kernel, and errors of three kinds are found where they are. The
// verb is in proptests/transcripts/drift.md.
#include "judge/drift/drift.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "files/case_file.hpp"
#include "judge/sigma/expected.hpp"
#include "proptests/core/share.hpp"
#include "proptests/tools/cli.hpp"
#include "reference/core/random.hpp"

namespace assay {
namespace {

/// Where windows of three to an octave lie, up to `last`.
std::vector<double> positions(double last) {
  std::vector<double> list;
  double t = 73;
  while (t < last) list.push_back(t), t *= 1.26;
  return list;
}

/// Points of that law with normal noise of one in twenty.
std::vector<GrowthPoint> noisy(const Growth& law, double last, std::uint64_t seed) {
  const Stream stream(seed, "noise");
  std::vector<GrowthPoint> points;
  for (const double t : positions(last)) points.push_back({t, law.at(t) * (1 + 0.05 * stream.normal(points.size()))});
  return points;
}

const Growth drawn_laws[] = {
    {.law = Law::bounded, .floor = 3e-3},
    {.law = Law::root, .rise = 1e-6},
    {.law = Law::root, .floor = 2e-3, .rise = 5e-5},
    {.law = Law::saturating_root, .floor = 1e-4, .rise = 2e-3, .time = 900},
    {.law = Law::linear, .rise = 1e-8},
    {.law = Law::linear, .floor = 1e-3, .rise = 1e-6},
    {.law = Law::saturating_linear, .floor = 1e-7, .rise = 2e-3, .time = 1200},
    {.law = Law::exponential, .floor = 1e-3, .rise = 1e-5, .time = 2000},
};

/// The two that saturate differ in how they begin alone.
Law family_of(Law law) { return law == Law::saturating_linear ? Law::saturating_root : law; }

TEST(Growth, EveryLawIsRecognised) {
  for (const Growth& truth : drawn_laws)
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const auto fit = fit_growth(noisy(truth, 16384, seed));
      ASSERT_TRUE(fit.has_value());
      EXPECT_EQ(family_of(fit->best().law), family_of(truth.law))
          << name_of(truth.law) << " taken for " << name_of(fit->best().law);
      double sum = 0, family = 0;
      for (const Growth& g : fit->laws) {
        sum += g.probability;
        if (family_of(g.law) == family_of(truth.law)) family += g.probability;
      }
      EXPECT_NEAR(sum, 1, 1e-12);
      EXPECT_GT(family, 0.5) << name_of(truth.law);
      if (truth.law == fit->best().law && has_time(truth.law)) {
        EXPECT_NEAR(fit->best().time / truth.time, 1, 0.5) << name_of(truth.law);
      }
      // Sixty times further on; what grows exponentially, two of its times.
      const double ahead = truth.law == Law::exponential ? 20000 : 1e6;
      const double ratio = fit->best().at(ahead) / truth.at(ahead);
      EXPECT_TRUE(ratio < 2 && ratio > 0.5) << name_of(truth.law) << ": " << ratio;
      EXPECT_LE(fit->low(ahead), fit->best().at(ahead));
      EXPECT_GE(fit->high(ahead), fit->best().at(ahead));
      EXPECT_NEAR(fit->best().scatter, 0.05, 0.025) << name_of(truth.law);
    }
}

TEST(Growth, WhatNobodyCouldTellIsLeftOpen) {
  // Half an octave of noise fits every law.
  std::vector<GrowthPoint> points;
  const Stream stream(3, "noise");
  for (int i = 0; i < 8; ++i) points.push_back({1000 + 50.0 * i, 1e-3 * (1 + 0.2 * stream.normal(points.size()))});
  EXPECT_LT(fit_growth(points)->best().probability, 0.9);
  points.resize(fewest_growth_points - 1);
  EXPECT_FALSE(fit_growth(points).has_value());
  // An error of zero has no logarithm.
  points.push_back({2000, 0}), points.push_back({3000, std::numeric_limits<double>::quiet_NaN()});
  EXPECT_FALSE(fit_growth(points).has_value());
}

double ratio_at(const GrowthFit& fit, const Growth& truth, double tokens) {
  return fit.best().at(tokens) / truth.at(tokens);
}

/// 16384 tokens do not show that an error saturates after 65536; the recurrence's decays do.
TEST(Growth, AMemoryThatIsKnownIsTheTimeOfWhatSaturates) {
  for (const Growth& truth : {Growth{.law = Law::saturating_root, .floor = 1e-5, .rise = 2e-3, .time = 65536},
                              Growth{.law = Law::saturating_linear, .floor = 1e-5, .rise = 2e-3, .time = 131072}})
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const std::vector<GrowthPoint> points = noisy(truth, 16384, seed);
      const auto blind = fit_growth(points, {.spread = 0.05, .memory = {}, .horizon = 1e6}),
                 knowing = fit_growth(points, {.spread = 0.05, .memory = 65536, .horizon = 1e6});
      EXPECT_EQ(knowing->best().law, truth.law);
      const double time = knowing->best().time, ratio = ratio_at(*knowing, truth, 1e6);
      EXPECT_TRUE(time >= truth.time && time <= 2 * truth.time) << time;
      EXPECT_TRUE(ratio < 1.5 && ratio > 0.9) << ratio;
      EXPECT_GT(ratio_at(*blind, truth, 1e6), 2);
      EXPECT_GT(knowing->high(1e6), truth.at(1e6));
      EXPECT_LT(knowing->low(1e6), truth.at(1e6));
    }
  // Without forgetting nothing saturates, and with quick forgetting growth ends, unless points leave no doubt.
  const Growth root{.law = Law::root, .floor = 1e-3, .rise = 1e-5};
  const auto infinite = std::numeric_limits<double>::infinity();
  const auto endless = fit_growth(noisy(root, 16384, 1), {.spread = 0.05, .memory = infinite, .horizon = 1e6});
  for (const Growth& g : endless->laws)
    if (has_time(g.law)) {
      EXPECT_LT(g.probability, 0.01) << name_of(g.law);
    }
  const Growth line{.law = Law::linear, .floor = 1e-3, .rise = 1e-5};
  EXPECT_EQ(fit_growth(noisy(line, 16384, 1), {.spread = 0.05, .memory = 100, .horizon = 1e6})->best().law,
            Law::linear);
}

/// A walk of few numbers may rise like t for a while.
TEST(Growth, WhatChanceMayHaveDoneIsNotRuledOut) {
  const Growth line{.law = Law::linear, .floor = 1e-3, .rise = 2e-7}, root{.law = Law::root, .rise = 2.6e-5};
  std::vector<GrowthPoint> points;
  for (const double t : positions(16384)) points.push_back({t, line.at(t)});
  const GrowthFacts sharp{.spread = 1e-3, .memory = {}, .horizon = 1e6},
      vague{.spread = 0.5, .memory = {}, .horizon = 1e6};
  const auto precise = fit_growth(points, sharp), rough = fit_growth(points, vague);
  EXPECT_GT(precise->low(1e6), line.at(1e6) / 2);
  EXPECT_LT(precise->high(1e6), line.at(1e6) * 2);
  EXPECT_LT(rough->low(1e6), root.at(1e6));
  EXPECT_GT(rough->high(1e6), line.at(1e6));
}

TEST(Windows, AreOctavesInThirdsAndClose) {
  DriftWindows windows;
  for (long t = 0; t < 140; ++t) windows.add(t, 4, 1);
  windows.close();  // twelve tokens of [128, 162) are no window
  ASSERT_EQ(windows.all().size(), 4U);
  EXPECT_EQ(windows.all()[3].first, 102);
  EXPECT_EQ(windows.all()[3].count, 38);
  EXPECT_DOUBLE_EQ(windows.all()[3].error(), 2);
  EXPECT_DOUBLE_EQ(windows.all()[0].position(), 32.5);
  EXPECT_EQ(windows.points(101).size(), 1U);
  EXPECT_EQ(windows.points(162).size(), 3U);
}

struct Streamed {
  const char* mechanism;
  Params params;
  bool moves_tiles = false;  ///< a tail of pairs comes before the segment's own
};

const Streamed streamed[] = {
    {"gated_deltanet", {}},
    {"deltanet", {{"alignment", "next_latent"}}},
    {"linear_attention", {{"normalization", "features"}}},
    {"gla", {}},
    {"mdn", {}},
    {"falcon2a", {}},
    {"falcon3a", {{"window", 40L}}, true},
};

DriftSpec spec_of(const std::string& mechanism, Format precision, long tokens, Style style = Style::normal) {
  DriftSpec spec;
  spec.room = find_room(mechanism);
  spec.form = &find_kernels(kernel_rooms(), mechanism)->forms.front();
  spec.inputs = {.mechanism = mechanism,
                 .shape = {.heads = 1, .key_dim = 8, .value_dim = 8},
                 .precision = precision,
                 .style = style,
                 .params = {}};
  spec.precision = precision, spec.tokens = tokens, spec.draws = 0, spec.by_site = false;
  return spec;
}

TEST(Streaming, IsTheKernelToTheBit) {
  for (const auto& [mechanism, params, moves_tiles] : streamed) {
    if (moves_tiles) continue;  // other sums, other bits
    DriftSpec spec = spec_of(mechanism, Format::bf16, 200);
    spec.inputs.params = params, spec.inputs.shape.heads = 2;
    const Segments segments(*spec.room, spec.inputs, spec.tokens, 64);
    ASSERT_EQ(segments.count(), 4);
    std::vector<Problem> parts;
    for (long i = 0; i < segments.count(); ++i) parts.push_back(segments.at(i));
    EXPECT_NE(parts[0].inputs.at("v"), parts[1].inputs.at("v"));
    const Policy policy = Policy::of(spec.form->sites, spec.precision);
    const Answer whole = spec.form->run(joined(*spec.room, parts), policy, 0);
    StreamedKernel kernel(*spec.room, *spec.form, policy, 0);
    const Array& o = whole.outputs.at("o");
    ASSERT_EQ(o.shape[1], 200);
    Answer answer;
    for (long i = 0; i < segments.count(); ++i) {
      answer = kernel.advance(parts[static_cast<std::size_t>(i)]);
      const Array& part = answer.outputs.at("o");
      for (int h = 0; h < 2; ++h)
        for (int n = 0; n < part.shape[1] * 8; ++n)
          ASSERT_EQ(part.data[static_cast<std::size_t>(h * part.shape[1] * 8 + n)],
                    o.data[static_cast<std::size_t>((h * 200 + segments.begin(i)) * 8 + n)])
              << mechanism << ", segment " << i << ", number " << n;
    }
    EXPECT_EQ(answer.outputs.at("final_state"), whole.outputs.at("final_state")) << mechanism;
  }
}

/// Segments that drew the same roundings would add up their errors like a leaning one.
TEST(Streaming, EverySegmentDrawsItsOwnRoundings) {
  DriftSpec spec = spec_of("gla", Format::bf16, 64);
  static std::vector<std::uint64_t> seeds;
  seeds.clear();
  KernelForm recording = *spec.form;
  recording.run = [](const Problem& problem, const Policy& policy, int tile) {
    seeds.push_back(policy.seed);
    return find_kernels(kernel_rooms(), "gla")->forms.front().run(problem, policy, tile);
  };
  const Segments segments(*spec.room, spec.inputs, spec.tokens, 16);
  for (int again = 0; again < 2; ++again) {
    StreamedKernel kernel(*spec.room, recording, Policy::of(spec.form->sites, spec.precision), 0);
    for (long i = 0; i < segments.count(); ++i) kernel.advance(segments.at(i));
  }
  ASSERT_EQ(seeds.size(), 8U);
  EXPECT_TRUE(std::equal(seeds.begin(), seeds.begin() + 4, seeds.begin() + 4));
  std::sort(seeds.begin(), seeds.end());
  EXPECT_EQ(std::unique(seeds.begin(), seeds.end()) - seeds.begin(), 4);
}

TEST(Streaming, TheReferenceIsProvenAtItsStart) {
  for (const auto& [mechanism, params, moves_tiles] : streamed) {
    DriftSpec spec = spec_of(mechanism, Format::bf16, 300);
    spec.inputs.params = params, spec.segment = 100;
    const Drift drift = measure_drift(spec);
    EXPECT_EQ(drift.proven_tokens, 300);
    EXPECT_LT(drift.proven_off, word_target) << mechanism;  // which bounds of words keep
    EXPECT_LT(drift.reference_off, 1e-27) << mechanism;
    EXPECT_TRUE(drift.decided());
    const double error = drift.series.front().windows.all().back().error();
    EXPECT_TRUE(error > 1e-4 && error < 1e-2) << mechanism << ": " << error;
  }
}

double last_error(const Drift& drift) { return drift.series.front().windows.all().back().error(); }

/// A kernel that begins every segment with the state of its case.
Answer without_states(const Problem& problem, const Policy& policy, int tile) {
  Problem forgetful = problem;
  for (double& x : forgetful.inputs.at("initial_state").data) x = 0;
  return find_kernels(kernel_rooms(), "gated_deltanet")->forms.front().run(forgetful, policy, tile);
}

TEST(Drift, ExactIsExactUnlessTheKernelIsWrong) {
  DriftSpec spec = spec_of("gated_deltanet", Format::exact, 1024);
  spec.segment = 256, spec.draws = default_draws;
  const Drift drift = measure_drift(spec);
  EXPECT_LT(last_error(drift), 1e-16);
  EXPECT_TRUE(drift.passed());
  EXPECT_FALSE(drift.first_past || drift.first_past_in_segment);

  KernelForm broken = *spec.form;
  broken.run = without_states;
  spec.form = &broken;
  const Drift found = measure_drift(spec);
  EXPECT_GT(last_error(found), 1e10 * last_error(drift));
  EXPECT_FALSE(found.passed());
  ASSERT_TRUE(found.first_past.has_value());
  EXPECT_EQ(found.first_past->token, 0);  // the case begins with a state
}

TEST(Drift, TheFirstTokenPastTheBudgetIsTheFirst) {
  DriftSpec spec = spec_of("gated_deltanet", Format::fp32, 1024, Style::long_memory);
  spec.segment = 256, spec.draws = default_draws;
  const Drift healthy = measure_drift(spec);
  EXPECT_TRUE(healthy.passed());
  EXPECT_LT(healthy.worst_sigmas, 7);

  // From the third segment on a thousandth too much.
  KernelForm late = *spec.form;
  static int runs = 0;
  late.run = [](const Problem& problem, const Policy& policy, int tile) {
    Answer answer = find_kernels(kernel_rooms(), "gated_deltanet")->forms.front().run(problem, policy, tile);
    if (policy.rounding == Rounding::nearest_even && policy.sites.at("out") != Format::exact && ++runs > 2)
      for (double& x : answer.outputs.at("o").data) x *= 1.001;
    return answer;
  };
  spec.form = &late;
  const Drift found = measure_drift(spec);
  ASSERT_TRUE(found.first_past && found.first_past_in_segment);
  EXPECT_EQ(found.first_past_in_segment->token, 512);
  EXPECT_GE(found.first_past->token, 512);
  EXPECT_LT(found.first_past->token, 520);

  runs = 0, spec.draws = 0, spec.budget = 1e-4;
  const Drift given = measure_drift(spec);
  ASSERT_TRUE(given.first_past.has_value());
  EXPECT_GE(given.first_past->token, 512);
  EXPECT_LT(given.first_past->token, 520);
  runs = 0, spec.budget = 1e-2;
  EXPECT_FALSE(measure_drift(spec).first_past.has_value());
}

TEST(Drift, MemoryIsThatOfTheDecays) {
  DriftSpec spec = spec_of("retnet", Format::fp32, 1 << 17);
  spec.inputs.params = {{"head", 7L}};
  EXPECT_NEAR(memory_of(spec, 4096).value() / (-0.5 / std::log1p(-0x1p-12)), 1, 1e-9);
  EXPECT_LT(memory_of(spec_of("deltanet", Format::fp32, 1 << 17), 4096).value(), 256);
  EXPECT_TRUE(std::isinf(memory_of(spec_of("linear_attention", Format::fp32, 1 << 17), 4096).value()));
  EXPECT_NEAR(memory_of(spec_of("mamba2", Format::fp32, 1 << 17, Style::long_memory), 4096).value(), 500, 50);
}

struct Ahead {
  const char* mechanism;
  Format precision;
  Style style = Style::normal;
  Params params;
  std::vector<std::pair<std::string, Format>> sites;
};

/// 16 times as far as anyone has looked. One case in three, or more.
TEST(Drift, PredictionsAreWithinAFactorOfTwo) {
  const Ahead cases[] = {
      {"linear_attention", Format::fp32, Style::normal, {}, {{"S", Format::bf16}}},
      {"linear_attention", Format::bf16, Style::normal, {}, {}},
      {"retnet", Format::fp32, Style::normal, {{"head", 6L}}, {}},
      {"retnet", Format::fp32, Style::normal, {{"head", 9L}}, {}},
      {"retnet", Format::fp32, Style::normal, {{"head", 20L}}, {}},
      {"mamba2", Format::fp32, Style::long_memory, {}, {{"S", Format::bf16}}},
      {"gated_deltanet", Format::bf16, Style::normal, {}, {}},
      {"mdn", Format::bf16, Style::normal, {}, {}},
  };
  Share sampled(3);
  while (sampled.goes_on())
    for (const Ahead& ahead : cases) {
      if (!sampled.takes()) continue;
      DriftSpec spec = spec_of(ahead.mechanism, ahead.precision, 1 << 16, ahead.style);
      spec.inputs.params = ahead.params, spec.sites = ahead.sites, spec.prefix = 1 << 12;
      const Drift drift = measure_drift(spec);
      EXPECT_EQ(drift.sequences, 8);
      for (const DriftSeries& s : drift.series) {
        ASSERT_TRUE(s.has_prediction()) << ahead.mechanism;
        const double ratio = s.predicted() / s.ended;
        EXPECT_TRUE(ratio >= 0.5 && ratio <= 2) << ahead.mechanism << ' ' << s.tensor << ": " << ratio;
        EXPECT_TRUE(s.determined()) << ahead.mechanism << ' ' << s.tensor << ": " << s.low() << " to " << s.high();
      }
      EXPECT_TRUE(drift.passed()) << ahead.mechanism;
    }
}

}  // namespace
}  // namespace assay
