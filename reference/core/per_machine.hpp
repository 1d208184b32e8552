#pragma once
// One body per instruction set, chosen when the program is loaded. The loader's choice runs before ThreadSanitizer's
// runtime is up, so that build gets the portable body alone; rounding_matrix.sh tests the others one by one.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ASSAY_PER_MACHINE
#endif
#elif defined(__SANITIZE_THREAD__)
#define ASSAY_PER_MACHINE
#endif
#if !defined(ASSAY_PER_MACHINE)
#if !defined(__x86_64__)
#define ASSAY_PER_MACHINE
#elif defined(__clang__)  // clang 14 never picks an arch=x86-64-v* body, g++ 12 has no avx512dq
#define ASSAY_PER_MACHINE __attribute__((target_clones("avx512dq", "avx2", "default")))
#else
#define ASSAY_PER_MACHINE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
#endif
