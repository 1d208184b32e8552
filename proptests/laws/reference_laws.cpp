#include "proptests/laws/reference_laws.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "reference/core/random.hpp"

namespace assay::laws {
namespace {

using Texts = BasicArrays<std::string>;
using TextProblem = BasicProblem<std::string>;

/// The relative error allowed to a pair hi + lo: 2^-106 from its rounding, and something for the arithmetic before.
const Mp100& pair_error() {
  static const Mp100 error = ldexp(Mp100(1), -105);
  return error;
}
/// The error that cancellation leaves of 100 digits, relative to the largest number of a tensor.
const Mp100& floor_error() {
  static const Mp100 error("1e-80");
  return error;
}

/// The numbers of an input or parameter; nothing if the problem has none.
std::optional<Array> given(const Problem& p, const Field& f) {
  if (f.place == Field::Place::input) {
    const auto it = p.inputs.find(f.name);
    if (it != p.inputs.end()) return it->second;
  } else if (f.place == Field::Place::param) {
    const auto it = p.params.find(f.name);
    if (it != p.params.end()) return Array({}, {from_decimal<double>(std::get<std::string>(it->second))});
  }
  return std::nullopt;
}

Mp100 dot(const Array& a, const BasicArray<HiLo>& b, Balance& balance, int sign) {
  Mp100 sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    const Mp100 product = Mp100(a.data[i]) * number(b.data[i]) * sign;
    balance.add(product);
    sum += product;
  }
  return sum;
}

/// Rows [from, to) of the token axis.
BasicArray<std::string> rows(const BasicArray<std::string>& a, int from, int to) {
  const std::size_t H = static_cast<std::size_t>(a.shape[0]), T = static_cast<std::size_t>(a.shape[1]);
  const std::size_t size = H * T == 0 ? 0 : a.data.size() / (H * T);
  BasicArray<std::string> out;
  out.shape = a.shape;
  out.shape[1] = to - from;
  for (std::size_t h = 0; h < H; ++h)
    for (std::size_t i = (h * T + static_cast<std::size_t>(from)) * size;
         i < (h * T + static_cast<std::size_t>(to)) * size; ++i)
      out.data.push_back(a.data[i]);
  return out;
}

BasicArray<std::string> texts_of(const BasicArray<Cell>& a) {
  BasicArray<std::string> out;
  out.shape = a.shape;
  for (const Cell& c : a.data) out.data.push_back(c.text);
  return out;
}

BasicArray<Mp100> numbers_of(const BasicArray<Cell>& a) {
  BasicArray<Mp100> out;
  out.shape = a.shape;
  for (const Cell& c : a.data) out.data.push_back(from_decimal<Mp100>(c.text));
  return out;
}

/// The name of the input by which the next segment takes up an output called final_NAME; "" if there is none.
std::string carried_name(const Room& room, std::string_view output) {
  if (!output.starts_with("final_")) return "";
  const std::string rest(output.substr(6));
  const auto inputs = room.inputs();
  for (const std::string& name : {"initial_" + rest, rest})
    for (const RoomFacts::Ranked& r : inputs)
      if (r.field.name == name) return name;
  return "";
}

}  // namespace

bool is_by_token(const RoomFacts::Ranked& r) {
  return r.rank > 0 && (r.field.axes[0] == Axis::seq_len || r.field.axes[0] == Axis::query_len);
}

BasicProblem<std::string> in_decimals(const Problem& p) {
  // Every double has at most 767 digits; what the laws compare are two answers to the same text.
  const auto texts = [](const Arrays& arrays) {
    Texts result;
    for (const auto& [name, a] : arrays) {
      BasicArray<std::string>& to = result[name];
      to.shape = a.shape;
      for (const double x : a.data) to.data.push_back(to_decimal(x, 20));
    }
    return result;
  };
  return {p.id, p.mechanism, p.params, texts(p.inputs), texts(p.cotangents)};
}

Mp100 number(const HiLo& x) { return Mp100(x.hi) + Mp100(x.lo); }

