#pragma once
// WarpgroupBlock: Hopper's asynchronous units. A thread of its own fetches tiles by TMA, the other warpgroups compute
// by wgmma, and barriers in shared memory hand tiles over. The body of a tile program is instantiated twice: for the
// producer every computation is a no-op, for the consumers every load is. So control flow around loads must not depend
// on what was computed.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace assay::tile {

#if defined(__CUDACC__)
// ---- barriers --------------------------------------------------------------------------

TILE_FN void barrier_init(std::uint64_t& b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&b)), "r"(arrivals) : "memory");
}
TILE_FN void barrier_arrive(std::uint64_t& b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&b)) : "memory");
}
/// The barrier's phase does not end before that many bytes more have come.
TILE_FN void barrier_expect(std::uint64_t& b, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&b)), "r"(bytes)
               : "memory");
}
TILE_FN void barrier_wait(std::uint64_t& b, int parity) {
  asm volatile(
      "{.reg .pred p;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again;}" ::"r"(shared_address(&b)),
      "r"(parity)
      : "memory");
}

inline constexpr int max_pipeline_stages = 4;
struct WarpgroupBarriers {
  std::uint64_t first;  ///< what is loaded before the pipeline is there
  std::uint64_t full[max_pipeline_stages], empty[max_pipeline_stages];
};

/// The types that do not depend on the role.
template <class P_, int Groups_>
struct WarpgroupBlock {
  using P = P_;
  using Real = typename P::Real;
  static constexpr int Groups = Groups_, threads = 128 * (Groups + 1);
  template <FixedString S, int R, int C>
  using Tile = SharedTile<P, S, R, C>;
  using In = MappedIn;
  using Out = typename RegisterOps<P, 4 * Groups>::Out;
  using RowIn = typename RegisterOps<P, 4 * Groups>::RowIn;
  using RowOut = typename RegisterOps<P, 4 * Groups>::RowOut;
};

// ---- the producer ----------------------------------------------------------------------

/// Stands for every value that is not computed.
struct Absent {
  template <class... A>
  TILE_FN void map(A&&...) {}
  template <class... A>
  TILE_FN void mask(A&&...) {}
  template <class... A>
  TILE_FN void zip(A&&...) {}
  template <class... A>
  TILE_FN void scale(A&&...) {}
  template <class... A>
  TILE_FN void fold(A&&...) {}
  TILE_FN Absent row_max() const { return {}; }
  TILE_FN Absent total() const { return {}; }
};

struct WarpgroupProducer {
  WarpgroupBarriers& barriers;
  std::uint64_t* filling;
  TILE_FN explicit WarpgroupProducer(WarpgroupBarriers& b) : barriers(b), filling(&b.first) {}

