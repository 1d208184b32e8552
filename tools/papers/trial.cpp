#include "tools/papers/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/core/kernel_room.hpp"
#include "oracles/core/oracle.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay::trial {

Array filled(int rows, int columns, const std::function<double(int row, int column)>& number) {
  Array array({1, rows, columns});
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) array.data[static_cast<std::size_t>(i * columns + j)] = number(i, j);
  return array;
}

Array filled(int rows, double number) {
  return {{1, rows}, std::vector<double>(static_cast<std::size_t>(rows), number)};
}

Array drawn_rows(std::uint64_t seed, std::string_view name, int tokens, int dims, double length, Format format) {
  const Stream stream(seed, name);
  const auto drawn = [&](int i, int j) { return stream.normal(static_cast<std::uint64_t>(i * dims + j)); };
  return filled(tokens, dims, [&](int i, int j) {
    double squares = 0;
    for (int x = 0; x < dims; ++x) squares += drawn(i, x) * drawn(i, x);
    return round_to(length > 0 ? length * drawn(i, j) / std::sqrt(squares) : drawn(i, j), format);
  });
}

std::vector<double> exact(const Problem& problem, std::string_view tensor) {
  const BasicAnswer<HiLo> answer = find_room(problem.mechanism)->values(problem, Tier::fp64);
  return nearest_doubles(answer.outputs.find(tensor)->second.data);
}

std::vector<double> emulated(const Problem& problem, std::string_view form, Format precision, std::string_view tensor,
                             int threads) {
  const KernelRoom* kernels = find_kernels(kernel_rooms(), problem.mechanism);
  for (const KernelForm& one : kernels->forms)
    if (one.name == form) {
      Policy policy = Policy::of(one.sites, precision);
      policy.threads = threads;
      return one.run(problem, policy, 0).outputs.find(tensor)->second.data;
    }
  throw std::logic_error(text(problem.mechanism, " has no form ", form));
}

double norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double x : values) squares += x * x;
  return std::sqrt(squares);
}

double relative_error(const std::vector<double>& got, const std::vector<double>& truth) {
  std::vector<double> errors(got.size());
  std::transform(got.begin(), got.end(), truth.begin(), errors.begin(), std::minus<>());
  return norm(errors) / norm(truth);
}

std::string shown(double x) { return std::isfinite(x) ? fmt::format("{:.3g}", x) : "not finite"; }

Plot curves(const std::string& title, std::string_view x_words, std::string_view y_words,
            const std::vector<Curve>& curves, bool powers_along_x) {
  constexpr double width = 680, right = 470;
  Plot plot("paper", title, width, 300);
  std::vector<double> xs, ys;
  for (const Curve& curve : curves)
    for (const auto& [x, y] : curve.points)
      if (std::isfinite(y) && y > 0) xs.push_back(x), ys.push_back(y);
  if (xs.empty()) return plot;
  const auto power = [](double x, double (*to)(double)) { return std::pow(10.0, to(std::log10(x))); };
  const double from = power(*std::min_element(ys.begin(), ys.end()), std::floor),
               to = power(*std::max_element(ys.begin(), ys.end()), std::ceil);
  const double first = *std::min_element(xs.begin(), xs.end()), last = *std::max_element(xs.begin(), xs.end());
  const Scale x = {first, last, 70, right, powers_along_x}, y = {from, std::max(to, 10 * from), 255, 24, true};
  draw_axes(plot, x, y, x_words, y_words);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::string style = fmt::format("c{}", i % 6);
    std::vector<std::pair<double, double>> points;
    for (const auto& [at, value] : curves[i].points)
      if (std::isfinite(value) && value > 0) points.emplace_back(x.at(at), y.at(value));
    plot.curve(points, style);
    if (points.size() == 1)
      plot.line(points[0].first - 4, points[0].second, points[0].first + 4, points[0].second, style);
    const double height = 36 + 20 * static_cast<double>(i);
    plot.line(right + 12, height, right + 32, height, style);
    plot.words(right + 38, height + 4, curves[i].name);
  }
  return plot;
}

}  // namespace assay::trial
