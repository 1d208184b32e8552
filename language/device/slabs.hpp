#pragma once
// Slabs of truth on a GPU of NVIDIA: oracles/multiword/blocks/on_device.hpp, compiled at first use, a block of threads
// for each block of columns.
#include <memory>
#include <string>

#include "language/device/gpu.hpp"
#include "oracles/multiword/slab_executor.hpp"

namespace assay::language {

class SlabsOnGpu {
 public:
  /// Throws DeviceFailure.
  SlabsOnGpu(const device::Driver& driver, KeptTexts kept, GpuNews news);
  SlabsOnGpu(const SlabsOnGpu&) = delete;
  SlabsOnGpu& operator=(const SlabsOnGpu&) = delete;
  ~SlabsOnGpu();

  /// How many heads of that size it has memory for at a time.
  int at_once(std::size_t steps, std::size_t keys, std::size_t values, int words, bool backward) const;
  /// False where it does not take them, or has failed. Called by several threads.
  bool run(words::SlabRun& run);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Null where there is no GPU, no driver or no compiler (libnvrtc); `why` is a clause that says which.
std::unique_ptr<SlabsOnGpu> slabs_on_gpu(KeptTexts kept, GpuNews news, std::string& why);

}  // namespace assay::language
