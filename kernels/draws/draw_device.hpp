#pragma once
// A device that the launches of kernels/plans are planned for, which runs them with DrawBlock: arrays of doubles, every
// launch with random bits of its own, as HostDevice (kernels/host/host_device.hpp). Compiled by nvcc it is a GPU; each
// thread of the caller has a stream of its own, so that draws which run on several threads fill the device together.
// Compiled for the CPU it runs the same code there.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/draws/draw_block.hpp"
#include "kernels/draws/draw_channels.hpp"
#include "kernels/draws/draw_columns.hpp"
#include "kernels/draws/draw_decays.hpp"
#include "kernels/draws/draw_memory.hpp"
#include "kernels/draws/drawn.hpp"
#include "kernels/host/attention_device.hpp"
#include "kernels/host/host_device.hpp"

namespace assay::draws {

using tile::AttentionShape;
using tile::HostBlock;
using tile::OperandUnits;
using tile::RecurrenceShape;
using tile::RowOrder;
using tile::ScaledOperands;

/// [heads][rows][cols] in the device's memory. It starts as NaN: what a program forgets to write is no number.
struct DrawArray {
  int heads, rows, cols;
  Memory memory;

  DrawArray(int h, int r, int c) : heads(h), rows(r), cols(c), memory(count()) { memory.fill_with_nan(); }
  DrawArray(int h, int r, int c, const std::vector<double>& values) : heads(h), rows(r), cols(c), memory(count()) {
    memory.upload(values);
  }
  /// An array that draws share, and do not write.
  DrawArray(int h, int r, int c, Memory shared) : heads(h), rows(r), cols(c), memory(std::move(shared)) {}
  std::size_t count() const {
    return static_cast<std::size_t>(heads) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  }
  double* data() const { return memory.data(); }
  DrawBlock::In in() const { return {data(), rows, cols}; }
  DrawBlock::RowIn row_in(bool logs = true) const { return {data(), rows, logs}; }
  DrawBlock::Out out(bool wanted = true) { return {wanted ? data() : nullptr, rows, cols}; }
  DrawBlock::RowOut row_out() { return {data(), rows}; }
};

/// A problem, or a contract, that no draw is compiled for.
[[noreturn]] inline void not_compiled(const std::string& what) {
  throw NotDrawn(text("draws of this executor are compiled for ", what));
}

/// Blocks of a launch: block i is of head i / of_head, at i % of_head * step.
struct Blocks {
  int count, of_head, step;
};

template <class Kernel>
DRAW_FN void run_block(const DrawPolicy& policy, const Blocks& blocks, int i, Exchange exchange,
                       typename Kernel::Smem& shared, const typename Kernel::Args& args) {
  DrawBlock block(policy, static_cast<std::uint64_t>(i), exchange);
  Kernel::run(block, shared, args, i / blocks.of_head, i % blocks.of_head * blocks.step);
}

/// Tiles, and then what threads exchange in memory.
template <class Kernel>
inline constexpr std::size_t block_doubles = (sizeof(typename Kernel::Smem) + 7) / 8 + Exchange::far;

#if defined(__CUDACC__)
template <class Kernel>
__global__ void __launch_bounds__(threads, 2)
    draw_kernel(const __grid_constant__ DrawPolicy policy, const __grid_constant__ Blocks blocks, double* memory,
                const __grid_constant__ typename Kernel::Args args) {
  extern __shared__ __align__(16) double near[];
  double* const own = memory + blockIdx.x * block_doubles<Kernel>;
  const Exchange exchange{near, own};
  auto& shared = *reinterpret_cast<typename Kernel::Smem*>(own + Exchange::far);
  for (int i = blockIdx.x; i < blocks.count; i += gridDim.x) {
    run_block<Kernel>(policy, blocks, i, exchange, shared, args);
    barrier();
  }
}
template <class F>
__global__ void each_kernel(std::size_t n, const __grid_constant__ F f) {
  for (std::size_t i = blockIdx.x * std::size_t{threads} + threadIdx.x; i < n; i += gridDim.x * std::size_t{threads})
    f(i);
}
template <class F>
void each(std::size_t n, const F& f) {
  if (n == 0) return;
  each_kernel<<<static_cast<int>(std::min<std::size_t>((n + threads - 1) / threads, 4096)), threads, 0,
                cudaStreamPerThread>>>(n, f);
  cuda_check(cudaGetLastError());
}
template <class Kernel>
void launch_blocks(const DrawPolicy& policy, const Blocks& blocks, const typename Kernel::Args& args) {
  if (blocks.count == 0) return;
  const int at_once = std::min(blocks.count, blocks_at_once());
  const Memory memory(static_cast<std::size_t>(at_once) * block_doubles<Kernel>);
  draw_kernel<Kernel>
      <<<at_once, threads, Exchange::near * sizeof(double), cudaStreamPerThread>>>(policy, blocks, memory.data(), args);
  cuda_check(cudaGetLastError());
}
#else
template <class F>
void each(std::size_t n, const F& f) {
  for (std::size_t i = 0; i < n; ++i) f(i);
}
template <class Kernel>
void launch_blocks(const DrawPolicy& policy, const Blocks& blocks, const typename Kernel::Args& args) {
  const auto shared = std::make_unique<typename Kernel::Smem>();
  std::vector<double> near(Exchange::near), far(Exchange::far);
  for (int i = 0; i < blocks.count; ++i) run_block<Kernel>(policy, blocks, i, {near.data(), far.data()}, *shared, args);
}
#endif

// ---- what is done to arrays between launches, an element a turn

/// Totals of parts, ascending, each sum rounded at one site and the total at another.
struct SumParts {
  DrawPolicy policy;
  const double* parts;
  double* total;
  std::size_t n;  ///< of a head
  int of_head;
  std::uint64_t part, out;  ///< sites

