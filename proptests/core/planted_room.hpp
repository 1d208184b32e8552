#pragma once
// The references with the faults they plant (reference/core/planted.hpp), behind the registry's own interface.
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oracles/core/room.hpp"
#include "reference/core/planted.hpp"

namespace assay {

/// The functions that replace those of a room, and the faults that can be planted in them.
struct PlantedRoom {
  std::string_view name;
  std::vector<Fault> faults;
  BasicAnswer<HiLo> (*values)(const Problem& problem, Tier tier);
  BasicArrays<HiLo> (*slopes)(const Problem& problem, const Arrays& tangent);
  std::optional<BasicAnswer<Enclosed>> (*enclosed)(const Problem& problem);
};

/// Those of reference M; it may plant none.
template <class M>
std::vector<Fault> faults_of() {
  if constexpr (requires { M::faults; })
    return {std::begin(M::faults), std::end(M::faults)};
  else
    return {};
}

/// All rooms, in the order of mechanisms.def.
std::span<const PlantedRoom* const> planted_rooms();
const PlantedRoom& planted_room(std::string_view name);

/// Another room's functions; a derived class changes some of them.
class LikeRoom : public Room {
 public:
  explicit LikeRoom(const Room& of) : Room(of.name, of.summary, of.options), of_(of) {}
  std::vector<RoomFacts::Ranked> inputs() const override { return of_.inputs(); }
  std::vector<RoomFacts::Ranked> outputs() const override { return of_.outputs(); }
  std::vector<Params> variants() const override { return of_.variants(); }
  Decimals decimals(const BasicProblem<std::string>& p, const DecimalOptions& options) const override {
    return of_.decimals(p, options);
  }
  BasicAnswer<HiLo> values(const Problem& p, Tier tier) const override { return of_.values(p, tier); }
  std::optional<BasicAnswer<Enclosed>> enclosed(const Problem& p) const override { return of_.enclosed(p); }
  std::optional<BasicAnswer<Enclosed>> in_words(const Problem& p, const WordEffort& effort) const override {
    return of_.in_words(p, effort);
  }
  BasicArrays<HiLo> slopes(const Problem& p, const Arrays& tangent) const override { return of_.slopes(p, tangent); }
  Problem make(const CaseSpec& spec) const override { return of_.make(spec); }
  bool shifted(const Params& params) const override { return of_.shifted(params); }

 private:
  const Room& of_;
};

/// A room with slopes by its reference's dual numbers.
class WithSlopesOfReference final : public LikeRoom {
 public:
  WithSlopesOfReference(const Room& room, const PlantedRoom& planted) : LikeRoom(room), planted_(planted) {}
  BasicArrays<HiLo> slopes(const Problem& p, const Arrays& tangent) const override {
    return planted_.slopes(p, tangent);
  }

 private:
  const PlantedRoom& planted_;
};

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
