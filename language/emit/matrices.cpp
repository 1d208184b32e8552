#include "language/emit/matrices.hpp"

#include <fmt/format.h>

#include <utility>

#include "language/program/infer.hpp"

namespace assay::language::device {
namespace {

constexpr char none = 0;  // no letter
constexpr std::size_t most_axes_of_group = 2;

bool has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

}  // namespace

Matrices::Matrices(const Scope& scope, int v, int contraction, const std::optional<Cut>& cut, const Place& to)
    : scope_(scope), contraction_(contraction), cut_(cut), to_(to), sum_(scope.any_sum_of(v)) {
  const Contraction spec = contraction_from(scope.block().node(contraction)->attributes.spec);
  left_ = spec.left, right_ = spec.right, result_ = spec.result;
  if (cut) sum_.axes[result_.back()] = cut->length;
  if (!result_.empty() && !has(right_, result_.back())) std::swap(of_rows_, of_columns_);
  for (const char letter : sum_.loops)
    (!has(result_, letter)                       ? sums_
     : has(left_, letter) == has(right_, letter) ? both_
     : has(letters(of_columns_), letter)         ? columns_
                                                 : rows_) += letter;
  are_dots_ = rows_.empty() && columns_.empty() && both_.size() <= most_axes_of_group;
  if (are_dots_) rows_.swap(both_);  // lines
  for (const std::string* group : {&rows_, &columns_, &sums_})
    if (group->size() > most_axes_of_group)
      scope.refuse(v, "is a product of matrices whose lines run over three axes, and no text is emitted for that yet");
}

std::vector<Dim> Matrices::dims_of(const std::string& letters) const {
  std::vector<Dim> dims;
  for (const char letter : letters) dims.push_back(sum_.axes.at(letter));
  return dims;
}

std::string Matrices::group(const std::string& letters) const {
  const std::vector<Dim> dims = dims_of(letters);
  return fmt::format("{{{}, {}}}", int_count(dims), dims.size() == 2 ? length_of(dims[1]) : "0");
}

std::string Matrices::shifted(char letter, std::string index) const {
  return cut_ && letter == result_.back() ? fmt::format("({} + {})", cut_->first, index) : index;
}

Indices Matrices::at(const std::string& letters, char one, bool of_all) const {
  const Indices both = indices_of(dims_of(both_), "m");
  Indices list;
  for (const char letter : letters) {
    const std::size_t k = both_.find(letter);
    std::string index = letter == one ? "1" : k != std::string::npos ? both[k] : "0";
    list.push_back(of_all ? shifted(letter, std::move(index)) : std::move(index));
  }
  return list;
}

/// The inner axis of a group is its last one.
std::string Matrices::steps(const std::string& group, const std::string& letters, const Text& text,
                            bool of_places) const {
  const std::string from = text(none);
  const bool is_one_number = of_places && from.back() != ']';  // one that is written in the program
  const auto along = [&](std::size_t from_end) {
    if (is_one_number || group.size() < from_end) return std::string("0");
    const char letter = group[group.size() - from_end];
    if (!has(letters, letter)) return std::string("0");
    return of_places ? fmt::format("&{} - &{}", text(letter), from)
                     : fmt::format("(long)({}) - ({})", text(letter), from);
  };
  return fmt::format("{{{}, {}}}", along(1), along(2));
}

/// A part of an operand is another operand.
std::string Matrices::key(int operand) const {
  return scope_.key_of(contraction_, cut_ ? 1 + operand : scope_.part_of(contraction_, operand));
}

int Matrices::value_of(int operand) const {
  return scope_.block().node(contraction_)->args[static_cast<std::size_t>(operand)];
}

std::string Matrices::operand(int which, const std::string& lines) const {
  const std::string& own = letters(which);
  const Text value = [&](char one) { return scope_.written(value_of(which), at(own, one, true)); };
  const Text number = [&](char one) { return scope_.number_of(dims_of(own), at(own, one, false)); };
  return fmt::format("{{address({}), {}, {}, {}, {}, {}, {}, {}}}", value(none), steps(lines, own, value, true),
                     steps(sums_, own, value, true), number(none), steps(lines, own, number, false),
                     steps(sums_, own, number, false), key(which), has(sums_, own.back()));
}

std::string Matrices::result() const {
  const Text place = [&](char one) { return to_(at(result_, one, true)); };
  const Text start = [&](char one) {
    return sum_.start < 0 ? std::string("0") : scope_.written(sum_.start, at(result_, one, true));
  };
  const Text number = [&](char one) { return scope_.number_of(dims_of(result_), at(result_, one, false)); };
  return fmt::format("{{&{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}}", place(none),
                     sum_.start < 0 ? "0" : fmt::format("address({})", start(none)), steps(rows_, result_, place, true),
                     steps(columns_, result_, place, true), steps(rows_, result_, start, true),
                     steps(columns_, result_, start, true), number(none), steps(rows_, result_, number, false),
                     steps(columns_, result_, number, false), scope_.key_of(contraction_, 0));
}

std::vector<std::string> Matrices::product(bool in_place) const {
  if (are_dots_)
    return {fmt::format("dots(draw, {}, {},", group(rows_), group(sums_)), operand(0, rows_) + ',',
            operand(1, rows_) + ',', result() + ");"};
  return {fmt::format("for (int m = 0; m < {}; ++m)", int_count(dims_of(both_))),
          fmt::format("multiply<lanes * groups>(draw, {}, {}, {}, {},", in_place, group(rows_), group(columns_),
                      group(sums_)),
          operand(of_rows_, rows_) + ',', operand(of_columns_, columns_) + ',', result() + ");"};
}

std::string Matrices::element(const Indices& at) const {
  const auto read = [&](int which) {
    Indices own, of_all;
    for (const char letter : letters(which))
      own.push_back(at[result_.find(letter)]), of_all.push_back(shifted(letter, own.back()));
    return fmt::format("as_read(draw, {}, {}, {})", key(which), scope_.number_of(dims_of(letters(which)), own),
                       scope_.written(value_of(which), of_all));
  };
  Indices to;
  for (std::size_t i = 0; i < at.size(); ++i) to.push_back(shifted(result_[i], at[i]));
  return fmt::format("{} = add_one_product(draw, {}, {}, {}, {}, {});", to_(to), scope_.key_of(contraction_, 0),
                     scope_.number_of(dims_of(result_), at), sum_.start < 0 ? "0.0" : scope_.written(sum_.start, to),
                     read(0), read(1));
}

}  // namespace assay::language::device
