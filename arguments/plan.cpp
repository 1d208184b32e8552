#include "arguments/plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "arguments/decimal_sum.hpp"
#include "oracles/core/bind.hpp"
#include "reference/core/parse_number.hpp"

namespace assay::arguments {
namespace {

/// The row that number `flat` belongs to, -1 without an axis of rows.
int row_of(const Plan& plan, const std::string& name, const Numbers& array, std::size_t flat) {
  const auto axis = plan.tokens.find(name);
  if (axis == plan.tokens.end()) return -1;
  const auto a = static_cast<std::size_t>(axis->second);
  return static_cast<int>(flat / strides_of(array.shape)[a] % static_cast<std::size_t>(array.shape[a]));
}

template <class X>
std::string_view broken(const Range* range, const X& x) {
  if (range == nullptr) return "";
  switch (*range) {
    case Range::positive:
      return x > 0 ? "" : "expected a number above 0";
    case Range::not_negative:
      return x < 0 ? "expected a number of at least 0" : "";
    case Range::not_positive:
      return x > 0 ? "expected a number of at most 0" : "";
    default:
      return x > 0 ? "a log decay must be <= 0" : "";
  }
}

/// Whether a double is enough to see that it is finite and in its range, which most numbers are.
bool is_plainly_in(const Range* range, const std::string& digits) {
  const auto x = parse_number<double>(digits);
  return x && std::isfinite(*x) && broken(range, *x).empty();
}

/// Scales are above 0 wherever they are given, read or not: nothing is scaled by anything else, in padding neither.
/// There they may be NaN, which is no number.
bool breaks_unread(const Range* range, const Mp50& x) {
  return range != nullptr && *range == Range::positive && x <= 0;
}

void admit(const Plan& plan, const std::string& label, const std::string& name, const Numbers& array,
           const std::vector<bool>& read, const Range* range) {
  using std::isfinite;
  for (std::size_t i = 0; i < array.data.size(); ++i) {
    const bool is_setting = array.shape.empty();  // a number of the whole case counts, whatever rows there are
    const bool counts = read[i] || is_setting, positive = range != nullptr && *range == Range::positive;
    if ((!counts && !positive) || is_plainly_in(range, array.data[i])) continue;
    const auto place = [&] { return assay::detail::element_text(label, array.shape, i); };
    const auto x = assay::detail::number_at<Mp50>(array.data[i], assay::detail::no_row, place);
    if (!counts && !breaks_unread(range, x)) continue;
    const bool closed = range != nullptr && *range == Range::log_decay && x < 0;  // a gate that lets nothing through
    if (!isfinite(x) && !closed)
      throw Refusal(Status::nonfinite, row_of(plan, name, array, i), place() + ": not a finite number");
    const std::string_view why = broken(range, x);
    require_domain(why.empty(), row_of(plan, name, array, i), place(), ": ", why);
  }
}

bool is_unread(const Picked& one, std::size_t i) { return !one.unread.empty() && one.unread[i]; }

/// Numbers of an input that are some piece's; `read`: those alone that it reads.
std::vector<bool> marked(const Plan& plan, const std::string& input, bool read) {
  std::vector<bool> marks(plan.inputs.at(input).data.size(), false);
  for (const Piece& piece : plan.pieces)
    for (const auto& [name, one] : piece.inputs)
      for (std::size_t i = 0; one.from == input && i < one.at.size(); ++i)
        if (!read || !is_unread(one, i)) marks[one.at[i]] = true;
  return marks;
}

}  // namespace

Picked picked(std::string from, const std::vector<PickedAxis>& axes) {
  Picked result{std::move(from), {}, {0}};
  for (const PickedAxis& axis : axes) {
    result.shape.push_back(static_cast<int>(axis.elements.size()));
    std::vector<std::size_t> next;
    for (const std::size_t base : result.at)
      for (const int e : axis.elements) next.push_back(base + axis.stride * static_cast<std::size_t>(e));
    result.at = std::move(next);
  }
  return result;
}

std::vector<std::size_t> strides_of(const std::vector<int>& shape) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t a = shape.size(); a-- > 1;) strides[a - 1] = strides[a] * static_cast<std::size_t>(shape[a]);
  return strides;
}

