// The tile programs of softmax attention and Parallax on the CPU executor: their ends, their sites and units, and the
// executor's own hazard checks. fixed_cases.cpp compares them with the oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/softmax_attention.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/core/scaled_operands.hpp"
#include "kernels/host/host_launch.hpp"
#include "oracles/scalars/precise.hpp"
#include "proptests/core/bits.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

using Long = long double;

/// 2^x, from Horner's rule on c_i (f ln 2)^i / i!: every step rounds a product and a sum that are together at most
/// |f ln 2| < 0.35 of the next sum, which is at least 0.7, so 2 u / (1 - 0.35) / 0.7 < 5 u; u more for x / ln 2 in f
/// and for what the series leaves out.
template <class T>
void exponentials_are_within(double u) {
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const double x = (static_cast<double>(RandomBits{7}.at(i) >> 12) * 0x1p-51 - 1) * (i % 2 == 0 ? 1000 : 2);
    const Mp50 truth = pow(Mp50(2), Mp50(x)), got(tile::ex2(static_cast<T>(x)));
    ASSERT_LE(abs(got / truth - 1), 6 * u) << "2^" << x;
  }
  constexpr T infinity = std::numeric_limits<T>::infinity();
  EXPECT_EQ(tile::ex2(T(0)), T(1));
  EXPECT_EQ(tile::ex2(T(-7)), T(0x1p-7));
  EXPECT_EQ(tile::ex2(T(-1074)), T(0x1p-1074));
  EXPECT_EQ(tile::ex2(-infinity), T(0));
  EXPECT_EQ(tile::ex2(infinity), infinity);
  EXPECT_TRUE(std::isnan(tile::ex2(std::numeric_limits<T>::quiet_NaN())));
}
TEST(host_math, exponentials_are_accurate) {
  exponentials_are_within<double>(0x1p-53);
  exponentials_are_within<Long>(0x1p-64);
}

struct AttentionCase {
  int heads, kv_heads, queries, keys, K, V;
  bool causal = true;
  int window = 0;
  double bandwidth = 1.5, amplitude = 1;
  bool probe = true;
};

/// Seeded numbers in [-1, 1), multiples of 2^-7: exact in bf16.
Array draw(std::vector<int> shape, std::uint64_t seed, double amplitude) {
  Array a(std::move(shape));
  for (std::size_t i = 0; i < a.data.size(); ++i)
    a.data[i] = amplitude * (static_cast<double>(RandomBits{seed}.at(i) >> 56) / 128 - 1);
  return a;
}

Problem make(std::string_view room, const AttentionCase& c) {
  Problem p;
  p.mechanism = room;
  p.params["bandwidth"] = text(c.bandwidth);
  if (!c.causal) p.params["causal"] = false;
  if (c.window > 0) p.params["window"] = static_cast<long>(c.window);
  p.inputs["q"] = draw({c.heads, c.queries, c.K}, 4, c.amplitude);
  p.inputs["k"] = draw({c.kv_heads, c.keys, c.K}, 5, c.amplitude);
  p.inputs["v"] = draw({c.kv_heads, c.keys, c.V}, 6, 1);
  p.cotangents["o"] = draw({c.heads, c.queries, c.V}, 7, 1);
  if (room == "parallax") p.inputs["rho"] = draw({c.heads, c.queries, c.K}, 9, c.probe ? 0.5 : 0);
  return p;
}

std::span<const KernelForm> forms_named(std::string_view room) { return find_kernels(kernel_rooms(), room)->forms; }

const std::string_view room_names[] = {"softmax_attention", "parallax"};

TEST(AttentionKernels, LargeScoresDoNotOverflow) {
  for (const std::string_view name : room_names)
    for (const KernelForm& form : forms_named(name)) {
      const Problem p = make(name, {2, 1, 16, 150, 16, 16, true, 0, 0.25, 16});  // scores of thousands
      for (const Format precision : {Format::fp32, Format::bf16, Format::fp16}) {
        const Answer answer = form.run(p, Policy::of(form.sites, precision), 2);
        for (const double x : answer.outputs.at("o").data) ASSERT_TRUE(std::isfinite(x)) << name << " " << form.name;
      }
    }
}

