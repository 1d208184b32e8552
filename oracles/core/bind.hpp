#pragma once
// From names and arrays to a room's typed tensors and back: one head at a time, for any room and scalar.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "oracles/multiword/parallel.hpp"
#include "oracles/scalars/perturbed.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

struct Emulated;

/// How many heads a problem has. Output head h reads shared head h / (own / shared) (grouped heads).
struct HeadCount {
  bool axis = false;  ///< arrays have a leading head axis
  int own = 1, shared = 1;

  int shared_of(int head) const { return head / (own / shared); }
  int of(Field::Heads side) const { return side == Field::Heads::own ? own : shared; }
  int block(Field::Heads side, int head) const { return side == Field::Heads::own ? head : shared_of(head); }
};

namespace detail {

/// A scalar in which the numbers of a problem lose nothing that a check could see.
template <class X>
using Exact = std::conditional_t<std::is_same_v<X, std::string>, Mp50, double>;

template <class S, class X>
S number(const X& x) {
  if constexpr (std::is_same_v<X, std::string>)
    return from_decimal<S>(x);
  else
    return S(x);
}

inline std::string shape_text(const std::vector<int>& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

/// "k[2][1]" for element `flat` of an array.
inline std::string element_text(std::string_view name, const std::vector<int>& shape, std::size_t flat) {
  std::string out;
  for (std::size_t r = shape.size(); r-- > 0;) {
    const auto n = static_cast<std::size_t>(shape[r]);
    out.insert(0, text("[", flat % n, "]"));
    flat /= n;
  }
  return std::string(name) + out;
}

/// The token that element `flat` belongs to, or -1 if the tensor has no token axis.
inline int row_of(const Field& field, const std::vector<int>& shape, std::size_t lead, std::size_t flat) {
  if (shape.size() <= lead || (field.axes[0] != Axis::seq_len && field.axes[0] != Axis::query_len)) return -1;
  std::size_t inner = 1;
  for (std::size_t r = lead + 1; r < shape.size(); ++r) inner *= static_cast<std::size_t>(shape[r]);
  return static_cast<int>(flat / inner % static_cast<std::size_t>(shape[lead]));
}

/// Of numbers that belong to no token.
inline constexpr auto no_row = [] { return -1; };

/// Whether all are finite, and at most 0 if they are of a log decay.
inline bool are_finite(const std::vector<double>& numbers, bool log_decay) {
  constexpr double largest = std::numeric_limits<double>::max();
  const double most = log_decay ? 0 : largest;
  return std::ranges::count_if(numbers, [most](double x) { return !(x >= -largest && x <= most); }) == 0;
}

/// `text` as S; Refusal (DOMAIN) of its row, with the place in front, if it is not a number.
template <class S, class X, class Row, class Place>
S number_at(const X& x, Row&& row, Place&& place) {
  try {
    return number<S>(x);
  } catch (const InputError& e) {
    throw Refusal(Status::domain, row(), place() + ": " + e.what());
  }
}

/// Refuses NaN and infinities, unless they may be there, but for -inf in a log decay, which is never positive; and of
/// decimal numbers those far beyond any format, whose digits would take for ever to print. `row`(i) and `place`(i): of
/// number i.
template <class X, class Row, class Place>
void admit(const std::vector<X>& numbers, bool log_decay, bool may_be_infinite, Row&& row, Place&& place) {
  using std::isfinite, std::abs;
  using E = Exact<X>;
  if constexpr (std::is_same_v<X, double>)
    if (are_finite(numbers, log_decay)) return;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto refuse = [&](Status status, const char* why) { throw Refusal(status, row(i), place(i) + why); };
    const E x = number_at<E>(
        numbers[i], [&] { return row(i); }, [&] { return place(i); });
    if (!isfinite(x)) {
      if (!may_be_infinite && !(log_decay && x < 0)) refuse(Status::nonfinite, ": not a finite number");
      continue;
    }
    if constexpr (std::is_same_v<X, std::string>) {
      static const E huge = from_decimal<E>("1e1000"), tiny = from_decimal<E>("1e-1000");
      if (x != 0 && (abs(x) > huge || abs(x) < tiny))
        refuse(Status::domain, ": expected a magnitude between 1e-1000 and 1e1000");
    }
    if (log_decay && x > 0) refuse(Status::domain, ": a log decay must be <= 0");
  }
}

}  // namespace detail

