#include "judge/court/judge_answer.hpp"

#include <exception>

#include "files/case_file.hpp"
#include "files/names.hpp"
#include "files/problem_file.hpp"
#include "oracles/core/room.hpp"

namespace assay {
namespace {

/// Arrays of a problem as tensors of a file, under `prefix` and their names.
void put_all(TensorFile& to, const Room& room, const std::string& prefix, const Arrays& arrays) {
  for (const auto& [name, array] : arrays) {
    const auto fields = prefix.empty() ? room.inputs() : room.outputs();
    const RoomFacts::Ranked* field = find_field(fields, name);
    require(field != nullptr, prefix, name, ": unknown to ", room.name);
    to.put(prefix + name, array, *field, 1, exact_dtype(array));
  }
}

/// Judges what the exhibits have as problem and answer.
Judged judged(const std::shared_ptr<Exhibits>& exhibits, const std::string& where, const JudgeBy& by) {
  Judged result;
  result.exhibits = exhibits;
  const Standard standard{.mechanism = by.mechanism,
                          .form = by.form,
                          .precision = by.precision,
                          .contract = by.contract,
                          .tile = by.tile,
                          .threads = by.threads,
                          .false_alarms = by.false_alarms,
                          .detects = by.detects,
                          .strict_dtypes = by.strict_dtypes};
  exhibits->trial = std::make_unique<CaseTrial>(exhibits->problem, standard, where);
  CaseTrial& trial = *exhibits->trial;
  trial.prepare({}, by.cache);
  trial.require_tensors(by.tensors);
  exhibits->flags = trial.flags();
  const auto wanted = [&](const std::string& name) { return asks_for(by.tensors, name); };
  exhibits->got = trial.read(exhibits->answer, by.tensors, "answer");
  result.rows = trial.judge(exhibits->got, wanted, "");
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

Judged judge(const Safetensors& problem, const Safetensors& answer, const JudgeBy& by, const std::string& name) {
  return attempted([&] {
    const auto exhibits = std::make_shared<Exhibits>();
    exhibits->problem = problem, exhibits->answer = answer;
    return judged(exhibits, name, by);
  });
}

Judged judge(const std::filesystem::path& case_file, const std::map<std::string, Array>& answer, const JudgeBy& by) {
  return attempted([&] {
    const auto exhibits = std::make_shared<Exhibits>();
    exhibits->case_file = std::filesystem::absolute(case_file);
    exhibits->problem = read_safetensors(case_file);
    for (const auto& [name, array] : answer) exhibits->answer.tensors[name] = store(array, "F64");
    return judged(exhibits, case_file.string(), by);
  });
}

Judged judge(const Problem& problem, const Answer& answer, const JudgeBy& by) {
  return attempted([&] {
    const auto room = find_room(problem.mechanism);
    if (room == nullptr) throw unknown_mechanism(problem.mechanism);
    require(!by.contract.empty() || !by.precision.empty(), "a problem names no precision: a contract has to");
    const auto exhibits = std::make_shared<Exhibits>();
    TensorFile inputs, outputs;
    put_all(inputs, *room, "", problem.inputs);
    put_all(inputs, *room, "d_", problem.cotangents);
    exhibits->problem = std::move(inputs).finish(
        {{"format", "assay-case 1"}, {"mechanism", problem.mechanism}, {"params", json_of(problem.params).dump()}});
    for (const auto& [name, array] : answer.outputs) outputs.put(name, array, answer_field(*room, name), 1, "F64");
    for (const auto& [name, array] : answer.gradients)
      outputs.put("d_" + name, array, answer_field(*room, "d_" + name), 1, "F64");
    exhibits->answer = std::move(outputs).finish({});
    return judged(exhibits, "problem", by);
  });
}

Why Judged::why(std::optional<double> seconds) const {
  if (exhibits == nullptr) return {};
  OtherContracts others;
  return why_it_fails(*exhibits->trial, exhibits->got, rows, others, seconds);
}

}  // namespace assay
