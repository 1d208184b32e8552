#pragma once
// Objects that are found by name more often than they are made.
#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace assay {

/// Objects by name, made when they are first asked for. Those asked for last stay, and older ones for as long as they
/// are held: however many are asked for one after another, memory holds `most`.
template <class T>
class Memo {
 public:
  explicit Memo(std::size_t most) : most_(most) {}

  /// The object of that name; `make()`, a pointer to a new one, if there is none. Its exceptions go through, and it may
  /// ask for objects of other names.
  template <class Make>
  std::shared_ptr<const T> find(const std::string& name, Make&& make) {
    if (auto found = known(name, nullptr)) return found;
    return known(name, make());
  }
  /// Objects that somebody holds live on.
  void clear() {
    const std::lock_guard lock(guard_);
    known_.clear(), latest_.clear();
  }

 private:
  /// The object of that name, or `made` in its place, which becomes the latest.
  std::shared_ptr<const T> known(const std::string& name, std::shared_ptr<const T> made) {
    const std::lock_guard lock(guard_);
    const auto at = known_.find(name);
    std::shared_ptr<const T> one = at == known_.end() ? nullptr : at->second.lock();
    if (one == nullptr) one = std::move(made);
    if (one == nullptr) return nullptr;
    known_[name] = one;
    latest_.erase(std::remove(latest_.begin(), latest_.end(), one), latest_.end());
    latest_.push_front(one);
    if (latest_.size() > most_) latest_.pop_back();
    if (known_.size() > 2 * most_) std::erase_if(known_, [](const auto& other) { return other.second.expired(); });
    return one;
  }

  std::size_t most_;
  std::mutex guard_;
  std::map<std::string, std::weak_ptr<const T>, std::less<>> known_;
  std::deque<std::shared_ptr<const T>> latest_;
};

}  // namespace assay
