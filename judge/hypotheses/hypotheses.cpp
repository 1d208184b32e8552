#include "judge/hypotheses/hypotheses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "arguments/heads_first.hpp"
#include "judge/hypotheses/algebra.hpp"
#include "judge/hypotheses/argument_conventions.hpp"
#include "judge/hypotheses/blocks.hpp"
#include "judge/hypotheses/conventions.hpp"
#include "judge/hypotheses/formula_slips.hpp"
#include "judge/hypotheses/scene.hpp"

namespace assay {
namespace {

using namespace hypotheses;  // NOLINT(google-build-using-namespace): what this file is about

/// Shares of the error that a cause must explain: where the rest is near a correct kernel's error, and where it is not.
constexpr double named_share = 0.99, clear_share = 0.9999;
/// Where a convention explains as much, no formula is tried in its place.
constexpr double settled_share = 0.999;
/// How much more a kernel may spread that keeps another convention: its numbers are others.
constexpr double other_spread = 3;
/// The share that one of two causes must explain by itself.
constexpr double half_share = 0.2;
/// The share where the rest is within the judge's own limits: some of a weak error is always rounding.
constexpr double weak_share = 0.9;
/// Numbers that a factor, or a convention, cannot agree with by chance; a quarter, where it says all of them.
constexpr double few = 16;

bool is_gradient(std::string_view name) { return name.starts_with("d_"); }

/// How far a prediction is from what was answered, over some elements.
struct Fit {
  double before = 0, after = 0;              ///< squared errors in units of sigma: against the truth, against it
  double plain_before = 0, plain_after = 0;  ///< the same as they are
  double moved = 0;                          ///< squared distance of the prediction from the truth in units of sigma
  double count = 0, worst = 0;               ///< elements; the largest |error| / limit of what is left
  double truth = 0, predicted = 0;           ///< squares of both

  void join(const Fit& f) {
    before += f.before, after += f.after, plain_before += f.plain_before, plain_after += f.plain_after;
    moved += f.moved, count += f.count, worst = std::max(worst, f.worst);
    truth += f.truth, predicted += f.predicted;
  }
  double share() const {
    if (!(before > 0) || !(plain_before > 0)) return 0;
    return 1 - std::max(after / before, plain_after / plain_before);
  }
};

/// A suspect as fits are made of it.
struct Exhibit {
  const Suspect* suspect;
  Grid grid;
  Field::Heads side;
  Values truth, weight;
  std::vector<char> wrong;          ///< of each head, whether it fails
  std::size_t first = 0, last = 0;  ///< rows before and after are right, in every head
  bool gradient = false, usable = true;
  double limit = 1;  ///< of the mean square

  const Values& got() const { return *suspect->got; }
  bool is_wrong(std::size_t head, std::size_t row) const { return wrong[head] != 0 && row >= first && row <= last; }
};

Values weights_of(const Expected& e) {
  double squares = 0, count = 0;
  for (const double s : e.sigma)
    if (std::isfinite(s)) squares += s * s, ++count;
  double floor = count > 0 ? std::sqrt(squares / count) / 8 : 0;
  if (!(floor > 0)) {
    squares = 0;
    for (const HiLo& v : e.value) squares += v.hi * v.hi;
    floor =
        std::max(spacing(e.ulp_format, std::sqrt(squares / std::max<double>(1, static_cast<double>(e.value.size())))),
                 std::numeric_limits<double>::min());
  }
  Values weights(e.value.size(), 1 / (floor * floor));
  for (std::size_t i = 0; i < e.sigma.size(); ++i) {
    const double s = std::max(e.sigma[i], floor);
    weights[i] = std::isfinite(s) ? 1 / (s * s) : 0;
  }
  return weights;
}

/// The rows beyond which no element is beyond its limit: where outputs begin to be wrong, and gradients end.
void find_rows(Exhibit& x) {
  std::vector<char> beyond(x.grid.rows, 0);
  for (std::size_t h = 0; h < x.grid.heads; ++h)
    for (std::size_t r = 0; r < x.grid.rows; ++r)
      for (std::size_t c = 0; c < x.grid.cols && beyond[r] == 0; ++c)
        beyond[r] = excess_at(*x.suspect->expected, x.got(), x.grid.at(h, r, c)) <= 1 ? 0 : 1;
  const auto found = std::find(beyond.begin(), beyond.end(), 1);
  if (found == beyond.end()) return;
  if (x.gradient)
    x.last = static_cast<std::size_t>(beyond.rend() - std::find(beyond.rbegin(), beyond.rend(), 1)) - 1;
  else
    x.first = static_cast<std::size_t>(found - beyond.begin());
}

Exhibit exhibit_of(const Scene& scene, const Suspect& suspect) {
  const Expected& e = *suspect.expected;
  const RoomFacts::Ranked* ranked = scene.described(suspect.name);
  Exhibit x{&suspect, {}, Field::Heads::own, {}, weights_of(e), {}};
  x.usable = ranked != nullptr;
  if (ranked != nullptr) x.grid = grid_of(*ranked, suspect.shape), x.side = ranked->field.heads;
  x.gradient = is_gradient(suspect.name) && (ranked == nullptr || ranked->field.name != suspect.name);
  x.truth = nearest_doubles(e.value);
  x.limit = std::max(1.0, e.rms_limit * e.rms_limit);
  x.wrong.assign(x.grid.heads, 0);
  const std::size_t n = x.grid.rows * x.grid.cols;
  for (std::size_t h = 0; suspect.fails && h < x.grid.heads; ++h) {
    double squares = 0;
    bool beyond = false;
    for (std::size_t i = h * n; i < (h + 1) * n; ++i) {
      const double got = (*suspect.got)[i];
      x.usable = x.usable && std::isfinite(got);
      squares += x.weight[i] * (got - x.truth[i]) * (got - x.truth[i]);
      beyond = beyond || !(excess_at(e, *suspect.got, i) <= 1);
    }
    x.wrong[h] = beyond || squares > 2 * x.limit * static_cast<double>(n) ? 1 : 0;
  }
  x.last = x.grid.rows - 1;
  if (suspect.fails && x.grid.by_token) find_rows(x);
  // A tensor that leans as a whole fails in no head by itself.
  if (suspect.fails && std::ranges::count(x.wrong, char{1}) == 0) std::ranges::fill(x.wrong, char{1});
  return x;
}

/// The fit to one tensor, where it is wrong and elsewhere.
struct TensorFit {
  Fit wrong, right;
  bool known = false;   ///< whether the prediction says anything of it
  bool strict = false;  ///< whether what is left must be what the judge allows: of what fits more easily
  bool fitted = false;  ///< whether a number was chosen to fit: what is left must be what the judge allows
};

struct Candidate {
  std::string key, what, mend;
  int rank = 0;
  bool convention = false;
  std::vector<TensorFit> fits;  ///< by exhibit
  std::size_t index = 0;        ///< of the convention
  bool multiplied = false;      ///< whether it is that convention's term, times a number
};

/// A prediction of some heads and rows of an exhibit against what was answered.
/// Conventions are kept or broken at all tokens.
enum class Tokens { all, wrong_ones };
TensorFit fit_of(const Exhibit& x, const Values& predicted, const std::vector<std::size_t>& heads, std::size_t rows,
                 Tokens tokens) {
  TensorFit fit;
  const Expected& e = *x.suspect->expected;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    for (std::size_t r = 0; r < rows; ++r) {
      const bool wrong = tokens == Tokens::all ? x.wrong[heads[h]] != 0 : x.is_wrong(heads[h], r);
      Fit& of = wrong ? fit.wrong : fit.right;
      for (std::size_t c = 0; c < x.grid.cols; ++c) {
        const double p = predicted[(h * rows + r) * x.grid.cols + c];
        const std::size_t i = x.grid.at(heads[h], r, c);
        const double w = x.weight[i], got = x.got()[i], truth = x.truth[i];
        if (!std::isfinite(p) || w == 0) continue;
        const double now = got - truth, then = got - p;
        of.before += w * now * now, of.after += w * then * then, of.moved += w * (p - truth) * (p - truth);
        of.plain_before += now * now, of.plain_after += then * then, ++of.count;
        of.truth += w * truth * truth, of.predicted += w * p * p;
        const double reach = i < e.reach.size() ? e.reach[i] : element_sigmas;
        of.worst = std::max(of.worst, std::sqrt(w) * std::abs(then) / reach);
      }
    }
  }
  fit.known = fit.wrong.count + fit.right.count > 0;
  return fit;
}

bool explains(const Exhibit& x, const TensorFit& f) {
  if (!f.known || f.wrong.count == 0) return false;
  const double share = f.wrong.share(), rest = f.wrong.after / f.wrong.count;
  if (share >= clear_share) return true;
  // Numbers that are larger than the right ones are rounded by more.
  const double larger = f.wrong.truth > 0 ? std::max(1.0, f.wrong.predicted / f.wrong.truth) : 1;
  const double spread = f.strict || f.fitted ? 1 : other_spread;
  if (share >= named_share) return rest <= spread * spread * larger * x.limit;
  return !f.strict && share >= weak_share && f.wrong.worst <= 1 && rest <= x.limit;
}

/// Whether a prediction is another number than the truth, as any kernel shows.
bool moves(const Exhibit& x, const Fit& f) { return f.count > 0 && f.moved > 4 * x.limit * f.count; }

/// Whether what is right speaks against a prediction.
bool refutes(const Exhibit& x, const Fit& right) { return moves(x, right) && right.after > right.before; }

/// A number that a term is multiplied by where it should be multiplied by 1.
struct NamedFactor {
  double value;
  std::string words;   ///< "with the wrong sign", "multiplied by 1.015"
  bool known = false;  ///< whether kernels multiply by it
};
/// Nothing if it is 0, which leaves the term out, or 1. `near` only chooses a name, which the judge's limits then try.
std::optional<NamedFactor> factor_named(const Scene& scene, double x) {
  constexpr double near = 0x1p-6;
  const auto is = [&](double value) { return std::abs(x - value) <= near * std::max(1.0, std::abs(value)); };
  if (!std::isfinite(x) || is(0) || std::abs(x - 1) <= 0x1p-8) return std::nullopt;
  if (is(-1)) return NamedFactor{-1, "with the wrong sign", true};
  if (is(2)) return NamedFactor{2, "counted twice", true};
  const double scale = scene.scale();
  for (const double value : {scale, 1 / scale})
    if (value != 1 && std::abs(x - value) <= near * value) {
      const bool once_more = value == scale;
      return NamedFactor{value, once_more ? "multiplied by the scale twice" : "without its scale", true};
    }
  return NamedFactor{x, fmt::format("multiplied by {:.4g}", x)};
}

/// A room whose kernel keeps another convention already: what a second one makes of its answers is both.
class Mistaken final : public Room {
 public:
  Mistaken(const Scene& scene, const Convention& convention)
      : Room(scene.room->name, scene.room->summary, scene.room->options),
        right_(*scene.room),
        convention_(convention),
        batch_(scene.batch) {}

