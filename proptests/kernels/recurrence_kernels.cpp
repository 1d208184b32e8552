// The chunkwise kernels of deltanet and gated_deltanet against a token-by-token definition written here, in long
// double, and its gradients by dual numbers, one input element at a time. The tests share no formula with kernels or
// reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

using Real = long double;

/// x + d epsilon.
struct Dual {
  Real x = 0, d = 0;
};
Dual operator+(Dual a, Dual b) { return {a.x + b.x, a.d + b.d}; }
Dual operator-(Dual a, Dual b) { return {a.x - b.x, a.d - b.d}; }
Dual operator*(Dual a, Dual b) { return {a.x * b.x, a.x * b.d + a.d * b.x}; }
Dual exponential(Dual a) { return {std::exp(a.x), std::exp(a.x) * a.d}; }
Real exponential(Real x) { return std::exp(x); }

template <class S>
using Values = std::map<std::string, std::vector<S>, std::less<>>;

bool gated(const Problem& p) { return p.mechanism == "gated_deltanet"; }
std::string option(const Problem& p, std::string_view name) {
  const auto it = p.params.find(name);
  return it == p.params.end() ? "" : std::get<std::string>(it->second);
}
Real scale_of(const Problem& p, int key_dim) {
  return p.params.contains("scale") ? std::stold(option(p, "scale")) : 1 / std::sqrt(static_cast<Real>(key_dim));
}

/// Lengths of a problem; every array here has a head axis.
struct Lengths {
  int heads, shared, T, K, V;
  explicit Lengths(const Problem& p)
      : heads(p.inputs.at("v").shape[0]),
        shared(p.inputs.at("q").shape[0]),
        T(p.inputs.at("v").shape[1]),
        K(p.inputs.at("q").shape[2]),
        V(p.inputs.at("v").shape[2]) {}
};
std::size_t at(std::size_t a, std::size_t b, std::size_t nb) { return a * nb + b; }

/// The definition: S <- alpha S + beta x (v - (alpha S or S)^T x)^T, o = scale S^T q, x the key of this token or of the
/// one before. `largest` receives the largest Frobenius norm of a state.
template <class S>
Values<S> define(const Problem& p, const Values<S>& in, Real* largest = nullptr) {
  const Lengths n(p);
  const bool late = option(p, "alignment") == "next_latent", undecayed = option(p, "error") == "undecayed";
  const std::vector<S>&q = in.at("q"), &k = in.at("k"), &v = in.at("v"), &beta = in.at("beta");
  const std::vector<S> none, &carry = in.contains("k_carry") ? in.at("k_carry") : none;
  const S scale{scale_of(p, n.K)};
  std::vector<S> o, final_state;
  for (int h = 0; h < n.heads; ++h) {
    const int hs = h / (n.heads / n.shared);
    std::vector<S> state(at(n.K, 0, n.V)), key(static_cast<std::size_t>(n.K));
    if (const auto it = in.find("initial_state"); it != in.end())
      std::copy_n(it->second.begin() + static_cast<long>(at(h, 0, state.size())), state.size(), state.begin());
    for (int t = 0; t < n.T; ++t) {
      for (int i = 0; i < n.K; ++i)
        key[static_cast<std::size_t>(i)] = !late           ? k[at(at(hs, t, n.T), i, n.K)]
                                           : t > 0         ? k[at(at(hs, t - 1, n.T), i, n.K)]
                                           : carry.empty() ? S{}
                                                           : carry[at(hs, i, n.K)];
      const S alpha = gated(p) ? exponential(in.at("log_decay")[at(h, t, n.T)]) : S{1};
      const S read = undecayed ? S{1} : alpha;
      for (int j = 0; j < n.V; ++j) {
        S error = v[at(at(h, t, n.T), j, n.V)];
        for (int i = 0; i < n.K; ++i) error = error - read * state[at(i, j, n.V)] * key[static_cast<std::size_t>(i)];
        S sum{};
        for (int i = 0; i < n.K; ++i) {
          S& s = state[at(i, j, n.V)];
          s = alpha * s + beta[at(h, t, n.T)] * key[static_cast<std::size_t>(i)] * error;
          sum = sum + s * q[at(at(hs, t, n.T), i, n.K)];
        }
        o.push_back(scale * sum);
      }
      if constexpr (std::is_same_v<S, Real>)
        if (largest != nullptr)
          *largest =
              std::max(*largest, std::sqrt(std::inner_product(state.begin(), state.end(), state.begin(), Real{0})));
    }
    final_state.insert(final_state.end(), state.begin(), state.end());
  }
  return {{"o", o}, {"final_state", final_state}};
}

