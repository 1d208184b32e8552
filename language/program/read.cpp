// Programs from files that others wrote, taken apart key by key.
#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "files/strict_json.hpp"
#include "language/program/builder.hpp"
#include "language/program/lists.hpp"
#include "language/program/program.hpp"
#include "language/program/symmetric.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

using J = nlohmann::json;

/// Digits of a written number, characters of a name.
constexpr std::size_t most_digits = 1000, most_letters = 64;
/// Brackets: a scan in a scan takes four more.
constexpr std::size_t most_brackets = 4 * most_depth + 8;

std::string shown(const J& value) {
  if (value.is_string()) return '"' + excerpt(value.get_ref<const std::string&>(), 60) + '"';
  return value.is_structured() ? (value.is_array() ? "a list" : "an object") : excerpt(value.dump(), 60);
}

/// An object whose keys are all known; a required one that is missing is refused by name.
class Keys {
 public:
  Keys(const J& object, std::string what, std::initializer_list<std::string_view> required,
       std::initializer_list<std::string_view> optional = {})
      : object_(object), what_(std::move(what)) {
    require(object.is_object(), what_, ": expected an object, got ", shown(object));
    std::vector<std::string> known(required.begin(), required.end());
    for (const std::string& key : known) require(object.contains(key), what_, ": ", key, " is missing");
    known.insert(known.end(), optional.begin(), optional.end());
    for (const auto& [key, value] : object.items())
      require(std::find(known.begin(), known.end(), key) != known.end(), what_, ": there is no key ", excerpt(key, 60),
              did_you_mean(excerpt(key, 60), known));
  }

  const J& at(std::string_view key) const { return *object_.find(key); }
  std::string label(std::string_view key) const { return text(what_, what_.empty() ? "" : ": ", key); }
  const std::string& words(std::string_view key) const {
    require(at(key).is_string(), label(key), ": expected a text, got ", shown(at(key)));
    return at(key).get_ref<const std::string&>();
  }
  const J& list(std::string_view key) const {
    require(at(key).is_array(), label(key), ": expected a list, got ", shown(at(key)));
    return at(key);
  }
  bool truth(std::string_view key) const {
    require(at(key).is_boolean(), label(key), ": expected true or false, got ", shown(at(key)));
    return at(key).get<bool>();
  }

 private:
  const J& object_;
  std::string what_;
};

std::int64_t integer_from(const J& value, std::string_view what) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() &&
                      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<long>::max()));
  require(fits, what, ": expected an integer, got ", shown(value));
  return value.get<std::int64_t>();
}

int count_from(const J& value, std::string_view what) {
  const std::int64_t n = integer_from(value, what);
  require(n >= std::numeric_limits<int>::min() && n <= std::numeric_limits<int>::max(), what, ": ", n, " is too large");
  return static_cast<int>(n);
}

bool is_name(std::string_view name, bool dotted) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  bool first = true;
  for (const char c : name) {
    const bool good = letter(c) || (!first && digit(c)) || (!first && dotted && c == '.');
    if (!good) return false;
    first = c == '.';
  }
  return !first && name.size() <= most_letters;
}

std::string name_from(const std::string& name, std::string_view what, bool dotted = false) {
  require(is_name(name, dotted), what, ": \"", excerpt(name, 80), "\" is no name: letters, digits and _, at most ",
          most_letters);
  return name;
}

Dim written_dim(std::int64_t n, std::string_view what) {
  require(n >= 1 && n <= std::numeric_limits<int>::max(), what, ": an axis is no ", n, " long");
  return {"", static_cast<int>(n)};
}

Dim dim_from(const J& value, std::string_view what) {
  if (value.is_string()) return {name_from(value.get_ref<const std::string&>(), what), 0};
  return written_dim(integer_from(value, what), what);
}