  /// Elements beyond the array read as zero.
  template <class Tl>
  TILE_FN void load(Tl& t, const MappedIn& in, int head, int row0, int col0 = 0) {
    barrier_expect(*filling, sizeof(t.raw));
    const int group = in.group(head);
#pragma unroll
    for (int p = 0; p < int(sizeof(t.raw)) / Tl::panel_bytes; ++p)
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
          "[%6];" ::"r"(shared_address(t.raw) + p * Tl::panel_bytes),
          "l"(&in.map), "r"(col0 + p * (128 / Tl::element_bytes)), "r"(head - group * in.beside), "r"(row0), "r"(group),
          "r"(shared_address(filling))
          : "memory");
  }
  template <int ST, class Pr, class Co>
  TILE_FN void pipeline(Shape<ST>, int n, Pr&& produce, Co&&) {
    barrier_arrive(barriers.first);
    int stage = 0, parity = 1;  // the first wait for an empty stage passes
#pragma unroll 1
    for (int j = 0; j < n; ++j) {
      barrier_wait(barriers.empty[stage], parity);
      filling = &barriers.full[stage];
      produce(j, stage);
      barrier_arrive(*filling);
      if (++stage == ST) stage = 0, parity ^= 1;
    }
  }

  template <int ST, class Pr, class F, class M, class L>
  TILE_FN void pipeline(Shape<ST> stages, int n, Pr&& produce, F&&, M&&, L&&) {
    pipeline(stages, n, produce, Absent{});
  }

  template <class St, class A>
  TILE_FN static constexpr A planted(St, A healthy, std::type_identity_t<A>) {
    return healthy;
  }
  template <class St, class Units>
  TILE_FN static Units units(St, const Units*, int) {
    return {};
  }
  template <class... A>
  TILE_FN Absent acc(A&&...) {
    return {};
  }
  template <class... A>
  TILE_FN Absent row(A&&...) {
    return {};
  }
  template <class... A>
  TILE_FN Absent rows(A&&...) {
    return {};
  }
  template <class... A>
  TILE_FN Absent partial(A&&...) {
    return {};
  }
  template <class... A>
  TILE_FN Absent cast(A&&...) {
    return {};
  }
  template <class S, class A, class B>
  TILE_FN Absent abt(S, A&&, B&&) {
    return {};
  }
  template <class S1, class S2, class A1, class A2, class B>
  TILE_FN Two<Absent, Absent> abt(S1, S2, A1&&, A2&&, B&&) {
    return {};
  }
  template <class... A>
  TILE_FN Absent abt_async(A&&...) {
    return {};
  }
  template <class F>
  TILE_FN auto exclusive(F f) {
    return f();
  }
  template <class... A>
  TILE_FN void mma(A&&...) {}
  template <class... A>
  TILE_FN void mma_async(A&&...) {}
  TILE_FN void await(Absent&) {}
  template <class... A>
  TILE_FN void store(A&&...) {}
  template <class... A>
  TILE_FN void store_row(A&&...) {}
  TILE_FN void sync() {}
};

// ---- the consumers ---------------------------------------------------------------------

template <class P_, int Groups>
struct WarpgroupConsumer : RegisterOps<P_, 4 * Groups> {
  using P = P_;
  using RegisterOps<P, 4 * Groups>::w;
  WarpgroupBarriers& barriers;
  TILE_FN explicit WarpgroupConsumer(WarpgroupBarriers& b) : barriers(b) {
    w = {(int(threadIdx.x) - 128) >> 5, int(threadIdx.x) & 31};
  }

  template <class Tl>
  TILE_FN void load(Tl&, const MappedIn&, int, int, int = 0) {}
  TILE_FN void sync() { asm volatile("bar.sync 1, %0;" ::"n"(Groups * 128) : "memory"); }

  template <int ST, class Pr, class Co>
  TILE_FN void pipeline(Shape<ST>, int n, Pr&&, Co&& consume) {
    Stages<ST> stages{barriers};
#pragma unroll 1
    for (int j = 0; j < n; ++j) stages.step(*this, consume, j);
  }
  template <int ST, class Pr, class F, class M, class L>
  TILE_FN void pipeline(Shape<ST>, int n, Pr&&, F&& first, M&& middle, L&& last) {
    Stages<ST> stages{barriers};
    if (Groups > 1 && n > 2 && group() == Groups - 1) end_turn(0);
    if (n > 0) stages.step(*this, first, 0, First{});
#pragma unroll 1
    for (int j = 1; j < n - 1; ++j) stages.step(*this, middle, j, Middle{});
    if (n > 1) stages.step(*this, last, n - 1, Last{});
  }

