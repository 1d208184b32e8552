#pragma once
// Shared parts of the FALCON rooms (falcon-family.md sections 1 and 2): which pair a step writes, how large the step is
// and how much of the state it keeps, and the window of the mini-batch rooms.
#include <algorithm>
#include <string_view>
#include <vector>

#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

// ---- which pair a step writes ------------------------------------------------------

enum class Alignment { same_step, next_latent };

/// Step t writes the pair (x_t, v_t), x_t = k_t or, under next-latent alignment, k_{t-1}: there the first row of a
/// sequence has no previous key and is a no-op, and that of a continuation takes the key carried over.
struct WriteOptions {
  Alignment alignment = Alignment::next_latent;
  bool sequence_start = true;

  void read(OptionReader& reader) {
    reader("alignment", alignment, {{"same_step", Alignment::same_step}, {"next_latent", Alignment::next_latent}});
    reader("sequence_start", sequence_start);
  }
  bool shifted() const { return alignment == Alignment::next_latent; }
  /// The first row that writes.
  int first_row() const { return shifted() && sequence_start ? 1 : 0; }
  bool writes(int t) const { return t >= first_row(); }
};

template <class In>
void check_carried_key(const WriteOptions& options, const In& in) {
  const bool continuation = options.shifted() && !options.sequence_start;
  require_domain(!continuation || !in.k_carry.empty(), -1,
                 "k_carry: a next_latent continuation (sequence_start false) needs it");
  require_domain(continuation || in.k_carry.empty(), -1,
                 "k_carry: only a next_latent continuation (sequence_start false) takes it");
}

/// Component i of the write feature x_t of a row that writes: of the inputs, or of their gradients.
template <class In>
auto& write_feature(const WriteOptions& options, In& in, int t, int i) {
  if (!options.shifted()) return in.k(t, i);
  return t > 0 ? in.k(t - 1, i) : in.k_carry(i);
}

/// E = |x_t|^2.
template <class In>
typename In::scalar energy_of(const WriteOptions& options, const In& in, int t) {
  using S = typename In::scalar;
  S energy = S(0);
  for (int i = 0; i < in.k.size(1); ++i) energy += write_feature(options, in, t, i) * write_feature(options, in, t, i);
  return energy;
}

/// Inputs of the same extents, all zero: where gradients accumulate.
template <class In>
In zero_like(const In& in) {
  using S = typename In::scalar;
  In zero = in;
  In::each(zero, [](const auto&, auto& tensor) { std::fill(tensor.data.begin(), tensor.data.end(), S(0)); });
  return zero;
}

// ---- the gain and the decay --------------------------------------------------------

/// The ridge is lambda, or lambda E: with the gradient through that E, or, detached, with E held there.
enum class RidgeCoupling { raw, live, detach };

struct GainOptions : WriteOptions {
  RidgeCoupling ridge_coupling = RidgeCoupling::raw;

  void read(OptionReader& reader) {
    WriteOptions::read(reader);
    reader("ridge_coupling", ridge_coupling, {{"live", RidgeCoupling::live}, {"detach", RidgeCoupling::detach}});
  }
};

/// The options of a room whose step decays by its ridge.
struct RidgeOptions : GainOptions {
  static constexpr std::string_view names[] = {"alignment", "sequence_start", "ridge_coupling"};
  static std::vector<Params> variants() {
    return {{},
            {{"sequence_start", false}, {"decay_floor", "0.875"}},
            {{"ridge_coupling", "live"}},
            {{"ridge_coupling", "detach"}, {"decay_floor", "0.5"}},
            {{"alignment", "same_step"}}};
  }

  static RidgeOptions read(const Params& params) {
    RidgeOptions o;
    OptionReader reader(params);
    o.GainOptions::read(reader);
    return o;
  }
};

/// `x` as a constant. Dual numbers have their own, which drops the slope.
template <class S>
S stop_gradient(const S& x) {
  return x;
}

/// D = E + ridge + eps, which the gains of a step share.
template <class S>
struct Denominator {
  S energy, ridge, value;
};

template <class S>
Denominator<S> denominator_of(RidgeCoupling coupling, const S& energy, const S& lambda, const S& eps) {
  const S multiplier = coupling == RidgeCoupling::detach ? stop_gradient(energy) : energy;
  const S ridge = coupling == RidgeCoupling::raw ? lambda : lambda * multiplier;
  return {energy, ridge, energy + ridge + eps};
}

/// That of a step which writes one pair.
template <class In>
Denominator<typename In::scalar> denominator_at(const GainOptions& options, const In& in, int t) {
  return denominator_of(options.ridge_coupling, energy_of(options, in, t), in.lambda(t), in.eps());
}

