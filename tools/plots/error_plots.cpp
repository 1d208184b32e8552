#include "tools/plots/error_plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

namespace assay {
namespace {

constexpr double plot_width = 640;
/// The bounds of the colours h0 to h5, in sigma: of what a correct kernel does, and of what none does.
constexpr std::array colour_bounds = {1.0, 3.0, element_sigmas, 10 * element_sigmas, 100 * element_sigmas};

std::size_t colour_of(double z) {
  return static_cast<std::size_t>(std::upper_bound(colour_bounds.begin(), colour_bounds.end(), z) -
                                  colour_bounds.begin());
}

std::string style_of(double z) { return fmt::format("h{}", colour_of(z)); }

/// The colours side by side, `width` in all, with the bounds between them.
void draw_key(Plot& plot, double x, double y, double width) {
  const double one = width / static_cast<double>(colour_bounds.size() + 1);
  for (std::size_t i = 0; i <= colour_bounds.size(); ++i) {
    plot.rect(x, y, one, 10, fmt::format("h{}", i));
    if (i > 0) plot.words(x, y + 22, fmt::format("{:g}{}", colour_bounds[i - 1], i == 1 ? " sigma" : ""), {}, "middle");
    x += one;
  }
}

// ---- the matrix ----

struct Shade {
  double ratio = 0;
  Verdict verdict = Verdict::pass;
  bool judged = false;
};

struct Matrix {
  std::vector<std::string> kernels, precisions;
  std::map<std::pair<std::string, std::string>, Shade> cells;
};

void add_once(std::vector<std::string>& list, const std::string& name) {
  if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

void draw_cell(Plot& plot, const Shade& cell, double x, double y, double width, const std::string& hint) {
  const bool wrong = !passes(cell.verdict);
  plot.rect(x, y, width - 2, 18, cell.judged ? style_of(cell.ratio) : "none", hint);
  const std::size_t colour = colour_of(cell.ratio);
  const std::string ratio = cell.judged ? fmt::format("{:.2g}", cell.ratio) : std::string();
  const std::string words = wrong ? std::string(name_of(cell.verdict)) + (cell.judged ? ' ' + ratio : "") : ratio;
  plot.words(x + width / 2 - 1, y + 13, words, cell.judged && colour == 5 ? "dark" : cell.judged ? "on" : "", "middle");
}

Plot matrix_plot(const std::string& device, const Matrix& matrix) {
  constexpr double top = 46, row_height = 20;
  constexpr double least = 190;
  const double left = margin_of(matrix.kernels, least);
  const double width = std::max(96.0, (plot_width - left) / static_cast<double>(matrix.precisions.size()));
  const double whole = left + width * static_cast<double>(matrix.precisions.size());
  const std::string place = device.empty() || device == cpu_executor ? "" : " on " + device;
  Plot plot("matrix",
            text("root mean square of error / sigma, the worst tensor of each kernel", place,
                 "; what does not pass is named"),
            whole, top + row_height * static_cast<double>(matrix.kernels.size()) + 24);
  draw_key(plot, least, 2, 360);
  for (std::size_t c = 0; c < matrix.precisions.size(); ++c)
    plot.words(left + width * (static_cast<double>(c) + 0.5), top - 6, matrix.precisions[c], {}, "middle");
  for (std::size_t r = 0; r < matrix.kernels.size(); ++r) {
    const double y = top + row_height * static_cast<double>(r);
    plot.words(left - 8, y + 13, matrix.kernels[r], {}, "end");
    for (std::size_t c = 0; c < matrix.precisions.size(); ++c) {
      const auto found = matrix.cells.find({matrix.kernels[r], matrix.precisions[c]});
      if (found == matrix.cells.end()) continue;
      const std::string hint = text(matrix.kernels[r], ' ', matrix.precisions[c], ": ", name_of(found->second.verdict));
      draw_cell(plot, found->second, left + width * static_cast<double>(c), y, width, hint);
    }
  }
  return plot;
}

// ---- a tensor ----

/// The tensor as sequences of heads; in each what is across, tokens most often, and what is down.
struct Grid {
  int sequences = 1, heads = 1, columns = 1, rows = 1;
  std::string row_words = {};
  std::size_t at(int s, int h, int r, int c) const {
    return static_cast<std::size_t>(((s * heads + h) * columns + c) * rows + r);
  }
};

Grid grid_of(const std::vector<NamedAxis>& axes) {
  Grid grid{axes[0].extent, axes[1].extent, axes[2].extent};
  for (std::size_t a = 3; a < axes.size(); ++a) grid.rows *= axes[a].extent;
  if (axes.size() > 3) grid.row_words = axes.size() == 4 ? axes[3].many : "their elements";
  return grid;
}

/// Marks below an axis where the tensor is wrong, unless it is everywhere.
void mark_axis(Plot& plot, const std::vector<int>& wrong, int extent, double y) {
  if (wrong.empty() || wrong.size() == static_cast<std::size_t>(extent)) return;
  const double one = 100.0 / extent;
  for (std::size_t i = 0; i < wrong.size();) {
    std::size_t end = i + 1;
    while (end < wrong.size() && wrong[end] == wrong[end - 1] + 1) ++end;
    const double size = std::max(0.3, one * static_cast<double>(end - i));
    plot.rect(std::min(wrong[i] * one, 100 - size), y, size, 4, "wrong");
    i = end;
  }
}

/// Where sequences that lie one after the other begin, or else chunks: of many each second, fourth, ...
std::vector<int> cuts_of(const NamedAxis& axis) {
  if (axis.borders.size() > 2) return axis.borders;
  std::vector<int> cuts;
  if (axis.chunk == 0) return cuts;
  int step = axis.chunk;
  while (axis.extent / 16 > step) step *= 2;
  for (int at = step; at < axis.extent; at += step) cuts.push_back(at);
  return cuts;
}

/// Below the heads of a drawing that stretches: marks where the tensor is wrong, and numbers along the axis.
void draw_across(Plot& plot, const NamedAxis& axis, const std::vector<int>& wrong, double y) {
  mark_axis(plot, wrong, axis.extent, y + 1);
  int step = 1;
  while ((axis.extent - 1) / 8 >= step) step *= 2;
  for (int at = 0; at < axis.extent; at += step) {
    const double x = 100.0 * at / axis.extent;
    plot.line(x, y + 6, x, y + 11, "axis");
    plot.words(x, y + 23, text(at), {}, at == 0 ? "start" : x > 95 ? "end" : "middle");
  }
  plot.words(50, y + 38, axis.many, {}, "middle");
}

/// The largest errors of blocks of elements, as colours, row by row of so many columns.
std::vector<std::size_t> colours_of(const Errors& errors, const Grid& grid, int s, int h, int rows, int columns) {
  std::vector<std::size_t> colours;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      double worst = 0;
      for (int i = r * grid.rows / rows; i < (r + 1) * grid.rows / rows; ++i)
        for (int j = c * grid.columns / columns; j < (c + 1) * grid.columns / columns; ++j)
          worst = std::max(worst, errors.deviations.z[grid.at(s, h, i, j)]);
      colours.push_back(colour_of(worst));
    }
  return colours;
}

std::string wrong_words(const Errors& errors) {
  std::string words;
  for (std::size_t a = 0; a < errors.axes.size(); ++a)
    if (errors.axes[a].extent > 1 && errors.wrong[a].size() < static_cast<std::size_t>(errors.axes[a].extent))
      words += (words.empty() ? "" : ", ") + describe(errors.axes[a], errors.wrong[a]);
  return words.empty() ? "wrong everywhere" : "wrong: " + words;
}

/// Heads, the worst first.
std::vector<std::pair<int, int>> worst_heads(const Errors& errors, const Grid& grid) {
  std::vector<std::pair<double, std::pair<int, int>>> heads;
  for (int s = 0; s < grid.sequences; ++s)
    for (int h = 0; h < grid.heads; ++h) {
      const auto begin = errors.deviations.failing.begin() + static_cast<std::ptrdiff_t>(grid.at(s, h, 0, 0));
      heads.push_back({-std::accumulate(begin, begin + grid.columns * grid.rows, 0.0), {s, h}});
    }
  std::stable_sort(heads.begin(), heads.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::pair<int, int>> found;
  for (const auto& [count, head] : heads) found.push_back(head);
  return found;
}

/// The title of the drawing of a tensor's errors: its contents, and where the tensor is wrong.
std::string heat_title(const ReportRow& row, const Grid& grid, std::size_t heads) {
  const NamedAxis& across = row.errors->axes[2];
  const std::vector<int> cuts = cuts_of(across);
  std::string title = text(row.tensor, ": |error| / sigma over ", across.many, " (across)");
  if (!grid.row_words.empty()) title += " and " + grid.row_words + " (down)";
  const int all = grid.sequences * grid.heads;
  title += static_cast<int>(heads) == all ? ", head by head" : text(", the worst ", heads, " of ", all, " heads");
  if (!cuts.empty())
    title += across.borders.size() > 2 ? ", a line where a sequence begins"
                                       : text(", a line every ", cuts.front(), ' ', across.many);
  return title + "; " + wrong_words(*row.errors);
}

Plot heat_map(const ReportRow& row, const Errors& errors, const Grid& grid) {
  constexpr std::size_t shown = 6;
  constexpr double label = 18, gap = 4;
  std::vector<std::pair<int, int>> heads = worst_heads(errors, grid);
  heads.resize(std::min(heads.size(), shown));
  std::sort(heads.begin(), heads.end());
  const int rows = std::min(grid.rows, 16), columns = std::min(grid.columns, 128);
  const double height = grid.rows == 1 ? 24 : 64, bottom = (label + height + gap) * static_cast<double>(heads.size());
  Plot plot("heat", heat_title(row, grid, heads.size()), plot_width, bottom + 74, true);
  const auto is_wrong = [&](std::size_t axis, int i) {
    return std::binary_search(errors.wrong[axis].begin(), errors.wrong[axis].end(), i);
  };
  double y = 0;
  for (const auto& [s, h] : heads) {
    const std::string name = grid.sequences > 1 ? text(errors.axes[0].one, ' ', s, ", head ", h) : text("head ", h);
    plot.words(0, y + 13, name, is_wrong(0, s) && is_wrong(1, h) ? "bad" : "");
    plot.cells(y + label, height, static_cast<std::size_t>(columns), colours_of(errors, grid, s, h, rows, columns),
               name);
    for (const int cut : cuts_of(errors.axes[2])) {
      const double x = 100.0 * cut / grid.columns;
      plot.line(x, y + label - 2, x, y + label + height + 2, "axis");
    }
    y += label + height + gap;
  }
  draw_across(plot, errors.axes[2], errors.wrong[2], bottom);
  draw_key(plot, 0, bottom + 46, 60);
  return plot;
}

/// How many elements have each |error| / sigma, and how many of a correct kernel's would: a half of a normal curve.
Plot histogram(const ReportRow& row, const Errors& errors) {
  constexpr int bins = 32;
  constexpr double furthest = 8;
  std::array<double, bins + 1> counts{};
  for (const double z : errors.deviations.z)
    counts[z < furthest ? static_cast<std::size_t>(z / furthest * bins) : bins] += 1;
  const double total = static_cast<double>(errors.deviations.z.size());
  Plot plot("histogram",
            text(row.tensor, ": how many elements have which |error| / sigma, beside a correct kernel's (line); ",
                 counts[bins], " of ", total, " beyond ", furthest),
            plot_width, 240);
  const Scale x{0, furthest * (bins + 1) / bins, 60, plot_width - 24};
  const Scale y{0.5, std::max(2 * total, 2.0), 195, 22, true};
  draw_axes(plot, x, y, "|error| / sigma; the last bar is all beyond", "elements");
  for (std::size_t i = 0; i <= bins; ++i) {
    const double from = furthest * static_cast<double>(i) / bins, next = furthest * static_cast<double>(i + 1) / bins;
    if (counts[i] > 0)
      plot.rect(x.at(from), y.at(counts[i]), x.at(next) - x.at(from) - 1, y.first - y.at(counts[i]),
                i == bins ? "wrong" : "bar", text(counts[i], " elements"));
  }
  std::vector<std::pair<double, double>> normal;
  for (int tenth = 0; tenth < 10 * furthest; ++tenth) {
    const double z = 0.1 * tenth, share = std::sqrt(2 / 3.14159265358979324) * std::exp(-z * z / 2),
                 count = total * share * furthest / bins;
    if (count > y.low) normal.emplace_back(x.at(z), y.at(count));
  }
  plot.curve(normal, "law");
  plot.line(x.at(element_sigmas), y.first, x.at(element_sigmas), y.last, "limit");
  return plot;
}

/// The root mean square of error / sigma along the tokens.
Plot along_tokens(const ReportRow& row, const Errors& errors, const Grid& grid, std::size_t axis) {
  const int extent = errors.axes[axis].extent;
  std::vector<double> squares(static_cast<std::size_t>(extent)), counts(squares.size());
  for (std::size_t i = 0; i < errors.deviations.z.size(); ++i) {
    const auto t = (i / static_cast<std::size_t>(grid.rows)) % squares.size();
    const double z = std::min(errors.deviations.z[i], 1e12);
    squares[t] += z * z, counts[t] += 1;
  }
  double high = 2 * element_sigmas, low = 0.1;
  for (std::size_t t = 0; t < squares.size(); ++t) high = std::max(high, 1.5 * std::sqrt(squares[t] / counts[t]));
  Plot plot("along", text(row.tensor, ": root mean square of error / sigma along the ", errors.axes[axis].many),
            plot_width, 240);
  const Scale x{0, static_cast<double>(extent - 1), 60, plot_width - 24}, y{low, high, 195, 22, true};
  draw_axes(plot, x, y, errors.axes[axis].many, "error / sigma");
  std::vector<std::pair<double, double>> points;
  for (std::size_t t = 0; t < squares.size(); ++t)
    points.emplace_back(x.at(static_cast<double>(t)), y.at(std::max(low, std::sqrt(squares[t] / counts[t]))));
  plot.line(x.first, y.at(1), x.last, y.at(1), "limit");
  plot.curve(points, "curve");
  return plot;
}

}  // namespace

std::vector<Plot> matrix_plots(const std::vector<ReportRow>& rows) {
  std::vector<std::string> devices;
  std::map<std::string, Matrix> matrices;
  for (const ReportRow& row : rows) {
    add_once(devices, row.device);
    Matrix& matrix = matrices[row.device];
    const std::string kernel = row.form.empty() ? row.mechanism : row.mechanism + ' ' + row.form;
    add_once(matrix.kernels, kernel), add_once(matrix.precisions, row.precision);
    Shade& cell = matrix.cells[{kernel, row.precision}];
    cell.verdict = worse_of(cell.verdict, row.judgement.verdict);
    if (row.judged()) cell.judged = true, cell.ratio = std::max(cell.ratio, row.judgement.rms_z);
  }
  std::vector<Plot> plots;
  for (const std::string& device : devices) plots.push_back(matrix_plot(device, matrices[device]));
  return plots;
}

std::vector<Plot> tensor_plots(const ReportRow& row) {
  if (row.errors == nullptr || row.errors->axes.size() < 3 || row.errors->wrong.size() != row.errors->axes.size())
    return {};
  const Errors& errors = *row.errors;
  const Grid grid = grid_of(errors.axes);
  std::vector<Plot> plots = {heat_map(row, errors, grid), histogram(row, errors)};
  const std::string& axis = errors.axes[2].one;
  if ((axis == "token" || axis == "query") && errors.axes[2].extent > 1)
    plots.push_back(along_tokens(row, errors, grid, 2));
  return plots;
}

std::vector<Plot> plots_of(const std::vector<ReportRow>& rows) {
  std::vector<Plot> plots = matrix_plots(rows);
  for (const ReportRow& row : rows)
    for (Plot& plot : tensor_plots(row)) plots.push_back(std::move(plot));
  return plots;
}

}  // namespace assay
