#include "judge/hypotheses/scene.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "judge/sigma/expected.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/core/error.hpp"

namespace assay::hypotheses {
namespace {

bool is_token_axis(Axis axis) { return axis == Axis::seq_len || axis == Axis::query_len; }

/// The heads of the arrays on that side, 0 if there are none.
std::size_t heads_on(const Scene& scene, Field::Heads side) {
  for (const RoomFacts::Ranked& ranked : scene.fields()) {
    const Array* array = scene.input(ranked.field.name);
    if (array == nullptr || ranked.field.heads != side || ranked.rank == 0 || ranked.field.broadcasts) continue;
    if (array->shape.size() == static_cast<std::size_t>(ranked.rank) + 1)
      return static_cast<std::size_t>(array->shape[0]);
  }
  return 0;
}

/// Cuts an array of either side to the heads that are kept, and each to its first rows if rows are tokens.
void cut(const RoomFacts::Ranked& ranked, const Scene& from, const Part& part, Array& array) {
  const Grid grid = grid_of(ranked, array.shape);
  const bool own = ranked.field.heads == Field::Heads::own;
  const std::size_t all = own ? from.own_heads() : from.shared_heads();
  if (!grid.by_head || (!from.in_parts && grid.heads % all != 0)) return;
  std::vector<std::size_t> kept = own ? part.own : part.shared;
  if (!from.in_parts) kept = of_all_sequences(from, ranked.field.heads, grid.heads, kept);
  const std::size_t rows = grid.by_token ? std::min(grid.rows, part.tokens) : grid.rows;
  Array smaller;
  smaller.shape = array.shape;
  smaller.shape[0] = static_cast<int>(kept.size());
  if (grid.by_token) smaller.shape[1] = static_cast<int>(rows);
  smaller.data.reserve(kept.size() * rows * grid.cols);
  for (const std::size_t head : kept) {
    const auto first = array.data.begin() + static_cast<std::ptrdiff_t>(grid.at(head, 0, 0));
    smaller.data.insert(smaller.data.end(), first, first + static_cast<std::ptrdiff_t>(rows * grid.cols));
  }
  array = std::move(smaller);
}

void cut_all(Part& part, const Scene& from) {
  part.scene = from;
  Problem& problem = part.scene.problem;
  for (auto& [name, array] : problem.inputs)
    if (const RoomFacts::Ranked* ranked = from.described(name)) cut(*ranked, from, part, array);
  for (auto* arrays : {&problem.cotangents, &part.scene.seen})
    for (auto& [name, array] : *arrays)
      if (const RoomFacts::Ranked* ranked = from.described(name)) cut(*ranked, from, part, array);
}

}  // namespace

Grid grid_of(const RoomFacts::Ranked& ranked, const std::vector<int>& shape) {
  Grid grid;
  if (ranked.field.place == Field::Place::param || shape.empty()) return grid;
  const auto size = [&](std::size_t r) { return static_cast<std::size_t>(shape[r]); };
  grid.by_head = true, grid.heads = size(0);
  if (shape.size() > 1) grid.rows = size(1), grid.by_token = is_token_axis(ranked.field.axes[0]);
  for (std::size_t r = 2; r < shape.size(); ++r) grid.cols *= size(r);
  return grid;
}

std::vector<std::size_t> of_all_sequences(const Scene& scene, Field::Heads side, std::size_t count,
                                          const std::vector<std::size_t>& heads) {
  const std::size_t all = side == Field::Heads::own ? scene.own_heads() : scene.shared_heads();
  std::vector<std::size_t> list;
  for (std::size_t first = 0; first < count; first += all)
    for (const std::size_t head : heads) list.push_back(first + head);
  return list;
}

const RoomFacts::Ranked* Scene::described(std::string_view tensor) const {
  if (const auto* found = find_field(answered_, tensor)) return found;
  if (const auto* found = find_field(fields_, tensor)) return found;
  return tensor.starts_with("d_") ? find_field(fields_, tensor.substr(2)) : nullptr;
}

const Array* Scene::input(std::string_view name) const {
  const auto found = problem.inputs.find(name);
  return found == problem.inputs.end() ? nullptr : &found->second;
}

std::vector<std::string> Scene::inputs() const {
  std::vector<std::string> names;
  for (const RoomFacts::Ranked& ranked : fields_)
    if (input(ranked.field.name) != nullptr) names.emplace_back(ranked.field.name);
  return names;
}

std::size_t Scene::own_heads() const {
  const std::size_t own = heads_on(*this, Field::Heads::own);
  return own > 0 ? own : std::max<std::size_t>(1, heads_on(*this, Field::Heads::shared));
}

std::size_t Scene::shared_heads() const {
  const std::size_t shared = heads_on(*this, Field::Heads::shared);
  return shared > 0 ? shared : own_heads();
}

std::size_t Scene::tokens() const {
  std::size_t most = 0;
  for (const auto& [name, array] : problem.inputs)
    if (const RoomFacts::Ranked* ranked = described(name)) {
      const Grid grid = grid_of(*ranked, array.shape);
      if (grid.by_token) most = std::max(most, grid.rows);
    }
  return most;
}

bool Scene::aligned() const {
  const std::size_t T = tokens();
  return T > 0 && std::all_of(problem.inputs.begin(), problem.inputs.end(), [&](const auto& input) {
           const RoomFacts::Ranked* ranked = described(input.first);
           if (ranked == nullptr) return true;
           const Grid grid = grid_of(*ranked, input.second.shape);
           return !grid.by_token || grid.rows == T;
         });
}

bool Scene::is_causal() const {
  const auto causal = problem.params.find("causal");
  return causal == problem.params.end() || word_of(causal->second) != "false";
}

double Scene::number(std::string_view name, double otherwise) const {
  const auto found = problem.params.find(name);
  if (found == problem.params.end()) return otherwise;
  if (const auto* digits = std::get_if<std::string>(&found->second)) return from_decimal<double>(*digits);
  if (const auto* count = std::get_if<long>(&found->second)) return static_cast<double>(*count);
  return otherwise;
}

double Scene::scale() const { return number("scale", 1 / number("bandwidth", 1)); }

double Scene::work() const {
  const auto length = [&](Axis axis) {
    for (const RoomFacts::Ranked& ranked : fields_) {
      const Array* array = input(ranked.field.name);
      if (array == nullptr) continue;
      for (std::size_t r = 1; r < array->shape.size() && r <= ranked.field.axes.size(); ++r)
        if (ranked.field.axes[r - 1] == axis) return static_cast<double>(array->shape[r]);
    }
    return 0.0;
  };
  const double K = std::max(1.0, length(Axis::key_dim)), V = std::max(1.0, length(Axis::value_dim));
  const double n = length(Axis::query_len), T = length(Axis::seq_len), heads = static_cast<double>(own_heads());
  const auto has = [&](const auto& holds) { return std::any_of(fields_.begin(), fields_.end(), holds); };
  const bool solves = has([](const auto& r) { return r.field.domain == Domain::ridge && r.field.broadcasts; });
  const bool windows = has([](const auto& r) { return r.rank > 0 && r.field.axes[0] == Axis::tail_len; });
  // Pairs of tokens are dot products, recurrences walk their state several times, and windows are solved for each
  // token.
  const double once =
      heads * (n > 0 ? n * T * (K + V) : 8 * T * K * V) * (solves ? K / (n > 0 ? 1 : 8) : 1) * (windows ? 64 : 1);
  // Programs, which cases with arguments are, are walked node by node.
  return (problem.cotangents.empty() ? 1 : 4) * (in_parts ? 1 : 4) * once;
}

Arrays answer_of(const Room& room, const Problem& problem) {
  const BasicAnswer<HiLo> answer = room.values(problem, Tier::fp64);
  Arrays all;
  const auto add = [&](const std::string& prefix, const BasicArrays<HiLo>& arrays) {
    for (const auto& [name, array] : arrays) all[prefix + name] = Array(array.shape, nearest_doubles(array.data));
  };
  add("", answer.outputs), add("d_", answer.gradients);
  return all;
}

Part whole_of(const Scene& scene) {
  Part part;
  part.scene = scene;
  part.own.resize(scene.own_heads()), part.shared.resize(scene.shared_heads());
  std::iota(part.own.begin(), part.own.end(), std::size_t{0});
  std::iota(part.shared.begin(), part.shared.end(), std::size_t{0});
  part.tokens = scene.tokens();
  return part;
}

Part group_of(const Scene& scene, std::size_t shared_head) {
  Part part;
  part.tokens = scene.tokens(), part.shared = {shared_head};
  for (std::size_t h = 0; h < scene.group(); ++h) part.own.push_back(shared_head * scene.group() + h);
  part.all_heads = scene.shared_heads() == 1;
  cut_all(part, scene);
  part.scene.batch = 1;
  return part;
}

Part outputs_of(Part part) {
  part.scene.problem.cotangents.clear();
  return part;
}

Part prefix_of(Part part, std::size_t tokens) {
  Part shorter = part;
  shorter.tokens = std::min(tokens, part.tokens), shorter.all_tokens = shorter.tokens == part.tokens;
  // Heads of the part, not of the whole problem, are what its arrays have.
  std::iota(shorter.own.begin(), shorter.own.end(), std::size_t{0});
  std::iota(shorter.shared.begin(), shorter.shared.end(), std::size_t{0});
  cut_all(shorter, part.scene);
  shorter.scene.problem.cotangents.clear();
  shorter.own = std::move(part.own), shorter.shared = std::move(part.shared);
  return shorter;
}

Problem tokens_of(const Scene& scene, std::size_t begin, std::size_t end, const std::vector<std::string>& names) {
  Problem p = scene.problem;
  p.cotangents.clear();
  for (auto& [name, array] : p.inputs) {
    const RoomFacts::Ranked* ranked = scene.described(name);
    if (ranked == nullptr || (!names.empty() && std::find(names.begin(), names.end(), name) == names.end())) continue;
    const Grid grid = grid_of(*ranked, array.shape);
    if (!grid.by_token) continue;
    Array fewer;
    fewer.shape = array.shape, fewer.shape[1] = static_cast<int>(end - begin);
    for (std::size_t h = 0; h < grid.heads; ++h)
      fewer.data.insert(fewer.data.end(), array.data.begin() + static_cast<std::ptrdiff_t>(grid.at(h, begin, 0)),
                        array.data.begin() + static_cast<std::ptrdiff_t>(grid.at(h, end, 0)));
    array = std::move(fewer);
  }
  return p;
}

void each_row(const Grid& grid, Values& values,
              const std::function<void(std::size_t, std::size_t, std::span<double>)>& f) {
  for (std::size_t head = 0; head < grid.heads; ++head)
    for (std::size_t row = 0; row < grid.rows; ++row) f(head, row, {values.data() + grid.at(head, row, 0), grid.cols});
}

Grid grid_in(const Scene& scene, std::string_view tensor, const Array& array) {
  const RoomFacts::Ranked* ranked = scene.described(tensor);
  return ranked == nullptr ? Grid{1, 1, array.data.size(), false, false} : grid_of(*ranked, array.shape);
}

void reverse_rows(const Grid& grid, Values& values) {
  const Values from = values;
  each_row(grid, values, [&](std::size_t h, std::size_t t, std::span<double> row) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(grid.at(h, grid.rows - 1 - t, 0)), row.size(), row.begin());
  });
}