/// A problem checked at the door of room M: names, shapes, heads and values. Binds heads to typed tensors.
template <class M, class X>
class Binding {
 public:
  using Options = typename M::Options;

  /// Keeps a reference to `problem`. Throws Refusal (DOMAIN, NONFINITE) with one sentence.
  explicit Binding(const BasicProblem<X>& problem) : problem_(problem), options_(M::Options::read(problem.params)) {
    const typename M::template Inputs<double> inputs;
    const typename M::template Outputs<double> outputs;
    refuse_unknown(inputs, outputs);
    for_each(inputs, [&](const Field& f, const auto&) { read_param(f); });
    count_heads(inputs);
    admit_inputs(inputs, [&](const auto&... what) { admit_shape(what...); });
    if constexpr (requires { M::extend(options_, extents_); }) extend();
    admit_cotangents(outputs, [&](const auto&... what) { admit_shape(what...); });
    for (const int own_or_shared : {heads_.own, heads_.shared})
      require_domain(own_or_shared > 0, -1, "heads: expected at least one");
    require_domain(heads_.own % heads_.shared == 0, -1, "heads: ", heads_.own, " is not a multiple of ", heads_.shared);
    // Without tokens nothing may have said how long a key is; then there is nothing to compute either.
    require_domain(extents_[Axis::key_dim] != 0, -1, "k: expected K >= 1, got 0");
    for (int& n : extents_.length) n = std::max(n, 0);
    admit_inputs(inputs, [&](const auto&... what) { admit_values(what...); });
    admit_cotangents(outputs, [&](const auto&... what) { admit_values(what...); });
    for (int h = 0; h < heads_.own; ++h) M::check(options_, this->template inputs<detail::Exact<X>>(h));
  }

  const Options& options() const { return options_; }
  const HeadCount& heads() const { return heads_; }
  const Extents& extents() const { return extents_; }

  template <class S>
  typename M::template Inputs<S> inputs(int head) const {
    return completed(given_inputs<S>(head));
  }

  /// Without what the room works out itself.
  template <class S>
  typename M::template Inputs<S> given_inputs(int head) const {
    typename M::template Inputs<S> in;
    for_each(in, [&](const Field& f, auto& tensor) {
      if (f.place != Field::Place::derived) fill(f, find(f), find(f), head, tensor);
    });
    return in;
  }

  template <class In>
  In completed(In in) const {
    if constexpr (requires { M::complete(options_, in); }) M::complete(options_, in);
    return in;
  }

  /// Whether the problem has a value for that input or parameter.
  bool has(const Field& f) const { return find(f) != nullptr; }

  /// Whether the input has one block of numbers per head.
  bool split_by_heads(const Field& f) const {
    const BasicArray<X>* a = find(f);
    return a != nullptr ? has_head_axis(f, *a) : heads_.axis && f.place != Field::Place::param;
  }

  /// How many groups of heads, one after the other, read no array in common; numbers do not count.
  int groups_apart() const {
    int groups = heads_.own;
    const auto read = [&](const Field& f, const BasicArray<X>* a) {
      if (a != nullptr && !a->shape.empty()) groups = std::gcd(groups, has_head_axis(f, *a) ? heads_.of(f.heads) : 1);
    };
    const typename M::template Inputs<double> inputs;
    for_each(inputs, [&](const Field& f, const auto&) { read(f, find(f)); });
    return groups;
  }

  /// The axes of an input as given, where those that broadcast may be missing.
  template <class S, int Rank>
  std::vector<int> shape_of(const Field& f, const Tensor<S, Rank>& tensor) const {
    if constexpr (Rank == 0) return {};  // g++ 12 warns of copying no extents
    const BasicArray<X>* a = find(f);
    const auto end =
        f.broadcasts && a != nullptr
            ? tensor.extent.begin() + static_cast<std::ptrdiff_t>(a->shape.size() - (has_head_axis(f, *a) ? 1 : 0))
            : tensor.extent.end();
    return {tensor.extent.begin(), end};
  }

