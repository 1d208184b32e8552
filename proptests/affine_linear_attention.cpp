// Affine linear attention: its sums by definition, and Parallax that does not look at its keys (lla-family.md
// section 7).
#include <gtest/gtest.h>

#include <string>

#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/lla_laws.hpp"
#include "proptests/core/reference_laws.hpp"

namespace assay::laws {
namespace {

/// o_i = sum_j (1 - rho_i.(k_j - kbar_i)) v_j / i.
std::string is_a_tilted_mean(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p);
  for (int head = 0; head < H; ++head) {
    const ExactMatrix k = head_of(p.inputs.at("k"), H, head), v = head_of(p.inputs.at("v"), H, head),
                      rho = head_of(p.inputs.at("rho"), H, head);
    ExactMatrix o(v.extent);
    for (int i = 0; i < v.size(0); ++i) {
      const std::vector<Mp100> mean = column_means(first_rows(k, i + 1));
      for (int j = 0; j <= i; ++j) {
        Mp100 weight = 1;
        for (int x = 0; x < k.size(1); ++x) weight -= rho(i, x) * (k(j, x) - mean[static_cast<std::size_t>(x)]);
        for (int x = 0; x < v.size(1); ++x) o(i, x) += weight * v(j, x) / (i + 1);
      }
    }
    if (std::string s = near("o", {{}, head_of(got.outputs.at("o"), H, head).data}, {{}, o.data}); !s.empty()) return s;
  }
  return "";
}

/// A query of zeros weighs all keys alike: the same outputs and gradients.
std::string is_parallax_without_scores(const Room& room, const Problem& given) {
  const ExactProblem p = of_output_alone(exact(given));
  ExactProblem parallax = p;
  parallax.params["bandwidth"] = "1";
  parallax.inputs["q"] = mapped(p.inputs.at("rho"), [](const Mp100&) { return Mp100(0); });
  return same_rows(answer(room, p), answer("parallax", parallax), {"k", "v", "rho"});
}

/// Without a probe it is the mean of the values.
std::string no_probe_is_value_averaging(const Room& room, const Problem& given) {
  ExactProblem p = of_output_alone(ungrouped(exact(given)));
  for (Mp100& x : p.inputs.at("rho").data) x = 0;
  ExactProblem mean = p;
  mean.inputs.erase("k"), mean.inputs.erase("rho");
  return same_rows(answer(room, p), answer("value_averaging", mean), {"v"});
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(affine_linear_attention, backward_is_the_adjoint)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, heads_are_independent)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, linear_in_values)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, constants_are_reproduced)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, the_future_is_unseen)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, is_a_tilted_mean)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, is_parallax_without_scores)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, no_probe_is_value_averaging)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, final_moments_are_sums)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, keys_may_be_turned)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(affine_linear_attention, is_a_tilted_mean, backward_is_the_adjoint)

namespace assay {
namespace {

TEST(affine_linear_attention_bad_inputs, the_table) {
  const Room& room = *find_room("affine_linear_attention");
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(room), "");
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  EXPECT_EQ(bad_inputs::empty_extents(room), "");
  EXPECT_EQ(bad_inputs::heads_must_divide(room), "");
}

}  // namespace
}  // namespace assay
