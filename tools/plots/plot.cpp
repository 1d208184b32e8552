#include "tools/plots/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "tools/print/escape.hpp"

namespace assay {
namespace {

std::string number(double x) {
  std::string digits = fmt::format("{:.1f}", x);
  if (digits.ends_with(".0")) digits.resize(digits.size() - 2);
  return digits == "-0" ? "0" : digits;
}

/// Words in lines of a drawing's width.
std::vector<std::string> lines_of(const std::string& words) {
  constexpr std::size_t longest = 95;
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < words.size();) {
    std::size_t end = std::min(words.size(), at + longest);
    if (end < words.size())
      end = words.rfind(' ', end) > at && words.rfind(' ', end) != std::string::npos ? words.rfind(' ', end) : end;
    lines.push_back(words.substr(at, end - at));
    at = end + (end < words.size() && words[end] == ' ' ? 1 : 0);
  }
  return lines;
}

/// The rules of plot_style with the light colours in place of their names, and without those for dark pages.
std::string light_style() {
  std::string style;
  std::map<std::string, std::string, std::less<>> colours;
  for (std::size_t at = 0; at < plot_style.size();) {
    const std::size_t end = plot_style.find("@media", at), open = plot_style.find('{', end);
    style += plot_style.substr(at, end - at);
    int depth = 0;
    for (at = open; end != plot_style.npos; ++at) {
      depth += plot_style[at] == '{' ? 1 : plot_style[at] == '}' ? -1 : 0;
      if (depth == 0) break;
    }
    at = end == plot_style.npos ? end : at + 1;
  }
  for (std::size_t at = style.find("--"); at < style.find('}'); at = style.find("--", at + 2)) {
    const std::size_t colon = style.find(':', at), end = style.find(';', colon);
    colours[style.substr(at, colon - at)] = style.substr(colon + 2, end - colon - 2);
  }
  for (const auto& [name, colour] : colours)
    for (std::size_t at = 0; (at = style.find("var(" + name + ")", at)) != style.npos;)
      style.replace(at, name.size() + 5, colour);
  return style;
}

std::string classed(std::string_view style) { return style.empty() ? "" : fmt::format(" class=\"{}\"", style); }

}  // namespace

const std::string_view plot_style =
    "svg { --ink: #222; --faint: #bbb; --paper: #fff; --bad: #b00020; --mark: #d55e00;\n"
    "  --p3: #1b7837; --p4: #7b3294;"
    "  --h0: #eef3f8; --h1: #c6dbef; --h2: #6baed6; --h3: #fdae6b; --h4: #e6550d; --h5: #7f0000;\n"
    "  font: 12px sans-serif; }\n"
    "@media (prefers-color-scheme: dark) { svg { --ink: #e8e8e8; --faint: #555; --paper: #16181c; --bad: #ff8a80;\n"
    "  --p3: #7fcf95; --p4: #c9a0dc; --mark: #ffb74d; --h0: #20262d; --h1: #2b4a66; --h2: #4a90c2; --h3: #94521a; "
    "--h4: #cc5c14; --h5: #ffd0b0; } }\n"
    "svg .paper { fill: var(--paper); } svg text { fill: var(--ink); } svg .bad { fill: var(--bad); font-weight: bold; "
    "}\n"
    "svg .axis { stroke: var(--ink); } svg .grid { stroke: var(--faint); stroke-width: 0.5; }\n"
    "svg .curve { stroke: var(--h2); stroke-width: 2; fill: none; } svg .law { stroke: var(--ink); fill: none; }\n"
    "svg .limit { stroke: var(--mark); stroke-dasharray: 5 3; } svg .interval { stroke: var(--mark); stroke-width: 4; "
    "}\n"
    "svg .c0, svg .c1, svg .c2, svg .c3, svg .c4, svg .c5 { stroke-width: 2; fill: none; }\n"
    "svg .c0 { stroke: var(--ink); stroke-dasharray: 6 3; } svg .c1 { stroke: var(--h2); } svg .c2 { stroke: "
    "var(--mark); }"
    "\nsvg .c3 { stroke: var(--p3); } svg .c4 { stroke: var(--p4); } svg .c5 { stroke: var(--bad); }\n"
    "svg .bar { fill: var(--h2); } svg .wrong { fill: var(--bad); } svg .none { fill: var(--faint); }\n"
    "svg .h0 { fill: var(--h0); } svg .h1 { fill: var(--h1); } svg .h2 { fill: var(--h2); }\n"
    "svg .h3 { fill: var(--h3); } svg .h4 { fill: var(--h4); } svg .h5 { fill: var(--h5); }\n"
    "svg text.on { fill: #111; } svg text.dark { fill: #fff; }\n"
    "@media (prefers-color-scheme: dark) { svg text.on { fill: #fff; } svg text.dark { fill: #111; } }\n";

Plot::Plot(std::string kind, std::string title, double width, double height, bool stretches)
    : kind_(std::move(kind)), title_(std::move(title)), width_(width), height_(height), stretches_(stretches) {}

std::string Plot::across(double x) const { return stretches_ ? fmt::format("{:.2f}%", x) : number(x); }

void Plot::rect(double x, double y, double width, double height, std::string_view style, std::string_view hint) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}", across(x), number(y), across(width),
                       number(height), classed(style));
  body_ += hint.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", xml(hint));
}

void Plot::line(double x1, double y1, double x2, double y2, std::string_view style) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", across(x1), number(y1), across(x2),
                       number(y2), classed(style));
}

void Plot::curve(const std::vector<std::pair<double, double>>& points, std::string_view style) {
  if (points.empty()) return;
  std::string list;
  for (const auto& [x, y] : points) list += (list.empty() ? "" : " ") + number(x) + ',' + number(y);
  body_ += fmt::format("<polyline points=\"{}\"{}/>\n", list, classed(style));
}

