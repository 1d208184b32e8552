// Kernels that are right and sum in another order: a foreign one has its own blocks of products, its own order and its
// own way to the same number, and none of it is a fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "judge/forms/sequential.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/sigma/terms.hpp"
#include "kernels/core/tensor_core.hpp"
#include "oracles/scalars/sized.hpp"
#include "proptests/core/share.hpp"
#include "proptests/judge/cases.hpp"
#include "reference/core/random.hpp"

namespace assay {
namespace {

struct Other {
  std::string name;
  std::function<Answer(const Problem&)> run;
};
Other other_of(std::string name, const KernelForm& form, const Contract& contract) {
  return {std::move(name), [&form, contract](const Problem& p) {
            return form.run(p, KernelUnderTest{&form, contract.precision, 0, 1, &contract}.policy(), 0);
          }};
}

/// The tile program in the ways that hardware sums.
std::vector<Other> other_sums(const KernelForm& form, Format precision) {
  std::vector<Other> list;
  Contract contract = Contract::of(precision);
  for (const int products : {1, 2, 4, 8, 16}) {
    contract.products = products;
    list.push_back(other_of("sums of " + std::to_string(products), form, contract));
  }
  if (precision != Format::fp32)
    list.push_back({"cut off", [run = other_of("", form, Contract::of(precision)).run](const Problem& p) {
                      const tile::TensorCore hopper;
                      const tile::TensorCoreEmulation cutting(hopper);
                      return run(p);
                    }});
  return list;
}

/// References that are no tile program: token by token, and D = sum_j P_ij dP_ij.
std::vector<Other> references(const Room& room, Format precision) {
  std::vector<Other> list;
  for (const KernelForm* other : {sequential_form(room.name), product_sum_form(room.name)})
    if (other != nullptr) list.push_back(other_of(std::string(other->name), *other, Contract::of(precision)));
  return list;
}

std::vector<int> inverse_of(const std::vector<int>& order) {
  std::vector<int> to(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) to[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  return to;
}

/// Which channel, or token of keys and values, comes to each place; none: they stay.
struct Orders {
  std::vector<int> keys = {}, values = {}, tokens = {};
  const std::vector<int>* of(Axis axis) const {
    return axis == Axis::key_dim     ? &keys
           : axis == Axis::value_dim ? &values
           : axis == Axis::seq_len   ? &tokens
                                     : nullptr;
  }
  Orders back() const { return {inverse_of(keys), inverse_of(values), inverse_of(tokens)}; }
};

/// A field's axes are the last ones of its array.
Array reordered(const Array& array, const RoomFacts::Ranked& field, const Orders& orders) {
  Array to = array;
  const auto rank = static_cast<std::size_t>(field.rank);
  if (array.shape.size() != rank + 1) return to;  // all have heads; one number for all channels
  std::size_t inner = 1;
  for (std::size_t axis = rank; axis-- > 0;) {
    const auto extent = static_cast<std::size_t>(array.shape[array.shape.size() - rank + axis]);
    const std::vector<int>* order = orders.of(field.field.axes[axis]);
    if (order != nullptr && order->size() == extent) {
      const std::vector<double> from = to.data;
      for (std::size_t i = 0; i < from.size(); ++i) {
        const std::size_t x = i / inner % extent;
        to.data[i] = from[i - x * inner + static_cast<std::size_t>((*order)[x]) * inner];
      }
    }
    inner *= extent;
  }
  return to;
}

void reorder(Arrays& arrays, const std::vector<RoomFacts::Ranked>& fields, const Orders& orders) {
  for (const RoomFacts::Ranked& field : fields)
    if (const auto it = arrays.find(std::string(field.field.name)); it != arrays.end())
      it->second = reordered(it->second, field, orders);
}

/// The answer of a kernel that goes through channels or tokens in that order.
Answer through(const Orders& orders, const Room& room, const Problem& problem,
               const std::function<Answer(const Problem&)>& run) {
  Problem other = problem;
  reorder(other.inputs, room.inputs(), orders), reorder(other.cotangents, room.outputs(), orders);
  Answer answer = run(other);
  reorder(answer.outputs, room.outputs(), orders.back()), reorder(answer.gradients, room.inputs(), orders.back());
  return answer;
}

struct ShortCase {
  const Room& room;
  const KernelForm& form;
  const CaseSpec& spec;
  const Problem& problem;
  const Expectation& expectation;
};

/// Calls f(case) for rooms in bf16, fp16 and fp32, at 1 to 8 tokens: of one case in 23, or more.
template <class F>
void for_short_cases(F f) {
  Share sampled(23);
  while (sampled.goes_on())
    for (const KernelRoom* kernels : kernel_rooms())
      for (const Format precision : {Format::bf16, Format::fp16, Format::fp32})
        for (int length = 1; length <= 8; ++length) {
          const Room& room = listed_room(kernels->name);
          const KernelForm& form = kernels->forms.front();
          const CaseSpec spec{std::string(room.name), {1, length, 2, 0, 8, 8, 0},         precision,
                              Style::normal,          static_cast<std::uint64_t>(length), {}};
          const Problem problem = room.make(spec);
          if (!form.obstacle(problem).empty() || !sampled.takes()) continue;
          f(ShortCase{room, form, spec, problem,
                      expect(oracle_of(room, problem, 4), {&form, precision, 0, 1}, problem, default_draws)});
        }
}

std::vector<int> reversed_order(std::size_t n) {
  std::vector<int> order(n);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}
std::vector<int> shuffled_order(std::size_t n, const Stream& stream) {
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = n; i-- > 1;)
    std::swap(order[i], order[static_cast<std::size_t>(stream.integer(i, static_cast<int>(i) + 1))]);
  return order;
}

/// Any splitting of any accumulator's terms. Of 16-bit contracts' these were false alarms, of what is stored in fp32
/// and of a first row's d_q, which is dP - D = 0 where both are sums of few products.
int judge_other_sums(const ShortCase& c) {
  int judged = 0;
  for (const Other& other : other_sums(c.form, c.spec.precision))
    judged += expect_no_alarm(judged_tensors(c.expectation, other.run(c.problem)), c.spec.repro() + other.name);
  return judged;
}

/// Any order: the channels of keys and values come reversed and shuffled, one product at a time.
int judge_other_orders(const ShortCase& c) {
  const Stream stream(c.spec.seed, "orders");
  const std::vector<int> reversed = reversed_order(8), shuffled = shuffled_order(8, stream);
  int judged = 0;
  for (const Orders& orders : {Orders{reversed, reversed, {}}, Orders{shuffled, shuffled, {}}})
    for (const Other& other : other_sums(c.form, c.spec.precision)) {
      if (other.name != "sums of 1" && other.name != "sums of 4") continue;
      const Answer answer = through(orders, c.room, c.problem, other.run);
      judged += expect_no_alarm(judged_tensors(c.expectation, answer), c.spec.repro() + other.name);
    }
  return judged;
}

/// The reference, each operation rounded by itself. Not those that solve, whose errors their steps decide, nor the
/// three that have more roundings on the way than their tile programs.
int judge_references(const ShortCase& c) {
  constexpr std::string_view others[] = {"mesanet", "affine_mesanet", "falcon3", "falcon3a", "retnet"};
  if (c.form.iterative || std::ranges::find(others, c.room.name) != std::end(others)) return 0;
  int judged = 0;
  for (const Other& other : references(c.room, c.spec.precision))
    judged += expect_no_alarm(judged_tensors(c.expectation, other.run(c.problem)), c.spec.repro() + other.name);
  return judged;
}

/// In one test, for what is expected of a case takes ten times as long as judging one answer by it.
TEST(Witnesses, other_sums_orders_and_references_are_no_fault) {
  int sums = 0, orders = 0, by_reference = 0;
  for_short_cases([&](const ShortCase& c) {
    sums += judge_other_sums(c), orders += judge_other_orders(c), by_reference += judge_references(c);
  });
  EXPECT_GT(sums, 300);
  EXPECT_GT(orders, 150);
  EXPECT_GT(by_reference, 40);
}

/// Sums over tokens: what attends to all keys takes them in any order, and so does a state that adds up all writes.
TEST(Witnesses, sums_over_tokens_in_another_order_are_no_fault) {
  int judged = 0;
  for (const char* name : {"softmax_attention", "parallax", "linear_attention"})
    for (const Format precision : {Format::bf16, Format::fp16, Format::fp32})
      for (const int length : {2, 3, 5, 8, 20, 70}) {
        CaseSpec spec{name, {1, length, 2, 0, 8, 8, 0}, precision};
        spec.seed = static_cast<std::uint64_t>(length);
        const bool is_state = spec.mechanism == "linear_attention";
        if (!is_state) spec.params["causal"] = false;
        const KernelForm& form = first_form(name);
        const Problem problem = is_state ? drawn_forward(spec) : drawn(spec);
        Expectation expectation = expected_on(problem, {&form, precision, 0, 1}, 4);
        if (is_state) {
          const auto by_token = [](const auto& tensor) { return tensor.first != "final_state"; };
          std::erase_if(expectation.tensors, by_token), std::erase_if(expectation.emulated, by_token);
        }
        const Stream stream(spec.seed, "tokens");
        const auto n = static_cast<std::size_t>(length);
        for (const std::vector<int>& order : {reversed_order(n), shuffled_order(n, stream)})
          for (const Other& other : other_sums(form, precision)) {
            const Answer answer = through({.tokens = order}, listed_room(name), problem, other.run);
            judged += expect_no_alarm(judged_tensors(expectation, answer), spec.repro() + other.name);
          }
      }
  EXPECT_GT(judged, 1500);
}

/// A gradient of 10^8 beside an output of one: what fp64 loses of the one is no excuse for the other.
TEST(Witnesses, one_tensor_does_not_hide_another) {
  Oracle oracle;
  const std::vector<int> shape{4};
  oracle.tensors = {{"o", {shape, std::vector<HiLo>(4, {1 + 1e-8, 0}), std::vector<double>(4)}},
                    {"d_v", {shape, std::vector<HiLo>(4, {1e8, 0}), std::vector<double>(4)}}};
  KernelRuns runs;
  runs.exact = {{"o", Array(shape, {1, 1, 1, 1})}, {"d_v", Array(shape, {1e8, 1e8, 1e8, 1e8})}};
  runs.emulated = runs.exact;
  runs.drawn.assign(static_cast<std::size_t>(default_draws), runs.exact);
  const Expectation expectation = expected_of_runs({1, 2, 1, 0, 2, 1, 0}, oracle, runs);
  EXPECT_EQ(judge(expectation.tensors[0].second, runs.exact[0].second.data).verdict, Verdict::fail);
  EXPECT_NE(judge(expectation.tensors[1].second, runs.exact[1].second.data).verdict, Verdict::fail);
}

// ---- sizes of terms

/// Numbers as they come to lines: zeros, small integers, what has cancelled, infinities, and any other.
Sized some_sized(const Stream& random, std::uint64_t i) {
  const Sized x = random.normal(4 * i), y = static_cast<double>(random.integer(4 * i + 1, 8));
  const int kind = random.integer(4 * i + 2, 8), more = random.integer(4 * i + 3, 8);
  const Sized kinds[] = {0, x - x, x * y - x, more == 0 ? Sized(1) / Sized(0) : y, x * Sized(0), more < 4 ? y : x};
  return kinds[std::min(kind, 5)];
}

/// All of its numbers; NaNs are alike.
std::array<std::uint64_t, 7> bits_of(const Sized& a) {
  std::array<std::uint64_t, 7> bits{};
  std::ranges::transform(std::array{a.value, a.size, a.noise, a.total, a.unit, a.rest, a.factor}, bits.begin(),
                         [](double x) { return std::isnan(x) ? 0 : std::bit_cast<std::uint64_t>(x); });
  return bits;
}

TEST(Sized, takes_lines_as_it_takes_numbers) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Sized::hold_in({seed % 3 == 0 ? 53 : 6});
    const Stream random(seed, "sized");
    const int n = random.integer(1, 200), step = 1 + random.integer(2, 2);
    std::vector<Sized> a(400), b(400), y(200);
    std::uint64_t at = 0;
    for (auto* list : {&a, &b, &y})
      for (Sized& x : *list) x = some_sized(random, at++);
    const Line<const Sized> left{a.data(), step, n}, right{b.data(), 1, n};
    Sized sum = y[0], difference = y[0], expected_sum = y[0], expected_difference = y[0];
    add_dot(sum, left, right), subtract_dot(difference, left, right);
    std::vector<Sized> more = y, less = y, expected_more = y, expected_less = y;
    add_scaled(line(more), b[0], left), subtract_scaled(line(less), b[0], left);
    for (int i = 0; i < n; ++i) {
      const auto place = static_cast<std::size_t>(i);
      expected_sum += left[i] * right[i], expected_difference -= left[i] * right[i];
      expected_more[place] = y[place] + b[0] * left[i], expected_less[place] = y[place] - b[0] * left[i];
    }
    EXPECT_EQ(bits_of(sum), bits_of(expected_sum));
    EXPECT_EQ(bits_of(difference), bits_of(expected_difference));
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(bits_of(more[i]), bits_of(expected_more[i])) << i;
      EXPECT_EQ(bits_of(less[i]), bits_of(expected_less[i])) << i;
    }
  }
  Sized::hold_in({53});
}