Values<Real> inputs_of(const Problem& p) {
  Values<Real> in;
  for (const auto& [name, a] : p.inputs) in[name].assign(a.data.begin(), a.data.end());
  return in;
}

/// d <cotangents, outputs> along `tangent`.
Real slope(const Problem& p, const Values<Real>& tangent) {
  Values<Dual> in;
  for (const auto& [name, x] : inputs_of(p))
    for (std::size_t i = 0; i < x.size(); ++i)
      in[name].push_back({x[i], tangent.contains(name) ? tangent.at(name)[i] : 0});
  Real sum = 0;
  for (const auto& [name, y] : define(p, in))
    if (p.cotangents.contains(name))
      for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<Real>(p.cotangents.at(name).data[i]) * y[i].d;
  return sum;
}

Real norm(const Array& a, int row, int cols) {
  Real sum = 0;
  for (int c = 0; c < cols; ++c) {
    const Real x = a.data[at(row, c, cols)];
    sum += x * x;
  }
  return std::sqrt(sum);
}

/// Bounds of every output and gradient, and of all that is summed on the way to it: the state S_t is at most `state`,
/// its adjoint at most growth (|dS_T| + sum scale |q_t| |do_t|), where growth multiplies the norms above 1 of the steps
/// alpha (I - beta x x^T) (decayed error) or alpha I - beta x x^T.
std::map<std::string, Real, std::less<>> bounds(const Problem& p) {
  const Lengths n(p);
  Real state = 0, longest_key = 0, longest_query = 0, longest_value = 0, longest_do = 0, largest_beta = 0, adjoint = 0;
  Real growth = 1;
  define(p, inputs_of(p), &state);
  for (int r = 0; r < n.shared * n.T; ++r) {
    longest_key = std::max(longest_key, norm(p.inputs.at("k"), r, n.K));
    longest_query = std::max(longest_query, norm(p.inputs.at("q"), r, n.K));
  }
  if (p.inputs.contains("k_carry"))
    for (int r = 0; r < n.shared; ++r) longest_key = std::max(longest_key, norm(p.inputs.at("k_carry"), r, n.K));
  if (p.inputs.contains("initial_state"))
    for (int h = 0; h < n.heads; ++h) state = std::max(state, norm(p.inputs.at("initial_state"), h, n.K * n.V));
  const Real scale = std::fabs(scale_of(p, n.K));
  for (int h = 0; h < n.heads; ++h) {
    Real product = 1,
         reads = p.cotangents.contains("final_state") ? norm(p.cotangents.at("final_state"), h, n.K * n.V) : 0;
    for (int t = 0; t < n.T; ++t) {
      const Real beta = p.inputs.at("beta").data[at(h, t, n.T)], k2 = longest_key * longest_key;
      const Real alpha = gated(p) ? std::exp(static_cast<Real>(p.inputs.at("log_decay").data[at(h, t, n.T)])) : 1;
      const Real step = option(p, "error") == "undecayed" ? alpha - beta * k2 : alpha * (1 - beta * k2);
      product *= std::max({Real{1}, alpha, std::fabs(step)});
      largest_beta = std::max(largest_beta, std::fabs(beta));
      longest_value = std::max(longest_value, norm(p.inputs.at("v"), h * n.T + t, n.V));
      const Real d = p.cotangents.contains("o") ? norm(p.cotangents.at("o"), h * n.T + t, n.V) : 0;
      longest_do = std::max(longest_do, d);
      reads += scale * longest_query * d;
    }
    growth = std::max(growth, product), adjoint = std::max(adjoint, product * reads);
  }
  const Real read = longest_value + longest_key * state, group = static_cast<Real>(n.heads) / n.shared;
  const Real dk = group * largest_beta * adjoint * (read + longest_key * state);
  return {{"o", scale * longest_query * state},
          {"final_state", state},
          {"q", group * scale * state * longest_do},
          {"k", dk},
          {"k_carry", dk},
          {"v", largest_beta * longest_key * adjoint},
          {"beta", longest_key * adjoint * read},
          {"log_decay", adjoint * state * (1 + largest_beta * longest_key * longest_key)},
          {"initial_state", adjoint}};
}

