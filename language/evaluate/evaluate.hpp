#pragma once
// Values of a program for its inputs, in any scalar.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "language/evaluate/value.hpp"
#include "language/program/program.hpp"

namespace assay::language {

/// The lengths of a problem's axes; one that is not there has length 0.
using Sizes = std::map<std::string, int, std::less<>>;
inline int extent_of(const Dim& dim, const Sizes& sizes) {
  if (dim.name.empty()) return dim.written;
  const auto found = sizes.find(dim.name);
  return found == sizes.end() ? 0 : found->second;
}
/// The shape of a value of that type, row-major.
inline Strides shape_of(const Type& type, const Sizes& sizes) {
  Strides s;
  for (const Dim& dim : type.axes) s.length[Strides::at(s.rank++)] = extent_of(dim, sizes);
  return s.dense();
}

/// How many numbers an evaluation keeps at once, at most: of a block's values and of what its scans make.
double footprint(const Block& block, const Sizes& sizes);
/// Bytes that an evaluation may take.
inline constexpr double most_memory = 0x1p34;
/// Elements that one array may have, repeated ones as well.
inline constexpr double most_elements = 0x1p31;

/// Whether result i of a scan of that block is a state before its step, and nothing but scans reads it, row by row:
/// then every so many of them are kept, and the others computed again.
bool is_replayed(const Block& block, const Node& scan, std::size_t i);

/// From how many bytes on that is done, on this thread while it lives.
class ReplayLimit {
 public:
  explicit ReplayLimit(std::size_t bytes) : before_(bytes_) { bytes_ = bytes; }
  ReplayLimit(const ReplayLimit&) = delete;
  ReplayLimit& operator=(const ReplayLimit&) = delete;
  ~ReplayLimit() { bytes_ = before_; }
  static std::size_t bytes() { return bytes_; }

 private:
  inline static thread_local std::size_t bytes_ = std::size_t{1} << 28;
  std::size_t before_;
};

/// The first operation that made a number that does not exist, or one beyond the scalar.
struct Culprit {
  Op op = Op::const_;
  int token = -1;  ///< of the outermost scan, or -1
  std::vector<int> element;
};

/// The content of a pack's lanes: lane g * heads + h has head h, and, where tokens go side by side, the step's token g.
struct LaneGroups {
  int heads = 1, groups = 1;
};

/// The values of the block's results. Numbers that do not exist are NaN and travel. Throws Undecided where enclosures
/// do not decide a comparison, Divided where the lanes of a pack want different ones, and Refusal if integers overflow.
/// `culprit` is asked for in a second run alone: it costs a look at every number.
/// In a draw (PerturbedArithmetic) random numbers are those of the head and the block of the place where it is.
template <class S>
std::vector<Value<S>> evaluate(const Block& block, std::vector<Value<S>> args, const Sizes& sizes,
                               std::optional<Culprit>* culprit = nullptr, const LaneGroups& lanes = {});

}  // namespace assay::language