TEST(Sized, knows_what_is_exact_in_any_order) {
  Sized::hold_in({24});
  const auto sum = [](std::initializer_list<double> terms) {
    Sized total = 0;
    for (const double x : terms) total += x;
    return total.exact();
  };
  EXPECT_TRUE(sum({3, -5, 0.25, 0}));
  EXPECT_TRUE(sum({0x1p23, 1, 0x1p22}));
  EXPECT_FALSE(sum({0x1p24, 1})) << "2^24 + 1 takes 25 bits";
  EXPECT_FALSE(sum({0x1p24, -0x1p24, 1})) << "1 + 2^24 comes first in another order";
  EXPECT_TRUE((Sized(3) / Sized(-4)).exact());
  EXPECT_FALSE((Sized(3) / Sized(3)).exact()) << "kernels multiply by 1 / 3";
  EXPECT_TRUE(exp(Sized(0) * Sized(0.1)).exact());
  EXPECT_FALSE(exp(Sized(2) - Sized(2)).exact()) << "kernels take 2^x of multiples of log2(e)";
  EXPECT_TRUE((Sized(0) * Sized(0.1)).exact());
  EXPECT_TRUE(sqrt(Sized(4)).exact());
  EXPECT_FALSE(sqrt(Sized(2)).exact());
  Sized::hold_in({53});
  EXPECT_TRUE(sum({0x1p24, 1}));
}

