#include "tools/run/child.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "files/descriptor.hpp"
#include "files/new_file.hpp"
#include "reference/core/error.hpp"
#include "tools/run/ending_signals.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

/// The most characters and lines of a child's words that are kept.
constexpr std::size_t most_words = 4096;
constexpr int most_lines = 3;

/// A descriptor that is none of the standard streams, even where one of those is closed.
int above_streams(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::close(fd);
  return moved;
}

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

/// Takes all that a non-blocking pipe has, or a good part of it; false once its writers are gone.
bool drain(int pipe, std::string& words) {
  std::array<char, 4096> some{};
  for (int i = 0; i < 256; ++i) {  // a writer without end must not keep us from the clock
    const ssize_t n = read(pipe, some.data(), some.size());
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    words.append(some.data(), static_cast<std::size_t>(n));
    if (words.size() > 2 * most_words) words.erase(0, words.size() - most_words);
  }
  return true;
}

// ---- messages between this process and the keeper, over a socket of their own ----

struct Request {
  bool stops = false;  ///< the child that runs; nothing where none does
  double limit = 0;    ///< seconds
  std::size_t task = 0;
  bool has_file = false;
};
struct Reply {
  bool timed_out = false;
  int signal = 0, exit_code = 0;
  std::size_t words = 0;
};

bool send_all(int socket, const void* data, std::size_t size) {
  for (const auto* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t n = send(socket, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n, size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t size) {
  for (auto* at = static_cast<char*>(data); size > 0;) {
    const ssize_t n = recv(socket, at, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n, size -= static_cast<std::size_t>(n);
  }
  return true;
}

/// A message of one byte with room for a descriptor beside it.
struct FileMessage {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr header{};

  FileMessage() {
    header.msg_iov = &data, header.msg_iovlen = 1, header.msg_control = room.data();
    header.msg_controllen = room.size();
  }
  FileMessage(const FileMessage&) = delete;
  FileMessage& operator=(const FileMessage&) = delete;
  ~FileMessage() = default;
};

bool send_file(int socket, int file) {
  FileMessage message;
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET, control->cmsg_type = SCM_RIGHTS, control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &file, sizeof file);
  return sendmsg(socket, &message.header, MSG_NOSIGNAL) == 1;
}

int receive_file(int socket) {
  FileMessage message;
  if (recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  int file = -1;
  if (control != nullptr && control->cmsg_type == SCM_RIGHTS) std::memcpy(&file, CMSG_DATA(control), sizeof file);
  return above_streams(file);
}

// ---- in the keeper ----

/// All processes, with their parents.
std::vector<std::pair<pid_t, pid_t>> all_processes() {
  std::vector<std::pair<pid_t, pid_t>> all;
  DIR* list = opendir("/proc");
  if (list == nullptr) return all;
  while (const dirent* entry = readdir(list)) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc{}) continue;
    // "17 (name) S 4 ...": a name may hold anything. A process that has gone in between reads as nothing: iterators of
    // the buffer would throw.
    std::ifstream file("/proc/" + std::string(name) + "/stat");
    std::string text;
    std::getline(file, text, '\0');
    const std::size_t end = text.rfind(')');
    pid_t parent = 0;
    if (end == std::string::npos || end + 4 >= text.size()) continue;
    if (std::from_chars(text.data() + end + 4, text.data() + text.size(), parent).ec == std::errc{})
      all.emplace_back(pid, parent);
  }
  closedir(list);
  return all;
}

/// Whom this process has started, whom those have, and so on.
std::set<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  for (const auto& [pid, parent] : all_processes()) children.emplace(parent, pid);
  std::set<pid_t> found;
  std::vector<pid_t> open = {getpid()};
  while (!open.empty()) {
    const auto [first, last] = children.equal_range(open.back());
    open.pop_back();
    for (auto it = first; it != last; ++it)
      if (found.insert(it->second).second) open.push_back(it->second);
  }
  return found;
}

/// Kills and waits for everything that this process has started; a subreaper is the parent of what its children leave
/// behind. Gives up on what does not die. The status of `child`, or 0.
int end_all(pid_t child) {
  int status_of_child = 0;
  // As long as the child is not waited for, no other group can have its number.
  kill(-child, SIGKILL);
  const auto give_up = Clock::now() + std::chrono::seconds(10);
  for (useconds_t pause = 100; Clock::now() < give_up; pause = std::min<useconds_t>(2 * pause, 20000)) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
      if (ended == child) status_of_child = status;
    if (ended < 0 && errno == ECHILD) break;
    for (const pid_t pid : descendants()) kill(pid, SIGKILL);
    usleep(pause);
  }
  return status_of_child;
}

