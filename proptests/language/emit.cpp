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
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "language/answers/answer.hpp"
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
      count *= static_cast<std::size_t>(dim.name.empty() ? dim.written : lengths_of_axes.at(dim.name));
    outputs.emplace_back(count * (before + 1), std::numeric_limits<double>::quiet_NaN());
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
    lengths += fmt::format("#define {} {}\n", macro, lengths_of_axes.at(macro.substr(std::strlen("ASSAY_"))));
  return lengths + sources;
}

double number_of(double x) { return x; }
double number_of(const Emulated& x) { return x.value; }
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

  Emission(std::span<const char* const> names, bool of_draws)
      : mechanisms(read(names)), emitted(texts(mechanisms, of_draws)), library(source_of(emitted)) {}

 private:
  static std::vector<Mechanism> read(std::span<const char* const> names) {
    std::vector<Mechanism> list;
    for (const char* name : names) list.emplace_back(load_program(in_library(name)));
    return list;
  }
  static std::vector<Emitted> texts(const std::vector<Mechanism>& mechanisms, bool of_draws) {
    std::vector<Emitted> list;
    for (const Mechanism& mechanism : mechanisms) list.push_back(emit(mechanism.gradient, of_draws));
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
  const Emission all(emitted_programs, false);
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

TEST_F(Emit, DrawsHaveTheEvaluatorsBits) {
  const Emission all(drawn_programs, true);
  ASSERT_TRUE(all.library.is_there()) << all.library.message();
  RandomBits random{44, 0};
  for (std::size_t p = 0; p < all.mechanisms.size(); ++p) {
    const Mechanism& mechanism = all.mechanisms[p];
    const Problem problem = problem_for_emitted(mechanism.program, random);
    for (const Erring& erring : errings) {
      const std::uint64_t seed = random.next();
      const auto answered = erring.evaluated(mechanism, problem, seed);
      for (const int segment : {4, 64}) {
        const std::vector<Draw> draws{erring.launched(seed + 1), erring.launched(seed)};
        const auto outputs = results_of(all.library, all.emitted[p], mechanism.gradient, problem, segment, draws);
        std::string first;
        EXPECT_EQ(count_of_other_bits(outputs, mechanism, answered, first), 0U)
            << mechanism.program.name << ", " << name_of(erring.operands) << ' ' << erring.every << ": " << first;
      }
    }
  }
}

/// Random numbers that do not know their token: the bits say so.
TEST_F(Emit, ADrawThatErrsOtherwiseHasOtherBits) {
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

}  // namespace
}  // namespace assay::language
