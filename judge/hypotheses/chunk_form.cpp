#include "judge/hypotheses/chunk_form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>

namespace assay::hypotheses {
namespace {

/// Blocks of a chunk in which products are often made apart.
constexpr std::size_t block = 16;

/// The term that is made otherwise. The error is v - S^T k, of which A k and the chunk's state give the two parts.
constexpr Told slips[] = {
    {"first_gate", "", "the decay of each chunk's first token lost", "sums of log decays begin with the first token's",
     true},
    {"late_gate", "", "what o reads from the chunk's state decayed by one token too few",
     "multiply it by the decay from the chunk's start to the token, its own included", true},
    {"pairs_undecayed", "", "what tokens of the same chunk add to o not decayed",
     "multiply q_i k_j by the decay from token j to token i", true},
    {"first_write_unseen", "", "the first row of each chunk without its own write", "a token reads its own write"},
    {"first_state_unseen", "", "the first row of each chunk without what it reads from the state",
     "add the state's part to every row"},
    {"A_undecayed", "", "the products of keys (A) not decayed", "multiply k_i k_j by the decay from token j to token i",
     true, true},
    {"A_without_beta", "", "the products of keys (A) without beta", "multiply row i of A by beta_i", false, true},
    {"A_added", "", "the products of keys (A) with the wrong sign (I - A for I + A)", "solve with I + A", false, true},
    {"A_missing", "", "the products of keys (A) missing: the error knows no other token of the chunk",
     "solve with I + A", false, true},
    {"A_once", "", "I - A for the inverse of I + A", "solve with I + A, or add the further powers", false, true},
    {"error_undecayed", "", "what the error reads from the chunk's state not decayed",
     "multiply it by the decay from the chunk's start to the token", true, true},
    {"error_stale", "", "the error reading the state of the chunk before its own",
     "read the state that the chunk starts with", false, true},
    {"error_without_beta", "", "what the error reads from the chunk's state without beta",
     "multiply v - S^T k by beta, both terms", false, true},
    {"error_missing", "", "what the error reads from the chunk's state missing", "subtract S^T k", false, true},
    {"all_stale", "", "error and o reading the state of the chunk before their own",
     "read the state that the chunk starts with", false, true},
    {"tail_undecayed", "", "a chunk's writes not decayed to its end before they join the state",
     "multiply k_j by the decay from token j to the chunk's end", true},
    {"tail_decayed_again", "", "a chunk's writes decayed by their own gates too before they join the state",
     "the decay of a write begins with the next token", true},
    {"last_write_lost", "", "the last write of each chunk missing from the state", "add the writes of all its tokens"},
    {"state_overwritten", "", "the state overwritten by each chunk's writes", "add them to the decayed state"},
    {"restarted", "", "every chunk starting from initial_state", "carry the state from chunk to chunk"},
    {"A_beta_twice", "", "the products of keys (A) with beta twice", "multiply row i of A by beta_i, once", false,
     true},
    {"A_beta_of_columns", "", "the products of keys (A) with beta of their column",
     "multiply row i of A by beta_i, not column j by beta_j", false, true},
    {"A_with_diagonal", "", "the products of keys (A) with their diagonal",
     "a token's error reads earlier writes, j < i", false, true},
    {"A_half_channels", "", "the products of keys (A) over the first half of the key dimensions alone",
     "add up all blocks of them", false, true},
    {"A_in_blocks", "", "the inverse of I + A within blocks of 16 tokens alone",
     "the blocks below the diagonal have one, too", false, true},
    {"read_unsolved", "", "what the error reads from the chunk's state not taken through the triangular system",
     "solve for both terms of v - S^T k", false, true},
    {"pairs_half_channels", "", "scores within a chunk over the first half of the key dimensions alone",
     "add up all blocks of them"},
    {"pairs_in_blocks", "", "scores within a chunk missing between blocks of 16 tokens",
     "add those below the blocks of the diagonal"},
    {"read_half_columns", "", "the second half of the value dimensions read from the first half of the chunk's state",
     "each block of the values has its own block of the state"},
    {"read_next_state", "", "o reading the state after its chunk", "read the state that the chunk starts with"},
    {"sums_run_on", "", "sums of log decays not begun anew in each chunk", "a chunk's sums begin with its first token",
     true},
    {"end_in_base_2", "", "the state decayed by 2^g, not e^g, from chunk to chunk",
     "multiply the sum by log2 e before exp2, or call exp", true},
    {"end_of_first_gate", "", "the state decayed by each chunk's first gate alone",
     "multiply it by the decay of the whole chunk", true},
    {"end_beyond_tail", "", "the last chunk's decay read past its last token (0 of a row that is not there)",
     "its end is the last token, not the last row of the tile", true},
    {"writes_half_channels", "", "the second half of the key dimensions of the state without the chunk's writes",
     "add the writes to every block of them"},
    {"pairs_ahead", "", "scores within a chunk that see the next token (a mask of j <= i + 1)",
     "a token reads writes j <= i", false, false, Counted::no},
    {"pairs_in_base_2", "", "scores within a chunk decayed by 2^g, not e^g",
     "multiply the sums by log2 e before exp2, or call exp", true, false, Counted::no},
    {"pairs_decayed_twice", "", "scores within a chunk decayed twice",
     "multiply q_i k_j by the decay from token j to token i, once", true, false, Counted::no},
    {"read_in_base_2", "", "what o reads from the chunk's state decayed by 2^g, not e^g",
     "multiply the sums by log2 e before exp2, or call exp", true, false, Counted::no},
    {"read_decayed_twice", "", "what o reads from the chunk's state decayed twice",
     "multiply it by the decay from the chunk's start to the token, once", true, false, Counted::no},
    {"A_late_gate", "", "the products of keys (A) without the gate of their row's token",
     "multiply k_i k_j by the decay from token j to token i, its own included", true, true, Counted::no},
    {"A_three_terms", "", "three terms of a power series (I - A + A^2) for the inverse of I + A",
     "solve with I + A, or add the further powers", false, true, Counted::no},
    {"A_four_terms", "", "four terms of a power series for the inverse of I + A",
     "solve with I + A, or add the further powers", false, true, Counted::no},
    {"A_eight_terms", "", "eight terms of a power series for the inverse of I + A",
     "solve with I + A, or add the further powers", false, true, Counted::no},
    {"beta_unsolved", "", "beta multiplied in behind the triangular system, not before it",
     "solve for beta (v - S^T k)", false, true, Counted::no},
    {"error_late_gate", "", "what the error reads from the chunk's state decayed by one token too few",
     "multiply it by the decay from the chunk's start to the token, its own included", true, true, Counted::no},
    {"error_added", "", "what the error reads from the chunk's state added, not subtracted", "the error is v - S^T k",
     false, true, Counted::no},
    {"error_value_without_beta", "", "v without beta in the error (v - beta S^T k)",
     "multiply v - S^T k by beta, both terms", false, true, Counted::no},
    {"tail_of_values", "", "a chunk's writes without their error correction when they join the state",
     "write what the triangular system has solved", false, true, Counted::no},
    {"tail_from_start", "", "a chunk's writes decayed from its start, not to its end, before they join the state",
     "multiply k_j by the decay from token j to the chunk's end", true, false, Counted::no},
    {"end_twice", "", "the state decayed twice from chunk to chunk",
     "multiply it by the decay of the whole chunk, once", true, false, Counted::no},
    {"pairs_own_gate", "", "scores within a chunk decayed by the writing token's own gate, too",
     "the decay of a write begins with the next token", true, false, Counted::no},
    {"first_write_lost", "", "the first write of each chunk missing from the state", "add the writes of all its tokens",
     false, false, Counted::no},
    {"error_of_first_state", "", "the error of every chunk reading initial_state",
     "read the state that the chunk starts with", false, true, Counted::no},
    {"pairs_uncorrected", "", "o adding writes of its chunk that the state has not corrected (u for u - w S)",
     "add what is written, u - w S", false, true, Counted::no},
    {"tail_uncorrected", "", "a chunk's writes joining the state without what the state corrects (u for u - w S)",
     "write u - w S", false, true, Counted::no},
    {"A_halves_apart", "", "the inverse of I + A within the halves of a chunk alone",
     "the block below the diagonal is -T22 A21 T11", false, true, Counted::no},
    {"A_halves_added", "", "the inverse of I + A with the wrong sign between the halves of a chunk",
     "the block below the diagonal is -T22 A21 T11", false, true, Counted::no},
    {"pairs_halves_apart", "", "scores within a chunk missing between its halves", "add the block below the diagonal",
     false, false, Counted::no},
    {"error_beta_twice", "", "what the error reads from the chunk's state with beta twice",
     "multiply v - S^T k by beta, once", false, true, Counted::no},
};

/// The parameters of the recurrence besides its tensors.
struct Form {
  double scale = 1;
  bool undecayed_error = false;  ///< whether the error reads the state before the token's own decay
  double decay = 1;              ///< of every token, where no input says it
};

/// A tensor of rows; of one that heads share, each head of the group has the same.
struct Rows {
  const Array* array = nullptr;
  Grid grid;
  std::size_t own = 1;

