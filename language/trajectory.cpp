#include "oracles/core/trajectory.hpp"

#include <algorithm>
#include <utility>

#include "language/answers/answer.hpp"
#include "language/room.hpp"
#include "oracles/core/make_room.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

constexpr std::string_view last = "final_", first = "initial_";

HiLo pair_of(const W2& x) { return {x.hi, x.lo}; }
HiLo pair_of(double x) { return {x, 0}; }

template <class S>
class ProgramTrajectory final : public Trajectory {
 public:
  explicit ProgramTrajectory(const Mechanism& mechanism) : mechanism_(mechanism) {}

  BasicArrays<HiLo> advance(const Problem& segment) override {
    BasicArrays<S> outputs = outputs_from<S>(Posed<double>(mechanism_, segment), left_);
    const BasicArrays<HiLo> values =
        assay::detail::convert_arrays<HiLo>([](std::string_view, const S& x) { return pair_of(x); }, outputs);
    left_.clear();
    for (auto& [name, array] : outputs)
      if (name.starts_with(last)) left_.emplace(text(first, name.substr(last.size())), std::move(array));
    return values;
  }

 private:
  const Mechanism& mechanism_;
  BasicArrays<S> left_;  ///< under the names of the inputs that take it up
};

template <class S>
std::unique_ptr<Trajectory> trajectory_in(const Room& room) {
  return std::make_unique<ProgramTrajectory<S>>(program_of(room));
}

}  // namespace
}  // namespace assay::language

const assay::Recurrence& assay::recurrence_of_programs() {
  static constexpr Recurrence all{"", &language::trajectory_in<W2>, &language::trajectory_in<double>};
  return all;
}