Type type_from(const J& value, std::string_view what) {
  require(value.is_string(), what, ": expected a type, got ", shown(value));
  const auto& words = value.get_ref<const std::string&>();
  const auto bad = [&](bool good) {
    require(good, what, ": a type is real, int or bool with axes, not \"", excerpt(words, 80), "\"");
  };
  bad(words.size() <= (most_axes + 2) * (most_letters + 1));
  std::vector<std::string> parts(1);
  for (const char c : words)
    if (c == ' ')
      parts.emplace_back();
    else
      parts.back() += c;
  Type type;
  bad(parts[0] == "real" || parts[0] == "int" || parts[0] == "bool");
  type.kind = parts[0] == "real" ? Kind::real : parts[0] == "int" ? Kind::integer : Kind::boolean;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    const bool digits = !part.empty() && part[0] >= '1' && part[0] <= '9' && part.size() <= 10 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    bad(digits || is_name(part, false));
    type.axes.push_back(digits ? written_dim(std::stoll(part), what) : Dim{part, 0});
  }
  require(type.axes.size() <= most_axes, what, ": [", text_of(type), "] has more than ", most_axes, " axes");
  return type;
}

/// A reduced fraction as str(Fraction) writes it.
std::string fraction_from(const std::string& digits) {
  using boost::multiprecision::cpp_int;
  const auto bad = [&](bool good) { require(good, "\"", excerpt(digits, 60), "\" is no reduced fraction"); };
  const auto natural = [&](std::string_view part) {
    bad(!part.empty() && part.size() <= most_digits && part.find_first_not_of("0123456789") == std::string_view::npos &&
        (part[0] != '0' || part.size() == 1));
    return cpp_int(std::string(part));
  };
  std::string_view rest = digits;
  const bool negative = rest.starts_with('-');
  if (negative) rest.remove_prefix(1);
  const std::size_t slash = rest.find('/');
  const cpp_int numerator = natural(rest.substr(0, slash));
  bad(!negative || numerator != 0);
  if (slash == std::string_view::npos) return digits;
  const cpp_int denominator = natural(rest.substr(slash + 1));
  bad(denominator > 1 && gcd(numerator, denominator) == 1);
  return digits;
}

/// Reads blocks; counts the nodes of all of them.
class Reader {
 public:
  std::shared_ptr<const Block> block(const J& value, const std::string& where, std::size_t depth = 0) {
    require(depth <= most_depth, where, ": scans are more than ", most_depth, " deep");
    const Keys keys(value, where, {"params", "nodes", "results"});
    std::vector<Type> params;
    for (const J& type : keys.list("params")) params.push_back(type_from(type, where + ": params"));
    Builder builder(std::move(params));
    std::size_t i = 0;
    for (const J& one : keys.list("nodes")) node(builder, one, where, i++, depth);
    const auto count = builder.block().params.size() + builder.block().nodes.size();
    std::vector<int> results;
    for (const J& one : keys.list("results")) {
      const std::int64_t r = integer_from(one, where + ": results");
      require(r >= 0 && static_cast<std::size_t>(r) < count, where, ": there is no value ", r);
      const Node* made = builder.block().node(static_cast<int>(r));
      require(made == nullptr || made->op != Op::scan, where, ": result ", r, " is a scan, whose results get takes");
      results.push_back(static_cast<int>(r));
    }
    return std::move(builder).finish(std::move(results));
  }

 private:
  void node(Builder& to, const J& value, const std::string& where, std::size_t i, std::size_t depth) {
    require(++nodes_ <= most_nodes, where, ": more than ", most_nodes, " nodes");
    const bool shaped =
        value.is_array() && value.size() >= 2 && value.size() <= 3 && value[0].is_string() && value[1].is_array();
    require(shaped, where, ": node ", i, ": expected [operation, [operands], attributes], got ", shown(value));
    const std::string name = excerpt(value[0].get<std::string>(), 60);
    const std::string place = text(where, ": node ", i, " (", name, ")");
    const std::optional<Op> op = op_from(name);
    require(op.has_value(), place, ": there is no operation \"", name, "\"");
    if (op == Op::scan && value.size() == 3 && value[2].is_object() && value[2].contains("body"))
      body_ = block(value[2]["body"], text(where, '.', i), depth + 1);
    try {
      std::vector<int> args;
      for (const J& v : value[1]) args.push_back(count_from(v, "operands"));
      require(value.size() == 2 || !value[2].empty(), "empty attributes");
      Attributes attributes = attributes_of(*op, value.size() == 3 ? value[2] : J::object());
      to.append(*op, std::move(args), std::move(attributes));
    } catch (const InputError& error) {
      throw InputError(text(place, ": ", error.what()));
    }
  }

