#pragma once
// A room's answer in W words with a radius for every number, eight heads at a time.
#include <optional>

#include "oracles/core/bind.hpp"
#include "oracles/core/room.hpp"
#include "oracles/multiword/word_ball.hpp"

namespace assay {

/// f<W>() for that many words: 2, 3, or 4 for any other number.
template <class F>
auto with_words(int words, F&& f) {
  if (words == 2) return f.template operator()<2>();
  if (words == 3) return f.template operator()<3>();
  return f.template operator()<4>();
}

/// In exactly `effort.words` words. The parts asked for but diagnostics, of all heads. Throws Refusal, or Undecided
/// where a comparison needs more words. One translation unit per room defines it (in_words_body.hpp).
template <class M, class X>
BasicAnswer<WordBall> answer_in_words(const Binding<M, X>& binding, const AnswerParts& parts, const WordEffort& effort);

/// How many words the gradients of a room take from the first few tokens on: with fewer, all the work would be done
/// twice (oracles/rooms/engines.hpp).
template <class M>
inline constexpr int words_of_gradients = 2;

/// The same by a faster way that a room has for large problems (oracles/rooms/engines.hpp), in `effort.words` words or
/// in more where its bounds ask for it; nothing if it has none, or none for this problem.
template <class M>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<M, double>&, bool, const WordEffort&) {
  return std::nullopt;
}

}  // namespace assay
