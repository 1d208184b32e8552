#include "files/new_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <random>
#include <utility>

#include "reference/core/error.hpp"

namespace assay {
namespace {

/// A file that a signal has to remove. Those beyond the last slot stay, as they would without a handler.
struct Unfinished {
  std::atomic<int> state{0};  ///< 0: free, 1: being filled in, 2: a file
  std::array<char, PATH_MAX> path;
};
std::array<Unfinished, 16> unfinished;

int remember(const std::string& path) {
  for (std::size_t i = 0; i < unfinished.size() && path.size() < PATH_MAX; ++i) {
    int is_free = 0;
    if (!unfinished[i].state.compare_exchange_strong(is_free, 1)) continue;
    std::memcpy(unfinished[i].path.data(), path.c_str(), path.size() + 1);
    unfinished[i].state = 2;
    return static_cast<int>(i);
  }
  return -1;
}

void forget(int slot) {
  if (slot >= 0) unfinished[static_cast<std::size_t>(slot)].state = 0;
}

extern "C" void remove_unfinished_and_end(int signal) {
  for (const Unfinished& file : unfinished)
    if (file.state == 2) unlink(file.path.data());
  raise(signal);  // by now it ends us
}

/// With the permissions of what is there, or those that a new file has.
void keep_permissions(int file, const struct stat* old) {
  if (old == nullptr) return;
  // Only root may give files away, and who is not need not: a file of its own keeps its owner.
  if (fchown(file, old->st_uid, old->st_gid) != 0) errno = 0;
  fchmod(file, old->st_mode & 0777);
}

}  // namespace

NewFile::NewFile(std::filesystem::path target, Access access)
    : target_(std::move(target)), buffer_(create(access), std::ios::out | std::ios::binary), stream_(&buffer_) {}

int NewFile::create(Access access) {
  const mode_t mode = access == Access::owner ? 0600 : 0666;
  const auto refuse = [&](const char* why) { throw InputError(text(target_.string(), ": cannot be written: ", why)); };
  struct stat old {};
  const bool replaces = lstat(target_.c_str(), &old) == 0 && S_ISREG(old.st_mode);
  if (replaces && (old.st_mode & 0222) == 0) refuse("it is read-only");
  if (replaces) {
    // Renaming asks for leave to change the folder, not the file.
    const int file = open(target_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) refuse(std::strerror(errno));
    close(file);
  }
  std::random_device random;
  constexpr int tries = 100;
  for (int i = 0; i < tries; ++i) {
    const std::string name = text(".assay-", std::hex, random(), random(), ".tmp");
    temporary_ = (target_.parent_path() / name).string();
    const int file = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) refuse(std::strerror(errno));
    if (access == Access::usual) keep_permissions(file, replaces ? &old : nullptr);
    slot_ = remember(temporary_);
    return file;
  }
  refuse("no name beside it is free");
  return -1;
}

NewFile::~NewFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
  forget(slot_);
}

void NewFile::commit() {
  stream_.flush();
  const bool written = stream_.good() && buffer_.close() != nullptr;
  require(written && std::rename(temporary_.c_str(), target_.c_str()) == 0, target_.string(),
          ": cannot be written: ", std::strerror(errno));
  temporary_.clear();
  forget(std::exchange(slot_, -1));
}

void remove_unfinished_files_on_signals() {
  struct sigaction action {};
  action.sa_handler = remove_unfinished_and_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) sigaction(signal, &action, nullptr);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace assay
