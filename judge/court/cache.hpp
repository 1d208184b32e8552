#pragma once
// Truth and sigma of cases that were checked before, in files under ~/.cache/assay. docs/check.md, "What is kept".
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "judge/sigma/expected.hpp"
#include "judge/verdict/detectability.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// All files together, and a 1,024th more in the mean, unless ASSAY_CACHE_MB says another number of megabytes; the
/// oldest go first.
inline constexpr std::uintmax_t cache_bound = std::uintmax_t{1} << 30;

/// Keeps bytes by the digest of what they were computed from and of this very program and its libraries. Whatever is
/// wrong with a file or the folder, nothing is found and the work is done again: other processes, full disks, partial
/// files and files of others do no harm. A file that was changed since this object was made is not read: a kernel that
/// runs meanwhile cannot put anything there.
class Cache {
 public:
  /// In $XDG_CACHE_HOME/assay, or in ~/.cache/assay. Throws InputError where ASSAY_CACHE_MB is no number.
  Cache();
  /// In that folder; "": nothing is kept.
  explicit Cache(std::filesystem::path folder, std::uintmax_t bound = cache_bound);

  /// The bytes that were kept under the digest of `what`; nothing where there are none that can be trusted.
  std::optional<std::string> find(const std::string& what);
  void keep(const std::string& what, std::string_view bytes);

  int hits() const { return hits_; }
  int misses() const { return misses_; }
  /// Files that made room for what this object kept.
  int dropped() const { return dropped_; }
  std::uintmax_t bound() const { return bound_; }

 private:
  std::filesystem::path file_of(const std::string& what) const;
  bool is_turn_to_trim(const std::filesystem::path& path, std::size_t size) const;
  void trim();

  std::filesystem::path folder_;
  std::uintmax_t bound_;
  std::int64_t made_ = 0;  ///< in nanoseconds since the epoch
  std::string program_;
  int hits_ = 0, misses_ = 0, dropped_ = 0;
};

/// The digest of everything that fixes an answer.
std::string digest_of(const Problem& problem);
/// How such a kernel rounds, in words for a key.
std::string key_of(const KernelUnderTest& kernel);

/// Bytes of what is kept, and what such bytes say; throws std::runtime_error where they say nothing.
std::string packed(const Oracle& oracle);
std::string packed(const Named<Expected>& tensors);
std::string packed(const std::vector<Expectation>& expectations);
std::string packed(const Detectability& found);
void unpack(std::string_view bytes, Oracle& oracle);
void unpack(std::string_view bytes, Named<Expected>& tensors);
void unpack(std::string_view bytes, std::vector<Expectation>& expectations);
void unpack(std::string_view bytes, Detectability& found);
std::string packed(const Named<Format>& formats);
void unpack(std::string_view bytes, Named<Format>& formats);

/// Takes out of an expectation what the rest says, and what the oracle's answer says unless a sharper one was asked.
void leave_out_what_follows(Expected& expected, bool is_sharper);
/// Puts that in again; limits are multiplied by `factor`.
void put_in_what_follows(Expected& expected, const std::string& name, const Oracle& oracle, double factor = 1,
                         int threads = 1);

/// Whether bytes that took so many seconds of processor time are worth a file: all are up to a megabyte, and 12 MB for
/// each second. The truth of most rooms is computed faster than that, at 20 MB a second or more.
bool is_worth_keeping(std::size_t bytes, double seconds);

/// Bytes that packing makes at least.
inline std::size_t least_packed(const Oracle& oracle) {
  std::size_t bytes = 0;
  for (const auto& [name, truth] : oracle.tensors) bytes += truth.value.size() * sizeof(HiLo);
  return bytes;
}
template <class T>
std::size_t least_packed(const T&) {
  return 0;
}

/// `compute()`, or what it was the last time; `cache` may be null.
template <class Compute>
auto kept_in(Cache* cache, const std::string& what, Compute&& compute) {
  decltype(compute()) value;
  if (cache == nullptr) return compute();
  if (const std::optional<std::string> bytes = cache->find(what)) {
    try {
      unpack(*bytes, value);
      return value;
    } catch (const std::runtime_error&) {
      value = {};
    }
  }
  const std::clock_t begun = std::clock();
  value = compute();
  const double seconds = static_cast<double>(std::clock() - begun) / static_cast<double>(CLOCKS_PER_SEC);
  if (!is_worth_keeping(least_packed(value), seconds)) return value;
  if (const std::string bytes = packed(value); is_worth_keeping(bytes.size(), seconds)) cache->keep(what, bytes);
  return value;
}

}  // namespace assay