TEST(Sized, remembers_what_operands_may_carry) {
  Sized::hold_in({11, 0x1p-14});
  const Sized decayed = exp(Sized(-20)) * (Sized(0.3) * Sized(3.1));
  EXPECT_EQ(decayed.rounded_at(), 0x1p-14 * 3.1) << "e^-20 0.3 may be an operand, beside 3.1";
  Sized::hold_in({11});
  EXPECT_DOUBLE_EQ(decayed.rounded_at(), 20 * std::exp(-20) * (0.3 * 3.1)) << "that of its exponent";
  Sized::hold_in({53});
}

TEST(Sized, multiplies_out_what_has_cancelled) {
  Sized::hold_in({24});
  const Sized left = (Sized(1.1) + Sized(1e-9)) - Sized(1.1);
  const double of_three = 1.21 * std::sqrt(3 / 2.0);  // of either factor and of the product
  EXPECT_NEAR((left * left).rounded_at(), of_three, 1e-6) << "1e-9 is less than a rounding of 1.1";
  EXPECT_NEAR((left * Sized(3)).rounded_at(), 3.3, 1e-6);
  Sized::hold_in({53});
}

TEST(Sized, knows_what_leaves_no_trace) {
  Sized::hold_in({53});
  const Sized tiny = exp(Sized(-128)), weights = Sized(1) + Sized(1) + tiny;
  EXPECT_TRUE(weights.exact()) << "2 + 2.6e-56 is 2 in any order";
  EXPECT_TRUE((Sized(3) / weights).exact());
  EXPECT_TRUE((weights * Sized(0.75)).exact());
  EXPECT_FALSE((weights - exp(Sized(-1))).exact()) << "0.37 leaves a trace";

  const Sized left = weights - Sized(2);
  EXPECT_FALSE(left.exact()) << "2.6e-56 in one order, 0 in another";
  EXPECT_GE(left.rounded_at() * 0x1p-53, tiny.value) << "what is left may be lost as a whole";
  EXPECT_LE(left.rounded_at() * 0x1p-53, 2 * 128 * tiny.value) << "and nothing else";
  EXPECT_EQ(log(weights - Sized(1)).value, 0);
  EXPECT_FALSE(log(weights - Sized(1)).exact());

  Sized::hold_in({24});
  EXPECT_FALSE((Sized(1) + exp(Sized(-16))).exact()) << "1.1e-7 of 2^-23";
  EXPECT_TRUE((Sized(1) + exp(Sized(-24))).exact());
  Sized::hold_in({53});
}

}  // namespace
}  // namespace assay