/// Roundings on the way to a number, at most: in every chunk of C rows the inner products over K, V and rows, one
/// solve, which mixes up to C intermediates of one bound, and the handing on of the state.
Real roundings(const Problem& p, int C) {
  const Lengths n(p);
  const int chunks = std::max(1, (n.T + C - 1) / C);
  return static_cast<Real>(chunks) * (n.K + n.V + 4 * C) * std::min(C, std::max(1, n.T));
}

struct Checked {
  bool agrees = true;
  std::string where;  ///< the first disagreement
};

/// Every output and gradient of the exact policy against the definition. The blocks compute in long double (unit
/// roundoff 2^-64) and the answer is rounded once, to double; so does `slack` half units of the bound, where inputs
/// were rounded.
Checked check(const Problem& p, const Values<Real>& expected, const Arrays& got, int C, double slack = 0) {
  Checked result;
  const auto limit = bounds(p);
  const auto fail = [&](const std::string& where) {
    result.agrees = false;
    if (result.where.empty()) result.where = where;
  };
  for (const auto& [name, want] : expected) {
    const auto it = got.find(name);
    if (it == got.end() || it->second.data.size() != want.size() || it->second.count() != want.size()) {
      fail(name + ": missing or of the wrong size");
      continue;
    }
    for (std::size_t i = 0; i < want.size(); ++i) {
      const Real error = std::fabs(static_cast<Real>(it->second.data[i]) - want[i]);
      const Real tolerance = 0x1p-53L * std::fabs(want[i]) +
                             limit.at(name) * (0x1p-64L * roundings(p, C) + 0x1p-53L * static_cast<Real>(slack));
      if (!(error <= tolerance))
        fail(text(name, "[", i, "]: got ", it->second.data[i], ", expected ", static_cast<double>(want[i]),
                  ", tolerance ", static_cast<double>(tolerance)));
    }
  }
  return result;
}

Values<Real> gradients_of(const Problem& p) {
  Values<Real> d, tangent;
  for (const auto& [name, x] : inputs_of(p)) d[name].assign(x.size(), 0), tangent[name].assign(x.size(), 0);
  for (auto& [name, direction] : tangent)
    for (std::size_t i = 0; i < direction.size(); ++i) {
      direction[i] = 1;
      d[name][i] = slope(p, tangent);
      direction[i] = 0;
    }
  return d;
}

// ---- problems ------------------------------------------------------------------------------------------------------

struct Draw {
  std::string mechanism;
  int T, K = 5, V = 3, heads = 1, shared = 1;
  std::map<std::string, std::string> params = {{"scale", "0.75"}};
  bool initial_state = true, unit_keys = true;
  enum class Beta { below_one, zero_one_two } beta = Beta::below_one;
  enum class Keys { random, repeated } keys = Keys::random;
  enum class Gates { mild, with_zeros, none } gates = Gates::mild;
  std::uint64_t seed = 1;
};

