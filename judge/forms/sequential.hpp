#pragma once
// The references as healthy kernels: token by token, or row by row, in the arithmetic of a contract. They share no
// form, no tile and no order of sums with the tile programs.
#include <string_view>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "reference/core/rounding.hpp"

namespace assay {

/// The form of that room. One site: every operation rounds at `op`, an accumulator, and answers leave as they are;
/// where the contract rounds operations to fp64 they are the machine's, to nearest even. Null where the room has no
/// kernels.
const KernelForm* sequential_form(std::string_view room);

/// A recurrence as kernels run it token by token (`fused_recurrent_*`, decoding): operands as they come, products and
/// sums at `op`, one after the other; the state at `S` after every token, its gradient at `G`, states that leave at
/// `final`, all else at `out`. Null where nothing is carried from token to token, and where the room has no kernels.
const KernelForm* recurrent_form(std::string_view room);

/// Tensors as they leave a kernel: each rounded to the format that `stored` has for its name.
template <class Stored>
void store(Arrays& tensors, const Policy& policy, RandomBits& random, const Stored& stored) {
  for (auto& [name, array] : tensors)
    if (const Format format = stored(name); format != Format::exact)
      round_span(array.data.data(), array.data.size(), format, policy.rounding, random);
}

/// The forms by which a kernel of that room may be judged: the tile programs, then the recurrent form.
std::vector<const KernelForm*> forms_of(const KernelRoom& kernels);

/// Whether that is a form of this file: its runs take one thread, whatever the policy says.
bool is_reference(const KernelForm& form);

/// Softmax attention row by row with P and dS in the precision as factors, and D = sum_j P_ij dP_ij in the backward,
/// where the tile program takes D = rowsum(dO o O). Sites `op`, `P` (of both factors) and `out`. Null for other rooms.
const KernelForm* product_sum_form(std::string_view room);
/// Its answer in EmulatedArithmetic (judge/forms/product_sum.cpp).
Answer emulated_product_sum(const Problem& problem);

}  // namespace assay
