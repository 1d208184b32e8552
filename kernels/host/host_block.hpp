#pragma once
// HostBlock runs a tile program on the CPU: every value is held in T (double, or long double where fp64 itself is
// emulated) and rounded, at each named site, as the policy says. It also checks the program's synchronisation: shared
// tiles remember who touched them since the last barrier, asynchronous loads are poisoned until the pipeline hands them
// over, asynchronous products until they are awaited.
#include "kernels/host/host_channels.hpp"

namespace assay::tile {

template <class T>
class HostBlock : public HostChannels<T> {
 public:
  using HostChannels<T>::HostChannels;
};

}  // namespace assay::tile
