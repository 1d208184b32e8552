#include "oracles/multiword/lanes/delta_kernels.hpp"

namespace assay::words {

const DeltaKernels& delta_kernels_scalar(int words);
#ifdef __x86_64__
const DeltaKernels& delta_kernels_avx2(int words);
const DeltaKernels& delta_kernels_avx512(int words);
#endif

const DeltaKernels& delta_kernels([[maybe_unused]] Isa isa, int words) {
#ifdef __x86_64__
  if (isa == Isa::avx512) return delta_kernels_avx512(words);
  if (isa == Isa::avx2) return delta_kernels_avx2(words);
#endif
  return delta_kernels_scalar(words);
}

}  // namespace assay::words
