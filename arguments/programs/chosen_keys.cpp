#include "arguments/programs/chosen_keys.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "oracles/core/bind.hpp"
#include "reference/core/error.hpp"

namespace assay::arguments {
namespace {

/// "topk_length[1][3]": what a list's row has at `flat`, with `inner` numbers for each row.
std::string place_in(const Choice& choice, const char* name, std::size_t flat, std::optional<int> inner) {
  std::vector<int> shape = {choice.rows};
  if (choice.heads > 0) shape.insert(shape.begin(), choice.heads);
  if (inner) shape.push_back(*inner);
  return assay::detail::element_text(name, shape, flat);
}

/// One list's: marks its keys from chosen[first] on.
void choose(const Choice& choice, int row, std::size_t list, int keys, std::vector<bool>& chosen, std::size_t first) {
  const int length = choice.lengths[list], count = keys == 0 ? 0 : (keys - 1) / choice.block + 1;
  if (length < 0 || length > choice.entries)
    throw Refusal(Status::domain, row,
                  text(place_in(choice, "topk_length", list, std::nullopt), ": ", length, " entries, and a list has ",
                       choice.entries));
  const char* const what = choice.block > 1 ? "block" : "key";
  for (int e = 0; e < length; ++e) {
    const std::size_t at = list * static_cast<std::size_t>(choice.entries) + static_cast<std::size_t>(e);
    const int entry = choice.keys[at];
    if (entry == -1) continue;
    const auto place = [&] { return place_in(choice, "topk_indices", at, choice.entries); };
    if (entry < 0 || entry >= count)
      throw Refusal(Status::domain, row,
                    text(place(), ": there is no ", what, ' ', entry, " of ", count, "; -1 is none"));
    const int begin = entry * choice.block, end = begin + std::min(keys - begin, choice.block);
    if (chosen[first + static_cast<std::size_t>(begin)])
      throw Refusal(Status::domain, row,
                    text(place(), ": ", what, ' ', entry,
                         " a second time: it counts once to some kernels, twice to others; name it once"));
    for (int key = begin; key < end; ++key) chosen[first + static_cast<std::size_t>(key)] = true;
  }
}

}  // namespace

std::optional<Choice> choice_of(const Given& given, int query_heads, int rows) {
  auto lists = given.integer_array("topk_indices");
  require_domain(lists || !given.has_input("topk_length"), -1,
                 "topk_length: topk_indices is missing, whose entries count");
  require_domain(lists || !given.has_param("topk_block_size"), -1,
                 "params.topk_block_size: topk_indices is missing, whose entries are blocks");
  if (!lists) return std::nullopt;
  const std::vector<int>& shape = lists->shape;
  const bool by_head = query_heads > 0 && shape.size() == 3;
  require_domain((by_head || shape.size() == 2) && shape[by_head ? 1 : 0] == rows, -1, "topk_indices: expected ", rows,
                 " lists, one for every row of q", query_heads > 0 ? ", or that for heads which share them" : "",
                 ", got shape ", assay::detail::shape_text(shape));
  Choice choice{.heads = by_head ? shape[0] : 0, .rows = rows, .entries = shape.back()};
  require_domain(!by_head || (choice.heads > 0 && query_heads % choice.heads == 0), -1, "topk_indices: ", query_heads,
                 " heads of q cannot share the lists of ", choice.heads, " evenly");
  const std::size_t each = static_cast<std::size_t>(rows),
                    count = each * static_cast<std::size_t>(std::max(1, choice.heads));
  choice.keys = std::move(lists->data);
  choice.lengths.assign(count, choice.entries);
  if (const auto lengths = given.integer_array("topk_length")) {
    require_domain(
        lengths->shape == std::vector{rows} || (by_head && lengths->shape == std::vector{choice.heads, rows}), -1,
        "topk_length: expected ", rows, " integers, one for every row of q",
        by_head ? ", or that for every list of topk_indices" : "", ", got shape ",
        assay::detail::shape_text(lengths->shape));
    for (std::size_t i = 0; i < count; ++i) choice.lengths[i] = lengths->data[i % lengths->data.size()];
  }
  choice.block = given.integer("topk_block_size", 1).value_or(1);
  return choice;
}

std::vector<bool> chosen_keys(const Choice& choice, const std::vector<int>& rows, int keys) {
  const std::size_t lists = static_cast<std::size_t>(std::max(1, choice.heads)),
                    columns = static_cast<std::size_t>(keys);
  std::vector<bool> chosen(lists * rows.size() * columns, false);
  for (std::size_t list = 0; list < lists; ++list)
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::size_t row = list * static_cast<std::size_t>(choice.rows) + static_cast<std::size_t>(rows[r]);
      choose(choice, rows[r], row, keys, chosen, (list * rows.size() + r) * columns);
    }
  return chosen;
}

}  // namespace assay::arguments
