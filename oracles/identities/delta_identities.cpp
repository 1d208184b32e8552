// The identities of the delta family (delta-family.md sections 2.8, 2.9, 3 and 4) and its limits with their rates.
#include <algorithm>
#include <limits>

#include "oracles/identities/delta_forms.hpp"
#include "oracles/identities/identities.hpp"

namespace assay::identities {
namespace delta {
namespace {

using Names = std::vector<std::string_view>;
using Answer200 = BasicAnswer<Mp200>;

/// What an identity says is equal.
struct Sides {
  Vector left, right;

  void add(const Vector& l, const Vector& r) {
    left.insert(left.end(), l.begin(), l.end());
    right.insert(right.end(), r.begin(), r.end());
  }
  void add(const Matrix& l, const Matrix& r) { add(l.data, r.data); }
  void add(const Mp200& l, const Mp200& r) { add(Vector{l}, Vector{r}); }
  void outputs(const Answer200& l, const Answer200& r, const Names& names) {
    add(flat(l.outputs, names), flat(r.outputs, names));
  }
  void gradients(const Answer200& l, const Answer200& r, const Names& names) {
    add(flat(l.gradients, names), flat(r.gradients, names));
  }
};

Identity exact(std::string_view name, std::string_view mechanism, std::string_view statement, std::string_view source,
               const std::function<Sides()>& sides) {
  return {name,
          mechanism,
          statement,
          source,
          0,
          [sides](const Mp200&) {
            const Sides s = sides();
            return difference(s.left, s.right);
          },
          [sides] { return sides().right; }};
}

const Names state_outputs = {"o", "final_state"};
const Names momentum_outputs = {"o", "final_state", "final_momentum"};

Vector sums(Vector a, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
/// <a_t, b_t> for every row.
Vector inner_rows(const Matrix& a, const Matrix& b) {
  Vector all;
  for (int t = 0; t < a.rows; ++t) all.push_back(inner(a[t], b[t]));
  return all;
}
/// <x_t, dx_t> of an input; x dx of one that has no channels.
Vector euler(const ExactProblem& p, const Answer200& got, std::string_view name) {
  return inner_rows(matrix(p.inputs, name), matrix(got.gradients, name));
}
/// <x, dx> of a whole input, and of a whole output with its cotangent.
Mp200 euler_in(const ExactProblem& p, const Answer200& got, std::string_view name) {
  return inner(matrix(p.inputs, name), matrix(got.gradients, name));
}
Mp200 euler_out(const ExactProblem& p, const Answer200& got, std::string_view name) {
  return inner(matrix(p.cotangents, name), matrix(got.outputs, name));
}

const Mp200 closed = -std::numeric_limits<Mp200>::infinity();

/// The problem with one decay zero in its middle.
ExactProblem with_closed_gates(ExactProblem p) {
  for (const char* gate : {"log_alpha", "log_mu", "log_decay"})
    if (p.inputs.contains(gate)) {
      BasicArray<Mp200>& a = named(p.inputs, gate);
      // Not the same token for both decays of mdn.
      a.data[a.data.size() / 2 + (gate == std::string_view("log_mu") ? 2 : 0)] = closed;
    }
  return p;
}

// I1, I2: chunks.

template <class Form>
Sides chunks(const std::function<Form(const ExactProblem&)>& form, const ExactProblem& plain, const Names& outputs) {
  Sides s;
  for (const ExactProblem& p : {plain, with_closed_gates(plain)})
    for (const int C : {1, 3, 7, 9}) s.add(flat(answer(p).outputs, outputs), chunked(form(p), C).flat());
  return s;
}

Sides momentum_chunks() { return chunks<Momentum>(momentum, make("mdn"), momentum_outputs); }

Identity first_order_chunks(std::string_view mechanism, const Params& params = {}, std::string_view name = "chunks") {
  return exact(name, mechanism, "chunks of 1, 3, 7 and 9 tokens, decays of 0 included: the recurrence",
               "delta-family.md 3.3, I1",
               [mechanism, params] { return chunks<FirstOrder>(first_order, make(mechanism, params), state_outputs); });
}

Sides momentum_chunk_gradients() {
  Sides s;
  for (const ExactProblem& p : {make("mdn"), with_closed_gates(make("mdn"))})
    for (const int C : {1, 3, 7}) {
      const Momentum d = chunked_gradients(
          momentum(p),
          {matrix(p.cotangents, "o"), matrix(p.cotangents, "final_state"), matrix(p.cotangents, "final_momentum")}, C);
      const Answer200 got = answer(p);
      for (const auto& [name, form] : {std::pair{"q", &d.q},
                                       {"k", &d.k},
                                       {"v", &d.v},
                                       {"p", &d.p},
                                       {"initial_state", &d.S},
                                       {"initial_momentum", &d.M}})
        s.add(numbers(got.gradients, name), form->data);
      for (const auto& [name, form] :
           {std::pair{"log_alpha", &d.alpha}, {"log_mu", &d.mu}, {"beta", &d.beta}, {"eta", &d.eta}})
        s.add(numbers(got.gradients, name), *form);
    }
  return s;
}

// I3: segments.

BasicArrays<Mp200> cut(const BasicArrays<Mp200>& arrays, const std::vector<RoomFacts::Ranked>& fields, int first,
                       int end) {
  BasicArrays<Mp200> part;
  for (const auto& [field, rank] : fields) {
    const auto it = arrays.find(field.name);
    if (it == arrays.end()) continue;
    BasicArray<Mp200> a = it->second;
    if (rank > 0 && field.axes[0] == Axis::seq_len) {
      const std::ptrdiff_t width = static_cast<std::ptrdiff_t>(a.data.size()) / a.shape[0];
      a = {a.shape, {a.data.begin() + first * width, a.data.begin() + end * width}};
      a.shape[0] = end - first;
    }
    part.emplace(field.name, std::move(a));
  }
  return part;
}

ExactProblem segment(const ExactProblem& p, int first, int end) {
  const Room& room = listed_room(p.mechanism);
  return {p.mechanism, p.params, cut(p.inputs, room.inputs(), first, end),
          cut(p.cotangents, room.outputs(), first, end)};
}

/// Every output and gradient of the whole run against the two segments: one after the other where there are tokens, the
/// last or the first segment's where a state leaves or enters, the sum where all tokens share one.
Sides segments(const ExactProblem& p) {
  const int T = p.inputs.at("k").shape[0], split = 3;
  const Room& room = listed_room(p.mechanism);
  ExactProblem head = segment(p, 0, split), tail = segment(p, split, T);
  const Answer200 before = answer(head);
  for (const auto& [name, array] : before.outputs)
    if (name.starts_with("final_")) tail.inputs.insert_or_assign("initial_" + name.substr(6), array);
  const Answer200 second = answer(tail);
  for (auto& [name, cotangent] : head.cotangents)
    if (name.starts_with("final_")) cotangent = second.gradients.at("initial_" + name.substr(6));
  const Answer200 first = answer(head), whole = answer(p);
  Sides s;
  const auto compare = [&](const std::vector<RoomFacts::Ranked>& fields, const BasicArrays<Mp200>& a,
                           const BasicArrays<Mp200>& b, const BasicArrays<Mp200>& all) {
    for (const auto& [field, rank] : fields) {
      const auto it = all.find(field.name);
      if (it == all.end()) continue;
      Vector left = numbers(a, field.name);
      const Vector& right = numbers(b, field.name);
      if (rank == 0)
        left = sums(left, right);
      else if (field.axes[0] == Axis::seq_len)
        left.insert(left.end(), right.begin(), right.end());
      else if (field.name.starts_with("final_"))
        left = right;
      s.add(left, it->second.data);
    }
  };
  compare(room.outputs(), first.outputs, second.outputs, whole.outputs);
  compare(room.inputs(), first.gradients, second.gradients, whole.gradients);
  return s;
}

Identity in_segments(std::string_view mechanism, const Params& params = {}, std::string_view name = "segments") {
  return exact(name, mechanism, "tokens 1-3, then 4-7 from the carried states (gradients back): one run",
               "delta-family.md 4, I3", [mechanism, params] { return segments(make(mechanism, params)); });
}

// I4 - I8: no momentum.

/// mu = 0 and M_0 = 0; the last momentum, which then is the last gradient, has no cotangent.
ExactProblem without_momentum() {
  ExactProblem p = filled(filled(make("mdn"), "log_mu", closed), "initial_momentum", 0);
  p.cotangents.erase("final_momentum");
  return p;
}

/// The problem of a first-order room: beta eta for beta, log_alpha for its gate, if it has one.
ExactProblem first_order_problem(const ExactProblem& p, std::string_view mechanism, bool gated, Params params = {}) {
  ExactProblem plain = p;
  plain.mechanism = mechanism;
  params.insert(p.params.begin(), p.params.end());
  plain.params = std::move(params);
  named(plain.inputs, "beta").data = products(numbers(p.inputs, "beta"), numbers(p.inputs, "eta"));
  if (gated) plain.inputs["log_decay"] = named(p.inputs, "log_alpha");
  for (const char* name : {"p", "log_alpha", "log_mu", "eta", "initial_momentum"}) plain.inputs.erase(name);
  return plain;
}

/// p = factor k in mdn without momentum against a room with p = k alone: values and gradients.
Sides reduces(const ExactProblem& p, const ExactProblem& plain, const Vector& factor, bool through_gate) {
  const Answer200 got = answer(p), want = answer(plain);
  Sides s;
  s.outputs(got, want, state_outputs);
  s.gradients(got, want, {"q", "v", "initial_state"});
  const BasicArray<Mp200>& dp = named(got.gradients, "p");
  s.add(sums(numbers(got.gradients, "k"), row_products(dp, factor).data), numbers(want.gradients, "k"));
  const Vector& strength = numbers(want.gradients, "beta");
  s.add(numbers(got.gradients, "beta"), products(strength, numbers(p.inputs, "eta")));
  s.add(numbers(got.gradients, "eta"), products(strength, numbers(p.inputs, "beta")));
  if (want.gradients.contains("log_decay")) {
    Vector gate = numbers(got.gradients, "log_alpha");
    if (through_gate) gate = sums(gate, euler(p, got, "p"));
    s.add(gate, numbers(want.gradients, "log_decay"));
  }
  return s;
}

Vector ones(int n) { return Vector(static_cast<std::size_t>(n), Mp200(1)); }

/// p = alpha k.
ExactProblem predicting_with_the_decayed_key(ExactProblem p) {
  named(p.inputs, "p") = row_products(named(p.inputs, "k"), exponentials(numbers(p.inputs, "log_alpha")));
  return p;
}
ExactProblem predicting_with_the_key(ExactProblem p) {
  named(p.inputs, "p") = named(p.inputs, "k");
  return p;
}

Sides decayed_without_momentum() {
  const ExactProblem p = predicting_with_the_decayed_key(without_momentum());
  Sides s =
      reduces(p, first_order_problem(p, "gated_deltanet", true), exponentials(numbers(p.inputs, "log_alpha")), true);
  // M_T = -eta_T k_T e_T^T, of the state before the last token.
  const int T = p.inputs.at("k").shape[0];
  ExactProblem prefix = segment(p, 0, T - 1);
  const Momentum x = momentum(p);
  const Matrix e = x.v[T - 1] - x.p[T - 1] * matrix(answer(prefix).outputs, "final_state");
  s.add(matrix(answer(p).outputs, "final_momentum"), -entry(x.eta, T - 1) * (transposed(x.k[T - 1]) * e));
  return s;
}

Sides undecayed_without_momentum() {
  const ExactProblem p = predicting_with_the_key(without_momentum());
  return reduces(p, first_order_problem(p, "gated_deltanet", true, {{"error", "undecayed"}}), ones(7), false);
}

Sides comba_without_momentum() {
  const ExactProblem p = without_momentum();
  ExactProblem comba = first_order_problem(p, "comba", true);
  comba.inputs["p"] = named(p.inputs, "p");
  Sides s = reduces(p, comba, Vector(7, Mp200(0)), false);
  s.gradients(answer(p), answer(comba), {"p"});
  return s;
}

Sides undecaying_without_momentum() {
  const ExactProblem p = filled(predicting_with_the_key(without_momentum()), "log_alpha", 0);
  return reduces(p, first_order_problem(p, "deltanet", false), ones(7), false);
}

Sides unpredicted_without_momentum() {
  const ExactProblem p = filled(without_momentum(), "p", 0);
  ExactProblem plain = first_order_problem(p, "mamba2", true);
  named(plain.inputs, "v") = row_products(named(p.inputs, "v"), numbers(plain.inputs, "beta"));
  plain.inputs.erase("beta");
  const Answer200 got = answer(p), want = answer(plain);
  Sides s;
  s.outputs(got, want, state_outputs);
  s.gradients(got, want, {"q", "k", "initial_state"});
  s.add(numbers(got.gradients, "log_alpha"), numbers(want.gradients, "log_decay"));
  return s;
}

/// One vector of gates eps times its own size, against the chunked form with zeros there: every output, and its rate
/// along that vector.
Identity vanishing(std::string_view name, std::string_view statement, std::string_view input, Vector Momentum::*gates,
                   bool logarithmic) {
  const auto rest = [gates] {
    Momentum x = momentum(make("mdn"));
    for (Mp200& value : x.*gates) value = 0;
    return x;
  };
  return {name,
          "mdn",
          statement,
          "delta-family.md 4, I8, I9",
          1,
          [=](const Mp200& eps) {
            const ExactProblem p =
                with(make("mdn"), input, [&](const Mp200& x) { return logarithmic ? x + log(eps) : x * eps; });
            return difference(flat(answer(p).outputs, momentum_outputs), chunked(rest(), 7).flat());
          },
          [=] {
            Momentum d = still(rest());
            d.*gates = momentum(make("mdn")).*gates;
            return rates(rest(), d).flat();
          }};
}

/// I8 against the other room: mu = eps mu, p = alpha k, M_0 = 0.
Identity momentum_to_zero() {
  const auto problem = [](const Mp200& eps) {
    ExactProblem p = predicting_with_the_decayed_key(filled(make("mdn"), "initial_momentum", 0));
    p.cotangents.erase("final_momentum");
    return with(p, "log_mu", [&](const Mp200& x) { return x + log(eps); });
  };
  return {"momentum_to_gated_deltanet",
          "mdn",
          "p = alpha k, M_0 = 0, mu = eps mu: o, S_T -> gated_deltanet(beta eta)",
          "delta-family.md 4, I8",
          1,
          [problem](const Mp200& eps) {
            const ExactProblem p = problem(eps);
            return difference(flat(answer(p).outputs, state_outputs),
                              flat(answer(first_order_problem(p, "gated_deltanet", true)).outputs, state_outputs));
          },
          [problem] {
            Momentum x = momentum(problem(1)), d = still(x);
            d.mu = x.mu;
            for (Mp200& mu : x.mu) mu = 0;
            const MomentumOutputs rate = rates(x, d);
            return FirstOrderOutputs{rate.o, rate.S}.flat();
          }};
}

// I9 - I13.

Sides masked_attention() {
  const ExactProblem p = filled(make("mdn"), "p", 0);
  const Momentum x = momentum(p);
  Matrix o(x.tokens(), x.v.cols);
  for (int t = 0; t < x.tokens(); ++t) {
    Matrix y = product(x.alpha, 0, t) * (x.q[t] * x.S) - momentum_weight(x, t) * (x.q[t] * x.M);
    for (int j = 0; j <= t; ++j) y += (gamma(x, t, j) * entry(x.eta, j) * inner(x.q[t], x.k[j])) * x.v[j];
    o.set_row(t, x.scale * y);
  }
  Sides s;
  s.add(matrix(answer(p).outputs, "o"), o);
  return s;
}

Sides nothing_written() {
  const ExactProblem weightless = filled(make("mdn"), "eta", 0), stepless = filled(make("mdn"), "beta", 0);
  const Momentum x = momentum(weightless);
  const int last = x.tokens() - 1;
  const Answer200 got = answer(weightless);
  Sides s;
  s.add(matrix(got.outputs, "final_state"), product(x.alpha, 0, last) * x.S - momentum_weight(x, last) * x.M);
  s.add(matrix(got.outputs, "final_momentum"), product(x.mu, 0, last) * x.M);
  s.add(matrix(answer(stepless).outputs, "final_state"), product(x.alpha, 0, last) * x.S);
  return s;
}

Sides shared_factor() {
  const Mp200 c = Mp200(-7) / 3;
  const ExactProblem p = make("mdn");
  ExactProblem other = p;
  for (const auto& [name, factor] : {std::pair<const char*, Mp200>{"eta", c}, {"beta", 1 / c}, {"initial_momentum", c}})
    other = with(other, name, [f = factor](const Mp200& x) { return x * f; });
  for (Mp200& x : named(other.cotangents, "final_momentum").data) x /= c;
  const Answer200 got = answer(other), want = answer(p);
  Sides s;
  s.outputs(got, want, state_outputs);
  s.add(flat(got.outputs, {"final_momentum"}), scaled(flat(want.outputs, {"final_momentum"}), c));
  s.gradients(got, want, {"q", "k", "v", "p", "log_alpha", "log_mu", "initial_state"});
  s.add(flat(got.gradients, {"eta", "initial_momentum"}),
        scaled(flat(want.gradients, {"eta", "initial_momentum"}), 1 / c));
  s.add(flat(got.gradients, {"beta"}), scaled(flat(want.gradients, {"beta"}), c));
  return s;
}

/// Steps that fall, so that mu beta_t / beta_{t-1} stays a decay.
ExactProblem falling_steps() {
  ExactProblem p = make("mdn");
  Vector& beta = named(p.inputs, "beta").data;
  for (std::size_t t = 0; t < beta.size(); ++t) beta[t] = Mp200(2) / (3 + static_cast<int>(t * t));
  return p;
}

Sides absorbed_step() {
  const ExactProblem p = falling_steps();
  const Vector& beta = numbers(p.inputs, "beta");
  ExactProblem other = filled(p, "beta", 1);
  named(other.inputs, "eta").data = products(numbers(p.inputs, "eta"), beta);
  Vector& log_mu = named(other.inputs, "log_mu").data;
  for (std::size_t t = 1; t < beta.size(); ++t) log_mu[t] += log(beta[t] / beta[t - 1]);
  other = with(other, "initial_momentum", [&](const Mp200& x) { return x * beta[0]; });
  Sides s;
  s.outputs(answer(other), answer(p), state_outputs);
  return s;
}

Sides second_order_rule() {
  const ExactProblem p = make("mdn");
  const Momentum x = momentum(p);
  const auto state_after = [&](int tokens) {
    return tokens == 0 ? x.S : matrix(answer(segment(p, 0, tokens)).outputs, "final_state");
  };
  Sides s;
  for (int t = 1; t < x.tokens(); ++t) {
    const Matrix before = state_after(t - 1), now = state_after(t), e = x.v[t] - x.p[t] * now;
    s.add(state_after(t + 1),
          entry(x.alpha, t) * now +
              (entry(x.beta, t) * entry(x.mu, t) / entry(x.beta, t - 1)) * (now - entry(x.alpha, t - 1) * before) +
              (entry(x.beta, t) * entry(x.eta, t)) * (transposed(x.k[t]) * e));
  }
  return s;
}

/// 2 and -3 times the values and states of two problems.
Sides linear(std::string_view mechanism) {
  const ExactProblem p = make(mechanism);
  ExactProblem second = p, both = p;
  for (const char* name : {"v", "initial_state", "initial_momentum"}) {
    if (!p.inputs.contains(name)) continue;
    const Vector& a = numbers(p.inputs, name);
    Vector& b = named(second.inputs, name).data;
    b = numbers(make(mechanism, {}, 7, 4, 3, 2).inputs, name);
    named(both.inputs, name).data = sums(scaled(a, 2), scaled(b, -3));
  }
  Names outputs = state_outputs;
  if (p.inputs.contains("initial_momentum")) outputs.emplace_back("final_momentum");
  Sides s;
  s.add(flat(answer(both).outputs, outputs),
        sums(scaled(flat(answer(p).outputs, outputs), 2), scaled(flat(answer(second).outputs, outputs), -3)));
  return s;
}

Matrix last_column(const Matrix& m) {
  Matrix column(m.rows, 1);
  for (int i = 0; i < m.rows; ++i) column(i, 0) = m(i, m.cols - 1);
  return column;
}

Sides independent_columns(std::string_view mechanism) {
  const ExactProblem p = make(mechanism);
  ExactProblem one = p;
  Names states = {"initial_state"}, outputs = state_outputs;
  if (p.inputs.contains("initial_momentum")) {
    states.emplace_back("initial_momentum");
    outputs.emplace_back("final_momentum");
  }
  states.emplace_back("v");
  for (const std::string_view name : states) named(one.inputs, name) = array(last_column(matrix(p.inputs, name)));
  for (const std::string_view name : outputs)
    named(one.cotangents, name) = array(last_column(matrix(p.cotangents, name)));
  const Answer200 got = answer(one), want = answer(p);
  Sides s;
  for (const std::string_view name : outputs) s.add(matrix(got.outputs, name), last_column(matrix(want.outputs, name)));
  for (const std::string_view name : states)
    s.add(matrix(got.gradients, name), last_column(matrix(want.gradients, name)));
  return s;
}

/// Every key-side tensor in another orthonormal basis.
Sides rotated_keys(std::string_view mechanism) {
  const ExactProblem p = make(mechanism);
  const Matrix Q = reflection(4);
  ExactProblem other = p;
  const auto turned = [&](std::string_view name, const Matrix& m) {
    return name.size() == 1 ? m * Q : transposed(Q) * m;  // rows q, k, p; states
  };
  Names inputs, outputs;
  for (const char* name : {"q", "k", "p", "initial_state", "initial_momentum"})
    if (p.inputs.contains(name)) {
      named(other.inputs, name) = array(turned(name, matrix(p.inputs, name)));
      inputs.emplace_back(name);
    }
  for (const char* name : {"final_state", "final_momentum"})
    if (p.cotangents.contains(name)) {
      named(other.cotangents, name) = array(turned(name, matrix(p.cotangents, name)));
      outputs.emplace_back(name);
    }
  const Answer200 got = answer(other), want = answer(p);
  Sides s;
  s.outputs(got, want, {"o"});
  s.gradients(got, want, {"v"});
  for (const std::string_view name : outputs)
    s.add(matrix(got.outputs, name), turned(name, matrix(want.outputs, name)));
  for (const std::string_view name : inputs)
    s.add(matrix(got.gradients, name), turned(name, matrix(want.gradients, name)));
  return s;
}

// I14 - I17: the first-order family.

/// A gate [T] as [T, K].
BasicArray<Mp200> in_all_channels(const Vector& g, int K) {
  Matrix all(static_cast<int>(g.size()), K);
  for (int t = 0; t < all.rows; ++t)
    for (int i = 0; i < K; ++i) all(t, i) = entry(g, t);
  return array(all);
}

/// A rule with a gate per channel against the one with a gate per token; the gate's gradients add up over the channels.
Sides equal_channels(std::string_view mechanism, std::string_view scalar) {
  const ExactProblem p = make(scalar);
  ExactProblem wide = as(p, mechanism);
  named(wide.inputs, "log_decay") = in_all_channels(numbers(p.inputs, "log_decay"), 4);
  const Answer200 got = answer(wide), want = answer(p);
  Names same = {"q", "k", "v", "initial_state"};
  if (p.inputs.contains("beta")) same.emplace_back("beta");
  Sides s;
  s.outputs(got, want, state_outputs);
  s.gradients(got, want, same);
  Matrix one(4, 1);
  one.data = ones(4);
  s.add(matrix(got.gradients, "log_decay") * one, matrix(want.gradients, "log_decay"));
  return s;
}

Sides undecaying(std::string_view mechanism, std::string_view plain, const Params& params = {}) {
  const ExactProblem p = filled(make(mechanism, params), "log_decay", 0);
  ExactProblem without = as(p, plain, {"log_decay"});
  without.params.erase("error");
  Names same = {"q", "k", "v", "initial_state"};
  if (p.inputs.contains("beta")) same.emplace_back("beta");
  const Answer200 got = answer(p), want = answer(without);
  Sides s;
  s.outputs(got, want, state_outputs);
  s.gradients(got, want, same);
  return s;
}

Sides constant_decay() {
  const ExactProblem p = make("retnet", {{"head", 3L}});
  ExactProblem gated = as(p, "mamba2");
  gated.params.erase("head");
  gated.inputs["log_decay"] = {{7}, Vector(7, log(1 - ldexp(Mp200(1), -8)))};
  const Answer200 got = answer(p), want = answer(gated);
  Sides s;
  s.outputs(got, want, state_outputs);
  s.gradients(got, want, {"q", "k", "v", "initial_state"});
  return s;
}

Sides comba_unpredicted() {
  const ExactProblem p = filled(make("comba"), "p", 0);
  const Vector& beta = numbers(p.inputs, "beta");
  ExactProblem plain = as(p, "mamba2", {"beta", "p"});
  named(plain.inputs, "v") = row_products(named(p.inputs, "v"), beta);
  const Answer200 got = answer(p), want = answer(plain);
  Sides s;
  s.outputs(got, want, state_outputs);
  s.gradients(got, want, {"q", "k", "log_decay", "initial_state"});
  s.add(numbers(got.gradients, "v"), row_products(named(want.gradients, "v"), beta).data);
  s.add(products(numbers(got.gradients, "beta"), beta), euler(plain, want, "v"));
  return s;
}

Sides comba_predicting_with_the_decayed_key() {
  const ExactProblem plain = make("gated_deltanet");
  const Vector alpha = exponentials(numbers(plain.inputs, "log_decay"));
  ExactProblem p = as(plain, "comba");
  p.inputs["p"] = row_products(named(plain.inputs, "k"), alpha);
  const Answer200 got = answer(p), want = answer(plain);
  Sides s;
  s.outputs(got, want, state_outputs);
  s.gradients(got, want, {"q", "v", "beta", "initial_state"});
  s.add(sums(numbers(got.gradients, "k"), row_products(named(got.gradients, "p"), alpha).data),
        numbers(want.gradients, "k"));
  s.add(sums(numbers(got.gradients, "log_decay"), euler(p, got, "p")), numbers(want.gradients, "log_decay"));
  return s;
}

/// undecayed(g, beta, v) = decayed(g, beta / alpha, alpha v), with the chain rule for the gradients.
Sides conventions_exchanged() {
  const ExactProblem p = make("gated_deltanet", {{"error", "undecayed"}});
  const Vector alpha = exponentials(numbers(p.inputs, "log_decay")),
               inverse = mapped(alpha, [](const Mp200&x) { return 1 / x; });
  ExactProblem other = p;
  other.params.erase("error");
  named(other.inputs, "beta").data = products(numbers(p.inputs, "beta"), inverse);
  named(other.inputs, "v") = row_products(named(p.inputs, "v"), alpha);
  const Answer200 got = answer(p), want = answer(other);
  Sides s;
  s.outputs(got, want, state_outputs);
  s.gradients(got, want, {"q", "k", "initial_state"});
  s.add(numbers(got.gradients, "beta"), products(numbers(want.gradients, "beta"), inverse));
  s.add(numbers(got.gradients, "v"), row_products(named(want.gradients, "v"), alpha).data);
  s.add(numbers(got.gradients, "log_decay"),
        difference(sums(numbers(want.gradients, "log_decay"), euler(other, want, "v")), euler(other, want, "beta")));
  return s;
}

/// Four orthonormal keys on zero states.
ExactProblem orthonormal(std::string_view mechanism) {
  ExactProblem p = filled(make(mechanism, {}, 4), "initial_state", 0);
  named(p.inputs, "k") = array(reflection(4));
  if (p.inputs.contains("p")) named(p.inputs, "p") = array(reflection(4));
  return p.inputs.contains("initial_momentum") ? filled(p, "initial_momentum", 0) : p;
}

/// k_j S_T = weight_j v_j.
Sides recalled(const ExactProblem& p, const Vector& weights) {
  Sides s;
  s.add(matrix(p.inputs, "k") * matrix(answer(p).outputs, "final_state"),
        matrix(row_products(named(p.inputs, "v"), weights)));
  return s;
}

Sides recalled_exactly() { return recalled(filled(orthonormal("deltanet"), "beta", 1), ones(4)); }

Sides recalled_decayed() {
  const ExactProblem p = filled(orthonormal("gated_deltanet"), "beta", 1);
  const Vector alpha = exponentials(numbers(p.inputs, "log_decay"));
  Vector weights;
  for (int j = 0; j < 4; ++j) weights.push_back(product(alpha, j + 1, 3));
  return recalled(p, weights);
}

Sides recalled_with_momentum() {
  const ExactProblem p = orthonormal("mdn");
  const Momentum x = momentum(p);
  Vector weights;
  for (int j = 0; j < 4; ++j) weights.push_back(gamma(x, 3, j) * entry(x.eta, j));
  return recalled(p, weights);
}

Sides overshooting() {
  ExactProblem p = filled(filled(filled(orthonormal("mdn"), "log_alpha", 0), "beta", 1), "eta", 1);
  const Mp200 mu = Mp200(3) / 4;
  p = filled(p, "log_mu", log(mu));
  Vector weights;
  for (int j = 0; j < 4; ++j) weights.push_back((1 - pow(mu, 4 - j)) / (1 - mu));
  return recalled(p, weights);
}

// Gradient identities that need no second form.

Sides momentum_values_balance() {
  const ExactProblem p = make("mdn");
  const Answer200 got = answer(p);
  Sides s;
  s.add(euler_in(p, got, "v") + euler_in(p, got, "initial_state") + euler_in(p, got, "initial_momentum"),
        euler_out(p, got, "o") + euler_out(p, got, "final_state") + euler_out(p, got, "final_momentum"));
  s.add(euler(p, got, "q"), inner_rows(matrix(p.cotangents, "o"), matrix(got.outputs, "o")));
  s.add(euler(p, got, "k"), euler(p, got, "eta"));
  return s;
}

/// A gate's gradients telescope: gate_t + more_t = gate_{t+1} + extra_{t+1}, `last` after the last token; `first` is
/// what the first gate adds up to.
Sides telescoped(const Vector& gate, const Vector& more, const Vector& extra, const Mp200& last, const Mp200& first) {
  Sides s;
  const int T = static_cast<int>(gate.size());
  s.add(entry(gate, 0) + entry(extra, 0), first);
  for (int t = 0; t < T; ++t)
    s.add(entry(gate, t) + entry(more, t), t + 1 < T ? Mp200(entry(gate, t + 1) + entry(extra, t + 1)) : last);
  return s;
}

Vector nothing(int n) { return Vector(static_cast<std::size_t>(n), Mp200(0)); }

Sides momentum_gates_telescope() {
  const ExactProblem p = make("mdn");
  const Answer200 got = answer(p);
  return telescoped(numbers(got.gradients, "log_mu"), difference(euler(p, got, "eta"), euler(p, got, "beta")),
                    nothing(7), euler_out(p, got, "final_momentum"), euler_in(p, got, "initial_momentum"));
}

Sides state_gates_telescope() {
  const ExactProblem p = make("mdn");
  const Answer200 got = answer(p);
  return telescoped(numbers(got.gradients, "log_alpha"), difference(euler(p, got, "beta"), euler(p, got, "q")),
                    euler(p, got, "p"), euler_out(p, got, "final_state"), euler_in(p, got, "initial_state"));
}

/// dg summed over the channels; 2 beta dbeta - <k, dk> = beta dbeta - <p, dp> where p = k.
Sides decayed_gates_telescope(std::string_view mechanism) {
  const ExactProblem p = make(mechanism);
  const Answer200 got = answer(p);
  const Matrix dg = matrix(got.gradients, "log_decay");
  Matrix one(dg.cols, 1);
  one.data = ones(dg.cols);
  const Vector more = difference(scaled(euler(p, got, "beta"), 2), sums(euler(p, got, "k"), euler(p, got, "q")));
  return telescoped((dg * one).data, more, nothing(7), euler_out(p, got, "final_state"),
                    euler_in(p, got, "initial_state"));
}

/// The division-free gate gradient of section 3.2: per channel if the gate is, else summed over them.
Sides gates_without_division(std::string_view mechanism) {
  const ExactProblem p = make(mechanism);
  const Answer200 got = answer(p);
  const int T = 7, K = 4;
  const auto channels = [&](std::string_view name) {
    return p.inputs.contains(name) ? hadamard(matrix(p.inputs, name), matrix(got.gradients, name)) : Matrix(T, K);
  };
  const Matrix q = channels("q"), k = channels("k"), predicted = channels("p"),
               ends = hadamard(matrix(p.cotangents, "final_state"), matrix(got.outputs, "final_state"));
  const Matrix dg = matrix(got.gradients, "log_decay");
  Matrix later(1, K), want(T, K);
  for (int i = 0; i < K; ++i)
    for (int j = 0; j < ends.cols; ++j) later(0, i) += ends(i, j);
  for (int t = T - 1; t >= 0; --t) {
    later += q[t] - k[t];
    want.set_row(t, later);
    later += predicted[t];  // undecayed: of the tokens after t
  }
  Matrix one(K, 1);
  one.data = ones(K);
  Sides s;
  s.add(dg, dg.cols == 1 ? want * one : want);
  return s;
}

Sides first_order_values_balance(std::string_view mechanism) {
  const ExactProblem p = make(mechanism);
  const Answer200 got = answer(p);
  Sides s;
  s.add(euler_in(p, got, "v") + euler_in(p, got, "initial_state"),
        euler_out(p, got, "o") + euler_out(p, got, "final_state"));
  s.add(euler(p, got, "q"), inner_rows(matrix(p.cotangents, "o"), matrix(got.outputs, "o")));
  return s;
}

// Limits of the first-order family.

/// The outputs of a first-order room along a path into another one's; their rates follow from the direction.
Identity first_order_limit(std::string_view name, std::string_view mechanism, std::string_view statement,
                           std::string_view source, const std::function<ExactProblem(const Mp200&)>& problem,
                           const std::function<ExactProblem()>& end,
                           const std::function<void(FirstOrder&)>& direction) {
  return {name,
          mechanism,
          statement,
          source,
          1,
          [problem, end](const Mp200& eps) {
            return difference(flat(answer(problem(eps)).outputs, state_outputs),
                              flat(answer(end()).outputs, state_outputs));
          },
          [problem, direction] {
            const FirstOrder x = first_order(problem(0));
            FirstOrder d = still(x);
            direction(d);
            return rates(x, d).flat();
          }};
}

/// log_decay = eps g: the rule without decay.
Identity slow_decay(std::string_view mechanism, std::string_view plain, std::string_view statement) {
  const auto problem = [mechanism](const Mp200& eps) {
    return with(make(mechanism), "log_decay", [&](const Mp200& g) { return g * eps; });
  };
  return first_order_limit(
      "slow_decay", mechanism, statement, "delta-family.md 4, I14, I15", problem,
      [mechanism, plain] { return as(make(mechanism), plain, {"log_decay"}); },
      [mechanism](FirstOrder& d) {
        const Matrix g = matrix(make(mechanism).inputs, "log_decay");
        for (int t = 0; t < d.D.rows; ++t)
          for (int i = 0; i < d.D.cols; ++i) d.D(t, i) = g(t, g.cols == 1 ? 0 : i);
      });
}

/// g_ti = g_t + eps c_ti with c the keys.
Identity nearly_equal_channels(std::string_view mechanism, std::string_view scalar, std::string_view statement) {
  const auto problem = [mechanism, scalar](const Mp200& eps) {
    ExactProblem p = as(make(scalar), mechanism);
    const Matrix g = matrix(in_all_channels(numbers(p.inputs, "log_decay"), 4));
    named(p.inputs, "log_decay") = array(g + eps * matrix(p.inputs, "k"));
    return p;
  };
  return first_order_limit(
      "nearly_equal_channels", mechanism, statement, "delta-family.md 4, I14", problem,
      [scalar] { return make(scalar); },
      [problem](FirstOrder& d) {
        const FirstOrder x = first_order(problem(0));
        d.D = hadamard(x.D, x.k);
      });
}

/// The two errors under log_decay = eps g differ by beta k k^T (1 - alpha) S.
Identity conventions_meet() {
  const auto problem = [](const Mp200& eps, const Params& params) {
    return with(make("gated_deltanet", params), "log_decay", [&](const Mp200& g) { return g * eps; });
  };
  const auto rate = [problem](const Params& params) {
    const FirstOrder x = first_order(problem(0, params));
    FirstOrder d = still(x);
    const Matrix g = matrix(make("gated_deltanet").inputs, "log_decay");
    for (int t = 0; t < d.D.rows; ++t)
      for (int i = 0; i < d.D.cols; ++i) d.D(t, i) = g(t, 0);
    return rates(x, d).flat();
  };
  const Params undecayed = {{"error", "undecayed"}};
  return {"conventions_meet",
          "gated_deltanet",
          "log_decay = eps g: error=undecayed -> error=decayed",
          "delta-family.md 3.1",
          1,
          [problem, undecayed](const Mp200& eps) {
            return difference(flat(answer(problem(eps, undecayed)).outputs, state_outputs),
                              flat(answer(problem(eps, {})).outputs, state_outputs));
          },
          [rate, undecayed] { return difference(rate(undecayed), rate({})); }};
}

/// With S_0 = 0 a rule with beta = eps writes eps k v^T, and corrects it in second order:
/// o_t / eps = linear_attention - eps s sum_{j <= t} <q_t, k_j> sum_{i < j} <k_j, k_i> v_i.
Identity small_steps() {
  const auto problem = [](const Mp200& eps) {
    return filled(filled(make("deltanet"), "initial_state", 0), "beta", eps);
  };
  return {"small_steps",
          "deltanet",
          "beta = eps, S_0 = 0: o / eps -> linear_attention",
          "delta-family.md 3.1",
          1,
          [problem](const Mp200& eps) {
            const ExactProblem p = problem(eps);
            return difference(scaled(flat(answer(p).outputs, {"o"}), 1 / eps),
                              flat(answer(as(p, "linear_attention", {"beta"})).outputs, {"o"}));
          },
          [problem] {
            const FirstOrder x = first_order(problem(0));
            Matrix rate(x.tokens(), x.v.cols);
            for (int t = 0; t < x.tokens(); ++t) {
              Matrix sum(1, x.v.cols);
              for (int j = 0; j <= t; ++j)
                for (int i = 0; i < j; ++i) sum -= (inner(x.q[t], x.k[j]) * inner(x.k[j], x.k[i])) * x.v[i];
              rate.set_row(t, x.scale * sum);
            }
            return rate.data;
          }};
}

// 3.5: normalised linear attention.

/// Positive features, so that every denominator is.
ExactProblem features(std::string_view eps = "0") {
  ExactProblem p = make("linear_attention", {{"normalization", "features"}, {"eps", std::string(eps)}});
  for (const char* name : {"q", "k", "initial_normalizer"}) p = with(p, name, [](const Mp200& x) { return abs(x); });
  return p;
}

/// n_t of a problem with features, from the keys before it.
Vector denominators(const ExactProblem& p) {
  const Matrix q = matrix(p.inputs, "q"), k = matrix(p.inputs, "k");
  Matrix z = transposed(matrix(p.inputs, "initial_normalizer"));
  Vector n;
  for (int t = 0; t < q.rows; ++t) {
    z += k[t];
    n.push_back(scale_of(p, k.cols) * inner(q[t], z) + p.number("eps"));
  }
  return n;
}

Sides features_are_weighted_means() {
  const ExactProblem p = filled(filled(features(), "initial_state", 0), "initial_normalizer", 0);
  const Matrix q = matrix(p.inputs, "q"), k = matrix(p.inputs, "k"), v = matrix(p.inputs, "v");
  Matrix o(q.rows, v.cols);
  for (int t = 0; t < q.rows; ++t) {
    Mp200 total = 0;
    Matrix sum(1, v.cols);
    for (int j = 0; j <= t; ++j) {
      const Mp200 weight = inner(q[t], k[j]);
      total += weight;
      sum += weight * v[j];
    }
    o.set_row(t, 1 / total * sum);
  }
  Sides s;
  s.add(matrix(answer(p).outputs, "o"), o);
  // Weights that add up to one leave a constant as it is.
  s.add(flat(answer(filled(p, "v", Mp200(5) / 7)).outputs, {"o"}), Vector(o.data.size(), Mp200(5) / 7));
  return s;
}

Sides features_are_scale_free() {
  const ExactProblem p = features();
  ExactProblem other = with(p, "q", [](const Mp200& x) { return 3 * x; });
  other.params["scale"] = "0.125";
  for (const char* name : {"k", "initial_state", "initial_normalizer"})
    other = with(other, name, [](const Mp200& x) { return x / 7; });
  Sides s;
  s.outputs(answer(other), answer(p), {"o"});
  return s;
}

/// <q, dq> = (eps / n) <do, o>: nothing without eps.
Sides features_query_gradients() {
  const ExactProblem p = features("0.5");
  const Answer200 got = answer(p);
  const Vector n = denominators(p), reads = inner_rows(matrix(p.cotangents, "o"), matrix(got.outputs, "o"));
  Sides s;
  for (int t = 0; t < 7; ++t) s.add(entry(euler(p, got, "q"), t), p.number("eps") / entry(n, t) * entry(reads, t));
  s.add(euler_in(p, got, "v") + euler_in(p, got, "initial_state"),
        euler_out(p, got, "o") + euler_out(p, got, "final_state"));
  return s;
}

/// o = y / (n + eps) = o_0 (1 - eps / n + ..).
Identity features_without_eps() {
  return {"eps_to_zero",
          "linear_attention",
          "normalization=features: o(eps) -> o(0)",
          "delta-family.md 3.5",
          1,
          [](const Mp200& eps) {
            ExactProblem p = features();
            p.set_number("eps", eps);
            return difference(flat(answer(p).outputs, {"o"}), flat(answer(features()).outputs, {"o"}));
          },
          [] {
            const ExactProblem p = features();
            const Vector n = denominators(p);
            return row_products(array(matrix(answer(p).outputs, "o")), mapped(n, [](const Mp200& x) { return -1 / x; }))
                .data;
          }};
}

// 2.9: the spectrum of one step.

/// One token of mdn on 2 K value columns.
ExactProblem one_token() { return make("mdn", {}, 1, 3, 6); }

/// det(lambda - A) = (lambda - alpha)^{K-1} (lambda - mu)^{K-1} (lambda^2 - tau lambda + alpha mu) at more points than
/// its degree; at 0 it is det A = (alpha mu)^K.
Sides characteristic_polynomial() {
  const ExactProblem p = one_token();
  const Momentum x = momentum(p);
  const Matrix A = map_of_the_room(p);
  const Mp200 alpha = x.alpha[0], mu = x.mu[0], tau = alpha + mu - x.beta[0] * x.eta[0] * inner(x.p, x.k);
  Sides s;
  s.add(determinant(A), pow(alpha * mu, 3));
  for (int i = -4; i <= 4; ++i) {
    const Mp200 lambda = Mp200(i) / 3;
    s.add(determinant(lambda * identity(6) - A),
          pow(lambda - alpha, 2) * pow(lambda - mu, 2) * (lambda * lambda - tau * lambda + alpha * mu));
  }
  return s;
}

Sides map_of_one_step() {
  const ExactProblem p = one_token();
  Sides s;
  s.add(map_of_the_room(p), step_map(momentum(p), 0));
  return s;
}

/// With alpha = mu, A - alpha is nilpotent, not zero, on states that p does not see: [x; y] -> [-beta mu y; 0].
Sides equal_decays_are_defective() {
  ExactProblem p = one_token();
  named(p.inputs, "log_mu") = named(p.inputs, "log_alpha");
  const Momentum x = momentum(p);
  Matrix unseen(1, 3);
  unseen(0, 0) = x.p(0, 1), unseen(0, 1) = -x.p(0, 0);
  Matrix both(6, 1);
  for (int i = 0; i < 3; ++i) both(i, 0) = unseen(0, i), both(3 + i, 0) = 2 * unseen(0, i);
  const Matrix nilpotent = map_of_the_room(p) - x.alpha[0] * identity(6), once = nilpotent * both;
  Matrix want(6, 1);
  for (int i = 0; i < 3; ++i) want(i, 0) = -2 * x.beta[0] * x.mu[0] * unseen(0, i);
  Sides s;
  s.add(once, want);
  s.add(nilpotent * once, Matrix(6, 1));
  return s;
}

/// One token with beta eta <p, k> = x.
ExactProblem token_with(const std::function<Mp200(const Mp200& alpha, const Mp200& mu)>& x) {
  const ExactProblem p = one_token();
  const Momentum m = momentum(p);
  return filled(p, "beta", x(m.alpha[0], m.mu[0]) / (m.eta[0] * inner(m.p, m.k)));
}

/// At x = (1 + alpha)(1 + mu) - eps the eigenvalue -1 is missed by eps: det(A + 1) = (1 + alpha)^{K-1} (1 + mu)^{K-1}
/// eps.
Identity stability_edge() {
  return {"stability_edge",
          "mdn",
          "beta eta <p, k> = (1 + alpha)(1 + mu) - eps: det(A + 1) -> 0",
          "delta-family.md 2.9",
          1,
          [](const Mp200& eps) {
            const ExactProblem p =
                token_with([&](const Mp200& alpha, const Mp200& mu) { return (1 + alpha) * (1 + mu) - eps; });
            return Vector{determinant(map_of_the_room(p) + identity(6))};
          },
          [] {
            const Momentum m = momentum(one_token());
            return Vector{pow((1 + m.alpha[0]) * (1 + m.mu[0]), 2)};
          }};
}

/// At x = alpha + mu - eps the pair is off +-i sqrt(alpha mu) by its trace eps: det(A^2 + alpha mu) = alpha mu eps^2
/// (alpha^2 + alpha mu)^{K-1} (mu^2 + alpha mu)^{K-1}.
Identity half_plane_edge() {
  return {"half_plane_edge",
          "mdn",
          "beta eta <p, k> = alpha + mu - eps: det(A^2 + alpha mu) -> 0",
          "delta-family.md 2.9",
          2,
          [](const Mp200& eps) {
            const ExactProblem p = token_with([&](const Mp200& alpha, const Mp200& mu) { return alpha + mu - eps; });
            const Momentum m = momentum(p);
            const Matrix A = map_of_the_room(p);
            return Vector{determinant(A * A + (m.alpha[0] * m.mu[0]) * identity(6))};
          },
          [] {
            const Momentum m = momentum(one_token());
            const Mp200 both = m.alpha[0] * m.mu[0], sum = m.alpha[0] + m.mu[0];
            return Vector{both * pow(both * sum * sum, 2)};
          }};
}

// 2.8: gates.

/// beta / sigmoid(b) + alpha exp(decay) = sin^2 + cos^2 = 1, with exp(A softplus(x)) = (1 + e^x)^A.
Sides gates_share_an_angle() {
  const ExactProblem p = make("mdn_gates");
  const Answer200 got = answer(p);
  const auto param = [&](std::string_view name) { return numbers(p.inputs, name)[0]; };
  Sides s;
  for (int t = 0; t < 7; ++t) {
    const Mp200 x = entry(numbers(p.inputs, "a"), t) + param("dt_bias"), b = entry(numbers(p.inputs, "b"), t);
    s.add(entry(numbers(got.outputs, "beta"), t) * (1 + exp(-b)) +
              exp(entry(numbers(got.outputs, "log_alpha"), t)) * pow(1 + exp(x), exp(param("a_log"))),
          1);
    const Mp200 eta = entry(numbers(got.outputs, "eta"), t), e = entry(numbers(p.inputs, "e"), t);
    s.add((eta - 1) * (1 + exp(2 * e / p.number("tau"))), exp(2 * e / p.number("tau")) - 1);
  }
  return s;
}

/// mu at or above its floor, and no gradient where it is at the floor.
Sides clamped_momentum() {
  const ExactProblem free = make("mdn_gates");
  ExactProblem p = free;
  Vector log_mu = numbers(answer(free).outputs, "log_mu"), sorted = log_mu;
  std::sort(sorted.begin(), sorted.end());
  const Mp200 floor = (sorted[2] + sorted[3]) / 2;
  p.set_number("min_log_mu", floor);
  const Answer200 got = answer(p);
  const Vector unclamped = numbers(answer(free).gradients, "m");
  Sides s;
  Mp200 bias = 0;
  for (int t = 0; t < 7; ++t) {
    const bool below = entry(log_mu, t) < floor;
    s.add(entry(numbers(got.outputs, "log_mu"), t), below ? floor : entry(log_mu, t));
    s.add(entry(numbers(got.gradients, "m"), t), below ? Mp200(0) : entry(unclamped, t));
    bias += below ? Mp200(0) : entry(unclamped, t);
  }
  s.add(numbers(got.gradients, "mu_bias")[0], bias);
  return s;
}

/// One token with sigmoid(b) = 1 / (1 + eps), softplus(a + dt_bias) = log(1 + eps) and the given eta and phi.
ExactProblem open_gates(const Mp200& eps, const Mp200& eta, const Mp200& phi) {
  ExactProblem p = make("mdn_gates", {}, 1);
  p = filled(p, "b", -log(eps));
  p = filled(p, "a", log(eps) - numbers(p.inputs, "dt_bias")[0]);
  p = filled(p, "e", p.number("tau") * log(eta / (2 - eta)) / 2);
  return filled(p, "log_factor", log(phi / eta));
}

/// alpha + beta -> 1 from below: the bound is met with no decay and a full step.
Identity angle_budget() {
  const Mp200 eta = Mp200(3) / 2, phi = Mp200(4) / 5;
  return {"angle_budget",
          "mdn_gates",
          "sigmoid(b) = 1 / (1 + eps), softplus(a) = log(1 + eps): alpha + beta -> 1",
          "delta-family.md 2.8",
          1,
          [eta, phi](const Mp200& eps) {
            const Answer200 got = answer(open_gates(eps, eta, phi));
            return Vector{exp(numbers(got.outputs, "log_alpha")[0]) + numbers(got.outputs, "beta")[0] - 1};
          },
          [phi] {
            const Mp200 A = exp(numbers(make("mdn_gates", {}, 1).inputs, "a_log")[0]);
            return Vector{-(phi * phi + A) / (1 + phi * phi)};
          }};
}

/// sup alpha (beta eta - 1) = 1/8, at sin^2 theta = 3/4 as eta -> 2: the decay of the momentum that guarantees
/// eigenvalues of positive real part.
Identity half_plane_bound() {
  return {
      "half_plane_bound",
      "mdn_gates",
      "eta = 2 - eps, sin^2 theta = 3/4: alpha (beta eta - 1) -> 1/8",
      "delta-family.md 2.9",
      1,
      [](const Mp200& eps) {
        const Answer200 got = answer(open_gates(eps, 2 - eps, sqrt(Mp200(3))));
        const Mp200 alpha = exp(numbers(got.outputs, "log_alpha")[0]);
        return Vector{alpha * (numbers(got.outputs, "beta")[0] * numbers(got.outputs, "eta")[0] - 1) - Mp200(1) / 8};
      },
      [] {
        const Mp200 A = exp(numbers(make("mdn_gates", {}, 1).inputs, "a_log")[0]);
        return Vector{-A / 8 - Mp200(9) / 16};
      }};
}

// 2.3: the front end.

/// The front end's problem without its constant and with log_d, if any, from exp(log_d) = D.
ExactProblem front_end(const Mp200& l2_eps, const Mp200& D) {
  ExactProblem p = make("mdn_front_end");
  p.set_number("l2_eps", l2_eps);
  p.inputs.erase("log_d");
  if (D != 0) p.inputs["log_d"] = {{}, {log(D)}};
  return p;
}

/// What the front end hands on, as an mdn problem.
ExactProblem prepared(const ExactProblem& p, const Mp200& l2_eps, const Mp200& D) {
  return delta::prepared(p, D, [&](const Mp200& square) { return 1 / sqrt(square + l2_eps); });
}

Sides front_end_prepares() {
  const Mp200 l2_eps = Mp200(1) / 1000000, D = Mp200(2) / 5;
  ExactProblem p = front_end(l2_eps, D);
  p.params.erase("l2_eps");  // the default
  const Answer200 got = answer(p), want = answer(prepared(p, l2_eps, D));
  Sides s;
  s.outputs(got, want, momentum_outputs);
  s.gradients(got, want, {"v", "log_mu", "beta", "eta", "initial_state", "initial_momentum"});
  s.add(numbers(got.gradients, "log_alpha"),
        sums(numbers(want.gradients, "log_alpha"), euler(prepared(p, l2_eps, D), want, "p")));
  return s;
}

/// With l2_eps = 0 a norm leaves no gradient along its argument: <dq, q - D k> = 0, <dk + D dq, k> = 0, and log_d's is
/// -D sum <dq, k>. Scaling q and k together changes nothing; with a constant, it scales like a square.
Sides norms_are_scale_free() {
  const Mp200 D = Mp200(2) / 5;
  const ExactProblem p = front_end(0, D);
  const Answer200 got = answer(p);
  const Matrix q = matrix(p.inputs, "q"), k = matrix(p.inputs, "k"), dq = matrix(got.gradients, "q"),
               dk = matrix(got.gradients, "k");
  Sides s;
  s.add(inner_rows(dq, q - D * k), nothing(7));
  s.add(inner_rows(dk + D * dq, k), nothing(7));
  s.add(numbers(got.gradients, "log_d")[0], -D * inner(dq, k));
  for (const Mp200& eps : {Mp200(0), Mp200(1) / 8}) {
    ExactProblem other = front_end(9 * eps, D);
    for (const char* name : {"q", "k"}) other = with(other, name, [](const Mp200& x) { return 3 * x; });
    s.outputs(answer(other), answer(front_end(eps, D)), momentum_outputs);
  }
  return s;
}

/// The rates of the outputs when what the front end hands on moves with dq and dk.
Vector front_end_rates(const ExactProblem& core, const Matrix& dq, const Matrix& dk) {
  const Momentum x = momentum(core);
  Momentum d = still(x);
  d.q = dq, d.k = dk;
  d.p = matrix(row_products(array(dk), x.alpha));
  return rates(x, d).flat();
}

/// dN/d(l2_eps) = -x / (2 |x|^3).
Identity norm_without_constant() {
  return {"l2_eps_to_zero",
          "mdn_front_end",
          "l2_eps = eps: outputs of exact unit norms",
          "delta-family.md 2.3",
          1,
          [](const Mp200& eps) {
            return difference(flat(answer(front_end(eps, 0)).outputs, momentum_outputs),
                              flat(answer(front_end(0, 0)).outputs, momentum_outputs));
          },
          [] {
            const ExactProblem p = front_end(0, 0);
            const auto rate = [](Matrix x) {
              for (int t = 0; t < x.rows; ++t) x.set_row(t, -1 / (2 * pow(inner(x[t], x[t]), Mp200(3) / 2)) * x[t]);
              return x;
            };
            return front_end_rates(prepared(p, 0, 0), rate(matrix(p.inputs, "q")), rate(matrix(p.inputs, "k")));
          }};
}

/// d/dD N(q - D k) = -(k - y <y, k>) / |q| at D = 0, y = N(q).
Identity no_correction() {
  return {"correction_to_zero",
          "mdn_front_end",
          "exp(log_d) = eps: outputs without the correction",
          "delta-family.md 2.3",
          1,
          [](const Mp200& eps) {
            return difference(flat(answer(front_end(0, eps)).outputs, momentum_outputs),
                              flat(answer(front_end(0, 0)).outputs, momentum_outputs));
          },
          [] {
            const ExactProblem p = front_end(0, 0), core = prepared(p, 0, 0);
            const Matrix q = matrix(p.inputs, "q"), k = matrix(p.inputs, "k"), y = matrix(core.inputs, "q");
            Matrix dq(7, 4);
            for (int t = 0; t < 7; ++t) dq.set_row(t, -1 / sqrt(inner(q[t], q[t])) * (k[t] - inner(y[t], k[t]) * y[t]));
            return front_end_rates(core, dq, Matrix(7, 4));
          }};
}

/// A key of zeros has no direction: its gradient is that of its unit key over sqrt(l2_eps), or nothing.
Sides zero_key() {
  const Mp200 l2_eps = Mp200(1) / 1000000;
  const auto problem = [](const Mp200& eps) {
    ExactProblem p = front_end(eps, 0);
    Matrix k = matrix(p.inputs, "k");
    k.set_row(3, Matrix(1, 4));
    named(p.inputs, "k") = array(k);
    return p;
  };
  const auto d_k = [](const ExactProblem& p) { return matrix(answer(p).gradients, "k")[3]; };
  const ExactProblem core = prepared(problem(l2_eps), l2_eps, 0);
  const Answer200 got = answer(core);
  const Matrix unit = matrix(got.gradients, "k")[3] + momentum(core).alpha[3] * matrix(got.gradients, "p")[3];
  Sides s;
  s.add(d_k(problem(l2_eps)), Mp200(1000) * unit);
  s.add(d_k(problem(0)), Matrix(1, 4));
  return s;
}

std::vector<Identity> list() {
  constexpr std::string_view i_source = "delta-family.md 4";
  const auto of = [](auto sides, std::string_view mechanism) { return [=] { return sides(mechanism); }; };
  const Params undecayed = {{"error", "undecayed"}}, with_features = {{"normalization", "features"}};
  return {
      exact("chunks", "mdn", "chunks of 1, 3, 7 and 9 tokens, decays of 0 included: the recurrence",
            "delta-family.md 2.5, I1", momentum_chunks),
      exact("chunk_gradients", "mdn",
            "gradients by chunks of 1, 3 and 7 tokens, decays of 0 included: the recurrence's",
            "delta-family.md 2.6, I2", momentum_chunk_gradients),
      first_order_chunks("deltanet"),
      first_order_chunks("gated_deltanet"),
      first_order_chunks("gated_deltanet", undecayed, "chunks_undecayed"),
      first_order_chunks("kda"),
      first_order_chunks("comba"),
      first_order_chunks("mamba2"),
      first_order_chunks("gla"),
      first_order_chunks("retnet", {{"head", 3L}}),
      first_order_chunks("linear_attention"),
      in_segments("mdn"),
      in_segments("mdn_front_end"),
      in_segments("deltanet"),
      in_segments("gated_deltanet"),
      in_segments("gated_deltanet", undecayed, "segments_undecayed"),
      in_segments("kda"),
      in_segments("comba"),
      in_segments("mamba2"),
      in_segments("gla"),
      in_segments("retnet"),
      in_segments("linear_attention"),
      in_segments("linear_attention", with_features, "segments_features"),
      exact("without_momentum_decayed", "mdn", "mu = 0, p = alpha k: gated_deltanet(beta eta), M_T = -eta k e^T",
            "delta-family.md 4, I4", decayed_without_momentum),
      exact("without_momentum_undecayed", "mdn", "mu = 0, p = k: gated_deltanet(error=undecayed, beta eta)",
            "delta-family.md 4, I5", undecayed_without_momentum),
      exact("without_momentum_any_key", "mdn", "mu = 0: comba(beta eta)", "delta-family.md 4, I5",
            comba_without_momentum),
      exact("without_momentum_undecaying", "mdn", "mu = 0, alpha = 1, p = k: deltanet(beta eta)",
            "delta-family.md 4, I6", undecaying_without_momentum),
      exact("without_momentum_unpredicted", "mdn", "mu = 0, p = 0: mamba2(v = beta eta v)", "delta-family.md 4, I7",
            unpredicted_without_momentum),
      momentum_to_zero(),
      vanishing("momentum_to_zero", "mu = eps mu: outputs -> those of mu = 0", "log_mu", &Momentum::mu, true),
      vanishing("decay_to_zero", "alpha = eps alpha: outputs -> those of alpha = 0", "log_alpha", &Momentum::alpha,
                true),
      vanishing("step_to_zero", "beta = eps beta: S_T -> a_T S_0, o_t -> a_t S_0^T q_t", "beta", &Momentum::beta,
                false),
      vanishing("weight_to_zero", "eta = eps eta: S_T -> a_T S_0 - b_T M_0, M_T -> m_T M_0", "eta", &Momentum::eta,
                false),
      exact("masked_attention", "mdn", "p = 0: attention under the mask Gamma_tj eta_j, plus the states' reads",
            "delta-family.md 4, I9", masked_attention),
      exact("nothing_written", "mdn", "eta = 0: S_T = a_T S_0 - b_T M_0, M_T = m_T M_0; beta = 0: S_T = a_T S_0",
            "delta-family.md 4, I9", nothing_written),
      exact("shared_factor", "mdn", "(eta, beta, M_0) -> (c eta, beta / c, c M_0): o, S_T stay, M_T -> c M_T",
            "delta-family.md 4, I10", shared_factor),
      exact("absorbed_step", "mdn", "eta beta for eta, mu_t beta_t / beta_{t-1} for mu, beta_1 M_0, 1 for beta: o, S_T",
            "delta-family.md 4, I11", absorbed_step),
      exact("second_order_rule", "mdn", "S_{t+1} from S_t, S_{t-1} and the error alone", "delta-family.md 4, I12",
            second_order_rule),
      exact("linear_in_values_and_states", "mdn", "(v, S_0, M_0) -> (o, S_T, M_T) is linear", "delta-family.md 4, I13",
            of(linear, "mdn")),
      exact("linear_in_values_and_states", "gated_deltanet", "(v, S_0) -> (o, S_T) is linear", "delta-family.md 4, I13",
            of(linear, "gated_deltanet")),
      exact("independent_columns", "mdn", "the last value column alone: its outputs and gradients",
            "delta-family.md 4, I13", of(independent_columns, "mdn")),
      exact("independent_columns", "kda", "the last value column alone: its outputs and gradients",
            "delta-family.md 4, I13", of(independent_columns, "kda")),
      exact("rotated_keys", "mdn", "q, k, p, S_0, M_0 in another orthonormal basis: the same o",
            "delta-family.md 4, I13", of(rotated_keys, "mdn")),
      exact("rotated_keys", "comba", "q, k, p, S_0 in another orthonormal basis: the same o", "delta-family.md 4, I13",
            of(rotated_keys, "comba")),
      exact("equal_channels", "kda", "one decay for all channels: gated_deltanet", "delta-family.md 4, I14",
            [] { return equal_channels("kda", "gated_deltanet"); }),
      exact("equal_channels", "gla", "one decay for all channels: mamba2", "delta-family.md 4, I14",
            [] { return equal_channels("gla", "mamba2"); }),
      exact("undecaying", "gla", "log_decay = 0: linear_attention", "delta-family.md 4, I14",
            [] { return undecaying("gla", "linear_attention"); }),
      exact("undecaying", "mamba2", "log_decay = 0: linear_attention", "delta-family.md 4, I14",
            [] { return undecaying("mamba2", "linear_attention"); }),
      exact("constant_decay", "mamba2", "log_decay = log(1 - 2^-8): retnet(head=3)", "delta-family.md 4, I14",
            constant_decay),
      exact("undecaying", "gated_deltanet", "log_decay = 0: deltanet", "delta-family.md 4, I15",
            [] { return undecaying("gated_deltanet", "deltanet"); }),
      exact("undecaying_undecayed", "gated_deltanet", "error=undecayed, log_decay = 0: deltanet",
            "delta-family.md 4, I15", [undecayed] { return undecaying("gated_deltanet", "deltanet", undecayed); }),
      exact("undecaying", "kda", "log_decay = 0: deltanet", "delta-family.md 4, I14, I15",
            [] { return undecaying("kda", "deltanet"); }),
      exact("unpredicted", "comba", "p = 0: mamba2(v = beta v)", "delta-family.md 4, I15", comba_unpredicted),
      exact("predicting_with_the_decayed_key", "comba", "p = alpha k: gated_deltanet", "delta-family.md 4, I16",
            comba_predicting_with_the_decayed_key),
      exact("conventions_exchanged", "gated_deltanet", "error=undecayed: error=decayed of (beta / alpha, alpha v)",
            "delta-family.md 4, I16", conventions_exchanged),
      slow_decay("gated_deltanet", "deltanet", "log_decay = eps g: deltanet"),
      slow_decay("kda", "deltanet", "log_decay = eps g: deltanet"),
      slow_decay("gla", "linear_attention", "log_decay = eps g: linear_attention"),
      slow_decay("mamba2", "linear_attention", "log_decay = eps g: linear_attention"),
      nearly_equal_channels("kda", "gated_deltanet", "log_decay = g + eps k: gated_deltanet"),
      nearly_equal_channels("gla", "mamba2", "log_decay = g + eps k: mamba2"),
      conventions_meet(),
      small_steps(),
      exact("recalled_exactly", "deltanet", "orthonormal keys, S_0 = 0, beta = 1: S_T^T k_j = v_j",
            "delta-family.md 4, I17", recalled_exactly),
      exact("recalled_decayed", "gated_deltanet", "orthonormal keys, S_0 = 0, beta = 1: S_T^T k_j = (a_T / a_j) v_j",
            "delta-family.md 4, I17", recalled_decayed),
      exact("recalled_with_momentum", "mdn", "orthonormal keys, S_0 = M_0 = 0: S_T^T k_j = Gamma_Tj eta_j v_j",
            "delta-family.md 4, I17", recalled_with_momentum),
      exact("overshooting", "mdn", "... alpha = beta = eta = 1: S_T^T k_j = (1 - mu^m) / (1 - mu) v_j, m = T - j + 1",
            "delta-family.md 4, I17", overshooting),
      exact("values_balance", "mdn",
            "<dv, v> + <dS_0, S_0> + <dM_0, M_0> = <do, o> + <dS_T, S_T> + <dM_T, M_T>; "
            "<dq, q> = <do, o>, <dk, k> = eta deta",
            i_source, momentum_values_balance),
      exact("momentum_gates_telescope", "mdn", "dlog_mu_t + eta deta - beta dbeta = dlog_mu_{t+1}, <dM, M> at the ends",
            i_source, momentum_gates_telescope),
      exact("state_gates_telescope", "mdn",
            "dlog_alpha_t + beta dbeta - <q, dq> = dlog_alpha_{t+1} + <p, dp>_{t+1}, <dS, S> at the ends", i_source,
            state_gates_telescope),
      exact("gates_telescope", "gated_deltanet",
            "dg_t + beta dbeta - <p, dp> - <q, dq> = dg_{t+1}, <dS, S> at the ends", i_source,
            of(decayed_gates_telescope, "gated_deltanet")),
      exact("gates_telescope", "kda", "dg_t + beta dbeta - <p, dp> - <q, dq> = dg_{t+1}, <dS, S> at the ends", i_source,
            of(decayed_gates_telescope, "kda")),
      exact("gates_without_division", "comba", "dg_t from q dq - k dk of t and later, p dp of later tokens",
            "delta-family.md 3.2", of(gates_without_division, "comba")),
      exact("gates_without_division", "gla", "dg_t from q dq - k dk of t and later, channel by channel",
            "delta-family.md 3.2", of(gates_without_division, "gla")),
      exact("gates_without_division", "mamba2", "dg_t from <q, dq> - <k, dk> of t and later", "delta-family.md 3.2",
            of(gates_without_division, "mamba2")),
      exact("values_balance", "deltanet", "<dv, v> + <dS_0, S_0> = <do, o> + <dS_T, S_T>; <dq, q> = <do, o>", i_source,
            of(first_order_values_balance, "deltanet")),
      exact("values_balance", "comba", "<dv, v> + <dS_0, S_0> = <do, o> + <dS_T, S_T>; <dq, q> = <do, o>", i_source,
            of(first_order_values_balance, "comba")),
      exact("values_balance", "retnet", "<dv, v> + <dS_0, S_0> = <do, o> + <dS_T, S_T>; <dq, q> = <do, o>", i_source,
            of(first_order_values_balance, "retnet")),
      exact("features_are_weighted_means", "linear_attention",
            "normalization=features, zero states: o_t = sum <q, k_j> v_j / sum <q, k_j>; a constant v stays",
            "delta-family.md 3.5", features_are_weighted_means),
      exact("features_are_scale_free", "linear_attention",
            "normalization=features, eps = 0: scale, |q|, |k| do not matter", "delta-family.md 3.5",
            features_are_scale_free),
      exact("features_gradients", "linear_attention",
            "<q, dq> = (eps / n) <do, o>; <dv, v> + <dS_0, S_0> = <do, o> + ..", "delta-family.md 3.5",
            features_query_gradients),
      features_without_eps(),
      exact("map_of_one_step", "mdn", "[S; M] -> [[alpha - beta eta k p^T, -beta mu], [eta k p^T, mu]] [S; M]",
            "delta-family.md 2.9", map_of_one_step),
      exact("characteristic_polynomial", "mdn",
            "(x - alpha)^{K-1} (x - mu)^{K-1} (x^2 - tau x + alpha mu); det = (alpha mu)^K", "delta-family.md 2.9",
            characteristic_polynomial),
      exact("equal_decays_are_defective", "mdn", "alpha = mu: (A - alpha)^2 = 0 != A - alpha on what p does not see",
            "delta-family.md 2.9", equal_decays_are_defective),
      stability_edge(),
      half_plane_edge(),
      exact("gates_share_an_angle", "mdn_gates", "beta / sigmoid(b) + alpha exp(decay) = 1; eta = 1 + tanh(e / tau)",
            "delta-family.md 2.8", gates_share_an_angle),
      exact("clamped_momentum", "mdn_gates", "min_log_mu: a floor without gradient", "delta-family.md 2.8",
            clamped_momentum),
      angle_budget(),
      half_plane_bound(),
      exact("prepares_for_mdn", "mdn_front_end", "mdn on N(q - D k), N(k), alpha N(k)", "delta-family.md 2.3",
            front_end_prepares),
      exact("norms_are_scale_free", "mdn_front_end",
            "l2_eps = 0: <dq, q - D k> = <dk + D dq, k> = 0; 3 q, 3 k, 9 l2_eps", "delta-family.md 2.3",
            norms_are_scale_free),
      exact("zero_key", "mdn_front_end", "k_t = 0: dk = (dk' + alpha dp) / sqrt(l2_eps), 0 for l2_eps = 0",
            "delta-family.md 1", zero_key),
      norm_without_constant(),
      no_correction(),
  };
}

}  // namespace
}  // namespace delta

std::vector<Identity> delta_identities() { return delta::list(); }

}  // namespace assay::identities
