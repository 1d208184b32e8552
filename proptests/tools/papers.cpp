// assay-lab paper parallax-ratios beside FlashAttention: the fastest of its kernels for each shape, of the record's
// device alone.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "proptests/tools/cli.hpp"

namespace assay {
namespace {

using nlohmann::json;

const char* const record = R"({"device": "Pretender", "rooms": {
  "softmax_attention": {"times": [
    {"form": "tiled", "precision": "bf16", "shape": "2,64,8/8,64,64", "forward_ms": 2, "backward_ms": 4},
    {"form": "split_decode", "precision": "bf16", "shape": "1,1/64,8/2,128,128", "forward_ms": 3}]},
  "parallax": {"times": [
    {"form": "tiled", "precision": "bf16", "shape": "2,64,8/8,64,64", "forward_ms": 3, "backward_ms": 6},
    {"form": "split_decode", "precision": "bf16", "shape": "1,1/64,8/2,128,128", "forward_ms": 4},
    {"form": "split_decode", "precision": "bf16", "shape": "1,1/64,8/2,64,64", "forward_ms": 2}]}}})";

std::string times_on(const std::string& device) {
  return R"({"device": ")" + device + R"(", "versions": {"one": "1", "two": "2"}, "times": [
    {"kernel": "one", "shape": "2,64,8/8,64,64", "forward_ms": 1, "backward_ms": 3},
    {"kernel": "two", "shape": "2,64,8/8,64,64", "forward_ms": 1.5, "backward_ms": 2},
    {"kernel": "two", "shape": "1,1/64,8/2,128,128", "forward_ms": 5},
    {"kernel": "two", "shape": "1,1/128,8/2,128,128", "forward_ms": 5}]})";
}

struct ParallaxRatios : CliFiles {
  Ran with(const std::string& flash_attention) {
    return run_assay({"paper", "parallax-ratios", "--record", write("record", record), "--flash-attention",
                      write("times", flash_attention), "--format", "json"});
  }
};

TEST_F(ParallaxRatios, are_of_the_fastest_kernel_for_each_shape) {
  const Ran ran = with(times_on("Pretender"));
  ASSERT_EQ(ran.code, exit_passed) << ran.err;
  const json tables = json::parse(ran.out)["tables"];
  ASSERT_EQ(tables.size(), 4U);
  EXPECT_EQ(tables[2]["rows"], json({{"I/O", "1,1/64,8/2,128,128", "5 ms", "two", "128", "4 ms", "1.25", ">= 1"},
                                     {"products", "1,1/64,8/2,128,128", "5 ms", "two", "64", "2 ms", "2.50", ">= 1"}}));
  EXPECT_EQ(tables[3]["rows"],
            json::array({{"2,64,8/8,64,64", "1 ms", "one", "3 ms", "3.00", "2 ms", "two", "6 ms", "3.00"}}));
}

TEST_F(ParallaxRatios, refuse_times_of_another_device_and_what_are_none) {
  for (const auto& [text, sentence] : {std::pair{times_on("Other"), "of Other, and the record is of Pretender"},
                                       {std::string("{}"), "no times that tools/gpu/attention_times.py wrote"}}) {
    const Ran ran = with(text);
    EXPECT_EQ(ran.code, exit_usage) << text;
    EXPECT_NE(ran.err.find(sentence), std::string::npos) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
}

}  // namespace
}  // namespace assay
