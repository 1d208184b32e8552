// The library's programs of the rooms, a third definition that shares no formula with references and tile programs:
// traced anew for every setting that a room walks through, their enclosures meet the reference's, outputs and
// gradients. That a tile program in exact arithmetic is the reference is a law of every room (proptests/laws/laws.hpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "language/answers/by_tier.hpp"
#include "language/program/mutants.hpp"
#include "language/room.hpp"
#include "oracles/core/room.hpp"
#include "oracles/scalars/perturbed.hpp"
#include "proptests/core/places.hpp"
#include "proptests/core/share.hpp"
#include "proptests/core/witness.hpp"
#include "proptests/language/random_problem.hpp"
#include "proptests/laws/reference_laws.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

const std::string folder = source_dir() + "/mechanisms/";

/// The settings with which a library's program is that of the problem: those of its params, and lambda's axes.
std::vector<std::string> settings_for(const Program& plain, const Problem& problem) {
  std::vector<std::string> list;
  for (const auto& [name, value] : problem.params)
    if (plain.settings.contains(name)) list.push_back(name + '=' + word_of(value));
  if (plain.settings.contains("pairs") && !problem.params.contains("window")) list.emplace_back("pairs=all");
  const auto lambda = problem.inputs.find("lambda");
  if (!plain.settings.contains("ridge")) return list;
  constexpr std::string_view axes[] = {"", "T", "T K"};
  list.push_back("ridge=" + std::string(axes[lambda->second.shape.size() - 1]));
  return list;
}

/// Keeps the cotangents that both know: the program gives no tails.
void keep_what_both_know(const Program& program, Problem& problem) {
  std::erase_if(problem.cotangents, [&](const auto& entry) {
    return std::find(program.outputs.begin(), program.outputs.end(), entry.first) == program.outputs.end();
  });
}

/// The largest distance of two tensors beyond their bounds, and whether both are known to a part in 2^90.
double apart(const BasicArray<Enclosed>& a, const BasicArray<Enclosed>& b) {
  if (a.shape != b.shape) return HUGE_VAL;
  double off = 0, largest = 0, bound = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    const Enclosed &x = a.data[i], &y = b.data[i];
    const double distance = std::fabs((x.value.hi - y.value.hi) + (x.value.lo - y.value.lo));
    off = std::max(off, distance - x.bound - y.bound);
    largest = std::max(largest, std::fabs(x.value.hi)), bound = std::max({bound, x.bound, y.bound});
  }
  return bound <= 0x1p-90 * std::max(largest, 1.0) ? off : HUGE_VAL;  // gradients may vanish where terms do not
}

/// Compares the room, and its program traced anew, with the reference; how many numbers were compared.
std::size_t compare(const Room& room, const Mechanism& mechanism, const Problem& problem, const std::string& what) {
  Problem of_program = problem;  // which counts no iterations and has no blocks
  std::erase_if(of_program.params, [&](const auto& param) {
    const std::vector<Input>& inputs = mechanism.program.inputs;
    return !mechanism.program.settings.contains(param.first) &&
           std::none_of(inputs.begin(), inputs.end(), [&](const Input& input) { return input.name == param.first; });
  });
  std::optional<BasicAnswer<Enclosed>> expected;
  try {
    expected = witness_of(room.name).enclosed(problem);
  } catch (const InputError&) {
    EXPECT_THROW(room.enclosed(problem), InputError) << what;
    return 0;  // singular
  }
  const auto got = enclosed(mechanism, of_program), of_room = room.enclosed(problem);
  EXPECT_EQ(expected.has_value(), got.has_value()) << what;  // neither decides between equal numbers
  EXPECT_EQ(expected.has_value(), of_room.has_value()) << what;
  if (!expected || !got || !of_room) return 0;
  // A room gives what its reference gives; a program no gradients by what a room works out on the way, and more.
  const auto same_names = [&](const BasicArrays<Enclosed>& mine, const BasicArrays<Enclosed>& theirs) {
    EXPECT_TRUE(std::ranges::equal(
        mine, theirs, {}, [](const auto& entry) { return entry.first; }, [](const auto& entry) { return entry.first; }))
        << what;
  };
  // Most references derive no gradients; those of the room are then what is expected of its program traced anew.
  if (expected->gradients.empty()) expected->gradients = of_room->gradients;
  same_names(of_room->outputs, expected->outputs), same_names(of_room->gradients, expected->gradients);
  std::size_t compared = 0;
  const auto meet = [&](const BasicArrays<Enclosed>& mine, const BasicArrays<Enclosed>& theirs, const char* prefix) {
    for (const auto& [name, array] : mine) {
      const auto other = theirs.find(name);
      if (other == theirs.end()) continue;
      EXPECT_EQ(apart(array, other->second), 0) << what << ' ' << prefix << name;
      compared += array.data.size();
    }
  };
  for (const auto* mine : {&*got, &*of_room}) {
    meet(mine->outputs, expected->outputs, "");
    meet(mine->gradients, expected->gradients, "d_");
  }
  EXPECT_GT(compared, 0U) << what;
  return compared;
}

