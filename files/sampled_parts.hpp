#pragma once
// Parts of a case that are problems of their own: of one sequence, the heads that share what they read; of attention, a
// block of their query rows.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "files/layout.hpp"
#include "files/safetensors.hpp"

namespace assay {

/// Some parts of a case, which are judged in place of all. As a smaller case each of them is one sequence.
struct SampledParts {
  struct Part {
    int sequence = 0, group = 0;
  };
  int sequences = 1, groups = 1;  ///< of the whole case; a part for each pair of them
  std::vector<Part> chosen = {};
  std::uint64_t seed = 0;   ///< that they were chosen by
  bool was_secret = false;  ///< whether it was unknown until the answer was read
  /// The query rows of each part, so many from `first_row` on, which know the keys up to the last of them where
  /// attention is causal; 0: all.
  int rows = 0, first_row = 0;
  int tokens = 0;       ///< of the whole case, where it is attention and has as many queries as keys; else 0
  bool causal = false;  ///< of such a case

  int all() const { return sequences * groups; }
  /// Chooses the last part, and count - 1 of the others; if one alone, any. The seed must not be known before: a kernel
  /// could be right where it is looked at.
  void choose(int count, std::uint64_t by_seed);
  /// Chooses one of all blocks of so many rows, by the same seed; the last may be shorter. Throws InputError where rows
  /// depend on what was computed for others.
  void choose_rows(int count);
  int blocks() const { return (tokens + block_rows - 1) / block_rows; }
  /// With what probability parts chosen so miss a fault of `faulty` parts, the last one not among them.
  double miss(int faulty) const;

  /// The chosen parts of a tensor of the whole case or of its answer.
  StoredTensor cut(const StoredTensor& whole, const RoomFacts::Ranked& ranked) const;
  /// The shape of the whole case's tensor that has this shape in the smaller one.
  std::vector<int> whole_shape(const FileLayout& smaller) const;
  /// Whether other rows than the chosen add to such a tensor, if it is a gradient.
  bool adds_rows(const RoomFacts::Ranked& ranked) const;
  /// Row 0 of the smaller problem in the whole: of tensors with a row for each query.
  int row_of(const RoomFacts::Ranked& ranked) const;
  /// The number in the whole case of a head of the smaller problem, of `heads` to a part.
  int whole_block(int block, int heads) const;
  /// "[1][5][0][2]" in the whole case's tensor: element `flat` of the smaller problem's, of that shape.
  std::string place(const RoomFacts::Ranked& ranked, const std::vector<int>& shape, std::size_t flat) const;

  int block_rows = 0;  ///< that were asked for
};

/// The parts of a case that `assay case` could have written, none chosen yet. Throws InputError, one sentence that
/// starts with `where`, if heads cannot be told apart.
SampledParts parts_of(const Safetensors& problem, const std::string& where);

/// The chosen parts as a case of their own.
Safetensors cut(const Safetensors& problem, const SampledParts& parts);

}  // namespace assay
