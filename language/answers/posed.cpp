#include "language/answers/posed.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "files/did_you_mean.hpp"
#include "language/program/gradient.hpp"
#include "oracles/core/bind.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

std::string shown(const Setting& setting) { return spelled(setting, "nothing"); }

/// Whether a case says what the program was traced with.
bool agrees(const Setting& setting, const Param& param) {
  if (const bool* truth = std::get_if<bool>(&param)) return setting == Setting(*truth);
  if (const long* number = std::get_if<long>(&param)) return setting == Setting(std::int64_t{*number});
  return shown(setting) == std::get<std::string>(param) && !std::holds_alternative<bool>(setting);
}

std::string axes_text(const Type& type) {
  std::string out;
  for (const Dim& dim : type.axes) out += (out.empty() ? "" : ", ") + text_of(dim);
  return '[' + out + ']';
}

/// Collects the axes that scans run along, and the axes of their states.
void scanned(const Block& block, std::set<std::string>& axes, std::set<std::string>& of_states) {
  for (const Node& node : block.nodes) {
    if (node.op != Op::scan) continue;
    const auto carry = static_cast<std::size_t>(node.attributes.carry);
    axes.insert(block.type(node.args[carry]).axes[0].name);
    for (std::size_t i = 0; i < carry; ++i)
      for (const Dim& dim : block.type(node.args[i]).axes) of_states.insert(dim.name);
  }
}

}  // namespace

Mechanism::Mechanism(const Program& p) : Mechanism(p, gradient_of(p)) {}

Mechanism::Mechanism(Program p, Program g) : program(std::move(p)), gradient(std::move(g)), tokens{"T"} {
  std::set<std::string> of_states;
  scanned(*program.body, tokens, of_states);
  if (!of_states.contains("S")) tokens.insert("S");
}

template <class X>
Posed<X>::Posed(const Mechanism& mechanism, const BasicProblem<X>& problem) : mechanism_(mechanism), problem_(problem) {
  const Program& program = mechanism.program;
  refuse_unknown();
  for (const Input& input : program.inputs) given_.push_back(find(input));
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Input& input = program.inputs[i];
    require_domain(given_[i].is_there || input.missing, -1, input.name, ": missing");
    admit_shape(input.name, input.type, given_[i]);
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    Given& given = cotangents_.emplace_back();
    const auto found = problem.cotangents.find(program.outputs[i]);
    if (found == problem.cotangents.end()) continue;
    given.array = &found->second, given.is_there = true;
    admit_shape("cotangents." + program.outputs[i], program.body->result_type(i), given);
  }
  count_heads();
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    admit_numbers(program.inputs[i].name, program.inputs[i].type, program.inputs[i].domain, given_[i]);
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    admit_numbers("cotangents." + program.outputs[i], program.body->result_type(i), "", cotangents_[i]);
}

template <class X>
void Posed<X>::refuse_unknown() const {
  const Program& program = mechanism_.program;
  std::vector<std::string> inputs, params, outputs = program.outputs;
  for (const Input& input : program.inputs) {
    if (input.gradient) inputs.push_back(input.name);
    if (input.type.axes.empty()) params.push_back(input.name);
  }
  for (const auto& [name, setting] : program.settings) params.push_back(name);
  const auto refuse = [&](std::string_view where, const auto& given, const std::vector<std::string>& known) {
    for (const auto& [name, value] : given)
      require_domain(std::find(known.begin(), known.end(), name) != known.end(), -1, where, ".", name, ": unknown to ",
                     program.name, did_you_mean(name, known));
  };
  refuse("params", problem_.params, params);
  refuse("inputs", problem_.inputs, inputs);
  refuse("cotangents", problem_.cotangents, outputs);
  for (const auto& [name, setting] : program.settings) {
    const auto param = problem_.params.find(name);
    require_domain(param == problem_.params.end() || agrees(setting, param->second), -1, "params.", name,
                   ": this program was traced with ", shown(setting));
  }
}

template <class X>
typename Posed<X>::Given Posed<X>::find(const Input& input) const {
  const auto array = problem_.inputs.find(input.name);
  const auto param = problem_.params.find(input.name);
  const bool number = input.type.axes.empty() && param != problem_.params.end();
  require_domain(array == problem_.inputs.end() || !number, -1, input.name, ": is both under inputs and params");
  if (number) return parameter(input, param->second);
  Given given;
  if (array != problem_.inputs.end()) given.array = &array->second, given.is_there = true;
  return given;
}

