// Evidence `model`: how its arithmetic errs, that healthy kernels of every room are within it and wrong ones are not.
#include "judge/sigma/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "judge/forms/sequential.hpp"
#include "judge/sigma/by_model.hpp"
#include "judge/sigma/cumulated_gates.hpp"
#include "judge/sigma/other_algorithms.hpp"
#include "judge/sigma/stored.hpp"
#include "judge/trial/fault_trials.hpp"
#include "judge/verdict/judge.hpp"
#include "oracles/scalars/perturbed.hpp"
#include "proptests/judge/cases.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

using Operands = PerturbedArithmetic::Operands;

Strided all_of(const std::vector<double>& x) { return {x.data(), 1, static_cast<int>(x.size())}; }

/// Errors of a.b over many draws: their mean and standard deviation.
struct Errors {
  double mean = 0, deviation = 0;
};
Errors errors_of_dot(Format format, Operands operands, const std::vector<double>& a, const std::vector<double>& b,
                     double exact) {
  constexpr int draws = 4000;
  double sum = 0, squares = 0;
  for (int k = 0; k < draws; ++k) {
    PerturbedArithmetic arithmetic(format, operands, static_cast<std::uint64_t>(k));
    const double error = arithmetic.dot(0, all_of(a), all_of(b), 1) - exact;
    sum += error, squares += error * error;
  }
  return {sum / draws, std::sqrt(squares / draws)};
}

/// Each operand of n ones and minus ones is off by a uniform number within half a spacing, 2^-7 at 1 and 2^-8 below.
TEST(Model, operands_are_off_by_one_rounding) {
  const std::vector<double> a(64, 1.5), b = [] {
    std::vector<double> signs(64, 1.25);
    for (std::size_t i = 0; i < signs.size(); i += 2) signs[i] = -1.25;
    return signs;
  }();
  const Errors nearest = errors_of_dot(Format::bf16, Operands::nearest, a, b, 0);
  const double term = 0x1p-7 / std::sqrt(12.0);
  const double expected = std::sqrt(64 * (1.25 * 1.25 + 1.5 * 1.5)) * term;
  EXPECT_GT(nearest.deviation, 0.95 * expected);
  EXPECT_LT(nearest.deviation, 1.05 * expected);
  EXPECT_LT(std::fabs(nearest.mean), 0.1 * expected);
}

/// Cut off, positive products lean to zero by half a spacing of either operand.
TEST(Model, operands_that_are_cut_off_lean) {
  const std::vector<double> a(64, 1.5), b(64, 1.25);
  const Errors cut = errors_of_dot(Format::tf32, Operands::cut_off, a, b, 64 * 1.5 * 1.25);
  const double lean = -64 * (1.5 + 1.25) * 0x1p-11;
  EXPECT_LT(std::fabs(cut.mean / lean - 1), 0.05);
}

/// fp32 sums: a sum that cancels to zero keeps the roundings of its terms, an order's as any other's.
TEST(Model, sums_are_off_by_the_size_of_their_terms) {
  std::vector<double> a(64, 1.0), b(64, 1.0);
  for (std::size_t i = 32; i < b.size(); ++i) b[i] = -1;
  const Errors sums = errors_of_dot(Format::fp32, Operands::nearest, a, b, 0);
  EXPECT_GT(sums.deviation, 0x1p-24);
  EXPECT_LT(sums.deviation, 64 * 0x1p-23);
}

TEST(Model, the_same_seed_is_the_same_error_and_zero_is_zero) {
  const std::vector<double> a{1.5, -2.25, 0}, b{0.3, 0.7, 5};
  const auto once = [&](std::uint64_t seed) {
    PerturbedArithmetic arithmetic(Format::bf16, Operands::nearest, seed);
    return arithmetic.dot(0, all_of(a), all_of(b), 1);
  };
  EXPECT_EQ(once(3), once(3));
  EXPECT_NE(once(3), once(4));
  const std::vector<double> zeros(3, 0.0);
  PerturbedArithmetic arithmetic(Format::bf16, Operands::nearest, 1);
  EXPECT_EQ(arithmetic.dot(0, all_of(zeros), all_of(b), 1), 0);
}

/// What stands on both sides of a product is one operand, rounded once: k k^T of a draw is symmetric up to its sums. A
/// system of it is definite then, whatever its ridge. (Of mesanet's cases 1,128,2,64 each third had no verdict.)
TEST(Model, a_gram_matrix_stays_one) {
  constexpr int K = 8;
  const Problem problem = drawn_forward({.mechanism = "mesanet", .shape = {1, 20, 1, 0, K, 8, 0}, .seed = 1});
  for (const Arrays& drawn : model_runs(problem, Format::bf16, 3, 1).drawn) {
    const std::vector<double>& gram = drawn.at("final_gram").data;
    for (std::size_t i = 0; i < K; ++i)
      for (std::size_t j = 0; j < i; ++j)
        EXPECT_NEAR(gram[i * K + j], gram[j * K + i], 0x1p-17 * (gram[i * K + i] + gram[j * K + j]));
  }
}

