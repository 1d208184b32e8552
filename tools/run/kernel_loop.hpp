#pragma once
// A user's program that answers case after case without being started anew (docs/check.md, "A kernel that stays").
#include <chrono>
#include <filesystem>
#include <string>

#include "tools/run/child.hpp"

namespace assay {

/// A command of the shell that reads a line "CASE OUT" for every case and says "done" or "error MESSAGE" in a line of
/// its own when it has written OUT. It is started with the first case, and anew after it has failed, by a process that
/// knows nothing of right answers.
class KernelLoop {
 public:
  /// `folder` is removed when this process ends.
  KernelLoop(std::string command, const std::filesystem::path& folder);
  KernelLoop(const KernelLoop&) = delete;
  KernelLoop& operator=(const KernelLoop&) = delete;
  ~KernelLoop();

  /// Has it answer the case in `problem` and write to `out`. Throws InputError, one sentence that starts with
  /// --kernel-loop, if it says that it cannot, says anything else, ends, or is not ready within the limit; unless it
  /// said "error" it is ended then.
  void ask(const std::string& problem, const std::string& out, std::chrono::duration<double> limit);

 private:
  void start();
  void refuse_early_words();
  /// The next line of its output, without the end of the line.
  std::string next_line(std::chrono::duration<double> limit);
  [[noreturn]] void fail(const std::string& what);
  [[noreturn]] void fail_as_ended(const std::string& when);

  std::string command_;
  ChildKeeper keeper_;
  int socket_ = -1;
  std::string said_;  ///< that is no whole line yet
};

}  // namespace assay
