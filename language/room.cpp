#include "language/room.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "files/input_file.hpp"
#include "language/answers/answer.hpp"
#include "language/answers/by_tier.hpp"
#include "oracles/core/bind.hpp"
#include "oracles/core/make_room.hpp"
#include "oracles/core/memo.hpp"
#include "oracles/scalars/emulated.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay::language {
namespace {

// ---- what rooms say of their tensors

/// Whether T counts queries, and S the keys.
bool has_keys(const Mechanism& mechanism) {
  return mechanism.tokens.contains("S") && std::ranges::any_of(mechanism.program.inputs, [](const Input& input) {
           return std::ranges::any_of(input.type.axes, [](const Dim& dim) { return dim.name == "S"; });
         });
}

assay::Axis axis_of(const Mechanism& mechanism, const Dim& dim) {
  if (dim.name == "T" && has_keys(mechanism)) return Axis::query_len;
  if (dim.name == "K") return Axis::key_dim;
  if (dim.name == "V") return Axis::value_dim;
  if (dim.name == "D") return Axis::model_dim;
  return mechanism.tokens.contains(dim.name) ? Axis::seq_len : Axis::tail_len;
}

Domain domain_of(std::string_view name) {
  constexpr std::pair<std::string_view, Domain> domains[] = {
      {"query", Domain::query},
      {"key", Domain::key},
      {"value", Domain::value},
      {"probe", Domain::probe},
      {"state", Domain::state},
      {"write_strength", Domain::write_strength},
      {"log_decay", Domain::log_decay},
      {"bandwidth", Domain::bandwidth},
      {"scale", Domain::scale},
      {"ridge", Domain::ridge},
      {"gain", Domain::gain},
      {"gradient_weight", Domain::gradient_weight},
      {"decay_fraction", Domain::decay_fraction},
      {"regularizer", Domain::regularizer},
      {"decay_floor", Domain::decay_floor},
      {"normalizer", Domain::normalizer},
      {"logit", Domain::logit},
      {"layer_input", Domain::layer_input},
      {"weight", Domain::weight},
      {"temperature", Domain::temperature},
      {"log_floor", Domain::log_floor},
  };
  for (const auto& [known, domain] : domains)
    if (known == name) return domain;
  return Domain::value;
}

RoomFacts::Ranked ranked(const Mechanism& mechanism, std::string_view name, std::string_view domain, const Type& type) {
  RoomFacts::Ranked r{{.name = name, .domain = domain_of(domain)}, static_cast<int>(type.axes.size())};
  for (std::size_t a = 0; a < std::min(type.axes.size(), r.field.axes.size()); ++a)
    r.field.axes[a] = axis_of(mechanism, type.axes[a]);
  return r;
}

// ---- cases

/// The written length of the chunks that an axis of tokens counts, as N does in "N 16 K"; 0 if it counts none.
int chunk_of(const Mechanism& mechanism, const Dim& dim) {
  const bool counts = !dim.name.empty() && dim.name != "T" && dim.name != "S";
  if (!counts || axis_of(mechanism, dim) != assay::Axis::seq_len) return 0;
  for (const Input& input : mechanism.program.inputs)
    for (std::size_t a = 1; a < input.type.axes.size(); ++a)
      if (input.type.axes[a - 1] == dim && input.type.axes[a].name.empty()) return input.type.axes[a].written;
  return 0;
}

/// The lengths of a case's axes: T, S, K and V as its shape says, D one more than K as for rooms, of chunks as many as
/// T takes, any other name as long as K; 0 where nothing but what may be missing has it.
class Lengths {
 public:
  Lengths(const Mechanism& mechanism, const Shape& shape)
      : mechanism_(mechanism), shape_(shape), has_keys_(has_keys(mechanism)) {
    for (const Input& input : mechanism.program.inputs)
      for (const Dim& dim : input.type.axes)
        if (!input.missing) needed_.insert(dim.name);
  }