/// eta = beta / D and gamma = 1 - alpha, alpha = eta ridge, which a decay floor caps at 1 - floor.
template <class S>
struct Gain {
  S eta, gamma;
  bool decay_follows;  ///< alpha passes its gradient on: neither capped, a tie included, nor part of a no-op
};

/// The gain of a step; D = 0 makes it a no-op. `decay_floor` may be empty.
template <class S>
Gain<S> gain_of(const S& beta, const Denominator<S>& D, const Tensor<S, 0>& decay_floor) {
  if (D.value == S(0)) return {S(0), S(1), false};
  const S eta = beta / D.value, alpha = eta * D.ridge;
  if (!decay_floor.empty() && alpha >= S(1) - decay_floor()) return {eta, decay_floor(), false};
  return {eta, S(1) - alpha, true};
}

/// The way back from a step's gains to beta, E and lambda. Every gain is added first, then E and lambda are read off.
template <class S>
class GainAdjoint {
 public:
  GainAdjoint(RidgeCoupling coupling, const Denominator<S>& D) : coupling_(coupling), denominator_(D) {}

  /// dbeta from deta and dgamma:  deta += m ridge dalpha,  dridge += m eta dalpha,  dalpha = -dgamma;
  /// dbeta = deta / D,  dD = -deta eta / D
  S add(const Gain<S>& gain, const S& d_eta, const S& d_gamma) {
    if (denominator_.value == S(0)) return S(0);
    const S d_alpha = gain.decay_follows ? S(-d_gamma) : S(0);
    const S total = d_eta + denominator_.ridge * d_alpha;
    d_ridge_ += gain.eta * d_alpha;
    d_denominator_ -= total * gain.eta / denominator_.value;
    return total / denominator_.value;
  }
  S energy(const S& lambda) const {
    return coupling_ == RidgeCoupling::live ? S(d_denominator_ + (d_ridge_ + d_denominator_) * lambda) : d_denominator_;
  }
  S lambda() const {
    return coupling_ == RidgeCoupling::raw ? S(d_ridge_ + d_denominator_)
                                           : S((d_ridge_ + d_denominator_) * denominator_.energy);
  }

 private:
  RidgeCoupling coupling_;
  Denominator<S> denominator_;
  S d_ridge_ = S(0), d_denominator_ = S(0);
};

template <class S>
void check_not_negative(std::string_view name, const S& x) {
  require_domain(x >= S(0), -1, name, ": expected a number >= 0");
}

template <class S>
void check_decay_floor(const Tensor<S, 0>& floor) {
  require_domain(floor.empty() || (floor() > S(0) && floor() < S(1)), -1,
                 "decay_floor: expected a number between 0 and 1, both excluded");
}

/// eps >= 0, decay_floor in (0, 1), beta in (0, 2), lambda >= 0: the first row outside is named. beta is [T] or [T, V].
template <class In>
void check_gains(const In& in) {
  using S = typename In::scalar;
  constexpr auto beta_rank = decltype(in.beta)::rank;
  const auto check_beta = [](int t, const S& beta, const auto&... index) {
    require_domain(beta > S(0) && beta < S(2), t, "beta", index...,
                   ": expected a number between 0 and 2, both excluded");
  };
  check_not_negative("eps", in.eps());
  check_decay_floor(in.decay_floor);
  for (int t = 0; t < in.lambda.size(0); ++t) {
    if constexpr (beta_rank == 1)
      check_beta(t, in.beta(t), text("[", t, "]"));
    else
      for (int j = 0; j < in.beta.size(1); ++j) check_beta(t, in.beta(t, j), text("[", t, "][", j, "]"));
    require_domain(in.lambda(t) >= S(0), t, "lambda[", t, "]: expected a number >= 0");
  }
}

// ---- the window of the mini-batch rooms ----------------------------------------------

/// `window` B: a step writes the newest B pairs; 0 means all.
struct WindowOptions {
  bool has_window = false;
  int window = 0;

  void read(OptionReader& reader, const Params& params) {
    has_window = params.contains("window");
    reader.limit("window", window);
    require_domain(!has_window || window >= 1, -1, "window: expected at least 1, got ", window);
  }
  /// The newest `n` pairs at most: from which of `last` on.
  int first_of(int last, int n) const { return has_window ? std::max(0, last - n) : 0; }
};

/// The pairs (x_j, v_j), oldest first: the incoming tail, then one for every row that writes. They are inputs, or their
/// gradients.
template <class In>
class Pairs {
 public:
  template <class Options>
  Pairs(const Options& options, In& in) : writes_(options), window_(options), in_(in) {}

  int tail() const { return in_.tail_k.size(0); }
  int count() const { return tail() + std::max(0, in_.k.size(0) - writes_.first_row()); }
  auto& x(int j, int i) const { return j < tail() ? in_.tail_k(j, i) : write_feature(writes_, in_, row(j), i); }
  auto& v(int j, int c) const { return j < tail() ? in_.tail_v(j, c) : in_.v(row(j), c); }

