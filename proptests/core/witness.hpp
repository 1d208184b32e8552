#pragma once
// References, which rooms answered by their programs are held to, and rooms that differ from another one in something.
#include <optional>
#include <string_view>
#include <vector>

#include "oracles/core/room.hpp"

namespace assay {

/// Answers of a room's reference.
struct Witness {
  std::string_view name;
  BasicAnswer<HiLo> (*values)(const Problem& problem, Tier tier);
  BasicArrays<HiLo> (*slopes)(const Problem& problem, const Arrays& tangent);
  std::optional<BasicAnswer<Enclosed>> (*enclosed)(const Problem& problem);
};

/// That of a room of mechanisms.def.
const Witness& witness_of(std::string_view room);

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
  explicit WithSlopesOfReference(const Room& room) : LikeRoom(room) {}
  BasicArrays<HiLo> slopes(const Problem& p, const Arrays& tangent) const override {
    return witness_of(name).slopes(p, tangent);
  }
};

}  // namespace assay
