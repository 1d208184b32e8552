#include "language/laws.hpp"

#include <algorithm>
#include <utility>

#include "language/answers/answer.hpp"
#include "language/room.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

using Outputs = BasicArrays<Mp100>;
using TextProblem = BasicProblem<std::string>;

constexpr int tokens = 7;

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 < names.size() ? ", " : " and ") + names[i];
  return out;
}

/// Runs of one program, and how far they are apart.
class Laws {
 public:
  explicit Laws(const Room& room)
      : mechanism_(program_of(room)),
        program_(mechanism_.program),
        rows_(token_axis(mechanism_)),
        problem_(room.make({.mechanism = std::string(room.name),
                            .shape = {1, tokens * rows_.chunk, 2, 0, 4, 3},
                            .precision = Format::fp32})) {
    problem_.cotangents.clear();
    right_ = run(problem_);
  }

  std::vector<Law> all() {
    causality(), continuation(), heads(), linearity(), permutation();
    return std::move(found_);
  }

 private:
  template <class X>
  Outputs run(const BasicProblem<X>& problem) const {
    return answer<Mp100>(Posed<X>(mechanism_, problem), false).outputs;
  }

  const Type& type_of(std::string_view input) const { return program_.input(input)->type; }
  /// Whether its rows are tokens.
  bool has_rows(const Type& type) const {
    if (type.axes.empty()) return false;
    return type.axes[0].name == rows_.name || (type.axes[0].name == "S" && mechanism_.tokens.contains("S"));
  }
  /// Numbers of a row, and where row t of head h begins.
  struct Rows {
    std::size_t heads = 1, count = 1, size = 1;
    Rows(const std::vector<int>& shape, const Type& type) {
      const std::size_t lead = shape.size() - type.axes.size();
      if (lead > 0) heads = static_cast<std::size_t>(shape[0]);
      count = static_cast<std::size_t>(shape[lead]);
      for (std::size_t r = lead + 1; r < shape.size(); ++r) size *= static_cast<std::size_t>(shape[r]);
    }
    std::size_t at(std::size_t head, std::size_t row) const { return (head * count + row) * size; }
  };

  /// The largest difference of the first `rows` rows of every head, relative to the largest number.
  template <class Array>
  static double apart(const Array& a, const Array& b, const Type& type, std::size_t first, std::size_t rows) {
    Mp100 off = 0, largest = 0;
    const Rows of_a(a.shape, type), of_b(b.shape, type);
    for (std::size_t h = 0; h < of_a.heads; ++h)
      for (std::size_t i = 0; i < rows * of_a.size; ++i) {
        const Mp100 &x = a.data[of_a.at(h, 0) + i], &y = b.data[of_b.at(h, first) + i];
        off = std::max<Mp100>(off, abs(x - y)), largest = std::max<Mp100>(largest, abs(y));
      }
    return largest > 0 ? static_cast<double>(Mp100(off / largest)) : static_cast<double>(off);
  }
  static double apart(const BasicArray<Mp100>& a, const BasicArray<Mp100>& b) {
    Mp100 off = 0, largest = 0;
    for (std::size_t i = 0; i < a.data.size(); ++i)
      off = std::max<Mp100>(off, abs(a.data[i] - b.data[i])), largest = std::max<Mp100>(largest, abs(b.data[i]));
    return largest > 0 ? static_cast<double>(Mp100(off / largest)) : static_cast<double>(off);
  }

  void tell(std::string name, std::string sentence, double error) {
    found_.push_back({std::move(name), std::move(sentence), error, error <= law_tolerance});
  }

