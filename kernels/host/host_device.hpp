#pragma once
// The CPU as a device that launches are planned for (kernels/plans): arrays in the executor's scalar, launches with
// random bits of their own, sums of parts. While its thread is another device's (TileDevice), that one has the arrays
// and does the rest, to the same bits. kernels/cuda/cuda_device.cuh is the same for a GPU, whose arrays have their
// sites' formats and whose passes are timed.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/draws/between.hpp"
#include "kernels/launches/recurrence.hpp"

namespace assay::tile {

/// Gradients of shared inputs from the parts that blocks wrote: value blocks, then the heads of a group, ascending,
/// each sum rounded at `part`, the total at `out`.
template <class T>
HostArray<T> sum_parts(const Policy& policy, std::string_view part, std::string_view out, const HostArray<T>& parts,
                       int blocks, HostArray<T> total) {
  const std::size_t n = total.data.size() / static_cast<std::size_t>(total.heads);
  const int of_head = parts.heads / total.heads;
  const int counted = chosen(policy, "one_head_of_group"_s, of_head, std::min(blocks, of_head));
  for (int h = 0; h < total.heads; ++h) {
    HostBlock<T> block(policy, static_cast<std::uint64_t>(h));
    T* sum = total.data.data() + static_cast<std::size_t>(h) * n;
    std::fill(sum, sum + n, T{0});
    for (int p = 0; p < counted; ++p) {
      const T* x = parts.data.data() + static_cast<std::size_t>(h * of_head + p) * n;
      for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];
      block.round(part, sum, n);
    }
    block.round(out, sum, n);
  }
  return total;
}

template <class T>
class HostDevice {
 public:
  using Real = T;  ///< of the numbers that launches take
  using Wide = T;  ///< of what is computed before and after them
  using Values = HostArray<T>;

  template <class Shape>
  HostDevice(const Shape& shape, Policy policy) : HostDevice(shape.head_axis, std::move(policy)) {}

  /// The named array as [heads][rows][cols]; zeros if it is missing.
  template <FixedString Site>
  Values input(const Arrays& arrays, std::string_view name, int heads, int rows, int cols) const {
    const auto it = arrays.find(name);
    if (device_ != nullptr) {
      if (it != arrays.end()) return {heads, rows, cols, device_->memory_of(it->second.data)};
      return on_device(heads, rows, cols, 0);
    }
    auto x = result<Site>(heads, rows, cols);
    if (it != arrays.end())
      x.data.assign(it->second.data.begin(), it->second.data.end());
    else
      std::fill(x.data.begin(), x.data.end(), T(0));
    return x;
  }
  template <FixedString Site, class X>
  Values array(int heads, int rows, int cols, const std::vector<X>& values) const {
    if (device_ != nullptr) return {heads, rows, cols, device_->holding({values.begin(), values.end()})};
    auto x = result<Site>(heads, rows, cols);
    x.data.assign(values.begin(), values.end());
    return x;
  }
  /// An array that a kernel writes at a site.
  template <FixedString Site>
  Values result(int heads, int rows, int cols) const {
    if (device_ != nullptr) return on_device(heads, rows, cols, HostBlock<double>::poison);
    return {heads, rows, cols};
  }
  /// An array that a kernel writes only in part.
  template <FixedString Site>
  Values zeros(int heads, int rows, int cols) const {
    return input<Site>({}, "", heads, rows, cols);
  }

  /// A number, or numbers, rounded at a site.
  template <FixedString Site>
  T gate(T x) const {
    HostBlock<T>(policy_, ~0ULL).round(Site.view(), &x, 1);
    return x;
  }
  template <FixedString Site>
  std::vector<T> gates(std::vector<T> x) const {
    HostBlock<T>(policy_, ~0ULL).round(Site.view(), x.data(), x.size());
    return x;
  }
  /// A parameter that is a number, 0 if it is missing.
  template <FixedString Site>
  T gate(const Problem& problem, std::string_view name) const {
    return gate<Site>(number_param(problem.params, name, T(0)));
  }
  /// params.scale, or K^{-1/2}.
  T scale(const RecurrenceShape& shape, const Problem& problem) const {
    return gate<"scale">(number_param(problem.params, "scale", 1 / std::sqrt(static_cast<T>(shape.key_dim))));
  }
  /// The format of a site.
  template <FixedString Site>
  Format format() const {
    return policy_.sites.at(Site.view());
  }
  /// The healthy value, unless that fault is planted.
  template <class St, class A>
  [[gnu::always_inline]] A planted(St site, A healthy, std::type_identity_t<A> broken) const {
    return chosen(policy_, site, healthy, broken);
  }
  /// The same device with random bits of its own, for the launches of a program that is part of a form.
  HostDevice part(std::uint64_t number) const { return HostDevice(head_axis_, launch_policy(policy_, number)); }

