#include "judge/verdict/slices.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>

#include "reference/core/error.hpp"

namespace assay {
namespace {

/// Where the slices of every axis begin in the list of all; the whole tensor is the first.
struct Offsets {
  std::size_t head = 0, chunk = 0, position = 0, column = 0, count = 1;

  explicit Offsets(const Layout& n) {
    const auto add = [this](std::size_t& first, int indices) {
      if (indices < 2) return;
      first = count, count += static_cast<std::size_t>(indices);
    };
    add(head, n.heads);
    if (n.rows > slice_chunk) {
      add(chunk, (n.rows + slice_chunk - 1) / slice_chunk);
      add(position, slice_chunk);
    }
    add(column, n.cols);
  }
};

std::vector<double> distances(const std::vector<double>& run, const ExactRun& exact) {
  std::vector<double> apart(run.size());
  for (std::size_t i = 0; i < run.size(); ++i) apart[i] = exact.distance(run[i], i);
  return apart;
}

}  // namespace

std::string Slice::name() const {
  switch (axis) {
    case Axis::head:
      return text("head ", index);
    case Axis::chunk:
      return text("rows ", index * slice_chunk, " to ", (index + 1) * slice_chunk - 1);
    case Axis::position:
      return text("position ", index, " of every chunk of ", slice_chunk);
    case Axis::column:
      return text("column ", index);
    case Axis::tensor:
      break;
  }
  return "the whole tensor";
}

std::vector<Slice> slices_of(const Layout& n) {
  const Offsets at(n);
  std::vector<Slice> slices(at.count, {Slice::Axis::tensor, 0});
  const auto name = [&](std::size_t first, Slice::Axis axis, int indices) {
    for (int i = 0; first > 0 && i < indices; ++i) slices[first + static_cast<std::size_t>(i)] = {axis, i};
  };
  name(at.head, Slice::Axis::head, n.heads);
  name(at.chunk, Slice::Axis::chunk, (n.rows + slice_chunk - 1) / slice_chunk);
  name(at.position, Slice::Axis::position, slice_chunk);
  name(at.column, Slice::Axis::column, n.cols);
  return slices;
}

std::vector<double> slice_sums(const Layout& n, const std::vector<double>& weight, const std::vector<double>& error) {
  const Offsets at(n);
  std::vector<double> sums(at.count);
  const auto H = static_cast<std::size_t>(n.heads), R = static_cast<std::size_t>(n.rows),
             C = static_cast<std::size_t>(n.cols);
  std::size_t i = 0;
  for (std::size_t h = 0; h < H; ++h)
    for (std::size_t r = 0; r < R; ++r) {
      double row = 0;
      for (std::size_t c = 0; c < C; ++c, ++i) {
        if (weight[i] == 0) continue;
        const double x = weight[i] * error[i];
        row += x;
        if (at.column > 0) sums[at.column + c] += x;
      }
      sums[0] += row;
      if (at.head > 0) sums[at.head + h] += row;
      if (at.chunk > 0) sums[at.chunk + r / slice_chunk] += row;
      if (at.position > 0) sums[at.position + r % slice_chunk] += row;
    }
  return sums;
}

std::vector<SliceSum> expected_sums(const std::vector<std::vector<double>>& draws, const ExactRun& exact,
                                    const std::vector<std::vector<double>>& witnesses, const Layout& layout,
                                    const std::vector<double>& weight, const std::vector<double>& undrawn,
                                    double false_alarm_rate) {
  const std::vector<Slice> slices = slices_of(layout);
  std::vector<double> independent(weight.size());
  for (std::size_t i = 0; i < weight.size(); ++i) independent[i] = undrawn[i] * weight[i];
  const std::vector<double> rest = slice_sums(layout, weight, independent);
  std::vector<std::vector<double>> drawn;
  drawn.reserve(draws.size());
  for (const auto& draw : draws) drawn.push_back(slice_sums(layout, weight, distances(draw, exact)));
  std::vector<double> kept(slices.size());
  for (const auto& witness : witnesses) {
    const std::vector<double> leaning = slice_sums(layout, weight, distances(witness, exact));
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = std::max(kept[i], std::fabs(leaning[i]));
  }

  // Two-sided, shared out among the slices.
  const double each = false_alarm_rate / (2 * static_cast<double>(slices.size()));
  const double sigmas = quantile(complement(boost::math::normal_distribution<double>(), each));
  std::vector<SliceSum> sums;
  sums.reserve(slices.size());
  // The sums along one axis are a vector like any other: neighbours have similar spreads.
  for (std::size_t first = 0, end = 0; first < slices.size(); first = end) {
    while (end < slices.size() && slices[end].axis == slices[first].axis) ++end;
    const auto part = [&](const std::vector<double>& all) {
      return std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(first),
                                 all.begin() + static_cast<std::ptrdiff_t>(end));
    };
    std::vector<std::vector<double>> samples;
    samples.reserve(drawn.size());
    for (const auto& all : drawn) samples.push_back(part(all));
    const Layout vector{1, static_cast<int>(end - first), 1};
    const std::vector<double> zeros(end - first);
    const std::vector<double> off = part(kept);
    Spread spread = spread_of(samples, zeros, vector, Format::fp64);
    bool leans = false;
    for (std::size_t i = first; i < end; ++i) {
      const double inner = spread.sigma[i - first] * spread.sigma[i - first], total = inner + rest[i];
      const double freedom =
          inner > 0 ? spread.freedom[i - first] * (total / inner) * (total / inner) : spread.freedom[i - first];
      const SliceSum sum{slices[i], std::sqrt(total), equivalent_sigmas(sigmas, freedom)};
      leans = leans || off[i - first] > sum.reach * sum.sigma;
      sums.push_back(sum);
    }
    // What a witness does is no fault: roundings that agree with each other lean together, and where
    // other numbers agree, so do those of a slice next to it.
    for (std::size_t i = first; leans && i < end; ++i) {
      SliceSum& sum = sums[i];
      const double by = sum.sigma > 0 || off[i - first] > 0 ? with_neighbours(off, vector, i - first) : 0;
      sum.widened = by > sum.sigma, sum.sigma = std::max(sum.sigma, by);
    }
  }
  return sums;
}

}  // namespace assay