/// A program's random numbers are functions of the place, whatever was computed before; those of places, operands and
/// roundings that differ in anything are independent.
TEST(Model, random_numbers_are_those_of_a_place) {
  using Place = PerturbedArithmetic::Place;
  using Part = PerturbedArithmetic::Part;
  constexpr std::size_t count = 4096;
  const std::vector<double> ones(count, 1.0);
  const std::vector<Place> places{{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
  // Errors in units of their deviation: of both operands, of an operation, and of another one on the same element.
  const auto drawn_at = [&](const Place& place, PerturbedArithmetic& draw) {
    std::vector<std::vector<double>> lists(4, ones);
    draw.go_to(place);
    draw.reads(Part::left, ones.data(), count, lists[0].data());
    draw.reads(Part::right, ones.data(), count, lists[1].data());
    for (std::size_t i = 0; i < count; ++i) {
      draw.at_element(i);
      lists[2][i] = draw.operation(1), lists[3][i] = draw.operation(1);
    }
    for (std::size_t k = 0; k < lists.size(); ++k)
      for (double& x : lists[k]) x = (x - 1) * std::sqrt(12.0) * (k < 2 ? 0x1p7 : 0x1p23);
    return lists;
  };
  std::vector<std::vector<double>> all;
  for (const std::uint64_t seed : {1U, 2U}) {
    PerturbedArithmetic draw(Format::bf16, Operands::nearest, seed), again(Format::bf16, Operands::nearest, seed);
    draw.round_every_operation(), again.round_every_operation();
    std::vector<std::vector<std::vector<double>>> forwards, backwards;
    for (const Place& place : places) forwards.push_back(drawn_at(place, draw));
    for (std::size_t p = places.size(); p-- > 0;) backwards.insert(backwards.begin(), drawn_at(places[p], again));
    EXPECT_EQ(forwards, backwards);
    for (const auto& lists : forwards) all.insert(all.end(), lists.begin(), lists.end());
  }
  // A mean of n products of independent numbers of variance 1 has the deviation 1 / sqrt(n).
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = 0; b <= a; ++b) {
      double sum = 0;
      for (std::size_t i = 0; i < count; ++i) sum += all[a][i] * all[b][i];
      EXPECT_LT(std::fabs(sum / count - (a == b ? 1 : 0)) * std::sqrt(1.0 * count), 6) << a << ' ' << b;
    }
}

/// Gradients of one number have a term for each group of heads that share keys, however the room is drawn.
TEST(Model, numbers_that_heads_add_up_have_terms) {
  for (const auto& [name, gradient, shared] :
       {std::tuple{"softmax_attention", "d_bandwidth", 2}, {"mesanet", "d_lambda", 0}}) {
    const Shape shape{2, 12, 4, shared, 4, 4, 0};
    Problem problem = drawn({name, shape, Format::bf16, Style::normal, 3, {}});
    if (problem.inputs.contains("lambda")) problem.inputs["lambda"] = Array({}, {0.5});  // one for all heads
    const ModelRuns runs = model_runs(problem, Format::bf16, 3, 1);
    for (std::size_t k = 0; k < runs.drawn.size(); ++k) {
      const std::vector<double>& terms = runs.terms[k].at(gradient);
      EXPECT_EQ(terms.size(), static_cast<std::size_t>(shape.shared())) << name;
      double sum = 0, size = 0;
      for (const double term : terms) sum += term, size += std::fabs(term);
      EXPECT_NEAR(runs.drawn[k].at(gradient).data.at(0), sum, shape.own() * spacing(Format::fp32, size)) << name;
    }
  }
}

/// Heads are drawn on as many threads as there are, of programs and of references: the same bits on any number.
TEST(Model, draws_have_the_same_bits_on_any_number_of_threads) {
  for (const char* name : {"gated_deltanet", "softmax_attention", "mesanet", "mdn"}) {
    const Problem problem = drawn({name, {1, 9, 6, 0, 4, 4, 0}, Format::fp32, Style::normal, 3, {}});
    const ModelRuns one = model_runs(problem, Format::fp32, 3, 1), many = model_runs(problem, Format::fp32, 3, 11);
    EXPECT_EQ(one.drawn, many.drawn) << name;
    EXPECT_EQ(one.terms, many.terms) << name;
  }
}

/// So has what is expected of tensors that are longer than the blocks that threads take.
TEST(Model, expectations_have_the_same_bits_on_any_number_of_threads) {
  const Problem problem =
      drawn_forward({"value_averaging", {1, 700, 3, 0, 16, 16, 0}, Format::bf16, Style::normal, 3, {}});
  const Oracle oracle = oracle_of(listed_room(problem.mechanism), problem);
  const ModelRuns runs = model_runs(problem, Format::bf16, 4, 2);
  const auto by = [&](int threads) {
    return expect_by_model(
        oracle, runs, [](const std::string&) { return Format::bf16; }, false_alarm_rate, threads);
  };
  const Named<Expected> one = by(1), many = by(11);
  ASSERT_EQ(one.size(), many.size());
  for (std::size_t t = 0; t < one.size(); ++t) {
    const Expected &a = one[t].second, &b = many[t].second;
    EXPECT_TRUE(a.sigma == b.sigma && a.freedom == b.freedom && a.reach == b.reach) << one[t].first;
    EXPECT_EQ(a.rms_limit, b.rms_limit) << one[t].first;
  }
}

/// Two heads that are given the same numbers, by a program and by a reference, are drawn with other random numbers.
TEST(Model, heads_err_independently) {
  for (const char* name : {"deltanet", "softmax_attention"}) {
    Problem problem = drawn_forward({name, {1, 40, 2, 0, 8, 8, 0}, Format::bf16, Style::normal, 3, {}});
    for (auto& [input, array] : problem.inputs)
      if (array.shape.size() > 1)
        std::copy_n(array.data.begin(), array.data.size() / 2, array.data.begin() + array.data.size() / 2);
    const std::vector<double> o = model_runs(problem, Format::bf16, 3, 1).drawn[0].at("o").data;
    std::size_t same = 0;
    for (std::size_t i = 0; i < o.size() / 2; ++i) same += o[i] == o[i + o.size() / 2] ? 1 : 0;
    EXPECT_LT(same, o.size() / 20) << name;
  }
}

/// A tensor's judgement by the model alone, and after other algorithms were asked.
struct Judged {
  std::string tensor;
  Judgement alone, asked;
};
/// Of tensors of an answer, stored in the formats that they fit in, or in the one that is given.
std::vector<Judged> judged(const Problem& problem, Format precision, const Arrays& got, Format in = Format::exact) {
  const Oracle oracle = oracle_of(listed_room(problem.mechanism), problem);
  const ModelRuns runs = model_runs(problem, precision, default_draws, 1);
  const auto stored = [&](const std::string& name) {
    const auto found = got.find(name);
    return in != Format::exact ? in : found == got.end() ? Format::fp64 : stored_format(found->second.data);
  };
  OtherAlgorithms others(problem, oracle, precision, default_draws, 1, stored);
  std::vector<Judged> list;
  for (const auto& [name, expected] : expect_by_model(oracle, runs, stored))
    if (const auto found = got.find(name); found != got.end())
      list.push_back({name, judge_by_model(expected, precision, found->second.data),
                      judge_by_model(expected, precision, found->second.data, 1, &others, name)});
  return list;
}
/// Of one tensor.
Judged judged_one(const Problem& problem, Format precision, const std::string& tensor, const Array& answer,
                  Format in = Format::exact) {
  const std::vector<Judged> list = judged(problem, precision, {{tensor, answer}}, in);
  return list.size() == 1 ? list.front() : Judged{"none", {}, {}};
}
Verdict verdict_on(const Problem& problem, Format precision, const std::string& tensor, const Array& answer) {
  return judged_one(problem, precision, tensor, answer).asked.verdict;
}
Array times(Array x, double factor) {
  for (double& number : x.data) number *= factor;
  return x;
}

/// Healthy kernels of every room: the tile program as its contract rounds, and the reference token by token.
TEST(Model, healthy_kernels_of_every_room_are_within_it) {
  const Format precisions[] = {Format::bf16, Format::fp16, Format::fp32, Format::tf32};
  const Style styles[] = {Style::normal, Style::long_memory, Style::slow_writes};
  std::size_t turn = 0, tensors = 0;
  for (const KernelRoom* kernels : kernel_rooms()) {
    const KernelForm& form = kernels->forms.front();
    for (int i = 0; i < 2; ++i, ++turn) {
      const Format precision = precisions[turn % std::size(precisions)];
      const CaseSpec spec{
          std::string(kernels->name), {1, 48, 2, 0, 16, 16, 0}, precision, styles[turn % std::size(styles)], 5, {}};
      const Problem problem = drawn(spec);
      for (const Judged& j :
           judged(problem, precision, flat(form.run(problem, Policy::of(form.sites, precision), 0)))) {
        ++tensors;
        EXPECT_NE(j.asked.verdict, Verdict::fail) << spec.repro() << ' ' << j.tensor << ": " << j.asked.reason;
      }
    }
  }
  EXPECT_GT(tensors, 200U);
}

/// With outlier channels the system of a chunk cancels, and operands that tensor cores cut off lean together: far
/// beyond what they do in the recurrence. No contract has to be named for the model to know that its own kernel is
/// healthy.
TEST(Model, leaves_open_what_our_own_kernels_do) {
  const Problem problem = drawn({"deltanet", {1, 70, 2, 0, 16, 16, 0}, Format::tf32, Style::outlier_channels, 0, {}});
  const KernelForm& form = first_form("deltanet");
  Contract cutting = Contract::of(Format::tf32);
  cutting.rounding = Rounding::toward_zero;
  const std::string tensor = "d_initial_state";
  const Array got = flat(form.run(problem, cutting.policy(form.sites), 0)).at(tensor);
  EXPECT_EQ(verdict_on(problem, Format::tf32, tensor, got), Verdict::undecided);
  EXPECT_EQ(verdict_on(problem, Format::tf32, tensor, times(got, 1.02)), Verdict::fail)
      << "an error that no kernel makes is none of theirs";
  EXPECT_EQ(judged_one(problem, Format::tf32, tensor, got, Format::fp32).alone.verdict, Verdict::fail)
      << "nobody was asked";
}

Array values_of(const Oracle& oracle, const std::string& tensor) {
  for (const auto& [name, truth] : oracle.tensors) {
    if (name != tensor) continue;
    Array values(truth.shape);
    for (std::size_t i = 0; i < values.data.size(); ++i) values.data[i] = truth.value[i].hi;
    return values;
  }
  return Array();
}

std::size_t length_of(const Array& x, std::size_t axis) { return static_cast<std::size_t>(x.shape.at(axis)); }

/// A delta rule's final state as a chunk algorithm has it: the first one, and the products of all that its tokens
/// write, each number of which is an operand in bf16.
Array state_of_one_chunk(const Problem& problem) {
  const Array &k = problem.inputs.at("k"), &v = problem.inputs.at("v"), &beta = problem.inputs.at("beta");
  const std::size_t H = length_of(k, 0), T = length_of(k, 1), K = length_of(k, 2), V = length_of(v, 2);
  Array sum = problem.inputs.at("initial_state");
  std::vector<double> S = sum.data;
  for (std::size_t h = 0; h < H; ++h)
    for (std::size_t t = h * T; t < (h + 1) * T; ++t)
      for (std::size_t w = 0; w < V; ++w) {
        double read = 0;
        for (std::size_t c = 0; c < K; ++c) read += k.data[t * K + c] * S[(h * K + c) * V + w];
        const double written = beta.data[t] * (v.data[t * V + w] - read), operand = round_to(written, Format::bf16);
        for (std::size_t c = 0; c < K; ++c) {
          S[(h * K + c) * V + w] += k.data[t * K + c] * written;
          sum.data[(h * K + c) * V + w] += k.data[t * K + c] * operand;
        }
      }
  for (double& x : sum.data) x = round_to(x, Format::fp32);
  return sum;
}

/// d_v of falcon2 with one key channel as a kernel of one chunk has it: the inverse of the chunk's system, and what it
/// is multiplied by, are operands in bf16.
Array written_in_one_chunk(const Problem& problem) {
  const auto numbers_of = [&](const char* name) { return problem.inputs.at(name).data; };
  const std::vector<double> q = numbers_of("q"), k = numbers_of("k"), beta = numbers_of("beta"),
                            lambda = numbers_of("lambda");
  const std::vector<double>&d_o = problem.cotangents.at("o").data, &d_state = problem.cotangents.at("final_state").data;
  Array gradient(problem.inputs.at("v").shape);
  const std::size_t H = length_of(gradient, 0), T = length_of(gradient, 1), V = length_of(gradient, 2);
  for (std::size_t h = 0; h < H; ++h)
    for (std::size_t w = 0; w < V; ++w) {
      const double* const key = &k[h * T];
      std::vector<double> step(T), kept(T), inverse(T * T), given(T);
      for (std::size_t t = 0; t < T; ++t) {
        step[t] = beta[(h * T + t) * V + w] / (key[t] * key[t] + lambda[h * T + t]);
        kept[t] = 1 - step[t] * lambda[h * T + t];
      }
      const auto decay = [&](std::size_t first, std::size_t end) {
        double product = 1;
        for (std::size_t t = first; t < end; ++t) product *= kept[t];
        return product;
      };
      for (std::size_t i = 0; i < T; ++i) {
        inverse[i * T + i] = 1;
        for (std::size_t j = 0; j < i; ++j)
          for (std::size_t l = j; l < i; ++l)
            inverse[i * T + j] -= step[i] * key[i] * key[l] * decay(l + 1, i) * inverse[l * T + j];
      }
      for (std::size_t t = 0; t < T; ++t) {
        given[t] = key[t] * decay(t + 1, T) * d_state[h * V + w];
        for (std::size_t s = t; s < T; ++s)
          given[t] += q[h * T + s] * key[t] * decay(t + 1, s + 1) * d_o[(h * T + s) * V + w];
      }
      for (std::size_t t = 0; t < T; ++t) {
        double solved = 0;
        for (std::size_t s = t; s < T; ++s)
          solved += round_to(inverse[s * T + t], Format::bf16) * round_to(given[s], Format::bf16);
        gradient.data[(h * T + t) * V + w] = round_to(step[t] * solved, Format::fp32);
      }
    }
  return gradient;
}

/// Some of these answers are beyond what the draws know, and none fails; an error as large as the terms does.
void expect_left_open(std::uint64_t seeds, const CaseSpec& spec, const std::string& tensor,
                      Array (*answer)(const Problem&)) {
  int beyond = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CaseSpec seeded = spec;
    seeded.seed = seed;
    const Problem problem = drawn(seeded);
    const Array healthy = answer(problem);
    const Judged j = judged_one(problem, spec.precision, tensor, healthy, Format::fp32);
    EXPECT_NE(j.asked.verdict, Verdict::fail) << seed << j.asked.reason;
    if (j.alone.verdict != Verdict::fail) continue;
    ++beyond;
    const Judged larger = judged_one(problem, spec.precision, tensor, times(healthy, 1.5), Format::fp32);
    EXPECT_EQ(larger.asked.verdict, Verdict::fail) << seed;
  }
  EXPECT_GT(beyond, 1);
}

