#pragma once
// Rooms that no list has: mechanisms that a user wrote as programs, and names by their files.
#include <string_view>

#include "reference/core/problem.hpp"

namespace assay {

struct Recurrence;
struct Room;

/// Who knows more rooms than those of mechanisms.def. language/room.hpp does.
struct MoreRooms {
  /// The room of that name, or null if it is no name of theirs. Throws Refusal (UNSUPPORTED) if the file is no program.
  /// A room that was found stays.
  const Room* (*find)(std::string_view name) = nullptr;
  /// Its answer under the PerturbedArithmetic of this thread; outputs, and gradients if there are cotangents.
  Answer (*perturbed)(const Problem& problem) = nullptr;
  /// The recurrence of a room of theirs; null where it takes up no states of a segment before.
  const Recurrence* (*recurrence)(std::string_view name) = nullptr;
};

/// From now on find_room knows these, too. Once, before anything else.
void know_more_rooms(const MoreRooms& more);
/// Nothing, as long as nobody knows more.
const MoreRooms& more_rooms();
/// Whether the mechanism is not one of mechanisms.def: it has no kernels and no contracts of ours.
bool is_unlisted(std::string_view mechanism);

}  // namespace assay
