#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/core/planted_room.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(mdn)

namespace assay::laws {
namespace {

/// One head of the problem, its gates as numbers.
struct MomentumHead {
  Mp100 scale;
  ExactMatrix q, k, v, p, alpha, mu, beta, eta, state, momentum;
};

MomentumHead momentum_head(const ExactProblem& problem, int head) {
  const auto input = [&](const char* name) { return head_of(problem.inputs.at(name), heads_of(problem), head); };
  MomentumHead h{parameter(problem, "scale"), input("q"),      input("k"),    input("v"),   input("p"),
                 input("log_alpha"),          input("log_mu"), input("beta"), input("eta"), input("initial_state"),
                 input("initial_momentum")};
  for (ExactMatrix* gate : {&h.alpha, &h.mu})
    for (Mp100& x : gate->data) x = exp(x);
  return h;
}

/// Gamma_ij = sum_{l = j..i} beta_l (alpha_{l+1} ... alpha_i) (mu_{j+1} ... mu_l): what token j's gradient weighs in
/// the state after token i. As the sum that defines it, not the recurrence that computes it.
Mp100 gamma(const MomentumHead& h, int i, int j) {
  Mp100 total = 0;
  for (int l = j; l <= i; ++l) {
    Mp100 term = h.beta(l, 0);
    for (int r = l + 1; r <= i; ++r) term *= h.alpha(r, 0);
    for (int r = j + 1; r <= l; ++r) term *= h.mu(r, 0);
    total += term;
  }
  return total;
}

/// The product of gates first .. last.
Mp100 gate_product(const ExactMatrix& gate, int first, int last) {
  Mp100 all = 1;
  for (int l = first; l <= last; ++l) all *= gate(l, 0);
  return all;
}

/// b_i = sum_{l <= i} beta_l (alpha_{l+1} ... alpha_i) (mu_1 ... mu_l), the weight of -M_0 in the state.
Mp100 carried_momentum(const MomentumHead& h, int i) {
  Mp100 total = 0;
  for (int l = 0; l <= i; ++l) total += h.beta(l, 0) * gate_product(h.alpha, l + 1, i) * gate_product(h.mu, 0, l);
  return total;
}

/// The chunkwise form (2.5) with one chunk: errors solve (I + L) E = V - Y S + Z M row by row.
ExactArrays momentum_chunk(const ExactProblem& problem, const ExactArrays& shapes) {
  ExactArrays out{{"o", shapes.at("o")},
                  {"final_state", shapes.at("final_state")},
                  {"final_momentum", shapes.at("final_momentum")}};
  for (int head = 0; head < heads_of(problem); ++head) {
    const MomentumHead h = momentum_head(problem, head);
    const int T = h.k.size(0), K = h.k.size(1), V = h.v.size(1);
    ExactMatrix E = h.v, o(T, V), state(K, V), momentum(K, V);
    for (int t = 0; t < T; ++t) {
      for (int i = 0; i < K; ++i) {
        const Mp100 Y = gate_product(h.alpha, 0, t - 1) * h.p(t, i), Z = carried_momentum(h, t - 1) * h.p(t, i);
        const Mp100 a = gate_product(h.alpha, 0, t) * h.q(t, i), b = carried_momentum(h, t) * h.q(t, i);
        for (int x = 0; x < V; ++x) {
          E(t, x) += Z * h.momentum(i, x) - Y * h.state(i, x);
          o(t, x) += h.scale * (a * h.state(i, x) - b * h.momentum(i, x));
        }
      }
      for (int j = 0; j <= t; ++j) {
        Mp100 pk = 0, qk = 0;
        for (int i = 0; i < K; ++i) pk += h.p(t, i) * h.k(j, i), qk += h.q(t, i) * h.k(j, i);
        for (int x = 0; j < t && x < V; ++x) E(t, x) -= gamma(h, t - 1, j) * h.eta(j, 0) * pk * E(j, x);
        for (int x = 0; x < V; ++x) o(t, x) += h.scale * gamma(h, t, j) * h.eta(j, 0) * qk * E(j, x);
      }
    }
    for (int i = 0; i < K; ++i)
      for (int x = 0; x < V; ++x) {
        state(i, x) = gate_product(h.alpha, 0, T - 1) * h.state(i, x) - carried_momentum(h, T - 1) * h.momentum(i, x);
        momentum(i, x) = gate_product(h.mu, 0, T - 1) * h.momentum(i, x);
        for (int j = 0; j < T; ++j) {
          const Mp100 gradient = h.eta(j, 0) * h.k(j, i) * E(j, x);
          state(i, x) += gamma(h, T - 1, j) * gradient;
          momentum(i, x) -= gate_product(h.mu, j + 1, T - 1) * gradient;
        }
      }
    set_head(out.at("o"), head, o);
    set_head(out.at("final_state"), head, state);
    set_head(out.at("final_momentum"), head, momentum);
  }
  return out;
}

std::string is_one_momentum_chunk(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  const ExactArrays got = answer(room, p).outputs;
  return same(got, momentum_chunk(p, got), {"o", "final_state", "final_momentum"});
}

std::string closed_gates_are_one_momentum_chunk(const Room& room, const Problem& problem) {
  return is_one_momentum_chunk(room, with_closed_gates(room, problem));
}

/// The problem without momentum (mu = 0, M_0 = 0) and whatever cotangent its final momentum has.
ExactProblem without_momentum(const Problem& problem) {
  ExactProblem p = ungrouped(exact(problem));
  for (Mp100& x : p.inputs.at("log_mu").data) x = -std::numeric_limits<Mp100>::infinity();
  for (Mp100& x : p.inputs.at("initial_momentum").data) x = 0;
  p.cotangents.erase("final_momentum");
  return p;
}

/// The problem of a first-order room: beta eta for beta, `gate` for log_alpha, and no tensor that it does not know.
ExactProblem first_order(const ExactProblem& p, const char* gate) {
  ExactProblem plain = p;
  plain.inputs["beta"] = product(p.inputs.at("beta"), p.inputs.at("eta"));
  if (gate != nullptr) plain.inputs[gate] = p.inputs.at("log_alpha");
  for (const char* name : {"p", "log_alpha", "log_mu", "eta", "initial_momentum"}) plain.inputs.erase(name);
  return plain;
}

/// `got` with p's gradient handed to k (and to the gate through the factor alpha), and beta's and eta's to their
/// product, if there both say the same.
std::string agrees_with_first_order(const ExactProblem& p, ExactAnswer got, const ExactAnswer& want,
                                    const ExactArray& factor, bool through_gate) {
  const ExactArray dp = got.gradients.at("p");
  got.gradients.at("k") = sum(got.gradients.at("k"), scaled_rows(dp, factor));
  if (through_gate)
    got.gradients.at("log_alpha") = sum(got.gradients.at("log_alpha"), row_products(p.inputs.at("p"), dp));
  if (std::string s = same(got.outputs, want.outputs, {"o", "final_state"}); !s.empty()) return s;
  if (std::string s = same(got.gradients, want.gradients, {"q", "k", "v", "initial_state"}); !s.empty()) return s;
  const ExactArray& strength = want.gradients.at("beta");
  if (std::string s = same("beta", got.gradients.at("beta"), product(strength, p.inputs.at("eta"))); !s.empty())
    return s;
  if (std::string s = same("eta", got.gradients.at("eta"), product(strength, p.inputs.at("beta"))); !s.empty())
    return s;
  for (const Mp100& x : got.gradients.at("log_mu").data)
    if (x != 0) return "log_mu: a gradient at a closed gate";
  const auto gate = want.gradients.find("log_decay");
  return gate == want.gradients.end() ? "" : same("log_alpha", got.gradients.at("log_alpha"), gate->second);
}

/// mu = 0, p = alpha k: gated DeltaNet; the momentum is the last gradient (I4).
std::string without_momentum_is_gated_deltanet(const Room& room, const Problem& problem) {
  ExactProblem p = without_momentum(problem);
  const ExactArray alpha = mapped(p.inputs.at("log_alpha"), [](const Mp100& g) { return Mp100(exp(g)); });
  p.inputs.at("p") = scaled_rows(p.inputs.at("k"), alpha);
  return agrees_with_first_order(p, answer(room, p), answer("gated_deltanet", first_order(p, "log_decay")), alpha,
                                 true);
}

/// mu = 0, p = k: gated DeltaNet with the error of the undecayed state, and Comba (I5).
std::string undecayed_without_momentum_is_comba(const Room& room, const Problem& problem) {
  ExactProblem p = without_momentum(problem);
  p.inputs.at("p") = p.inputs.at("k");
  ExactProblem gated = first_order(p, "log_decay");
  gated.params["error"] = "undecayed";
  const ExactAnswer got = answer(room, p);
  const ExactArray ones = mapped(p.inputs.at("beta"), [](const Mp100&) { return Mp100(1); });
  if (std::string s = agrees_with_first_order(p, got, answer("gated_deltanet", gated), ones, false); !s.empty())
    return s;
  ExactProblem comba = first_order(p, "log_decay");
  comba.inputs["p"] = p.inputs.at("p");
  const ExactAnswer want = answer("comba", comba);
  if (std::string s = same(got.gradients, want.gradients, {"k", "p"}); !s.empty()) return s;
  return same(got.outputs, want.outputs, {"o", "final_state"});
}

/// mu = 0, alpha = 1, p = k: DeltaNet (I6).
std::string undecayed_state_without_momentum_is_deltanet(const Room& room, const Problem& problem) {
  ExactProblem p = without_momentum(problem);
  p.inputs.at("p") = p.inputs.at("k");
  for (Mp100& x : p.inputs.at("log_alpha").data) x = 0;
  const ExactArray ones = mapped(p.inputs.at("beta"), [](const Mp100&) { return Mp100(1); });
  return agrees_with_first_order(p, answer(room, p), answer("deltanet", first_order(p, nullptr)), ones, false);
}

/// mu = 0, p = 0: Mamba-2 on values beta eta v (I7).
std::string unpredicted_without_momentum_is_mamba2(const Room& room, const Problem& problem) {
  ExactProblem p = without_momentum(problem);
  for (Mp100& x : p.inputs.at("p").data) x = 0;
  ExactProblem plain = first_order(p, "log_decay");
  plain.inputs.at("v") = scaled_rows(plain.inputs.at("v"), plain.inputs.at("beta"));
  plain.inputs.erase("beta");
  const ExactAnswer got = answer(room, p), want = answer("mamba2", plain);
  if (std::string s = same(got.outputs, want.outputs, {"o", "final_state"}); !s.empty()) return s;
  if (std::string s = same("log_alpha", got.gradients.at("log_alpha"), want.gradients.at("log_decay")); !s.empty())
    return s;
  return same(got.gradients, want.gradients, {"q", "k", "initial_state"});
}

/// As mu goes to 0 the outputs go to those without momentum, like mu itself: from e^-60 to e^-120, a factor e^60 up to
/// terms of relative size e^-60 (I8).
std::string momentum_fades_like_its_gate(const Room& room, const Problem& problem) {
  ExactProblem p = without_momentum(problem);
  p.cotangents.at("o").data.assign(p.cotangents.at("o").data.size(), 0);
  const ExactArray none = answer(room, p).outputs.at("o");
  const auto distance = [&](int log_mu) {
    for (Mp100& x : p.inputs.at("log_mu").data) x = log_mu;
    const ExactArray o = answer(room, p).outputs.at("o");
    Mp100 sum = 0;
    for (std::size_t i = 0; i < o.data.size(); ++i) sum += abs(o.data[i] - none.data[i]);
    return sum;
  };
  const Mp100 near = distance(-60), nearer = distance(-120);
  if (near == 0 && nearer == 0) return "";  // one token, or no second step, has no momentum to keep
  // Terms beyond the first are smaller by mu and a factor that grows with the tokens: far less than e^10.
  const Mp100 ratio = near / nearer / exp(Mp100(60));
  return abs(ratio - 1) <= exp(Mp100(-50)) ? "" : text("the ratio is off by ", to_decimal(Mp100(ratio - 1), 5));
}

/// eta = 0 writes nothing: S_T = a_T S_0 - b_T M_0, M_T = m_T M_0; beta = 0 takes no step: S_T = a_T S_0 (I9).
std::string without_weight_or_step_nothing_is_written(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  for (Mp100& x : p.inputs.at("eta").data) x = 0;
  const ExactArrays got = answer(room, p).outputs;
  ExactArrays want = got;
  const auto expect = [&](const ExactArrays& from) {
    for (int head = 0; head < heads_of(p); ++head) {
      const MomentumHead h = momentum_head(p, head);
      const int last = h.k.size(0) - 1;
      ExactMatrix state = h.state, momentum = h.momentum;
      for (std::size_t i = 0; i < state.data.size(); ++i) {
        state.data[i] =
            gate_product(h.alpha, 0, last) * h.state.data[i] - carried_momentum(h, last) * h.momentum.data[i];
        momentum.data[i] *= gate_product(h.mu, 0, last);
      }
      set_head(want.at("final_state"), head, state);
      set_head(want.at("final_momentum"), head, momentum);
    }
    return same("final_state", from.at("final_state"), want.at("final_state"));
  };
  if (std::string s = expect(got); !s.empty()) return "eta = 0: " + s;
  if (std::string s = same(got, want, {"final_momentum"}); !s.empty()) return "eta = 0: " + s;
  p = exact(problem);
  for (Mp100& x : p.inputs.at("beta").data) x = 0;
  if (std::string s = expect(answer(room, p).outputs); !s.empty()) return "beta = 0: " + s;
  return "";
}

/// (eta, beta, M_0) to (3 eta, beta / 3, 3 M_0) changes M_T to 3 M_T and nothing else (I10).
std::string weight_and_step_share_a_factor(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  ExactProblem other = p;
  const auto times = [](const Mp100& by) { return [by](const Mp100& x) { return Mp100(x * by); }; };
  const Mp100 third = Mp100(1) / 3;
  for (const auto& [name, by] : {std::pair<const char*, Mp100>{"eta", 3}, {"beta", third}, {"initial_momentum", 3}})
    other.inputs.at(name) = mapped(p.inputs.at(name), times(by));
  other.cotangents.at("final_momentum") = mapped(p.cotangents.at("final_momentum"), times(third));
  ExactAnswer want = answer(room, p);
  want.outputs.at("final_momentum") = mapped(want.outputs.at("final_momentum"), times(3));
  for (const auto& [name, by] : {std::pair<const char*, Mp100>{"eta", third}, {"beta", 3}, {"initial_momentum", third}})
    want.gradients.at(name) = mapped(want.gradients.at(name), times(by));
  return same(answer(room, other), want);
}

/// With eta' = beta eta, mu'_t = mu_t beta_t / beta_{t-1}, M_0' = beta_1 M_0 and beta' = 1 the state is the same (I11).
std::string the_step_can_be_absorbed(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  const int T = p.inputs.at("v").shape[1];
  // mu' has to stay a decay: steps that fall.
  ExactArray& beta = p.inputs.at("beta");
  for (std::size_t i = 0; i < beta.data.size(); ++i)
    beta.data[i] = Mp100(1) / (1 + static_cast<int>(i % static_cast<std::size_t>(T)));
  ExactProblem absorbed = p;
  absorbed.inputs.at("eta") = product(p.inputs.at("eta"), beta);
  for (Mp100& x : absorbed.inputs.at("beta").data) x = 1;
  ExactArray& mu = absorbed.inputs.at("log_mu");
  for (std::size_t i = 0; i < mu.data.size(); ++i)
    if (i % static_cast<std::size_t>(T) > 0) mu.data[i] += log(Mp100(beta.data[i] / beta.data[i - 1]));
  // beta_1 = 1: M_0 stays
  return same(answer(room, absorbed).outputs, answer(room, p).outputs, {"o", "final_state"});
}

/// S_{t+1} = alpha S_t + (beta_{t+1} mu_{t+1} / beta_t) (S_t - alpha_t S_{t-1}) + beta_{t+1} eta_{t+1} k e^T, with the
/// states of ever longer prefixes and e = v - S_t^T p (I12).
std::string states_obey_a_second_order_rule(const Room& room, const Problem& problem) {
  ExactProblem p = ungrouped(exact(problem));
  ExactArray& steps = p.inputs.at("beta");
  for (Mp100& x : steps.data) x = x + Mp100(1) / 8;  // none is zero
  const int H = heads_of(p), T = p.inputs.at("v").shape[1];
  const auto state_after = [&](int tokens) {
    ExactProblem prefix = p;
    for (ExactArrays* arrays : {&prefix.inputs, &prefix.cotangents})
      for (auto& [name, a] : *arrays) {
        if (name.starts_with("initial_") || name.starts_with("final_")) continue;
        ExactArray cut(a.shape);
        cut.shape[1] = tokens;
        cut.data.clear();
        const std::size_t size = a.data.size() / static_cast<std::size_t>(H),
                          kept = size / static_cast<std::size_t>(T) * static_cast<std::size_t>(tokens);
        for (std::size_t h = 0; h < static_cast<std::size_t>(H); ++h)
          cut.data.insert(cut.data.end(), a.data.begin() + static_cast<std::ptrdiff_t>(h * size),
                          a.data.begin() + static_cast<std::ptrdiff_t>(h * size + kept));
        a = std::move(cut);
      }
    return answer(room, prefix).outputs.at("final_state");
  };
  for (int t = 1; t < std::min(T, 5); ++t) {
    const ExactArray before = t == 1 ? p.inputs.at("initial_state") : state_after(t - 1), now = state_after(t),
                     next = state_after(t + 1);
    ExactArray want = next;
    for (int head = 0; head < H; ++head) {
      const MomentumHead h = momentum_head(p, head);
      const ExactMatrix S0 = head_of(before, H, head), S = head_of(now, H, head);
      ExactMatrix rule = S;
      const Mp100 weight = h.beta(t, 0) * h.mu(t, 0) / h.beta(t - 1, 0);
      for (int x = 0; x < S.size(1); ++x) {
        Mp100 e = h.v(t, x);
        for (int i = 0; i < S.size(0); ++i) e -= S(i, x) * h.p(t, i);
        for (int i = 0; i < S.size(0); ++i)
          rule(i, x) = h.alpha(t, 0) * S(i, x) + weight * (S(i, x) - h.alpha(t - 1, 0) * S0(i, x)) +
                       h.beta(t, 0) * h.eta(t, 0) * h.k(t, i) * e;
      }
      set_head(want, head, rule);
    }
    if (std::string s = same(text("the state after ", t + 1, " tokens"), next, want); !s.empty()) return s;
  }
  return "";
}

/// Orthonormal keys from zero states: S_T^T k_j = Gamma_Tj eta_j v_j (I17).
std::string orthonormal_keys_are_weighed_by_gamma(const Room& room, const Problem& problem) {
  ExactProblem p = ungrouped(exact(problem));
  const int H = heads_of(p), T = p.inputs.at("k").shape[1], K = p.inputs.at("k").shape[2];
  if (T > K) return "";
  for (const char* name : {"k", "p"}) {
    ExactArray& a = p.inputs.at(name);
    for (std::size_t i = 0; i < a.data.size(); ++i)
      a.data[i] = static_cast<int>(i) / K % T == static_cast<int>(i) % K ? 1 : 0;
  }
  for (const char* name : {"initial_state", "initial_momentum"})
    for (Mp100& x : p.inputs.at(name).data) x = 0;
  const ExactArray got = answer(room, p).outputs.at("final_state");
  ExactArray want(got.shape);
  for (int head = 0; head < H; ++head) {
    const MomentumHead h = momentum_head(p, head);
    ExactMatrix rows(K, h.v.size(1));
    for (int j = 0; j < T; ++j)
      for (int x = 0; x < h.v.size(1); ++x) rows(j, x) = gamma(h, T - 1, j) * h.eta(j, 0) * h.v(j, x);
    set_head(want, head, rows);
  }
  return same("final_state", got, want);
}

std::string written_keys_scale_like_the_weight(const Room& room, const Problem& problem) {
  return written_keys_scale_like("eta", room, problem);
}

/// Section 4, per head and token, with the next token's gate on the right and the final cotangents after the last:
///   dlog_mu_t + eta_t deta_t - beta_t dbeta_t = dlog_mu_{t+1},  <M_T, dM_T>;  dlog_mu_1 = <M_0, dM_0>
///   dlog_alpha_t + beta_t dbeta_t - <q_t, dq_t> = dlog_alpha_{t+1} + <p_{t+1}, dp_{t+1}>,  <S_T, dS_T>;
///   dlog_alpha_1 + <p_1, dp_1> = <S_0, dS_0>
std::string gate_gradients_of_both_states_telescope(const Room& room, const Problem& problem) {
  const ExactProblem p = ungrouped(exact(problem));
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p), T = p.inputs.at("k").shape[1], K = p.inputs.at("k").shape[2];
  for (int head = 0; head < H; ++head) {
    const auto input = [&](const char* name) { return head_of(p.inputs.at(name), H, head); };
    const auto gradient = [&](const char* name) { return head_of(got.gradients.at(name), H, head); };
    for (int t = -1; t < T; ++t) {
      ExactBalance momentum, state;
      const auto states = [&](int sign, const ExactMatrix& a, const ExactMatrix& b, ExactBalance& into) {
        for (int i = 0; i < K; ++i) into.add_row(sign, a, b, i);
      };
      if (t < 0) {
        states(1, input("initial_momentum"), gradient("initial_momentum"), momentum);
        states(1, input("initial_state"), gradient("initial_state"), state);
      } else {
        momentum.add(1, gradient("log_mu")(t, 0));
        momentum.add_row(1, input("eta"), gradient("eta"), t);
        momentum.add_row(-1, input("beta"), gradient("beta"), t);
        state.add(1, gradient("log_alpha")(t, 0));
        state.add_row(1, input("beta"), gradient("beta"), t);
        state.add_row(-1, input("q"), gradient("q"), t);
      }
      if (t + 1 < T) {
        momentum.add(-1, gradient("log_mu")(t + 1, 0));
        state.add(-1, gradient("log_alpha")(t + 1, 0));
        state.add_row(-1, input("p"), gradient("p"), t + 1);
      } else {
        const auto end = [&](const char* name, ExactBalance& into) {
          states(-1, head_of(p.cotangents.at(name), H, head), head_of(got.outputs.at(name), H, head), into);
        };
        end("final_momentum", momentum);
        end("final_state", state);
      }
      if (std::string s = momentum.violation("log_mu, token ", t, ", head ", head); !s.empty()) return s;
      if (std::string s = state.violation("log_alpha, token ", t, ", head ", head); !s.empty()) return s;
    }
  }
  return "";
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(mdn, is_one_momentum_chunk)
ASSAY_REFERENCE_OBEYS(mdn, closed_gates_are_one_momentum_chunk)
ASSAY_REFERENCE_OBEYS(mdn, closed_gates_have_gradient_zero)
ASSAY_REFERENCE_OBEYS(mdn, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(mdn, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(mdn, channels_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(mdn, without_momentum_is_gated_deltanet)
ASSAY_REFERENCE_OBEYS(mdn, undecayed_without_momentum_is_comba)
ASSAY_REFERENCE_OBEYS(mdn, undecayed_state_without_momentum_is_deltanet)
ASSAY_REFERENCE_OBEYS(mdn, unpredicted_without_momentum_is_mamba2)
ASSAY_REFERENCE_OBEYS(mdn, momentum_fades_like_its_gate)
ASSAY_REFERENCE_OBEYS(mdn, without_weight_or_step_nothing_is_written)
ASSAY_REFERENCE_OBEYS(mdn, weight_and_step_share_a_factor)
ASSAY_REFERENCE_OBEYS(mdn, the_step_can_be_absorbed)
ASSAY_REFERENCE_OBEYS(mdn, states_obey_a_second_order_rule)
ASSAY_REFERENCE_OBEYS(mdn, orthonormal_keys_are_weighed_by_gamma)
ASSAY_REFERENCE_OBEYS(mdn, written_keys_scale_like_the_weight)
ASSAY_REFERENCE_OBEYS(mdn, gate_gradients_of_both_states_telescope)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(mdn, is_one_momentum_chunk, backward_is_the_adjoint)
ASSAY_REFUSES_BAD_INPUTS(mdn)

namespace assay {
namespace {

laws::Subject chunkwise() { return laws::subject(kernel_rooms(), "mdn", "chunkwise"); }

void set_all(Array& a, double x) { std::fill(a.data.begin(), a.data.end(), x); }

/// mu = 0, M_0 = 0, p = k: the kernel of gated DeltaNet with errors of the undecayed state and beta eta for beta, which
/// is exact where eta is a power of two (I5).
ASSAY_PROPERTY(mdn_chunkwise, without_momentum_is_gated_deltanet) {
  const laws::Subject s = chunkwise(), plain = laws::subject(kernel_rooms(), "gated_deltanet", "chunkwise");
  const LawCase c = *law_cases(s.room, s.form);
  Problem p = s.problem(c);
  set_all(p.inputs.at("log_mu"), -std::numeric_limits<double>::infinity());
  set_all(p.inputs.at("initial_momentum"), 0);
  p.inputs.at("p") = p.inputs.at("k");
  p.cotangents.erase("final_momentum");
  Array& eta = p.inputs.at("eta");
  for (std::size_t i = 0; i < eta.data.size(); ++i) eta.data[i] = std::ldexp(1.0, static_cast<int>(i % 3) - 1);
  const Array beta = p.inputs.at("beta");
  Problem gated = p;
  gated.mechanism = "gated_deltanet";
  gated.params["error"] = "undecayed";
  gated.inputs["log_decay"] = p.inputs.at("log_alpha");
  for (const char* name : {"p", "log_alpha", "log_mu", "eta", "initial_momentum"}) gated.inputs.erase(name);
  const auto times = [](Array a, const Array& b) {
    for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] *= b.data[i];
    return a;
  };
  gated.inputs.at("beta") = times(beta, eta);

  Arrays got = flat(s.run(p, Format::exact, c.tile)), want = flat(plain.run(gated, Format::exact, c.tile)),
         allowed = laws::allowance(s, p, Format::fp64, c.tile);
  for (const char* name : {"d_log_mu", "d_initial_momentum"})
    for (const double x : got.at(name).data) RC_ASSERT(x == 0);
  want["d_eta"] = times(want.at("d_beta"), beta), want["d_beta"] = times(want.at("d_beta"), eta);
  want["d_log_alpha"] = want.at("d_log_decay");
  for (Arrays* arrays : {&got, &allowed})
    for (std::size_t i = 0; i < arrays->at("d_k").data.size(); ++i)
      arrays->at("d_k").data[i] += arrays->at("d_p").data[i];
  for (const char* name : {"d_p", "d_log_mu", "d_initial_momentum", "final_momentum"}) allowed.erase(name);
  // One answer each, and the factor of its own for those of beta and eta.
  laws::expect_within(got, want, allowed, 3);
}

/// -inf in both gates of one token.
ASSAY_PROPERTY(mdn_chunkwise, closed_gates_are_ordinary) {
  const laws::Subject s = chunkwise();
  const LawCase c = *law_cases(s.room, s.form);
  laws::exact_policy_is_the_oracle(s, laws::with_closed_gates(s.room, s.problem(c)), c.tile);
}

/// Every site of a form's table rounds something: alone in bf16 among fp32 it moves the answer.
TEST(mdn_kernels, every_site_is_in_use) {
  for (const KernelForm& form : find_kernels(kernel_rooms(), "mdn")->forms) {
    const Problem p = listed_room("mdn").make({.mechanism = "mdn",
                                               .shape = {.seq_len = 40, .heads = 1, .key_dim = 5, .value_dim = 3},
                                               .precision = Format::fp32,
                                               .style = Style::normal,
                                               .seed = 2,
                                               .params = {}});
    const Policy single = Policy::of(form.sites, Format::fp32);
    const Arrays base = flat(form.run(p, single, 2));
    for (int i = 0; i < form.sites.size; ++i) {
      const std::string_view site = form.sites.entries[i].view();
      Policy policy = single;
      policy.sites = policy.sites.with(site, Format::bf16);
      EXPECT_NE(flat(form.run(p, policy, 2)), base) << form.name << ' ' << site;
    }
  }
}

// ---- the published weights

const KernelForm& log_domain() { return laws::subject(kernel_rooms(), "mdn", "log_domain").form; }

/// The form where the state decays as the faster of both or as its square, never slower than the momentum, and no step
/// is next to nothing.
class Tame final : public LikeRoom {
 public:
  using LikeRoom::LikeRoom;
  Problem make(const CaseSpec& spec) const override {
    Problem p = LikeRoom::make(spec);
    std::vector<double>& log_alpha = p.inputs.at("log_alpha").data;
    for (std::size_t t = 0; t < log_alpha.size(); ++t)
      log_alpha[t] = std::ldexp(std::min(log_alpha[t], p.inputs.at("log_mu").data[t]), static_cast<int>(t % 2));
    for (double& beta : p.inputs.at("beta").data) beta = std::max(beta, 0.125);
    return p;
  }
};
laws::Subject tame() {
  static const Tame room(listed_room("mdn"));
  return {room, log_domain()};
}

/// In exact arithmetic it is the same, gradients included: where little cancels, 64 bits are enough to say so.
#define ASSAY_LOG_DOMAIN_OBEYS(law) \
  ASSAY_PROPERTY(mdn_log_domain, law) { laws::law(tame(), *law_cases(tame().room, tame().form)); }
ASSAY_LOG_DOMAIN_OBEYS(exact_policy_is_the_oracle)
ASSAY_LOG_DOMAIN_OBEYS(tile_shape_changes_nothing)
ASSAY_LOG_DOMAIN_OBEYS(same_bits_twice)
ASSAY_LOG_DOMAIN_OBEYS(every_element_is_written)
ASSAY_LOG_DOMAIN_OBEYS(the_future_changes_no_bit)
ASSAY_LOG_DOMAIN_OBEYS(heads_are_independent)
ASSAY_LOG_DOMAIN_OBEYS(backward_is_the_adjoint)
ASSAY_LOG_DOMAIN_OBEYS(linear_in_values)
ASSAY_LOG_DOMAIN_OBEYS(reads_are_linear_in_the_query)
ASSAY_LOG_DOMAIN_OBEYS(segments_concatenate)

/// 128 tokens with the same gates, and steps of 0.3, as section 6.2 has them.
Problem with_gates(double log_alpha, double log_mu, Format precision) {
  Problem p = listed_room("mdn").make({.mechanism = "mdn",
                                       .shape = {.seq_len = 128, .heads = 1, .key_dim = 8, .value_dim = 8},
                                       .precision = precision,
                                       .style = Style::normal,
                                       .seed = 5,
                                       .params = {}});
  set_all(p.inputs.at("log_alpha"), log_alpha);
  set_all(p.inputs.at("log_mu"), log_mu);
  set_all(p.inputs.at("beta"), 0.3);
  return p;
}

/// What the judge says of every tensor, from the form at hand and from the room's healthy one.
struct Verdicts {
  std::map<std::string, Verdict> published, healthy;
};
Verdicts verdicts(double log_alpha, double log_mu, Format precision) {
  const laws::Subject s = chunkwise();
  const Problem p = with_gates(log_alpha, log_mu, precision);
  const Expectation e = expect(oracle_of(s.room, p), {&s.form, precision, 0, 1}, p, default_draws);
  const auto got = in_report_order(log_domain().run(p, Policy::of(log_domain().sites, precision), 0), e);
  Verdicts all;
  for (std::size_t t = 0; t < e.tensors.size(); ++t) {
    const auto& [name, expected] = e.tensors[t];
    all.published[name] = judge(expected, got[t].second).verdict;
    all.healthy[name] = judge(expected, e.emulated[t].second).verdict;
  }
  return all;
}

/// Section 6.2: digits go where mu decays faster than alpha, all of them at fp32 and, later, at fp64; then NaN.
TEST(mdn_log_domain, fails_where_mu_decays_faster_than_alpha) {
  struct Gates {
    double log_alpha, log_mu;
    Format precision;
  };
  for (const Gates& g :
       {Gates{-0.05, -0.3, Format::fp32}, Gates{-0.05, -0.5, Format::fp32}, Gates{-0.05, -0.5, Format::bf16},
        Gates{-0.05, -0.5, Format::fp64}, Gates{-0.01, -1.5, Format::fp32}, Gates{-1, -2, Format::bf16}}) {
    const Verdicts v = verdicts(g.log_alpha, g.log_mu, g.precision);
    for (const char* name : {"o", "d_q", "d_k", "d_v", "d_p", "d_log_alpha", "d_log_mu", "d_beta", "d_eta"})
      EXPECT_EQ(v.published.at(name), Verdict::fail)
          << name << ' ' << g.log_alpha << ' ' << g.log_mu << ' ' << name_of(g.precision);
    for (const auto& [name, verdict] : v.healthy)
      EXPECT_EQ(verdict, Verdict::pass) << name << ' ' << g.log_alpha << ' ' << g.log_mu << ' ' << name_of(g.precision);
  }
}

TEST(mdn_log_domain, passes_where_it_does_not) {
  for (const auto& [log_alpha, log_mu] : {std::pair{-1.0, -0.1}, {-0.5, -0.5}})
    for (const auto& [name, verdict] : verdicts(log_alpha, log_mu, Format::bf16).published)
      EXPECT_EQ(verdict, Verdict::pass) << name << ' ' << log_alpha;
}

/// The largest error of each tensor, relative to its largest element.
std::map<std::string, double> errors_of(const Oracle& truth, Answer answer) {
  const Arrays got = flat(std::move(answer));
  std::map<std::string, double> errors;
  for (const auto& [name, tensor] : truth.tensors) {
    double error = 0, size = 0;
    for (std::size_t i = 0; i < tensor.value.size(); ++i) {
      const double off = std::fabs(got.at(name).data[i] - tensor.value[i].hi);
      if (!(std::isnan(error) || off <= error)) error = off;  // NaN is the largest
      size = std::max(size, std::fabs(tensor.value[i].hi));
    }
    errors[name] = error / size;
  }
  return errors;
}

/// Section 6.2: o in fp32 and fp64, here the same to half an order of magnitude where a digit is left, and the healthy
/// form in fp32, here to an order. Where something cancels, gradients of gates and steps lose more than o.
TEST(mdn_log_domain, is_as_far_off_as_measured) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  struct Measured {
    double log_alpha, log_mu, healthy, fp32, fp64;
  };
  for (const Measured& m : {Measured{-1, -0.1, 1e-7, 4e-6, 3e-15}, Measured{-0.5, -0.5, 2e-7, 3e-6, 7e-15},
                            Measured{-0.05, -0.2, 9e-7, 1e-3, 1e-12}, Measured{-0.05, -0.3, 6e-7, 0.18, 3e-10},
                            Measured{-0.05, -0.5, 3e-7, 0.86, 1e-4}, Measured{-0.05, -1, 3e-7, 0.74, 0.75},
                            Measured{-0.01, -1.5, 2e-6, nan, 0.77}, Measured{-0.05, -2, 2e-7, nan, 0.55},
                            Measured{-1, -2, 1e-7, 0.7, 0.7}}) {
    const Problem p = with_gates(m.log_alpha, m.log_mu, Format::fp32);
    const Oracle truth = oracle_of(chunkwise().room, p);
    EXPECT_NEAR(std::log10(errors_of(truth, chunkwise().run(p, Format::fp32, 0)).at("o")), std::log10(m.healthy), 1)
        << m.log_alpha << ' ' << m.log_mu;
    for (const auto& [precision, measured] : {std::pair{Format::fp32, m.fp32}, {Format::fp64, m.fp64}}) {
      const Policy policy = Policy::of(log_domain().sites, precision);
      const auto errors = errors_of(truth, log_domain().run(p, policy, 0));
      const std::string place = text(m.log_alpha, ' ', m.log_mu, ' ', name_of(precision));
      const double o = errors.at("o");
      if (std::isnan(measured))
        EXPECT_TRUE(std::isnan(o)) << place;
      else if (measured > 0.5)
        EXPECT_GT(o, 0.5) << place;
      else
        EXPECT_NEAR(std::log10(o), std::log10(measured), 0.5) << place;
      if (std::isnan(measured) || m.log_mu >= m.log_alpha) continue;
      for (const char* name : {"d_log_alpha", "d_log_mu", "d_beta"})
        EXPECT_FALSE(errors.at(name) <= o) << name << place;
    }
  }
}

TEST(mdn_log_domain, refuses_what_has_no_logarithm) {
  const Problem p = with_gates(-0.5, -0.5, Format::bf16);
  EXPECT_EQ(log_domain().obstacle(p), "");
  for (const auto& [name, bad] : {std::pair<const char*, double>{"beta", 0},
                                  {"beta", -1},
                                  {"log_alpha", -std::numeric_limits<double>::infinity()},
                                  {"log_mu", -std::numeric_limits<double>::infinity()}}) {
    Problem other = p;
    other.inputs.at(name).data[3] = bad;
    EXPECT_NE(log_domain().obstacle(other).find(std::string(name) + "[3]"), std::string::npos) << name;
    EXPECT_EQ(chunkwise().form.obstacle(other), "");
  }
}

TEST(mdn_inputs, states_do_not_grow_from_token_to_token) {
  // A factor of 3 percent a token would be 10^13 after 1024 tokens; norms of what is written are about 1.
  for (const Style style : all_styles) {
    if (style == Style::integers || style == Style::dyadic) continue;  // few tokens, each answer exact
    const Problem p = listed_room("mdn").make({"mdn", shape_from("1,1024,1,16,16"), Format::fp64, style, 0, {}});
    const Answer a = chunkwise().run(p, Format::exact, 64);
    for (const Arrays* arrays : {&a.outputs, &a.gradients})
      for (const auto& [name, array] : *arrays)
        for (const double x : array.data) ASSERT_LT(std::abs(x), 65504) << name << ' ' << name_of(style);
  }
}

TEST(mdn_bad_inputs, kinds_of_inputs) {
  EXPECT_EQ(bad_inputs::kinds_of_inputs(listed_room("mdn")),
            "log gates: log_alpha log_mu; optional: initial_state initial_momentum; shared: q k p");
}

TEST(mdn_bad_inputs, any_strength_is_legal) { EXPECT_EQ(bad_inputs::any_strength_is_legal(listed_room("mdn")), ""); }

}  // namespace
}  // namespace assay