  Rows(const Scene& scene, std::string_view name) : array(scene.input(name)), own(scene.own_heads()) {
    if (array != nullptr) grid = grid_of(*scene.described(name), array->shape);
  }
  std::span<const double> at(std::size_t head, std::size_t row) const {
    return {array->data.data() + grid.at_token(head * grid.heads / own, row, 0), grid.cols};
  }
};

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
void add(std::span<double> to, double factor, std::span<const double> x) {
  for (std::size_t c = 0; c < x.size(); ++c) to[c] += factor * x[c];
}

/// One head, chunk by chunk.
class Walk {
 public:
  /// `tail`: only the last, partial chunk has the mistake.
  Walk(const Scene& scene, const Form& form, const Told* slip, bool tail)
      : form_(form),
        slip_(slip),
        tail_(tail),
        q_(scene, "q"),
        k_(scene, "k"),
        v_(scene, "v"),
        g_(scene, "log_decay"),
        b_(scene, "beta"),
        p_(scene, scene.input("p") != nullptr ? "p" : "k"),
        start_(scene, "initial_state") {}

  std::size_t tokens() const { return v_.grid.rows; }
  /// Writes rows of o, and the state of its end.
  void head(std::size_t h, std::size_t size, double* o, double* end) {
    const std::size_t K = k_.grid.cols, V = v_.grid.cols;
    const double* first = start_.at(h, 0).data();
    state_.assign(first, first + K * V), before_ = first_ = state_, half_ = size / 2;
    for (std::size_t t = 0; t < tokens(); t += size) {
      there_ = !tail_ || t + size > tokens();
      if (is("restarted")) state_.assign(first, first + K * V);
      if (t == 0 || !is("sums_run_on")) since_.assign(K, 1.0);
      raw_.clear(), faded_.clear(), paired_.clear(), writes_.clear(), solved_.clear(), given_.clear(), decays_.clear();
      alone_.clear();
      rounds_.assign(terms(), {});
      const std::size_t stop = std::min(t + size, tokens());
      for (std::size_t i = t; i < stop; ++i) token(h, i, i == t, {o + i * V, V});
      for (std::size_t i = t; i + 1 < stop && is("pairs_ahead"); ++i) see_next(h, i, i - t, {o + i * V, V});
      close(h, t, stop, stop - t < size);
      for (std::size_t i = t; i < stop && is("read_next_state"); ++i)
        for (const auto& [state, sign] : {std::pair{&state_, 1.0}, std::pair{&before_, -1.0}})
          add({o + i * V, V}, sign * form_.scale, read(*state, q_.at(h, i), &decays_[i - t]));
    }
    std::copy(state_.begin(), state_.end(), end);
  }

