#pragma once
// The errors that the data of one problem could have shown: a PASS says little where nothing would have failed.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "judge/sigma/expected.hpp"
#include "oracles/core/room.hpp"

namespace assay {

/// A mask that is off by some keys, planted in the healthy kernel's o by the reference: every query reads as one that
/// comes later, and so sees fewer keys than it should, or earlier, and sees more.
struct MaskFault {
  int keys = 0;    ///< the fewest, of 1, 2, 4, ..., by which a mask that is off in all rows is rejected; 0: none
  int rows = 0;    ///< of those below, the ones that show a mask off by one key without the others
  int tested = 0;  ///< rows of o that such a mask changes
};

/// Faults are planted in as many heads of a case as have so many numbers of its answer, in one at least. The others
/// stay exact: what only all heads together would show counts as hidden.
inline constexpr std::size_t most_numbers_with_faults = std::size_t{1} << 21;

struct Detectability {
  int heads = 0, all_heads = 0;                    ///< that faults were planted in, where it is not in all; else 0
  std::optional<MaskFault> short_mask, long_mask;  ///< nothing where no query sees fewer keys than another
  std::string_view group;       ///< the sites that are narrowed: "state", or "accumulators" where none is carried
  std::vector<Format> hidden;   ///< formats of theirs, from wide to narrow, that all tensors would have passed
  std::optional<Format> shown;  ///< the next one, which would have failed
  /// Things that kernels do and that all tensors would have passed: "beta in bf16", "k normalised inside".
  std::vector<std::string> unseen;

  /// "a mask 1 key short (98% of the rows alone), 1 key long (99%); state in bf16, not in tf32; in 2 of 16 heads".
  std::string sentence() const;
};

/// The detectability in the kernel's own emulation at its first tile, judged by all of `expectations`, as `judge`
/// judges a kernel of unknown tiles. `kernel` is the one of the first. A narrower state shows where it is beyond
/// `certain` times the limits.
Detectability detectability_of(const Room& room, const KernelUnderTest& kernel, const Problem& whole,
                               std::span<const Expectation> expectations, double certain = 1,
                               std::size_t most_numbers = most_numbers_with_faults);

}  // namespace assay