TEST(AttentionKernels, EmptyRowsAreZeroInEveryPrecision) {
  const AttentionCase c{2, 1, 16, 5, 8, 8};  // rows 0 to 10 see nothing
  for (const std::string_view name : room_names)
    for (const KernelForm& form : forms_named(name))
      for (const Format precision : {Format::exact, Format::fp32, Format::bf16}) {
        const Answer answer = form.run(make(name, c), Policy::of(form.sites, precision), 0);
        const auto rows_are_zero = [&](const Array& a) {
          for (std::size_t i = 0; i < a.data.size(); ++i)
            ASSERT_TRUE(i / 8 % 16 < 11 ? a.data[i] == 0 : std::isfinite(a.data[i]))
                << name << " " << form.name << " element " << i;
        };
        rows_are_zero(answer.outputs.at("o"));
        for (const char* query_side : {"q", "rho"})
          if (answer.gradients.contains(query_side)) rows_are_zero(answer.gradients.at(query_side));
      }
}

bool same_bits(const Arrays& a, const Arrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same_bits(x.second, y.second); });
}
TEST(AttentionKernels, ParallaxWithoutAProbeIsSoftmaxAttentionBitForBit) {
  AttentionCase c{4, 2, 14, 90, 24, 40, true, 50};
  c.probe = false;
  const Problem p = make("parallax", c), s = make("softmax_attention", c);
  const std::span<const KernelForm> parallax = forms_named("parallax"), softmax = forms_named("softmax_attention");
  for (std::size_t f = 0; f < softmax.size(); ++f)
    for (const Format precision : {Format::exact, Format::fp32, Format::bf16, Format::e4m3})
      for (int tile = 0; tile < 3; ++tile) {
        Answer a = parallax[f].run(p, Policy::of(parallax[f].sites, precision), tile);
        a.gradients.erase("rho");  // not zero: -Cov(v, k)^T g
        const Answer b = softmax[f].run(s, Policy::of(softmax[f].sites, precision), tile);
        EXPECT_TRUE(same_bits(a.outputs, b.outputs)) << parallax[f].name << " " << name_of(precision) << " " << tile;
        EXPECT_TRUE(a.gradients == b.gradients) << parallax[f].name << " " << name_of(precision) << " " << tile;
      }
}

TEST(AttentionKernels, EverySiteOfTheTableIsVisitedAndNoOther) {
  for (const std::string_view name : room_names)
    for (const KernelForm& form : forms_named(name)) {
      std::map<std::string, SiteStats, std::less<>> stats;
      Policy policy = Policy::of(form.sites, Format::bf16);
      policy.stats = &stats;
      form.run(make(name, {2, 1, 16, 40, 8, 8}), policy, 2);
      std::set<std::string_view> visited, listed;
      for (const auto& [site, s] : stats) visited.insert(site);
      for (int i = 0; i < form.sites.size; ++i) listed.insert(form.sites.entries[i].view());
      EXPECT_EQ(visited, listed) << name << " " << form.name;
    }
}

TEST(AttentionKernels, ShapesFollowTheProblem) {
  Problem p = make("parallax", {1, 1, 6, 9, 4, 3});
  for (Arrays* arrays : {&p.inputs, &p.cotangents})
    for (auto& [name, array] : *arrays) array.shape.erase(array.shape.begin());  // one head, no head axis
  const KernelForm& tiled = forms_named("parallax")[0];
  Answer answer = tiled.run(p, Policy::exact(tiled.sites), 0);
  EXPECT_EQ(answer.outputs.at("o").shape, (std::vector{6, 3}));
  EXPECT_EQ(answer.gradients.at("k").shape, (std::vector{9, 4}));
  EXPECT_EQ(answer.gradients.at("bandwidth").shape, std::vector<int>{});
  p.cotangents.clear();
  EXPECT_TRUE(tiled.run(p, Policy::exact(tiled.sites), 0).gradients.empty());
  p.inputs["q"] = p.inputs["rho"] = Array({0});  // no queries: an empty list
  p.cotangents["o"] = Array({0});
  answer = tiled.run(p, Policy::exact(tiled.sites), 0);
  EXPECT_EQ(answer.outputs.at("o").shape, (std::vector{0, 3}));
  EXPECT_EQ(answer.gradients.at("v").data, std::vector<double>(27, 0.0));
}

