#include "judge/sigma/cumulated_decays.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "judge/sigma/spread.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/random.hpp"

namespace assay {
namespace {

/// One rounding of a number of that size, uniform.
class Roundings {
 public:
  Roundings(Format format, std::uint64_t seed) : unit_(unit_roundoff(format)), stream_(seed, "cumulated decays") {}
  double operator()(double size) { return (2 * stream_.uniform(next_++) - 1) * unit_ * size; }

 private:
  double unit_;
  Stream stream_;
  std::uint64_t next_ = 0;
};

/// Puts the errors into log decays, [H][T] or [H][T][K]: the largest running sum of every row.
std::vector<double> cumulate(std::vector<double>& decays, const Layout& n, Roundings& rounding) {
  constexpr int chunk = 64;
  const auto z = [](int x) { return static_cast<std::size_t>(x); };
  std::vector<double> largest(z(n.heads) * z(n.rows));
  for (int h = 0; h < n.heads; ++h)
    for (int c = 0; c < n.cols; ++c) {
      double sum = 0;
      for (int t = 0; t < n.rows; ++t) {
        const std::size_t row = z(h) * z(n.rows) + z(t);
        double& decay = decays[row * z(n.cols) + z(c)];
        if (t % chunk == 0 || !std::isfinite(decay)) sum = 0;
        if (decay == 0 || !std::isfinite(decay)) continue;  // the sum stays what it was, or forgets what it was
        sum += decay;
        decay = std::min(decay + rounding(sum), 0.0);  // sums are rounded in their order: none grows
        largest[row] = std::max(largest[row], std::fabs(sum));
      }
    }
  return largest;
}

/// Multiplies row r by factor r.
void scale_rows(std::vector<double>& data, const std::vector<double>& factors) {
  const std::size_t columns = factors.empty() ? 0 : data.size() / factors.size();
  for (std::size_t i = 0; columns > 0 && i < data.size(); ++i) data[i] *= factors[i / columns];
}

/// The factors of reads before their decay, for each row of the keys that they read with, which heads may share.
std::vector<double> factors_of_reads(const Array& keys, const std::vector<double>& sums, int tokens,
                                     Roundings& rounding) {
  const auto rows = static_cast<std::size_t>(tokens);
  std::vector<double> factors(keys.data.size() / static_cast<std::size_t>(keys.shape.back()));
  const std::size_t group = sums.size() / factors.size();
  for (std::size_t row = 0; row < factors.size(); ++row) {
    double largest = 0;
    for (std::size_t g = 0; g < group; ++g)
      largest = std::max(largest, sums[(row / rows * group + g) * rows + row % rows]);
    factors[row] = 1 + rounding(largest);
  }
  return factors;
}

}  // namespace

CumulatedDecays::CumulatedDecays(const Problem& problem, Format operands, std::uint64_t seed) : problem_(problem) {
  const auto room = find_room(problem.mechanism);
  if (room == nullptr || unit_roundoff(operands) > unit_roundoff(Format::fp32)) return;
  Roundings rounding(operands, seed);
  for (const RoomFacts::Ranked& ranked : room->inputs()) {
    const auto found = problem_.inputs.find(std::string(ranked.field.name));
    if (ranked.field.domain != Domain::log_decay || ranked.rank == 0 || found == problem_.inputs.end()) continue;
    if (ranked.field.axes[0] != Axis::seq_len) continue;
    Array& decays = found->second;
    const Layout n = layout_of(decays.shape, decays.shape.size() > static_cast<std::size_t>(ranked.rank));
    const std::vector<double> sums = cumulate(decays.data, n, rounding);
    if (problem.mechanism != "comba") continue;
    Array& keys = problem_.inputs.at("p");
    scale_rows(keys.data, read_ = factors_of_reads(keys, sums, n.rows, rounding));
  }
}

void CumulatedDecays::take_back(Arrays& answered) const {
  const auto found = answered.find("d_p");
  if (found != answered.end()) scale_rows(found->second.data, read_);
}

}  // namespace assay
