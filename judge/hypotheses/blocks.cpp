#include "judge/hypotheses/blocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "judge/hypotheses/attention_form.hpp"
#include "judge/hypotheses/chunk_form.hpp"
#include "judge/hypotheses/chunk_gradients.hpp"
#include "judge/hypotheses/probe_form.hpp"

namespace assay::hypotheses {
namespace {

using List = std::vector<Convention>;

std::vector<std::size_t> usual_sizes() { return {64, 32, 16, 128}; }

bool is_state(const std::string& input) { return input.starts_with("initial_"); }
std::string carried_out(const std::string& input) { return "final_" + input.substr(8); }

// ---- chunks of tokens ----

/// The rows of a chunk's tensor where the whole one has them.
void place(const Scene& scene, const std::string& name, const Array& rows, std::size_t begin, Array& whole) {
  const RoomFacts::Ranked& ranked = *scene.described(name);
  const Grid from = grid_of(ranked, rows.shape);
  if (whole.shape.empty()) {
    whole.shape = rows.shape, whole.shape[1] = static_cast<int>(scene.tokens());
    whole.data.resize(from.heads * scene.tokens() * from.cols);
  }
  const Grid to = grid_of(ranked, whole.shape);
  for (std::size_t h = 0; h < from.heads; ++h)
    std::copy_n(rows.data.begin() + static_cast<std::ptrdiff_t>(from.at(h, 0, 0)), from.rows * from.cols,
                whole.data.begin() + static_cast<std::ptrdiff_t>(to.at(h, begin, 0)));
}

/// A chunk of the problem, and the one before it: of the first, itself.
struct Chunk {
  std::size_t begin = 0;
  Problem problem, before;
};
enum class Next { right, as_answered };

/// `answer` of every chunk put together; the next chunk starts from the right states, or from what was answered.
Arrays walk(const Scene& scene, std::size_t size, Next next, const std::function<Arrays(const Chunk&)>& answer) {
  Arrays whole, states;
  Chunk chunk;
  for (std::size_t begin = 0; begin < scene.tokens(); begin += size) {
    const Problem before = chunk.problem;
    chunk = {begin, tokens_of(scene, begin, std::min(begin + size, scene.tokens())), before};
    for (const auto& [name, state] : states) chunk.problem.inputs.at(name) = state;
    if (begin == 0) chunk.before = chunk.problem;
    const Arrays made = answer(chunk);
    place(scene, "o", made.at("o"), begin, whole["o"]);
    const Arrays& from = next == Next::right ? answer_of(*scene.room, chunk.problem) : made;
    for (const auto& [name, array] : chunk.problem.inputs)
      if (is_state(name)) states[name] = from.at(carried_out(name));
  }
  if (next == Next::as_answered)
    for (const auto& [name, state] : states) whole[carried_out(name)] = state;
  return whole;
}

/// The same of a kernel that carries none of these inputs on.
Arrays walk_without(const Scene& scene, std::size_t size, Next next,
                    const std::function<bool(const std::string& input)>& is_lost) {
  return walk(scene, size, next, [&](const Chunk& chunk) {
    Problem p = chunk.problem;
    for (auto& [name, array] : p.inputs)
      if (chunk.begin > 0 && is_lost(name)) std::fill(array.data.begin(), array.data.end(), 0.0);
    return answer_of(*scene.room, p);
  });
}

Problem without_writes(Problem p) {
  Array& k = p.inputs.at("k");
  std::fill(k.data.begin(), k.data.end(), 0.0);
  return p;
}
Problem without_decays(const Scene& scene, Problem p) {
  for (auto& [name, array] : p.inputs)
    if (const RoomFacts::Ranked* ranked = scene.described(name);
        ranked != nullptr && ranked->field.domain == Domain::log_decay)
      std::fill(array.data.begin(), array.data.end(), 0.0);
  return p;
}

/// a x + b y, of each tensor of both.
Arrays sum_of(double a, const Arrays& x, double b, const Arrays& y) {
  Arrays sum = x;
  for (auto& [name, array] : sum)
    for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] = a * array.data[i] + b * y.at(name).data[i];
  return sum;
}

/// The answer of a chunk, in the two parts of which it is the sum.
struct Halves {
  Arrays whole, read;  ///< `read`: of the states that it starts with
};
Halves halves_of(const Scene& scene, const Problem& chunk) {
  return {answer_of(*scene.room, chunk), answer_of(*scene.room, without_writes(chunk))};
}

/// o as `a` times what is read from the state and `b` times what the chunk adds.
void add_weights(List& list, std::size_t size, double a, double b, const std::string& what, const std::string& mend) {
  list.push_back({fmt::format("chunk {} weights {:.3g} {:.3g}", size, a, b), what, mend, [=](const Scene& s) {
                    return walk(s, size, Next::right, [&](const Chunk& chunk) {
                      const Halves o = halves_of(s, chunk.problem);
                      return sum_of(b, o.whole, a - b, o.read);
                    });
                  }});
  list.back().is_term = a == 0 || b == 0;
}

void add_weights(List& list, const Scene& scene, std::size_t size, const std::string& chunks) {
  const std::string within = "what tokens of the same chunk add to o", read = "what o reads from the chunk's state";
  add_weights(list, size, 1, 0, within + " missing (" + chunks + ")", "add the attention within the chunk");
  add_weights(list, size, 0, 1, read + " missing (" + chunks + ")", "add the state's part to o");
  const double s = scene.number("scale", 1);
  if (s == 1 || s == 0) return;
  const std::string once = "multiply both parts of o by the scale, once";
  add_weights(list, size, 1, s, within + " multiplied by the scale twice (" + chunks + ")", once);
  add_weights(list, size, 1, 1 / s, within + " without its scale (" + chunks + ")", once);
  add_weights(list, size, s, 1, read + " multiplied by the scale twice (" + chunks + ")", once);
  add_weights(list, size, 1 / s, 1, read + " without its scale (" + chunks + ")", once);
}

/// Adds another way of reading o from a chunk's state.
void add_reading(List& list, std::size_t size, const std::string& key, const std::string& what, const std::string& mend,
                 const std::function<Problem(const Scene&, const Chunk&)>& read) {
  list.push_back({fmt::format("chunk {} {}", size, key), what, mend, [=](const Scene& s) {
                    return walk(s, size, Next::right, [&](const Chunk& chunk) {
                      const Halves o = halves_of(s, chunk.problem);
                      return sum_of(1, sum_of(1, o.whole, -1, o.read), 1,
                                    answer_of(*s.room, without_writes(read(s, chunk))));
                    });
                  }});
}

void add_state_mistakes(List& list, const Scene& scene, std::size_t size, const std::string& chunks) {
  const std::vector<std::string> names = scene.inputs();
  const bool decays = std::any_of(names.begin(), names.end(), [&](const auto& name) {
    return scene.described(name)->field.domain == Domain::log_decay;
  });
  if (decays)
    add_reading(list, size, "read not decayed", "what o reads from the chunk's state not decayed (" + chunks + ")",
                "multiply it by the decay from the chunk's start to the token",
                [](const Scene& s, const Chunk& chunk) { return without_decays(s, chunk.problem); });
  if (size >= scene.tokens()) return;
  add_reading(list, size, "stale state", "o reading the state of the chunk before its own (" + chunks + ")",
              "read the state that the chunk starts with", [](const Scene&, const Chunk& chunk) {
                Problem p = chunk.problem;
                for (auto& [name, state] : p.inputs)
                  if (is_state(name)) state = chunk.before.inputs.at(name);
                return p;
              });
  list.push_back({fmt::format("chunk {} state dropped", size),
                  "the state not carried from chunk to chunk (" + chunks + ")",
                  "start each chunk from the state of the one before",
                  [=](const Scene& s) { return walk_without(s, size, Next::as_answered, is_state); }});
  if (decays)
    list.push_back({fmt::format("chunk {} state not decayed", size),
                    "the state not decayed from chunk to chunk (" + chunks + ")",
                    "multiply the state by the decay of the whole chunk before adding its writes", [=](const Scene& s) {
                      return walk(s, size, Next::as_answered, [&](const Chunk& chunk) {
                        const Halves o = halves_of(s, chunk.problem);
                        Arrays answer = o.whole;
                        for (const auto& [name, state] : chunk.problem.inputs) {
                          if (!is_state(name)) continue;
                          const std::string out = carried_out(name);
                          for (std::size_t i = 0; i < state.data.size(); ++i)
                            answer.at(out).data[i] += state.data[i] - o.read.at(out).data[i];
                        }
                        return answer;
                      });
                    }});
}

/// Adds, for each of several states that are carried, the mistake of losing it.
void add_lost_states(List& list, const Scene& scene, std::size_t size, const std::string& chunks) {
  std::vector<std::string> states;
  for (const std::string& name : scene.inputs())
    if (is_state(name)) states.push_back(name);
  if (states.size() < 2 || size >= scene.tokens()) return;
  for (const std::string& lost : states)
    for (const Next next : {Next::as_answered, Next::right}) {
      const std::string in_o = next == Next::right ? " where o reads it" : "";
      list.push_back({fmt::format("chunk {} {} dropped{}", size, carried_out(lost), in_o),
                      fmt::format("{} not carried from chunk to chunk{} ({})", lost.substr(8), in_o, chunks),
                      "start each chunk from what the one before has left", [=](const Scene& s) {
                        return walk_without(s, size, next, [&](const std::string& name) { return name == lost; });
                      }});
    }
}

/// `gradient` of every chunk, which has the right states and cotangents, put together.
Arrays walk_back(const Scene& scene, std::size_t size, const std::string& tensor,
                 const std::function<Array(const Problem&)>& gradient) {
  std::vector<Chunk> chunks;
  walk(scene, size, Next::right, [&](const Chunk& chunk) {
    chunks.push_back(chunk);
    return answer_of(*scene.room, chunk.problem);
  });
  const Arrays outputs = answer_of(*scene.room, chunks.back().problem);
  Arrays whole, owed;
  for (const auto& [name, state] : chunks.back().problem.inputs) {
    if (!is_state(name)) continue;
    const std::string out = carried_out(name);
    const auto given = scene.problem.cotangents.find(out);
    owed[out] = given != scene.problem.cotangents.end() ? given->second : outputs.at(out);
    if (given == scene.problem.cotangents.end()) std::fill(owed[out].data.begin(), owed[out].data.end(), 0.0);
  }
  Scene cotangents = scene;
  cotangents.problem.inputs = {{"o", scene.problem.cotangents.at("o")}};
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    Problem& p = chunk->problem;
    p.cotangents = tokens_of(cotangents, chunk->begin, std::min(chunk->begin + size, scene.tokens())).inputs;
    p.cotangents.insert(owed.begin(), owed.end());
    place(scene, tensor, gradient(p), chunk->begin, whole[tensor]);
    const Arrays right = answer_of(*scene.room, p);
    for (auto& [out, state] : owed) state = right.at("d_initial_" + out.substr(6));
  }
  return whole;
}

