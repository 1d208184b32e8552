/* What a shared library exports so that `assay check CASE --plugin ./libkernel.so` can call its kernel. C99 and C++.

   The library exports one function, assay_plugin(), which returns a description that stays valid; tools/plugin has an
   example. The library is loaded, and its kernel run, in a process of its own, once: it may crash or hang without harm.

   `data` of inputs and outputs points to host memory, or, if the description asks for it, to memory of the first CUDA
   device: of its primary context, the one that the runtime uses. Everything else is on the host. A kernel that asks for
   host memory may as well copy to a device and back itself; the process has not used CUDA before. */
#ifndef ASSAY_PLUGIN_H
#define ASSAY_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of what is declared here. A library says which one it was compiled with; later ones are refused. Version 1 had no
   `memory`: all pointers are to host memory. */
#define ASSAY_PLUGIN_VERSION 2

/* Little-endian elements. */
enum assay_dtype {
  ASSAY_F64 = 1,
  ASSAY_F32 = 2,
  ASSAY_BF16 = 3,
  ASSAY_F16 = 4,
  ASSAY_F8_E4M3 = 5,
  ASSAY_F8_E5M2 = 6
};

/* Where the data of tensors is. */
enum assay_memory { ASSAY_HOST_MEMORY = 0, ASSAY_DEVICE_MEMORY = 1 };

/* A tensor of the case: q, k, v, ..., and with cotangents d_o, ...; row-major in the layout of the file, [B, T, H, d],
   gates [B, T, H], states [B, H, K, V]. A number of no axes has rank 0. */
struct assay_input {
  const char* name;
  const int64_t* extents; /* `rank` of them */
  const void* data;
  int32_t rank;
  int32_t dtype; /* enum assay_dtype */
};

/* A tensor to write: o, final_state, ..., and with cotangents d_q, .... Every byte of `data` is 0xff at first, which is
   NaN in every dtype, and there is room for eight bytes an element. `dtype` is ASSAY_F32 (ASSAY_F64 where the contract
   is that of fp64) and may be set to what the kernel writes in its place. */
struct assay_output {
  const char* name;
  const int64_t* extents;
  void* data;
  int32_t rank;
  int32_t dtype;
};

/* A setting of the mechanism: "scale" and "0.125", "causal" and "true", "window" and "64". Those that are left out have
   their defaults. */
struct assay_param {
  const char* name;
  const char* value;
};

struct assay_problem {
  const char* mechanism;
  const struct assay_param* params;
  const struct assay_input* inputs;
  struct assay_output* outputs;
  size_t param_count;
  size_t input_count;
  size_t output_count;
};

struct assay_plugin_description {
  uint32_t version; /* ASSAY_PLUGIN_VERSION */
  /* Fills all outputs and returns NULL, or returns one sentence that says why it cannot. */
  const char* (*run)(const struct assay_problem* problem);
  uint32_t memory; /* enum assay_memory; on a device, what run() has launched need not be finished when it returns */
};

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct assay_plugin_description* assay_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
