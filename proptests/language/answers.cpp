// Answers of programs: published cases, dual numbers, every tier. Library and the law is_its_reference hold them to the
// references.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>

#include "judge/programs/program_form.hpp"
#include "language/room.hpp"
#include "oracles/core/make_room.hpp"
#include "proptests/core/bits.hpp"
#include "proptests/core/places.hpp"
#include "proptests/core/published_cases.hpp"
#include "proptests/language/programs.hpp"
#include "proptests/language/random_problem.hpp"
#include "proptests/laws/reference_laws.hpp"
#include "proptests/words/held.hpp"
#include "reference/core/rounding.hpp"

namespace assay::language {
namespace {

/// The room of a program of proptests/language/programs.
const Room& room_of(std::string_view name) { return program_room(path_of(std::string(name))); }

/// Cases with the name of a program for that of a mechanism, and 40 digits of every tensor, by an implementation that
/// shares nothing with ours.
TEST(ProgramAnswers, AgreeWithPublishedCases) {
  auto [cases, records] = published_cases(source_dir() + "/proptests/language/cases.json");
  int compared = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    cases[i].problem.mechanism = room_of(cases[i].problem.mechanism).name;
    expect_published(cases[i], records[i], compared);
  }
  EXPECT_GT(compared, 100);
}

TEST(ProgramAnswers, HaveTheGradientsThatDualNumbersSay) {
  for (const Sample& sample : samples()) {
    const Room& room = room_of(sample.name);
    RandomBits random{7, 0};
    const Problem problem = random_problem(room, program_of(room), random);
    // All but a sink that is not used, and a key before the first one.
    EXPECT_GE(slopes_that_agree(room, problem, random) + 1, problem.inputs.size()) << sample.name;
  }
}

/// Every tier against the enclosures: words keep their bounds, the others their digits.
TEST(ProgramAnswers, AreTheSameInEveryTier) {
  for (const Sample& sample : samples()) {
    const Room& room = room_of(sample.name);
    RandomBits random{11, 0};
    const Problem problem = random_problem(room, program_of(room), random);
    const auto exact = room.enclosed(problem);
    ASSERT_TRUE(exact && !exact->gradients.empty()) << sample.name;
    const auto widest = [](double largest, double) { return word_target * largest; };
    for (const int words : {2, 3, 4}) {
      const auto got = room.in_words(problem, {words, 1});
      ASSERT_TRUE(got) << sample.name << ' ' << words;
      expect_met(got->outputs, exact->outputs, sample.name, widest);
      expect_met(got->gradients, exact->gradients, sample.name, widest);
    }
    const BasicAnswer<HiLo> machine = room.values(problem, Tier::fp64);
    for (const auto& [name, array] : machine.gradients)
      for (std::size_t i = 0; i < array.data.size(); ++i)
        EXPECT_NEAR(array.data[i].hi, exact->gradients.at(name).data[i].value.hi, 1e-12) << sample.name << ' ' << name;
  }
}

/// Where all numbers are rational, the exact tier has them all, and prints what the enclosures do.
TEST(ProgramAnswers, AreExactInRationals) {
  int compared = 0;
  for (const std::string name : {"deltanet", "gated_deltanet"}) {
    const Room& room = room_of(name);
    RandomBits random{13, 0};
    Problem problem = random_problem(room, program_of(room), random);
    if (name == "gated_deltanet")  // open or closed
      problem.inputs["log_decay"] = Array({4}, {0, -std::numeric_limits<double>::infinity(), 0, 0});
    problem.params["scale"] = "0.3";
    const BasicProblem<std::string> digits = laws::in_decimals(problem);
    const Decimals exact = room.decimals(digits, {.digits = 50, .tier = Tier::exact}),
                   enclosed = room.decimals(digits, {.digits = 50, .tier = Tier::ball});
    for (const auto& [got, expected] :
         {std::pair(&exact.outputs, &enclosed.outputs), {&exact.gradients, &enclosed.gradients}})
      for (const auto& [tensor, array] : *expected)
        for (std::size_t i = 0; i < array.data.size(); ++i, ++compared)
          EXPECT_EQ(got->at(tensor).data[i].text, array.data[i].text) << name << ' ' << tensor << ' ' << i;
  }
  EXPECT_GT(compared, 100);
}

/// Operations that no program of the library has: a tie of max, a recurrence from last to first token, turned axes.
TEST(ProgramAnswers, OfRareOperationsHaveTheGradientsThatDualNumbersSay) {
  constexpr const char* rare[][4] = {
      {"tie", "real T", R"([["const",[],{"value":"0"}],["expand",[1],{"at":0,"size":"T"}],["max",[0,2]]])", "[3]"},
      {"backward", "real T",
       R"([["const",[],{"value":"1"}],["scan",[1,0],{"body":{"params":["real","real"],"nodes":[["mul",[0,1]],)"
       R"(["add",[2,1]]],"results":[3,3]},"carry":1,"reverse":true,"xs":1}],["get",[2],{"i":1}]])",
       "[3]"},
      {"turned", "real T K V", R"([["transpose",[0],{"perm":[1,2,0]}]])", "[1]"}};
  for (const auto& [name, type, nodes, results] : rare) {
    const Room& room = written(name, nodes, results, type);
    RandomBits random{17, 0};
    Problem problem = random_problem(room, program_of(room), random);
    std::vector<double>& x = problem.inputs.at("x").data;
    x[0] = 0, x[1] = 0.5;
    EXPECT_EQ(slopes_that_agree(room, problem, random), 1U) << name;
  }
}

/// A process may meet any number of programs, one after another: those that are not held go, all but the latest.
TEST(ProgramAnswers, DoNotKeepEveryProgram) {
  constexpr int programs = 10000, most = 64;
  std::vector<std::weak_ptr<const Room>> met;
  std::vector<std::weak_ptr<const KernelForm>> forms;
  std::shared_ptr<const Room> held;
  for (int i = 0; i < programs; ++i) {
    const std::string name = "met_" + std::to_string(i);
    const std::string path = file_of(name, R"([["mul",[0,0]]])", "[1]");
    const auto room = find_room(path);
    ASSERT_NE(room, nullptr);
    if (i == 0) held = room;
    const Problem problem{name, std::string(room->name), {}, {{"x", Array({1, 1}, {double(i)})}}, {}};
    ASSERT_EQ(room->values(problem, Tier::fp64).outputs.at("o").data.front().hi, double(i) * i) << name;
    met.push_back(room), forms.push_back(own_form(path));
    std::remove(path.c_str());
  }
  const auto stays = [](const auto& one) { return !one.expired(); };
  EXPECT_EQ(std::ranges::count_if(met, stays), most + 1);
  EXPECT_EQ(std::ranges::count_if(forms, stays), most);
  EXPECT_EQ(find_room(held->name), held) << "who holds a program finds it again, without its file";
}

/// A map over tokens.
std::string stepwise(const std::string& nodes, const std::string& result) {
  return R"([["scan",[0],{"body":{"params":["real"],"nodes":)" + nodes + R"(,"results":[)" + result +
         R"(]},"carry":0,"reverse":false,"xs":1}],["get",[1],{"i":0}]])";
}

/// where(x = 0, 0, (3 / x . x) x): what a zero divides is not selected, and contractions carry the zero back.
TEST(ProgramAnswers, HaveGradientsOfWhatIsNotSelected) {
  const std::string step =
      R"([["expand",[0],{"at":0,"size":2}],["const",[],{"value":"3"}],["expand",[2],{"at":0,"size":2}],["div",[3,1]],)"
      R"(["contract",[4,1],{"spec":"a,a->"}],["mul",[5,0]],["const",[],{"value":"0"}],["eq",[0,7]],["select",[8,7,6]]])";
  const Room& room = written("unselected", stepwise(step, "9"), "[2]");
  const Problem problem{"zero", std::string(room.name), {}, {{"x", Array({2}, {0, 5})}}, {{"o", Array({2}, {1, 1})}}};
  for (const auto& answer : {room.enclosed(problem), room.in_words(problem, {2, 1})}) {
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->outputs.at("o").data[1].value.hi, 30);
    EXPECT_EQ(answer->gradients.at("x").data[0].value.hi, 0);
    EXPECT_EQ(answer->gradients.at("x").data[1].value.hi, 6);
  }
  EXPECT_EQ(room.values(problem, Tier::mp50).gradients.at("x").data[0].hi, 0);
}

