// Errors of states that are taken together: long recurrences keep bounds that mean something.
#include "language/evaluate/joint.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "language/answers/answer_body.hpp"
#include "language/evaluate/norm_bound.hpp"
#include "language/program/gradient.hpp"
#include "language/room.hpp"
#include "oracles/core/make_room.hpp"
#include "proptests/language/random_problem.hpp"

namespace assay::language {
namespace {

double unit(RandomBits& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53 - 0.5; }

/// Diagonal times plane rotations from both sides: the norm is that of the diagonal.
std::vector<double> matrix_of_norm(double norm, int n, RandomBits& random) {
  const auto N = static_cast<std::size_t>(n);
  std::vector<double> a(N * N, 0);
  for (std::size_t i = 0; i < N; ++i) a[i * N + i] = norm * (i == 0 ? 1 : std::fabs(unit(random)) * 2);
  for (int turn = 0; turn < 6 * n; ++turn) {
    const auto p = static_cast<std::size_t>(random.next() % N), q = static_cast<std::size_t>(random.next() % N);
    if (p == q) continue;
    const double angle = 6 * unit(random), c = std::cos(angle), s = std::sin(angle);
    for (std::size_t k = 0; k < N; ++k) {
      double &x = turn % 2 == 0 ? a[p * N + k] : a[k * N + p], &y = turn % 2 == 0 ? a[q * N + k] : a[k * N + q];
      const double kept = x;
      x = c * kept - s * y, y = s * kept + c * y;
    }
  }
  return a;
}

TEST(Joints, NormsAreBoundedFromAboveAndHardlyBeyond) {
  RandomBits random{1, 0};
  for (const int n : {1, 2, 7, 40}) {
    std::vector<EightDoubles> eight(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
    EightDoubles norms{1, 1e-200, 1e200, 0.3, 7, 1, 0x1p-30, 0};
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const std::vector<double> one = matrix_of_norm(norms[lane], n, random);
      for (std::size_t i = 0; i < one.size(); ++i) eight[i][lane] = one[i];
    }
    const EightDoubles found = norm_bound(eight, n);
    for (std::size_t lane = 0; lane < 8; ++lane) {
      EXPECT_GE(found[lane], norms[lane] * (1 - 1e-13)) << n << ' ' << lane;  // the rotations round
      EXPECT_LE(found[lane], norms[lane] * std::pow(n, 1.0 / 256) * (1 + 1e-12)) << n << ' ' << lane;
    }
    eight[0][3] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(norm_bound(eight, n)[3], std::numeric_limits<double>::infinity());
  }
}

/// The steps of the outermost scans of a program and its gradient.
std::vector<StepPlan> plans(const std::string& name) {
  const Program program = load_program(in_library(name));
  std::vector<StepPlan> list;
  const Program gradient = gradient_of(program);
  for (const Node& node : gradient.body->nodes)
    if (node.op == Op::scan) list.push_back(plan_of(*node.attributes.body, node.attributes.carry, true));
  return list;
}

TEST(Joints, AreThoseOfDeltaRulesForwardAndBackward) {
  for (const char* name : {"deltanet", "gated_deltanet", "gated_deltanet-error-undecayed", "kda", "comba", "mdn",
                           "rwkv7", "gdn2", "gated_delta_product"}) {
    const std::vector<StepPlan> list = plans(name);
    EXPECT_EQ(list.size(), 2U) << name;
    for (const StepPlan& plan : list) {
      ASSERT_EQ(plan.joints.size(), 1U) << name;
      EXPECT_EQ(plan.joints[0].columns, "V") << name;
    }
    EXPECT_EQ(list[0].joints[0].states.size(), std::string(name) == "mdn" ? 2U : 1U) << name;
  }
  // Elements that go by themselves lose nothing.
  for (const char* name : {"gla", "mamba2", "retnet", "linear_attention", "softmax_attention"})
    for (const StepPlan& plan : plans(name)) EXPECT_TRUE(plan.joints.empty()) << name;
}

/// A row of joints.json is a step of a state S [K V] with a row k [K] and a row x [K V]: its nodes, of which the last
/// is the next state, and the axis of its columns if these are taken together.
TEST(Joints, AreLinearAndTheSameInAllColumns) {
  const Json table = test_table("language/joints.json");
  for (const Json& row : table.at("steps")) {
    Json whole = table.at("program");
    Json& step = whole["body"]["nodes"][0][2]["body"];
    step["nodes"] = row.at("nodes");
    step["results"].push_back(row.at("nodes").size() + 2);
    const Program program = read_program(whole.dump(), "test");
    const std::vector<Joint> joints = plan_of(*program.body->nodes[0].attributes.body, 1, true).joints;
    ASSERT_EQ(joints.size(), row.contains("columns") ? 1U : 0U) << row;
    if (joints.empty()) continue;
    EXPECT_EQ(joints[0].columns, row.at("columns").get<std::string>()) << row;
    if (!row.contains("channels")) continue;
    ASSERT_TRUE(joints[0].channels) << row;
    EXPECT_EQ(joints[0].channels->results.size(), 4U);
    EXPECT_EQ(joints[0].channels->results[2], joints[0].channels->results[3]) << "one vector is read and written";
  }
}

/// One of the library, or that of columns.py.
const Room& recurrence(const std::string& name) {
  return name == "columns" ? traced_room("columns.py", name) : program_room(in_library(name));
}

TEST(Joints, KeepBoundsOfLongRecurrencesSmall) {
  for (const std::string name : {"gated_deltanet", "kda", "gdn2", "mdn", "falcon2", "columns"}) {
    const Room& room = recurrence(name);
    const Mechanism& mechanism = program_of(room);
    const Problem problem = made(room, "1,200,2,16,8");
    const Posed<double> posed(mechanism, problem);
    const BasicAnswer<WordBall> answer = answer_in_packs<2>(posed, true, 1);
    const auto exact = room.in_words(problem, {4, 1});
    ASSERT_TRUE(exact);
    for (const auto& [found, right] :
         {std::pair(&answer.outputs, &exact->outputs), {&answer.gradients, &exact->gradients}})
      for (const auto& [tensor, array] : *found) {
        double largest = 0, widest = 0;
        for (const WordBall& x : array.data)
          largest = std::max(largest, std::fabs(x.word[0])), widest = std::max(widest, x.radius);
        EXPECT_LE(widest, 0x1p-75 * largest) << name << ' ' << tensor;
        const BasicArray<Enclosed>& other = right->at(tensor);
        for (std::size_t i = 0; i < array.data.size(); ++i) {
          const Enclosed& y = other.data[i];
          EXPECT_LE(std::fabs((array.data[i].word[0] - y.value.hi) + (array.data[i].word[1] - y.value.lo)),
                    array.data[i].radius + y.bound + 0x1p-104 * std::fabs(y.value.hi))
              << name << ' ' << tensor << ' ' << i;
        }
      }
  }
}

/// The values of the program on head 0, with that state at the start.
std::vector<Value<Pack<2>>> run_from(const Posed<double>& posed, const Program& program,
                                     const std::vector<Pack<2>>& state, std::size_t which) {
  constexpr std::array<int, 8> heads{};
  std::vector<Value<Pack<2>>> values = posed.values<Pack<2>>(heads, false);
  values[which] = Value<Pack<2>>::of(values[which].layout, state);
  return evaluate<Pack<2>>(*program.body, std::move(values), posed.sizes());
}

/// An uncertain state at the start: wherever it really is, the outputs hold what comes of it, and not much more.
TEST(Joints, HoldWhatBecomesOfAnUncertainState) {
  constexpr double off = 0x1p-20;
  for (const std::string name :
       {"gated_deltanet", "gated_deltanet-error-undecayed", "kda", "deltanet", "falcon2", "columns"}) {
    const Room& room = recurrence(name);
    const Mechanism& mechanism = program_of(room);
    Problem problem = made(room, "1,77,1,12,5");
    if (problem.inputs.contains("log_decay"))  // or nothing is left of it
      for (double& x : problem.inputs["log_decay"].data) x *= 0x1p-7;
    const Posed<double> posed(mechanism, problem);
    std::size_t which = 0;
    while (mechanism.program.inputs[which].name != "initial_state") ++which;
    const std::vector<double>& given = problem.inputs["initial_state"].data;
    RandomBits random{2, 0};
    std::vector<Pack<2>> wide, moved;
    for (const double x : given) {
      WordBall ball;
      ball.word[0] = x, ball.radius = off;
      wide.emplace_back(ball);
      Pack<2>& pack = moved.emplace_back(x);  // in every lane another corner
      for (int lane = 0; lane < 8; ++lane) pack.take(lane, x + (random.next() % 2 == 0 ? off : -off));
    }
    const auto held = run_from(posed, mechanism.program, wide, which),
               real = run_from(posed, mechanism.program, moved, which);
    double used = 0;
    for (std::size_t r = 0; r < held.size(); ++r)
      walk<2>({&held[r].layout, &real[r].layout}, [&](std::size_t i, const auto& at) {
        const WordBall ball = held[r].real(at[0]).number(0);
        EXPECT_LT(ball.radius, 0x1p10 * off);
        for (int lane = 0; lane < 8; ++lane) {
          const double distance = std::fabs(real[r].real(at[1]).number(lane).word[0] - ball.word[0]);
          EXPECT_LE(distance, ball.radius + 0x1p-50) << name << ' ' << mechanism.program.outputs[r] << ' ' << i;
          used = std::max(used, distance / ball.radius);
        }
      });
    EXPECT_GT(used, 0.02) << name;  // else the test shows nothing
  }
}

/// Columns of more numbers than products of matrices are worth go number by number, and take no more memory for that.
TEST(Joints, HaveColumnsOfAFewHundredNumbers) {
  const Room& room = program_room(in_library("deltanet"));
  const auto widest = [&](const std::string& shape) {
    const Problem problem = made(room, shape);
    const Posed<double> posed(program_of(room), problem);
    const BasicArray<WordBall> o = answer_in_packs<2>(posed, false, 1).outputs.at("o");
    double radius = 0;
    for (const WordBall& x : o.data) radius = std::max(radius, x.radius);
    return radius;
  };
  EXPECT_LT(0x1p10 * widest("1,100,1,256,1"), widest("1,100,1,257,1"));
}

}  // namespace
}  // namespace assay::language