  int operator()(const Dim& dim) const {
    if (dim.name.empty()) return dim.written;
    if (dim.name == "T") return has_keys_ ? shape_.queries() : shape_.seq_len;
    if (dim.name == "S" && has_keys_) return shape_.seq_len;
    if (dim.name == "V") return shape_.value_dim;
    if (dim.name == "D") return shape_.key_dim + 1;
    if (const int chunk = chunk_of(mechanism_, dim); chunk > 0) return (shape_.seq_len + chunk - 1) / chunk;
    if (axis_of(mechanism_, dim) == assay::Axis::seq_len) return shape_.seq_len;
    return dim.name == "K" || needed_.contains(dim.name) ? shape_.key_dim : 0;
  }

 private:
  const Mechanism& mechanism_;
  Shape shape_;
  bool has_keys_;
  std::set<std::string> needed_;
};

/// Whether rooms know such arrays: at most two axes, all named in a shape.
bool is_plain(const Mechanism& mechanism, const Type& type) {
  if (type.axes.size() > 2) return false;
  return std::all_of(type.axes.begin(), type.axes.end(), [&](const Dim& dim) {
    return !dim.name.empty() && axis_of(mechanism, dim) != assay::Axis::tail_len && chunk_of(mechanism, dim) == 0;
  });
}

/// Whether it reads the row before a segment's first: X_carry is the last one of X.
bool carries_rows(const Program& program) {
  return std::ranges::any_of(program.inputs, [](const Input& input) { return input.name.ends_with("_carry"); });
}

/// Numbers of any other array, drawn as if all its axes but the last were tokens.
Array drawn(const CaseSpec& spec, std::string_view name, RoomFacts::Ranked what, const Type& type,
            const Lengths& length, bool output) {
  CaseSpec flat = spec;
  flat.shape.query_len = 0, flat.shape.shared_heads = 0, flat.shape.seq_len = 1, flat.params.clear();
  std::vector<int> shape{spec.shape.own()};
  for (const Dim& dim : type.axes) shape.push_back(length(dim));
  for (std::size_t r = 1; r + 1 < shape.size(); ++r) flat.shape.seq_len *= shape[r];
  const bool keys = type.axes.back() == Dim{"K", 0};
  if (!keys) flat.shape.value_dim = shape.back();
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return Array(shape);
  what.rank = 2, what.field.axes = {assay::Axis::seq_len, keys ? assay::Axis::key_dim : assay::Axis::value_dim};
  what.field.missing = Field::Missing::error, what.field.place = Field::Place::input;
  RoomFacts facts{.name = name, .inputs = {}, .outputs = {}};
  (output ? facts.outputs : facts.inputs).push_back(what);
  Problem made = make_problem(flat, facts);
  Array array = std::move((output ? made.cotangents : made.inputs).begin()->second);
  array.shape = shape;
  return array;
}

/// Divides every line of the array by its length, along the axis of that name.
void normalise(const Type& type, const std::string& along, Array& array) {
  const std::size_t lead = array.shape.size() - type.axes.size();
  std::size_t axis = 0;
  while (axis < type.axes.size() && text_of(type.axes[axis]) != along) ++axis;
  if (axis == type.axes.size()) return;
  std::size_t step = 1;
  for (std::size_t r = lead + axis + 1; r < array.shape.size(); ++r) step *= static_cast<std::size_t>(array.shape[r]);
  const auto n = static_cast<std::size_t>(array.shape[lead + axis]);
  for (std::size_t first = 0; first < array.data.size(); ++first) {
    if (first / step % n != 0) continue;
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += array.data[first + i * step] * array.data[first + i * step];
    for (std::size_t i = 0; i < n && squares > 0; ++i) array.data[first + i * step] /= std::sqrt(squares);
  }
}

/// As the program's hints have it: of unit length, and between these numbers. Numbers that a style asks for stay where
/// they are between them.
void follow_hint(const CaseSpec& spec, const Input& input, Domain domain, Array& array) {
  // Numbers that are to be exact stay what they are.
  if (input.hint.empty() || spec.style == Style::integers || spec.style == Style::dyadic) return;
  if (const auto unit = input.hint.find("unit"); unit != input.hint.end()) normalise(input.type, unit->second, array);
  const auto number = [&](const char* which) -> std::optional<double> {
    const auto found = input.hint.find(which);
    if (found == input.hint.end()) return std::nullopt;
    return assay::detail::number_at<double>(found->second, assay::detail::no_row,
                                            [&] { return text(input.name, ": hint ", which); });
  };
  const std::optional<double> low = number("low"), high = number("high");
  const Stream stream(spec.seed, input.name + ", hinted");
  for (std::size_t i = 0; i < array.data.size(); ++i) {
    double& x = array.data[i];
    const double least = low ? *low : high ? std::min(x, *high - 1) : x, most = high ? *high : std::max(x, least + 1);
    if (x < least || x > most) x = least + (most - least) * stream.uniform(i);
    x = round_to(x, format_of(domain, spec.precision));
  }
}

/// Leaves of the keys and values as many heads as the shape shares: the first of every group.
void share_heads(const CaseSpec& spec, Problem& problem) {
  const auto own = static_cast<std::size_t>(spec.shape.own()), shared = static_cast<std::size_t>(spec.shape.shared());
  if (shared == own) return;
  const bool has_any = problem.inputs.contains("q") && (problem.inputs.contains("k") || problem.inputs.contains("v"));
  require(has_any, "shape: ", spec.mechanism, " has no q and k or v whose heads could share; leave out /",
          spec.shape.shared_heads);
  for (const char* name : {"k", "v"}) {
    const auto found = problem.inputs.find(name);
    if (found == problem.inputs.end()) continue;
    Array& array = found->second;
    const std::size_t size = array.data.size() / own;
    for (std::size_t i = 0; i < shared * size; ++i)
      array.data[i] = array.data[i / size * (own / shared) * size + i % size];
    array.data.resize(shared * size);
    array.shape.front() = spec.shape.shared();
  }
}

/// A program that was named.
class ProgramRoom final : public Room {
 public:
  /// Without the digest in `named`, or with that of the program. Throws InputError if it is another one's.
  ProgramRoom(std::string named, const Program& program);

