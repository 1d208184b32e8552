#pragma once
// A GPU as a device that launches are planned for (kernels/plans, kernels/host/host_device.hpp).
#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/recurrence.cuh"

namespace assay::tile {

template <class P>
class CudaDevice {
 public:
  using Real = typename P::Real;
  template <int Warps>
  using Block = MmaBlock<P, Warps>;

  CudaDevice(const RecurrenceShape& shape, GpuTimes* times) : shape_(shape), times_(times) {}

  template <FixedString Site>
  DeviceArray input(const Arrays& arrays, std::string_view name, int heads, int rows, int cols) const {
    return upload<P, Site>(arrays, name, heads, rows, cols);
  }
  template <FixedString Site>
  DeviceArray array(int heads, int rows, int cols, const std::vector<double>& values) const {
    return DeviceArray(format_of<P, Site>, heads, rows, cols, values);
  }
  template <FixedString Site>
  DeviceArray result(int heads, int rows, int cols) const {
    return DeviceArray(format_of<P, Site>, heads, rows, cols);
  }
  Real scale(const Problem& problem) const {
    return real<P>(shape_.scale<double>(problem, Policy::of(P::sites, P::precision)));
  }

  template <FixedString Site>
  Real gate(const Problem& problem, std::string_view name) const {
    return real<P>(parameter(problem, name, 0.0));
  }
  template <class St, class A>
  A planted(St, A healthy, std::type_identity_t<A>) const {
    return healthy;
  }

  struct Vectors {
    const DeviceArray& array;
    template <class To>
    operator To() const {  // NOLINT(google-explicit-constructor): an argument, whatever its executor's types
      return {array.data(), array.cols(), array.head_rows() * array.cols()};
    }
  };
  Vectors vectors_in(const DeviceArray& x) const { return {x}; }
  Vectors vectors_out(DeviceArray& x) const { return {x}; }

  template <class Kernel, class Executor>
  void launch(std::uint64_t, int heads, int blocks, const typename Kernel::Args& args) const {
    tile::launch<Kernel, Executor, 1>(args, BlockGrid{heads, blocks});
  }
  template <FixedString Part, FixedString Total>
  void sum(std::uint64_t, const DeviceArray& parts, int, DeviceArray& total) const {
    sum_parts<P, Part, Total>(parts, total);
  }
  template <class F>
  void forward(F launches) const {
    const double time = run_timed(times_, launches);
    if (times_ != nullptr) times_->forward = time;
  }
  template <class F>
  void backward(F launches) const {
    const double time = run_timed(times_, launches);
    if (times_ != nullptr) times_->backward = time;
  }

  long first_zero(const DeviceArray& x) const {
    const std::vector<double> all = x.values();
    const auto it = std::find(all.begin(), all.end(), 0.0);
    return it == all.end() ? -1 : it - all.begin();
  }
  std::vector<double> values(const DeviceArray& x) const { return x.values(); }
  Array array_of(const DeviceArray& x, std::vector<int> rest) const {
    return download(x,
                    HostShape{shape_.head_axis, shape_.heads, shape_.shared_heads}.shape(x.heads(), std::move(rest)));
  }

 private:
  const RecurrenceShape& shape_;
  GpuTimes* times_;
};

}  // namespace assay::tile
