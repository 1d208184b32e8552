#pragma once
// Drawings in SVG: of rectangles, lines and words, coloured by the classes of plot_style, which knows light and dark.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay {

/// One drawing. Coordinates are in pixels from the upper left corner; numbers are printed with one digit. In a drawing
/// that stretches, places and sizes across are per cent of the page's width, and words keep their size.
class Plot {
 public:
  /// `title` is what a reader hears who sees nothing, `kind` the class of the element.
  Plot(std::string kind, std::string title, double width, double height, bool stretches = false);

  void rect(double x, double y, double width, double height, std::string_view style, std::string_view hint = {});
  void line(double x1, double y1, double x2, double y2, std::string_view style);
  void curve(const std::vector<std::pair<double, double>>& points, std::string_view style);
  /// Draws cells over all the width of a drawing that stretches, without gaps, `columns` in a row, of the colours h0 to
  /// h5; `hint` says what they are.
  void cells(double y, double height, std::size_t columns, const std::vector<std::size_t>& colours,
             std::string_view hint);
  /// `anchor`: start, middle or end.
  void words(double x, double y, std::string_view text, std::string_view style = {}, std::string_view anchor = "start");

  const std::string& title() const { return title_; }
  double width() const { return width_; }
  double height() const { return height_; }
  /// In a page of HTML.
  std::string in_page() const;
  /// In another drawing, at that height.
  std::string at(double y) const;

 private:
  std::string across(double x) const;

  std::string kind_, title_, body_;
  double width_, height_;
  bool stretches_;
};

/// How wide the margin is that holds such words, in the letters of drawings: at least `least`.
double margin_of(const std::vector<std::string>& words, double least);

/// The colours of drawings, as rules of CSS: by what a reader's system prefers.
extern const std::string_view plot_style;
/// A file of its own, one below the other. `light`: in those colours alone, for programs that know no variables.
std::string svg_file(const std::vector<Plot>& plots, bool light = false);

/// An axis of a drawing: from `low` to `high` in the data, from `first` to `last` in pixels.
struct Scale {
  double low, high, first, last;
  bool logarithmic = false;

  double at(double x) const;
  /// Marks of people's numbers: powers of ten where it is logarithmic, else five round steps at most.
  std::vector<double> marks() const;
};
/// Marks and lines of both axes, and what they are.
void draw_axes(Plot& plot, const Scale& x, const Scale& y, std::string_view x_words, std::string_view y_words);

}  // namespace assay