/// What later tokens overwrite is small in the recurrence, and a sum of large terms in a chunk.
TEST(Model, leaves_open_what_cancels_in_the_sums_of_a_chunk) {
  expect_left_open(12, {"deltanet", {1, 15, 2, 0, 12, 8, 0}, Format::bf16, Style::dyadic, 0, {}}, "final_state",
                   state_of_one_chunk);
}

/// A write that is overwritten has a gradient of zero, a difference of equal numbers, and what its roundings leave is
/// overwritten once more by the write before. An inverse of the chunk's system overwrites its own roundings nowhere.
TEST(Model, leaves_open_what_is_overwritten_twice) {
  expect_left_open(6, {"falcon2", {1, 12, 2, 0, 1, 4, 0}, Format::bf16, Style::dyadic, 0, {{"alignment", "same_step"}}},
                   "d_v", written_in_one_chunk);
}

/// A kernel in fp16 that multiplies its queries by what the state has decayed to since: below 2^-14 they lose digits,
/// which no operand of the recurrence does.
TEST(Model, operands_that_carry_decays_may_be_below_the_normal_numbers) {
  const Problem problem = drawn({"mamba2", {1, 1, 4, 0, 32, 16, 0}, Format::fp16, Style::dead_memory, 3, {}});
  const Array &q = problem.inputs.at("q"), &g = problem.inputs.at("log_decay"), &d = problem.cotangents.at("o");
  const std::size_t H = length_of(q, 0), K = length_of(q, 2), V = length_of(d, 2);
  const double scale = 1 / std::sqrt(static_cast<double>(K));
  const std::string tensor = "d_initial_state";
  Array answer = values_of(oracle_of(listed_room("mamba2"), problem), tensor);
  ASSERT_EQ(answer.data.size(), H * K * V);
  for (std::size_t h = 0; h < H; ++h)
    for (std::size_t c = 0; c < K; ++c) {
      const double operand = std::exp(g.data[h]) * scale * q.data[h * K + c];
      const double off = round_to(operand, Format::fp16) - operand;
      for (std::size_t w = 0; w < V; ++w) {
        double& x = answer.data[(h * K + c) * V + w];
        x = round_to(x + off * d.data[h * V + w], Format::fp32);
      }
    }
  const Judged healthy = judged_one(problem, Format::fp16, tensor, answer, Format::fp32);
  EXPECT_EQ(healthy.alone.verdict, Verdict::fail) << "the draws know it";
  EXPECT_TRUE(healthy.asked.verdict != Verdict::fail && healthy.asked.verdict != Verdict::undecided)
      << name_of(healthy.asked.verdict) << healthy.asked.reason;
  for (double& x : answer.data) x += 0x1p-16;
  EXPECT_EQ(judged_one(problem, Format::fp16, tensor, answer, Format::fp32).asked.verdict, Verdict::fail);
}

