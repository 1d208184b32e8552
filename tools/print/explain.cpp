#include "tools/print/explain.hpp"

#include <fmt/format.h>

#include <exception>
#include <vector>

#include "files/shown.hpp"
#include "tools/print/escape.hpp"
#include "tools/print/rows.hpp"

namespace assay {

std::string explain(const Judged& judged, const std::function<std::filesystem::path()>& where) {
  if (judged.exhibits == nullptr) return fmt::format("{}: {}", name_of(judged.verdict), plain_text(judged.reason));
  const Exhibits& exhibits = *judged.exhibits;
  std::filesystem::path problem = exhibits.case_file, answer;
  std::string unsaved;
  try {
    const std::filesystem::path folder = where();
    std::filesystem::create_directories(folder);
    answer = folder / "answer.safetensors";
    if (problem.empty()) write_safetensors(problem = folder / "case.safetensors", exhibits.problem);
    write_safetensors(answer, exhibits.answer);
  } catch (const std::exception& error) {  // of a full disk, for one: the verdict is known all the same
    unsaved = fmt::format("\nwhat it was given could not be saved: {}", plain_text(error.what()));
  }
  const std::string command =
      "build/assay check " + shown_word(problem.string()) + ' ' + shown_word(answer.string()) + ' ' + exhibits.flags;
  std::vector<ReportRow> shown = judged.rows;
  for (ReportRow& row : shown) row.command = command + row.command;
  const std::string lines =
      text_of_lines(wrapped(judged.why().findings())) + text_of_lines(wrapped(complaints_of(shown)));
  return lines + count_of(shown) + (unsaved.empty() ? "\nreproduce: " + command : unsaved);
}

}  // namespace assay
