// Bounds of a recurrence whose inputs are balls, far wider than what is rounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "oracles/core/bind.hpp"
#include "oracles/multiword/pack.hpp"
#include "reference/core/inputs.hpp"
#include "reference/core/random.hpp"
#include "reference/rls.hpp"

namespace assay {
namespace {

/// All numbers of an answer, outputs and gradients.
template <class M, class Binding>
std::vector<std::vector<Pack<2>>> tensors(const Binding& binding, const typename M::template Inputs<Pack<2>>& in,
                                          const typename M::template Outputs<Pack<2>>& cotangent) {
  std::vector<std::vector<Pack<2>>> all;
  const auto add = [&](const Field&, const auto& tensor) { all.push_back(tensor.data); };
  const auto out = M::forward(binding.options(), in);
  const auto d = M::backward(binding.options(), in, cotangent);
  binding.for_each(out, add), binding.for_each(d, add);
  return all;
}

/// Where inputs are balls, far wider than what is rounded, bounds hold the answers to any numbers in these, and are not
/// `slack` times as wide as the eight drawn need.
TEST(RoughRecurrences, hold_what_any_numbers_in_their_inputs_give) {
  using M = rls;
  using P = Pack<2>;
  constexpr double radius = 0x1p-60, slack = 0x1p20;
  for (const Style style : {Style::normal, Style::repeated_keys, Style::gate_ends}) {
    const CaseSpec spec{std::string(M::name), {1, 24, 1, 0, 4, 3, 0}, Format::bf16, style, 6, {}};
    const Problem problem = make_problem<M>(spec);
    const Binding<M, double> binding(problem);
    for (const char* rough : {"initial_state", "v", "lambda", "final_state", "final_covariance"}) {
      auto wide = binding.completed(binding.given_inputs<P>(0)), exact = wide;
      auto wide_end = binding.cotangent<P>(0), exact_end = wide_end;
      const Stream stream(7, rough);
      bool is_rough = false;
      const auto widen = [&](const Field& f, auto& tensor) {
        if (f.name != rough) return;
        is_rough = true;
        for (P& x : tensor.data) x = x.widened(P(radius).sizes());
      };
      const auto move = [&](const Field& f, auto& tensor) {
        if (f.name != rough) return;
        std::uint64_t at = 0;
        for (P& x : tensor.data)
          for (int lane = 0; lane < P::size; ++lane, ++at) {
            P moved = x;
            moved += P(stream.integer(at, 2) == 0 ? radius : -radius);
            x.take(lane, moved);
          }
      };
      binding.for_each(wide, widen), binding.for_each(exact, move);
      // Outputs carry their cotangents' names: those of gradients alone.
      binding.for_each(wide_end, widen), binding.for_each(exact_end, move);
      if (!is_rough) continue;
      const auto bounds = tensors<M>(binding, wide, wide_end), numbers = tensors<M>(binding, exact, exact_end);
      for (std::size_t k = 0; k < bounds.size(); ++k) {
        double seen = 0, widest = 0;
        for (std::size_t i = 0; i < bounds[k].size(); ++i)
          for (int lane = 0; lane < P::size; ++lane) {
            const WordBall x = bounds[k][i].number(lane), y = numbers[k][i].number(lane);
            const double off = std::abs((x.word[0] - y.word[0]) + (x.word[1] - y.word[1]));
            ASSERT_LE(off, x.radius + y.radius) << spec.repro() << ' ' << rough << ' ' << k << ' ' << i;
            seen = std::max(seen, off), widest = std::max(widest, x.radius);
          }
        if (seen > 0x1p-80) {
          EXPECT_LE(widest, slack * seen) << spec.repro() << ' ' << rough << ' ' << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace assay
