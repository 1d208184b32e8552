// Value averaging: means by plain sums, and softmax attention that does not look at its keys (lla-family.md section 7).
#include <gtest/gtest.h>

#include <string>

#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/laws.hpp"
#include "proptests/laws/lla_laws.hpp"
#include "proptests/laws/reference_laws.hpp"
#include "proptests/laws/uniform_laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(value_averaging)

namespace assay::laws {
namespace {

std::string is_the_mean_so_far(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p);
  for (int head = 0; head < H; ++head) {
    const ExactMatrix v = head_of(p.inputs.at("v"), H, head), g = head_of(p.cotangents.at("o"), H, head);
    ExactArray o, dv;
    for (int i = 0; i < v.size(0); ++i)
      for (int x = 0; x < v.size(1); ++x) {
        Mp100 mean = 0, gradient = 0;
        for (int j = 0; j <= i; ++j) mean += v(j, x) / (i + 1);
        for (int later = i; later < v.size(0); ++later) gradient += g(later, x) / (later + 1);
        o.data.push_back(mean), dv.data.push_back(gradient);
      }
    if (std::string s = near("o", {{}, head_of(got.outputs.at("o"), H, head).data}, o); !s.empty()) return s;
    if (std::string s = near("dv", {{}, head_of(got.gradients.at("v"), H, head).data}, dv); !s.empty()) return s;
  }
  return "";
}

/// A query of zeros weighs all keys alike.
std::string is_softmax_attention_without_scores(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  ExactProblem softmax = p;
  softmax.params["bandwidth"] = "1";
  const ExactArray zeros = mapped(p.inputs.at("v"), [](const Mp100&) { return Mp100(0); });
  softmax.inputs["q"] = zeros, softmax.inputs["k"] = p.inputs.at("v");
  return same_rows(answer(room, p), answer("softmax_attention", softmax), {"v"});
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(value_averaging, is_the_mean_so_far)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(value_averaging, is_softmax_attention_without_scores, backward_is_the_adjoint)

namespace assay {
namespace {

TEST(value_averaging_bad_inputs, the_table) {
  const Room& room = listed_room("value_averaging");
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(room), "");
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  const CaseResult none = bad_inputs::result_of(bad_inputs::good_case(room, {.T = 0}));
  EXPECT_EQ(none.status, Status::ok) << none.message;
  EXPECT_TRUE(none.answer.outputs.at("o").data.empty());
}

}  // namespace
}  // namespace assay
