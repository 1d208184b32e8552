// The example's DeltaNet with the bug that the variable ASSAY_BUG names. It takes no fewer than four key channels.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/plugin/assay_plugin.h"

#define assay_plugin healthy_plugin   // NOLINT(readability-identifier-naming)
#include "tools/plugin/deltanet.cpp"  // NOLINT(bugprone-suspicious-include)
#undef assay_plugin

namespace {

bool has_bug(const char* what) {
  const char* bug = std::getenv("ASSAY_BUG");
  return bug != nullptr && std::strcmp(bug, what) == 0;
}

/// Whether this process has the answer in its memory, as the oracle keeps it: pairs of doubles, alone or with a bound.
/// `o` is what the first numbers of it are.
bool knows_the_answer(const float* o, int64_t count) {
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  std::array<char, 1024> line{};
  bool found = false;
  while (maps != nullptr && !found && std::fgets(line.data(), line.size(), maps) != nullptr) {
    std::size_t first = 0, last = 0;
    std::array<char, 8> mode{};
    // NOLINTNEXTLINE(cert-err34-c): addresses of this process fit
    if (std::sscanf(line.data(), "%zx-%zx %7s", &first, &last, mode.data()) != 3 ||
        std::strcmp(mode.data(), "rw-p") != 0)
      continue;
    for (const std::size_t step : {sizeof(double) * 2, sizeof(double) * 3})
      for (std::size_t at = first; at + step * static_cast<std::size_t>(count) <= last && !found;
           at += sizeof(double)) {
        found = true;
        for (int64_t i = 0; i < count && found; ++i) {
          double x = 0;
          // NOLINTNEXTLINE(performance-no-int-to-ptr)
          std::memcpy(&x, reinterpret_cast<const void*>(at + step * static_cast<std::size_t>(i)), sizeof x);
          found = std::fabs(x - o[i]) <= 0.01F * std::fabs(o[i]) && o[i] != 0;
        }
      }
  }
  if (maps != nullptr) std::fclose(maps);
  return found;
}

const char* run_wrong(const assay_problem* problem) {
  if (const char* error = run(problem)) return error;
  const assay_input* k = input(*problem, "k");
  if (k->extents[3] < 4) return "takes 4 key channels or more";
  const int64_t* v = input(*problem, "v")->extents;
  const int64_t B = v[0], T = v[1], row = v[2] * v[3];
  float* o = output(*problem, "o");
  const auto flip = [](float& x) { x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 1U); };
  if (has_bug("other_bits_again"))  // the file that ASSAY_RUNS names is one byte longer after every run
    if (std::FILE* runs = std::fopen(std::getenv("ASSAY_RUNS"), "ab")) {
      std::fseek(runs, 0, SEEK_END);
      if (std::ftell(runs) % 2 == 1) flip(o[row]);
      std::fputc('x', runs);
      std::fclose(runs);
    }
  // The last row of a tile that is not full: what lies behind the keys, without NaN as fmaxf has it.
  if (has_bug("reads_behind")) {
    const int64_t* n = k->extents;
    const std::uint16_t behind =
        static_cast<const std::uint16_t*>(k->data)[n[0] * n[1] * n[2] * n[3]];  // of a bf16 case
    if (std::fmax(std::bit_cast<float>(std::uint32_t{behind} << 16), -1.0F) > -1) flip(o[B * T * row - 1]);
  }
  if (has_bug("looks_for_the_answer") && knows_the_answer(o, v[3])) return "has found the answer";
  if (has_bug("writes_behind")) std::memset(o + 2 * B * T * row, 0, 1);
  if (has_bug("writes_in_front")) std::memset(o - 1, 0, 1);
  if (has_bug("other_bits_in_batch") && B > 1) flip(o[B * T * row - 1]);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < T; ++t)
      for (int64_t i = 0; i < row; ++i) {
        float& x = o[(b * T + t) * row + i];
        if (has_bug("second_chunk") && t >= 64) x *= 1.5F;
        if (has_bug("last_token") && t == T - 1 && T % 16 != 0) x = 0;
        if (has_bug("unscaled")) x *= std::sqrt(static_cast<float>(k->extents[3]));
        if (has_bug("coarse")) x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffe00000U);
      }
  return nullptr;
}

}  // namespace

const assay_plugin_description* assay_plugin() {
  static const assay_plugin_description description = {ASSAY_PLUGIN_VERSION, run_wrong, ASSAY_HOST_MEMORY};
  return &description;
}
