#pragma once
// Causes of what fails: what was answered, compared with the truth and its variants, and with what a kernel would
// answer that misunderstands one convention. Named is what explains 99% of the error; otherwise nothing.
// docs/judge-derivation.md, "Why".
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "judge/verdict/judge.hpp"
#include "judge/verdict/locate.hpp"
#include "oracles/core/room.hpp"

namespace assay {

/// A tensor that was judged.
struct Suspect {
  std::string name;  ///< "o", "d_q"
  std::vector<int> shape;
  const Expected* expected = nullptr;
  const std::vector<double>* got = nullptr;
  bool fails = false;
  const std::vector<NamedAxis>* axes = nullptr;          ///< as a report names them; null: as the room does
  const std::vector<std::vector<int>>* wrong = nullptr;  ///< along them, as its `where` says; null: no report says it
};

/// One cause that was found.
struct LooksLike {
  std::vector<std::string> tensors;  ///< that it explains, in causal order
  std::string name;                  ///< for programs
  std::string what;                  ///< after "looks like"
  std::string mend;
  std::string where;                 ///< "head 1" where other heads are right, else ""
  double share = 0;                  ///< of the squared error, in units of sigma
  std::vector<std::string> or_else;  ///< what explains as much

  /// "looks like log_decay taken as log2 (99.98%)", or "o: looks like a token late ..." if more tensors are failing.
  std::string cause(std::size_t failing) const;
  /// The cause and what mends it.
  std::string sentence(std::size_t failing) const;
};

/// How much may be tried.
struct Effort {
  double multiplications = 1.6e9;   ///< of conventions, roughly, two seconds: what is tried depends on no machine
  std::function<bool()> stop = {};  ///< whether time is up; null: never
};
/// The speed of one core.
inline constexpr double multiplications_per_second = 8e8;

struct Causes {
  std::vector<LooksLike> list;           ///< those of the first tensors first
  std::vector<std::string> unexplained;  ///< failing tensors of which nothing is known
  bool all_tried = true;                 ///< otherwise the problem was too large for some conventions
};

/// Causes of what fails among `tensors`.
Causes causes_of(const Room& room, const Problem& problem, int batch, const std::vector<Suspect>& tensors,
                 const Effort& effort = {});
/// The same of a case with arguments, whose problem is a file's.
Causes causes_of_arguments(const Problem& in_file, const std::vector<Suspect>& tensors, const Effort& effort = {});

/// Where a wrong answer begins: outputs come before gradients, earlier tokens before later ones.
struct FirstWrong {
  std::string tensor;
  std::vector<std::string> followers;  ///< what fails besides
  std::string sentence;                ///< "o is wrong from token 64 on, in head 1 of 2 (7 others follow)"
};
std::optional<FirstWrong> first_wrong(const Room& room, int batch, const std::vector<Suspect>& tensors);

}  // namespace assay
