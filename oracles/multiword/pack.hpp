#pragma once
// Pack: eight real numbers at a time, each an unevaluated sum of W doubles with a proven radius, on the widest vectors
// the machine has. A reference instantiated with it answers eight heads at once, every number with its bound.
// docs/error-analysis.md, section 7.
#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "oracles/multiword/lanes/kernels.hpp"
#include "oracles/multiword/word_ball.hpp"
#include "oracles/scalars/ball.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/errors/carried_error.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

/// A branch depends on numbers of a pack of which some say yes and some no: the heads must go separate ways.
class Divided : public std::exception {
 public:
  const char* what() const noexcept override { return "the numbers of a pack want different branches"; }
};

namespace words {
/// As derived for W words.
const PackConstants& pack_constants(int words);

template <int W>
class DefiniteSolver;
}  // namespace words

template <int W>
class alignas(64) Pack {
 public:
  static constexpr int size = words::pack_size;

  /// A product not multiplied out yet: added to something, it is one operation instead of two. Not to be kept.
  class Product {
   public:
    Product(const Pack& x, const Pack& y) : a(x), b(y) {}
    // Only the operators should see the difference.
    // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
    operator Pack() const {
      Pack r{Unset()};
      kernels().multiply(r.at_, a.at_, b.at_, constants());
      return r;
    }
    const Pack &a, &b;
  };

