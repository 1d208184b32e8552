#include "tools/run/kernel_loop.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "files/descriptor.hpp"
#include "files/input_file.hpp"
#include "reference/core/error.hpp"
#include "tools/run/ending_signals.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

/// A line of more is no answer.
constexpr std::size_t longest_line = 65536;
/// How long a program may take to end when there is nothing more to read.
constexpr int patience_ms = 2000;
/// No limit of its own: each case has one.
constexpr std::chrono::duration<double> endless(1e9);

/// Its standard input and output are the socket; what it says beside that is kept for messages.
int be_program(const std::string& command, int socket) {
  if (dup2(socket, STDIN_FILENO) < 0 || dup2(socket, STDOUT_FILENO) < 0) return 127;
  return be_command(command);
}

bool is_readable(int fd, int milliseconds) {
  pollfd event{fd, POLLIN, 0};
  return poll(&event, 1, milliseconds) > 0;
}

}  // namespace

KernelLoop::KernelLoop(std::string command, const std::filesystem::path& folder)
    : command_(std::move(command)), keeper_(be_program, folder) {}

KernelLoop::~KernelLoop() {
  if (socket_ < 0) return;
  shutdown(socket_, SHUT_WR);
  if (!is_readable(keeper_.descriptor(), patience_ms)) keeper_.stop();
  ::close(socket_);
}

void KernelLoop::start() {
  std::array<int, 2> ends{};
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
          "--kernel-loop: no socket: ", std::strerror(errno));
  const Descriptor its(ends[1]);
  socket_ = ends[0], said_.clear();
  if (!keeper_.start(command_, its.get(), endless)) fail("could not be started");
}

void KernelLoop::fail(const std::string& what) {
  ::close(std::exchange(socket_, -1));
  const ChildEnd end = keeper_.stop();
  throw InputError("--kernel-loop: the program " + what + (end.last_words.empty() ? "" : ": " + end.last_words));
}

void KernelLoop::fail_as_ended(const std::string& when) {
  ::close(std::exchange(socket_, -1));
  throw InputError("--kernel-loop: the program, " + when + ", " + keeper_.ended().sentence());
}

void KernelLoop::refuse_early_words() {
  std::array<char, 256> more{};
  const ssize_t n = recv(socket_, more.data(), more.size(), MSG_DONTWAIT);
  if (n > 0) said_.append(more.data(), static_cast<std::size_t>(n));
  if (!said_.empty())
    fail(fmt::format("said more than one line for a case: {}; expected done, or error MESSAGE, and nothing else",
                     excerpt(said_.substr(0, said_.find('\n')))));
}

std::string KernelLoop::next_line(std::chrono::duration<double> limit) {
  const auto start = Clock::now();
  int signal = 0;
  {
    const EndingSignals signals;
    const Descriptor told(signalfd(-1, signals.set(), SFD_CLOEXEC | SFD_NONBLOCK));
    while (signal == 0) {
      if (const std::size_t end = said_.find('\n'); end != std::string::npos) {
        std::string line = said_.substr(0, end);
        said_.erase(0, end + 1);
        return line;
      }
      if (said_.size() > longest_line) fail("said a line without an end on standard output");
      if (std::chrono::duration<double>(Clock::now() - start).count() >= limit.count())
        fail("had not answered at the time limit, and was killed (answers must be flushed)");
      std::array<pollfd, 3> events{pollfd{socket_, POLLIN, 0}, pollfd{keeper_.descriptor(), POLLIN, 0},
                                   pollfd{told.get(), POLLIN, 0}};
      poll(events.data(), events.size(), 20);
      signalfd_siginfo which{};
      if (read(told.get(), &which, sizeof which) == sizeof which) signal = static_cast<int>(which.ssi_signo);
      if (events[0].revents == 0) continue;
      std::array<char, 4096> some{};
      const ssize_t n = recv(socket_, some.data(), some.size(), MSG_DONTWAIT);
      if (n > 0) said_.append(some.data(), static_cast<std::size_t>(n));
      if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) continue;
      if (is_readable(keeper_.descriptor(), patience_ms)) fail_as_ended("which had a case to answer");
      fail("has closed its standard output");
    }
  }
  keeper_.stop();
  std::raise(signal);
  throw InputError("--kernel-loop: interrupted");
}

void KernelLoop::ask(const std::string& problem, const std::string& out, std::chrono::duration<double> limit) {
  require(problem.find_first_of(" \n") == std::string::npos, "--kernel-loop: ", excerpt(problem),
          ": lines of two paths need a folder for temporary files without spaces; TMPDIR names one");
  if (socket_ >= 0 && is_readable(keeper_.descriptor(), 0)) fail_as_ended("which should read until its input ends");
  if (socket_ < 0)
    start();
  else
    refuse_early_words();
  const std::string line = problem + ' ' + out + '\n';
  for (std::size_t sent = 0; sent < line.size();) {  // much less than a socket holds
    const ssize_t n = send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<std::size_t>(n);
    if (n < 0 && errno != EINTR) break;  // it has ended, as next_line finds
  }
  const std::string answer = next_line(limit);
  if (answer == "error" || answer.starts_with("error "))
    throw InputError("--kernel-loop: the program answers: " + excerpt(answer));
  if (answer != "done")
    fail("said " + excerpt(answer) + " on standard output; expected done, or error MESSAGE, and nothing else");
  refuse_early_words();
}

}  // namespace assay