/// One problem in fifteen, of all variants and styles, or more.
TEST(Library, ProgramsOfTheRoomsAreTheRooms) {
  Share sampled(15);
  std::size_t compared = 0;
  int seen = 0;
  while (sampled.goes_on(compared > 4000))
    for (const Room* room : rooms()) {
      const std::string name(room->name), file = folder + name + ".py";
      if (!std::filesystem::exists(file)) {
        EXPECT_EQ(name, "stable_rank");  // the limit of an iteration
        continue;
      }
      const Program plain = load_program(folder + "json/" + name + ".json");
      for (const Params& params : room->variants()) {
        if (params.contains("solver")) continue;  // steps of an iteration are no program
        std::optional<Mechanism> mechanism;
        for (const Style style : {Style::normal, Style::gate_ends, Style::repeated_keys, Style::integers}) {
          if (!sampled.takes()) continue;
          Problem problem =
              room->make({.mechanism = name, .shape = {1, 5, 2, 0, 2, 3, 0}, .style = style, .params = params});
          if (!mechanism) mechanism.emplace(traced(file, {name, settings_for(plain, problem)}));
          keep_what_both_know(mechanism->program, problem);
          std::string what = name + ' ' + std::string(name_of(style));
          for (const auto& [param, value] : problem.params) what += ' ' + param + '=' + word_of(value);
          compared += compare(*room, *mechanism, problem, what);
        }
        ++seen;
      }
    }
  EXPECT_GE(seen, 60);
  EXPECT_GT(compared, 4000U);
  RecordProperty("compared", static_cast<int>(compared));
}

/// A room with another program's numbers.
class Mutated final : public LikeRoom {
 public:
  Mutated(const Room& of, Mechanism mechanism) : LikeRoom(of), mechanism_(std::move(mechanism)) {}
  BasicAnswer<HiLo> values(const Problem& problem, Tier tier) const override {
    return language::values(mechanism_, problem, tier);
  }

 private:
  Mechanism mechanism_;
};

/// Whether some number is another one, by more than words may be off.
bool differs(const BasicArrays<HiLo>& a, const BasicArrays<HiLo>& b) {
  for (const auto& [name, array] : a) {
    double largest = 0;
    for (const HiLo& x : array.data) largest = std::max(largest, std::fabs(x.hi));
    const auto other = b.find(name);  // a room leaves out inputs that are not given
    for (std::size_t i = 0; other != b.end() && i < array.data.size(); ++i)
      if (std::fabs(array.data[i].hi - other->second.data[i].hi) > std::ldexp(largest, -50)) return true;
  }
  return false;
}