  Pack() : Pack(0.0) {}
  /// Eight times exactly that number.
  // As with the other scalars, S(1) and S(K) are how references write numbers.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  Pack(double x) : at_{} {
    for (int i = 0; i < size; ++i) at_[i] = x;
  }
  /// Eight times that number, words beyond W left to the radius.
  explicit Pack(const WordBall& x);

  WordBall number(int lane) const;
  /// Number `lane` becomes that of `other`.
  void take(int lane, const Pack& other) {
    for (int w = 0; w <= W; ++w) at_[w * size + lane] = other.at_[w * size + lane];
  }

  /// Number `lane` becomes exactly that one.
  void take(int lane, double x) {
    for (int w = 0; w <= W; ++w) at_[w * size + lane] = w == 0 ? x : 0;
  }

  // Sums that reference/errors/lines.hpp and dense.hpp take instead of number after number.
  static void add_dot(Pack& sum, const Line<const Pack>& a, const Line<const Pack>& b) {
    kernels().add_dot(sum.at_, words_of(a), words_of(b), static_cast<std::size_t>(a.size), constants());
  }
  static void subtract_dot(Pack& sum, const Line<const Pack>& a, const Line<const Pack>& b) {
    kernels().subtract_dot(sum.at_, words_of(a), words_of(b), static_cast<std::size_t>(a.size), constants());
  }
  static void add_scaled(const Line<Pack>& y, const Pack& a, const Line<const Pack>& x) {
    if (x.size == 0) return;
    kernels().add_scaled({y.first->at_, doubles(y.step)}, a.at_, words_of(x), static_cast<std::size_t>(x.size),
                         constants());
  }
  static void subtract_scaled(const Line<Pack>& y, const Pack& a, const Line<const Pack>& x) {
    if (x.size == 0) return;
    kernels().subtract_scaled({y.first->at_, doubles(y.step)}, a.at_, words_of(x), static_cast<std::size_t>(x.size),
                              constants());
  }
  using DefiniteSolver = words::DefiniteSolver<W>;

  // The interface of an enclosure for reference/errors/carried_error.hpp.
  using Bounds = UpperBounds<size>;
  /// At least |x| for every x in the balls.
  Bounds sizes() const;
  Pack widened(const Bounds& by) const;
  /// Within 2^-50 of every number, relatively, or within 2^-700; NaN where nothing is.
  std::array<double, size> nearest() const;
  /// The radius that n packs share; they become zero.
  static Bounds take_joint_error(Pack* first, int n);
  /// At least the 2-norm of n radii, which become zero.
  static Bounds take_errors(Pack* first, int n);
  /// Every radius becomes that.
  static void set_joint_error(Pack* first, int n, const Bounds& error);

  Pack operator-() const;
  Pack& operator+=(const Pack& b) {
    kernels().add(at_, at_, b.at_, constants());
    return *this;
  }
  Pack& operator-=(const Pack& b) {
    kernels().subtract(at_, at_, b.at_, constants());
    return *this;
  }
  Pack& operator*=(const Pack& b) {
    kernels().multiply(at_, at_, b.at_, constants());
    return *this;
  }
  Pack& operator/=(const Pack& b) {
    kernels().divide(at_, at_, b.at_, constants());
    return *this;
  }
  Pack& operator+=(const Product& p) {
    kernels().multiply_add(at_, p.a.at_, p.b.at_, constants());
    return *this;
  }
  Pack& operator-=(const Product& p) {
    kernels().multiply_subtract(at_, p.a.at_, p.b.at_, constants());
    return *this;
  }
  friend Pack operator+(const Pack& a, const Pack& b) {
    Pack r{Unset()};
    kernels().add(r.at_, a.at_, b.at_, constants());
    return r;
  }
  friend Pack operator-(const Pack& a, const Pack& b) {
    Pack r{Unset()};
    kernels().subtract(r.at_, a.at_, b.at_, constants());
    return r;
  }
  friend Pack operator+(const Pack& a, const Product& b) {
    Pack r = a;
    return r += b;
  }
  friend Pack operator-(const Pack& a, const Product& b) {
    Pack r = a;
    return r -= b;
  }
  friend Product operator*(const Pack& a, const Pack& b) { return {a, b}; }
  friend Pack operator/(const Pack& a, const Pack& b) {
    Pack r{Unset()};
    kernels().divide(r.at_, a.at_, b.at_, constants());
    return r;
  }

  // True or false for all eight pairs and every number in their balls, or Divided, or Undecided.
  friend bool operator<(const Pack& a, const Pack& b) {
    return unanimous(a, b, [](int sign) { return sign < 0; });
  }
  friend bool operator>(const Pack& a, const Pack& b) { return b < a; }
  friend bool operator<=(const Pack& a, const Pack& b) {
    return unanimous(a, b, [](int sign) { return sign <= 0; });
  }
  friend bool operator>=(const Pack& a, const Pack& b) { return b <= a; }
  friend bool operator==(const Pack& a, const Pack& b) {
    return unanimous(a, b, [](int sign) { return sign == 0; });
  }
  friend bool operator!=(const Pack& a, const Pack& b) { return !(a == b); }
  /// Whether a > b, if all numbers of all eight pairs of balls agree on that; Divided if lanes differ.
  friend std::optional<bool> is_larger(const Pack& a, const Pack& b) {
    const Pack difference = a - b;
    const std::optional<bool> first = difference.is_positive(0);
    for (int lane = 1; lane < size; ++lane)
      if (difference.is_positive(lane) != first) throw Divided();
    return first;
  }
  /// True, or Undecided where nothing is known any more.
  friend bool isfinite(const Pack& a) {
    if (!a.is_known()) throw Undecided();
    return true;
  }
  friend bool isnan(const Pack& a) { return !isfinite(a); }

  friend Pack exp(const Pack& a) { return exponential(a); }
  friend Pack log(const Pack& a) { return logarithm(a); }
  friend Pack sqrt(const Pack& a) { return square_root(a); }
  friend Pack abs(const Pack& a) { return larger(a, -a); }
  /// Lane by lane; never Divided nor Undecided.
  friend Pack larger(const Pack& a, const Pack& b) { return extreme(a, b, true); }
  friend Pack smaller(const Pack& a, const Pack& b) { return extreme(a, b, false); }

 private:
  struct Unset {};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init,hicpp-member-init): about to be written
  explicit Pack(Unset) {}

  static const words::PackKernels& kernels() {
    static const words::PackKernels& fastest = words::kernels(words::best_isa()).words[W].pack;
    return fastest;
  }
  static const words::PackConstants& constants() {
    static const words::PackConstants& derived = words::pack_constants(W);
    return derived;
  }

  friend class words::DefiniteSolver<W>;
  static std::ptrdiff_t doubles(std::ptrdiff_t packs) { return packs * (W + 1) * size; }
  static words::ConstPackLine words_of(const Line<const Pack>& x) {
    return {x.size > 0 ? x.first->at_ : nullptr, doubles(x.step)};
  }

  static Pack exponential(const Pack& a);
  static Pack logarithm(const Pack& a);
  static Pack square_root(const Pack& a);
  static Pack extreme(const Pack& a, const Pack& b, bool larger);
  /// The value of `holds` for the signs of a - b in all lanes.
  template <class F>
  static bool unanimous(const Pack& a, const Pack& b, F&& holds) {
    const std::array<int, size> signs = signs_of(a - b);
    const bool first = holds(signs[0]);
    for (const int sign : signs)
      if (holds(sign) != first) throw Divided();
    return first;
  }
  /// The signs of all numbers; Undecided if a ball holds zero and more.
  static std::array<int, size> signs_of(const Pack& a);

  std::optional<bool> is_positive(int lane) const {
    if (!is_zero(lane) && !(least(lane) > 0)) return std::nullopt;
    return word(0, lane) > 0;
  }
  bool is_known() const;
  double& word(int w, int lane) { return at_[w * size + lane]; }
  double word(int w, int lane) const { return at_[w * size + lane]; }
  double& radius(int lane) { return word(W, lane); }
  double radius(int lane) const { return word(W, lane); }
  bool is_zero(int lane) const { return word(0, lane) == 0 && radius(lane) == 0; }
  /// About the middle.
  double nearest(int lane) const;
  /// At least |x| for every x in the ball, and at most (perhaps below zero).
  double most(int lane) const;
  double least(int lane) const;
  void forget_radii() {
    for (int i = 0; i < size; ++i) radius(i) = 0;
  }

  double at_[(W + 1) * size];  // NOLINT(modernize-avoid-c-arrays): what the kernels take
};

extern template class Pack<2>;
extern template class Pack<3>;
extern template class Pack<4>;

/// The traits of a pack's first number.
template <int W>
struct ScalarTraits<Pack<W>> {
  static std::string name() { return "w" + std::to_string(W); }
  static Pack<W> parse(std::string_view text);
  static std::string format(const Pack<W>& x, int digits);
  static double rounded(const Pack<W>& x) { return x.number(0).word[0]; }
};
extern template struct ScalarTraits<Pack<2>>;
extern template struct ScalarTraits<Pack<3>>;
extern template struct ScalarTraits<Pack<4>>;

}  // namespace assay
