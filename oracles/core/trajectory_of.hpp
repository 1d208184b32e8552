#pragma once
// A room's reference as a trajectory.
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "oracles/core/bind.hpp"
#include "oracles/core/room.hpp"

namespace assay {
namespace detail {

template <class M, class S>
class ReferenceTrajectory final : public Trajectory {
 public:
  BasicArrays<HiLo> advance(const Problem& segment) override {
    const Binding<M, double> binding(segment);
    const auto heads = static_cast<std::size_t>(binding.heads().own);
    BasicArrays<HiLo> outputs;
    std::vector<Left> left(heads);
    for (std::size_t head = 0; head < heads; ++head) {
      auto in = binding.template given_inputs<S>(static_cast<int>(head));
      if (!left_.empty())
        binding.for_each(in, [&](const Field& f, auto& tensor) {
          const auto it = left_[head].find(f.name);
          if (it == left_[head].end()) return;
          require(it->second.size() == tensor.data.size(), f.name, ": the segment before has left another shape");
          tensor.data = it->second;
        });
      const auto out = M::forward(binding.options(), binding.completed(std::move(in)));
      binding.for_each(out, [&](const Field& f, const auto& tensor) {
        if (f.missing == Field::Missing::absent && tensor.empty()) return;
        append(outputs, f.name, binding.heads(), tensor);
        if (!f.name.starts_with(last)) return;
        // A tail of pairs is called so on both sides.
        const std::string rest(f.name.substr(last.size()));
        left[head].emplace(rest.starts_with("tail_") ? rest : "initial_" + rest, tensor.data);
      });
    }
    left_ = std::move(left);
    return outputs;
  }

 private:
  using Left = std::map<std::string, std::vector<S>, std::less<>>;
  static constexpr std::string_view last = "final_";

  template <class Tensor>
  static void append(BasicArrays<HiLo>& outputs, std::string_view name, const HeadCount& heads, const Tensor& tensor) {
    BasicArray<HiLo>& array = outputs[std::string(name)];
    if (array.shape.empty()) {
      if (heads.axis) array.shape.push_back(heads.own);
      array.shape.insert(array.shape.end(), tensor.extent.begin(), tensor.extent.end());
    }
    for (const S& x : tensor.data)
      if constexpr (std::is_same_v<S, W2>)
        array.data.push_back({x.hi, x.lo});
      else
        array.data.push_back({x, 0});
  }

  std::vector<Left> left_;  ///< of every head, under the names of the inputs that take it up
};

}  // namespace detail

/// The trajectory of room M; null where no state of a segment before is taken up.
template <class M>
std::unique_ptr<Trajectory> trajectory_of(Tier tier) {
  // A state that no input takes up starts anew in every segment.
  if constexpr (requires(typename M::template Inputs<double> in, typename M::template Outputs<double> out) {
                  in.initial_state;
                  out.final_state;
                }) {
    if (tier == Tier::w2) return std::make_unique<detail::ReferenceTrajectory<M, W2>>();
    return std::make_unique<detail::ReferenceTrajectory<M, double>>();
  }
  return nullptr;
}

}  // namespace assay
