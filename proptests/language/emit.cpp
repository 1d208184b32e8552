// Emitted sources, compiled for the host: the evaluator's bits. Needs a compiler when it runs. What no text is emitted
// for is in proptests/transcripts/lab.md.
#include "language/emit/emit.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "language/answers/answer.hpp"
#include "language/answers/by_text.hpp"
#include "language/program/gradient.hpp"
#include "oracles/scalars/emulated.hpp"
#include "proptests/core/bits.hpp"
#include "proptests/core/places.hpp"
#include "proptests/language/programs.hpp"
#include "proptests/language/random_problem.hpp"
#include "reference/core/error.hpp"
#include "reference/core/format.hpp"
#include "reference/core/rounding.hpp"

namespace assay::language {
namespace {

/// States that are matrices, vectors and numbers; nodes between inputs and scans; all functions but tanh.
constexpr const char* emitted_programs[] = {"deltanet", "gated_deltanet", "kda",    "rwkv7", "mdn",
                                            "falcon1",  "falcon2",        "retnet", "mlstm", "rg_lru"};

/// As the prelude of emitted sources has it.
struct Launch {
  const double* const* inputs = nullptr;
  double* const* outputs = nullptr;
  double* workspace = nullptr;
  int length[4] = {0, 0, 0, 0};
  int heads = 1, segment = 1;
};

/// Contractions of every kind, sums along tokens, powers.
constexpr const char* drawn_programs[] = {"deltanet",          "kda", "mamba2", "retnet", "mlstm", "rg_lru",
                                          "preconditioned_kda"};

/// How a draw errs.
struct Erring {
  Format operands;
  bool cut_off, every;