  Attributes attributes_of(Op op, const J& value) {
    Attributes a;
    const auto keys = [&](std::initializer_list<std::string_view> names) { return Keys(value, "attributes", names); };
    const auto count = [](const Keys& k, std::string_view key) { return count_from(k.at(key), key); };
    switch (op) {
      case Op::const_:
        return constant(keys({"value"}).at("value"));
      case Op::int_:
        return {.value = integer_from(keys({"value"}).at("value"), "value")};
      case Op::size:
      case Op::iota:
        return {.dim = dim_from(keys({"axis"}).at("axis"), "axis")};
      case Op::get:
        return {.i = count(keys({"i"}), "i")};
      case Op::expand:
        a.axis = count(keys({"at", "size"}), "at"), a.dim = dim_from(value["size"], "size");
        return a;
      case Op::index:
        return {.axis = count(keys({"axis", "i"}), "axis"), .i = count_from(value["i"], "i")};
      case Op::sum:
        return {.axis = count(keys({"axis"}), "axis")};
      case Op::shift:
        return {.by = count(keys({"by"}), "by")};
      case Op::cumsum:
        return {.reverse = keys({"reverse"}).truth("reverse")};
      case Op::contract:
        return contraction(value);
      case Op::round:
        return {.spec = name_from(keys({"site"}).words("site"), "site")};
      case Op::transpose:
        for (const J& i : keys({"perm"}).list("perm")) a.perm.push_back(count_from(i, "perm"));
        return a;
      case Op::scan:
        return scan(keys({"carry", "xs", "reverse", "body"}));
      default:
        return absorbing(op, value);
    }
  }

  static Attributes constant(const J& value) {
    Attributes a;
    require(value.is_boolean() || value.is_string(), "value: expected a reduced fraction in quotes, or true or false");
    if (value.is_boolean())
      a.truth = value.get<bool>();
    else
      a.fraction = fraction_from(value.get_ref<const std::string&>());
    return a;
  }

  Attributes scan(const Keys& keys) {
    Attributes a;
    a.carry = count_from(keys.at("carry"), "carry"), a.xs = count_from(keys.at("xs"), "xs");
    a.reverse = keys.truth("reverse"), a.body = std::move(body_);
    return a;
  }

  static Attributes contraction(const J& value) {
    const Keys keys(value, "attributes", {"spec"}, {"absorb"});
    return {.spec = excerpt(keys.words("spec"), 100), .absorb = is_true(keys, value, "absorb")};
  }

  static Attributes absorbing(Op op, const J& value) {
    if (value.empty()) return {};
    require(any_of(op, {Op::mul, Op::div, Op::solve}), "has no attributes");
    const Keys keys =
        op == Op::solve ? Keys(value, "attributes", {}, {"absorb", "definite"}) : Keys(value, "attributes", {"absorb"});
    return {.absorb = is_true(keys, value, "absorb"), .definite = is_true(keys, value, "definite")};
  }
  static bool is_true(const Keys& keys, const J& value, std::string_view key) {
    const bool there = value.contains(key);
    require(!there || keys.truth(key), key, ": expected true, or nothing");
    return there;
  }

  std::size_t nodes_ = 0;
  std::shared_ptr<const Block> body_;  ///< of the scan that is read
};

Setting setting_from(const J& value, const std::string& name) {
  if (value.is_null()) return {};
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  return integer_from(value, "settings: " + name);
}

Input input_from(const J& value, std::size_t i, const std::vector<Input>& before, Reader& reader) {
  const std::string place = text("input ", i);
  const Keys keys(value, place, {"name", "type", "domain", "default", "gradient"}, {"hint"});
  Input in;
  in.name = name_from(keys.words("name"), place + ": name");
  for (const Input& other : before) require(other.name != in.name, "two inputs are called ", in.name);
  in.type = type_from(keys.at("type"), in.name);
  in.domain = keys.words("domain"), in.gradient = keys.truth("gradient");
  require(is_domain(in.domain), in.name, ": there is no domain \"", excerpt(in.domain, 60), "\"");
  require(in.type.kind == Kind::real || (in.type.axes.empty() && !in.gradient), in.name, ": [", text_of(in.type),
          "] is no input: integers and truth values have no axes and no gradient");
  if (value.contains("hint")) {
    require(value["hint"].is_object(), in.name, ": hint: expected an object");
    for (const auto& [key, hint] : value["hint"].items()) {
      require(hint.is_string(), in.name, ": hint: ", excerpt(key, 60), ": expected a text, got ", shown(hint));
      in.hint.emplace(key, hint.get<std::string>());
    }
  }
  if (keys.at("default").is_null()) return in;
  const std::string where = "default of " + in.name;
  in.missing = canonical(*reader.block(keys.at("default"), where));
  std::vector<Type> params;
  for (const Input& other : before) params.push_back(other.type);
  require(in.missing->params == params, where, ": its parameters are not the inputs before it");
  require(in.missing->results.size() == 1 && in.missing->result_type(0) == in.type, where, ": expected one result [",
          text_of(in.type), "]");
  return in;
}

