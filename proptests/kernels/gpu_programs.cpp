// Which programs launches on a GPU ask for, without one: every form of every room lists them, by lines that its
// compiler can read.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>

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

/// Tensors on the GPU: bf16 for what is multiplied, fp32 for gates and states, as assay.kernels has them.
Format format_of(std::string_view tensor) {
  for (const char* name : {"q", "k", "v", "p", "rho", "o"})
    if (tensor == name || tensor == "d_" + std::string(name)) return Format::bf16;
  return Format::fp32;
}
GpuTensors named(const Arrays& arrays, std::string_view prefix) {
  GpuTensors all;
  for (const auto& [name, array] : arrays) {
    const std::string full = std::string(prefix) + name;
    std::size_t count = 1;
    for (const int n : array.shape) count *= static_cast<std::size_t>(n);
    all[full] = {nullptr, format_of(full), count};
  }
  return all;
}

/// A problem without its numbers.
Problem shapes_of(Problem problem) {
  for (Arrays* arrays : {&problem.inputs, &problem.cotangents})
    for (auto& [name, array] : *arrays) array.data.clear();
  return problem;
}

TEST(GpuPrograms, TakeTensorsByTheirFormats) {
  int forms = 0;
  for (const GpuRoom* room : gpu_rooms())
    for (const GpuForm& form : room->forms) {
      if (!form.takes_tensors) continue;
      ++forms;
      Problem problem = problem_of(*room, form, Format::bf16, 64);
      problem.params.erase("normalization"), problem.params.erase("eps");  // linear attention's, by a host
      problem.inputs.erase("initial_normalizer"), problem.cotangents.erase("final_normalizer");
      const Problem shapes = shapes_of(problem);
      const std::optional<Answer> answer = listed_room(room->name).shapes(problem);
      ASSERT_TRUE(answer.has_value()) << room->name;
      GpuTensors given = named(problem.inputs, ""), found = named(answer->outputs, "");
      given.merge(named(problem.cotangents, "")), found.merge(named(answer->gradients, "d_"));
      found.erase("d_bandwidth");  // a sum that the host makes
      std::set<std::string> on_device = gpu_programs(form, shapes, Format::bf16, given, found);
      on_device.insert("ASSAY_TURNS(assay::tile::FewBytes)");  // how a host sends a small array
      EXPECT_EQ(on_device, gpu_programs(form, problem, Format::bf16)) << room->name << ' ' << form.name;
      given.at("v").format = Format::fp16;
      EXPECT_THROW(gpu_programs(form, shapes, Format::bf16, given, found), InputError) << room->name;
      given.at("v").format = Format::bf16, found.at("o").format = Format::fp32;
      EXPECT_THROW(gpu_programs(form, shapes, Format::bf16, given, found), InputError) << room->name;
      found.at("o").format = Format::bf16, ++found.at("o").count;
      EXPECT_THROW(gpu_programs(form, shapes, Format::bf16, given, found), InputError) << room->name;
      --found.at("o").count, ++given.at("v").count;
      EXPECT_THROW(gpu_programs(form, shapes, Format::bf16, given, found), InputError) << room->name;
    }
  EXPECT_GE(forms, 12);
}

}  // namespace
}  // namespace assay
