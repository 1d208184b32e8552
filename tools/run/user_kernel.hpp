#pragma once
// A user's kernel, a command or a plugin, and its answers.
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "files/safetensors.hpp"
#include "tools/run/child.hpp"
#include "tools/run/kernel_loop.hpp"
#include "tools/run/plugin.hpp"

namespace assay {

/// A kernel is started before anything is known of the right answer: neither it nor a process that it can look into
/// without leave has that in its memory.
class UserKernel {
 public:
  /// One of both is not empty; `loops` of a command that stays. Throws InputError if it cannot be started.
  UserKernel(std::string command, const std::string& plugin, bool loops = false);

  /// Private, and gone with this object or with this process.
  const std::filesystem::path& folder() const { return folder_.path(); }

  /// The tensors that the command writes to {out}, given a file of its own with `problem` as {case}. Throws InputError,
  /// one sentence that starts with --kernel or --kernel-loop, if it ends badly, is not ready within the limit, or
  /// changes that file.
  Safetensors answer(const Safetensors& problem, std::chrono::duration<double> limit);
  /// The plugin's answer.
  Safetensors answer(const PluginCall& call, std::chrono::duration<double> limit);

 private:
  /// Has the command write `out`; what it said.
  std::string run_command_on(const std::string& given, const std::string& out, std::chrono::duration<double> limit);

  std::string command_;
  PrivateFolder folder_;
  std::unique_ptr<PluginProcess> plugin_;
  std::unique_ptr<ChildKeeper> shell_;
  std::unique_ptr<KernelLoop> loop_;
  int runs_ = 0;
};

/// The command with the paths of both files in place of {case} and {out}, each as one word.
std::string with_paths(const std::string& command, const std::string& problem, const std::string& answer);

}  // namespace assay
