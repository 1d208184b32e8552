#pragma once
// How a room is computed in words.

namespace assay {

/// As its reference does. A room whose reference takes too long on thousands of tokens has an engine of its own in
/// oracles/rooms/NAME_word_engine.hpp, for the scalars of oracles/multiword alone: it is judged by the reference.
template <class M>
struct WordEngine {
  template <class In>
  static auto forward(const typename M::Options& options, const In& in) {
    return M::forward(options, in);
  }
  template <class In, class Out>
  static In backward(const typename M::Options& options, const In& in, const Out& cotangent) {
    return M::backward(options, in, cotangent);
  }
};

}  // namespace assay
