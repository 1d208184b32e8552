#include "files/sampled_parts.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "files/case_file.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// A case's tensor, if the room has one of that name.
std::optional<RoomFacts::Ranked> field_of(const Room& room, const std::string& name) {
  for (const RoomFacts::Ranked& input : room.inputs())
    if (input.field.place == Field::Place::input && input.field.name == name) return input;
  for (const RoomFacts::Ranked& output : room.outputs())
    if (name == "d_" + std::string(output.field.name)) return output;
  return std::nullopt;
}

bool has_axis(const RoomFacts::Ranked& ranked, Axis axis) { return ranked.rank > 0 && ranked.field.axes[0] == axis; }

/// Whether the case's attention is causal, which it is unless its params say otherwise.
bool is_causal(const Safetensors& problem, const std::string& where) {
  const auto params = problem.metadata.find("params");
  if (params == problem.metadata.end()) return true;
  const Json object = parse_json(params->second, where + ": __metadata__.params");
  return !object.is_object() || !object.contains("causal") || object["causal"] != false;
}

std::shared_ptr<const Room> room_of(const Safetensors& problem) {
  const auto mechanism = problem.metadata.find("mechanism");
  return mechanism == problem.metadata.end() ? nullptr : find_room(mechanism->second);
}

/// The probability of drawing `count` of `total` things and none of `faulty` among them.
double misses(int total, int faulty, int count) {
  double probability = 1;
  for (int i = 0; i < count; ++i) probability *= std::max(0, total - faulty - i) / static_cast<double>(total - i);
  return probability;
}

}  // namespace

void SampledParts::choose(int count, std::uint64_t by_seed) {
  require(count >= 1 && count <= all(), "--sample: expected 1 to ", all(),
          ", the parts of this case (of each sequence, the heads that share a key/value head), got ", count);
  seed = by_seed;
  std::vector<int> parts(static_cast<std::size_t>(all()));
  std::iota(parts.begin(), parts.end(), 0);
  // Indices that are too large, and tails of grids, are the last one's.
  const std::size_t wanted = static_cast<std::size_t>(count), drawn = count == 1 ? 1 : wanted - 1;
  const std::size_t among = count == 1 ? parts.size() : parts.size() - 1;
  for (std::size_t i = 0; i < drawn; ++i)
    std::swap(parts[i], parts[i + static_cast<std::size_t>(RandomBits{seed}.at(i) % (among - i))]);
  if (drawn < wanted) parts[drawn] = all() - 1;
  std::sort(parts.begin(), parts.begin() + count);
  chosen.clear();
  for (std::size_t i = 0; i < wanted; ++i) chosen.push_back({parts[i] / groups, parts[i] % groups});
}

double SampledParts::miss(int faulty) const {
  const int count = static_cast<int>(chosen.size());
  return count == 1 ? misses(all(), faulty, 1) : misses(all() - 1, faulty, count - 1);
}

void SampledParts::choose_rows(int count) {
  require(tokens > 0,
          "--sample-rows: expected attention with as many queries as keys: what a recurrence errs by at a "
          "token it has from all tokens before");
  block_rows = count;
  // Not the words that chose the parts.
  const int block = static_cast<int>(RandomBits{~seed}.at(0) % static_cast<std::uint64_t>(blocks()));
  first_row = block * block_rows, rows = std::min(block_rows, tokens - first_row);
}

bool SampledParts::adds_rows(const RoomFacts::Ranked& ranked) const {
  return rows > 0 && !has_axis(ranked, Axis::query_len);
}
int SampledParts::row_of(const RoomFacts::Ranked& ranked) const {
  return rows > 0 && has_axis(ranked, Axis::query_len) ? first_row : 0;
}

StoredTensor SampledParts::cut(const StoredTensor& whole, const RoomFacts::Ranked& ranked) const {
  const FileLayout layout = FileLayout::of_file(ranked, whole.shape);
  if (!layout.has_heads() || whole.bytes.empty()) return whole;
  const auto size = [](int n) { return static_cast<std::size_t>(n); };
  const std::size_t T = layout.by_token() ? size(whole.shape[1]) : 1, H = size(layout.heads());
  const std::size_t of_group = H / size(groups), row = whole.bytes.size() / (size(layout.batch()) * T * H);
  std::size_t first_token = 0, end_token = T;
  if (rows > 0 && layout.by_token()) {
    first_token = size(row_of(ranked));
    if (has_axis(ranked, Axis::query_len) || causal) end_token = size(first_row + rows);
  }
  StoredTensor some{whole.dtype, whole.shape, {}};
  some.shape[0] = static_cast<int>(chosen.size());
  some.shape[layout.by_token() ? 2 : 1] = static_cast<int>(of_group);
  if (layout.by_token()) some.shape[1] = static_cast<int>(end_token - first_token);
  some.bytes.reserve(chosen.size() * (end_token - first_token) * of_group * row);
  for (const Part& part : chosen)
    for (std::size_t t = first_token; t < end_token; ++t) {
      const auto first =
          whole.bytes.begin() +
          static_cast<std::ptrdiff_t>(((size(part.sequence) * T + t) * H + size(part.group) * of_group) * row);
      some.bytes.insert(some.bytes.end(), first, first + static_cast<std::ptrdiff_t>(of_group * row));
    }
  return some;
}

