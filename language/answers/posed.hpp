#pragma once
// A problem at the door of a program: names, shapes, heads and values, checked before anything runs.
#include <set>
#include <span>
#include <string>
#include <vector>

#include "language/evaluate/evaluate.hpp"
#include "language/program/program.hpp"
#include "reference/core/problem.hpp"

namespace assay::language {

/// A program, its gradient, and what its files call tokens.
struct Mechanism {
  Program program, gradient;
  /// Axes of tokens: T, what scans run along, and keys, S, unless states have an axis of that name.
  std::set<std::string> tokens;

  explicit Mechanism(const Program& p);
  /// A mechanism of a program and a gradient that need not be its own.
  Mechanism(Program p, Program g);
  /// The program that answers, with `gradients` that of these, too.
  const Program& asked(bool gradients) const { return gradients ? gradient : program; }
  /// Whether a tensor of that type has its tokens first.
  bool walks_tokens(const Type& type) const { return !type.axes.empty() && tokens.contains(type.axes[0].name); }
};

/// Keeps references to the mechanism and the problem. A program is of one head; an array that has an axis more than the
/// program's has its heads there, and one with fewer heads is shared by groups of the others, in order.
template <class X>
class Posed {
 public:
  /// Throws Refusal (DOMAIN, NONFINITE), one sentence: unknown names, shapes that do not fit, numbers that are none,
  /// log decays above 0.
  Posed(const Mechanism& mechanism, const BasicProblem<X>& problem);

  const Mechanism& mechanism() const { return mechanism_; }
  const Sizes& sizes() const { return sizes_; }
  int heads() const { return heads_; }
  bool head_axis() const { return head_axis_; }
  bool has_cotangents() const { return !problem_.cotangents.empty(); }
  /// How many blocks of numbers input i has: one for each head or group of heads; 0: one for all, without an axis.
  int blocks_of(std::size_t i) const { return given_[i].is_there ? given_[i].blocks : head_axis_ ? heads_ : 0; }
  /// How many groups of heads, one after the other, read no array in common; numbers do not count.
  int groups_apart() const;
  /// The block of a head in input i.
  int block_of(std::size_t i, int head) const { return head * blocks_of(i) / heads_; }

  /// The numbers of input i, of the cotangents behind them, as the problem has them of all heads, one after the other;
  /// nothing where it has not.
  std::span<const X> numbers_of_heads(std::size_t i) const {
    const Given& given = i < given_.size() ? given_[i] : cotangents_[i - given_.size()];
    const bool follows = given.array != nullptr && given.blocks == (head_axis_ ? heads_ : 0);
    return follows ? std::span<const X>(given.array->data) : std::span<const X>();
  }

  /// The values of all inputs, and with `cotangents` of those too, for a head; of a pack, for a head in every lane.
  template <class S>
  std::vector<Value<S>> values(std::span<const int> heads, bool cotangents) const;

 private:
  /// The given numbers of an input or a cotangent.
  struct Given {
    const BasicArray<X>* array = nullptr;
    BasicArray<X> number;  ///< of a parameter
    std::int64_t whole = 0;
    int blocks = 0;  ///< 0: no axis of heads
    bool is_there = false;
    const BasicArray<X>& numbers() const { return array != nullptr ? *array : number; }
  };

  void refuse_unknown() const;
  Given find(const Input& input) const;
  Given parameter(const Input& input, const Param& value) const;
  void admit_shape(const std::string& label, const Type& type, Given& given);
  void count_heads();
  void admit_numbers(const std::string& label, const Type& type, std::string_view domain, const Given& given) const;
  template <class S>
  Value<S> value(const Type& type, const Given& given, std::span<const int> heads) const;

  const Mechanism& mechanism_;
  const BasicProblem<X>& problem_;
  std::vector<Given> given_, cotangents_;
  Sizes sizes_;
  int heads_ = 1;
  bool head_axis_ = false;
};

namespace detail {

inline std::vector<int> lengths_of(const Strides& s) { return {s.length.begin(), s.length.begin() + s.rank}; }

/// A tensor of an answer: its name, and how its blocks follow the heads.
struct Place {
  std::string name;
  int blocks = 0, block = 0;
  bool first = true;  ///< of the heads of that block

  /// Of the tensor, from a head's.
  std::vector<int> shape(const Strides& of_head) const {
    std::vector<int> lengths = lengths_of(of_head);
    if (blocks > 0) lengths.insert(lengths.begin(), blocks);
    return lengths;
  }
};
template <class X>
Place place_of(const Posed<X>& posed, std::size_t result, int head) {
  const Program& program = posed.mechanism().program;
  if (result < program.outputs.size())
    return {program.outputs[result], posed.head_axis() ? posed.heads() : 0, posed.head_axis() ? head : 0, true};
  std::size_t wanted = result - program.outputs.size(), i = 0;
  for (;; ++i)
    if (program.inputs[i].gradient && wanted-- == 0) break;
  const int block = posed.block_of(i, head);
  return {program.inputs[i].name, posed.blocks_of(i), block, head == 0 || posed.block_of(i, head - 1) != block};
}

}  // namespace detail
}  // namespace assay::language
