#pragma once
// The sizes of tiles, as parameters of tile programs. The device has an instance of a program for every size. The CPU
// has one for every scalar: compiled by a host compiler, a Size is a number or the name of a number that launch code
// sets for the time of a run.
#include <array>
#include <cstddef>

namespace assay::tile {

/// The numbers of this thread's run, by the places of their names.
struct RunSizes {
  std::array<int, 10> of{};
};
inline thread_local RunSizes run_sizes;

#if defined(__CUDACC__)

using Size = int;
constexpr int number_of(Size size) { return size; }

#else

struct Size {
  int number;  ///< below 0, ~ the place of a name

  constexpr Size(int n) : number(n) {}  // NOLINT(google-explicit-constructor): programs mix sizes and numbers
  [[gnu::always_inline]] constexpr operator int() const {  // NOLINT(google-explicit-constructor)
    return number >= 0 ? number : run_sizes.of[static_cast<std::size_t>(~number)];
  }
};
constexpr int number_of(Size size) { return size.number; }

#endif

/// The names.
namespace run_time {
inline constexpr Size tokens = ~0, dim = ~1, wide_dim = ~9;
inline constexpr Size rows = ~2, forward_keys = ~3, keys = ~4, few_rows = ~5;  ///< of attention
inline constexpr Size step = ~6, span = ~7, merged = ~8;                       ///< and of its decoding
}  // namespace run_time

/// Whether it is the same in every run.
constexpr bool is_fixed(Size size) { return number_of(size) >= 0; }
/// Whether there are more than 64 columns: programs that then take other steps are told so by the name, too.
constexpr bool is_wide(Size size) {
  return is_fixed(size) ? number_of(size) > 64 : number_of(size) == number_of(run_time::wide_dim);
}
/// The same number, or the same name.
constexpr bool same_size(Size a, Size b) { return number_of(a) == number_of(b); }

/// Gives names their numbers until it ends.
class WithSizes {
 public:
  struct Named {
    Size name;
    int number;
  };
  template <class... All>
  explicit WithSizes(const Named& first, const All&... others) {
    set(first), (set(others), ...);
  }
  /// The numbers of another thread.
  explicit WithSizes(const RunSizes& sizes) { run_sizes = sizes; }
  ~WithSizes() { run_sizes = before_; }
  WithSizes(const WithSizes&) = delete;
  WithSizes& operator=(const WithSizes&) = delete;

 private:
  static void set(const Named& size) { run_sizes.of[static_cast<std::size_t>(~number_of(size.name))] = size.number; }

  RunSizes before_ = run_sizes;
};

/// Calls f.template operator()<D>() with the name that says how wide D is.
template <Size D, class F>
auto by_width(F f) {
  if (D <= 64) return f.template operator()<D>();
  const WithSizes sizes(WithSizes::Named{run_time::wide_dim, D});
  return f.template operator()<run_time::wide_dim>();
}

/// Rows to a step that holds two accumulators: of more than 64 columns a device's registers hold 32.
constexpr int few_rows(int rows, int columns) { return columns > 64 && rows > 32 ? 32 : rows; }

}  // namespace assay::tile
