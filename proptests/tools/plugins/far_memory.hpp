#pragma once
// Memory of a device that is not there: addresses that cannot be read or written without translation.
#include <cstdint>

/// Between the address on the "device" and the host's own. No process has memory at such addresses.
inline constexpr std::uint64_t far_away = std::uint64_t{1} << 62;

inline void* host_address(const void* device) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(device) ^ far_away);
}
