#pragma once
// Somebody else's code in a process of its own: within a time limit, with what it says kept, ended with all that it
// started.
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace assay {

/// How a child ended.
struct ChildEnd {
  bool timed_out = false;
  int interrupted = 0;     ///< signal that told this process to end meanwhile, or 0: for the caller to raise
  int signal = 0;          ///< that ended it, or 0
  int exit_code = 0;       ///< where none did
  std::string last_words;  ///< the end of what it wrote to standard output and error, in one line

  bool passed() const { return !timed_out && interrupted == 0 && signal == 0 && exit_code == 0; }
  /// "ended with exit code 3: no such file", of one that has not passed.
  std::string sentence() const;
};

/// Runs `body` in a child with a process group of its own and nothing to read; the child ends with the code that it
/// returns. When the child ends, at the limit, and where this process is told to end (SIGINT, SIGTERM, SIGHUP), the
/// whole group is killed. Throws InputError if there can be no child.
ChildEnd run_child(const std::function<int()>& body, std::chrono::duration<double> limit);

/// As above, for a command of the shell.
ChildEnd run_command(const std::string& command, std::chrono::duration<double> limit);

/// A word as the shell takes it.
std::string shell_word(const std::string& word);

/// A folder that is this user's alone, removed at the end with all that is in it.
class PrivateFolder {
 public:
  PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder(PrivateFolder&&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace assay