  /// Vectors by head or by chunk, one row each, as the rows of an accumulator.
  typename HostBlock<T>::RowIn vectors_in(const Values& x) const { return {x.numbers(), x.cols}; }
  typename HostBlock<T>::RowOut vectors_out(Values& x) const { return {x.numbers(), x.cols}; }

  /// Runs `blocks` blocks of every head; `number` is the launch's among those of its form.
  template <class Kernel, class Executor, int MinBlocks = 1>
  void launch(std::uint64_t number, int heads, int blocks, const typename Kernel::Args& args) const {
    launch_blocks<Kernel>(number, args, heads * blocks, blocks, 1);
  }
  /// Gradients of what heads share, from the parts of a head's `blocks` and of a group's heads.
  template <FixedString Part, FixedString Total>
  void sum(std::uint64_t number, const Values& parts, int blocks, Values& total) const {
    const Policy policy = launch_policy(policy_, number);
    if (device_ == nullptr) {
      total = sum_parts(policy, Part.view(), Total.view(), parts, blocks, std::move(total));
    } else if constexpr (on_devices) {
      const std::size_t n = total.count() / static_cast<std::size_t>(total.heads);
      device_->each(total.count(), draws::SumParts{draws::DrawPolicy(policy), parts.numbers(), total.numbers(), n,
                                                   parts.heads / total.heads, draws::key_of(Part.view()),
                                                   draws::key_of(Total.view())});
    }
  }
  /// Row r of every head of `to` from row map(r) of `from`, or full of `missing` where that is none.
  template <FixedString Site, class Map>
  void gather(const Values& from, Values& to, Map map, T missing = 0) const {
    if constexpr (on_devices)
      if (device_ != nullptr) {
        std::vector<int> list;
        for (int r = 0; r < to.rows; ++r) list.push_back(map(r));
        const TileDevice::Memory sources = integers(list);
        return device_->each(to.count(), draws::Gather{from.numbers(), to.numbers(), integers_in(sources), from.rows,
                                                       to.rows, from.cols, to.cols, missing});
      }
    std::fill(to.data.begin(), to.data.end(), missing);
    for (int h = 0; h < to.heads; ++h)
      for (int r = 0; r < to.rows; ++r)
        if (const int source = map(r); source >= 0) std::copy_n(row(from, h, source), from.cols, row(to, h, r));
  }
  /// Row r of every head of `total` from row r of `start`, or zeros, and the rows of `from` that it is a sum of, each
  /// sum rounded at "part".
  template <FixedString From, FixedString Total, class Terms>
  void sum_rows(std::uint64_t number, const Values& from, Values& total, Terms terms,
                const Values* start = nullptr) const {
    const Policy policy = launch_policy(policy_, number);
    if constexpr (on_devices)
      if (device_ != nullptr) {
        std::vector<int> first{0}, list;
        for (int to = 0; to < total.rows; ++to) {
          for (int i = 0; i < terms.count(to); ++i) list.push_back(terms.row(to, i));
          first.push_back(static_cast<int>(list.size()));
        }
        const TileDevice::Memory begins = integers(first), rows = integers(list);
        return device_->each(
            total.count(),
            draws::SumRows{draws::DrawPolicy(policy), from.numbers(), start == nullptr ? nullptr : start->numbers(),
                           total.numbers(), integers_in(begins), integers_in(rows), from.rows, total.rows, total.cols,
                           draws::key_of("part"), draws::key_of(Total.view())});
      }
    const auto n = static_cast<std::size_t>(total.cols);
    if (start != nullptr)
      total.data = start->data;
    else
      std::fill(total.data.begin(), total.data.end(), T(0));
    for (int h = 0; h < total.heads; ++h) {
      HostBlock<T> block(policy, static_cast<std::uint64_t>(h));
      for (int to = 0; to < total.rows; ++to) {
        T* x = row(total, h, to);
        for (int i = 0; i < terms.count(to); ++i) {
          for (std::size_t c = 0; c < n; ++c) x[c] += row(from, h, terms.row(to, i))[c];
          block.round("part", x, n);
        }
      }
      block.round(Total.view(), row(total, h, 0), n * static_cast<std::size_t>(total.rows));
    }
  }
  /// The first column of every row.
  template <FixedString From, FixedString To>
  void copy_first_column(const Values& from, Values& to) const {
    if constexpr (on_devices)
      if (device_ != nullptr)
        return device_->each(static_cast<std::size_t>(to.heads) * static_cast<std::size_t>(to.rows),
                             draws::FirstColumn{from.numbers(), to.numbers(), from.cols, to.cols});
    for (int h = 0; h < to.heads; ++h)
      for (int r = 0; r < to.rows; ++r) *row(to, h, r) = *row(from, h, r);
  }

