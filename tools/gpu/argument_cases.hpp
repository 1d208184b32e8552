#pragma once
// Cases of tile programs with arguments on a device: problems of one sequence, as kernels/arguments/rooms.hpp
// has them, and packs of sequences, some of no token.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/core/format.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay::device_cases {

inline constexpr int heads = 4, kv_heads = 2;

/// Lengths, and channels of keys and values.
struct Size {
  int queries, keys, key_dim, value_dim;
};
struct Case {
  std::string name;
  Problem problem;
};

inline Array drawn(const std::string& name, std::vector<int> shape, double size = 1, double from = 0) {
  Array array(std::move(shape));
  const Stream stream(0, name);
  for (std::size_t i = 0; i < array.data.size(); ++i)
    array.data[i] = round_to(from + size * (2 * stream.uniform(i) - 1), Format::bf16);
  return array;
}

// ---- attention

inline Problem attention_operands(const std::string& mechanism, const Size& n) {
  Problem p;
  p.mechanism = mechanism;
  p.inputs = {{"q", drawn("q", {heads, n.queries, n.key_dim}, 2)},
              {"k", drawn("k", {kv_heads, n.keys, n.key_dim}, 2)},
              {"v", drawn("v", {kv_heads, n.keys, n.value_dim})},
              {"bandwidth", Array({}, {std::sqrt(static_cast<double>(n.key_dim))})}};
  if (mechanism == "parallax") p.inputs["rho"] = drawn("rho", {heads, n.queries, n.key_dim}, 0.25);
  p.cotangents = {{"o", drawn("d_o", {heads, n.queries, n.value_dim})}, {"lse", drawn("d_lse", {heads, n.queries})}};
  p.params = {{"window_left", -1L}, {"window_right", 0L}};
  return p;
}
/// Every third row of the mask sees nothing.
inline Array mask_of(const Size& n, bool with_empty_rows) {
  Array mask = drawn("mask", {n.queries, n.keys});
  for (std::size_t i = 0; i < mask.data.size(); ++i)
    mask.data[i] = mask.data[i] > 0 && !(with_empty_rows && i / static_cast<std::size_t>(n.keys) % 3 == 1) ? 1 : 0;
  return mask;
}
inline void add_documents(Problem& p, const Size& n) {
  const auto document = [](int position) { return position / 20; };
  p.inputs["documents_q"] = Array({n.queries}), p.inputs["documents_k"] = Array({n.keys});
  for (int i = 0; i < n.queries; ++i)
    p.inputs["documents_q"].data[static_cast<std::size_t>(i)] = document(std::max(0, i + n.keys - n.queries));
  for (int j = 0; j < n.keys; ++j) p.inputs["documents_k"].data[static_cast<std::size_t>(j)] = document(j);
}
inline void add_sinks(Problem& p) {
  p.inputs["sink"] = drawn("sink", {heads}, 3), p.inputs["has_sink"] = Array({heads}, {1, 1, 0, 1});
}
/// Scales of every number: powers of two and others, of blocks of 8 rows.
inline void add_operand_scales(Problem& p) {
  for (const std::string name : {"q", "k", "v"}) {
    Array scale = p.inputs.at(name);
    const auto row = static_cast<std::size_t>(scale.shape[2]);
    const Array block = drawn(name + "_scale", {static_cast<int>(scale.data.size() / row / 8) + 1}, 0.25, 0.75);
    for (std::size_t i = 0; i < scale.data.size(); ++i) scale.data[i] = block.data[i / row / 8];
    p.inputs[name + "_scale"] = std::move(scale);
  }
}
inline void add_scale(Problem& p, double scale) {
  p.inputs.erase("bandwidth");
  p.inputs["scale"] = Array({}, {scale});
}

