// Emitted sources, compiled for the host: the evaluator's bits. Needs a compiler when it runs.
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
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "language/answers/answer.hpp"
#include "language/program/gradient.hpp"
#include "oracles/scalars/emulated.hpp"
#include "proptests/core/places.hpp"
#include "proptests/language/programs.hpp"
#include "reference/core/error.hpp"
#include "reference/core/format.hpp"
#include "reference/core/rounding.hpp"
#include "tools/lab/lab.hpp"

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
constexpr const char* drawn_programs[] = {"deltanet", "kda", "mamba2", "retnet", "mlstm", "rg_lru"};

/// As the prelude of draws has it.
struct Draw {
  std::uint64_t seed = 0;
  double unit = 0, least = 0, sum_unit = 0, sum_least = 0, shift = 0;
  int narrow = 0, every = 0;
};

/// How a draw errs.
struct Erring {
  Format operands;
  bool cut_off, every;

  Draw launched(std::uint64_t seed) const {
    const auto unit = [](Format format) { return std::ldexp(1.0, -info(format).mantissa_bits); };
    const auto least = [](Format format) {  // as PerturbedArithmetic::Grid
      return std::max(info(format).min_positive, info(format).min_exponent == -126 ? 0x1p-126 : 0.0);
    };
    const Format sums = operands == Format::fp64 ? Format::fp64 : Format::fp32;
    const bool narrow = unit(operands) == unit(sums);
    return {.seed = seed,
            .unit = unit(operands),
            .least = least(operands),
            .sum_unit = unit(sums),
            .sum_least = least(sums),
            .shift = cut_off ? -0.5 : 0.0,
            .narrow = narrow ? 1 : 0,
            .every = narrow || every ? 1 : 0};
  }
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

int length_along(const std::string& axis) {
  static const std::map<std::string, int> lengths{{"T", 21}, {"K", 6}, {"V", 5}, {"D", 7}};
  return lengths.at(axis);
}

Array numbers_drawn(const Type& type, double low, double high, RandomBits& random) {
  Array array;
  for (const Dim& dim : type.axes) array.shape.push_back(dim.name.empty() ? dim.written : length_along(dim.name));
  for (std::size_t i = 0; i < array.count(); ++i)
    array.data.push_back(low + (high - low) * static_cast<double>(random.next() >> 48) * 0x1p-16);
  return array;
}

/// One head; every input has a number, so that no default is asked for.
Problem problem_for_emitted(const Program& program, RandomBits& random) {
  Problem problem{"emitted", program.name, {}, {}, {}};
  for (const Input& input : program.inputs) {
    const bool decay = input.domain == "log_decay", positive = input.domain == "ridge" || input.domain == "bandwidth";
    const double low = positive ? 0.25 : -1, high = decay ? 0 : positive ? 2 : 1;
    if (input.type.kind == Kind::integer)
      problem.params[input.name] = 1L;
    else if (input.type.kind == Kind::boolean)
      problem.params[input.name] = true;
    else if (!input.gradient)
      problem.params[input.name] = std::string("0.375");
    else
      problem.inputs[input.name] = numbers_drawn(input.type, low, high, random);
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    problem.cotangents[program.outputs[i]] = numbers_drawn(program.body->result_type(i), -1, 1, random);
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
  explicit Compiled(const std::string& source)
      : folder_(std::filesystem::temp_directory_path() / ("assay_emitted_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "emitted.cpp") << source;
    const std::string of = folder_.string();
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
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  bool is_there() const { return library_ != nullptr; }
  const std::string& message() const { return message_; }
  template <class F>
  F* function(const std::string& name) const {
    return reinterpret_cast<F*>(dlsym(library_, name.c_str()));
  }

 private:
  std::filesystem::path folder_;
  std::string message_;
  void* library_ = nullptr;
};

/// The emitted program's results for the problem, in the order of its outputs; of draws those of the last one, as
/// blocks of one head have them.
std::vector<std::vector<double>> results_of(const Compiled& library, const Emitted& emitted, const Program& gradient,
                                            const Problem& problem, int segment, const std::vector<Draw>& draws = {}) {
  const std::size_t before = draws.empty() ? 0 : draws.size() - 1;
  std::vector<std::vector<double>> inputs, outputs;
  for (const Input& input : gradient.inputs) inputs.push_back(numbers_of(problem, input.name));
  for (std::size_t r = 0; r < gradient.outputs.size(); ++r) {
    std::size_t count = 1;
    for (const Dim& dim : gradient.body->result_type(r).axes)
      count *= static_cast<std::size_t>(dim.name.empty() ? dim.written : length_along(dim.name));
    outputs.emplace_back(count * (before + 1), std::numeric_limits<double>::quiet_NaN());
  }
  std::vector<const double*> from;
  std::vector<double*> to;
  for (const std::vector<double>& one : inputs) from.push_back(one.data());
  for (std::vector<double>& one : outputs) to.push_back(one.data());
  Launch launch{from.data(), to.data(), nullptr, {0, 0, 0, 0}, 1, segment};
  for (std::size_t i = 0; i < emitted.lengths.size(); ++i) launch.length[i] = length_along(emitted.lengths[i]);
  const auto numbers = library.function<long(const Launch*)>(emitted.name + "_workspace");
  const auto evaluate_emitted = library.function<void(const Launch*, int)>(emitted.name);
  require(numbers != nullptr && evaluate_emitted != nullptr, emitted.name, ": the library does not have it");
  std::vector<double> workspace(static_cast<std::size_t>(numbers(&launch)) * (before + 1) + 1,
                                std::numeric_limits<double>::quiet_NaN());
  launch.workspace = workspace.data();
  if (draws.empty())
    evaluate_emitted(&launch, 0);
  else
    library.function<void(const Launch*, const Draw*, int)>(emitted.name)(&launch, draws.data(),
                                                                          static_cast<int>(before));
  for (std::vector<double>& one : outputs)
    one.erase(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(one.size() / (before + 1) * before));
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
    lengths += fmt::format("#define {} {}\n", macro, length_along(macro.substr(std::strlen("ASSAY_"))));
  return lengths + sources;
}

/// How many numbers of a draw are not the evaluator's, in any tensor; `first` says where.
std::size_t count_of_other_bits(const std::vector<std::vector<double>>& outputs, const Mechanism& mechanism,
                                const BasicAnswer<Emulated>& answered, std::string& first) {
  std::size_t others = 0;
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    const std::string& name = mechanism.gradient.outputs[r];
    const std::vector<Emulated>& expected = r < mechanism.program.outputs.size()
                                                ? answered.outputs.at(name).data
                                                : answered.gradients.at(name.substr(2)).data;
    require(outputs[r].size() == expected.size(), name, ": another shape");
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::memcmp(&outputs[r][i], &expected[i].value, sizeof(double)) == 0) continue;
      if (others++ == 0) first = fmt::format("{} [{}]: {} for {}", name, i, outputs[r][i], expected[i].value);
    }
  }
  return others;
}

TEST(Emit, HasTheEvaluatorsBitsInOutputsAndGradients) {
  if (!std::filesystem::exists(compiler())) GTEST_SKIP() << compiler() << ": no compiler is here";
  std::vector<Mechanism> mechanisms;
  std::vector<Emitted> emitted;
  for (const char* name : emitted_programs) {
    mechanisms.emplace_back(load_program(in_library(name)));
    emitted.push_back(emit(mechanisms.back().gradient));
  }
  const Compiled library(source_of(emitted));
  ASSERT_TRUE(library.is_there()) << library.message();
  RandomBits random{43, 0};
  for (std::size_t p = 0; p < mechanisms.size(); ++p) {
    const Program &program = mechanisms[p].program, &gradient = mechanisms[p].gradient;
    const Problem problem = problem_for_emitted(program, random);
    const BasicAnswer<double> answered = answer<double>(Posed<double>(mechanisms[p], problem), true);
    for (const int segment : {4, 64}) {
      const auto outputs = results_of(library, emitted[p], gradient, problem, segment);
      for (std::size_t r = 0; r < outputs.size(); ++r) {
        const std::string& name = gradient.outputs[r];
        const std::vector<double>& expected =
            r < program.outputs.size() ? answered.outputs.at(name).data : answered.gradients.at(name.substr(2)).data;
        ASSERT_EQ(outputs[r].size(), expected.size()) << program.name << ' ' << name;
        for (std::size_t i = 0; i < expected.size(); ++i)
          ASSERT_EQ(std::memcmp(&outputs[r][i], &expected[i], sizeof(double)), 0)
              << program.name << ' ' << name << " [" << i << "]: " << outputs[r][i] << " for " << expected[i];
      }
    }
  }
}

TEST(Emit, DrawsHaveTheEvaluatorsBits) {
  if (!std::filesystem::exists(compiler())) GTEST_SKIP() << compiler() << ": no compiler is here";
  std::vector<Mechanism> mechanisms;
  std::vector<Emitted> emitted;
  for (const char* name : drawn_programs) {
    mechanisms.emplace_back(load_program(in_library(name)));
    emitted.push_back(emit(mechanisms.back().gradient, true));
  }
  const Compiled library(source_of(emitted));
  ASSERT_TRUE(library.is_there()) << library.message();
  RandomBits random{44, 0};
  for (std::size_t p = 0; p < mechanisms.size(); ++p) {
    const Problem problem = problem_for_emitted(mechanisms[p].program, random);
    for (const Erring& erring : errings) {
      const std::uint64_t seed = random.next();
      const auto answered = erring.evaluated(mechanisms[p], problem, seed);
      for (const int segment : {4, 64}) {
        const std::vector<Draw> draws{erring.launched(seed + 1), erring.launched(seed)};
        const auto outputs = results_of(library, emitted[p], mechanisms[p].gradient, problem, segment, draws);
        std::string first;
        EXPECT_EQ(count_of_other_bits(outputs, mechanisms[p], answered, first), 0U)
            << mechanisms[p].program.name << ", " << name_of(erring.operands) << ' ' << erring.every << ": " << first;
      }
    }
  }
}

/// Random numbers that do not know their token: the bits say so.
TEST(Emit, ADrawThatErrsOtherwiseHasOtherBits) {
  if (!std::filesystem::exists(compiler())) GTEST_SKIP() << compiler() << ": no compiler is here";
  const Mechanism mechanism(load_program(in_library("deltanet")));
  Emitted emitted = emit(mechanism.gradient, true);
  const std::string token = "(unsigned)t, ";
  std::size_t broken = 0;
  for (std::size_t at = emitted.text.find(token); at != std::string::npos; at = emitted.text.find(token, at), ++broken)
    emitted.text.replace(at, token.size(), "0, ");
  ASSERT_GT(broken, 0U);
  const Compiled library(source_of({emitted}));
  ASSERT_TRUE(library.is_there()) << library.message();
  RandomBits random{45, 0};
  const Problem problem = problem_for_emitted(mechanism.program, random);
  for (const Erring& erring : errings) {
    const auto outputs = results_of(library, emitted, mechanism.gradient, problem, 4, {erring.launched(1)});
    std::string first;
    EXPECT_GT(count_of_other_bits(outputs, mechanism, erring.evaluated(mechanism, problem, 1), first), 0U)
        << name_of(erring.operands);
  }
}

TEST(Emit, RefusesWithTheNode) {
  for (const char* name : {"softmax_attention", "mesanet", "ttt_linear"}) {
    try {
      emit(gradient_of(load_program(in_library(name))));
      FAIL() << name << " is emitted";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(std::string(name) + ": scan "), std::string::npos) << error.what();
    }
  }
}

TEST(Emit, IsAVerb) {
  std::ostringstream out, err;
  Console console{out, err};
  const std::string file = in_library("gated_deltanet");
  EXPECT_EQ(assay::run(lab_command_line(), {"emit", file}, console), exit_passed) << err.str();
  EXPECT_EQ(out.str(), emit(load_program(file)).text);
  out.str("");
  EXPECT_EQ(assay::run(lab_command_line(), {"emit", file, "--draws"}, console), exit_passed) << err.str();
  EXPECT_EQ(out.str(), emit(load_program(file), true).text);
  EXPECT_EQ(assay::run(lab_command_line(), {"emit", in_library("softmax_attention")}, console), exit_usage);
}

}  // namespace
}  // namespace assay::language
