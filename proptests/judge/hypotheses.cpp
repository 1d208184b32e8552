// Causes of what fails: misunderstood conventions are named, in kernels that round, and mutants are not given the name
// of what they are not.
#include "judge/hypotheses/hypotheses.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <numbers>
#include <optional>
#include <set>

#include "judge/held_out/rooms.hpp"
#include "judge/hypotheses/scene.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/share.hpp"
#include "proptests/core/table.hpp"
#include "proptests/oracles/bench.hpp"
#include "reference/core/error.hpp"
#include "reference/core/random.hpp"

namespace assay {
namespace {

using held_out::Call;
using held_out::Names;

// ---- mistakes ----

struct Mistake {
  std::string room, name;
  Answer (*run)(const Call&);
  std::string named;  ///< part of what must be said
  Params params = {};
};

Answer edited(const Call& call, const Names& names, const std::function<void(Array&)>& f) {
  return call.with([&](Problem& p) { held_out::edit(p.inputs, names, f); });
}
template <class F>
Answer mapped(const Call& call, const Names& names, const F& f) {
  return edited(call, names, [&](Array& a) { std::transform(a.data.begin(), a.data.end(), a.data.begin(), f); });
}
Answer with_param(const Call& call, const char* name, double x) {
  return call.with([&](Problem& p) { held_out::set_number(p, name, x); });
}
Answer with_option(const Call& call, const char* name, const Param& value) {
  return call.with([&](Problem& p) { p.params[name] = value; });
}
template <class F>
Answer healthy_but(const Call& call, const F& spoil) {
  Answer answer = call.healthy();
  spoil(answer);
  return answer;
}
void multiply(Arrays& arrays, const char* name, double c) { held_out::multiply(arrays.at(name), c); }
Answer swapped(const Call& call, const char* a, const char* b) {
  Answer answer = call.with([&](Problem& p) { std::swap(p.inputs.at(a), p.inputs.at(b)); });
  std::swap(answer.gradients.at(a), answer.gradients.at(b));
  return answer;
}
/// Row t has what row t - 1 had; the first has zeros.
void delay(Array& a) {
  held_out::shift_rows(a);
  held_out::each_row(a, [](int, int t, held_out::Values row) {
    if (t == 0) std::fill(row.begin(), row.end(), 0.0);
  });
}
void advance(Array& a) {
  const Array given = a;
  Array from = given;
  const int last = held_out::row_count(a) - 1;
  held_out::each_row(a, [&](int h, int t, held_out::Values row) {
    if (t == last) return std::fill(row.begin(), row.end(), 0.0);
    const held_out::Values next = held_out::row_of(from, h, t + 1);
    std::copy(next.begin(), next.end(), row.begin());
  });
}
void reverse(Array& a) {
  Array from = a;
  const int last = held_out::row_count(a) - 1;
  held_out::each_row(a, [&](int h, int t, held_out::Values row) {
    const held_out::Values other = held_out::row_of(from, h, last - t);
    std::copy(other.begin(), other.end(), row.begin());
  });
}
void to_unit(Array& a) {
  held_out::each_row(a, [](int, int, held_out::Values row) {
    double squares = 0;
    for (const double x : row) squares += x * x;
    for (double& x : row) x /= std::sqrt(squares);
  });
}
/// Memory [K][V] for [V][K].
void transpose(Array& a) { held_out::read_transposed(a); }
void order_heads(Arrays& arrays, const Names& names, const std::vector<int>& of) {
  held_out::edit(arrays, names, [&](Array& a) {
    Array from = a;
    for (int h = 0; h < static_cast<int>(of.size()); ++h) {
      const held_out::Values source = held_out::head_of(from, of[static_cast<std::size_t>(h)]),
                             to = held_out::head_of(a, h);
      std::copy(source.begin(), source.end(), to.begin());
    }
  });
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

constexpr double ln2 = std::numbers::ln2;

const Mistake mistakes[] = {
    {"gated_deltanet", "scale 1", [](const Call& c) { return with_param(c, "scale", 1); }, "scale missing"},
    {"gated_deltanet", "2^g",
     [](const Call& c) {
       Answer a = mapped(c, {"log_decay"}, [](double g) { return g * ln2; });
       multiply(a.gradients, "log_decay", ln2);
       return a;
     },
     "log_decay taken as log2"},
    {"gated_deltanet", "no initial state",
     [](const Call& c) { return mapped(c, {"initial_state"}, [](double) { return 0.0; }); }, "initial_state ignored"},
    {"gated_deltanet", "q for k", [](const Call& c) { return swapped(c, "q", "k"); }, "q and k exchanged"},
    {"gated_deltanet", "undecayed error",
     [](const Call& c) { return with_option(c, "error", std::string("undecayed")); }, "error = undecayed"},
    {"gated_deltanet", "d_q for d_k",
     [](const Call& c) {
       return healthy_but(c, [](Answer& a) { std::swap(a.gradients.at("q"), a.gradients.at("k")); });
     },
     "d_k and d_q exchanged"},
    {"gated_deltanet", "o a token late",
     [](const Call& c) { return healthy_but(c, [](Answer& a) { held_out::edit(a.outputs, {"o"}, delay); }); },
     "a token late"},
    {"gated_deltanet", "sigmoid twice",
     [](const Call& c) {
       Answer a = mapped(c, {"beta"}, sigmoid);
       for (std::size_t i = 0; i < a.gradients.at("beta").data.size(); ++i) {
         const double s = sigmoid(c.problem.inputs.at("beta").data[i]);
         a.gradients.at("beta").data[i] *= s * (1 - s);
       }
       return a;
     },
     "sigmoid(beta)"},
    {"gated_deltanet", "gates a token late",
     [](const Call& c) {
       Answer a = edited(c, {"log_decay"}, delay);
       held_out::edit(a.gradients, {"log_decay"}, advance);
       return a;
     },
     "log_decay a token late"},
    {"gated_deltanet", "2^g in one head",
     [](const Call& c) {
       return edited(c, {"log_decay"}, [](Array& g) {
         for (double& x : held_out::head_of(g, 1)) x *= ln2;
       });
     },
     "in head 1"},
    {"deltanet", "state stored [V][K]",
     [](const Call& c) {
       Answer a = edited(c, {"initial_state"}, transpose);
       // [K][V] memory of a [V][K] matrix: K = 16, V = 12.
       for (Array* s : {&a.outputs.at("final_state"), &a.gradients.at("initial_state")}) {
         std::swap(s->shape[1], s->shape[2]);
         transpose(*s);
         std::swap(s->shape[1], s->shape[2]);
       }
       return a;
     },
     "transposed"},
    {"deltanet", "d_k of one head",
     [](const Call& c) {
       Answer a = c.healthy();
       Problem p = c.problem;
       for (auto& [name, array] : p.cotangents)
         for (int h : {1, 3})
           for (double& x : held_out::head_of(array, h)) x = 0;
       const Answer one = c.run(p);
       a.gradients.at("k") = one.gradients.at("k"), a.gradients.at("q") = one.gradients.at("q");
       return a;
     },
     "first head of each group"},
    {"deltanet", "beta 1", [](const Call& c) { return mapped(c, {"beta"}, [](double) { return 1.0; }); },
     "beta ignored"},
    {"deltanet", "d_final_state ignored",
     [](const Call& c) { return c.with([](Problem& p) { held_out::fill(p.cotangents.at("final_state"), 0); }); },
     "d_final_state ignored"},
    {"comba", "p for k", [](const Call& c) { return swapped(c, "k", "p"); }, "k and p exchanged"},
    {"comba", "scale twice", [](const Call& c) { return with_param(c, "scale", 1.0 / 16); }, "scale applied twice"},
    {"linear_attention", "q normalised", [](const Call& c) { return edited(c, {"q"}, to_unit); }, "q normalised"},
    {"linear_attention", "scale inverted", [](const Call& c) { return with_param(c, "scale", 4); }, "scale inverted"},
    {"linear_attention", "read before the write",
     [](const Call& c) {
       Answer a = c.with([](Problem& p) {
         held_out::edit(p.inputs, {"q"}, advance);
         held_out::edit(p.cotangents, {"o"}, advance);
       });
       const Array first = a.outputs.at("o");
       held_out::edit(a.outputs, {"o"}, delay);
       held_out::edit(a.gradients, {"q"}, delay);
       return a;
     },
     "before the token's own write"},
    {"linear_attention", "d_v negated",
     [](const Call& c) { return healthy_but(c, [](Answer& a) { multiply(a.gradients, "v", -1); }); }, "sign reversed"},
    {"retnet", "head h reads h mod 2",
     [](const Call& c) {
       const std::vector<int> of = {0, 2, 1, 3};  // its own inverse
       Answer a = c.with([&](Problem& p) {
         order_heads(p.inputs, {"v", "initial_state"}, of);
         order_heads(p.cotangents, {"o", "final_state"}, of);
       });
       order_heads(a.outputs, {"o", "final_state"}, of);
       order_heads(a.gradients, {"v", "initial_state"}, of);
       return a;
     },
     "h mod H_kv"},
    {"retnet", "the decay of each head",
     [](const Call& c) {
       return healthy_but(c, [&c](Answer& a) {
         for (int h = 1; h < a.outputs.at("o").shape[0]; ++h) {
           const Answer other = with_option(c, "head", long{h});
           for (auto& [name, array] : a.outputs) {
             const auto n = static_cast<std::ptrdiff_t>(array.data.size()) / array.shape[0];
             std::copy_n(other.outputs.at(name).data.begin() + h * n, n, array.data.begin() + h * n);
           }
         }
       });
     },
     "the decay of each head's own number"},
    {"retnet", "last token first",
     [](const Call& c) {
       Answer a = c.with([](Problem& p) {
         held_out::edit(p.inputs, {"q", "k", "v"}, reverse);
         held_out::edit(p.cotangents, {"o"}, reverse);
       });
       held_out::edit(a.outputs, {"o"}, reverse);
       held_out::edit(a.gradients, {"q", "k", "v"}, reverse);
       return a;
     },
     "from the last token to the first"},
    {"mamba2", "e^(g log2 e)", [](const Call& c) { return mapped(c, {"log_decay"}, [](double g) { return g / ln2; }); },
     "multiplied by log2 e"},
    {"mamba2", "write decayed",
     [](const Call& c) {
       return c.with([&](Problem& p) {
         Array g = p.inputs.at("log_decay");
         held_out::each_row(p.inputs.at("v"), [&](int h, int t, held_out::Values row) {
           for (double& x : row) x *= std::exp(held_out::row_of(g, h, t)[0]);
         });
       });
     },
     "write decayed"},
    {"mamba2", "no decay", [](const Call& c) { return mapped(c, {"log_decay"}, [](double) { return 0.0; }); },
     "log_decay ignored"},
    {"mamba2", "d_log_decay not summed",
     [](const Call& c) {
       Answer a = c.healthy();
       Array& d = a.gradients.at("log_decay");
       Array next = d;
       advance(next);
       for (std::size_t i = 0; i < d.data.size(); ++i) d.data[i] -= next.data[i];
       return a;
     },
     "reverse cumulative sum missing"},
    {"gla", "g / 16", [](const Call& c) { return mapped(c, {"log_decay"}, [](double g) { return g / 16; }); },
     "divided by 16"},
    {"gla", "d_log_decay of the logit",
     [](const Call& c) {
       Answer a = c.healthy();
       for (std::size_t i = 0; i < a.gradients.at("log_decay").data.size(); ++i)
         a.gradients.at("log_decay").data[i] *= -std::expm1(c.problem.inputs.at("log_decay").data[i]);
       return a;
     },
     "decay's logit"},
    {"gla", "k a token late",
     [](const Call& c) {
       Answer a = edited(c, {"k"}, delay);
       held_out::edit(a.gradients, {"k"}, advance);
       return a;
     },
     "k a token late"},
    {"kda", "d_beta of the logit",
     [](const Call& c) {
       Answer a = c.healthy();
       for (std::size_t i = 0; i < a.gradients.at("beta").data.size(); ++i) {
         const double b = c.problem.inputs.at("beta").data[i];
         a.gradients.at("beta").data[i] *= b * (1 - b);
       }
       return a;
     },
     "beta's logit"},
    {"kda", "prediction added",
     [](const Call& c) {
       Answer a = mapped(c, {"beta", "v"}, [](double x) { return -x; });
       multiply(a.gradients, "beta", -1), multiply(a.gradients, "v", -1);
       return a;
     },
     "prediction added"},
    {"softmax_attention", "not causal", [](const Call& c) { return with_option(c, "causal", false); },
     "causal mask missing"},
    {"softmax_attention",
     "window 6",
     [](const Call& c) { return with_option(c, "window", 6L); },
     "window one key long",
     {{"window", 5L}}},
    {"softmax_attention", "2^s", [](const Call& c) { return with_param(c, "bandwidth", 4 / ln2); }, "2^s for e^s"},
    {"softmax_attention", "heads in reverse order",
     [](const Call& c) { return healthy_but(c, [](Answer& a) {
                           order_heads(a.outputs, {"o"}, {3, 2, 1, 0});
                         }); },
     "heads in reverse order"},
    {"softmax_attention", "o as [B, H, T, d]",
     [](const Call& c) {
       Answer a = c.healthy();
       Array &o = a.outputs.at("o"), given = o;
       const int H = given.shape[0], T = given.shape[1];
       held_out::each_row(o, [&](int h, int t, held_out::Values row) {
         const int at = t * H + h;
         const held_out::Values from = held_out::row_of(given, at / T, at % T);
         std::copy(from.begin(), from.end(), row.begin());
       });
       return a;
     },
     "[B, H, T, d]"},
    {"softmax_attention", "mask one key long",
     [](const Call& c) {
       Answer a = c.with([](Problem& p) {
         held_out::edit(p.inputs, {"q"}, delay);
         held_out::edit(p.cotangents, {"o"}, delay);
       });
       held_out::edit(a.outputs, {"o"}, advance);
       held_out::edit(a.gradients, {"q"}, advance);
       return a;
     },
     "mask one key long"},
    {"parallax", "h for 1/h", [](const Call& c) { return with_param(c, "bandwidth", 0.25); }, "bandwidth inverted"},
    {"parallax", "d_v not written",
     [](const Call& c) { return healthy_but(c, [](Answer& a) { held_out::fill(a.gradients.at("v"), 0); }); },
     "nothing was written"},
    {"mdn", "decays exchanged", [](const Call& c) { return swapped(c, "log_alpha", "log_mu"); },
     "log_alpha and log_mu exchanged"},
    {"mdn", "no momentum carried in",
     [](const Call& c) { return mapped(c, {"initial_momentum"}, [](double) { return 0.0; }); },
     "initial_momentum ignored"},
    {"falcon1",
     "live ridge",
     [](const Call& c) { return with_option(c, "ridge_coupling", std::string("live")); },
     "ridge_coupling = live",
     {{"ridge_coupling", std::string("detach")}}},
    {"falcon1", "lambda ignored", [](const Call& c) { return mapped(c, {"lambda"}, [](double) { return 0.0; }); },
     "lambda ignored"},
    {"mesanet", "lambda twice", [](const Call& c) { return mapped(c, {"lambda"}, [](double x) { return 2 * x; }); },
     "lambda doubled"},
    {"value_averaging", "o a token early",
     [](const Call& c) { return healthy_but(c, [](Answer& a) { held_out::edit(a.outputs, {"o"}, advance); }); },
     "a token early"},
};

TEST(Causes, name_mistakes) {
  int named = 0, tried = 0;
  std::set<std::string> rooms;
  std::map<std::string, Bench> benches;
  for (const Mistake& m : mistakes) {
    const Room& room = listed_room(m.room);
    const KernelForm& form = find_kernels(kernel_rooms(), m.room)->forms.front();
    const std::string key = m.room + flags_of(m.params);
    auto at = benches.find(key);
    if (at == benches.end()) at = benches.emplace(key, bench_of(room, form, spec_of(room, form, m.params))).first;
    const Told told = told_of(at->second, m.run(at->second.call()));
    const bool right =
        !told.causes.list.empty() && told.causes.list.front().sentence(false).find(m.named) != std::string::npos;
    ++tried, named += right ? 1 : 0, rooms.insert(m.room);
    if (!right || are_seconds_asked_for())
      std::cout << (right ? "      " : "MISS  ") << m.room << ' ' << m.name << (told.fails ? "" : " (passes)") << ": "
                << told.text() << (told.first ? " | " + told.first->sentence : "") << '\n';
  }
  std::cout << named << " of " << tried << " mistakes in " << rooms.size() << " mechanisms named\n";
  EXPECT_GE(tried, 40);
  EXPECT_GE(rooms.size(), 10U);
  EXPECT_GE(named, (95 * tried + 99) / 100);
}

/// The right names of each mutant, words that a sentence on it has. In value averaging those of dv_without_later_reads
/// and of dv_without_own_row are of the same numbers.
const Json& right_names() {
  static const Json names = test_table("judge/right_names.json");
  return names;
}

bool may_be_said(const std::string& mutant, const std::string& sentence) {
  // A formula with one operation made otherwise has answered what the mutant answered: it says so itself.
  if (sentence.find("looks like the formula with") != std::string::npos) return true;
  const auto names = right_names().find(mutant);
  if (names == right_names().end()) return false;
  return std::any_of(names->begin(), names->end(),
                     [&](const Json& name) { return sentence.find(name.get<std::string>()) != std::string::npos; });
}

/// Counts of the mutants of one room's form, and of the names given to them.
struct Count {
  int tried = 0, named = 0, wrong = 0;
};

void try_mutants(const KernelForm& planted, const Room& room, Share& share, Count& count) {
  const auto& forms = find_kernels(kernel_rooms(), room.name)->forms;
  const auto healthy =
      std::find_if(forms.begin(), forms.end(), [&](const KernelForm& f) { return f.name == planted.name; });
  std::optional<Bench> bench;
  for (const Mutant& mutant : planted.mutants) {
    if (!share.takes()) continue;
    if (!bench) bench.emplace(bench_of(room, *healthy, spec_of(room, *healthy)));
    Policy policy = bench->policy;
    policy.fault = mutant.name;
    const Told told = told_of(*bench, planted.run(bench->problem, policy, bench->tile));
    if (!told.fails) continue;
    ++count.tried;
    bool right = true;
    for (const LooksLike& cause : told.causes.list)
      right = right && may_be_said(std::string(mutant.name), cause.sentence(false));
    count.named += told.causes.list.empty() ? 0 : 1, count.wrong += right ? 0 : 1;
    if (!right || are_seconds_asked_for())
      std::cout << (right ? "" : "WRONG ") << room.name << ':' << planted.name << ':' << mutant.name << " ("
                << mutant.what << "): " << told.text() << '\n';
  }
}

TEST(Causes, give_mutants_no_wrong_name) {
  Count count;
  Share share(40);
  while (share.goes_on(count.tried >= 10 && count.named > 0))
    for (const bool held_out : {false, true})
      for (const KernelRoom* kernels : held_out ? held_out_rooms() : kernel_rooms())
        for (const KernelForm& planted : kernels->forms)
          if (planted.unstable.empty()) try_mutants(planted, listed_room(kernels->name), share, count);
  std::cout << count.named << " of " << count.tried << " mutants that fail have a name, " << count.wrong
            << " a wrong one\n";
  EXPECT_GE(count.tried, 10);
  EXPECT_LE(count.wrong, 1 + count.tried / 100);  // one in a hundred; of few, one more is chance
  EXPECT_GT(count.named, 0);
}

// ---- silence, and where it begins ----

const Bench& gated_deltanet() {
  static const Bench bench = [] {
    const Room& room = listed_room("gated_deltanet");
    const KernelForm& form = find_kernels(kernel_rooms(), room.name)->forms.front();
    return bench_of(room, form, spec_of(room, form));
  }();
  return bench;
}

TEST(Causes, say_nothing_of_what_passes_and_of_noise) {
  const Bench& bench = gated_deltanet();
  Answer answer = bench.call().healthy();
  EXPECT_TRUE(told_of(bench, answer).causes.list.empty());
  EXPECT_FALSE(told_of(bench, answer).first);
  // A tenth of each number, up or down.
  Stream noise(1, "noise");
  Array& o = answer.outputs.at("o");
  for (std::size_t i = 0; i < o.data.size(); ++i) o.data[i] *= 1 + 0.1 * noise.normal(i);
  const Told told = told_of(bench, answer);
  EXPECT_TRUE(told.fails);
  EXPECT_TRUE(told.causes.list.empty()) << told.text();
  EXPECT_EQ(told.causes.unexplained, std::vector<std::string>{"o"});
}

TEST(Causes, are_told_apart_where_there_are_two) {
  const Bench& bench = gated_deltanet();
  Answer answer = with_param(bench.call(), "scale", 1);
  answer.outputs.at("final_state") = bench.call().healthy().outputs.at("final_state");
  multiply(answer.outputs, "final_state", -1);
  const Told told = told_of(bench, answer);
  ASSERT_EQ(told.causes.list.size(), 2U) << told.text();
  EXPECT_NE(told.causes.list[0].what.find("scale missing"), std::string::npos) << told.text();
  EXPECT_EQ(told.causes.list[1].tensors, std::vector<std::string>{"final_state"});
  EXPECT_EQ(told.causes.list[1].name, "sign");
  EXPECT_TRUE(told.causes.unexplained.empty());
}

TEST(Causes, are_named_together_where_one_tensor_has_both) {
  const Bench& bench = gated_deltanet();
  const Answer answer = bench.call().with([](Problem& p) {
    held_out::set_number(p, "scale", 1);
    for (double& b : p.inputs.at("beta").data) b *= 2;
  });
  const std::string said = told_of(bench, answer).text();
  expect_said(said, "scale missing");
  expect_said(said, "beta doubled");
}

/// Where other heads are right, a sign still says more than a number for every row.
TEST(Causes, say_the_sign_of_a_head) {
  const Bench& bench = gated_deltanet();
  Answer answer = bench.call().healthy();
  std::vector<double>& d_q = answer.gradients.at("q").data;
  for (std::size_t i = d_q.size() / 2; i < d_q.size(); ++i) d_q[i] *= -1;
  expect_named(bench, answer, "the sign reversed in key/value head 1");
}

TEST(Causes, begin_with_the_first_output) {
  const Bench& bench = gated_deltanet();
  Answer answer = bench.call().healthy();
  for (int t = 30; t < fault_length; ++t)
    for (double& x : held_out::row_of(answer.outputs.at("o"), 1, t)) x *= 1.5;
  multiply(answer.gradients, "q", 2);
  const Told told = told_of(bench, answer);
  ASSERT_TRUE(told.first);
  EXPECT_EQ(told.first->tensor, "o");
  EXPECT_EQ(told.first->sentence, "o is wrong from token 30 on, in head 1 of 4; 1 of 6 gradients follow");
  EXPECT_EQ(told.first->followers, std::vector<std::string>{"d_q"});
  ASSERT_FALSE(told.causes.list.empty());
  EXPECT_EQ(told.causes.list.front().where, " in head 1 of 4 from token 30 on");

  Answer backward = bench.call().healthy();
  multiply(backward.gradients, "q", 2);
  EXPECT_EQ(told_of(bench, backward).first->sentence,
            "d_q is wrong from token 42 back, in all key/value heads; every output passes");
}

/// The causes named for one tensor alone, of one sequence, that a correct kernel answers to `sigma`; without
/// multiplications no convention is tried.
Causes causes_of_one(const Problem& problem, const std::string& name, const Array& truth,
                     const std::vector<double>& sigma, const std::vector<double>& got, double multiplications) {
  Expected e;
  e.shape = truth.shape, e.sigma = sigma;
  for (const double x : truth.data) e.value.push_back({x, 0});
  e.bound.assign(sigma.size(), 0), e.reach.assign(sigma.size(), element_sigmas);
  const std::vector<Suspect> suspects = {{name, truth.shape, &e, &got, true}};
  Effort effort;
  effort.multiplications = multiplications;
  return causes_of(listed_room(problem.mechanism), problem, 1, suspects, effort);
}
Problem problem_of(const char* mechanism, int T, int d) {
  return listed_room(mechanism).make({.mechanism = mechanism, .shape = {1, T, 1, 0, d, d, 0}});
}

/// Zeros are right for one number that is large and not for the many small ones, or the other way round. They leave
/// 2e-5 and a fifth, or six sevenths and 4e-4, of the squared error, as it is and in units of sigma; a name needs 0.01.
TEST(Causes, explain_the_few_large_numbers_and_the_many_small_ones) {
  const Problem problem = problem_of("deltanet", 32, 8);
  const Stream signs(1, "signs");
  std::vector<double> sigma(256, 0x1p-7);
  sigma[100] = 1;
  for (const bool large : {true, false}) {
    Array truth({1, 32, 8});
    std::vector<double> got(256, 0.0);
    for (std::size_t i = 0; i < 256; ++i) (large ? got : truth.data)[i] = signs.normal(i) < 0 ? -0.25 : 0.25;
    truth.data[100] = large ? 1000 : 0, got[100] = large ? 0 : 10;
    const Causes causes = causes_of_one(problem, "o", truth, sigma, got, 1);
    EXPECT_TRUE(causes.list.empty()) << causes.list.front().what;
    EXPECT_EQ(causes.unexplained, std::vector<std::string>{"o"}) << large;
  }
}

/// Where the last token's beta is 0, the state is what it was before that token's write.
TEST(Causes, name_states_without_the_last_write) {
  const Problem problem = problem_of("deltanet", 5, 4);
  Problem shorter = problem;
  shorter.inputs.at("beta").data.back() = 0;
  const auto state = [](const Problem& p) {
    return hypotheses::answer_of(listed_room("deltanet"), p).at("final_state");
  };
  const Causes causes =
      causes_of_one(problem, "final_state", state(problem), std::vector<double>(16, 0x1p-20), state(shorter).data, 1e9);
  ASSERT_EQ(causes.list.size(), 1U);
  EXPECT_EQ(causes.list[0].what, "what is carried out before the last token's write");
}

TEST(Causes, name_sums_that_end_with_their_chunk) {
  Array truth({1, 40});
  for (std::size_t t = 0; t < 40; ++t) truth.data[t] = std::sin(static_cast<double>(t + 1));
  for (const std::size_t chunk : {16, 32}) {
    std::vector<double> got = truth.data;
    for (std::size_t t = 0; t < 40; ++t)
      if (const std::size_t next = t - t % chunk + chunk; next < 40) got[t] -= truth.data[next];
    const Causes causes =
        causes_of_one(problem_of("mamba2", 40, 2), "d_log_decay", truth, std::vector<double>(40, 0x1p-20), got, 1);
    ASSERT_EQ(causes.list.size(), 1U) << chunk;
    EXPECT_EQ(causes.list[0].what, text("summed within chunks of ", chunk, " tokens only"));
  }
}

/// On problems too large to be answered often, a part is.
TEST(Causes, are_found_in_parts_of_large_problems) {
  const Bench& bench = gated_deltanet();
  const Answer answer = mapped(bench.call(), {"log_decay"}, [](double g) { return g * ln2; });
  const Named<std::vector<double>> got = in_report_order(answer, bench.expectation);
  std::vector<Suspect> suspects;
  for (std::size_t t = 0; t < got.size(); ++t)
    suspects.push_back({got[t].first, bench.expectation.tensors[t].second.shape, &bench.expectation.tensors[t].second,
                        &got[t].second,
                        judge(bench.expectation.tensors[t].second, got[t].second).verdict == Verdict::fail});
  // Enough for all conventions on all heads, on one group of them, on its outputs alone, and for none.
  for (const double multiplications : {1e9, 5e7, 2e7}) {
    Effort effort;
    effort.multiplications = multiplications;
    const Causes causes = causes_of(bench.room, bench.problem, 1, suspects, effort);
    ASSERT_FALSE(causes.list.empty()) << multiplications;
    EXPECT_NE(causes.list.front().what.find("log_decay taken as log2"), std::string::npos) << causes.list.front().what;
  }
  Effort none;
  none.multiplications = 1;
  const Causes causes = causes_of(bench.room, bench.problem, 1, suspects, none);
  EXPECT_TRUE(causes.list.empty());
  EXPECT_FALSE(causes.all_tried);
}

}  // namespace
}  // namespace assay
