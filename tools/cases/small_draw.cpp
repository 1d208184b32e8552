#include <algorithm>
#include <ctime>
#include <limits>
#include <string>

#include "arguments/drawn_case.hpp"
#include "files/problem_file.hpp"
#include "judge/sigma/model.hpp"
#include "oracles/core/room.hpp"
#include "tools/cases/check_costs.hpp"

namespace assay {

double small_draw() {
  constexpr int runs = 3;
  const CaseSpec spec{"gated_deltanet",
                      {1, 128, 1, 0, 64, 64, 0},
                      Format::bf16,
                      Style::normal,
                      1,
                      listed_room("gated_deltanet").variants().front()};
  const Problem problem = read_problem(arguments::draw_case(spec, "costs"), "costs").problem;
  double seconds = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    const std::clock_t begun = std::clock();
    model_runs(problem, Format::bf16, 1, 1);
    seconds = std::min(seconds, static_cast<double>(std::clock() - begun) / static_cast<double>(CLOCKS_PER_SEC));
  }
  return seconds;
}

}  // namespace assay