TEST(OperandUnits, PowersOfTwoFromBelow) {
  for (const double x : {0x1p-40, 0x1.8p-3, 1.0, 1.0 + 0x1p-52, 3.0, 0x1p60}) {
    const double power = tile::power_of_two_from(x);
    EXPECT_TRUE(std::frexp(power, std::vector<int>(1).data()) == 0.5 && x <= power && power < 2 * x) << x;
    EXPECT_EQ(tile::power_of_two_from(static_cast<Long>(x)), power);
  }
  EXPECT_EQ(tile::power_of_two_from(0.0), 0);
}

}  // namespace

// ---- the executor's hazard checks, on programs that race

namespace tile {
namespace {

using Block = HostBlock<double>;

constexpr SiteTable::Init racy_roles[] = {{"A", Role::operand}, {"C", Role::accumulator}};
constexpr SiteTable racy_sites(racy_roles);

struct RacyTiles {
  Block::Tile<"A", 8, 8> A[2];
};

template <class Body>
void run_racy(Body body) {
  const std::vector<double> ones(64, 1.0);
  Block block(Policy::exact(racy_sites), 0);
  RacyTiles tiles;
  body(block, tiles, Block::In{ones.data(), 8, 8});
}

TEST(HostBlockHazards, RacesThrowAndTheirHealthyTwinsDoNot) {
  const auto product = [](Block& b, auto& A) { return b.abt("C"_s, A, A); };
  const auto nothing = [](int, int) {};
  // A tile read after it was written, with and without a barrier.
  EXPECT_NO_THROW(run_racy(
      [&](Block& b, RacyTiles& s, auto) { b.put(s.A[0], b.acc("C"_s, Shape<8, 8>{})), b.sync(), product(b, s.A[0]); }));
  EXPECT_THROW(
      run_racy([&](Block& b, RacyTiles& s, auto) { b.put(s.A[0], b.acc("C"_s, Shape<8, 8>{})), product(b, s.A[0]); }),
      HazardError);
  // Overwritten while others may still read it.
  EXPECT_THROW(run_racy([&](Block& b, RacyTiles& s, auto) {
                 b.put(s.A[0], b.acc("C"_s, Shape<8, 8>{})), b.sync(), product(b, s.A[0]);
                 b.put(s.A[0], b.acc("C"_s, Shape<8, 8>{}));
               }),
               HazardError);
  // A load read before the pipeline has handed it over, and after.
  EXPECT_THROW(run_racy([&](Block& b, RacyTiles& s, auto in) { b.load(s.A[0], in, 0, 0), product(b, s.A[0]); }),
               HazardError);
  EXPECT_NO_THROW(run_racy([&](Block& b, RacyTiles& s, auto in) {
    b.load(s.A[0], in, 0, 0);
    b.pipeline(Shape<2>{}, 1, nothing, [&](int, int) { product(b, s.A[0]); });
  }));
  // Two stages: the right one, the one still in flight, and one stage for two.
  const auto stages = [&](auto load_into, auto read_from) {
    run_racy([&](Block& b, RacyTiles& s, auto in) {
      b.pipeline(
          Shape<2>{}, 4, [&](int j, int st) { b.load(s.A[load_into(st)], in, 0, j); },
          [&](int, int st) { product(b, s.A[read_from(st)]); });
    });
  };
  const auto same = [](int st) { return st; };
  EXPECT_NO_THROW(stages(same, same));
  EXPECT_THROW(stages(same, [](int st) { return 1 - st; }), HazardError);
  EXPECT_THROW(stages([](int) { return 0; }, [](int) { return 0; }), HazardError);
  // An asynchronous product is not a number until it is awaited.
  run_racy([&](Block& b, RacyTiles& s, auto in) {
    b.load(s.A[0], in, 0, 0);
    b.pipeline(Shape<2>{}, 1, nothing, [&](int, int) {
      auto C = b.abt_async("C"_s, s.A[0], s.A[0]);
      EXPECT_TRUE(std::isnan(C.at(0, 0)));
      b.await(C);
      EXPECT_EQ(C.at(0, 0), 8);
      EXPECT_THROW(b.await(C), HazardError);
    });
  });
}

}  // namespace
}  // namespace tile

}  // namespace assay