  BasicAnswer<Emulated> evaluated(const Mechanism& mechanism, const Problem& problem, std::uint64_t seed) const {
    using Operands = PerturbedArithmetic::Operands;
    PerturbedArithmetic draw(operands, cut_off ? Operands::cut_off : Operands::nearest, seed);
    if (every) draw.round_every_operation();
    return answer<Emulated>(Posed<double>(mechanism, problem), true);
  }
};
constexpr Erring errings[] = {{Format::bf16, false, false},
                              {Format::bf16, false, true},
                              {Format::tf32, true, false},
                              {Format::fp32, false, false},
                              {Format::fp64, false, false}};

const std::map<std::string, int> lengths_of_axes = {{"T", 21}, {"K", 6}, {"V", 5}, {"D", 7}};

/// One head; every input has a number, so that no default is asked for.
Problem problem_for_emitted(const Program& program, RandomBits& random) {
  Problem problem{"emitted", program.name, {}, {}, {}};
  for (const Input& input : program.inputs) {
    if (input.type.kind == Kind::integer)
      problem.params[input.name] = 1L;
    else if (input.type.kind == Kind::boolean)
      problem.params[input.name] = true;
    else if (!input.gradient)
      problem.params[input.name] = std::string("0.375");
    else
      problem.inputs[input.name] = numbers_for(input, lengths_of_axes, random);
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    problem.cotangents[program.outputs[i]] =
        numbers_drawn(program.body->result_type(i), lengths_of_axes, -1, 1, random);
  return problem;
}

/// The numbers of an input of a program of gradients.
std::vector<double> numbers_of(const Problem& problem, const std::string& name) {
  if (const auto array = problem.inputs.find(name); array != problem.inputs.end()) return array->second.data;
  const auto param = problem.params.find(name);
  if (param == problem.params.end()) return problem.cotangents.at(name.substr(2)).data;
  if (const bool* truth = std::get_if<bool>(&param->second)) return {*truth ? 1.0 : 0.0};
  if (const long* number = std::get_if<long>(&param->second)) return {static_cast<double>(*number)};
  return {std::stod(std::get<std::string>(param->second))};
}

/// A source as a library, for as long as it lives.
class Compiled {
 public:
  explicit Compiled(const std::string& source) {
    const std::string of = folder_.path().string();
    std::ofstream(of + "/emitted.cpp") << source;
    const std::string command = fmt::format(
        "\"{0}\" -std=c++20 -O1 -ffp-contract=off -shared -fPIC -o \"{1}/emitted.so\" \"{1}/emitted.cpp\" "
        "2> \"{1}/log\"",
        compiler(), of);
    if (std::system(command.c_str()) == 0) library_ = dlopen((of + "/emitted.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) message_ = text_of_file(of + "/log");
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    if (library_ != nullptr) dlclose(library_);
  }

  bool is_there() const { return library_ != nullptr; }
  const std::string& message() const { return message_; }
  template <class F>
  F* function(const std::string& name) const {
    return reinterpret_cast<F*>(dlsym(library_, name.c_str()));
  }

 private:
  PrivateFolder folder_;
  std::string message_;
  void* library_ = nullptr;
};

/// The emitted program's results for the problem, in the order of its outputs.
std::vector<std::vector<double>> results_of(const Compiled& library, const Emitted& emitted, const Program& gradient,
                                            const Problem& problem, int segment) {
  std::vector<std::vector<double>> inputs, outputs;
  for (const Input& input : gradient.inputs) inputs.push_back(numbers_of(problem, input.name));
  for (std::size_t r = 0; r < gradient.outputs.size(); ++r) {
    std::size_t count = 1;
    for (const Dim& dim : gradient.body->result_type(r).axes)
      count *= static_cast<std::size_t>(dim.name.empty() ? dim.written : lengths_of_axes.at(dim.name));
    outputs.emplace_back(count, std::numeric_limits<double>::quiet_NaN());
  }
  std::vector<const double*> from;
  std::vector<double*> to;
  for (const std::vector<double>& one : inputs) from.push_back(one.data());
  for (std::vector<double>& one : outputs) to.push_back(one.data());
  Launch launch{from.data(), to.data(), nullptr, {0, 0, 0, 0}, 1, segment};
  for (std::size_t i = 0; i < emitted.lengths.size(); ++i) launch.length[i] = lengths_of_axes.at(emitted.lengths[i]);
  const auto numbers = library.function<long(const Launch*)>(emitted.name + "_workspace");
  const auto evaluate_emitted = library.function<void(const Launch*, int)>(emitted.name);
  require(numbers != nullptr && evaluate_emitted != nullptr, emitted.name, ": the library does not have it");
  std::vector<double> workspace(static_cast<std::size_t>(numbers(&launch)) + 1,
                                std::numeric_limits<double>::quiet_NaN());
  launch.workspace = workspace.data();
  evaluate_emitted(&launch, 0);
  return outputs;
}

/// The texts, behind the lengths of their axes.
std::string source_of(const std::vector<Emitted>& emitted) {
  std::set<std::string> macros;
  std::string sources, lengths;
  for (const Emitted& one : emitted) {
    macros.insert(one.macros.begin(), one.macros.end());
    sources += one.text;
  }
  for (const std::string& macro : macros)
    lengths += fmt::format("#define {} {}\n", macro, lengths_of_axes.at(macro.substr(std::strlen("ASSAY_"))));
  return lengths + sources;
}

double number_of(double x) { return x; }
/// How many numbers are not the evaluator's, in any tensor; `first` says where.
template <class S>
std::size_t count_of_other_bits(const std::vector<std::vector<double>>& outputs, const Mechanism& mechanism,
                                const BasicAnswer<S>& answered, std::string& first) {
  std::size_t others = 0;
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    const std::string& name = mechanism.gradient.outputs[r];
    const std::vector<S>& expected = r < mechanism.program.outputs.size() ? answered.outputs.at(name).data
                                                                          : answered.gradients.at(name.substr(2)).data;
    require(outputs[r].size() == expected.size(), name, ": another shape");
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double right = number_of(expected[i]);
      if (same_bits(outputs[r][i], right)) continue;
      if (others++ == 0) first = fmt::format("{} [{}]: {} for {}", name, i, outputs[r][i], right);
    }
  }
  return others;
}

/// Programs, their texts, and these compiled.
struct Emission {
  std::vector<Mechanism> mechanisms;
  std::vector<Emitted> emitted;
  Compiled library;

  explicit Emission(std::span<const char* const> names)
      : mechanisms(read(names)), emitted(texts(mechanisms)), library(source_of(emitted)) {}

 private:
  static std::vector<Mechanism> read(std::span<const char* const> names) {
    std::vector<Mechanism> list;
    for (const char* name : names) list.emplace_back(load_program(in_library(name)));
    return list;
  }
  static std::vector<Emitted> texts(const std::vector<Mechanism>& mechanisms) {
    std::vector<Emitted> list;
    for (const Mechanism& mechanism : mechanisms) list.push_back(emit(mechanism.gradient));
    return list;
  }
};

class Emit : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(compiler())) GTEST_SKIP() << compiler() << ": no compiler is here";
  }
};

