#include "judge/hypotheses/formula_slips.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <exception>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "arguments/file_rooms.hpp"
#include "arguments/programs/library.hpp"
#include "files/embedded.hpp"
#include "judge/verdict/locate.hpp"
#include "language/program/mutants.hpp"
#include "language/program/show.hpp"
#include "language/room.hpp"
#include "oracles/core/oracle.hpp"

namespace assay::hypotheses {
namespace {

using language::Mechanism;
using language::Program;
using Lines = std::vector<std::string>;

// ---- two formulas as a sentence

/// Names and numbers, and every other letter by itself.
Lines words_of_line(std::string_view line) {
  const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  Lines words;
  for (const char c : line) {
    if (!words.empty() && in_name(c) && in_name(words.back().back()))
      words.back() += c;
    else
      words.push_back(std::string(1, c));
  }
  return words;
}

/// The difference of two lists: the parts between their common front and their common back.
struct Difference {
  std::span<const std::string> right, wrong;
};
Difference difference_of(const Lines& right, const Lines& wrong) {
  const std::size_t most = std::min(right.size(), wrong.size());
  std::size_t front = 0, back = 0;
  while (front < most && right[front] == wrong[front]) ++front;
  while (front + back < most && right[right.size() - 1 - back] == wrong[wrong.size() - 1 - back]) ++back;
  return {std::span(right).subspan(front, right.size() - front - back),
          std::span(wrong).subspan(front, wrong.size() - front - back)};
}

/// Without spaces at its ends.
std::string bare(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' '), last = line.find_last_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first, last - first + 1);
}

std::string stuck_together(std::span<const std::string> parts, std::string_view between) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : std::string(between)) + part;
  return bare(out);
}

Lines lines_of(const Program& program, language::Naming naming = language::Naming::shared) {
  std::istringstream shown(language::show(program, naming));
  Lines lines;
  for (std::string line; std::getline(shown, line);) lines.push_back(bare(line));
  return lines;
}

/// Lines of this length are read in a sentence; of longer ones, what differs.
constexpr std::size_t readable = 100;

std::string abridged(const std::string& words) {
  return words.size() <= 2 * readable ? words : words.substr(0, 2 * readable - 3) + "...";
}

/// The wrong formula's part, in words behind "looks like", and the right one's in its place.
struct Sentences {
  std::string what, mend;
};
Sentences sentences_of(const std::string& due, const std::string& got) {
  const Lines a = words_of_line(due), b = words_of_line(got);
  const Difference words = difference_of(a, b);
  const std::string missing = abridged(stuck_together(words.right, "")),
                    added = abridged(stuck_together(words.wrong, ""));
  Sentences told{added.empty()     ? fmt::format("the formula without `{}`", missing)
                 : missing.empty() ? fmt::format("the formula with `{}` too much", added)
                                   : fmt::format("the formula with `{}` for `{}`", added, missing),
                 due.size() <= readable ? fmt::format("compute `{}`", due)
                 : missing.empty()      ? "leave it out"
                                        : fmt::format("compute `{}`", missing)};
  if (got.size() <= readable)
    told.what += fmt::format(" (`{}`)", got);
  else if (!got.starts_with("for "))
    told.what += fmt::format(" in `{}`", bare(got.substr(0, got.find_first_of("<=:"))));
  return told;
}
/// A formula's lines: with names for what is used twice, and with few.
struct Shown {
  Lines shared, few;
};
Sentences sentences_of(const Shown& right, const language::Mutant& mutant, const Lines& wrong) {
  if (const std::size_t solved = mutant.what.find("solved "); solved != std::string::npos)
    return {"the system " + mutant.what.substr(solved), "solve it with its whole matrix, once and to the end"};
  const Difference lines = difference_of(right.shared, wrong);
  if (lines.right.size() == 1 && lines.wrong.size() == 1) return sentences_of(lines.right[0], lines.wrong[0]);
  // One operation less, and names of all after it are others: with few names, the first line that differs has it.
  const Lines other = lines_of(mutant.program, language::Naming::few);
  const Difference few = difference_of(right.few, other);
  if (!few.right.empty() && few.right.size() == few.wrong.size()) return sentences_of(few.right[0], few.wrong[0]);
  return {fmt::format("the formula with `{}`", abridged(stuck_together(lines.wrong, "; "))),
          fmt::format("compute `{}`", abridged(stuck_together(lines.right, "; ")))};
}

// ---- formulas that are tried

using Answers = std::function<Arrays(const Mechanism&, const Scene&)>;

/// How many steps a kernel may take to solve a system, fewer than there are dimensions.
std::vector<int> usual_steps(const Scene& scene) {
  std::set<int> steps;
  const Array* k = scene.input("k");
  const int most = k == nullptr || k->shape.empty() ? 0 : k->shape.back() - 1;
  for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 30, most - 1, most})
    if (n > 0 && n <= most) steps.insert(n);
  return {steps.begin(), steps.end()};
}