/// Every tile shape is a kernel of its own.
TEST(Model, asks_our_own_kernel_in_every_tile_shape) {
  const Problem problem = drawn({"deltanet", {1, 70, 1, 0, 8, 8, 0}, Format::bf16, Style::normal, 0, {}});
  const KernelForm& form = first_form("deltanet");
  Policy policy = Policy::of(form.sites, Format::bf16);
  policy.sites = policy.sites.with("out", Format::fp64), policy.threads = 1;  // the answer's own rounding is left out
  const std::vector<Arrays> answers = healthy_answers(problem, Format::bf16, 1);
  for (std::size_t tile = 0; tile < form.tiles.size(); ++tile) {
    const Arrays own = flat(form.run(problem, policy, static_cast<int>(tile)));
    EXPECT_NE(std::find(answers.begin(), answers.end(), own), answers.end()) << form.tiles[tile];
  }
}

TEST(Model, asks_no_kernel_that_carries_a_narrow_state) {
  const tile::SiteTable& sites = first_form("deltanet").sites;
  const tile::SiteTable own = Policy::of(sites, Format::bf16).sites;
  EXPECT_TRUE(has_narrower_state(find_contract("bf16_state")->policy(sites).sites, own));
  EXPECT_FALSE(has_narrower_state(find_contract("fla")->policy(sites).sites, own));
}

