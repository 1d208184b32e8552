// Recurrences with front ends, sequences and states inside.
#include <algorithm>
#include <utility>

#include "arguments/programs/families.hpp"
#include "arguments/programs/join.hpp"
#include "arguments/programs/library.hpp"
#include "language/room.hpp"
#include "oracles/core/bind.hpp"

namespace assay::arguments {
namespace {

using language::Input;
using language::Program;

/// The parts in front of the recurrence and behind it, and what they need to be told.
class FrontEnd {
 public:
  FrontEnd(const Given& given, const Facts& facts) : given_(given), recurrence_(recurrence_of(given, facts)) {
    add_norms();
    add_gate();
    add_write_strength();
    const bool steps = given.has_input("dt");
    if (steps) add_step();
    for (const char* name : {"rate", "dt_softplus", "dt_min", "dt_max"})
      require_domain(steps || !(given.has_input(name) || given.has_param(name)), -1, name, ": dt is missing");
    front_end_ = join_.steps();
    join_.then(recurrence_, steps ? Names{{"v", "written"}} : Names{});
    if (given.has_input("skip")) join_.then(part("skip_added"), {{"x", "v"}}, {{"y", "o"}});
    if (given.has_input("z")) join_.then(part("gated_output"), {}, {{"y", "o"}});
  }

  Program program() const { return join_.program(recurrence_.name, recurrence_.outputs); }
  const Program& recurrence() const { return recurrence_; }
  const std::vector<Join::Step>& steps() const { return front_end_; }
  const Params& params() const { return params_; }
  const std::map<std::string, Range, std::less<>>& ranges() const { return ranges_; }

 private:
  static Program recurrence_of(const Given& given, const Facts& facts) {
    const Params params = given.params();
    const Program& plain =
        language::program_path(facts.name) > 0 ? *facts.program : mechanism_program(facts.name, params);
    const bool inside =
        given.has_param("state_every") || given.has_param("checkpoint_every") || given.has_input("state_at");
    return inside ? with_states(plain) : plain;
  }

  void add_norms() {
    const auto eps = given_.number("l2_eps");
    if (!given_.has_param("l2_norm")) {
      require_domain(!eps, -1, "params.l2_eps: l2_norm is missing");
      return;
    }
    const std::string kind = given_.choice("l2_norm", {"root", "sum", "max"});
    require_domain(eps.has_value(), -1, "params.l2_eps: missing beside l2_norm");
    require_domain(sign_of(*eps) >= 0, -1, "params.l2_eps: expected at least 0, got ", *eps);
    params_["l2_eps"] = *eps;
    for (const char* name : {"q", "k", "p"})
      if (const Input* input = recurrence_.input(name); input != nullptr && has_axes(input->type, {"T", "K"}))
        join_.then(part(kind == "root" ? "unit" : "unit-kind-" + kind), {{"x", name}}, {{"y", name}});
  }

  void require_alone(std::initializer_list<const char*> names, const std::string& gate) const {
    for (const char* name : names)
      require_domain(!given_.has_input(name) && !given_.has_param(name), -1, name, ": has no meaning with gate ", gate);
  }