Problem draw(const Draw& d) {
  RandomBits bits{d.seed * 1000 + static_cast<std::uint64_t>(d.T)};
  const auto uniform = [&] { return std::ldexp(static_cast<double>(bits.next() >> 11), -52) - 1; };  // [-1, 1)
  const auto random = [&](std::vector<int> shape) {
    Array a(std::move(shape));
    for (double& x : a.data) x = uniform();
    return a;
  };
  Problem p;
  p.id = "drawn", p.mechanism = d.mechanism;
  for (const auto& [name, value] : d.params)
    p.params[name] = value == "true" ? Param(true) : value == "false" ? Param(false) : Param(value);
  p.inputs["q"] = random({d.shared, d.T, d.K}), p.inputs["k"] = random({d.shared, d.T, d.K});
  p.inputs["v"] = random({d.heads, d.T, d.V}), p.inputs["beta"] = random({d.heads, d.T});
  Array& k = p.inputs["k"];
  if (d.keys == Draw::Keys::repeated)
    for (std::size_t i = 0; i < k.data.size(); ++i)
      k.data[i] = k.data[i - i % at(d.T, 0, d.K) + i % static_cast<std::size_t>(d.K)];
  if (p.params.contains("sequence_start")) p.inputs["k_carry"] = random({d.shared, d.K});
  for (Array* keys : {&k, p.inputs.contains("k_carry") ? &p.inputs["k_carry"] : &k})
    if (d.unit_keys)
      for (int r = 0; r < static_cast<int>(keys->data.size()) / d.K; ++r) {
        const double length = static_cast<double>(norm(*keys, r, d.K));
        for (int c = 0; c < d.K; ++c) keys->data[at(r, c, d.K)] /= length;
      }
  for (double& b : p.inputs["beta"].data)
    b = d.beta == Draw::Beta::below_one ? 0.5 + 0.5 * b : static_cast<double>(bits.next() % 3);
  if (d.mechanism == "gated_deltanet") {
    p.inputs["log_decay"] = random({d.heads, d.T});
    for (double& g : p.inputs["log_decay"].data) {
      g = d.gates == Draw::Gates::none ? 0.0 : 0.1 * (g - 1);
      if (d.gates == Draw::Gates::with_zeros && bits.next() % 8 == 0) g = -std::numeric_limits<double>::infinity();
    }
  }
  if (d.initial_state) p.inputs["initial_state"] = random({d.heads, d.K, d.V});
  p.cotangents["o"] = random({d.heads, d.T, d.V}), p.cotangents["final_state"] = random({d.heads, d.K, d.V});
  return p;
}

const KernelForm& form_of(std::string_view mechanism, std::span<const KernelRoom* const> rooms = kernel_rooms()) {
  return find_kernels(rooms, mechanism)->forms[0];
}
Answer run_exact(const Problem& p, int tile) {
  const KernelForm& form = form_of(p.mechanism);
  return form.run(p, Policy::exact(form.sites), tile);
}
constexpr int chunk_of_tile[] = {64, 32, 16};

/// Outputs, and gradients one input element at a time, of all tile shapes.
void expect_defined(const Problem& p) {
  const auto outputs = define(p, inputs_of(p));
  const auto gradients = gradients_of(p);
  for (int tile = 0; tile < 3; ++tile) {
    const Answer answer = run_exact(p, tile);
    const Checked o = check(p, outputs, answer.outputs, chunk_of_tile[tile]);
    const Checked d = check(p, gradients, answer.gradients, chunk_of_tile[tile]);
    EXPECT_TRUE(o.agrees) << "chunk " << chunk_of_tile[tile] << " T " << Lengths(p).T << " " << o.where;
    EXPECT_TRUE(d.agrees) << "chunk " << chunk_of_tile[tile] << " T " << Lengths(p).T << " gradient " << d.where;
  }
}

constexpr int lengths[] = {1, 15, 16, 17, 31, 63, 64, 65, 100, 130};

struct Variant {
  std::string name;
  Draw draw;
};
std::ostream& operator<<(std::ostream& out, const Variant& v) { return out << v.name; }

