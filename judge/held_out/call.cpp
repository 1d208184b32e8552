#include "judge/held_out/call.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"

namespace assay::held_out {
namespace {

constexpr int tile_tokens = 16;

bool is_optional_carry(const Field& field) {
  return field.missing == Field::Missing::absent && (field.domain == Domain::key || field.domain == Domain::value);
}

/// The input that takes what a segment hands on as `output`, or "".
std::string taker_of(const Call& call, std::string_view output) {
  if (!output.starts_with("final_")) return "";
  const std::string rest(output.substr(6));
  for (const std::string& name : {"initial_" + rest, rest})
    if (call.has_input(name)) return name;
  return "";
}

/// Whether a segment hands that input on to the next one.
bool hands_on(const Call& call, const std::string& input) {
  const auto outputs = call.room.outputs();
  return std::any_of(outputs.begin(), outputs.end(), [&](const auto& r) { return r.field.name == "final_" + input; });
}

bool takes_option(const Room& room, std::string_view option) {
  return std::find(room.options.begin(), room.options.end(), option) != room.options.end();
}

void add(Array& to, const Array& from) {
  for (std::size_t i = 0; i < to.data.size(); ++i) to.data[i] += from.data[i];
}

}  // namespace

Answer Call::run(const Problem& changed) const {
  const std::string obstacle = form.obstacle(changed);
  require(obstacle.empty(), obstacle);
  return form.run(changed, policy, tile);
}

Answer Call::with(const Edit& edit) const {
  Problem changed = problem;
  edit(changed);
  return run(changed);
}

Answer Call::backward_with(const Edit& edit, const Names& taken) const {
  Answer answer = healthy();
  for (auto& [name, gradient] : with(edit).gradients)
    if (const auto it = answer.gradients.find(name); it != answer.gradients.end())
      if (taken.empty() || std::find(taken.begin(), taken.end(), name) != taken.end()) it->second = std::move(gradient);
  return answer;
}

int Call::tokens() const { return problem.inputs.at("v").shape[1]; }

int Call::group() const {
  int own = 1, shared = 1;
  for (const auto& [field, rank] : room.inputs())
    if (const auto it = problem.inputs.find(field.name); it != problem.inputs.end())
      (field.heads == Field::Heads::shared ? shared : own) = it->second.shape[0];
  return own / shared;
}

bool Call::has_input(std::string_view name) const {
  const auto inputs = room.inputs();
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const auto& r) { return r.field.name == name && r.field.place == Field::Place::input; });
}

bool Call::by_token(std::string_view name) const {
  const auto is_it = [&](const RoomFacts::Ranked& r) {
    return r.field.name == name && r.rank > 0 &&
           (r.field.axes[0] == Axis::seq_len || r.field.axes[0] == Axis::query_len);
  };
  const auto inputs = room.inputs(), outputs = room.outputs();
  const auto it = problem.inputs.find(name);
  const bool broadcast = it != problem.inputs.end() && it->second.shape.size() < 2;
  return !broadcast && (std::ranges::any_of(inputs, is_it) || std::ranges::any_of(outputs, is_it));
}

std::vector<std::string> Call::shared_inputs() const {
  std::vector<std::string> names;
  for (const auto& [field, rank] : room.inputs())
    if (field.place == Field::Place::input && field.heads == Field::Heads::shared) names.emplace_back(field.name);
  return names;
}

Values head_of(Array& array, int head) {
  require(!array.shape.empty() && 0 <= head && head < array.shape[0], "there is no head ", head);
  const std::size_t size = array.data.size() / static_cast<std::size_t>(array.shape[0]);
  return Values(array.data).subspan(size * static_cast<std::size_t>(head), size);
}

int row_count(const Array& array) { return array.shape.size() > 1 ? array.shape[1] : 1; }

Values row_of(Array& array, int head, int row) {
  require(0 <= row && row < row_count(array), "there is no row ", row);
  const Values all = head_of(array, head);
  const std::size_t size = all.size() / static_cast<std::size_t>(row_count(array));
  return all.subspan(size * static_cast<std::size_t>(row), size);
}

void each_row(Array& array, const std::function<void(int, int, Values)>& f) {
  if (array.data.empty()) return;
  for (int h = 0; h < array.shape[0]; ++h)
    for (int t = 0; t < row_count(array); ++t) f(h, t, row_of(array, h, t));
}

void store_in(Array& array, Format format) { round_span(array.data.data(), array.data.size(), format); }

void fill(Array& array, double x) { std::fill(array.data.begin(), array.data.end(), x); }

void multiply(Array& array, double factor) {
  for (double& x : array.data) x *= factor;
}

void rotate_heads(Array& array) {
  require(!array.shape.empty() && array.shape[0] > 0, "there are no heads");
  const auto size = static_cast<std::ptrdiff_t>(array.data.size()) / array.shape[0];
  std::rotate(array.data.begin(), array.data.begin() + size, array.data.end());
}

void shift_rows(Array& array) {
  for (int h = 0; h < array.shape[0]; ++h)
    for (int t = row_count(array); --t > 0;) std::ranges::copy(row_of(array, h, t - 1), row_of(array, h, t).begin());
}

void read_transposed(Array& array) {
  require(array.shape.size() == 3, "heads are no matrices");
  const auto rows = static_cast<std::size_t>(array.shape[1]), cols = static_cast<std::size_t>(array.shape[2]);
  for (int h = 0; h < array.shape[0]; ++h) {
    const Values to = head_of(array, h);
    const std::vector<double> from(to.begin(), to.end());
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) to[i * cols + j] = from[j * rows + i];
  }
}

