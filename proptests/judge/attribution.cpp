// Why a tensor is off: contributions of sites add up, a site that rounds more coarsely is found, and planted faults are
// named, or unknown where their signature is missing.
#include "judge/verdict/attribution.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "judge/trial/fault_trials.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/share.hpp"
#include "proptests/judge/cases.hpp"
#include "proptests/laws/laws.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// Whether so many of so many agree with a rate of nine in ten: fewer would be seen once in twenty samples.
bool nine_in_ten(int right, int tried) {
  double fewer = 0, term = std::pow(0.1, tried);  // P(k right) from k = 0 on
  for (int k = 0; k < right; ++k) fewer += term, term *= 9.0 * (tried - k) / (k + 1);
  return fewer + term >= 0.05;
}

TEST(Attribution, rates_of_samples_are_told_apart) {
  EXPECT_TRUE(nine_in_ten(3, 3) && nine_in_ten(2, 3) && nine_in_ten(32, 32) && nine_in_ten(26, 30));
  EXPECT_FALSE(nine_in_ten(1, 3) || nine_in_ten(0, 2) || nine_in_ten(23, 30));
}

CaseSpec spec_of(std::string_view room, const KernelForm& form, Format precision) {
  const Shape shape = form.iterative ? Shape{1, 43, 2, 1, 8, 6, 0} : Shape{1, 70, 2, 1, 16, 12, 0};
  return {std::string(room), shape, precision, Style::normal, 11, {}};
}

/// A form in its smallest tile on its case, forward alone where it has no gradients, or is asked to be.
struct FormOnCase {
  const Room& room;
  KernelUnderTest kernel;
  Problem problem;
  Expectation expectation = {};

  FormOnCase(std::string_view name, const KernelForm& form, Format precision, bool forward = false)
      : FormOnCase(form, spec_of(name, form, precision), forward) {}
  FormOnCase(const KernelForm& form, const CaseSpec& spec, bool forward = false)
      : room(listed_room(spec.mechanism)),
        kernel{&form, spec.precision, smallest_tile(form), 1},
        problem(drawn_for(form, spec)) {
    if (forward) problem.cotangents.clear();
  }
  /// An answer in the order of what is expected, which is learnt when it is asked for first.
  Named<std::vector<double>> in_order(const Answer& answer) {
    if (expectation.tensors.empty()) expectation = expect(oracle_of(room, problem), kernel, problem, 12);
    return in_report_order(answer, expectation);
  }
  /// That of a kernel with this site in another format, which sums so many products at once.
  Named<std::vector<double>> with_site(std::string_view site, Format format, int products, int tile) {
    Policy policy = kernel.policy();
    policy.sites = policy.sites.with(site, format), policy.products = products;
    return in_order(kernel.form->run(problem, policy, tile));
  }
  bool fails(const Named<std::vector<double>>& got) const { return failures(judged_tensors(expectation, got)) > 0; }
  Explanations why(const Named<std::vector<double>>& got) const { return explain(expectation, got, kernel, problem); }
};

/// Every form's contributions add up to the squared error of all sites at once, within a fifth, in every tensor that is
/// large enough for a mean.
TEST(Attribution, contributions_add_up) {
  Share share(29);
  double farthest = 0;
  while (share.goes_on(farthest > 0))
    for (const KernelRoom* kernels : kernel_rooms())
      for (const KernelForm& form : kernels->forms)
        for (const Format precision : {Format::fp32, Format::bf16}) {
          // A solver that stops where nothing is left to gain does other steps when other sites round.
          if (!form.unstable.empty() || form.iterative || !share.takes()) continue;
          const FormOnCase trial(kernels->name, form, precision);
          const Arrays shape = flat(form.run(trial.problem, trial.kernel.policy(), trial.kernel.tile));
          for (const auto& [name, c] : contributions_of(trial.kernel, trial.problem, 6)) {
            if (shape.at(name).count() < 500 || c.sites.empty()) continue;
            farthest = std::max(farthest, std::fabs(c.sum - 1));
            EXPECT_NEAR(c.sum, 1, 0.2) << kernels->name << ' ' << form.name << ' ' << name_of(precision) << ' ' << name;
            EXPECT_GE(c.sites.front().share, c.sites.back().share);
          }
        }
  std::cout << "farthest from 1: " << farthest << '\n';
  EXPECT_GT(farthest, 0);
}

/// Counts of attempts to find a site.
struct Score {
  int tried = 0, right = 0, named = 0;
};

/// Each site of a form, in a narrower format, in a kernel that sums in another order (but for fp32, which rounds every
/// product) and, with `other_tile`, in other tiles than those that are judged by: what fails is explained by its site.
void find_sites(FormOnCase trial, bool other_tile, Share& share, Score& score) {
  const KernelForm& form = *trial.kernel.form;
  for (int i = 0; i < form.sites.size; ++i) {
    const tile::SiteTable::Entry entry = form.sites.contract(trial.kernel.precision).entries[i];
    if (!share.takes()) continue;
    const auto got =
        trial.with_site(entry.view(), entry.format == Format::fp32 ? Format::bf16 : Format::e4m3,
                        std::max(1, trial.kernel.policy().products / 2), trial.kernel.tile - (other_tile ? 1 : 0));
    if (!trial.fails(got)) continue;
    ++score.tried;
    const Explanations why = trial.why(got);
    // Sites whose roundings are the same numbers have the same evidence.
    const bool right = std::any_of(why.list.begin(), why.list.end(), [&](const Explanation& e) {
      return e.name == entry.view() && std::fabs(e.evidence - why.list.front().evidence) < telling;
    });
    score.right += right ? 1 : 0, score.named += right && why.known() ? 1 : 0;
  }
}

