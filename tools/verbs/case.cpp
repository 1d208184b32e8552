// assay case: one seeded problem as a safetensors file, for the kernel under test and for `assay oracle`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "files/input_file.hpp"
#include "files/problem_file.hpp"
#include "files/scale_param.hpp"
#include "judge/court/seeded_case.hpp"
#include "kernels/core/kernel_room.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/verbs/command.hpp"

namespace assay {
namespace case_verb {
namespace {

struct CaseOptions {
  std::string mechanism, shape, precision{name_of(Format::bf16)}, output = "-";
  CaseFlags flags;
  std::vector<std::string> fill, with;
  std::string layout = "bthd";
  bool without_cotangents = false;
};

/// Throws InputError if a number that was typed for an input is none that the mechanism takes.
void refuse_typed(const Safetensors& made, const std::string& where, const char* flag) {
  const ProblemFile file = read_problem(made, where);
  const CaseResult known = file.refusal ? *file.refusal : attempt([&] { file.room->values(file.problem, Tier::fp64); });
  require(known.status == Status::ok, flag, ": ", known.message);
}

/// Why no kernel of this build takes such a case; "" if one does, or if the mechanism has none at all.
std::string obstacles_of(const Room& room, CaseSpec spec) {
  const KernelRoom* kernels = find_kernels(kernel_rooms(), room.name);
  if (kernels == nullptr) return "";
  spec.shape.batch = spec.shape.seq_len = 1, spec.shape.query_len = 0;
  const Problem one_token = room.make(spec);
  std::string obstacles;
  for (const KernelForm& form : kernels->forms) {
    const std::string obstacle = form.obstacle(one_token);
    if (obstacle.empty()) return "";
    if (obstacles.empty()) obstacles = obstacle;
  }
  return obstacles;
}

SeededCase seeded_case(const CaseOptions& options) {
  SeededCase seeded{.room = find_room(options.mechanism),
                    .spec = {.mechanism = options.mechanism,
                             .shape = shape_from(options.shape),
                             .precision = *format_from(options.precision),
                             .seed = options.flags.seed,
                             .params = params_of(options.flags),
                             .layout = options.layout,
                             .cotangents = !options.without_cotangents}};
  arguments::set_style(seeded.spec, options.flags.style);
  for (const std::string& flag : options.fill) {
    Fill::value_type filled = fill_from(flag);
    seeded.fill.insert_or_assign(filled.first, filled.second);
  }
  for (const std::string& flag : options.with) seeded.spec.with.push_back(with_from(flag));
  return seeded;
}

int run_case(const CaseOptions& options, Console& console) {
  require(options.output != "-" || !console.shows_output,
          "case: standard output is a terminal, and a case is no text; -o FILE says where it goes");
  SeededCase seeded = seeded_case(options);
  const bool has_arguments = seeded.has_arguments();
  if (!has_arguments) {
    const auto room = room_named(options.mechanism, "mechanism");
    take_scale(*room, seeded.spec.params);
    refuse_params(*room, seeded.spec.params, seeded.spec.shape);
  }
  OutputFile file(options.output, console.out);
  const Safetensors made = seeded.make();
  if (!seeded.fill.empty())
    refuse_typed(made, options.output, "--fill");
  else if (!has_arguments && !seeded.spec.with.empty())
    refuse_typed(made, options.output, "--with");
  file.commit([&](std::ostream& out) { write_safetensors(out, made); });
  if (has_arguments) return exit_passed;
  if (const std::string obstacle = obstacles_of(*seeded.room, seeded.spec); !obstacle.empty())
    console.err << "note: no kernel of this build takes this case: " << obstacle
                << "; `assay check` judges it by the model alone, and no contract can be asked\n";
  return exit_passed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto options = std::make_shared<CaseOptions>();
  app.add_option("mechanism,--mechanism", options->mechanism, "the mechanism; `assay list` names them")->required();
  app.add_option("--shape", options->shape,
                 "B,T,H,d or B,T,H,K,V; 1,4/128,8/2,64 has 4 queries on 128 keys and 8 heads on 2 key/value heads")
      ->required();
  add_choice_flag(app, "--precision", options->precision, "the precision of queries, keys, values and cotangents",
                  name_list(case_precisions));
  add_argument_flags(app, options->flags, options->with, options->layout);
  app.add_option("--fill", options->fill, "fill an input with one number, NAME=NUMBER; may be given several times")
      ->allow_extra_args(false);
  app.add_flag("--no-cotangents", options->without_cotangents,
               "leave out the cotangents d_o, ...: the answer then has no gradients");
  app.add_option("-o,--output", options->output, "where the case goes; - is standard output")->capture_default_str();
  return [options](Console& console) { return run_case(*options, console); };
}

}  // namespace
}  // namespace case_verb

// `case` is a word of the language.
const Command commands::make_case = {"case", "write a seeded problem as a safetensors file", case_verb::add};

}  // namespace assay
