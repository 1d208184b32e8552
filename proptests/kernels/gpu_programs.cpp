// Which programs launches on a GPU ask for, without one: every form of every room lists them, by lines that its
// compiler can read.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/core/kernel_room.hpp"
#include "kernels/gpu/gpu.hpp"
#include "oracles/core/room.hpp"

namespace assay {
namespace {

Problem problem_of(const GpuRoom& room, const GpuForm& form, Format precision, int dim) {
  const Room& listed = listed_room(room.name);
  CaseSpec spec;
  spec.mechanism = room.name, spec.precision = precision;
  spec.shape = {1, 65, 4, groups_heads(listed.inputs()) ? 2 : 0, dim, dim, form.name == "split_decode" ? 3 : 0};
  for (const KernelForm& kernel : find_kernels(kernel_rooms(), room.name)->forms)
    if (kernel.name == form.name) {
      spec.params = kernel.settings()[0].params;
      Problem problem = listed.make(spec);
      if (!kernel.has_gradients || precision == Format::e4m3) problem.cotangents.clear();
      return problem;
    }
  throw InputError("a form that the CPU lacks");
}

TEST(GpuPrograms, AreNamedSoThatAnotherCompilerReadsThem) {
  std::set<std::string> all;
  for (const GpuRoom* room : gpu_rooms())
    for (const GpuForm& form : room->forms)
      for (const Format precision : gpu_precisions)
        for (const int dim : {64, 128}) {
          const Problem problem = problem_of(*room, form, precision, dim);
          if (!gpu_obstacle(room->name, form.name, problem, precision).empty()) continue;
          const std::set<std::string> alone = gpu_programs(form, problem, precision),
                                      packed = gpu_programs(form, problem, precision, true);
          EXPECT_FALSE(alone.empty()) << room->name << ' ' << form.name;
          if (precision == Format::bf16) {
            EXPECT_GT(packed.size(), alone.size()) << room->name << ' ' << form.name;
          }
          all.insert(packed.begin(), packed.end());
        }
  for (const std::string& line : all)
    for (const char* unread : {"(anonymous", "{lambda", "'lambda", "FixedString"})
      EXPECT_EQ(line.find(unread), std::string::npos) << line;
}

}  // namespace
}  // namespace assay
