#pragma once
// The states of a recurrence from the last to the first, as its reverse pass asks for them, without keeping them all.
#include <cstddef>
#include <utility>
#include <vector>

namespace assay {

/// s_0 = `initial`, and step(t, s) takes s from s_t to s_{t+1}, t = 0 ... steps - 1. At most 2 ceil(sqrt(T)) + 1 of the
/// T + 1 states are alive: the first of every segment of ceil(sqrt(T)) steps, and all of the segment that is being
/// read, computed again from its first. Every step is made twice, with the same operations on the same numbers, so
/// whatever else it writes has to be set, not added to.
template <class State, class Step>
class Replay {
 public:
  Replay(State initial, int steps, Step step) : step_(std::move(step)), begin_(steps) {
    while (length_ * length_ < steps) ++length_;
    for (int t = 0; t < steps; ++t) {
      if (t % length_ == 0) firsts_.push_back(initial);
      step_(t, initial);
    }
  }

  /// s_t and s_{t+1}. From call to call t stays or falls; when it falls, earlier references end.
  const State& before(int t) { return segment_of(t)[static_cast<std::size_t>(t - begin_)]; }
  const State& after(int t) { return segment_of(t)[static_cast<std::size_t>(t - begin_) + 1]; }

 private:
  const std::vector<State>& segment_of(int t) {
    if (t >= begin_) return segment_;
    begin_ = t - t % length_;
    segment_.assign(1, firsts_[static_cast<std::size_t>(t / length_)]);
    segment_.reserve(static_cast<std::size_t>(length_) + 1);
    for (int u = begin_; u <= t; ++u) {
      segment_.push_back(segment_.back());
      step_(u, segment_.back());
    }
    return segment_;
  }

  Step step_;
  int length_ = 0;  // of a segment
  int begin_;       // the first step of the segment at hand
  std::vector<State> firsts_, segment_;
};

}  // namespace assay