std::vector<Mp100> numbers(const BasicArray<HiLo>& a) {
  std::vector<Mp100> list;
  for (const HiLo& x : a.data) list.push_back(number(x));
  return list;
}

std::string agrees(std::string_view name, const BasicArray<HiLo>& got, const std::vector<Mp100>& want) {
  if (got.data.size() != want.size())
    return text(name, ": ", got.data.size(), " numbers where ", want.size(), " are expected");
  Mp100 largest = 0;
  for (const Mp100& x : want) largest = std::max(largest, Mp100(abs(x)));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const Mp100 off = abs(number(got.data[i]) - want[i]);
    if (!(off <= 2 * pair_error() * abs(want[i]) + floor_error() * largest))
      return text(name, ", element ", i, ": ", to_decimal(number(got.data[i]), 20), " instead of ",
                  to_decimal(want[i], 20));
  }
  return "";
}

std::string agrees(std::string_view name, const BasicArray<HiLo>& got, const BasicArray<HiLo>& want) {
  return agrees(name, got, numbers(want));
}

std::string Balance::violation(std::string_view what) const {
  // Two factors of a product carry the error of a pair each.
  if (abs(sum_) <= 2 * pair_error() * size_) return "";
  return text(what, ": ", to_decimal(sum_, 5), " is left of terms of size ", to_decimal(size_, 5));
}

std::vector<CaseSpec> reference_cases(const Room& room) {
  const bool groups = groups_heads(room.inputs());
  std::vector<CaseSpec> list;
  for (const Params& params : room.variants()) {
    const auto add = [&](Style style, int T, int heads, int K, int V, std::uint64_t seed) {
      Shape shape{1, T, heads, groups && heads > 1 ? heads / 2 : 0, K, V, 0};
      list.push_back({std::string(room.name), shape, Format::fp32, style, seed, params});
    };
    add(Style::normal, 7, 2, 4, 3, 1);
    add(Style::correlated_keys, 1, 1, 4, 2, 2);
    add(Style::gate_ends, 2, 1, 2, 3, 3);
    add(Style::long_memory, 13, 1, 4, 4, 4);
  }
  for (const RoomFacts::Ranked& input : room.inputs())  // what the room works out may be given
    if (input.field.missing == Field::Missing::worked_out) {
      CaseSpec given = list.front();
      given.with = {{std::string(input.field.name), ""}};
      list.push_back(std::move(given));
    }
  return list;
}

std::string backward_is_the_adjoint(const Room& room, const Problem& problem) {
  const BasicAnswer<HiLo> answer = room.values(problem, Tier::mp100);
  for (const auto& [field, rank] : room.inputs()) {
    if (!field.differentiable || field.place == Field::Place::derived) continue;
    const std::optional<Array> x = given(problem, field);
    if (!x) continue;
    const auto gradient = answer.gradients.find(field.name);
    if (gradient == answer.gradients.end()) return text("gradients.", field.name, ": missing");
    if (gradient->second.shape != x->shape) return text("gradients.", field.name, ": not in the shape of the input");
    const Stream stream(1, text("direction/", field.name));
    Array direction(x->shape);
    for (std::size_t i = 0; i < direction.data.size(); ++i) direction.data[i] = stream.normal(i);
    const BasicArrays<HiLo> slopes = room.slopes(problem, {{std::string(field.name), direction}});
    Balance balance;
    for (const auto& [name, cotangent] : problem.cotangents) dot(cotangent, slopes.at(name), balance, 1);
    dot(direction, gradient->second, balance, -1);
    if (std::string s = balance.violation(text("<do, J d> - <d", field.name, ", d>")); !s.empty()) return s;
  }
  return "";
}

