#pragma once
// A GPU as a device that launches are planned for (kernels/plans, kernels/host/host_device.hpp).
#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/rows.cuh"

namespace assay::tile {

template <class P>
class CudaDevice {
 public:
  using Real = typename P::Real;
  using Wide = double;
  using Values = DeviceArray;

  template <class Shape>
  CudaDevice(const Shape& shape, GpuTimes* times) : head_axis_(shape.head_axis), times_(times) {}

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
  template <FixedString Site>
  DeviceArray zeros(int heads, int rows, int cols) const {
    return upload<P, Site>({}, "", heads, rows, cols);
  }

  template <FixedString Site>
  Real gate(double x) const {
    HostBlock<double>(Policy::of(P::sites, P::precision), ~0ULL).round(Site.view(), &x, 1);
    return real<P>(x);
  }
  /// Arrays round to their format.
  template <FixedString Site>
  std::vector<double> gates(std::vector<double> x) const {
    return x;
  }
  template <FixedString Site>
  Real gate(const Problem& problem, std::string_view name) const {
    return real<P>(number_param(problem.params, name, 0.0));
  }
  Real scale(const RecurrenceShape& shape, const Problem& problem) const {
    return gate<"scale">(number_param(problem.params, "scale", 1 / std::sqrt(static_cast<double>(shape.key_dim))));
  }
  template <FixedString Site>
  Format format() const {
    return format_of<P, Site>;
  }
  template <class St, class A>
  A planted(St, A healthy, std::type_identity_t<A>) const {
    return healthy;
  }
  CudaDevice part(std::uint64_t) const { return *this; }

  struct Vectors {
    const DeviceArray& array;
    template <class To>
    operator To() const {  // NOLINT(google-explicit-constructor): an argument, whatever its executor's types
      return {array.data(), array.cols(), array.head_rows() * array.cols()};
    }
  };
  Vectors vectors_in(const DeviceArray& x) const { return {x}; }
  Vectors vectors_out(DeviceArray& x) const { return {x}; }

  template <class Kernel, class Executor, int MinBlocks = 1>
  void launch(std::uint64_t, int heads, int blocks, const typename Kernel::Args& args) const {
    tile::launch<Kernel, Executor, MinBlocks>(args, BlockGrid{heads, blocks});
  }
  template <FixedString Part, FixedString Total>
  void sum(std::uint64_t, const DeviceArray& parts, int, DeviceArray& total) const {
    sum_parts<P, Part, Total>(parts, total);
  }
  template <FixedString Site, class Map>
  void gather(const DeviceArray& from, DeviceArray& to, Map map, float missing = 0) const {
    tile::gather<P, Site>(from, to, map, missing);
  }
  template <FixedString From, FixedString Total, class Terms>
  void sum_rows(std::uint64_t, const DeviceArray& from, DeviceArray& total, Terms terms,
                const DeviceArray* start = nullptr) const {
    tile::sum_rows<P, From, Total>(from, total, terms, start);
  }
  template <FixedString From, FixedString To>
  void copy_first_column(const DeviceArray& from, DeviceArray& to) const {
    tile::copy_first_column<P, From, To>(from, to);
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

  std::vector<double> values(const DeviceArray& x) const { return x.values(); }
  Array array_of(const DeviceArray& x, std::vector<int> rest) const {
    return download(x, axes_of(head_axis_, x.heads(), std::move(rest)));
  }

 private:
  bool head_axis_;
  GpuTimes* times_;
};

}  // namespace assay::tile
