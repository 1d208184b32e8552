#pragma once
// Draws of the model by a program's text (language/emit), all heads at once: on a device, or wherever an executor runs
// it.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "language/answers/posed.hpp"
#include "language/emit/emit.hpp"
#include "oracles/scalars/perturbed.hpp"

namespace assay {
struct Emulated;
}

namespace assay::language {

/// One draw of a text. Of every input, and of every output, the numbers of all heads follow each other.
struct TextRun {
  const Sizes& sizes;
  int heads = 1;
  PerturbedArithmetic::Numbers draw;
  std::vector<std::span<const double>> inputs;
  std::vector<std::vector<Emulated>> outputs;  ///< as large as they are to be
};

/// Compiles texts of draws and runs them. Called by several threads.
class TextExecutor {
 public:
  TextExecutor() = default;
  TextExecutor(const TextExecutor&) = delete;
  TextExecutor& operator=(const TextExecutor&) = delete;
  virtual ~TextExecutor() = default;

  /// Of what it runs on.
  virtual std::string name() const = 0;
  /// Whether that many multiplications of a draw, about, are worth its start.
  virtual bool is_worth(double multiplications) = 0;
  /// Fills the outputs; false where it cannot.
  virtual bool run(const Emitted& text, TextRun& run) = 0;
};

/// Draws of programs go to that executor from now on, where there is a text and it takes it; null: to the evaluator, as
/// at first. It outlives them.
void draw_by_text(TextExecutor* executor);

/// The program's results, to the bit as the evaluator draws them, of each the numbers of all heads; nothing where the
/// evaluator has to.
std::optional<std::vector<std::vector<Emulated>>> drawn_by_text(const Posed<double>& posed, bool gradients,
                                                                const PerturbedArithmetic& draw);

}  // namespace assay::language