  /// A missing cotangent is zero.
  template <class S>
  typename M::template Outputs<S> cotangent(int head) const {
    typename M::template Outputs<S> c;
    for_each(c, [&](const Field& f, auto& tensor) {
      const BasicArray<X>* array = find(problem_.cotangents, f);
      fill(f.or_zero(), array, array, head, tensor);
    });
    return c;
  }

  /// Head `head` of `direction`, one array per input (or parameter) by name, shaped like it. Missing ones are zero.
  /// Throws InputError on unknown names and other shapes.
  template <class S>
  typename M::template Inputs<S> tangent(const BasicArrays<X>& direction, int head) const {
    typename M::template Inputs<S> d;
    std::size_t known = 0;
    for_each(d, [&](const Field& f, auto& tensor) {
      const BasicArray<X>* array = find(direction, f);
      if (array != nullptr) {
        const BasicArray<X>* input = find(f);
        require(input != nullptr && input->shape == array->shape, "tangent.", f.name,
                ": expected the shape of the input");
        ++known;
      }
      if (f.place != Field::Place::derived) fill(find(f) == nullptr ? f : f.or_zero(), find(f), array, head, tensor);
    });
    require(known == direction.size(), "tangent: names an input unknown to ", M::name);
    return d;
  }

  template <class Fields, class F>
  static void for_each(Fields& fields, F&& f) {
    std::remove_const_t<Fields>::each(fields, f);
  }

 private:
  static const BasicArray<X>* find(const BasicArrays<X>& arrays, const Field& f) {
    const auto it = arrays.find(f.name);
    return it == arrays.end() ? nullptr : &it->second;
  }
  /// The array of an input or parameter, or null. Parameters are arrays of no axes.
  const BasicArray<X>* find(const Field& f) const {
    if (f.place == Field::Place::derived) return nullptr;
    return find(f.place == Field::Place::input ? problem_.inputs : numbers_, f);
  }

  void read_param(const Field& f) {
    const auto param = problem_.params.find(f.name);
    if (f.place != Field::Place::param || param == problem_.params.end()) return;
    std::string digits;
    if (const long* count = std::get_if<long>(&param->second)) digits = std::to_string(*count);
    if (const auto* text = std::get_if<std::string>(&param->second)) digits = *text;
    require_domain(!digits.empty(), -1, "params.", f.name, ": expected a decimal string");
    if constexpr (std::is_same_v<X, std::string>)
      numbers_[std::string(f.name)] = {{}, {digits}};
    else
      numbers_[std::string(f.name)] = {
          {}, {detail::number_at<X>(digits, detail::no_row, [&] { return "params." + std::string(f.name); })}};
  }

  /// One number may stand for all heads.
  bool has_head_axis(const Field& f, const BasicArray<X>& a) const {
    return heads_.axis && f.place == Field::Place::input && !a.shape.empty();
  }

  template <class Fields>
  void count_heads(Fields& fields) {
    for (const Field::Heads side : {Field::Heads::own, Field::Heads::shared}) {
      int& count = side == Field::Heads::own ? heads_.own : heads_.shared;
      bool found = false;
      for_each(fields, [&](const Field& f, const auto& tensor) {
        const BasicArray<X>* a = find(f);
        if (found || a == nullptr || f.place == Field::Place::param || f.heads != side) return;
        if (tensor.rank == 0 || f.broadcasts || a->shape.size() != static_cast<std::size_t>(tensor.rank) + 1) return;
        count = a->shape[0];
        found = heads_.axis = true;
      });
    }
  }

  void extend() {
    Extents known = extents_;
    for (int& n : known.length) n = std::max(n, 0);
    M::extend(options_, known);
    extents_[Axis::final_tail_len] = known[Axis::final_tail_len];
  }

  template <class In, class F>
  void admit_inputs(In& inputs, F&& admit) {
    for_each(inputs, [&](const Field& f, const auto& tensor) {
      if (f.place == Field::Place::derived) return;
      const BasicArray<X>* array = find(f);
      if (array != nullptr) return admit(f.place == Field::Place::input ? "" : "params.", f, tensor.rank, *array);
      require_domain(f.missing != Field::Missing::error, -1, f.place == Field::Place::input ? "" : "params.", f.name,
                     ": missing");
    });
  }