std::vector<int> SampledParts::whole_shape(const FileLayout& smaller) const {
  std::vector<int> shape = smaller.file_shape();
  if (!smaller.has_heads()) return shape;
  shape[0] = sequences;
  if (rows > 0 && smaller.by_token()) shape[1] = tokens;
  shape[smaller.by_token() ? 2 : 1] *= groups;
  return shape;
}

int SampledParts::whole_block(int block, int heads) const {
  const Part& part = chosen[static_cast<std::size_t>(block / heads)];
  return (part.sequence * groups + part.group) * heads + block % heads;
}

std::string SampledParts::place(const RoomFacts::Ranked& ranked, const std::vector<int>& shape,
                                std::size_t flat) const {
  const FileLayout smaller = FileLayout::of_problem(ranked, shape, static_cast<int>(chosen.size()));
  if (!smaller.has_heads()) return smaller.place_in_file(flat);
  const auto count = [](std::vector<int>::const_iterator first, std::vector<int>::const_iterator last) {
    return std::accumulate(first, last, std::size_t{1},
                           [](std::size_t n, int x) { return n * static_cast<std::size_t>(x); });
  };
  const std::size_t of_head = count(shape.begin() + 1, shape.end());
  std::vector<int> whole = shape;
  whole[0] = sequences * groups * smaller.heads();
  std::size_t before = 0;
  if (rows > 0 && smaller.by_token())
    whole[1] = tokens, before = static_cast<std::size_t>(row_of(ranked)) * count(shape.begin() + 2, shape.end());
  const std::size_t of_whole = count(whole.begin() + 1, whole.end());
  const auto block = static_cast<std::size_t>(whole_block(static_cast<int>(flat / of_head), smaller.heads()));
  return FileLayout::of_problem(ranked, whole, sequences).place_in_file(block * of_whole + before + flat % of_head);
}

SampledParts parts_of(const Safetensors& problem, const std::string& where) {
  const auto room = room_of(problem);
  require(room != nullptr, where, ": --sample: expected a case of a mechanism that `assay list` has, or of a program");
  const auto lies = problem.metadata.find("layout");
  require(lies == problem.metadata.end() || lies->second == "bthd", where, ": --sample: expected layout bthd, got ",
          lies == problem.metadata.end() ? "" : lies->second, "; without --sample all of it is judged");
  SampledParts parts;
  std::string first;
  int heads = 0, queries = 0, keys = 0;
  for (const auto& [name, tensor] : problem.tensors) {
    const std::optional<RoomFacts::Ranked> field = field_of(*room, name);
    std::optional<FileLayout> layout;
    try {
      if (field) layout = FileLayout::of_file(*field, tensor.shape);
    } catch (const InputError& error) {
      throw InputError(text(where, ": tensor ", name, ": ", error.what()));
    }
    if (!layout || !layout->has_heads()) continue;
    if (first.empty()) first = name, parts.sequences = layout->batch();
    require(layout->batch() == parts.sequences, where, ": tensor ", name, ": batch of ", layout->batch(), ", but ",
            first, " has ", parts.sequences);
    heads = std::gcd(heads, layout->heads());
    if (layout->by_token()) (has_axis(*field, Axis::query_len) ? queries : keys) = tensor.shape[1];
  }
  require(parts.sequences > 0 && heads > 0, where, ": --sample: the case has no heads");
  parts.groups = heads;
  if (queries == keys) parts.tokens = queries, parts.causal = is_causal(problem, where);
  return parts;
}

Safetensors cut(const Safetensors& problem, const SampledParts& parts) {
  const auto room = room_of(problem);
  Safetensors smaller;
  smaller.metadata = problem.metadata;
  smaller.metadata.erase("sha256");
  for (const auto& [name, tensor] : problem.tensors) {
    const std::optional<RoomFacts::Ranked> field = field_of(*room, name);
    smaller.tensors[name] = field ? parts.cut(tensor, *field) : tensor;
  }
  return smaller;
}

}  // namespace assay
