#include "arguments/heads_first.hpp"

#include <algorithm>
#include <utility>

#include "arguments/file_case.hpp"
#include "language/answers/answer.hpp"
#include "oracles/core/make_room.hpp"
#include "reference/core/error.hpp"

namespace assay::arguments {
namespace {

/// Answers problems with heads in front as the file's room answers the file's.
class HeadsFirstRoom final : public Room {
 public:
  HeadsFirstRoom(std::shared_ptr<const FileCase> file, std::shared_ptr<const Room> of,
                 std::shared_ptr<const Room> plain)
      : Room(of->name, of->summary, plain == nullptr ? std::span<const std::string_view>() : plain->options),
        file_(std::move(file)),
        of_(std::move(of)),
        plain_(std::move(plain)) {}

  std::vector<RoomFacts::Ranked> inputs() const override {
    std::vector<RoomFacts::Ranked> list = of_->inputs();
    std::erase_if(list, [](const RoomFacts::Ranked& r) { return holds_integers(r.field.name); });
    for (RoomFacts::Ranked& r : list)
      if (r.field.name == "mask") r.rank = 2, r.field.axes = {Axis::query_len, Axis::seq_len};
    if (plain_ == nullptr) return list;
    for (const RoomFacts::Ranked& own : plain_->inputs())  // with what its numbers may be
      for (RoomFacts::Ranked& r : list)
        if (r.field.name == own.field.name) r = own;
    return list;
  }
  std::vector<RoomFacts::Ranked> outputs() const override { return of_->outputs(); }
  std::vector<Params> variants() const override { return plain_ == nullptr ? Room::variants() : plain_->variants(); }
  BasicAnswer<HiLo> values(const Problem& problem, Tier) const override {
    const Answer answer = FileCase(file_->in_file(problem)).answer_in_doubles();
    auto pairs = assay::detail::convert_answer<HiLo>([](std::string_view, double x) { return HiLo{x, 0}; }, answer);
    // The judge's gradient of an input that has unread numbers is of other numbers than the input.
    std::erase_if(pairs.gradients, [&](const auto& gradient) {
      const auto input = problem.inputs.find(gradient.first);
      return input != problem.inputs.end() && input->second.data.size() != gradient.second.data.size();
    });
    return pairs;
  }
  Decimals decimals(const BasicProblem<std::string>&, const DecimalOptions&) const override { in_doubles_alone(); }
  std::optional<BasicAnswer<Enclosed>> enclosed(const Problem&) const override { in_doubles_alone(); }
  std::optional<BasicAnswer<Enclosed>> in_words(const Problem&, const WordEffort&) const override {
    in_doubles_alone();
  }
  BasicArrays<HiLo> slopes(const Problem&, const Arrays&) const override { in_doubles_alone(); }
  Problem make(const CaseSpec&) const override { in_doubles_alone(); }

 private:
  [[noreturn]] static void in_doubles_alone() { throw InputError("it answers in doubles, values alone"); }

  std::shared_ptr<const FileCase> file_;
  std::shared_ptr<const Room> of_, plain_;
};

}  // namespace

HeadsFirst heads_first(const Problem& in_file) {
  const auto file = FileCase::of(in_file);
  auto of = find_room(in_file.mechanism);
  auto plain = facts_of(std::string(without_suffix(in_file.mechanism))).room;
  HeadsFirst posed{nullptr, file->heads_first(in_file), file->choices()};
  posed.room = std::make_shared<const HeadsFirstRoom>(file, std::move(of), std::move(plain));
  return posed;
}

namespace {

/// Puts the outputs of a step among the problem's tensors, in the place of those that it reads.
void take_step(const Join::Step& step, const Params& params, Problem& p) {
  const language::Mechanism mechanism(*step.program);
  Problem own;
  for (const language::Input& input : step.program->inputs) {
    const std::string name = called(input.name, step.in);
    if (const auto tensor = p.inputs.find(name); tensor != p.inputs.end())
      own.inputs[input.name] = tensor->second;
    else if (const auto param = params.find(name); param != params.end())
      own.params[input.name] = param->second;
  }
  const language::Posed<double> posed(mechanism, own);
  for (auto& [name, array] : language::answer<double>(posed, false).outputs)
    p.inputs[called(name, step.out)] = std::move(array);
}

bool belongs_to(const Argument& argument, std::initializer_list<Group> groups) {
  return std::find(groups.begin(), groups.end(), argument.group) != groups.end();
}

}  // namespace

std::optional<HeadsFirst> behind_front_end(const Problem& in_file) {
  const auto file = FileCase::of(in_file);
  if (file->plan().front_end.empty()) return std::nullopt;
  HeadsFirst posed = heads_first(in_file);
  Problem& p = posed.problem;
  p.cotangents.clear();
  for (const Join::Step& step : file->plan().front_end) take_step(step, file->plan().params, p);
  if (const auto written = p.inputs.find("written"); written != p.inputs.end()) {
    p.inputs["v"] = std::move(written->second), p.inputs.erase(written);
    if (!p.params.contains("scale")) p.params["scale"] = std::string("1");
  }
  const Facts facts = facts_of(std::string(without_suffix(in_file.mechanism)));
  bool plain = facts.room != nullptr && file->shape().batch == 1;
  for (const Argument& argument : all_arguments()) {
    const std::string name(argument.name);
    const bool behind = name == "skip" || name == "z";
    if (!behind && belongs_to(argument, {Group::gate, Group::log_gate, Group::write_gate, Group::norm, Group::step}))
      p.inputs.erase(name), p.params.erase(name);
    else if (name != "scale")
      plain = plain && !p.inputs.contains(name) && !p.params.contains(name);
  }
  if (!plain) return posed;
  p.mechanism = facts.name, posed.room = facts.room, posed.in_parts = true;
  return posed;
}

}  // namespace assay::arguments
