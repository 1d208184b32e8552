// For every machine; slow where fma is a call.
#define ASSAY_WORDS_ISA scalar
#define ASSAY_WORDS_WIDTH 1
#include "oracles/multiword/lanes/kernels_body.hpp"

namespace assay::words {
const Kernels& kernels_scalar() { return scalar::table(); }
const DeltaKernels& delta_kernels_scalar(int words) { return scalar::delta_table(words); }
}  // namespace assay::words
