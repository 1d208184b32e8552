#pragma once
// The CPU as a device that launches are planned for (kernels/plans): arrays in the executor's scalar, launches with
// random bits of their own, sums of parts. kernels/cuda/cuda_device.cuh is the same for a GPU, whose arrays have their
// sites' formats and whose passes are timed.
#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/launches/recurrence.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

template <class T>
class HostDevice {
 public:
  using Real = T;
  template <int Warps>
  using Block = HostBlock<T>;

  HostDevice(const RecurrenceShape& shape, const Policy& policy) : shape_(shape), policy_(policy) {}

  /// The named array as [heads][rows][cols]; zeros if it is missing.
  template <FixedString Site>
  HostArray<T> input(const Arrays& arrays, std::string_view name, int heads, int rows, int cols) const {
    return shape_.input<T>(arrays, name, heads, rows, cols);
  }
  template <FixedString Site>
  HostArray<T> array(int heads, int rows, int cols, const std::vector<double>& values) const {
    auto x = shape_.output<T>(heads, rows, cols);
    x.data.assign(values.begin(), values.end());
    return x;
  }
  /// What a kernel writes at a site.
  template <FixedString Site>
  HostArray<T> result(int heads, int rows, int cols) const {
    return shape_.output<T>(heads, rows, cols);
  }
  T scale(const Problem& problem) const { return shape_.scale<T>(problem, policy_); }
  /// A parameter that is a number, 0 if it is missing, rounded at a site.
  template <FixedString Site>
  T gate(const Problem& problem, std::string_view name) const {
    T x = parameter(problem, name, T(0));
    HostBlock<T>(policy_, ~0ULL).round(Site.view(), &x, 1);
    return x;
  }
  /// The healthy value, unless this is a test build and that fault is planted.
  template <class St, class A>
  A planted(St site, A healthy, std::type_identity_t<A> broken) const {
    return Faults::choose(policy_, site, healthy, broken);
  }

  /// Vectors by head or by chunk, one row each, as the rows of an accumulator.
  typename HostBlock<T>::RowIn vectors_in(const HostArray<T>& x) const { return {x.data.data(), x.cols}; }
  typename HostBlock<T>::RowOut vectors_out(HostArray<T>& x) const { return {x.data.data(), x.cols}; }

  /// Runs `blocks` blocks of every head; `number` is the launch's among those of its form.
  template <class Kernel, class Executor>
  void launch(std::uint64_t number, int heads, int blocks, const typename Kernel::Args& args) const {
    host_launch<Kernel, T>(launch_policy(policy_, number), args, heads * blocks, HeadBlocks{blocks});
  }
  /// Gradients of what heads share, from the parts of a head's `blocks` and of a group's heads.
  template <FixedString Part, FixedString Total>
  void sum(std::uint64_t number, const HostArray<T>& parts, int blocks, HostArray<T>& total) const {
    total = sum_parts(launch_policy(policy_, number), Part.view(), Total.view(), parts, blocks, std::move(total));
  }
  template <class F>
  void forward(F launches) const {
    launches();
  }
  template <class F>
  void backward(F launches) const {
    launches();
  }

  /// The first element that is 0, or -1.
  long first_zero(const HostArray<T>& x) const {
    const auto it = std::find(x.data.begin(), x.data.end(), T(0));
    return it == x.data.end() ? -1 : it - x.data.begin();
  }
  std::vector<double> values(const HostArray<T>& x) const { return {x.data.begin(), x.data.end()}; }
  /// [heads][rest...], or [rest...] where problems have no heads.
  Array array_of(const HostArray<T>& x, std::vector<int> rest) const {
    return Array(HostShape{shape_.head_axis, shape_.heads, shape_.shared_heads}.shape(x.heads, std::move(rest)),
                 values(x));
  }

 private:
  const RecurrenceShape& shape_;
  const Policy& policy_;
};

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