Array rows_between(const Array& array, int first, int last) {
  require(array.shape.size() > 1 && array.shape[0] > 0 && array.shape[1] > 0 && 0 <= first && first <= last &&
              last <= array.shape[1],
          "there are no rows ", first, " to ", last);
  Array part;
  part.shape = array.shape;
  part.shape[1] = last - first;
  const auto size = static_cast<std::ptrdiff_t>(array.data.size()) / array.shape[0] / array.shape[1];
  for (int h = 0; h < array.shape[0]; ++h) {
    const auto row = array.data.begin() + size * h * array.shape[1];
    part.data.insert(part.data.end(), row + size * first, row + size * last);
  }
  return part;
}

Array rows_joined(const Array& a, const Array& b) {
  Array all;
  all.shape = a.shape;
  all.shape[1] += b.shape[1];
  const auto of_a = static_cast<std::ptrdiff_t>(a.data.size()) / a.shape[0];
  const auto of_b = static_cast<std::ptrdiff_t>(b.data.size()) / b.shape[0];
  for (int h = 0; h < a.shape[0]; ++h) {
    all.data.insert(all.data.end(), a.data.begin() + of_a * h, a.data.begin() + of_a * (h + 1));
    all.data.insert(all.data.end(), b.data.begin() + of_b * h, b.data.begin() + of_b * (h + 1));
  }
  return all;
}

void edit(Arrays& arrays, const Names& names, const std::function<void(Array&)>& f) {
  for (const std::string_view name : names)
    if (const auto it = arrays.find(name); it != arrays.end()) f(it->second);
}

double number(const Problem& problem, std::string_view name) {
  const auto known = problem.params.find(name);
  require(known != problem.params.end(), "there is no ", name);
  const std::string& digits = std::get<std::string>(known->second);
  double x = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), x);
  return x;
}

void set_number(Problem& problem, std::string_view name, double x) {
  std::array<char, 32> digits{};
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), x).ptr;
  problem.params.insert_or_assign(std::string(name), std::string(digits.data(), end));
}

int seam_of(const Call& call) { return call.tokens() > 2 * tile_tokens ? 2 * tile_tokens : call.tokens() / 2; }

bool continues(const Call& call) {
  const auto counts = call.problem.params.find("normalization");
  return counts == call.problem.params.end() || std::get<std::string>(counts->second) != "count";
}

Problem segment(const Call& call, int first, int last) {
  require(0 <= first && first < last && last <= call.tokens(), "there are no tokens ", first, " to ", last);
  Problem part = call.problem;
  for (auto* arrays : {&part.inputs, &part.cotangents})
    for (auto& [name, array] : *arrays)
      if (call.by_token(name)) array = rows_between(array, first, last);
  if (last < call.tokens())
    std::erase_if(part.cotangents, [&](const auto& cotangent) { return !call.by_token(cotangent.first); });
  if (first == 0) return part;
  for (const auto& [field, rank] : call.room.inputs())
    if (field.name.starts_with("initial_") || is_optional_carry(field)) part.inputs.erase(std::string(field.name));
  if (takes_option(call.room, "sequence_start")) part.params["sequence_start"] = false;
  return part;
}

Answer in_two_calls(const Call& call, const Seam& seam) {
  const int at = seam_of(call), tokens = call.tokens();
  Problem first = segment(call, 0, at), second = segment(call, at - seam.repeated, tokens);
  Problem forward = first;
  forward.cotangents.clear();
  for (auto& [name, array] : call.run(forward).outputs)
    if (const std::string taker = taker_of(call, name); !taker.empty() && !array.data.empty())
      second.inputs[taker] = std::move(array);
  if (call.room.shifted(call.problem.params)) {
    Array carry = rows_between(call.problem.inputs.at("k"), at - seam.repeated - 1, at - seam.repeated);
    carry.shape.erase(carry.shape.begin() + 1);
    second.inputs["k_carry"] = std::move(carry);
  }
  seam.carried(call, second);
  for (auto& [name, cotangent] : second.cotangents)
    if (call.by_token(name))
      each_row(cotangent, [&](int, int t, Values row) {
        if (t < seam.repeated) std::ranges::fill(row, 0.0);
      });
  Answer b = call.run(second);
  for (const RoomFacts::Ranked& output : call.room.outputs())
    if (const auto it = b.gradients.find(taker_of(call, output.field.name)); it != b.gradients.end())
      first.cotangents[std::string(output.field.name)] = it->second;
  seam.returned(first.cotangents);
  Answer a = call.run(first), joined = b;
  for (auto& [name, output] : joined.outputs)
    if (call.by_token(name))
      output = rows_joined(a.outputs.at(name), rows_between(output, seam.repeated, output.shape[1]));
  joined.gradients = a.gradients;
  for (auto& [name, gradient] : joined.gradients) {
    const auto later = b.gradients.find(name);
    if (later == b.gradients.end()) continue;
    if (call.by_token(name)) {
      Array again = rows_between(later->second, 0, seam.repeated);
      for (int h = 0; h < again.shape[0] && seam.repeated > 0; ++h)
        for (int t = 0; t < seam.repeated; ++t) {
          const Values to = row_of(gradient, h, at - seam.repeated + t), from = row_of(again, h, t);
          for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
        }
      gradient = rows_joined(gradient, rows_between(later->second, seam.repeated, later->second.shape[1]));
    } else if (!hands_on(call, name) && !name.starts_with("initial_") && name != "k_carry") {
      add(gradient, later->second);  // of all tokens
    }
  }
  if (const auto carry = b.gradients.find("k_carry"); carry != b.gradients.end())
    for (int h = 0; h < carry->second.shape[0]; ++h) {
      const Values to = row_of(joined.gradients.at("k"), h, at - seam.repeated - 1), from = head_of(carry->second, h);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    }
  return joined;
}

}  // namespace assay::held_out
