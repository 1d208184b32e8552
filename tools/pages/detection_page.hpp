#pragma once
// Measurements of `assay-lab mutants`, as tables and as records/detection.md.
#include <optional>
#include <string>
#include <vector>

#include "judge/trial/kill_table.hpp"
#include "tools/print/table.hpp"

namespace assay {

struct Detection {
  KillTable kills;
  std::optional<HealthyTable> healthy;
  std::vector<ShrinkRow> smallest;
  std::vector<PowerRow> power;

  /// Whether every planted mutant is killed that shows a bit, and no healthy kernel is rejected. Held-out mutants
  /// measure: they need not be killed.
  bool passed() const;
};

/// The tables as text, with a line end.
std::string print(const Detection& detection, TableFormat format);

/// As a browser shows them: one file, with the kill table as a drawing.
std::string html_of(const Detection& detection);

/// records/detection.md.
std::string detection_page(const Detection& detection);

}  // namespace assay