  std::vector<RoomFacts::Ranked> inputs() const override { return right_.inputs(); }
  std::vector<RoomFacts::Ranked> outputs() const override { return right_.outputs(); }
  BasicAnswer<HiLo> values(const Problem& problem, Tier) const override {
    BasicAnswer<HiLo> answer;
    for (const auto& [name, array] : convention_.answer(Scene(right_, problem, batch_))) {
      if (name.find(',') != std::string::npos) continue;  // a gradient of the changed input
      const bool gradient = is_gradient(name);
      auto& to = (gradient ? answer.gradients : answer.outputs)[gradient ? name.substr(2) : name];
      to.shape = array.shape;
      for (const double x : array.data) to.data.push_back({x, 0});
    }
    return answer;
  }
  // Hypotheses are not asked for digits or bounds.
  Decimals decimals(const BasicProblem<std::string>&, const DecimalOptions&) const override { return {}; }
  std::optional<BasicAnswer<Enclosed>> enclosed(const Problem&) const override { return std::nullopt; }
  std::optional<BasicAnswer<Enclosed>> in_words(const Problem&, const WordEffort&) const override { return {}; }
  BasicArrays<HiLo> slopes(const Problem&, const Arrays&) const override { return {}; }
  Problem make(const CaseSpec& spec) const override { return right_.make(spec); }

 private:
  const Room& right_;
  const Convention& convention_;
  int batch_;
};

/// Both conventions, one of which asks the room: the other one, or else the one with blocks, is that room.
Convention both(const Convention& first, const Convention& second) {
  const bool inner = !first.asks_room || (second.asks_room && (first.block > 0 || second.block == 0));
  Convention c;
  c.key = first.key + " and " + second.key, c.what = first.what + ", and " + second.what;
  c.mend = first.mend + "; " + second.mend;
  c.answer = [room = inner ? first : second, asks = inner ? second : first](const Scene& scene) {
    const Mistaken mistaken(scene, room);
    Scene changed = scene;
    changed.room = &mistaken;
    return asks.answer(changed);
  };
  c.looks_ahead = first.looks_ahead || second.looks_ahead;
  c.whole_sequences = first.whole_sequences || second.whole_sequences;
  c.only = first.only.empty() ? second.only : first.only;
  c.effort = first.effort + second.effort;
  c.strict = c.is_pair = true;
  return c;
}

/// The tensors that a candidate is taken to explain.
struct Claim {
  std::vector<std::size_t> tensors;  ///< exhibits
  int doubts = 0;                    ///< 0: nothing speaks against it
};

class Inquest {
 public:
  /// Tried where nothing else explains an answer: errors in a formula of outputs, or of gradients.
  using Last = std::function<std::vector<Convention>(const Scene& scene, Pass pass)>;

