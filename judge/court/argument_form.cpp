#include "judge/court/argument_form.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "arguments/file_case.hpp"
#include "kernels/arguments/rooms.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// What the programs of arguments have before their scores, and no tile program.
constexpr std::string_view untaken[] = {"q_scale", "k_scale", "v_scale"};

/// Form number I of that mechanism's.
template <auto Kernels, std::size_t I>
struct Form {
  static const KernelForm& base() { return Kernels->forms[I]; }
  static std::string obstacle(const Problem& problem) { return obstacle_of_sequences(base(), problem); }
  static Answer run(const Problem& problem, const Policy& policy, int tile) {
    return answer_of_sequences(base(), problem, policy, tile);
  }
  static KernelForm form() {
    KernelForm wrapped = base();
    wrapped.obstacle = obstacle, wrapped.run = run;
    return wrapped;
  }
};

template <auto Kernels>
const KernelRoom& forms_of_cases() {
  static const std::vector<KernelForm> forms = {Form<Kernels, 0>::form(), Form<Kernels, 1>::form()};
  static const std::string name = std::string(Kernels->name) + std::string(arguments::room_suffix);
  static const KernelRoom room = {name, forms, Kernels->folder};
  return room;
}

}  // namespace

const KernelRoom* find_argument_forms(std::string_view room) {
  const std::string_view mechanism = arguments::without_suffix(room);
  if (mechanism == "softmax_attention") return &forms_of_cases<&tile::kernel_rooms::softmax_attention_with_arguments>();
  if (mechanism == "parallax") return &forms_of_cases<&tile::kernel_rooms::parallax_with_arguments>();
  return nullptr;
}

Answer answer_of_sequences(const KernelForm& form, const Problem& problem, const Policy& policy, int tile) {
  const auto file = arguments::FileCase::of(problem);
  const auto& sequences = file->folded_doubles().problems();
  const BasicAnswer<double> whole = arguments::folded_answer<double>(
      file->plan(), file->has_gradients() && form.has_gradients,
      [&](std::size_t n) {
        Policy own = policy;
        if (n > 0) own.seed = RandomBits{policy.seed}.at(~static_cast<std::uint64_t>(n));
        return form.run(sequences[n], own, tile);
      },
      [](double a, double b) { return a + b; });
  return file->judged_answer(whole);
}

std::string obstacle_of_sequences(const KernelForm& form, const Problem& problem) {
  for (const std::string_view name : untaken)
    if (problem.inputs.contains(name)) return text("no tile program takes ", name);
  if (problem.params.contains("value_dim")) return "no tile program takes value_dim";
  try {
    for (const Problem& sequence : arguments::FileCase::of(problem)->folded_doubles().problems())
      if (std::string why = form.obstacle(sequence); !why.empty()) return why;
  } catch (const Refusal& refusal) {
    return refusal.what();
  }
  return "";
}

}  // namespace assay