std::vector<Variant> variants() {
  using Params = std::map<std::string, std::string>;
  const Params late_start{{"scale", "0.75"}, {"alignment", "next_latent"}};
  const Params late_on{{"alignment", "next_latent"}, {"sequence_start", "false"}};
  const Params undecayed{{"scale", "-1.25"}, {"error", "undecayed"}};
  const auto with = [](const char* mechanism, auto change) {
    Draw d{mechanism, 0};
    change(d);
    return d;
  };
  const char *delta = "deltanet", *gate = "gated_deltanet";
  return {
      {"deltanet", with(delta, [](Draw&) {})},
      {"deltanet_zero_state", with(delta, [](Draw& d) { d.initial_state = false; })},
      {"deltanet_beta_0_1_2", with(delta, [](Draw& d) { d.beta = Draw::Beta::zero_one_two, d.params.clear(); })},
      {"deltanet_repeated_keys", with(delta, [](Draw& d) { d.keys = Draw::Keys::repeated; })},
      {"deltanet_next_latent_start", with(delta, [&](Draw& d) { d.params = late_start; })},
      {"deltanet_next_latent_continued", with(delta, [&](Draw& d) { d.params = late_on; })},
      {"gated_decayed", with(gate, [](Draw&) {})},
      {"gated_undecayed", with(gate, [&](Draw& d) { d.params = undecayed; })},
      {"gated_zero_gates", with(gate, [](Draw& d) { d.gates = Draw::Gates::with_zeros; })},
      {"gated_undecayed_zero_gates",
       with(gate, [&](Draw& d) { d.gates = Draw::Gates::with_zeros, d.params = undecayed; })},
      {"gated_repeated_keys_beta_0_1_2", with(gate,
                                              [](Draw& d) {
                                                d.keys = Draw::Keys::repeated, d.beta = Draw::Beta::zero_one_two,
                                                d.gates = Draw::Gates::none;
                                                d.initial_state = false;
                                              })},
  };
}

class RecurrenceKernel : public testing::TestWithParam<Variant> {};

TEST_P(RecurrenceKernel, ExactPolicyIsTheDefinition) {
  for (const int T : lengths) {
    Draw d = GetParam().draw;
    d.T = T;
    expect_defined(draw(d));
  }
}
INSTANTIATE_TEST_SUITE_P(Variants, RecurrenceKernel, testing::ValuesIn(variants()),
                         [](const auto& tested) { return tested.param.name; });

TEST(RecurrenceKernels, GroupedHeadsShareQueriesAndKeys) {
  for (const char* mechanism : {"deltanet", "gated_deltanet"}) expect_defined(draw({mechanism, 21, 5, 3, 4, 2}));
}

/// Larger dimensions, where one dual number per input element would take long: random directions instead.
TEST(RecurrenceKernels, EveryCompiledDimension) {
  constexpr std::pair<int, int> dimensions[] = {{16, 16}, {17, 20}, {70, 65}, {5, 140}};
  for (const char* mechanism : {"deltanet", "gated_deltanet"})
    for (const auto& [K, V] : dimensions) {
      const Problem p = draw({mechanism, 33, K, V, 2, 1, {}});
      const auto outputs = define(p, inputs_of(p));
      const auto limit = bounds(p);
      for (int tile = 0; tile < 3; ++tile) {
        const Answer answer = run_exact(p, tile);
        const Checked o = check(p, outputs, answer.outputs, chunk_of_tile[tile]);
        EXPECT_TRUE(o.agrees) << mechanism << " K " << K << " V " << V << " " << o.where;
        for (const auto& [name, gradient] : answer.gradients) {
          RandomBits bits{7};
          Values<Real> tangent;
          Real along = 0, spread = 0;
          for (const double g : gradient.data) {
            const Real direction = bits.next() % 2 == 0 ? 1 : -1;
            tangent[name].push_back(direction);
            along += direction * g, spread += std::fabs(g);
          }
          // The rounding of every element to double, and the elements' own errors.
          const Real tolerance = 0x1p-53L * spread + static_cast<Real>(gradient.data.size()) * limit.at(name) *
                                                         0x1p-64L * roundings(p, chunk_of_tile[tile]);
          EXPECT_LE(std::fabs(along - slope(p, tangent)), tolerance)
              << mechanism << " K " << K << " V " << V << " " << name;
        }
      }
    }
}

/// Rows [first, first + count) of an array [H][T]...
Array rows_of(const Array& a, int first, int count) {
  Array part = a;
  part.shape[1] = count, part.data.clear();
  const long row = static_cast<long>(a.data.size()) / (static_cast<long>(a.shape[0]) * a.shape[1]);
  for (int h = 0; h < a.shape[0]; ++h) {
    const auto from = a.data.begin() + static_cast<long>(at(h, first, a.shape[1])) * row;
    part.data.insert(part.data.end(), from, from + count * row);
  }
  return part;
}
Array joined(const Array& a, const Array& b) {
  Array all = a;
  all.shape[1] += b.shape[1], all.data.clear();
  for (int h = 0; h < a.shape[0]; ++h)
    for (const Array* part : {&a, &b}) {
      const long n = static_cast<long>(part->data.size()) / a.shape[0];
      all.data.insert(all.data.end(), part->data.begin() + h * n, part->data.begin() + (h + 1) * n);
    }
  return all;
}

