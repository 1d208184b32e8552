#pragma once
// The launches of front ends and back ends of recurrences, planned once for every device. A case with arguments becomes
// one of the recurrence alone, which the room's own launches answer; its gradients go back through the front end.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/frontends/rows.hpp"
#include "kernels/launches/recurrence.hpp"

namespace assay::tile {

/// A parameter that is a word; "" where there is none.
inline std::string word_of(const Problem& problem, std::string_view name) {
  const auto found = problem.params.find(name);
  const auto* word = found == problem.params.end() ? nullptr : std::get_if<std::string>(&found->second);
  return word == nullptr ? std::string() : *word;
}
inline bool truth_of(const Problem& problem, std::string_view name) {
  const auto found = problem.params.find(name);
  const bool* truth = found == problem.params.end() ? nullptr : std::get_if<bool>(&found->second);
  return truth != nullptr && *truth;
}

/// Inputs and params of front and back ends; all others are the recurrence's.
inline constexpr std::string_view front_end_inputs[] = {"a", "a_log", "dt_bias", "b", "dt", "rate", "skip", "z"};
inline constexpr std::string_view front_end_params[] = {
    "gate",         "softplus_threshold", "has_threshold",    "lower_bound", "gate_normalizer",
    "gate_min",     "has_minimum",        "beta_gate",        "beta_scale",  "l2_norm",
    "l2_eps",       "dt_softplus",        "dt_min",           "dt_max",      "has_maximum",
    "state_layout", "state_every",        "checkpoint_every", "layout"};

/// The problem that the room's own launches get, without the inputs and parameters of front ends.
inline Problem recurrence_of(const Problem& problem) {
  Problem plain = problem;
  for (const std::string_view name : front_end_inputs) plain.inputs.erase(std::string(name));
  for (const std::string_view name : front_end_params) plain.params.erase(std::string(name));
  plain.cotangents.erase("states");
  return plain;
}
inline bool has_front_end(const Problem& problem) {
  if (!word_of(problem, "l2_norm").empty()) return true;
  for (const std::string_view name : front_end_inputs)
    if (problem.inputs.contains(std::string(name))) return true;
  return false;
}

/// `Tiles`: an executor, rows of a block and columns.
template <class Tiles, class Device>
class FrontEnd {
 public:
  FrontEnd(const Device& device, const RecurrenceShape& shape, const Problem& problem)
      : device_(device),
        shape_(shape),
        problem_(problem),
        blocks_(ceil_div(shape.len, R)),
        value_blocks_(imax(1, ceil_div(shape.value_dim, D))),
        has_step_(has("dt")),
        has_skip_(has("skip")),
        has_z_(has("z")),
        bias_(per_token<"logit">("dt_bias", 0)),
        log_factor_(per_token<"logit">("a_log", 0)),
        raw_(
            device.template input<"logit">(problem.inputs, "a", has("a") ? shape.heads : 0, shape.len, gate_columns())),
        v_(device.template input<"raw">(problem.inputs, "v", shape.heads, shape.len, shape.value_dim)),
        skip_(device.template input<"skip">(problem.inputs, "skip", has_skip_ ? shape.heads : 0, shape.value_dim, 1)),
        step_(device.template result<"dt">(has_step_ ? shape.heads : 0, shape.len, 1)) {}

  /// The forward pass: the recurrence's problem.
  Problem recurrence() {
    Problem plain = recurrence_of(problem_);
    if (!kind().empty()) {
      normalize("q", plain);
      if (device_.planted("keys_not_normalised"_s, true, false)) normalize("k", plain);
      if (has("p")) normalize("p", plain);
    }
    if (has("a")) make_gates(plain);
    if (has("b")) make_strengths(plain);
    if (has_step_) make_steps(plain);
    if (has_z_ && plain.cotangents.contains("o")) make_cotangents(plain);
    return plain;
  }

