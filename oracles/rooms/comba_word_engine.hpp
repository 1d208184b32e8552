#pragma once
// Comba in words: Momentum DeltaNet whose momentum is forgotten at once, mu = 0,
//   M_t = -eta k e^T,   S_t = alpha S_{t-1} - M_t   with eta = comba's beta
// A step of Comba may make an error longer, for its prediction key is not its key, although the product of many steps
// does not; Momentum DeltaNet's errors are carried by that product (docs/error-analysis.md, section 8.1).
#include <algorithm>
#include <limits>

#include "oracles/core/word_engine.hpp"
#include "reference/comba.hpp"
#include "reference/mdn.hpp"

namespace assay {

template <>
struct WordEngine<comba> {
  template <class S>
  static comba::Outputs<S> forward(const comba::Options&, const comba::Inputs<S>& in) {
    const mdn::Outputs<S> out = mdn::forward({}, without_memory(in));
    return {out.o, out.final_state};
  }

  template <class S>
  static comba::Inputs<S> backward(const comba::Options&, const comba::Inputs<S>& in,
                                   const comba::Outputs<S>& cotangent) {
    const Tensor<S, 2> none(in.initial_state.extent);
    const mdn::Inputs<S> d = mdn::backward({}, without_memory(in), {cotangent.o, cotangent.final_state, none});
    return {{}, d.q, d.k, d.v, d.p, d.eta, d.log_alpha, d.initial_state};
  }

 private:
  template <class S>
  static mdn::Inputs<S> without_memory(const comba::Inputs<S>& in) {
    Tensor<S, 1> log_mu(in.beta.extent), step(in.beta.extent);
    std::fill(log_mu.data.begin(), log_mu.data.end(), S(-std::numeric_limits<double>::infinity()));
    std::fill(step.data.begin(), step.data.end(), S(1));
    return {in.scale,
            in.q,
            in.k,
            in.v,
            in.p,
            in.log_decay,
            log_mu,
            step,
            in.beta,
            in.initial_state,
            Tensor<S, 2>(in.initial_state.extent)};
  }
};

}  // namespace assay
