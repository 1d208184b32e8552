#include "kernels/draws/rooms.hpp"

#ifdef ASSAY_HAS_CUDA
#include <cuda_runtime_api.h>

#include "kernels/cuda/device_array.hpp"
#else
#include <limits>
#endif

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

std::size_t draw_memory() {
#ifdef ASSAY_HAS_CUDA
  std::size_t unused = 0, all = 0;
  cuda_check(cudaMemGetInfo(&unused, &all));
  return all;
#else
  return std::numeric_limits<std::size_t>::max();
#endif
}

const KernelForm* drawn_form(const KernelForm& form) {
  for (const KernelRoom* room : kernel_rooms())
    for (std::size_t f = 0; f < room->forms.size(); ++f)
      if (&room->forms[f] == &form) return &find_kernels(draw_rooms(), room->name)->forms[f];
  return nullptr;
}

}  // namespace assay
