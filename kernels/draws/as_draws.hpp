#pragma once
// A room's launch code (kernels/FAMILY/ROOM.cpp) as it is, for draws: included after this header its names for the CPU
// executor are those of DrawBlock, its registry entry is in draw_rooms, and it is compiled for the sizes that judges
// run: default tiles, head dimensions of ASSAY_DRAW_DIM_1 and, if there is one, ASSAY_DRAW_DIM_2.
#if defined(__CUDACC__)
// Everything that may speak of these functions comes before they are renamed.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <complex>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "kernels/draws/draw_functions.hpp"
#define exp2 assay_exp2
#define log2 assay_log2
#define tanh assay_tanh
#define fmax assay_fmax
#include "kernels/core/tile.hpp"
#include "kernels/programs/scores.hpp"
#undef exp2
#undef log2
#undef tanh
#undef fmax
#endif

#include "kernels/core/kernel_room.hpp"
#include "kernels/draws/draw_device.hpp"
#include "kernels/host/host_decay_scan.hpp"
#include "kernels/host/host_value_columns.hpp"

namespace assay::draws {

template <class F>
Answer with_double(const Policy& policy, F f) {
  if (tile::wants_long_double(policy)) not_compiled("accumulators of at most fp32, got wider ones");
  if (policy.sites.has_blocks()) not_compiled("operands without blocks, got some that have them");
  return f.template operator()<double>();
}
template <Size C, class F>
Answer with_dim(int dim, F f) {
  const int compiled = dim <= 16 ? 16 : dim <= 64 ? 64 : tile::max_head_dim;
  if (compiled == ASSAY_DRAW_DIM_1) return f.template operator()<C, ASSAY_DRAW_DIM_1>();
#ifdef ASSAY_DRAW_DIM_2
  if (compiled == ASSAY_DRAW_DIM_2) return f.template operator()<C, ASSAY_DRAW_DIM_2>();
#endif
  not_compiled(text("other head dimensions than ", dim));
}
template <class F>
Answer with_chunk(const RecurrenceShape& shape, const Policy& policy, int number, F f) {
  if (number != 0) not_compiled("default tiles");
  return with_double(policy, [&]<class T>() {
    return draws::with_dim<64>(tile::chunk_size(shape, 0).dim,
                               [&]<Size C, Size D>() { return f.template operator()<T, C, D>(); });
  });
}
template <class F>
Answer with_rows(int dim, int number, F f) {
  if (number != 0) not_compiled("default tiles");
  return draws::with_dim<32>(dim, f);
}
template <Size D, class F>
Answer by_width(F f) {
  return f.template operator()<D>();
}
/// After the choice of a head dimension.
template <class F>
Answer with_tile(tile::AttentionTile tile, F f) {
  if (tile.rows != 64 || tile.forward_keys != 64) not_compiled("default tiles");
  return f.template operator()<64, 64, 64>();
}
template <class F>
Answer with_scalar_and_head_dim(const Policy& policy, const AttentionShape& shape, F f) {
  return with_double(policy, [&]<class T>() {
    return draws::with_dim<0>(std::max(shape.key_dim, shape.value_dim),
                              [&]<int, Size D>() { return f.template operator()<T, D>(); });
  });
}

}  // namespace assay::draws

namespace assay::tile {

template <class T>
using DrawBlockOf = draws::DrawBlock;
template <class T>
using DrawDeviceOf = draws::DrawDevice;
template <class T>
using DrawAttentionDeviceOf = draws::DrawAttentionDevice;
template <class T, Size C, Size D>
using DrawTilesOf = draws::DrawTiles<C, D>;
template <class T, Size BM, Size BF, Size BN, Size D>
using DrawAttentionTilesOf = draws::DrawAttentionTiles<BM, BF, BN, D>;

/// plan<Tiles>(device, shape), as kernels/host/attention_device.hpp.
template <class Plan>
Answer draw_decode_tiles(const Problem& problem, const Policy& policy, int number, const Plan& plan) {
  if (number != 0) draws::not_compiled("default tiles");
  const AttentionShape shape(problem);
  return draws::with_scalar_and_head_dim(policy, shape, [&]<class T, Size D>() {
    const draws::DrawAttentionDevice device(shape, policy);
    return plan.template operator()<draws::DrawDecodeTiles<64, 256, D>>(device, shape);
  });
}

}  // namespace assay::tile

#define HostBlock DrawBlockOf
#define HostDevice DrawDeviceOf
#define HostTiles DrawTilesOf
#define HostAttentionDevice DrawAttentionDeviceOf
#define HostAttentionTiles DrawAttentionTilesOf
#define with_decode_tiles draw_decode_tiles
#define with_tile draws::with_tile
#define by_width draws::by_width
#define with_chunk draws::with_chunk
#define with_rows draws::with_rows
#define with_scalar draws::with_double
#define with_scalar_and_head_dim draws::with_scalar_and_head_dim
#undef ASSAY_EACH_SCALAR
#define ASSAY_EACH_SCALAR(X, E) static_assert(true)
#undef ASSAY_EXECUTORS
#define ASSAY_EXECUTORS draw_executors
#undef ASSAY_KERNEL_ROOMS
#define ASSAY_KERNEL_ROOMS draw_rooms
