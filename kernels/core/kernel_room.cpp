#include "kernels/core/kernel_room.hpp"

#include <algorithm>

namespace assay {
namespace tile::kernel_rooms {
#define MECHANISM(name) extern const KernelRoom name;
#include "mechanisms.def"
#undef MECHANISM
}  // namespace tile::kernel_rooms

std::span<const KernelRoom* const> kernel_rooms() {
#define MECHANISM(name) &tile::kernel_rooms::name,
  static constexpr const KernelRoom* all[] = {
#include "mechanisms.def"
  };
#undef MECHANISM
  return all;
}

const KernelRoom* find_kernels(std::span<const KernelRoom* const> rooms, std::string_view name) {
  const auto it = std::find_if(rooms.begin(), rooms.end(), [&](const KernelRoom* room) { return room->name == name; });
  return it == rooms.end() ? nullptr : *it;
}

}  // namespace assay
