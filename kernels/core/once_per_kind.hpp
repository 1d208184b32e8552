#pragma once
// What is worked out once for each kind of run, whoever asks first.
#include <map>
#include <mutex>
#include <string>

namespace assay {

template <class T>
class OncePerKind {
 public:
  /// That kind's T, which make(T&) has filled in. Others of its kind wait, those of other kinds do not.
  template <class Make>
  const T& get(const std::string& kind, Make make) {
    Entry* entry = nullptr;
    {
      const std::lock_guard lock(guard_);
      entry = &entries_[kind];
    }
    std::call_once(entry->once, [&] { make(entry->value); });
    return entry->value;
  }

 private:
  struct Entry {
    std::once_flag once;
    T value{};
  };
  std::mutex guard_;
  std::map<std::string, Entry> entries_;
};

}  // namespace assay
