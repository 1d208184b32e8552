#include "judge/sigma/cumulated_gates.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "judge/sigma/spread.hpp"
#include "judge/verdict/locate.hpp"
#include "oracles/core/room.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// Row r, column c of head h of an array that a problem or an answer has; one that is shared by groups of heads is read
/// by the group of h.
class ByHead {
 public:
  ByHead(const Array& array, bool head_axis, int heads) : array_(array), layout_(layout_of(array.shape, head_axis)) {
    group_ = std::max(1, heads / std::max(1, layout_.heads));
  }
  int columns() const { return layout_.cols; }
  double operator()(int h, int r, int c) const {
    const auto n = [](int x) { return static_cast<std::size_t>(x); };
    return array_.data[(n(h / group_) * n(layout_.rows) + n(r)) * n(layout_.cols) + n(c)];
  }

 private:
  const Array& array_;
  Layout layout_;
  int group_ = 1;
};

/// The contribution of a token to the sum of a head and channel.
struct Contribution {
  double value = 0;
  bool exact = false;
};

/// A gate's gradient [H][T], [H][T][K] of gates of single channels or [H] of one number for all tokens, what every
/// token's query and key contribute to it, in the layout of a gate of every token, and, of every head and channel, the
/// products of the last state with its cotangent, which the sums begin with.
struct GateSums {
  std::string name;
  std::vector<int> shape;
  Layout layout;
  bool per_channel, per_token;
  std::vector<Contribution> gained, lost, last;
  std::span<const Contribution> last_of(int head, int channel) const {
    const std::size_t products = last.size() / static_cast<std::size_t>(std::max(1, layout.heads * layout.cols));
    return std::span(last).subspan(static_cast<std::size_t>(head * layout.cols + channel) * products, products);
  }
};

/// The roundings of a head and channel, at most.
std::uint64_t most_roundings(const GateSums& gate) {
  const auto rows = static_cast<std::uint64_t>(gate.layout.rows);
  return 2 * gate.last_of(0, 0).size() + rows * (gate.per_channel ? 5 : 3);
}

/// The errors of the sums: rounding_of(head and channel) is what a rounding of that size adds, or its variance.
template <class F>
std::vector<double> errors_of(const GateSums& gate, Format operands, int threads, const F& rounding_of) {
  const Layout& n = gate.layout;
  const double sum_unit = std::min(unit_roundoff(operands), unit_roundoff(Format::fp32)),
               operand_unit = unit_roundoff(operands);
  const auto at = [&](int h, int t, int c) {
    const auto z = [](int x) { return static_cast<std::size_t>(x); };
    return (z(h) * z(n.rows) + z(t)) * z(n.cols) + z(c);
  };
  std::vector<double> errors(gate.per_token ? n.size() : static_cast<std::size_t>(n.heads));
  words::in_parallel(static_cast<std::size_t>(n.heads * n.cols), threads, [&](std::size_t line) {
    const int h = static_cast<int>(line) / n.cols, c = static_cast<int>(line) % n.cols;
    auto rounding = rounding_of(line);
    double begin = 0, sum = 0, largest = 0, of_sums = 0, of_operands = 0;
    bool exact = true;
    for (const Contribution& x : gate.last_of(h, c)) {
      begin += x.value;
      if (x.exact) continue;
      exact = false;
      for (const double size : {x.value, begin}) of_sums += rounding(sum_unit * size * (gate.per_token ? 1 : n.rows));
    }
    for (int t = n.rows - 1; t >= 0; --t)
      sum += gate.gained[at(h, t, c)].value - gate.lost[at(h, t, c)].value,
          largest = std::max({largest, std::fabs(sum), std::fabs(begin + sum)});
    for (int t = n.rows - 1; t >= 0; --t) {
      const std::size_t i = at(h, t, c);
      if (t % usual_chunk == usual_chunk - 1) of_operands = 0;
      for (const Contribution& x : {gate.gained[i], gate.lost[i]}) {
        if (x.exact) continue;
        exact = false;
        of_sums += rounding(sum_unit * x.value * (gate.per_token ? 1 : t + 1));  // so many sums have it
        if (gate.per_channel) of_operands += rounding(operand_unit * x.value);
      }
      if (exact) continue;
      if (gate.per_token)
        errors[i] = of_sums + of_operands + rounding(sum_unit * largest);
      else
        errors[static_cast<std::size_t>(h)] += rounding(sum_unit * largest);
    }
    if (!gate.per_token) errors[static_cast<std::size_t>(h)] += of_sums;
  });
  return errors;
}

