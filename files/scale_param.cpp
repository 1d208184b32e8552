#include "files/scale_param.hpp"

#include <boost/multiprecision/cpp_int.hpp>

#include "files/input_file.hpp"
#include "oracles/scalars/decimal.hpp"
#include "reference/core/error.hpp"
#include "reference/core/inputs.hpp"
#include "reference/core/parse_number.hpp"

namespace assay {
namespace {

/// More than any tier computes with, so that what is left out is below every bound.
constexpr int digits = 400, bits = 1400;

std::string reciprocal(const std::string& decimal) {
  using boost::multiprecision::cpp_int;
  constexpr long lowest = -10'000;  // numbers of 1e-300 have their bits above it
  const Dyadic x = parse_decimal(decimal, bits, lowest);
  const auto up = static_cast<long>(msb(x.mantissa)) + bits;
  std::string out = format_decimal({(cpp_int(1) << static_cast<unsigned>(up)) / x.mantissa, -up - x.exponent}, digits);
  const std::size_t e = out.find('e');
  const std::string exponent = e == std::string::npos ? "" : out.substr(e);
  out.erase(std::min(e, out.size()));
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) out.pop_back();
  return out + exponent;
}

}  // namespace

void take_scale(const Room& room, Params& params) {
  bool has_bandwidth = false;
  for (const RoomFacts::Ranked& ranked : room.inputs()) {
    if (ranked.field.place != Field::Place::param) continue;
    if (ranked.field.name == "scale") return;
    has_bandwidth = has_bandwidth || ranked.field.name == "bandwidth";
  }
  const auto scale = params.find("scale");
  if (!has_bandwidth || scale == params.end()) return;
  require_domain(!params.contains("bandwidth"), -1,
                 "params: expected scale or bandwidth = 1 / scale, and not both of them");
  std::string decimal = word_of(scale->second);
  if (decimal.starts_with('+')) decimal.erase(0, 1);
  // As doubles hold them and their reciprocals: a kernel has to.
  const double x = parse_number<double>(decimal).value_or(0);
  require_domain(x >= 1e-300 && x <= 1e300, -1, "params.scale: expected a number > 0 (bandwidth is 1 / scale), got ",
                 excerpt(decimal));
  params["bandwidth"] = reciprocal(decimal);
  params.erase("scale");
}

}  // namespace assay
