#pragma once
// Seeded inputs: a room's tensors drawn by what its fields say they are, in a style that excites one kind of fault.
// Rounded once to the format the kernel reads; the same bits under every compiler, machine and thread count.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/format.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// How the numbers of a case are distributed. A style changes what it names and leaves the rest as in `normal`: where a
/// room has nothing of the kind (no gates, say), the case is that of `normal`.
enum class Style {
  normal,
  unit_keys,
  correlated_keys,
  nearly_parallel_keys,
  repeated_keys,
  outlier_channels,
  rising_scores,
  long_memory,
  dead_memory,
  gate_ends,
  cancelling_values,
  subnormals,
  integers,  ///< softmax weights too are exact if (T - 1) / 2 < 2^((K - 1) / 2) in integers, else good to an ulp or two
  ill_conditioned,
  dyadic,  ///< a few dozen tokens are exact in fp64, a few in fp32; in softmax attention the case is that of integers
  slow_writes,
  predicted_values,  ///< of rooms with write strengths and no momentum
  mixed_gates,
};

inline constexpr Style all_styles[] = {
    Style::normal,
    Style::unit_keys,
    Style::correlated_keys,
    Style::nearly_parallel_keys,
    Style::repeated_keys,
    Style::outlier_channels,
    Style::rising_scores,
    Style::long_memory,
    Style::dead_memory,
    Style::gate_ends,
    Style::cancelling_values,
    Style::subnormals,
    Style::integers,
    Style::ill_conditioned,
    Style::dyadic,
    Style::slow_writes,
    Style::predicted_values,
    Style::mixed_gates,
};

/// "correlated_keys".
std::string_view name_of(Style style);
/// One line for listings and documentation.
std::string_view summary_of(Style style);
/// The style called `name`, as name_of spells it; nothing for any other word.
std::optional<Style> style_from(std::string_view name);

/// The extents of a case. `shared_heads` counts key/value heads (grouped heads); 0 means as many as `heads`.
/// `query_len` 0 means one query per key.
struct Shape {
  int batch = 1, seq_len = 128, heads = 2, shared_heads = 0, key_dim = 64, value_dim = 64, query_len = 0;

  int own() const { return batch * heads; }
  int shared() const { return batch * (shared_heads > 0 ? shared_heads : heads); }
  int queries() const { return query_len > 0 ? query_len : seq_len; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// "B,T,H,K,V", or "B,T,H,d" with K = V = d; "1,16/128,8/2,64" has 16 queries on 128 keys and 8 heads on 2 key/value
/// heads. Understands text_of. Throws InputError unless all are positive and the heads divide evenly.
Shape shape_from(std::string_view text);
std::string text_of(const Shape& shape);

/// "5", "false", "0.25": as the command line takes it.
std::string word_of(const Param& param);
/// " --param window=5 --param causal=false": params as the command line takes them.
std::string flags_of(const Params& params);
/// The inverse for one of them, "window=5": true and false are switches, integers counts, the rest words or decimals.
/// Throws InputError unless it is NAME=VALUE.
std::pair<std::string, Param> param_from(std::string_view flag);

/// The specification of a generated case, to the bit. A case without arguments (docs/arguments.md) leaves the last ones
/// as they are; of `with`, rooms read the inputs that they would work out themselves.
struct CaseSpec {
  std::string mechanism = {};  ///< of a case with arguments a component's, too
  Shape shape;
  Format precision = Format::bf16;  ///< of queries, keys, values, probes and cotangents; the rest is fp32 or wider
  Style style = Style::normal;
  std::uint64_t seed = 0;
  Params params = {};                                          ///< kept; those a room needs besides are filled in
  std::vector<std::pair<std::string, std::string>> with = {};  ///< inputs that are arguments, and what: "" drawn
  std::string argument_style = {};                             ///< in place of `style`; or ""
  std::string layout = "bthd";                                 ///< how rows lie in a file
  bool cotangents = true;                                      ///< whether a file has them

  /// The numbers that `with` says of that input, "" for drawn ones; null where it does not ask for it.
  const std::string* asked(std::string_view input) const;
  /// The name of its style, of either kind.
  std::string_view style_name() const;
  /// The command-line flags that make this case again, but for `with`, `layout` and `cotangents`.
  std::string repro() const;
};

/// The format of a generated tensor: `precision` for a kernel's factors, fp32 or wider for gates and states.
/// Cotangents are in `precision`.
Format format_of(Domain domain, Format precision);

/// The facts that the generator needs of a room.
struct RoomFacts {
  struct Ranked {
    Field field;
    int rank;
  };
  std::string_view name;
  std::vector<Ranked> inputs, outputs;
  bool continuation = false;      ///< the first write takes the previous segment's last key
  bool causal = true;             ///< which keys a query sees
  int window = 0;                 ///< the newest so many; 0 means all
  int tail_len = 0;               ///< pairs carried in
  int final_tail_len = 0;         ///< pairs carried out
  bool optional_outputs = false;  ///< the options ask for the outputs that may be absent
};

/// The field of that name, or null.
const RoomFacts::Ranked* find_field(const std::vector<RoomFacts::Ranked>& fields, std::string_view name);
/// Whether some of the inputs belong to groups of output heads.
bool groups_heads(const std::vector<RoomFacts::Ranked>& inputs);
/// Whether there may be another number of queries than of keys.
bool has_queries(const std::vector<RoomFacts::Ranked>& inputs);

/// Inputs [heads][...] (the batch folded into the heads), missing parameters, and a cotangent for every output.
/// Throws InputError if the shape or a parameter does not fit the room.
Problem make_problem(const CaseSpec& spec, const RoomFacts& room);

template <class M>
Problem make_problem(const CaseSpec& spec) {
  RoomFacts room{.name = M::name, .inputs = {}, .outputs = {}};
  const auto into = [](std::vector<RoomFacts::Ranked>& list) {
    return [&list](const Field& field, const auto& tensor) {
      list.push_back({field, std::remove_cvref_t<decltype(tensor)>::rank});
    };
  };
  const typename M::template Inputs<double> inputs;
  const typename M::template Outputs<double> outputs;
  M::template Inputs<double>::each(inputs, into(room.inputs));
  M::template Outputs<double>::each(outputs, into(room.outputs));
  const auto options = M::Options::read(spec.params);
  if constexpr (requires { options.shifted(), options.sequence_start; })
    room.continuation = options.shifted() && !options.sequence_start;
  if constexpr (requires { options.causal, options.window; })
    room.causal = options.causal, room.window = options.window;
  if constexpr (requires(Extents extents) { M::extend(options, extents); }) {
    if (room.continuation) room.tail_len = std::max(0, options.window - 1);
    Extents extents;
    extents[Axis::seq_len] = spec.shape.seq_len;
    extents[Axis::tail_len] = room.tail_len;
    M::extend(options, extents);
    room.final_tail_len = extents[Axis::final_tail_len];
  }
  if constexpr (requires { options.normalizes(); }) room.optional_outputs = options.normalizes();
  return make_problem(spec, room);
}

}  // namespace assay
