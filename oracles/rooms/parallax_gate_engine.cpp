// Large problems of gated Parallax: the engine of Parallax with a probe in words.
#include <utility>

#include "oracles/core/engine_heads.hpp"
#include "oracles/core/in_words_body.hpp"
#include "oracles/rooms/engines.hpp"
#include "reference/parallax_gate.hpp"

namespace assay {
namespace {

/// One pack of heads after another: the probe and the gate, Parallax head by head, and what the probe's gradient passes
/// on.
template <int W>
class GatedHeads {
  using S = Pack<W>;

 public:
  GatedHeads(const Binding<parallax_gate, double>& binding, bool gradients, int threads)
      : binding_(binding),
        gradients_(gradients),
        how_{W, threads, words::best_isa()},
        sums_(binding.heads(), 4, threads) {}

  /// False where the engine is not for this problem.
  bool add(const detail::PackedHeads& heads) {
    const auto in = detail::zipped_inputs<S>(binding_, heads);
    detail::require_known(in.rho.data);
    Tensor<S, 2> d_rho(in.rho.extent);
    for (int lane = 0; lane < heads.count; ++lane)
      if (!add_core(in.rho, heads.head[static_cast<std::size_t>(lane)], lane, d_rho)) return false;
    add_outputs(in, heads);
    if (gradients_) add_gradients(in, std::move(d_rho), heads);
    return true;
  }

  BasicAnswer<WordBall> take() { return std::move(answer_); }

 private:
  /// Parallax along lane `lane` of `rho`; the probe's gradient becomes that lane of `d_rho`.
  bool add_core(const Tensor<S, 2>& rho, int head, int lane, Tensor<S, 2>& d_rho) {
    const auto in = binding_.template given_inputs<double>(head);
    if (!engine_pays(in)) return false;
    words::Certified probe(W, static_cast<std::size_t>(rho.size(0)), static_cast<std::size_t>(rho.size(1)));
    for (std::size_t i = 0; i < rho.data.size(); ++i) {
      const WordBall x = rho.data[i].number(lane);
      for (std::size_t w = 0; w < W; ++w) probe.word[w][i] = x.word[w];
      probe.bound[i] = x.radius;
    }
    words::LlaProblem problem = engine_problem(binding_.options(), in);
    problem.slope = words::Slope::given, problem.probe_in_words = &probe;
    words::LlaGradients found = engine_head(binding_, head, problem, gradients_, how_);
    const words::Certified d_probe = std::exchange(found.d_probe, {});
    add_found<parallax_gate>(binding_, in, head, found, sums_, answer_);
    sums_.add_waiting();
    for (std::size_t i = 0; i < d_probe.bound.size(); ++i) d_rho.data[i].take(lane, S(number_of(d_probe, i)));
    return true;
  }

  void add_outputs(const parallax_gate::Inputs<S>& in, const detail::PackedHeads& heads) {
    const int n = in.q.size(0), K = in.q.size(1);
    Tensor<S, 1> gate(n);
    for (int i = 0; i < n; ++i) gate(i) = sigmoid(parallax_gate::logit(in, i));
    add(answer_.outputs, heads, {"rho", {n, K}}, in.rho.data);
    add(answer_.outputs, heads, {"gate", {n}}, gate.data);
  }

  /// With r_i = W_r x_i and the gate's slope s_i = gate_i (1 - gate_i), of which 1 - sigmoid(z) = sigmoid(-z):
  ///   dgate_i = drho_i.r_i,  dW_r = sum_i gate_i drho_i x_i^T,  dw_g = sum_i dgate_i s_i x_i
  ///   dx_i = gate_i W_r^T drho_i + dgate_i s_i w_g
  void add_gradients(const parallax_gate::Inputs<S>& in, Tensor<S, 2> d_rho, const detail::PackedHeads& heads) {
    const auto cotangent = detail::zipped_cotangent<S>(binding_, heads);
    parallax_gate::Inputs<S> d;
    d.x = Tensor<S, 2>(in.x.extent), d.w_r = Tensor<S, 2>(in.w_r.extent), d.w_g = Tensor<S, 1>(in.w_g.extent);
    d.rho = std::move(d_rho);
    for (std::size_t i = 0; i < d.rho.data.size(); ++i) d.rho.data[i] += cotangent.rho.data[i];
    for (int i = 0; i < in.q.size(0); ++i) {
      const S z = parallax_gate::logit(in, i), gate = sigmoid(z), slope = gate * sigmoid(S(-z));
      S dgate = cotangent.gate(i);
      for (int b = 0; b < in.q.size(1); ++b) {
        const S& drho = d.rho(i, b);
        dgate += drho * parallax_gate::raw_probe(in, i, b);
        add_scaled(line(d.w_r, b), S(gate * drho), line(in.x, i));
        add_scaled(line(d.x, i), S(gate * drho), line(in.w_r, b));
      }
      const S dz = dgate * slope;
      add_scaled(line(d.w_g.data), dz, line(in.x, i));
      add_scaled(line(d.x, i), dz, line(in.w_g.data));
    }
    binding_.for_each(d, [&](const Field& f, const auto& tensor) {
      if (f.name == "x" || f.name == "w_r" || f.name == "w_g" || f.name == "rho")
        add(answer_.gradients, heads, {f.name, binding_.shape_of(f, tensor), f.heads, binding_.split_by_heads(f)},
            tensor.data);
    });
  }

  void add(BasicArrays<WordBall>& into, const detail::PackedHeads& heads, const HeadTensor& tensor,
           const std::vector<S>& numbers) {
    detail::require_known(numbers);
    for (int lane = 0; lane < heads.count; ++lane)
      sums_.add(into, heads.head[static_cast<std::size_t>(lane)], tensor, numbers.size(),
                [&](std::size_t i) { return numbers[i].number(lane); });
  }

  const Binding<parallax_gate, double>& binding_;
  bool gradients_;
  words::Effort how_;
  HeadSums sums_;
  BasicAnswer<WordBall> answer_;
};

template <int W>
std::optional<BasicAnswer<WordBall>> answer_of(const Binding<parallax_gate, double>& binding, bool gradients,
                                               int threads) {
  GatedHeads<W> all(binding, gradients, threads);
  for (const detail::PackedHeads& heads : detail::PackedHeads::of(binding.heads().own))
    if (!all.add(heads)) return std::nullopt;
  std::optional answer(all.take());
  return all_bounded(*answer) ? answer : std::nullopt;
}

}  // namespace

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<parallax_gate, double>& binding, bool gradients,
                                                   const WordEffort& effort) try {
  return with_words(effort.words, [&]<int W>() { return answer_of<W>(binding, gradients, effort.threads); });
} catch (const InputError&) {
  return std::nullopt;
} catch (const Undecided&) {
  return std::nullopt;
}

}  // namespace assay
