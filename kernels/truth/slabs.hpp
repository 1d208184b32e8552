#pragma once
// The oracle's slabs on the GPU that this library was compiled for.
#include "oracles/multiword/slab_executor.hpp"

namespace assay {

/// Fills in the answer of a run, to the CPU's bits; false where the GPU's memory does not suffice. May be called by
/// several threads, whose problems then run side by side.
bool run_slabs_on_gpu(words::SlabRun& run);

}  // namespace assay