  DRAW_FN void operator()(std::size_t at) const {
    const std::size_t head = at / n, i = at % n;
    const std::uint64_t seed = random_word(policy.seed, head);
    const Format part_format = policy.format_of(part);
    double sum = 0;
    for (int p = 0; p < of_head; ++p) {
      const std::size_t from = (head * static_cast<std::size_t>(of_head) + static_cast<std::size_t>(p)) * n + i;
      sum = rounder_of(policy, part_format, seed, static_cast<std::size_t>(p) * n)(sum + parts[from], i);
    }
    const std::size_t before = part_format == Format::exact ? 0 : static_cast<std::size_t>(of_head) * n;
    total[at] = rounder_of(policy, policy.format_of(out), seed, before)(sum, i);
  }
};

/// Rows that are sums of rows: those of row r are first[r] to first[r + 1] of a list.
struct SumRows {
  DrawPolicy policy;
  const double *from, *start;  ///< start: null, or as large as the total
  double* total;
  const int *first, *list;
  int from_rows, rows, cols;
  std::uint64_t part, out;

  DRAW_FN void operator()(std::size_t at) const {
    const std::size_t n = static_cast<std::size_t>(cols), c = at % n, r = at / n % static_cast<std::size_t>(rows),
                      head = at / n / static_cast<std::size_t>(rows);
    const std::uint64_t seed = random_word(policy.seed, head);
    const Format part_format = policy.format_of(part);
    double sum = start != nullptr ? start[at] : 0.0;
    for (int i = first[r]; i < first[r + 1]; ++i) {
      const std::size_t row = head * static_cast<std::size_t>(from_rows) + static_cast<std::size_t>(list[i]);
      sum = rounder_of(policy, part_format, seed, static_cast<std::size_t>(i) * n)(sum + from[row * n + c], c);
    }
    const std::size_t before = part_format == Format::exact ? 0 : static_cast<std::size_t>(first[rows]) * n;
    total[at] = rounder_of(policy, policy.format_of(out), seed, before + r * n)(sum, c);
  }
};

/// Rows of one array from those of another, by a list; a negative one is missing.
struct Gather {
  const double* from;
  double* to;
  const int* list;
  int from_rows, rows, from_cols, cols;
  double missing;

  DRAW_FN void operator()(std::size_t at) const {
    const std::size_t n = static_cast<std::size_t>(cols), c = at % n, r = at / n % static_cast<std::size_t>(rows),
                      head = at / n / static_cast<std::size_t>(rows);
    const int source = list[r];
    const auto width = static_cast<std::size_t>(from_cols);
    to[at] = source < 0 || c >= width
                 ? missing
                 : from[(head * static_cast<std::size_t>(from_rows) + static_cast<std::size_t>(source)) * width + c];
  }
};

struct FirstColumn {
  const double* from;
  double* to;
  int from_cols, cols;
  DRAW_FN void operator()(std::size_t row) const {
    to[row * static_cast<std::size_t>(cols)] = from[row * static_cast<std::size_t>(from_cols)];
  }
};

class DrawDevice {
 public:
  using Real = double;
  using Wide = double;
  using Values = DrawArray;