void Plot::cells(double y, double height, std::size_t columns, const std::vector<std::size_t>& colours,
                 std::string_view hint) {
  const std::size_t rows = colours.size() / columns;
  std::map<std::size_t, std::string> paths = {{0, fmt::format("M0 0h{}v{}h-{}z", columns, rows, columns)}};
  for (std::size_t i = 0; i < colours.size();) {
    std::size_t end = i + 1;
    while (end % columns != 0 && colours[end] == colours[i]) ++end;
    if (colours[i] > 0)  // the others lie on a ground of h0
      paths[colours[i]] += fmt::format("M{} {}h{}v1h-{}z", i % columns, i / columns, end - i, end - i);
    i = end;
  }
  body_ += fmt::format(
      "<svg y=\"{}\" width=\"100%\" height=\"{}\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" "
      "shape-rendering=\"crispEdges\">\n<title>{}</title>\n",
      number(y), number(height), columns, rows, xml(hint));
  for (const auto& [colour, path] : paths) body_ += fmt::format("<path class=\"h{}\" d=\"{}\"/>\n", colour, path);
  body_ += "</svg>\n";
}

void Plot::words(double x, double y, std::string_view text, std::string_view style, std::string_view anchor) {
  body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}", across(x), number(y), classed(style));
  if (anchor != "start") body_ += fmt::format(" text-anchor=\"{}\"", anchor);
  body_ += '>' + xml(text) + "</text>\n";
}

std::string Plot::in_page() const {
  // One that does not stretch is at most as wide as the page, but never so small that words of 12 pixels are below 10:
  // what is wider is scrolled. A reader without a pointer comes to it with the keyboard, and hears its title.
  const std::string size =
      stretches_ ? fmt::format("width=\"100%\" height=\"{}\"", number(height_))
                 : fmt::format("viewBox=\"0 0 {} {}\" width=\"{}\" style=\"min-width:{}px\"", number(width_),
                               number(height_), number(width_), number(std::ceil(width_ * 10 / 12)));
  return fmt::format(
      "<figure class=\"plot\"><svg class=\"{}\" role=\"img\" tabindex=\"0\" {}>\n<title>{}</title>\n{}</svg>\n"
      "<figcaption>{}</figcaption></figure>\n",
      kind_, size, xml(title_), body_, xml(title_));
}

std::string Plot::at(double y) const {
  return fmt::format("<svg class=\"{}\" x=\"0\" y=\"{}\" width=\"{}\" height=\"{}\">\n<title>{}</title>\n{}</svg>\n",
                     kind_, number(y), number(width_), number(height_), xml(title_), body_);
}

double margin_of(const std::vector<std::string>& words, double least) {
  constexpr double letter = 7.6, beside = 16;  // most letters of the widest of common fonts, at 12 pixels
  for (const std::string& one : words) least = std::max(least, beside + letter * static_cast<double>(one.size()));
  return least;
}

std::string svg_file(const std::vector<Plot>& plots, bool light) {
  constexpr double line = 18;
  double width = 0, height = 0;
  std::string body;
  for (const Plot& plot : plots) {
    width = std::max(width, plot.width());
    for (const std::string& words : lines_of(plot.title())) {
      height += line;
      body += fmt::format("<text x=\"4\" y=\"{}\">{}</text>\n", number(height - 6), xml(words));
    }
    body += plot.at(height), height += plot.height();
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n<style>\n{2}"
      "</style>\n<rect class=\"paper\" width=\"{0}\" height=\"{1}\"/>\n{3}</svg>\n",
      number(width), number(height), light ? light_style() : plot_style, body);
}

double Scale::at(double x) const {
  const auto map = [&](double value) { return logarithmic ? std::log10(value) : value; };
  const double share = (map(x) - map(low)) / (map(high) - map(low));
  return first + std::clamp(share, 0.0, 1.0) * (last - first);
}

std::vector<double> Scale::marks() const {
  std::vector<double> found;
  if (logarithmic) {
    const int from = static_cast<int>(std::ceil(std::log10(low) - 1e-9));
    const int to = static_cast<int>(std::floor(std::log10(high) + 1e-9)), step = std::max(1, (to - from) / 6);
    for (int power = from; power <= to; power += step) found.push_back(std::pow(10.0, power));
    return found;
  }
  double step = std::pow(10.0, std::floor(std::log10((high - low) / 5)));
  for (const double factor : {2.0, 2.5, 2.0})
    if ((high - low) / step > 5) step *= factor;
  const double first = std::ceil(low / step);
  for (int i = 0; (first + i) * step <= high * (1 + 1e-12); ++i) found.push_back((first + i) * step);
  return found;
}

void draw_axes(Plot& plot, const Scale& x, const Scale& y, std::string_view x_words, std::string_view y_words) {
  for (const double mark : y.marks()) {
    plot.line(x.first, y.at(mark), x.last, y.at(mark), "grid");
    plot.words(x.first - 5, y.at(mark) + 4, fmt::format("{:.4g}", mark), {}, "end");
  }
  for (const double mark : x.marks()) {
    plot.line(x.at(mark), y.first, x.at(mark), y.first + 4, "axis");
    plot.words(x.at(mark), y.first + 17, fmt::format("{:.4g}", mark), {}, "middle");
  }
  plot.line(x.first, y.first, x.last, y.first, "axis"), plot.line(x.first, y.first, x.first, y.last, "axis");
  plot.words((x.first + x.last) / 2, y.first + 33, x_words, {}, "middle");
  plot.words(4, y.last - 8, y_words);
}

}  // namespace assay
