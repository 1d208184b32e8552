#include "judge/trial/argument_trial.hpp"

#include <algorithm>
#include <cmath>

#include "arguments/file_case.hpp"
#include "judge/court/argument_form.hpp"

namespace assay {

Safetensors file_of_answer(const ProblemFile& file, const Answer& answer, Format precision) {
  constexpr std::string_view narrow[] = {"o", "d_q", "d_k", "d_v", "d_rho", "d_p", "d_z"};
  Safetensors stored;
  const auto put = [&](const std::string& name, const Array& array) {
    const Scattered& place = file.scattered.at(name);
    Array whole(place.shape);
    for (std::size_t i = 0; i < array.data.size(); ++i) whole.data[place.at[i]] = array.data[i];
    for (const std::size_t i : place.endless) whole.data[place.at[i]] = -INFINITY;
    const bool is_narrow = std::find(std::begin(narrow), std::end(narrow), name) != std::end(narrow);
    stored.tensors[name] = store(whole, dtype_of(is_narrow || precision == Format::fp64 ? precision : Format::fp32));
  };
  for (const auto& [name, array] : answer.outputs) put(name, array);
  for (const auto& [name, array] : answer.gradients) put("d_" + name, array);
  return stored;
}

Judged judged_answer(const ArgumentCase& one, const KernelRoom& room, std::string_view fault,
                     const std::string& contract, Cache* cache, int threads) {
  const Format precision = one.request.precision;
  const Safetensors posed = arguments::draw_case(one.request, ASSAY_VERSION);
  const ProblemFile file = read_problem(posed, std::string(one.name));
  const auto form = std::ranges::find_if(room.forms, [&](const KernelForm& f) { return f.name == one.form; });
  require(form != room.forms.end(), room.name, ": has no form ", one.form);
  Policy policy = Policy::of(form->sites, precision);
  policy.fault = fault, policy.threads = threads;
  const Answer answer = room.name.ends_with(arguments::room_suffix)
                            ? form->run(file.problem, policy, 0)
                            : answer_of_sequences(*form, file.problem, policy, 0);
  return judge(posed, file_of_answer(file, answer, precision),
               {.contract = contract, .form = std::string(one.form), .threads = threads, .cache = cache});
}

}  // namespace assay
