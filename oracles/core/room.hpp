#pragma once
// The registry: every room of mechanisms.def, type-erased on its reference side.
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracles/core/trajectory.hpp"
#include "oracles/scalars/held_in.hpp"
#include "reference/core/inputs.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// The scalar a reference is evaluated in.
enum class Tier { fp64, w2, w3, w4, mp50, mp100, mp200, ball, exact };
inline constexpr Tier all_tiers[] = {Tier::fp64,  Tier::w2,    Tier::w3,   Tier::w4,   Tier::mp50,
                                     Tier::mp100, Tier::mp200, Tier::ball, Tier::exact};

/// How many doubles a number of that tier is the sum of; 0 for a tier of another kind.
constexpr int words_of(Tier tier) { return tier == Tier::w2 ? 2 : tier == Tier::w3 ? 3 : tier == Tier::w4 ? 4 : 0; }

/// "double", "w2", "mp50", ...
std::string_view name_of(Tier tier);
/// One line for listings.
std::string_view summary_of(Tier tier);
/// The tier called `name`, as name_of spells it; nothing for any other word.
std::optional<Tier> tier_from(std::string_view name);

/// A number as the case format prints it.
struct Cell {
  std::string text;  ///< decimal digits, or "" for `undefined` and `left_out`
  enum class Kind {
    decimal,
    count,      ///< printed as an integer
    undefined,  ///< printed as null
    left_out,   ///< ends its row early: keys after the last visible one
  } kind = Kind::decimal;

  friend bool operator==(const Cell&, const Cell&) = default;
};
struct Decimals : BasicAnswer<Cell> {
  /// By tensor ("o", "d_q"): no number of it is further from the truth than this. Only where that is proven.
  std::map<std::string, double, std::less<>> bounds;
};

struct DecimalOptions {
  int digits = 40;           ///< significant digits, rounded to nearest
  std::optional<Tier> tier;  ///< none: as high as the digits need, checked against the tier below
  bool diagnostics = true;   ///< diagnostics.* and score, where the room has them
};

/// The smallest power of two not below x; 0 for 0. It needs no more than a bf16.
inline double power_of_two_above(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return x == 0 ? 0 : std::ldexp(1.0, fraction > 0.5 ? exponent : exponent - 1);
}

/// How a problem is answered in sums of doubles.
struct WordEffort {
  int words = 2;    ///< 2, 3 or 4 at least
  int threads = 1;  ///< changes no bit
};
/// The bound, relative to a tensor's largest number, that makes an answer good enough.
inline constexpr double word_target = 0x1p-60;

/// A value and how far it may be off, proven.
struct Enclosed {
  HiLo value;
  double bound = 0;
};

/// A room as the tools see it. Every function throws Refusal or InputError on bad input, with one sentence.
class Room {
 public:
  std::string_view name, summary;
  std::span<const std::string_view> options;  ///< the params that are no numbers of the equations

  constexpr Room(std::string_view its_name, std::string_view its_summary, std::span<const std::string_view> its_options)
      : name(its_name), summary(its_summary), options(its_options) {}
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  constexpr virtual ~Room() = default;

  virtual std::vector<RoomFacts::Ranked> inputs() const = 0;
  virtual std::vector<RoomFacts::Ranked> outputs() const = 0;
  /// The settings of `options` that tests, fixtures and pages walk through; the first is the default.
  virtual std::vector<Params> variants() const { return std::vector<Params>(1); }
  /// Outputs, row caches, diagnostics and, if the problem has cotangents, gradients.
  virtual Decimals decimals(const BasicProblem<std::string>& problem, const DecimalOptions& options) const = 0;
  /// Outputs and gradients for judging kernels, all heads; gradients only if the problem has cotangents.
  virtual BasicAnswer<HiLo> values(const Problem& problem, Tier tier) const = 0;
  /// Names and shapes of these, without numbers; nothing where they are not known before the numbers.
  virtual std::optional<Answer> shapes(const Problem& /*problem*/) const { return std::nullopt; }
  /// As above with a proven bound, about 2^-104 of the value or less; nothing where no enclosure could decide a
  /// comparison (two equal numbers compared) within the precision allowed.
  virtual std::optional<BasicAnswer<Enclosed>> enclosed(const Problem& problem) const = 0;
  /// As above for problems of any size, in sums of doubles, eight heads at a time: in `effort.words` words, or in more
  /// where a bound would exceed `word_target` of the tensor's largest. Nothing if four words decide no comparison.
  virtual std::optional<BasicAnswer<Enclosed>> in_words(const Problem& problem, const WordEffort& effort) const = 0;
  /// Derivative of every output along the direction `tangent` (inputs by name; missing means zero) by dual numbers, in
  /// 50 digits.
  virtual BasicArrays<HiLo> slopes(const Problem& problem, const Arrays& tangent) const = 0;
  /// Outputs, and gradients if the problem has cotangents, in Emulated: as this thread's EmulatedArithmetic rounds,
  /// or its PerturbedArithmetic errs, on the threads that this has. Throws InputError if no kernel computes the room.
  virtual Answer emulated(const Problem& problem) const;
  /// The sizes of the terms of these (judge/sigma/terms.hpp), by their names in a report; 0 where such numbers hold
  /// everything exactly in any order. The number of threads changes nothing. Nothing if no kernel of ours computes the
  /// room.
  virtual std::optional<Arrays> term_sizes(const Problem& problem, const HeldIn& numbers, int threads) const;
  /// From a sequence's first segment on, in tier w2 (at most w2_over_double of double's error in an operation) or fp64;
  /// lives as long as the room at most. Null where no state of a segment before is taken up.
  virtual std::unique_ptr<Trajectory> trajectory(Tier tier) const;
  /// Seeded inputs and cotangents (reference/core/inputs.hpp).
  virtual Problem make(const CaseSpec& spec) const = 0;
  /// Whether a step writes the previous step's key (next-latent alignment).
  virtual bool shifted(const Params&) const { return false; }
  /// Whether it is a program, one that language::program_of() knows.
  virtual bool is_program() const { return false; }
};

/// All rooms of mechanisms.def, in its order.
std::span<const Room* const> rooms();
/// The one of that name. Throws InputError if there is none.
const Room& listed_room(std::string_view name);
/// The room of that name: one of mechanisms.def, a program by its file's path, or the cases of either that have
/// arguments ("kda+arguments"); null if the name is no room's. Throws Refusal (UNSUPPORTED) if the file is no program.
/// Defined in arguments/file_rooms.cpp.
std::shared_ptr<const Room> find_room(std::string_view name);
/// Outputs and the inputs of the next segment that they are, by name: final_state and initial_state.
std::vector<std::pair<std::string, std::string>> carried_names(const Room& room);

}  // namespace assay