Problem with_zero(Problem p, bool of_o) {
  for (auto& [name, cotangent] : p.cotangents)
    if ((name == "o") == of_o) std::fill(cotangent.data.begin(), cotangent.data.end(), 0.0);
  return p;
}

/// A gradient is what tokens of the same chunk owe it and what the state passes on; one of them may be missing.
void add_gradient_parts(List& list, const Scene& scene, std::size_t size, const std::string& chunks) {
  if (!scene.problem.cotangents.contains("o") || size >= scene.tokens()) return;
  for (const std::string name : {"q", "k", "v"})
    for (const bool within : {true, false}) {
      const std::string tensor = "d_" + name;
      Convention c{fmt::format("chunk {} {} {}", size, tensor, within ? "within" : "state"),
                   (within ? "what tokens of the same chunk owe " : "what the chunk's state owes ") + tensor +
                       " missing (" + chunks + ")",
                   "add it", [=](const Scene& s) {
                     return walk_back(s, size, tensor, [&](const Problem& chunk) {
                       if (name != "q") return answer_of(*s.room, with_zero(chunk, within)).at(tensor);
                       Arrays read{{tensor, answer_of(*s.room, without_writes(chunk)).at(tensor)}};
                       if (within) return read.at(tensor);
                       return sum_of(1, {{tensor, answer_of(*s.room, chunk).at(tensor)}}, -1, read).at(tensor);
                     });
                   }};
      c.only = tensor, c.is_term = true;
      list.push_back(std::move(c));
    }
}

