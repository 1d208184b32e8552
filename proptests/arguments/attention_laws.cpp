// Laws of attention that published cases with arguments do not show: that Parallax and local linear attention see the
// same scores.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "proptests/arguments/records.hpp"
#include "proptests/laws/property.hpp"

namespace assay::arguments {
namespace {

/// Changes of scores go into Parallax and local linear attention by the same words: without a probe Parallax is
/// softmax attention, and all have one lse.
ASSAY_PROPERTY(arguments_attention, other_forms_have_the_same_scores) {
  Draw draw;
  const int T = 3 + draw.below(2), S = 3 + draw.below(2), K = 2;
  const auto either = [&](const char* a, const char* b) { return draw.below(2) == 1 ? a : b; };
  Record softmax = attention(draw, T, S, K, 2);
  softmax.params.update({{"alibi_form", either("distance", "signed")},
                         {"causal_align", either("end", "start")},
                         {"bias_place", either("after_cap", either("before_cap", "before_scale"))},
                         {"causal", draw.below(2) == 1},
                         {"lse_base", either("e", "2")}});
  if (draw.below(2) == 1) softmax.params["soft_cap"] = draw.decimal(0.5, 3);
  if (draw.below(2) == 1) softmax.params["window_left"] = draw.below(3);
  if (draw.below(2) == 1) softmax.params["window_right"] = draw.below(3);
  softmax.inputs["alibi_slopes"] = draw.decimal(0, 1);
  softmax.inputs["bias"] = draw.tensor({T, S});
  softmax.inputs["documents_q"] = Json::array(), softmax.inputs["documents_k"] = Json::array();
  for (int i = 0; i < T; ++i) softmax.inputs["documents_q"].push_back(draw.below(2));
  for (int j = 0; j < S; ++j) softmax.inputs["documents_k"].push_back(draw.below(2));
  Record parallax = softmax, lla = softmax;
  parallax.mechanism = "parallax";
  parallax.inputs["rho"] = draw.tensor({T, K}, 0, 0);
  const Json a = answered(softmax);
  RC_ASSERT(agree_in_all(a, answered(parallax)));
  lla.mechanism = "lla";
  lla.inputs["lambda"] = draw.decimal(0.5, 2);
  lla.cotangents = {{"lse", softmax.cotangents["lse"]}};
  RC_ASSERT(agree(answered(lla)["outputs"]["lse"], a["outputs"]["lse"]));
}

/// With scale alone the programs here are the rooms, whose references share nothing with them.
ASSAY_PROPERTY(arguments_attention, forms_are_their_rooms) {
  Draw draw;
  const int T = 4, K = 2;
  const char* modes[] = {"mass", "absolute", "max"};
  Record room = attention(draw, T, T, K, 2);
  room.cotangents.erase("lse");
  room.params = {{"bandwidth", "2"}};
  if (draw.below(2) == 1) room.params["window"] = 1 + draw.below(3);
  const int form = draw.below(5);
  room.mechanism = form < 3 ? "lla" : form == 3 ? "parallax" : "parallax_gate";
  if (form < 3) room.params["lambda_mode"] = modes[form];
  if (form < 3) room.inputs["lambda"] = draw.below(2) == 1 ? draw.tensor({T}, 0.5, 2) : draw.tensor({T, K}, 0.5, 2);
  if (form == 3) room.inputs["rho"] = draw.tensor({T, K});
  if (form == 4)
    room.inputs.update({{"x", draw.tensor({T, 3})}, {"w_r", draw.tensor({K, 3})}, {"w_g", draw.tensor({3})}});
  Record here = room;
  here.params.erase("bandwidth"), here.params["scale"] = "0.5";
  RC_ASSERT(agree_in_all(answered(room), answered(here)));
}

}  // namespace
}  // namespace assay::arguments