  /// `first`: conventions that are tried before those that any problem has.
  Inquest(Scene scene, const std::vector<Suspect>& tensors, const Effort& effort, Last last,
          std::vector<Convention> first = {})
      : scene_(std::move(scene)), effort_(effort), last_(std::move(last)), first_(std::move(first)) {
    for (const Suspect& suspect : tensors) exhibits_.push_back(exhibit_of(scene_, suspect));
    for (const Exhibit& x : exhibits_) {
      truths_[x.suspect->name] = Array(x.suspect->shape, x.truth);
      if (x.gradient && x.usable && x.grid.by_token) scene_.seen[x.suspect->name] = Array(x.suspect->shape, x.got());
    }
  }

  Causes run() {
    Causes causes = with_formulas(by_conventions());
    return causes.unexplained.empty() ? causes : with(std::move(causes), &Inquest::try_pairs, pairs);
  }

  /// By single tensors, conventions, and blocks of other sizes than the usual ones.
  Causes by_conventions() {
    Causes causes;
    if (failing().empty()) return causes;
    try_algebra();
    causes.all_tried = try_conventions();
    settle(causes);
    // Outputs have their cause, and some gradient has another one.
    if (!causes.unexplained.empty() && std::ranges::all_of(causes.unexplained, is_gradient) && !silent_.empty())
      causes = with_more(std::move(causes), &Inquest::try_silent, 0);
    causes = with(std::move(causes), &Inquest::try_further, further);
    return with(std::move(causes), &Inquest::try_sizes, other_sizes);
  }
  /// The causes of by_conventions(), and formulas where these leave something open.
  Causes with_formulas(Causes causes) { return with(std::move(causes), &Inquest::try_formulas, formula); }

 private:
  /// The same with what `try_more` finds where something is open.
  Causes with(Causes causes, bool (Inquest::*try_more)(), int behind) {
    return is_open(causes) ? with_more(std::move(causes), try_more, behind) : causes;
  }
  /// With what `try_more` finds, which says whether it has tried all; `behind`: what its candidates' ranks are larger
  /// by.
  Causes with_more(Causes causes, bool (Inquest::*try_more)(), int behind) {
    const std::size_t known = candidates_.size();
    causes.all_tried = (this->*try_more)() && causes.all_tried;
    for (std::size_t i = known; i < candidates_.size(); ++i) candidates_[i].rank += behind;
    if (candidates_.size() == known) return causes;
    Causes more;
    more.all_tried = causes.all_tried;
    settle(more);
    return more;
  }

  std::vector<std::size_t> failing() const {
    std::vector<std::size_t> list;
    for (std::size_t t = 0; t < exhibits_.size(); ++t)
      if (exhibits_[t].suspect->fails && exhibits_[t].usable) list.push_back(t);
    return list;
  }
  /// Whether that tensor fails; "": some do.
  bool fails(const std::string& tensor) const {
    const std::vector<std::size_t> list = failing();
    return tensor.empty() ||
           std::any_of(list.begin(), list.end(), [&](std::size_t t) { return exhibits_[t].suspect->name == tensor; });
  }
  bool outputs_fail() const {
    return std::ranges::any_of(exhibits_, [](const Exhibit& x) { return x.suspect->fails && !x.gradient; });
  }
  /// Whether it only says what something is, and not why.
  bool is_plain(const LooksLike& cause) const {
    return std::any_of(candidates_.begin(), candidates_.end(),
                       [&](const Candidate& c) { return c.key == cause.name && c.rank >= plain_factor; });
  }
  /// Whether nothing explains an output clearly, or, of outputs that pass, a gradient.
  bool is_open(const Causes& so_far) const {
    std::vector<std::string> open = so_far.unexplained;
    for (const LooksLike& cause : so_far.list)
      if (cause.share < settled_share || is_plain(cause))
        open.insert(open.end(), cause.tensors.begin(), cause.tensors.end());
    const bool outputs = outputs_fail();
    return std::any_of(exhibits_.begin(), exhibits_.end(), [&](const Exhibit& x) {
      return x.usable && (!x.gradient || !outputs) && std::ranges::find(open, x.suspect->name) != open.end();
    });
  }
  bool time_is_up() const { return effort_.stop && effort_.stop(); }

  // ---- single tensors ----

  void try_algebra() {
    std::map<std::string, Candidate> found;
    for (const std::size_t t : failing()) {
      const Exhibit& x = exhibits_[t];
      std::vector<std::size_t> heads(x.grid.heads);
      std::iota(heads.begin(), heads.end(), std::size_t{0});
      // A factor is that of what is wrong.
      Values weight = x.weight;
      each_row(x.grid, weight, [&](std::size_t h, std::size_t r, std::span<double> row) {
        if (!x.is_wrong(h, r)) std::fill(row.begin(), row.end(), 0.0);
      });
      each_variant(scene_, truths_, {x.suspect->name, x.got(), weight}, [&](const Variant& variant) {
        TensorFit fit = fit_of(x, variant.values, heads, x.grid.rows, Tokens::wrong_ones);
        fit.wrong.after /= 1 - variant.free, fit.wrong.plain_after /= 1 - variant.free;
        fit.fitted = variant.rank >= plain_factor;
        if (!explains(x, fit)) return;
        Candidate& c = found[variant.key];
        if (c.fits.empty()) {
          c.key = variant.key, c.what = variant.what, c.mend = variant.mend, c.rank = variant.rank;
          c.fits.resize(exhibits_.size());
        }
        c.fits[t] = fit;
      });
    }
    for (auto& [key, candidate] : found) candidates_.push_back(std::move(candidate));
  }

  // ---- conventions ----

  /// The shared head behind what is wrong first.
  std::size_t focus() const {
    for (const std::size_t t : failing()) {
      const Exhibit& x = exhibits_[t];
      if (!x.grid.by_head) continue;
      const auto head = static_cast<std::size_t>(std::find(x.wrong.begin(), x.wrong.end(), 1) - x.wrong.begin());
      if (x.side == Field::Heads::own) return head % scene_.own_heads() / scene_.group();
      return head % scene_.shared_heads();
    }
    return 0;
  }

  /// Where a part's tensor lies in the whole one.
  struct Within {
    std::vector<std::size_t> heads;
    std::size_t rows = 0;
  };
  /// For an answer of so many numbers; nothing if that is no answer of the part.
  std::optional<Within> within(const Exhibit& x, const Part& part, std::size_t numbers) const {
    if (!x.usable || (!part.all_heads && !x.grid.by_head) || (!part.all_tokens && !x.grid.by_token))
      return std::nullopt;
    Within in{x.side == Field::Heads::own ? part.own : part.shared,
              x.grid.by_token ? std::min(x.grid.rows, part.tokens) : x.grid.rows};
    if (!x.grid.by_head || part.all_heads)
      in.heads.resize(x.grid.heads), std::iota(in.heads.begin(), in.heads.end(), std::size_t{0});
    else
      in.heads = of_all_sequences(scene_, x.side, x.grid.heads, in.heads);
    if (numbers != in.heads.size() * in.rows * x.grid.cols) return std::nullopt;
    return in;
  }