TEST(Model, draws_again_where_a_matrix_is_no_longer_definite) {
  const Problem problem =
      drawn({"mesanet", {1, 31, 6, 2, 17, 8, 0}, Format::bf16, Style::repeated_keys, 1135649302, {}});
  EXPECT_EQ(model_runs(problem, Format::bf16, default_draws, 2).drawn.size(), 16U);
}

TEST(Model, knows_which_gradients_are_of_states) {
  EXPECT_TRUE(multiplies_states("kda", "d_log_decay", Format::bf16));
  EXPECT_FALSE(multiplies_states("kda", "d_q", Format::bf16));
  EXPECT_FALSE(multiplies_states("kda", "d_log_decay", Format::fp32)) << "states are as wide as operands";
}

/// The gradient of a gate as chunk kernels sum it up in fp32: what q.dq and k.dk of all later tokens differ by. Where
/// nothing has been written yet it is zero, and the sums leave their roundings.
TEST(Model, gates_may_be_cumulated) {
  constexpr int T = 96, K = 8, V = 8;
  for (const char* mechanism : {"gla", "retnet"}) {
    const bool of_channels = mechanism == std::string_view("gla");
    const Style style = of_channels ? Style::slow_writes : Style::normal;
    Problem problem = drawn({mechanism, {1, T, 1, 0, K, V, 0}, Format::fp32, style, 2, {}});
    if (!of_channels)  // a decay of all tokens, by which little is left of the token before
      problem.params.clear(), problem.inputs["log_decay"] = Array({1}, {-5.0});
    const BasicAnswer<HiLo> truth = listed_room(mechanism).values(problem, Tier::w2);
    const auto at = [&](const std::string& name) { return truth.gradients.at(name).data; };
    const std::vector<double>&q = problem.inputs.at("q").data, &k = problem.inputs.at("k").data;
    const std::vector<HiLo>&final_state = truth.outputs.at("final_state").data, dq = at("q"), dk = at("k");
    std::vector<double> got(static_cast<std::size_t>(of_channels ? T * K : 1));
    for (int c = 0; c < K; ++c) {
      float sum = 0;
      for (int x = 0; x < V; ++x) {
        const auto i = static_cast<std::size_t>(c * V + x);
        sum += static_cast<float>(final_state[i].hi) * static_cast<float>(problem.cotangents.at("final_state").data[i]);
      }
      for (int t = T - 1; t >= 0; --t) {
        const auto i = static_cast<std::size_t>(t * K + c);
        sum += static_cast<float>(q[i]) * static_cast<float>(dq[i].hi) -
               static_cast<float>(k[i]) * static_cast<float>(dk[i].hi);
        got[of_channels ? i : 0] += sum;
      }
    }
    const Array answer(of_channels ? std::vector<int>{1, T, K} : std::vector<int>{1}, got);
    EXPECT_EQ(verdict_on(problem, Format::fp32, "d_log_decay", answer), Verdict::pass) << mechanism;
    EXPECT_EQ(verdict_on(problem, Format::fp32, "d_log_decay", times(answer, 2)), Verdict::fail) << mechanism;
  }
}

