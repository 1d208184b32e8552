#pragma once
// Code of the binary's own that a GPU's compiler makes at first use: headers which it carries (files/embedded.hpp), and
// a line after them that says what of them.
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "language/device/gpu.hpp"

namespace assay::language::device {

/// What compiled code says of itself: its threads, how many doubles they share and a block has of its own, and the
/// bytes of its arguments.
struct Start {
  std::size_t threads, shared, own, arguments;
};

struct Program {
  Driver::Handle run = nullptr;
  std::string why{};  ///< there is none: what the compiler says
  Start start{};
};

/// Called by several threads.
class Programs {
 public:
  /// `refuses` is told once of a program that the compiler does not take.
  Programs(const Gpu& gpu, KeptTexts kept, std::function<void(const std::string& what, const std::string& why)> refuses)
      : gpu_(gpu), kept_(std::move(kept)), refuses_(std::move(refuses)) {}

  /// Of these lines, those that have no program yet. `code`: what includes the headers.
  std::vector<std::string> missing(const std::string& code, const std::set<std::string>& lines);
  /// Says so before it compiles; `what` it is, for who is told. By a thread that has entered the GPU.
  Program find(const std::string& code, const std::string& line, const std::string& what,
               const std::function<void()>& says);

 private:
  Program loaded(const std::string& binary) const;

  const Gpu& gpu_;
  KeptTexts kept_;
  std::function<void(const std::string& what, const std::string& why)> refuses_;
  std::mutex guard_;
  std::map<std::string, Program> known_;
};

}  // namespace assay::language::device
