// assay bench oracle: what certified answers of the engines cost, beside a plain double loop and cpp_bin_float_50;
// assay bench rooms: what every room costs in every tier. Each in one run.
#include "oracles/words/bench.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "reference/core/error.hpp"
#include "tools/bench_rooms.hpp"
#include "tools/case_flags.hpp"
#include "tools/command.hpp"
#include "tools/table.hpp"

namespace assay {
namespace {

struct BenchOptions {
  std::vector<std::string> mechanisms = {"gated_deltanet", "lla"};
  std::size_t tokens = 0, dim = 0;
  std::string format{name_of(TableFormat::table)}, output = "-";
};

struct Measured {
  words::BenchSize size;
  words::BenchRow row;
};

/// How cost grows with T and with d shows in the first three; one size where it is asked for.
std::vector<words::BenchSize> sizes_of(const BenchOptions& options) {
  if (options.tokens > 0 || options.dim > 0)
    return {{options.tokens > 0 ? options.tokens : 1024, options.dim > 0 ? options.dim : 128, 1}};
  return {{512, 64, 1}, {1024, 64, 1}, {1024, 128, 1}};
}

Table table_of(const std::vector<Measured>& all) {
  Table table{{{"mechanism"},
               {"T", true},
               {"d", true},
               {"tier"},
               {"time per token", true},
               {"of double loop", true},
               {"faster than cpp_bin_float_50", true},
               {"bound", true}},
              {}};
  for (const auto& [size, row] : all)
    table.rows.push_back({row.mechanism, std::to_string(size.tokens), std::to_string(size.dim), row.tier,
                          fmt::format("{:.3g} us", 1e6 * row.seconds), fmt::format("{:.3g}", row.per_double),
                          fmt::format("{:.3g}x", row.faster),
                          row.log2_bound == 0 ? "" : fmt::format("2^{:.1f}", row.log2_bound)});
  return table;
}

std::string print(const std::vector<Measured>& all, TableFormat format) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  switch (format) {
    case TableFormat::json:
      for (const auto& [size, row] : all)
        list.push_back({{"mechanism", row.mechanism},
                        {"tokens", size.tokens},
                        {"dim", size.dim},
                        {"tier", row.tier},
                        {"seconds_per_token", row.seconds},
                        {"of_double_loop", row.per_double},
                        {"faster_than_cpp_bin_float_50", row.faster},
                        {"log2_bound", row.log2_bound}});
      return nlohmann::ordered_json{{"format", "assay-bench"}, {"version", 1}, {"rows", std::move(list)}}.dump(2) +
             '\n';
    case TableFormat::csv:
      return table_of(all).csv();
    case TableFormat::markdown:
      return table_of(all).markdown();
    case TableFormat::table:
      break;
  }
  return "assay bench oracle: processor time on one core, forward, one head, all in one run\n"
         "bound: worst proven bound over the largest output; lla: the last 32 queries\n\n" +
         table_of(all).text();
}

int run_bench(const BenchOptions& options, Console& console) {
  const std::vector<words::BenchSize> sizes = sizes_of(options);
  OutputFile file(options.output, console.out);
  std::vector<Measured> all;
  {
    Progress progress(console, sizes.size() * options.mechanisms.size());
    for (const std::string& mechanism : options.mechanisms)
      for (const words::BenchSize& size : sizes) {
        for (words::BenchRow& row : mechanism == "lla" ? bench_lla(size) : bench_delta(size))
          all.push_back({size, std::move(row)});
        progress.step(mechanism);
      }
  }
  file.commit(print(all, *table_format_from(options.format)));
  return exit_passed;
}

struct RoomsOptions {
  std::vector<std::string> mechanisms;
  int tokens = 128, dim = 64;
  std::string format{name_of(TableFormat::table)}, output = "-";
};

Table table_of(const std::vector<RoomCost>& all) {
  Table table{{{"mechanism"},
               {"tier"},
               {"time per token and head", true},
               {"of double", true},
               {"faster than mp50", true},
               {"than cpp_bin_float_50", true},
               {"bound", true},
               {"peak memory", true}},
              {}};
  for (const RoomCost& row : all)
    table.rows.push_back({row.mechanism, row.tier, fmt::format("{:.3g} us", 1e6 * row.seconds),
                          fmt::format("{:.3g}", row.per_double), fmt::format("{:.3g}x", row.faster),
                          fmt::format("{:.3g}x", row.of_bin_float),
                          row.log2_bound == 0 ? "" : fmt::format("2^{:.1f}", row.log2_bound),
                          fmt::format("{:.0f} MB", 1e-6 * row.peak_memory)});
  return table;
}

std::string print(const std::vector<RoomCost>& all, const RoomsOptions& options) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  switch (*table_format_from(options.format)) {
    case TableFormat::json:
      for (const RoomCost& row : all)
        list.push_back({{"mechanism", row.mechanism},
                        {"tier", row.tier},
                        {"seconds_per_token_and_head", row.seconds},
                        {"of_double", row.per_double},
                        {"faster_than_mp50", row.faster},
                        {"faster_than_cpp_bin_float_50", row.of_bin_float},
                        {"log2_bound", row.log2_bound},
                        {"peak_memory", row.peak_memory}});
      return nlohmann::ordered_json{{"format", "assay-bench-rooms"}, {"version", 1}, {"rows", std::move(list)}}.dump(
                 2) +
             '\n';
    case TableFormat::csv:
      return table_of(all).csv();
    case TableFormat::markdown:
      return table_of(all).markdown();
    case TableFormat::table:
      break;
  }
  return fmt::format(
             "assay bench rooms: processor time on one core, outputs and gradients, T = {}, d = {}\n"
             "w2, w3, w4: eight heads at a time, with bounds; double and mp50 (MPFR, 168 bits): one head\n"
             "cpp_bin_float_50: mp50's time multiplied by what the delta rule's loop takes in the one and in the "
             "other\n\n",
             options.tokens, options.dim) +
         table_of(all).text();
}

