#pragma once
// Common parts of the papers' tables: inputs drawn by hand, a mechanism's answer, a kernel's, and how far one is
// from the other.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/core/format.hpp"
#include "reference/core/problem.hpp"
#include "tools/plots/plot.hpp"

namespace assay::trial {

using Cells = std::vector<std::string>;

/// [1][rows][columns] of numbers by place; without columns [1][rows].
Array filled(int rows, int columns, const std::function<double(int row, int column)>& number);
Array filled(int rows, double number);

/// Rows of numbers N(0, 1) in that format; of that length, if it is not 0.
Array drawn_rows(std::uint64_t seed, std::string_view name, int tokens, int dims, double length, Format format);

/// The mechanism's answer, in doubles.
std::vector<double> exact(const Problem& problem, std::string_view tensor);
/// The answer of the kernel of that form under a precision's contract, in its first tile.
std::vector<double> emulated(const Problem& problem, std::string_view form, Format precision, std::string_view tensor,
                             int threads);

/// |got - truth| / |truth|, Frobenius norms.
double relative_error(const std::vector<double>& got, const std::vector<double>& truth);
double norm(const std::vector<double>& values);

/// "0.0123", "1.2e-05", "not finite".
std::string shown(double x);

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< those that are not finite and positive are left out
};
/// Curves over logarithmic axes, at most six, with their names.
Plot curves(const std::string& title, std::string_view x_words, std::string_view y_words,
            const std::vector<Curve>& curves, bool powers_along_x = true);

}  // namespace assay::trial
