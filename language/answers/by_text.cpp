#include "language/answers/by_text.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "oracles/multiword/parallel.hpp"
#include "oracles/scalars/emulated.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

std::atomic<TextExecutor*> current = nullptr;

/// Of scans whose states are matrices: a multiplication for every number and element of a row of the state.
double multiplications(const Program& program, const Sizes& sizes, int heads) {
  double numbers = 0;
  int longest = 1;
  const auto count = [&](const Type& type) {
    numbers += static_cast<double>(shape_of(type, sizes).count());
    for (std::size_t axis = 1; axis < type.axes.size(); ++axis)
      longest = std::max(longest, extent_of(type.axes[axis], sizes));
  };
  for (const Input& input : program.inputs) count(input.type);
  for (std::size_t r = 0; r < program.outputs.size(); ++r) count(program.body->result_type(r));
  return numbers * longest * heads;
}

/// Puts a head's numbers where they belong; integers and truth values are numbers, too.
void put(const Value<Emulated>& value, std::size_t head, std::vector<double>& to) {
  const std::size_t first = value.layout.count() * head;
  if (value.integers != nullptr) return void(to[first] = static_cast<double>(value.integer(value.layout.offset)));
  if (value.truths != nullptr) return void(to[first] = value.truth(value.layout.offset) == Truth::yes ? 1.0 : 0.0);
  std::ranges::transform(value.in_rows(), to.begin() + static_cast<std::ptrdiff_t>(first), &Emulated::value);
}

/// The inputs of all heads, as the draw has those that are not given: `made` keeps what does not lie in the problem so.
std::vector<std::span<const double>> inputs_of(const Posed<double>& posed, bool gradients,
                                               const PerturbedArithmetic& draw,
                                               std::vector<std::vector<double>>& made) {
  const Program& program = posed.mechanism().asked(gradients);
  std::vector<std::span<const double>> inputs;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) inputs.push_back(posed.numbers_of_heads(i));
  made.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].empty())
      inputs[i] = made[i] = std::vector<double>(shape_of(program.inputs[i].type, posed.sizes()).count() *
                                                static_cast<std::size_t>(posed.heads()));
  if (std::ranges::all_of(made, &std::vector<double>::empty)) return inputs;
  words::in_parallel(static_cast<std::size_t>(posed.heads()), draw.threads(), [&](std::size_t head) {
    const PerturbedArithmetic entered(draw, static_cast<std::uint32_t>(head));
    const std::array<int, 1> heads{static_cast<int>(head)};
    const std::vector<Value<Emulated>> values = posed.values<Emulated>(heads, gradients);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!made[i].empty()) put(values[i], head, made[i]);
  });
  return inputs;
}

std::optional<Emitted> text_of(const Program& program) {
  try {
    return emit(program);
  } catch (const InputError&) {
    return std::nullopt;  // it has something that no text is emitted for
  }
}

}  // namespace

void draw_by_text(TextExecutor* executor) { current = executor; }

std::optional<std::vector<std::vector<Emulated>>> drawn_by_text(const Posed<double>& posed, bool gradients,
                                                                const PerturbedArithmetic& draw) {
  TextExecutor* const by = current;
  const Program& program = posed.mechanism().asked(gradients);
  if (by == nullptr || draw.states() != PerturbedArithmetic::States::wide ||
      !by->is_worth(multiplications(program, posed.sizes(), posed.heads())))
    return std::nullopt;
  const std::optional<Emitted> text = text_of(program);
  if (!text) return std::nullopt;
  std::vector<std::vector<double>> made;
  TextRun run{posed.sizes(), posed.heads(), draw.numbers(), inputs_of(posed, gradients, draw, made), {}};
  run.outputs.resize(program.outputs.size());
  words::in_parallel(run.outputs.size(), draw.threads(), [&](std::size_t r) {
    run.outputs[r].resize(shape_of(program.body->result_type(r), posed.sizes()).count() *
                          static_cast<std::size_t>(posed.heads()));
  });
  if (!by->run(*text, run)) return std::nullopt;
  return std::move(run.outputs);
}

}  // namespace assay::language
