#pragma once
// The answers of single heads put together: a block of numbers per head, or the sum over the heads that share one.
#include <map>
#include <string>
#include <string_view>
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
    BasicArray<WordBall>& array = into[std::string(tensor.name)];
    const bool split = heads_.axis && tensor.by_head;
    std::vector<bool>& seen = seen_[&array];
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
        count, threads_, [&](std::size_t i) { to[i] = adds ? assay::add(words_, to[i], number(i)) : number(i); });
    seen[block] = true;
  }

 private:
  const HeadCount& heads_;
  int words_, threads_;
  std::map<const void*, std::vector<bool>> seen_;
};

}  // namespace assay