/// The first of the mutants, from a drawn one on, that changes an answer; null if none does. The reference has no slope
/// of a number that a room derives (log gamma of RetNet): fixtures/frozen holds its gradient.
std::unique_ptr<const Mutated> one_that_shows(const Room& room, const Problem& problem, const Mechanism& right,
                                              bool of_gradient) {
  const std::vector<Mutant> mutants = mutants_of(of_gradient ? right.gradient : right.program);
  const BasicAnswer<HiLo> answer = room.values(problem, Tier::mp100);
  const std::size_t first = hash_of(test_seed() + std::string(room.name)) % mutants.size();
  for (std::size_t n = 0; n < mutants.size(); ++n) {
    const Mutant& mutant = mutants[(first + n) % mutants.size()];
    auto mutated = std::make_unique<const Mutated>(
        room, of_gradient ? Mechanism(right.program, mutant.program) : Mechanism(mutant.program));
    try {
      BasicAnswer<HiLo> got = mutated->values(problem, Tier::mp100);
      std::erase_if(got.gradients, [&](const auto& g) { return !problem.inputs.contains(g.first); });
      if (of_gradient ? differs(got.gradients, answer.gradients) : differs(got.outputs, answer.outputs)) return mutated;
    } catch (const InputError&) {
      continue;  // a number that does not exist
    }
  }
  return nullptr;
}

/// The law that a room is its reference sees one wrong operation, in the formula and in its gradient: which one, the
/// seed draws.
TEST(Library, ProgramsWithOneWrongOperationAreNotTheReference) {
  const std::set<std::string_view> other_problems{"lla", "falcon3", "falcon3a", "stable_rank"};  // than a program takes
  int tried = 0;
  for (const Room* room : rooms()) {
    if (other_problems.contains(room->name)) continue;
    const std::string name(room->name);
    const Problem problem = room->make({.mechanism = name, .shape = {1, 5, 2, 0, 2, 3, 0}});
    const std::vector<std::string> settings = settings_for(load_program(folder + "json/" + name + ".json"), problem);
    const Mechanism right(traced(folder + name + ".py", {name, settings}));
    for (const bool of_gradient : {false, true}) {
      const auto mutated = one_that_shows(*room, problem, right, of_gradient);
      ASSERT_NE(mutated, nullptr) << room->name;
      EXPECT_NE(laws::is_its_reference(*mutated, problem), "") << room->name << (of_gradient ? ": gradients" : "");
      ++tried;
    }
  }
  EXPECT_GE(tried, 48);
}

/// The largest distance of a model's tensor from the answer's, over the largest number; HUGE_VAL of another shape.
double off(const Array& model, const BasicArray<HiLo>& right) {
  if (model.shape != right.shape) return HUGE_VAL;
  double largest = 0, furthest = 0;
  for (std::size_t i = 0; i < model.data.size(); ++i) {
    largest = std::max(largest, std::fabs(right.data[i].hi));
    furthest = std::max(furthest, std::fabs(model.data[i] - right.data[i].hi));
  }
  return furthest == 0 ? 0 : furthest / largest;
}

