#include "tools/run/user_kernel.hpp"

#include <array>
#include <csignal>
#include <string_view>
#include <utility>

#include "files/input_file.hpp"
#include "files/new_file.hpp"
#include "files/shown.hpp"
#include "reference/core/error.hpp"
#include "reference/core/sha256.hpp"

namespace assay {
namespace {

std::string digest_of(const std::filesystem::path& file) { return Sha256().update(read_text(file.string())).hex(); }

/// "": there is no such file any more.
std::string digest_if_any(const std::filesystem::path& file) {
  try {
    return digest_of(file);
  } catch (const InputError&) {
    return "";
  }
}

}  // namespace

std::string with_paths(const std::string& command, const std::string& problem, const std::string& answer) {
  const std::array<std::pair<std::string_view, std::string>, 2> words = {
      {{"{case}", shell_word(problem)}, {"{out}", shell_word(answer)}}};
  std::string out;
  // From the front to the back: what is put in may hold these words, too.
  for (std::string_view rest = command; !rest.empty();) {
    std::string put(1, rest.front());
    std::size_t taken = 1;
    for (const auto& [name, word] : words)
      if (rest.starts_with(name)) put = word, taken = name.size();
    out += put;
    rest.remove_prefix(taken);
  }
  return out;
}

UserKernel::UserKernel(std::string command, const std::string& plugin, bool loops) : command_(std::move(command)) {
  if (!plugin.empty())
    plugin_ = std::make_unique<PluginProcess>(plugin, folder());
  else if (loops)
    loop_ = std::make_unique<KernelLoop>(command_, folder());
  else
    shell_ = std::make_unique<ChildKeeper>([](const std::string& task, int) { return be_command(task); }, folder());
}

std::string UserKernel::run_command_on(const std::string& given, const std::string& out,
                                       std::chrono::duration<double> limit) {
  if (loop_ != nullptr) {
    loop_->ask(given, out, limit);
    return "";
  }
  const ChildEnd end = shell_->run(with_paths(command_, given, out), -1, limit);
  if (end.interrupted != 0) std::raise(end.interrupted);
  require(end.passed(), "--kernel: the command ", end.sentence());
  return end.last_words;
}

Safetensors UserKernel::answer(const Safetensors& problem, std::chrono::duration<double> limit) {
  const std::filesystem::path run = folder() / std::to_string(++runs_), given = run / "case.safetensors";
  const std::string out = (run / "out.safetensors").string();
  std::filesystem::create_directory(run);  // for this run alone, for cases can be large
  const FolderEnd cleanup(&run);
  write_safetensors(given, problem);
  const std::string before = digest_of(given);
  const std::string words = run_command_on(given.string(), out, limit);
  const std::string flag = loop_ != nullptr ? "--kernel-loop: " : "--kernel: ";
  require(std::filesystem::exists(out), flag, "the command has not written {out}", words.empty() ? "" : ": " + words);
  require(digest_if_any(given) == before, flag,
          "the command has changed {case}: it must leave its inputs as they are, and write to {out}");
  try {
    return read_safetensors(out);
  } catch (const InputError& error) {  // the folder will be gone
    throw InputError(flag + "{out}" + std::string(error.what()).substr(out.size()));
  }
}

Safetensors UserKernel::answer(const PluginCall& call, std::chrono::duration<double> limit) {
  return plugin_->run(call, limit);
}

}  // namespace assay
