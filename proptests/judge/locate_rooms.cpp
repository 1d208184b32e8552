// Where a tensor of a real kernel is wrong: faults of one axis, planted in what healthy kernels answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "files/problem_file.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/trial/fault_trials.hpp"
#include "judge/verdict/locate.hpp"
#include "proptests/core/one_in.hpp"

namespace assay {
namespace {

/// Indices of one axis of [sequences][heads][rows][columns] at which a tensor is wrong.
struct LocalFault {
  const char* name;
  std::size_t axis;
  std::function<bool(int index, int extent)> hits;
};

const LocalFault local_faults[] = {
    {"a sequence", 0, [](int i, int) { return i == 1; }},
    {"a head", 1, [](int i, int) { return i == 1; }},
    {"the last row", 2, [](int i, int n) { return i == n - 1; }},
    {"a row", 2, [](int i, int) { return i == 5; }},
    {"from a row on", 2, [](int i, int n) { return i >= n / 2; }},
    {"a chunk", 2, [](int i, int) { return i / usual_chunk == 1; }},
    {"a position in every chunk", 2, [](int i, int) { return i % usual_chunk == 3; }},
    {"the last column", 3, [](int i, int n) { return i == n - 1; }},
    {"half of the columns", 3, [](int i, int n) { return i < n / 2; }},
};

/// As a kernel has them that reads a head, a row, a channel twice, not at all, or from elsewhere.
const std::function<double(double)> wrongs[] = {[](double x) { return 2 * x; }, [](double) { return 0.0; },
                                                [](double x) { return -x; }};

struct Found {
  int right = 0, all = 0;
};

void look(const Room& room, const KernelForm& form, Format precision, Found& found) {
  CaseSpec spec{std::string(room.name), {2, 140, 4, 2, 16, 12, 0}, precision, Style::long_memory, 5, {}};
  if (form.iterative) spec.shape = {2, 70, 4, 2, 8, 6, 0};
  if (!groups_heads(room.inputs())) spec.shape.shared_heads = 0;
  const Problem problem = room.make(spec);
  if (!form.obstacle(problem).empty()) return;
  const Expectation e = expect(oracle_of(room, problem), {&form, precision, smallest_tile(form), 1}, problem, 6);
  for (std::size_t t = 0; t < e.tensors.size(); ++t) {
    const auto& [name, expected] = e.tensors[t];
    const std::vector<NamedAxis> axes = named_axes(answer_field(room, name), expected.shape, spec.shape.batch);
    if (axes.size() != 4) continue;
    for (const LocalFault& fault : local_faults) {
      const int extent = axes[fault.axis].extent;
      std::vector<int> planted;
      for (int i = 0; i < extent; ++i)
        if (fault.hits(i, extent)) planted.push_back(i);
      if (planted.empty() || static_cast<int>(planted.size()) == extent) continue;
      for (const auto& wrong : wrongs) {
        std::vector<double> got = e.emulated[t].second;
        std::size_t inner = 1;
        for (std::size_t a = fault.axis + 1; a < 4; ++a) inner *= static_cast<std::size_t>(axes[a].extent);
        for (std::size_t i = 0; i < got.size(); ++i)
          if (fault.hits(static_cast<int>(i / inner % static_cast<std::size_t>(extent)), extent))
            got[i] = wrong(got[i]);
        if (judge(expected, got).verdict != Verdict::fail) continue;
        const auto wrong_at = wrong_indices(axes, deviations_of(expected, got));
        bool right = wrong_at[fault.axis] == planted;
        for (std::size_t a = 0; a < 4; ++a)  // no other axis is made responsible
          right = right && (a == fault.axis || 2 * static_cast<int>(wrong_at[a].size()) >= axes[a].extent);
        found.right += right ? 1 : 0, ++found.all;
        if (!right && is_sample_asked_for())
          std::cout << room.name << ' ' << name_of(precision) << ' ' << name << ", " << fault.name << ": "
                    << locate(axes, deviations_of(expected, got)) << '\n';
      }
    }
  }
}

/// Of every ASSAY_EVERY-th kernel: the axis is named, its indices are the planted ones, and all others' are not
/// narrowed.
TEST(LocateInRooms, names_the_axis_of_local_faults) {
  OneIn sampled(16);
  Found found;
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm& form : kernels->forms)
      for (const Format precision : {Format::fp32, Format::bf16})
        if (form.unstable.empty() && sampled.takes()) look(listed_room(kernels->name), form, precision, found);
  std::cout << found.right << " of " << found.all << " local faults have their axis and indices named\n";
  EXPECT_GE(found.all, 100);
  EXPECT_GE(100 * found.right, 95 * found.all);
}

}  // namespace
}  // namespace assay
