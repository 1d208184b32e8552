#include "judge/hypotheses/chunk_gradients.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "judge/hypotheses/chunk_form.hpp"
#include "judge/hypotheses/matrix.hpp"
#include "reference/core/error.hpp"

namespace assay::hypotheses {
namespace {

/// The term that is made otherwise. O = scale q~ S + P U with P = scale tril(q~ k~^T), q~ = q e^G, k~ = k e^-G, and
/// S' = e^Gn S + ke^T U with ke = k~ e^Gn; U = (I + A)^-1 beta W, W = v - kg S, A = beta tril(kg k~^T, -1), kg = k e^G.
constexpr Told owed_slips[] = {
    {"writes_without_chunk", "d_k", "what o of the same chunk owes the writes (P^T d_o) missing from their gradient",
     "dU = P^T d_o + k dS"},
    {"writes_raw_keys", "d_k", "what the next state owes the writes not decayed to the chunk's end",
     "multiply k_j by the decay from token j to the chunk's end", true},
    {"scores_without_own", "d_k", "the scores' gradient without its diagonal (a mask of j < i)",
     "a token reads its own write, j <= i"},
    {"state_undecayed", "d_k", "the state's gradient not decayed from chunk to chunk",
     "multiply dS by the decay of the whole chunk before adding q^T d_o", true},
    {"state_of_raw_queries", "d_k", "q^T d_o not decayed before it joins the state's gradient",
     "multiply q_i by the decay from the chunk's start to token i", true},
    {"state_without_scale", "d_k", "q^T d_o without the scale in the state's gradient", "multiply it by the scale"},
    {"state_without_error", "d_k", "what the errors owe the state (-k^T of their gradient) missing",
     "W = v - k S has a gradient for S", false, true},
    {"not_carried", "d_k", "the state's gradient not carried from chunk to chunk",
     "start each chunk from what the one after it owes"},
    {"system_missing", "d_k", "the writes' gradient not taken through the triangular system", "solve with (I + A)^T",
     false, true},
    {"system_not_transposed", "d_k", "the triangular system not transposed in the backward pass",
     "solve with (I + A)^T, not with I + A", false, true},
    {"A_missing", "d_k", "the gradient of the products of keys (A) missing", "dA = -tril(dR U^T, -1)", false, true},
    {"A_sign", "d_k", "the gradient of the products of keys (A) with the wrong sign", "dA = -tril(dR U^T, -1)", false,
     true},
    {"A_unsolved", "d_k", "the gradient of the products of keys (A) of what the system has not solved",
     "dA = -tril(dR U^T, -1) with dR = (I + A)^-T dU", false, true},
    {"A_without_rows", "d_k", "the gradient of A not passed to the keys of its rows", "both keys of k_i k_j have one",
     false, true},
    {"A_without_cols", "d_k", "the gradient of A not passed to the keys of its columns",
     "both keys of k_i k_j have one", false, true},
    {"q_undecayed", "d_q", "d_q not decayed since the chunk's start",
     "multiply row i by the decay from the chunk's start to token i", true},
    {"q_read_unscaled", "d_q", "what the chunk's state owes d_q without its scale", "multiply both parts by the scale"},
    {"q_next_state", "d_q", "d_q of the state after its chunk", "read the state that the chunk starts with"},
    {"k_undecayed", "d_k", "what scores owe d_k without the decay of its token",
     "divide row j by the decay from the chunk's start to token j", true},
    {"k_end_undecayed", "d_k", "what the next state owes d_k not decayed to the chunk's end",
     "multiply row j by the decay from token j to the chunk's end", true},
    {"k_of_values", "d_k", "what the next state owes d_k taken of v, not of the corrected writes",
     "the state was written with U", false, true},
    {"k_without_error", "d_k", "what errors owe d_k by reading the state (-beta dR S^T) missing",
     "W = v - k S has a gradient for k", false, true},
    {"v_unsolved", "d_v", "d_v of what the system has not solved (beta dU)", "d_v = beta (I + A)^-T dU", false, true},
    {"beta_without_A", "d_beta", "d_beta without what it owes to the products of keys (A)",
     "beta multiplies the rows of A, too", false, true},
    {"beta_of_values", "d_beta", "d_beta of v, not of the error v - k S", "beta multiplies what the state corrects",
     false, true},
    {"gate_end_missing", "d_log_decay", "what the next state owes the gates (at the chunk's last token) missing",
     "add <S, dS> e^Gn and the writes' part at the last token", true},
    {"gate_without_state", "d_log_decay", "<S, dS> e^Gn missing at the chunk's last token",
     "the chunk's decay multiplies the state", true},
    {"gate_without_writes", "d_log_decay", "the writes' part missing at the chunk's last token",
     "the chunk's whole decay multiplies the writes, too", true},
    {"gate_of_queries", "d_log_decay", "the gates' gradient of queries alone (q d_q without - k d_k)", "subtract k d_k",
     true},
    {"gate_keys_added", "d_log_decay", "k d_k added to the gates' gradient, not subtracted",
     "keys are divided by the decay", true},
    {"gate_without_error", "d_log_decay", "what the errors owe the gates (kg dkg) missing",
     "what the error reads is decayed, too", true, true},
    {"gate_without_end_keys", "d_log_decay", "what the writes owe the gates of their own tokens missing",
     "a write decays from the token after its own", true},
    {"gate_not_summed", "d_log_decay", "the gates' gradient not summed over later tokens of the chunk",
     "sum it from the chunk's last token to its first", true},
    {"gate_without_own", "d_log_decay", "the gates' gradient summed over the chunk's later tokens without its own",
     "the sum begins with token t itself", true},
    {"gate_forward", "d_log_decay", "the gates' gradient summed over earlier tokens of the chunk, not later ones",
     "sum it from the chunk's last token to its first", true},
    {"gate_without_tail", "d_log_decay",
     "what the decay of writes to the chunk's end owes the gates missing, of their tokens and of the last one",
     "a write decays from the token after its own to the chunk's end", true, false, Counted::no},
    {"state_without_reads", "d_k", "what o owes the state (q^T d_o) missing", "add it to the state's gradient", false,
     false, Counted::no},
};

/// Which chunks have the mistake.
enum class Where { all, first, tail };
/// Whether it shows in what a chunk owes the state that it starts with: its name says so.
bool owes_state(const Told& told) { return told.slip.starts_with("state_"); }

Matrix lower(const Matrix& a, bool diagonal) {
  return mapped(a, [&](std::size_t i, std::size_t j, double x) { return j < i || (diagonal && j == i) ? x : 0; });
}
Matrix by_rows(const Matrix& column, const Matrix& a) {
  return mapped(a, [&](std::size_t i, std::size_t, double x) { return column(i, 0) * x; });
}
Matrix row_sums(const Matrix& a) {
  Matrix sums(a.rows, 1);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.cols; ++j) sums(i, 0) += a(i, j);
  return sums;
}
/// (I + A)^-1 of a strictly lower A.
Matrix inverse(const Matrix& A) {
  Matrix x(A.rows, A.rows);
  for (std::size_t i = 0; i < A.rows; ++i) {
    x(i, i) = 1;
    for (std::size_t j = 0; j < i; ++j)
      for (std::size_t c = 0; c <= j; ++c) x(i, c) -= A(i, j) * x(j, c);
  }
  return x;
}

/// A chunk of one head, as its backward pass finds it.
struct Kept {
  std::size_t first = 0;
  bool partial = false;
  Matrix S, since, q, kg, kt, ke, P, U, v;
  Matrix beta, pairs, solved, W;  ///< of a delta rule
  double end(std::size_t channel) const { return since(since.rows - 1, channel); }
  Matrix at_end(const Matrix& state) const {
    return mapped(state, [&](std::size_t i, std::size_t, double x) { return end(i) * x; });
  }
  Matrix next() const { return at_end(S) + transposed(ke) * U; }
};

/// The gradients that a chunk owes.
struct Owed {
  Matrix q, k, v, beta, gates, state;
};

/// The backward pass of all heads, chunk by chunk.
class Backward {
 public:
  /// `decay`: of every token, where no input says it.
  Backward(const Scene& scene, double decay, const Told* slip, Where where = Where::all)
      : scene_(scene),
        slip_(slip),
        where_(where),
        fixed_(std::log(decay)),
        scale_(scene.number("scale", 1 / std::sqrt(static_cast<double>(scene.input("q")->shape.back())))),
        delta_(scene.input("beta") != nullptr),
        gated_(scene.input("log_decay") != nullptr) {}

