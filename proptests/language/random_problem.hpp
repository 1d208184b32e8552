#pragma once
// Problems of programs that no room has, and their gradients beside dual numbers.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "language/room.hpp"
#include "oracles/core/make_room.hpp"
#include "proptests/language/programs.hpp"
#include "reference/core/rounding.hpp"
#include "tools/run/child.hpp"
#include "tools/run/front_end.hpp"

namespace assay::language {

inline Program traced(const std::string& file, const Tracing& tracing) {
  return read_program(program_text(file, tracing), file);
}

/// The program of that name in proptests/language/programs/FILE.py: a room of a file, as cases name it.
inline const Room& traced_room(const std::string& file, const std::string& name) {
  static const PrivateFolder folder;
  static std::map<std::string, const Room*> known;
  const Room*& room = known[name];
  if (room == nullptr) {
    const std::string path = (folder.path() / (name + ".json")).string();
    std::ofstream(path) << program_text(source_dir() + "/proptests/language/programs/" + file, {name, {}});
    room = &program_room(path);
  }
  return *room;
}

/// Numbers between low and high, in the type's axes.
inline Array numbers_drawn(const Type& type, const std::map<std::string, int>& lengths, double low, double high,
                           RandomBits& random) {
  Array array;
  for (const Dim& dim : type.axes) array.shape.push_back(dim.name.empty() ? dim.written : lengths.at(dim.name));
  for (std::size_t i = 0; i < array.count(); ++i)
    array.data.push_back(low + (high - low) * static_cast<double>(random.next() >> 48) * 0x1p-16);
  return array;
}

/// Numbers as the input's domain asks for them.
inline Array numbers_for(const Input& input, const std::map<std::string, int>& lengths, RandomBits& random) {
  const bool decay = input.domain == "log_decay", positive = input.domain == "ridge" || input.domain == "bandwidth";
  const double low = positive ? 0.25 : -1, high = decay ? 0 : positive ? 2 : 1;
  return numbers_drawn(input.type, lengths, low, high, random);
}

/// A problem of a program that no room has: numbers as the domains ask for them.
inline Problem random_problem(const Room& room, const Mechanism& mechanism, RandomBits& random) {
  Problem problem{"random", std::string(room.name), {}, {}, {}};
  const std::map<std::string, int> lengths = {{"T", 4}, {"S", 5}, {"K", 3}, {"V", 2}};
  for (const Input& input : mechanism.program.inputs) {
    if (!input.gradient || (input.missing && input.type.axes.empty())) continue;
    problem.inputs[input.name] = numbers_for(input, lengths, random);
  }
  for (std::size_t i = 0; i < mechanism.program.outputs.size(); ++i)
    problem.cotangents[mechanism.program.outputs[i]] =
        numbers_drawn(mechanism.program.body->result_type(i), lengths, -1, 1, random);
  return problem;
}

/// sum <a, b> over all arrays of the same names, and the sum of its terms' sizes.
inline std::pair<Mp100, Mp100> inner(const BasicArrays<HiLo>& a, const Arrays& b) {
  Mp100 sum = 0, size = 0;
  for (const auto& [name, array] : b)
    for (std::size_t i = 0; i < array.data.size(); ++i) {
      const HiLo& x = a.at(name).data[i];
      const Mp100 term = (Mp100(x.hi) + Mp100(x.lo)) * Mp100(array.data[i]);
      sum += term, size += abs(term);
    }
  return {sum, size};
}

/// How many inputs have slopes that are not zero. Those of all inputs are the gradients'.
inline std::size_t slopes_that_agree(const Room& room, const Problem& problem, RandomBits& random) {
  const BasicAnswer<HiLo> answer = room.values(problem, Tier::mp100);
  std::size_t shown = 0;
  for (const auto& [name, input] : problem.inputs) {
    Array direction = input;
    for (double& x : direction.data) x = static_cast<double>(random.next() >> 48) * 0x1p-16 - 0.5;
    const auto [forward, terms] = inner(room.slopes(problem, {{name, direction}}), problem.cotangents);
    const auto [reverse, others] = inner(answer.gradients, {{name, direction}});
    // Pairs of doubles: 2^-106 of each of the terms.
    EXPECT_LE(abs(forward - reverse), Mp100((terms + others) * 0x1p-105)) << room.name << " d_" << name;
    shown += abs(forward) > Mp100(0x1p-60) ? 1 : 0;
  }
  return shown;
}

}  // namespace assay::language