  template <class F>
  void forward(F launches) const {
    launches();
  }
  template <class F>
  void backward(F launches) const {
    launches();
  }

  std::vector<T> values(const Values& x) const {
    if (device_ == nullptr) return x.data;
    std::vector<T> all(x.count());
    device_->download(all.data(), x.elsewhere, all.size() * sizeof(double));
    return all;
  }
  /// Ascending.
  T total(const Values& x) const {
    T sum = 0;
    for (const T y : values(x)) sum += y;
    return sum;
  }
  /// [heads][rest...], or [rest...] where problems have no heads.
  Array array_of(const Values& x, std::vector<int> rest) const {
    const std::vector<T>& all = device_ == nullptr ? x.data : values(x);
    return Array(axes_of(head_axis_, x.heads, std::move(rest)), std::vector<double>(all.begin(), all.end()));
  }

 protected:
  static constexpr bool on_devices = std::is_same_v<T, double>;

  HostDevice(bool head_axis, Policy policy)
      : head_axis_(head_axis), policy_(std::move(policy)), device_(TileDevice::current()) {
    if (device_ != nullptr && (!on_devices || policy_.sites.has_blocks()))
      throw NotDrawn("draws on a device are of accumulators of at most fp32, and of operands without blocks");
  }

  /// Block i: of head i / of_head, at row i % of_head * rows.
  template <class Kernel>
  void launch_blocks(std::uint64_t number, const typename Kernel::Args& args, int blocks, int of_head, int rows) const {
    const Policy policy = launch_policy(policy_, number);
    if (device_ == nullptr)
      host_launch<Kernel, T>(policy, args, blocks, [=](int i) { return std::pair(i / of_head, i % of_head * rows); });
    else if constexpr (on_devices)
      device_->run<Kernel>(policy, blocks, of_head, rows, args);
  }
  TileDevice* device() const { return device_; }

  template <class X>
  static auto row(X& x, int head, int r) {
    return x.data.data() +
           (static_cast<std::size_t>(head) * static_cast<std::size_t>(x.rows) + static_cast<std::size_t>(r)) *
               static_cast<std::size_t>(x.cols);
  }

  const Policy& policy() const { return policy_; }

 private:
  Values on_device(int heads, int rows, int cols, double value) const {
    Values x(heads, rows, cols, device_->memory(idx(heads) * idx(rows) * idx(cols)));
    device_->each(x.count(), draws::Fill{x.elsewhere.get(), value});
    return x;
  }
  TileDevice::Memory integers(const std::vector<int>& list) const {
    TileDevice::Memory all = device_->memory(list.size());
    device_->upload(all, list.data(), list.size() * sizeof(int));
    return all;
  }
  static const int* integers_in(const TileDevice::Memory& list) { return reinterpret_cast<const int*>(list.get()); }

  bool head_axis_;
  Policy policy_;
  TileDevice* device_;  ///< null: the CPU
};

/// Tiles on the CPU: every block has the columns of the whole dimension.
template <class T, Size C, Size D>
struct HostTiles {
  using Executor = HostBlock<T>;
  using States = Executor;  ///< of what goes through the states of all chunks
  using Pass = Executor;    ///< of a pass along the chunks
  using Chunks = Executor;  ///< of work for all chunks at once
  static constexpr Size tokens = C, dim = D, values = D, read_values = D, gradient_values = D, pass_values = D,
                        adjoint_values = D;
  static constexpr int stages = 2, solves_together = 1;
};

/// X(E, scalar, tokens, dimension) for every scalar: instances of plans that several rooms share, which are compiled
/// once. E is `extern` or nothing.
#define ASSAY_EACH_SCALAR(X, E)                  \
  X(E, double, run_time::tokens, run_time::dim); \
  X(E, long double, run_time::tokens, run_time::dim)

}  // namespace assay::tile
