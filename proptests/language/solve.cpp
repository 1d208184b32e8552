// Systems of equations in programs: solutions solve them, in every scalar; gradients are what dual numbers say; what
// has no solution is refused. A matrix that only happens to be symmetric is, in proptests/transcripts/refusals.md.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <string_view>

#include "files/case_file.hpp"
#include "proptests/language/programs.hpp"
#include "proptests/language/random_problem.hpp"
#include "proptests/laws/property.hpp"
#include "proptests/words/held.hpp"

namespace assay::language {
namespace {

const Room& system_room(std::string_view name) { return traced_room("systems.py", std::string(name)); }
Problem drawn(const Room& room) {
  RandomBits random{*rc::gen::arbitrary<std::uint64_t>(), 0};
  return random_problem(room, language::program_of(room), random);
}

/// Whether zero is within the bounds of what is left of the equations, and these are narrow.
void require_solved(const BasicArrays<Enclosed>& outputs) {
  for (const char* name : {"left", "lefts"})
    for (const Enclosed& x : outputs.at(name).data) {
      RC_ASSERT(std::fabs(x.value.hi + x.value.lo) <= x.bound);
      RC_ASSERT(x.bound <= 0x1p-60);
    }
}

ASSAY_PROPERTY(Systems, leave_nothing) {
  for (const char* name : {"general", "definite_left"})
    require_solved(system_room(name).enclosed(drawn(system_room(name)))->outputs);
}

ASSAY_PROPERTY(Systems, are_the_same_in_words_and_enclosures) {
  const Room& room = system_room("definite");
  const Problem problem = drawn(room);
  const auto exact = room.enclosed(problem), words = room.in_words(problem, {*rc::gen::inRange(2, 5), 1});
  RC_ASSERT(exact.has_value() && words.has_value());
  const auto any = [](double, double) { return HUGE_VAL; };
  expect_met(words->outputs, exact->outputs, "outputs", any);
  expect_met(words->gradients, exact->gradients, "gradients", any);
}

ASSAY_PROPERTY(Systems, have_the_gradients_that_dual_numbers_say) {
  const Room& room = system_room(*rc::gen::element<std::string>("general", "definite", "several"));
  RandomBits random{*rc::gen::arbitrary<std::uint64_t>(), 0};
  const Problem problem = random_problem(room, language::program_of(room), random);
  RC_ASSERT(slopes_that_agree(room, problem, random) == problem.inputs.size());
}

/// Answers of rationals to a system of small integers, whatever its rank: "" in their place where it is refused.
std::string in_rationals(const char* name, const std::vector<int>& A, const std::vector<int>& b) {
  const auto row = [](const int* x) { return fmt::format(R"(["{}","{}","{}"])", x[0], x[1], x[2]); };
  const std::string record =
      fmt::format(R"({{"id":"x","mechanism":"x","inputs":{{"A":[{},{},{}],"b":{},"B":[["1"],["0"],["0"]]}}}})",
                  row(A.data()), row(&A[3]), row(&A[6]), row(b.data()));
  Case c = read_cases(R"({"format":"assay-cases","version":1,"cases":[)" + record + "]}", "in.json").at(0);
  if (name != std::string("general")) c.problem.inputs.erase("B");
  c.problem.mechanism = system_room(name).name;
  const CaseResult result = answer_case(c, {.digits = 40, .tier = Tier::exact});
  if (result.status != Status::ok) return result.message;
  return result_record(c, result)["outputs"].dump();
}

ASSAY_PROPERTY(Systems, of_any_rank_are_solved_or_refused) {
  const auto A = *rc::gen::container<std::vector<int>>(9, rc::gen::inRange(-2, 3));
  const auto b = *rc::gen::container<std::vector<int>>(3, rc::gen::inRange(-2, 3));
  const auto minor = [&](int i, int j) { return A[3 + i] * A[6 + j] - A[3 + j] * A[6 + i]; };
  const int det = A[0] * minor(1, 2) - A[1] * minor(0, 2) + A[2] * minor(0, 1);
  const std::string said = in_rationals("general", A, b);
  if (det == 0)
    RC_ASSERT(said.find("is undefined: solve") != std::string::npos);
  else
    RC_ASSERT(Json::parse(said)["left"].dump() == R"(["0.0","0.0","0.0"])");
}

/// (A + A^T) / 2 is positive definite where all its leading minors are positive.
ASSAY_PROPERTY(Systems, that_are_not_definite_are_refused) {
  const auto A = *rc::gen::container<std::vector<int>>(9, rc::gen::inRange(-2, 5));
  const auto s = [&](int i, int j) {
    return A[static_cast<std::size_t>(3 * i + j)] + A[static_cast<std::size_t>(3 * j + i)];
  };
  const auto minor = [&](int i, int j) { return s(1, i) * s(2, j) - s(1, j) * s(2, i); };
  const int second = s(0, 0) * s(1, 1) - s(0, 1) * s(0, 1),
            third = s(0, 0) * minor(1, 2) - s(0, 1) * minor(0, 2) + s(0, 2) * minor(0, 1);
  const bool definite = s(0, 0) > 0 && second > 0 && third > 0;
  const std::string said = in_rationals("indefinite", A, {1, 0, -1});
  RC_ASSERT(definite == (said.find("is undefined: solve") == std::string::npos));
}

}  // namespace
}  // namespace assay::language