std::string heads_are_independent(const Room& room, const Problem& problem) {
  const auto block = [](const Array& a, int heads, int head) {
    const std::size_t size = a.data.size() / static_cast<std::size_t>(heads);
    const auto from = a.data.begin() + static_cast<std::ptrdiff_t>(size * static_cast<std::size_t>(head));
    Array one(std::vector<int>(a.shape.begin() + 1, a.shape.end()));
    one.data.assign(from, from + static_cast<std::ptrdiff_t>(size));
    return one;
  };
  if (problem.cotangents.empty()) return "";
  const int own = problem.cotangents.begin()->second.shape[0];
  const BasicAnswer<HiLo> all = room.values(problem, Tier::mp100);
  for (int head = 0; head < own; ++head) {
    Problem one = problem;
    for (Arrays* arrays : {&one.inputs, &one.cotangents})
      for (auto& [name, a] : *arrays)
        if (!a.shape.empty()) a = block(a, a.shape[0], head / (own / a.shape[0]));
    const BasicAnswer<HiLo> alone = room.values(one, Tier::mp100);
    const auto compare = [&](const BasicArrays<HiLo>& together, const BasicArrays<HiLo>& single) -> std::string {
      for (const auto& [name, a] : single) {
        const BasicArray<HiLo>& from = together.at(name);
        if (from.shape.empty() || from.shape[0] != own || from.shape.size() != a.shape.size() + 1) continue;
        BasicArray<HiLo> part;
        part.shape = a.shape;
        const std::size_t size = a.data.size(), at = size * static_cast<std::size_t>(head);
        part.data.assign(from.data.begin() + static_cast<std::ptrdiff_t>(at),
                         from.data.begin() + static_cast<std::ptrdiff_t>(at + size));
        if (std::string s = agrees(name, part, a); !s.empty()) return text("head ", head, ": ", s);
      }
      return "";
    };
    if (std::string s = compare(all.outputs, alone.outputs); !s.empty()) return s;
    if (std::string s = compare(all.gradients, alone.gradients); !s.empty()) return s;
  }
  return "";
}

std::string the_future_is_unseen(const Room& room, const Problem& problem) {
  const auto causal = problem.params.find("causal");
  if (causal != problem.params.end() && !std::get<bool>(causal->second)) return "";
  Problem other = problem;
  int T = 0;
  for (const RoomFacts::Ranked& r : room.inputs())
    if (const auto it = other.inputs.find(r.field.name); it != other.inputs.end() && has_rows(r, it->second)) {
      Array& a = it->second;
      T = a.shape[1];
      const std::size_t H = static_cast<std::size_t>(a.shape[0]),
                        size = a.data.size() / (H * static_cast<std::size_t>(T));
      for (std::size_t h = 0; h < H; ++h)
        for (std::size_t x = 0; x < size; ++x) {
          double& last = a.data[(h * static_cast<std::size_t>(T) + static_cast<std::size_t>(T) - 1) * size + x];
          // A zero moves to where its domain is.
          const double moved = r.field.domain == Domain::decay_fraction ? 0x1p-4 : -0x1p-3;
          last = std::isfinite(last) ? last / 2 + (last == 0 ? moved : 0) : -1;
        }
    }
  const BasicArrays<HiLo> before = room.values(problem, Tier::mp100).outputs,
                          after = room.values(other, Tier::mp100).outputs;
  for (const RoomFacts::Ranked& r : room.outputs()) {
    const auto it = before.find(r.field.name);
    if (it == before.end() || !is_by_token(r)) continue;
    const BasicArray<HiLo>&a = it->second, &b = after.at(it->first);
    const std::size_t H = static_cast<std::size_t>(a.shape[0]),
                      size = a.data.size() / (H * static_cast<std::size_t>(T));
    for (std::size_t i = 0; i < a.data.size(); ++i)
      if (const std::size_t t = i / size % static_cast<std::size_t>(T); t + 1 < static_cast<std::size_t>(T))
        if (a.data[i].hi != b.data[i].hi || a.data[i].lo != b.data[i].lo)
          return text(it->first, " of token ", t, " depends on token ", T - 1);
  }
  return "";
}

