// The component `quantize`: casts to narrow formats with scales, decided in rational numbers.
#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>

#include "arguments/programs/families.hpp"
#include "oracles/core/bind.hpp"
#include "oracles/core/make_room.hpp"
#include "oracles/scalars/rational.hpp"

namespace assay::arguments {
namespace {

using Number = Rational::Number;
using boost::multiprecision::cpp_int;

Number power_of_two(long n) {
  const cpp_int power = cpp_int(1) << static_cast<unsigned>(std::abs(n));
  return n < 0 ? Number(1, power) : Number(power);
}

/// The largest n with 2^n <= x.
long floor_log2(const Number& x) {
  long n = static_cast<long>(msb(numerator(x))) - static_cast<long>(msb(denominator(x)));
  return power_of_two(n) <= x ? n : n - 1;
}
/// The smallest n with x <= 2^n.
long ceil_log2(const Number& x) {
  const long n = floor_log2(x);
  return power_of_two(n) == x ? n : n + 1;
}

cpp_int floor_of(const Number& x) { return numerator(x) / denominator(x); }  // of what is not negative

/// Numbers of the form +-2^e (1 + m / 2^bits) and below them equally spaced ones.
struct Grid {
  long bits, least_exponent;
  Number largest;
  long largest_exponent;

  /// The nearest, ties to even; beyond the largest that.
  Number nearest(const Number& x) const {
    const Number size = abs(x);
    if (size == 0) return 0;
    const Number spacing = power_of_two(std::max(floor_log2(size), least_exponent) - bits), steps = size / spacing;
    cpp_int n = floor_of(steps);
    const Number rest = steps - n;
    if (rest > Number(1, 2) || (rest == Number(1, 2) && n % 2 == 1)) ++n;
    const Number near = std::min<Number>(n * spacing, largest);
    return x < 0 ? Number(-near) : near;
  }
};

const Grid e4m3{3, -6, 448, 8}, e5m2{2, -14, 57344, 15}, e2m1{1, 0, 6, 2},
    fp32{23, -126, Number((power_of_two(24) - 1) * power_of_two(104)), 127};

/// A cast: its grid and how scales are made.
class Cast {
 public:
  Cast(const Given& given, int channels)
      : format_(given.choice("format", {"", "fp8_e4m3", "fp8_e5m2", "mxfp8_e4m3", "mxfp8_e5m2", "nvfp4"})) {
    require_domain(!format_.empty(), -1, "params.format: missing");
    if (is_fp4()) {
      require_domain(!given.has_param("scale_rounding"), -1, "params.scale_rounding: nvfp4 has one way alone");
      block = {1, 16};
    } else if (is_mx()) {
      rounding_ = given.choice("scale_rounding", {"floor", "ceil", "even", "up"});
      block = {1, 32};
    } else {
      rounding_ = given.choice("scale_rounding", {"f32", "up"});
    }
    const auto asked = given.pair("scale_block");
    require_domain(!asked || !block || *asked == *block, -1, "params.scale_block: ", format_,
                   " has blocks of 1 row and ", block ? block->second : 0, " channels");
    require_domain(!block || channels % block->second == 0, -1, "x: ", channels, " channels are no multiple of the ",
                   block ? block->second : 0, " of a block of ", format_);
    if (asked) block = asked;
  }

  bool is_fp4() const { return format_ == "nvfp4"; }
  const Grid& grid() const { return is_fp4() ? e2m1 : format_.ends_with("e5m2") ? e5m2 : e4m3; }
  std::optional<std::pair<int, int>> block;  ///< none: the whole tensor

  /// The scale of a block whose largest size is `largest`.
  Number scale(const Number& largest) const {
    if (is_fp4()) return e4m3.nearest(largest / (6 * tensor_scale));
    if (is_mx()) return power_of_two(largest == 0 ? -127 : std::clamp(exponent(largest), -127L, 127L));
    if (largest == 0) return 1;
    Number s = rounding_ == "up" ? power_of_two(exponent(largest)) : fp32.nearest(largest / grid().largest);
    require_domain(s != 0, -1, "x: so small that the scale of a block is 0 in fp32");
    return s;
  }

  Number tensor_scale = 1;  ///< nvfp4's second one

