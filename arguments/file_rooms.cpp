#include "arguments/file_rooms.hpp"

#include <algorithm>
#include <utility>

#include "arguments/file_case.hpp"
#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "files/problem_file.hpp"
#include "language/answers/decimals.hpp"
#include "language/room.hpp"
#include "oracles/core/memo.hpp"
#include "oracles/scalars/emulated.hpp"
#include "reference/core/sha256.hpp"

namespace assay::arguments {
namespace {

// ---- what rooms say of their tensors

RoomFacts::Ranked ranked(std::string_view name, std::initializer_list<Axis> axes, bool shared = false) {
  RoomFacts::Ranked r{{.name = name, .domain = Domain::value}, static_cast<int>(axes.size())};
  std::copy(axes.begin(), axes.end(), r.field.axes.begin());
  r.field.missing = Field::Missing::absent;
  if (shared) r.field.heads = Field::Heads::shared;
  return r;
}

RoomFacts::Ranked ranked(const Argument& argument, bool queries) {
  const std::string_view name = argument.name;
  const Axis row = queries ? Axis::query_len : Axis::seq_len;
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (name == "bias") return ranked(name, {Axis::query_len, Axis::seq_len});
  if (name == "a") return ranked(name, {row, Axis::key_dim});
  if (is({"b", "dt", "lse"})) return ranked(name, {row});
  if (name == "z") return ranked(name, {row, Axis::value_dim});
  if (name == "dt_bias") return ranked(name, {Axis::key_dim});
  if (name == "skip") return ranked(name, {Axis::value_dim});
  if (is({"chunk_states", "checkpoints", "states_at"})) return ranked(name, {Axis::key_dim, Axis::value_dim});
  if (is({"k_scale", "v_scale"})) return ranked(name, {Axis::seq_len, Axis::key_dim}, true);
  return ranked(name, {});
}

/// The cases with arguments of a mechanism.
class FileRoom final : public Room {
 public:
  FileRoom(std::string named, Facts facts);

  std::vector<RoomFacts::Ranked> inputs() const override { return inputs_; }
  std::vector<RoomFacts::Ranked> outputs() const override { return outputs_; }
  Decimals decimals(const BasicProblem<std::string>&, const DecimalOptions&) const override { not_of_files(); }
  BasicAnswer<HiLo> values(const Problem& problem, Tier tier) const override;
  std::optional<BasicAnswer<Enclosed>> enclosed(const Problem& problem) const override;
  /// In as many words as it takes, up to four; nothing where these decide no comparison or leave bounds that are too
  /// wide.
  std::optional<BasicAnswer<Enclosed>> in_words(const Problem& problem, const WordEffort& effort) const override;
  BasicArrays<HiLo> slopes(const Problem&, const Arrays&) const override { not_of_files(); }
  /// A draw. Operands that are narrow are most of a kernel's errors, but not all: what stands before and behind a
  /// recurrence has no products of matrices, and every operation of it rounds to fp32. To first order those errors add.
  Answer emulated(const Problem& problem) const override;
  Problem make(const CaseSpec&) const override { not_of_files(); }

 private:
  [[noreturn]] static void not_of_files() { throw InputError("a case with arguments is a file's: none is made here"); }

