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

CaseSpec spec_of(const Room& room, const KernelForm& form, Format precision) {
  CaseSpec spec{std::string(room.name), {1, 70, 2, 1, 16, 12, 0}, precision, Style::normal, 11, {}};
  if (form.iterative) spec.shape = {1, 43, 2, 1, 8, 6, 0};
  if (!groups_heads(room.inputs())) spec.shape.shared_heads = 0;
  if (form.name == "split_decode") spec.shape.query_len = 3;
  return spec;
}

bool fails(const Expectation& expectation, const Named<std::vector<double>>& got) {
  for (std::size_t t = 0; t < got.size(); ++t)
    if (judge(expectation.tensors[t].second, got[t].second).verdict == Verdict::fail) return true;
  return false;
}

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
          const Room& room = listed_room(kernels->name);
          Problem problem = room.make(spec_of(room, form, precision));
          if (!form.has_gradients) problem.cotangents.clear();
          const KernelUnderTest kernel{&form, precision, smallest_tile(form), 1};
          const Answer shape = form.run(problem, kernel.policy(), kernel.tile);
          for (const auto& [name, c] : contributions_of(kernel, problem, 6)) {
            const Array& array = name.starts_with("d_") ? shape.gradients.at(name.substr(2)) : shape.outputs.at(name);
            if (array.count() < 500 || c.sites.empty()) continue;
            farthest = std::max(farthest, std::fabs(c.sum - 1));
            EXPECT_NEAR(c.sum, 1, 0.2) << room.name << ' ' << form.name << ' ' << name_of(precision) << ' ' << name;
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
void find_sites(const KernelForm& form, const Room& room, Format precision, bool other_tile, Share& share,
                Score& score) {
  Problem problem = room.make(spec_of(room, form, precision));
  if (!form.has_gradients) problem.cotangents.clear();
  const int smallest = smallest_tile(form);
  const KernelUnderTest kernel{&form, precision, smallest, 1};
  std::optional<Expectation> expectation;
  for (int i = 0; i < form.sites.size; ++i) {
    const tile::SiteTable::Entry entry = form.sites.contract(precision).entries[i];
    const Format narrow = entry.format == Format::fp32 ? Format::bf16 : Format::e4m3;
    if (!share.takes()) continue;
    Policy policy = kernel.policy();
    policy.sites = policy.sites.with(entry.view(), narrow), policy.products = std::max(1, policy.products / 2);
    if (!expectation) expectation = expect(oracle_of(room, problem), kernel, problem, 12);
    const auto got = in_report_order(form.run(problem, policy, other_tile ? smallest - 1 : smallest), *expectation);
    if (!fails(*expectation, got)) continue;
    ++score.tried;
    const Explanations why = explain(*expectation, got, kernel, problem);
    // Sites whose roundings are the same numbers have the same evidence.
    const bool right = std::any_of(why.list.begin(), why.list.end(), [&](const Explanation& e) {
      return e.name == entry.view() && std::fabs(e.evidence - why.list.front().evidence) < telling;
    });
    score.right += right ? 1 : 0;
    score.named += right && why.known() ? 1 : 0;
  }
}

/// The first cause is the same whatever the order of the kernel's sums, which turns single roundings the other way.
TEST(Attribution, does_not_depend_on_the_order_of_sums) {
  struct Narrow {
    const char *mechanism, *site;
  };
  for (const auto& [mechanism, site] :
       {Narrow{"deltanet", "Uc"}, Narrow{"softmax_attention", "P"}, Narrow{"gla", "P"}}) {
    const Room& room = listed_room(mechanism);
    const KernelForm& form = find_kernels(kernel_rooms(), mechanism)->forms.front();
    Problem problem = room.make(spec_of(room, form, Format::fp32));
    problem.cotangents.clear();
    const KernelUnderTest kernel{&form, Format::fp32, smallest_tile(form), 1};
    const Expectation expectation = expect(oracle_of(room, problem), kernel, problem, 12);
    for (const int products : {1, 2, 4, 16}) {
      Policy policy = kernel.policy();
      policy.sites = policy.sites.with(site, Format::bf16), policy.products = products;
      const auto got = in_report_order(form.run(problem, policy, kernel.tile), expectation);
      ASSERT_TRUE(fails(expectation, got)) << mechanism;
      const Explanations why = explain(expectation, got, kernel, problem);
      ASSERT_TRUE(why.known()) << mechanism << ' ' << products;
      EXPECT_EQ(why.list.front().name, site) << mechanism << ' ' << products;
    }
  }
}

/// A site explains all of an answer of its own, and nothing of it once there is a NaN, which no site makes.
TEST(Attribution, explains_no_nan_by_numbers) {
  const Room& room = listed_room("softmax_attention");
  const KernelForm& form = find_kernels(kernel_rooms(), room.name)->forms.front();
  CaseSpec spec = spec_of(room, form, Format::fp32);
  spec.shape = {1, 6, 1, 0, 8, 8, 0};
  Problem problem = room.make(spec);
  problem.cotangents.clear();
  const KernelUnderTest kernel{&form, Format::fp32, smallest_tile(form), 1};
  const Expectation expectation = expect(oracle_of(room, problem), kernel, problem, 12);
  Policy policy = kernel.policy();
  policy.sites = policy.sites.with("P", Format::bf16);
  auto got = in_report_order(form.run(problem, policy, kernel.tile), expectation);
  EXPECT_TRUE(explain(expectation, got, kernel, problem).known());
  got.front().second.back() = std::nan("");
  EXPECT_FALSE(explain(expectation, got, kernel, problem).known());
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
              find_sites(form, listed_room(kernels->name), precision, other_tile, share, score);
    std::cout << score.right << " of " << score.tried << " sites come first"
              << (other_tile ? " in a kernel with other tiles, " : ", ") << score.named << " as sufficient\n";
    EXPECT_GE(score.tried, 1);
    EXPECT_TRUE(nine_in_ten(score.right, score.tried));
  }
}

