#include "oracles/multiword/lanes/kernels.hpp"

namespace assay::words {

const Kernels& kernels_scalar();
#ifdef __x86_64__
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();
#endif

std::string_view name_of(Isa isa) {
  constexpr std::string_view names[] = {"scalar", "avx2", "avx512"};
  return names[static_cast<int>(isa)];
}

bool supported(Isa isa) {
#ifdef __x86_64__
  if (isa == Isa::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == Isa::avx512) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
#endif
  return isa == Isa::scalar;
}

Isa best_isa() { return supported(Isa::avx512) ? Isa::avx512 : supported(Isa::avx2) ? Isa::avx2 : Isa::scalar; }

const Kernels& kernels([[maybe_unused]] Isa isa) {
#ifdef __x86_64__
  if (isa == Isa::avx512) return kernels_avx512();
  if (isa == Isa::avx2) return kernels_avx2();
#endif
  return kernels_scalar();
}

}  // namespace assay::words