  /// The answer, of what the recurrence answers to that problem.
  Answer answer(Answer inner) {
    const Array read = inner.outputs.at("o");
    if (has_skip_ || has_z_) inner.outputs["o"] = output_of(read);
    if (problem_.cotangents.empty()) return inner;
    for (const char* name : {"q", "k", "p"})
      if (!kind().empty() && has(name)) inner.gradients[name] = normalized_gradient(name, inner.gradients.at(name));
    if (has("a")) gate_gradients(inner.gradients);
    if (has("b")) strength_gradients(inner.gradients);
    if (has_skip_ || has_z_) output_gradients(read, inner.gradients);
    if (has_step_) step_gradients(inner.gradients);
    if (has_step_ || has_skip_) value_gradients(inner.gradients);
    return inner;
  }

 private:
  using B = typename Tiles::Executor;
  using Real = typename Device::Real;
  using Wide = typename Device::Wide;
  using Values = typename Device::Values;
  static constexpr Size R = Tiles::rows, D = Tiles::dim;
  static constexpr std::uint64_t first = 100;  ///< launches of the recurrence have smaller numbers

  bool has(const std::string& name) const { return problem_.inputs.contains(name); }
  std::string kind() const { return word_of(problem_, "l2_norm"); }
  template <FixedString Site>
  Real number(std::string_view name, double missing) const {
    return device_.template gate<Site>(number_param(problem_.params, name, static_cast<Wide>(missing)));
  }
  /// Log decays of channels have two axes beside that of heads.
  bool of_channels() const {
    return problem_.inputs.at("a").shape.size() == (shape_.head_axis ? std::size_t{3} : std::size_t{2});
  }
  int gate_columns() const { return has("a") && of_channels() ? shape_.key_dim : 1; }
  bool has_bias_of_channels() const { return has("a") && of_channels(); }

  /// A number for every head, at every token; where gates are of channels a bias is one of every channel.
  template <FixedString Site>
  Values per_token(const char* name, double missing) const {
    const int heads = shape_.heads;
    const bool channels = has_bias_of_channels() && std::string_view(name) == "dt_bias";
    const int rows = channels ? shape_.key_dim : shape_.len;
    const auto given = problem_.inputs.find(name);
    std::vector<double> values;
    for (int h = 0; h < heads; ++h)
      for (int r = 0; r < rows; ++r) {
        if (given == problem_.inputs.end())
          values.push_back(missing);
        else
          values.push_back(of_head(given->second, h, heads, channels ? r : 0));
      }
    if (device_.planted("dt_bias_forgotten"_s, false, std::string_view(name) == "dt_bias"))
      values.assign(values.size(), missing);
    return device_.template array<Site>(heads, rows, 1, values);
  }
  static double of_head(const Array& array, int h, int heads, int c) {
    const std::size_t each = array.data.size() / static_cast<std::size_t>(heads);
    return array.data[each == 0 ? 0 : static_cast<std::size_t>(h) * each + static_cast<std::size_t>(c) % each];
  }

  Norm<Real> norm() const {
    const std::string name = kind();
    return {name == "sum"   ? NormKind::sum
            : name == "max" ? NormKind::max
                            : NormKind::root,
            number<"length">("l2_eps", 0)};
  }
  Gate<Real> gate() const {
    const std::string name = word_of(problem_, "gate");
    const Real normalizer = number<"gate">("gate_normalizer", 1);
    return {name == "bounded"      ? GateKind::bounded
            : name == "logsigmoid" ? GateKind::logsigmoid
                                   : GateKind::softplus,
            truth_of(problem_, "has_threshold"),
            truth_of(problem_, "has_minimum"),
            number<"gate">("softplus_threshold", 0),
            number<"gate">("lower_bound", 0),
            device_.planted("gate_normalizer_forgotten"_s, normalizer, Real(1)),
            number<"gate">("gate_min", 0)};
  }
  StepSize<Real> size() const {
    return {truth_of(problem_, "dt_softplus"), truth_of(problem_, "has_maximum"), number<"dt">("dt_min", 0),
            number<"dt">("dt_max", 0)};
  }

  // ---- normalisation

