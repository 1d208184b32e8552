#include <memory>
#include <utility>

#include "language/answers/answer.hpp"
#include "language/room.hpp"
#include "oracles/core/make_room.hpp"

namespace assay::language {
namespace {

constexpr std::string_view last = "final_", first = "initial_";

HiLo pair_of(const W2& x) { return {x.hi, x.lo}; }
HiLo pair_of(double x) { return {x, 0}; }

template <class S>
class ProgramTrajectory final : public Trajectory {
 public:
  explicit ProgramTrajectory(ProgramOf program) : program_(std::move(program)) {}

  BasicArrays<HiLo> advance(const Problem& segment) override {
    BasicArrays<S> outputs = outputs_from<S>(Posed<double>(program_(segment), segment), left_);
    BasicArrays<HiLo> values =
        assay::detail::convert_arrays<HiLo>([](std::string_view, const S& x) { return pair_of(x); }, outputs);
    left_.clear();
    for (auto& [name, array] : outputs)
      if (name.starts_with(last)) left_.emplace(text(first, name.substr(last.size())), std::move(array));
    return values;
  }

 private:
  ProgramOf program_;
  BasicArrays<S> left_;  ///< under the names of the inputs that take it up
};

}  // namespace

std::unique_ptr<Trajectory> trajectory(ProgramOf program, Tier tier) {
  if (tier == Tier::w2) return std::make_unique<ProgramTrajectory<W2>>(std::move(program));
  return std::make_unique<ProgramTrajectory<double>>(std::move(program));
}

}  // namespace assay::language