  /// Tokens from t on are replaced by the first, and the rows before must not know.
  void causality() {
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      const Type& type = program_.body->result_type(o);
      if (type.axes.empty() || type.axes[0].name != rows_.name) continue;
      double error = 0;
      for (std::size_t t = 1; t < tokens; ++t) {
        Problem other = problem_;
        for (auto& [name, array] : other.inputs) {
          if (!has_rows(type_of(name))) continue;
          const Rows rows(array.shape, type_of(name));
          for (std::size_t h = 0; h < rows.heads; ++h)
            for (std::size_t i = rows.at(h, t); i < rows.at(h, rows.count); ++i)
              array.data[i] = array.data[rows.at(h, 0) + i % rows.size];
        }
        const std::string& name = program_.outputs[o];
        error = std::max(error, apart(right_.at(name), run(other).at(name), type, 0, t));
      }
      const std::string beyond = rows_.name == "T" ? "tokens" : rows_.chunk > 1 ? "chunks" : "rows of " + rows_.name;
      tell("causality", text("row t of ", program_.outputs[o], " reads nothing of ", beyond, " beyond t"), error);
    }
  }

  TextProblem in_words(std::size_t first, std::size_t last) const {
    TextProblem out{problem_.id, problem_.mechanism, problem_.params, {}, {}};
    for (const auto& [name, array] : problem_.inputs) {
      BasicArray<std::string>& to = out.inputs[name];
      to.shape = array.shape;
      const bool cut = has_rows(type_of(name));
      const Rows rows = cut ? Rows(array.shape, type_of(name)) : Rows({1}, {Kind::real, {Dim{"", 1}}});
      if (cut) to.shape[array.shape.size() - type_of(name).axes.size()] = static_cast<int>(last - first);
      for (std::size_t h = 0; h < (cut ? rows.heads : 1); ++h)
        for (std::size_t i = cut ? rows.at(h, first) : 0; i < (cut ? rows.at(h, last) : array.data.size()); ++i)
          to.data.push_back(to_decimal(Mp100(array.data[i]), 110));
    }
    return out;
  }

  /// X_carry is the last row of X before a segment, and sequence_start says that there is none.
  void carry_rows(const TextProblem& last, TextProblem& rest) const {
    for (const Input& input : program_.inputs) {
      if (input.name == "sequence_start" && input.type.kind == Kind::boolean) rest.params[input.name] = false;
      if (!input.name.ends_with("_carry")) continue;
      const auto given = last.inputs.find(input.name.substr(0, input.name.size() - 6));
      if (given == last.inputs.end() || !has_rows(type_of(given->first))) continue;
      BasicArray<std::string> row = given->second;
      row.shape.erase(row.shape.end() - static_cast<std::ptrdiff_t>(type_of(given->first).axes.size()));
      rest.inputs.insert_or_assign(input.name, std::move(row));
    }
  }

  void continuation() {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const Input& input : program_.inputs) {
      if (!input.name.starts_with("initial_")) continue;
      const std::string final = "final_" + input.name.substr(8);
      const std::optional<int> at = program_.output(final);
      if (at && program_.body->type(*at) == input.type) pairs.emplace_back(input.name, final);
    }
    if (pairs.empty()) return;
    constexpr std::size_t cut = 3;
    const Outputs first = run(in_words(0, cut));
    TextProblem rest = in_words(cut, tokens);
    for (const auto& [initial, final] : pairs) {
      const BasicArray<Mp100>& state = first.at(final);
      BasicArray<std::string> carried{state.shape, {}};
      for (const Mp100& x : state.data) carried.data.push_back(to_decimal(x, 110));
      rest.inputs.insert_or_assign(initial, std::move(carried));
    }
    carry_rows(in_words(cut - 1, cut), rest);
    const Outputs second = run(rest);
    double error = 0;
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      const std::string& name = program_.outputs[o];
      const Type& type = program_.body->result_type(o);
      if (has_rows(type)) {
        error = std::max(error, apart(first.at(name), right_.at(name), type, 0, cut));
        error = std::max(error, apart(second.at(name), right_.at(name), type, cut, tokens - cut));
      } else {
        error = std::max(error, apart(second.at(name), right_.at(name)));
      }
    }
    std::vector<std::string> names;
    for (const auto& [initial, final] : pairs) names.push_back(text(final, " carried to ", initial));
    tell("continuation", text("two runs, with ", listed(names), ", are one run"), error);
  }

  /// The second head alone.
  void heads() {
    Problem other = problem_;
    for (auto& [name, array] : other.inputs) {
      if (array.shape.size() == type_of(name).axes.size() || array.shape[0] != 2) continue;
      const std::size_t size = array.data.size() / 2;
      array.data.erase(array.data.begin(), array.data.begin() + static_cast<std::ptrdiff_t>(size));
      array.shape[0] = 1;
    }
    double error = 0;
    for (const auto& [name, array] : run(other)) {
      const BasicArray<Mp100>& both = right_.at(name);
      const std::size_t size = array.data.size();
      error = std::max(
          error, apart(array, {array.shape, {both.data.end() - static_cast<std::ptrdiff_t>(size), both.data.end()}}));
    }
    tell("heads", "a head answers alone as it does beside another", error);
  }

  void linearity() {
    std::vector<std::string> names;
    for (const auto& [name, array] : problem_.inputs) {
      const std::string& domain = program_.input(name)->domain;
      if (domain == "value" || (domain == "state" && name.starts_with("initial_"))) names.push_back(name);
    }
    if (names.empty()) return;
    Problem other = problem_, sum = problem_;
    for (const std::string& name : names) {
      Array &x = other.inputs.at(name), &s = sum.inputs.at(name);
      std::reverse(x.data.begin(), x.data.end());
      for (std::size_t i = 0; i < x.data.size(); ++i) s.data[i] += x.data[i];
    }
    const Outputs second = run(other), both = run(sum);
    std::vector<std::string> linear;
    double error = 0;
    for (const std::string& name : program_.outputs) {
      BasicArray<Mp100> added = right_.at(name);
      for (std::size_t i = 0; i < added.data.size(); ++i) added.data[i] += second.at(name).data[i];
      const double off = apart(added, both.at(name));
      if (off <= law_tolerance)
        linear.push_back(name);
      else
        error = std::max(error, off);
    }
    std::sort(names.begin(), names.end());
    if (!linear.empty())
      tell("linearity", text(listed(linear), linear.size() > 1 ? " are" : " is", " linear in ", listed(names)), 0);
    if (linear.empty()) tell("linearity", text("outputs are linear in ", listed(names)), error);
  }

  /// The array with an axis in the opposite order, wherever it has it.
  template <class X>
  static BasicArray<X> turned(const BasicArray<X>& array, const Type& type, const std::string& axis) {
    BasicArray<X> out = array;
    const std::size_t lead = array.shape.size() - type.axes.size();
    for (std::size_t r = 0; r < type.axes.size(); ++r) {
      if (type.axes[r].name != axis) continue;
      std::size_t inner = 1;
      for (std::size_t s = lead + r + 1; s < array.shape.size(); ++s) inner *= static_cast<std::size_t>(array.shape[s]);
      const auto n = static_cast<std::size_t>(array.shape[lead + r]);
      const std::vector<X> from = out.data;
      for (std::size_t i = 0; i < from.size(); ++i) {
        const std::size_t at = i / inner % n;
        out.data[i + (n - 1 - at) * inner - at * inner] = from[i];
      }
    }
    return out;
  }

  void permutation() {
    std::set<std::string> axes;
    for (const Input& input : program_.inputs)
      for (const Dim& dim : input.type.axes)
        if (!dim.name.empty() && !mechanism_.tokens.contains(dim.name)) axes.insert(dim.name);
    for (const std::string& axis : axes) {
      Problem other = problem_;
      for (auto& [name, array] : other.inputs) array = turned(array, type_of(name), axis);
      const Outputs got = run(other);
      double error = 0;
      for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
        const std::string& name = program_.outputs[o];
        error = std::max(error, apart(got.at(name), turned(right_.at(name), program_.body->result_type(o), axis)));
      }
      tell("permutation", text("the channels of ", axis, " may come in any order"), error);
    }
  }

  const Mechanism& mechanism_;
  const Program& program_;
  TokenAxis rows_;
  Problem problem_;
  Outputs right_;
  std::vector<Law> found_;
};

}  // namespace