int run_rooms(const RoomsOptions& options, Console& console) {
  std::vector<const Room*> chosen;
  for (const std::string& name : options.mechanisms) chosen.push_back(&room_named(name, "mechanism"));
  if (chosen.empty()) chosen.assign(rooms().begin(), rooms().end());
  OutputFile file(options.output, console.out);
  std::vector<RoomCost> all;
  {
    Progress progress(console, chosen.size());
    const double bin_float = words::bin_float_over_mp50();
    for (const Room* room : chosen) {
      const std::vector<RoomCost> rows = bench_room(*room, options.tokens, options.dim, bin_float);
      all.insert(all.end(), rows.begin(), rows.end());
      progress.step(std::string(room->name));
    }
  }
  file.commit(print(all, options));
  return exit_passed;
}

template <class Options>
void add_output(CLI::App& app, Options& options) {
  app.add_option("--format", options.format, "table, markdown, json or csv")
      ->check(CLI::IsMember(table_format_names()))
      ->capture_default_str();
  app.add_option("-o,--output", options.output, "where the table goes; - is standard output")->capture_default_str();
}

std::function<int(Console&)> add(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* oracle = app.add_subcommand("oracle", "certified answers of the fast engines");
  auto options = std::make_shared<BenchOptions>();
  oracle->add_option("--mechanism", options->mechanisms, "gated_deltanet (the delta rules' engine), lla, or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"gated_deltanet", "lla"}))
      ->capture_default_str();
  oracle->add_option("--tokens", options->tokens, "T; a few sizes if neither this nor --dim is given")
      ->check(CLI::Range(32, 1 << 16));
  oracle->add_option("--dim", options->dim, "K = V")->check(CLI::Range(1, 512));
  add_output(*oracle, *options);

  CLI::App* all = app.add_subcommand("rooms", "every room's reference in every tier, with gradients");
  auto rooms_options = std::make_shared<RoomsOptions>();
  all->add_option("--mechanism", rooms_options->mechanisms, "some of them; `assay list` names all")->delimiter(',');
  all->add_option("--tokens", rooms_options->tokens, "T")->check(CLI::Range(1, 1 << 16))->capture_default_str();
  all->add_option("--dim", rooms_options->dim, "K = V")->check(CLI::Range(1, 512))->capture_default_str();
  add_output(*all, *rooms_options);
  return [options, rooms_options, all](Console& console) {
    return all->parsed() ? run_rooms(*rooms_options, console) : run_bench(*options, console);
  };
}

}  // namespace

namespace commands {
extern const Command bench = {"bench", "measure what certified answers cost", add};
}

}  // namespace assay
