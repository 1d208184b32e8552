#include "oracles/multiword/pack.hpp"

#include <algorithm>

#include "oracles/multiword/magnitude.hpp"

namespace assay {
namespace {

constexpr double unknown = std::numeric_limits<double>::infinity();
/// One and a bit: room for a few roundings of non-negative numbers.
constexpr double up = 1 + 0x1p-49, down = 1 - 0x1p-49;

/// The numbers that exp's kernel takes; below, it is as good as zero.
constexpr double exp_limit = 500;
static_assert(words::exp_lowest == -exp_limit);
constexpr double exp_of_small = 0x1p-720;  // > e^-499.5

}  // namespace

namespace words {

const PackConstants& pack_constants(int words) {
  static const std::array<PackConstants, 3> all = [] {
    std::array<PackConstants, 3> list{};
    for (int w = 2; w <= 4; ++w) {
      const Constants& c = constants(w);
      list[static_cast<std::size_t>(w - 2)] = {c.add, c.multiply, c.multiply_add, c.run_words, c.exp};
    }
    return list;
  }();
  return all[static_cast<std::size_t>(words - 2)];
}

}  // namespace words

template <int W>
Pack<W>::Pack(const WordBall& x) {
  double dropped = 0;
  for (std::size_t w = 4; w-- > W;) dropped += std::abs(x.word[w]);
  for (int i = 0; i < size; ++i) {
    for (int w = 0; w < W; ++w) word(w, i) = x.word[static_cast<std::size_t>(w)];
    radius(i) = dropped == 0 ? x.radius : (x.radius + dropped) * up;
  }
}

template <int W>
WordBall Pack<W>::number(int lane) const {
  WordBall x;
  for (int w = 0; w < W; ++w) x.word[static_cast<std::size_t>(w)] = word(w, lane);
  x.radius = radius(lane) < unknown ? radius(lane) : unknown;
  return x;
}

template <int W>
Pack<W> Pack<W>::operator-() const {
  Pack r = *this;
  for (int i = 0; i < W * size; ++i) r.at_[i] = -r.at_[i];
  return r;
}

template <int W>
double Pack<W>::nearest(int lane) const {
  double sum = 0;
  for (int w = W; w-- > 0;) sum += word(w, lane);
  return sum;
}

template <int W>
double Pack<W>::most(int lane) const {
  double sum = radius(lane);
  for (int w = W; w-- > 0;) sum += std::abs(word(w, lane));
  return sum * up;
}

template <int W>
double Pack<W>::least(int lane) const {
  double rest = radius(lane);
  for (int w = W; w-- > 1;) rest += std::abs(word(w, lane));
  return std::abs(word(0, lane)) * down - rest * up;
}

template <int W>
typename Pack<W>::Bounds Pack<W>::sizes() const {
  Bounds b;
  for (int i = 0; i < size; ++i) b.at[static_cast<std::size_t>(i)] = most(i);
  return b;
}

template <int W>
Pack<W> Pack<W>::widened(const Bounds& by) const {
  Pack r = *this;
  for (int i = 0; i < size; ++i) r.radius(i) = (radius(i) + by.at[static_cast<std::size_t>(i)]) * up;
  return r;
}

template <int W>
std::array<double, Pack<W>::size> Pack<W>::nearest() const {
  std::array<double, size> all{};
  for (int i = 0; i < size; ++i) {
    double rest = radius(i);
    for (int w = W; w-- > 1;) rest += std::abs(word(w, i));
    const bool near = rest * up <= std::max(0x1p-50 * std::abs(word(0, i)), 0x1p-701);
    all[static_cast<std::size_t>(i)] = near ? word(0, i) : std::numeric_limits<double>::quiet_NaN();
  }
  return all;
}

template <int W>
typename Pack<W>::Bounds Pack<W>::take_joint_error(Pack* first, int n) {
  Bounds joint;
  if (n > 0) std::copy_n(first->at_ + W * size, size, joint.at.begin());
  for (int k = 0; k < n; ++k) first[k].forget_radii();
  return joint;
}

template <int W>
typename Pack<W>::Bounds Pack<W>::take_errors(Pack* first, int n) {
  Bounds squares, sum;
  for (int k = 0; k < n; ++k) {
    for (std::size_t i = 0; i < size; ++i) {
      const double r = first[k].radius(static_cast<int>(i));
      squares.at[i] += r * r;
      sum.at[i] += r;
    }
    first[k].forget_radii();
  }
  Bounds own;
  // n squares and their sum, rounded; and squares that underflow.
  for (std::size_t i = 0; i < size; ++i)
    own.at[i] = sum.at[i] == 0 ? 0 : std::sqrt(squares.at[i]) * (1 + 0x1p-30) + 0x1p-500;
  return own;
}

template <int W>
void Pack<W>::set_joint_error(Pack* first, int n, const Bounds& error) {
  for (int k = 0; k < n; ++k) std::copy_n(error.at.begin(), size, first[k].at_ + W * size);
}

template <int W>
bool Pack<W>::is_known() const {
  int known = 0;  // all lanes, so that they go side by side
  for (int i = 0; i < size; ++i)
    known += static_cast<int>(std::fabs(word(0, i)) <= std::numeric_limits<double>::max()) &
             static_cast<int>(radius(i) < unknown);
  return known == size;
}

template <int W>
std::array<int, Pack<W>::size> Pack<W>::signs_of(const Pack& a) {
  std::array<int, size> signs{};
  for (int i = 0; i < size; ++i) {
    if (a.is_zero(i)) continue;
    if (!(a.least(i) > 0)) throw Undecided();
    signs[static_cast<std::size_t>(i)] = a.word(0, i) < 0 ? -1 : 1;
  }
  return signs;
}

template <int W>
Pack<W> Pack<W>::extreme(const Pack& a, const Pack& b, bool larger) {
  Pack r = a;
  for (int i = 0; i < size; ++i) {
    int w = 0;
    while (w + 1 < W && a.word(w, i) == b.word(w, i)) ++w;
    if ((a.word(w, i) < b.word(w, i)) == larger) r.take(i, b);
    // Neither maximum nor minimum moves further than the one that moves most.
    const bool known = a.radius(i) < unknown && b.radius(i) < unknown;
    r.radius(i) = known ? std::max(a.radius(i), b.radius(i)) : unknown;
  }
  return r;
}

/// Newton's iteration; sqrt(a) - s = (a - s^2) / (sqrt(a) + s).
template <int W>
Pack<W> Pack<W>::square_root(const Pack& a) {
  Pack s;
  for (int i = 0; i < size; ++i) s.word(0, i) = std::sqrt(std::max(a.word(0, i), 0.0));
  for (int step = 0; step < W; ++step) {
    const Pack rest = a - s * s;
    Pack digit;
    for (int i = 0; i < size; ++i) digit.word(0, i) = s.word(0, i) > 0 ? rest.nearest(i) / (2 * s.word(0, i)) : 0;
    s += digit;
    s.forget_radii();
  }
  const Pack rest = a - s * s;
  for (int i = 0; i < size; ++i) {
    if (a.is_zero(i)) continue;
    const bool positive = a.word(0, i) > 0 && a.least(i) >= 0 && s.least(i) > 0;
    s.radius(i) = positive ? rest.most(i) / s.least(i) * up : unknown;
  }
  return s;
}

template <int W>
Pack<W> Pack<W>::exponential(const Pack& a) {
  Pack x = a, power{Unset()};
  const auto is_usual = [&a](int i) { return std::abs(a.word(0, i)) <= exp_limit && a.radius(i) <= 1; };
  for (int i = 0; i < size; ++i)
    if (!is_usual(i)) x.take(i, Pack());
  kernels().exp(power.at_, x.at_, constants());
  for (int i = 0; i < size; ++i) {
    if (is_usual(i)) continue;
    const bool is_small = a.word(0, i) < -exp_limit && a.radius(i) <= 0.25, is_nothing = std::isinf(a.word(0, i));
    power.take(i, Pack());
    power.radius(i) = !is_small ? unknown : is_nothing && a.radius(i) == 0 ? 0 : exp_of_small;
  }
  return power;
}

/// Newton's iteration; log(a) - y = log(1 + d), d = a exp(-y) - 1.
template <int W>
Pack<W> Pack<W>::logarithm(const Pack& a) {
  Pack y;
  for (int i = 0; i < size; ++i) y.word(0, i) = a.word(0, i) > 0 ? std::log(a.word(0, i)) : 0;
  const auto missed = [&] { return a * exp(-y) - Pack(1); };
  for (int step = 1; step < W; ++step) {
    const Pack d = missed();
    y += d * (Pack(1) - d * Pack(0.5));
    y.forget_radii();
  }
  const Pack d = missed();
  for (int i = 0; i < size; ++i) {
    const double most = d.most(i);
    // |log(1 + d)| <= |d| / (1 - |d|)
    y.radius(i) = a.least(i) > 0 && most < 0.25 ? most * (1 + 2 * most) * up : unknown;
  }
  return y;
}

template class Pack<2>;
template class Pack<3>;
template class Pack<4>;

WordBall add(int words, const WordBall& a, const WordBall& b) {
  const auto sum = [&]<int W>() { return (Pack<W>(a) + Pack<W>(b)).number(0); };
  return words == 2   ? sum.template operator()<2>()
         : words == 3 ? sum.template operator()<3>()
                      : sum.template operator()<4>();
}

template <int W>
Pack<W> ScalarTraits<Pack<W>>::parse(std::string_view text) {
  Mp200 rest = from_decimal<Mp200>(text);
  WordBall x;
  for (std::size_t w = 0; w < W; ++w) {
    x.word[w] = to_double(rest);
    if (!std::isfinite(x.word[w])) return Pack<W>(x.word[w]);
    rest -= x.word[w];
  }
  // The decimal itself is within 2^-660 of its 200 digits.
  x.radius = (std::abs(to_double(rest)) + 0x1p-660 * std::abs(x.word[0])) * up;
  return Pack<W>(x);
}

template <int W>
std::string ScalarTraits<Pack<W>>::format(const Pack<W>& x, int digits) {
  return to_decimal(x.number(0), digits);
}

template struct ScalarTraits<Pack<2>>;
template struct ScalarTraits<Pack<3>>;
template struct ScalarTraits<Pack<4>>;

namespace {
Mp200 middle_of(const WordBall& x) {
  Mp200 sum = 0;
  for (std::size_t w = 4; w-- > 0;) sum += x.word[w];
  return sum;
}
}  // namespace

std::string to_decimal(const WordBall& x, int digits) { return to_decimal(middle_of(x), digits); }

double distance(const WordBall& x, std::string_view text) {
  return std::abs(to_double(Mp200(middle_of(x) - from_decimal<Mp200>(text)))) * up;
}

}  // namespace assay