TEST_F(Emit, HasTheEvaluatorsBitsInOutputsAndGradients) {
  const Emission all(emitted_programs);
  ASSERT_TRUE(all.library.is_there()) << all.library.message();
  RandomBits random{43, 0};
  for (std::size_t p = 0; p < all.mechanisms.size(); ++p) {
    const Mechanism& mechanism = all.mechanisms[p];
    const Problem problem = problem_for_emitted(mechanism.program, random);
    const BasicAnswer<double> answered = answer<double>(Posed<double>(mechanism, problem), true);
    for (const int segment : {4, 64}) {
      const auto outputs = results_of(all.library, all.emitted[p], mechanism.gradient, problem, segment);
      std::string first;
      EXPECT_EQ(count_of_other_bits(outputs, mechanism, answered, first), 0U)
          << mechanism.program.name << ": " << first;
    }
  }
}

/// Runs texts of draws on the host; where they are broken, with random numbers that do not know their token.
class HostTexts final : public TextExecutor {
 public:
  HostTexts(int segment, bool broken) : segment_(segment), broken_(broken) {}
  int runs() const { return runs_; }
  bool is_worth(double) override { return true; }
  bool run(const Emitted& text, TextRun& run) override {
    const Compiled& library = compiled(text, run.sizes);
    if (!library.is_there()) throw std::runtime_error(library.message());
    std::vector<const double*> from;
    std::vector<double*> to;
    for (const std::vector<double>& one : run.inputs) from.push_back(one.data());
    for (std::vector<double>& one : run.outputs) to.push_back(one.data());
    Launch launch{from.data(), to.data(), nullptr, {0, 0, 0, 0}, run.heads, segment_};
    for (std::size_t i = 0; i < text.lengths.size(); ++i) launch.length[i] = extent_of({text.lengths[i], 0}, run.sizes);
    const auto numbers =
        static_cast<std::size_t>(library.function<long(const Launch*)>(text.name + "_workspace")(&launch));
    std::vector<double> workspace(numbers * static_cast<std::size_t>(run.heads) + 1,
                                  std::numeric_limits<double>::quiet_NaN());
    launch.workspace = workspace.data();
    const auto head = library.function<void(const Launch*, const PerturbedArithmetic::Numbers*, int)>(text.name);
    for (int h = 0; h < run.heads; ++h) head(&launch, &run.draw, h);
    ++runs_;
    return true;
  }

 private:
  const Compiled& compiled(const Emitted& text, const Sizes& sizes) {
    std::string source;
    for (const std::string& macro : text.macros)
      source += fmt::format("#define {} {}\n", macro, extent_of({macro.substr(std::strlen("ASSAY_")), 0}, sizes));
    source += text.text;
    const std::string token = "(unsigned)t, ";
    for (std::size_t at = source.find(token); broken_ && at != std::string::npos; at = source.find(token, at))
      source.replace(at, token.size(), "0, ");
    std::unique_ptr<Compiled>& library = libraries_[source];
    if (library == nullptr) library = std::make_unique<Compiled>(source);
    return *library;
  }