const Array* find(const Arrays& arrays, const std::string& name) {
  const auto found = arrays.find(name);
  return found == arrays.end() ? nullptr : &found->second;
}

/// value * slope of every channel, or, where the gate has one for all, summed over them. `size` may be null.
std::vector<Contribution> contributions(const Array& value, const Array& slope, const Array* size, const Layout& n,
                                        bool head_axis, bool per_channel, int threads) {
  const ByHead a(value, head_axis, n.heads), b(slope, head_axis, n.heads);
  const ByHead terms(size != nullptr ? *size : value, head_axis, n.heads);
  const bool known = size != nullptr;
  std::vector<Contribution> list(n.size());
  words::in_parallel(static_cast<std::size_t>(n.heads), threads, [&](std::size_t head) {
    const auto h = static_cast<int>(head);
    Contribution* to = list.data() + list.size() / static_cast<std::size_t>(n.heads) * head;
    for (int t = 0; t < n.rows; ++t)
      for (int c = 0; c < n.cols; ++c) {
        Contribution sum{0, known};
        for (int i = per_channel ? c : 0; i < (per_channel ? c + 1 : a.columns()); ++i)
          sum.value += a(h, t, i) * b(h, t, i), sum.exact = sum.exact && terms(h, t, i) == 0;
        *to++ = sum;
      }
  });
  return list;
}

/// The products of the last state with its cotangent: one row of it of every channel, or, where the gate has one for
/// all, all of it. Empty where no state has a cotangent, or its heads or rows are others. `size` may be null.
std::vector<Contribution> products_of_state(const Array* state, const Array* slope, const Array* size, const Layout& n,
                                            bool head_axis, bool per_channel) {
  std::vector<Contribution> list;
  if (state == nullptr || slope == nullptr) return list;
  const Layout of_state = layout_of(state->shape, head_axis);
  if (of_state.heads != n.heads || (per_channel && of_state.rows != n.cols)) return list;
  list.reserve(of_state.size());
  for (std::size_t i = 0; i < of_state.size(); ++i)
    list.push_back({state->data[i] * slope->data[i], size != nullptr && size->data[i] == 0});
  return list;
}

/// The sums of all gates that have a gradient.
std::vector<GateSums> sums_of_gates(const Problem& problem, const Arrays& answered, const TermSizes& asked_sizes,
                                    int threads) {
  std::vector<GateSums> gates;
  const auto room = find_room(problem.mechanism);
  if (room == nullptr) return gates;
  for (const RoomFacts::Ranked& ranked : room->inputs()) {
    if (ranked.field.domain != Domain::log_decay) continue;
    const std::string name = "d_" + std::string(ranked.field.name);
    const Array* gradient = find(answered, name);
    if (gradient == nullptr) continue;
    const bool head_axis = gradient->shape.size() > static_cast<std::size_t>(ranked.rank);
    const bool per_channel = ranked.rank == 2, per_token = ranked.rank > 0;
    // A gate for all channels sums over them: the reads of a row, and the losses of its value.
    const std::string of_gain = per_channel ? "d_q" : "o", of_loss = per_channel ? "d_k" : "d_v";
    const Array *x = find(per_channel ? problem.inputs : answered, per_channel ? "q" : "o"),
                *dx = find(per_channel ? answered : problem.cotangents, per_channel ? "d_q" : "o"),
                *y = find(problem.inputs, per_channel ? "k" : "v"), *dy = find(answered, of_loss);
    if (x == nullptr || dx == nullptr || y == nullptr || dy == nullptr) continue;
    const Layout layout = per_token
                              ? layout_of(gradient->shape, head_axis)
                              : Layout{layout_of(x->shape, head_axis).heads, layout_of(x->shape, head_axis).rows, 1};
    const Arrays* sizes = asked_sizes(of_gain, of_loss, per_channel);
    const auto size_of = [&](const std::string& tensor) { return sizes == nullptr ? nullptr : find(*sizes, tensor); };
    gates.push_back({name, gradient->shape, layout, per_channel, per_token,
                     contributions(*x, *dx, size_of(of_gain), layout, head_axis, per_channel, threads),
                     contributions(*y, *dy, size_of(of_loss), layout, head_axis, per_channel, threads),
                     products_of_state(find(answered, "final_state"), find(problem.cotangents, "final_state"),
                                       size_of("final_state"), layout, head_axis, per_channel)});
  }
  return gates;
}

