#include "tools/verbs/plot_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "files/input_file.hpp"
#include "files/shown.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/print/table.hpp"
#include "tools/run/child.hpp"

namespace assay {
namespace {

/// The first of these programs on the PATH, or "".
std::string program_of(std::initializer_list<std::string_view> names) {
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nothing here sets it
  for (const std::string_view name : names) {
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');)
      if (std::string file = folder + '/' + std::string(name); access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

/// The drawings as a picture of dots, two to a pixel.
std::string painted(const std::vector<Plot>& plots, const std::string& painter) {
  const PrivateFolder folder;
  const std::string svg = folder.path() / "plot.svg", png = folder.path() / "plot.png";
  std::ofstream(svg) << svg_file(plots, true);
  double width = 0, height = 0;
  for (const Plot& plot : plots) width = std::max(width, plot.width()), height += plot.height() + 18;
  std::string command = shown_word(painter);
  if (painter.ends_with("rsvg-convert"))
    command += fmt::format(" --zoom 2 --output {} {}", shown_word(png), shown_word(svg));
  else
    command += fmt::format(
        " --headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=2 --window-size={},{} "
        "--screenshot={} {}",
        std::ceil(width), std::ceil(height), shown_word(png), shown_word("file://" + svg));
  const ChildEnd end = run_command(command, std::chrono::seconds(60));
  require(end.passed() && access(png.c_str(), R_OK) == 0, "--plot: ", painter, " made no picture",
          end.passed() ? "" : ", and " + end.sentence());
  return read_text(png);
}

}  // namespace

PlotFile::PlotFile(const std::string& path, Console& console) {
  if (path.empty()) return;
  const bool is_png = path.ends_with(".png");
  require(is_png || path.ends_with(".svg"), "--plot: expected a file that ends in .svg or .png, got ", path);
  if (is_png) painter_ = program_of({"rsvg-convert", "chromium"});
  require(!is_png || !painter_.empty(), "--plot: ", path,
          ": PNG needs rsvg-convert (librsvg2-bin in Debian) or chromium on the PATH; .svg needs neither");
  file_.emplace(path, console.out);
}

void PlotFile::commit(const std::vector<Plot>& plots) {
  if (file_) file_->commit(painter_.empty() ? svg_file(plots) : painted(plots, painter_));
}

void add_plot_flag(CLI::App& app, std::string& path) {
  app.add_option("--plot", path, "write the plots of --format html to this file, which ends in .svg or .png");
}

void add_drawn_format_flag(CLI::App& app, std::string& format) {
  std::vector<std::string> formats = name_list(all_table_formats);
  formats.emplace_back("html");
  add_choice_flag(app, "--format", format, "table, markdown or html for people, json or csv for programs", formats);
}

}  // namespace assay
