#pragma once
// Files of ours in folders that are not ours alone.
#include <ext/stdio_filebuf.h>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>

namespace assay {

/// A file that takes the place of another, or of none, once it is whole: written beside it under a name that cannot be
/// foreseen, renamed by commit(). What was there keeps its owner and its permissions.
class NewFile {
 public:
  enum class Access {
    usual,  ///< of a new file: what the umask leaves
    owner,  ///< no other user reads or writes it
  };
  /// Throws InputError, one sentence that begins with `target`, if there can be none, or if what is there may not be
  /// written to.
  explicit NewFile(std::filesystem::path target, Access access = Access::usual);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  /// Removes what has not been committed.
  ~NewFile();

  std::ostream& stream() { return stream_; }
  /// Throws InputError if it could not be written whole.
  void commit();

 private:
  int create(Access access);

  std::filesystem::path target_;
  std::string temporary_;
  int slot_ = -1;  ///< among those that a signal removes
  __gnu_cxx::stdio_filebuf<char> buffer_;
  std::ostream stream_;
};

/// From here on a signal that ends this process removes what has not been committed, and a file that grows too large is
/// an error and no signal. For the program, not for libraries.
void remove_unfinished_files_on_signals();

struct RemoveFolder {
  void operator()(const std::filesystem::path* folder) const {
    std::error_code ignored;
    std::filesystem::remove_all(*folder, ignored);
  }
};
/// Removes the folder that it points to, with all in it, at its own end; what cannot be removed stays.
using FolderEnd = std::unique_ptr<const std::filesystem::path, RemoveFolder>;

}  // namespace assay