  Arrays answer(std::size_t size) {
    Arrays answer;
    for (const char* name : {"q", "k", "v", "beta", "log_decay", "initial_state"})
      if (const Array* x = scene_.input(name)) answer["d_" + std::string(name)] = Array(x->shape);
    for (std::size_t h = 0; h < scene_.own_heads(); ++h) head(h, size, answer);
    return answer;
  }

 private:
  bool is(RowOf<owed_slips> row) const { return slip_ == row.told && there_; }
  Grid grid(const std::string& name, const Array& x) const { return grid_of(*scene_.described(name), x.shape); }

  /// Rows first to first + n - 1 of what head h reads; one row is all rows.
  Matrix rows(const std::string& name, const Array& x, std::size_t h, std::size_t first, std::size_t n) const {
    const Grid from = grid(name, x);
    Matrix m(n, from.cols);
    const std::size_t head = h * from.heads / scene_.own_heads();
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t row = std::min(first + i, from.rows - 1);
      for (std::size_t c = 0; c < m.cols; ++c) m(i, c) = x.data[from.at(head, row, c)];
    }
    return m;
  }
  Matrix rows(const std::string& name, std::size_t h, std::size_t first, std::size_t n) const {
    return rows(name, *scene_.input(name), h, first, n);
  }
  /// Adds to the rows of head h in what is answered; of what heads share, each adds its own.
  void add(const std::string& name, const Matrix& m, std::size_t h, std::size_t first, Arrays& answer) const {
    Array& to = answer.at("d_" + name);
    const Grid of = grid(name, to);
    const std::size_t head = h * of.heads / scene_.own_heads();
    for (std::size_t i = 0; i < m.rows; ++i) {
      const std::size_t row = std::min(first + i, of.rows - 1);
      for (std::size_t c = 0; c < m.cols; ++c) to.data[of.at(head, row, c)] += m(i, c);
    }
  }

