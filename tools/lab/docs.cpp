// assay-lab docs: one page a mechanism, written from the registry and the opening comment of its reference, and one of
// all kernels.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <memory>

#include "files/layout.hpp"
#include "judge/contract/site_meanings.hpp"
#include "judge/forms/sequential.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "oracles/identities/errata.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/check_costs.hpp"
#include "tools/cases/golden.hpp"
#include "tools/lab/lab.hpp"
#include "tools/pages/arguments_page.hpp"
#include "tools/pages/docs_kernels.hpp"
#include "tools/pages/suite_page.hpp"

namespace assay {
namespace docs_verb {
namespace {

/// The comment block that opens reference/NAME.hpp: the mechanism's equations.
std::string equations_of(const std::filesystem::path& source, std::string_view name) {
  const std::filesystem::path path = source / "reference" / (std::string(name) + ".hpp");
  std::ifstream in(path);
  require(in.good(), path.string(), ": cannot be read; run from the repository's root or give --source");
  std::string text, line;
  std::getline(in, line);  // #pragma once
  while (std::getline(in, line) && line.starts_with("//"))
    text += line.substr(std::min<std::size_t>(line.size(), 3)) + "\n";
  return text;
}

std::string shape_of(const RoomFacts::Ranked& ranked) {
  const auto first_axes = [&](int axes) { return axes == 0 ? "scalar" : axes_in_problem(ranked, axes); };
  std::string text = first_axes(ranked.field.broadcasts ? 0 : ranked.rank);
  for (int axes = 1; ranked.field.broadcasts && axes <= ranked.rank; ++axes) text += " or " + first_axes(axes);
  return text;
}

std::string default_of(const Field& field) {
  if (field.place == Field::Place::derived) return "worked out, not read";
  switch (field.missing) {
    case Field::Missing::error:
      return "required";
    case Field::Missing::zero:
      return "0";
    case Field::Missing::absent:
      return "absent";
    case Field::Missing::worked_out:
      return "worked out";
    case Field::Missing::rsqrt_key_dim:
      break;
  }
  return "K^{-1/2}";
}

std::string inputs_table(const Room& room) {
  std::string text = "| name | shape | heads | if missing | gradient |\n| --- | --- | --- | --- | --- |\n";
  for (const RoomFacts::Ranked& ranked : room.inputs()) {
    const Field& f = ranked.field;
    const bool param = f.place == Field::Place::param;
    text += fmt::format("| `{}`{} | {} | {} | {} | {} |\n", f.name, param ? " (param)" : "", shape_of(ranked),
                        param                             ? "one for all"
                        : f.heads == Field::Heads::shared ? "key/value heads"
                                                          : "output heads",
                        default_of(f), f.differentiable ? "yes" : "no");
  }
  return text;
}

std::string sites_table(const Room& room, const KernelForm& form) {
  constexpr std::string_view roles[] = {"operand", "gate", "accumulator", "output"};
  std::string text = "| site | holds | role |\n| --- | --- | --- |\n";
  for (int i = 0; i < form.sites.size; ++i) {
    const tile::SiteTable::Entry& entry = form.sites.entries[i];
    const SiteMeaning* meaning = find_meaning(room.name, form.name, entry.view());
    text += fmt::format("| `{}` | {} | {} |\n", entry.view(), meaning == nullptr ? "" : meaning->words,
                        roles[static_cast<int>(entry.role)]);
  }
  return text;
}

std::string mutants_table(const KernelForm& form) {
  std::string text = "| mutant | what it does | seen |\n| --- | --- | --- |\n";
  for (const Mutant& m : form.mutants) text += fmt::format("| `{}` | {} | {} |\n", m.name, m.what, m.seen);
  return text;
}

std::string page(const Room& room, const std::filesystem::path& source) {
  const KernelRoom* kernels = find_kernels(kernel_rooms(), room.name);
  const std::string program =
      kernels == nullptr ? "" : fmt::format(" and kernels/{}/{}.cpp", kernels->folder, room.name);
  std::string text =
      fmt::format("<!-- written by `assay-lab docs`; edit reference/{}.hpp{} instead -->\n\n", room.name, program);
  text += fmt::format("# {}\n\n{}.\n\n```\n{}```\n\n", room.name, room.summary, equations_of(source, room.name));
  text += "## Inputs\n\n" + inputs_table(room);
  if (!room.options.empty()) {
    text += "\nOptions (`params`):";
    for (const std::string_view option : room.options) text += fmt::format(" `{}`", option);
    text += "; see [case-format.md](../case-format.md).\n";
  }
  text += "\n## Outputs\n\n| name | shape |\n| --- | --- |\n";
  for (const RoomFacts::Ranked& ranked : room.outputs())
    text += fmt::format("| `{}` | {} |\n", ranked.field.name, shape_of(ranked));
  if (kernels != nullptr)
    for (const KernelForm* known : forms_of(*kernels)) {
      const KernelForm& form = *known;
      text += fmt::format("\n## Kernel `{}`\n\n{}. {}. Tiles:", form.name, form.summary,
                          form.has_gradients ? "Forward and backward" : "Forward only");
      for (const std::string_view t : form.tiles) text += fmt::format(" `{}`", t);
      text += ".";
      if (!form.unstable.empty())
        text += fmt::format(
            "\n\nUnstable: {}. It runs where it is asked for, `assay report --mechanism {} --form {}`, and is judged "
            "by "
            "what is expected of `{}`.",
            form.unstable, room.name, form.name, kernels->forms.front().name);
      text +=
          "\n\nRounding sites. The contract of a precision gives operands and outputs that precision (tf32: outputs "
          "fp32; e4m3, e5m2: outputs bf16), gates and accumulators fp32, or fp64 throughout.\n\n" +
          sites_table(room, form);
      if (!form.mutants.empty()) text += "\nMutants, each killed by a test:\n\n" + mutants_table(form);
    }
  text += fmt::format("\n## Golden fixture\n\n`fixtures/{}.safetensors` holds", room.name);
  const std::vector<GoldenCase> cases = golden_cases(room);
  for (std::size_t i = 0; i < cases.size(); ++i) text += fmt::format("{} `{}`", i > 0 ? "," : "", cases[i].name);
  text += fmt::format(".\n\n    assay fixtures verify {0}\n    assay report --mechanism {0}\n", room.name);
  return text;
}

struct Arguments {
  std::string source = ".", folder;
  bool check = false;
};

int write_pages(const Arguments& arguments, Console& console) {
  const std::filesystem::path folder = arguments.folder.empty()
                                           ? std::filesystem::path(arguments.source) / "docs" / "mechanisms"
                                           : std::filesystem::path(arguments.folder);
  bool same = true;
  std::vector<std::pair<std::filesystem::path, std::string>> pages;
  for (const Room* room : rooms())
    pages.emplace_back(folder / (std::string(room->name) + ".md"), page(*room, arguments.source));
  pages.emplace_back(folder.parent_path() / "errata.md", identities::errata_page());
  const std::filesystem::path records = folder.parent_path().parent_path() / "records";
  pages.emplace_back(records / "kernels.md",
                     kernels_page(gpu_records(arguments.source), kernel_sources_digests(arguments.source)));
  pages.emplace_back(records / "suite.md", suite_page());
  pages.emplace_back(folder.parent_path() / "arguments.md", arguments_page());
  pages.emplace_back(folder.parent_path() / "costs.md", costs_page());
  for (const auto& [path, text] : pages) {
    if (arguments.check) {
      std::ifstream in(path);
      const std::string found{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
      console.out << (found == text ? "PASS " : "FAIL ") << path.string() << '\n';
      same = same && found == text;
      continue;
    }
    std::filesystem::create_directories(path.parent_path());
    OutputFile(path.string(), console.out).commit(text);
    console.out << path.string() << '\n';
  }
  return same ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("--source", arguments->source, "the repository's root")->capture_default_str();
  app.add_option("--folder", arguments->folder, "where the pages go; docs/mechanisms of the source if not given");
  app.add_flag("--check", arguments->check, "write nothing; fail if a page is not what would be written");
  return [arguments](Console& console) { return write_pages(*arguments, console); };
}

}  // namespace
}  // namespace docs_verb

const Command commands::docs = {"docs", "write the page of every mechanism, and that of all kernels", docs_verb::add};

}  // namespace assay
