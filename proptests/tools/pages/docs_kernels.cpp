// The digests that the page of all kernels trusts. Its words on a record, and on one that is older than the sources,
// are in proptests/transcripts/pages.md.
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
#include <utility>

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
  const auto with = [&](const std::string& file, const char* from = "namespace assay",
                        const char* to = "namespace other") {
    const std::string code = read(file);
    replace(file, from, to);
    std::set<std::string> rooms = changed();
    write(file, code);
    return rooms;
  };
  using Rooms = std::set<std::string>;
  const Rooms gated{"comba", "deltanet", "falcon1", "falcon2_lite", "gated_deltanet"};
  const std::pair<const char*, Rooms> made_from[] = {
      {"kernels/core/tile.hpp", all()},
      {"kernels/core/tensor_core.cpp", all()},
      {"kernels/gpu/gpu.cpp", all()},
      {"reference/core/rounding.cpp", all()},
      {"kernels/decayed/retnet.hpp", {"retnet"}},
      {"kernels/decayed/retnet_gpu.cpp", {"retnet"}},
      {"kernels/launches/ridge_launch.hpp", {"affine_mesanet", "mesanet"}},
      {"kernels/programs/gated_delta.hpp", gated},
      {"kernels/plans/gated_delta.hpp", gated},
      {"kernels/host/gated_delta.cpp", gated},
      {"kernels/gpu/gated_delta.hpp", gated},
  };
  for (const auto& [file, rooms] : made_from) EXPECT_EQ(with(file), rooms) << file;
  EXPECT_EQ(with("kernels/cuda/wgmma.cuh", "asm volatile", "asm"), (Rooms{"lla", "parallax", "softmax_attention"}));
  replace("kernels/decayed/retnet_gpu.cpp", "namespace assay", "namespace other");
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

}  // namespace
}  // namespace assay
