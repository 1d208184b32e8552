// Softmax attention and Parallax, one head after another.
#include "oracles/core/engine_heads.hpp"
#include "oracles/rooms/engines.hpp"
#include "reference/parallax.hpp"
#include "reference/softmax_attention.hpp"

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

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<parallax, double>& binding, bool gradients,
                                                   const WordEffort& effort) {
  return engine_heads(binding, gradients, effort,
                      [&](const parallax::Inputs<double>& in) -> std::optional<words::LlaProblem> {
                        if (!engine_pays(in)) return std::nullopt;
                        words::LlaProblem p = engine_problem(binding.options(), in);
                        p.slope = words::Slope::given, p.probe = in.rho.data;
                        return p;
                      });
}

}  // namespace assay
