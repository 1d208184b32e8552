#include "judge/court/argument_form.hpp"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arguments/file_case.hpp"
#include "judge/court/sequence_faults.hpp"
#include "kernels/arguments/calls.hpp"
#include "kernels/arguments/rooms.hpp"
#include "kernels/draws/drawn.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// A sequence, with the words of the case that say which program it is of, and by the mechanism's own name.
Problem told(const Problem& sequence, const Problem& whole) {
  Problem own = sequence;
  own.mechanism = arguments::without_suffix(whole.mechanism);
  own.params.insert(whole.params.begin(), whole.params.end());
  return own;
}

/// Before which tokens of a sequence its state is asked for.
std::vector<int> asked_states(const arguments::Piece& piece) {
  std::set<int> tokens;
  const auto [first, last] = piece.outputs.equal_range("states");
  for (auto it = first; it != last; ++it) {
    const arguments::Placed& one = it->second;
    const std::size_t rank = one.shape.size(), rows = static_cast<std::size_t>(one.shape[rank - 3]),
                      each =
                          static_cast<std::size_t>(one.shape[rank - 2]) * static_cast<std::size_t>(one.shape[rank - 1]);
    for (const auto& [from, to] : one.pairs) tokens.insert(static_cast<int>(from / each % rows));
  }
  return {tokens.begin(), tokens.end()};
}

/// `make_fault` makes what spoils the case's sequences, or nothing.
template <class MakeFault>
Answer folded_from_sequences(const KernelForm& form, const Problem& problem, const Policy& policy, int tile,
                             const MakeFault& make_fault) {
  const auto file = arguments::FileCase::of(problem);
  const auto& sequences = file->folded_doubles().problems();
  const bool gradients = file->has_gradients() && form.has_gradients;
  const auto run = [&](const Problem& own, std::uint64_t number) {
    Policy numbered = policy;
    if (number > 0) numbered.seed = RandomBits{policy.seed}.at(~number);
    return draw(form, own, numbered, tile);
  };
  auto fault = make_fault(*file);
  const BasicAnswer<double> whole = arguments::folded_answer<double>(
      file->plan(), gradients,
      [&](std::size_t n) {
        Problem own = told(sequences[n], problem);
        if (fault) fault->spoil(n, own);
        const std::vector<int> states = asked_states(file->plan().pieces[n]);
        const std::uint64_t first = n << 32;  // calls have random bits of their own
        Answer answer = states.empty() ? run(own, n)
                                       : tile::answer_in_calls(own, file->plan().tokens, states,
                                                               [&](const Problem& call, std::uint64_t number) {
                                                                 return run(call, first + number);
                                                               });
        if (fault) fault->spoil(n, states, answer);
        return answer;
      },
      [](double a, double b) { return a + b; });
  return file->judged_answer(whole);
}

/// Form number I of that mechanism's.
template <tile::FixedString Mechanism, std::size_t I>
struct Form {
  static const KernelForm& base() { return tile::kernel_rooms::with_arguments(Mechanism.view())->forms[I]; }
  static std::string obstacle(const Problem& problem) { return obstacle_of_sequences(base(), problem); }
  static Answer run(const Problem& problem, const Policy& policy, int tile) {
    if (!is_sequence_fault(policy.fault)) return answer_of_sequences(base(), problem, policy, tile);
    return folded_from_sequences(base(), problem, policy.healthy(), tile, [&](const arguments::FileCase& file) {
      return std::optional<SequenceFault>(std::in_place, policy.fault, file);
    });
  }
  /// Its faults are those of the tile program and those of what calls it.
  static KernelForm form() {
    static const std::vector<Mutant> mutants = [] {
      std::vector<Mutant> all(base().mutants.begin(), base().mutants.end());
      if (all.empty()) return all;  // another form of the same recurrence: the first one has them
      for (const Mutant& mutant : sequence_mutants(Mechanism.view(), base().has_gradients)) all.push_back(mutant);
      return all;
    }();
    KernelForm wrapped = base();
    wrapped.obstacle = obstacle, wrapped.run = run, wrapped.mutants = mutants;
    return wrapped;
  }
};

template <tile::FixedString Mechanism>
const KernelRoom* forms_of_cases() {
  const KernelRoom* base = tile::kernel_rooms::with_arguments(Mechanism.view());
  if (base == nullptr) return nullptr;
  static const std::vector<KernelForm> forms = [&] {
    std::vector<KernelForm> all = {Form<Mechanism, 0>::form()};
    if (base->forms.size() > 1) all.push_back(Form<Mechanism, 1>::form());
    return all;
  }();
  static const std::string name = std::string(base->name) + std::string(arguments::room_suffix);
  static const KernelRoom room = {name, forms, base->folder};
  return &room;
}

/// Why no call of the mechanism continues another one, or "".
std::string obstacle_of_calls(const Problem& sequence) {
  for (const auto& [name, array] : sequence.inputs)
    if (name == "k_carry" || (name.starts_with("initial_") && name != "initial_state"))
      return "no tile program gives states inside of sequences that carry more than a state from token to token";
  if (sequence.params.contains("normalization") || sequence.params.contains("alignment"))
    return "no tile program gives states inside of sequences whose tokens count from the first";
  return "";
}

}  // namespace

const KernelRoom* find_argument_forms(std::string_view room) {
  const std::string_view mechanism = arguments::without_suffix(room);
#define MECHANISM(name) \
  if (mechanism == #name) return forms_of_cases<#name>();
#include "mechanisms.def"
#undef MECHANISM
  return nullptr;
}

std::string title_of(const Problem& problem) {
  const std::string_view mechanism = arguments::without_suffix(problem.mechanism);
  if (mechanism.empty()) return "";
  std::string names;
  for (const arguments::Argument& argument : arguments::all_arguments()) {
    const std::string name(argument.name);
    const bool given = argument.part == arguments::Part::params   ? problem.params.contains(name)
                       : argument.part == arguments::Part::inputs ? problem.inputs.contains(name)
                                                                  : problem.cotangents.contains(name);
    if (given && name != "scale") names += (names.empty() ? " with " : ", ") + name;
  }
  return std::string(mechanism) + (names.empty() ? " with arguments" : names);
}

Answer answer_of_sequences(const KernelForm& form, const Problem& problem, const Policy& policy, int tile) {
  return folded_from_sequences(form, problem, policy, tile,
                               [](const arguments::FileCase&) { return static_cast<SequenceFault*>(nullptr); });
}

std::string obstacle_of_sequences(const KernelForm& form, const Problem& problem) {
  try {
    const auto file = arguments::FileCase::of(problem);
    const auto& sequences = file->folded_doubles().problems();
    for (std::size_t n = 0; n < sequences.size(); ++n) {
      const Problem own = told(sequences[n], problem);
      std::string why = form.obstacle(own);
      if (why.empty() && !asked_states(file->plan().pieces[n]).empty()) why = obstacle_of_calls(own);
      if (!why.empty()) return why;
    }
  } catch (const Refusal& refusal) {
    return refusal.what();
  }
  return "";
}

}  // namespace assay