  /// A part's answer under the convention; nothing if the room refuses what no kernel can have done.
  static std::optional<Arrays> answer_in(const Convention& convention, const Part& part) {
    try {
      return convention.answer(part.scene);
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  Candidate candidate_of(const Convention& convention, std::size_t index, const Part& part,
                         const Arrays& answer) const {
    // However long a list of conventions is, it stays before the next one.
    const int rank = std::min(100 + static_cast<int>(index), further - 1);
    Candidate c{convention.key, convention.what, convention.mend, rank, true, {}, index};
    for (const Exhibit& x : exhibits_) {
      TensorFit best;
      for (const char* reading : {"", ", raw"}) {
        const auto found = answer.find(x.suspect->name + reading);
        if (found == answer.end()) continue;
        const std::optional<Within> in = within(x, part, found->second.data.size());
        if (!in) continue;
        const TensorFit fit = fit_of(x, found->second.data, in->heads, in->rows, Tokens::all);
        if (!best.known || (fit.known && fit.wrong.after + fit.right.after < best.wrong.after + best.right.after))
          best = fit;
      }
      best.strict = convention.strict;
      c.fits.push_back(best);
    }
    return c;
  }

  /// The same of a convention that leaves a term out, with the term there, times the number that fits best.
  std::optional<Candidate> multiplied(const Convention& convention, std::size_t index, const Part& part,
                                      Arrays answer) const {
    double products = 0, squares = 0;
    const auto each_number = [&](const auto& f) {  // f(exhibit, number of it, what the answer has there)
      for (const Exhibit& x : exhibits_) {
        const auto found = answer.find(x.suspect->name);
        if (found == answer.end()) continue;
        Values& values = found->second.data;
        const std::optional<Within> in = within(x, part, values.size());
        const std::size_t one = in ? in->rows * x.grid.cols : 0;
        for (std::size_t i = 0; one > 0 && i < values.size(); ++i)
          f(x, x.grid.at(in->heads[i / one], i % one / x.grid.cols, i % x.grid.cols), values[i]);
      }
    };
    each_number([&](const Exhibit& x, std::size_t i, double left_out) {
      if (!x.suspect->fails || !std::isfinite(left_out) || x.weight[i] == 0) return;
      const double term = x.truth[i] - left_out;
      products += x.weight[i] * term * (x.got()[i] - left_out), squares += x.weight[i] * term * term;
    });
    if (!(squares > 0)) return std::nullopt;
    const std::optional<NamedFactor> factor = factor_named(scene_, products / squares);
    if (!factor) return std::nullopt;
    each_number(
        [&](const Exhibit& x, std::size_t i, double& number) { number += factor->value * (x.truth[i] - number); });
    Convention named = convention;
    named.strict = true, named.key += " times " + factor->words;
    named.what.replace(named.what.find(Convention::term_left_out), Convention::term_left_out.size(),
                       ' ' + factor->words);
    named.mend = "count it once, as it is";
    Candidate c = candidate_of(named, index, part, answer);
    c.multiplied = true;
    if (!factor->known) c.rank += plain_factor;
    for (TensorFit& fit : c.fits) fit.fitted = !factor->known;
    if (!promises(c)) return std::nullopt;
    return c;
  }

  /// Whether it is worth more: some failing tensor comes near.
  bool promises(const Candidate& c) const {
    for (const std::size_t t : failing())
      if (c.fits[t].known && c.fits[t].wrong.share() >= weak_share && explains(exhibits_[t], c.fits[t])) return true;
    return false;
  }

  /// Whether its outputs show something of those that fail: if not, failing gradients have another cause.
  bool shows_in_outputs(const Convention& convention, std::size_t index, const Part& outputs) const {
    std::optional<Arrays> answer = answer_in(convention, outputs);
    if (!answer) return false;
    const Candidate c = candidate_of(convention, index, outputs, *answer);
    if (promises(c) || share_of_first(c) >= half_share) return true;
    return convention.leaves_term_out() && multiplied(convention, index, outputs, std::move(*answer));
  }

  /// Where outputs fail, the gradients that are computed: of conventions that show in these outputs, or of all.
  enum class Gradients { of_what_shows, all };

  /// Runs those of `which` on a part while the budget lasts; what promises something. Those of which no gradients are
  /// computed are kept as `silent_`.
  std::vector<Candidate> screen(const std::vector<Convention>& all, const std::vector<std::size_t>& which,
                                const Part& part, double& budget, bool& complete,
                                Gradients gradients = Gradients::of_what_shows) const {
    std::vector<Candidate> list;
    const double work = part.scene.work();
    const bool outputs_first =
        gradients == Gradients::of_what_shows && outputs_fail() && !part.scene.problem.cotangents.empty();
    const Part outputs = outputs_first ? outputs_of(part) : Part();
    for (const std::size_t i : which) {
      if (budget < work * all[i].effort || time_is_up()) {
        complete = false;
        break;
      }
      budget -= work * all[i].effort;
      if (outputs_first && !is_gradient(all[i].only) && !shows_in_outputs(all[i], i, outputs)) {
        silent_.push_back(all[i]);
        continue;
      }
      std::optional<Arrays> answer = answer_in(all[i], part);
      if (!answer) continue;
      Candidate candidate = candidate_of(all[i], i, part, *answer);
      keep_halfway(all[i], candidate);
      if (promises(candidate))
        list.push_back(std::move(candidate));
      else if (all[i].leaves_term_out()) {
        if (auto other = multiplied(all[i], i, part, std::move(*answer))) list.push_back(std::move(*other));
      }
    }
    return list;
  }

  /// The share that it explains of what is wrong first.
  double share_of_first(const Candidate& c) const {
    const std::vector<std::size_t> wrong = failing();
    return wrong.empty() || !c.fits[wrong.front()].known ? 0 : c.fits[wrong.front()].wrong.share();
  }

  /// Keeps conventions that explain a part of what is wrong first; of several, those that explain most.
  void keep_halfway(const Convention& convention, const Candidate& c) const {
    constexpr std::size_t most = 4;
    const double share = convention.is_pair ? 0 : share_of_first(c);
    if (share < half_share || std::ranges::any_of(halfway_, [&](const auto& h) { return h.second.key == c.key; }))
      return;
    halfway_.emplace_back(share, convention);
    std::ranges::stable_sort(halfway_, [](const auto& a, const auto& b) { return a.first > b.first; });
    if (halfway_.size() > most) halfway_.pop_back();
  }

  /// Two conventions at once, one of which explains a part by itself, for a quarter as much as conventions.
  bool try_pairs() {
    if (!scene_.in_parts || halfway_.empty()) return true;
    std::vector<Convention> singles = conventions_of(scene_), all;
    for (const auto& [share, first] : halfway_)
      for (const Convention& second : singles)
        if (second.key != first.key && (first.asks_room || second.asks_room)) all.push_back(both(first, second));
    return try_all(all, effort_.multiplications / 4);
  }

  static double efforts_of(const std::vector<Convention>& all, const std::vector<std::size_t>& list) {
    return std::accumulate(list.begin(), list.end(), 0.0,
                           [&](double sum, std::size_t i) { return sum + all[i].effort; });
  }

  bool try_conventions() {
    std::vector<Convention> all = first_;
    for (Convention& convention : conventions_of(scene_)) all.push_back(std::move(convention));
    return try_all(all, effort_.multiplications);
  }
  /// Those that outputs did not show, with their gradients.
  bool try_silent() { return try_all(silent_, effort_.multiplications / 2, Gradients::all); }
  /// Those that are rarer, for a quarter as much.
  bool try_further() { return try_all(further_conventions_of(scene_), effort_.multiplications / 4); }

  /// The formula, for half as much as conventions.
  bool try_formulas() {
    if (!last_) return true;
    const double budget = effort_.multiplications / 2;
    if (outputs_of(group_of(scene_, focus())).scene.work() > budget || time_is_up()) return false;
    return try_all(last_(scene_, outputs_fail() ? Pass::forward : Pass::backward), budget);
  }

  /// Mistakes in blocks of sizes that the answer itself shows, for a quarter as much as conventions.
  bool try_sizes() {
    const bool outputs = outputs_fail();
    Part part = group_of(scene_, focus());
    if (outputs) part = cuts() ? prefix_of(part, prefix_tokens) : outputs_of(part);
    const std::size_t tokens = part.scene.tokens();
    if (tokens < 2 * smallest_block || time_is_up()) return true;
    double budget = effort_.multiplications / 4;
    std::set<std::pair<std::string, std::size_t>> likely;
    std::set<std::size_t> sizes;
    std::map<std::string, Convention> of_one_block;
    for (Convention& c : block_conventions_of(part.scene, {tokens})) of_one_block.emplace(family_of(c), std::move(c));
    for (const Convention& c : block_conventions_of(part.scene, {tokens / 2})) {
      if (!fails(c.only) || is_gradient(c.only) == outputs) continue;
      const auto one = of_one_block.find(family_of(c));
      if (one != of_one_block.end()) budget -= part.scene.work() * c.effort;
      if (budget < 0 || time_is_up()) return false;
      for (const std::size_t size : sizes_shown(one == of_one_block.end() ? nullptr : &one->second, c.only, part))
        likely.emplace(family_of(c), size), sizes.insert(size);
    }
    if (sizes.empty()) return true;
    std::vector<Convention> all = block_conventions_of(scene_, {sizes.begin(), sizes.end()});
    std::erase_if(all, [&](const Convention& c) { return !likely.contains({family_of(c), c.block}); });
    return try_all(all, budget);
  }

  /// The key without the size of its blocks.
  static std::string family_of(const Convention& c) {
    const std::string size = std::to_string(c.block);
    std::string key = c.key;
    if (const std::size_t at = key.find(size); at != std::string::npos) key.erase(at, size.size());
    return key;
  }

  /// The sizes that blocks may have: where an answer of one block, or the truth (null), is no longer what was given.
  std::vector<std::size_t> sizes_shown(const Convention* one, const std::string& only, const Part& part) const {
    const std::optional<Arrays> answer = one == nullptr ? Arrays() : answer_in(*one, part);
    if (!answer) return {};
    std::set<std::size_t> sizes;
    for (const std::size_t t : failing()) {
      const Exhibit& x = exhibits_[t];
      const auto found = answer->find(x.suspect->name);
      if (!x.grid.by_token || (only.empty() ? x.gradient : x.suspect->name != only)) continue;
      if (one != nullptr && found == answer->end()) continue;
      const std::vector<char> off = rows_off(x, one == nullptr ? nullptr : &found->second.data, part);
      const auto from = std::find(off.begin(), off.end(), 1);
      const auto to = std::find(off.rbegin(), off.rend(), 1);
      if (from == off.end()) continue;
      const auto first = static_cast<std::size_t>(from - off.begin()), end = static_cast<std::size_t>(off.rend() - to);
      // A first row that is off by little is found late, a last one early: at multiples of 4, 8 and 16 rows.
      for (const std::size_t step : {1, 4, 8, 16})
        if (x.gradient)
          add_divisors((end + step - 1) / step * step, off.size(), sizes);
        else if (first / step * step >= smallest_block)
          sizes.insert(first / step * step);
    }
    // Tiles, and what is summed within chunks backwards, are off everywhere.
    if (is_gradient(only) || scene_.room->name == "softmax_attention")
      for (const std::size_t size : {8, 12, 20, 24, 40, 48, 80, 96, 112}) sizes.insert(size);
    for (const std::size_t size : {16, 32, 64, 128}) sizes.erase(size);  // these were tried
    sizes.erase(sizes.lower_bound(part.tokens), sizes.end());
    return {sizes.begin(), sizes.end()};
  }

  /// Adds all sizes of blocks into which `rows` can be cut if the last one begins with row `begin`.
  static void add_divisors(std::size_t begin, std::size_t rows, std::set<std::size_t>& sizes) {
    for (std::size_t size = smallest_block; size <= begin && begin < rows; ++size)
      if (begin % size == 0 && rows - begin <= size) sizes.insert(size);
  }

  /// Rows of a part in which a prediction, null: the truth, is not what was given, whatever it is rounded to.
  std::vector<char> rows_off(const Exhibit& x, const Values* predicted, const Part& part) const {
    const std::size_t rows = std::min(x.grid.rows, part.tokens), cols = x.grid.cols;
    const std::vector<std::size_t>& heads = x.side == Field::Heads::own ? part.own : part.shared;
    std::vector<char> off(rows, 0);
    if (predicted != nullptr && predicted->size() != heads.size() * rows * cols) return off;
    for (std::size_t h = 0; h < heads.size(); ++h)
      for (std::size_t r = 0; r < rows; ++r) {
        double squares = 0, count = 0;
        for (std::size_t c = 0; c < cols; ++c) {
          const std::size_t i = x.grid.at(heads[h], r, c);
          const double p = predicted == nullptr ? x.truth[i] : (*predicted)[(h * rows + r) * cols + c];
          if (std::isfinite(p)) squares += x.weight[i] * (x.got()[i] - p) * (x.got()[i] - p), ++count;
        }
        if (squares > 4 * other_spread * other_spread * x.limit * count) off[r] = 1;
      }
    return off;
  }

  /// On the whole problem, if `budget` is enough for that; else on parts of it first. Whether all were tried.
  bool try_all(const std::vector<Convention>& all, double budget, Gradients gradients = Gradients::of_what_shows) {
    std::vector<std::size_t> every, apart, together;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (fails(all[i].only)) every.push_back(i), (all[i].whole_sequences ? together : apart).push_back(i);
    const Part whole = whole_of(scene_);
    bool complete = true;
    const auto efforts = [&](const std::vector<std::size_t>& list) { return efforts_of(all, list); };
    if (whole.scene.work() * efforts(every) <= budget) {
      add(screen(all, every, whole, budget, complete, gradients));
      return complete;
    }
    Part part = group_of(scene_, focus());
    if (part.scene.work() * efforts(apart) > budget) apart = screened(all, apart, part, budget, complete);
    std::vector<Candidate> found = screen(all, apart, part, budget, complete, gradients);
    confirm(all, whole, found);
    add(std::move(found));
    if (whole.scene.work() * efforts(together) > budget) together = screened(all, together, whole, budget, complete);
    add(screen(all, together, whole, budget, complete, gradients));
    return complete;
  }

  /// Those that explain the outputs, or the first tokens of one that fails there; all if none does.
  std::vector<std::size_t> screened(const std::vector<Convention>& all, const std::vector<std::size_t>& which,
                                    const Part& part, double& budget, bool& complete) const {
    const std::size_t enough = std::min(prefix_tokens, first_off(part) + tokens_behind);
    Part prefix = cuts() ? prefix_of(part, enough) : outputs_of(part);
    while (cuts() && prefix.tokens > usual_chunk && prefix.scene.work() * efforts_of(all, which) > budget / 2)
      prefix = prefix_of(part, prefix.tokens / 2);
    if (cuts() && !is_answered_alike(prefix)) prefix = outputs_of(part);
    if (first_off(prefix) == prefix.tokens) return which;
    std::vector<std::size_t> looked_at, left;
    for (const std::size_t i : which)
      (is_gradient(all[i].only) || (cuts() && all[i].looks_ahead) ? left : looked_at).push_back(i);
    std::vector<std::size_t> near;
    for (const Candidate& c : screen(all, looked_at, prefix, budget, complete)) near.push_back(c.index);
    if (!near.empty()) {
      if (part.scene.work() * efforts_of(all, left) <= budget) near.insert(near.end(), left.begin(), left.end());
      std::sort(near.begin(), near.end());
      return near;
    }
    // Nothing explains the outputs; what gradients show by themselves is not asked.
    return left;
  }

  /// Whether the room answers a part as it answers the whole: programs of users may look ahead.
  bool is_answered_alike(const Part& part) const {
    Arrays answer;
    try {
      answer = hypotheses::answer_of(*part.scene.room, part.scene.problem);
    } catch (const std::exception&) {
      return false;  // the room refuses so few tokens
    }
    for (const Exhibit& x : exhibits_) {
      const auto found = answer.find(x.suspect->name);
      if (found == answer.end() || x.gradient || !x.grid.by_token) continue;
      const std::size_t rows = std::min(x.grid.rows, part.tokens), cols = x.grid.cols;
      const std::vector<std::size_t>& heads = x.side == Field::Heads::own ? part.own : part.shared;
      const Values& values = found->second.data;
      if (values.size() != heads.size() * rows * cols) return false;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t of = x.grid.at(heads[i / (rows * cols)], i / cols % rows, i % cols);
        const double off = values[i] - x.truth[of];
        if (x.weight[of] * off * off > 1) return false;
      }
    }
    return true;
  }

  /// Whether the first tokens are a problem, too.
  bool cuts() const { return scene_.in_parts && scene_.is_causal() && scene_.aligned(); }

  /// The first row of a part's outputs that is off; as many as it has tokens, if none is.
  std::size_t first_off(const Part& part) const {
    std::size_t first = part.tokens;
    for (const std::size_t t : failing()) {
      const Exhibit& x = exhibits_[t];
      if (!x.grid.by_token || x.gradient) continue;
      for (const std::size_t h : x.side == Field::Heads::own ? part.own : part.shared)
        for (std::size_t r = 0; r < std::min(first, x.grid.rows); ++r)
          for (std::size_t c = 0; c < x.grid.cols; ++c)
            if (!(excess_at(*x.suspect->expected, x.got(), x.grid.at(h, r, c)) <= 1)) first = std::min(first, r);
    }
    return first;
  }

  /// Asks all heads about what a part shows, as far as that is affordable.
  void confirm(const std::vector<Convention>& all, const Part& whole, std::vector<Candidate>& found) const {
    constexpr std::size_t most = 16;
    std::stable_sort(found.begin(), found.end(), [&](const Candidate& a, const Candidate& b) {
      return claim_of(a).tensors.size() > claim_of(b).tensors.size();
    });
    double budget = effort_.multiplications / 2;
    const double work = whole.scene.work();
    for (std::size_t i = 0; i < std::min(most, found.size()); ++i) {
      if (budget < work || time_is_up()) return;
      if (found[i].multiplied) continue;  // the number is of the part
      budget -= work;
      const std::size_t index = found[i].index;
      if (const auto again = answer_in(all[index], whole)) found[i] = candidate_of(all[index], index, whole, *again);
    }
  }

  void add(std::vector<Candidate>&& list) {
    for (Candidate& c : list) candidates_.push_back(std::move(c));
  }

  // ---- what is believed ----

  /// The evidence for and against it among the tensors that `counts` holds.
  template <class Counts>
  Claim claim_among(const Candidate& c, const Counts& counts) const {
    Claim claim;
    double elements = 0;
    for (std::size_t t = 0; t < exhibits_.size(); ++t) {
      const Exhibit& x = exhibits_[t];
      if (!counts(x) || !c.fits[t].known) continue;
      const Fit &wrong = c.fits[t].wrong, &right = c.fits[t].right;
      if (x.suspect->fails && x.usable && explains(x, c.fits[t])) {
        claim.tensors.push_back(t), elements += wrong.count;
      } else if (c.convention) {
        Fit all = wrong;
        all.join(right);
        if (moves(x, all)) ++claim.doubts;
      }
    }
    const bool leaves = c.convention && leaves_an_output(c, claim);
    std::erase_if(claim.tensors, [&](std::size_t t) {
      TensorFit strictly = c.fits[t];
      strictly.strict = true;
      return (leaves && !explains(exhibits_[t], strictly)) ||
             (elements < few && (elements < few / 4 || c.fits[t].wrong.share() < clear_share));
    });
    return claim;
  }

  /// Whether it explains an output and says that another one is right, which is not: that must be clear.
  bool leaves_an_output(const Candidate& c, const Claim& claim) const {
    if (std::ranges::all_of(claim.tensors, [&](std::size_t t) { return exhibits_[t].gradient; })) return false;
    for (std::size_t t = 0; t < exhibits_.size(); ++t)
      if (const Exhibit& x = exhibits_[t]; !x.gradient && x.suspect->fails && x.usable && c.fits[t].known &&
                                           std::ranges::find(claim.tensors, t) == claim.tensors.end())
        return true;
    return false;
  }

  /// All that it explains if nothing speaks against it; else outputs or gradients alone; else single tensors.
  Claim claim_of(const Candidate& c) const {
    Claim all = claim_among(c, [](const Exhibit&) { return true; });
    if (!c.convention || all.doubts == 0 || all.tensors.empty()) return all;
    Claim best;
    for (const bool gradients : {false, true}) {
      const Claim some = claim_among(c, [&](const Exhibit& x) { return x.gradient == gradients; });
      if (some.doubts == 0 && some.tensors.size() > best.tensors.size()) best = some;
    }
    if (!best.tensors.empty()) return best;
    // Backward passes compute their gradients apart; where outputs fail, nothing is taken for right by itself.
    Claim doubtful = all;
    doubtful.tensors.clear();
    for (const Exhibit& x : exhibits_)
      if (!x.gradient && x.suspect->fails) return doubtful;
    for (const std::size_t t : all.tensors)
      if (c.fits[t].wrong.count >= 4 * few) doubtful.tensors.push_back(t);
    return doubtful;
  }

  /// The rest of the error in the tensors of a claim, over what there was. To compare, as much at least as a healthy
  /// kernel may leave: explanations that leave less are not told apart by it.
  double left_of(const Candidate& c, const std::vector<std::size_t>& tensors, bool to_compare) const {
    double before = 0, after = 0;
    for (const std::size_t t : tensors) {
      const Fit& wrong = c.fits[t].wrong;
      before += wrong.before;
      after += to_compare ? std::max(wrong.after, exhibits_[t].limit * wrong.count) : wrong.after;
    }
    return before > 0 ? after / before : 1;
  }

  struct Choice {
    const Candidate* candidate = nullptr;
    std::vector<std::size_t> tensors;
    int doubts = 0;
    double left = 1;
    bool local = false;  ///< heads that are right speak against it

    /// Whether it is the better of two.
    bool beats(const Choice& other) const {
      if (other.candidate == nullptr) return true;
      const bool mine = doubts == 0, theirs = other.doubts == 0;
      if (mine != theirs) return mine;
      if (tensors.size() != other.tensors.size()) return tensors.size() > other.tensors.size();
      // One cause before two, and these before what says nothing of a cause.
      const auto tier = [](int rank) { return rank >= plain_factor ? 2 : rank >= pairs ? 1 : 0; };
      if (const int mine_is = tier(candidate->rank), theirs_is = tier(other.candidate->rank); mine_is != theirs_is)
        return mine_is < theirs_is;
      if (local != other.local) return !local;
      if (std::max(left, other.left) > alike * std::min(left, other.left)) return left < other.left;
      return candidate->rank < other.candidate->rank;
    }
  };

  /// Those that explain some of `open`, restricted to it.
  std::vector<Choice> choices(const std::set<std::size_t>& open) const {
    std::vector<Choice> list;
    for (const Candidate& c : candidates_) {
      Claim claim = claim_of(c);
      std::erase_if(claim.tensors, [&](std::size_t t) { return !open.contains(t); });
      if (claim.tensors.empty()) continue;
      const double left = left_of(c, claim.tensors, true);
      const bool local = std::any_of(claim.tensors.begin(), claim.tensors.end(),
                                     [&](std::size_t t) { return refutes(exhibits_[t], c.fits[t].right); });
      list.push_back({&c, std::move(claim.tensors), claim.doubts, left, local});
    }
    return list;
  }

  void settle(Causes& causes) const {
    const std::vector<std::size_t> wrong = failing();
    std::set<std::size_t> open(wrong.begin(), wrong.end());
    std::vector<std::pair<std::size_t, LooksLike>> found;
    while (!open.empty()) {
      const std::vector<Choice> list = choices(open);
      Choice best;
      for (const Choice& choice : list)
        if (choice.beats(best)) best = choice;
      if (best.candidate == nullptr) break;
      found.emplace_back(best.tensors.front(), told(best, list));
      for (const std::size_t t : best.tensors) open.erase(t);
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [first, cause] : found) causes.list.push_back(std::move(cause));
    for (std::size_t t = 0; t < exhibits_.size(); ++t)
      if (exhibits_[t].suspect->fails && (!exhibits_[t].usable || open.contains(t)))
        causes.unexplained.push_back(exhibits_[t].suspect->name);
  }

  LooksLike told(const Choice& best, const std::vector<Choice>& list) const {
    LooksLike cause;
    for (const std::size_t t : best.tensors) cause.tensors.push_back(exhibits_[t].suspect->name);
    cause.name = best.candidate->key, cause.what = best.candidate->what, cause.mend = best.candidate->mend;
    cause.share = 1 - left_of(*best.candidate, best.tensors, false), cause.where = place_of(best);
    for (const Choice& other : list) {
      if (cause.or_else.size() >= 2) break;
      if (other.candidate == best.candidate || other.tensors != best.tensors || other.doubts != best.doubts ||
          other.local != best.local)
        continue;
      if (other.candidate->what == cause.what || other.left > alike * best.left) continue;
      // A number says less than what it comes from, and a formula less than a convention.
      if (other.candidate->rank >= formula && best.candidate->rank < formula) continue;
      if (other.candidate->rank >= plain_factor || other.candidate->key.starts_with("factor")) continue;
      cause.or_else.push_back(other.candidate->what);
    }
    return cause;
  }

  /// "head 1 of 4"; of several sequences "sequence 2 of 5, head 1 of 4".
  static std::string heads_in_words(const Exhibit& x, const std::vector<int>& heads) {
    const bool own = x.side == Field::Heads::own;
    NamedAxis head{own ? "head" : "key/value head", own ? "heads" : "key/value heads",
                   static_cast<int>(x.wrong.size())};
    const std::vector<NamedAxis>* axes = x.suspect->axes;
    if (axes == nullptr || axes->size() < 2 || (*axes)[0].extent < 2) return describe(head, heads);
    const int each = (*axes)[1].extent;
    std::set<int> sequences, of_each;
    for (const int h : heads) sequences.insert(h / each), of_each.insert(h % each);
    if (sequences.size() * of_each.size() != heads.size()) return describe(head, heads);
    head.extent = each;
    std::string words;
    if (static_cast<int>(sequences.size()) < (*axes)[0].extent)
      words = describe((*axes)[0], {sequences.begin(), sequences.end()});
    if (static_cast<int>(of_each.size()) < each)
      words += (words.empty() ? "" : ", ") + describe(head, {of_each.begin(), of_each.end()});
    return words;
  }

  /// The heads and tokens that are wrong, where the others of a tensor speak against it.
  std::string place_of(const Choice& best) const {
    for (const std::size_t t : best.tensors) {
      const Exhibit& x = exhibits_[t];
      if (!refutes(x, best.candidate->fits[t].right)) continue;
      std::vector<int> heads;
      for (std::size_t h = 0; h < x.wrong.size(); ++h)
        if (x.wrong[h] != 0) heads.push_back(static_cast<int>(h));
      std::string place;
      if (heads.size() < x.wrong.size()) place = " in " + heads_in_words(x, heads);
      if (best.candidate->convention) return place;
      if (x.first > 0) place += fmt::format(" from token {} on", x.first);
      if (x.last + 1 < x.grid.rows) place += fmt::format(" up to token {}", x.last);
      return place;
    }
    return "";
  }

  /// Behind all conventions, of those that leave as much; before factors that say nothing.
  static constexpr int formula = plain_factor / 2, pairs = 2 * plain_factor / 3;
  /// Between the first conventions and formulas.
  static constexpr int further = formula / 3, other_sizes = 2 * further;
  /// Explanations that leave this much of each other's rest are alike.
  static constexpr double alike = 1.1;
  /// Enough for a convention to show in an output; and behind the first row that is wrong.
  static constexpr std::size_t prefix_tokens = 256, tokens_behind = 32;
  /// Chunks and tiles have as many rows at least.
  static constexpr std::size_t smallest_block = 8;

  Scene scene_;
  const Effort& effort_;
  Last last_;
  std::vector<Convention> first_;
  std::vector<Exhibit> exhibits_;
  Arrays truths_;
  std::vector<Candidate> candidates_;
  mutable std::vector<std::pair<double, Convention>> halfway_;  ///< by the share of what is wrong first
  mutable std::vector<Convention> silent_;                      ///< of which outputs that fail show nothing
};

/// Outputs as the room has them, then gradients as it has its inputs.
std::vector<Suspect> in_causal_order(const Room& room, const std::vector<Suspect>& tensors) {
  std::vector<std::string> order;
  for (const RoomFacts::Ranked& ranked : room.outputs()) order.emplace_back(ranked.field.name);
  for (const bool numbers : {false, true})
    for (const RoomFacts::Ranked& ranked : room.inputs())
      if ((ranked.rank == 0) == numbers) order.push_back("d_" + std::string(ranked.field.name));
  std::vector<Suspect> sorted = tensors;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Suspect& a, const Suspect& b) {
    return std::find(order.begin(), order.end(), a.name) < std::find(order.begin(), order.end(), b.name);
  });
  return sorted;
}

