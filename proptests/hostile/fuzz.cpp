// libFuzzer on all readers of a user's files: the first byte of an input says which door it goes to.
//
//   cmake --preset clang && cmake --build build-clang --target fuzz
//   build-clang/proptests/fuzz --seeds CORPUS     writes a valid file for every door
//   build-clang/proptests/fuzz -rss_limit_mb=1024 -timeout=10 CORPUS
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "files/input_file.hpp"
#include "proptests/hostile/doors.hpp"
#include "reference/core/error.hpp"

namespace {

const std::vector<assay::hostile::Door>& all_doors() {
  static const std::vector<assay::hostile::Door> all = assay::hostile::doors();
  return all;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming,readability-non-const-parameter): as libFuzzer declares them
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc != 3 || std::string_view((*argv)[1]) != "--seeds") return 0;
  const std::filesystem::path folder = (*argv)[2];
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < all_doors().size(); ++i)
    std::ofstream(folder / all_doors()[i].name, std::ios::binary) << static_cast<char>(i) << all_doors()[i].valid;
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const assay::hostile::Door& door = all_doors()[data[0] % all_doors().size()];
  try {
    door.read(std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  } catch (const assay::InputError& refusal) {
    // One sentence, of what a terminal shows.
    if (assay::excerpt(refusal.what(), 2000) != refusal.what()) std::abort();
  }
  return 0;
}
// NOLINTEND(readability-identifier-naming,readability-non-const-parameter)