// ---- tiles of keys ----

/// <d_o, o> of every query: the D of the backward pass.
Values deltas_of(const Scene& s, const Arrays& answer) {
  const Array &o = answer.at("o"), &d = s.problem.cotangents.at("o");
  const Grid grid = grid_of(*s.described("o"), o.shape);
  Values deltas(grid.heads * grid.rows);
  for (std::size_t r = 0; r < deltas.size(); ++r)
    for (std::size_t c = 0; c < grid.cols; ++c) deltas[r] += o.data[r * grid.cols + c] * d.data[r * grid.cols + c];
  return deltas;
}

void scale_rows(Array& array, const Values& by, double factor) {
  const std::size_t cols = array.data.size() / by.size();
  for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] *= factor * by[i / cols];
}

/// d_q or d_k with the score's gradient P dP in place of P (dP - D).
Array without_delta(const Scene& s, const std::string& tensor) {
  const Arrays right = answer_of(*s.room, s.problem);
  const Values deltas = deltas_of(s, right);
  Problem p = s.problem;
  const double scale = 1 / s.number("bandwidth", std::sqrt(static_cast<double>(p.inputs.at("q").shape.back())));
  Array owed;
  if (tensor == "d_q") {  // D_i sum_j P_ij k_j
    p.inputs.at("v") = p.inputs.at("k"), p.cotangents.clear();
    owed = answer_of(*s.room, p).at("o");
    scale_rows(owed, deltas, scale);
  } else {  // sum_i P_ij D_i q_i
    for (auto& [name, cotangent] : p.cotangents) std::fill(cotangent.data.begin(), cotangent.data.end(), 0.0);
    p.cotangents.at("o") = p.inputs.at("q");
    scale_rows(p.cotangents.at("o"), deltas, scale);
    owed = answer_of(*s.room, p).at("d_v");
  }
  return sum_of(1, {{tensor, right.at(tensor)}}, 1, {{tensor, owed}}).at(tensor);
}

