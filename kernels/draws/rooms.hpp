#pragma once
// The rooms' tile programs run by DrawBlock: on the GPU that this library was compiled for, or on the CPU in tests.
#include <cstddef>
#include <span>

#include "kernels/core/kernel_room.hpp"

namespace assay {

/// Forms as in kernel_rooms, in the same order. form.run(problem, policy, tile) has the bits of the CPU's form; it
/// throws NotDrawn where draws are not compiled for that size, tile or contract.
std::span<const KernelRoom* const> draw_rooms();

/// Bytes of the memory that draws run in.
std::size_t draw_memory();

/// That of draw_rooms which has the bits of a form of kernel_rooms, or null.
const KernelForm* drawn_form(const KernelForm& form);

}  // namespace assay
