// records/model.md shows what `assay-lab calibrate --model` measures: one of its rooms is measured again.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "proptests/core/places.hpp"
#include "tools/pages/calibration.hpp"

namespace assay {
namespace {

std::string page() {
  std::ifstream file(source_dir() + "/records/model.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ModelPage, has_the_rows_that_are_measured) {
  CalibrateOptions options;
  options.mechanisms = {"linear_attention"}, options.precisions = {Format::fp32, Format::bf16};
  options.seeds = 1, options.seed = 0;
  const ModelCalibration measured = calibrate_model(options, [](std::size_t, std::string_view) {});
  ASSERT_EQ(measured.rows.size(), 2U);
  EXPECT_GT(measured.count(&ModelRow::tensors), 200U);
  for (const auto& cells : table_of(measured).rows) {
    std::string row = "|";
    for (const std::string& cell : cells) row += ' ' + cell + " |";
    EXPECT_NE(page().find('\n' + row + '\n'), std::string::npos)
        << row << ": run the command in the first line of records/model.md";
  }
}

TEST(ModelPage, counts_what_its_rows_count) {
  const std::string text = page();
  std::size_t tensors = 0, passed = 0;
  for (std::size_t at = text.find("\n| ---"); (at = text.find("\n| ", at + 1)) != std::string::npos;) {
    std::vector<std::string> cells;
    const std::size_t end = text.find('\n', at + 1);
    for (std::size_t from = at + 3; from < end; from = text.find('|', from) + 2)
      cells.push_back(text.substr(from, text.find(" |", from) - from));
    ASSERT_GE(cells.size(), 10U);
    tensors += std::stoul(cells[2]), passed += std::stoul(cells[6]);
    EXPECT_EQ(std::stoul(cells[2]),
              std::stoul(cells[6]) + std::stoul(cells[7]) + std::stoul(cells[8]) + std::stoul(cells[9]))
        << cells[0];
  }
  EXPECT_NE(text.find('\n' + std::to_string(tensors) + " tensors: "), std::string::npos) << tensors;
  EXPECT_GT(100 * passed, 90 * tensors);
}

}  // namespace
}  // namespace assay
