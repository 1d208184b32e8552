// Large problems of local linear attention: the engine never forms the K x K systems in words.
#include "oracles/core/engine_heads.hpp"
#include "oracles/rooms/engines.hpp"
#include "reference/lla.hpp"

namespace assay {
namespace {

/// Multiply-adds of the systems, from which on the engine is faster than packs of heads.
constexpr double engine_work = 1e8;

words::RidgeMode mode_of(LlaOptions::LambdaMode mode) {
  switch (mode) {
    case LlaOptions::LambdaMode::absolute:
      return words::RidgeMode::absolute;
    case LlaOptions::LambdaMode::max:
      return words::RidgeMode::max;
    case LlaOptions::LambdaMode::mass:
      break;
  }
  return words::RidgeMode::mass;
}

bool engine_applies(const LlaOptions& options, const lla::Inputs<double>& in) {
  const double n = in.q.size(0), T = in.k.size(0), K = in.k.size(1);
  return options.solver == LlaOptions::Solver::direct && options.blocks == 1 && n * T * K * K >= engine_work &&
         !(options.takes_limit() && has_zero_ridge(in.lambda));
}

}  // namespace

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<lla, double>& binding, bool gradients,
                                                   const WordEffort& effort) {
  const LlaOptions& options = binding.options();
  return engine_heads(binding, gradients, effort,
                      [&](const lla::Inputs<double>& in) -> std::optional<words::LlaProblem> {
                        if (!engine_applies(options, in)) return std::nullopt;
                        words::LlaProblem p = engine_problem(options, in);
                        p.lambda = in.lambda.data, p.mode = mode_of(options.lambda_mode);
                        return p;
                      });
}

}  // namespace assay
