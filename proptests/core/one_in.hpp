#pragma once
// Tests that take minutes as a whole try a sample. ASSAY_EVERY=1 in the environment tries all, ASSAY_EVERY=90 one
// in 90.
#include <algorithm>
#include <cstdlib>

namespace assay {

/// Whether the sample was asked for by hand: such a run says more of what it tried.
inline bool is_sample_asked_for() { return std::getenv("ASSAY_EVERY") != nullptr; }

/// One in how many is tried: as ASSAY_EVERY says, or `usual`.
inline int one_in(int usual) {
  const char* asked = std::getenv("ASSAY_EVERY");
  return asked == nullptr ? usual : static_cast<int>(std::max(1L, std::strtol(asked, nullptr, 10)));
}

/// Takes the first of them, and from there on one in so many.
class OneIn {
 public:
  explicit OneIn(int usual) : every_(one_in(usual)) {}
  bool takes() { return met_++ % every_ == 0; }

 private:
  int every_, met_ = 0;
};

}  // namespace assay
