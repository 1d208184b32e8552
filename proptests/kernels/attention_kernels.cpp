// The tile programs of softmax attention and Parallax on the CPU executor: against a plain definition written here,
// their invariances, the executor's own hazard checks, and the faults that are planted in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "kernels/attention/softmax_attention.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/core/scaled_operands.hpp"
#include "kernels/host/host_launch.hpp"
#include "oracles/scalars/precise.hpp"
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

struct Case {
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

Problem make(std::string_view room, const Case& c, std::uint64_t seed = 1) {
  Problem p;
  p.mechanism = room;
  p.params["bandwidth"] = text(c.bandwidth);
  if (!c.causal) p.params["causal"] = false;
  if (c.window > 0) p.params["window"] = static_cast<long>(c.window);
  p.inputs["q"] = draw({c.heads, c.queries, c.K}, 4 * seed, c.amplitude);
  p.inputs["k"] = draw({c.kv_heads, c.keys, c.K}, 4 * seed + 1, c.amplitude);
  p.inputs["v"] = draw({c.kv_heads, c.keys, c.V}, 4 * seed + 2, 1);
  p.cotangents["o"] = draw({c.heads, c.queries, c.V}, 4 * seed + 3, 1);
  if (room == "parallax") p.inputs["rho"] = draw({c.heads, c.queries, c.K}, 4 * seed + 5, c.probe ? 0.5 : 0);
  return p;
}

const KernelRoom& room_of(std::span<const KernelRoom* const> rooms, std::string_view name) {
  return *find_kernels(rooms, name);
}

/// A definition's numbers, and for each the sum of the absolute values of what it is made of, times the number of
/// roundings on the longest path to it: to first order |computed - value| <= u * size for any order of operations with
/// unit roundoff u. That number is counted generously, which covers the higher orders while it stays far below 1 / u.
struct Defined {
  std::map<std::string, std::vector<Long>> value, size;
};

/// The equations of lla-family.md sections 1 and 2, row by row; softmax attention is the case rho = 0.
Defined define(const Problem& p, const Case& c) {
  struct Input {
    const Array* array;
    int rows, cols;
    Long operator()(int head, int row, int col) const {
      return array == nullptr ? 0 : array->data[(head * rows + row) * cols + col];
    }
  };
  struct Result {
    std::vector<Long>&value, &size;
    int rows, cols;
    void add(int head, int row, int col, Long x, Long magnitude) {
      const int at = (head * rows + row) * cols + col;
      value[at] += x, size[at] += magnitude;
    }
  };
  Defined defined;
  const auto input = [](const Arrays& arrays, const char* name, int rows, int cols) -> Input {
    const auto it = arrays.find(name);
    return {it == arrays.end() ? nullptr : &it->second, rows, cols};
  };
  const auto result = [&](const char* name, int heads, int rows, int cols) -> Result {
    std::vector<Long>&value = defined.value[name], &size = defined.size[name];
    value.resize(static_cast<std::size_t>(heads) * static_cast<std::size_t>(rows * cols)), size.resize(value.size());
    return {value, size, rows, cols};
  };
  const int n = c.queries, T = c.keys, K = c.K, V = c.V, group = c.heads / c.kv_heads;
  const Long h = c.bandwidth;
  const Input q = input(p.inputs, "q", n, K), k = input(p.inputs, "k", T, K), v = input(p.inputs, "v", T, V);
  const Input rho = input(p.inputs, "rho", n, K), g = input(p.cotangents, "o", n, V);
  Result o = result("o", c.heads, n, V), dq = result("q", c.heads, n, K), drho = result("rho", c.heads, n, K);
  Result dk = result("k", c.kv_heads, T, K), dv = result("v", c.kv_heads, T, V), dh = result("bandwidth", 1, 1, 1);

  struct Seen {  // one visible key; ._abs: the same sum over absolute values
    int j;
    Long s = 0, t = 0, a = 0, p = 0, s_abs = 0, t_abs = 0, a_abs = 0;
  };
  for (int head = 0; head < c.heads; ++head)
    for (int i = 0; i < n; ++i) {
      const int kv = head / group, position = i + T - n;
      std::vector<Seen> seen;
      Long top = -std::numeric_limits<Long>::infinity(), widest = 0, sum = 0;
      for (int j = 0; j < T; ++j) {
        if (c.causal && (j > position || (c.window > 0 && j <= position - c.window))) continue;
        Seen& x = seen.emplace_back(Seen{j});
        for (int e = 0; e < K; ++e) {
          const Long s = q(head, i, e) * k(kv, j, e) / h, t = rho(head, i, e) * k(kv, j, e);
          x.s += s, x.s_abs += std::fabs(s), x.t += t, x.t_abs += std::fabs(t);
        }
        for (int e = 0; e < V; ++e) {
          const Long a = g(head, i, e) * v(kv, j, e);
          x.a += a, x.a_abs += std::fabs(a);
        }
        top = std::max(top, x.s), widest = std::max(widest, x.s_abs);
      }
      for (Seen& x : seen) sum += x.p = std::exp(x.s - top);
      // Roundings on the way to a weight: K + 4 of scores, twice (forward and backward), one of the maximum and an
      // exponential (20) for every rescaling; then those of the sums over dimensions, keys and, for dk and dv, queries.
      const Long keys = static_cast<Long>(seen.size()), rescalings = keys / 16 + 4;
      const Long count = 2 * (K + 4) * widest + (widest + 20) * rescalings + 4 * (keys + K + V) + n * group;
      Long tbar = 0, beta = 0, tau = 0, tbar_abs = 0, beta_abs = 0, tau_abs = 0;
      for (Seen& x : seen) {
        x.p /= sum;
        tbar += x.p * x.t, tbar_abs += x.p * x.t_abs, beta += x.p * x.a, beta_abs += x.p * x.a_abs;
      }
      const auto coefficient = [&](const Seen& x) { return x.p * (1 + tbar - x.t); };
      // What rounds below fp32's smallest normal number errs by at most u times that number.
      const auto p_abs = [](const Seen& x) { return x.p + 0x1p-126L; };
      const auto coefficient_abs = [&](const Seen& x) { return p_abs(x) * (1 + tbar_abs + x.t_abs); };
      for (const Seen& x : seen) tau += coefficient(x) * x.a, tau_abs += coefficient_abs(x) * x.a_abs;
      for (const Seen& x : seen) {
        for (int e = 0; e < V; ++e) {
          const Long value = v(kv, x.j, e), cotangent = g(head, i, e), size = count * coefficient_abs(x);
          o.add(head, i, e, coefficient(x) * value, size * std::fabs(value));
          dv.add(kv, x.j, e, coefficient(x) * cotangent, size * std::fabs(cotangent));
        }
        const Long D = x.p * (x.a - tau + (tbar - x.t) * (x.a - beta)), E = -x.p * (x.a - beta);
        const Long E_abs = count * p_abs(x) * (x.a_abs + beta_abs);
        const Long D_abs = count * p_abs(x) * (x.a_abs + tau_abs) + (tbar_abs + x.t_abs) * E_abs;
        for (int e = 0; e < K; ++e) {
          const Long key = k(kv, x.j, e), query = q(head, i, e), probe = rho(head, i, e);
          dq.add(head, i, e, D * key / h, D_abs * std::fabs(key) / h);
          drho.add(head, i, e, E * key, E_abs * std::fabs(key));
          dk.add(kv, x.j, e, D * query / h + E * probe, D_abs * std::fabs(query) / h + E_abs * std::fabs(probe));
        }
        const Long log_p = std::fabs(x.s - top - std::log(sum));  // the kernel sums D log p, the definition D s
        dh.add(0, 0, 0, -D * x.s / h, D_abs * (x.s_abs + log_p + 1) / h);
      }
    }
  return defined;
}

/// `u` is the executor's unit roundoff; the definition's own, and that of the answer's doubles, are added.
void expect_defined(const Answer& got, const Defined& want, bool gradients, Long u, const std::string& where) {
  const auto compare = [&](const Arrays& arrays) {
    for (const auto& [name, array] : arrays) {
      const std::vector<Long>&value = want.value.at(name), &size = want.size.at(name);
      ASSERT_EQ(array.data.size(), value.size()) << where << ": " << name;
      for (std::size_t i = 0; i < value.size(); ++i)
        ASSERT_LE(std::fabs(array.data[i] - value[i]), (u + 0x1p-64L) * size[i] + 0x1p-53L * std::fabs(value[i]))
            << where << ": " << name << " element " << i << " is " << array.data[i];
    }
  };
  compare(got.outputs);
  EXPECT_EQ(got.gradients.empty(), !gradients);
  compare(got.gradients);
}

const std::string_view room_names[] = {"softmax_attention", "parallax"};

void check_definition(const Case& c, std::uint64_t seed) {
  for (const std::string_view name : room_names) {
    const Problem p = make(name, c, seed);
    const Defined want = define(p, c);
    for (const KernelForm& form : room_of(kernel_rooms(), name).forms) {
      if (!form.obstacle(p).empty()) continue;
      const int tiles = static_cast<int>(form.tiles.size());
      const auto compare = [&](int tile, Format precision, Long u) {
        expect_defined(form.run(p, Policy::of(form.sites, precision), tile), want, form.has_gradients, u,
                       text(name, " ", form.name, " ", form.tiles[static_cast<std::size_t>(tile)], " ",
                            name_of(precision), ", ", c.queries, " x ", c.keys, ", window ", c.window));
      };
      for (int tile = 0; tile < tiles; ++tile) compare(tile, Format::exact, 0x1p-64L);  // held in long double
      compare(static_cast<int>(seed) % tiles, Format::fp32, 0x1p-24L);                  // held in double
    }
  }
}

TEST(AttentionKernels, SitesAsideTheyAreTheDefinitionOnRaggedLengths) {
  for (const int T : {1, 15, 17, 33, 64, 65, 130}) {
    check_definition({1, 1, T, T, 7, 20}, 1);
    check_definition({2, 1, T, T, 16, 5, true, 5}, 2);
    check_definition({1, 1, T, T, 12, 12, true, 1}, 3);
  }
}

TEST(AttentionKernels, SitesAsideTheyAreTheDefinitionForEveryMask) {
  check_definition({2, 1, 40, 40, 9, 17, false}, 1);  // both directions
  check_definition({2, 1, 3, 70, 9, 17, false}, 2);
  check_definition({4, 1, 20, 90, 9, 17}, 3);  // fewer queries than keys
  check_definition({4, 2, 20, 90, 9, 17, true, 30}, 4);
  check_definition({2, 2, 50, 20, 9, 17}, 5);  // more: 30 empty rows
  check_definition({1, 1, 90, 17, 9, 17, true, 3}, 6);
  check_definition({1, 1, 40, 40, 9, 17, true, 100}, 7);   // a window wider than the sequence
  check_definition({1, 1, 130, 130, 9, 17, true, 64}, 8);  // rows that see nothing of their first tile
  check_definition({4, 2, 5, 300, 9, 17, true, 280}, 9);   // decoding: grouped rows, two splits, a window
  check_definition({4, 1, 16, 77, 9, 17}, 10);             // 64 packed rows
}

TEST(AttentionKernels, SitesAsideTheyAreTheDefinitionInEveryHeadDimension) {
  check_definition({1, 1, 33, 33, 64, 3}, 1);
  check_definition({1, 1, 20, 70, 3, 65}, 2);
  check_definition({1, 1, 16, 40, 128, 128}, 3);
}

TEST(AttentionKernels, LargeScoresDoNotOverflow) {
  check_definition({1, 1, 40, 40, 16, 16, true, 0, 0.25, 16}, 1);  // scores of thousands
  for (const std::string_view name : room_names)
    for (const KernelForm& form : room_of(kernel_rooms(), name).forms) {
      const Problem p = make(name, {2, 1, 16, 150, 16, 16, true, 0, 0.25, 16});
      for (const Format precision : {Format::fp32, Format::bf16, Format::fp16}) {
        const Answer answer = form.run(p, Policy::of(form.sites, precision), 2);
        for (const double x : answer.outputs.at("o").data) ASSERT_TRUE(std::isfinite(x)) << name << " " << form.name;
      }
    }
}

TEST(AttentionKernels, EmptyRowsAreZeroInEveryPrecision) {
  const Case c{2, 1, 16, 5, 8, 8};  // rows 0 to 10 see nothing
  for (const std::string_view name : room_names)
    for (const KernelForm& form : room_of(kernel_rooms(), name).forms)
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
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.shape == y.second.shape &&
           std::equal(
               x.second.data.begin(), x.second.data.end(), y.second.data.begin(), y.second.data.end(),
               [](double l, double r) { return std::bit_cast<std::uint64_t>(l) == std::bit_cast<std::uint64_t>(r); });
  });
}
bool same_bits(const Answer& a, const Answer& b) {
  return same_bits(a.outputs, b.outputs) && same_bits(a.gradients, b.gradients);
}