  void head(std::size_t h, std::size_t size, Arrays& answer) {
    const Array &v = *scene_.input("v"), &start = *scene_.input("initial_state");
    const std::size_t T = grid("v", v).rows, K = grid("initial_state", start).rows;
    std::vector<Kept> chunks;
    Matrix S = rows("initial_state", h, 0, K);
    for (std::size_t t = 0; t < T; t += size) {
      chunks.push_back(chunk_of(h, t, std::min(size, T - t), std::move(S)));
      chunks.back().partial = T - t < size;
      S = chunks.back().next();
    }
    const auto& given = scene_.problem.cotangents;
    const auto end = given.find("final_state");
    Matrix dS = end == given.end() ? Matrix(S.rows, S.cols) : rows("final_state", end->second, h, 0, K);
    for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
      there_ = where_ == Where::all || (where_ == Where::first ? chunk->first == 0 : chunk->partial);
      Owed owed = back(*chunk, rows("o", given.at("o"), h, chunk->first, chunk->v.rows), dS);
      add("q", owed.q, h, chunk->first, answer), add("k", owed.k, h, chunk->first, answer);
      add("v", owed.v, h, chunk->first, answer);
      if (delta_) add("beta", owed.beta, h, chunk->first, answer);
      if (gated_) add("log_decay", owed.gates, h, chunk->first, answer);
      dS = is("not_carried") && chunk->first > 0 ? Matrix(S.rows, S.cols) : std::move(owed.state);
    }
    add("initial_state", dS, h, 0, answer);
  }

  Kept chunk_of(std::size_t h, std::size_t first, std::size_t n, Matrix S) const {
    Kept c;
    c.first = first, c.S = std::move(S), c.v = rows("v", h, first, n), c.q = rows("q", h, first, n);
    const Matrix k = rows("k", h, first, n);
    c.since = Matrix(n, k.cols);
    const Matrix g = gated_ ? rows("log_decay", h, first, n)
                            : mapped(Matrix(n, 1), [&](std::size_t, std::size_t, double) { return fixed_; });
    Values sums(k.cols, 0.0);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < k.cols; ++j) {
        sums[j] += g(i, g.cols == 1 ? 0 : j), c.since(i, j) = std::exp(sums[j]);
        require(sums[j] > -600, "log_decay: decays that doubles cannot divide by");
      }
    const auto over = [&](std::size_t i, std::size_t j, double x) { return x / c.since(i, j); };
    c.q = each(std::move(c.q), c.since), c.kg = each(k, c.since), c.kt = mapped(k, over);
    c.ke = mapped(c.kt, [&](std::size_t, std::size_t j, double x) { return x * c.end(j); });
    c.P = lower(scale_ * (c.q * transposed(c.kt)), true), c.U = c.v;
    if (!delta_) return c;
    c.beta = rows("beta", h, first, n), c.pairs = lower(c.kg * transposed(c.kt), false);
    c.solved = inverse(by_rows(c.beta, c.pairs)), c.W = c.v - c.kg * c.S;
    c.U = c.solved * by_rows(c.beta, c.W);
    return c;
  }

  Owed back(const Kept& c, const Matrix& d_o, const Matrix& dS) const {
    Matrix dU = (is("writes_raw_keys") ? c.kt : c.ke) * dS;
    if (!is("writes_without_chunk")) dU = std::move(dU) + transposed(c.P) * d_o;
    const Matrix dP = lower(scale_ * (d_o * transposed(c.U)), !is("scores_without_own"));
    const Matrix read = d_o * transposed(is("q_next_state") ? c.next() : c.S);
    const auto under = [&](std::size_t i, std::size_t j, double x) { return x / c.since(i, j); };
    const Matrix q = is("state_of_raw_queries") ? mapped(c.q, under) : c.q;
    Owed owed;
    owed.q = (is("q_read_unscaled") ? 1 : scale_) * read + dP * c.kt;
    const double reads = is("state_without_reads") ? 0 : is("state_without_scale") ? 1 : scale_;
    owed.state = (is("state_undecayed") ? dS : c.at_end(dS)) + reads * (transposed(q) * d_o);
    owed.v = dU;
    Matrix kt = transposed(dP) * c.q, kg(kt.rows, kt.cols);
    const Matrix ke = (is("k_of_values") ? c.v : c.U) * transposed(dS);
    if (delta_) through_system(c, dU, owed, kg, kt);
    Matrix gates = each(owed.q, c.q);
    if (!is("gate_of_queries")) {
      const double sign = is("gate_keys_added") ? 1 : -1;
      if (!is("gate_without_error")) gates = std::move(gates) + each(kg, c.kg);
      gates = std::move(gates) + sign * each(kt, c.kt);
      if (!is("gate_without_end_keys") && !is("gate_without_tail")) gates = std::move(gates) + sign * each(ke, c.ke);
    }
    owed.gates = gated_ ? summed(c, std::move(gates), each(ke, c.ke), dS) : Matrix();
    if (!is("q_undecayed")) owed.q = each(std::move(owed.q), c.since);
    owed.k = each(std::move(kg), c.since) + (is("k_undecayed") ? std::move(kt) : mapped(std::move(kt), under));
    const auto to_end = [&](std::size_t i, std::size_t j, double x) { return x * c.end(j) / c.since(i, j); };
    owed.k = std::move(owed.k) + (is("k_end_undecayed") ? ke : mapped(ke, to_end));
    return owed;
  }

  /// U = (I + A)^-1 R with R = beta W: what dU owes to v, beta, the state and both keys of A.
  void through_system(const Kept& c, const Matrix& dU, Owed& owed, Matrix& kg, Matrix& kt) const {
    const Matrix dR = is("system_missing")          ? dU
                      : is("system_not_transposed") ? c.solved * dU
                                                    : transposed(c.solved) * dU;
    const double sign = is("A_missing") ? 0 : is("A_sign") ? 1 : -1;
    const Matrix dA = sign * lower((is("A_unsolved") ? dU : dR) * transposed(c.U), false);
    owed.beta = row_sums(each(dR, is("beta_of_values") ? c.v : c.W));
    if (!is("beta_without_A")) owed.beta = std::move(owed.beta) + row_sums(each(dA, c.pairs));
    const Matrix dW = by_rows(c.beta, dR), pairs = by_rows(c.beta, dA);
    owed.v = is("v_unsolved") ? by_rows(c.beta, dU) : dW;
    if (!is("state_without_error")) owed.state = std::move(owed.state) - transposed(c.kg) * dW;
    if (!is("k_without_error")) kg = std::move(kg) - dW * transposed(c.S);
    if (!is("A_without_rows")) kg = std::move(kg) + pairs * c.kt;
    if (!is("A_without_cols")) kt = std::move(kt) + transposed(pairs) * c.kg;
  }

  /// Gradients of log decays, of those of their prefix sums: `gates`, and what the chunk's end owes its last token.
  Matrix summed(const Kept& c, Matrix gates, const Matrix& writes, const Matrix& dS) const {
    const std::size_t n = gates.rows;
    const Matrix state = row_sums(each(c.at_end(c.S), dS)), written = row_sums(transposed(writes));
    const bool writes_owe = !is("gate_without_writes") && !is("gate_without_tail");
    for (std::size_t j = 0; j < gates.cols && !is("gate_end_missing"); ++j)
      gates(n - 1, j) += (is("gate_without_state") ? 0 : state(j, 0)) + (writes_owe ? written(j, 0) : 0);
    if (scene_.input("log_decay")->shape.size() < 3) gates = row_sums(gates);
    const Matrix own = gates;
    if (is("gate_forward"))
      for (std::size_t i = 1; i < n; ++i)
        for (std::size_t j = 0; j < gates.cols; ++j) gates(i, j) += gates(i - 1, j);
    else if (!is("gate_not_summed"))
      for (std::size_t i = n - 1; i-- > 0;)
        for (std::size_t j = 0; j < gates.cols; ++j) gates(i, j) += gates(i + 1, j);
    return is("gate_without_own") ? gates - own : gates;
  }

  const Scene& scene_;
  const Told* slip_;  ///< null: none
  Where where_;
  bool there_ = true;  ///< whether the chunk has the mistake
  double fixed_, scale_;
  bool delta_, gated_;
};

