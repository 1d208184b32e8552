#pragma once
// A GPU as a device that launches are planned for (kernels/plans, kernels/host/host_device.hpp).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/core/policy.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/gpu/device_array.hpp"
#include "kernels/gpu/gpu.hpp"
#include "kernels/gpu/launches.hpp"
#include "kernels/host/host_block.hpp"
#include "kernels/launches/recurrence.hpp"

namespace assay::tile {

/// The scalar that a policy's gates and scales are given in.
template <class P>
typename P::Real real(double x) {
  return static_cast<typename P::Real>(x);
}

/// Whether a pack launches the blocks of all sequences as one grid, which is a kernel of its own to compile: in the
/// precision that is measured. In the others the sequences share their arrays and launch one after another.
template <class P>
inline constexpr bool packs_launches = P::precision == Format::bf16;

template <class P>
class CudaDevice {
 public:
  using Real = typename P::Real;
  using Wide = double;
  using Values = DeviceArray;

  template <class Shape>
  CudaDevice(const Shape& shape, GpuTimes* timed) : head_axis_(shape.head_axis), times_(timed) {}

  template <FixedString Site>
  DeviceArray input(const Arrays& arrays, std::string_view name, int heads, int rows, int cols) const {
    const auto it = arrays.find(name);
    if (it == arrays.end()) return zeros<Site>(heads, rows, cols);
    const GpuRun& run = GpuRun::current();
    if (!run.keeps()) return array<Site>(heads, rows, cols, it->second.data);
    return DeviceArray(format_of<P, Site>, heads, rows, cols, run.given(name, {heads, rows, cols}, format_of<P, Site>));
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
    return DeviceArray::zeros(format_of<P, Site>, heads, rows, cols);
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
      const HeadRows lie = array.lie();
      return {{array.cols(), lie.group_rows * array.cols(), lie.beside, lie.share}, array.data()};
    }
  };
  Vectors vectors_in(const DeviceArray& x) const { return {x}; }
  Vectors vectors_out(DeviceArray& x) const { return {x}; }

  template <class Kernel, class Executor, int MinBlocks = 1>
  void launch(std::uint64_t, int heads, int blocks, const typename Kernel::Args& args) const {
    launch_blocks<BlockLaunch<Kernel, Executor, MinBlocks, BlockGrid>>(args, BlockGrid{heads, blocks},
                                                                       packs_launches<P>);
  }
  /// Gradients of shared inputs from the parts that blocks wrote: value blocks, then the heads of a group, ascending.
  template <FixedString Part, FixedString Total>
  void sum(std::uint64_t, const DeviceArray& parts, int, DeviceArray& total) const {
    if (total.count() == 0) return;
    if (total.cols() % 4 == 0)
      sum_by<format_of<P, Part>, format_of<P, Total>, 4>(parts, total);
    else
      sum_by<format_of<P, Part>, format_of<P, Total>, 1>(parts, total);
  }
  template <FixedString Site, class Map>
  void gather(const DeviceArray& from, DeviceArray& to, Map map, float missing = 0) const {
    take_turns(MappedRows<format_of<P, Site>, Map>{from.in(), to.out(), map, missing}, to.count());
  }
  template <FixedString From, FixedString Total, class Terms>
  void sum_rows(std::uint64_t, const DeviceArray& from, DeviceArray& total, Terms terms,
                const DeviceArray* start = nullptr) const {
    take_turns(
        RowSums<format_of<P, From>, format_of<P, Total>, Terms>{
            from.in(), start == nullptr ? MatrixIn{} : static_cast<MatrixIn>(start->in()), total.out(), terms},
        total.count());
  }
  template <FixedString From, FixedString To>
  void copy_first_column(const DeviceArray& from, DeviceArray& to) const {
    take_turns(FirstElements<format_of<P, From>, format_of<P, To>>{from.in(), to.out()},
               static_cast<std::size_t>(to.heads()) * static_cast<std::size_t>(to.rows()));
  }