std::string joined(const std::vector<std::string>& names, std::string_view last = " and ") {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i)
    list += (i == 0 ? "" : i + 1 == names.size() ? std::string(last) : ", ") + names[i];
  return list;
}

/// "from token 64 on", "token 17 of 100"; backwards: "from token 63 back".
std::string since(const NamedAxis& axis, const std::vector<int>& indices, bool backwards) {
  const bool gapless = indices.back() - indices.front() + 1 == static_cast<int>(indices.size());
  // An error that begins with a sequence is told by sequences.
  const int edge = backwards ? indices.back() + 1 : indices.front();
  if (std::find(axis.borders.begin(), axis.borders.end(), edge) != axis.borders.end()) return describe(axis, indices);
  if (gapless && indices.size() > 1 && !backwards && indices.back() == axis.extent - 1)
    return fmt::format("from {} {} on", axis.one, indices.front());
  if (gapless && indices.size() > 1 && backwards && indices.front() == 0)
    return fmt::format("from {} {} back", axis.one, indices.back());
  return describe(axis, indices);
}

}  // namespace

std::string LooksLike::cause(std::size_t failing) const {
  const double percent = std::floor(1e4 * share) / 100;
  return fmt::format("{}looks like {}{} ({}%{})", tensors.size() == failing ? "" : joined(tensors) + ": ", what,
                     where + (or_else.empty() ? "" : ", or " + joined(or_else, " or ")), percent,
                     share < named_share ? ", the rest is rounding" : "");
}