/// The answer of two segments: state and last key carried on, their cotangents carried back.
Answer run_in_two(const Problem& whole, int cut) {
  const Lengths n(whole);
  const bool late = option(whole, "alignment") == "next_latent";
  Problem first = whole, second = whole;
  for (const auto& [name, a] : whole.inputs) {
    if (name == "initial_state") continue;
    first.inputs[name] = rows_of(a, 0, cut), second.inputs[name] = rows_of(a, cut, n.T - cut);
  }
  first.cotangents["o"] = rows_of(whole.cotangents.at("o"), 0, cut);
  second.cotangents["o"] = rows_of(whole.cotangents.at("o"), cut, n.T - cut);
  second.inputs["initial_state"] = run_exact(first, 0).outputs.at("final_state");
  if (late) {
    second.params["sequence_start"] = false;
    second.inputs["k_carry"] = rows_of(whole.inputs.at("k"), cut - 1, 1);
    second.inputs["k_carry"].shape = {n.shared, n.K};
  }
  Answer b = run_exact(second, 0);
  first.cotangents["final_state"] = b.gradients.at("initial_state");
  Answer a = run_exact(first, 0);
  if (late)
    for (int h = 0; h < n.shared; ++h)
      for (int i = 0; i < n.K; ++i)
        a.gradients["k"].data[at(at(h, cut - 1, cut), i, n.K)] += b.gradients.at("k_carry").data[at(h, i, n.K)];
  a.outputs["final_state"] = b.outputs.at("final_state");
  a.outputs["o"] = joined(a.outputs["o"], b.outputs.at("o"));
  for (auto& [name, gradient] : a.gradients)
    if (name != "initial_state") gradient = joined(gradient, b.gradients.at(name));
  return a;
}

/// The state and its adjoint cross the cut as doubles: half a unit of their bounds, on top of the exact check.
/// Gradients depend on both, and the two pieces of dk at the cut are rounded and then added: 4.
TEST(RecurrenceKernels, TwoSegmentsAreOneRun) {
  const std::map<std::string, std::string> late{{"alignment", "next_latent"}};
  for (const Draw& d : {Draw{"deltanet", 100}, Draw{"deltanet", 100, 5, 3, 2, 1, late}, Draw{"gated_deltanet", 100}}) {
    const Problem whole = draw(d);
    const auto outputs = define(whole, inputs_of(whole)), gradients = gradients_of(whole);
    for (const int cut : {1, 37, 64}) {
      const Answer got = run_in_two(whole, cut);
      const Checked o = check(whole, outputs, got.outputs, 64, 1), g = check(whole, gradients, got.gradients, 64, 4);
      EXPECT_TRUE(o.agrees) << d.mechanism << " cut " << cut << " " << o.where;
      EXPECT_TRUE(g.agrees) << d.mechanism << " cut " << cut << " " << g.where;
    }
  }
}

TEST(RecurrenceKernels, TheBitsDoNotDependOnTheThreads) {
  for (const char* mechanism : {"deltanet", "gated_deltanet"}) {
    const Problem p = draw({mechanism, 70, 20, 20, 4, 2});
    const KernelForm& form = form_of(mechanism);
    for (const Rounding rounding : {Rounding::nearest_even, Rounding::stochastic}) {
      Policy policy = Policy::of(form.sites, Format::bf16);
      policy.rounding = rounding, policy.seed = 5;
      policy.threads = 1;
      const Answer one = form.run(p, policy, 0);
      policy.threads = 2;
      const Answer two = form.run(p, policy, 0);
      EXPECT_TRUE(one.outputs == two.outputs) << mechanism;
      EXPECT_TRUE(one.gradients == two.gradients) << mechanism;
    }
  }
}