  int rows_of(const Array& x) const { return shape_.head_axis ? x.shape[0] : 1; }
  void normalize(const char* name, Problem& plain) const {
    const Array& given = problem_.inputs.at(name);
    const int heads = rows_of(given);
    const auto x = device_.template input<"raw">(problem_.inputs, name, heads, shape_.len, shape_.key_dim);
    auto y = device_.template result<"unit">(heads, shape_.len, shape_.key_dim);
    device_.forward([&] {
      device_.template launch<UnitRows<B, R, D>, B>(first + number_of(name), heads, blocks_,
                                                    {x.in(), y.out(), norm(), shape_.key_dim});
    });
    plain.inputs[name] = shaped(device_.array_of(y, {shape_.len, shape_.key_dim}), given);
  }
  Array normalized_gradient(const char* name, const Array& gradient) const {
    const Array& given = problem_.inputs.at(name);
    const int heads = rows_of(given);
    if (device_.planted("keys_not_normalised"_s, false, std::string_view(name) == "k")) return gradient;
    const auto x = device_.template input<"raw">(problem_.inputs, name, heads, shape_.len, shape_.key_dim);
    const auto dy = device_.template array<"dunit">(heads, shape_.len, shape_.key_dim, gradient.data);
    auto dx = device_.template result<"draw">(heads, shape_.len, shape_.key_dim);
    device_.backward([&] {
      device_.template launch<UnitRowGradients<B, R, D>, B>(first + 3 + number_of(name), heads, blocks_,
                                                            {x.in(), dy.in(), dx.out(), norm(), shape_.key_dim});
    });
    return shaped(device_.array_of(dx, {shape_.len, shape_.key_dim}), given);
  }
  static std::uint64_t number_of(std::string_view name) { return name == "q" ? 0 : name == "k" ? 1 : 2; }
  static Array shaped(Array array, const Array& like) {
    array.shape = like.shape;
    return array;
  }

  // ---- gates

  void make_gates(Problem& plain) const {
    const int heads = shape_.heads, len = shape_.len, columns = gate_columns();
    auto log_decay = device_.template result<"gate">(heads, len, columns);
    device_.forward([&] {
      if (of_channels())
        device_.template launch<ChannelGates<B, R, D>, B>(
            first + 6, heads, blocks_, {raw_.in(), bias_.row_in(), log_factor_.row_in(), log_decay.out(), gate()});
      else
        device_.template launch<TokenGates<B, R>, B>(
            first + 6, heads, blocks_,
            {raw_.row_in(), bias_.row_in(), log_factor_.row_in(), log_decay.row_out(), gate()});
    });
    plain.inputs["log_decay"] = shaped(device_.array_of(log_decay, {len, columns}), problem_.inputs.at("a"));
  }
  void gate_gradients(Arrays& gradients) const {
    const int heads = shape_.heads, len = shape_.len, columns = gate_columns();
    const auto dg = device_.template array<"dgate">(heads, len, columns, gradients.at("log_decay").data);
    auto da = device_.template result<"dlogit">(heads, len, columns),
         dlog_factor = device_.template result<"dlogit">(heads, len, 1);
    device_.backward([&] {
      if (of_channels())
        device_.template launch<ChannelGateGradients<B, R, D>, B>(
            first + 7, heads, blocks_,
            {raw_.in(), dg.in(), bias_.row_in(), log_factor_.row_in(), da.out(), dlog_factor.row_out(), gate()});
      else
        device_.template launch<TokenGateGradients<B, R>, B>(
            first + 7, heads, blocks_,
            {raw_.row_in(), bias_.row_in(), log_factor_.row_in(), dg.row_in(), da.row_out(), dlog_factor.row_out(),
             gate()});
    });
    gradients.erase("log_decay");
    gradients["a"] = shaped(device_.array_of(da, {len, columns}), problem_.inputs.at("a"));
    if (has("a_log")) gradients["a_log"] = sums("a_log", dlog_factor);
    if (has("dt_bias")) gradients["dt_bias"] = sums("dt_bias", da);
  }