/// A recurrence whose states are carried from chunk to chunk.
bool goes_by_chunks(const Scene& scene) {
  const std::vector<std::string> names = scene.inputs();
  const bool carries = std::any_of(names.begin(), names.end(), is_state);
  const bool windows = std::ranges::any_of(
      scene.fields(), [](const auto& ranked) { return ranked.rank > 0 && ranked.field.axes[0] == Axis::tail_len; });
  return scene.in_parts && carries && !windows && scene.aligned() && scene.input("q") != nullptr &&
         scene.input("k") != nullptr;
}

void add_chunks_of(List& list, const Scene& scene, const std::vector<std::size_t>& sizes, Counted counted) {
  if (!goes_by_chunks(scene)) return;
  const auto shown = [&](std::size_t size) -> std::string {
    if (size == 1) return "token by token";
    return size < scene.tokens() ? fmt::format("chunks of {}", size) : "one chunk";
  };
  const auto of_size = [&](std::size_t first, std::size_t size) {
    for (std::size_t i = first; i < list.size(); ++i) list[i].block = size;
  };
  for (const std::size_t size : sizes) {
    const std::size_t first = list.size();
    if (counted == Counted::no) {
      add_lost_states(list, scene, size, shown(size));
    } else {
      add_state_mistakes(list, scene, size, shown(size));
      add_weights(list, scene, size, shown(size));
    }
    of_size(first, size);
  }
  add_chunk_slips(list, scene, sizes, shown, counted);
  for (const std::size_t size : sizes) {
    if (counted == Counted::no) break;
    const std::size_t first = list.size();
    add_gradient_parts(list, scene, size, shown(size));
    of_size(first, size);
  }
  add_gradient_slips(list, scene, sizes, shown, counted);
  if (counted == Counted::no) add_gradient_slips(list, scene, {1}, shown, Counted::by_suites);
}

