#pragma once
#include <flint/flint.h>

namespace assay {

/// FLINT keeps caches for every thread that computes with it; this frees those of a thread that is about to end.
struct FlintCaches {
  FlintCaches() = default;
  FlintCaches(const FlintCaches&) = delete;
  FlintCaches& operator=(const FlintCaches&) = delete;
  ~FlintCaches() { flint_cleanup(); }
};

}  // namespace assay
