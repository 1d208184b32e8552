// Identities of what stands in front of recurrences, behind them and inside, values and gradients (docs/arguments.md).
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "arguments/registry.hpp"
#include "proptests/arguments/records.hpp"
#include "proptests/laws/property.hpp"

namespace assay::arguments {
namespace {

/// A list of numbers as nested lists of that shape.
Json nested(const Json& flat, const std::vector<int>& shape) {
  if (shape.empty()) return flat.at(0);
  Json list = Json::array();
  const auto one = flat.size() / static_cast<std::size_t>(std::max(shape[0], 1));
  for (int i = 0; i < shape[0]; ++i) {
    const int from = i * static_cast<int>(one);
    list.push_back(nested(part_of(flat, from, from + static_cast<int>(one)), {shape.begin() + 1, shape.end()}));
  }
  return list;
}

const std::vector<std::string> all = {"deltanet", "gated_deltanet",  "kda", "gla", "comba",
                                      "mamba2",   "linear_attention"};

/// One of them, of T tokens.
Record any_recurrence(Draw& draw, int T) {
  Record record = recurrence(draw, all[static_cast<std::size_t>(draw.below(static_cast<int>(all.size())))], T, 2, 3);
  if (record.mechanism == "linear_attention") record.inputs.erase("beta");
  if (record.mechanism == "mamba2" || record.mechanism == "gla") record.inputs.erase("beta");
  return record;
}

bool is_state(const std::string& name) { return name == "initial_state" || name == "final_state"; }

/// Tokens from .. to - 1; the state that comes in and the cotangent of the one that goes out are the caller's.
Record tokens(const Record& whole, int from, int to) {
  Record some = whole;
  for (Json* part : {&some.inputs, &some.cotangents})
    for (auto& [name, tensor] : part->items())
      if (tensor.is_array() && !is_state(name) && name != "state_at" && name != "states_at")
        tensor = part_of(tensor, from, to);
  return some;
}

ASSAY_PROPERTY(arguments_recurrences, v_first_is_a_transposition) {
  Draw draw;
  Record plain = any_recurrence(draw, 4);
  plain.params["state_every"] = 2;
  plain.cotangents["chunk_states"] = draw.tensor({2, 2, 3});
  Record v_first = plain;
  v_first.params["state_layout"] = "v_first";
  v_first.inputs["initial_state"] = turned(plain.inputs["initial_state"]);
  v_first.cotangents["final_state"] = turned(plain.cotangents["final_state"]);
  for (Json& state : v_first.cotangents["chunk_states"]) state = turned(state);
  const Json a = answered(plain), b = answered(v_first);
  RC_ASSERT(a["outputs"]["o"] == b["outputs"]["o"]);
  RC_ASSERT(a["outputs"]["final_state"] == turned(b["outputs"]["final_state"]));
  RC_ASSERT(a["outputs"]["chunk_states"][1] == turned(b["outputs"]["chunk_states"][1]));
  RC_ASSERT(a["gradients"]["initial_state"] == turned(b["gradients"]["initial_state"]));
  for (const char* name : {"q", "k", "v"}) RC_ASSERT(a["gradients"][name] == b["gradients"][name]);
}

ASSAY_PROPERTY(arguments_recurrences, states_inside_are_final_states_of_the_beginning) {
  Draw draw;
  const int T = 5, every = 1 + draw.below(3);
  Record record = any_recurrence(draw, T);
  record.params["state_every"] = every, record.params["checkpoint_every"] = every;
  record.inputs["state_at"] = Json::array();
  for (int t = every; t <= T; t += every) record.inputs["state_at"].push_back(t - 1);
  const Json outputs = answered(record)["outputs"];
  RC_ASSERT(outputs["checkpoints"] == outputs["states_at"]);
  RC_ASSERT(agree(outputs["chunk_states"][0], record.inputs["initial_state"]));
  for (int c = 1; c * every <= T; ++c) {
    Record first = tokens(record, 0, c * every);
    first.params.erase("state_every"), first.params.erase("checkpoint_every"), first.inputs.erase("state_at");
    const Json own = answered(first)["outputs"]["final_state"];
    RC_ASSERT(agree(own, outputs["checkpoints"][static_cast<std::size_t>(c) - 1]));
    if (c * every < T) RC_ASSERT(agree(own, outputs["chunk_states"][static_cast<std::size_t>(c)]));
  }
}

/// A sequence in two calls, with cotangents of states inside of both.
ASSAY_PROPERTY(arguments_recurrences, two_calls_are_one) {
  Draw draw;
  const int T = 5, cut = 1 + draw.below(T - 1);
  Record whole = any_recurrence(draw, T);
  whole.inputs["state_at"] = {0, cut - 1, T - 1, 0};
  whole.cotangents["states_at"] = draw.tensor({4, 2, 3});
  Record head = tokens(whole, 0, cut), tail = tokens(whole, cut, T);
  const Json& ct = whole.cotangents["states_at"];
  head.inputs["state_at"] = {0, cut - 1, 0}, head.cotangents["states_at"] = {ct[0], ct[1], ct[3]};
  tail.inputs["state_at"] = {T - 1 - cut}, tail.cotangents["states_at"] = {ct[2]};
  tail.inputs["initial_state"] = answered(head)["outputs"]["final_state"];
  const Json second = answered(tail);
  head.cotangents["final_state"] = second["gradients"]["initial_state"];
  const Json first = answered(head), both = answered(whole);
  RC_ASSERT(agree(joined(first["outputs"]["o"], second["outputs"]["o"]), both["outputs"]["o"]));
  RC_ASSERT(agree(second["outputs"]["final_state"], both["outputs"]["final_state"]));
  RC_ASSERT(agree(first["gradients"]["initial_state"], both["gradients"]["initial_state"]));
  for (const char* name : {"q", "k", "v"})
    RC_ASSERT(agree(joined(first["gradients"][name], second["gradients"][name]), both["gradients"][name]));
}

ASSAY_PROPERTY(arguments_recurrences, packed_sequences_are_separate_calls) {
  Draw draw;
  const int T = 6, cut = draw.below(T + 1);
  Record packed = any_recurrence(draw, T);
  packed.inputs["initial_state"] = draw.tensor({3, 2, 3});
  packed.cotangents["final_state"] = draw.tensor({3, 2, 3});
  Record plain = packed;
  packed.inputs["cu_seqlens"] = {0, cut, cut, T};
  const Json answer = answered(packed);
  RC_ASSERT(agree(answer["outputs"]["final_state"][1], packed.inputs["initial_state"][1]));
  RC_ASSERT(agree(answer["gradients"]["initial_state"][1], packed.cotangents["final_state"][1]));
  for (const auto& [n, from, to] : {std::tuple(0, 0, cut), {2, cut, T}}) {
    if (from == to) continue;
    Record own = tokens(plain, from, to);
    own.inputs["initial_state"] = packed.inputs["initial_state"][static_cast<std::size_t>(n)];
    own.cotangents["final_state"] = packed.cotangents["final_state"][static_cast<std::size_t>(n)];
    const Json one = answered(own);
    RC_ASSERT(agree(one["outputs"]["o"], part_of(answer["outputs"]["o"], from, to)));
    RC_ASSERT(agree(one["outputs"]["final_state"], answer["outputs"]["final_state"][static_cast<std::size_t>(n)]));
    for (const char* name : {"q", "k", "v"})
      RC_ASSERT(agree(one["gradients"][name], part_of(answer["gradients"][name], from, to)));
  }
}

/// Every room that the table says takes sequences and states, with its own generator.
TEST(ArgumentTable, SequencesAndStatesOfEveryRecurrence) {
  int rooms_seen = 0;
  for (const Room* room : rooms()) {
    if (facts_of(std::string(room->name)).family != Family::recurrence) continue;
    ++rooms_seen;
    const Problem problem = room->make({.mechanism = std::string(room->name), .shape = {1, 6, 1, 0, 2, 3, 0}});
    Record plain{std::string(room->name)};
    const auto spelled = [](const Array& array) {
      Json flat = Json::array();
      for (const double x : array.data) flat.push_back(to_decimal(x, 40));
      return nested(flat, {array.shape.begin() + 1, array.shape.end()});  // one head, without its axis
    };
    for (const auto& [name, param] : problem.params) plain.params.update(json_of({{name, param}}));
    for (const auto& [name, array] : problem.inputs) plain.inputs[name] = spelled(array);
    for (const auto& [name, array] : problem.cotangents) plain.cotangents[name] = spelled(array);
    Record packed = plain;
    packed.inputs["cu_seqlens"] = {0, 6};
    packed.params["state_layout"] = "k_first", packed.params["state_every"] = 4;
    for (Json* part : {&packed.inputs, &packed.cotangents})
      for (auto& [name, tensor] : part->items())
        if (name.starts_with("initial_") || name.starts_with("final_") || name == "k_carry")
          tensor = Json::array({tensor});
    const Json a = attempted(plain), b = attempted(packed);
    ASSERT_EQ(a["status"], "OK") << room->name << a["message"];
    ASSERT_EQ(b["status"], "OK") << room->name << b["message"];
    for (const char* part : {"outputs", "gradients"})
      for (const auto& [name, tensor] : b[part].items())
        if (a[part].contains(name)) {
          EXPECT_TRUE(agree(a[part][name], tensor)) << room->name << ' ' << name;
        }
    EXPECT_EQ(b["outputs"]["chunk_states"].size(), 2u) << room->name;
  }
  EXPECT_EQ(rooms_seen, 14);
}

ASSAY_PROPERTY(arguments_recurrences, lengths_make_padding) {
  Draw draw;
  Record record = any_recurrence(draw, 5);
  record.inputs["initial_state"] = draw.tensor({2, 2, 3});
  record.cotangents["final_state"] = draw.tensor({2, 2, 3});
  record.inputs["cu_seqlens"] = {0, 3, 5}, record.inputs["lengths"] = {2, 2};
  Record poisoned = record;
  poisoned.inputs["q"][2] = {"nan", "nan"}, poisoned.cotangents["o"][2] = {"nan", "nan", "nan"};
  const Json a = answered(record), b = answered(poisoned);
  RC_ASSERT(identical_in_all(a, b));
  for (const char* name : {"q", "k", "v"}) RC_ASSERT(a["gradients"][name][2][0].is_null());
  RC_ASSERT(a["outputs"]["o"][2][0].is_null());
  poisoned.inputs["q"][1] = {"nan", "nan"};
  RC_ASSERT(attempted(poisoned)["status"] == "NONFINITE");
}

Mp100 softplus_of(const Mp100& x) { return log(1 + exp(x)); }
Mp100 sigmoid_of(const Mp100& x) { return 1 / (1 + exp(-x)); }
Mp100 exact(const Json& x) { return from_decimal<Mp100>(x.get<std::string>()); }

/// A gate in the mechanism is a log_decay made outside; its gradients are the chain rule's.
ASSAY_PROPERTY(arguments_recurrences, gates_are_log_decays) {
  Draw draw;
  const int T = 4, kind = draw.below(3);
  const bool by_channel = draw.below(2) == 1;
  Record inside = recurrence(draw, by_channel ? "kda" : "gated_deltanet", T, 2, 2);
  Record outside = inside;
  inside.inputs.erase("log_decay");
  inside.inputs["a"] = by_channel ? draw.tensor({T, 2}, -3, 3) : draw.tensor({T}, -3, 3);
  inside.inputs["dt_bias"] = by_channel ? draw.tensor({2}) : draw.tensor({});
  const std::string a_log = draw.decimal(-1, 1);
  if (kind != 2) inside.inputs["a_log"] = a_log;
  inside.params["gate"] = kind == 0 ? "softplus" : kind == 1 ? "bounded" : "logsigmoid";
  if (kind == 1) inside.params["lower_bound"] = "-5.0";
  if (kind == 2) inside.params["gate_normalizer"] = "16";
  const Mp100 A = exp(from_decimal<Mp100>(a_log));
  const auto gate = [&](const Json& a, const Json& dt_bias) {
    const Mp100 x = exact(a) + exact(dt_bias);
    return kind == 0   ? Mp100(-A * softplus_of(x))
           : kind == 1 ? Mp100(-5 * sigmoid_of(A * x))
                       : Mp100(-softplus_of(-x) / 16);
  };
  const auto slope = [&](const Json& a, const Json& dt_bias) {
    const Mp100 x = exact(a) + exact(dt_bias), s = sigmoid_of(A * x);
    return kind == 0 ? Mp100(-A * sigmoid_of(x)) : kind == 1 ? Mp100(-5 * A * s * (1 - s)) : Mp100(sigmoid_of(-x) / 16);
  };
  Values slopes;
  const Json& a = inside.inputs["a"];
  for (std::size_t t = 0; t < T; ++t)
    for (std::size_t c = 0; c < (by_channel ? 2u : 1u); ++c) {
      const Json &one = by_channel ? a[t][c] : a[t],
                 &bias = by_channel ? inside.inputs["dt_bias"][c] : inside.inputs["dt_bias"];
      (by_channel ? outside.inputs["log_decay"][t][c] : outside.inputs["log_decay"][t]) =
          to_decimal(gate(one, bias), 90);
      slopes.push_back(slope(one, bias));
    }
  const Json in = answered(inside), out = answered(outside);
  RC_ASSERT(agree_in_all(in, out));
  Values da = values(out["gradients"]["log_decay"]);
  if (kind == 0)
    RC_ASSERT(agree(Values{inner(da, values(outside.inputs["log_decay"]))}, values(in["gradients"]["a_log"])));
  for (std::size_t i = 0; i < da.size(); ++i) da[i] *= slopes[i];
  RC_ASSERT(agree(da, values(in["gradients"]["a"])));
  Values sums(by_channel ? 2 : 1, 0);
  for (std::size_t i = 0; i < da.size(); ++i) sums[i % sums.size()] += da[i];
  RC_ASSERT(agree(sums, values(in["gradients"]["dt_bias"])));
}

ASSAY_PROPERTY(arguments_recurrences, logsigmoid_is_a_softplus) {
  Draw draw;
  Record sigmoid = recurrence(draw, "gla", 4, 2, 2);
  sigmoid.inputs.erase("log_decay"), sigmoid.inputs.erase("beta");
  sigmoid.inputs["a"] = draw.tensor({4, 2}, -3, 3);
  Record softplus = sigmoid;
  sigmoid.params.update({{"gate", "logsigmoid"}, {"gate_normalizer", "4"}});
  softplus.params["gate"] = "softplus";
  softplus.inputs["a"] = mapped(sigmoid.inputs["a"], [](const Mp100& x) { return Mp100(-x); });
  softplus.inputs["a_log"] = to_decimal(Mp100(-log(Mp100(4))), 90);
  const Json a = answered(sigmoid), b = answered(softplus);
  RC_ASSERT(agree(a["outputs"]["o"], b["outputs"]["o"]));
  Values da = values(a["gradients"]["a"]);
  for (Mp100& x : da) x = -x;
  RC_ASSERT(agree(da, values(b["gradients"]["a"])));
}

/// Above its threshold softplus is the identity, at it and below softplus; the gradient follows.
ASSAY_PROPERTY(arguments_recurrences, the_threshold_of_softplus) {
  Draw draw;
  Record record = recurrence(draw, "gated_deltanet", 3, 2, 2);
  record.inputs.erase("log_decay");
  record.inputs["a"] = {"0.5", "1", "1.015625"}, record.inputs["a_log"] = "0";
  record.params["gate"] = "softplus";
  Record limited = record;
  limited.params["softplus_threshold"] = "1";
  Record given = record;
  given.params.erase("gate"), given.inputs.erase("a"), given.inputs.erase("a_log");
  given.inputs["log_decay"] = {to_decimal(Mp100(-softplus_of(0.5)), 90), to_decimal(Mp100(-softplus_of(1)), 90),
                               "-1.015625"};
  const Json a = answered(limited), b = answered(given);
  RC_ASSERT(agree_in_all(a, b));
  const Values dg = values(b["gradients"]["log_decay"]);
  RC_ASSERT(agree(values(a["gradients"]["a"]), Values{-sigmoid_of(0.5) * dg[0], -sigmoid_of(1) * dg[1], -dg[2]}));
}

ASSAY_PROPERTY(arguments_recurrences, equal_channels_are_one_gate) {
  Draw draw;
  Record one = recurrence(draw, "gated_deltanet", 4, 2, 2), each = one;
  each.mechanism = "kda";
  for (Json& g : each.inputs["log_decay"]) g = Json::array({g, g});
  const Json a = answered(one), b = answered(each);
  RC_ASSERT(a["outputs"]["o"] == b["outputs"]["o"]);
  Values sums;
  for (const Json& row : b["gradients"]["log_decay"]) sums.push_back(exact(row[0]) + exact(row[1]));
  RC_ASSERT(agree(sums, values(a["gradients"]["log_decay"])));
}

ASSAY_PROPERTY(arguments_recurrences, write_strength_is_a_sigmoid) {
  Draw draw;
  const bool doubled = draw.below(2) == 1;
  Record inside = recurrence(draw, "deltanet", 4, 2, 2), outside = inside;
  inside.inputs.erase("beta");
  inside.inputs["b"] = draw.tensor({4}, -3, 3);
  inside.params["beta_gate"] = "sigmoid";
  if (doubled) inside.params["beta_scale"] = "2";
  const Mp100 c = doubled ? 2 : 1;
  outside.inputs["beta"] = mapped(inside.inputs["b"], [&](const Mp100& x) { return Mp100(c * sigmoid_of(x)); });
  const Json in = answered(inside), out = answered(outside);
  RC_ASSERT(agree_in_all(in, out));
  const Values beta = values(outside.inputs["beta"]);
  Values db = values(out["gradients"]["beta"]);
  for (std::size_t i = 0; i < db.size(); ++i) db[i] *= beta[i] * (1 - beta[i] / c);
  RC_ASSERT(agree(db, values(in["gradients"]["b"])));
}

ASSAY_PROPERTY(arguments_recurrences, two_reflections_are_the_identity) {
  Draw draw;
  Record record{"deltanet"};
  record.params = {{"scale", "1"}, {"checkpoint_every", 2}};
  const Json key = {"0", "-1", "0"}, nothing = {"0", "0"};
  record.inputs = {{"q", Json::array({key, key})},
                   {"k", Json::array({key, key})},
                   {"v", Json::array({nothing, nothing})},
                   {"beta", Json::array({"2", "2"})},
                   {"initial_state", draw.tensor({3, 2})}};
  RC_ASSERT(values(answered(record)["outputs"]["final_state"]) == values(record.inputs["initial_state"]));
}

ASSAY_PROPERTY(arguments_recurrences, norms_agree_without_eps) {
  Draw draw;
  Record record = recurrence(draw, "deltanet", 4, 3, 2);
  record.inputs["k"][1] = {"0", "0", "0"};
  const auto with = [&](const char* kind) {
    Record normed = record;
    normed.params.update({{"l2_norm", kind}, {"l2_eps", "0"}});
    return answered(normed);
  };
  const Json a = with("root");
  RC_ASSERT(agree_in_all(a, with("sum")));
  RC_ASSERT(agree_in_all(a, with("max")));
  RC_ASSERT(values(a["gradients"]["k"][1]) == (Values{0, 0, 0}));
  for (const char* name : {"q", "k"})
    for (std::size_t t = 0; t < 4; ++t)
      RC_ASSERT(abs(inner(values(a["gradients"][name][t]), values(record.inputs[name][t]))) <
                from_decimal<Mp100>("1e-55"));
}

/// Of a zero key dx = dy / eps, in `root` over its root: read off the first token's write beta k v^T.
ASSAY_PROPERTY(arguments_recurrences, norms_of_nothing_pass_gradients) {
  Draw draw;
  for (const auto& [kind, factor] : {std::pair("root", 2), {"sum", 4}, {"max", 4}}) {
    Record record{"deltanet"};
    record.params = {{"scale", "1"}, {"l2_norm", kind}, {"l2_eps", "0.25"}};
    record.inputs = {{"q", draw.tensor({1, 2})},
                     {"k", Json::array({{"0", "0"}})},
                     {"v", Json::array({{"2"}})},
                     {"beta", Json::array({"0.5"})}};
    record.cotangents["final_state"] = Json::array({{"3"}, {"-5"}});
    // d final_state / d k^ = beta v = 1, less what the error would add, which is of the state's zero.
    RC_ASSERT(values(answered(record)["gradients"]["k"]) == (Values{3 * factor, -5 * factor}));
  }
}

/// Where n is eps itself, max takes the gradient of x / n.
ASSAY_PROPERTY(arguments_recurrences, the_tie_of_a_norm) {
  Record record{"deltanet"};
  record.params = {{"scale", "1"}, {"l2_norm", "max"}, {"l2_eps", "1.25"}};
  record.inputs = {{"q", Json::array({{"1", "0"}})},
                   {"k", Json::array({{"0.75", "1"}})},
                   {"v", Json::array({{"2"}})},
                   {"beta", Json::array({"0.5"})}};
  record.cotangents["final_state"] = Json::array({{"3"}, {"-5"}});
  // y = (0.6, 0.8), <y, dy> = -2.2, dx = (dy - y <y, dy>) / 1.25
  RC_ASSERT(agree(values(answered(record)["gradients"]["k"]), values(Json::array({"3.456", "-2.592"}))));
}

ASSAY_PROPERTY(arguments_recurrences, steps_are_decays_and_scaled_values) {
  Draw draw;
  const int T = 4;
  Record inside = recurrence(draw, "mamba2", T, 2, 2), outside = inside;
  inside.inputs.erase("log_decay");
  inside.inputs["dt"] = draw.tensor({T}, -2, 2);
  inside.inputs["dt_bias"] = draw.decimal(-1, 1), inside.inputs["rate"] = draw.decimal(-2, 0);
  inside.params["dt_softplus"] = true;
  Values steps;
  for (std::size_t t = 0; t < T; ++t) {
    steps.push_back(softplus_of(exact(inside.inputs["dt"][t]) + exact(inside.inputs["dt_bias"])));
    outside.inputs["log_decay"][t] = to_decimal(Mp100(steps[t] * exact(inside.inputs["rate"])), 90);
    outside.inputs["v"][t] = mapped(inside.inputs["v"][t], [&](const Mp100& x) { return Mp100(x * steps[t]); });
  }
  const Json in = answered(inside), out = answered(outside);
  RC_ASSERT(agree(in["outputs"]["o"], out["outputs"]["o"]));
  for (const char* name : {"q", "k", "initial_state"}) RC_ASSERT(agree(in["gradients"][name], out["gradients"][name]));
  const Values dg = values(out["gradients"]["log_decay"]);
  RC_ASSERT(agree(Values{inner(steps, dg)}, values(in["gradients"]["rate"])));
  for (std::size_t t = 0; t < T; ++t) {
    const Mp100 u = exact(inside.inputs["dt"][t]) + exact(inside.inputs["dt_bias"]);
    const Mp100 step =
        exact(inside.inputs["rate"]) * dg[t] + inner(values(inside.inputs["v"][t]), values(out["gradients"]["v"][t]));
    RC_ASSERT(agree(Values{step * sigmoid_of(u)}, Values{exact(in["gradients"]["dt"][t])}));
  }
}

ASSAY_PROPERTY(arguments_recurrences, clamped_steps_have_no_gradient) {
  Draw draw;
  Record record = recurrence(draw, "mamba2", 4, 2, 2);
  record.inputs.erase("log_decay");
  record.inputs["rate"] = "-1", record.inputs["dt"] = {"0.125", "0.25", "1", "1.0625"};
  record.params.update({{"dt_min", "0.25"}, {"dt_max", "1"}});
  const Json dt = answered(record)["gradients"]["dt"];
  RC_ASSERT(exact(dt[0]) == 0 && exact(dt[3]) == 0);
  record.params.erase("dt_min"), record.params.erase("dt_max");
  record.inputs["dt"] = {"0.25", "0.25", "1", "1"};
  RC_ASSERT(agree(part_of(dt, 1, 3), part_of(answered(record)["gradients"]["dt"], 1, 3)));  // at a limit they do
}

ASSAY_PROPERTY(arguments_recurrences, skips_add_and_gates_multiply) {
  Draw draw;
  const int T = 3;
  Record plain = recurrence(draw, "mamba2", T, 2, 2), more = plain;
  more.inputs["skip"] = draw.tensor({2}), more.inputs["z"] = draw.tensor({T, 2}, -3, 3);
  const Json a = answered(plain), b = answered(more);
  const Values before = values(a["outputs"]["o"]), v = values(plain.inputs["v"]), z = values(more.inputs["z"]),
               skip = values(more.inputs["skip"]), ct = values(plain.cotangents["o"]);
  Values o, dz, dskip{0, 0};
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Mp100 sum = before[i] + skip[i % 2] * v[i], s = sigmoid_of(z[i]);
    o.push_back(sum * z[i] * s);
    dz.push_back(ct[i] * sum * s * (1 + z[i] * (1 - s)));
    dskip[i % 2] += ct[i] * z[i] * s * v[i];
  }
  RC_ASSERT(agree(o, values(b["outputs"]["o"])));
  RC_ASSERT(agree(dz, values(b["gradients"]["z"])));
  RC_ASSERT(agree(dskip, values(b["gradients"]["skip"])));
  more.inputs["skip"] = "0.5";
  RC_ASSERT(values(answered(more)["gradients"]["skip"]).size() == 1);
}

}  // namespace
}  // namespace assay::arguments
