#include "tools/print/matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace assay {
namespace {

/// The kernels of one device, the rows of each by precision.
struct Section {
  struct Kernel {
    std::string name;
    std::map<std::string, std::vector<const ReportRow*>> rows;
  };
  std::string device;
  std::vector<std::string> precisions;
  std::vector<Kernel> kernels;
};

std::vector<Section> sections_of(const std::vector<ReportRow>& rows) {
  std::vector<Section> sections;
  for (const ReportRow& row : rows) {
    auto section = std::ranges::find_if(sections, [&](const Section& s) { return s.device == row.device; });
    if (section == sections.end()) section = sections.insert(section, {row.device, {}, {}});
    if (std::find(section->precisions.begin(), section->precisions.end(), row.precision) == section->precisions.end())
      section->precisions.push_back(row.precision);
    const std::string name = shown_mechanism(row) + ' ' + row.form;
    auto kernel = std::ranges::find_if(section->kernels, [&](const Section::Kernel& k) { return k.name == name; });
    if (kernel == section->kernels.end()) kernel = section->kernels.insert(kernel, {name, {}});
    kernel->rows[row.precision].push_back(&row);
  }
  return sections;
}

/// "" where there are no such rows.
std::string cell_of(const Section::Kernel& kernel, const std::string& precision) {
  const auto found = kernel.rows.find(precision);
  if (found == kernel.rows.end()) return "";
  const std::vector<const ReportRow*>& rows = found->second;
  Verdict worst = Verdict::pass;
  for (const ReportRow* row : rows) worst = worse_of(worst, row->judgement.verdict);
  const auto wrong = std::ranges::count_if(rows, [](const ReportRow* row) { return !passes(row->judgement.verdict); });
  return wrong == 0 || rows.front()->tensor.empty() ? std::string(name_of(worst))
                                                    : fmt::format("{} {}", name_of(worst), wrong);
}

std::vector<Table> tables_of(const Section& section, std::size_t width) {
  const std::string head = section.device.empty() || section.device == cpu_executor ? "kernel" : "on " + section.device;
  Table labels = Table().words({head});
  std::size_t widest = head.size(), used = 0;
  for (const Section::Kernel& kernel : section.kernels)
    labels.rows.push_back({kernel.name}), widest = std::max(widest, kernel.name.size());
  std::vector<Table> tables;
  for (const std::string& precision : section.precisions) {
    std::vector<std::string> cells;
    std::size_t longest = precision.size();
    for (const Section::Kernel& kernel : section.kernels)
      cells.push_back(cell_of(kernel, precision)), longest = std::max(longest, cells.back().size());
    constexpr std::size_t gap = 2;
    if (tables.empty() || used + gap + longest > width) tables.push_back(labels), used = widest;
    used += gap + longest;
    tables.back().words({precision});
    for (std::size_t k = 0; k < cells.size(); ++k) tables.back().rows[k].push_back(std::move(cells[k]));
  }
  for (Table& table : tables)
    std::erase_if(table.rows, [](const std::vector<std::string>& line) {
      return std::all_of(line.begin() + 1, line.end(), [](const std::string& cell) { return cell.empty(); });
    });
  return tables;
}

}  // namespace

std::vector<Table> verdict_matrix(const std::vector<ReportRow>& rows, std::size_t width) {
  std::vector<Table> all;
  for (const Section& section : sections_of(rows))
    for (Table& table : tables_of(section, width)) all.push_back(std::move(table));
  return all;
}

}  // namespace assay
