// assay oracle CASES -o OUT: exact answers to the cases of a JSON file, or to the problem of a safetensors file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "files/case_file.hpp"
#include "files/problem_file.hpp"
#include "oracles/core/in_order.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/verbs/command.hpp"

namespace assay {
namespace oracle_verb {
namespace {

struct OracleOptions {
  std::string cases, output = "-";
  std::string tier, lambda0, mechanism;
  DecimalOptions decimals;
  bool skip_diagnostics = false;
  bool names_digits = false;  ///< --digits was typed
  unsigned threads = 0;
};

/// Sets --lambda0 in every problem that has that setting and is silent about it.
template <class X>
bool set_lambda0(const std::string& lambda0, BasicProblem<X>& problem) {
  if (lambda0.empty()) return false;
  const auto room = find_room(problem.mechanism);
  return room != nullptr && takes(*room, "lambda0") && problem.params.emplace("lambda0", lambda0).second;
}

/// Every case answered, in order; whole cases are shared out among the threads, so their number changes no digit.
std::vector<Json> answers(const std::vector<Case>& cases, const DecimalOptions& options, int threads,
                          Console& console) {
  std::vector<Json> records;
  Progress progress(console, cases.size());
  in_order(
      cases.size(), {.threads = threads},
      [&](std::size_t i) { return result_record(cases[i], answer_case(cases[i], options)); },
      [&](std::size_t, Json&& record) { records.push_back(std::move(record)); },
      [&](std::size_t i) { progress.step(cases[i].problem.id); });
  return records;
}

int answer_cases(const OracleOptions& options, int threads, Console& console) {
  DecimalOptions decimals = options.decimals;
  decimals.diagnostics = !options.skip_diagnostics;
  decimals.tier = tier_from(options.tier);
  std::vector<Case> cases = load_cases(options.cases);
  if (!options.mechanism.empty()) room_named(options.mechanism, "--mechanism");
  for (Case& c : cases)
    if (!options.mechanism.empty()) c.record["mechanism"] = c.problem.mechanism = options.mechanism;
  for (Case& c : cases)
    if (set_lambda0(options.lambda0, c.problem)) c.record["params"]["lambda0"] = options.lambda0;
  OutputFile file(options.output, console.out, {options.cases});
  file.commit(case_file_text(answers(cases, decimals, threads, console)));
  return exit_passed;
}

int answer_problem(const OracleOptions& options, int threads, Console& console) {
  require(options.output != "-" || !console.shows_output,
          "oracle: standard output is a terminal, and a safetensors answer is no text; -o FILE says where it goes");
  require(!options.names_digits, "--digits: the answer to a safetensors file is pairs of doubles");
  ProblemFile problem = read_problem(with_mechanism(read_safetensors(options.cases), options.mechanism), options.cases);
  if (set_lambda0(options.lambda0, problem.problem))
    problem.metadata["params"] = json_of(problem.problem.params).dump();
  OutputFile file(options.output, console.out, {options.cases});
  const Safetensors answer =
      answer_file(problem, tier_from(options.tier), threads, ASSAY_VERSION, Progress(console).steps());
  file.commit([&](std::ostream& out) { write_safetensors(out, answer); });
  return exit_passed;
}

int run_oracle(const OracleOptions& options, Console& console) {
  const auto threads = words::threads_or_all(options.threads);
  return is_safetensors(options.cases) ? answer_problem(options, threads, console)
                                       : answer_cases(options, threads, console);
}

std::function<int(Console&)> add(CLI::App& app) {
  auto options = std::make_shared<OracleOptions>();
  app.add_option("cases", options->cases, "the case file: JSON, or one problem as safetensors")->required();
  app.add_option("-o,--output", options->output, "where the answers go; - is standard output")->capture_default_str();
  app.add_option("--digits", options->decimals.digits,
                 "significant digits, rounded to nearest; a safetensors answer has pairs of doubles, about 32 digits")
      ->check(whole_in(1, 150))
      ->capture_default_str();
  app.add_option(
         "--tier", options->tier,
         "compute in this precision; w2, w3, w4 and ball prove a bound for every tensor, and take more words or bits "
         "where they must; without a tier every digit is proven")
      ->check(one_of(name_list(all_tiers)));
  add_mechanism_flag(app, options->mechanism);
  app.add_option(
         "--lambda0", options->lambda0,
         "the answer to a row of lla that a zero in lambda makes singular, unless the case says it: refuse the row, "
         "or take the limit of a ridge that vanishes there")
      ->check(one_of({"refuse", "limit"}));
  app.add_option("--threads", options->threads,
                 "cases of a JSON file, or heads of a safetensors file, answered at once; 0 means one per core")
      ->check(whole_in(0, 1024))
      ->capture_default_str();
  app.add_flag("--no-diagnostics", options->skip_diagnostics, "leave out diagnostics.* and score, which cost most");
  return [options, &app](Console& console) {
    options->names_digits = app.count("--digits") > 0;
    return run_oracle(*options, console);
  };
}

}  // namespace
}  // namespace oracle_verb

const Command commands::oracle = {"oracle", "answer the cases of a JSON or safetensors file exactly", oracle_verb::add};

}  // namespace assay
