#include "proptests/laws/laws.hpp"

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "judge/sigma/residues.hpp"
#include "proptests/laws/reference_laws.hpp"
#include "reference/core/random.hpp"

namespace assay::laws {
namespace {

std::string normalization_of(const Problem& p) {
  const auto it = p.params.find("normalization");
  return it == p.params.end() ? "none" : std::get<std::string>(it->second);
}

/// Elements of one head and token in [H][T][...] arrays.
std::size_t row_size(const Array& a) { return a.data.size() / static_cast<std::size_t>(a.shape[0] * a.shape[1]); }

Array in_doubles(const std::vector<int>& shape, const std::vector<HiLo>& numbers) {
  Array a(shape);
  std::transform(numbers.begin(), numbers.end(), a.data.begin(), [](const HiLo& x) { return x.hi; });
  return a;
}

double dot(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += a.data[i] * b.data[i];
  return sum;
}

/// The sum of |weight| * allowance: how far <weight, x> may be off when x is within its allowance.
double weighed(const Array& weight, const Array& allowed) {
  double sum = 0;
  for (std::size_t i = 0; i < weight.data.size(); ++i) sum += std::fabs(weight.data[i]) * allowed.data[i];
  return sum;
}

/// Rounding of a double-precision sum of n products: (n + 1) u times the sum of their absolute values.
double rounding_of_dot(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += std::fabs(a.data[i] * b.data[i]);
  return (static_cast<double>(a.data.size()) + 1) * unit_roundoff(Format::fp64) * sum;
}

/// NaN is NaN: what overflows is no race.
bool same_bits(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool same_bits(const Array& a, const Array& b) {
  return std::ranges::equal(a.data, b.data, [](double x, double y) { return same_bits(x, y); });
}
/// The first tensor of `want` of which `got` has other bits, or "".
std::string other_bits(const Arrays& got, const Arrays& want) {
  for (const auto& [name, array] : want)
    if (!same_bits(got.at(name), array)) return name;
  return "";
}

/// The oracle's answer. Where a comparison of numbers that are equal cannot be decided there is none, and no law.
Oracle oracle_or_discard(const Room& room, const Problem& problem) {
  try {
    return oracle_of(room, problem);
  } catch (const InputError& undecidable) {
    RC_DISCARD(undecidable.what());
  }
}

}  // namespace

Problem Subject::problem(const LawCase& c) const {
  Problem p = room.make(c.spec);
  RC_PRE(form.obstacle(p).empty());
  try {
    room.values(p, Tier::fp64);
  } catch (const InputError& refused) {  // a kernel is not asked what has no answer
    RC_DISCARD(refused.what());
  }
  return p;
}

Answer Subject::run(const Problem& p, Format precision, int tile) const {
  return form.run(p, Policy::of(form.sites, precision), tile);
}

Subject subject(std::span<const KernelRoom* const> kernels, std::string_view room, std::string_view form) {
  const KernelRoom* kernel_room = find_kernels(kernels, room);
  require(kernel_room != nullptr, room, ": no such room");
  const auto it = std::find_if(kernel_room->forms.begin(), kernel_room->forms.end(),
                               [&](const KernelForm& f) { return f.name == form; });
  require(it != kernel_room->forms.end(), room, ": no form ", form);
  return {listed_room(room), *it};
}

Arrays values_of(const Oracle& oracle) {
  Arrays values;
  for (const auto& [name, tensor] : oracle.tensors) values[name] = in_doubles(tensor.shape, tensor.value);
  return values;
}

namespace {

/// Conjugate gradients of as many steps as dimensions are done where nothing rounds. What fp64 leaves of the residual
/// there may be above a tolerance that a wider scalar's is below: one stops, the other goes on and ends closer to the
/// solution. No draw in fp64 shows the stop of the wider scalar, so it is asked itself. A formula that is wrong is as
/// wrong in both.
void add_other_stops(const Subject& s, const Problem& problem, int tile, Arrays& allowed) {
  if (!problem.params.contains("tolerance")) return;
  const Arrays exact = flat(s.run(problem, Format::exact, tile)), rounded = flat(s.run(problem, Format::fp64, tile));
  for (auto& [name, limits] : allowed)
    for (std::size_t i = 0; i < limits.data.size(); ++i)
      limits.data[i] += std::fabs(exact.at(name).data[i] - rounded.at(name).data[i]);
}

}  // namespace

Arrays allowance(const Subject& s, const Problem& problem, Format precision, int tile) {
  // Most laws compare runs that do not round, 2^-11 of fp64's spread away from each other: a quarter of the draws is
  // enough for it, and the judge's reach widens by the degrees of freedom that are missing.
  const int draws = precision == Format::fp64 ? default_draws / 4 : default_draws;
  const Expectation e = expect(oracle_or_discard(s.room, problem), {&s.form, precision, tile, 1}, problem, draws);
  Arrays allowed;
  for (const auto& [name, x] : e.tensors) {
    Array& a = allowed[name];
    a.shape = x.shape;
    for (std::size_t i = 0; i < x.sigma.size(); ++i) a.data.push_back(x.reach[i] * x.sigma[i] + x.bound[i]);
  }
  if (precision != Format::fp64) return allowed;
  // Where fp64 rounds nothing in this form, another form or tile shape may leave a residue.
  const Arrays left = residues(s.form, problem, tile);
  for (auto& [name, limits] : allowed)
    for (std::size_t i = 0; i < limits.data.size(); ++i) limits.data[i] += left.at(name).data[i];
  add_other_stops(s, problem, tile, allowed);
  return allowed;
}

namespace {

/// A sentence on the first element that is further off than allowed, or "". `times` counts the answers on the way
/// from one to the other. Each is a double, rounded once from a longer sum; an allowance learnt from a few runs may be
/// smaller than that where a sum is next to exact.
std::string first_beyond(const Arrays& got, const Arrays& want, const Arrays& allowed, double times) {
  for (const auto& [name, limits] : allowed) {
    const Array &a = got.at(name), &b = want.at(name);
    RC_ASSERT(a.shape == b.shape);
    for (std::size_t i = 0; i < limits.data.size(); ++i) {
      const double rounding = unit_roundoff(Format::fp64) * std::max(std::fabs(a.data[i]), std::fabs(b.data[i]));
      const double limit = times * (limits.data[i] + rounding);
      const bool within = std::fabs(a.data[i] - b.data[i]) <= limit;
      if (!within) return text(name, place(a.shape, i), ": got ", a.data[i], ", want ", b.data[i], ", allowed ", limit);
    }
  }
  return {};
}

}  // namespace

void expect_within(const Arrays& got, const Arrays& want, const Arrays& allowed, double times) {
  if (const std::string beyond = first_beyond(got, want, allowed, times); !beyond.empty()) RC_FAIL(beyond);
}

void stays_within_budget(const Subject& s, const LawCase& c) {
  const Problem p = s.problem(c);
  const Expectation e = expect(oracle_or_discard(s.room, p), {&s.form, c.spec.precision, c.tile, 1}, p, default_draws);
  for (std::size_t t = 0; t < e.tensors.size(); ++t) {
    const Judgement j = judge(e.tensors[t].second, e.emulated[t].second);
    RC_CLASSIFY(j.verdict == Verdict::vacuous, "vacuous");
    RC_CLASSIFY(j.verdict == Verdict::undecided, "undecided");
    if (j.verdict == Verdict::fail || j.verdict == Verdict::error) RC_FAIL(e.tensors[t].first + ": " + j.reason);
  }
}

void exact_policy_is_the_oracle(const Subject& s, const LawCase& c) {
  exact_policy_is_the_oracle(s, s.problem(c), c.tile);
}

void exact_policy_is_the_oracle(const Subject& s, const Problem& p, int tile) {
  const Arrays want = values_of(oracle_or_discard(s.room, p));
  expect_within(flat(s.run(p, Format::exact, tile)), want, allowance(s, p, Format::fp64, tile), 1);
}

void tile_shape_changes_nothing(const Subject& s, const LawCase& c) {
  const Problem p = s.problem(c);
  const Arrays allowed = allowance(s, p, Format::fp64, c.tile);
  const Arrays first = flat(s.run(p, Format::exact, c.tile));
  for (int tile = 0; tile < static_cast<int>(s.form.tiles.size()); ++tile)
    expect_within(flat(s.run(p, Format::exact, tile)), first, allowed, 2);
}

namespace {

/// Laws of bits are about numbers: what overflows and is masked by a product with zero is NaN in other rows as well.
void numbers_or_discard(const Arrays& arrays) {
  for (const auto& [name, array] : arrays)
    RC_PRE(std::ranges::all_of(array.data, [](double x) { return std::isfinite(x); }));
}

}  // namespace

void same_bits_twice(const Subject& s, const LawCase& c) {
  const Problem p = s.problem(c);
  Policy policy = Policy::of(s.form.sites, c.spec.precision);
  for (const Rounding rounding : {Rounding::nearest_even, Rounding::jittered}) {
    policy.rounding = rounding;
    policy.threads = 1;
    const Arrays once = flat(s.form.run(p, policy, c.tile));
    numbers_or_discard(once);
    policy.threads = 2;
    RC_ASSERT(other_bits(flat(s.form.run(p, policy, c.tile)), once) == "");
  }
}

void every_element_is_written(const Subject& s, const LawCase& c) {
  const Problem p = s.problem(c);
  for (const auto& [name, array] : flat(s.run(p, Format::exact, c.tile)))
    for (const double x : array.data) RC_ASSERT(!std::isnan(x));
}

void the_future_changes_no_bit(const Subject& s, const LawCase& c) {
  const Problem p = s.problem(c);
  const auto causal = p.params.find("causal");
  const bool is_causal = causal == p.params.end() || std::get<bool>(causal->second);
  RC_PRE(is_causal);
  const int T = c.spec.shape.seq_len, queries = c.spec.shape.queries();
  // Query i sits at position i + T - queries; what lies behind `now` changes, what lies before may not notice.
  const int now = *rc::gen::inRange(T - queries, T);
  Problem other = p;
  for (const RoomFacts::Ranked& ranked : s.room.inputs()) {
    const auto it = other.inputs.find(ranked.field.name);
    if (it == other.inputs.end() || !has_rows(ranked, it->second)) continue;
    Array& a = it->second;
    const int rows = a.shape[1], offset = ranked.field.axes[0] == Axis::query_len ? T - queries : 0;
    const std::size_t size = row_size(a);
    for (int h = 0; h < a.shape[0]; ++h)
      for (int t = std::max(0, now + 1 - offset); t < rows; ++t)
        for (std::size_t x = 0; x < size; ++x) a.data[static_cast<std::size_t>(h * rows + t) * size + x] *= 0.5;
  }
  const Arrays before = flat(s.run(p, c.spec.precision, c.tile)), after = flat(s.run(other, c.spec.precision, c.tile));
  numbers_or_discard(before);
  numbers_or_discard(after);
  for (const RoomFacts::Ranked& ranked : s.room.outputs()) {
    if (!is_by_token(ranked)) continue;
    const Array &a = before.at(std::string(ranked.field.name)), &b = after.at(std::string(ranked.field.name));
    const int rows = a.shape[1], offset = T - rows;
    const std::size_t size = row_size(a);
    for (int h = 0; h < a.shape[0]; ++h)
      for (int t = 0; t <= now - offset; ++t)
        for (std::size_t x = 0; x < size; ++x) {
          const std::size_t at = static_cast<std::size_t>(h * rows + t) * size + x;
          if (!same_bits(a.data[at], b.data[at])) RC_FAIL(text(ranked.field.name, " of head ", h, " and token ", t));
        }
  }
}

void heads_are_independent(const Subject& s, const LawCase& c) {
  const Problem p = s.problem(c);
  const Answer all = s.run(p, c.spec.precision, c.tile);
  numbers_or_discard(flat(all));
  const int own = c.spec.shape.own(), group = own / c.spec.shape.shared();
  const int head = *rc::gen::inRange(0, own);
  const auto slice = [](const Array& a, int h) {
    Array one(std::vector<int>(a.shape.begin() + 1, a.shape.end()));
    const auto begin = a.data.begin() + static_cast<std::ptrdiff_t>(one.data.size()) * h;
    std::copy(begin, begin + static_cast<std::ptrdiff_t>(one.data.size()), one.data.begin());
    return one;
  };
  Problem alone = p;
  for (const RoomFacts::Ranked& ranked : s.room.inputs())
    if (const auto it = alone.inputs.find(ranked.field.name); it != alone.inputs.end())
      it->second = slice(it->second, ranked.field.heads == Field::Heads::own ? head : head / group);
  for (auto& [name, array] : alone.cotangents) array = slice(array, head);
  const Answer one = s.run(alone, c.spec.precision, c.tile);
  for (const auto& [name, array] : one.outputs) RC_ASSERT(same_bits(slice(all.outputs.at(name), head), array));
  for (const RoomFacts::Ranked& ranked : s.room.inputs()) {
    const auto it = one.gradients.find(ranked.field.name);
    // The gradient of a shared tensor is a sum over heads; alone it is that head's part.
    if (it == one.gradients.end() || ranked.field.heads == Field::Heads::shared) continue;
    RC_ASSERT(same_bits(slice(all.gradients.at(it->first), head), it->second));
  }
}

void backward_is_the_adjoint(const Subject& s, const LawCase& c) {
  const Problem p = s.problem(c);
  RC_PRE(s.form.has_gradients);
  // Any direction will do: it is drawn, not chosen.
  Arrays direction;
  for (const RoomFacts::Ranked& ranked : s.room.inputs()) {
    const auto it = p.inputs.find(ranked.field.name);
    if (it == p.inputs.end() || !ranked.field.differentiable) continue;
    const Stream stream(c.spec.seed + 1, it->first);
    Array& d = direction[it->first] = it->second;
    for (std::size_t i = 0; i < d.data.size(); ++i) d.data[i] = stream.normal(i);
  }
  const BasicArrays<HiLo> slopes = s.room.slopes(p, direction);
  double pushed = 0, pushed_rounding = 0;
  for (const auto& [name, slope] : slopes) {
    const Array hi = in_doubles(slope.shape, slope.data);
    pushed += dot(hi, p.cotangents.at(name)), pushed_rounding += rounding_of_dot(hi, p.cotangents.at(name));
  }
  const auto compare = [&](const Arrays& gradients, const Arrays* allowed) {
    double pulled = 0, limit = pushed_rounding;
    for (const auto& [name, d] : direction) {
      if (d.data.empty()) continue;  // empty: there is nothing to compare
      const Array& g = gradients.at("d_" + name);
      pulled += dot(g, d), limit += rounding_of_dot(g, d);
      if (allowed != nullptr) limit += weighed(d, allowed->at("d_" + name));
    }
    if (!(std::fabs(pulled - pushed) <= limit))
      RC_FAIL(text("pulled ", pulled, ", pushed ", pushed, ", limit ", limit));
  };
  compare(values_of(oracle_or_discard(s.room, p)), nullptr);
  const Arrays allowed = allowance(s, p, Format::fp64, c.tile);
  compare(flat(s.run(p, Format::exact, c.tile)), &allowed);
}

void linear_in_values(const Subject& s, const LawCase& c) {
  const Problem p = s.problem(c);
  RC_PRE(s.form.has_gradients);
  const Arrays got = flat(s.run(p, c.spec.precision, c.tile));
  const Arrays allowed = allowance(s, p, c.spec.precision, c.tile);
  double in = 0, out = 0, limit = 0;
  for (const RoomFacts::Ranked& ranked : s.room.inputs()) {
    const auto it = p.inputs.find(ranked.field.name);
    if (it == p.inputs.end() || (ranked.field.domain != Domain::value && ranked.field.domain != Domain::state))
      continue;
    if (it->second.data.empty()) continue;  // empty: there is nothing to compare
    in += dot(it->second, got.at("d_" + it->first));
    limit += weighed(it->second, allowed.at("d_" + it->first)) + rounding_of_dot(it->second, got.at("d_" + it->first));
  }
  for (const RoomFacts::Ranked& ranked : s.room.outputs()) {
    const auto it = p.cotangents.find(ranked.field.name);
    if (it == p.cotangents.end() || it->second.data.empty()) continue;
    if (ranked.field.domain == Domain::normalizer || ranked.field.domain == Domain::key) continue;  // of keys alone
    const auto& [name, cotangent] = *it;
    out += dot(cotangent, got.at(name));
    limit += weighed(cotangent, allowed.at(name)) + rounding_of_dot(cotangent, got.at(name));
  }
  RC_PRE(std::isfinite(in) && std::isfinite(out));
  if (!(std::fabs(in - out) <= limit)) RC_FAIL(text("<v, dv> = ", in, ", <o, do> = ", out, ", limit ", limit));
}

void reads_are_linear_in_the_query(const Subject& s, const LawCase& c) {
  // The gradient of a shared query is a sum over the heads that read it.
  RC_PRE(c.spec.shape.own() == c.spec.shape.shared());
  const Problem p = s.problem(c);
  RC_PRE(normalization_of(p) != "features");
  const Arrays got = flat(s.run(p, c.spec.precision, c.tile)), allowed = allowance(s, p, c.spec.precision, c.tile);
  const auto row = [](const Array& a, int at) {
    const std::size_t size = row_size(a);
    const auto begin = a.data.begin() + static_cast<std::ptrdiff_t>(size) * at;
    return Array({static_cast<int>(size)}, {begin, begin + static_cast<std::ptrdiff_t>(size)});
  };
  for (int at = 0; at < c.spec.shape.own() * c.spec.shape.queries(); ++at)
    expect_zero_sum({{1, product(row(p.inputs.at("q"), at), row(got.at("d_q"), at), row(allowed.at("d_q"), at))},
                     {-1, product(row(p.cotangents.at("o"), at), row(got.at("o"), at), row(allowed.at("o"), at))}});
}

namespace {

/// Tokens [begin, end) of a [H][T][...] array.
Array tokens(const Array& a, int begin, int end) {
  Array part = a;
  part.shape[1] = end - begin;
  part.data.clear();
  const std::size_t size = row_size(a);
  for (int h = 0; h < a.shape[0]; ++h) {
    const auto from = a.data.begin() + static_cast<std::ptrdiff_t>(size) * (h * a.shape[1] + begin);
    part.data.insert(part.data.end(), from, from + static_cast<std::ptrdiff_t>(size) * (end - begin));
  }
  return part;
}

/// The last token of a [H][T][K] array as [H][K].
Array last_token(const Array& a) {
  Array last = tokens(a, a.shape[1] - 1, a.shape[1]);
  last.shape.erase(last.shape.begin() + 1);
  return last;
}

Problem segment(const Subject& s, const Problem& p, int begin, int end) {
  Problem part = p;
  for (const RoomFacts::Ranked& ranked : s.room.inputs())
    if (const auto it = part.inputs.find(ranked.field.name); it != part.inputs.end() && has_rows(ranked, it->second))
      it->second = tokens(it->second, begin, end);
  part.cotangents.at("o") = tokens(p.cotangents.at("o"), begin, end);
  return part;
}

/// Outputs that are the next segment's inputs, with the names of both; a tail may be new to it.
std::vector<std::pair<std::string, std::string>> carried_through(const Problem& p, const Answer& answer) {
  const std::string_view last = "final_";
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [name, array] : answer.outputs) {
    if (!name.starts_with(last)) continue;
    const std::string rest = name.substr(last.size()), in = "initial_" + rest;
    if (rest.starts_with("tail_"))
      names.emplace_back(name, rest);
    else if (p.inputs.contains(in))
      names.emplace_back(name, in);
  }
  return names;
}

/// Whether `name` is the gradient of a number of all tokens, which the room may have worked out.
bool is_of_all_tokens(const Room& room, std::string_view name) {
  const auto inputs = room.inputs();
  return std::any_of(inputs.begin(), inputs.end(), [&](const RoomFacts::Ranked& r) {
    return r.field.missing == Field::Missing::worked_out && name == text("d_", r.field.name);
  });
}

}  // namespace

void segments_concatenate(const Subject& s, const LawCase& c) {
  const Problem p = s.problem(c);
  const int T = c.spec.shape.seq_len;
  RC_PRE(T >= 2 && p.inputs.contains("initial_state"));
  RC_PRE(normalization_of(p) != "count");  // a segment counts from its own start
  const int cut = *rc::gen::inRange(1, T);
  const bool shifted = s.room.shifted(p.params);

  Problem first = segment(s, p, 0, cut), second = segment(s, p, cut, T);
  for (const char* name : {"final_tail_k", "final_tail_v"}) first.cotangents.erase(name);  // of another length here
  const Answer start = s.run(first, Format::exact, c.tile);
  const std::vector<std::pair<std::string, std::string>> carried = carried_through(p, start);
  if (shifted || second.inputs.contains("tail_k")) second.params["sequence_start"] = false;
  if (shifted) second.inputs["k_carry"] = last_token(first.inputs.at("k"));
  const auto is_of_tokens = [&](std::string_view name) {
    const auto is = [&](std::string_view prefix, const RoomFacts::Ranked& r) {
      return is_by_token(r) && name == text(prefix, r.field.name);
    };
    const auto inputs = s.room.inputs(), outputs = s.room.outputs();
    return std::any_of(inputs.begin(), inputs.end(), [&](const auto& r) { return is("d_", r); }) ||
           std::any_of(outputs.begin(), outputs.end(), [&](const auto& r) { return is("", r); });
  };

  // Both runs put together. Doubles are passed between them; all runs but the first move it by the last bit.
  const Arrays whole = flat(s.run(p, Format::exact, c.tile));
  const auto in_two_runs = [&](std::uint32_t run) {
    auto passed = [&, moved = std::uint32_t{0}](Array x) mutable {
      for (double& number : x.data)
        if (run > 0) number *= 1 + (philox4x32_10({moved++, run, 0, 0}, {0, 0})[0] % 2 == 0 ? 0x1p-52 : -0x1p-52);
      return x;
    };
    for (const auto& [out, in] : carried) second.inputs[in] = passed(start.outputs.at(out));
    const Answer tail = s.run(second, Format::exact, c.tile);
    for (const auto& [out, in] : carried) first.cotangents[out] = passed(tail.gradients.at(in));
    const Arrays a = flat(s.run(first, Format::exact, c.tile)), b = flat(tail);
    Arrays joined = whole;
    for (auto& [name, array] : joined) {
      if (name.starts_with("final_")) {
        array = b.at(name);
      } else if (is_of_all_tokens(s.room, name)) {
        for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] = a.at(name).data[i] + b.at(name).data[i];
      } else if (!is_of_tokens(name)) {
        array = a.at(name);
      } else {
        const Array &x = a.at(name), &y = b.at(name);
        const std::size_t size = row_size(x);
        array.data.clear();
        for (int h = 0; h < array.shape[0]; ++h) {
          const auto from = [&](const Array& part) {
            return part.data.begin() + static_cast<std::ptrdiff_t>(size) * h * part.shape[1];
          };
          array.data.insert(array.data.end(), from(x), from(x) + static_cast<std::ptrdiff_t>(size) * cut);
          array.data.insert(array.data.end(), from(y), from(y) + static_cast<std::ptrdiff_t>(size) * (T - cut));
        }
      }
    }
    if (shifted) {  // the key carried over was the first segment's last
      const Array& key = b.at("d_k_carry");
      Array& dk = joined.at("d_k");
      const std::size_t K = row_size(dk);
      for (int h = 0; h < dk.shape[0]; ++h)
        for (std::size_t x = 0; x < K; ++x)
          dk.data[static_cast<std::size_t>(h * T + cut - 1) * K + x] += key.data[static_cast<std::size_t>(h) * K + x];
    }
    return joined;
  };
  const Arrays joined = in_two_runs(0);

