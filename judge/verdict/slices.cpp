#include "judge/verdict/slices.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>

#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

bool are_of_one_axis(const Slice& a, const Slice& b) { return a.axis == b.axis && a.of == b.of; }

/// What all slices sum up to. Where all are judged, in units of what it would be if errors were independent: so sums
/// along an axis are alike.
struct Drawn {
  std::vector<std::vector<double>> sums;  ///< of every draw
  std::vector<double> rest;               ///< the variance that no draw has
  std::vector<double> kept;               ///< of the witness that leans most
  std::vector<double> unit;
};

Drawn drawn_sums(const Runs& draws, const ExactRun& exact, const std::vector<std::vector<double>>& witnesses,
                 const Layout& layout, const std::vector<double>& weight, const Spread& spread, JudgedSlices which,
                 int threads) {
  Drawn in{.sums = std::vector<std::vector<double>>(draws.size()), .rest = {}, .kept = {}, .unit = {}};
  const auto sum_up = [&](const auto& of) {
    return slice_sums<1>(layout, weight.size(), 1,
                         [&](std::size_t i) { return std::array{weight[i] == 0 ? 0 : weight[i] * of(i)}; })[0];
  };
  const auto leaning_of = [&](std::span<const double> run) {
    return sum_up([&](std::size_t i) { return exact.distance(run[i], i); });
  };
  const auto variance = [&](std::size_t i) { return spread.sigma[i] * spread.sigma[i]; };
  words::in_parallel(draws.size() + 2, threads, [&](std::size_t k) {
    if (k == draws.size())
      in.rest = sum_up([&](std::size_t i) { return weight[i] * std::max(0.0, variance(i) - spread.drawn[i]); });
    else if (k > draws.size())
      in.unit = sum_up([&](std::size_t i) { return weight[i] * variance(i); });
    else
      in.sums[k] = leaning_of(draws[k]);
  });
  in.kept.resize(in.rest.size());
  for (const auto& witness : witnesses) {
    const std::vector<double> leaning = leaning_of(witness);
    for (std::size_t i = 0; i < leaning.size(); ++i) in.kept[i] = std::max(in.kept[i], std::fabs(leaning[i]));
  }
  for (std::size_t i = 0; i < in.unit.size(); ++i) {
    double& unit = in.unit[i];
    unit = unit > 0 && which == JudgedSlices::all ? std::sqrt(unit) : 1;
    in.kept[i] /= unit, in.rest[i] /= unit * unit;
    for (auto& sums : in.sums) sums[i] /= unit;
  }
  return in;
}

}  // namespace

SliceOffsets::SliceOffsets(const Layout& n) {
  const auto add = [this](std::size_t& first, int indices) {
    if (indices < 2) return;
    first = count, count += static_cast<std::size_t>(indices);
  };
  add(head, n.heads);
  if (n.rows > slice_chunk) add(chunk, (n.rows + slice_chunk - 1) / slice_chunk);
  if (n.rows > slice_chunk) add(position.back(), slice_chunk);
  add(column, n.cols);
  coarse = count;
  for (std::size_t p = 0; p + 1 < slice_periods.size(); ++p)
    if (n.rows > slice_periods[p]) add(position[p], slice_periods[p]);
  if (n.heads > 1) add(row, n.rows);
  if (n.cols > 1 && n.rows > 1) add(row_of_head, n.heads * n.rows);
}

std::vector<double> slice_sums(const Layout& layout, const std::vector<double>& rows,
                               const std::vector<std::vector<double>>& columns) {
  const SliceOffsets at(layout);
  std::vector<double> sums(at.count);
  const auto R = static_cast<std::size_t>(layout.rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t h = i / R, r = i % R;
    sums[0] += rows[i];
    if (at.head > 0) sums[at.head + h] += rows[i];
    if (at.chunk > 0) sums[at.chunk + r / slice_chunk] += rows[i];
    for (std::size_t p = 0; p < slice_periods.size(); ++p)
      if (at.position[p] > 0) sums[at.position[p] + r % static_cast<std::size_t>(slice_periods[p])] += rows[i];
    if (at.row > 0) sums[at.row + r] += rows[i];
    if (at.row_of_head > 0) sums[at.row_of_head + i] = rows[i];
  }
  for (const std::vector<double>& block : columns)
    for (std::size_t c = 0; at.column > 0 && c < block.size(); ++c) sums[at.column + c] += block[c];
  return sums;
}

