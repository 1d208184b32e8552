// Where no convention explains an answer, the mechanism's formula does, with one operation made otherwise. The answers
// are written out here, query by query.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "arguments/programs/library.hpp"
#include "judge/hypotheses/formula_slips.hpp"
#include "judge/hypotheses/hypotheses.hpp"
#include "judge/hypotheses/scene.hpp"
#include "language/program/mutants.hpp"
#include "language/room.hpp"
#include "proptests/oracles/bench.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

Problem problem_in(const char* mechanism) {
  Problem problem = listed_room(mechanism).make({.mechanism = mechanism, .shape = {1, 24, 2, 0, 4, 5, 0}});
  problem.cotangents.clear();
  return problem;
}

/// Parallax in a window that the mean of the probe's scores does not know.
TEST(CausesInFormulas, name_a_mask_that_one_reader_lacks) {
  Problem p = problem_in("parallax");
  p.params["window"] = 5L;
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k"), &v = p.inputs.at("v"), &rho = p.inputs.at("rho");
  Array o({2, 24, 5});
  for (int h = 0; h < 2; ++h)
    for (int t = 0; t < 24; ++t) {
      double norm = 0, all = 0, mean = 0;  // of the window; of all keys so far
      const auto weight = [&](int j) { return std::exp(dot(q, h, t, k, h, j) / param_of(p, "bandwidth")); };
      for (int j = 0; j <= t; ++j)
        norm += t - j < 5 ? weight(j) : 0, all += weight(j), mean += weight(j) * dot(rho, h, t, k, h, j);
      for (int j = std::max(0, t - 4); j <= t; ++j)
        for (int c = 0; c < 5; ++c)
          number_at(o, h, t, c) +=
              weight(j) / norm * (1 + mean / all - dot(rho, h, t, k, h, j)) * number_at(v, h, j, c);
    }
  // A correct kernel has o nearly exactly.
  const Array truth = hypotheses::answer_of(listed_room("parallax"), p).at("o");
  const Expected e = known_to(truth, std::vector<double>(truth.data.size(), 0x1p-20));
  const std::vector<Suspect> suspects = {{"o", truth.shape, &e, &o.data, true}};
  expect_said(sentences(causes_of(listed_room("parallax"), p, 1, suspects)), "the formula ");
}

/// As many steps of conjugate gradients as there are dimensions solve a system, and one less does not.
TEST(CausesInFormulas, take_steps_towards_a_solution) {
  const Problem p = problem_in("mesanet");
  const language::Mechanism* right = nullptr;
  std::vector<language::Mechanism> all;
  for (const char* name : {"mesanet", "mesanet-ridge-T", "mesanet-ridge-one"})
    all.emplace_back(*arguments::find_mechanism_program(name));
  Array truth;
  for (const language::Mechanism& one : all) {
    try {
      truth = language::answer_in_doubles(one, p).outputs.at("o"), right = &one;
    } catch (const InputError&) {  // of another ridge
    }
  }
  ASSERT_NE(right, nullptr);
  const auto off = [&](const std::string& ending) {
    for (const language::Mutant& mutant : language::further_mutants_of(right->program, {2, 4})) {
      if (!mutant.what.ends_with(ending)) continue;
      const Array o = language::answer_in_doubles(language::Mechanism(mutant.program), p).outputs.at("o");
      double most = 0;
      for (std::size_t i = 0; i < o.data.size(); ++i) most = std::max(most, std::abs(o.data[i] - truth.data[i]));
      return most;
    }
    return -1.0;
  };
  // Roundings of doubles, times what a system of four keys may magnify them; and far more than that.
  EXPECT_GT(off("solved by 2 steps of conjugate gradients from zero"), 1e-3);
  for (const char* from : {"zero", "b over the diagonal"}) {
    const double most = off(std::string("solved by 4 steps of conjugate gradients from ") + from);
    EXPECT_GE(most, 0) << from;
    EXPECT_LT(most, 1e-6) << from;
  }
}

/// Energies that are means or squares, a factor too much, and a write that decays with the state.
TEST(CausesInFormulas, include_other_sums_and_factors_of_both_terms) {
  const Problem p = problem_in("falcon1");
  const language::Program& program = *arguments::find_mechanism_program("falcon1");
  const auto answer = [&](const language::Program& of) {
    return language::answer_in_doubles(language::Mechanism(of), p).outputs.at("o").data;
  };
  const std::vector<double> truth = answer(program);
  for (const std::string kind : {"mean for the sum", "root of it", "as well", "squared", "mul by parameter 5"}) {
    int other = 0;
    for (const language::Mutant& mutant : language::further_mutants_of(program, {})) {
      if (!mutant.what.ends_with(kind)) continue;
      try {
        const std::vector<double> o = answer(mutant.program);
        const auto off = [](double x, double y) { return std::abs(x - y) > 1e-3; };
        other += std::mismatch(o.begin(), o.end(), truth.begin(), std::not_fn(off)).first == o.end() ? 0 : 1;
      } catch (const std::exception&) {  // it refuses such numbers
      }
    }
    EXPECT_GT(other, 0) << kind;
  }
}

/// A term that a gradient lacks is named as that, in one statement: not the names of all that come after it.
TEST(CausesInFormulas, are_one_statement) {
  for (const char* name : {"gated_deltanet", "kda", "gla", "parallax"}) {
    const Problem p = problem_in(name);
    const hypotheses::Scene scene(listed_room(name), p, 1);
    for (const hypotheses::Pass pass : {hypotheses::Pass::forward, hypotheses::Pass::backward})
      for (const hypotheses::Convention& slip : hypotheses::formula_slips(scene, pass))
        EXPECT_TRUE(slip.what.find("; ") == std::string::npos || slip.what.find("(`for ") != std::string::npos)
            << name << ' ' << slip.key << ": " << slip.what;
  }
}

TEST(CausesInFormulas, differ_from_those_that_are_counted) {
  const language::Program& program = *arguments::find_mechanism_program("gated_deltanet");
  std::set<std::string> digests = {program.digest()};
  for (const language::Mutant& mutant : language::mutants_of(program)) digests.insert(mutant.program.digest());
  const std::vector<language::Mutant> further = language::further_mutants_of(program, {});
  EXPECT_GT(further.size(), 20U);
  for (const language::Mutant& mutant : further)
    EXPECT_TRUE(digests.insert(mutant.program.digest()).second) << mutant.what;
}

}  // namespace
}  // namespace assay