  const Mechanism& mechanism() const { return mechanism_; }
  std::vector<RoomFacts::Ranked> inputs() const override { return inputs_; }
  std::vector<RoomFacts::Ranked> outputs() const override { return outputs_; }
  Decimals decimals(const BasicProblem<std::string>& problem, const DecimalOptions& options) const override {
    return language::decimals(mechanism_, problem, options);
  }
  BasicAnswer<HiLo> values(const Problem& problem, Tier tier) const override {
    return language::values(mechanism_, problem, tier);
  }
  std::optional<BasicAnswer<Enclosed>> enclosed(const Problem& problem) const override {
    return language::enclosed(mechanism_, problem);
  }
  std::optional<BasicAnswer<Enclosed>> in_words(const Problem& problem, const WordEffort& effort) const override {
    return language::in_words(mechanism_, problem, effort);
  }
  BasicArrays<HiLo> slopes(const Problem& problem, const Arrays& tangent) const override {
    return language::slopes(mechanism_, problem, tangent);
  }
  std::optional<Answer> shapes(const Problem& problem) const override { return language::shapes(mechanism_, problem); }
  Answer emulated(const Problem& problem) const override {
    if (PerturbedArithmetic* draw = PerturbedArithmetic::current()) draw->round_every_operation();
    return language::emulated(mechanism_, problem);
  }
  std::unique_ptr<Trajectory> trajectory(Tier tier) const override {
    return language::trajectory([this](const Problem&) -> const Mechanism& { return mechanism_; }, tier);
  }
  Problem make(const CaseSpec& spec) const override;
  bool shifted(const Params&) const override { return carries_rows(mechanism_.program); }
  bool is_program() const override { return true; }

