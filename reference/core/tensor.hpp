#pragma once
// Row-major arrays of any scalar: Tensor owns a fixed rank, Array is the untyped currency between layers.
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace assay {

/// The larger of two numbers. An enclosure has its own, which need not tell which one it is.
template <class S>
S larger(const S& a, const S& b) {
  return a < b ? b : a;
}

/// Owning, row-major, zero-initialised. Rank 0 is one number.
template <class S, int Rank>
struct Tensor {
  using scalar = S;
  static constexpr int rank = Rank;
  std::array<int, Rank> extent{};
  std::vector<S> data = std::vector<S>(Rank == 0 ? 1 : 0, S(0));

  Tensor() = default;
  explicit Tensor(const std::array<int, Rank>& e) : extent(e), data(count(e), S(0)) {}
  template <class... E>
  requires(sizeof...(E) == Rank && Rank > 0) explicit Tensor(E... e) : Tensor(std::array<int, Rank>{e...}) {}

  template <class... I>
  requires(sizeof...(I) == Rank) S& operator()(I... i) { return data[offset(i...)]; }
  template <class... I>
  requires(sizeof...(I) == Rank) const S& operator()(I... i) const { return data[offset(i...)]; }
  int size(int r) const { return extent[static_cast<std::size_t>(r)]; }
  bool empty() const { return data.empty(); }

  friend bool operator==(const Tensor&, const Tensor&) = default;

 private:
  static std::size_t count(const std::array<int, Rank>& e) {
    return std::accumulate(e.begin(), e.end(), std::size_t{1},
                           [](std::size_t n, int x) { return n * static_cast<std::size_t>(x); });
  }
  template <class... I>
  std::size_t offset(I... i) const {
    std::size_t at = 0, r = 0;
    ((at = at * static_cast<std::size_t>(extent[r++]) + static_cast<std::size_t>(i)), ...);
    return at;
  }
};

/// A tensor whose rank is known only at run time: what case files, kernels and reports exchange.
template <class X>
struct BasicArray {
  std::vector<int> shape;
  std::vector<X> data;

  BasicArray() = default;
  explicit BasicArray(std::vector<int> s) : shape(std::move(s)), data(count(), X{}) {}
  BasicArray(std::vector<int> s, std::vector<X> d) : shape(std::move(s)), data(std::move(d)) {}

  std::size_t count() const {
    return std::accumulate(shape.begin(), shape.end(), std::size_t{1},
                           [](std::size_t n, int x) { return n * static_cast<std::size_t>(x); });
  }
  friend bool operator==(const BasicArray&, const BasicArray&) = default;
};

using Array = BasicArray<double>;

/// Tensors by their public name (case-format.md), in alphabetical order so that every walk is the same walk.
template <class X>
using BasicArrays = std::map<std::string, BasicArray<X>, std::less<>>;
using Arrays = BasicArrays<double>;

}  // namespace assay
