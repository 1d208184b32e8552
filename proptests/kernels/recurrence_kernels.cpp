// The chunkwise kernels of deltanet and gated_deltanet: where their policies round, and problems with nothing to do.
// fixed_cases.cpp compares them with the oracle.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// With keys of length one, beta below one and mild gates.
Problem draw_delta(std::string_view mechanism, int T, int K, int V, int heads = 1) {
  RandomBits bits{1000 + static_cast<std::uint64_t>(T)};
  const auto random = [&](std::vector<int> shape) {
    Array a(std::move(shape));
    for (double& x : a.data) x = std::ldexp(static_cast<double>(bits.next() >> 11), -52) - 1;  // [-1, 1)
    return a;
  };
  Problem p;
  p.id = "drawn", p.mechanism = mechanism;
  p.inputs["q"] = random({1, T, K}), p.inputs["k"] = random({1, T, K});
  p.inputs["v"] = random({heads, T, V}), p.inputs["beta"] = random({heads, T});
  std::vector<double>& k = p.inputs["k"].data;
  const auto width = static_cast<std::size_t>(K);
  for (std::size_t row = 0; row < k.size(); row += width) {
    double squares = 0;
    for (std::size_t i = row; i < row + width; ++i) squares += k[i] * k[i];
    for (std::size_t i = row; i < row + width; ++i) k[i] /= std::sqrt(squares);
  }
  for (double& b : p.inputs["beta"].data) b = 0.5 + 0.5 * b;
  if (mechanism == "gated_deltanet") {
    p.inputs["log_decay"] = random({heads, T});
    for (double& g : p.inputs["log_decay"].data) g = 0.1 * (g - 1);
  }
  p.inputs["initial_state"] = random({heads, K, V});
  p.cotangents["o"] = random({heads, T, V}), p.cotangents["final_state"] = random({heads, K, V});
  return p;
}

const KernelForm& form_of(std::string_view mechanism) { return find_kernels(kernel_rooms(), mechanism)->forms[0]; }
Answer run_exact(const Problem& p, int tile) {
  const KernelForm& form = form_of(p.mechanism);
  return form.run(p, Policy::exact(form.sites), tile);
}

double distance(const Answer& a, const Answer& b) {
  double sum = 0;
  for (const auto& [x, y] : {std::pair(&a.outputs, &b.outputs), std::pair(&a.gradients, &b.gradients)})
    for (const auto& [name, array] : *x)
      for (std::size_t i = 0; i < array.data.size(); ++i) sum += std::pow(array.data[i] - y->at(name).data[i], 2);
  return std::sqrt(sum);
}

/// Wider formats are nearer to the exact answer, all are written in full, and every site of the table is in use: alone
/// in bf16 among fp32 it moves the answer.
TEST(RecurrenceKernels, PoliciesRoundWhereTheyName) {
  for (const char* mechanism : {"deltanet", "gated_deltanet"}) {
    const Problem p = draw_delta(mechanism, 70, 6, 6, 2);
    const KernelForm& form = form_of(mechanism);
    for (int tile = 0; tile < 3; ++tile) {
      const Answer exact = run_exact(p, tile);
      double nearer = 0;
      for (const Format f : {Format::fp64, Format::fp32, Format::tf32, Format::bf16, Format::e4m3}) {
        const double error = distance(form.run(p, Policy::of(form.sites, f), tile), exact);
        EXPECT_GT(error, nearer) << mechanism << " " << name_of(f);  // false for NaN
        nearer = error;
      }
    }
    const Policy single = Policy::of(form.sites, Format::fp32);
    const Answer base = form.run(p, single, 2);
    for (int i = 0; i < form.sites.size; ++i) {
      Policy policy = single;
      policy.sites = policy.sites.with(form.sites.entries[i].view(), Format::bf16);
      EXPECT_GT(distance(form.run(p, policy, 2), base), 0) << mechanism << " site " << form.sites.entries[i].view();
    }
  }
}

TEST(RecurrenceKernels, NothingToDo) {
  for (const char* mechanism : {"deltanet", "gated_deltanet"}) {
    const Problem empty = draw_delta(mechanism, 0, 5, 3);
    const Answer none = run_exact(empty, 0);
    EXPECT_EQ(none.outputs.at("final_state").data, empty.inputs.at("initial_state").data);
    EXPECT_EQ(none.gradients.at("initial_state").data, empty.cotangents.at("final_state").data);
    EXPECT_EQ(none.outputs.at("o").count(), 0u);
    const Answer no_values = run_exact(draw_delta(mechanism, 20, 5, 0), 0);
    for (const char* name : {"q", "k", "beta"})
      for (const double x : no_values.gradients.at(name).data) EXPECT_EQ(x, 0) << mechanism << " " << name;
    EXPECT_EQ(form_of(mechanism).obstacle(draw_delta(mechanism, 3, 128, 300)), "");
    EXPECT_NE(form_of(mechanism).obstacle(draw_delta(mechanism, 3, 129, 3)), "");
  }
}

}  // namespace
}  // namespace assay
