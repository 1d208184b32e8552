#include "language/answers/by_text.hpp"

#include <algorithm>
#include <array>
#include <atomic>

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

/// Integers and truth values as numbers, too.
void append(const Value<Emulated>& value, std::vector<double>& to) {
  if (value.integers != nullptr) return to.push_back(static_cast<double>(value.integer(value.layout.offset)));
  if (value.truths != nullptr) return to.push_back(value.truth(value.layout.offset) == Truth::yes ? 1.0 : 0.0);
  for (const Emulated& x : value.in_rows()) to.push_back(x.value);
}

/// The inputs of all heads, as the draw has those that are not given.
std::vector<std::vector<double>> inputs_of(const Posed<double>& posed, bool gradients,
                                           const PerturbedArithmetic& draw) {
  std::vector<std::vector<double>> inputs;
  for (int head = 0; head < posed.heads(); ++head) {
    const PerturbedArithmetic entered(draw, static_cast<std::uint32_t>(head));
    const std::array<int, 1> heads{head};
    const std::vector<Value<Emulated>> values = posed.values<Emulated>(heads, gradients);
    inputs.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) append(values[i], inputs[i]);
  }
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

std::optional<std::vector<std::vector<Value<Emulated>>>> drawn_by_text(const Posed<double>& posed, bool gradients,
                                                                       const PerturbedArithmetic& draw) {
  TextExecutor* const by = current;
  const Program& program = posed.mechanism().asked(gradients);
  const auto heads = static_cast<std::size_t>(posed.heads());
  if (by == nullptr || draw.states() != PerturbedArithmetic::States::wide ||
      !by->is_worth(multiplications(program, posed.sizes(), posed.heads())))
    return std::nullopt;
  const std::optional<Emitted> text = text_of(program);
  if (!text) return std::nullopt;
  TextRun run{posed.sizes(), posed.heads(), draw.numbers(), inputs_of(posed, gradients, draw), {}};
  std::vector<Strides> shapes;
  for (std::size_t r = 0; r < program.outputs.size(); ++r) {
    shapes.push_back(shape_of(program.body->result_type(r), posed.sizes()));
    run.outputs.emplace_back(shapes.back().count() * heads);
  }
  if (!by->run(*text, run)) return std::nullopt;
  std::vector<std::vector<Value<Emulated>>> results(heads);
  for (std::size_t head = 0; head < heads; ++head)
    for (std::size_t r = 0; r < shapes.size(); ++r) {
      const std::size_t n = shapes[r].count();
      const auto from = run.outputs[r].begin() + static_cast<std::ptrdiff_t>(n * head);
      results[head].push_back(
          Value<Emulated>::of(shapes[r], std::vector<Emulated>(from, from + static_cast<std::ptrdiff_t>(n))));
    }
  return results;
}

}  // namespace assay::language
