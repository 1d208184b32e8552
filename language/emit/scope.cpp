#include "language/emit/scope.hpp"

#include <fmt/format.h>

#include <string_view>

#include "language/emit/prelude.hpp"
#include "language/evaluate/functions.hpp"
#include "language/evaluate/side_by_side.hpp"
#include "language/program/infer.hpp"
#include "language/program/lists.hpp"
#include "reference/core/error.hpp"

namespace assay::language::device {
namespace {

bool is_view(Op op) { return any_of(op, {Op::expand, Op::transpose, Op::index, Op::detach, Op::round}); }

/// Operations that are calls of the prelude, and their names there.
constexpr std::pair<Op, std::string_view> functions[] = {
    {Op::exp, "exponential"},  {Op::log, "logarithm"},      {Op::sqrt, "root"},     {Op::tanh, "hyperbolic_tangent"},
    {Op::sigmoid, "logistic"}, {Op::softplus, "soft_plus"}, {Op::abs, "magnitude"}, {Op::max, "maximum"},
    {Op::pow, "power"},        {Op::and_, "both"},          {Op::or_, "either"},    {Op::not_, "neither"},
    {Op::mul, "absorbing"}};

std::string_view function_of(Op op) {
  for (const auto& [of, name] : functions)
    if (of == op) return name;
  return "";
}

/// Those of a contraction that one operand has.
Letters letters_of(const std::string& letters, const Indices& at) {
  Letters known;
  for (std::size_t i = 0; i < letters.size(); ++i) known[letters[i]] = at[i];
  return known;
}

Indices indices_from(const std::string& letters, const Letters& at) {
  Indices indices;
  for (const char letter : letters) indices.push_back(at.at(letter));
  return indices;
}

}  // namespace

std::string length_of(const Dim& dim) {
  if (dim.name.empty()) return std::to_string(dim.written);
  std::string name = "n_" + dim.name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

std::string count_of(const std::vector<Dim>& axes) {
  std::string count = "1L";
  for (const Dim& dim : axes) count += " * " + length_of(dim);
  return count;
}

std::string int_count(const std::vector<Dim>& axes) { return fmt::format("(int)({})", count_of(axes)); }

Indices indices_of(const std::vector<Dim>& axes, std::string number) {
  Indices at(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    at[i] = i > 0 ? fmt::format("({} % {})", number, length_of(axes[i])) : number;
    number = fmt::format("({} / {})", number, length_of(axes[i]));
  }
  return at;
}

std::string flat(const std::vector<Dim>& axes, const Indices& at, std::string_view type) {
  if (axes.empty()) return "0";
  std::string element = fmt::format("({})({})", type, at[0]);
  for (std::size_t i = 1; i < axes.size(); ++i)
    element = fmt::format("({}) * {} + {}", element, length_of(axes[i]), at[i]);
  return element;
}

Place dense(std::string base, std::vector<Dim> axes) {
  return [base = std::move(base), axes = std::move(axes)](const Indices& at) {
    return fmt::format("{}[{}]", base, flat(axes, at));
  };
}

std::string largest_of(const std::vector<std::string>& numbers) {
  std::string largest = numbers.front();
  for (std::size_t i = 1; i < numbers.size(); ++i) largest = fmt::format("most({}, {})", largest, numbers[i]);
  return largest;
}

Scope::Scope(const Block& block, std::string where, int number)
    : block_(block), where_(std::move(where)), number_(number), counted_(counted_by(block)) {
  for (int v = 0; v < values_of(block); ++v) varies_.push_back(varies_of(v));
  for (int v = block.first(); v < values_of(block); ++v)
    if (const std::optional<int> i = product_in(v)) inside_.insert(block.node(v)->args[language::index(*i)]);
}

bool Scope::errs_in_draws(int v) const {
  if (!is_real(v)) return false;
  const Op op = block_.node(v)->op;
  if (counted_[language::index(v)] != 0) {
    if (any_of(op, {Op::contract, Op::cumsum}))
      refuse(v, "multiplies or adds up written numbers, and no text is emitted for that in draws yet");
    return false;
  }
  return any_of(op, {Op::contract, Op::sum, Op::cumsum, Op::add, Op::sub, Op::mul, Op::div, Op::exp, Op::log, Op::sqrt,
                     Op::tanh, Op::sigmoid, Op::softplus, Op::pow});
}

std::vector<char> Scope::varies_of(int v) const {
  const Node* node = block_.node(v);
  if (node == nullptr) return std::vector<char>(axes(v).size(), 1);
  if (node->op == Op::scan) return {};
  if (errs_in_draws(v)) return std::vector<char>(axes(v).size(), 1);  // every element by itself
  if (is_elementwise(node->op)) {
    std::vector<char> any(axes(v).size(), 0);
    for (const int a : node->args)
      for (std::size_t i = 0; i < any.size(); ++i) any[i] |= varies(a)[i];
    return any;
  }
  if (node->op == Op::contract) {
    const Contraction c = contraction_from(node->attributes.spec);
    std::vector<char> any;
    for (const char letter : c.result) {
      const std::size_t left = c.left.find(letter), right = c.right.find(letter);
      const bool one = left != std::string::npos && varies(node->args[0])[left] != 0;
      const bool other = right != std::string::npos && varies(node->args[1])[right] != 0;
      any.push_back(static_cast<char>(one || other));
    }
    return any;
  }
  if (!any_of(node->op, {Op::expand, Op::transpose, Op::index, Op::sum})) return std::vector<char>(axes(v).size(), 1);
  std::vector<char> of = varies(node->args[0]);
  const auto axis = of.begin() + node->attributes.axis;
  if (node->op == Op::expand)
    of.insert(axis, 0);
  else if (node->op != Op::transpose)
    of.erase(axis);
  else
    for (std::size_t i = 0; i < of.size(); ++i)
      of[i] = varies(node->args[0])[language::index(node->attributes.perm[i])];
  return of;
}

std::vector<Dim> Scope::varying(int v) const {
  std::vector<Dim> list;
  for (std::size_t i = 0; i < axes(v).size(); ++i)
    if (varies(v)[i] != 0) list.push_back(axes(v)[i]);
  return list;
}

bool Scope::is_text(int v) const {
  const Node* node = block_.node(v);
  return node != nullptr && node->op != Op::scan && (is_view(node->op) || node->op == Op::const_ || !is_real(v));
}

int Scope::looked_at(int v) const {
  while (block_.node(v) != nullptr && is_view(block_.node(v)->op)) v = block_.node(v)->args[0];
  return v;
}

/// The operand of an addition that is a contraction which nothing else reads. The evaluator adds its terms to the other
/// operand; of two such operands to the second.
std::optional<int> Scope::product_in(int v) const {
  const Node* node = block_.node(v);
  if (node == nullptr || node->op != Op::add) return std::nullopt;
  for (int i = 0; i < 2; ++i)
    if (const Node* of = block_.node(node->args[language::index(i)]); of != nullptr && of->is_added) return i;
  return std::nullopt;
}

std::vector<int> Scope::read_by(int v) const {
  const Node* node = block_.node(v);
  if (node == nullptr) return {};
  const std::optional<int> i = product_in(v);
  if (!i) return node->args;
  std::vector<int> list{node->args[language::index(1 - *i)]};
  for (const int a : block_.node(node->args[language::index(*i)])->args) list.push_back(a);
  return list;
}

std::vector<int> Scope::needed(const std::vector<int>& targets) const {
  std::set<int> seen;
  std::vector<int> open = targets;
  while (!open.empty()) {
    const int v = open.back();
    open.pop_back();
    if (!seen.insert(v).second) continue;
    for (const int a : read_by(v)) open.push_back(a);
  }
  return {seen.begin(), seen.end()};
}

Indices Scope::through(const Node& view, Indices at) const {
  const std::ptrdiff_t axis = view.attributes.axis;
  if (view.op == Op::expand) at.erase(at.begin() + axis);
  if (view.op == Op::index) at.insert(at.begin() + axis, std::to_string(view.attributes.i));
  if (view.op == Op::transpose) {
    const Indices from = at;
    for (std::size_t i = 0; i < from.size(); ++i) at[language::index(view.attributes.perm[i])] = from[i];
  }
  return at;
}

std::string Scope::written(int v, const Indices& at) const {
  if (const auto found = places_.find(v); found != places_.end()) return found->second(at);
  const Node* node = block_.node(v);
  if (node == nullptr) refuse(v, "is read where it is not stored");
  return is_view(node->op) ? written(node->args[0], through(*node, at)) : formula(v, at);
}

std::string Scope::formula(int v, const Indices& at) const {
  const Node& node = *block_.node(v);
  const Attributes& says = node.attributes;
  switch (node.op) {
    case Op::const_:
      return says.fraction.empty() ? (says.truth ? "1" : "0")
                                   : fmt::format("({})", literal_of(constant<double>(says.fraction)));
    case Op::int_:
      return fmt::format("({}L)", says.value);
    case Op::size:
      return fmt::format("((long){})", length_of(says.dim));
    case Op::iota:
      return fmt::format("((long)({}))", at[0]);
    case Op::real:
      return fmt::format("((double)({}))", written(node.args[0], at));
    case Op::contract: {
      const Letters letters = letters_of(contraction_from(says.spec).result, at);
      return added(any_sum_of(v), letters, "0.0", product(v, letters));
    }
    default:
      if (!is_elementwise(node.op)) refuse(v, "no text is emitted for this operation yet");
      return arithmetic(node, v, at);
  }
}

/// An operation on elements, as a draw has it.
std::string Scope::arithmetic(const Node& node, int v, const Indices& at) const {
  if (const std::optional<int> i = product_in(v)) {
    const int of = node.args[language::index(*i)];
    const std::string start = written(node.args[language::index(1 - *i)], at);
    const Letters letters = letters_of(contraction_from(block_.node(of)->attributes.spec).result, at);
    return added(any_sum_of(v), letters, start, product(of, letters));
  }
  if (!errs_in_draws(v)) return operation(node, v, at);
  const std::string numbers = numbers_of(v, at);
  if (node.op == Op::pow)
    return fmt::format("power_off(draw, {}, {}, {})", numbers, written(node.args[0], at), written(node.args[1], at));
  if (node.op == Op::exp) return fmt::format("exponential_off(draw, {}, {})", numbers, operation(node, v, at));
  return fmt::format("rounded(draw, {}, 0, {})", numbers, operation(node, v, at));
}

std::string Scope::operation(const Node& node, int v, const Indices& at) const {
  std::vector<std::string> x;
  for (const int a : node.args) x.push_back(written(a, at));
  const bool absorb = node.attributes.absorb;
  const std::string_view kind = is_real(node.args[0]) ? "compared" : "ordered";
  switch (node.op) {
    case Op::neg:
      return fmt::format("(-{})", x[0]);
    case Op::add:
      return fmt::format("({} + {})", x[0], x[1]);
    case Op::sub:
      return fmt::format("({} - {})", x[0], x[1]);
    case Op::div:
      return fmt::format("{}({}, {})", absorb ? "absorbing_quotient" : "quotient", x[0], x[1]);
    case Op::lt:
    case Op::le:
    case Op::eq:
      return fmt::format("{}_{}({}, {})", kind, name_of(node.op), x[0], x[1]);
    case Op::select:
      if (block_.type(v).kind == Kind::integer) refuse(v, "no text is emitted for a choice of integers yet");
      return fmt::format("{}({}, {}, {})", is_real(v) ? "chosen" : "chosen_truth", x[0], x[1], x[2]);
    case Op::mul:
      if (!absorb) return fmt::format("({} * {})", x[0], x[1]);
      break;
    case Op::max:
      if (!is_real(v)) refuse(v, "no text is emitted for the larger of two integers yet");
      break;
    default:
      break;
  }
  return fmt::format("{}({})", function_of(node.op), fmt::join(x, ", "));
}

std::optional<int> Scope::contraction_of(int v) const {
  const Node* node = block_.node(v);
  if (node == nullptr || is_text(v)) return std::nullopt;
  if (const std::optional<int> i = product_in(v)) return node->args[language::index(*i)];
  return node->op == Op::contract ? std::optional(v) : std::nullopt;
}

int Scope::part_of(int contraction, int operand) const {
  const std::vector<int>& args = block_.node(contraction)->args;
  return args[language::index(operand)] == args[0] ? 1 : 1 + operand;
}

std::string Scope::read(int contraction, int operand, const Indices& at) const {
  const int v = block_.node(contraction)->args[language::index(operand)], part = part_of(contraction, operand);
  if (const auto found = reads_.find({contraction, part}); found != reads_.end()) return found->second(at);
  return fmt::format("as_read(draw, {}, {}, {})", key_of(contraction, part), number_of(axes(v), at), written(v, at));
}

std::string Scope::product(int contraction, const Letters& at) const {
  const Node& node = *block_.node(contraction);
  const Contraction c = contraction_from(node.attributes.spec);
  const std::string a = read(contraction, 0, indices_from(c.left, at)),
                    b = read(contraction, 1, indices_from(c.right, at));
  return node.attributes.absorb ? fmt::format("absorbing_term({}, {})", a, b) : fmt::format("{} * {}", a, b);
}

/// All letters, outer ones first, as detail::indices_of has them: by the alphabet, and innermost what runs along
/// numbers that lie side by side: draws have operands row-major.
std::string Scope::loops_of(const Node& contraction) const {
  const Contraction c = contraction_from(contraction.attributes.spec);
  const auto worth = [&](char letter) {
    const bool left = c.left.ends_with(letter), right = c.right.ends_with(letter);
    if (c.result.find(letter) == std::string::npos) return left && right ? 4 : 2;
    const bool in_left = c.left.find(letter) != std::string::npos, in_right = c.right.find(letter) != std::string::npos;
    return in_left != in_right && c.result.back() == letter ? (left || right ? 3 : 1) : 0;
  };
  std::set<char> summed;
  for (const char letter : c.left + c.right)
    if (c.result.find(letter) == std::string::npos) summed.insert(letter);
  std::string list = c.result;
  list.append(summed.begin(), summed.end());
  const auto best =
      std::max_element(list.begin(), list.end(), [&](char one, char other) { return worth(one) < worth(other); });
  if (best != list.end()) std::rotate(best, best + 1, list.end());
  return list;
}

std::optional<Sum> Scope::sum_of(int v) const {
  if (block_.node(v) == nullptr || !is_real(v)) return std::nullopt;
  Sum sum = any_sum_of(v);
  return sum.gone.empty() ? std::nullopt : std::optional<Sum>(std::move(sum));
}

/// As sum_of, of what need not be one.
Sum Scope::any_sum_of(int v) const {
  const Node* node = block_.node(v);
  Sum sum;
  sum.value = sum.base = v;
  if (const std::optional<int> i = product_in(v))
    sum.base = node->args[language::index(*i)], sum.start = node->args[language::index(1 - *i)];
  const Node& base = *block_.node(sum.base);
  if (base.op == Op::contract) {
    const Contraction c = contraction_from(base.attributes.spec);
    for (std::size_t i = 0; i < c.left.size(); ++i) sum.axes[c.left[i]] = axes(base.args[0])[i];
    for (std::size_t i = 0; i < c.right.size(); ++i) sum.axes[c.right[i]] = axes(base.args[1])[i];
    sum.kept = c.result, sum.loops = loops_of(base);
    for (const char letter : sum.loops)
      if (sum.kept.find(letter) == std::string::npos) sum.gone += letter;
    sum.is_dots = !sum.gone.empty() && sum.gone.back() == sum.loops.back();
  } else if (base.op == Op::sum) {
    const std::vector<Dim>& of = axes(base.args[0]);
    sum.is_plain = true;
    for (std::size_t i = 0; i < of.size(); ++i) {
      const char letter = static_cast<char>('a' + static_cast<int>(i));
      sum.axes[letter] = of[i];
      (static_cast<int>(i) == base.attributes.axis ? sum.gone : sum.kept) += letter;
    }
  }
  return sum;
}

std::string Scope::term(const Sum& sum, const Letters& at) const {
  if (!sum.is_plain) return product(sum.base, at);
  Indices indices;
  for (const auto& [letter, dim] : sum.axes) indices.push_back(at.at(letter));
  return written(block_.node(sum.base)->args[0], indices);
}

std::string Scope::start(const Sum& sum, Letters letters, const Indices& at) const {
  if (sum.start >= 0) return written(sum.start, at);
  if (!sum.is_plain) return "0.0";
  letters[sum.gone[0]] = "0";
  return fmt::format("({} > 0 ? {} : 0.0)", length_of(sum.axes.at(sum.gone[0])), term(sum, letters));
}

std::string Scope::chain(const Sum& sum, Letters letters, const std::string& to) const {
  std::string loops;
  std::size_t dot_begins = 0;
  for (std::size_t i = 0; i < sum.gone.size(); ++i) {
    const std::string s = fmt::format("s{}", i);
    loops += fmt::format("for (int {0} = {1}; {0} < {2}; ++{0}) ", s, sum.is_plain ? 1 : 0,
                         length_of(sum.axes.at(sum.gone[i])));
    letters[sum.gone[i]] = s;
    if (sum.is_dots && i + 2 == sum.gone.size()) dot_begins = loops.size();
  }
  if (!sum.is_dots) return fmt::format("{}{} = {};", loops, to, added(sum, letters, to, term(sum, letters)));
  return fmt::format("{}{{ Moments moments = {{}}; {}add_term(moments, s{}, {}); {} = {}; }}",
                     loops.substr(0, dot_begins), loops.substr(dot_begins), sum.gone.size() - 1, term(sum, letters), to,
                     with_dot(sum, letters, to, dot(sum, letters, "moments")));
}

std::string Scope::key_of(int v, int part) const { return fmt::format("keys{}[{}]", number_, 4 * v + part); }

/// The number of an element: those of a step are few.
std::string Scope::number_of(const std::vector<Dim>& axes, const Indices& at) const {
  return flat(axes, at, number_ == 0 ? "long" : "int");
}

std::string Scope::declared_keys(const std::string& token) const {
  const std::size_t values = block_.params.size() + block_.nodes.size();
  return fmt::format("KEYS(keys{0}, {1});\nEACH(i, {1}) keys{0}[i] = key_at(draw, head, {0}, {2}, i);\nMEET;\n",
                     number_, 4 * values, token);
}

std::string Scope::numbers_of(int v, const Indices& at) const {
  return fmt::format("{}, {}", key_of(v, 0), number_of(axes(v), at));
}

/// The key and index of the evaluator's loops: one for every line that a dot runs along, else for every product.
std::string Scope::numbers_of(const Sum& sum, const Letters& at) const {
  std::string loops = sum.loops;
  if (sum.is_dots) loops.pop_back();
  std::vector<Dim> dims;
  for (const char letter : loops) dims.push_back(sum.axes.at(letter));
  return fmt::format("{}, {}", key_of(sum.base, 0), number_of(dims, indices_from(loops, at)));
}

std::string Scope::added(const Sum& sum, const Letters& at, const std::string& to, const std::string& term) const {
  if (sum.is_plain && !errs_in_draws(sum.base)) return fmt::format("({} + {})", to, term);
  if (sum.is_plain)
    return fmt::format("rounded(draw, {}, (unsigned)({}) - 1, {} + {})",
                       numbers_of(sum.base, indices_from(sum.kept, at)), at.at(sum.gone[0]), to, term);
  const auto has = [](const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; };
  const Contraction c = contraction_from(block_.node(sum.base)->attributes.spec);
  const bool is_free = !sum.loops.empty() && has(c.left, sum.loops.back()) != has(c.right, sum.loops.back());
  if (is_free && sum.loops.back() != c.result.back())
    refuse(sum.base, "adds lines that do not lie side by side, and no text is emitted for that in draws yet");
  return fmt::format("{}(draw, {}, {}, {})", is_free ? "add_scaled" : "add_product", numbers_of(sum, at), to, term);
}

std::string Scope::dot(const Sum& sum, const Letters& at, const std::string& moments) const {
  return fmt::format("dot_of(draw, {}, {}, {})", numbers_of(sum, at), moments, length_of(sum.axes.at(sum.gone.back())));
}

std::string Scope::with_dot(const Sum& sum, const Letters& at, const std::string& to, const std::string& dot) const {
  return fmt::format("add_dot(draw, {}, {}, {})", numbers_of(sum, at), to, dot);
}

void Scope::refuse(int v, const std::string& why) const {
  const Node* node = block_.node(v);
  throw InputError(text(where_, node != nullptr ? ": node " : ": parameter ", v,
                        node != nullptr ? " (" + std::string(name_of(node->op)) + ")" : "", ": ", why));
}

}  // namespace assay::language::device