/// Errors of the sums of all gates; rounding_from(the number of the first one): what roundings add, one after another.
template <class F>
Arrays errors_of_gates(const std::vector<GateSums>& gates, Format operands, int threads, const F& rounding_from) {
  Arrays errors;
  std::uint64_t first = 0;
  for (const GateSums& gate : gates) {
    const auto of_line = [&](std::size_t line) { return rounding_from(first + line * most_roundings(gate)); };
    errors[gate.name] = Array(gate.shape, errors_of(gate, operands, threads, of_line));
    first += static_cast<std::uint64_t>(gate.layout.heads * gate.layout.cols) * most_roundings(gate);
  }
  return errors;
}

/// q dq - k dk of all later tokens, in the layout of the gradient of a gate, whose channels may be one.
std::vector<double> sums_from_the_end(const Problem& problem, const Arrays& run, const Layout& n, bool head_axis) {
  const Array *q = find(problem.inputs, "q"), *k = find(problem.inputs, "k"), *dq = find(run, "d_q"),
              *dk = find(run, "d_k");
  if (q == nullptr || k == nullptr || dq == nullptr || dk == nullptr) return {};
  const ByHead x(*q, head_axis, n.heads), dx(*dq, head_axis, n.heads), y(*k, head_axis, n.heads),
      dy(*dk, head_axis, n.heads);
  std::vector<double> sums(n.size());
  for (int h = 0; h < n.heads; ++h)
    for (int i = 0; i < x.columns(); ++i) {
      const int c = n.cols == 1 ? 0 : i;
      double sum = 0;
      for (int t = n.rows - 1; t >= 0; --t) {
        sum += x(h, t, i) * dx(h, t, i) - y(h, t, i) * dy(h, t, i);
        sums[(static_cast<std::size_t>(h) * static_cast<std::size_t>(n.rows) + static_cast<std::size_t>(t)) *
                 static_cast<std::size_t>(n.cols) +
             static_cast<std::size_t>(c)] += sum;
      }
    }
  return sums;
}

/// Whether `gradient` is those sums and, of every head and channel, one number more: that of the last state.
bool is_sum(const std::vector<double>& gradient, const std::vector<double>& sums, const Layout& n) {
  const auto row = static_cast<std::size_t>(n.cols), head = row * static_cast<std::size_t>(n.rows);
  double largest = 0;
  for (const double x : sums) largest = std::max(largest, std::fabs(x));
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (i % head >= row && std::fabs((gradient[i] - sums[i]) - (gradient[i - row] - sums[i - row])) > 1e-9 * largest)
      return false;
  return true;
}

/// Uniform within one rounding.
auto drawn(std::uint64_t seed) {
  return [stream = Stream(seed, "cumulated gates")](std::uint64_t first) {
    return [stream, next = first](double size) mutable { return (2 * stream.uniform(next++) - 1) * size; };
  };
}

}  // namespace

GateErrors gate_errors(const Problem& problem, Format operands, const Arrays& answered, const TermSizes& sizes,
                       int samples) {
  const std::vector<GateSums> gates = sums_of_gates(problem, answered, sizes, 1);
  const auto variance = [](std::uint64_t) { return [](double size) { return size * size / 3; }; };
  GateErrors errors;
  errors.variances = errors_of_gates(gates, operands, 1, variance);
  for (int k = 0; k < samples && !errors.variances.empty(); ++k)
    errors.samples.push_back(
        errors_of_gates(gates, operands, 1, drawn(RandomBits{}.at(static_cast<std::uint64_t>(k)))));
  return errors;
}