  void add_gate() {
    const std::string gate = given_.choice("gate", {"log", "softplus", "bounded", "logsigmoid"});
    if (gate != "softplus") require_alone({"softplus_threshold"}, gate);
    if (gate != "bounded") require_alone({"lower_bound"}, gate);
    if (gate != "logsigmoid") require_alone({"gate_normalizer", "gate_min"}, gate);
    if (gate == "log") {
      require_alone({"a"}, gate);
      if (!given_.has_input("dt")) require_alone({"a_log", "dt_bias"}, gate);
      return;
    }
    require_alone({"log_decay", "dt"}, gate);
    require_domain(given_.has_input("a"), -1, "a: missing, from which gate ", gate, " makes log_decay");
    const bool channels = has_axes(recurrence_.input("log_decay")->type, {"T", "K"});
    join_.then(part("gate_" + gate + (channels ? "-channels-K" : "")));
    if (gate == "softplus") {
      require_domain(given_.has_input("a_log"), -1, "a_log: missing, the factor of gate softplus");
      set_limit("softplus_threshold", "has_threshold");
    } else if (gate == "bounded") {
      const auto bound = given_.number("lower_bound");
      require_domain(bound.has_value(), -1, "params.lower_bound: missing beside gate bounded");
      require_domain(sign_of(*bound) < 0, -1, "params.lower_bound: expected a number below 0, got ", *bound);
      params_["lower_bound"] = *bound;
    } else {
      require_alone({"a_log"}, gate);
      if (const auto n = given_.number("gate_normalizer")) {
        require_domain(sign_of(*n) > 0, -1, "params.gate_normalizer: expected a number above 0, got ", *n);
        params_["gate_normalizer"] = *n;
      }
      set_limit("gate_min", "has_minimum");
      require_domain(!given_.has_param("gate_min") || sign_of(*given_.number("gate_min")) <= 0, -1,
                     "params.gate_min: a log decay must be <= 0");
    }
  }

  void set_limit(const char* name, const char* flag) {
    const auto limit = given_.number(name);
    if (limit) params_[name] = *limit, params_[flag] = true;
  }

  void add_write_strength() {
    const bool sigmoid = given_.has_param("beta_gate");
    if (sigmoid) given_.choice("beta_gate", {"sigmoid"});
    for (const char* name : {"b", "beta_scale"})
      require_domain(sigmoid || !(given_.has_input(name) || given_.has_param(name)), -1, name,
                     ": beta_gate is missing, without which beta is given");
    if (!sigmoid) return;
    require_domain(!given_.has_input("beta"), -1, "beta: with beta_gate it is made of b");
    require_domain(given_.has_input("b"), -1, "b: missing, from which beta_gate makes beta");
    const auto scale = given_.number("beta_scale");
    const bool known =
        !scale || !(is_less(*scale, "1") || (is_less("1", *scale) && is_less(*scale, "2")) || is_less("2", *scale));
    require_domain(known, -1, "params.beta_scale: expected 1 or 2, got ", scale.value_or(""));
    if (scale) params_["beta_scale"] = *scale;
    join_.then(part("write_strength"));
  }

  void add_step() {
    require_domain(!given_.has_input("log_decay"), -1, "dt: log_decay is given, too");
    require_domain(
        given_.has_input("rate") != given_.has_input("a_log"), -1,
        given_.has_input("rate") ? "rate: a_log is given, too, and rate is -e^a_log" : "rate: missing, and a_log, too");
    if (given_.has_input("a_log")) join_.then(part("rate_of_log"));
    ranges_["rate"] = Range::not_positive;
    params_["dt_softplus"] = given_.truth("dt_softplus", false);
    const auto least = given_.number("dt_min");
    require_domain(!least || sign_of(*least) >= 0, -1, "params.dt_min: expected at least 0, got ", least.value_or(""));
    if (least) params_["dt_min"] = *least;
    const Params all = given_.params();
    const auto most = all.find("dt_max");
    const bool endless = most != all.end() && most->second == Param(std::string("inf"));
    if (!endless) set_limit("dt_max", "has_maximum");
    require_domain(endless || most == all.end() || !is_less(*given_.number("dt_max"), least.value_or("0")), -1,
                   "params.dt_max: is below dt_min");
    if (!given_.has_param("scale")) params_["scale"] = std::string("1");
    join_.then(part("step_size"), {{"x", "v"}});
  }

  const Given& given_;
  const Program recurrence_;
  Join join_;
  std::vector<Join::Step> front_end_;
  Params params_;
  std::map<std::string, Range, std::less<>> ranges_;
};

class Recurrence {
 public:
  Recurrence(const Given& given, const Facts& facts)
      : given_(given), front_end_(given, facts), plan_(front_end_.program()) {}