/// Doubles in another order differ by 1e-13 or so, another recurrence by a thousandth and more: between them.
bool same(const Array& a, const Array& b) {
  double largest = 0;
  for (const double x : a.data) largest = std::max(largest, std::abs(x));
  return std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end(),
                    [&](double x, double y) { return std::abs(x - y) <= 1e-9 * largest; });
}

/// The decay that makes the pass without a mistake the room's; nothing if it is another one.
std::optional<double> decay_of(const Scene& scene) {
  constexpr std::size_t tokens = 24, size = 8;
  for (const char* name : {"q", "k", "v", "initial_state"})
    if (scene.input(name) == nullptr || scene.input(name)->shape.size() != 3) return std::nullopt;
  if (scene.input("p") != nullptr || !scene.problem.cotangents.contains("o")) return std::nullopt;
  Scene few = group_of(scene, 0).scene, cotangents = few;
  const std::size_t n = std::min(tokens, few.tokens());
  cotangents.problem.inputs = few.problem.cotangents;
  few.problem = tokens_of(few, 0, n), few.problem.cotangents = tokens_of(cotangents, 0, n).inputs;
  try {
    const double decay = fixed_decay(few);
    const Arrays right = hypotheses::answer_of(*few.room, few.problem);
    for (const auto& [name, mine] : Backward(few, decay, nullptr).answer(size))
      if (!right.contains(name) || !same(right.at(name), mine)) return std::nullopt;
    return decay;
  } catch (const std::exception&) {
    return std::nullopt;  // the room refuses so few tokens
  }
}

}  // namespace

