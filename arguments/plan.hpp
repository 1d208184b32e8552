#pragma once
// A case as plain problems: which numbers of the case every one of them has, and where its answer belongs.
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arguments/programs/join.hpp"
#include "language/answers/posed.hpp"
#include "reference/core/problem.hpp"

namespace assay::arguments {

using Numbers = BasicArray<std::string>;

/// A tensor of a piece: element i is number at[i] of the case's tensor `from`. Packed rows, pages, blocks of scales,
/// transposed states and a number that all rows share are all of this kind.
struct Picked {
  std::string from;
  std::vector<int> shape;
  std::vector<std::size_t> at;
  std::vector<bool> unread = {};  ///< elements that are 0 whatever number at[i] is, as it is not read; empty: none are
};

/// One axis of a tensor of a piece: how far apart its elements are in the case's tensor, and which they are.
struct PickedAxis {
  std::size_t stride = 0;
  std::vector<int> elements;
};
/// The product of the axes, row-major.
Picked picked(std::string from, const std::vector<PickedAxis>& axes);

/// Strides of a row-major array of that shape.
std::vector<std::size_t> strides_of(const std::vector<int>& shape);
/// All axes of such an array, whole; with `order`, those, in that order.
std::vector<PickedAxis> whole_axes(const std::vector<int>& shape);
std::vector<PickedAxis> whole_axes(const std::vector<int>& shape, const std::vector<std::size_t>& order);
/// 0, 1, ..., n - 1
std::vector<int> first(int n);

/// A tensor of a piece's answer: element .first is number .second of the case's output `to`. An element may have
/// several places, in other outputs or the same.
struct Placed {
  std::string to;
  std::vector<int> shape;  ///< the piece's
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
};
/// Every element in its place.
Placed placed(Picked whole);

/// One sequence as a problem of the program.
struct Piece {
  std::map<std::string, Picked, std::less<>> inputs;
  std::multimap<std::string, Placed, std::less<>> outputs;
};

/// Lists of keys, one for every row, and how much of each counts (arguments/programs/chosen_keys.hpp).
struct Choice {
  int heads = 0;  ///< that have lists of their own; 0: all have the same
  int rows = 0, entries = 0;
  std::vector<int> keys = {};     ///< [heads][rows][entries], each within its row's sequence; -1 is none
  std::vector<int> lengths = {};  ///< [heads][rows]: the entries of each list that count
  int block = 1;                  ///< keys of which an entry names so many
};

/// The range of the numbers of an input.
enum class Range { positive, not_negative, not_positive, log_decay };

struct Plan {
  explicit Plan(const language::Program& program) : mechanism(program) {}

  language::Mechanism mechanism;
  Params params;                                                   ///< of the program
  std::map<std::string, Numbers, std::less<>> inputs, cotangents;  ///< the case's
  std::map<std::string, std::vector<int>, std::less<>> outputs;    ///< the case's
  std::set<std::string, std::less<>> gradients;                    ///< inputs whose gradient is an answer
  std::set<std::string, std::less<>> padded;         ///< inputs whose gradient is null where nothing reads
  std::map<std::string, int, std::less<>> tokens;    ///< inputs and outputs: which axis is that of rows
  std::map<std::string, Range, std::less<>> ranges;  ///< of inputs that have one
  std::vector<Piece> pieces;
  std::optional<Choice> choice;       ///< of attention, where rows chose their keys: then masks of pieces say so
  std::vector<Join::Step> front_end;  ///< what the mechanism's program begins with: norms, gates, steps
};

/// Whether numbers of an input are read by some piece.
std::vector<bool> read_numbers(const Plan& plan, const std::string& input);
/// Whether an input's numbers are some piece's, read or not: these have a gradient, which is 0 where they are not read.
std::vector<bool> numbers_of_pieces(const Plan& plan, const std::string& input);

/// Whether an output's numbers are some piece's answer.
std::vector<bool> answered_numbers(const Plan& plan, const std::string& output);

/// Refuses what is not finite among the numbers that pieces read, -inf in log decays excepted, log decays above 0, and
/// cotangents that are not shaped like their outputs.
void admit_numbers(const Plan& plan);

/// The problems, one for every piece.
std::deque<BasicProblem<std::string>> problems_of(const Plan& plan);

}  // namespace assay::arguments
