#pragma once
// What a binary's device kernels were built from: digests by `tools/gpu/run --source`.

namespace assay {

/// JSON, the digest of each room; and that of all kernels with arguments.
extern const char *const gpu_sources, *const argument_sources;

}  // namespace assay