void require_no_floats(const J& value) {
  require(!value.is_number_float(), "numbers are strings, not ", value.dump());
  if (value.is_structured())
    for (const J& part : value) require_no_floats(part);
}

/// Every axis that something asks for by name is one of an input.
void require_known_axes(const Block& block, const std::set<std::string>& known, const std::string& where) {
  for (std::size_t i = 0; i < block.nodes.size(); ++i) {
    const Node& node = block.nodes[i];
    const std::string& name = node.attributes.dim.name;
    require(name.empty() || known.contains(name), where, ": node ", i, " (", name_of(node.op), "): no input has axis ",
            name);
    if (node.op == Op::scan) require_known_axes(*node.attributes.body, known, text(where, '.', i));
  }
}

Program program_from(const J& value) {
  require_no_floats(value);
  const bool ours = value.is_object() && value.contains("format") && value["format"] == "assay-mechanism" &&
                    value.contains("version") &&
                    (value["version"] == 1 || value["version"] == 2 || value["version"] == 3);
  require(ours, "no assay-mechanism of version 1, 2 or 3");
  const Keys keys(value, "program", {"format", "version", "name", "settings", "inputs", "outputs", "body"});
  Program program;
  program.name = name_from(keys.words("name"), "name");
  require(keys.at("settings").is_object(), "settings: expected an object");
  for (const auto& [name, setting] : keys.at("settings").items())
    program.settings[name_from(name, "settings")] = setting_from(setting, name);
  Reader reader;
  for (const J& input : keys.list("inputs"))
    program.inputs.push_back(input_from(input, program.inputs.size(), program.inputs, reader));
  const auto body = reader.block(keys.at("body"), "body");
  require(body->params.size() == program.inputs.size(), "the inputs are not the parameters of the body");
  std::set<std::string> axes;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    require(body->params[i] == program.inputs[i].type, "the inputs are not the parameters of the body");
    for (const Dim& dim : program.inputs[i].type.axes) axes.insert(dim.name);
  }
  require_known_axes(*body, axes, "body");
  for (const Input& in : program.inputs)
    if (in.missing) require_known_axes(*in.missing, axes, "default of " + in.name);
  for (const J& output : keys.list("outputs")) {
    require(output.is_string(), "outputs: expected names, got ", shown(output));
    program.outputs.push_back(name_from(output.get<std::string>(), "outputs", true));
  }
  const std::set<std::string> distinct(program.outputs.begin(), program.outputs.end());
  require(!distinct.empty() && distinct.size() == program.outputs.size() && distinct.size() == body->results.size(),
          "outputs: expected a name of its own for each of the body's ", body->results.size(), " results");
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    require(body->result_type(i).kind == Kind::real, program.outputs[i], ": an output is real, not [",
            text_of(body->result_type(i)), "]");
  program.body = canonical(sorted_by_name(*body, program.outputs));
  require(value["version"] >= program.version(), program.version() == 2 ? "round" : "solve", " is of version ",
          program.version(), ", and the file is of version ", value["version"].get<int>());
  require_symmetric(program);
  return program;
}

}  // namespace

Program read_program(const std::string& text, std::string_view source) {
  try {
    require(text.size() <= most_bytes, "more than ", most_bytes, " bytes");
    StrictJson<J> document({most_brackets, 4096}, [](const std::string& why) { throw InputError(excerpt(why)); });
    J::sax_parse(text, &document);
    return program_from(std::move(document).take());
  } catch (const InputError& error) {
    throw InputError(assay::text(source, ": ", error.what()));
  }
}

Program load_program(const std::string& path) { return read_program(read_text(path), path); }

}  // namespace assay::language