  template <class Out, class F>
  void admit_cotangents(Out& outputs, F&& admit) {
    for_each(outputs, [&](const Field& f, const auto& tensor) {
      if (const BasicArray<X>* array = find(problem_.cotangents, f)) admit("cotangents.", f, tensor.rank, *array);
    });
  }

  /// Fixes the extents of `f`'s axes, refusing a mismatch. An empty list may stand for any further axes.
  void admit_shape(std::string_view where, const Field& f, int rank, const BasicArray<X>& a) {
    const std::vector<int>& shape = a.shape;
    require_domain(a.data.size() == a.count(), -1, where, f.name, ": ", a.data.size(), " numbers do not fill shape ",
                   detail::shape_text(shape));
    const std::size_t lead = has_head_axis(f, a) ? 1 : 0, want = static_cast<std::size_t>(rank) + lead;
    const bool empty_list = !shape.empty() && shape.back() == 0 && shape.size() < want;
    require_domain(shape.size() == want || empty_list || (f.broadcasts && shape.size() < want), -1, where, f.name,
                   ": expected ", f.broadcasts ? "at most " : "", want, " axes, got shape ", detail::shape_text(shape));
    if (lead == 1)
      require_domain(shape[0] == heads_.of(f.heads), -1, where, f.name, ": expected ", heads_.of(f.heads),
                     " heads, got ", shape[0]);
    for (std::size_t r = lead; r < shape.size(); ++r) {
      const Axis axis = f.axes[r - lead];
      if (extents_[axis] < 0) extents_[axis] = shape[r];
      require_domain(extents_[axis] == shape[r], -1, where, f.name, ": expected ", name_of(axis), " = ", extents_[axis],
                     ", got ", shape[r]);
    }
  }

  /// NaN and infinities are refused, but for -inf in a log decay. A bandwidth's value is its room's affair.
  void admit_values(std::string_view where, const Field& f, int, const BasicArray<X>& a) {
    const std::size_t lead = has_head_axis(f, a) ? 1 : 0;
    detail::admit(
        a.data, f.domain == Domain::log_decay, f.domain == Domain::bandwidth || f.room_judges,
        [&](std::size_t i) { return detail::row_of(f, a.shape, lead, i); },
        [&](std::size_t i) { return detail::element_text(text(where, f.name), a.shape, i); });
  }

  /// `given` is what the problem has under the field's name, or null: it tells which axes broadcast. `a` holds the
  /// numbers.
  template <class S, int Rank>
  void fill(const Field& f, const BasicArray<X>* given, const BasicArray<X>* a, int head,
            Tensor<S, Rank>& tensor) const {
    const bool empty = f.missing == Field::Missing::absent || f.missing == Field::Missing::worked_out;
    if (a == nullptr && empty) return void(tensor.data.clear());
    const std::size_t lead = given != nullptr && has_head_axis(f, *given) ? 1 : 0;
    const std::size_t axes = !f.broadcasts ? Rank : given == nullptr ? 0 : given->shape.size() - lead;
    std::array<int, Rank> extent{};
    for (std::size_t r = 0; r < Rank; ++r) extent[r] = r < axes ? extents_[f.axes[r]] : 1;
    tensor = Tensor<S, Rank>(extent);
    if (a == nullptr) {
      using std::sqrt;
      const int K = std::max(extents_[Axis::key_dim], 1);
      if (f.missing == Field::Missing::rsqrt_key_dim) tensor.data[0] = S(1) / sqrt(S(K));
      return;
    }
    const auto block = static_cast<std::size_t>(has_head_axis(f, *a) ? heads_.block(f.heads, head) : 0);
    const std::size_t at = tensor.data.size() * block;
    std::transform(a->data.begin() + static_cast<std::ptrdiff_t>(at),
                   a->data.begin() + static_cast<std::ptrdiff_t>(at + tensor.data.size()), tensor.data.begin(),
                   [](const X& x) { return detail::number<S>(x); });
  }

