#include "judge/hypotheses/argument_conventions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "arguments/registry.hpp"
#include "arguments/scale_layout.hpp"
#include "judge/hypotheses/sequence_form.hpp"

namespace assay::hypotheses {
namespace {

using std::numbers::ln2;
using List = std::vector<Convention>;
using Edit = std::function<void(Problem&)>;

/// Answers what `answer` does, whatever is around it.
void add(List& list, const std::string& what, const std::string& mend, std::function<Arrays(const Scene&)> answer) {
  list.push_back({what, what, mend, std::move(answer), true});
}
/// The problem was another one; the gradients of `own` are then of something else.
void add_edit(List& list, const std::string& what, const std::string& mend, const Edit& edit,
              const std::vector<std::string>& own = {}) {
  add(list, what, mend, [edit, own](const Scene& s) {
    Problem p = s.problem;
    edit(p);
    Arrays answer = answer_of(*s.room, p);
    for (const std::string& name : own) answer.erase("d_" + name);
    return answer;
  });
}
/// Outputs without that input; "": with all.
Arrays outputs_without(const Scene& s, const std::string& input) {
  Problem p = s.problem;
  p.inputs.erase(input), p.cotangents.clear();
  return answer_of(*s.room, p);
}
void add_values(List& list, const std::string& name, const std::string& what, const std::function<double(double)>& f) {
  add_edit(list, name + ' ' + what, "read " + name + " as it is",
           [name, f](Problem& p) { std::ranges::transform(p.inputs.at(name).data, p.inputs.at(name).data.begin(), f); },
           {name});
}

void set_scale(Problem& p, double scale) {
  p.params.erase("bandwidth");
  p.params["scale"] = digits(scale);
}

// ---- masks ----

/// Whether a causal mask is all that hides keys from queries.
bool is_merely_causal(const Scene& scene) {
  const Array *q = scene.input("q"), *k = scene.input("k");
  if (q == nullptr || k == nullptr || !scene.is_causal() || scene.described("q") == nullptr) return false;
  for (const char* name : {"mask", "cu_seqlens", "cu_seqlens_q", "lengths", "lengths_k", "page_table", "documents_q"})
    if (scene.input(name) != nullptr) return false;
  for (const char* name : {"window", "window_left", "window_right", "causal_align"})
    if (scene.problem.params.contains(name)) return false;
  return scene.described("q")->field.axes[0] == Axis::query_len;
}

/// Every number of an array [Tq][Tk] by the query's place among the keys and the key.
Array by_places(const Scene& scene, const std::function<double(int place, int key)>& f) {
  const int Tq = scene.input("q")->shape[1], Tk = scene.input("k")->shape[1];
  Array pairs({Tq, Tk});
  for (int i = 0; i < Tq; ++i)
    for (int j = 0; j < Tk; ++j) pairs.data[static_cast<std::size_t>(i * Tk + j)] = f(i + Tk - Tq, j);
  return pairs;
}

/// The causal mask made otherwise; f(place, key) says what is seen.
void add_mask(List& list, const Scene& scene, const std::string& what, const std::string& mend,
              const std::function<bool(int place, int key)>& f) {
  add_edit(list, what, mend, [mask = by_places(scene, [&](int i, int j) { return f(i, j) ? 1 : 0; })](Problem& p) {
    p.params["causal"] = false, p.inputs["mask"] = mask;
  });
}

void add_masks(List& list, const Scene& scene) {
  if (!is_merely_causal(scene)) return;
  add_mask(list, scene, "the first key left out", "keys begin with 0",
           [](int i, int j) { return j <= i && (j > 0 || i <= 0); });
  const int keys = scene.input("k")->shape[1];
  for (const int tile : {64, 32, 16, 128, 8, 24, 48, 96}) {
    if (tile >= keys) continue;
    const std::string tiles = fmt::format(" (tiles of {})", tile);
    add_mask(list, scene, "all keys seen of the tile that the query's own key is in" + tiles,
             "mask within the tile of the diagonal, too",
             [tile](int i, int j) { return i >= 0 && j / tile <= i / tile; });
    add_mask(list, scene, "the last, partial tile of keys left out" + tiles, "divide the number of keys upwards",
             [tile, keys](int i, int j) { return j <= i && j < keys / tile * tile; });
  }
}

/// Keys that are hidden before the cap, by a score that it makes -c.
void add_capped_mask(List& list, const Scene& scene) {
  if (!is_merely_causal(scene) || scene.input("bias") != nullptr || scene.input("alibi_slopes") != nullptr) return;
  constexpr double hides = -1e6;
  Array bias = by_places(scene, [&](int i, int j) { return j <= i ? 0 : hides; });
  const Array one = bias;
  bias.shape.insert(bias.shape.begin(), static_cast<int>(scene.own_heads()));
  for (std::size_t h = 1; h < scene.own_heads(); ++h)
    bias.data.insert(bias.data.end(), one.data.begin(), one.data.end());
  add_edit(list, "the mask before the cap (hidden keys have the score -c)", "mask the capped scores",
           [bias](Problem& p) {
             p.params["causal"] = false, p.inputs["bias"] = bias;
             p.params["bias_place"] = std::string("before_cap");
           });
  list.back().whole_sequences = true;
}

// ---- settings ----

void add_choice(List& list, const std::string& name, const std::string& now, const std::vector<std::string>& words) {
  const bool truth = words.front() == "true" || words.front() == "false";
  for (const std::string& other : words)
    if (other != now)
      add_edit(list, fmt::format("{} = {}, not {}", name, other, now), "read params." + name,
               [name, other, truth](Problem& p) { p.params[name] = truth ? Param(other == "true") : Param(other); });
}

/// Settings, and others that are said beside them alone.
constexpr std::pair<std::string_view, std::string_view> companions[] = {
    {"l2_norm", "l2_eps"},      {"q_scale", "scale_block"},      {"k_scale", "scale_block"},
    {"v_scale", "scale_block"}, {"topk_indices", "topk_length"}, {"topk_indices", "topk_block_size"}};

void ignore(Problem& p, const std::string& name) {
  p.params.erase(name), p.inputs.erase(name);
  for (const auto& [one, other] : companions)
    if (one == name) p.params.erase(std::string(other)), p.inputs.erase(std::string(other));
}

void add_settings(List& list, const Scene& scene, const std::map<std::string, std::vector<std::string>>& choices) {
  const auto own = [&](std::string_view name) {
    return std::ranges::find(scene.room->options, name) != scene.room->options.end();
  };
  const Params& params = scene.problem.params;
  for (const auto& [name, words] : choices)
    if (const auto now = params.find(name); !own(name))
      add_choice(list, name, now == params.end() ? words.front() : word_of(now->second), words);
  for (const auto& [name, value] : params) {
    if (own(name) || name == "scale" || name == "bandwidth" || name == "scale_layout") continue;
    add_edit(list, name + " ignored", "read params." + name, [name = name](Problem& p) { ignore(p, name); });
    const auto* count = std::get_if<long>(&value);
    for (const long by : {1L, -1L})
      if (count != nullptr)
        add_edit(list, fmt::format("{} one {}", name, by > 0 ? "larger" : "smaller"),
                 fmt::format("{} is {}", name, *count),
                 [name = name, n = *count + by](Problem& p) { p.params[name] = n; });
  }
  if (!params.contains("soft_cap")) return;
  add_capped_mask(list, scene);
  const double cap = scene.number("soft_cap", 1), scale = scene.scale();
  add_edit(list, "scores not multiplied by the cap again (tanh(s / c))", "scores are c tanh(s / c)",
           [=](Problem& p) { p.params["soft_cap"] = std::string("1"), set_scale(p, scale / cap); });
  add_edit(list, "the cap before the scale (scale c tanh(q k / c))", "cap the scaled scores",
           [=](Problem& p) { p.params["soft_cap"] = digits(cap * std::abs(scale)); });
}

// ---- inputs ----

/// The last two axes exchanged, where they are as long.
void transpose(Array& x) {
  const auto n = static_cast<std::size_t>(x.shape.back());
  for (std::size_t first = 0; first < x.data.size(); first += n * n)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j) std::swap(x.data[first + i * n + j], x.data[first + j * n + i]);
}
bool is_square(const Array& x) { return x.shape.size() >= 2 && x.shape.back() == x.shape[x.shape.size() - 2]; }

/// Every index of an axis where that `by` before was.
void rotate(Array& x, std::size_t axis, std::size_t by = 1) {
  std::size_t inner = 1;
  for (std::size_t a = axis + 1; a < x.shape.size(); ++a) inner *= static_cast<std::size_t>(x.shape[a]);
  const std::size_t block = inner * static_cast<std::size_t>(x.shape[axis]);
  for (auto at = x.data.begin(); at != x.data.end(); at += static_cast<std::ptrdiff_t>(block))
    std::rotate(at, at + static_cast<std::ptrdiff_t>(by * inner), at + static_cast<std::ptrdiff_t>(block));
}

void add_numbers(List& list, const Scene& scene, const std::string& name) {
  const Array& x = *scene.input(name);
  const double scale = scene.scale();
  add_values(list, name, "with the other sign", [](double v) { return -v; });
  add_values(list, name, "in base 2 (ln 2 times it)", [](double v) { return v * ln2; });
  add_values(list, name, "multiplied by log2 e", [](double v) { return v / ln2; });
  if (name == "sink" || name == "alibi_slopes" || name == "bias")
    add_values(list, name, "multiplied by the scale", [scale](double v) { return v * scale; });
  if (name.ends_with("_scale")) add_values(list, name, "divided by, not multiplied", [](double v) { return 1 / v; });
  if (name == "a_log") add_values(list, name, "taken for its exponential", [](double v) { return std::log(v); });
  const bool paged = scene.input("page_table") != nullptr && name != "q_scale";
  const char* const rows = paged ? "page" : "row or block of rows";
  for (std::size_t axis = name.ends_with("_scale") ? 1 : x.shape.size(); axis < x.shape.size(); ++axis)
    if (x.shape[axis] > 1)
      add_edit(list,
               fmt::format("{} of the next {}", name,
                           axis == 1             ? rows
                           : axis == 3 || !paged ? "block of channels"
                                                 : "row"),
               "read it at its own place", [name, axis](Problem& p) { rotate(p.inputs.at(name), axis); }, {name});
  if (name == "bias" && x.shape[0] > 1) {
    add_edit(list, "bias of head 0 for all heads", "every head has its own bias",
             [](Problem& p) {
               Array& bias = p.inputs.at("bias");
               const auto one = static_cast<std::ptrdiff_t>(bias.data.size()) / bias.shape[0];
               for (auto at = bias.data.begin() + one; at != bias.data.end(); at += one)
                 std::copy_n(bias.data.begin(), one, at);
             },
             {"bias"});
    list.back().whole_sequences = true;
  }
  for (const int n : {2, 3, 4, 8, 16})
    if (name == "sink")
      add_values(list, name, fmt::format("counted {} times", n), [n](double v) { return v + std::log(n); });
}

/// What a kernel finds that reads scales by rows and columns, which lie otherwise.
void read_linearly(Array& scales, arguments::ScaleLayout layout) {
  constexpr double of_padding = std::numeric_limits<double>::min();  // for 0, which is no scale
  const std::size_t axes = scales.shape.size();
  const arguments::ScaleMatrix matrix{layout, scales.shape[axes - 2], scales.shape[axes - 1]};
  const arguments::ScaleMatrix linear{arguments::ScaleLayout::linear, matrix.stored_rows(), matrix.stored_cols()};
  std::vector<double> stored(matrix.stored(), of_padding);
  const auto each = [&](const auto& f) {
    for (int r = 0; r < matrix.rows; ++r)
      for (int c = 0; c < matrix.cols; ++c) f(static_cast<std::size_t>(r * matrix.cols + c), r, c);
  };
  const std::size_t count = static_cast<std::size_t>(matrix.rows) * static_cast<std::size_t>(matrix.cols);
  for (std::size_t first = 0; first < scales.data.size(); first += count) {
    each([&](std::size_t i, int r, int c) { stored[matrix.place(r, c)] = scales.data[first + i]; });
    each([&](std::size_t i, int r, int c) { scales.data[first + i] = stored[linear.place(r, c)]; });
  }
}

void add_scale_layouts(List& list, const Scene& scene) {
  const auto given = scene.problem.params.find("scale_layout");
  if (given == scene.problem.params.end()) return;
  const arguments::ScaleLayout layout = arguments::scale_layout_from(word_of(given->second));
  std::vector<std::string> swizzled;
  for (const char* name : {"q_scale", "k_scale", "v_scale"})
    if (const Array* x = scene.input(name);
        x != nullptr && arguments::is_swizzled(layout, name) &&
        arguments::is_of_blocks(name, x->shape.size(), scene.input("page_table") != nullptr))
      swizzled.emplace_back(name);
  if (swizzled.empty()) return;
  const std::string what = swizzled.size() == 1 ? swizzled.front() : "scales";
  add_edit(
      list, fmt::format("{} read linearly, which the file has in {}", what, name_of(layout)),
      "read params.scale_layout, and scales where it has them",
      [layout, swizzled](Problem& p) {
        for (const std::string& name : swizzled) read_linearly(p.inputs.at(name), layout);
      },
      swizzled);
}

/// Lists of keys read otherwise.
void add_choices(List& list) {
  add_edit(list, "keys of topk_indices counted from 1", "key 0 is the first of its sequence", [](Problem& p) {
    for (double& entry : p.inputs.at("topk_indices").data) entry -= entry < 0 ? 0 : 1;
  });
  add_edit(list, "topk_indices of the next row", "row i sees the keys of its own list", [](Problem& p) {
    Array& x = p.inputs.at("topk_indices");
    std::rotate(x.data.begin(), x.data.begin() + static_cast<std::ptrdiff_t>(x.shape.back()), x.data.end());
  });
}

/// Borders of sequences, lengths, pages, rows: integers.
void add_integers(List& list, const Scene& scene, const std::string& name) {
  const Array& x = *scene.input(name);
  const bool borders = name.starts_with("cu_seqlens");
  if (name == "page_table") {
    const char* const mend = "logical page i of sequence n is page_table[n][i]";
    add_edit(list, "page_table ignored (pages one after the other)", mend, [](Problem& p) {
      std::vector<double>& pages = p.inputs.at("page_table").data;
      for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<double>(i);
    });
    add_edit(list, "pages of the next sequence", mend, [](Problem& p) { rotate(p.inputs.at("page_table"), 0); });
    add_edit(list, "the next page in the place of each", mend,
             [](Problem& p) { rotate(p.inputs.at("page_table"), 1); });
    return;
  }
  if (name.starts_with("documents")) return;
  if (name == "topk_indices") {
    add_choices(list);
    return;
  }
  for (const int by : {1, -1})
    add_edit(list,
             borders ? fmt::format("{}: sequences begin one row {}", name, by > 0 ? "late" : "early")
                     : fmt::format("{} one {}", name, by > 0 ? "larger" : "smaller"),
             borders ? "sequence n is rows " + name + "[n] to " + name + "[n + 1] - 1" : "read " + name + " as it is",
             [name, by, borders](Problem& p) {
               std::vector<double>& at = p.inputs.at(name).data;
               for (std::size_t i = borders ? 1 : 0; i + (borders ? 1 : 0) < at.size(); ++i) at[i] += by;
             });
  if (!borders || x.data.size() < 3) return;
  add_edit(list, "sequences not told apart", "tokens of a sequence see their own alone", [](Problem& p) {
    for (auto& [input, array] : p.inputs)
      if (input.starts_with("cu_seqlens")) array = Array({2}, {0, array.data.back()});
  });
}

void add_inputs(List& list, const Scene& scene) {
  for (const arguments::Argument& argument : arguments::all_arguments()) {
    const std::string name(argument.name);
    const Array* x = scene.input(name);
    if (argument.part != arguments::Part::inputs || x == nullptr) continue;
    if (!name.starts_with("cu_seqlens"))
      add_edit(list, name + " ignored", "read " + name, [name = name](Problem& p) { ignore(p, name); }, {name});
    if (name == "mask")
      add_edit(list, "mask the other way round (1 hides)", "1 is a key that is seen", [](Problem& p) {
        for (double& v : p.inputs.at("mask").data) v = 1 - v;
      });
    else if (scene.described(name) == nullptr)
      add_integers(list, scene, name);
    else
      add_numbers(list, scene, name);
    if ((name == "mask" || name == "bias") && is_square(*x))
      add_edit(list, name + " transposed", "rows are queries", [name](Problem& p) { transpose(p.inputs.at(name)); },
               {name});
  }
}

// ---- sequences ----

/// Packed sequences as one, with a mask; f(query, key, first and end of the query's sequence) says what it sees.
void add_seen(List& list, const Scene& scene, const std::string& what,
              const std::function<bool(int i, int j, int begin, int end)>& f) {
  const Array* cu = scene.input("cu_seqlens");
  if (cu == nullptr || scene.input("mask") != nullptr || scene.input("k") == nullptr) return;
  add_edit(list, what, "tokens of a sequence see their own alone", [f, borders = cu->data](Problem& p) {
    const int T = static_cast<int>(borders.back());
    Array mask({T, T});
    for (std::size_t n = 0; n + 1 < borders.size(); ++n) {
      const int begin = static_cast<int>(borders[n]), end = static_cast<int>(borders[n + 1]);
      for (int i = begin; i < end; ++i)
        for (int j = 0; j < T; ++j) mask.data[static_cast<std::size_t>(i * T + j)] = f(i, j, begin, end) ? 1 : 0;
    }
    p.inputs["mask"] = std::move(mask), p.inputs.erase("cu_seqlens");
  });
}

/// Each of so many sequences starts from what the one before left.
Arrays carried_on(const Scene& s, std::size_t sequences) {
  Problem p = s.problem;
  Arrays answer = answer_of(*s.room, p);
  for (std::size_t n = 1; n < sequences; ++n) {
    Array& start = p.inputs.at("initial_state");
    const Array& end = answer.at("final_state");
    const auto one = static_cast<std::ptrdiff_t>(end.data.size() / sequences);
    const auto to = static_cast<std::ptrdiff_t>(n) * one;
    std::copy_n(end.data.begin() + (to - one), one, start.data.begin() + to);
    answer = answer_of(*s.room, p);
  }
  std::erase_if(answer, [](const auto& tensor) { return tensor.first.starts_with("d_"); });
  return answer;
}

void add_sequences(List& list, const Scene& scene) {
  add_seen(list, scene, "the first key of the next sequence seen, too",
           [](int, int j, int begin, int end) { return j >= begin && j <= end; });
  add_seen(list, scene, "the last key of the sequence before seen, too",
           [](int, int j, int begin, int end) { return j >= begin - 1 && j < end; });
  add_seen(list, scene, "the first key of its sequence hidden from every later query",
           [](int i, int j, int begin, int end) { return j >= begin && j < end && (j > begin || i == begin); });
  for (const int tile : {64, 32, 16, 128, 8})
    add_seen(
        list, scene,
        fmt::format("keys of the sequence before seen that share a tile with the sequence's first (tiles of {})", tile),
        [tile](int, int j, int begin, int end) { return j >= begin / tile * tile && j < end; });
  const Array* start = scene.input("initial_state");
  const std::size_t heads = scene.own_heads(), sequences = start == nullptr ? 0 : start->shape[0] / heads;
  if (sequences < 2) return;
  if (sequences <= 16 && scene.input("cu_seqlens") == nullptr)
    add(list, "the state carried from one sequence into the next", "start every sequence from its own initial state",
        [sequences](const Scene& s) { return carried_on(s, sequences); });
  add_edit(list, "initial_state of the next sequence", "start every sequence from its own initial state",
           [heads](Problem& p) { rotate(p.inputs.at("initial_state"), 0, heads); }, {"initial_state"});
  list.back().whole_sequences = true;
}

// ---- what is read off two answers ----

/// The largest score of every row, the sink among them or not: lse of scores c times as large, over c, is larger by
/// ln(keys) / c at most.
Array maxima(const Scene& s, bool with_sink) {
  constexpr double c = 0x1p30;
  Problem p = s.problem;
  p.cotangents.clear();
  set_scale(p, c * s.scale());
  if (p.params.contains("soft_cap")) p.params["soft_cap"] = digits(c * s.number("soft_cap", 1));
  if (!with_sink) p.inputs.erase("sink");
  for (const char* name : {"bias", "alibi_slopes", "sink"})
    if (const auto found = p.inputs.find(name); found != p.inputs.end())
      for (double& x : found->second.data) x *= c;
  p.params.erase("lse_base");
  Array lse = answer_of(*s.room, p).at("lse");
  for (double& x : lse.data) x /= c;
  return lse;
}

/// lse and the maximum of every row made of the two parts otherwise.
void add_lse(List& list, const Scene& scene, bool with_sink) {
  if (scene.described("lse") == nullptr) return;
  const auto from = [&](const std::string& what, const std::function<double(double m, double sum)>& f) {
    add(list, what, "lse = max + ln sum e^(s - max)", [f, with_sink](const Scene& s) {
      Array lse = outputs_without(s, "").at("lse");
      const Array m = maxima(s, with_sink);
      for (std::size_t i = 0; i < lse.data.size(); ++i) lse.data[i] = f(m.data[i], lse.data[i] - m.data[i]);
      return Arrays{{"lse", std::move(lse)}};
    });
  };
  from("lse without its maximum", [](double, double sum) { return sum; });
  from("the row's maximum for lse", [](double m, double) { return m; });
  from("the row's sum for its logarithm", [](double, double sum) { return std::exp(sum); });
  from("the sum's logarithm in base 2, the maximum in base e", [](double m, double sum) { return m + sum / ln2; });
  from("the maximum of scores that are not scaled in lse",
       [scale = scene.scale()](double m, double sum) { return m / scale + sum; });
  from("the maximum in base 2, the sum's logarithm in base e", [](double m, double sum) { return m / ln2 + sum; });
}

/// The sink in one of the two outputs alone.
void add_sinks(List& list, const Scene& scene) {
  if (scene.input("sink") == nullptr) return;
  for (const char* output : {"o", "lse"})
    add(list, fmt::format("the sink missing from {} alone", output), "it is a term of the row's sum, in o and in lse",
        [output](const Scene& s) {
          return Arrays{{output, outputs_without(s, "sink").at(output)}};
        });
}

/// The sink beside numbers that have lost their maximum.
void add_bare_sink(List& list, const Scene& scene, bool with_sink) {
  if (scene.input("sink") == nullptr) return;
  add(list, "the sink's exponential without the row's maximum (e^sink, not e^(sink - max))",
      "take the maximum off the sink, too", [with_sink](const Scene& s) {
        Arrays plain = outputs_without(s, "sink");
        const Array m = maxima(s, with_sink);
        Array &o = plain.at("o"), &lse = plain.at("lse");
        const std::size_t rows = lse.data.size() / s.input("sink")->data.size(), cols = o.data.size() / lse.data.size();
        for (std::size_t i = 0; i < lse.data.size(); ++i) {
          const double sum = std::exp(lse.data[i] - m.data[i]), wrong = sum + std::exp(s.input("sink")->data[i / rows]);
          for (std::size_t c = 0; c < cols; ++c) o.data[i * cols + c] *= sum / wrong;
          lse.data[i] = m.data[i] + std::log(wrong);
        }
        return Arrays{{"o", std::move(o)}, {"lse", std::move(lse)}};
      });
}

/// Masks and distances of a kernel whose queries end where its keys do, and of one that counts from the first.
void add_positions(List& list, const Scene& scene) {
  const Array *q = scene.input("q"), *k = scene.input("k"), *slopes = scene.input("alibi_slopes");
  if (q == nullptr || k == nullptr || scene.described("o")->field.axes[0] != Axis::query_len) return;
  if (scene.is_causal())
    add_edit(list, "the mask one key long (a query sees the next key)", "query t sees keys 0..t",
             [](Problem& p) { p.params["causal"] = false, p.params["window_right"] = 1L; });
  if (slopes == nullptr || scene.input("bias") != nullptr || q->shape[1] == k->shape[1]) return;
  add_edit(list, "ALiBi's distances counted from query i, not from i + Tk - Tq", "the last query is at the last key",
           [slopes = *slopes, Tq = q->shape[1], Tk = k->shape[1]](Problem& p) {
             Array& bias = p.inputs["bias"] = Array({slopes.shape[0], Tq, Tk});
             for (std::size_t at = 0; const double slope : slopes.data)
               for (int i = 0; i < Tq; ++i)
                 for (int j = 0; j < Tk; ++j) bias.data[at++] = -slope * std::abs(i - j);
             p.inputs.erase("alibi_slopes");
           });
}

/// o z sigmoid(z) behind a recurrence, made otherwise.
void add_outlets(List& list, const Scene& scene) {
  if (scene.input("z") == nullptr) return;
  const auto from = [&](const std::string& what, double (*f)(double z)) {
    add(list, what, "o is multiplied by z sigmoid(z)", [f](const Scene& s) {
      Arrays answer{{"o", outputs_without(s, "z").at("o")}};
      for (std::size_t i = 0; i < answer.at("o").data.size(); ++i)
        answer.at("o").data[i] *= f(s.input("z")->data.at(i));
      return answer;
    });
  };
  from("z for z sigmoid(z)", [](double z) { return z; });
  from("sigmoid(z) for z sigmoid(z)", sigmoid);
}

/// log_decay is -e^a_log f(a + dt_bias).
void add_gate(List& list, const Scene& scene, const Problem& given, const std::string& what, double (*f)(double)) {
  const auto a = given.inputs.find("a"), a_log = given.inputs.find("a_log"), bias = given.inputs.find("dt_bias");
  if (a == given.inputs.end() || a_log == given.inputs.end() || scene.input("log_decay") == nullptr) return;
  Array decay = a->second;
  const std::size_t heads = a_log->second.data.size(), n = decay.data.size() / heads;
  for (std::size_t i = 0; i < decay.data.size(); ++i) {
    const std::size_t h = i / n;
    double x = decay.data[i];
    if (bias != given.inputs.end()) {
      const std::size_t channels = bias->second.data.size() / heads;
      x += bias->second.data[h * channels + i % channels];
    }
    decay.data[i] = -std::exp(a_log->second.data[h]) * f(x);
  }
  add_edit(list, what, "log_decay = -e^a_log softplus(a + dt_bias)",
           [decay](Problem& p) { p.inputs.at("log_decay") = decay; });
}

}  // namespace