std::string LooksLike::sentence(std::size_t failing) const { return cause(failing) + "; " + mend; }

Causes causes_of(const Room& room, const Problem& problem, int batch, const std::vector<Suspect>& tensors,
                 const Effort& effort) {
  return Inquest(Scene(room, problem, batch), in_causal_order(room, tensors), effort, formula_slips).run();
}

namespace {

Scene scene_of(const arguments::HeadsFirst& posed) {
  Scene scene(*posed.room, posed.problem, 1);
  scene.in_parts = posed.in_parts;
  return scene;
}

}  // namespace

Causes causes_of_arguments(const Problem& in_file, const std::vector<Suspect>& tensors, const Effort& effort) {
  const arguments::HeadsFirst posed = arguments::heads_first(in_file);
  const std::vector<Suspect> sorted = in_causal_order(*posed.room, tensors);
  const Scene scene = scene_of(posed);
  const auto formulas = [&](const Scene& of, Pass pass) { return formula_slips_of_arguments(in_file, of, pass); };
  Inquest inquest(scene, sorted, effort, formulas, conventions_of_arguments(scene, posed.choices));
  Causes causes = inquest.by_conventions();
  // Conventions behind a front end come before formulas of the whole.
  const auto behind = arguments::behind_front_end(in_file);
  if (!behind) return inquest.with_formulas(std::move(causes));
  if (std::ranges::all_of(causes.unexplained, is_gradient)) return causes;
  std::vector<Suspect> outputs = sorted;
  std::erase_if(outputs, [&](const Suspect& s) { return is_gradient(s.name); });
  const Scene inner = scene_of(*behind);
  Causes more = Inquest(inner, outputs, effort, {}, conventions_of_front_end(inner, posed.problem)).run();
  if (more.unexplained.size() >= outputs.size() || more.list.empty()) return inquest.with_formulas(std::move(causes));
  for (const LooksLike& cause : more.list)
    for (const std::string& named : cause.tensors) std::erase(causes.unexplained, named);
  causes.list.insert(causes.list.begin(), more.list.begin(), more.list.end());
  return causes;
}