std::vector<PickedAxis> whole_axes(const std::vector<int>& shape) {
  const std::vector<std::size_t> strides = strides_of(shape);
  std::vector<PickedAxis> axes(shape.size());
  for (std::size_t a = 0; a < axes.size(); ++a) axes[a] = {strides[a], first(shape[a])};
  return axes;
}

std::vector<PickedAxis> whole_axes(const std::vector<int>& shape, const std::vector<std::size_t>& order) {
  const std::vector<PickedAxis> all = whole_axes(shape);
  std::vector<PickedAxis> axes(order.size());
  std::transform(order.begin(), order.end(), axes.begin(), [&](std::size_t a) { return all[a]; });
  return axes;
}

std::vector<int> first(int n) {
  std::vector<int> all(static_cast<std::size_t>(std::max(n, 0)));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Placed placed(Picked whole) {
  Placed result{std::move(whole.from), std::move(whole.shape), {}};
  for (std::size_t i = 0; i < whole.at.size(); ++i) result.pairs.emplace_back(i, whole.at[i]);
  return result;
}

std::vector<bool> read_numbers(const Plan& plan, const std::string& input) { return marked(plan, input, true); }
std::vector<bool> numbers_of_pieces(const Plan& plan, const std::string& input) { return marked(plan, input, false); }

std::vector<bool> answered_numbers(const Plan& plan, const std::string& output) {
  std::vector<bool> marks(Array(plan.outputs.at(output)).data.size(), false);
  for (const Piece& piece : plan.pieces)
    for (const auto& [own, one] : piece.outputs)
      if (one.to == output)
        for (const auto& [from, to] : one.pairs) marks[to] = true;
  return marks;
}

void admit_numbers(const Plan& plan) {
  for (const auto& [name, array] : plan.inputs) {
    const auto range = plan.ranges.find(name);
    admit(plan, name, name, array, read_numbers(plan, name), range == plan.ranges.end() ? nullptr : &range->second);
  }
  for (const auto& [name, array] : plan.cotangents) {
    const auto output = plan.outputs.find(name);
    require_domain(output != plan.outputs.end(), -1, "cotangents.", name, ": there is no output ", name);
    // An empty list says nothing of further axes.
    const bool empty = array.data.empty() && output->second.size() > array.shape.size() &&
                       std::equal(array.shape.begin(), array.shape.end(), output->second.begin());
    require_domain(empty || array.shape == output->second, -1, "cotangents.", name, ": expected shape ",
                   assay::detail::shape_text(output->second), ", got ", assay::detail::shape_text(array.shape));
    admit(plan, "cotangents." + name, name, array, answered_numbers(plan, name), nullptr);
  }
}

std::deque<BasicProblem<std::string>> problems_of(const Plan& plan) {
  std::deque<BasicProblem<std::string>> problems;
  for (const Piece& piece : plan.pieces) {
    BasicProblem<std::string>& problem = problems.emplace_back();
    problem.params = plan.params;
    for (const auto& [name, picked] : piece.inputs) {
      Numbers& array = problem.inputs[name];
      array.shape = picked.shape;
      const std::vector<std::string>& all = plan.inputs.at(picked.from).data;
      for (std::size_t i = 0; i < picked.at.size(); ++i)
        array.data.push_back(is_unread(picked, i) ? std::string("0") : all[picked.at[i]]);
    }
    for (const auto& [name, one] : piece.outputs) {
      const auto cotangent = plan.cotangents.find(one.to);
      if (cotangent == plan.cotangents.end()) continue;
      const auto [entry, fresh] = problem.cotangents.try_emplace(name);
      Numbers& array = entry->second;
      if (fresh) array.shape = one.shape, array.data.assign(array.count(), "0");
      for (const auto& [from, to] : one.pairs)
        array.data[from] = decimal_sum(array.data[from], cotangent->second.data[to]);
    }
  }
  return problems;
}

}  // namespace assay::arguments
