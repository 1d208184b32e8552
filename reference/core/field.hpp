#pragma once
// A room's declaration of each of its tensors, made once: reading, generating, storing, splitting by heads and judging
// follow.
#include <array>
#include <string_view>

namespace assay {

/// The meaning of the numbers: how a generator draws them and which values are refused.
enum class Domain {
  query,
  key,
  value,
  probe,
  state,
  write_strength,
  log_decay,  ///< at most 0; -inf closes the gate
  bandwidth,
  scale,
  ridge,            ///< lambda
  gain,             ///< FALCON's beta
  gradient_weight,  ///< Momentum DeltaNet's eta
  decay_fraction,   ///< FALCON-3A's alpha
  regularizer,      ///< the eps of a denominator
  decay_floor,
  normalizer,  ///< a positive state
  logit,
  layer_input,
  weight,
  temperature,
  log_floor,
};

/// The extents that tensors share; the same axis has the same length everywhere in a problem.
enum class Axis {
  query_len,
  seq_len,
  key_dim,
  value_dim,
  model_dim,
  tail_len,        ///< pairs carried in
  final_tail_len,  ///< pairs carried out
};
inline constexpr int axis_count = 7;

constexpr std::string_view name_of(Axis a) {
  constexpr std::string_view names[] = {"T (queries)", "T", "K", "V", "D", "the tail's length", "the tail's length"};
  return names[static_cast<int>(a)];
}

/// One tensor of a problem, by its public name (case-format.md).
struct Field {
  /// Under `inputs`, a number under `params`, or worked out by the room from what is given.
  enum class Place { input, param, derived };
  /// Refused, zero, an empty tensor, K^{-1/2}, or an empty tensor that has a gradient: the room works its value out.
  enum class Missing { error, zero, absent, rsqrt_key_dim, worked_out };
  enum class Heads { own, shared };  ///< one per output head, or one per group of them

  std::string_view name;
  Domain domain;
  std::array<Axis, 2> axes{};  ///< the first `rank` of them count
  Place place = Place::input;
  Missing missing = Missing::error;
  Heads heads = Heads::own;
  bool differentiable = true;
  bool broadcasts = false;   ///< the last axes may be missing: one number for all
  bool room_judges = false;  ///< a value that is not finite is refused by the room, not at the door

  constexpr Field shared() const {
    return with([](Field& f) { f.heads = Heads::shared; });
  }
  constexpr Field or_zero() const {
    return with([](Field& f) { f.missing = Missing::zero; });
  }
  constexpr Field or_absent() const {
    return with([](Field& f) { f.missing = Missing::absent; });
  }
  constexpr Field or_rsqrt_key_dim() const {
    return with([](Field& f) { f.missing = Missing::rsqrt_key_dim; });
  }
  constexpr Field or_worked_out() const {
    return with([](Field& f) { f.missing = Missing::worked_out; });
  }
  constexpr Field param() const {
    return with([](Field& f) { f.place = Place::param; });
  }
  constexpr Field derived() const {
    return with([](Field& f) { f.place = Place::derived; });
  }
  constexpr Field constant() const {
    return with([](Field& f) { f.differentiable = false; });
  }
  constexpr Field broadcast() const {
    return with([](Field& f) { f.broadcasts = true; });
  }
  constexpr Field unchecked() const {
    return with([](Field& f) { f.room_judges = true; });
  }

 private:
  template <class F>
  constexpr Field with(F change) const {
    Field f = *this;
    change(f);
    return f;
  }
};

/// The length of every axis of one head's problem; -1 until some tensor has fixed it.
struct Extents {
  std::array<int, axis_count> length{-1, -1, -1, -1, -1, -1, -1};
  int& operator[](Axis a) { return length[static_cast<std::size_t>(a)]; }
  int operator[](Axis a) const { return length[static_cast<std::size_t>(a)]; }
};

}  // namespace assay