 private:
  bool is(RowOf<slips> row) const { return slip_ == row.told && there_; }
  /// How many terms of the power series of (I + A)^-1 the kernel adds up; 0: it solves.
  std::size_t terms() const {
    return is("A_once") ? 2 : is("A_three_terms") ? 3 : is("A_four_terms") ? 4 : is("A_eight_terms") ? 8 : 0;
  }

  /// S^T (x times `decay`), of the state that the chunk starts with or the one before.
  Values read(const Values& state, std::span<const double> x, const Values* decay) const {
    Values sum(v_.grid.cols, 0.0);
    for (std::size_t i = 0; i < x.size(); ++i)
      add(sum, x[i] * (decay != nullptr ? (*decay)[i] : 1), {state.data() + i * sum.size(), sum.size()});
    return sum;
  }

  double gate(std::size_t h, std::size_t t, std::size_t channel) const {
    return g_.array == nullptr ? form_.decay : std::exp(g_.at(h, t)[g_.grid.cols == 1 ? 0 : channel]);
  }

  void fade(std::size_t h, std::size_t t, bool first) {
    earlier_ = since_;
    if (is("A_late_gate")) late_ = faded_;
    if (first && is("first_gate")) return;
    for (std::size_t i = 0; i < since_.size(); ++i) {
      const double a = gate(h, t, i);
      since_[i] *= a;
      for (Values& key : faded_) key[i] *= a;
      if (paired_.empty()) continue;
      const double other = is("pairs_in_base_2") ? std::pow(a, std::numbers::ln2) : is("pairs_own_gate") ? a : a * a;
      for (Values& key : paired_) key[i] *= other;
    }
  }