/// Adds chunks that know nothing of each other, for a problem without states that a case gives.
void add_lone_chunks(List& list, const Scene& scene, const std::vector<std::size_t>& sizes) {
  const std::vector<std::string> names = scene.inputs();
  if (!scene.in_parts || !scene.aligned() || !scene.is_causal() || std::ranges::any_of(names, is_state)) return;
  for (const std::size_t size : sizes) {
    if (size >= scene.tokens()) continue;
    const std::string what = fmt::format("every chunk begun from nothing (chunks of {})", size);
    list.push_back({what, what, "carry what earlier chunks have left", [size](const Scene& s) {
                      Arrays whole;
                      for (std::size_t begin = 0; begin < s.tokens(); begin += size) {
                        const std::size_t end = std::min(begin + size, s.tokens());
                        for (auto& [name, array] : answer_of(*s.room, tokens_of(s, begin, end)))
                          if (name.starts_with("final_"))
                            whole[name] = array;
                          else if (name == "o")
                            place(s, name, array, begin, whole[name]);
                      }
                      return whole;
                    }});
    list.back().block = size, list.back().effort = scene.problem.cotangents.empty() ? 1 : 0.25;
  }
}

/// Softmax attention without a window.
bool is_plain_attention(const Scene& scene) {
  const auto known = [](const auto& param) { return param.first == "bandwidth" || param.first == "causal"; };
  return scene.room->name == "softmax_attention" && scene.input("v") != nullptr &&
         std::all_of(scene.problem.params.begin(), scene.problem.params.end(), known);
}

/// The usual sizes, and one chunk.
std::vector<std::size_t> chunks_of(const Scene& scene) {
  std::vector<std::size_t> sizes = usual_sizes();
  std::erase_if(sizes, [&](std::size_t size) { return size >= scene.tokens(); });
  sizes.push_back(scene.tokens());
  return sizes;
}

}  // namespace

void add_chunks(List& list, const Scene& scene) { add_chunks_of(list, scene, chunks_of(scene), Counted::by_suites); }

void add_further_blocks(List& list, const Scene& scene) {
  add_chunks_of(list, scene, chunks_of(scene), Counted::no);
  add_lone_chunks(list, scene, usual_sizes());
  add_attention_slips(list, scene, usual_sizes(), Counted::no);
}

std::vector<Convention> block_conventions_of(const Scene& scene, const std::vector<std::size_t>& sizes) {
  List list;
  for (const Counted counted : {Counted::by_suites, Counted::no}) {
    add_chunks_of(list, scene, sizes, counted);
    add_attention_slips(list, scene, sizes, counted);
  }
  add_lone_chunks(list, scene, sizes);
  std::erase_if(list, [](const Convention& c) { return c.block == 0; });
  return list;
}

void add_tiles(List& list, const Scene& scene) {
  add_attention_slips(list, scene, usual_sizes(), Counted::by_suites);
  add_probe_slips(list, scene);
  if (!is_plain_attention(scene)) return;
  if (scene.problem.cotangents.contains("o") && scene.input("q")->shape.back() == scene.input("v")->shape.back())
    for (const std::string tensor : {"d_q", "d_k"}) {
      Convention c{"no delta in " + tensor, "D = <d_o, o> missing from the scores' gradient in " + tensor + " (P dP)",
                   "subtract D: P (dP - D)", [tensor](const Scene& s) {
                     return Arrays{{tensor, without_delta(s, tensor)}};
                   }};
      c.only = tensor;
      list.push_back(std::move(c));
    }
}

}  // namespace assay::hypotheses
