#include <algorithm>
#include <array>
#include <ctime>
#include <string>

#include "arguments/drawn_case.hpp"
#include "files/problem_file.hpp"
#include "judge/sigma/model.hpp"
#include "oracles/core/room.hpp"
#include "tools/cases/check_costs.hpp"

namespace assay {

double small_draw() {
  const CaseSpec spec{"gated_deltanet",
                      {1, 128, 1, 0, 64, 64, 0},
                      Format::bf16,
                      Style::normal,
                      1,
                      listed_room("gated_deltanet").variants().front()};
  const Problem problem = read_problem(arguments::draw_case(spec, "costs"), "costs").problem;
  // Their median: a machine's pace changes from one tenth of a second to the next.
  std::array<double, 7> seconds{};
  for (double& of_one : seconds) {
    const std::clock_t begun = std::clock();
    model_runs(problem, Format::bf16, 1, 1);
    of_one = static_cast<double>(std::clock() - begun) / static_cast<double>(CLOCKS_PER_SEC);
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

}  // namespace assay