  /// The keys of earlier tokens as A has them.
  const std::vector<Values>& earlier_keys() const {
    if (is("A_undecayed")) return raw_;
    return is("A_late_gate") && !form_.undecayed_error ? late_ : faded_;
  }
  /// u less row t of A times `of`, which has a row for every earlier token of the chunk.
  void subtract_pairs(Values& u, std::size_t h, std::size_t t, const std::vector<Values>& of) const {
    const std::size_t own = writes_.size();
    const auto key = p_.at(h, t);
    const std::size_t channels = is("A_half_channels") ? key.size() / 2 : key.size();
    const std::vector<Values>& keys = earlier_keys();
    for (std::size_t j = is("A_in_blocks") ? own / block * block : 0; j < own; ++j) {
      const std::span<const double> other = keys[j];
      const bool across = j < half_ && own >= half_;
      if (across && is("A_halves_apart")) continue;
      const double sign = across && is("A_halves_added") ? 1 : -1;
      add(u, sign * weight_of_pair(b_.at(h, t)[0], h, t - own + j) * dot(key.first(channels), other.first(channels)),
          of[j]);
    }
  }

  /// beta (v - S^T k), whose own part knows no other token of the chunk.
  Values error(std::size_t h, std::size_t t) {
    const auto value = v_.at(h, t);
    Values u(value.begin(), value.end());
    if (b_.array == nullptr) return u;
    const double beta = b_.at(h, t)[0];
    const auto key = p_.at(h, t);
    const Values& from = is("error_stale") || is("all_stale") ? before_ : is("error_of_first_state") ? first_ : state_;
    if (!is("error_value_without_beta") && !is("beta_unsolved"))
      for (double& x : u) x *= beta;
    given_.push_back(u);
    const Values predicted = read(from, key,
                                  is("error_undecayed")   ? nullptr
                                  : is("error_late_gate") ? &earlier_
                                                          : &since_);
    if (is("pairs_uncorrected") || is("tail_uncorrected")) {
      Values v_alone = u;
      subtract_pairs(v_alone, h, t, alone_);
      alone_.push_back(std::move(v_alone));
    }
    if (!is("read_unsolved")) add(u, -weight_of_state(beta), predicted);
    for (std::size_t n = 0; n < rounds_.size(); ++n) {  // term by term
      Values next = n == 0 ? u : rounds_[0].back();
      if (n > 0) subtract_pairs(next, h, t, rounds_[n - 1]);
      rounds_[n].push_back(std::move(next));
    }
    if (rounds_.empty())
      subtract_pairs(u, h, t, is("read_unsolved") || is("beta_unsolved") ? solved_ : writes_);
    else
      u = rounds_.back().back();
    if (is("A_with_diagonal"))
      for (double& x : u) x /= 1 + beta * dot(key, k_.at(h, t));
    solved_.push_back(u);
    if (is("read_unsolved")) add(u, -beta, predicted);
    if (is("beta_unsolved"))
      for (double& x : u) x *= beta;
    return u;
  }

  /// The factor of the part of the error that the state gives.
  double weight_of_state(double beta) const {
    if (is("error_missing")) return 0;
    if (is("error_without_beta") || is("beta_unsolved")) return 1;
    if (is("error_beta_twice")) return beta * beta;
    return is("error_added") ? -beta : beta;
  }

  /// The factor of k_i k_j in A: beta of token i.
  double weight_of_pair(double beta, std::size_t h, std::size_t other) const {
    if (is("A_missing")) return 0;
    if (is("A_without_beta")) return 1;
    if (is("A_added")) return -beta;
    if (is("A_beta_twice")) return beta * beta;
    return is("A_beta_of_columns") ? b_.at(h, other)[0] : beta;
  }