/// Adds cases of scores, of hidden keys, and of how far queries reach.
inline void add_score_cases(std::vector<Case>& all, const Problem& base, const Size& n) {
  const auto add = [&](std::string name, auto change) {
    all.push_back({std::move(name), base});
    change(all.back().problem);
  };
  add("lse", [](Problem&) {});
  add("scale", [](Problem& p) { add_scale(p, 0.0703125); });
  add("negative scale", [](Problem& p) { add_scale(p, -0.125); });
  if (base.mechanism != "parallax") add("scale of zero", [](Problem& p) { add_scale(p, 0); });
  add("lse in base 2", [](Problem& p) { p.params["base_2"] = true; });
  add("cap", [](Problem& p) { p.params["soft_cap"] = std::string("2"); });
  add("hard cap", [](Problem& p) { p.params["soft_cap"] = std::string("0.25"); });
  add("slopes", [&](Problem& p) { p.inputs["alibi_slopes"] = drawn("slopes", {heads}, 0.25); });
  add("signed slopes", [&](Problem& p) {
    p.inputs["alibi_slopes"] = drawn("slopes", {heads}, 0.25), p.params["signed"] = true;
    p.params["window_right"] = -1L;
  });
  for (const char* place : {"after_cap", "before_cap", "before_scale"})
    add(std::string("bias ") + place, [&](Problem& p) {
      p.inputs["bias"] = drawn("bias", {heads, n.queries, n.keys}), p.params["soft_cap"] = std::string("2");
      if (place != std::string_view("after_cap")) p.params[place] = true;
    });
  add("low lse", [&](Problem& p) { p.inputs["bias"] = drawn("bias", {n.queries, n.keys}, 4, -240); });
  add("high lse", [&](Problem& p) { p.inputs["bias"] = drawn("bias", {n.queries, n.keys}, 4, 240); });
  add("mask", [&](Problem& p) { p.inputs["mask"] = mask_of(n, false), p.params["window_right"] = -1L; });
  add("rows that see nothing", [&](Problem& p) { p.inputs["mask"] = mask_of(n, true); });
  add("documents", [&](Problem& p) { add_documents(p, n); });
  add("window", [](Problem& p) { p.params["window_left"] = 30L, p.params["window_right"] = 3L; });
  add("window from the start", [](Problem& p) { p.params["window_left"] = 30L, p.params["from_start"] = true; });
}

/// A case for each argument alone, and at the end one with all of them.
inline std::vector<Case> attention_cases(const std::string& mechanism, const Size& n) {
  const Problem base = attention_operands(mechanism, n);
  std::vector<Case> all;
  add_score_cases(all, base, n);
  Problem every = base;
  every.inputs["bias"] = drawn("bias", {heads, n.queries, n.keys});
  every.inputs["alibi_slopes"] = drawn("slopes", {heads}, 0.25);
  every.inputs["mask"] = mask_of(n, true);
  every.params["soft_cap"] = std::string("2"), every.params["base_2"] = true;
  add_documents(every, n);
  if (mechanism == "softmax_attention") {
    Problem sinks = base, scales = base;
    add_sinks(sinks), add_operand_scales(scales);
    all.push_back({"sink", sinks});
    all.push_back({"operand scales", scales});
    add_sinks(every), add_operand_scales(every);
  }
  all.push_back({"all of them", every});
  return all;
}

// ---- recurrences with front ends

/// Which inputs a recurrence has beside q, k and v.
struct Gates {
  bool decays, channels, strengths, steps;
};
inline Gates gates_of(std::string_view mechanism) {
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), mechanism) != names.end();
  };
  return {is({"gated_deltanet", "comba", "mamba2", "gla", "kda"}), is({"gla", "kda"}),
          is({"deltanet", "gated_deltanet", "comba", "kda"}), mechanism == "mamba2"};
}
/// A number of every token, or of every channel of it.
inline std::vector<int> of_tokens(const Gates& gates, const Size& n) {
  return gates.channels ? std::vector<int>{heads, n.keys, n.key_dim} : std::vector<int>{heads, n.keys};
}
inline Array negative(Array array) {
  for (double& x : array.data) x = -std::fabs(x);
  return array;
}
/// Two value heads read the queries and keys of one head.
inline Problem recurrence_operands(const std::string& mechanism, const Size& n) {
  const Gates gates = gates_of(mechanism);
  const int K = n.key_dim, V = n.value_dim;
  Problem p;
  p.mechanism = mechanism;
  p.inputs = {{"q", drawn("q", {kv_heads, n.keys, K}, 2)},
              {"k", drawn("k", {kv_heads, n.keys, K}, 2)},
              {"v", drawn("v", {heads, n.keys, V})},
              {"initial_state", drawn("initial_state", {heads, K, V}, 0.125)}};
  if (mechanism == "comba") p.inputs["p"] = drawn("p", {kv_heads, n.keys, K}, 2);
  if (gates.strengths) p.inputs["beta"] = drawn("beta", {heads, n.keys}, 0.25, 0.25);
  if (gates.decays) p.inputs["log_decay"] = negative(drawn("log_decay", of_tokens(gates, n), 0.25));
  if (mechanism == "retnet") p.params["head"] = 3L;
  p.cotangents = {{"o", drawn("d_o", {heads, n.keys, V})}, {"final_state", drawn("d_final", {heads, K, V}, 0.125)}};
  p.params["l2_norm"] = std::string("root"), p.params["l2_eps"] = std::string("0.5");
  return p;
}
/// Thresholds, limits and minima are inside of what is drawn.
inline void add_gate(Problem& p, const char* gate, const Size& n) {
  const Gates gates = gates_of(p.mechanism);
  p.inputs.erase("log_decay");
  p.inputs["a"] = drawn("a", of_tokens(gates, n), 3);
  p.inputs["dt_bias"] = drawn("dt_bias", gates.channels ? std::vector<int>{heads, n.key_dim} : std::vector<int>{heads});
  p.params["gate"] = std::string(gate);
  if (gate != std::string_view("logsigmoid")) p.inputs["a_log"] = drawn("a_log", {heads});
  p.params["lower_bound"] = std::string("-2"), p.params["gate_normalizer"] = std::string("16");
  p.params["gate_min"] = std::string("-0.125"), p.params["has_minimum"] = true;
  p.params["softplus_threshold"] = std::string("2"), p.params["has_threshold"] = true;
}
inline void add_strength(Problem& p, const Size& n) {
  p.inputs.erase("beta");
  p.inputs["b"] = drawn("b", {heads, n.keys}, 3);
  p.params["beta_scale"] = std::string("2");
}
inline void add_step(Problem& p, const Size& n) {
  p.inputs.erase("log_decay");
  p.inputs["dt"] = drawn("dt", {heads, n.keys}, 2), p.inputs["dt_bias"] = drawn("dt_bias", {heads});
  p.inputs["rate"] = negative(drawn("rate", {heads}));
  p.inputs["skip"] = drawn("skip", {heads, n.value_dim}), p.inputs["z"] = drawn("z", {heads, n.keys, n.value_dim}, 3);
  p.params["dt_softplus"] = true, p.params["scale"] = std::string("1");
  p.params["dt_min"] = std::string("0.25"), p.params["dt_max"] = std::string("1"), p.params["has_maximum"] = true;
}