  /// A left factor in registers.
  template <Format F, int R, int C>
  struct Operand {
    static constexpr Format format = F;
    static constexpr int rows = R, cols = C;
    std::uint32_t a[C / 16][4];
  };
  template <class St, class A>
  TILE_FN auto cast(St, const A& s) {
    static_assert(A::MT == 1);
    constexpr Format F = format_at<P, St>;
    Operand<F, A::rows, A::cols> o;
#pragma unroll
    for (int k = 0; k < A::cols / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        o.a[k][i] = pack2<F>(s.x[0][2 * k + i / 2][2 * (i % 2)], s.x[0][2 * k + i / 2][2 * (i % 2) + 1]);
    return o;
  }

  // Asynchronous products: `await` waits for the one that last wrote c and leaves later ones in flight. Numbers of
  // products fold to constants where the body is inlined.
  template <class St, class A, class B>
  TILE_FN auto abt_async(St st, const A& a, const B& b) {
    auto c = this->fresh(st, Shape<A::rows, B::rows>{});
    start<true, true>(c, a, b);
    return c;
  }
  template <class C, class A, class B>
  TILE_FN void mma_async(C& c, const A& a, const B& b) {
    start<false, false>(c, a, b);
  }
  template <class C>
  TILE_FN void await(C& c) {
    if (issued_ == c.ticket)
      wait<0>();
    else
      wait<1>();
    pin(c);
  }
  /// Warpgroups take turns at issuing products: one computes exponentials while the tensor cores work for another.
  template <class F>
  TILE_FN auto exclusive(F f) {
    if constexpr (Groups > 1) asm volatile("bar.sync %0, 256;" ::"r"(2 + group()) : "memory");
    auto result = f();
    if constexpr (Groups > 1) end_turn((group() + 1) % Groups);
    return result;
  }

  template <class St, class A, class B>
  TILE_FN auto abt(St st, const A& a, const B& b) {
    auto c = this->fresh(st, Shape<A::rows, B::rows>{});
    products(c, [&] { issue<true, true>(c, a, b); });
    return c;
  }
  template <class S1, class S2, class A1, class A2, class B>
  TILE_FN auto abt(S1 s1, S2 s2, const A1& a1, const A2& a2, const B& b) {
    auto c1 = this->fresh(s1, Shape<A1::rows, B::rows>{});
    auto c2 = this->fresh(s2, Shape<A2::rows, B::rows>{});
    pin(c2);
    products(c1, [&] { issue<true, true>(c1, a1, b), issue<true, true>(c2, a2, b); });
    pin(c2);
    return Two<decltype(c1), decltype(c2)>{c1, c2};
  }
  template <class C, class A, class B>
  TILE_FN void mma(C& c, const A& a, const B& b) {
    products(c, [&] { issue<false, false>(c, a, b); });
  }
  template <class C1, class A1, class C2, class A2, class B>
  TILE_FN void mma(C1& c1, const A1& a1, C2& c2, const A2& a2, const B& b) {
    pin(c2);
    products(c1, [&] { issue<false, false>(c1, a1, b), issue<false, false>(c2, a2, b); });
    pin(c2);
  }

 private:
  /// Tiles as they come: waits for a stage, uses it, and hands it back.
  template <int ST>
  struct Stages {
    static_assert(ST <= max_pipeline_stages);
    WarpgroupBarriers& barriers;
    int stage = 0, parity = 0;
    TILE_FN explicit Stages(WarpgroupBarriers& b) : barriers(b) { barrier_wait(b.first, 0); }
    template <class F, class... Position>
    TILE_FN void step(const WarpgroupConsumer& b, F& consume, int j, Position... position) {
      barrier_wait(barriers.full[stage], parity);
      consume(j, stage, position...);
      if (b.w.lane == 0) barrier_arrive(barriers.empty[stage]);
      if (++stage == ST) stage = 0, parity ^= 1;
    }
  };

  int issued_ = 0;

  TILE_FN int group() const { return w.warp >> 2; }
  TILE_FN static void end_turn(int next) { asm volatile("bar.arrive %0, 256;" ::"r"(2 + next) : "memory"); }
  TILE_FN static void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
  TILE_FN static void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
  template <int N>
  TILE_FN static void wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
  }
  /// Uses of c before stay before, later ones after this point.
  template <class C>
  TILE_FN static void pin(C& c) {
#pragma unroll
    for (int n = 0; n < C::NT; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(c.x[0][n][i])::"memory");
  }
  /// Products that are done when this returns.
  template <class C, class F>
  TILE_FN static void products(C& c, F issues) {
    pin(c);
    fence();
    issues();
    commit();
    wait<0>();
    pin(c);
  }
  template <bool Transposed, bool Fresh, class C, class A, class B>
  TILE_FN void start(C& c, const A& a, const B& b) {
    pin(c);
    fence();
    issue<Transposed, Fresh>(c, a, b);
    commit();
    c.ticket = ++issued_;
  }
  /// C = A B^T or C += A B; A lies in shared memory or registers, a warpgroup's 64 rows of it.
  template <bool Transposed, bool Fresh, class C, class A, class B>
  TILE_FN void issue(C& c, const A& a, const B& b) {
    static_assert(C::MT == 1 && A::format == B::format);
    constexpr int N = Transposed ? B::rows : B::cols, K = Transposed ? B::cols : B::rows;
    static_assert(A::cols == K && C::cols == N);
    const std::uint64_t right = matrix_descriptor(shared_address(b.raw), B::panel_bytes);
#pragma unroll
    for (int k = 0; k < K / 16; ++k) {
      const bool add = !(Fresh && k == 0);
      const std::uint64_t right_k =
          right + (Transposed ? ((k >> 2) * B::panel_bytes + (k & 3) * 32) >> 4 : (k * 2048) >> 4);
      if constexpr (requires { a.raw; }) {
        const std::uint64_t left = matrix_descriptor(shared_address(a.raw) + group() * (64 * 128), A::panel_bytes) +
                                   (((k >> 2) * A::panel_bytes + (k & 3) * 32) >> 4);
        Wgmma<B::format, N>::template run<!Transposed>(c.x[0], left, right_k, add);
      } else {
        Wgmma<B::format, N>::template run<!Transposed>(c.x[0], a.a[k], right_k, add);
      }
    }
  }
};

