// Affine linear attention: its sums by definition, and Parallax that does not look at its keys (lla-family.md
// section 7).
#include <gtest/gtest.h>

#include <string>

#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/laws.hpp"
#include "proptests/laws/lla_laws.hpp"
#include "proptests/laws/reference_laws.hpp"
#include "proptests/laws/uniform_laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(affine_linear_attention)

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

ASSAY_REFERENCE_OBEYS(affine_linear_attention, is_a_tilted_mean)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, is_parallax_without_scores)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, no_probe_is_value_averaging)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, final_moments_are_sums)
ASSAY_REFERENCE_OBEYS(affine_linear_attention, keys_may_be_turned)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(affine_linear_attention, is_a_tilted_mean, backward_is_the_adjoint)

namespace assay {
namespace {

laws::Subject chunkwise() { return laws::subject(kernel_rooms(), "affine_linear_attention", "chunkwise"); }

/// Translating the keys changes no tilt, and (k, rho) -> (c k, rho / c) neither (lla-family.md section 10):
///   sum_j dk_j = 0,   <k, dk> = <rho, drho>
ASSAY_PROPERTY(affine_linear_attention_chunkwise, gradients_obey_scale_and_translation) {
  const laws::Subject s = chunkwise();
  const LawCase c = *law_cases(s.room, s.form);
  const Problem p = laws::of_output_alone(s.problem(c));
  const Arrays got = flat(s.run(p, c.spec.precision, c.tile));
  const Arrays allowed = laws::allowance(s, p, c.spec.precision, c.tile);
  const auto against = [&](const std::string& name, const Array& known) {
    return laws::product(known, got.at("d_" + name), allowed.at("d_" + name));
  };
  const Array& k = p.inputs.at("k");
  laws::expect_zero_sum({{1, against("k", k)}, {-1, against("rho", p.inputs.at("rho"))}});
  for (int x = 0; x < k.shape[2]; ++x) laws::expect_zero_sum({{1, against("k", laws::one_column(k, 0, 1, x))}});
}

/// Without a probe it is value averaging, outputs and gradients of values, to the bit, at every precision.
ASSAY_PROPERTY(affine_linear_attention_chunkwise, no_probe_is_value_averaging) {
  const laws::Subject s = chunkwise(), mean = laws::subject(kernel_rooms(), "value_averaging", "chunkwise");
  LawCase c = *law_cases(s.room, s.form);
  c.spec.shape.shared_heads = 0;
  Problem p = laws::of_output_alone(s.problem(c));
  for (double& x : p.inputs.at("rho").data) x = 0;
  Problem plain = p;
  plain.mechanism = "value_averaging";
  plain.inputs.erase("rho"), plain.inputs.erase("k");
  const Answer got = s.run(p, c.spec.precision, c.tile), want = mean.run(plain, c.spec.precision, c.tile);
  RC_ASSERT(got.outputs.at("o") == want.outputs.at("o"));
  RC_ASSERT(got.gradients.at("v") == want.gradients.at("v"));
}

/// The last probe reads the final moments: o_T = vbar_T - M_vk rho_T / T.
ASSAY_PROPERTY(affine_linear_attention_chunkwise, the_last_read_is_of_the_final_moments) {
  const laws::Subject s = chunkwise();
  const LawCase c = *law_cases(s.room, s.form);
  const Problem p = s.problem(c);
  const Arrays got = flat(s.run(p, c.spec.precision, c.tile));
  const Arrays allowed = laws::allowance(s, p, c.spec.precision, c.tile);
  const Array &o = got.at("o"), &scatter = got.at("final_scatter_vk"), &mean = got.at("final_mean_v");
  const Array& rho = p.inputs.at("rho");
  const int H = o.shape[0], T = o.shape[1], V = o.shape[2], K = rho.shape[2];
  for (int h = 0; h < H; ++h)
    for (int x = 0; x < V; ++x) {
      Array read(o.shape), of_mean(mean.shape), along(scatter.shape);
      read.data[laws::index(o, h, T - 1, x)] = 1, of_mean.data[static_cast<std::size_t>(h * V + x)] = 1;
      for (int y = 0; y < K; ++y)
        along.data[laws::index(scatter, h, x, y)] = rho.data[laws::index(rho, h, T - 1, y)] / T;
      // rho / T is rounded, and so are products with it: one more rounding of each.
      laws::Product tilt = laws::product(along, scatter, allowed.at("final_scatter_vk"));
      for (int y = 0; y < K; ++y)
        tilt.limit += unit_roundoff(Format::fp64) * std::fabs(along.data[laws::index(scatter, h, x, y)] *
                                                              scatter.data[laws::index(scatter, h, x, y)]);
      laws::expect_zero_sum({{1, laws::product(read, o, allowed.at("o"))},
                             {-1, laws::product(of_mean, mean, allowed.at("final_mean_v"))},
                             {1, tilt}});
    }
}

TEST(affine_linear_attention_bad_inputs, the_table) {
  const Room& room = listed_room("affine_linear_attention");
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(room), "");
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  EXPECT_EQ(bad_inputs::empty_extents(room), "");
  EXPECT_EQ(bad_inputs::heads_must_divide(room), "");
}

}  // namespace
}  // namespace assay