/// Resets this program's handling of signals, which is not for other programs.
void forget_handlers() {
  for (const int signal :
       {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGCHLD}) {
    struct sigaction now {};
    const bool ignored = sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    const bool ours = signal == SIGPIPE || signal == SIGXFSZ || signal == SIGCHLD;
    if (!ignored || ours) std::signal(signal, SIG_DFL);
  }
}

[[noreturn]] void be_the_child(const ChildKeeper::Body& body, const std::string& task, int file, int pipe,
                               const sigset_t& signals, pid_t keeper) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(127);
  forget_handlers();
  pthread_sigmask(SIG_SETMASK, &signals, nullptr);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(pipe, STDOUT_FILENO) < 0 || dup2(pipe, STDERR_FILENO) < 0)
    _exit(127);
  // All other files that are open here are closed.
  const auto first = static_cast<unsigned>(STDERR_FILENO + 1), kept = static_cast<unsigned>(file);
  if (file < 0) {
    close_range(first, ~0U, 0);
  } else {
    if (kept > first) close_range(first, kept - 1, 0);
    close_range(kept + 1, ~0U, 0);
  }
  int code = 1;
  try {
    code = body(task, file);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "an exception of a type of its own\n");
  }
  std::fflush(nullptr);
  _exit(code);
}

/// Whether the child is to end: the other end of the socket is gone, or asks for it.
bool is_told_to_stop(int socket) {
  char byte = 0;
  const ssize_t n = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n <= 0) return n == 0 || (errno != EAGAIN && errno != EINTR);
  Request request;  // while a child runs nothing else is asked for
  receive_all(socket, &request, sizeof request);
  return true;
}

/// Starts a child and waits for its end, the limit, or the end of the process that asked for it.
Reply one_child(const ChildKeeper::Body& body, const std::string& task, Descriptor& file, double limit, int socket,
                int told, const sigset_t& signals, std::string& words) {
  Reply reply;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    reply.exit_code = 127, words = text("no pipe: ", std::strerror(errno));
    return reply;
  }
  Descriptor from(above_streams(ends[0])), to(above_streams(ends[1]));
  fcntl(from.get(), F_SETFL, O_NONBLOCK);
  const pid_t keeper = getpid(), child = fork();
  if (child < 0) {
    reply.exit_code = 127, words = text("no process: ", std::strerror(errno));
    return reply;
  }
  if (child == 0) be_the_child(body, task, file.get(), to.get(), signals, keeper);
  setpgid(child, child);     // whichever of the two comes first
  to.close(), file.close();  // a pipe ends with who writes to it
  const auto start = Clock::now();
  for (bool open = true;;) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child) break;
    // A limit in seconds may be longer than the clock can count.
    if (std::chrono::duration<double>(Clock::now() - start).count() >= limit) {
      reply.timed_out = true;
      break;
    }
    if (is_told_to_stop(socket)) break;
    std::array<pollfd, 3> events{pollfd{open ? from.get() : -1, POLLIN, 0}, pollfd{told, POLLIN, 0},
                                 pollfd{socket, POLLIN, 0}};
    poll(events.data(), events.size(), 20);
    for (signalfd_siginfo which{}; read(told, &which, sizeof which) == sizeof which;) {
    }
    open = open && drain(from.get(), words);
  }
  const int status = end_all(child);
  if (WIFSIGNALED(status)) reply.signal = WTERMSIG(status);
  if (WIFEXITED(status)) reply.exit_code = WEXITSTATUS(status);
  drain(from.get(), words);
  words = last_lines(words);
  return reply;
}

