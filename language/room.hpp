#pragma once
// Programs where a mechanism's name goes: a file's path, or path and digest, "gdn2.json@6f0c...". A file of Python,
// gdn2.py, is one as soon as it is traced.
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "language/answers/posed.hpp"
#include "oracles/core/room.hpp"

namespace assay::language {

/// Gives the program of a file of Python as JSON, or throws InputError; one sentence.
using Traced = std::string (*)(const std::string& file);
/// From now on find_room() asks it. Without, files of Python are refused.
void trace_with(Traced traced);
/// Files of programs are read anew from now on.
void forget_programs();

/// How many letters of the name are the path of a program; 0 where it names none.
std::size_t program_path(std::string_view name);

/// The program that a room's name is the path of; null of any other name. Throws Refusal (UNSUPPORTED) if the file is
/// none.
std::shared_ptr<const Room> find_program(std::string_view name);
/// Its mechanism; null of any other name. Throws InputError if the file is no program.
std::shared_ptr<const Mechanism> find_mechanism(std::string_view name);
/// The program of a room which is one. Throws InputError if it is none.
const Mechanism& program_of(const Room& room);
/// A room of a program that is in no file; its name is that of a file, for cases of it.
std::unique_ptr<const Room> room_of(const Program& program);
/// The program of a segment's settings, kept as long as the trajectory lives.
using ProgramOf = std::function<const Mechanism&(const Problem& segment)>;
/// As Room::trajectory.
std::unique_ptr<Trajectory> trajectory(ProgramOf program, Tier tier);

/// Outputs, and gradients if the problem has cotangents, in doubles. Throws Refusal as the room does.
Answer answer_in_doubles(const Mechanism& mechanism, const Problem& problem);

/// The room's name with the program's digest: what a case writes down, so that another program is refused.
std::string pinned_name(const Room& room);

}  // namespace assay::language
