// Emitted sources on a GPU that is the host: the evaluator's bits. Needs a compiler when it runs. What no text is
// emitted for is in proptests/transcripts/lab.md.
#include "language/emit/emit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "language/answers/answer.hpp"
#include "language/answers/by_text.hpp"
#include "language/device/cuda_texts.hpp"
#include "language/room.hpp"
#include "oracles/scalars/emulated.hpp"
#include "proptests/core/bits.hpp"
#include "proptests/language/programs.hpp"
#include "proptests/language/stub_gpu.hpp"
#include "reference/core/error.hpp"
#include "reference/core/format.hpp"

namespace assay::language {
namespace {

/// States that are matrices, vectors and numbers; contractions of every kind, sums along tokens, powers; nodes between
/// inputs and scans; numbers that are written; axes of length 0. Rows of softmax, of what masks of every kind let see,
/// and logarithms of their sums; products of matrices between inputs and scans; counts; rows that solve.
constexpr const char* drawn_programs[] = {"deltanet",
                                          "rwkv7",
                                          "mdn",
                                          "falcon2",
                                          "retnet",
                                          "mlstm",
                                          "rg_lru",
                                          "mamba2",
                                          "preconditioned_kda",
                                          "falcon3a-pairs-all",
                                          "softmax_attention",
                                          "parallax",
                                          "sink_attention",
                                          "selective_attention",
                                          "native_sparse_attention",
                                          "lla"};

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

using Emit = OnStubGpu;

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

/// Several heads, which share keys where there are any, and more steps than between two states that are kept; inputs
/// that may be missing are.
Problem of_several_heads(const Room& room) {
  const bool shares = program_of(room).program.input("q") != nullptr;
  return made(room, shares ? "1,70,4/2,6,5" : "1,70,4,6,5");
}

using Names = std::vector<std::string>;

/// The GPU, and what it says.
struct TextsOnStub : StubGpu {
  std::vector<std::string> compiled, refused, failures;
  std::string why;
  std::unique_ptr<TextExecutor> texts;