/// At the first token nothing has been written: a gate's gradient is the errors of its sums alone, and these are others
/// in every draw. The squared mean of n independent draws is 1/n of the mean square, that of equal ones all of it.
TEST(Model, gates_err_otherwise_in_every_draw) {
  Problem problem = drawn({"gla", {1, 8, 1, 0, 8, 8, 0}, Format::bf16, Style::normal, 3, {}});
  for (double& x : problem.inputs.at("initial_state").data) x = 0;
  const ModelRuns runs = model_runs(problem, Format::bf16, default_draws, 1);
  double squares = 0, alike = 0;
  for (std::size_t c = 0; c < 8; ++c) {
    double sum = 0;
    for (const Arrays& drawn : runs.drawn) {
      const double error = drawn.at("d_log_decay").data[c];
      sum += error, squares += error * error;
    }
    alike += sum * sum / default_draws;
  }
  EXPECT_GT(squares, 0);
  EXPECT_LT(alike, squares / 2);
}

/// o of mamba2 or gated_deltanet in one chunk, with decays as chunk kernels take them, exponentials of differences of
/// sums in fp32, and all else in doubles. Their logarithms are off by that part. A rule that reads before it decays
/// takes exp((b_i - g_i) - b_j).
Array read_by_running_sums(const Problem& problem, double off) {
  const Array &k = problem.inputs.at("k"), &v = problem.inputs.at("v");
  const std::vector<double>&q = problem.inputs.at("q").data, &decay = problem.inputs.at("log_decay").data,
        &start = problem.inputs.at("initial_state").data;
  const bool predicts = problem.inputs.contains("beta");
  const std::size_t T = length_of(k, 1), K = length_of(k, 2), V = length_of(v, 2);
  std::vector<float> sums(T);
  float sum = 0;
  for (std::size_t t = 0; t < T; ++t) sums[t] = sum += static_cast<float>(decay[t]);
  Array o(v.shape);
  std::vector<double> written = v.data;
  const auto state = [&](float end, std::size_t tokens, std::size_t c, std::size_t x) {
    double found = std::exp(static_cast<double>(end)) * start[c * V + x];
    for (std::size_t j = 0; j < tokens; ++j)
      found += std::exp((1 + off) * static_cast<double>(end - sums[j])) * k.data[j * K + c] * written[j * V + x];
    return found;
  };
  for (std::size_t i = 0; i < T; ++i)
    for (std::size_t x = 0; x < V; ++x) {
      double read = 0, found = 0;
      for (std::size_t c = 0; c < K && predicts; ++c)
        read += k.data[i * K + c] * state(sums[i] - static_cast<float>(decay[i]), i, c, x);
      if (predicts) written[i * V + x] = problem.inputs.at("beta").data[i] * (v.data[i * V + x] - read);
      for (std::size_t c = 0; c < K; ++c) found += q[i * K + c] * state(sums[i], i + 1, c, x);
      o.data[i * V + x] = static_cast<float>(found / std::sqrt(static_cast<double>(K)));
    }
  return o;
}
/// The problem of one head with these log decays of its tokens.
Problem with_decays(const CaseSpec& spec, double (*decay_of)(std::size_t)) {
  Problem problem = drawn_forward(spec);
  std::vector<double>& decay = problem.inputs.at("log_decay").data;
  for (std::size_t t = 0; t < decay.size(); ++t) decay[t] = static_cast<float>(decay_of(t));
  return problem;
}

