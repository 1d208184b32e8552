#include "kernels/arguments/rooms.hpp"

#include "kernels/arguments/front_ends.hpp"

namespace assay::tile::kernel_rooms {

const KernelRoom* with_arguments(std::string_view mechanism) {
  return mechanism == "softmax_attention" ? &softmax_attention_with_arguments
         : mechanism == "parallax"        ? &parallax_with_arguments
                                          : recurrence_with_arguments(mechanism);
}

}  // namespace assay::tile::kernel_rooms
