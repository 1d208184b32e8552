#pragma once
// The part of the standard library that code of draws asks for, for a device's compiler, which has none: the library's
// own headers are empty there. Errors are found before anything is compiled for a device, so nothing throws.
#define throw (void)
#define thread_local __device__
#define INFINITY std::numeric_limits<double>::infinity()

namespace std {

using size_t = decltype(sizeof 0);
using ptrdiff_t = long;
using uint16_t = unsigned short;
using uint32_t = unsigned;
using uint64_t = unsigned long;

template <class T>
struct type_identity {
  using type = T;
};
template <class T>
using type_identity_t = typename type_identity<T>::type;
template <bool First, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool First, class A, class B>
using conditional_t = typename conditional<First, A, B>::type;
template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;
template <class T>
struct remove_reference {
  using type = T;
};
template <class T>
struct remove_reference<T&> {
  using type = T;
};
template <class T>
struct remove_reference<T&&> {
  using type = T;
};
template <class T>
using remove_reference_t = typename remove_reference<T>::type;
template <class T>
struct remove_const {
  using type = T;
};
template <class T>
struct remove_const<const T> {
  using type = T;
};
template <class T>
using remove_const_t = typename remove_const<T>::type;
template <class T>
T&& declval();
template <class T, T... All>
struct integer_sequence {};
template <int N, int... All>
struct counted : counted<N - 1, N - 1, All...> {};
template <int... All>
struct counted<0, All...> {
  using type = integer_sequence<int, All...>;
};
template <class, int N>
using make_integer_sequence = typename counted<N>::type;
template <class T>
constexpr remove_reference_t<T>&& move(T&& x) {
  return static_cast<remove_reference_t<T>&&>(x);
}
template <class T>
constexpr T&& forward(remove_reference_t<T>& x) {
  return static_cast<T&&>(x);
}
template <class T, size_t N>
constexpr size_t size(const T (&)[N]) {
  return N;
}

template <class>
struct numeric_limits {
  static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000); }
};

template <class T, size_t N>
struct array {
  T all[N];
  constexpr T& operator[](size_t i) { return all[i]; }
  constexpr const T& operator[](size_t i) const { return all[i]; }
};

class string_view {
 public:
  constexpr string_view(const char* letters, size_t count) : letters_(letters), count_(count) {}
  constexpr string_view(const char* letters) : letters_(letters), count_(0) {
    while (letters[count_] != 0) ++count_;
  }
  constexpr const char* begin() const { return letters_; }
  constexpr const char* end() const { return letters_ + count_; }
  friend constexpr bool operator==(string_view a, string_view b) {
    bool same = a.count_ == b.count_;
    for (size_t i = 0; same && i < a.count_; ++i) same = a.letters_[i] == b.letters_[i];
    return same;
  }

 private:
  const char* letters_;
  size_t count_;
};

struct nullopt_t {};
inline constexpr nullopt_t nullopt;
template <class T>
struct optional {
  T value{};
  bool is_there = false;
  constexpr optional(nullopt_t) {}
  constexpr optional(T x) : value(x), is_there(true) {}
};

struct out_of_range {
  constexpr out_of_range(const char*) {}
};
using length_error = out_of_range;
using logic_error = out_of_range;

}  // namespace std
using std::size_t;
