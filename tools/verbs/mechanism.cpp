// assay mechanism check|export|equal: mechanisms that users write as programs, in Python or as JSON.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "files/case_file.hpp"
#include "files/input_file.hpp"
#include "language/equal.hpp"
#include "language/laws.hpp"
#include "language/program/gradient.hpp"
#include "language/program/show.hpp"
#include "language/room.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/print/escape.hpp"
#include "tools/run/front_end.hpp"
#include "tools/verbs/command.hpp"

namespace assay {
namespace mechanism_verb {
namespace {

struct Flags {
  std::string file, other, output = "-", shape = "1,40,2,8,6", style{name_of(Style::normal)};
  Tracing tracing;
  std::vector<std::string> other_settings;
  std::uint64_t seed = 0;
  bool gradient = false, json = false;
};

std::size_t nodes_of(const language::Block& block) {
  std::size_t n = block.nodes.size();
  for (const language::Node& node : block.nodes)
    if (node.op == language::Op::scan) n += nodes_of(*node.attributes.body);
  return n;
}

std::size_t nodes_of(const language::Program& program) {
  std::size_t n = nodes_of(*program.body);
  for (const language::Input& input : program.inputs)
    if (input.missing) n += nodes_of(*input.missing);
  return n;
}

/// "2.4e-12", and 0 for what is none at all.
std::string size_of(double x) { return x == 0 ? "0" : fmt::format("{:.1e}", x); }

std::unique_ptr<const Room> room_in(const std::string& file, const Tracing& tracing) {
  return language::room_of(language::read_program(program_text(file, tracing), file));
}

// ---- check

std::string words_of(const language::Law& law) {
  return law.holds ? law.sentence
                   : fmt::format("NOT: {} (off by {} of the largest number)", law.sentence, size_of(law.error));
}

int run_check(const Flags& flags, Console& console) {
  const auto found = room_in(flags.file, flags.tracing);
  const Room& room = *found;
  const language::Mechanism& mechanism = language::program_of(room);
  std::vector<language::Law> laws;
  const CaseResult measured = attempt([&] { laws = language::laws_of(room); });
  if (flags.json) {
    Json list = Json::array();
    for (const language::Law& law : laws)
      list.push_back({{"law", law.name}, {"sentence", law.sentence}, {"holds", law.holds}, {"error", law.error}});
    console.out << Json{{"format", "assay-mechanism-check"},
                        {"version", 1},
                        {"name", mechanism.program.name},
                        {"digest", mechanism.program.digest()},
                        {"nodes", nodes_of(mechanism.program)},
                        {"gradient_nodes", nodes_of(mechanism.gradient)},
                        {"laws", std::move(list)}}
                       .dump(2)
                << '\n';
    return exit_passed;
  }
  console.out << show(mechanism.program) << "\n\n";
  if (flags.gradient) console.out << show(mechanism.gradient) << "\n\n";
  console.out << "digest    " << mechanism.program.digest() << '\n'
              << fmt::format("size      {} nodes; with gradients {} nodes\n", nodes_of(mechanism.program),
                             nodes_of(mechanism.gradient));
  std::string_view label = "measured";
  for (const language::Law& law : laws) {
    console.out << fmt::format("{:<10}{}\n", label, words_of(law));
    label = "";
  }
  if (measured.status != Status::ok) console.out << "measured  nothing: " << plain_text(measured.message) << '\n';
  return exit_passed;
}

// ---- export

/// A program's text in canonical form, keys sorted, name, settings and hints kept. `source` names it in messages.
std::string canonical_text(const std::string& text, const std::string& source) {
  const language::Program program = language::read_program(text, source);
  nlohmann::json file = nlohmann::json::parse(text);
  file["body"] = nlohmann::json::parse(program.body->text);
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].missing)
      file["inputs"][i]["default"] = nlohmann::json::parse(program.inputs[i].missing->text);
  file["outputs"] = program.outputs;
  return file.dump() + '\n';
}

/// The text of the program of its gradients, with its name, settings and hints.
std::string gradient_text(const std::string& text, const std::string& source) {
  const language::Program gradient = language::gradient_of(language::read_program(text, source));
  const nlohmann::json file = nlohmann::json::parse(text);
  nlohmann::json out = nlohmann::json::parse(gradient.text());
  out["name"] = file["name"], out["settings"] = file["settings"];
  for (std::size_t i = 0; i < file["inputs"].size(); ++i)
    if (file["inputs"][i].contains("hint")) out["inputs"][i]["hint"] = file["inputs"][i]["hint"];
  return out.dump();
}

int run_export(const Flags& flags, Console& console) {
  OutputFile file(flags.output, console.out, {flags.file});
  const std::string program = program_text(flags.file, flags.tracing);
  file.commit(flags.gradient ? canonical_text(gradient_text(program, flags.file), flags.file + ": its gradients")
                             : canonical_text(program, flags.file));
  return exit_passed;
}

// ---- equal

int run_equal(const Flags& flags, Console& console) {
  const auto program = room_in(flags.file, flags.tracing);
  Tracing of_other = flags.tracing;
  of_other.mechanism.clear(), of_other.settings = flags.other_settings;
  const auto form = room_in(flags.other, of_other);
  const CaseSpec spec{.mechanism = std::string(program->name),
                      .shape = shape_from(flags.shape),
                      .precision = Format::fp32,
                      .style = *style_from(flags.style),
                      .seed = flags.seed};
  const std::vector<language::Distance> found = language::distances(*program, *form, program->make(spec));
  using language::Outcome;
  Outcome worst = Outcome::equal;
  std::size_t width = 0;
  for (const language::Distance& d : found)
    worst = std::max(worst, outcome_of(d)), width = std::max(width, d.tensor.size());
  if (flags.json) {
    Json list = Json::array();
    for (const language::Distance& d : found)
      list.push_back({{"tensor", d.tensor},
                      {"outcome", outcome_of(d) == Outcome::equal ? "equal"
                                  : d.differs                     ? "different"
                                                                  : "not proven"},
                      {"bound", d.bound},
                      {"largest", d.largest}});
    console.out << Json{{"format", "assay-mechanism-equal"},
                        {"version", 1},
                        {"equal", worst == Outcome::equal},
                        {"tensors", std::move(list)}}
                       .dump(2)
                << '\n';
    return worst == Outcome::equal ? exit_passed : exit_failed;
  }
  const auto name = [](const Room& room) { return language::program_of(room).program.name; };
  console.out << fmt::format("{} and {}, on the case --shape {} --style {} --seed {}, by enclosures\n\n",
                             name(*program), name(*form), text_of(spec.shape), flags.style, flags.seed);
  for (const language::Distance& d : found) console.out << fmt::format("  {:<{}}  {}\n", d.tensor, width, words_of(d));
  console.out << (worst == Outcome::equal       ? "\nEQUAL: outputs and gradients are the same on this case.\n"
                  : worst == Outcome::different ? "\nDIFFERENT: the two do not compute the same.\n"
                                                : "\nNOT PROVEN: enclosures of the two are too wide here.\n");
  return worst == Outcome::equal ? exit_passed : exit_failed;
}

// ---- the command line

void add_file(CLI::App& app, Flags& flags) {
  app.add_option("file", flags.file,
                 "FILE.py, a mechanism in Python (docs/mechanism-language.md), or FILE.json, a program")
      ->required();
  app.add_option("--name", flags.tracing.mechanism, "the mechanism to take, if a file of Python has several");
  app.add_option("--set", flags.tracing.settings, "a setting, NAME=VALUE; may be given several times")
      ->allow_extra_args(false);
}

std::function<int(Console&)> add(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.require_subcommand(1);
  CLI::App* check =
      app.add_subcommand("check", "validate a mechanism; print it, its digest, and the laws that it obeys");
  add_file(*check, *flags);
  check->add_flag("--gradient", flags->gradient, "print the program of its gradients, too");
  check->add_flag("--json", flags->json, "print JSON");
  CLI::App* write = app.add_subcommand("export", "write a mechanism as a program: canonical JSON");
  add_file(*write, *flags);
  write->add_flag("--gradient", flags->gradient, "the program of its gradients instead");
  write->add_option("-o,--output", flags->output, "where it goes; - is standard output")->capture_default_str();
  CLI::App* equal = app.add_subcommand(
      "equal", "prove a bound on how far two programs are apart: a recurrence and a kernel's algorithm");
  add_file(*equal, *flags);
  equal->add_option("form", flags->other, R"(the other program; its sequences may come in chunks, "N 16 K" for "T K")")
      ->required();
  equal
      ->add_option("--form-set", flags->other_settings,
                   "a setting of the other, NAME=VALUE; may be given several times")
      ->allow_extra_args(false);
  equal->add_option("--shape", flags->shape, "the case's shape, B,T,H,K,V")->capture_default_str();
  add_choice_flag(*equal, "--style", flags->style, "the distribution of the inputs", name_list(all_styles));
  equal->add_option("--seed", flags->seed, "the inputs' seed")->check(any_seed())->capture_default_str();
  equal->add_flag("--json", flags->json, "print JSON");
  return [flags, check, write](Console& console) {
    if (check->parsed()) return run_check(*flags, console);
    return write->parsed() ? run_export(*flags, console) : run_equal(*flags, console);
  };
}

}  // namespace
}  // namespace mechanism_verb

const Command commands::mechanism = {"mechanism", "check, export and compare mechanisms that you write yourself",
                                     mechanism_verb::add};

}  // namespace assay
