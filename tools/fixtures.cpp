// assay fixtures: golden files, written and verified bit for bit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "fixtures/golden.hpp"
#include "reference/core/error.hpp"
#include "tools/command.hpp"

namespace assay {
namespace {

struct Arguments {
  std::vector<std::string> mechanisms;
  std::string folder = "fixtures";
};

std::vector<const Room*> chosen_rooms(const std::vector<std::string>& names) {
  if (names.empty()) return {rooms().begin(), rooms().end()};
  std::vector<const Room*> chosen;
  for (const std::string& name : names) {
    chosen.push_back(find_room(name));
    require(chosen.back() != nullptr, "mechanism '", name, "' is unknown; `assay list` names those that exist");
  }
  return chosen;
}

std::filesystem::path file_of(const Arguments& arguments, const Room& room) {
  return std::filesystem::path(arguments.folder) / (std::string(room.name) + ".safetensors");
}

int generate(const Arguments& arguments, Console& console) {
  const std::vector<const Room*> chosen = chosen_rooms(arguments.mechanisms);
  require(std::filesystem::is_directory(arguments.folder), arguments.folder, ": no such folder");
  Progress progress(console, chosen.size());
  for (const Room* room : chosen) {
    progress.step(room->name);
    const std::filesystem::path path = file_of(arguments, *room);
    write_safetensors(path, golden_file(*room));
    console.out << fmt::format("{}: {} cases, {} bytes\n", path.string(), golden_cases(*room).size(),
                               std::filesystem::file_size(path));
  }
  return exit_passed;
}

int verify(const Arguments& arguments, Console& console) {
  const std::vector<const Room*> chosen = chosen_rooms(arguments.mechanisms);
  Progress progress(console, chosen.size());
  bool same = true;
  for (const Room* room : chosen) {
    progress.step(room->name);
    const std::filesystem::path path = file_of(arguments, *room);
    const std::vector<std::string> found = differences(golden_file(*room), read_safetensors(path));
    console.out << fmt::format("{} {}\n", found.empty() ? "PASS" : "FAIL", path.string());
    for (const std::string& sentence : found) console.out << "     " << sentence << '\n';
    same = same && found.empty();
  }
  return same ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  auto wanted = std::make_shared<int (*)(const Arguments&, Console&)>(nullptr);
  app.require_subcommand(1);
  const auto verb = [&](const char* name, const char* summary, int (*function)(const Arguments&, Console&)) {
    CLI::App* sub = app.add_subcommand(name, summary);
    sub->add_option("mechanism", arguments->mechanisms, "rooms; all if none is named");
    sub->add_option("--folder", arguments->folder, "where the files live")->capture_default_str();
    sub->callback([wanted, function] { *wanted = function; });
  };
  verb("generate", "compute the golden files and write them", generate);
  verb("verify", "compute the golden files again and compare every bit", verify);
  return [arguments, wanted](Console& console) { return (*wanted)(*arguments, console); };
}

}  // namespace

namespace commands {
extern const Command fixtures = {"fixtures", "write or verify the golden files", add};
}

}  // namespace assay