template <class X>
typename Posed<X>::Given Posed<X>::parameter(const Input& input, const Param& value) const {
  Given given;
  given.is_there = true;
  const long* number = std::get_if<long>(&value);
  const bool* truth = std::get_if<bool>(&value);
  const std::string* digits = std::get_if<std::string>(&value);
  const std::string label = "params." + input.name;
  if (input.type.kind == Kind::boolean) {
    require_domain(truth != nullptr, -1, label, ": expected true or false");
    given.whole = *truth ? 1 : 0;
  } else if (input.type.kind == Kind::integer) {
    std::int64_t from_digits = 0;
    const bool spelled = digits != nullptr && !digits->empty() && digits->size() < 18 &&
                         digits->find_first_not_of("0123456789", (*digits)[0] == '-' ? 1 : 0) == std::string::npos &&
                         *digits != "-";
    if (spelled) from_digits = std::stoll(*digits);
    require_domain(number != nullptr || spelled, -1, label, ": expected an integer");
    given.whole = number != nullptr ? *number : from_digits;
  } else {
    require_domain(number != nullptr || digits != nullptr, -1, label, ": expected a decimal string");
    const std::string spelled = digits != nullptr ? *digits : std::to_string(*number);
    if constexpr (std::is_same_v<X, std::string>)
      given.number = {{}, {spelled}};
    else
      given.number = {{}, {assay::detail::number_at<X>(spelled, assay::detail::no_row, [&] { return label; })}};
  }
  return given;
}

template <class X>
void Posed<X>::admit_shape(const std::string& label, const Type& type, Given& given) {
  if (!given.is_there || type.kind != Kind::real) return;
  const BasicArray<X>& a = given.numbers();
  require_domain(a.data.size() == a.count(), -1, label, ": ", a.data.size(), " numbers do not fill shape ",
                 assay::detail::shape_text(a.shape));
  const std::size_t rank = type.axes.size();
  const bool has_heads = a.shape.size() == rank + 1;
  // An empty list may stand for any further axes.
  const bool empty = !a.shape.empty() && a.shape.back() == 0 && a.shape.size() < rank;
  require_domain(a.shape.size() == rank || has_heads || empty, -1, label, ": expected ", axes_text(type),
                 " or the same with heads in front, got shape ", assay::detail::shape_text(a.shape));
  if (has_heads) given.blocks = a.shape[0], head_axis_ = true;
  for (std::size_t r = has_heads ? 1 : 0; r < a.shape.size(); ++r) {
    const Dim& dim = type.axes[r - (has_heads ? 1 : 0)];
    const int want = dim.name.empty() ? dim.written : sizes_.emplace(dim.name, a.shape[r]).first->second;
    require_domain(want == a.shape[r], -1, label, ": expected ", text_of(dim), " = ", want, ", got ", a.shape[r]);
  }
}

template <class X>
void Posed<X>::count_heads() {
  if (!head_axis_) return;
  heads_ = 0;
  for (const auto* list : {&given_, &cotangents_})
    for (const Given& given : *list) heads_ = std::max(heads_, given.blocks);
  require_domain(heads_ > 0, -1, "heads: expected at least one");
  for (std::size_t i = 0; i < given_.size(); ++i)
    require_domain(given_[i].blocks == 0 || heads_ % given_[i].blocks == 0, -1, mechanism_.program.inputs[i].name, ": ",
                   heads_, " heads cannot share ", given_[i].blocks, " evenly");
  for (std::size_t i = 0; i < cotangents_.size(); ++i)
    require_domain(!cotangents_[i].is_there || cotangents_[i].blocks == heads_, -1, "cotangents.",
                   mechanism_.program.outputs[i], ": expected ", heads_, " heads, got ", cotangents_[i].blocks);
  // An array of one head without its axis stands for all heads.
}

template <class X>
int Posed<X>::groups_apart() const {
  int groups = heads_;
  for (const auto* list : {&given_, &cotangents_})
    for (const Given& given : *list)
      if (given.is_there && (given.blocks > 0 || given.numbers().shape.size() > 0))
        groups = std::gcd(groups, std::max(given.blocks, 1));
  return groups;
}

template <class X>
void Posed<X>::admit_numbers(const std::string& label, const Type& type, std::string_view domain,
                             const Given& given) const {
  if (!given.is_there || type.kind != Kind::real) return;
  const BasicArray<X>& a = given.numbers();
  const bool by_token = mechanism_.walks_tokens(type);
  const auto place = [&](std::size_t i) { return assay::detail::element_text(label, a.shape, i); };
  const auto row = [&](std::size_t i) {
    std::size_t inner = 1;
    for (std::size_t r = given.blocks > 0 ? 2 : 1; r < a.shape.size(); ++r)
      inner *= static_cast<std::size_t>(a.shape[r]);
    return by_token ? static_cast<int>(i / inner % static_cast<std::size_t>(sizes_.at(type.axes[0].name))) : -1;
  };
  assay::detail::admit(a.data, domain == "log_decay", false, row, place);
  for (std::size_t i = 0; domain == "bandwidth" && i < a.data.size(); ++i)
    if (assay::detail::number<assay::detail::Exact<X>>(a.data[i]) <= 0)
      throw Refusal(Status::domain, row(i), place(i) + ": expected a number > 0");
}

template class Posed<double>;
template class Posed<std::string>;

}  // namespace assay::language