  template <class In, class Out>
  void refuse_unknown(In& fields, Out& outputs) const {
    std::set<std::string_view> inputs, params(std::begin(Options::names), std::end(Options::names)), cotangents;
    for_each(fields, [&](const Field& f, const auto&) {
      if (f.place != Field::Place::derived) (f.place == Field::Place::input ? inputs : params).insert(f.name);
    });
    for_each(outputs, [&](const Field& f, const auto&) { cotangents.insert(f.name); });
    const auto refuse = [](std::string_view where, const auto& given, const auto& known) {
      for (const auto& [name, value] : given)
        require_domain(known.contains(name), -1, where, ".", name, ": unknown to ", M::name);
    };
    refuse("params", problem_.params, params);
    refuse("inputs", problem_.inputs, inputs);
    refuse("cotangents", problem_.cotangents, cotangents);
  }

  const BasicProblem<X>& problem_;
  Options options_;
  HeadCount heads_;
  Extents extents_;
  BasicArrays<X> numbers_;
};

/// The parts to compute beside the outputs.
struct AnswerParts {
  bool gradients = false;  ///< of sum <cotangent, output>
  bool caches = false;     ///< the room's per-row caches, rows.*
};

/// Whether reference M derives its gradients; the others say what a mechanism computes, and no more.
template <class M>
inline constexpr bool has_backward = requires(const typename M::Options options,
                                              const typename M::template Inputs<double> in,
                                              const typename M::template Outputs<double> cotangent) {
  M::backward(options, in, cotangent);
};

/// Where a tensor of one head belongs.
struct HeadTensor {
  std::string_view name;
  std::vector<int> shape;  ///< without the head axis
  Field::Heads side = Field::Heads::own;
  bool by_head = true;  ///< false: one for all heads
};

namespace detail {

/// Adds a head's numbers to the array, which the first ones make.
template <class S>
void add_block(BasicArrays<S>& into, const HeadCount& heads, int head, const HeadTensor& tensor,
               const std::vector<S>& numbers) {
  const auto [entry, fresh] = into.try_emplace(std::string(tensor.name));
  BasicArray<S>& array = entry->second;
  const bool split = heads.axis && tensor.by_head;
  if (fresh) {
    if (split) array.shape.push_back(heads.of(tensor.side));
    array.shape.insert(array.shape.end(), tensor.shape.begin(), tensor.shape.end());
    array.data.assign(array.count(), S(0));
  }
  const std::size_t at = numbers.size() * static_cast<std::size_t>(split ? heads.block(tensor.side, head) : 0);
  for (std::size_t i = 0; i < numbers.size(); ++i) array.data[at + i] += numbers[i];
}

template <class T>
std::vector<int> whole_shape(const T& tensor) {
  return std::vector<int>(tensor.extent.begin(), tensor.extent.end());
}

}  // namespace detail

/// Calls add(whether it is a gradient, where it belongs, its numbers) for every output of a head in scalar S and, if
/// asked for, every gradient. Throws Refusal (NONFINITE) if one overflows.
template <class M, class S, class B, class F>
void answer_head(const B& binding, int head, [[maybe_unused]] bool gradients, F&& add) {
  const auto refuse_overflow = [&](std::string_view where, const Field& f, const auto& tensor) {
    using std::isfinite;
    const std::vector<int> shape = detail::whole_shape(tensor);
    for (std::size_t i = 0; i < tensor.data.size(); ++i)
      if (!isfinite(tensor.data[i]))
        throw Refusal(Status::nonfinite, detail::row_of(f, shape, 0, i),
                      text(detail::element_text(text(where, f.name), shape, i),
                           binding.heads().axis ? text(" of head ", head) : "", ": overflows in ", scalar_name<S>()));
  };
  const auto in = binding.template inputs<S>(head);
  const auto out = M::forward(binding.options(), in);
  binding.for_each(out, [&](const Field& f, const auto& tensor) {
    if (f.missing == Field::Missing::absent && tensor.empty()) return;
    refuse_overflow("", f, tensor);
    add(false, HeadTensor{f.name, detail::whole_shape(tensor)}, tensor.data);
  });
  if constexpr (has_backward<M>) {
    if (!gradients) return;
    const auto d = M::backward(binding.options(), in, binding.template cotangent<S>(head));
    binding.for_each(d, [&](const Field& f, const auto& tensor) {
      const bool absent = f.missing == Field::Missing::absent && !binding.has(f);
      if (!f.differentiable || absent) return;
      refuse_overflow("gradients.", f, tensor);
      add(true, HeadTensor{f.name, binding.shape_of(f, tensor), f.heads, binding.split_by_heads(f)}, tensor.data);
    });
  }
}

