#include "judge/sigma/cumulated_decays.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "judge/sigma/spread.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/inputs.hpp"
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
std::vector<double> cumulate(std::vector<double>& decays, const Layout& n, int chunk, Roundings& rounding) {
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

/// Whether the rule takes its error on the state before it decays, and calls step and values as ours do.
bool reads_before_decay(const Problem& problem) {
  if (!problem.inputs.contains("beta") || !problem.inputs.contains("v")) return false;
  const auto error = problem.params.find("error");
  return problem.mechanism == "comba" || (error != problem.params.end() && word_of(error->second) == "undecayed");
}

/// Multiplies row r by factor r, or divides it by that.
void scale_rows(std::vector<double>& data, const std::vector<double>& factors, bool divides = false) {
  const std::size_t columns = factors.empty() ? 0 : data.size() / factors.size();
  for (std::size_t i = 0; columns > 0 && i < data.size(); ++i) {
    const double factor = factors[i / columns];
    data[i] = divides ? data[i] / factor : data[i] * factor;
  }
}

}  // namespace

std::vector<RoomFacts::Ranked> cumulated_decays(const Problem& problem, Format operands) {
  const auto room = find_room(problem.mechanism);
  if (room == nullptr || unit_roundoff(operands) > unit_roundoff(Format::fp32)) return {};
  std::vector<RoomFacts::Ranked> decays = room->inputs();
  std::erase_if(decays, [&](const RoomFacts::Ranked& input) {
    const bool by_token = input.rank > 0 && input.field.axes[0] == Axis::seq_len;
    return input.field.domain != Domain::log_decay || !by_token ||
           !problem.inputs.contains(std::string(input.field.name));
  });
  return decays;
}

CumulatedDecays::CumulatedDecays(const Problem& problem, Format operands, std::uint64_t seed, int chunk)
    : problem_(problem) {
  Roundings rounding(operands, seed);
  for (const RoomFacts::Ranked& ranked : cumulated_decays(problem, operands)) {
    Array& decays = problem_.inputs.at(std::string(ranked.field.name));
    const Layout n = layout_of(decays.shape, decays.shape.size() > static_cast<std::size_t>(ranked.rank));
    const std::vector<double> sums = cumulate(decays.data, n, chunk, rounding);
    if (!reads_before_decay(problem)) continue;
    for (const double sum : sums) read_.push_back(1 + rounding(sum));
    scale_rows(problem_.inputs.at("beta").data, read_), scale_rows(problem_.inputs.at("v").data, read_, true);
  }
}

void CumulatedDecays::take_back(Arrays& answered) const {
  if (const auto d_beta = answered.find("d_beta"); d_beta != answered.end()) scale_rows(d_beta->second.data, read_);
  if (const auto d_v = answered.find("d_v"); d_v != answered.end()) scale_rows(d_v->second.data, read_, true);
}

}  // namespace assay