/// Planted faults of a kernel that sums in another order: named first, and unknown where their signature is missing.
TEST(Attribution, names_planted_faults) {
  Share share(130);
  int tried = 0, first = 0, known = 0, unknown = 0;
  while (share.goes_on(tried > 0))
    for (const KernelRoom* kernels : kernel_rooms())
      for (const KernelForm& planted : kernels->forms) {
        if (!planted.unstable.empty()) continue;
        const Room& room = listed_room(kernels->name);
        const KernelForm& healthy = laws::subject(kernel_rooms(), kernels->name, planted.name).form;
        const int tile = smallest_tile(healthy);
        for (const Mutant& mutant : planted.mutants) {
          if (!share.takes()) continue;
          bool found = false;
          for (const Params& params : room.variants()) {
            CaseSpec spec = spec_of(room, planted, Format::bf16);
            spec.params = params;
            Problem problem = room.make(spec);
            if (found || !healthy.obstacle(problem).empty()) continue;
            const KernelUnderTest kernel{&healthy, spec.precision, tile, 1};
            Policy policy = kernel.policy();
            policy.products = 4, policy.fault = mutant.name;
            const Answer answer = planted.run(problem, policy, tile);
            policy.fault.clear();
            if (const Answer same = planted.run(problem, policy, tile);
                same.outputs == answer.outputs && same.gradients == answer.gradients)
              continue;
            const Expectation expectation = expect(oracle_of(room, problem), kernel, problem, 12);
            const auto got = in_report_order(answer, expectation);
            if (!fails(expectation, got)) continue;
            found = true, ++tried;
            const Explanations why = explain(expectation, got, kernel, problem);
            Explanations others;  // without its own signature, and without those that are the same to the last digit
            const auto own = std::find_if(why.list.begin(), why.list.end(), [&](const Explanation& e) {
              return e.kind == Explanation::Kind::fault && e.name == mutant.name;
            });
            const bool is_first = own != why.list.end() && own->evidence > why.list.front().evidence - telling &&
                                  own->sufficient >= why.list.front().sufficient;
            first += is_first ? 1 : 0, known += is_first && own->sufficient ? 1 : 0;
            for (const Explanation& e : why.list)
              if (e.kind == Explanation::Kind::fault && (own == why.list.end() || e.evidence != own->evidence))
                others.list.push_back(e);
            unknown += others.known() ? 0 : 1;
            if (are_seconds_asked_for() && (!is_first || others.known() || !own->sufficient))
              std::cout << room.name << ' ' << planted.name << ' ' << mutant.name << ": "
                        << (why.list.empty() ? "nothing" : why.list.front().what)
                        << (why.known() ? "" : " (not sufficient)")
                        << (others.known() ? "; without its signature: " + others.list.front().what : "") << '\n';
          }
        }
      }
  std::cout << first << " of " << tried << " faults come first, " << known << " as sufficient; " << unknown
            << " are unknown without their signature\n";
  EXPECT_GE(tried, 1);
  EXPECT_TRUE(nine_in_ten(first, tried));
  EXPECT_TRUE(nine_in_ten(unknown, tried));
}

}  // namespace
}  // namespace assay
