#pragma once
// Value averaging, one head (lla-family.md section 7): o_i = (v_1 + ... + v_i) / i.
#include <string_view>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/erring.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

struct value_averaging {
  static constexpr std::string_view name = "value_averaging";
  static constexpr std::string_view summary = "the mean of the values so far";

  using Options = NoOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 2> v;  // [T, V]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
    }
  };

  template <class S>
  struct Outputs {
    using scalar = S;
    Tensor<S, 2> o;  // [T, V]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"o", Domain::value, {seq_len, value_dim}}, self.o);
    }
  };

  template <class S>
  static void check(const Options&, const Inputs<S>&) {}

  template <class S>
  static Outputs<S> forward(const Options&, const Inputs<S>& in) {
    Outputs<S> out{Tensor<S, 2>(in.v.extent)};
    std::vector<S> sum(static_cast<std::size_t>(in.v.size(1)), S(0));
    for (int i = 0; i < in.v.size(0); ++i) {
      add_line(line(sum), line(in.v, i));
      for (int x = 0; x < in.v.size(1); ++x) out.o(i, x) = sum[static_cast<std::size_t>(x)] / S(i + 1);
    }
    return out;
  }

  /// dv_j = sum_{i >= j} do_i / i.
  template <class S>
  static Inputs<S> backward(const Options&, const Inputs<S>& in, const Outputs<S>& cotangent) {
    Inputs<S> d{Tensor<S, 2>(in.v.extent)};
    std::vector<S> sum(static_cast<std::size_t>(in.v.size(1)), S(0));
    for (int j = in.v.size(0) - 1; j >= 0; --j) {
      std::vector<S> given;
      for (int x = 0; x < in.v.size(1); ++x) given.push_back(cotangent.o(j, x) / S(j + 1));
      add_line(line(sum), line(given));
      for (int x = 0; x < in.v.size(1); ++x) d.v(j, x) = sum[static_cast<std::size_t>(x)];
    }
    return d;
  }
};

}  // namespace assay