std::string Slice::name() const {
  switch (axis) {
    case Axis::head:
      return text("head ", index);
    case Axis::chunk:
      return text("rows ", index * slice_chunk, " to ", (index + 1) * slice_chunk - 1);
    case Axis::position:
      return text("position ", index, " of every chunk of ", of);
    case Axis::column:
      return text("column ", index);
    case Axis::row:
      return text("row ", index);
    case Axis::row_of_head:
      return text("row ", index % of, " of head ", index / of);
    case Axis::tensor:
      break;
  }
  return "the whole tensor";
}

std::vector<Slice> slices_of(const Layout& layout, JudgedSlices which) {
  const SliceOffsets at(layout);
  std::vector<Slice> slices(at.count, {Slice::Axis::tensor, 0});
  const auto name = [&](std::size_t first, Slice::Axis axis, int indices, int of = 0) {
    for (int i = 0; first > 0 && i < indices; ++i) slices[first + static_cast<std::size_t>(i)] = {axis, i, of};
  };
  name(at.head, Slice::Axis::head, layout.heads);
  name(at.chunk, Slice::Axis::chunk, (layout.rows + slice_chunk - 1) / slice_chunk);
  for (std::size_t p = 0; p < slice_periods.size(); ++p)
    name(at.position[p], Slice::Axis::position, slice_periods[p], slice_periods[p]);
  name(at.column, Slice::Axis::column, layout.cols);
  name(at.row, Slice::Axis::row, layout.rows);
  name(at.row_of_head, Slice::Axis::row_of_head, layout.heads * layout.rows, layout.rows);
  if (which == JudgedSlices::coarse)
    slices.erase(slices.begin() + static_cast<std::ptrdiff_t>(at.coarse), slices.end());
  return slices;
}

std::vector<SliceSum> expected_sums(const Runs& draws, const ExactRun& exact,
                                    const std::vector<std::vector<double>>& witnesses, const Layout& layout,
                                    const std::vector<double>& weight, const Spread& spread, double false_alarm_rate,
                                    JudgedSlices which, int threads) {
  const std::vector<Slice> slices = slices_of(layout, which);
  const Drawn in = drawn_sums(draws, exact, witnesses, layout, weight, spread, which, threads);

  // Two-sided, shared out among the slices.
  const double each = false_alarm_rate / (2 * static_cast<double>(slices.size()));
  const double sigmas = quantile(complement(boost::math::normal_distribution<double>(), each));
  std::vector<SliceSum> sums;
  sums.reserve(slices.size());
  // The sums along one axis are a vector like any other: neighbours have similar spreads.
  for (std::size_t first = 0, end = 0; first < slices.size(); first = end) {
    while (end < slices.size() && are_of_one_axis(slices[end], slices[first])) ++end;
    const auto part = [&](const std::vector<double>& all) {
      return std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(first),
                                 all.begin() + static_cast<std::ptrdiff_t>(end));
    };
    std::vector<std::vector<double>> samples;
    samples.reserve(in.sums.size());
    for (const auto& all : in.sums) samples.push_back(part(all));
    const Layout vector{1, static_cast<int>(end - first), 1};
    const std::vector<double> zeros(end - first);
    const std::vector<double> off = part(in.kept);
    const Spread along = spread_of(samples, zeros, vector, Format::fp64, spread.doubled);
    bool leans = false;
    for (std::size_t i = first; i < end; ++i) {
      const double inner = along.sigma[i - first] * along.sigma[i - first], total = inner + in.rest[i];
      const double freedom =
          inner > 0 ? along.freedom[i - first] * (total / inner) * (total / inner) : along.freedom[i - first];
      const SliceSum sum{slices[i], std::sqrt(total), equivalent_sigmas(sigmas, freedom)};
      leans = leans || off[i - first] > sum.reach * sum.sigma;
      sums.push_back(sum);
    }
    // A leaning witness is no fault: roundings that agree with each other lean together, and where other numbers agree,
    // so do those of a slice next to it.
    for (std::size_t i = first; leans && i < end; ++i) {
      SliceSum& sum = sums[i];
      const double by = sum.sigma > 0 || off[i - first] > 0 ? with_neighbours(off, vector, i - first) : 0;
      sum.widened = by > sum.sigma, sum.sigma = std::max(sum.sigma, by);
    }
    for (std::size_t i = first; i < end; ++i) sums[i].sigma *= in.unit[i];
  }
  return sums;
}

}  // namespace assay