  void token(std::size_t h, std::size_t t, bool first, std::span<double> o) {
    Values u;
    if (form_.undecayed_error) earlier_ = since_, u = error(h, t);
    fade(h, t, first);
    if (!form_.undecayed_error) u = error(h, t);
    const auto key = k_.at(h, t), query = q_.at(h, t);
    raw_.emplace_back(key.begin(), key.end()), faded_.push_back(raw_.back()), writes_.push_back(std::move(u));
    const bool apart = is("pairs_in_base_2") || is("pairs_decayed_twice") || is("pairs_own_gate");
    if (apart) paired_.push_back(raw_.back());
    for (std::size_t i = 0; i < since_.size() && is("pairs_own_gate"); ++i) paired_.back()[i] *= gate(h, t, i);
    decays_.push_back(since_);
    std::fill(o.begin(), o.end(), 0.0);
    if (!(first && is("first_state_unseen")))
      add(o, form_.scale, read(is("all_stale") ? before_ : state_, query, decays_of_read()));
    if (is("read_half_columns")) std::copy_n(o.data(), o.size() / 2, o.data() + (o.size() + 1) / 2);
    if (first && is("first_write_unseen")) return;
    const std::size_t own = writes_.size() - 1, channels = is("pairs_half_channels") ? key.size() / 2 : key.size();
    const std::vector<Values>& written = is("pairs_uncorrected") ? alone_ : writes_;
    const std::size_t begin = is("pairs_in_blocks")                      ? own / block * block
                              : is("pairs_halves_apart") && own >= half_ ? half_
                                                                         : 0;
    for (std::size_t j = begin; j < written.size(); ++j) {
      const std::span<const double> other = is("pairs_undecayed") ? raw_[j] : apart ? paired_[j] : faded_[j];
      add(o, form_.scale * dot(query.first(channels), other.first(channels)), written[j]);
    }
  }

  /// The factors of the query where it reads the state that the chunk starts with.
  const Values* decays_of_read() {
    if (is("late_gate")) return &earlier_;
    if (!is("read_in_base_2") && !is("read_decayed_twice")) return &since_;
    of_read_ = since_;
    for (double& x : of_read_) x = is("read_in_base_2") ? std::pow(x, std::numbers::ln2) : x * x;
    return &of_read_;
  }

  /// Token t, number i of its chunk, reads what the next one writes: by the decay between them, which grows.
  void see_next(std::size_t h, std::size_t t, std::size_t i, std::span<double> o) {
    double score = 0;
    const auto query = q_.at(h, t);
    for (std::size_t c = 0; c < query.size(); ++c)
      score += query[c] * raw_[i + 1][c] * decays_[i][c] / decays_[i + 1][c];
    add(o, form_.scale * score, writes_[i + 1]);
  }

  /// The factor of the state at the chunk's end.
  double decay_to_end(std::size_t channel, bool partial) const {
    if (is("state_overwritten")) return 0;
    if (is("end_in_base_2")) return std::pow(since_[channel], std::numbers::ln2);
    if (is("end_of_first_gate")) return decays_.front()[channel];
    if (is("end_twice")) return since_[channel] * since_[channel];
    return partial && is("end_beyond_tail") ? 1 : since_[channel];
  }

  void close(std::size_t h, std::size_t first, std::size_t stop, bool partial) {
    before_ = state_;
    const std::size_t V = v_.grid.cols;
    for (std::size_t i = 0; i < since_.size(); ++i) {
      const std::span<double> row(state_.data() + i * V, V);
      for (double& x : row) x *= decay_to_end(i, partial);
      if (is("writes_half_channels") && i >= since_.size() / 2) continue;
      for (std::size_t t = first; t < stop; ++t) {
        if (t + 1 == stop && is("last_write_lost")) continue;
        if (t == first && is("first_write_lost")) continue;
        double key = (is("tail_undecayed") ? raw_ : faded_)[t - first][i];
        if (is("tail_decayed_again")) key *= gate(h, t, i);
        if (is("tail_from_start")) key = raw_[t - first][i] * decays_[t - first][i];
        if (partial && is("end_beyond_tail")) key /= since_[i];
        const std::vector<Values>& written = is("tail_of_values") ? given_ : is("tail_uncorrected") ? alone_ : writes_;
        add(row, key, written[t - first]);
      }
    }
  }