  template <class Shape>
  DrawDevice(const Shape& shape, Policy policy) : head_axis_(shape.head_axis), policy_(std::move(policy)) {}

  template <FixedString Site>
  Values input(const Arrays& arrays, std::string_view name, int heads, int rows, int cols) const {
    if (const auto it = arrays.find(name); it != arrays.end()) return {heads, rows, cols, Memory::of(it->second.data)};
    return zeros<Site>(heads, rows, cols);
  }
  template <FixedString Site, class X>
  Values array(int heads, int rows, int cols, const std::vector<X>& values) const {
    return {heads, rows, cols, std::vector<double>(values.begin(), values.end())};
  }
  template <FixedString Site>
  Values result(int heads, int rows, int cols) const {
    return {heads, rows, cols};
  }
  template <FixedString Site>
  Values zeros(int heads, int rows, int cols) const {
    Values x(heads, rows, cols);
    x.memory.fill_with_zeros();
    return x;
  }

  // ---- numbers of the plan, on the host
  template <FixedString Site>
  double gate(double x) const {
    HostBlock<double>(policy_, ~0ULL).round(Site.view(), &x, 1);
    return x;
  }
  template <FixedString Site>
  std::vector<double> gates(std::vector<double> x) const {
    HostBlock<double>(policy_, ~0ULL).round(Site.view(), x.data(), x.size());
    return x;
  }
  template <FixedString Site>
  double gate(const Problem& problem, std::string_view name) const {
    return gate<Site>(tile::number_param(problem.params, name, 0.0));
  }
  double scale(const RecurrenceShape& shape, const Problem& problem) const {
    return gate<"scale">(
        tile::number_param(problem.params, "scale", 1 / std::sqrt(static_cast<double>(shape.key_dim))));
  }
  template <FixedString Site>
  Format format() const {
    return policy_.sites.at(Site.view());
  }
  template <class St, class A>
  A planted(St, A healthy, std::type_identity_t<A>) const {
    return healthy;
  }
  DrawDevice part(std::uint64_t number) const { return {head_axis_, tile::launch_policy(policy_, number)}; }

  DrawBlock::RowIn vectors_in(const Values& x) const { return {x.data(), x.cols}; }
  DrawBlock::RowOut vectors_out(Values& x) const { return {x.data(), x.cols}; }

  template <class Kernel, class Executor, int MinBlocks = 1>
  void launch(std::uint64_t number, int heads, int blocks, const typename Kernel::Args& args) const {
    run<Kernel>(of_launch(number), {heads * blocks, blocks, 1}, args);
  }
  template <FixedString Part, FixedString Total>
  void sum(std::uint64_t number, const Values& parts, int, Values& total) const {
    const std::size_t n = static_cast<std::size_t>(total.rows) * static_cast<std::size_t>(total.cols);
    each(total.count(), SumParts{of_launch(number), parts.data(), total.data(), n, parts.heads / total.heads,
                                 key_of(Part.view()), key_of(Total.view())});
  }
  template <FixedString Site, class Map>
  void gather(const Values& from, Values& to, Map map, double missing = 0) const {
    std::vector<int> list(static_cast<std::size_t>(to.rows));
    for (int r = 0; r < to.rows; ++r) list[static_cast<std::size_t>(r)] = map(r);
    const Indices sources(list);
    each(to.count(), Gather{from.data(), to.data(), sources.data(), from.rows, to.rows, from.cols, to.cols, missing});
  }
  template <FixedString From, FixedString Total, class Terms>
  void sum_rows(std::uint64_t number, const Values& from, Values& total, Terms terms,
                const Values* start = nullptr) const {
    std::vector<int> first{0}, list;
    for (int to = 0; to < total.rows; ++to) {
      for (int i = 0; i < terms.count(to); ++i) list.push_back(terms.row(to, i));
      first.push_back(static_cast<int>(list.size()));
    }
    const Indices begins(first), rows(list);
    each(total.count(),
         SumRows{of_launch(number), from.data(), start == nullptr ? nullptr : start->data(), total.data(),
                 begins.data(), rows.data(), from.rows, total.rows, total.cols, key_of("part"), key_of(Total.view())});
  }
  template <FixedString From, FixedString To>
  void copy_first_column(const Values& from, Values& to) const {
    each(static_cast<std::size_t>(to.heads) * static_cast<std::size_t>(to.rows),
         FirstColumn{from.data(), to.data(), from.cols, to.cols});
  }

