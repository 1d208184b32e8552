#include "arguments/file_case.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "arguments/programs/families.hpp"
#include "files/input_file.hpp"
#include "files/layout.hpp"
#include "oracles/core/memo.hpp"
#include "reference/core/problem_digest.hpp"

namespace assay::arguments {
namespace {

/// A double with all its digits.
std::string decimal_of(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  if (x == std::trunc(x) && std::fabs(x) < 1e15) return std::to_string(static_cast<long long>(x));
  constexpr int most_digits = 767;  // of any double
  const int exact = std::min(most_digits, 60 + std::abs(std::ilogb(x)));
  std::array<char, 800> digits;
  const char* const end = std::to_chars(digits.begin(), digits.end(), x, std::chars_format::scientific, exact - 1).ptr;
  const std::string_view all(digits.begin(), end);
  const std::size_t power = all.find('e'), last = all.find_last_not_of('0', power - 1);
  return std::string(all.substr(0, all[last] == '.' ? last : last + 1)) + std::string(all.substr(power));
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_state(std::string_view name) {
  return name.starts_with("initial_") || name.starts_with("final_") ||
         is_one_of(name, {"k_carry", "chunk_states", "checkpoints", "states_at"});
}

/// A tensor that lies in the file as JSON has it.
FileTensor as_it_is(std::vector<int> shape) {
  FileTensor tensor{shape, std::move(shape), {}};
  const std::size_t n = Array(tensor.shape).data.size();
  for (std::size_t i = 0; i < n; ++i) tensor.at.push_back(i);
  return tensor;
}

/// The axes of a file's tensor in the order of JSON.
FileTensor with_axes(std::vector<int> file_shape, const std::vector<std::size_t>& order) {
  Picked all = picked("", whole_axes(file_shape, order));
  return {std::move(file_shape), std::move(all.shape), std::move(all.at)};
}

/// Pages as JSON has them, [H][pages][S][...].
FileTensor pages_in_file(const std::vector<int>& file_shape, RowLayout layout) {
  std::vector<std::size_t> order = {2, 0, 1};
  if (layout == RowLayout::bhtd) order = {1, 0, 2};
  for (std::size_t a = order.size(); a < file_shape.size(); ++a) order.push_back(a);
  return with_axes(file_shape, order);
}

bool is_scale(std::string_view input) { return is_one_of(input, {"q_scale", "k_scale", "v_scale"}); }

}  // namespace

std::string_view without_suffix(std::string_view room) {
  return room.ends_with(room_suffix) ? room.substr(0, room.size() - room_suffix.size()) : std::string_view();
}

RowLayout row_layout_from(std::string_view name) {
  if (name == "bthd") return RowLayout::bthd;
  if (name == "bhtd") return RowLayout::bhtd;
  require_domain(name == "thd", -1, "layout: there is no ", excerpt(name), "; there are bthd, bhtd, thd");
  return RowLayout::thd;
}

bool has_rows(const Facts& facts, std::string_view input, bool is_paged, RowLayout layout, int rank) {
  if (facts.family == Family::attention) {
    if (is_one_of(input, {"k", "v"})) return !is_paged;
    // [B, T, H] or more is one for every row; with fewer axes it is one for a head, or for all.
    if (input == "lambda") return rank >= (layout == RowLayout::thd ? 2 : 3);
    return is_one_of(input, {"q", "o", "lse"}) || (input == "rho" && facts.name != "softmax_attention") ||
           (facts.name == "parallax_gate" && is_one_of(input, {"x", "gate"}));
  }
  if (facts.family == Family::norm || facts.family == Family::convolution) return is_one_of(input, {"x", "z", "o"});
  if (is_one_of(input, {"a", "b", "dt", "z", "o"})) return true;
  const language::Input* one = facts.program == nullptr ? nullptr : facts.program->input(input);
  return one != nullptr && !one->type.axes.empty() && one->type.axes[0].name == "T";
}

FileTensor rows_in_file(const std::vector<int>& file_shape, RowLayout layout, bool has_heads) {
  const std::size_t leading = (layout == RowLayout::thd ? 1U : 2U) + (has_heads ? 1U : 0U);
  const char* expected = layout == RowLayout::thd    ? has_heads ? "[T, H, ...]" : "[T, ...]"
                         : !has_heads                ? "[B, T, ...]"
                         : layout == RowLayout::bthd ? "[B, T, H, ...]"
                                                     : "[B, H, T, ...]";
  require_domain(file_shape.size() >= leading, -1, "expected ", expected, ", got shape ",
                 assay::shape_text(file_shape));
  std::vector<std::size_t> order;
  if (has_heads) order.push_back(layout == RowLayout::thd || layout == RowLayout::bhtd ? 1 : 2);
  if (layout == RowLayout::thd)
    order.push_back(0);
  else
    order.insert(order.end(), {0U, has_heads && layout == RowLayout::bhtd ? 2U : 1U});
  for (std::size_t a = leading; a < file_shape.size(); ++a) order.push_back(a);
  FileTensor tensor = with_axes(file_shape, order);
  if (layout == RowLayout::thd) return tensor;
  // The rows of all sequences are one axis.
  const std::size_t b = has_heads ? 1 : 0;
  tensor.shape[b + 1] *= tensor.shape[b];
  tensor.shape.erase(tensor.shape.begin() + static_cast<std::ptrdiff_t>(b));
  return tensor;
}

FileTensor FileCase::lie(const std::string& name, const std::vector<int>& shape, bool output) {
  const auto rank = static_cast<int>(shape.size());
  if (output ? has_rows(facts_, name, false, layout_, rank) : has_rows(facts_, name, is_paged_, layout_, rank)) {
    FileTensor tensor;
    try {
      tensor = rows_in_file(shape, layout_, has_heads_);
    } catch (const Refusal& refusal) {
      throw Refusal(Status::domain, -1, text(name, ": ", refusal.what()));
    }
    const int batch = layout_ == RowLayout::thd ? 1 : shape[0];
    if (batch_of_.empty()) batch_ = batch, batch_of_ = name;
    require_domain(batch == batch_, -1, name, ": batch of ", batch, ", but ", batch_of_, " has ", batch_);
    return tensor;
  }
  if (is_paged_ && is_one_of(name, {"k", "v"})) {
    require_domain(rank == 4, -1, name, ": expected pages, ",
                   layout_ == RowLayout::bhtd ? "[pages, H, S, d]" : "[pages, S, H, d]", ", got shape ",
                   assay::shape_text(shape));
    return pages_in_file(shape, layout_);
  }
  if (is_scale(name) && facts_.family == Family::attention) return lie_of_scales(name, shape);
  if (is_one_of(name, {"topk_indices", "topk_length"})) return lie_of_choice(name, shape);
  return as_it_is(shape);
}

/// The lie of a list or a number of every row, for every head or for all of them: then without an axis of heads.
FileTensor FileCase::lie_of_choice(const std::string& name, const std::vector<int>& shape) const {
  const bool packed = layout_ == RowLayout::thd, lists = name == "topk_indices";
  const std::size_t rank = (packed ? 1U : 2U) + (lists ? 1U : 0U);
  const std::string one = packed ? "[T" : "[B, T", each = layout_ == RowLayout::bhtd ? "[B, H, T" : one + ", H",
                    end = lists ? ", n]" : "]";
  require_domain(shape.size() == rank || shape.size() == rank + 1, -1, name, ": expected ", one, end, " or ", each, end,
                 ", got shape ", assay::shape_text(shape));
  require_domain(packed || batch_of_.empty() || shape[0] == batch_, -1, name, ": batch of ", shape[0], ", but ",
                 batch_of_, " has ", batch_);
  return rows_in_file(shape, layout_, shape.size() > rank);
}

/// The lie of scales: those of keys in pages as these, those of blocks as scale_layout says.
FileTensor FileCase::lie_of_scales(const std::string& name, const std::vector<int>& shape) const {
  const bool paged = is_paged_ && name != "q_scale" && shape.size() > 2;
  FileTensor tensor = paged ? pages_in_file(shape, layout_) : as_it_is(shape);
  if (!is_swizzled(scale_layout_, name) || !is_of_blocks(name, shape.size(), is_paged_)) return tensor;
  require_domain(!paged || scale_layout_ != ScaleLayout::swizzled_128x4, -1, name,
                 ": swizzled_128x4 is of whole matrices, and these scales are of pages");
  const ScaleMatrix matrix = scale_matrix(name);
  if (matrix.cols == 0) return tensor;  // the plan says what is missing
  matrix.admit(name);
  int &rows = tensor.shape[tensor.shape.size() - 2], &cols = tensor.shape.back();
  require_domain(rows == matrix.stored_rows() && cols == matrix.stored_cols(), -1, name, ": expected [",
                 matrix.stored_rows(), ", ", matrix.stored_cols(), "] for ", matrix.rows, " rows and ", matrix.cols,
                 " columns of blocks in ", name_of(scale_layout_), ", got shape ", assay::shape_text(shape));
  rows = matrix.rows, cols = matrix.cols;
  const std::vector<std::size_t> stored = std::exchange(tensor.at, {});
  for (std::size_t first_stored = 0; first_stored < stored.size(); first_stored += matrix.stored())
    for (int r = 0; r < matrix.rows; ++r)
      for (int c = 0; c < matrix.cols; ++c) tensor.at.push_back(stored[first_stored + matrix.place(r, c)]);
  return tensor;
}

/// The scales that blocks of that operand have, of a page if it is in pages; none where the case does not say so.
ScaleMatrix FileCase::scale_matrix(const std::string& name) const {
  const auto operand = inputs_.find(name.substr(0, 1));
  const Json block = record_["params"].value("scale_block", Json());
  const auto is_size = [](const Json& n) {
    const std::int64_t size = n.is_number_integer() ? n.get<std::int64_t>() : 0;
    return size > 0 && size <= std::numeric_limits<int>::max();
  };
  if (operand == inputs_.end() || !block.is_array() || block.size() != 2 || !is_size(block[0]) || !is_size(block[1]))
    return {};
  const std::vector<int>& shape = operand->second.shape;  // [H][rows][d], of pages [H][pages][S][d]
  const auto blocks = [](int n, int size) { return (n + size - 1) / size; };
  return {scale_layout_, blocks(shape[shape.size() - 2], block[0].get<int>()),
          blocks(shape.back(), block[1].get<int>())};
}

/// The lie of scales that JSON has in `shape`, perhaps of other heads than the file's; as it is if they are no such.
FileTensor FileCase::lie_of_other_scales(const std::string& name, const std::vector<int>& shape) const {
  const auto given = inputs_.find(name);
  if (given == inputs_.end() || shape.size() != given->second.shape.size()) return as_it_is(shape);
  std::vector<int> file_shape = given->second.file_shape;
  const bool paged = is_paged_ && name != "q_scale" && shape.size() > 2;
  const std::size_t heads = !paged ? 0U : layout_ == RowLayout::bhtd ? 1U : 2U;
  if (!shape.empty()) file_shape[heads] = shape[0];
  FileTensor tensor = lie_of_scales(name, file_shape);
  return tensor.shape == shape ? tensor : as_it_is(shape);
}

namespace {

/// [1, 1, Tq, Tk] and the like: a bias, a mask or documents of a batch.
void take_batch(const std::string& name, int batch, FileTensor& tensor, Tensors& tensors) {
  std::vector<int>& shape = tensor.shape;
  if (is_one_of(name, {"bias", "mask"}) && shape.size() == 4) {
    require_domain(shape[0] == batch || shape[0] == 1, -1, name, ": a batch of ", shape[0], " for one of ", batch);
    if (batch > 1 && shape[0] == batch) tensors.by_sequence.insert(name);
    shape[1] *= shape[0];
    shape.erase(shape.begin());
    if (shape[0] == 1) shape.erase(shape.begin());
  }
  if (!name.starts_with("documents_")) return;
  if (shape.size() == 2 && shape[0] == batch) {
    shape = {shape[0] * shape[1]};
  } else if (shape.size() == 1 && batch > 1) {  // every sequence has the same ones
    const std::vector<std::size_t> one = tensor.at;
    for (int b = 1; b < batch; ++b) tensor.at.insert(tensor.at.end(), one.begin(), one.end());
    shape[0] *= batch;
  }
}

}  // namespace

void FileCase::take(const Problem& problem) {
  Params params = problem.params;
  if (const auto layout = params.find("layout"); layout != params.end()) {
    layout_ = row_layout_from(std::get<std::string>(layout->second));
    params.erase(layout);
  }
  record_ = {{"mechanism", facts_.name}, {"params", json_of(params)}};
  if (const auto block = params.find("scale_block"); block != params.end())
    record_["params"]["scale_block"] = parse_json(std::get<std::string>(block->second), "params.scale_block");
  if (const auto layout = params.find("scale_layout"); layout != params.end()) {
    const auto* word = std::get_if<std::string>(&layout->second);
    scale_layout_ = scale_layout_from(word != nullptr ? *word : record_["params"]["scale_layout"].dump());
  }
  has_heads_ = facts_.family == Family::attention || facts_.family == Family::recurrence;
  is_paged_ = problem.inputs.contains("page_table");
  for (const auto& [name, array] : problem.inputs) inputs_[name] = lie(name, array.shape, false);
  const int batch = std::max(batch_, 1);
  for (auto& [name, tensor] : inputs_) {
    take_batch(name, batch, tensor, tensors_);
    Numbers& numbers = tensors_.inputs[name];
    numbers.shape = tensor.shape;
    const Array& array = problem.inputs.find(name)->second;
    for (const std::size_t i : tensor.at) numbers.data.push_back(decimal_of(array.data[i]));
  }
  for (const auto& [name, array] : problem.cotangents) {
    const FileTensor tensor = lie(name, array.shape, true);
    Numbers& numbers = tensors_.cotangents[name];
    numbers.shape = tensor.shape;
    for (const std::size_t i : tensor.at) numbers.data.push_back(decimal_of(array.data[i]));
  }
}

/// Sequences of a batch as cu_seqlens has them; of recurrences in any case, so that every state has its axis of them.
void FileCase::number_sequences() {
  const int batch = std::max(batch_, 1);
  for (const char* name : {"cu_seqlens", "cu_seqlens_q", "cu_seqlens_k"})
    require_domain(batch == 1 || !tensors_.inputs.contains(name), -1, name,
                   ": packed sequences are a batch of one, and ", batch_of_, " has ", batch);
  const auto add = [&](const char* name, const char* of) {
    const auto tensor = inputs_.find(of);
    if (tensor == inputs_.end()) return;
    const std::vector<int>& shape = tensor->second.shape;
    const int rows = shape[has_heads_ ? 1 : 0] / batch;
    Numbers& numbers = tensors_.inputs[name];
    numbers.shape = {batch + 1};
    for (int b = 0; b <= batch; ++b) numbers.data.push_back(std::to_string(b * rows));
  };
  const auto known = [&](const char* name) { return tensors_.inputs.contains(name); };
  if (facts_.family == Family::attention) {
    if (batch == 1) return;
    add("cu_seqlens_q", "q");
    if (!is_paged_) add("cu_seqlens_k", "k");
    tensors_.batch = batch;
  } else if (facts_.family != Family::norm && !known("cu_seqlens")) {
    add("cu_seqlens", batch_of_.c_str());
  }
}

namespace {

std::size_t count_of(const std::vector<int>& shape, std::size_t first, std::size_t end) {
  std::size_t n = 1;
  for (std::size_t a = first; a < end; ++a) n *= static_cast<std::size_t>(shape[a]);
  return n;
}

/// The rows, which are an axis of a tensor in `shape`, that have a number which `defined` holds.
std::vector<std::size_t> rows_with(const std::vector<int>& shape, std::size_t axis, const std::vector<bool>& defined) {
  const std::size_t rows = static_cast<std::size_t>(shape[axis]), inner = count_of(shape, axis + 1, shape.size());
  std::vector<bool> used(rows, false);
  for (std::size_t i = 0; i < defined.size(); ++i)
    if (defined[i]) used[i / inner % rows] = true;
  std::vector<std::size_t> list;
  for (std::size_t row = 0; row < rows; ++row)
    if (used[row]) list.push_back(row);
  return list;
}

/// Number i of those rows is number at[i] of the tensor.
std::vector<std::size_t> numbers_of_rows(const std::vector<int>& shape, std::size_t axis,
                                         const std::vector<std::size_t>& used) {
  const std::size_t heads = count_of(shape, 0, axis), rows = static_cast<std::size_t>(shape[axis]),
                    inner = count_of(shape, axis + 1, shape.size());
  std::vector<std::size_t> at;
  for (std::size_t h = 0; h < heads; ++h)
    for (const std::size_t row : used)
      for (std::size_t c = 0; c < inner; ++c) at.push_back((h * rows + row) * inner + c);
  return at;
}

}  // namespace

FileCase::FileCase(const Problem& problem) : facts_(facts_of(std::string(without_suffix(problem.mechanism)))) {
  require_domain(facts_.family != Family::quantizer, -1,
                 "quantize: its codes are exact, and `assay oracle` answers JSON cases of it");
  take(problem);
  number_sequences();
  given_ = std::make_unique<const Given>(record_, &tensors_);
  admit_names(*given_, facts_);
  plan_ = std::make_unique<const Plan>(plan_of(*given_, facts_));
  admit_numbers(*plan_);
  doubles_ = std::make_unique<const BasicFolded<double>>(*plan_);
  for (const auto& [name, shape] : plan_->outputs)
    if (name != "empty") judge(name, name, shape, answered_numbers(*plan_, name));
  for (const std::string& name : plan_->gradients) {
    if (!has_gradients()) break;
    const std::vector<int>& shape = plan_->inputs.at(name).shape;
    judge("d_" + name, name, shape, read(name));
  }
}

/// Whether each number of an input is some sequence's: all are, except those of padded rows.
std::vector<bool> FileCase::read(const std::string& input) const {
  if (plan_->padded.contains(input)) return numbers_of_pieces(*plan_, input);
  return std::vector<bool>(plan_->inputs.at(input).data.size(), true);
}

/// The first row of each sequence among those that are `used`, and their number; nothing of a single sequence, or where
/// they lie otherwise.
std::vector<int> FileCase::borders_of(const std::string& name, const std::string& own, const std::vector<int>& shape,
                                      std::size_t axis, const std::vector<std::size_t>& used) const {
  const std::size_t rows = static_cast<std::size_t>(shape[axis]), inner = count_of(shape, axis + 1, shape.size()),
                    sequences = plan_->pieces.size();
  if (sequences < 2) return {};
  std::vector<std::size_t> sequence(rows, sequences);  // of every row
  const auto mark = [&](std::size_t number, std::size_t n) { sequence[number / inner % rows] = n; };
  for (std::size_t n = 0; n < sequences; ++n) {
    for (const auto& [input, one] : plan_->pieces[n].inputs)
      if (name != own && one.from == own)
        for (const std::size_t i : one.at) mark(i, n);
    for (const auto& [output, one] : plan_->pieces[n].outputs)
      if (name == own && one.to == own)
        for (const auto& [from, to] : one.pairs) mark(to, n);
  }
  std::vector<int> borders;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const std::size_t n = sequence[used[i]];
    if (n == sequences || n + 1 < borders.size()) return {};
    borders.resize(n + 1, static_cast<int>(i));
  }
  borders.resize(sequences + 1, static_cast<int>(used.size()));
  return borders;
}

/// Keeps the rows that are read or written, and folds axes into the first until there are three.
void FileCase::judge(const std::string& name, const std::string& own, std::vector<int> shape,
                     const std::vector<bool>& defined) {
  if (is_paged_ && is_one_of(own, {"k", "v", "k_scale", "v_scale"}) && shape.size() > 2) {  // slots are rows
    shape[2] *= shape[1];
    shape.erase(shape.begin() + 1);
  }
  const bool with_rows =
      !shape.empty() && !is_state(own) && (plan_->tokens.contains(own) || plan_->padded.contains(own));
  const std::size_t axis = has_heads_ && shape.size() > 1 ? 1 : 0;
  JudgedTensor tensor;
  if (with_rows) {
    const std::vector<std::size_t> used = rows_with(shape, axis, defined);
    tensor.kept = numbers_of_rows(shape, axis, used);
    tensor.borders = borders_of(name, own, shape, axis, used);
    shape[axis] = static_cast<int>(used.size());
  } else {
    if ((own.starts_with("initial_") || own.starts_with("final_")) && plan_->pieces.size() > 1 && !shape.empty() &&
        static_cast<std::size_t>(shape[0]) == plan_->pieces.size())
      tensor.states = shape[0];
    tensor.kept.resize(defined.size());
    std::iota(tensor.kept.begin(), tensor.kept.end(), std::size_t{0});
  }
  if (!has_heads_ && !shape.empty() && !is_state(own)) shape.insert(shape.begin(), 1);
  if (own == "bias" && shape.size() == 2) shape.insert(shape.begin(), 1);
  const bool merges = is_state(own) && has_heads_ && shape.size() == 3;
  while (shape.size() > 3 || (merges && shape.size() > 2)) {
    shape[1] *= shape[0];
    shape.erase(shape.begin());
  }
  tensor.shape = std::move(shape);
  if (!tensor.kept.empty()) judged_[name] = std::move(tensor);
}

const Folded& FileCase::folded() const {
  std::call_once(folding_, [&] { folded_ = std::make_unique<const Folded>(*plan_); });
  return *folded_;
}

const Answer& FileCase::answer_in_doubles() const {
  std::call_once(asked_, [&] { in_doubles_ = judged_answer(answer<double>(*doubles_, has_gradients())); });
  return in_doubles_;
}

Answer FileCase::answer_in_doubles(const language::Mechanism& mechanism) const {
  const BasicFolded<double> other(*plan_, mechanism);
  return judged_answer(answer<double>(other, has_gradients()));
}

/// A file's shape of a tensor with rows that JSON has in `shape`.
std::vector<int> FileCase::rows_shape(std::vector<int> shape) const {
  const int heads = has_heads_ ? shape[0] : 1, batch = std::max(batch_, 1);
  if (has_heads_) shape.erase(shape.begin());
  if (layout_ != RowLayout::thd) {
    require_domain(shape[0] % batch == 0, -1, "rows: ", shape[0], " are none of a batch of ", batch);
    shape[0] /= batch;
  }
  if (has_heads_) shape.insert(shape.begin() + (layout_ == RowLayout::bhtd ? 0 : 1), heads);
  if (layout_ != RowLayout::thd) shape.insert(shape.begin(), batch);
  return shape;
}

/// The lie of an output, whose shape in the file follows from that of the rows it has.
FileTensor FileCase::lie_of_answer(const std::string& tensor) const {
  if (tensor.starts_with("d_")) {
    const std::string name = tensor.substr(2);
    const auto found = inputs_.find(name);  // a parameter is none of them
    return found != inputs_.end() ? found->second : as_it_is(plan_->inputs.at(name).shape);
  }
  const std::vector<int>& shape = plan_->outputs.at(tensor);
  if (!has_rows(facts_, tensor, false, layout_, 0)) return as_it_is(shape);
  return rows_in_file(rows_shape(shape), layout_, has_heads_);
}

/// The shape that JSON has for an input or, for "d_NAME", an output. A front end's results have the rows of v.
const std::vector<int>& FileCase::shape_with_rows(const std::string& tensor) const {
  if (tensor.starts_with("d_")) return plan_->outputs.at(tensor.substr(2));
  const auto given = inputs_.find(tensor);
  return (given != inputs_.end() ? given : inputs_.find("v"))->second.shape;
}

/// Those that some sequence has.
std::vector<std::size_t> FileCase::rows_used(const std::string& tensor) const {
  const std::vector<int>& shape = shape_with_rows(tensor);
  const std::size_t axis = has_heads_ ? 1 : 0;
  if (!tensor.starts_with("d_")) return rows_with(shape, axis, read(inputs_.contains(tensor) ? tensor : "v"));
  std::vector<bool> judged(Array(shape).data.size(), false);
  for (const std::size_t i : judged_.at(tensor.substr(2)).kept) judged[i] = true;
  return rows_with(shape, axis, judged);
}

Problem FileCase::heads_first(const Problem& in_file) const {
  Problem p = in_file;
  p.params.erase("layout");
  const auto gather = [&](const std::string& name, Array& x, bool output) {
    FileTensor tensor = as_it_is(x.shape);
    std::vector<int>& shape = tensor.shape;
    if (has_rows(facts_, name, !output && is_paged_, layout_, static_cast<int>(shape.size()))) {
      tensor = rows_in_file(x.shape, layout_, has_heads_);
      const std::vector<std::size_t> used = rows_used(output ? "d_" + name : name);
      const std::vector<std::size_t> at = numbers_of_rows(shape, has_heads_ ? 1 : 0, used);
      for (std::size_t i = 0; i < at.size(); ++i) tensor.at[i] = tensor.at[at[i]];  // at[i] >= i
      shape[has_heads_ ? 1 : 0] = static_cast<int>(used.size());
      if (!has_heads_) shape.insert(shape.begin(), 1);
    } else if (!output && (is_scale(name) || (is_paged_ && is_one_of(name, {"k", "v"})))) {
      tensor = inputs_.at(name);
    } else if (is_state(name) || is_one_of(name, {"bias", "mask"})) {
      if (shape.size() == 2) shape.insert(shape.begin(), 1);
      if (shape.size() == 4) shape[1] *= shape[0], shape.erase(shape.begin());
    }
    Array to(shape);
    for (std::size_t i = 0; i < to.data.size(); ++i) to.data[i] = x.data[tensor.at[i]];
    x = std::move(to);
  };
  for (auto& [name, x] : p.inputs) gather(name, x, false);
  for (auto& [name, x] : p.cotangents) gather(name, x, true);
  for (const char* name : {"k", "v"})  // of keys that were not chosen: others than these may read them
    if (const auto x = p.inputs.find(name); plan_->choice && x != p.inputs.end())
      std::ranges::replace_if(
          x->second.data, [](double y) { return !std::isfinite(y); }, 0.0);
  return p;
}

Problem FileCase::in_file(const Problem& heads_first) const {
  constexpr const char* layouts[] = {"bthd", "bhtd", "thd"};
  Problem p = heads_first;
  p.params["layout"] = std::string(layouts[static_cast<std::size_t>(layout_)]);
  const auto scatter = [&](const std::string& name, Array& x, bool output) {
    std::vector<int> shape = x.shape;
    std::vector<std::size_t> rows;
    const bool paged = !output && is_paged_ && is_one_of(name, {"k", "v"});
    FileTensor tensor;
    if (has_rows(facts_, name, !output && is_paged_, layout_,
                 static_cast<int>(shape.size()) + (layout_ == RowLayout::thd ? 0 : 1))) {
      const std::size_t axis = has_heads_ ? 1 : 0;
      if (!has_heads_) shape.erase(shape.begin());
      const std::string tensor_name = output ? "d_" + name : name;
      const std::vector<std::size_t> used = rows_used(tensor_name);
      require_domain(used.size() == static_cast<std::size_t>(shape[axis]), -1, name, ": ", shape[axis], " rows for ",
                     used.size());
      shape[axis] = shape_with_rows(tensor_name)[axis];
      rows = numbers_of_rows(shape, axis, used);
      tensor = rows_in_file(rows_shape(shape), layout_, has_heads_);
    } else if (paged) {
      const bool heads_second = layout_ == RowLayout::bhtd;
      tensor = heads_second ? with_axes({shape[1], shape[0], shape[2], shape[3]}, {1, 0, 2, 3})
                            : with_axes({shape[1], shape[2], shape[0], shape[3]}, {2, 0, 1, 3});
    } else if (!output && is_scale(name)) {
      tensor = lie_of_other_scales(name, shape);
    } else {
      // As the file has it, or the sequences' states as their outputs do.
      const auto given = inputs_.find(name);
      const auto answered = plan_->outputs.find(name.starts_with("initial_") ? "final_" + name.substr(8) : name);
      std::vector<int> known = !output && given != inputs_.end()  ? given->second.file_shape
                               : answered != plan_->outputs.end() ? answered->second
                                                                  : shape;
      const int states = known.empty() ? 0 : known[0];
      if (known.size() == shape.size() + 1 && Array(known).data.size() != x.data.size() && !shape.empty() &&
          states > 0 && shape[0] % states == 0) {  // of as many sequences, other heads
        known = shape, known[0] /= states;
        known.insert(known.begin(), states);
      }
      tensor = as_it_is(Array(known).data.size() == x.data.size() ? std::move(known) : std::move(shape));
    }
    Array to(tensor.file_shape);
    if (!rows.empty()) std::fill(to.data.begin(), to.data.end(), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t i = 0; i < x.data.size(); ++i) to.data[tensor.at[rows.empty() ? i : rows[i]]] = x.data[i];
    x = std::move(to);
  };
  for (auto& [name, x] : p.inputs) scatter(name, x, false);
  for (auto& [name, x] : p.cotangents) scatter(name, x, true);
  return p;
}

std::vector<std::size_t> FileCase::endless_rows() const {
  std::vector<std::size_t> rows;
  if (!plan_->outputs.contains("empty")) return rows;
  const BasicAnswer<double> whole = answer<double>(*doubles_, false);
  const std::vector<double>& empty = whole.outputs.at("empty").data;
  const std::vector<std::size_t>& kept = judged_.at("lse").kept;
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (empty[kept[i]] != 0) rows.push_back(i);
  return rows;
}

Scattered FileCase::scattered(const std::string& tensor) const {
  const FileTensor file = lie_of_answer(tensor);
  Scattered result{.shape = file.file_shape};
  for (const std::size_t i : judged_.at(tensor).kept) result.at.push_back(file.at[i]);
  if (tensor == "lse") result.endless = endless_rows(), result.is_optional = !plan_->cotangents.contains("lse");
  result.is_optional =
      result.is_optional || is_one_of(tensor, {"d_alibi_slopes", "d_q_scale", "d_k_scale", "d_v_scale"});
  return result;
}

Shape FileCase::shape() const {
  Shape shape;
  const auto axis = [&](const char* name, std::size_t a, int missing) {
    const auto found = inputs_.find(name);
    return found == inputs_.end() || found->second.shape.size() <= a ? missing : found->second.shape[a];
  };
  shape.batch = std::max(batch_, 1);
  const char* first_tensor = has_heads_ ? "q" : "x";
  shape.heads = has_heads_ ? axis("q", 0, 1) : 1;
  shape.seq_len = axis(first_tensor, has_heads_ ? 1 : 0, 0) / shape.batch;
  shape.key_dim = shape.value_dim = axis(first_tensor, has_heads_ ? 2 : 1, 0);
  if (has_heads_) shape.value_dim = axis("v", is_paged_ ? 3 : 2, shape.key_dim);
  if (facts_.family == Family::attention) {
    const int keys = is_paged_ ? axis("k", 1, 0) * axis("k", 2, 0) : axis("k", 1, 0) / shape.batch;
    if (keys != shape.seq_len) shape.query_len = std::exchange(shape.seq_len, keys);
  }
  const int others = axis("k", 0, shape.heads), values = axis("v", 0, shape.heads);
  shape.heads = std::max(shape.heads, values);
  const int fewest = std::min(others, axis(first_tensor, 0, shape.heads));
  if (has_heads_ && fewest != shape.heads) shape.shared_heads = fewest;
  return shape;
}

std::shared_ptr<const FileCase> FileCase::of(const Problem& problem) {
  static Memo<FileCase> known(4);
  return known.find(problem_digest(problem), [&] { return std::make_shared<const FileCase>(problem); });
}

}  // namespace assay::arguments