TEST(AttentionKernels, ParallaxWithoutAProbeIsSoftmaxAttentionBitForBit) {
  Case c{4, 2, 14, 90, 24, 40, true, 50};
  c.probe = false;
  const Problem p = make("parallax", c), s = make("softmax_attention", c);
  const auto &parallax = room_of(kernel_rooms(), "parallax").forms,
             &softmax = room_of(kernel_rooms(), "softmax_attention").forms;
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

TEST(AttentionKernels, BitsDoNotDependOnThreads) {
  const Case c{4, 2, 15, 100, 20, 30, true, 60};
  for (const std::string_view name : room_names)
    for (const KernelForm& form : room_of(kernel_rooms(), name).forms)
      for (const Rounding rounding : {Rounding::nearest_even, Rounding::stochastic}) {
        Policy policy = Policy::of(form.sites, Format::bf16);
        policy.rounding = rounding, policy.seed = 7, policy.threads = 1;
        const Answer one = form.run(make(name, c), policy, 1);
        policy.threads = 2;
        EXPECT_TRUE(same_bits(one, form.run(make(name, c), policy, 1))) << name << " " << form.name;
        policy.seed = 8;
        EXPECT_EQ(same_bits(one, form.run(make(name, c), policy, 1)), rounding == Rounding::nearest_even);
      }
}

TEST(AttentionKernels, EverySiteOfTheTableIsVisitedAndNoOther) {
  for (const std::string_view name : room_names)
    for (const KernelForm& form : room_of(kernel_rooms(), name).forms) {
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
  const KernelForm& tiled = room_of(kernel_rooms(), "parallax").forms[0];
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

TEST(OperandUnits, FillTheFormatAndAreOnesElsewhere) {
  Problem p = make("softmax_attention", {4, 2, 9, 9, 8, 8});
  const auto scale_head = [&](const char* name, int head, double factor) {
    Array& a = p.inputs.at(name);
    const std::size_t size = a.data.size() / static_cast<std::size_t>(a.shape[0]);
    for (std::size_t i = 0; i < size; ++i) a.data[static_cast<std::size_t>(head) * size + i] *= factor;
  };
  scale_head("q", 2, 1e4), scale_head("k", 0, 1e-6), scale_head("v", 0, 0), scale_head("v", 1, 1e30);
  const tile::AttentionShape shape(p);
  const auto largest = [](const Array& a, std::size_t head) {  // of the heads that belong to that key/value head
    const std::size_t size = a.data.size() / 2;
    double x = 0;
    for (std::size_t i = 0; i < size; ++i) x = std::max(x, std::fabs(a.data[head * size + i]));
    return x;
  };
  for (const Format format : {Format::e4m3, Format::e5m2}) {
    const Policy policy = Policy::of(tile::softmax_tiled_sites, format);
    const tile::ScaledOperands scaled(shape, p.inputs, policy, 1);
    for (std::size_t head = 0; head < 2; ++head) {
      const tile::OperandUnits<double>& unit = scaled.units()[head];
      EXPECT_EQ(unit.weight, std::ldexp(1.0, info(format).max_exponent));
      EXPECT_EQ(unit.probe, 1);
      for (const auto& [name, x] : {std::pair{"q", unit.query}, std::pair{"k", unit.key}, std::pair{"v", unit.value}}) {
        const double was = largest(p.inputs.at(name), head), is = largest(scaled.inputs().at(name), head);
        EXPECT_EQ(x, tile::power_of_two_from(x)) << name;
        EXPECT_EQ(is * x, was) << name;
        if (was == 0) {
          EXPECT_EQ(x, 1);
          continue;
        }
        if (x == 0x1p48) continue;  // as large as units get
        EXPECT_LE(is, info(format).max_finite) << name;
        EXPECT_GT(2 * is, info(format).max_finite) << name;
      }
    }
    EXPECT_EQ(scaled.units()[1].value, 0x1p48);
    EXPECT_EQ(tile::ScaledOperands(shape, p.inputs, policy, 1).units<double>(policy)[1].value, 0x1p48);
  }
  // Wider formats have no units, nor have contracts without their site.
  Policy unscaled = Policy::of(tile::softmax_tiled_sites, Format::e4m3);
  unscaled.sites = unscaled.sites.without("descale");
  for (const Policy& policy : {Policy::of(tile::softmax_tiled_sites, Format::bf16), unscaled}) {
    const tile::ScaledOperands scaled(shape, p.inputs, policy, 1e-60);
    EXPECT_EQ(&scaled.inputs(), &p.inputs);
    for (const tile::OperandUnits<double>& unit : scaled.units<double>(policy))
      for (const double x : {unit.query, unit.key, unit.value, unit.probe, unit.weight}) EXPECT_EQ(x, 1);
  }
}

TEST(AttentionKernels, FormsSayWhatTheyCannotHold) {
  for (const std::string_view name : room_names) {
    const auto& forms = room_of(kernel_rooms(), name).forms;
    for (const KernelForm& form : forms) {
      EXPECT_NE(form.obstacle(make(name, {1, 1, 2, 2, 129, 4})), "");
      EXPECT_NE(form.obstacle(make(name, {1, 1, 2, 2, 4, 129})), "");
      EXPECT_EQ(form.obstacle(make(name, {1, 1, 16, 2, 128, 128})), "");
    }
    EXPECT_EQ(forms[0].obstacle(make(name, {1, 1, 17, 2, 4, 4})), "");
    EXPECT_NE(forms[1].obstacle(make(name, {1, 1, 17, 2, 4, 4})), "");
  }
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

namespace {

// ---- faults

/// Problems that between them excite every fault: grouped heads, ragged tails, a window, rows that come late, scores
/// that rise by thousands along the keys, and heads that differ in size.
std::vector<Problem> exciting(std::string_view room) {
  std::vector<Problem> problems = {make(room, {4, 2, 16, 85, 12, 10}), make(room, {4, 2, 70, 85, 12, 10, true, 30}),
                                   make(room, {4, 2, 14, 85, 12, 10, true, 30}, 2)};
  Problem rising = make(room, {1, 1, 16, 85, 12, 10});
  for (double& x : rising.inputs.at("q").data) x = std::fabs(x) + 1;
  for (std::size_t i = 0; i < rising.inputs.at("k").data.size(); ++i) {
    const std::size_t row = i / 12;
    rising.inputs.at("k").data[i] = static_cast<double>(4 * row);
  }
  problems.push_back(std::move(rising));
  Problem uneven = make(room, {4, 2, 16, 33, 12, 10});
  std::vector<double>& v = uneven.inputs.at("v").data;
  for (std::size_t i = v.size() / 2; i < v.size(); ++i) v[i] *= 8;
  problems.push_back(std::move(uneven));
  return problems;
}

/// Whether some number differs by more than 2^-20 of the largest of its array. The sound kernel, in long double and
/// with exponents below 2^13, is within 2^-64 * 2^13 of the truth or so: rounding is not taken for a fault.
bool differs(const Arrays& a, const Arrays& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& entry) {
    const std::vector<double>&x = entry.second.data, &y = b.at(entry.first).data;
    double largest = 0;
    for (const double e : x) largest = std::max(largest, std::fabs(e));
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!(std::fabs(x[i] - y[i]) <= std::ldexp(largest, -20))) return true;
    return false;
  });
}

TEST(AttentionMutants, EveryListedFaultChangesAnAnswerAndOnlyListedOnesAreAskedFor) {
  for (const std::string_view name : room_names) {
    for (const KernelForm& form : room_of(kernel_rooms(), name).forms) {
      std::set<std::string, std::less<>> asked;
      std::set<std::string_view> unseen;
      for (const Mutant& m : form.mutants) unseen.insert(m.name);
      EXPECT_EQ(unseen.size(), form.mutants.size()) << "a name is listed twice";
      // Faults of units show in 8 bits alone.
      for (const Format precision : {Format::exact, Format::e4m3})
        for (const Problem& problem : exciting(name)) {
          if (!form.obstacle(problem).empty()) continue;
          Policy policy = Policy::of(form.sites, precision);
          const Answer sound = form.run(problem, policy, 2);
          policy.asked = &asked;
          EXPECT_TRUE(same_bits(sound, form.run(problem, policy, 2))) << name << ": no fault planted";
          policy.asked = nullptr;
          for (const Mutant& m : form.mutants) {
            EXPECT_FALSE(m.what.empty() || m.seen.empty()) << m.name;
            if (m.what.starts_with("fp8:") != (precision == Format::e4m3)) continue;
            policy.fault = m.name;
            const Answer sick = form.run(problem, policy, 2);
            if (differs(sound.outputs, sick.outputs) || differs(sound.gradients, sick.gradients)) unseen.erase(m.name);
          }
          policy.fault.clear();
        }
      EXPECT_EQ(unseen, std::set<std::string_view>()) << name << " " << form.name << ": without effect";
      std::set<std::string, std::less<>> listed;
      for (const Mutant& m : form.mutants) listed.emplace(m.name);
      EXPECT_EQ(asked, listed) << name << " " << form.name;
    }
  }
}

}  // namespace
}  // namespace assay
