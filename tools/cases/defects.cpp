#include "tools/cases/defects.hpp"

#include <utility>

#include "files/problem_file.hpp"
#include "judge/contract/contract.hpp"
#include "kernels/core/kernel_room.hpp"

namespace assay {
namespace {

SeededCase seeded(const char* mechanism, const Shape& shape, const Params& params, const Fill& fill, bool cotangents) {
  CaseSpec spec{.mechanism = mechanism, .shape = shape, .params = params, .cotangents = cotangents};
  return {find_room(mechanism), std::move(spec), fill};
}

const KernelForm& form_of(const Defect& defect, std::string_view name) {
  const KernelRoom& room = *find_kernels(kernel_rooms(), defect.problem.spec.mechanism);
  for (const KernelForm& form : room.forms)
    if (form.name == name) return form;
  return room.forms.front();
}

Safetensors answer_of(const KernelForm& form, const Policy& policy, ProblemFile problem) {
  if (!form.has_gradients) problem.problem.cotangents.clear();
  const Answer answer = form.run(problem.problem, policy, 0);
  TensorFile file;
  const auto put_all = [&](const std::string& prefix, const Arrays& arrays) {
    for (const auto& [name, array] : arrays)
      file.put(prefix + name, array, answer_field(*problem.room, prefix + name), problem.batch, exact_dtype(array));
  };
  put_all("", answer.outputs);
  put_all("d_", answer.gradients);
  return std::move(file).finish({{"format", "assay-answer 1"},
                                 {"mechanism", problem.problem.mechanism},
                                 {"generator", "assay fixtures generate --defects"},
                                 {"inputs_sha256", problem.digests.dump()}});
}

}  // namespace

const std::vector<Defect>& published_defects() {
  static const std::vector<Defect> all = {
      {.name = "mdn_log_domain",
       .problem = seeded("mdn", {1, 128, 2, 1, 16, 8, 0}, {}, {{"log_alpha", "-0.05"}, {"log_mu", "-0.5"}}, false),
       .form = "log_domain",
       .fault = "",
       .contract = ""},
      {.name = "lla_ridge_detached",
       .problem = seeded("lla", {1, 48, 1, 1, 8, 8, 0}, {{"lambda_mode", "mass"}}, {{"lambda", "1"}}, true),
       .form = "",
       .fault = "ridge_detached",
       .contract = ""},
      {.name = "deltanet_bf16_state",
       .problem = seeded("deltanet", {1, 256, 2, 1, 16, 8, 0}, {}, {}, false),
       .form = "",
       .fault = "",
       .contract = "bf16_state_per_token"},
  };
  return all;
}

std::map<std::string, Safetensors> files_of(const Defect& defect) {
  const Safetensors problem = defect.problem.make();
  const ProblemFile posed = read_problem(problem, defect.name);
  const Contract healthy = Contract::of(defect.problem.spec.precision);
  const Contract kept = defect.contract.empty() ? healthy : *find_contract(defect.contract);
  const KernelForm& right = form_of(defect, "");
  const KernelForm& wrong = form_of(defect, defect.form);
  Policy policy = kept.policy(wrong.sites);
  policy.fault = defect.fault;
  return {{"case.safetensors", problem},
          {"defective.safetensors", answer_of(wrong, policy, posed)},
          {"healthy.safetensors", answer_of(right, healthy.policy(right.sites), posed)}};
}

}  // namespace assay