std::string segments_concatenate(const Room& room, const Problem& problem) {
  const TextProblem whole = in_decimals(problem);
  const int T = whole.inputs.at("k").shape[1], cut = T / 2;
  const auto normalization = problem.params.find("normalization");
  const bool counts = normalization != problem.params.end() && std::get<std::string>(normalization->second) == "count";
  if (cut == 0 || counts) return "";  // a segment counts from its own start
  TextProblem first = whole, second = whole;
  for (const RoomFacts::Ranked& r : room.inputs())
    if (const auto it = whole.inputs.find(r.field.name); it != whole.inputs.end() && has_rows(r, it->second)) {
      first.inputs[it->first] = rows(it->second, 0, cut);
      second.inputs[it->first] = rows(it->second, cut, T);
    }
  for (const RoomFacts::Ranked& r : room.outputs())
    if (const auto it = whole.cotangents.find(r.field.name); it != whole.cotangents.end()) {
      if (is_by_token(r))
        first.cotangents[it->first] = rows(it->second, 0, cut), second.cotangents[it->first] = rows(it->second, cut, T);
      else
        first.cotangents.erase(it->first);
    }
  const bool shifted = room.shifted(whole.params);
  if (shifted) {
    second.params["sequence_start"] = false;
    BasicArray<std::string> last = rows(whole.inputs.at("k"), cut - 1, cut);
    last.shape.erase(last.shape.begin() + 1);
    second.inputs["k_carry"] = last;
  }
  const DecimalOptions digits{.digits = 110, .tier = Tier::mp100, .diagnostics = false};
  const Decimals before = room.decimals(first, digits);
  for (const auto& [name, value] : before.outputs)
    if (const std::string to = carried_name(room, name); !to.empty()) second.inputs[to] = texts_of(value);
  const Decimals after = room.decimals(second, digits);
  for (const auto& [name, value] : before.outputs)
    if (const std::string to = carried_name(room, name); !to.empty())
      first.cotangents[name] = texts_of(after.gradients.at(to));
  const Decimals start = room.decimals(first, digits), one = room.decimals(whole, digits);

  const auto compare = [&](std::string_view name, const BasicArray<Mp100>& got, const BasicArray<Mp100>& want) {
    Mp100 largest = 0;
    for (const Mp100& x : want.data) largest = std::max(largest, Mp100(abs(x)));
    for (std::size_t i = 0; i < want.data.size(); ++i)
      if (!(abs(got.data[i] - want.data[i]) <= floor_error() * largest))
        return text(name, ", element ", i, ": ", to_decimal(got.data[i], 20), " in two segments, ",
                    to_decimal(want.data[i], 20), " in one");
    return std::string();
  };
  const auto joined = [](const BasicArray<Mp100>& a, const BasicArray<Mp100>& b) {
    BasicArray<Mp100> out;
    out.shape = a.shape;
    out.shape[1] += b.shape[1];
    const auto H = static_cast<std::size_t>(a.shape[0]);
    for (std::size_t h = 0; h < H; ++h)
      for (const auto* part : {&a, &b}) {
        const auto size = static_cast<std::ptrdiff_t>(part->data.size() / H),
                   at = size * static_cast<std::ptrdiff_t>(h);
        out.data.insert(out.data.end(), part->data.begin() + at, part->data.begin() + at + size);
      }
    return out;
  };
  for (const RoomFacts::Ranked& r : room.outputs()) {
    const auto it = one.outputs.find(r.field.name);
    if (it == one.outputs.end()) continue;
    const BasicArray<Mp100> last = numbers_of(after.outputs.at(it->first));
    std::string s = compare(it->first, is_by_token(r) ? joined(numbers_of(start.outputs.at(it->first)), last) : last,
                            numbers_of(it->second));
    if (!s.empty()) return s;
  }
  for (const RoomFacts::Ranked& r : room.inputs()) {
    const auto it = one.gradients.find(r.field.name);
    if (it == one.gradients.end()) continue;
    BasicArray<Mp100> got = numbers_of(start.gradients.at(it->first));
    if (is_by_token(r)) {
      got = joined(got, numbers_of(after.gradients.at(it->first)));
      if (shifted && it->first == "k") {  // the key carried over was the first segment's last
        const BasicArray<Mp100> carry = numbers_of(after.gradients.at("k_carry"));
        const auto H = static_cast<std::size_t>(got.shape[0]), K = carry.data.size() / H;
        for (std::size_t h = 0; h < H; ++h)
          for (std::size_t x = 0; x < K; ++x)
            got.data[(h * static_cast<std::size_t>(T) + static_cast<std::size_t>(cut - 1)) * K + x] +=
                carry.data[h * K + x];
      }
    } else {
      // An input of the whole sequence is met in both segments; one that is carried in, in the first alone.
      const auto outputs = room.outputs();
      const bool carried_in = r.field.name == "k_carry" || std::ranges::any_of(outputs, [&](const auto& output) {
                                return carried_name(room, output.field.name) == r.field.name;
                              });
      if (!carried_in) {
        const BasicArray<Mp100> more = numbers_of(after.gradients.at(it->first));
        for (std::size_t i = 0; i < got.data.size(); ++i) got.data[i] += more.data[i];
      }
    }
    if (std::string s = compare(text("gradients.", it->first), got, numbers_of(it->second)); !s.empty()) return s;
  }
  return "";
}

