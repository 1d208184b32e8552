#include "tools/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/core/error.hpp"

namespace assay {
namespace {

/// Of what a child says, this much is kept.
constexpr std::size_t most_words = 4096;
constexpr int most_lines = 3;

/// A file descriptor, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

/// The last lines that say something, in one line without control characters.
std::string last_lines(std::string_view output) {
  std::vector<std::string> lines;
  while (!output.empty() && lines.size() < most_lines) {
    const std::size_t start = output.rfind('\n') + 1;  // 0 without one
    std::string line;
    for (const char c : output.substr(start))
      if (static_cast<unsigned char>(c) >= ' ' && c != 0x7f) line += c;
    if (line.find_first_not_of(' ') != std::string::npos) lines.push_back(line);
    output = output.substr(0, start == 0 ? 0 : start - 1);
  }
  std::string joined;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) joined += (joined.empty() ? "" : " / ") + *line;
  return joined;
}

/// Takes what a non-blocking pipe has; false once nobody can write to it any more.
bool drain(int pipe, std::string& words) {
  std::array<char, 4096> some{};
  for (;;) {
    const ssize_t n = read(pipe, some.data(), some.size());
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    words.append(some.data(), static_cast<std::size_t>(n));
    if (words.size() > 2 * most_words) words.erase(0, words.size() - most_words);
  }
}

/// Signals that end this process, held back while there is a child to end first.
class EndingSignals {
 public:
  EndingSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals(EndingSignals&&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;
  EndingSignals& operator=(EndingSignals&&) = delete;
  ~EndingSignals() { restore(); }
  void restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  const sigset_t* set() const { return &set_; }

 private:
  sigset_t set_{}, before_{};
};

[[noreturn]] void be_the_child(const std::function<int()>& body, int pipe, const EndingSignals& signals) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signals.restore();
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(pipe, STDOUT_FILENO) < 0 || dup2(pipe, STDERR_FILENO) < 0)
    _exit(127);
  int code = 1;
  try {
    code = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "an exception of a type of its own\n");
  }
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

std::string ChildEnd::sentence() const {
  std::string how = fmt::format("ended with exit code {}", exit_code);
  if (signal != 0) how = fmt::format("crashed with signal {} ({})", signal, strsignal(signal));
  if (interrupted != 0) how = "was interrupted";
  if (timed_out) how = "had not ended at the time limit, and was killed";
  return how + (last_words.empty() ? "" : ": " + last_words);
}

ChildEnd run_child(const std::function<int()>& body, std::chrono::duration<double> limit) {
  using Clock = std::chrono::steady_clock;
  std::array<int, 2> ends{};
  require(pipe2(ends.data(), O_CLOEXEC) == 0, "no pipe for a child: ", std::strerror(errno));
  Descriptor from(ends[0]), to(ends[1]);
  fcntl(from.get(), F_SETFL, O_NONBLOCK);
  std::fflush(nullptr);
  ChildEnd end;
  {
    const EndingSignals signals;
    const Descriptor told(signalfd(-1, signals.set(), SFD_CLOEXEC | SFD_NONBLOCK));
    const pid_t child = fork();
    require(child >= 0, "no child process: ", std::strerror(errno));
    if (child == 0) be_the_child(body, to.get(), signals);
    setpgid(child, child);  // whichever of the two comes first
    to.close();
    // A limit in seconds may be longer than the clock can count.
    const auto start = Clock::now();
    bool open = true;
    for (;;) {
      siginfo_t info{};
      if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child)
        break;
      if (Clock::now() - start >= limit) {
        end.timed_out = true;
        break;
      }
      signalfd_siginfo which{};
      if (read(told.get(), &which, sizeof which) == sizeof which) {
        end.interrupted = static_cast<int>(which.ssi_signo);
        break;
      }
      std::array<pollfd, 2> events{pollfd{open ? from.get() : -1, POLLIN, 0}, pollfd{told.get(), POLLIN, 0}};
      poll(events.data(), events.size(), 20);
      open = open && drain(from.get(), end.last_words);
    }
    // While the child is not waited for its group is nobody else's.
    kill(-child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  }
  drain(from.get(), end.last_words);
  end.last_words = last_lines(end.last_words);
  return end;
}

ChildEnd run_command(const std::string& command, std::chrono::duration<double> limit) {
  return run_child(
      [&] {
        execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
        return 127;
      },
      limit);
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

PrivateFolder::PrivateFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "assay-XXXXXX").string();
  require(mkdtemp(name.data()) != nullptr, name, ": no temporary folder: ", std::strerror(errno));
  path_ = name;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;  // what is left is in a temporary folder
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace assay