TokenAxis token_axis(const Mechanism& mechanism) {
  std::string other;
  for (const Input& input : mechanism.program.inputs) {
    const std::vector<Dim>& axes = input.type.axes;
    if (axes.empty() || axes[0].name.empty() || !mechanism.tokens.contains(axes[0].name)) continue;
    if (axes[0].name == "T") return {"T", 1};
    if (axes[0].name == "S") continue;
    if (axes.size() > 1 && axes[1].name.empty()) return {axes[0].name, axes[1].written};
    if (other.empty()) other = axes[0].name;
  }
  return {other.empty() ? "T" : other, 1};
}

std::vector<Law> laws_of(const Room& room) { return Laws(room).all(); }

std::string stream_obstacle(const Room& room) {
  const std::string name(room.name);
  if (token_axis(program_of(room)).chunk > 1)
    return name + " has its tokens in chunks: give the recurrence by tokens, and this as its --form";
  const std::vector<Law> laws = laws_of(room);
  const auto law = std::find_if(laws.begin(), laws.end(), [](const Law& l) { return l.name == "continuation"; });
  if (law == laws.end())
    return name + " takes up no states of the segment before: it has no initial_X and final_X of one shape";
  return law->holds ? "" : text(name, ": it does not hold that ", law->sentence);
}

}  // namespace assay::language
