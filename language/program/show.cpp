#include "language/program/show.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "language/program/builder.hpp"
#include "language/program/lists.hpp"

namespace assay::language {
namespace {

using Lines = std::vector<std::string>;

/// A text and how tightly it binds, as in Python: 9 is a name or a call.
struct Words {
  int binds = 9;
  std::string text;
};

/// Expressions in expressions.
constexpr int deepest = 24;
/// Operations in one expression, where values that are used twice are written twice.
constexpr int most_operations = 300;

std::string joined(const Lines& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

/// An operation between its operands; "" for any other.
std::pair<int, std::string_view> sign_of(Op op) {
  switch (op) {
    case Op::lt:
      return {1, "<"};
    case Op::le:
      return {1, "<="};
    case Op::eq:
      return {1, "=="};
    case Op::or_:
      return {2, "|"};
    case Op::and_:
      return {3, "&"};
    case Op::add:
      return {4, "+"};
    case Op::sub:
      return {4, "-"};
    case Op::mul:
      return {5, "*"};
    case Op::div:
      return {5, "/"};
    case Op::pow:
      return {7, "**"};
    default:
      return {0, ""};
  }
}

/// The argument, beside its operands, of a function that has attributes.
std::string argument_of(const Node& node) {
  const Attributes& a = node.attributes;
  switch (node.op) {
    case Op::size:
    case Op::iota:
      return text_of(a.dim);
    case Op::sum:
      return std::to_string(a.axis);
    case Op::shift:
      return std::to_string(a.by);
    case Op::cumsum:
      return a.reverse ? "reverse" : "";
    case Op::round:
      return '"' + a.spec + '"';
    case Op::solve:
      return a.definite ? "definite" : "";
    default:
      return "";
  }
}

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && !digit(text[0]) && std::ranges::all_of(text, [&](char c) { return letter(c) || digit(c); });
}

/// A name for what a step sees of an operand, and its ending.
std::pair<std::string, std::string> stem(std::string_view text, std::string_view suffix) {
  if (text.starts_with("iota(") && text.ends_with(')') && text.find_first_of("(),", 5) == text.size() - 1) {
    std::string axis(text.substr(5, text.size() - 6));
    if (!is_identifier(axis)) return {"i", ""};
    for (char& c : axis) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return {axis, ""};
  }
  std::string_view bare = is_identifier(text) ? text : "x";
  const std::string_view plain = bare.starts_with("d_") ? bare.substr(2) : bare;
  for (const std::string_view word : {"initial_", "final_"})
    if (plain.starts_with(word)) bare = plain.substr(word.size());
  return {std::string(bare), std::string(suffix)};
}

/// The text of a block's values.
class Text {
 public:
  /// `names`: of the parameters; `wanted`: names for some of the values; `taken`: names around it.
  Text(const Block& block, std::vector<Words> names, const std::map<int, std::string>& wanted = {},
       std::set<std::string> taken = {}, Naming naming = Naming::shared)
      : block_(block), naming_(naming), taken_(std::move(taken)) {
    for (std::size_t p = 0; p < names.size(); ++p) {
      taken_.insert(names[p].text);
      name_[static_cast<int>(p)] = std::move(names[p]);
    }
    std::map<int, int> uses, depth, size;  // depth: of brackets in brackets
    for (const Node& node : block.nodes)
      for (const int v : node.args) ++uses[v];
    for (const int r : block.results) ++uses[r];
    for (int v = block.first(); v < values_of(block); ++v) {
      const Node& node = *block.node(v);
      const auto name = wanted.find(v);
      for (const int a : node.args) depth[v] = std::max(depth[v], depth[a]), size[v] += size[a];
      ++depth[v], ++size[v];
      const bool plain = any_of(node.op, {Op::scan, Op::get, Op::const_, Op::int_, Op::size, Op::iota, Op::expand});
      const bool whole = any_of(node.op, {Op::scan, Op::get});
      if (name != wanted.end() && !taken_.contains(name->second) && node.op != Op::scan)
        name_[v] = {9, fresh(name->second)};
      else if (naming == Naming::few ? size[v] > most_operations && !whole
                                     : (uses[v] > 1 && !plain) || (depth[v] > deepest && !whole))
        name_[v] = {9, fresh("t")};
      if (whole || name_.contains(v)) depth[v] = size[v] = 0;
    }
  }

  /// A line for each named value, in order.
  Lines statements() {
    Lines lines;
    for (int v = block_.first(); v < values_of(block_); ++v) {
      const Node& node = *block_.node(v);
      if (node.op == Op::scan)
        scan(v, node, lines);
      else if (name_.contains(v) && node.op != Op::get)
        lines.push_back(name_[v].text + " = " + of(node).text);
    }
    return lines;
  }