  /// The pairs that step t writes: [first, last).
  struct Window {
    int first, last;
    int size() const { return last - first; }
  };
  Window window(int t) const {
    const int last = tail() + t - writes_.first_row() + 1;
    return {window_.first_of(last, window_.window), last};
  }
  /// The pairs that the next segment needs: the newest B - 1.
  Window final_tail() const { return {window_.first_of(count(), window_.window - 1), count()}; }

 private:
  int row(int j) const { return j - tail() + writes_.first_row(); }

  const WriteOptions& writes_;
  const WindowOptions& window_;
  In& in_;
};

/// The answer of a mini-batch room.
template <class S>
struct ReadsAndTail {
  using scalar = S;
  Tensor<S, 2> o;                           // [T, V]
  Tensor<S, 2> final_state;                 // [K, V]
  Tensor<S, 2> final_tail_k, final_tail_v;  // [n, K], [n, V] the newest pairs, n < B

  template <class Self, class F>
  static void each(Self& self, F&& f) {
    using enum Axis;
    f(Field{"o", Domain::value, {seq_len, value_dim}}, self.o);
    f(Field{"final_state", Domain::state, {key_dim, value_dim}}, self.final_state);
    f(Field{"final_tail_k", Domain::key, {final_tail_len, key_dim}}, self.final_tail_k);
    f(Field{"final_tail_v", Domain::value, {final_tail_len, value_dim}}, self.final_tail_v);
  }
};

/// The outgoing tail.
template <class In, class Out>
void write_final_tail(const Pairs<In>& pairs, Out& out) {
  const auto tail = pairs.final_tail();
  for (int j = tail.first; j < tail.last; ++j) {
    for (int i = 0; i < out.final_tail_k.size(1); ++i) out.final_tail_k(j - tail.first, i) = pairs.x(j, i);
    for (int c = 0; c < out.final_tail_v.size(1); ++c) out.final_tail_v(j - tail.first, c) = pairs.v(j, c);
  }
}

/// Adds the final tail's cotangent to the gradients of the pairs in it.
template <class In, class Out>
void add_final_tail(const Pairs<In>& d_pairs, const Out& cotangent) {
  const auto tail = d_pairs.final_tail();
  for (int j = tail.first; j < tail.last; ++j) {
    for (int i = 0; i < cotangent.final_tail_k.size(1); ++i)
      d_pairs.x(j, i) += cotangent.final_tail_k(j - tail.first, i);
    for (int c = 0; c < cotangent.final_tail_v.size(1); ++c)
      d_pairs.v(j, c) += cotangent.final_tail_v(j - tail.first, c);
  }
}

/// What mini-batch room M hands on of its inputs, as they are: the outgoing tail, without the steps.
template <class M>
struct TailOf : M {
  template <class Options, class In>
  static auto forward(const Options& options, const In& in) {
    using Rows = Tensor<typename In::scalar, 2>;
    const Pairs<const In> pairs(options, in);
    const int n = pairs.final_tail().size();
    ReadsAndTail<typename In::scalar> out{{}, {}, Rows(n, in.k.size(1)), Rows(n, in.v.size(1))};
    write_final_tail(pairs, out);
    return out;
  }
  template <class Options, class In, class Out>
  static In backward(const Options& options, const In& in, const Out& cotangent) {
    In d = zero_like(in);
    add_final_tail(Pairs<In>(options, d), cotangent);
    return d;
  }
};

template <class Options, class In>
void check_tail(const Options& options, const In& in) {
  const int tail = in.tail_k.size(0), values = in.tail_v.size(0);
  require_domain(tail == values, -1, "tail_v: expected as many rows as tail_k, ", tail, ", got ", values);
  require_domain(tail == 0 || !options.sequence_start, -1, "tail_k: a sequence start has no tail");
  require_domain(!options.has_window || tail < options.window, -1,
                 "tail_k: expected at most window - 1 = ", options.window - 1, " rows, got ", tail);
}

/// How many pairs the next segment needs.
template <class Options>
int final_tail_len(const Options& options, int tail, int seq_len) {
  const int pairs = tail + std::max(0, seq_len - options.first_row());
  return pairs - options.first_of(pairs, options.window - 1);
}

/// E = (1/B_t) sum |x_j|^2 over the window.
template <class In>
typename In::scalar mean_energy(const Pairs<In>& pairs, const typename Pairs<In>::Window& window, int key_dim) {
  using S = typename In::scalar;
  S sum = S(0);
  for (int j = window.first; j < window.last; ++j)
    for (int i = 0; i < key_dim; ++i) sum += pairs.x(j, i) * pairs.x(j, i);
  return sum / S(window.size());
}

}  // namespace assay
