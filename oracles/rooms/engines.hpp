#pragma once
// The rooms whose large problems engines of oracles/multiword answer: rows of weights (attention_engine.cpp,
// lla_engine.cpp, parallax_gate_engine.cpp), and states that every step decays and writes (first_order_engine.cpp).
#include <optional>

#include "oracles/core/in_words.hpp"

namespace assay {

struct softmax_attention;
struct parallax;
struct parallax_gate;
struct lla;
struct deltanet;
struct gated_deltanet;
struct kda;
struct gla;
struct mamba2;
struct linear_attention;
struct rls;

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<softmax_attention, double>&, bool, const WordEffort&);
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<parallax, double>&, bool, const WordEffort&);
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<parallax_gate, double>&, bool, const WordEffort&);
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<lla, double>&, bool, const WordEffort&);
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<deltanet, double>&, bool, const WordEffort&);
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<gated_deltanet, double>&, bool, const WordEffort&);
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<kda, double>&, bool, const WordEffort&);
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<gla, double>&, bool, const WordEffort&);
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<mamba2, double>&, bool, const WordEffort&);
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<linear_attention, double>&, bool, const WordEffort&);

/// The error of dL/dP is bounded in the length that the inverse of P measures, which has lost thirty bits after sixteen
/// tokens of 128 channels: two words never were enough.
template <>
inline constexpr int words_of_gradients<rls> = 3;

}  // namespace assay
