// assay oracle CASES -o OUT: exact answers to the cases of a file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "oracles/core/case_file.hpp"
#include "tools/command.hpp"

namespace assay {
namespace {

struct OracleOptions {
  std::string cases, output = "-";
  std::string tier;
  DecimalOptions decimals;
  bool skip_diagnostics = false;
  unsigned threads = 0;
};

/// Every case answered, in order; whole cases are shared out among the threads, so their number changes no digit.
std::vector<Json> answers(const std::vector<Case>& cases, const DecimalOptions& options, unsigned threads,
                          Console& console) {
  std::vector<Json> records(cases.size());
  Progress progress(console, cases.size());
  std::mutex progress_mutex;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < cases.size(); i = next++) {
      records[i] = result_record(cases[i], answer_case(cases[i], options));
      const std::scoped_lock lock(progress_mutex);
      progress.step(cases[i].problem.id);
    }
  };
  std::vector<std::future<void>> workers;
  for (unsigned i = 0; i < threads; ++i) workers.push_back(std::async(std::launch::async, work));
  for (std::future<void>& worker : workers) worker.get();
  return records;
}

int run_oracle(const OracleOptions& options, Console& console) {
  DecimalOptions decimals = options.decimals;
  decimals.diagnostics = !options.skip_diagnostics;
  decimals.tier = tier_from(options.tier);
  const std::vector<Case> cases = load_cases(options.cases);
  OutputFile file(options.output, console.out);
  const unsigned threads = options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  file.commit(case_file_text(answers(cases, decimals, threads, console)));
  return exit_passed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto options = std::make_shared<OracleOptions>();
  app.add_option("cases", options->cases, "the case file (JSON)")->required();
  app.add_option("-o,--output", options->output, "where the answers go; - is standard output")->capture_default_str();
  app.add_option("--digits", options->decimals.digits, "significant digits, rounded to nearest")
      ->check(CLI::Range(1, 150))
      ->capture_default_str();
  std::vector<std::string> tiers;
  for (const Tier tier : all_tiers) tiers.emplace_back(name_of(tier));
  app.add_option("--tier", options->tier,
                 "compute in this precision alone, without the check of every digit against a second one")
      ->check(CLI::IsMember(tiers));
  app.add_option("--threads", options->threads, "cases answered at once; 0 means one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_flag("--no-diagnostics", options->skip_diagnostics, "leave out diagnostics.* and score, which cost most");
  return [options](Console& console) { return run_oracle(*options, console); };
}

}  // namespace

namespace commands {
extern const Command oracle = {"oracle", "answer the cases of a file exactly", add};
}

}  // namespace assay