  template <class F>
  void forward(F launches) const {
    launches();
  }
  template <class F>
  void backward(F launches) const {
    launches();
  }

  std::vector<double> values(const Values& x) const { return x.memory.values(); }
  Array array_of(const Values& x, std::vector<int> rest) const {
    return Array(tile::axes_of(head_axis_, x.heads, std::move(rest)), values(x));
  }

 protected:
  template <class Kernel>
  static void run(const DrawPolicy& policy, const Blocks& blocks, const typename Kernel::Args& args) {
    launch_blocks<Kernel>(policy, blocks, args);
  }
  DrawDevice(bool head_axis, Policy policy) : head_axis_(head_axis), policy_(std::move(policy)) {}
  DrawPolicy of_launch(std::uint64_t number) const { return DrawPolicy(tile::launch_policy(policy_, number)); }
  const Policy& policy() const { return policy_; }

 private:
  bool head_axis_;
  Policy policy_;
};

/// Units of operands, where programs read them.
struct DrawUnits {
  Memory memory;
  explicit DrawUnits(const std::vector<OperandUnits<double>>& units) : memory(units.size() * 5) {
    static_assert(sizeof(OperandUnits<double>) == 5 * sizeof(double));
    std::vector<double> values;
    for (const OperandUnits<double>& u : units)
      values.insert(values.end(), {u.query, u.key, u.value, u.probe, u.weight});
    memory.upload(values);
  }
  const OperandUnits<double>* data() const { return reinterpret_cast<const OperandUnits<double>*>(memory.data()); }
};

class DrawAttentionDevice : public DrawDevice {
 public:
  using DrawDevice::DrawDevice;

  template <FixedString Site>
  double positive_gate(double x) const {
    return tile::gate_scalar(policy(), Site.view(), x);
  }
  ScaledOperands scaled(const AttentionShape& shape, const Problem& problem, double scale) const {
    return ScaledOperands(shape, problem.inputs, policy(), scale);
  }
  DrawUnits units(const ScaledOperands& operands) const { return DrawUnits(operands.units<double>(policy())); }
  template <class Executor, class Tile>
  DrawBlock::In tiles_of(const Values& x) const {
    return x.in();
  }
  double bytes(const Values&) const { return 0; }

  template <class Kernel, class Executor, int MinBlocks = 1>
  void launch_rows(std::uint64_t number, int heads, int rows, int tile_rows, RowOrder,
                   const typename Kernel::Args& args) const {
    const int tiles = tile::ceil_div(rows, tile_rows);
    run<Kernel>(of_launch(number), {heads * tiles, tiles, tile_rows}, args);
  }
};

// ---- tiles, as kernels/host has them

template <Size C, Size D>
struct DrawTiles {
  using Executor = DrawBlock;
  using States = Executor;
  static constexpr int tokens = C, dim = D, values = D, read_values = D, pass_values = D, stages = 2;
};
template <Size BM, Size BF, Size BN, Size D>
struct DrawAttentionTiles {
  template <Size Keys>
  struct Pass {
    using Executor = DrawBlock;
    static constexpr int rows = BM, keys = Keys, stages = 2, min_blocks = 1;
    template <class Kernel>
    using Program = Kernel;
  };
  using Forward = Pass<BF>;
  using Query = Pass<BN>;
  using Key = Pass<BN>;
  using Rows = Pass<BN>;
  static constexpr int dim = D;
  static constexpr bool has_gradients = true;
};
template <Size Step, Size Span, Size D>
struct DrawDecodeTiles {
  using Executor = DrawBlock;
  static constexpr int rows = tile::decode_rows, dim = D, step = Step, span = Span, stages = 2;
  static constexpr int merged = D < 32 ? int{D} : 32, merged_at_once = 8;
};

}  // namespace assay::draws
