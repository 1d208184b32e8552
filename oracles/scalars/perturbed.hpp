#pragma once
// Arithmetic that errs as any healthy kernel of a precision may: what evidence `model` draws (docs/judge-derivation.md,
// "Model"). No tile program and no sites: at every use, both operands of a contraction are off by one rounding of their
// format, and sums by the roundings of fp32 in some order; where operands are as wide as sums, every operation is off
// by one.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reference/core/format.hpp"

namespace assay {

/// Numbers `step` apart.
struct Strided {
  const double* first;
  std::ptrdiff_t step;
  int size;
};

/// The sum of n products, and that of their squares: in eight sums each, whatever the machine adds at once.
struct Moments {
  double sum, squares;
};
Moments moments_of(const double* a, const double* b, int n);

/// How the operations of Emulated err on this thread while it lives. One at a time; the one before is back when it
/// ends. The errors are the same on every machine: of a program, which says where it is (`go_to`), a function of the
/// seed, the place and an index alone; of a reference, of the seed, the head and the operations before.
class PerturbedArithmetic {
 public:
  /// How an operand comes to its format: to nearest, anywhere within half a spacing of itself; cut off, within a whole
  /// one towards zero, as tensor cores read tf32.
  enum class Operands { nearest, cut_off };
  /// The states that products of two states read, of which gradients of gates are sums: as wide as they are summed, or
  /// as kernels store them, as operands.
  enum class States { wide, stored };
  /// Where a program needs random numbers: a value of one of its blocks, at a token of the scan whose step that is.
  struct Place {
    std::uint32_t head = 0, block = 0, token = 0, node = 0;
  };
  /// The numbers that err at a place: those that it computes, or those that a contraction reads.
  enum class Part : std::uint32_t { computed, left, right };

  /// All of it as numbers, for a program's text (language/emit): spacings at 1 and smallest ones, of operands and of
  /// sums; `shift` is -0.5 where operands are cut off; narrow: operands are as wide as sums; every: all operations err.
  struct Numbers {
    std::uint64_t seed;
    double unit, least, sum_unit, sum_least, shift;
    int narrow, every;
  };

  /// Operands of that format; sums in fp32, of fp64 in fp64. Where operands are as wide as sums every operation rounds.
  /// Heads are drawn on up to so many threads, which change no bit.
  PerturbedArithmetic(Format format, Operands operands, std::uint64_t seed, States states = States::wide,
                      int threads = 1);
  /// That draw's errors in one head: the same on whatever thread, and independent of those in other heads.
  PerturbedArithmetic(const PerturbedArithmetic& draw, std::uint32_t head);
  PerturbedArithmetic(const PerturbedArithmetic&) = delete;
  PerturbedArithmetic& operator=(const PerturbedArithmetic&) = delete;
  ~PerturbedArithmetic();

  /// While it lives, operations on this thread do not err.
  class Pause {
   public:
    Pause() : before_(active) { active = nullptr; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause() { active = before_; }

   private:
    PerturbedArithmetic* before_;
  };

  /// The one of this thread, or null.
  static PerturbedArithmetic* current() { return active; }
  States states() const { return states_; }
  int threads() const { return threads_; }
  /// From here on every operation is off by a rounding of the sums' format, as where operands are as wide as sums: of
  /// programs, whose numbers need not come from products. (A running mean has none.)
  void round_every_operation() { every_operation_ = true; }
  /// Whether every operation is off by a rounding.
  bool rounds_every_operation() const { return narrow_ || every_operation_; }
  std::uint64_t seed() const { return seed_; }
  Numbers numbers() const {
    return {seed_,
            operand_grid_.unit,
            operand_grid_.least,
            sum_grid_.unit,
            sum_grid_.least,
            operands_ == Operands::cut_off ? -0.5 : 0.0,
            narrow_ ? 1 : 0,
            rounds_every_operation() ? 1 : 0};
  }