  std::string plain(int v) const { return value(v).text; }

 private:
  /// A name that is not taken; a bare "t" gets a number.
  std::string fresh(const std::string& name) {
    std::string found = name == "t" ? "t1" : name;
    while (taken_.contains(found)) found = name + std::to_string(++number_[name]);
    taken_.insert(found);
    return found;
  }

  /// Shows what goes into a scan, its step, and what comes out.
  void scan(int v, const Node& node, Lines& lines) {
    const int carry = node.attributes.carry, own = carry + node.attributes.xs;
    const Block& body = *node.attributes.body;
    std::map<int, int> gets;
    for (int w = block_.first(); w < values_of(block_); ++w)
      if (block_.node(w)->op == Op::get && block_.node(w)->args[0] == v) gets[block_.node(w)->attributes.i] = w;
    for (const auto& [i, w] : gets)
      if (!name_.contains(w)) name_[w] = {9, fresh("t")};
    std::vector<Words> inner;
    Lines states, rows;
    for (int i = 0; i < static_cast<int>(node.args.size()); ++i) {
      const Words operand = value(node.args[static_cast<std::size_t>(i)]);
      Words name = operand;
      if (i < own) {
        const auto [base, suffix] = stem(operand.text, i < carry ? "" : "_t");
        const auto is_used = [&] {
          return taken_.contains(name.text) ||
                 std::any_of(inner.begin(), inner.end(), [&](const Words& w) { return w.text == name.text; });
        };
        name = {9, base + suffix};
        for (int number = 2; is_used(); ++number) name.text = fmt::format("{}{}{}", base, number, suffix);
      }
      if (i < carry) states.push_back(name.text + " = " + operand.text);
      if (i >= carry && i < own) rows.push_back(name.text + " in " + operand.text);
      inner.push_back(std::move(name));
    }
    std::map<int, std::string> results;
    for (int i = 0; naming_ == Naming::shared && i < carry; ++i)
      results[body.results[static_cast<std::size_t>(i)]] = "next_" + inner[static_cast<std::size_t>(i)].text;
    Text step(body, inner, results, taken_, naming_);
    lines.push_back("for " + joined(rows) + (node.attributes.reverse ? ", from the end" : "") +
                    (carry > 0 ? "; " + joined(states) : "") + ":");
    for (const std::string& line : step.statements()) lines.push_back("    " + line);
    for (int i = 0; i < static_cast<int>(body.results.size()); ++i) {
      const std::string leaves = step.plain(body.results[static_cast<std::size_t>(i)]);
      const std::string row = gets.contains(i) ? name_[gets[i]].text : "nothing";
      lines.push_back(i < carry ? "    " + inner[static_cast<std::size_t>(i)].text + " <- " + leaves
                                : "    row of " + row + ": " + leaves);
    }
    for (const auto& [i, w] : gets)
      if (i < carry) lines.push_back(name_[w].text + " = the last " + inner[static_cast<std::size_t>(i)].text);
  }

  Words value(int v) const {
    const auto name = name_.find(v);
    return name != name_.end() ? name->second : of(*block_.node(v));
  }

  std::string at(int v, int level) const {
    const Words words = value(v);
    return words.binds >= level ? words.text : '(' + words.text + ')';
  }

  Words of(const Node& node) const {
    const Attributes& a = node.attributes;
    if (const auto [level, sign] = sign_of(node.op); level > 0) {
      const int left = level + (level == 1 || level == 7 ? 1 : 0);
      return {level, fmt::format("{} {} {}", at(node.args[0], left), sign, at(node.args[1], level + 1))};
    }
    switch (node.op) {
      case Op::neg:
      case Op::not_:
        return {6, (node.op == Op::neg ? '-' : '~') + at(node.args[0], 6)};
      case Op::const_:
        return number(!a.fraction.empty() ? a.fraction : a.truth ? "true" : "false");
      case Op::int_:
        return number(std::to_string(a.value));
      case Op::expand:
        return expanded(node);
      case Op::contract:
        return product(node);
      case Op::real:
        return value(node.args[0]);
      case Op::get:
        return {9, fmt::format("{}.{}", plain(node.args[0]), a.i)};
      case Op::transpose:
        return {8, at(node.args[0], 8) + ".T"};
      case Op::index: {
        std::string before;
        for (int i = 0; i < a.axis; ++i) before += ":, ";
        return {8, fmt::format("{}[{}{}]", at(node.args[0], 8), before, a.i)};
      }
      default:
        return call(node);
    }
  }

