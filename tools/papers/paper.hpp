#pragma once
// Tables of the papers that need no training, measured with the mechanisms and kernels here.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/plots/plot.hpp"
#include "tools/print/table.hpp"

namespace assay {

struct PaperOptions {
  int sequences = 4;  ///< that a regression's errors are averaged over
  std::uint64_t seed = 0;
  int threads = 0;              ///< 0: all cores; the numbers do not depend on it
  std::string record;           ///< of a GPU, for times
  std::string flash_attention;  ///< times of it on that GPU
};

/// The results, and the choices that had to be made because the paper is silent.
struct PaperResult {
  std::vector<std::string> chosen;
  std::vector<std::pair<std::string, Table>> tables;  ///< headings first
  std::vector<Plot> plots;
  std::vector<std::string> says;  ///< what the numbers come to, in sentences
};

struct Paper {
  std::string_view name, title, source;
  PaperResult (*measure)(const PaperOptions& options, const std::function<void(std::string_view)>& done);
};

/// In the order of docs/papers.md.
std::span<const Paper> papers();

PaperResult lla_table_2(const PaperOptions& options, const std::function<void(std::string_view)>& done);
PaperResult lla_regression(const PaperOptions& options, const std::function<void(std::string_view)>& done);
PaperResult parallax_ratios(const PaperOptions& options, const std::function<void(std::string_view)>& done);
PaperResult falcon_stability(const PaperOptions& options, const std::function<void(std::string_view)>& done);
PaperResult mdn_stability(const PaperOptions& options, const std::function<void(std::string_view)>& done);

}  // namespace assay
