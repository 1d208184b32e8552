#include "files/layout.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "files/names.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

bool walks_tokens(const RoomFacts::Ranked& ranked) {
  return ranked.rank > 0 && (ranked.field.axes[0] == Axis::seq_len || ranked.field.axes[0] == Axis::query_len);
}

std::size_t product(std::vector<int>::const_iterator first, std::vector<int>::const_iterator last) {
  std::size_t n = 1;
  for (; first != last; ++first) n *= static_cast<std::size_t>(*first);
  return n;
}

std::string letter(Axis axis) {
  if (axis == Axis::query_len) return "T";
  return axis == Axis::tail_len || axis == Axis::final_tail_len ? "N" : std::string(name_of(axis));
}

/// The axes of a file's tensor of which a problem has `axes` after its heads.
std::vector<std::string> letters(const RoomFacts::Ranked& ranked, int axes) {
  const bool by_token = axes > 0 && walks_tokens(ranked);
  std::vector<std::string> out = {"B", "T", "H"};
  if (!by_token) out.erase(out.begin() + 1);
  for (auto a = static_cast<std::size_t>(by_token ? 1 : 0); a < static_cast<std::size_t>(axes); ++a)
    out.push_back(a < ranked.field.axes.size() ? letter(ranked.field.axes[a]) : "N");
  return out;
}

std::string bracketed(const std::vector<std::string>& axes) { return "[" + names_in(axes) + "]"; }

std::string axes_text(const RoomFacts::Ranked& ranked, int axes) { return bracketed(letters(ranked, axes)); }

}  // namespace

std::string shape_text(const std::vector<int>& shape) {
  return "[" + names_in(shape, [](int n) { return std::to_string(n); }) + "]";
}

std::string axes_in_problem(const RoomFacts::Ranked& ranked, int axes) {
  const auto first = std::span(ranked.field.axes).first(static_cast<std::size_t>(axes));
  return "[" + names_in(first, [](Axis axis) { return name_of(axis); }) + "]";
}

std::string mistaken_axes(const RoomFacts::Ranked& ranked, const std::vector<int>& expected,
                          const std::vector<int>& got) {
  if (expected.size() == got.size() + 1 && expected.front() == 1 &&
      std::equal(got.begin(), got.end(), expected.begin() + 1))
    return "; the axis B of 1 is missing";
  if (expected.size() != got.size() || got.size() < 2) return "";
  std::vector<std::string> axes = letters(ranked, static_cast<int>(expected.size()) - 2);
  // Heads in front of tokens is the usual one, then a state that is [V, K].
  for (std::size_t first : {std::size_t{1}, std::size_t{2}, std::size_t{0}})
    for (std::size_t second = first + 1; second < got.size(); ++second) {
      std::vector<int> exchanged = got;
      std::swap(exchanged[first], exchanged[second]);
      if (exchanged != expected) continue;
      std::swap(axes[first], axes[second]);
      return text("; that is ", bracketed(axes), ": transpose axes ", first, " and ", second);
    }
  return "";
}

std::string axes_in_file(const RoomFacts::Ranked& ranked) {
  std::string out = axes_text(ranked, ranked.rank);
  for (int axes = ranked.rank - 1; ranked.field.broadcasts && axes >= 0; --axes) out += ", " + axes_text(ranked, axes);
  return ranked.field.broadcasts || ranked.rank == 0 ? out + " or one number of no axes" : out;
}

FileLayout FileLayout::of_problem(const RoomFacts::Ranked& ranked, const std::vector<int>& shape, int batch) {
  FileLayout layout;
  layout.problem_ = layout.file_ = shape;
  if (ranked.field.place == Field::Place::param || shape.empty()) return layout;
  layout.batch_ = batch, layout.heads_ = shape[0] / batch;
  // A tensor that broadcasts may have no token axis in this case.
  layout.by_token_ = shape.size() > 1 && walks_tokens(ranked);
  if (layout.by_token_) layout.tokens_ = shape[1];
  layout.inner_ = product(shape.begin() + (layout.by_token_ ? 2 : 1), shape.end());
  layout.file_[0] = layout.heads_;
  if (layout.by_token_) std::swap(layout.file_[0], layout.file_[1]);
  layout.file_.insert(layout.file_.begin(), batch);
  return layout;
}

FileLayout FileLayout::of_file(const RoomFacts::Ranked& ranked, const std::vector<int>& shape) {
  const auto full = static_cast<std::size_t>(ranked.rank) + 2;
  const bool number = shape.empty() && (ranked.rank == 0 || ranked.field.broadcasts);
  const bool fewer = ranked.field.broadcasts && shape.size() >= 2 && shape.size() < full;
  require(shape.size() == full || number || fewer, "expected ", axes_in_file(ranked), ", got shape ",
          shape_text(shape));
  if (number) return {};
  std::vector<int> problem(shape.begin() + 1, shape.end());
  if (shape.size() > 2 && walks_tokens(ranked)) std::swap(problem[0], problem[1]);
  require(problem[0] <= std::numeric_limits<int>::max() / (shape[0] > 0 ? shape[0] : 1), "B times H of shape ",
          shape_text(shape), " is too large");
  FileLayout layout;
  layout.batch_ = shape[0], layout.heads_ = problem[0];
  layout.by_token_ = shape.size() > 2 && walks_tokens(ranked);
  if (layout.by_token_) layout.tokens_ = shape[1];
  layout.inner_ = product(shape.begin() + (layout.by_token_ ? 3 : 2), shape.end());
  problem[0] *= shape[0];
  layout.problem_ = std::move(problem), layout.file_ = shape;
  return layout;
}

Array FileLayout::reordered(Array array, const std::vector<int>& shape, bool is_to_file) const {
  if (tokens_ != 1 && heads_ != 1) {
    std::vector<double> moved(array.data.size());
    std::size_t in_file = 0;
    for (int b = 0; b < batch_; ++b)
      for (int t = 0; t < tokens_; ++t)
        for (int h = 0; h < heads_; ++h, in_file += inner_) {
          const std::size_t in_problem =
              ((static_cast<std::size_t>(b) * static_cast<std::size_t>(heads_) + static_cast<std::size_t>(h)) *
                   static_cast<std::size_t>(tokens_) +
               static_cast<std::size_t>(t)) *
              inner_;
          std::copy_n(array.data.begin() + static_cast<std::ptrdiff_t>(is_to_file ? in_problem : in_file), inner_,
                      moved.begin() + static_cast<std::ptrdiff_t>(is_to_file ? in_file : in_problem));
        }
    array.data = std::move(moved);
  }
  array.shape = shape;
  return array;
}

std::string FileLayout::place_in_file(int block, const std::vector<int>& index) const {
  std::string out = text("[", block / heads_, "]");
  std::size_t next = 0;
  if (by_token_ && !index.empty()) out += text("[", index[next++], "]");
  out += text("[", block % heads_, "]");
  for (; next < index.size(); ++next) out += text("[", index[next], "]");
  return out;
}

std::string FileLayout::place_in_file(std::size_t flat) const {
  if (problem_.empty()) return "";
  std::vector<int> index(problem_.size());
  for (std::size_t r = problem_.size(); r-- > 0;) {
    const auto n = static_cast<std::size_t>(problem_[r]);
    index[r] = static_cast<int>(flat % n), flat /= n;
  }
  const int block = index.front();
  index.erase(index.begin());
  return place_in_file(block, index);
}

}  // namespace assay