/// With gates that forget half of the state in every token. These were false alarms (fla's naive chunk forms).
TEST(Model, decays_may_be_cumulated) {
  const Problem problem = with_decays({"mamba2", {1, 64, 1, 0, 8, 8, 0}, Format::fp32, Style::normal, 4, {}},
                                      [](std::size_t t) { return -0.1 - 0.07 * static_cast<double>((t * 37) % 19); });
  EXPECT_EQ(verdict_on(problem, Format::fp32, "o", read_by_running_sums(problem, 0)), Verdict::pass);
  EXPECT_EQ(verdict_on(problem, Format::fp32, "o", read_by_running_sums(problem, 1e-4)), Verdict::fail);
}

/// Behind 64 tokens that forget all, differences of sums over the whole sequence have lost digits that sums of a chunk
/// have.
TEST(Model, decays_may_be_cumulated_in_one_chunk) {
  const Problem problem =
      with_decays({"mamba2", {1, 138, 1, 0, 8, 8, 0}, Format::fp32, Style::normal, 4, {}},
                  [](std::size_t t) { return t < 64 ? -5.0 : -0.01 * static_cast<double>(1 + t % 3); });
  const auto judged_with = [&](double off) {
    return judged_one(problem, Format::fp32, "o", read_by_running_sums(problem, off), Format::fp32);
  };
  EXPECT_EQ(judged_with(0).alone.verdict, Verdict::fail) << "chunks of 64 tokens know it";
  EXPECT_EQ(judged_with(0).asked.verdict, Verdict::pass) << judged_with(0).asked.reason;
  EXPECT_EQ(judged_with(1e-3).asked.verdict, Verdict::fail);
}

/// A difference of sums loses as many digits as b_i has before the point, where the recurrence reads what was written
/// last as it is.
TEST(Model, decays_of_reads_may_be_cumulated) {
  const Problem problem =
      with_decays({"gated_deltanet", {1, 33, 1, 0, 8, 8, 0}, Format::fp32, Style::normal, 1, {{"error", "undecayed"}}},
                  [](std::size_t t) { return -5 - 0.3 * static_cast<double>((t * 37) % 19); });
  EXPECT_EQ(verdict_on(problem, Format::fp32, "o", read_by_running_sums(problem, 0)), Verdict::pass);
  EXPECT_EQ(verdict_on(problem, Format::fp32, "o", read_by_running_sums(problem, 1e-3)), Verdict::fail);
}

/// The same of a kernel whose operands are rounded or cut off: what its dq and dk do not have in common is left of
/// their difference, over the whole sequence. The model leaves it open, for our own kernels err so if they sum gates
/// up, and the contract of the library that does so has it. These were false alarms (fla's fused_chunk_simple_gla).
TEST(Model, gates_may_be_summed_of_rounded_gradients) {
  const KernelForm& form = first_form("mamba2");
  int beyond = 0;
  for (const Format precision : {Format::bf16, Format::fp16, Format::tf32})
    for (std::uint64_t seed = 5; seed < 7; ++seed) {
      SCOPED_TRACE(text(name_of(precision), ' ', seed));
      const Problem problem = drawn({"mamba2", {1, 100, 2, 0, 16, 16, 0}, precision, Style::normal, seed, {}});
      const Contract fla = find_contract("fla")->in(precision);
      const KernelUnderTest kernel{&form, precision, 0, 1, &fla};
      Policy policy = kernel.policy();
      if (precision == Format::tf32) policy.rounding = Rounding::toward_zero;  // as tensor cores read operands
      const Arrays exact = flat(form.run(problem, Policy::exact(form.sites), 0));
      const auto summed = with_gates_summed(problem, exact, flat(form.run(problem, policy, 0)));
      ASSERT_TRUE(summed);
      Array got = summed->at("d_log_decay"), late = got;
      std::rotate(late.data.begin(), late.data.begin() + 1, late.data.end());
      for (const auto& [name, expected] : expected_on(problem, kernel).tensors) {
        if (name != "d_log_decay") continue;
        EXPECT_NE(judge(expected, got.data).verdict, Verdict::fail) << judge(expected, got.data).reason;
        EXPECT_EQ(judge(expected, late.data).verdict, Verdict::fail);
      }
      const Judged right = judged_one(problem, precision, "d_log_decay", got);
      EXPECT_NE(right.asked.verdict, Verdict::fail) << right.asked.reason;
      EXPECT_EQ(verdict_on(problem, precision, "d_log_decay", late), Verdict::fail);
      beyond += right.asked.verdict == Verdict::undecided ? 1 : 0;
    }
  EXPECT_GT(beyond, 0) << "some of these the draws alone do not allow";
}

/// The gradient of lambda in one dimension, bandwidth h, where o = sum_j p_j (1 - y (k_j - kbar)) v_j is differentiated
/// as it stands: kbar is a product of weights in bf16, all else is in doubles. What the values have in common drops out
/// of dy as far as kbar is the mean of the keys.
std::vector<double> ridge_gradient(const Problem& problem, double h) {
  const auto numbers_of = [&](const char* name) -> const std::vector<double>& { return problem.inputs.at(name).data; };
  const std::vector<double>&q = numbers_of("q"), &k = numbers_of("k"), &v = numbers_of("v"),
        &lambda = numbers_of("lambda"), &g = problem.cotangents.at("o").data;
  const std::size_t T = q.size(), V = v.size() / T;
  std::vector<double> gradient(T), p(T);
  for (std::size_t i = 0; i < T; ++i) {
    double sum = 0, mean = 0, variance = 0, dy = 0;
    for (std::size_t j = 0; j <= i; ++j) sum += p[j] = std::exp(q[i] * k[j] / h);
    for (std::size_t j = 0; j <= i; ++j) p[j] /= sum, mean += round_to(p[j], Format::bf16) * k[j];
    for (std::size_t j = 0; j <= i; ++j) {
      double a = 0;
      for (std::size_t x = 0; x < V; ++x) a += g[i * V + x] * v[j * V + x];
      variance += p[j] * (k[j] - mean) * (k[j] - mean), dy -= p[j] * a * (k[j] - mean);
    }
    const double system = variance + lambda[i];
    gradient[i] = -(dy / system) * ((mean - q[i]) / system);
  }
  return gradient;
}