std::optional<FirstWrong> first_wrong(const Room& room, int batch, const std::vector<Suspect>& tensors) {
  const Scene scene(room, {}, batch);
  const std::vector<Suspect> sorted = in_causal_order(room, tensors);
  const auto first = std::find_if(sorted.begin(), sorted.end(), [](const Suspect& s) { return s.fails; });
  if (first == sorted.end()) return std::nullopt;
  const RoomFacts::Ranked* ranked = scene.described(first->name);
  if (ranked == nullptr) return std::nullopt;
  FirstWrong found{first->name, {}, first->name + " is wrong"};
  const char* before = " ";
  const auto add = [&](const std::string& part) {
    found.sentence += before + std::string(part.starts_with("from ") ? "" : "in ") + part;
    before = ", ";
  };
  const bool gradient = is_gradient(first->name);
  const std::vector<NamedAxis> axes = first->axes != nullptr ? *first->axes : named_axes(*ranked, first->shape, batch);
  if (!axes.empty()) {
    const std::vector<std::vector<int>> wrong =
        first->wrong != nullptr ? *first->wrong : wrong_indices(axes, deviations_of(*first->expected, *first->got));
    // Tokens first, then sequences and heads.
    for (std::size_t a = 2; a < axes.size(); ++a)
      if (axes[a].extent > 1 && (axes[a].one == "token" || axes[a].one == "query"))
        add(since(axes[a], wrong[a], gradient));
    for (std::size_t a = 0; a < std::min<std::size_t>(2, axes.size()); ++a)
      if (axes[a].extent > 1) add(describe(axes[a], wrong[a]));
  }
  for (const Suspect& s : sorted)
    if (s.fails && &s != &*first) found.followers.push_back(s.name);
  if (gradient) found.sentence += "; every output passes";
  if (const std::size_t n = found.followers.size(); n > 0)
    found.sentence += n == 1 ? " (1 other follows)" : fmt::format(" ({} others follow)", n);
  return found;
}

}  // namespace assay