/// Starts children until the other end of the socket is gone.
[[noreturn]] void keep(int socket, const ChildKeeper::Body& body, const std::filesystem::path& folder) {
  setpgid(0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t before{}, blocked{}, children{};
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigdelset(&before, signal);
  sigfillset(&blocked);
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  sigemptyset(&children), sigaddset(&children, SIGCHLD);
  const Descriptor told(signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
  for (Request request; receive_all(socket, &request, sizeof request);) {
    if (request.stops) continue;  // what has ended meanwhile
    std::string task(request.task, '\0'), words;
    if (!receive_all(socket, task.data(), task.size())) break;
    Descriptor file(request.has_file ? receive_file(socket) : -1);
    Reply reply = one_child(body, task, file, request.limit, socket, told.get(), before, words);
    reply.words = words.size();
    if (!send_all(socket, &reply, sizeof reply) || !send_all(socket, words.data(), words.size())) break;
  }
  if (!folder.empty()) RemoveFolder()(&folder);
  _exit(0);
}

}  // namespace

std::string ChildEnd::sentence() const {
  std::string how = fmt::format("ended with exit code {}", exit_code);
  if (signal != 0) how = fmt::format("crashed with signal {} ({})", signal, strsignal(signal));
  if (interrupted != 0) how = "was interrupted";
  if (timed_out) how = "had not ended at the time limit, and was killed";
  return how + (last_words.empty() ? "" : ": " + last_words);
}

ChildKeeper::ChildKeeper(const Body& body, const std::filesystem::path& folder) {
  std::array<int, 2> ends{};
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
          "no socket for a child: ", std::strerror(errno));
  Descriptor mine(above_streams(ends[0])), its(above_streams(ends[1]));
  std::fflush(nullptr);
  const pid_t child = fork();
  require(child >= 0, "no child process: ", std::strerror(errno));
  if (child == 0) {
    mine.close();
    keep(its.release(), body, folder);
  }
  pid_ = child, socket_ = mine.release();
}

ChildKeeper::~ChildKeeper() { end(); }

void ChildKeeper::end() {
  if (socket_ < 0) return;
  ::close(std::exchange(socket_, -1));
  started_ = false;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool ChildKeeper::start(const std::string& task, int file, std::chrono::duration<double> limit) {
  const Request request{false, limit.count(), task.size(), file >= 0};
  started_ = socket_ >= 0 && send_all(socket_, &request, sizeof request) &&
             send_all(socket_, task.data(), task.size()) && (file < 0 || send_file(socket_, file));
  return started_;
}

ChildEnd ChildKeeper::ended() {
  ChildEnd end;
  Reply reply;
  const bool answered = std::exchange(started_, false) && receive_all(socket_, &reply, sizeof reply);
  end.last_words.resize(answered ? reply.words : 0);
  if (!answered || !receive_all(socket_, end.last_words.data(), end.last_words.size())) {
    end.signal = SIGKILL, end.last_words = "and with it the process that waited for its end";
    return end;
  }
  end.timed_out = reply.timed_out, end.signal = reply.signal, end.exit_code = reply.exit_code;
  return end;
}

ChildEnd ChildKeeper::stop() {
  const Request request{.stops = true};
  send_all(socket_, &request, sizeof request);
  return ended();
}

ChildEnd ChildKeeper::run(const std::string& task, int file, std::chrono::duration<double> limit) {
  const EndingSignals signals;
  const Descriptor told(signalfd(-1, signals.set(), SFD_CLOEXEC | SFD_NONBLOCK));
  for (start(task, file, limit); started_;) {
    signalfd_siginfo which{};
    if (read(told.get(), &which, sizeof which) == sizeof which) {
      end();
      ChildEnd interrupted;
      interrupted.interrupted = static_cast<int>(which.ssi_signo);
      return interrupted;
    }
    std::array<pollfd, 2> events{pollfd{socket_, POLLIN, 0}, pollfd{told.get(), POLLIN, 0}};
    poll(events.data(), events.size(), -1);
    if (events[0].revents != 0) break;
  }
  return ended();
}

ChildEnd run_child(const std::function<int()>& body, std::chrono::duration<double> limit) {
  return ChildKeeper([&](const std::string&, int) { return body(); }).run("", -1, limit);
}

int be_command(const std::string& command) {
  execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
  return 127;
}

ChildEnd run_command(const std::string& command, std::chrono::duration<double> limit) {
  return run_child([&] { return be_command(command); }, limit);
}

std::filesystem::path make_private_folder(std::filesystem::path under) {
  std::error_code missing;
  const char* asked = std::getenv("TMPDIR");
  if (under.empty()) under = std::filesystem::temp_directory_path(missing);
  require(!missing, asked == nullptr ? "/tmp" : asked, ": no folder for temporary files: ", missing.message());
  std::string path = (under / "assay-XXXXXX").string();
  require(mkdtemp(path.data()) != nullptr, path, ": no temporary folder: ", std::strerror(errno));
  return path;
}

PrivateFolder::PrivateFolder() : path_(make_private_folder()) {}

PrivateFolder::~PrivateFolder() { RemoveFolder()(&path_); }

}  // namespace assay