  std::string name_, summary_;
  Facts facts_;
  std::vector<RoomFacts::Ranked> inputs_, outputs_;
};

// ---- answers

BasicAnswer<WordBall> in_packs(const Folded& folded, bool gradients, int words, int threads) {
  return folded_answer<WordBall>(
      folded.plan(), gradients,
      [&](std::size_t n) {
        return language::detail::in_packs(folded.posed()[n], gradients, {words, threads});
      },
      [&](const WordBall& a, const WordBall& b) { return add(words, a, b); });
}

std::optional<BasicAnswer<Enclosed>> FileRoom::enclosed(const Problem& problem) const {
  const auto file = FileCase::of(problem);
  return language::detail::in_balls(file->folded(), file->has_gradients(), 192,
                                    [&](const BasicAnswer<Ball>& balls, bool last) {
                                      return assay::detail::narrow_pairs(file->judged_answer(balls), last);
                                    });
}

std::optional<BasicAnswer<Enclosed>> FileRoom::in_words(const Problem& problem, const WordEffort& effort) const {
  const auto file = FileCase::of(problem);
  for (int words = effort.words; words <= 4; ++words) {
    try {
      const BasicAnswer<WordBall> found =
          file->judged_answer(in_packs(file->folded(), file->has_gradients(), words, effort.threads));
      if (assay::detail::widest(found) <= word_target) return assay::detail::word_pairs(found, effort.threads);
    } catch (const Undecided&) {
      continue;  // more words may
    }
  }
  return std::nullopt;
}

BasicAnswer<HiLo> FileRoom::values(const Problem& problem, Tier tier) const {
  const auto file = FileCase::of(problem);
  if (tier == Tier::ball || words_of(tier) > 0) {
    auto pairs = tier == Tier::ball ? std::nullopt : in_words(problem, {words_of(tier), 1});
    if (!pairs) pairs = enclosed(problem);
    if (!pairs) return values(problem, Tier::mp100);
    return assay::detail::pairs_of(*pairs);
  }
  return assay::detail::with_scalar(tier, [&]<class S>(const S&) {
    return assay::detail::pairs_of(file->judged_answer(answer<S>(file->folded(), file->has_gradients())));
  });
}

Answer rounded_as_said(const FileCase& file) {
  return assay::detail::doubles_of(file.judged_answer(answer<Emulated>(file.folded_doubles(), file.has_gradients())));
}

Answer FileRoom::emulated(const Problem& problem) const {
  const auto file = FileCase::of(problem);
  Answer answered = rounded_as_said(*file);
  const PerturbedArithmetic* current = PerturbedArithmetic::current();
  if (current == nullptr || current->rounds_every_operation()) return answered;
  const Answer& exact = file->answer_in_doubles();
  const Answer rounded = [&] {
    const PerturbedArithmetic fp32(Format::fp32, PerturbedArithmetic::Operands::nearest,
                                   RandomBits{current->seed()}.at(0), PerturbedArithmetic::States::wide,
                                   current->threads());
    return rounded_as_said(*file);
  }();
  const auto add = [](Arrays& to, const Arrays& from, const Arrays& truth) {
    for (auto& [name, array] : to)
      for (std::size_t i = 0; i < array.data.size(); ++i)
        array.data[i] += from.find(name)->second.data[i] - truth.find(name)->second.data[i];
  };
  add(answered.outputs, rounded.outputs, exact.outputs);
  add(answered.gradients, rounded.gradients, exact.gradients);
  return answered;
}

// ---- the registry

FileRoom::FileRoom(std::string named, Facts facts)
    : Room({}, {}, {}), name_(std::move(named)), summary_(facts.name + " with arguments"), facts_(std::move(facts)) {
  name = name_, summary = summary_;
  const auto add = [](std::vector<RoomFacts::Ranked>& list, const RoomFacts::Ranked& r) {
    if (find_field(list, r.field.name) == nullptr) list.push_back(r);
  };
  if (facts_.room != nullptr) {
    for (RoomFacts::Ranked r : facts_.room->inputs()) {
      r.field.domain = Domain::value, r.field.missing = Field::Missing::absent;
      add(inputs_, r);
    }
    for (const RoomFacts::Ranked& r : facts_.room->outputs()) add(outputs_, r);
  } else {
    for (const char* name : {"x", "z"}) add(inputs_, ranked(name, {Axis::seq_len, Axis::model_dim}));
    for (const char* name : {"weight", "bias", "initial_state"}) add(inputs_, ranked(name, {Axis::model_dim}));
    add(outputs_, ranked("o", {Axis::seq_len, Axis::model_dim}));
    add(outputs_, ranked("final_state", {Axis::model_dim}));
  }
  const bool attention = facts_.family == Family::attention;
  for (const Argument& argument : all_arguments()) {
    if (!why_not(facts_, argument).empty()) continue;
    RoomFacts::Ranked r = ranked(argument, attention);
    if (argument.part == Part::params) r.field.place = Field::Place::param;
    if (argument.part != Part::params || argument.name == "scale")
      add(argument.part == Part::cotangents ? outputs_ : inputs_, r);
  }
}

constexpr std::size_t most_mechanisms = 96;

std::shared_ptr<const Room> find_file_room(std::string_view name) {
  static Memo<FileRoom> file_rooms(most_mechanisms);
  const std::string mechanism(without_suffix(name));
  if (mechanism.empty()) return nullptr;
  return file_rooms.find(std::string(name),
                         [&] { return std::make_shared<const FileRoom>(std::string(name), facts_of(mechanism)); });
}

// ---- files

/// The values of a tensor, of the dtype that it has to have.
Array load_any(const std::string& name, const StoredTensor& tensor, const std::string& place) {
  const bool integers = holds_integers(name);
  const bool truths = name == "mask", wide = tensor.dtype == "I32" || tensor.dtype == "I64";
  if (!integers && !truths) return load(place, tensor);
  std::optional<Array> array = load_integers(tensor);
  require(array.has_value() && wide == integers, place, ": expected ", integers ? "I32 or I64" : "BOOL or U8", ", got ",
          tensor.dtype);
  if (truths)
    for (const double x : array->data) require(x == 0 || x == 1, place, ": expected 0 or 1, got ", x);
  return *std::move(array);
}

/// Outputs that the file asks for by name, as one without cotangents has to ask for those that come with arguments.
std::vector<std::string> outputs_asked(const ProblemFile& file, const std::string& where) {
  const auto written = file.metadata.find("outputs");
  if (written == file.metadata.end()) return {};
  const Json names = parse_json(written->second, where + ": __metadata__.outputs");
  require(
      names.is_array() && std::all_of(names.begin(), names.end(), [](const Json& name) { return name.is_string(); }),
      where, ": __metadata__.outputs: expected a list of names, [\"lse\"]");
  return names.get<std::vector<std::string>>();
}

/// Throws InputError unless the answer to the case has all outputs that it asks for.
void require_known(const std::vector<std::string>& asked, const std::vector<std::string>& known,
                   const std::string& where) {
  for (const std::string& output : asked)
    require(std::find(known.begin(), known.end(), output) != known.end(), where, ": __metadata__.outputs: there is no ",
            output, did_you_mean(output, known));
}

/// Whether the file says something that the mechanism's room does not know, and the table of arguments does.
bool file_has_arguments(const ProblemFile& file, const std::map<std::string, StoredTensor>& tensors, const Facts& facts,
                        const Json& params, const std::vector<std::string>& asked) {
  if (facts.family == Family::other) return false;
  if (facts.room == nullptr) return true;
  if (const auto layout = file.metadata.find("layout"); layout != file.metadata.end() && layout->second != "bthd")
    return true;
  for (const std::string& output : asked)
    if (is_argument(facts, Part::cotangents, output)) return true;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with("d_") ? is_argument(facts, Part::cotangents, name.substr(2))
                               : is_argument(facts, Part::inputs, name))
      return true;
  // `scale` in place of `bandwidth` is no argument: plain cases know it, too.
  for (const auto& [name, value] : params.items())
    if (name != "scale" && is_argument(facts, Part::params, name)) return true;
  return false;
}

/// Params of a file, which may have a list.
Params params_of_file(const Json& object) {
  Json plain = object;
  Params params;
  if (const auto block = object.find("scale_block"); block != object.end()) {
    plain.erase("scale_block");
    params["scale_block"] = block->dump();
  }
  for (auto& [name, value] : params_from({{"params", plain}})) params[name] = std::move(value);
  return params;
}

void require_known_names(const ProblemFile& file, const std::string& where) {
  const auto check = [&](const Arrays& arrays, const std::vector<RoomFacts::Ranked>& fields, const char* prefix) {
    std::vector<std::string> names;
    for (const auto& r : fields)
      if (r.field.place == Field::Place::input) names.push_back(text(prefix, r.field.name));
    for (const auto& [name, array] : arrays)
      require(find_field(fields, name) != nullptr || is_argument(name), where, ": tensor ", prefix, excerpt(name),
              ": unknown to ", without_suffix(file.room->name), did_you_mean(prefix + name, names));
  };
  check(file.problem.inputs, file.room->inputs(), "");
  check(file.problem.cotangents, file.room->outputs(), "d_");
}

}  // namespace