  Plan plan() && {
    const Program& program = plan_.mechanism.program;
    const bool says_two_decays = given_.has_input("log_decay") && given_.has_param("head");
    require_domain(front_end_.recurrence().name != "retnet" || !says_two_decays, -1,
                   "log_decay: params.head says a decay, too; leave one of them out");
    v_first_ = given_.choice("state_layout", {"k_first", "v_first"}) == "v_first";
    take_params();
    take_tokens();
    sequences_ = sequences_of(given_, rows_);
    for (const Input& input : program.inputs)
      if (given_.has_input(input.name) && !tokens_.contains(input.name)) take_number(input);
    for (const std::string& name : program.outputs) take_output(name);
    take_inner_states();
    for (int n = 0; n < sequences_.count(); ++n) add_piece(n);
    return std::move(plan_);
  }

 private:
  void take_params() {
    plan_.front_end = front_end_.steps();
    plan_.params = front_end_.params();
    plan_.ranges = front_end_.ranges();
    const Params given = given_.params();
    for (const Input& input : front_end_.recurrence().inputs) {
      if (const auto param = given.find(input.name); !input.gradient && param != given.end())
        plan_.params[input.name] = param->second;
      if (!input.gradient && input.type.kind == language::Kind::real) given_.number(input.name);
      if (input.domain == "log_decay") plan_.ranges[input.name] = Range::log_decay;
    }
  }

  /// Inputs with a row for every token.
  void take_tokens() {
    for (const Input& input : plan_.mechanism.program.inputs) {
      if (input.type.axes.empty() || input.type.axes[0].name != "T") continue;
      if (!given_.has_input(input.name) && input.missing) continue;
      const Tensor tensor = taken(given_, plan_, input.name, static_cast<int>(input.type.axes.size()));
      if (tokens_.empty()) rows_ = tensor.rows();
      require_domain(tensor.rows() == rows_, -1, input.name, ": expected ", rows_, " rows, as ",
                     plan_.mechanism.program.inputs[0].name, " has, got ", tensor.rows());
      heads_ = heads_ || tensor.heads, head_count_ = std::max(head_count_, tensor.head_count());
      plan_.padded.insert(input.name);
      plan_.tokens[input.name] = tensor.heads ? 1 : 0;
      tokens_[input.name] = tensor;
    }
  }

  /// States, of which every sequence has its own, and what all sequences share.
  void take_number(const Input& input) {
    const auto rank = static_cast<int>(input.type.axes.size());
    if (input.name.starts_with("initial_") || input.name == "k_carry") {
      states_[input.name] = state_of(input);
    } else if (input.name == "skip") {
      skip_ = skip_of();
    } else {
      shared_.push_back(taken(given_, plan_, input.name, rank));
    }
  }

  /// A state as the case has it: sequences, where there are several, heads, the state's own axes.
  struct State {
    Tensor tensor;
    bool turned = false;  ///< [V][K]

    Picked of(int sequence, bool packed) const {
      std::vector<PickedAxis> axes = whole_axes(tensor.shape);
      if (packed) axes[0].elements = {sequence};
      if (turned) std::swap(axes[axes.size() - 2], axes[axes.size() - 1]);
      Picked result = picked(tensor.name, axes);
      if (packed) result.shape.erase(result.shape.begin());
      return result;
    }
  };

  State state_of(const Input& input) {
    Numbers numbers = *given_.numbers(input.name);
    const std::size_t rank = input.type.axes.size() + (heads_ ? 1 : 0) + (sequences_.packed ? 1 : 0);
    require_domain(numbers.shape.size() == rank, -1, input.name, ": expected ", rank, " axes",
                   sequences_.packed ? ", sequences first" : "", heads_ ? ", with heads" : "", ", got shape ",
                   assay::detail::shape_text(numbers.shape));
    require_domain(!sequences_.packed || numbers.shape[0] == sequences_.count(), -1, input.name, ": expected ",
                   sequences_.count(), " states, one for every sequence, got ", numbers.shape[0]);
    const int states = heads_ ? numbers.shape[sequences_.packed ? 1 : 0] : 1;
    require_domain(!heads_ || (states > 0 && head_count_ % states == 0), -1, input.name, ": states of ", states,
                   " heads, but there are ", head_count_);
    State state{{input.name, numbers.shape, heads_}, v_first_ && has_axes(input.type, {"K", "V"})};
    plan_.gradients.insert(input.name);
    plan_.inputs[input.name] = std::move(numbers);
    return state;
  }

