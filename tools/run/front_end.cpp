#include "tools/run/front_end.hpp"

#include <filesystem>
#include <mutex>
#include <set>

#include "files/input_file.hpp"
#include "files/shown.hpp"
#include "language/room.hpp"
#include "reference/core/error.hpp"
#include "tools/run/child.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

/// Seconds that a file of Python may take: it may import anything.
constexpr double most_seconds = 300;
constexpr int no_such_command = 127;

/// The folder of the front end: beside the program, or where it was built; "" where it is installed as a module, if at
/// all.
std::string front_end_folder() {
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none).parent_path();
  for (const fs::path& folder : {program / "python", program / ".." / "python", fs::path(ASSAY_SOURCE_DIR) / "python"})
    if (fs::exists(folder / "assay" / "language" / "__main__.py", none)) return folder.lexically_normal().string();
  return "";
}

std::string command_for(const std::string& file, const Tracing& tracing, const std::string& output) {
  const std::string folder = front_end_folder();
  std::string command = folder.empty() ? "" : "PYTHONPATH=" + shell_word(folder) + "${PYTHONPATH:+:$PYTHONPATH} ";
  command += "exec python3 -B -m assay.language export " + shell_word(file) + " -o " + shell_word(output);
  if (!tracing.mechanism.empty()) command += " --mechanism " + shell_word(tracing.mechanism);
  for (const std::string& setting : tracing.settings) command += " --set " + shell_word(setting);
  return command;
}

/// Why a file of Python could not be traced.
std::string obstacle(const std::string& file, const ChildEnd& end) {
  const std::string& words = end.last_words;
  if (end.exit_code == no_such_command)
    return file + ": there is no python3 to read it; a program as JSON (docs/mechanism-language.md) needs none";
  if (words.find("No module named assay") != std::string::npos ||
      words.find("No module named 'assay") != std::string::npos)
    return file + ": python3 has no module assay.language, and there is none beside this program";
  const std::size_t own = words.rfind("assay: ");
  if (end.exit_code == 2 && own != std::string::npos) return words.substr(own + 7);
  return file + ": python3 " + end.sentence();
}

std::mutex typed_guard;
std::set<std::string> typed_files;

std::string traced(const std::string& file) {
  {
    const std::lock_guard lock(typed_guard);
    require(typed_files.contains(file), file, ": a file of Python, and the command does not name it; --mechanism ",
            file, " does (assay runs only the Python that you name)");
  }
  return program_text(file, {});
}

}  // namespace

void trace_typed(const std::vector<std::string>& words) {
  language::trace_with(&traced);
  const std::lock_guard lock(typed_guard);
  for (const std::string& word : words) {
    const std::string value = word.starts_with("--") ? word.substr(word.find('=') + 1) : word;
    // "mine.py@818c...": as a case names it, and a command that we print.
    const std::string file = value.substr(0, language::program_path(value));
    if (file.ends_with(".py")) typed_files.insert(file);
  }
}

std::string program_text(const std::string& file, const Tracing& tracing) {
  if (!file.ends_with(".py")) {
    require(file.ends_with(".json"), excerpt(file),
            ": expected FILE.py, a mechanism in Python, or FILE.json, a program");
    require(tracing.mechanism.empty() && tracing.settings.empty(), file,
            ": a program has its settings already; --set and --name are for files of Python");
    return read_text(file);
  }
  require(fs::is_regular_file(file), file, ": there is no such file");
  const PrivateFolder folder;
  const std::string output = (folder.path() / "program.json").string();
  const ChildEnd end = run_command(command_for(file, tracing, output), std::chrono::duration<double>(most_seconds));
  require(end.passed(), obstacle(file, end));
  return read_text(output);
}

}  // namespace assay
