#pragma once
// Foreign code in a process of its own: within a time limit, with what it says kept, ended with all that it
// started.
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace assay {

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

/// A process that starts children for this one, one after the other, and ends each with all that it has started, in
/// whatever session that is. It is a copy of this process as it was when it was made, and so are its children: what
/// this process learns later is not in their memory. When this process ends, however it does, the child is killed.
class ChildKeeper {
 public:
  /// The work of a child, which ends with the returned code. `task` and `file` are those given to `run`.
  using Body = std::function<int(const std::string& task, int file)>;

  /// `folder`, if it is not empty, is removed when this process ends. Throws InputError if there can be no process.
  explicit ChildKeeper(const Body& body, const std::filesystem::path& folder = {});
  ChildKeeper(const ChildKeeper&) = delete;
  ChildKeeper& operator=(const ChildKeeper&) = delete;
  ~ChildKeeper();

  /// Starts a child in a process group of its own with nothing to read, and waits for its end. At the limit, and where
  /// this process is told to end (SIGINT, SIGTERM, SIGHUP), it is killed. `file` is a descriptor of this process, or
  /// -1; the child has no other but its standard streams.
  ChildEnd run(const std::string& task, int file, std::chrono::duration<double> limit);

  /// As above, without waiting: false if there is no child. One at a time, until `ended` or `stop` has said how it was.
  bool start(const std::string& task, int file, std::chrono::duration<double> limit);
  /// Waits for its end. `descriptor` can be read from as soon as there is nothing to wait for.
  ChildEnd ended();
  int descriptor() const { return socket_; }
  ChildEnd stop();

 private:
  void end();

  pid_t pid_ = -1;
  int socket_ = -1;
  bool started_ = false;
};

/// Runs `body` in a child of a keeper of its own.
ChildEnd run_child(const std::function<int()>& body, std::chrono::duration<double> limit);

/// As above, for a command of the shell.
ChildEnd run_command(const std::string& command, std::chrono::duration<double> limit);
/// In a child: becomes the shell that runs the command. Returns an exit code if there is none.
int be_command(const std::string& command);

/// A folder that is this user's alone, removed at the end with all that is in it.
class PrivateFolder {
 public:
  /// Under the folder for temporary files; throws InputError if there can be none.
  PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A new, private folder that stays, in `under` or, without, where temporary files are. Throws InputError if there can
/// be none.
std::filesystem::path make_private_folder(std::filesystem::path under = {});

}  // namespace assay
