// The page of all kernels: whose digests it trusts, and what it says of a record that is older than the sources.
#include "tools/pages/docs_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"

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
Digests digests_of(const std::filesystem::path& source) {
  const json digests = json::parse(output_of((source / "tools/gpu/run").string() + " --digests"));
  EXPECT_GT(digests.size(), 0U);
  EXPECT_EQ(digests, json(kernel_sources_digests(source)));
  return digests.get<Digests>();
}
TEST(DocsKernels, digests_are_those_of_the_record) { digests_of(source_dir()); }

/// A copy of what digests are made from.
class KernelSources : public CliFiles {
 protected:
  void SetUp() override {
    CliFiles::SetUp();
    for (const char* part : {"kernels", "reference/core", "tools/gpu"}) {
      std::filesystem::create_directories(folder / part);
      std::filesystem::copy(std::filesystem::path(source_dir()) / part, folder / part,
                            std::filesystem::copy_options::recursive);
    }
    before = kernel_sources_digests(folder);
  }
  void replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::string code = read(file);
    const std::size_t at = code.find(from);
    ASSERT_NE(at, std::string::npos) << file << " lacks " << from;
    write(file, code.replace(at, from.size(), to));
  }
  /// The rooms whose digests are others than before.
  std::set<std::string> changed() const {
    std::set<std::string> rooms;
    for (const auto& [room, digest] : kernel_sources_digests(folder))
      if (before.at(room) != digest) rooms.insert(room);
    return rooms;
  }
  std::set<std::string> all() const {
    std::set<std::string> rooms;
    for (const auto& [room, digest] : before) rooms.insert(room);
    return rooms;
  }

  Digests before;
};

TEST_F(KernelSources, comments_and_format_change_no_digest) {
  const std::string tile = "kernels/core/tile.hpp", wgmma = "kernels/cuda/wgmma.cuh";
  write(tile, "// A comment.\n\n" + read(tile) + "// Another.\n\n");
  replace(tile, "namespace assay", "namespace\r\n\tassay");
  replace(wgmma, "\" {\" registers \"}, \" a \", \" b", "\" {\" registers \\\n  \"},\" \" \" a \", \" b");
  EXPECT_EQ(changed(), std::set<std::string>());
  EXPECT_EQ(digests_of(folder), before);
}

TEST_F(KernelSources, code_changes_the_rooms_made_from_it) {
  const auto with = [&](const std::string& file, const std::string& from, const std::string& to) {
    const std::string code = read(file);
    replace(file, from, to);
    std::set<std::string> rooms = changed();
    write(file, code);
    return rooms;
  };
  using Rooms = std::set<std::string>;
  EXPECT_EQ(with("kernels/core/tile.hpp", "namespace assay", "namespace other"), all());
  EXPECT_EQ(with("kernels/core/tensor_core.cpp", "namespace assay", "namespace other"), all());
  EXPECT_EQ(with("kernels/cuda/gpu.cpp", "namespace assay", "namespace other"), all());
  EXPECT_EQ(with("reference/core/rounding.cpp", "namespace assay", "namespace other"), all());
  EXPECT_EQ(with("kernels/decayed/retnet.hpp", "namespace assay", "namespace other"), Rooms{"retnet"});
  EXPECT_EQ(with("kernels/decayed/retnet.cu", "namespace assay", "namespace other"), Rooms{"retnet"});
  EXPECT_EQ(with("kernels/launches/ridge_launch.hpp", "namespace assay", "namespace other"),
            (Rooms{"affine_mesanet", "mesanet"}));
  const Rooms gated{"comba", "falcon1", "falcon2_lite", "gated_deltanet"};
  for (const char* file :
       {"programs/gated_delta.hpp", "plans/gated_delta.hpp", "host/gated_delta.cpp", "cuda/gated_delta.cuh"})
    EXPECT_EQ(with(std::string("kernels/") + file, "namespace assay", "namespace other"), gated) << file;
  EXPECT_EQ(with("kernels/cuda/wgmma.cuh", "asm volatile", "asm"), (Rooms{"lla", "parallax", "softmax_attention"}));
  replace("kernels/decayed/retnet.cu", "namespace assay", "namespace other");
  EXPECT_NE(digests_of(folder), before);
}

/// A comment is what follows the first two slashes of a line: those of a literal would hide the rest of it.
TEST_F(KernelSources, no_literal_holds_a_comment) {
  for (const std::string& room : all())
    for (const std::string& file : kernel_sources(folder, room)) {
      std::istringstream lines(read(file));
      for (std::string line; std::getline(lines, line);) {
        const std::string code = line.substr(0, line.find("//"));
        EXPECT_TRUE(code == line || std::count(code.begin(), code.end(), '"') % 2 == 0) << file << ": " << line;
      }
    }
}

json entry(const std::string& digest, json results, json times) {
  return {{"date", "2001-02-03"},     {"device", "Pretender"}, {"driver", "1"},
          {"compiler", "cc 1"},       {"multiprocessors", 1},  {"failed", 0},
          {"memcheck", "0 errors"},   {"sources", digest},     {"results", std::move(results)},
          {"times", std::move(times)}};
}
json result(const std::string& form, const std::string& tensor, double error, double emulation, double difference,
            double identical) {
  return {{"form", form},
          {"precision", "bf16"},
          {"key_dim", 64},
          {"tensor", tensor},
          {"cases", 3},
          {"error", error},
          {"emulation_error", emulation},
          {"difference", difference},
          {"identical", identical}};
}
json time(const std::string& form, const std::string& shape, double milliseconds) {
  return {{"form", form}, {"precision", "bf16"}, {"shape", shape}, {"forward_ms", milliseconds}};
}
json record(const std::string& digest) {
  json large = time("chunkwise", "4,8192,16/16,128,128", 0.5), windowed = time("chunkwise", "1,2,3,4,6", 0.25);
  large["bytes"] = 4.55e8, windowed["params"] = " --param window=4";
  return {{"device", "Pretender"},
          {"rooms",
           {{"deltanet", entry(digest,
                               {result("chunkwise", "o", 0.25, 0.125, 0.5, 0.75),
                                result("chunkwise", "dk", 0.375, 0.0625, 0.25, 0.5)},
                               {time("chunkwise", "1,2,3,4,5", 0.125), large, windowed})}}}};
}