/// Keys that have much in common make kbar's error large beside k_j - kbar. Values that have something in common leave
/// it times that, and others show a wrong sign. These were false alarms (local linear attention in NumPy).
TEST(Model, values_need_not_be_about_their_mean) {
  constexpr int T = 24;
  for (const double common : {4.0, 0.0}) {
    Problem problem = drawn({"lla", {1, T, 1, 0, 1, 4, 0}, Format::bf16, Style::normal, 4, {{"bandwidth", "128"}}});
    for (double& x : problem.inputs.at("k").data) x = round_to(x + 64, Format::bf16);
    for (double& x : problem.inputs.at("v").data) x = round_to(x + common, Format::bf16);
    problem.inputs.at("lambda") = Array({1, T}, std::vector<double>(T, 0.125));
    const Array got({1, T}, ridge_gradient(problem, 128));
    EXPECT_NE(verdict_on(problem, Format::bf16, "d_lambda", got), Verdict::fail) << common;
    if (common != 0) continue;
    EXPECT_NE(verdict_on(problem, Format::bf16, "d_lambda", times(got, -1)), Verdict::pass);
  }
}

/// The gradient of a bandwidth, scores taken as they are: Parallax of one token, where o has lost what the probe's
/// product loses in bf16. The score's weight is that and not zero. It is wrong without D = <d_o, o>.
TEST(Model, scores_need_not_be_about_their_largest) {
  const Problem problem =
      drawn({"parallax", {1, 1, 1, 0, 8, 8, 0}, Format::bf16, Style::normal, 5, {{"bandwidth", "1"}}});
  const auto product = [](const Array& x, const Array& y) {
    double sum = 0;
    for (std::size_t c = 0; c < x.data.size(); ++c) sum += x.data[c] * y.data[c];
    return sum;
  };
  const Arrays& in = problem.inputs;
  const double s = product(in.at("q"), in.at("k")), t = product(in.at("rho"), in.at("k"));
  const double a = product(problem.cotangents.at("o"), in.at("v"));
  const double of_o = a * (1 + t - round_to(t, Format::bf16));
  ASSERT_NE(a, of_o);
  const auto verdict_with = [&](double D) {
    return verdict_on(problem, Format::bf16, "d_bandwidth", Array(std::vector<int>{}, {-D * s}));
  };
  EXPECT_NE(verdict_with(a - of_o), Verdict::fail);
  EXPECT_EQ(verdict_with(a), Verdict::fail);
}

/// The gradient as the sum of parts, one for every block of `block` columns of the values, each stored in `format`.
/// A column of the state knows of no other.
Array in_parts(const Problem& problem, const std::string& gradient, int block, Format format) {
  const int V = problem.inputs.at("v").shape.back();
  Array sum(problem.inputs.at(gradient).shape);
  for (int first = 0; first < V; first += block) {
    Problem part = problem;
    const auto take = [&](Array& array) {
      Array columns(array.shape);
      columns.data.clear(), columns.shape.back() = block;
      for (std::size_t i = 0; i < array.data.size(); ++i)
        if (const int c = static_cast<int>(i) % V; c >= first && c < first + block)
          columns.data.push_back(array.data[i]);
      array = columns;
    };
    for (const char* name : {"v", "initial_state"}) take(part.inputs.at(name));
    for (const char* name : {"o", "final_state"}) take(part.cotangents.at(name));
    const std::vector<HiLo> exact = listed_room(problem.mechanism).values(part, Tier::w2).gradients.at(gradient).data;
    for (std::size_t i = 0; i < exact.size(); ++i) sum.data[i] += round_to(exact[i].hi, format);
  }
  for (double& x : sum.data) x = round_to(x, format);
  return sum;
}

/// Kernels that split the values store each part of dq, dk and dbeta in 16 bits. No site has that, and none needs it:
/// it is within what operands' roundings leave. In 8 bits it is not.
TEST(Model, parts_of_blocks_of_values_pass) {
  const Problem problem = drawn({"deltanet", {1, 48, 2, 0, 16, 32, 0}, Format::bf16, Style::normal, 4, {}});
  for (const std::string input : {"q", "k", "beta"})
    for (const auto& [format, verdict] : {std::pair{Format::bf16, Verdict::pass}, {Format::e4m3, Verdict::fail}})
      EXPECT_EQ(verdict_on(problem, Format::bf16, "d_" + input, in_parts(problem, input, 4, format)), verdict)
          << input << ' ' << name_of(format);
}

}  // namespace
}  // namespace assay