inline std::vector<Case> recurrence_cases(const std::string& mechanism, const Size& n) {
  const Gates gates = gates_of(mechanism);
  const Problem base = recurrence_operands(mechanism, n);
  std::vector<Case> all;
  const auto add = [&](std::string name, auto change) {
    all.push_back({std::move(name), base});
    change(all.back().problem);
  };
  for (const char* kind : {"root", "sum", "max"})
    add(std::string("norm ") + kind, [&](Problem& p) { p.params["l2_norm"] = std::string(kind); });
  add("scale", [](Problem& p) { p.params["scale"] = std::string("-0.375"); });
  if (gates.decays)
    for (const char* gate : {"softplus", "bounded", "logsigmoid"})
      add(std::string("gate ") + gate, [&](Problem& p) { add_gate(p, gate, n); });
  if (gates.strengths) add("strength", [&](Problem& p) { add_strength(p, n); });
  if (gates.steps) add("step, skip and z", [&](Problem& p) { add_step(p, n); });
  add("all of them", [&](Problem& p) {
    if (gates.steps)
      add_step(p, n);
    else if (gates.decays)
      add_gate(p, "softplus", n);
    if (gates.strengths) add_strength(p, n);
  });
  return all;
}

inline bool has_scores(std::string_view mechanism) {
  return mechanism == "softmax_attention" || mechanism == "parallax";
}
inline std::vector<Case> cases(const std::string& mechanism, const Size& n) {
  return has_scores(mechanism) ? attention_cases(mechanism, n) : recurrence_cases(mechanism, n);
}

/// Sequences that may be packed: of no token, of one, of parts of a tile, and of several tiles; with the arguments that
/// packed sequences take, where they have scores, and with front ends.
inline std::vector<Problem> packed(const std::string& mechanism, int key_dim, int value_dim, bool decodes) {
  std::vector<Problem> all;
  for (const int keys : {0, 1, 43, 0, 65, 130}) {
    const Size n{has_scores(mechanism) ? std::min(keys == 0 ? 2 : keys, decodes ? 3 : 70) : keys, keys, key_dim,
                 value_dim};
    Problem p;
    if (has_scores(mechanism)) {
      p = attention_operands(mechanism, n);
      p.inputs["alibi_slopes"] = drawn("slopes", {heads}, 0.25), p.params["soft_cap"] = std::string("2");
      if (mechanism == "softmax_attention") add_sinks(p);
    } else {
      p = recurrence_cases(mechanism, n).back().problem;
    }
    all.push_back(std::move(p));
  }
  return all;
}

}  // namespace assay::device_cases
