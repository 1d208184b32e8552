#pragma once
// How a room is computed in words.

namespace assay {

/// As its reference does. A room whose reference takes too long on thousands of tokens has a form of its own in
/// oracles/rooms/NAME_form.hpp, for the scalars of oracles/multiword alone: it is judged by the reference.
template <class M>
struct WordForm {
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
