#include "tools/print/sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "files/in_words.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// A percentage in two digits, or in as many as tell it from 100.
std::string share_in_percent(double p) {
  if (p >= 100) return "100%";
  int digits = 2;
  std::string number = fmt::format("{:.{}g}", p, digits);
  while (std::stod(number) >= 100) number = fmt::format("{:.{}g}", p, ++digits);
  return number + '%';
}

/// Numbers of parts that a fault may be in, and not in the last: one, a tenth, half and all others.
std::vector<int> faults_of(const SampledParts& parts) {
  const int others = parts.chosen.size() == 1 ? parts.all() : parts.all() - 1;
  std::vector<int> list;
  for (const int faulty : {1, (parts.all() + 9) / 10, (parts.all() + 1) / 2, others})
    if (faulty <= others && (list.empty() || faulty > list.back())) list.push_back(faulty);
  return list;
}

/// With what probability the block of rows misses a fault of so many blocks.
double rows_miss(const SampledParts& parts, int blocks) { return 1 - double{1} * blocks / parts.blocks(); }

void tell_rows(const SampledParts& parts, Page& page) {
  const auto add = [&](const std::string& line) { page.header.push_back("          " + line); };
  add(fmt::format("of each part query rows {} to {} of {} ({}), by the same seed", parts.first_row,
                  parts.first_row + parts.rows - 1, parts.tokens, share_in_percent(100.0 * parts.rows / parts.tokens)));
  add(fmt::format("chance that these rows miss a fault: of one block of {} {}, of half of all rows {}, of all 0%",
                  counted(parts.block_rows, "row"), share_in_percent(100 * rows_miss(parts, 1)),
                  share_in_percent(100 * rows_miss(parts, (parts.blocks() + 1) / 2))));
}

}  // namespace

std::string name_of(const SampledParts::Part& part, int heads) {
  const int first = part.group * heads;
  return heads == 1 ? text("head ", first, " of sequence ", part.sequence)
                    : text("heads ", first, "..", first + heads - 1, " of sequence ", part.sequence);
}

void tell_sample(const SampledParts& parts, int heads, Page& page) {
  const auto add = [&](const std::string& line) { page.header.push_back(line); };
  const int count = static_cast<int>(parts.chosen.size()), all = parts.all();
  std::string names;
  constexpr std::size_t shown = 8;
  for (std::size_t i = 0; i < std::min(parts.chosen.size(), shown); ++i)
    names += text(names.empty() ? "" : "; ", i, ": ", name_of(parts.chosen[i], heads));
  if (parts.chosen.size() > shown) names += "; ...";
  add(fmt::format("sample    judged {} of {} parts ({}), each as a sequence of its own: {}", count, all,
                  share_in_percent(100.0 * count / all), names));
  add(text("          seed ", parts.seed, parts.was_secret ? ", drawn after the answer was read" : ", given",
           count > 1 ? "; the last part always" : "", "; places in [] are those of the whole case"));
  if (parts.rows > 0) tell_rows(parts, page);
  if (count == all) return;
  std::string missed;
  for (const int faulty : faults_of(parts))
    missed += fmt::format("{} {}",
                          !missed.empty() ? text(", of ", faulty)
                          : count > 1     ? "of 1 part but the last"
                                          : "of 1 part",
                          share_in_percent(100 * parts.miss(faulty)));
  add("          chance that a fault is missed: " + missed);
}

Json facts_of(const SampledParts& parts) {
  Json chosen = Json::array(), missed = Json::array();
  for (const SampledParts::Part& part : parts.chosen)
    chosen.push_back({{"sequence", part.sequence}, {"group", part.group}});
  for (const int faulty : faults_of(parts)) missed.push_back({{"parts", faulty}, {"probability", parts.miss(faulty)}});
  Json facts = {{"parts", parts.all()},
                {"judged", std::move(chosen)},
                {"seed", parts.seed},
                {"secret", parts.was_secret},
                {"fault_missed", std::move(missed)}};
  if (parts.rows > 0)
    facts["rows"] = {{"first", parts.first_row},
                     {"count", parts.rows},
                     {"of", parts.tokens},
                     {"fault_of_one_block_missed", rows_miss(parts, 1)}};
  return facts;
}

}  // namespace assay
