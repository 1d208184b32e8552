#include "kernels/arguments/calls.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/core/faults.hpp"

namespace assay::tile {
namespace {

std::size_t product(const std::vector<int>& shape, std::size_t from, std::size_t to) {
  std::size_t n = 1;
  for (std::size_t a = from; a < to; ++a) n *= static_cast<std::size_t>(shape[a]);
  return n;
}

/// Numbers of rows [first, last) of an array with that axis of rows, each as f(place in the array, place among them).
template <class F>
void each_of_rows(const std::vector<int>& shape, int axis, int first, int last, F f) {
  const auto a = static_cast<std::size_t>(axis);
  const std::size_t before = product(shape, 0, a), behind = product(shape, a + 1, shape.size()),
                    rows = static_cast<std::size_t>(shape[a]), count = static_cast<std::size_t>(last - first);
  for (std::size_t o = 0; o < before; ++o)
    for (std::size_t i = 0; i < count * behind; ++i)
      f((o * rows + static_cast<std::size_t>(first)) * behind + i, o * count * behind + i);
}

class Calls {
 public:
  Calls(const Problem& problem, const TokenAxes& tokens, const std::vector<int>& before, const AnswerCall& run)
      : problem_(problem), tokens_(tokens), before_(before), run_(run) {
    const int rows = problem.inputs.at("v").shape[static_cast<std::size_t>(tokens.at("v"))];
    bounds_ = {0};
    for (const int t : before)
      if (t > 0) bounds_.push_back(t);
    bounds_.push_back(rows);
  }

  Answer answer() {
    hand_on();
    Answer whole;
    for (std::size_t c = calls(); c-- > 0;) {
      if (!problem_.cotangents.empty()) cotangents_of(c);
      Answer own = run_(parts_[c], c);
      join(c, own.outputs, whole.outputs);
      join(c, own.gradients, whole.gradients);
      if (c + 1 == calls()) whole.outputs["final_state"] = own.outputs.at("final_state");
      later_ = std::move(own);
    }
    if (const auto d = later_.gradients.find("initial_state"); d != later_.gradients.end()) {
      add_cotangent(0, d->second);
      whole.gradients["initial_state"] = d->second;
    }
    whole.outputs["states"] = states();
    return whole;
  }

 private:
  std::size_t calls() const { return bounds_.size() - 1; }
  bool by_token(const std::string& name) const { return tokens_.contains(name); }

  /// Forward passes: every call from what the one before has left.
  void hand_on() {
    for (std::size_t c = 0; c < calls(); ++c) {
      Problem& part = parts_.emplace_back(problem_);
      part.cotangents.clear();
      for (auto& [name, array] : part.inputs)
        if (by_token(name)) array = rows_of(array, name, c);
      if (c > 0) part.inputs["initial_state"] = left_.back();
      if (c + 1 < calls()) left_.push_back(run_(part, c).outputs.at("final_state"));
    }
  }
  Array rows_of(const Array& array, const std::string& name, std::size_t c) const {
    const int axis = tokens_.at(name), first = bounds_[c], last = bounds_[c + 1];
    Array part;
    part.shape = array.shape;
    part.shape[static_cast<std::size_t>(axis)] = last - first;
    part.data.resize(part.count());
    each_of_rows(array.shape, axis, first, last,
                 [&](std::size_t from, std::size_t to) { part.data[to] = array.data[from]; });
    return part;
  }
  void cotangents_of(std::size_t c) {
    Problem& part = parts_[c];
    for (const auto& [name, array] : problem_.cotangents)
      if (by_token(name)) part.cotangents[name] = rows_of(array, name, c);
    if (c + 1 < calls()) {
      Array& d = part.cotangents["final_state"] = later_.gradients.at("initial_state");
      add_cotangent(bounds_[c + 1], d);
    } else if (const auto given = problem_.cotangents.find("final_state"); given != problem_.cotangents.end()) {
      part.cotangents["final_state"] = given->second;
    }
  }
  /// The cotangent of the state before token `t`, if the problem has one.
  void add_cotangent(int t, Array& d) const {
    const auto given = problem_.cotangents.find("states");
    if (given == problem_.cotangents.end() || std::find(before_.begin(), before_.end(), t) == before_.end()) return;
    each_of_rows(given->second.shape, tokens_.at("v"), t, t + 1,
                 [&](std::size_t from, std::size_t to) { d.data[to] += given->second.data[from]; });
  }

  /// Rows where they belong, and what all calls share summed.
  void join(std::size_t c, const Arrays& own, Arrays& whole) const {
    for (const auto& [name, array] : own) {
      if (name.ends_with("_state")) continue;
      const auto [entry, fresh] = whole.try_emplace(name);
      Array& to = entry->second;
      if (!by_token(name)) {
        if (fresh)
          to = array;
        else
          for (std::size_t i = 0; i < to.data.size(); ++i) to.data[i] += array.data[i];
        continue;
      }
      const int axis = tokens_.at(name);
      if (fresh) {
        to.shape = array.shape;
        to.shape[static_cast<std::size_t>(axis)] = bounds_.back();
        to.data.resize(to.count());
      }
      each_of_rows(to.shape, axis, bounds_[c], bounds_[c + 1],
                   [&, &from = array](std::size_t in_whole, std::size_t i) { to.data[in_whole] = from.data[i]; });
    }
  }

  Array states() const {
    const auto given = problem_.inputs.find("initial_state");
    const Array& like = left_.empty()
                            ? (given == problem_.inputs.end() ? later_.outputs.at("final_state") : given->second)
                            : left_.front();
    const int axis = tokens_.at("v");
    Array all;
    all.shape = like.shape;
    all.shape.insert(all.shape.begin() + axis, bounds_.back());
    all.data.assign(all.count(), 0);
    std::size_t next = 0;
    for (const int t : before_) {
      if (t == 0 && given == problem_.inputs.end()) continue;  // zeros
      const Array& state = t == 0 ? given->second : left_[next++];
      each_of_rows(all.shape, axis, t, t + 1,
                   [&](std::size_t to, std::size_t from) { all.data[to] = state.data[from]; });
    }
    return all;
  }

  const Problem& problem_;
  const TokenAxes& tokens_;
  const std::vector<int>& before_;
  const AnswerCall& run_;
  std::vector<int> bounds_;
  std::vector<Problem> parts_;
  std::vector<Array> left_;  ///< by every call but the last
  Answer later_;             ///< of the call behind the one that runs
};

}  // namespace

Answer answer_in_calls(const Problem& problem, const TokenAxes& tokens, const std::vector<int>& before,
                       const AnswerCall& run) {
  return Calls(problem, tokens, before, run).answer();
}

}  // namespace assay::tile
