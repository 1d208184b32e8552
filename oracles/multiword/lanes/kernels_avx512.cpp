// Compiled with the flags of its instruction set, on x86-64 alone.
#ifdef __x86_64__
#define ASSAY_WORDS_ISA avx512
#define ASSAY_WORDS_WIDTH 8
#include "oracles/multiword/lanes/kernels_body.hpp"

namespace assay::words {
const Kernels& kernels_avx512() { return avx512::table(); }
const DeltaKernels& delta_kernels_avx512(int words) { return avx512::delta_table(words); }
}  // namespace assay::words
#endif
