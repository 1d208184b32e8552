#include "oracles/rooms/softmax_attention_engine.hpp"

#include "oracles/core/engine_heads.hpp"

namespace assay {

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<softmax_attention, double>& binding, bool gradients,
                                                   const WordEffort& effort) {
  return engine_heads(binding, gradients, effort,
                      [&](const softmax_attention::Inputs<double>& in) -> std::optional<words::LlaProblem> {
                        if (!engine_pays(in)) return std::nullopt;
                        words::LlaProblem p = engine_problem(binding.options(), in);
                        p.slope = words::Slope::zero;
                        return p;
                      });
}

}  // namespace assay