 private:
  std::string name_, summary_;
  Mechanism mechanism_;
  std::vector<RoomFacts::Ranked> inputs_, outputs_;
};

ProgramRoom::ProgramRoom(std::string named, const Program& program)
    : Room({}, {}, {}), name_(std::move(named)), summary_("the program " + program.name), mechanism_(program) {
  name = name_, summary = summary_;
  const std::size_t length = program_path(name);
  const std::string digest = length < name.size() ? mechanism_.program.digest() : "";
  require(length == name.size() || name.substr(length + 1) == digest, name.substr(0, length), ": its digest is ",
          digest, ", and the case is of ", excerpt(name.substr(std::min(length + 1, name.size()))));
  for (const Input& input : mechanism_.program.inputs) {
    RoomFacts::Ranked r = ranked(mechanism_, input.name, input.domain, input.type);
    r.field.differentiable = input.gradient;
    if (!input.gradient && input.type.axes.empty()) r.field.place = Field::Place::param;
    if (input.missing) r.field.missing = input.gradient ? Field::Missing::zero : Field::Missing::absent;
    inputs_.push_back(r);
  }
  const std::vector<std::string>& names = mechanism_.program.outputs;
  for (std::size_t i = 0; i < names.size(); ++i)
    outputs_.push_back(ranked(mechanism_, names[i], "value", mechanism_.program.body->result_type(i)));
}

Problem ProgramRoom::make(const CaseSpec& spec) const {
  const Program& program = mechanism_.program;
  const Lengths length(mechanism_, spec.shape);
  RoomFacts facts{.name = name, .inputs = {}, .outputs = {}};
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    if (is_plain(mechanism_, program.inputs[i].type)) facts.inputs.push_back(inputs_[i]);
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    if (is_plain(mechanism_, program.body->result_type(i))) facts.outputs.push_back(outputs_[i]);
  CaseSpec whole = spec;
  whole.shape.shared_heads = 0;
  Problem problem = make_problem(whole, facts);
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Input& input = program.inputs[i];
    if (!input.missing && !is_plain(mechanism_, input.type))
      problem.inputs.emplace(input.name, drawn(spec, name, inputs_[i], input.type, length, false));
    if (const auto made = problem.inputs.find(input.name); made != problem.inputs.end())
      follow_hint(spec, input, inputs_[i].field.domain, made->second);
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    if (!is_plain(mechanism_, program.body->result_type(i)))
      problem.cotangents.emplace(program.outputs[i],
                                 drawn(spec, name, outputs_[i], program.body->result_type(i), length, true));
  share_heads(spec, problem);
  return problem;
}

// ---- the registry

constexpr std::size_t most_programs = 64;

Traced front_end = nullptr;

Program program_in(const std::string& path) {
  if (!path.ends_with(".py")) return load_program(path);
  require(front_end != nullptr, path,
          ": a file of Python, which nothing here reads; `assay mechanism export` writes it as JSON");
  return read_program(front_end(path), path);
}

Memo<ProgramRoom>& programs() {
  static Memo<ProgramRoom> known(most_programs);
  return known;
}

std::shared_ptr<const ProgramRoom> program_room(std::string_view name) {
  const std::size_t length = program_path(name);
  if (length == 0) return nullptr;
  return programs().find(std::string(name), [&] {
    return std::make_shared<const ProgramRoom>(std::string(name), program_in(std::string(name.substr(0, length))));
  });
}

}  // namespace

std::shared_ptr<const Room> find_program(std::string_view name) {
  try {
    return program_room(name);
  } catch (const InputError& error) {
    throw Refusal(Status::unsupported, -1, error.what());
  }
}

void trace_with(Traced traced) { front_end = traced; }

void forget_programs() { programs().clear(); }

std::size_t program_path(std::string_view name) {
  for (const std::string_view ending : {std::string_view(".json"), std::string_view(".py")}) {
    if (name.ends_with(ending)) return name.size();
    const std::size_t at = name.rfind(text(ending, '@'));
    if (at != std::string_view::npos) return at + ending.size();
  }
  return 0;
}

std::shared_ptr<const Mechanism> find_mechanism(std::string_view name) {
  const auto room = program_room(name);
  return room == nullptr ? nullptr : std::shared_ptr<const Mechanism>(room, &room->mechanism());
}

const Mechanism& program_of(const Room& room) {
  require(room.is_program(), room.name, ": no program");
  return static_cast<const ProgramRoom&>(room).mechanism();
}

std::unique_ptr<const Room> room_of(const Program& program) {
  return std::make_unique<const ProgramRoom>(program.name + ".json", program);
}

Answer answer_in_doubles(const Mechanism& mechanism, const Problem& problem) {
  const Posed<double> posed(mechanism, problem);
  BasicAnswer<double> found = answer<double>(posed, posed.has_cotangents());
  return {std::move(found.outputs), std::move(found.gradients)};
}

std::string pinned_name(const Room& room) {
  std::string name(room.name);
  if (!room.is_program() || program_path(name) < name.size()) return name;
  return name + '@' + program_of(room).program.digest();
}

}  // namespace assay::language
