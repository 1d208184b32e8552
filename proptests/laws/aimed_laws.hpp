#pragma once
// Problems aimed at the ends of forms, which no style draws: what the oracle says there, or the bits of a simpler form.
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "proptests/laws/laws.hpp"
#include "proptests/laws/uniform_laws.hpp"

namespace assay::laws {

inline void set_all(Array& a, double x) { std::fill(a.data.begin(), a.data.end(), x); }

/// exact_policy_is_the_oracle, of these tensors alone: others are next to nothing there.
inline void is_the_oracle_in(std::initializer_list<std::string_view> names, const Subject& s, const Problem& p,
                             int tile) {
  Arrays limits = allowance(s, p, Format::fp64, tile);
  std::erase_if(limits, [&](const auto& entry) {
    return std::find(names.begin(), names.end(), std::string_view(entry.first)) == names.end();
  });
  expect_within(flat(s.run(p, Format::exact, tile)), values_of(oracle_of(s.room, p)), limits, 1);
}

/// -inf in every log gate of the token in the middle.
inline void closed_gates_are_ordinary(const Subject& s, const LawCase& c) {
  Problem p = s.problem(c);
  for (const RoomFacts::Ranked& ranked : s.room.inputs()) {
    if (ranked.field.domain != Domain::log_decay || ranked.field.place != Field::Place::input) continue;
    Array& a = p.inputs.find(ranked.field.name)->second;
    for (int h = 0; h < a.shape[0]; ++h)
      for (int x = 0; x < (ranked.rank > 1 ? a.shape[2] : 1); ++x)
        a.data[index(a, h, a.shape[1] / 2, x)] = -std::numeric_limits<double>::infinity();
  }
  exact_policy_is_the_oracle(s, p, c.tile);
}

/// mu = 0 and M_0 = 0.
inline void no_momentum_is_ordinary(const Subject& s, const LawCase& c) {
  Problem p = s.problem(c);
  set_all(p.inputs.at("log_mu"), -std::numeric_limits<double>::infinity());
  set_all(p.inputs.at("initial_momentum"), 0);
  exact_policy_is_the_oracle(s, p, c.tile);
}

/// Scores sum to one: constant values come out as they went in, at every precision.
inline void constant_values_come_out(const Subject& s, const LawCase& c) {
  Problem p = s.problem(c);
  set_all(p.inputs.at("v"), 0.75);
  const Arrays got = flat(s.run(p, c.spec.precision, c.tile));
  Arrays want{{"o", got.at("o")}};
  set_all(want.at("o"), 0.75);
  expect_within(got, want, {{"o", allowance(s, p, c.spec.precision, c.tile).at("o")}}, 1);
}

/// With identical keys every visible value weighs the same.
inline void identical_keys_average(const Subject& s, const LawCase& drawn) {
  LawCase c = drawn;
  c.spec.params = {};
  Problem p = s.problem(c);
  Array& k = p.inputs.at("k");
  for (std::size_t i = 0; i < k.data.size(); ++i) k.data[i] = k.data[i % static_cast<std::size_t>(k.shape[2])];
  is_the_oracle_in({"o"}, s, p, c.tile);
}

/// A window of one key returns its value, and one that reaches back to the start changes no bit.
inline void windows_of_one_and_of_all(const Subject& s, const LawCase& drawn) {
  LawCase c = drawn;
  c.spec.params = {{"window", 1L}};
  Problem p = s.problem(c);
  is_the_oracle_in({"o"}, s, p, c.tile);
  p.params["window"] = static_cast<long>(c.spec.shape.seq_len);
  Problem unlimited = p;
  unlimited.params.erase("window");
  RC_ASSERT(flat(s.run(p, c.spec.precision, c.tile)) == flat(s.run(unlimited, c.spec.precision, c.tile)));
}

/// Without a probe it is the room that has none, to the bit, at every precision.
inline void no_probe_is_no_correction(const Subject& s, const LawCase& drawn) {
  const bool is_parallax = s.room.name == "parallax";
  const Subject plain = is_parallax ? subject(kernel_rooms(), "softmax_attention", "tiled")
                                    : subject(kernel_rooms(), "value_averaging", "chunkwise");
  LawCase c = drawn;
  if (!is_parallax) c.spec.shape.shared_heads = 0;
  const auto tile = static_cast<std::size_t>(c.tile);
  const bool is_alike = !is_parallax || s.form.tiles[tile] == plain.form.tiles[tile];
  RC_PRE(is_alike);
  Problem p = s.problem(c);
  if (!is_parallax) p = of_output_alone(p);
  set_all(p.inputs.at("rho"), 0);
  Problem without = p;
  without.mechanism = plain.room.name;
  without.inputs.erase("rho");
  if (!is_parallax) without.inputs.erase("k");
  const Answer got = s.run(p, c.spec.precision, c.tile), want = plain.run(without, c.spec.precision, c.tile);
  RC_ASSERT(got.outputs.at("o") == want.outputs.at("o"));
  if (!is_parallax) RC_ASSERT(got.gradients.at("v") == want.gradients.at("v"));
}

/// A ridge beyond all keys: linear attention, value averaging or softmax attention is left.
inline void huge_ridges_are_ordinary(const Subject& s, const LawCase& drawn) {
  LawCase c = drawn;
  if (s.room.name == "lla") c.spec.params = {{"lambda_mode", "mass"}};
  Problem p = s.problem(c);
  set_all(p.inputs.at("lambda"), s.room.name == "lla" ? 0x1p100 : 0x1p200);
  std::erase_if(p.cotangents, [](const auto& entry) { return entry.first != "o"; });
  if (s.room.name == "affine_mesanet")
    is_the_oracle_in({"o", "d_v"}, s, p, c.tile);
  else
    is_the_oracle_in({"o", "d_q", "d_k", "d_v", "d_bandwidth"}, s, p, c.tile);
}

/// lambda = 0 closes no decay.
inline void no_ridge_is_ordinary(const Subject& s, const LawCase& drawn) {
  LawCase c = drawn;
  c.spec.params = {{"alignment", "same_step"}};
  Problem p = s.problem(c);
  p.params["eps"] = "1";
  set_all(p.inputs.at("lambda"), 0);
  is_the_oracle_in({"o", "final_state", "d_initial_state"}, s, p, c.tile);
}

/// beta = 1 on a feature without energy and eps = 0: gamma = 1 - lambda / lambda. No gradient divides by it.
inline void decays_of_zero_have_gradients(const Subject& s, const LawCase& drawn) {
  LawCase c = drawn;
  c.spec.style = Style::normal;
  c.spec.params = {{"alignment", "same_step"}};
  Problem p = s.problem(c);
  p.params["eps"] = "0";
  const auto now_and_then = [](Array& a, double x) {
    const auto T = static_cast<std::size_t>(a.shape[1]), width = static_cast<std::size_t>(a.shape[2]);
    for (std::size_t i = 0; i < a.data.size(); ++i)
      if (i / width % T % 16 == 9) a.data[i] = x;
  };
  now_and_then(p.inputs.at("k"), 0), now_and_then(p.inputs.at("beta"), 1);
  set_all(p.inputs.at("lambda"), 1);  // 1 / lambda is a double
  exact_policy_is_the_oracle(s, p, c.tile);
}

/// A window of more pairs than a tile has rows comes in parts; tokens whose windows fit share a tile.
inline void windows_come_in_parts(const Subject& s, const LawCase& drawn) {
  LawCase c = drawn;
  c.spec.params = {{"window", *rc::gen::element(5L, 8L, 9L, 16L, 17L, 33L)}, {"sequence_start", false}};
  stays_within_budget(s, c);
}

}  // namespace assay::laws
