// records/model.md shows what `assay-lab calibrate --model` measures: one of its rooms is measured again. What it
// counts is in proptests/transcripts/records.md.
#include <gtest/gtest.h>

#include <string>

#include "files/input_file.hpp"
#include "proptests/core/places.hpp"
#include "tools/pages/calibration.hpp"

namespace assay {
namespace {

TEST(ModelPage, has_the_rows_that_are_measured) {
  CalibrateOptions options;
  options.mechanisms = {"parallax"}, options.precisions = {Format::fp32, Format::bf16};
  options.seeds = 1, options.seed = 0;
  const ModelCalibration measured = calibrate_model(options, [](std::size_t, std::string_view) {});
  ASSERT_EQ(measured.rows.size(), 2U);
  EXPECT_GT(measured.count(&ModelRow::tensors), 200U);
  const std::string page = read_text(source_dir() + "/records/model.md");
  for (const auto& cells : table_of(measured).rows) {
    std::string row = "|";
    for (const std::string& cell : cells) row += ' ' + cell + " |";
    EXPECT_NE(page.find('\n' + row + '\n'), std::string::npos)
        << row << ": run the command in the first line of records/model.md";
  }
}

}  // namespace
}  // namespace assay