  /// A number for a head, or one for each of its channels.
  Picked skip_of() {
    const Numbers numbers = *given_.numbers("skip");
    const int values = tokens_.at("v").shape.back();
    std::vector<int> number, channels = {values};
    if (heads_) number = {head_count_}, channels = {head_count_, values};
    require_domain(numbers.shape == number || numbers.shape == channels, -1, "skip: expected ",
                   assay::detail::shape_text(number), " or ", assay::detail::shape_text(channels), ", got shape ",
                   assay::detail::shape_text(numbers.shape));
    plan_.gradients.insert("skip");
    plan_.inputs["skip"] = numbers;
    const std::vector<std::size_t> strides = strides_of(numbers.shape);
    std::vector<PickedAxis> axes;
    if (heads_) axes.push_back({strides[0], first(head_count_)});
    axes.push_back({numbers.shape == channels ? std::size_t{1} : 0, first(values)});
    return picked("skip", axes);
  }

  /// Shape of an output's own axes.
  std::vector<int> lengths_of(const language::Type& type) const {
    std::vector<int> lengths;
    for (const language::Dim& dim : type.axes)
      lengths.push_back(dim.name == "T"   ? rows_
                        : dim.name == "K" ? tokens_.at("k").shape.back()
                        : dim.name == "V" ? tokens_.at("v").shape.back()
                                          : dim.written);
    return lengths;
  }

  void take_output(const std::string& name) {
    const Program& program = plan_.mechanism.program;
    const language::Type& type = program.body->type(*program.output(name));
    std::vector<int> shape = lengths_of(type);
    if (name == "states") {
      state_shape_ = {shape.begin() + 1, shape.end()};
      return;
    }
    const bool by_token = !type.axes.empty() && type.axes[0].name == "T";
    const bool turned = v_first_ && has_axes(type, {"K", "V"});
    if (turned) std::swap(shape[0], shape[1]);
    if (heads_) shape.insert(shape.begin(), head_count_);
    if (!by_token && sequences_.packed) shape.insert(shape.begin(), sequences_.count());
    const Tensor tensor = output(given_, plan_, name, std::move(shape), heads_);
    if (by_token)
      rows_out_.push_back(tensor), plan_.tokens[name] = heads_ ? 1 : 0;
    else
      states_out_.push_back({tensor, turned});
  }

  /// A state inside of a sequence: before its token `token`, or after its last one.
  struct Inner {
    std::string to;
    int entry = 0, sequence = 0, token = 0;
  };

  void take_inner_states() {
    const auto every = given_.integer("state_every", 1), after = given_.integer("checkpoint_every", 1);
    int chunks = 0, checkpoints = 0, n = 0;
    for (const std::vector<int>& rows : sequences_.queries) {
      const auto tokens = static_cast<int>(rows.size());
      for (int t = 0; every && t < tokens; t += *every) inner_.push_back({"chunk_states", chunks++, n, t});
      for (int t = after.value_or(1); after && t <= tokens; t += *after)
        inner_.push_back({"checkpoints", checkpoints++, n, t});
      ++n;
    }
    if (every) inner_output("chunk_states", chunks);
    if (after) inner_output("checkpoints", checkpoints);
    if (const auto rows = given_.integers("state_at", 0)) {
      for (std::size_t m = 0; m < rows->size(); ++m) inner_.push_back(place_of(static_cast<int>(m), (*rows)[m]));
      inner_output("states_at", static_cast<int>(rows->size()));
    }
    for (const char* name : {"chunk_states", "checkpoints", "states_at"})
      require_domain(
          plan_.outputs.contains(name) || !given_.cotangent(name), -1, "cotangents.", name,
          ": there is no such output: ",
          name == std::string_view("states_at") ? "state_at is missing" : "state_every or checkpoint_every is missing");
  }

