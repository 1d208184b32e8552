#pragma once
// What oracles/multiword/blocks/device_std.hpp lacks for tile programs on a device.
#include "oracles/multiword/blocks/device_std.hpp"
#undef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000)

namespace std {

template <class T>
struct remove_all_extents {
  using type = T;
};
template <class T>
struct remove_all_extents<T[]> : remove_all_extents<T> {};
template <class T, size_t N>
struct remove_all_extents<T[N]> : remove_all_extents<T> {};
template <class T>
using remove_all_extents_t = typename remove_all_extents<T>::type;
template <class T>
inline constexpr bool is_empty_v = __is_empty(T);

}  // namespace std
