// Identities of attention's arguments, values and gradients (docs/arguments.md).
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "proptests/arguments/records.hpp"
#include "proptests/laws/property.hpp"

namespace assay::arguments {
namespace {

const Mp100 ln2 = log(Mp100(2));

ASSAY_PROPERTY(arguments_attention, a_sink_of_minus_infinity_is_none) {
  Draw draw;
  Record plain = attention(draw, 4, 6, 3, 2), sunk = plain;
  sunk.inputs["sink"] = "-inf";
  const Json answer = answered(sunk);
  RC_ASSERT(identical_in_all(answered(plain), answer));
  RC_ASSERT(values(answer["gradients"]["sink"]) == Values{0});
}

ASSAY_PROPERTY(arguments_attention, a_sink_is_a_key_without_value) {
  Draw draw;
  const int T = 3, S = 5;
  Record sunk = attention(draw, T, S, 3, 2);
  sunk.params["causal"] = false;
  Record longer = sunk;
  const std::string t = draw.decimal(-2, 3);
  sunk.inputs["sink"] = t;
  longer.inputs["k"].push_back(Json::array({"0", "0", "0"}));
  longer.inputs["v"].push_back(Json::array({"0", "0"}));
  Json bias = Json::array(), row = Json::array();
  for (int j = 0; j < S; ++j) row.push_back("0");
  row.push_back(t);
  for (int i = 0; i < T; ++i) bias.push_back(row);
  longer.inputs["bias"] = bias;
  const Json a = answered(sunk), b = answered(longer);
  for (const char* name : {"o", "lse"}) RC_ASSERT(agree(a["outputs"][name], b["outputs"][name]));
  for (const char* name : {"q", "scale"}) RC_ASSERT(agree(a["gradients"][name], b["gradients"][name]));
  for (const char* name : {"k", "v"}) RC_ASSERT(agree(a["gradients"][name], part_of(b["gradients"][name], 0, S)));
  const Values last = values(part_of(b["gradients"]["bias"], S, S + 1, 1));
  RC_ASSERT(agree(values(a["gradients"]["sink"]), Values{inner(last, Values(last.size(), 1))}));
}

ASSAY_PROPERTY(arguments_attention, a_sink_takes_its_share) {
  Draw draw;
  Record plain = attention(draw, 4, 4, 3, 1), sunk = plain;
  sunk.inputs["sink"] = draw.decimal(-2, 3);
  const Json a = answered(plain)["outputs"], b = answered(sunk)["outputs"];
  Values o = values(a["o"]);
  const Values before = values(a["lse"]), after = values(b["lse"]);
  for (std::size_t i = 0; i < o.size(); ++i) o[i] *= exp(before[i] - after[i]);
  RC_ASSERT(agree(o, values(b["o"])));
}

ASSAY_PROPERTY(arguments_attention, caps_vanish_with_their_square) {
  Draw draw;
  const Record plain = attention(draw, 4, 4, 3, 2);
  const auto off = [&, exact = values(answered(plain)["outputs"]["o"])](const char* cap) {
    Record capped = plain;
    capped.params["soft_cap"] = cap;
    const Values o = values(answered(capped)["outputs"]["o"]);
    Mp100 largest = 0;
    for (std::size_t i = 0; i < o.size(); ++i) largest = std::max<Mp100>(largest, abs(o[i] - exact[i]));
    return largest;
  };
  const Mp100 ratio = off("1e9") / off("1e10");  // order 2: what is left is of order 1e-18 relative to it
  RC_ASSERT(abs(ratio - 100) < Mp100(1e-12));
}

ASSAY_PROPERTY(arguments_attention, windows_are_one_thing) {
  Draw draw;
  const int T = 2 + draw.below(4), S = 2 + draw.below(5);
  const Record plain = attention(draw, T, S, 2, 2);
  const auto with = [&](const Json& params) {
    Record record = plain;
    record.params.update(params);
    return answered(record);
  };
  const Json answer = answered(plain);
  RC_ASSERT(identical_in_all(answer, with({{"window_left", T + S}, {"window_right", 0}})));
  RC_ASSERT(identical_in_all(answer, with({{"causal", false}, {"window_right", 0}})));
  RC_ASSERT(identical_in_all(answer, with({{"window_right", 3}})));
  RC_ASSERT(identical_in_all(with({{"window", 2}}), with({{"window_left", 1}})));
  RC_ASSERT(identical_in_all(with({{"causal", false}}),
                             with({{"causal", false}, {"window_left", T + S}, {"window_right", T + S}})));
}

/// How far a window reaches: alone a row has its own value, with neighbours of equal scores their mean.
ASSAY_PROPERTY(arguments_attention, windows_reach_so_far) {
  Draw draw;
  Record record = attention(draw, 5, 5, 2, 1);
  record.params["window_left"] = 0;
  const Values v = values(record.inputs["v"]);
  RC_ASSERT(agree(answered(record)["outputs"]["o"], record.inputs["v"]));
  record.params.update({{"causal", false}, {"window_left", 1}, {"window_right", 2}, {"scale", "0"}});
  const Values o = values(answered(record)["outputs"]["o"]);
  RC_ASSERT(agree(Values{o[0], o[1], o[4]},
                  Values{(v[0] + v[1] + v[2]) / 3, (v[0] + v[1] + v[2] + v[3]) / 4, (v[3] + v[4]) / 2}));
}

ASSAY_PROPERTY(arguments_attention, a_mask_is_a_bias_of_minus_infinity) {
  Draw draw;
  const int T = 4, S = 5;
  Record masked = attention(draw, T, S, 2, 2);
  Record biased = masked;
  Json mask = Json::array(), bias = Json::array();
  for (int i = 0; i < T; ++i) {
    mask.push_back(Json::array()), bias.push_back(Json::array());
    for (int j = 0; j < S; ++j) {
      const bool seen = draw.below(3) > 0;
      mask.back().push_back(seen), bias.back().push_back(seen ? "0" : "-inf");
    }
  }
  masked.inputs["mask"] = mask, biased.inputs["bias"] = bias;
  RC_ASSERT(identical_in_all(answered(masked), answered(biased)));
}

ASSAY_PROPERTY(arguments_attention, alibi_is_its_bias) {
  Draw draw;
  const int T = 2 + draw.below(4), S = 2 + draw.below(5);
  const bool is_signed = draw.below(2) == 1, start = draw.below(2) == 1;
  const double slope = draw.number(-1, 1);
  Record alibi = attention(draw, T, S, 2, 2);
  alibi.params.update({{"causal", false},
                       {"causal_align", start ? "start" : "end"},
                       {"alibi_form", is_signed ? "signed" : "distance"}});
  Record biased = alibi;
  alibi.inputs["alibi_slopes"] = to_decimal(slope, 20);
  Json bias = Json::array(), by_slope = Json::array();
  for (int i = 0; i < T; ++i) {
    bias.push_back(Json::array()), by_slope.push_back(Json::array());
    for (int j = 0; j < S; ++j) {
      const int distance = i + (start ? 0 : S - T) - j, factor = is_signed ? -distance : -std::abs(distance);
      bias.back().push_back(to_decimal(slope * factor, 20)), by_slope.back().push_back(std::to_string(factor));
    }
  }
  biased.inputs["bias"] = bias;
  const Json a = answered(alibi), b = answered(biased);
  RC_ASSERT(agree_in_all(a, b));
  RC_ASSERT(
      agree(values(a["gradients"]["alibi_slopes"]), Values{inner(values(b["gradients"]["bias"]), values(by_slope))}));
}

ASSAY_PROPERTY(arguments_attention, signs_of_distances_do_not_matter_to_causal_attention) {
  Draw draw;
  Record plain = attention(draw, 3, 6, 2, 2);
  plain.inputs["alibi_slopes"] = draw.decimal(0, 1);
  Record other = plain;
  other.params["alibi_form"] = "signed";
  RC_ASSERT(agree_in_all(answered(plain), answered(other)));
}

/// Rows from .. to - 1 of a packed problem, as a problem of its own.
Record call(const Record& packed, int from, int to) {
  Record one = packed;
  for (Json* part : {&one.inputs, &one.cotangents})
    for (auto& [name, tensor] : part->items())
      if (tensor.is_array() && name != "cu_seqlens" && name != "sink") tensor = part_of(tensor, from, to);
  one.inputs.erase("cu_seqlens");
  return one;
}

ASSAY_PROPERTY(arguments_attention, packed_sequences_are_separate_calls) {
  Draw draw;
  const int T = 7, cut = draw.below(T + 1), more = cut + draw.below(T + 1 - cut);
  Record packed = attention(draw, T, T, 2, 3);
  packed.inputs["sink"] = draw.decimal(-1, 2);
  packed.inputs["alibi_slopes"] = draw.decimal(0, 1);
  const Record plain = packed;
  packed.inputs["cu_seqlens"] = {0, cut, more, T};
  const Json answer = answered(packed);
  Values sink{0}, scale{0};
  for (const auto& [from, to] : {std::pair(0, cut), std::pair(cut, more), std::pair(more, T)}) {
    if (from == to) continue;
    const Json own = answered(call(plain, from, to));
    for (const char* name : {"o", "lse"}) RC_ASSERT(part_of(answer["outputs"][name], from, to) == own["outputs"][name]);
    for (const char* name : {"q", "k", "v"})
      RC_ASSERT(part_of(answer["gradients"][name], from, to) == own["gradients"][name]);
    sink = summed(sink, values(own["gradients"]["sink"])), scale = summed(scale, values(own["gradients"]["scale"]));
  }
  RC_ASSERT(agree(sink, values(answer["gradients"]["sink"])));
  RC_ASSERT(agree(scale, values(answer["gradients"]["scale"])));
}

ASSAY_PROPERTY(arguments_attention, documents_are_packed_sequences) {
  Draw draw;
  const int T = 6, cut = draw.below(T + 1);
  Record packed = attention(draw, T, T, 2, 2);
  packed.params["causal"] = draw.below(2) == 1;
  Record documents = packed;
  packed.inputs["cu_seqlens"] = {0, cut, T};
  Json list = Json::array();
  for (int i = 0; i < T; ++i) list.push_back(i < cut ? 7 : -3);
  documents.inputs["documents_q"] = list;
  RC_ASSERT(agree_in_all(answered(packed), answered(documents)));
}

ASSAY_PROPERTY(arguments_attention, places_of_a_bias) {
  Draw draw;
  Record after = attention(draw, 4, 4, 2, 2);
  after.params["scale"] = "0.5";
  after.inputs["bias"] = draw.tensor({4, 4});
  Record cap = after, scale = after;
  cap.params["bias_place"] = "before_cap";
  scale.params["bias_place"] = "before_scale";
  scale.inputs["bias"] = mapped(after.inputs["bias"], [](const Mp100& x) { return Mp100(2 * x); });
  const Json a = answered(after), b = answered(scale);
  RC_ASSERT(agree_in_all(a, answered(cap)));
  for (const char* name : {"o", "lse"}) RC_ASSERT(agree(a["outputs"][name], b["outputs"][name]));
  for (const char* name : {"q", "k", "v"}) RC_ASSERT(agree(a["gradients"][name], b["gradients"][name]));
  Values halved = values(a["gradients"]["bias"]);
  for (Mp100& x : halved) x /= 2;
  RC_ASSERT(agree(halved, values(b["gradients"]["bias"])));
}

ASSAY_PROPERTY(arguments_attention, parts_of_the_keys_merge_by_lse) {
  Draw draw;
  const int T = 3, S = 6, cut = 1 + draw.below(S - 1);
  Record whole = attention(draw, T, S, 2, 1);
  whole.params["causal"] = false;
  whole.inputs["sink"] = draw.decimal(-1, 2);
  Record left = whole, right = whole;
  for (const char* name : {"k", "v"}) {
    left.inputs[name] = part_of(whole.inputs[name], 0, cut);
    right.inputs[name] = part_of(whole.inputs[name], cut, S);
  }
  right.inputs.erase("sink");  // it counts once
  const Json a = answered(left)["outputs"], b = answered(right)["outputs"], c = answered(whole)["outputs"];
  const Values la = values(a["lse"]), lb = values(b["lse"]), oa = values(a["o"]), ob = values(b["o"]);
  Values lse, o;
  for (std::size_t i = 0; i < la.size(); ++i) {
    lse.push_back(log(exp(la[i]) + exp(lb[i])));
    o.push_back(exp(la[i] - lse[i]) * oa[i] + exp(lb[i] - lse[i]) * ob[i]);
  }
  RC_ASSERT(agree(lse, values(c["lse"])));
  RC_ASSERT(agree(o, values(c["o"])));
}

ASSAY_PROPERTY(arguments_attention, a_cotangent_of_lse_alone_reads_keys_for_values) {
  Draw draw;
  const int T = 4, K = 3;
  Record record = attention(draw, T, T, K, K);
  record.cotangents.erase("o");
  record.inputs["v"] = record.inputs["k"];
  const Json answer = answered(record);
  const Mp100 scale = from_decimal<Mp100>(record.params["scale"].get<std::string>());
  const Values lse = values(record.cotangents["lse"]);
  Values expected = values(answer["outputs"]["o"]);  // sum_j p_ij k_j
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= scale * lse[i / K];
  RC_ASSERT(agree(expected, values(answer["gradients"]["q"])));
}

ASSAY_PROPERTY(arguments_attention, lse_in_bits) {
  Draw draw;
  Record natural = attention(draw, 4, 4, 2, 2), bits = natural;
  bits.params["lse_base"] = "2";
  natural.cotangents["lse"] = mapped(bits.cotangents["lse"], [](const Mp100& x) { return Mp100(x / ln2); });
  const Json a = answered(natural), b = answered(bits);
  Values lse = values(a["outputs"]["lse"]);
  for (Mp100& x : lse) x /= ln2;
  RC_ASSERT(agree(lse, values(b["outputs"]["lse"])));
  RC_ASSERT(agree(a["outputs"]["o"], b["outputs"]["o"]));
  for (const char* name : {"q", "k", "v"}) RC_ASSERT(agree(a["gradients"][name], b["gradients"][name]));
}

ASSAY_PROPERTY(arguments_attention, padding_changes_nothing) {
  Draw draw;
  const int T = 6, used = 1 + draw.below(5);
  Record padded = attention(draw, T, T, 2, 2);
  padded.inputs["cu_seqlens"] = {0, used};
  Record poisoned = padded;
  for (const auto& [name, part] : {std::pair("q", &poisoned.inputs),
                                   {"k", &poisoned.inputs},
                                   {"v", &poisoned.inputs},
                                   {"o", &poisoned.cotangents}})
    for (std::size_t t = static_cast<std::size_t>(used); t < T; ++t)
      for (Json& x : (*part)[name][t]) x = "nan";
  const Json a = answered(padded), b = answered(poisoned);
  RC_ASSERT(identical_in_all(a, b));
  for (std::size_t t = 0; t < T; ++t) RC_ASSERT(a["gradients"]["q"][t][0].is_null() == (static_cast<int>(t) >= used));
  poisoned.inputs["v"][static_cast<std::size_t>(used) - 1][0] = "nan";
  RC_ASSERT(attempted(poisoned)["status"] == "NONFINITE");
}

ASSAY_PROPERTY(arguments_attention, pages_may_lie_anywhere) {
  Draw draw;
  const int S = 7, size = 3;
  Record plain = attention(draw, 2, S, 2, 2);
  plain.inputs["cu_seqlens_q"] = {0, 2}, plain.inputs["cu_seqlens_k"] = {0, S};
  Record paged = plain;
  paged.inputs.erase("cu_seqlens_k");
  const std::vector<int> orders[] = {{3, 0, 2}, {0, 1, 2}, {2, 3, 1}};
  const std::vector<int>& order = orders[draw.below(3)];
  paged.inputs["page_table"] = {order}, paged.inputs["lengths_k"] = {S};
  for (const char* name : {"k", "v"}) {
    Json pages = Json::array();
    for (int p = 0; p < 4; ++p) pages.push_back(Json::array({{"nan", "nan"}, {"nan", "nan"}, {"nan", "nan"}}));
    for (int j = 0; j < S; ++j)
      pages[static_cast<std::size_t>(order[static_cast<std::size_t>(j / size)])][static_cast<std::size_t>(j % size)] =
          plain.inputs[name][static_cast<std::size_t>(j)];
    paged.inputs[name] = pages;
  }
  const Json a = answered(plain), b = answered(paged);
  RC_ASSERT(a["outputs"] == b["outputs"]);
  RC_ASSERT(a["gradients"]["q"] == b["gradients"]["q"]);
  for (int j = 0; j < S; ++j)
    RC_ASSERT(a["gradients"]["k"][static_cast<std::size_t>(j)] ==
              b["gradients"]["k"][static_cast<std::size_t>(order[static_cast<std::size_t>(j / size)])]
               [static_cast<std::size_t>(j % size)]);
}

ASSAY_PROPERTY(arguments_attention, groups_share_their_keys) {
  Draw draw;
  Record grouped{"softmax_attention"};
  grouped.params = {{"scale", "0.75"}, {"soft_cap", "2"}};
  grouped.inputs = {{"q", draw.tensor({4, 3, 2})},
                    {"k", draw.tensor({2, 5, 2})},
                    {"v", draw.tensor({2, 5, 2})},
                    {"sink", draw.tensor({4})}};
  grouped.cotangents = {{"o", draw.tensor({4, 3, 2})}, {"lse", draw.tensor({4, 3})}};
  Record repeated = grouped;
  for (const char* name : {"k", "v"}) {
    const Json& two = grouped.inputs[name];
    repeated.inputs[name] = {two[0], two[0], two[1], two[1]};
  }
  const Json a = answered(grouped), b = answered(repeated);
  RC_ASSERT(a["outputs"] == b["outputs"]);
  RC_ASSERT(a["gradients"]["sink"] == b["gradients"]["sink"]);
  for (const char* name : {"k", "v"})
    for (std::size_t g = 0; g < 2; ++g)
      RC_ASSERT(agree(summed(values(b["gradients"][name][2 * g]), values(b["gradients"][name][2 * g + 1])),
                      values(a["gradients"][name][g])));
}

ASSAY_PROPERTY(arguments_attention, values_in_the_keys) {
  Draw draw;
  Record own = attention(draw, 3, 4, 4, 2), inside = own;
  own.inputs["v"] = part_of(own.inputs["k"], 0, 2, 1);
  inside.inputs.erase("v");
  inside.params["value_dim"] = 2;
  const Json a = answered(own), b = answered(inside);
  RC_ASSERT(a["outputs"] == b["outputs"]);
  const Json& dk = a["gradients"]["k"];
  RC_ASSERT(agree(part_of(dk, 2, 4, 1), part_of(b["gradients"]["k"], 2, 4, 1)));
  RC_ASSERT(agree(summed(values(part_of(dk, 0, 2, 1)), values(a["gradients"]["v"])),
                  values(part_of(b["gradients"]["k"], 0, 2, 1))));
}

ASSAY_PROPERTY(arguments_attention, scales_of_tensors_are_factors) {
  Draw draw;
  Record plain = attention(draw, 4, 4, 2, 2), scaled = plain;
  scaled.inputs["k_scale"] = "0.5", scaled.inputs["v_scale"] = "4";
  Record same = plain;
  same.params["scale"] = to_decimal(Mp100(from_decimal<Mp100>(plain.params["scale"].get<std::string>()) / 2), 60);
  same.cotangents["o"] = mapped(plain.cotangents["o"], [](const Mp100& x) { return Mp100(4 * x); });
  const Json a = answered(scaled), b = answered(same);
  RC_ASSERT(agree(a["outputs"]["lse"], b["outputs"]["lse"]));
  Values o = values(b["outputs"]["o"]);
  for (Mp100& x : o) x *= 4;
  RC_ASSERT(agree(o, values(a["outputs"]["o"])));
  for (const char* name : {"q", "k", "v"}) RC_ASSERT(agree(a["gradients"][name], b["gradients"][name]));
  // By the chain rule, d_scale of x s is <d_x, x> / s.
  for (const auto& [name, s] : {std::pair("k", 0.5), {"v", 4.0}})
    RC_ASSERT(agree(Values{inner(values(a["gradients"][name]), values(plain.inputs[name])) / Mp100(s)},
                    values(a["gradients"][std::string(name) + "_scale"])));
}

ASSAY_PROPERTY(arguments_attention, scales_of_blocks_are_their_numbers) {
  Draw draw;
  Record blocks = attention(draw, 3, 5, 3, 2), plain = blocks;
  blocks.params["scale_block"] = {2, 2};
  blocks.inputs["k_scale"] = draw.tensor({3, 2}, 0.25, 2);
  for (std::size_t j = 0; j < 5; ++j)
    for (std::size_t c = 0; c < 3; ++c) {
      const auto number = [](const Json& x) { return from_decimal<double>(x.get<std::string>()); };
      plain.inputs["k"][j][c] =
          to_decimal(number(blocks.inputs["k"][j][c]) * number(blocks.inputs["k_scale"][j / 2][c / 2]), 20);
    }
  const Json a = answered(blocks), b = answered(plain);
  RC_ASSERT(a["outputs"] == b["outputs"]);
  Mp100 sum = 0;  // of the last block, ragged both ways
  const auto exact = [](const Json& x) { return from_decimal<Mp100>(x.get<std::string>()); };
  sum += exact(b["gradients"]["k"][4][2]) * exact(blocks.inputs["k"][4][2]);
  RC_ASSERT(agree(Values{sum}, values(a["gradients"]["k_scale"][2][1])));
}

/// Scales of operands are above 0, read or not; a number that is none is none in padding alone.
ASSAY_PROPERTY(arguments_attention, scales_are_above_zero_wherever_they_are) {
  Draw draw;
  const int T = 6, used = 1 + draw.below(5);
  Record record = attention(draw, T, T, 2, 2);
  const char* names[] = {"q_scale", "k_scale", "v_scale"};
  const std::string name = names[draw.below(3)];
  record.inputs["cu_seqlens"] = {0, used};
  record.inputs[name] = draw.tensor({T}, 0.25, 2);
  RC_ASSERT(attempted(record)["status"] == "OK");
  Json& last = record.inputs[name][T - 1];
  last = "nan";
  RC_ASSERT(attempted(record)["status"] == "OK");
  last = draw.below(2) == 1 ? "0" : "-0.5";
  RC_ASSERT(attempted(record)["status"] == "DOMAIN");
  record.inputs["cu_seqlens"] = {0, 0}, record.inputs[name] = "0";
  RC_ASSERT(attempted(record)["status"] == "DOMAIN");
}

ASSAY_PROPERTY(arguments_attention, rows_that_see_nothing) {
  Draw draw;
  Record record = attention(draw, 5, 2, 2, 2);  // the first three of five queries end before the first key
  const Json plain = answered(record);
  record.inputs["sink"] = draw.decimal(-1, 1);
  const Json sunk = answered(record);
  for (std::size_t i = 0; i < 3; ++i) {
    RC_ASSERT(plain["outputs"]["lse"][i] == "-inf");
    RC_ASSERT(agree(sunk["outputs"]["lse"][i], record.inputs["sink"]));
    for (const Json* answer : {&plain, &sunk}) {
      RC_ASSERT(values((*answer)["outputs"]["o"][i]) == (Values{0, 0}));
      RC_ASSERT(values((*answer)["gradients"]["q"][i]) == (Values{0, 0}));
    }
  }
}

/// What changes scores goes into Parallax and local linear attention by the same words: without a probe Parallax is
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
