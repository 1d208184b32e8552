#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

namespace assay {
namespace {

#ifndef __SANITIZE_ADDRESS__
/// The flags of the mapping that holds that address, as /proc/self/smaps names them (proc(5), VmFlags).
std::string flags_of(std::uintptr_t address) {
  std::ifstream maps("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t first = 0, end = 0;
    char dash = 0;
    if (words >> std::hex >> first >> dash >> end && dash == '-') is_it = first <= address && address < end;
    if (is_it && line.starts_with("VmFlags:")) return line;
  }
  return {};
}

/// A tensor of many megabytes asks for large pages (flag hg, from madvise), and a small one does not.
TEST(LargeBlocks, ask_for_large_pages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "this system has none";
  const auto flags = [](std::size_t bytes) {
    const auto block = std::make_unique<char[]>(bytes);
    return flags_of(reinterpret_cast<std::uintptr_t>(block.get()) + bytes / 2);
  };
  EXPECT_NE(flags(std::size_t{64} << 20).find(" hg"), std::string::npos);
  EXPECT_EQ(flags(std::size_t{1} << 19).find(" hg"), std::string::npos);
}
#endif

}  // namespace
}  // namespace assay