  void make_strengths(Problem& plain) const {
    const int heads = shape_.heads, len = shape_.len;
    const auto b = device_.template input<"logit">(problem_.inputs, "b", heads, len, 1);
    auto beta = device_.template result<"strength">(heads, len, 1);
    device_.forward([&] {
      device_.template launch<Strengths<B, R>, B>(first + 8, heads, blocks_,
                                                  {b.row_in(), beta.row_out(), number<"strength">("beta_scale", 1)});
    });
    plain.inputs["beta"] = shaped(device_.array_of(beta, {len}), problem_.inputs.at("b"));
  }
  void strength_gradients(Arrays& gradients) const {
    const int heads = shape_.heads, len = shape_.len;
    const auto b = device_.template input<"logit">(problem_.inputs, "b", heads, len, 1);
    const auto dbeta = device_.template array<"dgate">(heads, len, 1, gradients.at("beta").data);
    auto db = device_.template result<"dlogit">(heads, len, 1);
    device_.backward([&] {
      device_.template launch<StrengthGradients<B, R>, B>(
          first + 9, heads, blocks_, {b.row_in(), dbeta.row_in(), db.row_out(), number<"strength">("beta_scale", 1)});
    });
    gradients.erase("beta");
    gradients["b"] = shaped(device_.array_of(db, {len}), problem_.inputs.at("b"));
  }

  // ---- mamba2's step, skip and gate of the output

  bool is_log() const { return has("a_log"); }
  Values rates() const { return per_token<"logit">(is_log() ? "a_log" : "rate", 0); }
  void make_steps(Problem& plain) {
    const int heads = shape_.heads, len = shape_.len, V = shape_.value_dim;
    const auto dt = device_.template input<"logit">(problem_.inputs, "dt", heads, len, 1);
    const auto rate = rates();
    auto log_decay = device_.template result<"gate">(heads, len, 1);
    auto written = device_.template result<"written">(heads, len, V);
    device_.forward([&] {
      device_.template launch<Steps<B, R>, B>(
          first + 10, heads, blocks_,
          {dt.row_in(), bias_.row_in(), rate.row_in(), step_.row_out(), log_decay.row_out(), size(), is_log()});
      device_.template launch<WrittenValues<B, R, D>, B>(first + 11, heads, blocks_ * value_blocks_,
                                                         {v_.in(), step_.row_in(), written.out(), value_blocks_});
    });
    plain.inputs["log_decay"] = shaped(device_.array_of(log_decay, {len}), problem_.inputs.at("dt"));
    plain.inputs["v"] = shaped(device_.array_of(written, {len, V}), problem_.inputs.at("v"));
  }
  void step_gradients(Arrays& gradients) const {
    const int heads = shape_.heads, len = shape_.len, V = shape_.value_dim;
    const auto dt = device_.template input<"logit">(problem_.inputs, "dt", heads, len, 1);
    const auto rate = rates();
    const auto dg = device_.template array<"dgate">(heads, len, 1, gradients.at("log_decay").data);
    const auto dwritten = device_.template array<"dunit">(heads, len, V, gradients.at("v").data);
    auto ddt = device_.template result<"dlogit">(heads, len, 1),
         drate = device_.template result<"dlogit">(heads, len, 1);
    device_.backward([&] {
      device_.template launch<StepGradients<B, R, D>, B>(
          first + 12, heads, blocks_,
          {dt.row_in(), bias_.row_in(), rate.row_in(), step_.row_in(), dg.row_in(), v_.in(), dwritten.in(),
           ddt.row_out(), drate.row_out(), size(), is_log(), value_blocks_});
    });
    gradients.erase("log_decay");
    gradients["dt"] = shaped(device_.array_of(ddt, {len}), problem_.inputs.at("dt"));
    const char* name = is_log() ? "a_log" : "rate";
    gradients[name] = sums(name, drate);
    if (has("dt_bias")) gradients["dt_bias"] = sums("dt_bias", ddt);
  }