/// The model of a room is its answer, but for the errors that a draw makes; heads that share keys and tails that are
/// handed on among it. Doubles are off by up to 2^-38 here.
TEST(Library, ModelsWithoutErrorsAreTheAnswers) {
  std::size_t compared = 0;
  for (const Room* room : rooms()) {
    if (room->name == "stable_rank") continue;  // has no model
    const Shape shape{1, 6, 4, groups_heads(room->inputs()) ? 2 : 0, 4, 3, 0};
    for (const Params& params : room->variants()) {
      const Problem problem = room->make({.mechanism = std::string(room->name), .shape = shape, .params = params});
      const Arrays model = flat(room->emulated(problem));
      const auto sizes = room->term_sizes(problem, {}, 1);
      const BasicAnswer<HiLo> answered = room->values(problem, Tier::fp64);
      ASSERT_EQ(model.size(), answered.outputs.size() + answered.gradients.size()) << room->name;
      for (const auto& [name, array] : model) {
        const bool of_gradient = !answered.outputs.contains(name);
        const BasicArray<HiLo>& right = of_gradient ? answered.gradients.at(name.substr(2)) : answered.outputs.at(name);
        EXPECT_LE(off(array, right), 0x1p-30) << room->name << ' ' << name;
        EXPECT_TRUE(!sizes || sizes->at(name).shape == right.shape) << room->name << ' ' << name;
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 500U);
}

/// A gate's gradient is a sum of products of two states: where those are stored it is another draw, and outputs are
/// not.
/// Where every operation errs, FALCON-3 rounds its state pair by pair, as a window as wide as the sequence does; in
/// bf16 its program sums the pairs.
TEST(Library, Falcon3RoundsPairByPairWhereEveryOperationErrs) {
  const Room& room = listed_room("falcon3");
  for (const Format format : {Format::bf16, Format::tf32, Format::fp32, Format::fp64}) {
    const auto drawn = [&](const Params& params) {
      const Problem problem =
          room.make({.mechanism = "falcon3", .shape = {1, 6, 2, 0, 4, 3, 0}, .precision = format, .params = params});
      const PerturbedArithmetic draw(format, PerturbedArithmetic::Operands::nearest, 1);
      return room.emulated(problem).outputs.at("o");
    };
    EXPECT_EQ(drawn({}) == drawn({{"window", 6L}}), format == Format::fp32 || format == Format::fp64)
        << name_of(format);
  }
}

TEST(Library, StatesThatAreStoredAreOperandsOfGatesGradients) {
  for (const char* name : {"kda", "gla", "mamba2"}) {
    const Room& room = listed_room(name);
    const Problem problem = room.make({.mechanism = name, .shape = {1, 5, 2, 0, 2, 3, 0}, .precision = Format::bf16});
    const auto drawn = [&](PerturbedArithmetic::States states) {
      const PerturbedArithmetic draw(Format::bf16, PerturbedArithmetic::Operands::nearest, 1, states);
      return room.emulated(problem);
    };
    const Answer wide = drawn(PerturbedArithmetic::States::wide), stored = drawn(PerturbedArithmetic::States::stored);
    EXPECT_EQ(wide.outputs, stored.outputs) << name;
    EXPECT_NE(wide.gradients.at("log_decay"), stored.gradients.at("log_decay")) << name;
  }
}

/// A draw's outputs have the same bits whatever follows: neither later tokens nor other heads move its random numbers.
TEST(Library, DrawsDoNotDependOnTokensAndHeadsThatFollow) {
  constexpr int tokens = 7, fewer = 4, heads = 3;
  for (const char* name : {"kda", "deltanet", "mamba2", "gated_deltanet"}) {
    const Room& room = listed_room(name);
    const Problem whole =
        room.make({.mechanism = name, .shape = {1, tokens, heads, 0, 2, 5, 0}, .precision = Format::bf16});
    Problem less = whole;
    less.cotangents.clear();
    for (auto& [input, array] : less.inputs) {
      ASSERT_EQ(array.shape.front(), heads) << name << ' ' << input;
      const bool of_tokens = array.shape.size() > 1 && array.shape[1] == tokens;
      const std::size_t block = array.data.size() / heads, kept = of_tokens ? block / tokens * fewer : block;
      std::vector<double> data;
      for (std::size_t h = 0; h + 1 < heads; ++h)
        data.insert(data.end(), array.data.begin() + static_cast<std::ptrdiff_t>(h * block),
                    array.data.begin() + static_cast<std::ptrdiff_t>(h * block + kept));
      array.shape[0] = heads - 1, array.data = std::move(data);
      if (of_tokens) array.shape[1] = fewer;
    }
    Problem forward = whole;
    forward.cotangents.clear();
    const auto drawn = [&](const Problem& problem) {
      const PerturbedArithmetic draw(Format::bf16, PerturbedArithmetic::Operands::nearest, 1);
      return room.emulated(problem).outputs.at("o").data;
    };
    const std::vector<double> all = drawn(forward), part = drawn(less);
    const std::size_t row = all.size() / (heads * tokens);
    ASSERT_EQ(part.size(), row * (heads - 1) * fewer) << name;
    for (std::size_t i = 0; i < part.size(); ++i)
      EXPECT_EQ(part[i], all[i / (row * fewer) * row * tokens + i % (row * fewer)]) << name << ' ' << i;
    EXPECT_NE(all, room.emulated(forward).outputs.at("o").data) << name << ": nothing was drawn";
  }
}

}  // namespace
}  // namespace assay::language
