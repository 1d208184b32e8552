// The settings that forms give a device to try: problems that their rooms take and that they themselves can run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "reference/core/inputs.hpp"

namespace assay {
namespace {

/// A problem of a form's setting, with few tokens.
Problem problem_of(const Room& room, const Setting& setting) {
  const Shape shape{1, 21, 4, groups_heads(room.inputs()) ? 2 : 0, 8, 8, std::min(21, setting.queries)};
  Problem problem = room.make({std::string(room.name), shape, Format::bf16, setting.style, 0, setting.params});
  if (setting.exchanges_decays) std::swap(problem.inputs.at("log_alpha"), problem.inputs.at("log_mu"));
  return problem;
}

TEST(Settings, are_problems_that_their_forms_run) {
  int tried = 0;
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm& form : kernels->forms)
      for (const Setting& setting : form.settings()) {
        Problem problem = problem_of(listed_room(kernels->name), setting);
        if (!form.has_gradients) problem.cotangents.clear();
        ASSERT_EQ(form.obstacle(problem), "") << kernels->name << ' ' << form.name;
        const Answer answer = form.run(problem, Policy::of(form.sites, Format::bf16), 0);
        for (const auto& [name, tensor] : answer.outputs)
          EXPECT_TRUE(std::ranges::all_of(tensor.data, [](double x) { return std::isfinite(x); }))
              << kernels->name << ' ' << form.name << ' ' << name;
        ++tried;
      }
  EXPECT_GT(tried, 100);
}

/// The first of a form's settings is run at every shape, the others at one: none is there twice.
TEST(Settings, differ) {
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm& form : kernels->forms) {
      std::set<std::string> names;
      for (const Setting& setting : form.settings()) {
        CaseSpec spec;
        spec.mechanism = kernels->name, spec.style = setting.style, spec.params = setting.params;
        const std::string name = text(spec.repro(), " on ", setting.queries, " queries", setting.without_probe);
        EXPECT_TRUE(names.insert(name).second) << kernels->name << ' ' << form.name << ": " << name;
      }
    }
}

}  // namespace
}  // namespace assay
