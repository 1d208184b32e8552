#pragma once
// Two programs of one mechanism, a recurrence and the algorithm that a kernel is to run: how far apart they are,
// proven.
#include <string>
#include <vector>

#include "language/answers/posed.hpp"
#include "oracles/core/oracle.hpp"
#include "oracles/core/room.hpp"

namespace assay::language {

/// A tensor of both answers.
struct Distance {
  std::string tensor;      ///< "o", "d_q"
  double largest = 0;      ///< of its numbers, in size
  double bound = 0;        ///< no number of it differs by more
  bool differs = false;    ///< and some number does differ: two enclosures that do not meet
  std::vector<int> place;  ///< of the number that is furthest apart, or least known
  double first = 0, second = 0;
};

/// `problem` of the program as one of the form. A sequence of the form may come in chunks of a written length, "N 16 K"
/// for "T K": row t is element (t / 16, t % 16), and what the last chunk lacks is zero. An input that the form lacks,
/// or that is of another shape, is refused with InputError, unless it may be missing.
Problem problem_of_form(const Program& program, const Program& form, const Problem& problem);

/// The form's answer to such a problem as one of the program: chunks in a row, without what they were filled up with.
template <class N>
BasicAnswer<N> answer_of_program(const Mechanism& program, const Mechanism& form, const Problem& problem,
                                 BasicAnswer<N> of_form);

/// Outputs and gradients of two rooms that are programs on the problem of the first, by enclosures. Throws what these
/// throw on bad input, and InputError where enclosures decide nothing.
std::vector<Distance> distances(const Room& program, const Room& form, const Problem& problem);

/// Those of the form from an oracle's answer to the program's problem, in two words or as many as it takes.
std::vector<Distance> distances(const Oracle& truth, const Mechanism& program, const Room& form, const Problem& problem,
                                int threads);

/// The conclusion from a distance. Bounds that are wide prove nothing: a program's own are 2^-104.
enum class Outcome { equal, unknown, different };
Outcome outcome_of(const Distance& distance);
/// One sentence: "DIFFERENT: [1][4][2] is -0.973649783 and -1.73278027".
std::string words_of(const Distance& distance);

}  // namespace assay::language
