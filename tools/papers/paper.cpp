#include "tools/papers/paper.hpp"

namespace assay {

std::span<const Paper> papers() {
  static constexpr Paper all[] = {
      {"lla-table-2", "error of conjugate gradients in bf16", "local linear attention (L), Table 2", lla_table_2},
      {"lla-regression", "regression at test time on a stream that changes",
       "local linear attention (L), Figures 2 and 3", lla_regression},
      {"parallax-ratios", "what Parallax costs beside attention, decoding and training", "Parallax (P), Figure 2b",
       parallax_ratios},
      {"falcon-stability", "states and errors along the length", "FALCON, sections 3.2, 3.3 and E", falcon_stability},
      {"mdn-stability", "states and errors along the length", "Momentum DeltaNet, section 3.2 and (9) to (13)",
       mdn_stability}};
  return all;
}

}  // namespace assay
