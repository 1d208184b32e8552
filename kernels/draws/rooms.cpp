#include "kernels/draws/rooms.hpp"

// Made by CMake: DRAW_ROOM(name) for every room.
#include <draw_room_list.hpp>

namespace assay {
namespace tile::draw_rooms {
#define DRAW_ROOM(name) extern const KernelRoom name;
ASSAY_DRAW_ROOMS
#undef DRAW_ROOM
}  // namespace tile::draw_rooms

std::span<const KernelRoom* const> draw_rooms() {
#define DRAW_ROOM(name) &tile::draw_rooms::name,
  static constexpr const KernelRoom* all[] = {ASSAY_DRAW_ROOMS};
#undef DRAW_ROOM
  return all;
}

}  // namespace assay
