#pragma once
// The constants of exp, each as an unevaluated sum of doubles, computed once in integer arithmetic.

namespace assay::words {

struct ExpTable {
  double coarse[256][4];            ///< 2^(i/256)
  double fine[256][4];              ///< 2^(i/65536)
  double inverse_factorial[11][4];  ///< 1/i!
  double step[5];                   ///< ln 2 / 65536
};

/// Every entry of n words (4; 5 of step) is the number rounded word by word: cut after W words it is u^W (1 + 2^-80) of
/// its value away, relatively. docs/error-analysis.md, section 3.
const ExpTable& exp_table();

inline constexpr double exp_steps_per_unit = 0x1.71547652b82fep+16;  ///< 65536 / ln 2, rounded
inline constexpr double exp_reduced_limit = 5.29e-6;                 ///< |r|: a little over half a step

}  // namespace assay::words