  int segment_, runs_ = 0;
  bool broken_;
  std::map<std::string, std::unique_ptr<Compiled>> libraries_;
};

/// Tensors of which a draw by a text has other bits than the evaluator's.
std::vector<std::string> drawn_otherwise(const Mechanism& mechanism, const Problem& problem, const Erring& erring,
                                         TextExecutor& texts, std::uint64_t seed) {
  draw_by_text(&texts);
  const auto by_text = erring.evaluated(mechanism, problem, seed);
  draw_by_text(nullptr);
  const auto by_evaluator = erring.evaluated(mechanism, problem, seed);
  std::vector<std::string> others;
  for (const auto& [found, right] :
       {std::pair(&by_text.outputs, &by_evaluator.outputs), {&by_text.gradients, &by_evaluator.gradients}})
    for (const auto& [name, array] : *right)
      if (!std::ranges::equal(array.data, found->at(name).data,
                              [](const Emulated& a, const Emulated& b) { return same_bits(a.value, b.value); }))
        others.push_back(name);
  return others;
}

/// Several heads, which share keys where there are any; inputs that may be missing are.
Problem of_several_heads(const Room& room) {
  const bool shares = program_of(room).program.input("q") != nullptr;
  return made(room, shares ? "1,21,4/2,6,5" : "1,21,4,6,5");
}

TEST_F(Emit, DrawsByTextHaveTheEvaluatorsBits) {
  for (const int segment : {4, 64}) {
    HostTexts texts(segment, false);
    int draws = 0;
    for (const char* name : drawn_programs) {
      const Room& room = program_room(in_library(name));
      const Problem problem = of_several_heads(room);
      for (const Erring& erring : errings) {
        const auto others = drawn_otherwise(program_of(room), problem, erring, texts, 44);
        EXPECT_EQ(others, std::vector<std::string>{})
            << name << ", " << name_of(erring.operands) << ' ' << erring.every;
        ++draws;
      }
    }
    EXPECT_EQ(texts.runs(), draws);
  }
}

TEST_F(Emit, ALLTEMP) {
  HostTexts texts(4, false);
  int done = 0, wrong = 0, none = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/mechanisms/json")) {
    const Room& room = program_room(file.path().string());
    Problem problem;
    try {
      problem = of_several_heads(room);
    } catch (const std::exception& e) {
      printf("%s: NO PROBLEM %s\n", room.name.data(), e.what());
      continue;
    }
    const int before = texts.runs();
    try {
      for (const Erring& erring : errings) {
        const auto others = drawn_otherwise(program_of(room), problem, erring, texts, 44);
        if (texts.runs() == before) {
          ++none;
          printf("NONE %s\n", room.name.data());
          break;
        }
        if (!others.empty()) {
          ++wrong;
          printf("WRONG %s %s:", room.name.data(), std::string(name_of(erring.operands)).c_str());
          for (auto& o : others) printf(" %s", o.c_str());
          printf("\n");
        } else
          ++done;
      }
    } catch (const std::exception& e) {
      printf("ERROR %s: %.600s\n", room.name.data(), e.what());
    }
  }
  printf("done %d wrong %d none %d\n", done, wrong, none);
}

/// Random numbers that do not know their token: the bits say so.
TEST_F(Emit, ADrawThatErrsOtherwiseHasOtherBits) {
  HostTexts texts(4, true);
  const Room& room = program_room(in_library("deltanet"));
  const Problem problem = of_several_heads(room);
  for (const Erring& erring : errings)
    EXPECT_NE(drawn_otherwise(program_of(room), problem, erring, texts, 1), std::vector<std::string>{})
        << name_of(erring.operands);
}

}  // namespace
}  // namespace assay::language
