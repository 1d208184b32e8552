// The page of all kernels: whose digests it trusts, and what it says of a record that is older than the sources.
#include "tools/docs_kernels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

namespace assay {
namespace {

using nlohmann::json;

std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) text.append(buffer.data(), n);
  return text;
}

/// The record's own script and the page call the same sources by the same name.
TEST(DocsKernels, digests_are_those_of_the_record) {
  const json digests = json::parse(output_of(ASSAY_SOURCE_DIR "/tools/gpu/run --digests"));
  EXPECT_GT(digests.size(), 0U);
  EXPECT_EQ(digests, json(kernel_sources_digests(ASSAY_SOURCE_DIR)));
}

json record(const std::string& digest) {
  return {{"device", "Pretender"},
          {"driver", "1"},
          {"compiler", "cc 1"},
          {"multiprocessors", 1},
          {"failed", 0},
          {"sources", {{"deltanet", digest}}},
          {"results",
           {{{"room", "deltanet"},
             {"form", "chunkwise"},
             {"precision", "bf16"},
             {"key_dim", 64},
             {"tensor", "o"},
             {"cases", 3},
             {"error", 0.25},
             {"emulation_error", 0.125},
             {"difference", 0.5},
             {"identical", 0.75}},
            {{"room", "deltanet"},
             {"form", "chunkwise"},
             {"precision", "bf16"},
             {"key_dim", 64},
             {"tensor", "dk"},
             {"cases", 3},
             {"error", 0.375},
             {"emulation_error", 0.0625},
             {"difference", 0.25},
             {"identical", 0.5}}}},
          {"times",
           {{{"room", "deltanet"},
             {"form", "chunkwise"},
             {"precision", "bf16"},
             {"shape", "1,2,3,4,5"},
             {"forward_ms", 0.125}},
            {{"room", "deltanet"},
             {"form", "chunkwise"},
             {"precision", "bf16"},
             {"shape", "4,8192,16/16,128,128"},
             {"bytes", 4.55e8},
             {"forward_ms", 0.5}},
            {{"room", "parallax"},
             {"form", "tiled"},
             {"precision", "bf16"},
             {"shape", "4,4096,16/16,128,128"},
             {"bytes", 1},
             {"forward_ms", 1.175}}}}};
}

TEST(DocsKernels, the_floor_of_attention_is_its_products) {
  json measured = record("a");
  for (json& entry : measured["results"]) entry["room"] = "parallax", entry["form"] = "tiled";
  measured["sources"] = {{"parallax", "a"}};
  // 64 heads of 4096 * 4097 / 2 visible pairs, 8 * 128 operations each, at 716 TFLOP/s.
  EXPECT_NE(
      kernels_page({measured}, {{"parallax", "a"}}).find("| 1.18 ms | 0.768 ms | 65% | its authors 1.18 ms (1.00 of"),
      std::string::npos);
}

TEST(DocsKernels, a_record_of_other_sources_is_stale) {
  const std::string current = kernels_page({record("a")}, {{"deltanet", "a"}});
  const std::string stale = kernels_page({record("a")}, {{"deltanet", "b"}});
  const std::string row = "| bf16 | 64 | 3 | 3.8e-01 | `dk` | 1.2e-01 | 5.0e-01 | 75.0% |";
  for (const std::string& page : {current, stale}) {
    EXPECT_NE(page.find(row), std::string::npos) << page;
    EXPECT_NE(page.find("| 1,2,3,4,5 | bf16 | 0.125 ms |"), std::string::npos);
    EXPECT_NE(page.find("| 4,8192,16/16,128,128 | bf16 | 0.5 ms | 0.1 ms | 20% | flash-linear-attention 0.995 ms (0.50 "
                        "of it) |"),
              std::string::npos);
    EXPECT_NE(page.find("## gated_deltanet chunkwise"), std::string::npos);
  }
  EXPECT_EQ(current.find("**stale:"), std::string::npos);
  EXPECT_NE(stale.find("Pretender, cc 1, **stale:"), std::string::npos);
  EXPECT_NE(stale.find("| deltanet | chunkwise | yes |"), std::string::npos);
}

}  // namespace
}  // namespace assay
