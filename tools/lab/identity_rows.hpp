#pragma once
// Identities and limits as pairs of programs, both sides of a statement on the same inputs (mechanisms/identities).
#include <string>
#include <string_view>
#include <vector>

#include "oracles/identities/identities.hpp"

namespace assay::identities {

/// The text of mechanisms/identities/json/NAME.json. Throws InputError if there is none.
std::string rows_text(std::string_view name);
/// The rows of such a file, in its order, on the seeded case of each row's shape. An identity is proven: outputs and
/// gradients of both programs, by enclosures; where its row says so, outputs are compared in 200 digits. A limit is
/// measured from the outputs in 200 digits, and its coefficient is what a third program says, if there is one. A side
/// may be what a room's reference answers on inputs that a program makes.
std::vector<Identity> identities_from(std::string_view text);

}  // namespace assay::identities