void add_formulas(std::vector<Convention>& list, const Mechanism& right, const Scene& scene, Pass pass,
                  const Answers& answers) {
  const Program& formula = pass == Pass::forward ? right.program : right.gradient;
  std::vector<language::Mutant> wrong = language::mutants_of(formula);
  if (pass == Pass::forward)
    for (language::Mutant& more : language::further_mutants_of(formula, usual_steps(scene)))
      wrong.push_back(std::move(more));
  const Shown right_lines{lines_of(formula), lines_of(formula, language::Naming::few)};
  for (const language::Mutant& mutant : wrong) {
    const Lines other = lines_of(mutant.program);
    if (other == right_lines.shared) continue;
    const Sentences told = sentences_of(right_lines, mutant, other);
    list.push_back({mutant.what, told.what, told.mend,
                    [answers, pass, program = right.program, changed = mutant.program](const Scene& s) {
                      if (pass == Pass::backward) return answers(Mechanism(program, changed), s);
                      // Nobody asks for its gradient, which takes longer to derive than outputs to compute.
                      if (s.problem.cotangents.empty()) return answers(Mechanism(changed, changed), s);
                      return answers(Mechanism(changed), s);
                    }});
    // Programs are walked node by node.
    list.back().effort = scene.in_parts ? 4 : 1, list.back().whole_sequences = !scene.in_parts;
  }
}

/// Without params that a program does not know: whether they say anything, its answer shows.
Arrays answer_of_program(const Mechanism& mechanism, const Scene& s) {
  Problem p = s.problem;
  const Program& program = mechanism.program;
  std::erase_if(p.params, [&](const auto& param) {
    return !program.settings.contains(param.first) &&
           std::none_of(program.inputs.begin(), program.inputs.end(),
                        [&](const language::Input& input) { return input.name == param.first; });
  });
  return flat(language::answer_in_doubles(mechanism, p));
}

/// Whether a program answers what the room does: roundings of doubles apart, which no kernel's error is as small as.
bool answers_as_room(const Mechanism& mechanism, const Scene& scene) {
  try {
    Part some = outputs_of(group_of(scene, 0));
    if (scene.is_causal() && scene.aligned()) some = prefix_of(some, usual_chunk);
    const Scene& part = some.scene;
    const Arrays right = hypotheses::answer_of(*part.room, part.problem), mine = answer_of_program(mechanism, part);
    const bool any = std::any_of(right.begin(), right.end(), [&](const auto& t) { return mine.contains(t.first); });
    return any && std::all_of(right.begin(), right.end(), [&](const auto& tensor) {
             const auto found = mine.find(tensor.first);
             const Values& truth = tensor.second.data;
             if (found == mine.end())
               return true;  // tails, whose lengths depend on numbers, are no outputs of programs
             if (found->second.data.size() != truth.size()) return false;
             double largest = 0, off = 0;
             for (std::size_t i = 0; i < truth.size(); ++i)
               largest = std::max(largest, std::abs(truth[i])),
               off = std::max(off, std::abs(truth[i] - found->second.data[i]));
             return off <= 1e-6 * largest;
           });
  } catch (const std::exception&) {
    return false;  // it is of other settings, or of other shapes
  }
}

/// Programs of a mechanism, with all settings that there are files of.
std::vector<Program> programs_of(const Room& room) {
  if (room.is_program()) return {language::program_of(room).program};
  std::vector<Program> list;
  const std::string prefix = std::string(room.name) + '-';
  for (const EmbeddedText& entry : embedded_programs) {
    const std::string_view name = entry.name();
    if (entry.folder() != "mechanisms" || (name != room.name && !name.starts_with(prefix))) continue;
    if (const Program* program = arguments::find_mechanism_program(name); program->name == room.name)
      list.push_back(*program);
  }
  return list;
}

}  // namespace

std::vector<Convention> formula_slips(const Scene& scene, Pass pass) {
  std::vector<Convention> list;
  for (const Program& program : programs_of(*scene.room)) {
    const Mechanism mechanism(program);
    if (answers_as_room(mechanism, scene)) add_formulas(list, mechanism, scene, pass, answer_of_program);
  }
  return list;
}

std::vector<Convention> formula_slips_of_arguments(const Problem& in_file, const Scene& scene, Pass pass) {
  std::vector<Convention> list;
  const auto joined = arguments::joined_mechanism(in_file);
  if (joined == nullptr) return list;
  const auto file = std::make_shared<const Problem>(in_file);
  Problem few = in_file;
  few.cotangents.clear();
  const auto outputs = std::make_shared<const Problem>(std::move(few));
  add_formulas(list, *joined, scene, pass, [file, outputs](const Mechanism& mechanism, const Scene& s) {
    return flat(arguments::answer_in_doubles(s.problem.cotangents.empty() ? *outputs : *file, mechanism));
  });
  return list;
}

}  // namespace assay::hypotheses