void add_gradient_slips(std::vector<Convention>& list, const Scene& scene, const std::vector<std::size_t>& sizes,
                        const std::function<std::string(std::size_t)>& chunks, Counted counted) {
  const std::optional<double> decay = decay_of(scene);
  if (!decay) return;
  const bool decays = scene.input("log_decay") != nullptr || *decay != 1;
  const double K = scene.input("k")->shape.back(), V = scene.input("v")->shape.back();
  const auto add = [&](const Told& told, std::size_t size, Where where) {
    const bool first = where == Where::first;
    const std::string place = first                  ? ", in the first one alone"
                              : where == Where::tail ? ", in the last, partial one alone"
                                                     : "";
    list.push_back({fmt::format("chunk {} backward{}: {}", size, place, told.what),
                    fmt::format("{} ({}{})", told.what, chunks(size), place), told.mend,
                    [decay = *decay, size, slip = &told, where](const Scene& s) {
                      return Backward(s, decay, slip, where).answer(size);
                    }});
    list.back().only = first ? "d_initial_state" : told.tensor;
    list.back().is_term = true, list.back().asks_room = false;
    // Ten products with the state a token where the room's answer has 32, those with its chunk's tokens, the inverse.
    const auto n = static_cast<double>(size);
    list.back().block = size;
    list.back().effort = 0.3 + n * (K + V) / (8 * K * V) + n * n / (192 * K * V);
  };
  for (const std::size_t size : sizes)
    for (const Told& told : owed_slips) {
      if (told.of_decays && !decays) continue;
      if (told.of_errors && scene.input("beta") == nullptr) continue;
      if (told.counted == counted) add(told, size, Where::all);
      if (counted == Counted::by_suites || size >= scene.tokens()) continue;
      if (owes_state(told)) add(told, size, Where::first);
      if (scene.tokens() % size != 0) add(told, size, Where::tail);
    }
}

}  // namespace assay::hypotheses
