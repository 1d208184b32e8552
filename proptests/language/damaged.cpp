// Programs damaged where it hurts: their JSON as a tree, a place of it replaced, taken out, doubled or moved. A program
// read computes something or refuses to; a refused one gets one sentence. Bytes are damaged in proptests/hostile.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "language/program/builder.hpp"
#include "language/program/gradient.hpp"
#include "language/program/show.hpp"
#include "language/room.hpp"
#include "proptests/core/places.hpp"
#include "proptests/language/programs.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

using J = nlohmann::json;

class Damage {
 public:
  explicit Damage(std::uint64_t seed) : random_(seed) {}

  std::string operator()(const J& right) {
    J tree = right;
    for (std::size_t hits = 1 + below(2); hits > 0; --hits) hit(tree);
    return tree.dump();
  }
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random_() % n); }

 private:
  static void collect(J& j, std::vector<J*>& into) {
    into.push_back(&j);
    if (j.is_structured())
      for (J& part : j) collect(part, into);
  }

  void hit(J& tree) {
    std::vector<J*> places;
    collect(tree, places);
    J& here = *places[below(places.size())];
    const J other = *places[below(places.size())];
    switch (below(7)) {
      case 0:  // something of elsewhere
        here = other;
        return;
      case 1:
        here = any_of("strange");
        return;
      case 2:
        if (here.is_array() && !here.empty())
          here.erase(here.begin() + static_cast<std::ptrdiff_t>(below(here.size())));
        if (here.is_object() && !here.empty())
          here.erase(std::next(here.begin(), static_cast<std::ptrdiff_t>(below(here.size()))));
        return;
      case 3:
        if (here.is_array() && !here.empty()) here.push_back(here[below(here.size())]);
        return;
      case 4:
        if (here.is_array() && here.size() > 1) std::swap(here[below(here.size())], here[below(here.size())]);
        return;
      case 5:  // a number nearby: an operand, an axis, a position
        if (here.is_number_integer()) here = here.get<std::int64_t>() + static_cast<std::int64_t>(below(5)) - 2;
        return;
      default:  // another operation, another axis
        if (here.is_string()) here = any_of("words");
        return;
    }
  }

  const J& any_of(const char* list) { return table_.at(list)[below(table_.at(list).size())]; }

  std::mt19937_64 random_;
  const J table_ = J::parse(text_of_file(source_dir() + "/proptests/language/damaged.json"));
};

/// Numbers for all inputs that must be there, axes three long.
Problem small_problem(const Program& program) {
  Problem problem{"small", "", {}, {}, {}};
  const auto numbers = [](const Type& type, double first) {
    Array array;
    for (const Dim& dim : type.axes) array.shape.push_back(dim.name.empty() ? dim.written : 3);
    for (std::size_t i = 0; i < array.count(); ++i) array.data.push_back(first - 0.125 * static_cast<double>(i % 5));
    return array;
  };
  for (const Input& input : program.inputs)
    if (!input.missing && input.gradient)
      problem.inputs[input.name] = numbers(input.type, input.domain == "log_decay" ? -0.25 : 0.75);
  for (const Input& input : program.inputs)
    if (!input.missing && !input.gradient)
      problem.params[input.name] = input.type.kind == Kind::boolean   ? Param(true)
                                   : input.type.kind == Kind::integer ? Param(2L)
                                                                      : Param(std::string("0.75"));
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    problem.cotangents[program.outputs[i]] = numbers(program.body->result_type(i), 0.5);
  return problem;
}

bool is_small(const Program& program) {
  const Sizes sizes = {{"T", 3}, {"S", 3}, {"K", 3}, {"V", 3}, {"D", 3}, {"M", 3}, {"P", 3}};
  double written = 1;
  for (const Input& input : program.inputs)
    for (const Dim& dim : input.type.axes) written = std::max(written, static_cast<double>(dim.written));
  return written < 100 && footprint(*program.body, sizes) < 1e4;
}

/// The fate of a file: it was refused, read, or read and computed.
enum class Fate { refused, read, computed };

Fate fate_of(const std::string& text) {
  try {
    const Program program = read_program(text, "test");
    EXPECT_EQ(canonical(*program.body)->text, program.body->text);
    EXPECT_FALSE(show(program).empty());
    const Mechanism mechanism(program);
    EXPECT_EQ(mechanism.gradient.body->params.size(), mechanism.gradient.inputs.size());
    if (!is_small(mechanism.gradient)) return Fate::read;
    answer_in_doubles(mechanism, small_problem(program));
    return Fate::computed;
  } catch (const InputError& error) {
    const std::string sentence = error.what();
    EXPECT_FALSE(sentence.empty());
    EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
    EXPECT_LT(sentence.size(), 1000U) << sentence;
    return Fate::refused;
  }
}

TEST(DamagedPrograms, AreReadOrRefusedAndWhatIsReadComputes) {
  Damage damage(20261122);
  int count[3] = {0, 0, 0};
  const std::clock_t start = std::clock();
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/mechanisms/json"))
    files.push_back(file.path());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    const std::string text = text_of_file(file);
    EXPECT_EQ(fate_of(text), Fate::computed) << file;
    const J right = J::parse(text);
    for (int i = 0; i < 60; ++i) ++count[static_cast<int>(fate_of(damage(right)))];
  }
  EXPECT_GT(count[static_cast<int>(Fate::refused)], 2000);
  EXPECT_GT(count[static_cast<int>(Fate::computed)], 500);
  RecordProperty("seconds", static_cast<int>((std::clock() - start) / CLOCKS_PER_SEC));
}

}  // namespace
}  // namespace assay::language