  static Words number(const std::string& digits) {
    const bool fraction = digits.find('/') != std::string::npos, negative = digits.find('-') != std::string::npos;
    return {fraction ? 5 : negative ? 6 : 9, digits};
  }

  Words call(const Node& node) const {
    Lines arguments;
    for (const int v : node.args) arguments.push_back(plain(v));
    if (const std::string more = argument_of(node); !more.empty()) arguments.push_back(more);
    const std::string_view name = node.op == Op::max ? "maximum" : node.op == Op::select ? "where" : name_of(node.op);
    return {9, fmt::format("{}({})", name, joined(arguments))};
  }

  /// Axes put in front are left out, as numpy does; others are None.
  Words expanded(const Node& node) const {
    std::vector<int> places = {node.attributes.axis};
    int v = node.args[0];
    while (!name_.contains(v) && block_.node(v)->op == Op::expand)
      places.push_back(block_.node(v)->attributes.axis), v = block_.node(v)->args[0];
    Lines layout(block_.type(v).axes.size(), ":");
    std::reverse(places.begin(), places.end());
    for (const int place : places) layout.insert(layout.begin() + place, "None");
    while (!layout.empty() && layout[0] == "None") layout.erase(layout.begin());
    if (std::find(layout.begin(), layout.end(), "None") == layout.end()) return value(v);
    return {8, fmt::format("{}[{}]", at(v, 8), joined(layout))};
  }

  /// Contractions by their indices in order of appearance; the common ones have shorter names.
  Words product(const Node& node) const {
    std::map<char, char> order;
    std::string spec;
    for (const char c : node.attributes.spec)
      spec += c < 'a' || c > 'z' ? c : order.emplace(c, static_cast<char>('a' + order.size())).first->second;
    const int x = node.args[0], y = node.args[1];
    for (const std::string_view known : {"a,ab->b", "ab,b->a", "ab,bc->ac"})
      if (spec == known) return {5, at(x, 6) + " @ " + at(y, 6)};
    for (const std::string_view known : {"a,ba->b", "ab,a->b"})
      if (spec == known) return {5, at(y, 6) + " @ " + at(x, 6)};
    if (spec == "a,b->ab") return {9, fmt::format("outer({}, {})", plain(x), plain(y))};
    if (spec == "a,b->ba") return {9, fmt::format("outer({}, {})", plain(y), plain(x))};
    if (spec == "a,a->") return {9, fmt::format("dot({}, {})", plain(x), plain(y))};
    return {9, fmt::format("contract(\"{}\", {}, {})", spec, plain(x), plain(y))};
  }

  const Block& block_;
  Naming naming_;
  std::map<int, Words> name_;
  std::set<std::string> taken_;
  std::map<std::string, int> number_;
};

/// The program with its outputs in the order of their names.
Program by_name(Program program) {
  program.body = canonical(sorted_by_name(*program.body, program.outputs));
  return program;
}

}  // namespace

std::string show(const Program& shown, Naming naming) {
  const Program program = by_name(shown);
  std::string out = program.name;
  for (const auto& [name, setting] : program.settings) out += ", " + name + " = " + spelled(setting, "none");
  std::size_t width = 0;
  for (const Input& input : program.inputs) width = std::max(width, input.name.size());
  constexpr std::string_view parameters[] = {"param", "int", "bool"};
  std::vector<Words> names;
  for (const Input& input : program.inputs) {
    const bool array = input.gradient || input.domain == "cotangent";
    const std::string kind =
        array ? text_of(input.type) : std::string(parameters[static_cast<std::size_t>(input.type.kind)]);
    const std::string missing =
        input.missing ? " = " + Text(*input.missing, names).plain(input.missing->results[0]) : "";
    out += fmt::format("\n  {:<{}}  {:<10} {}{}", input.name, width, kind, input.domain, missing);
    names.push_back({9, input.name});
  }
  std::map<int, std::string> wanted;
  for (std::size_t i = 0; naming == Naming::shared && i < program.outputs.size(); ++i)
    wanted[program.body->results[i]] = program.outputs[i];
  Text text(*program.body, names, wanted, {}, naming);
  out += '\n';
  for (const std::string& line : text.statements()) out += "\n  " + line;
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    if (const std::string plain = text.plain(program.body->results[i]); plain != program.outputs[i])
      out += "\n  " + program.outputs[i] + " = " + plain;
  return out;
}

}  // namespace assay::language
