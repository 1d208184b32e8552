#pragma once
// Rooms of mechanisms.def that their programs answer (mechanisms/NAME.py); what they declare and refuse is their
// reference's, and so is what is said of rows beside the outputs.
#include <optional>

#include "language/answers/posed.hpp"
#include "oracles/core/in_words.hpp"
#include "oracles/core/make_room.hpp"

namespace assay::arguments {

/// The problem's params, and the settings of its program that they and the shapes of a room's inputs decide: a window
/// may leave out pairs; a ridge may be one number, one for every token, or one for every channel of it. X is double or
/// a decimal string.
template <class X>
Params settings_of(const std::vector<RoomFacts::Ranked>& inputs, const BasicProblem<X>& problem);

/// The model is the program's in emulated arithmetic, without roundings of what no product reads.
class ListedRoom : public Room {
 public:
  using Room::Room;
  Decimals decimals(const BasicProblem<std::string>& problem, const DecimalOptions& options) const final;
  BasicAnswer<HiLo> values(const Problem& problem, Tier tier) const final;
  std::optional<BasicAnswer<Enclosed>> enclosed(const Problem& problem) const final;
  std::optional<BasicAnswer<Enclosed>> in_words(const Problem& problem, const WordEffort& effort) const final;
  BasicArrays<HiLo> slopes(const Problem& problem, const Arrays& tangent) const final;
  std::optional<Answer> shapes(const Problem& problem) const final;
  Answer emulated(const Problem& problem) const override;
  std::optional<Arrays> term_sizes(const Problem& problem, const HeldIn& numbers, int threads) const override;
  std::unique_ptr<Trajectory> trajectory(Tier tier) const final;

 private:
  /// Throws Refusal on what the reference does not take.
  virtual void admit(const Problem& problem) const = 0;
  virtual void admit(const BasicProblem<std::string>& problem) const = 0;
  /// Throws as admit(). The answer of the engine that the reference has for large problems; nothing if there is none.
  virtual std::optional<BasicAnswer<WordBall>> admitted_by_engine(const Problem& problem,
                                                                  const WordEffort& effort) const = 0;
  /// Whether answers print a final state [V, K].
  virtual bool prints_value_by_key(const BasicProblem<std::string>& problem) const = 0;
  /// rows.* and diagnostics.*, of rooms that have them.
  virtual Decimals rows(const BasicProblem<std::string>& problem, const DecimalOptions& options) const = 0;

  /// The program of the problem's settings. Kept as long as the process lives.
  template <class X>
  const language::Mechanism& program_of(const BasicProblem<X>& problem) const;
};

/// The room of reference M.
template <class M>
class RoomOf : public DeclaredRoom<M, ListedRoom> {
  void admit(const Problem& problem) const override { const Binding<M, double> binding(problem); }
  void admit(const BasicProblem<std::string>& problem) const override {
    const Binding<M, std::string> binding(problem);
  }
  std::optional<BasicAnswer<WordBall>> admitted_by_engine(const Problem& problem,
                                                          const WordEffort& effort) const override {
    return engine_answer(Binding<M, double>(problem), !problem.cotangents.empty(), effort);
  }
  bool prints_value_by_key(const BasicProblem<std::string>& problem) const override {
    if constexpr (requires { M::prints_value_by_key(problem); }) return M::prints_value_by_key(problem);
    return false;
  }
  Decimals rows([[maybe_unused]] const BasicProblem<std::string>& problem,
                [[maybe_unused]] const DecimalOptions& options) const override {
    if constexpr (requires { typename M::template Caches<double>; }) return RoomFunctions<M>::rows(problem, options);
    return {};
  }
};

/// In emulated arithmetic, by the program of the settings that the room's problem says; nothing if there is none. With
/// what the room hands on of its inputs, as they are, beside its program: outputs, and what their cotangents add.
std::optional<Answer> emulated_by_program(const Room& room, const Problem& problem, const Answer& handed_on);
std::optional<Arrays> term_sizes_by_program(const Room& room, const Problem& problem, const Answer& handed_on,
                                            const HeldIn& numbers, int threads);

/// The room of reference M, which answers. The model is the program's, as a listed room's, of problems of which M says
/// so; else the reference's.
template <class M>
class PartlyListed final : public ModelledByReference<M, MadeRoom> {
  using ByReference = ModelledByReference<M, MadeRoom>;

  static bool is_modelled_by_program(const Problem& problem) {
    return M::is_modelled_by_program(Binding<M, double>(problem).options());
  }
  /// Whether the draw of this thread is of operations one by one (fp32, fp64), and those are the reference's.
  static bool draws_operations() {
    const PerturbedArithmetic* const draw = PerturbedArithmetic::current();
    if constexpr (requires { M::operations_are_the_reference; }) return draw != nullptr && !draw->errs_in_operands();
    return false;
  }
  static Answer handed_on(const Problem& problem) {
    if constexpr (requires { typename M::HandedOn; }) {
      const Binding<typename M::HandedOn, double> binding(problem);
      return answer<typename M::HandedOn, double>(binding, !problem.cotangents.empty());
    }
    return {};
  }
  Answer emulated(const Problem& problem) const override {
    std::optional<Answer> found;
    if (is_modelled_by_program(problem) && !draws_operations())
      found = emulated_by_program(*this, problem, handed_on(problem));
    return found ? *std::move(found) : ByReference::emulated(problem);
  }
  std::optional<Arrays> term_sizes(const Problem& problem, const HeldIn& numbers, int threads) const override {
    auto found = is_modelled_by_program(problem)
                     ? term_sizes_by_program(*this, problem, handed_on(problem), numbers, threads)
                     : std::nullopt;
    return found ? std::move(found) : ByReference::term_sizes(problem, numbers, threads);
  }
};

}  // namespace assay::arguments
