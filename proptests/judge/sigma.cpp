// Sigma of as many draws as the judge makes against that of many others: how far off few draws and their pooling leave
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <vector>

#include "judge/sigma/expected.hpp"
#include "judge/trial/fault_trials.hpp"
#include "proptests/judge/cases.hpp"

namespace assay {
namespace {

constexpr double fifth = 0.2;

/// The errors of one tensor.
struct Off {
  std::size_t elements = 0, near = 0;
  double squares = 0, said = 0, is = 0;  ///< of errors in units of the truth; of sigma
};

/// `draws` are those that `said` is made of. An element that none of them moves has its sigma from its neighbours, or
/// from the kernel's own rounding: that is no matter of draws.
Off off(const Expected& said, const Expected& truth, const std::vector<const std::vector<double>*>& draws) {
  Off tensor;
  for (std::size_t i = 0; i < said.sigma.size(); ++i) {
    const auto still = [&](const std::vector<double>* draw) { return (*draw)[i] == (*draws[0])[i]; };
    if (!(truth.sigma[i] > 0) || !std::isfinite(truth.sigma[i]) || std::all_of(draws.begin(), draws.end(), still))
      continue;
    const double error = said.sigma[i] / truth.sigma[i] - 1;
    tensor.squares += error * error, tensor.near += std::fabs(error) <= fifth ? 1 : 0, ++tensor.elements;
    tensor.said += said.sigma[i] * said.sigma[i], tensor.is += truth.sigma[i] * truth.sigma[i];
  }
  return tensor;
}

/// Every kernel in one precision, its style in turn: the root mean square of what elements' sigmas are off by is within
/// a fifth, and so is sigma of a tensor as a whole. An element's own share of the doubt is in its degrees of freedom,
/// and with them in its limit.
TEST(Sigma, is_within_a_fifth_of_what_many_draws_say) {
  constexpr int many = 100, enough = 100;
  const Format precisions[] = {Format::bf16, Format::fp32, Format::e4m3, Format::fp16, Format::fp64};
  const Style styles[] = {Style::normal, Style::long_memory, Style::repeated_keys};
  std::size_t turn = 0, elements = 0, near = 0, tensors = 0, beyond = 0;
  double squares = 0;
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm& form : kernels->forms) {
      if (!form.unstable.empty()) continue;
      const Format precision = precisions[turn % std::size(precisions)];
      const Room& room = listed_room(kernels->name);
      const Style style = styles[turn++ % std::size(styles)];
      const Problem problem =
          drawn_for(form, {std::string(room.name), {1, 48, 2, 0, 8, 8, 0}, precision, style, 7, {}});
      if (!form.obstacle(problem).empty()) continue;
      const KernelUnderTest kernel{&form, precision, smallest_tile(form), 1};
      const Oracle oracle = oracle_of(room, problem);
      KernelRuns few;
      add_runs(few, kernel, problem, default_draws);
      KernelRuns others = few;
      add_runs(others, kernel, problem, default_draws + many);
      others.drawn.erase(others.drawn.begin(), others.drawn.begin() + default_draws);
      const Expectation said = expect(oracle, kernel, problem, few), truth = expect(oracle, kernel, problem, others);
      for (std::size_t t = 0; t < said.tensors.size(); ++t) {
        const auto& [name, expected] = said.tensors[t];
        // A stall's sigma is the contract's own rounding, or another witness's, not the draws'.
        const Expected& other = truth.tensors[t].second;
        if (expected.stall > 0 || other.stall > 0 || expected.widened > 0 || other.widened > 0) continue;
        std::vector<const std::vector<double>*> draws;
        for (const Named<Array>& draw : few.drawn)
          for (const auto& [drawn, array] : draw)
            if (drawn == name) draws.push_back(&array.data);
        const Off tensor = off(expected, truth.tensors[t].second, draws);
        elements += tensor.elements, near += tensor.near, squares += tensor.squares;
        if (tensor.elements < enough) continue;
        ++tensors;
        const double whole = std::sqrt(tensor.said / tensor.is);
        if (std::fabs(whole - 1) <= fifth) continue;
        ++beyond;
        std::cout << room.name << ' ' << form.name << ' ' << name_of(precision) << ' ' << name << ": as a whole "
                  << whole << '\n';
      }
    }
  const double rms = std::sqrt(squares / static_cast<double>(elements));
  const double share = static_cast<double>(near) / static_cast<double>(elements);
  std::cout << elements << " elements of " << tensors << " tensors: off by " << rms << " (root mean square), "
            << 100 * share << "% by a fifth at most\n";
  EXPECT_GE(tensors, 100U);
  EXPECT_LE(rms, fifth);
  // By chance: elements that move together lean together, which few draws may take for a bias of all.
  EXPECT_LE(beyond, tensors / 50);
}

}  // namespace
}  // namespace assay
