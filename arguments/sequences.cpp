#include "arguments/sequences.hpp"

#include <numeric>

namespace assay::arguments {
namespace {

constexpr const char* lengths_names[] = {"lengths", "lengths_q", "lengths_k"};

/// Where sequences start, and one more: by `name`; one sequence of all rows if there is none.
std::vector<int> starts(const Given& given, const char* name, int rows) {
  const auto cu = given.integers(name, 0);
  if (!cu) return {0, rows};
  require_domain(!cu->empty() && cu->front() == 0, -1, name, ": expected 0 first");
  for (std::size_t i = 1; i < cu->size(); ++i)
    require_domain((*cu)[i - 1] <= (*cu)[i], -1, name, "[", i, "]: falls from ", (*cu)[i - 1], " to ", (*cu)[i]);
  require_domain(cu->back() <= rows, -1, name, ": ends at ", cu->back(), ", and there are ", rows, " rows");
  return *cu;
}

/// The first rows of every slot, as many as the list `name` says; all of them without it.
std::vector<std::vector<int>> rows_of(const std::vector<int>& cu, const Given& given, const char* name) {
  const auto lengths = given.integers(name, 0);
  require_domain(!lengths || lengths->size() + 1 == cu.size(), -1, name, ": expected ", cu.size() - 1,
                 " lengths, one for every sequence, got ", lengths ? lengths->size() : 0);
  std::vector<std::vector<int>> all;
  for (std::size_t n = 0; n + 1 < cu.size(); ++n) {
    const int slot = cu[n + 1] - cu[n], count = lengths ? (*lengths)[n] : slot;
    require_domain(count <= slot, -1, name, "[", n, "]: ", count, " rows, and its slot has ", slot);
    std::vector<int>& rows = all.emplace_back(static_cast<std::size_t>(count));
    std::iota(rows.begin(), rows.end(), cu[n]);
  }
  return all;
}

/// The list that says how many rows of that side count.
const char* lengths_of(const Given& given, const char* side) {
  require_domain(!given.has_input("lengths") || !given.has_input(side), -1, side, ": lengths says that already");
  return given.has_input("lengths") ? "lengths" : side;
}

std::vector<std::vector<int>> paged_rows(const Given& given, const Pages& pages) {
  const auto lengths = given.integers("lengths_k", 0);
  const auto table = given.rows_of_integers("page_table");
  require_domain(lengths.has_value(), -1, "page_table: lengths_k is missing, which says how many keys there are");
  require_domain(pages.size > 0, -1, "k: pages without rows");
  require_domain(table->size() == lengths->size(), -1, "page_table: ", table->size(), " rows for ", lengths->size(),
                 " lengths_k");
  std::vector<std::vector<int>> all;
  for (std::size_t n = 0; n < lengths->size(); ++n) {
    const std::vector<int>& row = (*table)[n];
    const int used = ((*lengths)[n] + pages.size - 1) / pages.size;
    require_domain(used <= static_cast<int>(row.size()), -1, "page_table[", n, "]: ", row.size(), " pages, and ",
                   (*lengths)[n], " keys need ", used);
    for (int p = 0; p < used; ++p)
      require_domain(row[static_cast<std::size_t>(p)] >= 0 && row[static_cast<std::size_t>(p)] < pages.count, -1,
                     "page_table[", n, "][", p, "]: there is no page ", row[static_cast<std::size_t>(p)], " of ",
                     pages.count);
    std::vector<int>& keys = all.emplace_back();
    for (int j = 0; j < (*lengths)[n]; ++j)
      keys.push_back(row[static_cast<std::size_t>(j / pages.size)] * pages.size + j % pages.size);
  }
  return all;
}

}  // namespace

Sequences sequences_of(const Given& given, int rows) {
  Sequences all;
  all.packed = given.has_input("cu_seqlens");
  require_domain(all.packed || !given.has_input("lengths"), -1, "lengths: cu_seqlens is missing, which says of what");
  all.queries = all.keys = rows_of(starts(given, "cu_seqlens", rows), given, "lengths");
  return all;
}

Sequences sequences_of(const Given& given, int query_rows, int key_rows, std::optional<Pages> pages) {
  Sequences all;
  const bool both = given.has_input("cu_seqlens"), q = given.has_input("cu_seqlens_q"),
             k = given.has_input("cu_seqlens_k");
  require_domain(!both || (!q && !k), -1,
                 "cu_seqlens: stands for cu_seqlens_q and cu_seqlens_k; one of them is there, too");
  all.packed = both || q || k || pages;
  const char* query_lengths = lengths_of(given, "lengths_q");
  if (pages) {
    require_domain(!both && !k, -1, both ? "cu_seqlens" : "cu_seqlens_k",
                   ": keys lie in pages, where lengths_k counts them");
    require_domain(!given.has_input("lengths"), -1, "lengths: keys lie in pages, where lengths_k counts them");
    all.keys = paged_rows(given, *pages);
    all.queries = rows_of(starts(given, "cu_seqlens_q", query_rows), given, query_lengths);
  } else {
    require_domain(q == k, -1, q ? "cu_seqlens_k" : "cu_seqlens_q", ": missing beside ",
                   q ? "cu_seqlens_q" : "cu_seqlens_k");
    all.queries = rows_of(starts(given, both ? "cu_seqlens" : "cu_seqlens_q", query_rows), given, query_lengths);
    all.keys =
        rows_of(starts(given, both ? "cu_seqlens" : "cu_seqlens_k", key_rows), given, lengths_of(given, "lengths_k"));
  }
  for (const char* name : lengths_names) all.packed = all.packed || given.has_input(name);
  require_domain(all.queries.size() == all.keys.size(), -1, "queries are of ", all.queries.size(),
                 " sequences, keys of ", all.keys.size());
  return all;
}

}  // namespace assay::arguments