std::vector<Convention> conventions_of_front_end(const Scene& scene, const Problem& given) {
  List list;
  add_gate(list, scene, given, "max(x, 0) for softplus(x) of the gate", [](double x) { return std::max(x, 0.0); });
  add_gate(list, scene, given, "sigmoid(x) for softplus(x) of the gate", sigmoid);
  add_gate(list, scene, given, "e^x for softplus(x) of the gate", [](double x) { return std::exp(x); });
  if (given.inputs.contains("b") && scene.input("beta") != nullptr)
    add_edit(list, "b taken for beta, without its sigmoid", "beta = beta_scale sigmoid(b)",
             [b = given.inputs.at("b")](Problem& p) { p.inputs.at("beta") = b; });
  add_packed_states(list, scene);
  if (!given.params.contains("l2_norm")) return list;
  const std::vector<std::vector<const char*>> some = {{"q", "k", "p"}, {"q"}, {"k", "p"}};
  for (const auto& names : some) {
    const bool all = names.size() == 3;
    const std::string who = all ? "q and k" : names.front();
    if (!all)  // else it is an option that was ignored
      add_edit(list, who + " not normalised", "divide it by its length", [names, given](Problem& p) {
        for (const char* name : names)
          if (p.inputs.contains(name)) p.inputs.at(name) = given.inputs.at(name);
      });
    add_edit(list, who + " divided by the root mean square, not by the length", "divide it by its length",
             [names](Problem& p) {
               for (const char* name : names)
                 if (const auto x = p.inputs.find(name); x != p.inputs.end())
                   for (double& number : x->second.data) number *= std::sqrt(x->second.shape.back());
             });
  }
  return list;
}

std::vector<Convention> conventions_of_arguments(const Scene& scene,
                                                 const std::map<std::string, std::vector<std::string>>& choices) {
  List list;
  add_inputs(list, scene);
  add_scale_layouts(list, scene);
  add_settings(list, scene, choices);
  add_sequences(list, scene);
  add_packed_states(list, scene);
  add_positions(list, scene);
  add_masks(list, scene);
  add_sinks(list, scene);
  for (const bool with_sink : {false, true}) {
    if (with_sink && scene.input("sink") == nullptr) continue;
    add_lse(list, scene, with_sink), add_bare_sink(list, scene, with_sink);
  }
  add_outlets(list, scene);
  return list;
}

}  // namespace assay::hypotheses