double distance(const Answer& a, const Answer& b) {
  double sum = 0;
  for (const auto& [x, y] : {std::pair(&a.outputs, &b.outputs), std::pair(&a.gradients, &b.gradients)})
    for (const auto& [name, array] : *x)
      for (std::size_t i = 0; i < array.data.size(); ++i) sum += std::pow(array.data[i] - y->at(name).data[i], 2);
  return std::sqrt(sum);
}

/// Wider formats are nearer to the exact answer, all are written in full, and every site of the table is in use: alone
/// in bf16 among fp32 it moves the answer.
TEST(RecurrenceKernels, PoliciesRoundWhereTheyName) {
  for (const char* mechanism : {"deltanet", "gated_deltanet"}) {
    const Problem p = draw({mechanism, 70, 6, 6, 2, 1, {}});
    const KernelForm& form = form_of(mechanism);
    for (int tile = 0; tile < 3; ++tile) {
      const Answer exact = run_exact(p, tile);
      double nearer = 0;
      for (const Format f : {Format::fp64, Format::fp32, Format::tf32, Format::bf16, Format::e4m3}) {
        const double error = distance(form.run(p, Policy::of(form.sites, f), tile), exact);
        EXPECT_GT(error, nearer) << mechanism << " " << name_of(f);  // false for NaN
        nearer = error;
      }
    }
    const Policy single = Policy::of(form.sites, Format::fp32);
    const Answer base = form.run(p, single, 2);
    for (int i = 0; i < form.sites.size; ++i) {
      Policy policy = single;
      policy.sites = policy.sites.with(form.sites.entries[i].view(), Format::bf16);
      EXPECT_GT(distance(form.run(p, policy, 2), base), 0) << mechanism << " site " << form.sites.entries[i].view();
    }
  }
}

TEST(RecurrenceKernels, NothingToDo) {
  for (const char* mechanism : {"deltanet", "gated_deltanet"}) {
    Problem empty = draw({mechanism, 0});
    const Answer none = run_exact(empty, 0);
    EXPECT_EQ(none.outputs.at("final_state").data, empty.inputs.at("initial_state").data);
    EXPECT_EQ(none.gradients.at("initial_state").data, empty.cotangents.at("final_state").data);
    EXPECT_EQ(none.outputs.at("o").count(), 0u);
    const Answer no_values = run_exact(draw({mechanism, 20, 5, 0}), 0);
    for (const char* name : {"q", "k", "beta"})
      for (const double x : no_values.gradients.at(name).data) EXPECT_EQ(x, 0) << mechanism << " " << name;
    EXPECT_EQ(form_of(mechanism).obstacle(draw({mechanism, 3, 128, 300})), "");
    EXPECT_NE(form_of(mechanism).obstacle(draw({mechanism, 3, 129, 3})), "");
  }
}

/// Every planted fault breaks an answer that the healthy kernel gets right, and the faults a form lists are those its
/// program asks for.
TEST(RecurrenceKernels, EveryMutantIsSeen) {
  for (const char* mechanism : {"deltanet", "gated_deltanet"}) {
    const KernelForm& form = form_of(mechanism);
    const Problem p = draw({mechanism, 70, 5, 3, 4, 2});
    const auto outputs = define(p, inputs_of(p));
    const auto gradients = gradients_of(p);
    const auto agrees = [&](const Answer& a) {
      return check(p, outputs, a.outputs, 32).agrees && check(p, gradients, a.gradients, 32).agrees;
    };
    std::set<std::string, std::less<>> asked, listed;
    Policy policy = Policy::exact(form.sites);
    policy.asked = &asked;
    EXPECT_TRUE(agrees(form.run(p, policy, 1))) << mechanism;
    policy.asked = nullptr;
    for (const Mutant& m : form.mutants) {
      listed.emplace(m.name);
      policy.fault = m.name;
      EXPECT_FALSE(agrees(form.run(p, policy, 1))) << mechanism << " " << m.name;
      EXPECT_FALSE(m.what.empty() || m.seen.empty()) << m.name;
    }
    EXPECT_EQ(asked, listed) << mechanism;
  }
}

}  // namespace
}  // namespace assay