TEST(DocsKernels, the_floor_of_attention_is_its_products) {
  for (const char* form : {"tiled", "covariance"}) {
    json attention = time(form, "4,4096,16/16,128,128", 1.175);
    attention["bytes"] = 1;
    const json measured = {
        {"device", "Pretender"},
        {"rooms", {{"parallax", entry("a", {result(form, "o", 0.25, 0.125, 0.5, 0.75)}, {attention})}}}};
    // 64 heads of 4096 * 4097 / 2 visible pairs, 8 * 128 operations each, at 716 TFLOP/s.
    EXPECT_NE(kernels_page({measured}, {{"parallax", "a"}}).find("| 1.18 ms | 0.768 ms | 65% |"), std::string::npos)
        << form;
  }
}

TEST(DocsKernels, batches_of_a_form_are_counted_over_precisions) {
  const auto packed = [](const std::string& form, const std::string& precision, int batches, int failed) -> json {
    return {{"form", form},       {"precision", precision}, {"key_dim", 64}, {"lengths", {1, 130, 43}},
            {"batches", batches}, {"failed", failed}};
  };
  const auto page = [&](int failed) {
    json measured = record("a");
    measured["rooms"]["deltanet"]["packed"] = {packed("chunkwise", "bf16", 3, failed),
                                               packed("chunkwise", "fp16", 2, 0), packed("neumann", "fp16", 5, 1)};
    return kernels_page({measured}, {{"deltanet", "a"}});
  };
  EXPECT_NE(page(0).find("\n5 batches of 3 sequences of 1 to 130 tokens, packed: every sequence has the "
                         "bits that it has alone.\n"),
            std::string::npos);
  EXPECT_NE(page(2).find(": **in 2 a sequence has other bits than alone**.\n"), std::string::npos);
  EXPECT_EQ(kernels_page({record("a")}, {{"deltanet", "a"}}).find("packed:"), std::string::npos);
}

TEST(DocsKernels, cases_that_say_nothing_are_counted) {
  const auto page = [](int of_o, int of_state) {
    json o = result("neumann", "o", 0.25, 0.125, 0.5, 0.75), state = result("neumann", "final_state", 0, 0, 0, 1);
    if (of_o > 0) o["undetermined"] = of_o;
    if (of_state > 0) state["undetermined"] = of_state;
    const json measured = {{"device", "Pretender"}, {"rooms", {{"deltanet", entry("a", {o, state}, json::array())}}}};
    return kernels_page({measured}, {{"deltanet", "a"}});
  };
  const std::string sentence =
      "\nCases that are left out, for roundings decide all of their answer: 2 of 3 in bf16 at "
      "64.\n";
  EXPECT_NE(page(1, 2).find(sentence), std::string::npos);
  EXPECT_NE(page(2, 0).find(sentence), std::string::npos);
  EXPECT_EQ(page(0, 0).find("left out"), std::string::npos);
}

TEST(DocsKernels, a_record_of_other_sources_is_stale) {
  const std::string current = kernels_page({record("a")}, {{"deltanet", "a"}});
  const std::string stale = kernels_page({record("a")}, {{"deltanet", "b"}});
  const std::string row = "| bf16 | 64 | 3 | 3.8e-01 | `dk` | 1.2e-01 | 5.0e-01 | 75.0% |";
  for (const std::string& page : {current, stale}) {
    EXPECT_NE(page.find(row), std::string::npos) << page;
    EXPECT_NE(page.find("| 1,2,3,4,5 | bf16 | 0.125 ms |"), std::string::npos);
    EXPECT_NE(page.find("| 1,2,3,4,6 --param window=4 | bf16 | 0.25 ms |"), std::string::npos);
    EXPECT_NE(page.find("| 4,8192,16/16,128,128 | bf16 | 0.5 ms | 0.1 ms | 20% | flash-linear-attention 0.995 ms (0.50 "
                        "of it) |"),
              std::string::npos);
    EXPECT_NE(page.find("## gated_deltanet chunkwise"), std::string::npos);
  }
  EXPECT_EQ(current.find("**stale:"), std::string::npos);
  EXPECT_NE(current.find("\nPretender, cc 1, driver 1, 2001-02-03; memcheck: 0 errors; 0 failed:\n"),
            std::string::npos);
  EXPECT_NE(stale.find("\nPretender, cc 1, driver 1, 2001-02-03, **stale:"), std::string::npos);
  EXPECT_NE(current.find("\nPretender: 1 of 1 mechanisms"), std::string::npos);
  EXPECT_NE(stale.find("\nPretender: 0 of 1 mechanisms"), std::string::npos);
  const auto standing = [](const std::string& page, const std::string& form) {
    const std::string from = page.substr(page.find("\n| deltanet | " + form + " |") + 1);
    const std::string cells = from.substr(0, from.find(" |\n"));
    return cells.substr(cells.rfind("| ") + 2);
  };
  EXPECT_EQ(standing(current, "chunkwise"), "recorded");
  EXPECT_EQ(standing(stale, "chunkwise"), "stale");
  EXPECT_EQ(standing(current, "neumann"), "no record");  // a form that the device does not have
}

}  // namespace
}  // namespace assay