void read_transposed(const Grid& grid, Values& values, bool back) {
  const Values from = values;
  for (std::size_t h = 0; h < grid.heads; ++h)
    for (std::size_t r = 0; r < grid.rows; ++r)
      for (std::size_t c = 0; c < grid.cols; ++c) {
        const std::size_t mine = grid.at(h, r, c), theirs = h * grid.rows * grid.cols + c * grid.rows + r;
        (back ? values[theirs] : values[mine]) = from[back ? mine : theirs];
      }
}

void exchange_axes(const Grid& grid, int sequences, Values& values, bool back) {
  const Values from = values;
  const std::size_t all = static_cast<std::size_t>(sequences), H = grid.heads / all, T = grid.rows;
  for (std::size_t b = 0; b < all; ++b)
    for (std::size_t i = 0; i < H * T; ++i) {
      const std::size_t right = grid.at(b * H + i % H, i / H, 0), wrong = grid.at(b * H + i / T, i % T, 0);
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(back ? wrong : right), grid.cols,
                  values.begin() + static_cast<std::ptrdiff_t>(back ? right : wrong));
    }
}

Arrays answer_moved(const Scene& scene, const std::vector<std::string>& inputs, Gradient gradient, const Move& move) {
  Problem p = scene.problem;
  for (const std::string& name : inputs) {
    Array& x = p.inputs.at(name);
    move({scene, name, grid_in(scene, name, x), x.data, false});
  }
  Arrays answer = answer_of(*scene.room, p);
  for (const std::string& name : inputs) {
    const auto d = answer.find("d_" + name);
    if (d == answer.end()) continue;
    if (gradient != Gradient::unknown) answer[d->first + ", raw"] = d->second;
    if (gradient == Gradient::moved)
      move({scene, name, grid_in(scene, name, p.inputs.at(name)), d->second.data, true});
    else
      std::fill(d->second.data.begin(), d->second.data.end(), std::numeric_limits<double>::quiet_NaN());
  }
  return answer;
}

}  // namespace assay::hypotheses