// ---- launch ----------------------------------------------------------------------------

/// Registers of a consumer thread: the register file less 24 for each producer thread, in steps of 8.
template <int Groups>
inline constexpr int consumer_registers = Groups == 1   ? 240
                                          : Groups == 2 ? 240
                                                        : 160;

template <class Kernel, class Block>
TILE_FN void run_on_warpgroups(unsigned char* memory, const typename Kernel::Args& args, int head, int x) {
  auto& tiles = *reinterpret_cast<typename Kernel::Smem*>(memory);
  auto& barriers = *reinterpret_cast<WarpgroupBarriers*>(memory + sizeof(typename Kernel::Smem));
  if (threadIdx.x == 0) {
    barrier_init(barriers.first, 1);
    for (int i = 0; i < max_pipeline_stages; ++i)
      barrier_init(barriers.full[i], 1), barrier_init(barriers.empty[i], 4 * Block::Groups);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) {
      WarpgroupProducer block(barriers);
      Kernel::run(block, tiles, args, head, x);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(consumer_registers<Block::Groups>));
    WarpgroupConsumer<typename Block::P, Block::Groups> block(barriers);
    Kernel::run(block, tiles, args, head, x);
  }
}

/// Tensor maps that the host has written to global memory are seen by the loads that this thread issues from here on.
template <class Args>
TILE_FN void acquire_tensor_maps(const Args& args) {
  for (int offset = 0; offset < int(sizeof(Args)); offset += 128)
    asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(
                     reinterpret_cast<const unsigned char*>(&args) + offset)
                 : "memory");
}

/// Runs one to a multiprocessor.
template <class Kernel, class Block, class Grid_>
struct WarpgroupLaunch {
  using Args = typename Kernel::Args;
  using Grid = Grid_;
  static constexpr int threads = Block::threads, min_blocks = 1;
  static constexpr int bytes = sizeof(typename Kernel::Smem) + sizeof(WarpgroupBarriers);
  TILE_FN static void run(unsigned char* memory, const Args& args, const Grid& grid, int block) {
    int head, x;
    grid.get(block, head, x);
    run_on_warpgroups<Kernel, Block>(memory, args, head, x);
  }
  TILE_FN static void run_packed(unsigned char* memory, const PackedSequence<Args, Grid>& sequence, int block) {
    if (threadIdx.x == 0) acquire_tensor_maps(sequence.args);
    run(memory, sequence.args, sequence.grid, block - sequence.first);
  }
};
#else
template <class P, int Groups>
struct WarpgroupBlock : MmaBlock<P, 4 * Groups> {
  using In = MappedIn;
};
template <class Kernel, class Block, class Grid>
struct WarpgroupLaunch {};
#endif

}  // namespace assay::tile
