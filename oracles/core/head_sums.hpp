#pragma once
// The answers of single heads put together: a block of numbers per head, or the sum over the heads that share one.
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracles/core/bind.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/multiword/word_ball.hpp"

namespace assay {

class HeadSums {
 public:
  HeadSums(const HeadCount& heads, int words, int threads) : heads_(heads), words_(words), threads_(threads) {}

  /// Adds the `count` numbers `number(i)` of `head`; those met for the first time are taken as they are.
  template <class F>
  void add(BasicArrays<WordBall>& into, int head, const HeadTensor& tensor, std::size_t count, F&& number) {
    add(into, head, tensor, count, number, threads_);
  }
  /// As add(), when add_waiting() is called, while what `number` reads is there.
  template <class F>
  void add_later(BasicArrays<WordBall>& into, int head, HeadTensor tensor, std::size_t count, F number) {
    waiting_[std::pair(&into, std::string(tensor.name))].push_back(
        [=, this, &into](int threads) { add(into, head, tensor, count, number, threads); });
  }
  /// All that waits, tensors side by side.
  void add_waiting() {
    std::vector<Adds> each;
    for (auto& [tensor, adds] : waiting_) each.push_back(std::move(adds));
    waiting_.clear();
    words::in_parallel(each.size(), threads_, [&](std::size_t i) {
      for (const auto& add : each[i]) add(words::threads_of_each(threads_, each.size()));
    });
  }

 private:
  using Adds = std::vector<std::function<void(int)>>;

  template <class F>
  void add(BasicArrays<WordBall>& into, int head, const HeadTensor& tensor, std::size_t count, const F& number,
           int threads) {
    const auto [array_of, seen_of] = [&] {
      const std::lock_guard lock(guard_);
      BasicArray<WordBall>* const found = &into[std::string(tensor.name)];
      return std::pair(found, &seen_[found]);
    }();
    BasicArray<WordBall>& array = *array_of;
    std::vector<bool>& seen = *seen_of;
    const bool split = heads_.axis && tensor.by_head;
    if (seen.empty()) {
      if (split) array.shape.push_back(heads_.of(tensor.side));
      array.shape.insert(array.shape.end(), tensor.shape.begin(), tensor.shape.end());
      array.data.resize(array.count());
      seen.resize(split ? static_cast<std::size_t>(heads_.of(tensor.side)) : 1);
    }
    const auto block = static_cast<std::size_t>(split ? heads_.block(tensor.side, head) : 0);
    WordBall* to = array.data.data() + block * count;
    const bool adds = seen[block];
    words::for_each_in_parallel(
        count, threads, [&](std::size_t i) { to[i] = adds ? assay::add(words_, to[i], number(i)) : number(i); });
    seen[block] = true;
  }

  const HeadCount& heads_;
  int words_, threads_;
  std::mutex guard_;  // of the arrays' names and of
  std::map<const void*, std::vector<bool>> seen_;
  std::map<std::pair<const void*, std::string>, Adds> waiting_;
};

}  // namespace assay
