#pragma once
// Quantised operands: numbers of a narrow grid times the scale of their block, before the tile program that multiplies
// them.
//   x^ = x s;   dx = dx^ s, ds = dx^ x, which the launch sums over blocks
#include "kernels/core/functions.hpp"
#if !defined(ASSAY_DEVICE_CODE)
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/faults.hpp"
#include "reference/core/problem.hpp"
#endif

namespace assay::tile {

/// Blocks are pairs of R rows and D channels.
template <ExecutorTypes B, Size R, Size D>
struct Dequantize {
  struct Args {
    typename B::In x, factor;
    typename B::Out y;
    int blocks;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int row0 = block / a.blocks * R, col0 = block % a.blocks * D;
    auto x = b.load_acc("codes"_s, Shape<R, D>{}, a.x, head, row0, col0);
    auto factor = b.load_acc("factor"_s, Shape<R, D>{}, a.factor, head,
                             b.planted("scale_of_the_next_block"_s, row0, row0 + R), col0);
    x.zip("factor"_s, times, factor);
    b.store("dequantised"_s, a.y, head, row0, x, col0);
  }
};

template <ExecutorTypes B, Size R, Size D>
struct DequantizeGradients {
  struct Args {
    typename B::In x, factor, dy;
    typename B::Out dx, dfactor;
    int blocks;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int row0 = block / a.blocks * R, col0 = block % a.blocks * D;
    auto dy = b.load_acc("dcodes"_s, Shape<R, D>{}, a.dy, head, row0, col0), dfactor = dy;
    auto x = b.load_acc("codes"_s, Shape<R, D>{}, a.x, head, row0, col0),
         factor = b.load_acc("factor"_s, Shape<R, D>{}, a.factor, head, row0, col0);
    if (b.planted("gradient_of_codes_without_scale"_s, true, false)) dy.zip("dcodes"_s, times, factor);
    b.store("dequantised"_s, a.dx, head, row0, dy, col0);
    dfactor.zip("dcodes"_s, times, x);
    b.store("dcodes"_s, a.dfactor, head, row0, dfactor, col0);
  }
};

inline constexpr SiteTable::Init operand_site_list[] = {{"codes", Role::output},
                                                        {"factor", Role::accumulator},
                                                        {"dequantised", Role::output},
                                                        {"dcodes", Role::accumulator}};
inline constexpr SiteTable operand_sites{operand_site_list};

#if !defined(ASSAY_DEVICE_CODE)
inline bool has_scales(const Problem& problem) {
  for (const char* name : {"q_scale", "k_scale", "v_scale"})
    if (problem.inputs.contains(name)) return true;
  return false;
}
inline Problem without_scales(Problem problem) {
  for (const char* name : {"q_scale", "k_scale", "v_scale"}) problem.inputs.erase(name);
  return problem;
}

/// The launches. `Tiles`: an executor, rows of a block and columns.
template <class Tiles, class Device>
class DequantizedOperands {
 public:
  DequantizedOperands(const Device& device, const Problem& problem) : device_(device), problem_(problem) {}

  Problem dequantized() const {
    Problem plain = without_scales(problem_);
    for (const std::string name : {"q", "k", "v"})
      if (problem_.inputs.contains(name + "_scale")) plain.inputs[name] = operand(name);
    return plain;
  }
  Answer answer(Answer inner) const {
    if (problem_.cotangents.empty()) return inner;
    for (const std::string name : {"q", "k", "v"})
      if (problem_.inputs.contains(name + "_scale") && inner.gradients.contains(name)) gradients(name, inner.gradients);
    return inner;
  }

 private:
  using B = typename Tiles::Executor;
  using Values = typename Device::Values;
  static constexpr Size R = Tiles::rows, D = Tiles::dim;
  static constexpr std::uint64_t first = 200;

  struct Extents {
    int heads, rows, cols;
    int row_blocks() const { return ceil_div(rows, R); }
    int col_blocks() const { return imax(1, ceil_div(cols, D)); }
  };
  static Extents extents_of(const Array& x) {
    const std::size_t rank = x.shape.size();
    return {rank > 2 ? x.shape[0] : 1, x.shape[rank - 2], x.shape[rank - 1]};
  }
  /// A scale of every number.
  Values factor_of(const std::string& name, const Extents& size) const {
    return device_.template input<"factor">(problem_.inputs, name + "_scale", size.heads, size.rows, size.cols);
  }
  Array operand(const std::string& name) const {
    const Array& given = problem_.inputs.at(name);
    const Extents size = extents_of(given);
    const auto x = device_.template input<"codes">(problem_.inputs, name, size.heads, size.rows, size.cols),
               factor = factor_of(name, size);
    auto y = device_.template result<"dequantised">(size.heads, size.rows, size.cols);
    device_.forward([&] {
      device_.template launch<Dequantize<B, R, D>, B>(first, size.heads, size.row_blocks() * size.col_blocks(),
                                                      {x.in(), factor.in(), y.out(), size.col_blocks()});
    });
    return {given.shape, numbers_of(y)};
  }
  void gradients(const std::string& name, Arrays& all) const {
    const Array& given = problem_.inputs.at(name);
    const Extents size = extents_of(given);
    const auto x = device_.template input<"codes">(problem_.inputs, name, size.heads, size.rows, size.cols),
               factor = factor_of(name, size),
               dy = device_.template array<"dcodes">(size.heads, size.rows, size.cols, all.at(name).data);
    auto dx = device_.template result<"dequantised">(size.heads, size.rows, size.cols),
         dfactor = device_.template result<"dcodes">(size.heads, size.rows, size.cols);
    device_.backward([&] {
      device_.template launch<DequantizeGradients<B, R, D>, B>(
          first + 1, size.heads, size.row_blocks() * size.col_blocks(),
          {x.in(), factor.in(), dy.in(), dx.out(), dfactor.out(), size.col_blocks()});
    });
    all[name] = Array(given.shape, numbers_of(dx));
    all[name + "_scale"] = Array(given.shape, numbers_of(dfactor));
  }
  std::vector<double> numbers_of(const Values& values) const {
    const auto all = device_.values(values);
    return {all.begin(), all.end()};
  }

  const Device& device_;
  const Problem& problem_;
};

/// The answer to a problem whose operands may have scales, by that of one without.
template <class Tiles, class Device, class F>
Answer with_dequantized(const Device& device, const Problem& problem, F answer) {
  if (!has_scales(problem)) return answer(problem);
  const DequantizedOperands<Tiles, Device> operands(device, problem);
  return operands.answer(answer(operands.dequantized()));
}

#endif

}  // namespace assay::tile
