#include "oracles/scalars/sized.hpp"

#include <algorithm>

#include "reference/core/per_machine.hpp"

namespace assay {
namespace {

/// Some numbers, each of their parts side by side.
constexpr int chunk = 64;
struct Parts {
  double value[chunk], size[chunk], noise[chunk], total[chunk], unit[chunk], rest[chunk], factor[chunk];
};

constexpr double infinite = std::numeric_limits<double>::infinity();

inline double larger(double a, double b) { return a > b ? a : b; }

ASSAY_PER_MACHINE void take_apart(const Sized* x, std::ptrdiff_t step, int n, Parts& parts) {
  for (int i = 0; i < n; ++i) {
    const Sized& from = x[i * step];
    parts.value[i] = from.value, parts.size[i] = from.size, parts.total[i] = from.total, parts.unit[i] = from.unit;
    parts.rest[i] = from.rest, parts.factor[i] = from.factor, parts.noise[i] = from.noise;
  }
}

ASSAY_PER_MACHINE void put_together(const Parts& parts, int n, std::ptrdiff_t step, Sized* x) {
  for (int i = 0; i < n; ++i) {
    Sized& to = x[i * step];
    to.value = parts.value[i], to.size = parts.size[i], to.total = parts.total[i], to.unit = parts.unit[i];
    to.rest = parts.rest[i], to.factor = parts.factor[i], to.noise = parts.noise[i];
  }
}

/// b becomes a b, number by number, as operator* has it.
ASSAY_PER_MACHINE void multiply(const Parts& __restrict a, Parts& __restrict b, int n, double capacity) {
  for (int i = 0; i < n; ++i) {
    const double v = a.value[i] * b.value[i], left = std::fabs(a.value[i]), right = std::fabs(b.value[i]);
    const double of_factors = larger(larger(a.size[i] * right, left * b.size[i]), std::fabs(v));
    const bool cancelled = (left * capacity <= a.size[i]) & (right * capacity <= b.size[i]);
    const double both = a.size[i] * b.size[i], size = cancelled ? both : larger(both / capacity, of_factors);
    const double x = cancelled ? a.size[i] : left, y = cancelled ? b.size[i] : right;
    const double noise = a.noise[i] * y * y + x * y * (x * y) + b.noise[i] * x * x;
    const double total = a.total[i] * b.total[i], unit = total == 0 ? infinite : a.unit[i] * b.unit[i];
    const double rest = a.total[i] * b.rest[i] + a.rest[i] * b.total[i] + a.rest[i] * b.rest[i];
    const bool nothing = ((a.total[i] == 0) & (a.rest[i] == 0)) | ((b.total[i] == 0) & (b.rest[i] == 0));
    const bool spilt = Sized::spills(total, unit, rest, capacity), without = nothing | spilt;
    b.value[i] = v, b.size[i] = nothing ? 0 : size, b.noise[i] = nothing ? 0 : noise, b.total[i] = without ? 0 : total;
    b.unit[i] = without ? infinite : unit, b.rest[i] = nothing ? 0 : spilt ? rest + total : rest;
    const double factor = larger(larger(left, right), larger(a.factor[i], b.factor[i]));
    b.factor[i] = nothing ? 0 : factor;
  }
}

/// y becomes y + sign x, number by number, as operator+ and operator- have it.
ASSAY_PER_MACHINE void add(Parts& __restrict y, const Parts& __restrict x, int n, double sign, double capacity) {
  for (int i = 0; i < n; ++i) {
    const double v = y.value[i] + sign * x.value[i];
    const double size = larger(larger(y.size[i], x.size[i]), std::fabs(v)), total = y.total[i] + x.total[i];
    const double unit = y.unit[i] < x.unit[i] ? y.unit[i] : x.unit[i], rest = y.rest[i] + x.rest[i];
    const bool spilt = Sized::spills(total, unit, rest, capacity);
    const bool none = (y.total[i] == 0) & (y.rest[i] == 0), only = (x.total[i] == 0) & (x.rest[i] == 0);
    y.value[i] = v;
    y.size[i] = none ? x.size[i] : only ? y.size[i] : size;
    const double noise = y.noise[i] + v * v + x.noise[i];
    y.noise[i] = none ? x.noise[i] : only ? y.noise[i] : noise;
    y.unit[i] = none ? x.unit[i] : only ? y.unit[i] : spilt ? infinite : unit;
    y.rest[i] = none ? x.rest[i] : only ? y.rest[i] : spilt ? rest + total : rest;
    y.total[i] = none ? x.total[i] : only ? y.total[i] : spilt ? 0 : total;
    const double factor = larger(y.factor[i], x.factor[i]);
    y.factor[i] = none ? x.factor[i] : only ? y.factor[i] : factor;
  }
}

/// sum + sign (x_0 + x_1 + ...), one after the other.
void add_one_by_one(Sized& sum, const Parts& x, int n, double sign, double capacity) {
  Sized s = sum;
  for (int i = 0; i < n; ++i) {
    s.value += sign * x.value[i];
    if (s.total == 0 && s.rest == 0) {
      s.size = x.size[i], s.noise = x.noise[i], s.total = x.total[i], s.unit = x.unit[i], s.rest = x.rest[i],
      s.factor = x.factor[i];
    } else if (x.total[i] != 0 || x.rest[i] != 0) {
      s.size = larger(larger(s.size, x.size[i]), std::fabs(s.value)), s.factor = larger(s.factor, x.factor[i]);
      s.noise = s.noise + s.value * s.value + x.noise[i];
      s.total += x.total[i], s.unit = s.unit < x.unit[i] ? s.unit : x.unit[i], s.rest += x.rest[i];
      if (Sized::spills(s.total, s.unit, s.rest, capacity)) s.rest += s.total, s.total = 0, s.unit = infinite;
    }
  }
  sum = s;
}

}  // namespace

void Sized::add_dot(Sized& sum, const Line<const Sized>& a, const Line<const Sized>& b, double sign) {
  Parts left, right;
  for (int i = 0; i < a.size; i += chunk) {
    const int n = std::min(chunk, a.size - i);
    take_apart(a.first + i * a.step, a.step, n, left), take_apart(b.first + i * b.step, b.step, n, right);
    multiply(left, right, n, capacity);
    add_one_by_one(sum, right, n, sign, capacity);
  }
}

void Sized::add_scaled(const Line<Sized>& y, const Sized& a, const Line<const Sized>& x, double sign) {
  Parts factor, terms, sums;
  take_apart(&a, 0, std::min(chunk, x.size), factor);
  for (int i = 0; i < x.size; i += chunk) {
    const int n = std::min(chunk, x.size - i);
    take_apart(x.first + i * x.step, x.step, n, terms), take_apart(y.first + i * y.step, y.step, n, sums);
    multiply(factor, terms, n, capacity);
    add(sums, terms, n, sign, capacity);
    put_together(sums, n, y.step, y.first + i * y.step);
  }
}

}  // namespace assay