namespace {

/// A gate's gradient that is a sum of q dq - k dk from the end, in an exact run.
class SumFromTheEnd {
 public:
  /// Null where it is none.
  static std::optional<SumFromTheEnd> find(const Problem& problem, const Arrays& exact, const std::string& name) {
    const Array *gradient = assay::find(exact, name), *q = assay::find(problem.inputs, "q");
    if (gradient == nullptr || q == nullptr) return std::nullopt;
    const bool head_axis = q->shape.size() == 3;
    SumFromTheEnd sum{problem, head_axis, layout_of(gradient->shape, head_axis), {}};
    if (sum.layout_.rows != layout_of(q->shape, head_axis).rows) return std::nullopt;  // one number for all tokens
    sum.known_ = sums_from_the_end(problem, exact, sum.layout_, head_axis);
    if (sum.known_.empty() || !is_sum(gradient->data, sum.known_, sum.layout_)) return std::nullopt;
    return sum;
  }
  /// The errors of another run's sums.
  std::vector<double> errors(const Arrays& run) const {
    std::vector<double> sums = sums_from_the_end(problem_, run, layout_, head_axis_);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] -= known_[i];
    return sums;
  }

 private:
  SumFromTheEnd(const Problem& problem, bool head_axis, Layout layout, std::vector<double> known)
      : problem_(problem), head_axis_(head_axis), layout_(layout), known_(std::move(known)) {}

  const Problem& problem_;
  bool head_axis_;
  Layout layout_;
  std::vector<double> known_;
};

}  // namespace

void add_errors_of_runs(const Problem& problem, const Arrays& exact, const std::vector<Arrays>& drawn,
                        const std::vector<Arrays>& witnesses, GateErrors& errors) {
  const std::size_t used = std::min(drawn.size(), errors.samples.size());
  Arrays none = errors.variances;
  for (auto& [name, array] : none) std::fill(array.data.begin(), array.data.end(), 0.0);
  errors.samples.resize(errors.samples.size() + witnesses.size(), none);
  for (auto& [name, variances] : errors.variances) {
    const std::optional<SumFromTheEnd> sum = SumFromTheEnd::find(problem, exact, name);
    if (!sum) continue;
    for (std::size_t k = 0; k < used; ++k) {
      const std::vector<double> off = sum->errors(drawn[k]);
      Array& sample = errors.samples[k].at(name);
      for (std::size_t i = 0; i < off.size(); ++i) {
        const double error = off[i] / std::sqrt(2.0);
        sample.data[i] += error, variances.data[i] += error * error / static_cast<double>(used);
      }
    }
    for (std::size_t w = 0; w < witnesses.size(); ++w)
      errors.samples[errors.samples.size() - witnesses.size() + w].at(name).data = sum->errors(witnesses[w]);
  }
}

std::optional<Arrays> with_gates_summed(const Problem& problem, const Arrays& exact, const Arrays& run) {
  const auto room = find_room(problem.mechanism);
  if (room == nullptr) return std::nullopt;
  std::optional<Arrays> summed;
  for (const RoomFacts::Ranked& ranked : room->inputs()) {
    const std::string name = "d_" + std::string(ranked.field.name);
    if (ranked.field.domain != Domain::log_decay || find(run, name) == nullptr) continue;
    const std::optional<SumFromTheEnd> sum = SumFromTheEnd::find(problem, exact, name);
    if (!sum) continue;
    if (!summed) summed = run;
    std::vector<double>& gradient = summed->at(name).data = exact.at(name).data;
    const std::vector<double> off = sum->errors(run);
    for (std::size_t i = 0; i < off.size(); ++i) gradient[i] += off[i];
  }
  return summed;
}

void cumulate_gates(const Problem& problem, Format operands, std::uint64_t seed, int threads, Arrays& answered) {
  const auto unknown = [](const std::string&, const std::string&, bool) { return nullptr; };
  const std::vector<GateSums> gates = sums_of_gates(problem, answered, unknown, threads);
  for (const auto& [name, errors] : errors_of_gates(gates, operands, threads, drawn(seed)))
    for (std::size_t i = 0; i < errors.data.size(); ++i) answered[name].data[i] += errors.data[i];
}

}  // namespace assay
