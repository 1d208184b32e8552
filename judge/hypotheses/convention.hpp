#pragma once
// One convention that a kernel may have misunderstood.
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include "judge/hypotheses/scene.hpp"

namespace assay::hypotheses {

/// A number as params have it, with all its digits.
std::string digits(double x);
double sigmoid(double x);

/// Whether suites of cases count a mistake among the faults that they show.
enum class Counted { by_suites, no };

struct Convention {
  std::string key;   ///< "log_decay in base 2"
  std::string what;  ///< after "looks like"
  std::string mend;  ///< what to do then
  /// The answer of such a kernel, by the names of a report; NaN where that depends on more than the convention, and
  /// under "d_x, raw" a gradient for those that differentiate the changed input instead of the given one. Throws what
  /// the room throws: then no kernel can have done so.
  std::function<Arrays(const Scene&)> answer;
  bool looks_ahead = false;      ///< later tokens matter to earlier outputs
  bool whole_sequences = false;  ///< heads are more than groups side by side
  std::string only = {};         ///< a tensor that fails then, or it is not tried; "": any
  double effort = 1;             ///< of what the room's own answer takes
  std::size_t block = 0;         ///< of how many tokens it says that chunks or tiles are; 0: of none
  bool is_term = false;          ///< its answer is the right one without one of its terms
  bool strict = false;           ///< what it leaves must be within the judge's limits
  bool is_pair = false;          ///< two of them
  bool asks_room = true;         ///< false: it writes the algorithm out, and has its answer from that alone

  /// In the words of one that leaves a term out; another number than 0 stands in its place.
  static constexpr std::string_view term_left_out = " missing";
  bool leaves_term_out() const { return is_term && what.find(term_left_out) != std::string::npos; }
};

/// A mistake of an algorithm that is written out.
struct Told {
  std::string_view slip;  ///< its name, by which the algorithm asks for it
  const char* tensor;     ///< that fails then, whatever else does; "": any
  const char *what, *mend;
  bool of_decays = false, of_errors = false;  ///< whether there must be decays, or a delta rule
  Counted counted = Counted::by_suites;
};

/// The row of a table that tells of a slip, found while compiling: a name that no row has does not compile.
template <const auto& table>
struct RowOf {
  const std::remove_cvref_t<decltype(table[0])>* told = table;
  consteval RowOf(const char* slip) {  // NOLINT(google-explicit-constructor): names are meant to convert
    while (told->slip != slip) ++told;
  }
};

}  // namespace assay::hypotheses