 private:
  bool is_mx() const { return format_.starts_with("mx"); }
  long exponent(const Number& largest) const {
    const Grid& g = grid();
    if (rounding_ == "up") return ceil_log2(largest / g.largest);
    if (rounding_ == "ceil") return ceil_log2(largest) - g.largest_exponent;
    if (rounding_ == "floor") return floor_log2(largest) - g.largest_exponent;
    const Number spacing = power_of_two(floor_log2(largest) - g.bits);  // even: to the grid's mantissa, half away
    return floor_log2(floor_of(largest / spacing + Number(1, 2)) * spacing) - g.largest_exponent;
  }

  std::string format_, rounding_;
};

Number finite(const std::string& digits, const std::string& place) {
  Rational x;
  try {
    x = Rational::parse(digits);
  } catch (const InputError& error) {
    throw Refusal(Status::domain, -1, place + ": " + error.what());
  }
  if (!isfinite(x)) throw Refusal(Status::nonfinite, -1, place + ": not a finite number");
  return x.value();
}

/// Codes, scales and what they stand for, block after block.
BasicArrays<Rational> cast_blocks(const Cast& cast, const std::vector<Number>& x, int rows, int channels) {
  const std::pair block = cast.block.value_or(std::pair(std::max(rows, 1), std::max(channels, 1)));
  const int block_rows = block.first, block_channels = block.second;
  const auto blocks = [](int n, int size) { return (n + size - 1) / size; };
  BasicArrays<Rational> out;
  BasicArray<Rational>&codes = out["codes"], &values = out["dequantized"], &scales = out["scales"];
  codes.shape = values.shape = {rows, channels};
  scales.shape = {blocks(rows, block_rows), blocks(channels, block_channels)};
  codes.data.resize(x.size()), values.data.resize(x.size());
  for (int r = 0; r < rows; r += block_rows)
    for (int c = 0; c < channels; c += block_channels) {
      const auto each = [&](auto&& f) {
        for (int i = r; i < std::min(r + block_rows, rows); ++i)
          for (int j = c; j < std::min(c + block_channels, channels); ++j)
            f(static_cast<std::size_t>(i) * static_cast<std::size_t>(channels) + static_cast<std::size_t>(j));
      };
      Number largest = 0;
      each([&](std::size_t i) { largest = std::max<Number>(largest, abs(x[i])); });
      const Number scale = cast.scale(largest), whole = scale * cast.tensor_scale;
      scales.data.emplace_back(scale);
      each([&](std::size_t i) {
        const Number code = whole == 0 ? Number(0) : cast.grid().nearest(x[i] / whole);
        codes.data[i] = Rational(code), values.data[i] = Rational(Number(code * whole));
      });
    }
  return out;
}

}  // namespace

Decimals quantized(const Given& given, int digits) {
  const auto numbers = given.numbers("x");
  require_domain(numbers.has_value(), -1, "x: missing");
  require_domain(numbers->shape.size() == 2, -1, "x: expected 2 axes, got shape ",
                 assay::detail::shape_text(numbers->shape));
  const int rows = numbers->shape[0], channels = numbers->shape[1];
  Cast cast(given, channels);
  std::vector<Number> x;
  for (std::size_t i = 0; i < numbers->data.size(); ++i)
    x.push_back(finite(numbers->data[i], assay::detail::element_text("x", numbers->shape, i)));
  const auto own = given.numbers("tensor_scale");
  require_domain(!own || cast.is_fp4(), -1, "tensor_scale: is of nvfp4");
  if (own) {
    require_domain(own->shape.empty(), -1, "tensor_scale: expected one number, got shape ",
                   assay::detail::shape_text(own->shape));
    cast.tensor_scale = finite(own->data[0], "tensor_scale");
    require_domain(cast.tensor_scale > 0, -1, "tensor_scale: expected a number above 0, got ", own->data[0]);
  } else if (cast.is_fp4()) {
    Number largest = 0;
    for (const Number& one : x) largest = std::max<Number>(largest, abs(one));
    cast.tensor_scale = largest == 0 ? Number(1) : fp32.nearest(largest / 2688);  // 448 * 6
    require_domain(cast.tensor_scale != 0, -1, "x: so small that tensor_scale is 0 in fp32");
  }
  BasicAnswer<Rational> answer;
  answer.outputs = cast_blocks(cast, x, rows, channels);
  if (cast.is_fp4()) answer.outputs["tensor_scale"] = {{}, {Rational(cast.tensor_scale)}};
  return assay::detail::printed(answer, digits);
}

}  // namespace assay::arguments
