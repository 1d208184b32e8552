#pragma once
// The common parts of many rooms: no options, and the reads and the last state as outputs.
#include <array>
#include <string_view>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

struct NoOptions {
  static constexpr std::array<std::string_view, 0> names{};
  /// The settings that tests, fixtures and pages walk through.
  static std::vector<Params> variants() { return {{}}; }
  static NoOptions read(const Params&) { return {}; }
};

template <class S>
struct ReadsAndState {
  using scalar = S;
  Tensor<S, 2> o;            // [T, V]
  Tensor<S, 2> final_state;  // [K, V]

  template <class Self, class F>
  static void each(Self& self, F&& f) {
    using enum Axis;
    f(Field{"o", Domain::value, {seq_len, value_dim}}, self.o);
    f(Field{"final_state", Domain::state, {key_dim, value_dim}}, self.final_state);
  }
};

template <class S>
struct ReadsStateAndNormalizer {
  using scalar = S;
  Tensor<S, 2> o;                 // [T, V]
  Tensor<S, 2> final_state;       // [K, V]
  Tensor<S, 1> final_normalizer;  // [K], or empty: not normalised

  template <class Self, class F>
  static void each(Self& self, F&& f) {
    using enum Axis;
    f(Field{"o", Domain::value, {seq_len, value_dim}}, self.o);
    f(Field{"final_state", Domain::state, {key_dim, value_dim}}, self.final_state);
    f(Field{"final_normalizer", Domain::normalizer, {key_dim}}.or_absent(), self.final_normalizer);
  }
};

}  // namespace assay
