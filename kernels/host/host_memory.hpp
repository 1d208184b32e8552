#pragma once
// Loads, stores and pipelines of HostBlock: what a load brings is poison until the pipeline hands it over.
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/host/host_products.hpp"

namespace assay::tile {

template <class T>
class HostMemory : public HostProducts<T> {
 public:
  using Base = HostProducts<T>;
  using Base::acc, Base::Base, Base::round, Base::round_loaded, Base::sync, Base::writes;
  using typename Base::In, typename Base::Out;
  template <Size R, Size C>
  using Acc = HostAcc<T, R, C>;
  static constexpr T poison = std::numeric_limits<T>::quiet_NaN();

  template <class Tl, Size R, Size C>
  void put(Tl& t, const Acc<R, C>& a) {
    static_assert(same_size(Tl::rows, R) && same_size(Tl::cols, C));
    writes(t);
    t.v = a.v;
    round(Tl::site, t.v.data(), t.v.size());
  }
  template <class Tl>
  void load(Tl& t, const In& g, int head, int row0, int col0 = 0) {
    writes(t);
    t.pending = true;
    t.v.assign(t.v.size(), poison);
    pending_.push_back([this, &t, g, head, row0, col0] {
      const int height = Tl::rows, width = Tl::cols;
      T* x = t.v.data();
      for (int r = 0; r < height; ++r)
        for (int c = 0; c < width; ++c, ++x)
          *x = row0 + r < g.rows && col0 + c < g.cols ? g.p[at(head, g.rows, row0 + r) * idx(g.cols) + idx(col0 + c)]
                                                      : T(0);
      round_loaded(Tl::site, t.v.data(), t.v.size());
      t.pending = false;
      t.wrote = epoch_;
    });
  }

  // produce(j, stage) issues the loads of step j; consume(j, stage) uses them.
  // Loads issued before the pipeline are complete when its first step runs.
  template <Size ST, class P, class F, class M, class L>
  void pipeline(Shape<ST> st, int n, P&& produce, F&& first, M&& middle, L&& last) {
    pipeline(st, n, produce, [&](int j, int s) {
      if (j == 0)
        first(j, s, First{});
      else if (j < n - 1)
        middle(j, s, Middle{});
      else
        last(j, s, Last{});
    });
  }
  template <Size ST, class P, class C>
  void pipeline(Shape<ST>, int n, P&& produce, C&& consume) {
    std::deque<std::vector<std::function<void()>>> groups;
    auto commit = [&] { groups.push_back(std::move(pending_)), pending_.clear(); };
    for (int s = 0; s < ST - 1; ++s) {
      if (s < n) produce(s, s);
      commit();
    }
    if (ST == 1) commit();
    for (int j = 0; j < n; ++j) {
      for (auto& land : groups.front()) land();
      groups.pop_front();
      sync();
      if (j + ST - 1 < n) produce(j + ST - 1, (j + ST - 1) % ST);
      commit();
      consume(j, j % ST);
    }
    for (auto& group : groups)  // loads that no step waited for (n = 0)
      for (auto& land : group) land();
    sync();
  }

  template <class St, Size R, Size C>
  void store(St, const Out& g, int head, int row0, const Acc<R, C>& a, int col0 = 0) {
    std::vector<T> v = a.v;
    round(St::name(), v.data(), v.size());
    const int width = C, height = imin(R, g.rows - row0), wanted = imin(width, g.cols - col0);
    for (int r = 0; r < height; ++r)
      for (int c = 0; c < wanted; ++c)
        g.p[at(head, g.rows, row0 + r) * idx(g.cols) + idx(col0 + c)] = v[idx(r * width + c)];
  }

  /// Reads the values that `store` wrote, zeros beyond the array.
  template <class St, Size R, Size C>
  Acc<R, C> load_acc(St st, Shape<R, C> shape, const In& g, int head, int row0, int col0 = 0) {
    auto a = acc(st, shape);
    const int width = C, height = imin(R, g.rows - row0), wanted = imin(width, g.cols - col0);
    for (int r = 0; r < height; ++r)
      for (int c = 0; c < wanted; ++c)
        a.v[idx(r * width + c)] = g.p[at(head, g.rows, row0 + r) * idx(g.cols) + idx(col0 + c)];
    round(St::name(), a.v.data(), a.v.size());
    return a;
  }

 protected:
  using Base::at, Base::epoch_;

 private:
  std::vector<std::function<void()>> pending_;
};

}  // namespace assay::tile
