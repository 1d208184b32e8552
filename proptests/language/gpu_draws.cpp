// Draws of tile programs on a GPU that is the host, a thread to a block: HostBlock's bits. `assay-lab bench draws`
// compares on a GPU.
#include "kernels/draws/gpu_draws.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "files/problem_file.hpp"
#include "judge/court/argument_form.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/draws/draw_numbers.hpp"
#include "kernels/programs/scores.hpp"
#include "language/device/programs.hpp"
#include "language/device/slabs.hpp"
#include "oracles/core/room.hpp"
#include "oracles/multiword/delta.hpp"
#include "proptests/core/share.hpp"
#include "proptests/language/stub_gpu.hpp"
#include "proptests/words/delta_cases.hpp"
#include "reference/core/inputs.hpp"
#include "reference/core/rounding.hpp"

namespace assay::language {
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

TEST(DrawNumbers, FunctionsHaveTheHostsBits) {
  for (const double x : numbers()) {
    ASSERT_EQ(bits(draws::exp2_of(x)), bits(tile::ex2(x))) << x;
    ASSERT_EQ(bits(draws::log2_of(x)), bits(tile::lg2(x))) << x;
    ASSERT_EQ(bits(draws::tanh_of(x)), bits(tile::hyperbolic_tangent(x))) << x;
    for (const double y : {0.0, -0.0, 1.0, x, -x, std::numeric_limits<double>::quiet_NaN()})
      ASSERT_EQ(bits(draws::larger_of(x, y)), bits(tile::maxi(x, y))) << x << " " << y;
  }
}

TEST(DrawNumbers, RoundingHasTheHostsBits) {
  for (const Rounding rounding : all_roundings)
    for (const Format format : all_formats) {
      Policy policy = Policy::exact(kernel_rooms()[0]->forms[0].sites);
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

/// The GPU, and what it says.
struct TilesOnStub : StubGpu {
  std::vector<std::string> compiled, failures;
  std::string why;
  std::unique_ptr<DrawExecutor> tiles =
      gpu_draws(keeps(),
                {[this](const std::string& what) { compiled.push_back(what); },
                 [this](const std::string& form, const std::string& says) { failures.push_back(form + ": " + says); },
                 [this](const std::string& text) { failures.push_back(text); }},
                why);
};

const KernelForm& first_form(std::string_view room) { return find_kernels(kernel_rooms(), room)->forms[0]; }

Problem make(const CaseSpec& spec) { return find_room(spec.mechanism)->make(spec); }

Problem problem_of(const KernelForm& form, const CaseSpec& spec, const assay::Setting& setting) {
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

Policy drawing(const KernelForm& form, Format precision, Rounding rounding) {
  Policy policy = Policy::of(form.sites, precision);
  policy.rounding = rounding, policy.seed = 1234567;
  return policy;
}

/// The tensors of a form's answer that are others on the GPU.
std::string drawn_otherwise(DrawExecutor& gpu, const KernelForm& form, const Problem& problem, const Policy& policy,
                            int tile) {
  const Answer a = form.run(problem, policy, tile), b = gpu.run(form, problem, policy, tile);
  return different(a.outputs, b.outputs) + different(a.gradients, b.gradients);
}

class TileDraws : public OnStubGpu {};

/// Its first setting or another, and one of its tiles; of the forms, one in some.
TEST_F(TileDraws, EveryFormHasTheHostsBits) {
  TilesOnStub gpu;
  ASSERT_NE(gpu.tiles, nullptr) << gpu.why;
  constexpr Rounding roundings[] = {Rounding::jittered, Rounding::nearest_even, Rounding::stochastic};
  constexpr Format precisions[] = {Format::bf16, Format::fp32, Format::tf32, Format::fp16, Format::e4m3};
  std::uint64_t turn = hash_of(test_seed());
  Share sampled(8);
  while (sampled.goes_on())
    for (const KernelRoom* room : kernel_rooms())
      for (const KernelForm& form : room->forms) {
        if (!sampled.takes()) continue;
        const std::vector<assay::Setting> settings = form.settings();
        const assay::Setting& setting = settings[++turn % settings.size()];
        // The other styles go to the ends of what bf16 holds.
        const bool plain = setting.style == assay::Setting{}.style;
        const Format precision = plain ? precisions[++turn % std::size(precisions)] : Format::bf16;
        const CaseSpec spec{std::string(room->name), {1, 70, 2, 0, 16, 16, 0}, precision, {}, 0, {}};
        const Problem problem = problem_of(form, spec, setting);
        if (!form.obstacle(problem).empty()) continue;
        const int tile = static_cast<int>(++turn % form.tiles.size());
        const Policy policy = drawing(form, precision, roundings[++turn % std::size(roundings)]);
        EXPECT_EQ(drawn_otherwise(*gpu.tiles, form, problem, policy, tile), "")
            << room->name << '/' << form.name << ' ' << name_of(policy.rounding) << ' ' << name_of(precision)
            << " tile " << tile << flags_of(setting.params);
      }
  EXPECT_EQ(gpu.failures, std::vector<std::string>{});
}

/// A case of the room in that style; nothing where it does not take its arguments.
std::optional<ProblemFile> with_arguments(const KernelRoom& room, const arguments::ArgumentStyle& style,
                                          std::uint64_t seed) {
  const CaseSpec spec{.mechanism = std::string(room.name),
                      .shape = {1, 40, 2, 0, 16, 16, 0},
                      .precision = Format::bf16,
                      .seed = seed,
                      .argument_style = std::string(style.name)};
  try {
    return read_problem(arguments::draw_case(spec, "0"), "case");
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// Every sequence of a case with arguments goes to the GPU, and so do its front and back ends.
TEST_F(TileDraws, FormsWithArgumentsHaveTheHostsBits) {
  TilesOnStub gpu;
  ASSERT_NE(gpu.tiles, nullptr) << gpu.why;
  constexpr Rounding roundings[] = {Rounding::jittered, Rounding::nearest_even};
  std::uint64_t turn = hash_of(test_seed());
  Share sampled(8);
  while (sampled.goes_on())
    for (const KernelRoom* room : kernel_rooms())
      for (const arguments::ArgumentStyle& style : arguments::argument_styles()) {
        const std::optional<ProblemFile> file = with_arguments(*room, style, ++turn % 1000);
        const KernelRoom* const forms = file ? find_argument_forms(file->room->name) : nullptr;
        if (forms == nullptr || !sampled.takes()) continue;
        for (const KernelForm& form : forms->forms) {
          if (!form.obstacle(file->problem).empty()) continue;
          const Policy policy = drawing(form, Format::bf16, roundings[++turn % std::size(roundings)]);
          const Answer here = form.run(file->problem, policy, 0);
          draw_with(gpu.tiles.get());
          const Answer there = form.run(file->problem, policy, 0);
          draw_with(nullptr);
          EXPECT_EQ(different(here.outputs, there.outputs) + different(here.gradients, there.gradients), "")
              << room->name << '/' << form.name << ' ' << style.name;
        }
      }
  EXPECT_FALSE(gpu.compiled.empty());
  EXPECT_EQ(gpu.failures, std::vector<std::string>{});
}

/// What the GPU does not take is the CPU's, and nothing is said of it.
TEST_F(TileDraws, GoWhereTheyAreTaken) {
  TilesOnStub gpu;
  ASSERT_NE(gpu.tiles, nullptr) << gpu.why;
  const KernelForm& form = first_form("linear_attention");
  const Problem problem = make({"linear_attention", {1, 40, 2, 0, 16, 16, 0}, Format::bf16, {}, 0, {}});
  const Policy policy = drawing(form, Format::bf16, Rounding::jittered);
  EXPECT_EQ(draws_at_once(form, problem), 1);
  draw_with(gpu.tiles.get());
  EXPECT_GT(draws_at_once(form, problem), 1);
  const KernelForm other = form;
  EXPECT_EQ(draws_at_once(other, problem), 1) << "none of kernel_rooms";
  const auto drawn = [&](const Policy& how) {
    const Answer a = form.run(problem, how, 0), b = draw(form, problem, how, 0);
    EXPECT_EQ(different(a.outputs, b.outputs) + different(a.gradients, b.gradients), "");
  };
  drawn(policy);
  EXPECT_EQ(gpu.compiled, std::vector<std::string>{"6 tile programs of chunkwise"});
  EXPECT_THROW(gpu.tiles->run(form, problem, Policy::of(form.sites, Format::fp64), 0), NotDrawn);
  drawn(Policy::of(form.sites, Format::fp64));
  std::map<std::string, SiteStats, std::less<>> stats;
  Policy counted = policy;
  counted.stats = &stats;
  drawn(counted);
  EXPECT_FALSE(stats.empty());
  Policy broken = policy;
  broken.fault = form.mutants.front().name;
  drawn(broken);
  EXPECT_EQ(gpu.compiled.size(), 1U);
  *gpu.fails = true;
  drawn(policy), drawn(policy);
  *gpu.fails = false;
  draw_with(nullptr);
  EXPECT_EQ(gpu.failures, std::vector<std::string>{"the stub fails"});
  EXPECT_EQ(gpu.tiles->at_once(problem), 0);
}

/// What the compiler does not take is said once, and is known from then on.
TEST_F(TileDraws, WhatIsRefusedIsSaid) {
  StubGpu stub;
  std::string why;
  const device::Driver* const driver = device::Driver::find(why);
  ASSERT_NE(driver, nullptr) << why;
  const device::Gpu gpu(*driver);
  std::vector<std::string> refused;
  device::Programs programs(gpu, stub.keeps(),
                            [&](const std::string& what, const std::string&) { refused.push_back(what); });
  const std::string code = "#include \"kernels/draws/on_device.hpp\"\n", line = "ASSAY_EACH(assay::draws::Nothing)";
  for (int time = 0; time < 2; ++time) EXPECT_FALSE(programs.find(code, line, "nothing", [] {}).why.empty());
  EXPECT_EQ(refused, std::vector<std::string>{"nothing"});
  programs.make(code, {line}, "nothing", [](std::size_t) { ADD_FAILURE() << "it is known"; });
}

/// Outputs alone, and gradients; a head whose slabs are of several blocks.
TEST_F(TileDraws, SlabsOfTruthHaveTheHostsBits) {
  static StubGpu stub;
  static std::string why;
  static int compiled = 0, runs = 0;
  static const auto gpu = slabs_on_gpu(stub.keeps(), {[](const std::string&) { ++compiled; }, {}, {}}, why);
  ASSERT_NE(gpu, nullptr) << why;
  constexpr words::SlabExecutor on_gpu = {[](std::size_t, std::size_t, std::size_t, int, bool) { return 1; },
                                          [](words::SlabRun& run) { return ++runs, gpu->run(run); }};
  const words::GradientData data({7, 35, 72, words::DeltaDecay::per_step, words::DeltaError::decayed});
  const words::Effort effort{2, 1, words::best_isa()};
  words::slabs_with(&on_gpu);
  const words::DeltaAnswer got = words::delta_forward(data.problem, effort);
  const words::DeltaGradients back = words::delta_backward(data.problem, data.cotangent, effort);
  words::slabs_with(nullptr);
  const words::DeltaAnswer want = words::delta_forward(data.problem, effort);
  EXPECT_TRUE(same_bits(got.o, want.o) && same_bits(got.final_state, want.final_state));
  const words::DeltaGradients expected = words::delta_backward(data.problem, data.cotangent, effort);
  const auto found = words::tensors_of(back), right = words::tensors_of(expected);
  for (std::size_t n = 0; n < found.size(); ++n)
    EXPECT_TRUE(same_bits(*found[n].second, *right[n].second)) << found[n].first;
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace assay::language
