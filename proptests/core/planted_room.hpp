#pragma once
// The references with the faults they plant (reference/core/planted.hpp), behind the registry's own interface.
#include <span>
#include <string_view>
#include <vector>

#include "oracles/core/room.hpp"
#include "reference/core/planted.hpp"

namespace assay {

/// What replaces the functions of a room, and the faults that can be planted in them.
struct PlantedRoom {
  std::string_view name;
  std::vector<Fault> faults;
  Decimals (*decimals)(const BasicProblem<std::string>& problem, const DecimalOptions& options);
  BasicAnswer<HiLo> (*values)(const Problem& problem, Tier tier);
  BasicArrays<HiLo> (*slopes)(const Problem& problem, const Arrays& tangent);
};

/// All rooms, in the order of mechanisms.def.
std::span<const PlantedRoom* const> planted_rooms();
const PlantedRoom& planted_room(std::string_view name);

/// The registry's room with the planted functions in place of its own. Healthy until a fault is planted.
Room with_faults(const PlantedRoom& planted);

/// Plants a fault in all references of this thread while it lives.
class PlantFault {
 public:
  explicit PlantFault(std::string_view fault);
  ~PlantFault();
  PlantFault(const PlantFault&) = delete;
  PlantFault(PlantFault&&) = delete;
  PlantFault& operator=(const PlantFault&) = delete;
  PlantFault& operator=(PlantFault&&) = delete;
  /// Whether any reference has asked for the fault since.
  static bool was_asked();
};

}  // namespace assay