/// The first cause is the same whatever the order of the kernel's sums, which turns single roundings the other way.
TEST(Attribution, does_not_depend_on_the_order_of_sums) {
  for (const auto& [mechanism, site] : {std::pair{"deltanet", "Uc"}, {"softmax_attention", "P"}, {"gla", "Pc"}}) {
    FormOnCase trial(mechanism, first_form(mechanism), Format::fp32, true);
    for (const int products : {1, 2, 4, 16}) {
      const auto got = trial.with_site(site, Format::bf16, products, trial.kernel.tile);
      ASSERT_TRUE(trial.fails(got)) << mechanism;
      const Explanations why = trial.why(got);
      ASSERT_TRUE(why.known()) << mechanism << ' ' << products;
      EXPECT_EQ(why.list.front().name, site) << mechanism << ' ' << products;
    }
  }
}

/// A site explains all of an answer of its own, and nothing of it once there is a NaN, which no site makes.
TEST(Attribution, explains_no_nan_by_numbers) {
  FormOnCase trial(first_form("softmax_attention"),
                   {"softmax_attention", {1, 6, 1, 0, 8, 8, 0}, Format::fp32, Style::normal, 11, {}}, true);
  auto got = trial.with_site("P", Format::bf16, trial.kernel.policy().products, trial.kernel.tile);
  EXPECT_TRUE(trial.why(got).known());
  got.front().second.back() = std::nan("");
  EXPECT_FALSE(trial.why(got).known());
}

TEST(Attribution, finds_the_site) {
  for (const bool other_tile : {false, true}) {
    Score score;
    Share share(997);
    while (share.goes_on(score.tried > 0))
      for (const KernelRoom* kernels : kernel_rooms())
        for (const KernelForm& form : kernels->forms)
          for (const Format precision : {Format::fp32, Format::bf16})
            if (form.unstable.empty() && !form.iterative)  // those take minutes
              find_sites(FormOnCase(kernels->name, form, precision), other_tile, share, score);
    std::cout << score.right << " of " << score.tried << " sites come first"
              << (other_tile ? " in a kernel with other tiles, " : ", ") << score.named << " as sufficient\n";
    EXPECT_GE(score.tried, 1);
    EXPECT_TRUE(nine_in_ten(score.right, score.tried));
  }
}

/// Counts of planted faults: of those that fail, those that come first, as sufficient, and that are unknown without
/// their signature.
struct FaultScore {
  int tried = 0, first = 0, known = 0, unknown = 0;
};

/// The fault in a kernel that sums in another order, on a case; false where it shows nothing.
bool try_fault(FormOnCase trial, const KernelForm& planted, const Mutant& mutant, FaultScore& score) {
  if (!trial.kernel.form->obstacle(trial.problem).empty()) return false;
  Policy policy = trial.kernel.policy();
  policy.products = 4;
  const Answer same = planted.run(trial.problem, policy, trial.kernel.tile);
  policy.fault = mutant.name;
  const Answer answer = planted.run(trial.problem, policy, trial.kernel.tile);
  if (same.outputs == answer.outputs && same.gradients == answer.gradients) return false;
  const auto got = trial.in_order(answer);
  if (!trial.fails(got)) return false;
  const Explanations why = trial.why(got);
  const auto own = std::find_if(why.list.begin(), why.list.end(), [&](const Explanation& e) {
    return e.kind == Explanation::Kind::fault && e.name == mutant.name;
  });
  const bool is_first = own != why.list.end() && own->evidence > why.list.front().evidence - telling &&
                        own->sufficient >= why.list.front().sufficient;
  Explanations others;  // without its own signature, and without those that are the same to the last digit
  for (const Explanation& e : why.list)
    if (e.kind == Explanation::Kind::fault && (own == why.list.end() || e.evidence != own->evidence))
      others.list.push_back(e);
  ++score.tried, score.first += is_first ? 1 : 0, score.known += is_first && own->sufficient ? 1 : 0;
  score.unknown += others.known() ? 0 : 1;
  if (are_seconds_asked_for() && (!is_first || others.known() || !own->sufficient))
    std::cout << trial.room.name << ' ' << planted.name << ' ' << mutant.name << ": "
              << (why.list.empty() ? "nothing" : why.list.front().what) << (why.known() ? "" : " (not sufficient)")
              << (others.known() ? "; without its signature: " + others.list.front().what : "") << '\n';
  return true;
}

/// Named first, and unknown where their signature is missing.
TEST(Attribution, names_planted_faults) {
  Share share(130);
  FaultScore score;
  while (share.goes_on(score.tried > 0))
    for (const KernelRoom* kernels : kernel_rooms())
      for (const KernelForm& planted : kernels->forms) {
        if (!planted.unstable.empty()) continue;
        const Room& room = listed_room(kernels->name);
        const KernelForm& healthy = laws::subject(kernel_rooms(), kernels->name, planted.name).form;
        for (const Mutant& mutant : planted.mutants) {
          if (!share.takes()) continue;
          for (const Params& params : room.variants()) {
            CaseSpec spec = spec_of(room.name, planted, Format::bf16);
            spec.params = params;
            if (try_fault(FormOnCase(healthy, spec), planted, mutant, score)) break;
          }
        }
      }
  std::cout << score.first << " of " << score.tried << " faults come first, " << score.known << " as sufficient; "
            << score.unknown << " are unknown without their signature\n";
  EXPECT_GE(score.tried, 1);
  EXPECT_TRUE(nine_in_ten(score.first, score.tried));
  EXPECT_TRUE(nine_in_ten(score.unknown, score.tried));
}

}  // namespace
}  // namespace assay