/// As answer(), heads on up to `threads` threads and added up in their order. What `enter`(head) returns lives while a
/// head is answered; of the head behind the last one, while they are added up.
template <class M, class S, class B, class F>
BasicAnswer<S> answer_by_heads(const B& binding, bool gradients, int threads, F&& enter) {
  struct Found {
    bool is_gradient;
    HeadTensor where;
    std::vector<S> numbers;
  };
  std::vector<std::vector<Found>> of_head(static_cast<std::size_t>(binding.heads().own));
  words::in_parallel(of_head.size(), threads, [&](std::size_t head) {
    [[maybe_unused]] const auto entered = enter(head);
    answer_head<M, S>(binding, static_cast<int>(head), gradients,
                      [&](bool is_gradient, const HeadTensor& where, const std::vector<S>& numbers) {
                        of_head[head].push_back({is_gradient, where, numbers});
                      });
  });
  [[maybe_unused]] PerturbedArithmetic* const draw = PerturbedArithmetic::current();
  [[maybe_unused]] const auto entered = enter(of_head.size());
  BasicAnswer<S> all;
  for (int head = 0; head < binding.heads().own; ++head)
    for (const Found& one : std::exchange(of_head[static_cast<std::size_t>(head)], {})) {
      if constexpr (std::is_same_v<S, Emulated>)
        if (one.is_gradient && one.numbers.size() == 1 && !one.where.by_head)
          draw->add_term("d_" + std::string(one.where.name), one.numbers[0].value,
                         head % (binding.heads().own / binding.groups_apart()) == 0);
      detail::add_block(one.is_gradient ? all.gradients : all.outputs, binding.heads(), head, one.where, one.numbers);
    }
  return all;
}

/// Outputs and, if asked for, gradients of all heads in scalar S; `binding` is a Binding<M, X>. Gradients of shared
/// tensors are summed over the heads that read them, and left out where the reference derives none. Throws Refusal
/// (NONFINITE) if an output or gradient overflows.
template <class M, class S, class B>
BasicAnswer<S> answer(const B& binding, bool gradients) {
  if constexpr (std::is_same_v<S, Emulated>)
    if (const PerturbedArithmetic* const draw = PerturbedArithmetic::current())
      return answer_by_heads<M, S>(binding, gradients, draw->threads(), [&](std::size_t head) {
        return PerturbedArithmetic(*draw, static_cast<std::uint32_t>(head));
      });
  BasicAnswer<S> result;
  for (int head = 0; head < binding.heads().own; ++head)
    answer_head<M, S>(
        binding, head, gradients, [&](bool is_gradient, const HeadTensor& where, const std::vector<S>& numbers) {
          detail::add_block(is_gradient ? result.gradients : result.outputs, binding.heads(), head, where, numbers);
        });
  return result;
}

/// The reference's numbers for every row beside its outputs: its caches, or its diagnostics, where an undefined one is
/// NaN.
template <class M, class S, class B>
BasicArrays<S> answer_rows(const B& binding, [[maybe_unused]] bool of_diagnostics) {
  BasicArrays<S> result;
  for (int head = 0; head < binding.heads().own; ++head) {
    const auto in = binding.template inputs<S>(head);
    [[maybe_unused]] const auto add = [&](const auto& rows) {
      std::remove_cvref_t<decltype(rows)>::each(rows, [&](std::string_view name, const auto& tensor) {
        detail::add_block(result, binding.heads(), head, {name, detail::whole_shape(tensor)}, tensor.data);
      });
    };
    if constexpr (requires { M::caches(binding.options(), in); })
      if (!of_diagnostics) add(M::caches(binding.options(), in));
    if constexpr (requires { diagnostics(binding.options(), in); })
      if (of_diagnostics) add(diagnostics(binding.options(), in));
  }
  return result;
}

}  // namespace assay
