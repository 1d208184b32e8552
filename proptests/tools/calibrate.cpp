// Which errors of healthy kernels are within their sigma, and that records/calibration.md speaks of today's rooms and
// variants. The command is in proptests/transcripts/calibrate.md, the page's reasons are in records.md.
#include "judge/trial/calibrate.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "files/input_file.hpp"
#include "proptests/core/places.hpp"

namespace assay {
namespace {

TEST(Calibrate, the_verdict_is_that_of_the_numbers) {
  CalibrationRow row{.room = "deltanet", .form = "chunkwise", .variant = "tile 64"};
  Expected e{.shape = {4},
             .layout = {1, 4, 1},
             .value = std::vector<HiLo>(4),
             .bound = std::vector<double>(4),
             .sigma = std::vector<double>(4, 1),
             .reach = std::vector<double>(4, 7)};
  Gauge& g = row.by_precision[static_cast<std::size_t>(Format::bf16)];
  g.add(e, {1, -1, 1, -1});
  EXPECT_TRUE(row.passed());
  EXPECT_EQ(row.whole().elements, 4U);
  row.fit = Fit::wider;  // a kernel that rounds less may do with less
  for (int i = 0; i < 8; ++i) g.add(e, {0.1, 0.1, 0.1, 0.1});
  EXPECT_TRUE(row.passed());
  row.fit = Fit::same;
  EXPECT_FALSE(row.passed());
  g = {}, g.add(e, {1.5, -1.5, 1.5, -1.5});
  EXPECT_FALSE(row.passed());
  row.fit = Fit::wider;
  EXPECT_FALSE(row.passed());
  row.fit = Fit::biased;  // of which nothing is asked
  EXPECT_TRUE(row.passed());
  row.fit = Fit::same, g = {}, g.add(e, {1.9, 0.01, 0.01, 0.01});  // most limits say nothing
  EXPECT_GT(g.rms(), least_rms);
  EXPECT_FALSE(row.passed());
  g = {};
  for (int i = 0; i < 20; ++i) g.add(e, {1, -1, 1, -1});
  g.add(e, {1, -1, 1, 7.5});
  EXPECT_LT(g.rms(), most_rms);
  EXPECT_FALSE(row.passed());
}

/// Measured in ten minutes, so no test writes it again.
TEST(CalibrationPage, lists_the_rooms_and_variants_of_today) {
  std::istringstream page(read_text(source_dir() + "/records/calibration.md"));
  std::set<std::tuple<std::string, std::string, std::string>> listed, expected;
  std::string line, room, form;
  while (std::getline(page, line)) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "###") words >> room >> form;
    if (first != "|" || room.empty()) continue;
    const std::string cell = line.substr(2, line.find(" |", 2) - 2);
    if (cell != "variant" && cell != "---") listed.emplace(room, form, cell);
  }
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm& f : kernels->forms)
      if (f.unstable.empty())
        for (const std::string& name : variant_names(kernels->name, f)) expected.emplace(kernels->name, f.name, name);
  EXPECT_EQ(listed, expected)
      << "build/assay-lab calibrate --docs writes records/calibration.md; its first line is the command";
}

}  // namespace
}  // namespace assay
