// assay-lab bench oracle: what certified answers of the engines cost, beside a plain double loop and cpp_bin_float_50;
// assay-lab bench rooms: what every room costs in every tier; assay-lab bench kernels: what the emulation of every
// kernel costs in every precision; assay-lab bench check: what a verdict costs, phase by phase; assay-lab bench draws:
// draws of programs on a GPU. Each in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>

#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "reference/core/error.hpp"
#include "tools/bench/bench_check.hpp"
#include "tools/bench/bench_draws.hpp"
#include "tools/bench/bench_engines.hpp"
#include "tools/bench/bench_kernels.hpp"
#include "tools/bench/bench_rooms.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/cases/check_costs.hpp"
#include "tools/lab/lab.hpp"
#include "tools/print/table.hpp"

namespace assay {
namespace bench_verb {
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

/// The rows as `format` wants them: JSON calls itself `kind`, text for people begins with `heading`.
std::string print(const Table& table, Json rows, std::string_view kind, const std::string& heading,
                  TableFormat format) {
  if (format == TableFormat::json)
    return Json{{"format", kind}, {"version", 1}, {"rows", std::move(rows)}}.dump(2) + '\n';
  if (format == TableFormat::csv) return table.csv();
  return format == TableFormat::markdown ? table.markdown() : heading + table.text();
}

Table table_of(const std::vector<Measured>& all) {
  Table table = Table()
                    .words({"mechanism"})
                    .numbers({"T", "d"})
                    .words({"tier"})
                    .numbers({"time per token", "of double loop", "faster than cpp_bin_float_50", "bound"});
  for (const auto& [size, row] : all)
    table.rows.push_back({row.mechanism, std::to_string(size.tokens), std::to_string(size.dim), row.tier,
                          fmt::format("{:.3g} us", 1e6 * row.seconds), fmt::format("{:.3g}", row.per_double),
                          fmt::format("{:.3g}x", row.faster),
                          row.log2_bound == 0 ? "" : fmt::format("2^{:.1f}", row.log2_bound)});
  return table;
}

std::string print(const std::vector<Measured>& all, TableFormat format) {
  Json list = Json::array();
  for (const auto& [size, row] : all)
    list.push_back({{"mechanism", row.mechanism},
                    {"tokens", size.tokens},
                    {"dim", size.dim},
                    {"tier", row.tier},
                    {"seconds_per_token", row.seconds},
                    {"of_double_loop", row.per_double},
                    {"faster_than_cpp_bin_float_50", row.faster},
                    {"log2_bound", row.log2_bound}});
  return print(table_of(all), std::move(list), "assay-bench",
               "assay-lab bench oracle: processor time on one core, forward, one head, all in one run\n"
               "bound: worst proven bound over the largest output; lla: the last 32 queries\n\n",
               format);
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
  file.commit(print(all, *entry_named(all_table_formats, options.format)));
  return exit_passed;
}

struct RoomsOptions {
  std::vector<std::string> mechanisms;
  int tokens = 128, dim = 64;
  std::string format{name_of(TableFormat::table)}, output = "-";
};

Table table_of(const std::vector<RoomCost>& all) {
  Table table = Table()
                    .words({"mechanism", "tier"})
                    .numbers({"time per token and head", "of double", "faster than mp50", "than cpp_bin_float_50",
                              "bound", "peak memory"});
  for (const RoomCost& row : all)
    table.rows.push_back({row.mechanism, row.tier, fmt::format("{:.3g} us", 1e6 * row.seconds),
                          fmt::format("{:.3g}", row.per_double), fmt::format("{:.3g}x", row.faster),
                          fmt::format("{:.3g}x", row.of_bin_float),
                          row.log2_bound == 0 ? "" : fmt::format("2^{:.1f}", row.log2_bound),
                          fmt::format("{:.0f} MB", 1e-6 * row.peak_memory)});
  return table;
}

std::string print(const std::vector<RoomCost>& all, const RoomsOptions& options) {
  Json list = Json::array();
  for (const RoomCost& row : all)
    list.push_back({{"mechanism", row.mechanism},
                    {"tier", row.tier},
                    {"seconds_per_token_and_head", row.seconds},
                    {"of_double", row.per_double},
                    {"faster_than_mp50", row.faster},
                    {"faster_than_cpp_bin_float_50", row.of_bin_float},
                    {"log2_bound", row.log2_bound},
                    {"peak_memory", row.peak_memory}});
  return print(
      table_of(all), std::move(list), "assay-bench-rooms",
      fmt::format("assay-lab bench rooms: processor time on one core, outputs and gradients, T = {}, d = {}\n"
                  "w2, w3, w4: eight heads at a time, with bounds; double and mp50 (MPFR, 168 bits): one head\n"
                  "cpp_bin_float_50: mp50's time multiplied by what the delta rule's loop takes in the one and in the "
                  "other\n\n",
                  options.tokens, options.dim),
      *entry_named(all_table_formats, options.format));
}

int run_rooms(const RoomsOptions& options, Console& console) {
  const auto chosen = rooms_named(options.mechanisms, "--mechanism");
  OutputFile file(options.output, console.out);
  std::vector<RoomCost> all;
  {
    Progress progress(console, chosen.size());
    const double bin_float = words::bin_float_over_mp50();
    for (const auto& room : chosen) {
      const std::vector<RoomCost> rows = bench_room(*room, options.tokens, options.dim, bin_float);
      all.insert(all.end(), rows.begin(), rows.end());
      progress.step(std::string(room->name));
    }
  }
  file.commit(print(all, options));
  return exit_passed;
}

struct KernelsOptions {
  std::vector<std::string> mechanisms, precisions;
  std::string form;
  int tokens = 128, dim = 64;
  std::string format{name_of(TableFormat::table)}, output = "-";
};

Table table_of(const std::vector<KernelCost>& all) {
  Table table = Table()
                    .words({"mechanism", "form", "shape B,T,H,K,V", "precision"})
                    .numbers({"time per query and head", "of exact", "of oracle"});
  for (const KernelCost& row : all)
    table.rows.push_back({row.mechanism, row.form, row.shape, row.precision,
                          fmt::format("{:.3g} us", 1e6 * row.seconds), fmt::format("{:.3g}", row.per_exact),
                          fmt::format("{:.3g}", row.per_oracle)});
  return table;
}

std::string print(const std::vector<KernelCost>& all, TableFormat format) {
  Json list = Json::array();
  for (const KernelCost& row : all)
    list.push_back({{"mechanism", row.mechanism},
                    {"form", row.form},
                    {"shape", row.shape},
                    {"precision", row.precision},
                    {"seconds_per_query_and_head", row.seconds},
                    {"of_exact", row.per_exact},
                    {"of_oracle", row.per_oracle}});
  return print(
      table_of(all), std::move(list), "assay-bench-kernels",
      "assay-lab bench kernels: processor time of the CPU executor on one core, outputs and gradients, all in one run\n"
      "of exact: the same program in long double, no site rounded; of oracle: the answer with its bounds\n\n",
      format);
}

int run_kernels(const KernelsOptions& options, Console& console) {
  for (const std::string& name : options.mechanisms) room_named(name, "--mechanism");
  std::vector<Format> precisions;
  for (const std::string& name : options.precisions) precisions.push_back(*format_from(name));
  if (precisions.empty()) precisions.assign(std::begin(case_precisions), std::end(case_precisions));
  std::vector<std::pair<const Room*, const KernelForm*>> chosen;
  std::vector<std::string> forms;
  for (const Room* room : rooms())
    if (const KernelRoom* kernels = find_kernels(kernel_rooms(), room->name);
        kernels != nullptr && asks_for(options.mechanisms, room->name))
      for (const KernelForm& form : kernels->forms) {
        if (options.form.empty() || options.form == form.name) chosen.emplace_back(room, &form);
        if (std::find(forms.begin(), forms.end(), form.name) == forms.end()) forms.emplace_back(form.name);
      }
  require(!forms.empty(), "--mechanism: none of these has kernels");
  require(!chosen.empty(), "--form: ", there_is_no(options.form, forms));
  OutputFile file(options.output, console.out);
  std::vector<KernelCost> all;
  {
    Progress progress(console, chosen.size());
    for (const auto& [room, form] : chosen) {
      const std::vector<KernelCost> rows = bench_kernel(*room, *form, precisions, options.tokens, options.dim);
      all.insert(all.end(), rows.begin(), rows.end());
      progress.step(text(room->name, ' ', form->name));
    }
  }
  file.commit(print(all, *entry_named(all_table_formats, options.format)));
  return exit_passed;
}

struct BenchCheckOptions {
  std::string judge = "cpu";
  std::vector<std::string> mechanisms;
  std::vector<int> tokens{256};
  int heads = 2, dim = 64, threads = 0;
  bool forward = false, docs = false;
  std::string format{name_of(TableFormat::table)}, output = "-";
};

struct MeasuredCheck {
  std::shared_ptr<const Room> room;
  Shape shape;
  CheckMeasured cost;
  double estimate = 0;  ///< of the seconds of all processors; 0: none
};
using MeasuredChecks = std::vector<MeasuredCheck>;

Table table_of(const MeasuredChecks& all) {
  Table table =
      Table().words({"mechanism", "shape"}).numbers({"seconds", "of all processors", "estimate", "peak memory"});
  for (const std::string_view phase : check_phases) table.columns.push_back({std::string(phase), true});
  for (const auto& [room, shape, row, estimate] : all) {
    std::vector<std::string> line = {std::string(room->name),
                                     text_of(shape),
                                     fmt::format("{:.3g}", row.seconds),
                                     fmt::format("{:.3g}", row.processor),
                                     estimate > 0 ? fmt::format("{:.3g}", estimate) : "-",
                                     fmt::format("{:.0f} MB", 1e-6 * row.memory)};
    for (const double part : row.processor_of) line.push_back(fmt::format("{:.0f}%", 100 * part / row.processor));
    table.rows.push_back(std::move(line));
  }
  return table;
}

std::string print(const MeasuredChecks& all, const BenchCheckOptions& options) {
  Json list = Json::array();
  for (const auto& [room, shape, row, estimate] : all) {
    Json split = Json::object();
    for (std::size_t p = 0; p < check_phases.size(); ++p)
      split[std::string(check_phases[p])] = {{"seconds", row.seconds_of[p]}, {"processor", row.processor_of[p]}};
    list.push_back({{"mechanism", room->name},
                    {"shape", text_of(shape)},
                    {"gradients", !options.forward},
                    {"seconds", row.seconds},
                    {"processor", row.processor},
                    {"estimate", estimate},
                    {"peak_memory", row.memory},
                    {"split", std::move(split)}});
  }
  return print(table_of(all), std::move(list), "assay-bench-check",
               fmt::format("assay-lab bench check: cases in bf16{}, nothing in the cache\n"
                           "estimate: what check says before, of the time of all processors\n"
                           "reading, truth, draws, judging: shares of that time\n\n",
                           options.forward ? "" : ", with gradients"),
               *entry_named(all_table_formats, options.format));
}

/// tools/cases/check_costs.cpp.
std::string costs_source(const std::vector<std::shared_ptr<const Room>>& chosen, Progress& progress) {
  std::string source = R"(// written by `assay-lab bench check --docs -o tools/cases/check_costs.cpp`
#include "tools/cases/check_costs.hpp"

namespace assay {

std::span<const CheckCost> check_costs() {
  // clang-format off
  static constexpr CheckCost all[] = {
)";
  for (const auto& room : chosen) source += cost_line(*room), progress.step(std::string(room->name));
  return source + fmt::format(
                      "  }};\n  // clang-format on\n  return all;\n}}\n\ndouble small_draw_then() {{ return {:.3g}; "
                      "}}\n\n}}  // namespace assay\n",
                      small_draw());
}

int run_bench_check(const BenchCheckOptions& options, Console& console) {
  auto chosen = rooms_named(options.mechanisms, "--mechanism");
  if (options.mechanisms.empty()) std::erase_if(chosen, [](const auto& room) { return !has_check_cost(*room); });
  OutputFile file(options.output, console.out);
  Progress progress(console, chosen.size());
  if (options.docs) {
    file.commit(costs_source(chosen, progress));
    return exit_passed;
  }
  MeasuredChecks all;
  for (const auto& room : chosen) {
    for (const int tokens : options.tokens) {
      const Shape shape{1, tokens, options.heads, 0, options.dim, options.dim, 0};
      const CheckMeasured cost = measure_check(*room, shape, !options.forward, options.threads, 1, options.judge);
      const auto known = check_estimate(room->name, shape, !options.forward, static_cast<std::size_t>(cost.numbers));
      all.push_back({room, shape, cost, known ? known->of(1) * machine_factor() : 0});
    }
    progress.step(std::string(room->name));
  }
  file.commit(print(all, options));
  return exit_passed;
}

struct BenchDrawsOptions {
  std::vector<std::string> programs = {"deltanet", "gated_deltanet",    "kda",     "mamba2",
                                       "falcon2",  "softmax_attention", "parallax"};
  std::vector<std::string> shapes = {"1,65,4/2,40,33", "1,4096,16,128"};
  std::vector<std::string> rooms;
  std::string folder = "mechanisms/json", verify, keep, output = "-";
};

int run_bench_draws(const BenchDrawsOptions& options, Console& console) {
  if (!options.verify.empty()) {
    const std::vector<std::string> stale = stale_in_page(read_text(options.verify), options.folder);
    for (const std::string& one : stale) console.out << options.verify << ": " << one << '\n';
    return stale.empty() ? exit_passed : exit_failed;
  }
  OutputFile file(options.output, console.out);
  std::vector<std::string> files;
  for (const std::string& name : options.programs) files.push_back(options.folder + '/' + name + ".json");
  std::size_t differ = 0;
  const std::string kept = options.keep.empty() ? "" : read_text(options.keep);
  file.commit(page_of_draws(files, options.shapes, options.rooms, kept, differ));
  return differ == 0 ? exit_passed : exit_failed;
}

template <class Options>
void add_output(CLI::App& app, Options& options) {
  add_choice_flag(app, "--format", options.format, "table, markdown, json or csv", name_list(all_table_formats));
  app.add_option("-o,--output", options.output, "where the table goes; - is standard output")->capture_default_str();
}

void add_check_flags(CLI::App& app, BenchCheckOptions& options) {
  app.add_option("--mechanism", options.mechanisms, "some of them; `assay list` names all")->delimiter(',');
  app.add_option("--tokens", options.tokens, "T; several with commas")
      ->delimiter(',')
      ->check(whole_in(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--heads", options.heads, "H")->check(whole_in(1, 1 << 16))->capture_default_str();
  app.add_option("--dim", options.dim, "K = V")->check(whole_in(1, 512))->capture_default_str();
  app.add_option("--threads", options.threads, "0 is all cores")->check(whole_in(0, 1024))->capture_default_str();
  add_judge_flag(app, options.judge);
  app.add_flag("--no-cotangents", options.forward, "without gradients");
  app.add_flag("--docs", options.docs,
               "measure every room at four sizes of up to 1024 tokens, and write the table that estimates and "
               "docs/costs.md are worked out "
               "from");
  add_output(app, options);
}

std::function<int(Console&)> add(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* oracle = app.add_subcommand("oracle", "certified answers of the fast engines");
  auto options = std::make_shared<BenchOptions>();
  oracle->add_option("--mechanism", options->mechanisms, "gated_deltanet (the delta rules' engine), lla, or both")
      ->delimiter(',')
      ->check(one_of({"gated_deltanet", "lla"}))
      ->capture_default_str();
  oracle->add_option("--tokens", options->tokens, "T; a few sizes if neither this nor --dim is given")
      ->check(whole_in(32, 1 << 16));
  oracle->add_option("--dim", options->dim, "K = V")->check(whole_in(1, 512));
  add_output(*oracle, *options);

  CLI::App* all = app.add_subcommand("rooms", "every room's reference in every tier, with gradients");
  auto rooms_options = std::make_shared<RoomsOptions>();
  all->add_option("--mechanism", rooms_options->mechanisms, "some of them; `assay list` names all")->delimiter(',');
  all->add_option("--tokens", rooms_options->tokens, "T")->check(whole_in(1, 1 << 16))->capture_default_str();
  all->add_option("--dim", rooms_options->dim, "K = V")->check(whole_in(1, 512))->capture_default_str();
  add_output(*all, *rooms_options);

  CLI::App* kernels = app.add_subcommand("kernels", "the CPU emulation of every kernel form in every precision");
  auto kernels_options = std::make_shared<KernelsOptions>();
  kernels->add_option("--mechanism", kernels_options->mechanisms, "some of them; `assay list` names all")
      ->delimiter(',');
  kernels->add_option("--form", kernels_options->form,
                      "only kernels of this form (tiled, chunkwise, split_decode, ...)");
  kernels->add_option("--precision", kernels_options->precisions, "some of them")
      ->delimiter(',')
      ->check(one_of(name_list(case_precisions)));
  kernels->add_option("--tokens", kernels_options->tokens, "T")->check(whole_in(1, 1 << 16))->capture_default_str();
  kernels->add_option("--dim", kernels_options->dim, "K = V")->check(whole_in(1, 512))->capture_default_str();
  add_output(*kernels, *kernels_options);

  CLI::App* checks = app.add_subcommand("check", "what a verdict costs: seconds, memory, and which phase takes them");
  auto check_options = std::make_shared<BenchCheckOptions>();
  add_check_flags(*checks, *check_options);
  CLI::App* draws = app.add_subcommand("draws", "what judges on a GPU, beside the CPU: draws and truth");
  auto draws_options = std::make_shared<BenchDrawsOptions>();
  draws->add_option("--programs", draws_options->programs, "some of the library's")->delimiter(',');
  draws->add_option("--shape", draws_options->shapes, "B,T,H,d of the inputs, as often as there are shapes")
      ->capture_default_str();
  draws->add_option("--rooms", draws_options->rooms, "tile programs of these alone")->delimiter(',');
  draws->add_option("--folder", draws_options->folder, "where their files are")->capture_default_str();
  draws->add_option("--verify", draws_options->verify, "a page that was written so: say whose code has changed");
  draws->add_option("--keep", draws_options->keep,
                    "a page of such a machine, whose rows stay where no code has changed");
  draws->add_option("-o,--output", draws_options->output, "where the page goes; - is standard output")
      ->capture_default_str();
  return [=](Console& console) {
    if (draws->parsed()) return run_bench_draws(*draws_options, console);
    if (checks->parsed()) return run_bench_check(*check_options, console);
    if (kernels->parsed()) return run_kernels(*kernels_options, console);
    return all->parsed() ? run_rooms(*rooms_options, console) : run_bench(*options, console);
  };
}

}  // namespace
}  // namespace bench_verb

const Command commands::bench = {"bench", "measure what certified answers and emulated kernels cost", bench_verb::add};

}  // namespace assay