  Values z() const {
    return device_.template input<"raw">(problem_.inputs, "z", has_z_ ? shape_.heads : 0, shape_.len, shape_.value_dim);
  }
  Values o_cotangent() const {
    return device_.template input<"raw">(problem_.cotangents, "o", shape_.heads, shape_.len, shape_.value_dim);
  }
  /// do', or do where nothing gates the output.
  Values read_cotangent() const {
    const int heads = shape_.heads, len = shape_.len, V = shape_.value_dim;
    if (!has_z_) return device_.template input<"dread">(problem_.cotangents, "o", heads, len, V);
    const auto given = o_cotangent(), gate_ = z();
    auto dread = device_.template result<"dread">(heads, len, V);
    device_.backward([&] {
      device_.template launch<ReadCotangents<B, R, D>, B>(first + 13, heads, blocks_ * value_blocks_,
                                                          {given.in(), gate_.in(), dread.out(), value_blocks_});
    });
    return dread;
  }
  void make_cotangents(Problem& plain) const {
    Array& o = plain.cotangents.at("o");
    o = shaped(device_.array_of(read_cotangent(), {shape_.len, shape_.value_dim}), o);
  }
  Array output_of(const Array& read) const {
    const int heads = shape_.heads, len = shape_.len, V = shape_.value_dim;
    const auto from = device_.template array<"read">(heads, len, V, read.data), gate_ = z();
    auto o = device_.template result<"gated">(heads, len, V);
    device_.forward([&] {
      device_.template launch<GatedOutput<B, R, D>, B>(
          first + 14, heads, blocks_ * value_blocks_,
          {from.in(), v_.in(), gate_.in(), skip_.row_in(), o.out(), has_skip_, has_z_, value_blocks_});
    });
    return shaped(device_.array_of(o, {len, V}), read);
  }
  void output_gradients(const Array& read, Arrays& gradients) const {
    const int heads = shape_.heads, len = shape_.len, V = shape_.value_dim;
    const auto from = device_.template array<"read">(heads, len, V, read.data), gate_ = z(), given = o_cotangent(),
               dread = read_cotangent();
    auto dz = device_.template result<"draw">(has_z_ ? heads : 0, len, V),
         dskip = device_.template result<"dskip">(has_skip_ ? heads : 0, len, V);
    device_.backward([&] {
      device_.template launch<OutputGradients<B, R, D>, B>(
          first + 15, heads, blocks_ * value_blocks_,
          {from.in(), v_.in(), gate_.in(), given.in(), dread.in(), skip_.row_in(), dz.out(), dskip.out(), has_skip_,
           has_z_, value_blocks_});
    });
    if (has_z_) gradients["z"] = shaped(device_.array_of(dz, {len, V}), problem_.inputs.at("z"));
    if (has_skip_) gradients["skip"] = sums("skip", dskip);
  }
  void value_gradients(Arrays& gradients) const {
    const int heads = shape_.heads, len = shape_.len, V = shape_.value_dim;
    const auto dwritten = device_.template array<"dunit">(heads, len, V, gradients.at("v").data),
               dread = read_cotangent();
    auto dv = device_.template result<"draw">(heads, len, V);
    device_.backward([&] {
      device_.template launch<ValueGradients<B, R, D>, B>(
          first + 16, heads, blocks_ * value_blocks_,
          {dwritten.in(), dread.in(), step_.row_in(), skip_.row_in(), dv.out(), has_step_, has_skip_, value_blocks_});
    });
    gradients["v"] = shaped(device_.array_of(dv, {len, V}), problem_.inputs.at("v"));
  }

  /// Rows of every head summed, into the shape of the input: a number for a head, or one for each of its channels.
  Array sums(const char* name, const Values& of_rows) const {
    Array sum(problem_.inputs.at(name).shape);
    const auto all = device_.values(of_rows);
    std::vector<Wide> total(sum.data.size(), Wide(0));
    if (all.empty()) return sum;
    const auto heads = static_cast<std::size_t>(shape_.heads), each = std::max<std::size_t>(1, sum.data.size() / heads),
               of_one = all.size() / heads;
    for (std::size_t i = 0; i < all.size(); ++i) total[(i / of_one * each + i % each) % total.size()] += all[i];
    for (std::size_t i = 0; i < total.size(); ++i) sum.data[i] = static_cast<double>(total[i]);
    return sum;
  }

  const Device& device_;
  const RecurrenceShape& shape_;
  const Problem& problem_;
  const int blocks_, value_blocks_;
  const bool has_step_, has_skip_, has_z_;
  const Values bias_, log_factor_, raw_, v_, skip_;
  Values step_;
};

}  // namespace assay::tile