  void inner_output(const char* name, int entries) {
    std::vector<int> shape = state_shape_;
    if (v_first_) std::swap(shape[0], shape[1]);
    if (heads_) shape.insert(shape.begin(), head_count_);
    shape.insert(shape.begin(), entries);
    output(given_, plan_, name, std::move(shape), heads_);
  }

  Inner place_of(int entry, int row) const {
    for (int n = 0; n < sequences_.count(); ++n) {
      const std::vector<int>& rows = sequences_.queries[static_cast<std::size_t>(n)];
      const auto found = std::find(rows.begin(), rows.end(), row);
      if (found != rows.end()) return {"states_at", entry, n, static_cast<int>(found - rows.begin()) + 1};
    }
    throw Refusal(Status::domain, -1, text("state_at[", entry, "]: row ", row, " is in no sequence"));
  }

  void add_piece(int n) {
    const std::vector<int>& rows = sequences_.queries[static_cast<std::size_t>(n)];
    Piece piece;
    for (const auto& [name, tensor] : tokens_) piece.inputs[name] = rows_of(tensor, rows);
    for (const auto& [name, state] : states_) piece.inputs[name] = state.of(n, sequences_.packed);
    for (const Tensor& tensor : shared_) piece.inputs[tensor.name] = whole_of(tensor);
    if (plan_.inputs.contains("skip")) piece.inputs["skip"] = skip_;
    for (const Tensor& tensor : rows_out_) piece.outputs.emplace(tensor.name, placed(rows_of(tensor, rows)));
    for (const State& state : states_out_)
      piece.outputs.emplace(state.tensor.name, placed(state.of(n, sequences_.packed)));
    for (const Inner& inner : inner_)
      if (inner.sequence == n) add_inner(piece, inner, static_cast<int>(rows.size()));
    plan_.pieces.push_back(std::move(piece));
  }

  /// States before tokens are the output "states", [heads][T][K][V]; the one after the last is final_state.
  void add_inner(Piece& piece, const Inner& inner, int tokens) const {
    const std::vector<int>& shape = plan_.outputs.at(inner.to);
    const std::vector<std::size_t> strides = strides_of(shape);
    const bool last = inner.token == tokens;
    std::vector<int> own = state_shape_;
    if (!last) own.insert(own.begin(), tokens);
    if (heads_) own.insert(own.begin(), head_count_);
    const std::vector<std::size_t> from = strides_of(own);
    Placed one{inner.to, own, {}};
    const std::size_t k_from = from[from.size() - 2], k_to = strides[strides.size() - (v_first_ ? 1 : 2)],
                      v_to = strides[strides.size() - (v_first_ ? 2 : 1)];
    for (std::size_t h = 0; h < static_cast<std::size_t>(std::max(head_count_, 1)); ++h)
      for (std::size_t k = 0; k < static_cast<std::size_t>(state_shape_[0]); ++k)
        for (std::size_t v = 0; v < static_cast<std::size_t>(state_shape_[1]); ++v)
          one.pairs.emplace_back(
              (heads_ ? h * from[0] : 0) + (last ? 0 : static_cast<std::size_t>(inner.token) * from[heads_ ? 1 : 0]) +
                  k * k_from + v,
              static_cast<std::size_t>(inner.entry) * strides[0] + (heads_ ? h * strides[1] : 0) + k * k_to + v * v_to);
    piece.outputs.emplace(last ? "final_state" : "states", std::move(one));
  }

  const Given& given_;
  const FrontEnd front_end_;
  Plan plan_;
  Sequences sequences_;
  std::map<std::string, Tensor, std::less<>> tokens_;
  std::map<std::string, State, std::less<>> states_;
  std::vector<Tensor> shared_, rows_out_;
  std::vector<State> states_out_;
  std::vector<Inner> inner_;
  Picked skip_;
  std::vector<int> state_shape_;
  int rows_ = 0, head_count_ = 0;
  bool heads_ = false, v_first_ = false;
};

}  // namespace

Plan plan_recurrence(const Given& given, const Facts& facts) { return Recurrence(given, facts).plan(); }

}  // namespace assay::arguments