  /// From here on random numbers are those of that place, whatever was computed before. Dots and add_scaled take
  /// operands as they are, those that a contraction `reads`.
  void go_to(const Place& place) {
    place_ = place, is_placed_ = true, key_is_known_ = false;
    at_element(0);
  }
  const Place& place() const { return place_; }
  /// The next random numbers are those of element n of the place. A dot goes on to the next one, add_scaled to that
  /// behind its line.
  void at_element(std::uint64_t n) { element_ = n, round_ = 0; }
  /// Whether numbers are off by a rounding when a contraction reads them.
  bool errs_in_operands() const { return !narrow_; }
  /// Puts n numbers of a tensor, row-major, into `out` as a contraction reads them at this place.
  void reads(Part part, const double* x, std::size_t n, double* out) const;

  /// Adds a head's term to a gradient of one number that heads add up; `apart`: it reads no array that the head before
  /// has read.
  void add_term(const std::string& gradient, double x, bool apart) {
    std::vector<double>& terms = terms_[gradient];
    if (apart || terms.empty()) terms.push_back(0);
    terms.back() += x;
  }
  /// The terms of gradients of one number, by heads that read no array in common: their errors are independent.
  const std::map<std::string, std::vector<double>>& terms() const { return terms_; }

  /// The result of an operation whose exact result is x.
  double operation(double x) { return narrow_ || every_operation_ ? one_rounding_off(x) : x; }
  /// The same of n results, of elements 0, 1, ... of the place: the number `round` that each of these needs.
  void operations(double* x, std::size_t n, std::uint32_t round = 0);
  /// The result of an exponential, which hardware approximates: in fp32 to two units in the last place (ex2.approx).
  double exponential(double power);
  /// sum + sign a.b
  double dot(double sum, const Strided& a, const Strided& b, double sign);
  /// x - a.b, a sum of which x is a term.
  double less_products(double x, const double* a, const double* b, int n);
  /// y_i += sums_i, each of so many products that are not zero, whose squares add up to squares_i. The random numbers
  /// are those of n elements of the place, from the one where it is.
  void add_sums(double* y, const double* sums, const double* squares, const double* terms, std::size_t n);
  /// y_i += sign a x_i
  void add_scaled(double* y, std::ptrdiff_t step, double a, const Strided& x, double sign);

 private:
  /// A format's spacing at 1, and its smallest spacing, below which hardware flushes to zero.
  struct Grid {
    explicit Grid(Format format);
    double unit, least;
  };
  /// A line that was read not long ago, and what it was read as. A kernel rounds an operand once for all the products
  /// of one contraction, which here are many calls.
  struct Read {
    std::vector<double> exact, perturbed;
    std::uint64_t when = 0;
  };
  static constexpr std::size_t remembered = 8;
  using Reads = std::array<Read, remembered>;

  /// The beginning of a sequence of random numbers.
  struct Key {
    std::uint32_t first = 0, second = 0;
  };

  double one_rounding_off(double x, double units = 1);
  const double* operand(const Strided& x, Reads& known);
  void perturb(const double* x, int n, double* out);
  Key counted_key() const;
  Key key_of(Part part) const;
  Key key_of_round();
  /// One more number that is uniform in [-1/2, 1/2).
  double uniform();

  Grid operand_grid_, sum_grid_;
  bool narrow_;  ///< operands are as wide as sums
  bool every_operation_ = false;
  Operands operands_;
  States states_;
  int threads_;
  std::uint64_t seed_, drawn_ = 0, calls_ = 0;
  Place place_;
  bool is_placed_ = false, key_is_known_ = false;
  Key key_;  ///< of what is computed at the place
  std::uint64_t element_ = 0;
  std::uint32_t round_ = 0;        ///< how many numbers the element has had
  Reads first_, second_, scaled_;  ///< left and right operands of dots; lines of add_scaled
  std::map<std::string, std::vector<double>> terms_;
  PerturbedArithmetic* before_;
  static inline thread_local PerturbedArithmetic* active = nullptr;
};

}  // namespace assay
