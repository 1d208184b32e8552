#include "tools/verbs/plot_file.hpp"

#include <CLI/CLI.hpp>

#include "reference/core/error.hpp"

namespace assay {

PlotFile::PlotFile(const std::string& path, Console& console) {
  if (path.empty()) return;
  require(path.ends_with(".svg"), "--plot: expected a file that ends in .svg, got ", path);
  file_.emplace(path, console.out);
}

void PlotFile::commit(const std::vector<Plot>& plots) {
  if (file_) file_->commit(svg_file(plots));
}

void add_plot_flag(CLI::App& app, std::string& path) {
  app.add_option("--plot", path, "where the drawings go that --format html has, as SVG: a file that ends in .svg");
}

}  // namespace assay
