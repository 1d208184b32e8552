// Compiled with the flags of its instruction set, on x86-64 alone.
#ifdef __x86_64__
#define ASSAY_WORDS_ISA avx2
#define ASSAY_WORDS_WIDTH 4
#include "oracles/multiword/lanes/kernels_body.hpp"

namespace assay::words {
const Kernels& kernels_avx2() { return avx2::table(); }
const DeltaKernels& delta_kernels_avx2(int words) { return avx2::delta_table(words); }
}  // namespace assay::words
#endif