  void forward(const std::function<void()>& launches) const {
    const double time = run_timed(times_ == nullptr ? 0 : times_->repetitions, launches);
    if (times_ != nullptr) times_->forward = time;
    GpuRun::current().end_forward();
  }
  void backward(const std::function<void()>& launches) const {
    const double time = run_timed(times_ == nullptr ? 0 : times_->repetitions, launches);
    if (times_ != nullptr) times_->backward = time;
  }

  std::vector<double> values(const DeviceArray& x) const { return x.values(); }
  /// Ascending; where results stay on the GPU nobody reads it.
  double total(const DeviceArray& x) const {
    double sum = 0;
    if (!GpuRun::current().keeps())
      for (const double y : x.values()) sum += y;
    return sum;
  }
  Array array_of(const DeviceArray& x, std::vector<int> rest) const {
    const GpuRun& run = GpuRun::current();
    std::vector<int> shape = axes_of(head_axis_, x.heads(), std::move(rest));
    if (!run.keeps()) return Array(std::move(shape), x.values());
    run.kept().push_back(x.kept());
    return Array(std::move(shape), {static_cast<double>(run.kept().size() - 1)});
  }

 private:
  template <Format Part, Format Total, int At>
  static void sum_by(const DeviceArray& parts, DeviceArray& total) {
    take_turns(PartSums<Part, Total, At>{parts.in(), total.out(), parts.heads() / total.heads()}, total.count() / At);
  }

  bool head_axis_;
  GpuTimes* times_;
};

/// Head dimensions that kernels are compiled for: bf16 is the precision that is measured, the others check the code.
inline bool compiled_dim(int dim, Format precision) { return dim == 64 || (dim == 128 && precision == Format::bf16); }

/// Calls f.template operator()<Format, D>() with a compiled precision and head dimension.
template <class F>
auto with_instance(Format precision, int dim, F f) {
  if (precision == Format::fp16) return f.template operator()<Format::fp16, 64>();
  if (precision == Format::tf32) return f.template operator()<Format::tf32, 64>();
  if (precision == Format::fp64) return f.template operator()<Format::fp64, 64>();
  return dim <= 64 ? f.template operator()<Format::bf16, 64>() : f.template operator()<Format::bf16, 128>();
}

/// The tiles that a plan is asked for.
template <class Tiles>
using Instance = std::type_identity<Tiles>;
template <class Shape>
Shape shape_as(const Problem& problem) {
  return Shape(problem);
}
template <class Shape>
int instance_dim(const Shape& shape) {
  return std::max(shape.key_dim, shape.value_dim);
}
inline int instance_dim(const RecurrenceShape& shape) { return shape.key_dim; }
/// Plan(tiles, device, shape, problem) with Tiles<policy, head dimension>, in the instance of that problem.
template <const SiteTable& Sites, template <class, int> class Tiles, auto Plan,
          auto ShapeOf = shape_as<RecurrenceShape>>
Answer run_plan(const Problem& problem, Format precision, GpuTimes* timed) {
  const auto shape = ShapeOf(problem);
  return with_instance(precision, instance_dim(shape), [&]<Format F, int D>() {
    using P = StaticPolicy<Sites, F>;
    return Plan(Instance<Tiles<P, D>>{}, CudaDevice<P>(shape, timed), shape, problem);
  });
}

/// Why the compiled head dimensions cannot hold K and V, or "".
inline std::string device_dim_obstacle(int key_dim, int value_dim, Format precision) {
  if (precision == Format::e4m3) return "no device kernel of this mechanism is compiled in e4m3";
  for (const int d : {key_dim, value_dim})
    if (!compiled_dim(d, precision))
      return text("device kernels in ", name_of(precision), " are compiled for K and V of 64",
                  compiled_dim(128, precision) ? " or 128" : "", ", got ", d);
  return "";
}
inline std::string recurrence_obstacle(const Problem& problem, Format precision) {
  const RecurrenceShape shape(problem);
  return device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
}

}  // namespace assay::tile
