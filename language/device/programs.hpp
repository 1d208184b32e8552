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
  /// `refuses` is told once of a program that the compiler does not take; `options`: of a text with the same bits, if
  /// none are given.
  Programs(const Gpu& gpu, KeptTexts kept, std::function<void(const std::string& what, const std::string& why)> refuses,
           std::vector<std::string> options = {});

  /// Compiles side by side those of these lines that have no program yet, and says how many before it does. `code`:
  /// what includes the headers.
  void make(const std::string& code, const std::set<std::string>& lines, const std::string& what,
            const std::function<void(std::size_t missing)>& says);
  /// Says so before it compiles; `what` it is, for who is told. By a thread that has entered the GPU.
  Program find(const std::string& code, const std::string& line, const std::string& what,
               const std::function<void()>& says);

 private:
  Program loaded(const std::string& binary) const;

  const Gpu& gpu_;
  KeptTexts kept_;
  std::function<void(const std::string& what, const std::string& why)> refuses_;
  std::vector<std::string> options_;
  std::mutex guard_;
  std::map<std::string, Program> known_;
};

}  // namespace assay::language::device
