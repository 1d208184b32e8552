#include "tools/court/judge_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "files/case_file.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/cases/problem_file.hpp"
#include "tools/court/case_trial.hpp"
#include "tools/court/why.hpp"
#include "tools/print/escape.hpp"

namespace assay {

struct Judged::Files {
  std::filesystem::path case_file;  ///< "": the case is not a file yet
  Safetensors problem, answer;
  std::string flags;  ///< of the command that judges them
  std::unique_ptr<CaseTrial> trial;
  GivenAnswer got;
};

namespace {

Verdict worst_of(const std::vector<ReportRow>& rows) {
  if (rows.empty()) return Verdict::error;
  Verdict worst = Verdict::pass;
  for (const ReportRow& row : rows) worst = worse_of(worst, row.judgement.verdict);
  return worst;
}

/// Arrays of a problem as tensors of a file, under `prefix` and their names.
void put_all(TensorFile& to, const Room& room, const std::string& prefix, const Arrays& arrays) {
  for (const auto& [name, array] : arrays) {
    const auto fields = prefix.empty() ? room.inputs() : room.outputs();
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&n = name](const RoomFacts::Ranked& ranked) { return ranked.field.name == n; });
    require(field != fields.end(), prefix, name, ": unknown to ", room.name);
    to.put(prefix + name, array, *field, 1, exact_dtype(array));
  }
}

Judged judged(const std::shared_ptr<Judged::Files>& files, const std::string& where, const JudgeBy& by) {
  Judged result;
  result.files = files;
  const Standard standard{.form = by.form, .contract = by.contract, .tile = by.tile, .threads = by.threads};
  files->trial = std::make_unique<CaseTrial>(files->problem, standard, where);
  CaseTrial& trial = *files->trial;
  trial.prepare();
  trial.require_tensors(by.tensors);
  files->flags = trial.flags();
  const auto wanted = [&](const std::string& name) { return asks_for(by.tensors, name); };
  files->got = trial.read(files->answer, by.tensors, "answer");
  result.rows = trial.judge(files->got, wanted, "");
  result.verdict = worst_of(result.rows);
  return result;
}

template <class Judge>
Judged attempted(Judge judge) {
  try {
    return judge();
  } catch (const std::exception& error) {
    return {.verdict = Verdict::error, .reason = error.what()};
  }
}

}  // namespace

Judged judge(const std::filesystem::path& case_file, const std::map<std::string, Array>& answer, const JudgeBy& by) {
  return attempted([&] {
    const auto files = std::make_shared<Judged::Files>();
    files->case_file = std::filesystem::absolute(case_file);
    files->problem = read_safetensors(case_file);
    for (const auto& [name, array] : answer) files->answer.tensors[name] = store(array, "F64");
    return judged(files, case_file.string(), by);
  });
}

Judged judge(const Problem& problem, const Answer& answer, const JudgeBy& by) {
  return attempted([&] {
    const Room* room = find_room(problem.mechanism);
    if (room == nullptr) throw unknown_mechanism(problem.mechanism);
    require(!by.contract.empty(), "a problem names no precision: a contract has to");
    const auto files = std::make_shared<Judged::Files>();
    TensorFile inputs, outputs;
    put_all(inputs, *room, "", problem.inputs);
    put_all(inputs, *room, "d_", problem.cotangents);
    files->problem = std::move(inputs).finish(
        {{"format", "assay-case 1"}, {"mechanism", problem.mechanism}, {"params", json_of(problem.params).dump()}});
    for (const auto& [name, array] : answer.outputs) outputs.put(name, array, answer_field(*room, name), 1, "F64");
    for (const auto& [name, array] : answer.gradients)
      outputs.put("d_" + name, array, answer_field(*room, "d_" + name), 1, "F64");
    files->answer = std::move(outputs).finish({});
    return judged(files, "problem", by);
  });
}

std::string Judged::explain(const std::function<std::filesystem::path()>& where) const {
  if (files == nullptr) return fmt::format("{}: {}", name_of(verdict), plain_text(reason));
  std::filesystem::path problem = files->case_file, answer;
  std::string unsaved;
  try {
    const std::filesystem::path folder = where();
    std::filesystem::create_directories(folder);
    answer = folder / "answer.safetensors";
    if (problem.empty()) write_safetensors(problem = folder / "case.safetensors", files->problem);
    write_safetensors(answer, files->answer);
  } catch (const std::exception& error) {  // of a full disk, for one: the verdict is known all the same
    unsaved = fmt::format("\nwhat it was given could not be saved: {}", plain_text(error.what()));
  }
  const std::string command =
      "build/assay check " + shown_word(problem.string()) + ' ' + shown_word(answer.string()) + ' ' + files->flags;
  std::vector<ReportRow> shown = rows;
  for (ReportRow& row : shown) row.command = command + row.command;
  std::string lines;
  for (const std::string& line : findings_of(*files->trial, files->got, rows).lines()) lines += plain_text(line) + '\n';
  for (const std::string& line : complaints_of(shown)) lines += plain_text(line) + '\n';
  return lines + count_of(shown) + (unsaved.empty() ? "\nreproduce: " + command : unsaved);
}

}  // namespace assay
