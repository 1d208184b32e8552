// Emitted sources, compiled for the host: the evaluator's bits. Needs a compiler when it runs. What no text is emitted
// for is in proptests/transcripts/lab.md.
#include "language/emit/emit.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "language/answers/answer.hpp"
#include "language/answers/by_text.hpp"
#include "language/device/cuda_texts.hpp"
#include "oracles/scalars/emulated.hpp"
#include "proptests/core/bits.hpp"
#include "proptests/core/places.hpp"
#include "proptests/language/programs.hpp"
#include "proptests/language/random_problem.hpp"
#include "reference/core/error.hpp"
#include "reference/core/format.hpp"

namespace assay::language {
namespace {

/// As the prelude of emitted sources has it.
struct Launch {
  const double* const* inputs = nullptr;
  double* const* outputs = nullptr;
  double* workspace = nullptr;
  int length[4] = {0, 0, 0, 0};
  int heads = 1, segment = 1;
};

/// States that are matrices, vectors and numbers; contractions of every kind, sums along tokens, powers; nodes between
/// inputs and scans; numbers that are written; axes of length 0.
constexpr const char* drawn_programs[] = {
    "deltanet",          "rwkv7", "mdn", "falcon2", "retnet", "mlstm", "rg_lru", "mamba2", "preconditioned_kda",
    "falcon3a-pairs-all"};

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

class Emit : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(compiler())) GTEST_SKIP() << compiler() << ": no compiler is here";
  }
};

/// Runs texts of draws on the host; where they are broken, with random numbers that do not know their token.
class HostTexts final : public TextExecutor {
 public:
  explicit HostTexts(bool broken) : broken_(broken) {}

  /// States are kept every so many steps.
  void keep_states_every(int steps) { segment_ = steps; }
  int runs() const { return runs_; }
  std::string name() const override { return "the host"; }
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

  int segment_ = 4, runs_ = 0;
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
  HostTexts texts(false);
  int draws = 0;
  for (const char* name : drawn_programs) {
    const Room& room = program_room(in_library(name));
    const Problem problem = of_several_heads(room);
    for (const Erring& erring : errings) {
      texts.keep_states_every(draws++ % 2 == 0 ? 4 : 64);
      const auto others = drawn_otherwise(program_of(room), problem, erring, texts, 44);
      EXPECT_EQ(others, std::vector<std::string>{}) << name << ", " << name_of(erring.operands) << ' ' << erring.every;
    }
  }
  EXPECT_EQ(texts.runs(), draws);
}

/// A GPU that is the host (proptests/stubs), and what it says.
struct StubGpu {
  std::vector<std::string> compiled, failures;
  std::map<std::string, std::string> kept;
  bool* fails;
  std::string why;
  std::unique_ptr<TextExecutor> texts;

  StubGpu() {
    void* const driver = dlopen(STUB_FOLDER "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    require(driver != nullptr && dlopen(STUB_FOLDER "/libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL) != nullptr, dlerror());
    fails = static_cast<bool*>(dlsym(driver, "stub_fails"));
    const KeptTexts keeps{[this](const std::string& what) {
                            const auto found = kept.find(what);
                            return found == kept.end() ? std::nullopt : std::optional(found->second);
                          },
                          [this](const std::string& what, std::string_view bytes) { kept[what] = bytes; }};
    texts = cuda_texts(keeps,
                       {[this](const std::string& program) { compiled.push_back(program); },
                        [this](const std::string& text) { failures.push_back(text); }},
                       why);
  }
};

TEST_F(Emit, DrawsOnAGpuHaveTheEvaluatorsBits) {
  using Names = std::vector<std::string>;
  StubGpu gpu;
  ASSERT_NE(gpu.texts, nullptr) << gpu.why;
  EXPECT_EQ(gpu.texts->name(), "stub");
  const Room& room = program_room(in_library("gated_deltanet"));
  for (const char* shape : {"1,21,4/2,6,5", "1,150,3,6,5", "1,21,4/2,4,4"})
    for (const Erring& erring : {errings[0], errings[2]})
      EXPECT_EQ(drawn_otherwise(program_of(room), made(room, shape), erring, *gpu.texts, 44), Names{}) << shape;
  EXPECT_EQ(gpu.compiled, Names(2, "gated_deltanet")) << "once for each K and V";
  EXPECT_EQ(gpu.kept.size(), 2U);
  EXPECT_EQ(gpu.failures, Names{});
  // What failed is drawn by the evaluator, and said once.
  *gpu.fails = true;
  for (int draw = 0; draw < 2; ++draw)
    EXPECT_EQ(drawn_otherwise(program_of(room), made(room, "1,21,4/2,6,5"), errings[0], *gpu.texts, 44), Names{});
  *gpu.fails = false;
  EXPECT_EQ(gpu.failures, Names{"the stub fails"});
  EXPECT_FALSE(gpu.texts->is_worth(1e12));
}

/// Random numbers that do not know their token: the bits say so.
TEST_F(Emit, ADrawThatErrsOtherwiseHasOtherBits) {
  HostTexts texts(true);
  const Room& room = program_room(in_library("deltanet"));
  const Problem problem = of_several_heads(room);
  for (const Erring& erring : errings)
    EXPECT_NE(drawn_otherwise(program_of(room), problem, erring, texts, 1), std::vector<std::string>{})
        << name_of(erring.operands);
}

}  // namespace
}  // namespace assay::language
