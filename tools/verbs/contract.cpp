// assay contract infer CASE OUT: which contract a kernel keeps, read off what it answered.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>

#include "files/in_words.hpp"
#include "files/names.hpp"
#include "judge/contract/site_meanings.hpp"
#include "judge/court/case_trial.hpp"
#include "judge/verdict/infer.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/print/escape.hpp"
#include "tools/verbs/command.hpp"

namespace assay {
namespace contract_verb {
namespace {

struct Flags {
  std::string what;
  std::vector<std::string> files, tensors;
  Standard standard;
  std::string name = "inferred", output;
  double limit = 600;
};

/// With at least one case, all of one mechanism, form and precision.
std::vector<std::unique_ptr<CaseTrial>> trials_of(const Flags& flags, Console& console) {
  std::vector<std::unique_ptr<CaseTrial>> trials;
  Progress progress(console);
  for (std::size_t f = 0; f < flags.files.size(); f += 2) {
    const std::string& file = flags.files[f];
    trials.push_back(std::make_unique<CaseTrial>(read_case(file), flags.standard, file));
    CaseTrial& trial = *trials.back();
    trial.prepare(progress.steps());
    trial.require_tensors(flags.tensors);
    require(trial.kernel().form != nullptr, file, ": no kernel of this build takes it, so it has no sites to infer");
    const KernelUnderTest &first = trials.front()->kernel(), &kernel = trial.kernel();
    require(kernel.form == first.form && kernel.precision == first.precision, file, ": another mechanism, form or ",
            "precision than ", flags.files.front(), "; a contract is inferred for one kernel in one precision");
  }
  return trials;
}

/// The named contracts that the answers to all cases keep.
std::vector<std::string> named_contracts_of(const std::vector<std::unique_ptr<CaseTrial>>& trials,
                                            const std::vector<GivenAnswer>& answers, const Flags& flags,
                                            const std::function<bool()>& stop) {
  const auto wanted = [&](const std::string& tensor) { return asks_for(flags.tensors, tensor); };
  std::vector<std::string> kept = trials.front()->kept_contracts(answers.front(), wanted, stop);
  for (std::size_t n = 1; n < trials.size() && !kept.empty(); ++n) {
    const std::vector<std::string> others = trials[n]->kept_contracts(answers[n], wanted, stop);
    std::erase_if(kept, [&](const std::string& name) { return std::ranges::find(others, name) == others.end(); });
  }
  return kept;
}

int run_infer(const Flags& flags, Console& console) {
  require(flags.files.size() % 2 == 0, "contract infer: expected pairs CASE OUT, got ",
          counted(flags.files.size(), "file"));
  std::optional<OutputFile> output;
  if (!flags.output.empty()) output.emplace(flags.output, console.out, flags.files);
  parse_contract(json_of({.contract = Contract::of(Format::bf16)}, flags.name), "--name");  // refuses a bad one
  const auto trials = trials_of(flags, console);
  std::vector<GivenAnswer> answers;
  std::vector<AnsweredCase> cases;
  for (std::size_t n = 0; n < trials.size(); ++n) {
    const std::string& file = flags.files[2 * n + 1];
    answers.push_back(trials[n]->read(read_safetensors(file), flags.tensors, file));
    const GivenAnswer& got = answers.back();
    cases.push_back({trials[n]->file().problem, trials[n]->oracle(), flat(got.answer), got.stored});
  }
  const auto start = std::chrono::steady_clock::now();
  const auto stop = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > flags.limit;
  };
  // The tile shape that takes the fewest coarser sites is chosen.
  InferredContract found;
  KernelUnderTest kernel = trials.front()->kernel();
  for (const int tile : trials.front()->tiles()) {
    kernel.tile = tile;
    InferredContract of_tile = infer_contract(cases, kernel, stop);
    const bool fewer = of_tile.contract.rules.size() < found.contract.rules.size();
    if (tile == trials.front()->tiles().front() || (of_tile.explained && (!found.explained || fewer)))
      found = std::move(of_tile);
    if (found.explained && found.contract.rules.empty()) break;
  }
  std::ostream& words = flags.output == "-" ? console.err : console.out;
  if (!found.explained && found.narrow_state.empty())
    if (const auto named = named_contracts_of(trials, answers, flags, stop); !named.empty()) {
      words << "the answers keep " << names_in(named) << ": --contract " << named.front()
            << " judges by it; no site in a coarser format explains more\n";
      return exit_passed;
    }
  if (!found.explained) {
    words << "no contract explains this: " << found.obstacle << '\n';
    return exit_failed;
  }
  const std::string contract = words_of(found.contract), precision = name_of(kernel.precision);
  if (contract.empty())
    words << "the answers keep the contract " << precision << ": no site is coarser\n";
  else
    words << fmt::format(
        "the answers are those of the contract {} with {}: a run that rounds there has {:.0f}% of their squared error "
        "on "
        "what it was not fitted to (fitted to {})\n",
        precision, contract, 100 * found.predicted, found.fitted);
  for (const Contract::Rule& rule : found.contract.rules)
    if (const SiteMeaning* meaning =
            find_meaning(trials.front()->file().problem.mechanism, kernel.form->name, rule.site))
      words << "  " << rule.site << ": " << meaning->words << '\n';
  const std::string json = json_of(found, flags.name);
  if (output) output->commit(json);
  if (output && flags.output != "-") words << "written to " << plain_text(flags.output) << '\n';
  return exit_passed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("infer", flags->what, "looks for the fewest sites whose coarser rounding explains the answers")
      ->required()
      ->check(CLI::IsMember({"infer"}));
  app.add_option("files", flags->files, "pairs CASE OUT: problems and their answers")->required();
  app.add_option("--form", flags->standard.form, "the kernel form that has the sites; without, the first that fits");
  app.add_option("--precision", flags->standard.precision, "the precision of inputs and outputs; without, the case's")
      ->check(one_of(name_list(case_precisions)));
  app.add_option("--tile", flags->standard.tile, "the tile shape that answered; without, any of the form's");
  add_list_flag(app, "--tensor", flags->tensors,
                "only this tensor of the answers, may be given several times; others may be missing");
  app.add_option("--name", flags->name, "the contract's name")->capture_default_str();
  app.add_option("--limit", flags->limit, "seconds that the search may take")
      ->check(number_in(shortest_effort, longest_limit))
      ->capture_default_str();
  add_threads_flag(app, flags->standard.threads);
  app.add_option("-o,--output", flags->output, "where the contract goes, as JSON; - is standard output");
  return [flags](Console& console) { return run_infer(*flags, console); };
}

}  // namespace
}  // namespace contract_verb

const Command commands::contract = {"contract", "infer the contract that a kernel keeps from its answers",
                                    contract_verb::add};

}  // namespace assay
