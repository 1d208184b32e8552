#pragma once
// --plot: a verb's drawings as a file.
#include <optional>
#include <string>
#include <vector>

#include "tools/plots/plot.hpp"
#include "tools/verbs/command.hpp"

namespace assay {

/// A file for drawings, if one is asked for: it appears complete or not at all.
class PlotFile {
 public:
  /// Throws InputError unless the name ends in .svg, or in .png where a program makes such pictures, and the file can
  /// be written.
  PlotFile(const std::string& path, Console& console);
  void commit(const std::vector<Plot>& plots);

 private:
  std::optional<OutputFile> file_;
  std::string painter_;  ///< of PNG: the program's path
};

void add_plot_flag(CLI::App& app, std::string& path);
/// --format of verbs that draw: those of tables, and html.
void add_drawn_format_flag(CLI::App& app, std::string& format);

}  // namespace assay