Arrays drawn_gradients(const Room& room, const Problem& problem) {
  const PerturbedArithmetic draw(Format::bf16, PerturbedArithmetic::Operands::nearest, 3);
  return room.emulated(problem).gradients;
}
/// States that are computed again are the same bits, forward and backward, in order and reversed, with the same bounds
/// and the same errors of a draw.
void expect_same_bits_of_what_is_kept(const Room& room, const Problem& problem) {
  const auto kept = room.in_words(problem, {2, 1});
  const Arrays drawn = drawn_gradients(room, problem);
  const ReplayLimit none(0);
  const auto again = room.in_words(problem, {2, 1});
  ASSERT_TRUE(kept && again) << room.name;
  EXPECT_TRUE(same_bits(kept->gradients, again->gradients)) << room.name;
  for (const auto& [name, array] : drawn_gradients(room, problem))
    EXPECT_TRUE(same_bits(array, drawn.at(name))) << room.name << ' ' << name;
}
TEST(ProgramAnswers, DoNotDependOnWhatIsKept) {
  for (const Sample& sample : samples()) {
    const Room& room = room_of(sample.name);
    RandomBits random{5, 0};
    expect_same_bits_of_what_is_kept(room, random_problem(room, program_of(room), random));
  }
  for (const char* name : {"gated_deltanet", "mdn", "falcon2"}) {
    const Room& room = program_room(in_library(name));
    expect_same_bits_of_what_is_kept(room, made(room, "1,77,2,6,5"));
  }
}

/// Memory grows with the root of the number of tokens.
TEST(ProgramAnswers, KeepFewStates) {
  const Mechanism& mechanism = program_of(room_of("gated_deltanet"));
  const auto needed = [&](int T) {
    return footprint(*mechanism.gradient.body, {{"T", T}, {"K", 64}, {"V", 64}}) - 8.0 * T * (64 + 64);
  };
  EXPECT_LT(needed(1 << 14), 5 * needed(1 << 10));
}

/// A step's numbers are beside those of the block: here T rows and, of the step, 100 exponentials and their sum.
TEST(ProgramAnswers, KeepAStepsNumbersBesideTheBlocks) {
  const std::string step = R"([["expand",[0],{"at":0,"size":100}],["exp",[1]],["sum",[2],{"axis":0}]])";
  const Mechanism& mechanism = program_of(written("beside", stepwise(step, "3"), "[2]"));
  EXPECT_EQ(footprint(*mechanism.program.body, {{"T", 50}}), 50 + 101);
}

}  // namespace
}  // namespace assay::language
