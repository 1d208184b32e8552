#include "oracles/core/lla_engine.hpp"

#include <array>
#include <cstddef>
#include <utility>

#include "oracles/core/head_sums.hpp"
#include "oracles/words/lla.hpp"

namespace assay {
namespace {

/// Multiply-adds of the systems, from which on the engine is faster than packs of heads.
constexpr double engine_work = 1e8;

words::RidgeMode mode_of(LlaOptions::LambdaMode mode) {
  switch (mode) {
    case LlaOptions::LambdaMode::absolute:
      return words::RidgeMode::absolute;
    case LlaOptions::LambdaMode::max:
      return words::RidgeMode::max;
    case LlaOptions::LambdaMode::mass:
      break;
  }
  return words::RidgeMode::mass;
}

bool engine_applies(const LlaOptions& options, const lla::Inputs<double>& in) {
  const double n = in.q.size(0), T = in.k.size(0), K = in.k.size(1);
  return options.solver == LlaOptions::Solver::direct && options.blocks == 1 && n * T * K * K >= engine_work;
}

words::LlaProblem engine_problem(const LlaOptions& options, const lla::Inputs<double>& in) {
  words::LlaProblem p;
  p.queries = static_cast<std::size_t>(in.q.size(0)), p.keys = static_cast<std::size_t>(in.k.size(0));
  p.dim = static_cast<std::size_t>(in.k.size(1)), p.values = static_cast<std::size_t>(in.v.size(1));
  p.q = in.q.data, p.k = in.k.data, p.v = in.v.data, p.lambda = in.lambda.data;
  p.mode = mode_of(options.lambda_mode), p.causal = options.causal;
  p.window = options.has_window ? static_cast<std::size_t>(options.window) : 0;
  p.inverse_bandwidth = words::reciprocal(in.bandwidth());
  return p;
}

/// Number i of `x`.
WordBall number_of(const words::Certified& x, std::size_t i) {
  WordBall b;
  for (int w = 0; w < x.words; ++w) b.word[static_cast<std::size_t>(w)] = x.word[static_cast<std::size_t>(w)][i];
  b.radius = x.bound[i];
  return b;
}

}  // namespace

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<lla, double>& binding, bool gradients,
                                                   const WordEffort& effort) {
  BasicAnswer<WordBall> answer;
  HeadSums sums(binding.heads(), 4);  // rows may have taken more words than asked for
  for (int head = 0; head < binding.heads().own; ++head) {
    const lla::Inputs<double> in = binding.inputs<double>(head);
    if (!engine_applies(binding.options(), in)) return std::nullopt;
    const words::LlaProblem problem = engine_problem(binding.options(), in);
    const words::Effort how{effort.words, effort.threads, words::best_isa()};
    const auto add = [&](BasicArrays<WordBall>& into, const HeadTensor& to, const words::Certified& x) {
      sums.add(into, head, to, x.bound.size(), [&x](std::size_t i) { return number_of(x, i); });
    };
    const int n = in.q.size(0), V = in.v.size(1);
    if (!gradients) {
      add(answer.outputs, {"o", {n, V}}, words::lla_forward(problem, how).o);
      continue;
    }
    const auto cotangent = binding.cotangent<double>(head);
    const words::LlaGradients found = words::lla_backward(problem, cotangent.o.data, how);
    add(answer.outputs, {"o", {n, V}}, found.o);
    const std::array<std::pair<std::string_view, const words::Certified*>, 5> all{{{"q", &found.d_q},
                                                                                   {"k", &found.d_k},
                                                                                   {"v", &found.d_v},
                                                                                   {"lambda", &found.d_lambda},
                                                                                   {"bandwidth", &found.d_bandwidth}}};
    binding.for_each(in, [&](const Field& f, const auto& tensor) {
      for (const auto& [name, x] : all)
        if (name == f.name)
          add(answer.gradients, {name, binding.shape_of(f, tensor), f.heads, binding.split_by_heads(f)}, *x);
    });
  }
  return answer;
}

}  // namespace assay