  // Either side has its own rounding. One run need not have stored the state where the second one starts: the last bit
  // moves it by more than rounding does, whose standard deviation is a third of it or less. Few cases need that.
  constexpr double sides = 3;
  Arrays allowed = allowance(s, p, Format::fp64, c.tile);
  if (first_beyond(joined, whole, allowed, sides).empty()) return;
  constexpr std::uint32_t runs = 8;
  std::vector<Arrays> moved;
  for (std::uint32_t run = 1; run <= runs; ++run) moved.push_back(in_two_runs(run));
  for (auto& [name, array] : allowed)
    for (std::size_t i = 0; i < array.data.size(); ++i) {
      double squares = 0;
      for (const Arrays& m : moved) squares += std::pow(m.at(name).data[i] - joined.at(name).data[i], 2) / runs;
      array.data[i] += equivalent_sigmas(element_sigmas, runs) / 3 * std::sqrt(squares);
    }
  expect_within(joined, whole, allowed, sides);
}

Product product(const Array& known, const Array& judged, const Array& allowed) {
  return {dot(known, judged), weighed(known, allowed) + rounding_of_dot(known, judged)};
}

void expect_zero_sum(const std::vector<std::pair<double, Product>>& terms) {
  double sum = 0, limit = 0;
  for (const auto& [factor, term] : terms) {
    sum += factor * term.value;
    limit += std::fabs(factor) *
             (term.limit + unit_roundoff(Format::fp64) * std::fabs(term.value) * static_cast<double>(terms.size()));
  }
  RC_PRE(std::isfinite(sum));
  if (!(std::fabs(sum) <= limit)) RC_FAIL(text("the terms add up to ", sum, ", limit ", limit));
}

}  // namespace assay::laws