bool read_case_with_arguments(ProblemFile& to, std::map<std::string, StoredTensor>& tensors, const std::string& where) {
  Facts facts;
  try {
    facts = facts_of(to.problem.mechanism);
  } catch (const Refusal&) {
    return false;  // whoever reads plain cases says why
  }
  Json params = Json::object();
  if (const auto written = to.metadata.find("params"); written != to.metadata.end())
    params = parse_json(written->second, where + ": __metadata__.params");
  const std::vector<std::string> asked = outputs_asked(to, where);
  if (!params.is_object() || !file_has_arguments(to, tensors, facts, params, asked)) {
    if (facts.room == nullptr) return false;
    std::vector<std::string> known;
    for (const RoomFacts::Ranked& output : facts.room->outputs()) known.emplace_back(output.field.name);
    require_known(asked, known, where);
    return false;
  }
  to.problem.mechanism += room_suffix;
  to.room = find_room(to.problem.mechanism);
  to.shape = Shape{};
  for (auto it = tensors.begin(); it != tensors.end(); it = tensors.erase(it)) {
    const auto& [name, tensor] = *it;
    Array array = load_any(name, tensor, text(where, ": tensor ", name));
    to.digests[name] = sha256(array);
    for (const Format format : case_precisions)
      if (format != Format::exact && format != Format::tf32 && tensor.dtype == dtype_of(format))
        to.dtypes[name] = format;
    if (name.starts_with("d_"))
      to.problem.cotangents[name.substr(2)] = std::move(array);
    else
      to.problem.inputs[name] = std::move(array);
  }
  require_known_names(to, where);
  const CaseResult result = attempt([&] {
    to.problem.params = params_of_file(params);
    if (const auto layout = to.metadata.find("layout"); layout != to.metadata.end())
      to.problem.params["layout"] = layout->second;
    const auto file = FileCase::of(to.problem);
    to.shape = file->shape();
    for (const auto& [name, tensor] : file->judged()) to.scattered[name] = file->scattered(name);
  });
  if (result.status == Status::ok) {
    std::vector<std::string> known;
    for (const auto& [name, scattered] : to.scattered) known.push_back(name);
    require_known(asked, known, where);
    for (const std::string& output : asked) to.scattered.at(output).is_optional = false;
  }
  if (result.status != Status::ok) to.refusal = result;
  return true;
}

std::shared_ptr<const language::Mechanism> joined_mechanism(const Problem& problem) {
  if (without_suffix(problem.mechanism).empty()) return nullptr;
  const auto file = FileCase::of(problem);
  return {file, &file->plan().mechanism};
}

Answer answer_in_doubles(const Problem& problem) { return FileCase::of(problem)->answer_in_doubles(); }

Answer answer_in_doubles(const Problem& problem, const language::Mechanism& mechanism) {
  return FileCase::of(problem)->answer_in_doubles(mechanism);
}

}  // namespace assay::arguments

namespace assay {

std::shared_ptr<const Room> find_room(std::string_view name) {
  for (const Room* room : rooms())
    if (room->name == name) return {std::shared_ptr<const void>(), room};  // it is never destroyed
  if (auto with_arguments = arguments::find_file_room(name)) return with_arguments;
  return language::find_program(name);
}

}  // namespace assay