  Form form_;
  const Told* slip_;                  ///< null: none
  bool tail_ = false, there_ = true;  ///< whether the chunk has the mistake
  std::size_t half_ = 0;
  Rows q_, k_, v_, g_, b_, p_, start_;
  Values state_, before_, first_, since_;  ///< decays since the chunk's start
  Values earlier_, of_read_;               ///< the same before the token's own gate; as a query reads them
  std::vector<Values> raw_, faded_, paired_, late_, writes_, solved_, given_, decays_;  ///< of the chunk's tokens
  std::vector<Values> alone_;                ///< what the system makes of v alone
  std::vector<std::vector<Values>> rounds_;  ///< of those, term by term
};

Arrays answer_of(const Scene& scene, const Form& form, std::size_t size, const Told* slip, bool tail = false) {
  Walk walk(scene, form, slip, tail);
  const Array &v = *scene.input("v"), &start = *scene.input("initial_state");
  const std::size_t own = scene.own_heads(), states = static_cast<std::size_t>(start.shape[0]);
  const auto V = static_cast<std::size_t>(v.shape.back()), one = start.data.size() / states;
  Array o, end = start;
  o.shape = {static_cast<int>(own), v.shape[1], v.shape[2]}, o.data.resize(own * walk.tokens() * V);
  for (std::size_t h = 0; h < own; ++h)
    walk.head(h, size, o.data.data() + h * walk.tokens() * V, end.data.data() + h * states / own * one);
  return {{"o", std::move(o)}, {"final_state", std::move(end)}};
}

/// Doubles in another order differ by 1e-13 or so, another recurrence by a thousandth and more: between them.
bool same(const Array& a, const Array& b, double scale) {
  double largest = 0, off = 0;
  for (std::size_t i = 0; i < a.data.size() && a.data.size() == b.data.size(); ++i)
    largest = std::max(largest, std::abs(a.data[i])), off = std::max(off, std::abs(a.data[i] - scale * b.data[i]));
  return a.data.size() == b.data.size() && off <= 1e-9 * largest;
}

/// The parameters with which the chunk form is the room's recurrence; nothing if it is another one.
std::optional<Form> form_of(const Scene& scene) {
  constexpr std::size_t tokens = 24, size = 8;
  for (const char* name : {"q", "k", "v", "initial_state"})
    if (scene.input(name) == nullptr || scene.input(name)->shape.size() != 3) return std::nullopt;
  const Scene part = prefix_of(group_of(scene, 0), tokens).scene;
  Arrays right;
  double decay = 1;
  try {
    right = hypotheses::answer_of(*part.room, part.problem);
    if (right.contains("final_state")) decay = fixed_decay(part);
  } catch (const std::exception&) {
    return std::nullopt;  // the room refuses so few tokens
  }
  if (!right.contains("final_state")) return std::nullopt;
  for (const bool undecayed : {false, true}) {
    Form form{1, undecayed, decay};
    const Arrays mine = answer_of(part, form, size, nullptr);
    const Array &o = mine.at("o"), &truth = right.at("o");
    if (o.data.size() != truth.data.size()) return std::nullopt;
    form.scale = dot(o.data, truth.data) / dot(o.data, o.data);
    if (same(truth, o, form.scale) && same(right.at("final_state"), mine.at("final_state"), 1)) return form;
  }
  return std::nullopt;
}

}  // namespace

double fixed_decay(const Scene& scene) {
  if (scene.input("log_decay") != nullptr) return 1;
  Problem p = tokens_of(scene, 0, 1);
  std::fill(p.inputs.at("k").data.begin(), p.inputs.at("k").data.end(), 0.0);
  const Values start = p.inputs.at("initial_state").data,
               end = hypotheses::answer_of(*scene.room, p).at("final_state").data;
  const double squares = dot(start, start);
  return squares > 0 && start.size() == end.size() ? dot(start, end) / squares : 1;
}

void add_chunk_slips(std::vector<Convention>& list, const Scene& scene, const std::vector<std::size_t>& sizes,
                     const std::function<std::string(std::size_t)>& chunks, Counted counted) {
  const std::optional<Form> form = form_of(scene);
  if (!form) return;
  // Two products with the state a token where the room has four to eight, and no gradients, which are four times that.
  const double effort = scene.problem.cotangents.empty() ? 0.5 : 0.125;
  for (const std::size_t size : sizes)
    for (const Told& told : slips) {
      const bool decays = scene.input("log_decay") != nullptr || form->decay != 1;
      if (told.of_decays && !decays) continue;
      if (told.of_errors && scene.input("beta") == nullptr) continue;
      const bool ends_within = scene.tokens() > size && scene.tokens() % size != 0;
      for (const bool tail : {false, true}) {
        if (tail ? counted == Counted::by_suites || !ends_within : told.counted != counted) continue;
        const std::string place = chunks(size) + (tail ? ", in the last, partial one alone" : "");
        list.push_back({fmt::format("chunk {}{}: {}", size, tail ? " at its end" : "", told.what),
                        fmt::format("{} ({})", told.what, place), told.mend,
                        [form = *form, size, slip = &told, tail](const Scene& s) {
                          return answer_of(s, form, size, slip, tail);
                        }});
        list.back().effort = effort, list.back().block = size, list.back().asks_room = false;
      }
    }
}

}  // namespace assay::hypotheses