namespace {

/// Where lla has a limit of no ridge: the problem without one in every second coordinate. Its limit has no gradients.
std::optional<Problem> in_the_limit(const Problem& problem) {
  const auto word = [&](const char* name) {
    const auto it = problem.params.find(name);
    return it == problem.params.end() ? std::string() : std::get<std::string>(it->second);
  };
  if (problem.mechanism != "lla" || word("solver") == "cg" || word("block_form") == "sigma") return std::nullopt;
  Problem p = problem;
  p.cotangents.clear();
  p.params["lambda0"] = "limit";
  Array& lambda = p.inputs["lambda"] = Array(p.inputs.at("q").shape);
  for (std::size_t i = 0; i < lambda.data.size(); ++i) lambda.data[i] = i % 2 == 0 ? 0 : 1;
  return p;
}

/// The first number in which they differ by more than their digits, of size one where they cancel, or "".
std::string first_difference(const BasicArrays<HiLo>& got, const BasicArrays<HiLo>& want) {
  for (const auto& [name, array] : want) {
    const auto it = got.find(name);
    if (it == got.end()) continue;
    if (it->second.shape != array.shape) return text(name, ": of another shape");
    Mp100 largest = 1;
    for (const HiLo& x : array.data)
      if (std::isfinite(x.hi)) largest = std::max(largest, Mp100(abs(number(x))));
    for (std::size_t i = 0; i < array.data.size(); ++i) {
      const HiLo &a = it->second.data[i], &b = array.data[i];
      if (!std::isfinite(a.hi) && !std::isfinite(b.hi)) continue;  // a row without keys, or a number that is not there
      const Mp100 off = abs(number(a) - number(b));
      if (!(off <= 2 * pair_error() * abs(number(b)) + floor_error() * largest))
        return text(name, ", element ", i, ": ", to_decimal(a.hi, 17), " instead of ", to_decimal(b.hi, 17));
    }
  }
  return "";
}

}  // namespace

std::string is_its_reference(const Room& room, const Problem& problem) {
  std::vector<Problem> problems{problem};
  if (std::optional<Problem> limit = in_the_limit(problem)) problems.push_back(std::move(*limit));
  for (const Problem& p : problems) {
    const BasicAnswer<HiLo> got = room.values(p, Tier::mp100), want = witness_of(room.name).values(p, Tier::mp100);
    if (std::string s = first_difference(got.outputs, want.outputs); !s.empty()) return s;
    if (want.gradients.empty() && !p.cotangents.empty()) {
      // Most references go forward alone: dual numbers then say what gradients are.
      if (std::string s = backward_is_the_adjoint(WithSlopesOfReference(room), p); !s.empty()) return s;
    } else if (std::string s = first_difference(got.gradients, want.gradients); !s.empty()) {
      return "gradients." + s;
    }
  }
  return "";
}

std::string first_violation(const Room& room, ReferenceLaw law) {
  for (const CaseSpec& spec : reference_cases(room))
    if (std::string s = law(room, room.make(spec)); !s.empty()) return spec.repro() + ": " + s;
  return "";
}

}  // namespace assay::laws