  TextsOnStub() { start(); }
  /// Again, with what was kept.
  void start() {
    texts = cuda_texts(
        keeps(),
        {[this](const std::string& program) { compiled.push_back(program); },
         [this](const std::string& program, const std::string& text) { refused.push_back(program + ": " + text); },
         [this](const std::string& text) { failures.push_back(text); }},
        why);
  }
};

TEST_F(Emit, DrawsOnAGpuHaveTheEvaluatorsBits) {
  TextsOnStub gpu;
  ASSERT_NE(gpu.texts, nullptr) << gpu.why;
  for (std::size_t i = 0; i < std::size(drawn_programs); ++i) {
    const Room& room = program_room(in_library(drawn_programs[i]));
    const Problem problem = of_several_heads(room);
    for (const Erring& erring : {errings[0], errings[1 + i % (std::size(errings) - 1)]})
      EXPECT_EQ(drawn_otherwise(program_of(room), problem, erring, *gpu.texts, 44), Names{})
          << drawn_programs[i] << ", " << name_of(erring.operands) << ' ' << erring.every;
  }
  EXPECT_EQ(gpu.compiled.size(), 2 * std::size(drawn_programs));
  EXPECT_EQ(gpu.failures, Names{});
}

/// For each K and V and way to err once, whatever the heads and tokens are; and not where it was kept.
TEST_F(Emit, TextsAreCompiledOnce) {
  TextsOnStub gpu;
  ASSERT_NE(gpu.texts, nullptr) << gpu.why;
  EXPECT_EQ(gpu.texts->name(), "stub");
  const Room& room = program_room(in_library("gated_deltanet"));
  const auto draw = [&](const char* shape) {
    EXPECT_EQ(drawn_otherwise(program_of(room), made(room, shape), errings[0], *gpu.texts, 44), Names{}) << shape;
  };
  for (const char* shape : {"1,21,4/2,6,5", "1,30,3,6,5", "1,21,4/2,4,4"}) draw(shape);
  EXPECT_EQ(gpu.compiled, Names(2, "gated_deltanet"));
  gpu.start();
  draw("1,9,1,6,5");
  EXPECT_EQ(gpu.compiled.size(), 2U);
  for (auto& [what, bytes] : gpu.kept) bytes = "of another driver";
  gpu.start();
  draw("1,9,1,6,5");
  EXPECT_EQ(gpu.compiled.size(), 3U);
  EXPECT_EQ(gpu.failures, Names{});
}

/// The evaluator draws then, and it is said once.
TEST_F(Emit, AGpuThatFailsIsNotAskedAgain) {
  TextsOnStub gpu;
  ASSERT_NE(gpu.texts, nullptr) << gpu.why;
  *gpu.fails = true;
  const Room& room = program_room(in_library("deltanet"));
  for (int draw = 0; draw < 2; ++draw)
    EXPECT_EQ(drawn_otherwise(program_of(room), of_several_heads(room), errings[0], *gpu.texts, 44), Names{});
  *gpu.fails = false;
  EXPECT_EQ(gpu.failures, Names{"the stub fails"});
  EXPECT_FALSE(gpu.texts->is_worth(1e12));
}

/// Programs that multiply no matrices: rows of softmax between inputs and outputs, and tokens side by side alone.
TEST_F(Emit, TextsHaveWhatTheyCall) {
  constexpr const char* of_rows[][3] = {
      {"rows",
       R"([["const",[],{"value":true}],["expand",[1],{"at":0,"size":"T"}],["expand",[2],{"at":1,"size":"D"}],)"
       R"(["softmax",[0,3]]])",
       "[4]"},
      {"map",
       R"([["scan",[0],{"body":{"nodes":[["exp",[0]]],"params":["real D"],"results":[1]},"carry":0,"reverse":false,"xs":1}],)"
       R"(["get",[1],{"i":0}]])",
       "[2]"}};
  TextsOnStub gpu;
  ASSERT_NE(gpu.texts, nullptr) << gpu.why;
  for (const auto& [name, nodes, results] : of_rows) {
    const Room& room = written(name, nodes, results, "real T D");
    EXPECT_EQ(drawn_otherwise(program_of(room), made(room, "1,70,2,6,5"), errings[0], *gpu.texts, 44), Names{}) << name;
  }
  EXPECT_EQ(gpu.refused, Names{});
  EXPECT_EQ(gpu.compiled, (Names{"rows", "map"}));
}

/// The evaluator draws that program then, and it is said once; others go to the GPU still.
TEST_F(Emit, ATextThatDoesNotCompileIsRefusedAlone) {
  TextsOnStub gpu;
  ASSERT_NE(gpu.texts, nullptr) << gpu.why;
  const Room& room = program_room(in_library("gated_deltanet"));
  const Problem problem = of_several_heads(room);
  Emitted nonsense = emit(program_of(room).gradient);
  nonsense.text += "nonsense";
  const Posed<double> posed(program_of(room), problem);
  for (int draw = 0; draw < 2; ++draw) {
    TextRun run{posed.sizes(), posed.heads(), {}, {}, {}};
    EXPECT_FALSE(gpu.texts->run(nonsense, run));
  }
  EXPECT_EQ(gpu.refused, Names{"gated_deltanet: its compiler says: "});
  EXPECT_EQ(drawn_otherwise(program_of(room), problem, errings[0], *gpu.texts, 44), Names{});
  EXPECT_EQ(gpu.compiled, Names(2, "gated_deltanet"));
  EXPECT_EQ(gpu.failures, Names{});
}

/// Random numbers that do not know their token: the bits say so.
TEST_F(Emit, ADrawThatErrsOtherwiseHasOtherBits) {
  TextsOnStub gpu;
  ASSERT_NE(gpu.texts, nullptr) << gpu.why;
  *gpu.breaks = true;
  const Room& room = program_room(in_library("deltanet"));
  const Problem problem = of_several_heads(room);
  for (const Erring& erring : errings)
    EXPECT_NE(drawn_otherwise(program_of(room), problem, erring, *gpu.texts, 1), Names{}) << name_of(erring.operands);
  *gpu.breaks = false;
}

}  // namespace
}  // namespace assay::language
