// assay fixtures: golden files and published defects, written and verified bit for bit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "files/case_file.hpp"
#include "files/in_words.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/defects.hpp"
#include "tools/cases/golden.hpp"
#include "tools/verbs/command.hpp"

namespace assay {
namespace fixtures_verb {
namespace {

struct Arguments {
  std::vector<std::string> mechanisms;
  std::string folder = "fixtures";
  bool defects = false;
};

std::filesystem::path file_of(const Arguments& arguments, const Room& room) {
  // A program has the name of its file.
  const std::string name(room.name);
  const std::string stem =
      room.is_program() ? std::filesystem::path(name.substr(0, name.rfind('@'))).stem().string() : name;
  return std::filesystem::path(arguments.folder) / (stem + ".safetensors");
}

/// That of its problems with arguments.
std::filesystem::path arguments_file_of(const Arguments& arguments, const Room& room) {
  return std::filesystem::path(arguments.folder) / "arguments" / (std::string(room.name) + ".safetensors");
}

/// Calls f(path, file) for every file of the published defects.
template <class F>
void each_of_defects(const Arguments& arguments, Console& console, F f) {
  require(arguments.mechanisms.empty(), "--defects: expected no mechanism beside it");
  Progress progress(console, published_defects().size());
  for (const Defect& defect : published_defects()) {
    progress.step(defect.name);
    const std::filesystem::path folder = std::filesystem::path(arguments.folder) / "defects" / defect.name;
    for (const auto& [name, file] : files_of(defect)) f(folder / name, file);
  }
}

int generate_defects(const Arguments& arguments, Console& console) {
  require(std::filesystem::is_directory(arguments.folder), arguments.folder, ": no such folder");
  each_of_defects(arguments, console, [&](const std::filesystem::path& path, const Safetensors& file) {
    std::filesystem::create_directories(path.parent_path());
    write_safetensors(path, file);
    console.out << fmt::format("{}: {} bytes\n", path.string(), std::filesystem::file_size(path));
  });
  return exit_passed;
}

/// Prints what differs at `path`; returns whether nothing does.
bool is_same(const std::filesystem::path& path, const Safetensors& expected, Console& console) {
  const std::vector<std::string> found = differences(expected, read_safetensors(path));
  console.out << fmt::format("{} {}\n", found.empty() ? "PASS" : "FAIL", path.string());
  for (const std::string& sentence : found) console.out << "     " << sentence << '\n';
  return found.empty();
}

int verify_defects(const Arguments& arguments, Console& console) {
  bool same = true;
  each_of_defects(arguments, console, [&](const std::filesystem::path& path, const Safetensors& file) {
    same = is_same(path, file, console) && same;
  });
  return same ? exit_passed : exit_failed;
}

int generate(const Arguments& arguments, Console& console) {
  if (arguments.defects) return generate_defects(arguments, console);
  const auto chosen = rooms_named(arguments.mechanisms, "mechanism");
  require(std::filesystem::is_directory(arguments.folder), arguments.folder, ": no such folder");
  Progress progress(console, chosen.size());
  for (const auto& room : chosen) {
    progress.step(room->name);
    const std::filesystem::path path = file_of(arguments, *room);
    const auto write = [&](const std::filesystem::path& to, const Safetensors& file, std::size_t cases) {
      write_safetensors(to, file);
      console.out << fmt::format("{}: {}, {} bytes\n", to.string(), counted(cases, "case"),
                                 std::filesystem::file_size(to));
    };
    write(path, golden_file(*room), golden_cases(*room).size());
    const std::size_t with_arguments = golden_requests(room->name).size();
    if (with_arguments == 0) continue;
    const std::filesystem::path more = arguments_file_of(arguments, *room);
    std::filesystem::create_directories(more.parent_path());
    write(more, golden_arguments_file(room->name), with_arguments);
  }
  return exit_passed;
}

int verify(const Arguments& arguments, Console& console) {
  if (arguments.defects) return verify_defects(arguments, console);
  const auto chosen = rooms_named(arguments.mechanisms, "mechanism");
  Progress progress(console, chosen.size());
  bool same = true;
  for (const auto& room : chosen) {
    progress.step(room->name);
    same = is_same(file_of(arguments, *room), golden_file(*room), console) && same;
    if (!golden_requests(room->name).empty())
      same = is_same(arguments_file_of(arguments, *room), golden_arguments_file(room->name), console) && same;
  }
  return same ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  auto wanted = std::make_shared<int (*)(const Arguments&, Console&)>(nullptr);
  app.require_subcommand(1);
  const auto verb = [&](const char* name, const char* summary, int (*function)(const Arguments&, Console&)) {
    CLI::App* sub = app.add_subcommand(name, summary);
    sub->add_option("mechanism", arguments->mechanisms, "rooms, or files of programs; all rooms if none is named");
    sub->add_option("--folder", arguments->folder, "where the files live")->capture_default_str();
    sub->add_flag("--defects", arguments->defects,
                  "in place of golden files the published defects of docs/tutorial.md, in FOLDER/defects");
    sub->callback([wanted, function] { *wanted = function; });
  };
  verb("generate", "compute the golden files and write them", generate);
  verb("verify", "compute the golden files again and compare every bit", verify);
  return [arguments, wanted](Console& console) { return (*wanted)(*arguments, console); };
}

}  // namespace
}  // namespace fixtures_verb

const Command commands::fixtures = {"fixtures", "write or verify the golden files", fixtures_verb::add};

}  // namespace assay
