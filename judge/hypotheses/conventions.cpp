#include "judge/hypotheses/conventions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "arguments/file_case.hpp"
#include "judge/hypotheses/blocks.hpp"
#include "judge/hypotheses/input_forms.hpp"
#include "reference/core/error.hpp"

namespace assay::hypotheses {
namespace {

using List = std::vector<Convention>;

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

std::string short_digits(double x) { return fmt::format("{:.4g}", x); }

Arrays answer_of(const Scene& scene, const Problem& changed) { return hypotheses::answer_of(*scene.room, changed); }

void forget(Arrays& answer, const std::string& tensor) {
  const auto found = answer.find(tensor);
  if (found != answer.end()) std::fill(found->second.data.begin(), found->second.data.end(), unknown);
}

/// The answer where all tensors lie otherwise: `move` takes them there and, `back`, from there.
Arrays answer_rearranged(const Scene& scene, const std::function<void(Arrays&, bool back)>& move) {
  Problem p = scene.problem;
  move(p.inputs, false), move(p.cotangents, false);
  Arrays answer = answer_of(scene, p);
  move(answer, true);
  return answer;
}

/// The answer where these inputs are so many times as large, with their gradients.
Arrays answer_of_multiplied(const Scene& scene, const std::vector<std::string>& inputs, double factor) {
  Problem p = scene.problem;
  for (const std::string& name : inputs)
    for (double& x : p.inputs.at(name).data) x *= factor;
  Arrays answer = answer_of(scene, p);
  for (const std::string& name : inputs)
    if (const auto d = answer.find("d_" + name); d != answer.end())
      for (double& x : d->second.data) x *= factor;
  return answer;
}

/// The problem without groups: each output head has its own copy of what heads share, of head `of(h)` for those that
/// `other` holds and of the head of its group for the rest.
Problem with_heads_apart(const Scene& scene, const Problem& problem, const std::set<std::string>& other = {},
                         const std::function<std::size_t(std::size_t)>& of = {}) {
  Problem p = problem;
  const std::size_t own = scene.own_heads(), group = scene.group();
  for (auto& [name, array] : p.inputs) {
    const RoomFacts::Ranked* ranked = scene.described(name);
    const Grid grid = grid_in(scene, name, array);
    if (ranked == nullptr || ranked->field.heads == Field::Heads::own || !grid.by_head || grid.heads * group != own)
      continue;
    Array apart;
    apart.shape = array.shape, apart.shape[0] = static_cast<int>(own);
    const std::size_t n = grid.rows * grid.cols;
    for (std::size_t h = 0; h < own; ++h) {
      const auto from =
          array.data.begin() + static_cast<std::ptrdiff_t>((other.contains(name) ? of(h) : h / group) * n);
      apart.data.insert(apart.data.end(), from, from + static_cast<std::ptrdiff_t>(n));
    }
    array = std::move(apart);
  }
  return p;
}

// ---- one number, or every number of an input, is another function of what is given ----

/// x becomes f(x); the gradient is that of f(x) times slope(x), or, raw, that of f(x).
struct Change {
  std::string key, what, mend;
  std::function<double(double)> f, slope;
};

void add_elementwise(List& list, const std::string& input, const Change& change) {
  list.push_back({input + ' ' + change.key, change.what, change.mend, [input, change](const Scene& scene) {
                    Problem p = scene.problem;
                    Array& x = p.inputs.at(input);
                    const Array given = x;
                    for (double& v : x.data) v = change.f(v);
                    Arrays answer = answer_of(scene, p);
                    const auto d = answer.find("d_" + input);
                    if (d != answer.end() && d->second.data.size() == given.data.size()) {
                      answer["d_" + input + ", raw"] = d->second;
                      for (std::size_t i = 0; i < given.data.size(); ++i)
                        d->second.data[i] *= change.slope(given.data[i]);
                    }
                    return answer;
                  }});
}

void add_number(List& list, const std::string& param, double value, const std::string& what, const std::string& mend) {
  list.push_back({param + ' ' + what, what, mend, [param, value](const Scene& scene) {
                    Problem p = scene.problem;
                    p.params[param] = digits(value);
                    Arrays answer = answer_of(scene, p);
                    forget(answer, "d_" + param);
                    return answer;
                  }});
}

void add_scales(List& list, const Scene& scene) {
  for (const RoomFacts::Ranked& ranked : scene.fields()) {
    const Field& f = ranked.field;
    if (f.name != "scale" || f.place != Field::Place::param) continue;
    const Array* q = scene.input("q");
    const Array* v = scene.input("v");
    if (q == nullptr || v == nullptr) return;
    const double usual = 1 / std::sqrt(static_cast<double>(q->shape.back()));
    const double by_values = 1 / std::sqrt(static_cast<double>(v->shape.back()));
    const double s = scene.number("scale", usual);
    const std::string given = short_digits(s);
    const auto add = [&](double value, const std::string& what, const std::string& mend) {
      if (std::abs(value - s) > 1e-6 * std::abs(s)) add_number(list, "scale", value, what, mend);
    };
    add(1, "the scale missing (1 for " + given + ")", "multiply q by the scale, once");
    add(s * s, "the scale applied twice (" + short_digits(s * s) + " for " + given + ")",
        "drop one of the two factors");
    add(1 / s, "the scale inverted (" + short_digits(1 / s) + " for " + given + ")",
        "multiply by the scale, do not divide");
    add(usual, "the given scale ignored (K^-1/2 for " + given + ")", "read params.scale");
    add(by_values, "the scale of the values' width (V^-1/2 for " + given + ")",
        "take the scale from the keys' width K");
  }
}

void add_bandwidths(List& list, const Scene& scene) {
  for (const RoomFacts::Ranked& ranked : scene.fields()) {
    const Field& f = ranked.field;
    const Array* q = scene.input("q");
    if (f.domain != Domain::bandwidth || f.place != Field::Place::param || q == nullptr) continue;
    const std::string name(f.name);
    const double h = scene.number(name, 0), root = std::sqrt(static_cast<double>(q->shape.back()));
    if (!(h > 0)) continue;
    const std::string given = short_digits(h);
    const auto add = [&](double value, const std::string& what, const std::string& mend) {
      if (std::abs(value - h) > 1e-6 * h) add_number(list, name, value, what, mend);
    };
    add(1, "the scale missing (scores not divided by the bandwidth " + given + ")",
        "divide the scores by the bandwidth, once");
    add(h * h, "the scale applied twice (scores divided by " + short_digits(h * h) + ", not " + given + ")",
        "drop one of the two factors");
    add(1 / h, "the bandwidth inverted (scores times " + given + ", not divided by it)",
        "divide the scores by the bandwidth");
    add(root, "the given bandwidth ignored (sqrt K = " + short_digits(root) + " for " + given + ")",
        "read params." + name);
    add(h * h * std::numbers::ln2, "the scale applied twice, with its factor log2 e", "drop one of the two factors");
    if (const Array* v = scene.input("v"); v != nullptr)
      add(std::sqrt(static_cast<double>(v->shape.back())),
          "the bandwidth of the values' width (sqrt V for " + given + ")", "take it from the keys' width K");
    add(root * root, "scores divided by K, not " + given, "divide the scores by the bandwidth");
    add(h / std::numbers::ln2, "exp2 of scores in base e (weights 2^s for e^s)",
        "multiply the scores by log2 e before exp2, or call exp");
    add(h * std::numbers::ln2, "exp of scores in base 2 (log2 e multiplied in, then exp)",
        "call exp2, or leave the factor log2 e out");
  }
}

/// x becomes c x.
Change times(double c, const std::string& key, const std::string& what, const std::string& mend) {
  return {key, what, mend, [c](double x) { return c * x; }, [c](double) { return c; }};
}

std::vector<Change> decay_changes(const std::string& x) {
  constexpr double ln2 = std::numbers::ln2;
  return {
      times(ln2, "log2", x + " taken as log2 (the decay is 2^g, not e^g)",
            "multiply it by log2 e before exp2, or call exp"),
      times(1 / ln2, "log2 e", x + " multiplied by log2 e and then put through exp",
            "call exp2, or leave the factor out"),
      times(0, "ignored", x + " ignored (no decay)", "multiply the state by its exp in every step"),
      times(2, "twice", x + " applied twice (the decay squared)", "apply it once a step"),
      times(0.5, "half", x + " halved (the root of the decay)", "apply all of it"),
      times(1.0 / 16, "sixteenth", x + " divided by 16 once more", "the input is divided already"),
      {"exp", "exp(-exp(" + x + ")) for exp(" + x + ")", "the input is the logarithm of the decay itself",
       [](double g) { return -std::exp(g); }, [](double g) { return -std::exp(g); }},
      {"logit", "sigmoid(" + x + ") for exp(" + x + ")", "the input is the logarithm of the decay, not its logit",
       [](double g) { return std::log(sigmoid(g)); }, [](double g) { return 1 - sigmoid(g); }},
      {"complement", "1 - exp(" + x + ") for exp(" + x + ")", "multiply the state by exp(" + x + ") itself",
       [](double g) { return std::log1p(-std::exp(g)); }, [](double g) { return -std::exp(g) / -std::expm1(g); }},
      {"linear", "1 + " + x + " for exp(" + x + ")", "multiply the state by exp(" + x + ") itself",
       [](double g) { return std::log(std::max(1 + g, 1e-30)); }, [](double g) { return 1 / std::max(1 + g, 1e-30); }},
  };
}

std::vector<Change> weight_changes(const std::string& x) {
  const auto constant = [](double c) { return [c](double) { return c; }; };
  return {
      {"sigmoid", "sigmoid(" + x + ") for " + x + " (applied once more)",
       "the input has been through the sigmoid already", sigmoid,
       [](double b) { return sigmoid(b) * (1 - sigmoid(b)); }},
      {"one", x + " ignored (1 in its place)", "multiply by " + x, constant(1), constant(0)},
      {"zero", x + " ignored (0 in its place)", "add the term with " + x, constant(0), constant(0)},
      times(2, "double", x + " doubled", "the input is what multiplies, without a factor 2"),
      times(0.5, "half", x + " halved", "the input is what multiplies, without a factor 1/2"),
      {"squared", x + " multiplied in twice", "multiply by " + x + " once", [](double b) { return b * b; },
       [](double b) { return 2 * b; }},
      {"complement", "1 - " + x + " for " + x, "take " + x + " itself", [](double b) { return 1 - b; }, constant(-1)},
      {"exp", "exp(" + x + ") for " + x, "the input is no logarithm", [](double b) { return std::exp(b); },
       [](double b) { return std::exp(b); }},
      times(-1, "negative", "the sign of " + x + " reversed", "check the sign of the term with " + x),
  };
}

std::vector<Change> probe_changes(const std::string& x, double scale) {
  return {times(0, "zero", x + " ignored", "add the term with " + x),
          times(-1, "negative", "the sign of " + x + " reversed", "check the sign of the term with " + x),
          times(scale, "scaled", x + " multiplied by the scale of the scores", "take it as it is")};
}

bool weighs(Domain domain) {
  return domain == Domain::write_strength || domain == Domain::gain || domain == Domain::gradient_weight ||
         domain == Domain::decay_fraction || domain == Domain::ridge;
}

void add_gates(List& list, const Scene& scene) {
  std::vector<std::string> decays;
  for (const std::string& name : scene.inputs()) {
    const Domain domain = scene.described(name)->field.domain;
    if (domain == Domain::log_decay) decays.push_back(name);
    for (const Change& change : domain == Domain::log_decay ? decay_changes(name)
                                : weighs(domain)            ? weight_changes(name)
                                : domain == Domain::probe   ? probe_changes(name, scene.scale())
                                                            : std::vector<Change>{})
      add_elementwise(list, name, change);
  }
  if (decays.size() < 2) return;
  list.push_back({"all decays log2", "all log decays taken as log2 (decays are 2^g, not e^g)",
                  "multiply them by log2 e before exp2, or call exp",
                  [decays](const Scene& s) { return answer_of_multiplied(s, decays, std::numbers::ln2); }});
}

/// One number for all: of the first token, or of the first channel.
void add_firsts(List& list, const Scene& scene) {
  for (const std::string& name : scene.inputs()) {
    const Domain domain = scene.described(name)->field.domain;
    const Grid grid = grid_in(scene, name, *scene.input(name));
    if (!grid.by_token || (domain != Domain::log_decay && !weighs(domain))) continue;
    for (const bool channel : {false, true}) {
      if ((channel ? grid.cols : grid.rows) < 2) continue;
      const std::string of = channel ? "of the first channel" : "of the first token";
      add_form(list, name,
               {of, of + (channel ? " for all channels" : " for all tokens"),
                channel ? "read it for every channel" : "read it at t",
                [channel](const Moved& m) {
                  each_row(m.grid, m.values, [&](std::size_t h, std::size_t, std::span<double> row) {
                    for (std::size_t c = 0; c < row.size(); ++c)
                      row[c] = channel ? row[0] : m.values[m.grid.at(h, 0, c)];
                  });
                },
                Gradient::unknown});
    }
  }
}

/// Prefix sums in place of what is summed.
void add_sums(List& list, const Scene& scene) {
  const Move cumulated = [](const Moved& m) {
    each_row(m.grid, m.values, [&](std::size_t h, std::size_t t, std::span<double> row) {
      for (std::size_t c = 0; t > 0 && c < row.size(); ++c) row[c] += m.values[m.grid.at(h, t - 1, c)];
    });
  };
  for (const std::string& name : scene.inputs())
    if (scene.described(name)->field.domain == Domain::log_decay && grid_in(scene, name, *scene.input(name)).by_token)
      list.push_back(
          {name + " cumulated", "prefix sums of " + name + " taken for " + name, "pass " + name + " itself",
           [name, cumulated](const Scene& s) { return answer_moved(s, {name}, Gradient::unknown, cumulated); }});
}

// ---- states that are carried in ----

void add_states(List& list, const Scene& scene) {
  std::vector<std::string> states;
  const auto ignore = [&](const std::vector<std::string>& names, const std::string& key, const std::string& what,
                          const std::string& mend) {
    list.push_back({key, what, mend, [names](const Scene& s) {
                      return answer_moved(s, names, Gradient::unknown,
                                          [](const Moved& m) { std::fill(m.values.begin(), m.values.end(), 0.0); });
                    }});
  };
  for (const std::string& name : scene.inputs()) {
    const Field& field = scene.described(name)->field;
    const Values& data = scene.input(name)->data;
    const bool moves = std::any_of(data.begin(), data.end(), [](double x) { return x != 0; });
    if (name.starts_with("initial_") && moves) states.push_back(name);
    if (!name.starts_with("initial_") || !moves) continue;
    ignore({name}, name + " ignored", name + " ignored (the sequence starts from zero)", "start from " + name);
    if (field.domain != Domain::state) continue;
    for (const bool both : {false, true})
      list.push_back(
          {name + (both ? " and its successor transposed" : " transposed"),
           both ? "states stored transposed ([V][K] for [K][V])" : name + " read transposed ([V][K] for [K][V])",
           "states lie as [K][V]", [name, both](const Scene& s) {
             Arrays answer = answer_moved(s, {name}, Gradient::moved,
                                          [](const Moved& m) { read_transposed(m.grid, m.values, m.back); });
             const auto last = answer.find("final_" + name.substr(8));
             if (both && last != answer.end())
               read_transposed(grid_in(s, last->first, last->second), last->second.data, true);
             return answer;
           }});
  }
  if (states.size() > 1)
    ignore(states, "states ignored", "what is carried in ignored (the sequence starts from zero)",
           "start from the initial states");
}

// ---- queries and keys ----

/// Rows divided by their norms, and the gradient taken back through that.
void normalize(const Grid& grid, Values& x) {
  each_row(grid, x, [](std::size_t, std::size_t, std::span<double> row) {
    double squares = 0;
    for (const double v : row) squares += v * v;
    if (squares > 0)
      for (double& v : row) v /= std::sqrt(squares);
  });
}
void pull_back_norm(const Grid& grid, Values given, Values& d) {
  each_row(grid, given, [&](std::size_t h, std::size_t r, std::span<double> row) {
    double squares = 0, along = 0;
    const std::size_t at = grid.at(h, r, 0);
    for (std::size_t i = 0; i < row.size(); ++i) squares += row[i] * row[i], along += row[i] * d[at + i];
    if (!(squares > 0)) return;
    for (std::size_t i = 0; i < row.size(); ++i)
      d[at + i] = (d[at + i] - along / squares * row[i]) / std::sqrt(squares);
  });
}

/// Whether every row has norm 1, as far as bf16 shows.
bool has_unit_rows(const Scene& scene, const std::string& name) {
  const Array& array = *scene.input(name);
  Values data = array.data;
  bool unit = true;
  each_row(grid_in(scene, name, array), data, [&](std::size_t, std::size_t, std::span<double> row) {
    double squares = 0;
    for (const double v : row) squares += v * v;
    unit = unit && (squares == 0 || std::abs(squares - 1) < 1e-6);
  });
  return unit;
}

void add_norms(List& list, const Scene& scene) {
  std::vector<std::string> all;
  for (const std::string name : {"q", "k"})
    if (scene.input(name) != nullptr && !has_unit_rows(scene, name)) all.push_back(name);
  const auto add = [&](const std::vector<std::string>& names, const std::string& who) {
    list.push_back({who + " normalised", who + " normalised to length 1 inside the kernel",
                    "leave " + who + " as given", [names](const Scene& s) {
                      return answer_moved(s, names, Gradient::moved, [](const Moved& m) {
                        if (m.back)
                          pull_back_norm(m.grid, m.scene.problem.inputs.at(m.name).data, m.values);
                        else
                          normalize(m.grid, m.values);
                      });
                    }});
  };
  for (const std::string& name : all) add({name}, name);
  if (all.size() == 2) add(all, "q and k");
}

/// Two inputs of one shape, one in the place of the other.
void add_exchanges(List& list, const Scene& scene) {
  const std::vector<std::string> names = scene.inputs();
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = i + 1; j < names.size(); ++j) {
      const std::string &a = names[i], &b = names[j];
      const Array &x = *scene.input(a), &y = *scene.input(b);
      const RoomFacts::Ranked &rx = *scene.described(a), &ry = *scene.described(b);
      if (x.shape != y.shape || x.data == y.data || rx.field.heads != ry.field.heads) continue;
      if (grid_of(rx, x.shape).by_token != grid_of(ry, y.shape).by_token) continue;
      list.push_back({a + " and " + b + " exchanged", a + " and " + b + " exchanged",
                      "check the order of the arguments", [a, b](const Scene& s) {
                        Problem p = s.problem;
                        std::swap(p.inputs.at(a), p.inputs.at(b));
                        Arrays answer = answer_of(s, p);
                        if (answer.contains("d_" + a) && answer.contains("d_" + b)) {
                          answer["d_" + a + ", raw"] = answer["d_" + a], answer["d_" + b + ", raw"] = answer["d_" + b];
                          std::swap(answer["d_" + a], answer["d_" + b]);
                        }
                        return answer;
                      }});
    }
}

/// One input read in the place of another of its shape.
void add_substitutes(List& list, const Scene& scene) {
  const std::vector<std::string> names = scene.inputs();
  for (const std::string& of : names)
    for (const std::string& by : names) {
      const Array &x = *scene.input(of), &y = *scene.input(by);
      const RoomFacts::Ranked &rx = *scene.described(of), &ry = *scene.described(by);
      if (of == by || x.shape != y.shape || x.data == y.data || rx.field.heads != ry.field.heads) continue;
      if (rx.field.axes != ry.field.axes) continue;
      list.push_back({by + " for " + of, by + " read in the place of " + of, "read " + of, [of, by](const Scene& s) {
                        Problem p = s.problem;
                        p.inputs.at(of) = p.inputs.at(by);
                        Arrays answer = answer_of(s, p);
                        forget(answer, "d_" + of), forget(answer, "d_" + by);
                        return answer;
                      }});
    }
}

/// Channels in pairs (2i, 2i + 1) where pairs are (i, i + d / 2), or the other way round.
void pair_otherwise(const Grid& grid, Values& values, bool interleave) {
  const std::size_t half = grid.cols / 2;
  each_row(grid, values, [&](std::size_t, std::size_t, std::span<double> row) {
    const Values from(row.begin(), row.end());
    for (std::size_t i = 0; i < half; ++i)
      for (const std::size_t second : {0, 1})
        row[interleave ? 2 * i + second : i + second * half] = from[interleave ? i + second * half : 2 * i + second];
  });
}

void add_channel_orders(List& list, const Scene& scene) {
  for (const std::string name : {"q", "k"}) {
    if (scene.input(name) == nullptr) continue;
    const std::size_t channels = grid_in(scene, name, *scene.input(name)).cols;
    if (channels < 4 || channels % 2 != 0) continue;
    for (const bool interleave : {false, true})
      list.push_back({name + (interleave ? " interleaved channels" : " halved channels"),
                      "channels of " + name + " in another order: " +
                          (interleave ? "halves (i, i + d/2) interleaved" : "pairs (2i, 2i + 1) in halves"),
                      "rotate and store the channels of q and k in one order", [name, interleave](const Scene& s) {
                        return answer_moved(s, {name}, Gradient::moved, [&](const Moved& m) {
                          pair_otherwise(m.grid, m.values, interleave != m.back);
                        });
                      }});
  }
}

// ---- tokens ----

/// The content of rows that no other row moves to.
enum class Edge { outside, own };

/// Row t has what row t - by had; rows without a source are `outside`, or keep their own.
void shift(const Grid& grid, Values& values, int by, Edge edge, double outside) {
  const Values from = values;
  const auto n = static_cast<std::ptrdiff_t>(grid.rows);
  for (std::size_t h = 0; h < grid.heads; ++h)
    for (std::ptrdiff_t t = 0; t < n; ++t)
      for (std::size_t c = 0; c < grid.cols; ++c) {
        const std::ptrdiff_t source = t - by;
        double& to = values[grid.at(h, static_cast<std::size_t>(t), c)];
        if (source >= 0 && source < n)
          to = from[grid.at(h, static_cast<std::size_t>(source), c)];
        else if (edge == Edge::outside)
          to = outside;
      }
}

void shift_if_there(const Scene& scene, Arrays& arrays, const std::string& name, int by, double outside,
                    Edge edge = Edge::outside) {
  const auto found = arrays.find(name);
  if (found != arrays.end()) shift(grid_in(scene, name, found->second), found->second.data, by, edge, outside);
}

void add_shifts(List& list, const Scene& scene) {
  for (const Edge edge : {Edge::outside, Edge::own})
    for (const std::string& name : scene.inputs()) {
      const Grid grid = grid_in(scene, name, *scene.input(name));
      if (!grid.by_token || grid.rows < 3) continue;
      for (const int by : {1, -1})
        list.push_back({name + (by > 0 ? " late" : " early") + (edge == Edge::own ? ", end kept" : ""),
                        name + (by > 0 ? " a token late (token t takes that of t - 1)"
                                       : " a token early (token t takes that of t + 1)"),
                        "read " + name + " at t",
                        [name, by, edge](const Scene& s) {
                          Problem p = s.problem;
                          shift_if_there(s, p.inputs, name, by, 0, edge);
                          Arrays answer = answer_of(s, p);
                          // The gradient of the first given one, or the last, is of two tokens, or of none.
                          shift_if_there(s, answer, "d_" + name, -by, unknown);
                          if (const auto d = answer.find("d_" + name); edge == Edge::own && d != answer.end())
                            each_row(grid_in(s, name, d->second), d->second.data,
                                     [&](std::size_t, std::size_t t, std::span<double> row) {
                                       if (t == (by > 0 ? 0 : grid_in(s, name, d->second).rows - 1))
                                         std::fill(row.begin(), row.end(), unknown);
                                     });
                          return answer;
                        },
                        by < 0, false});
    }
}

/// Inputs that only the row of a query reads.
std::vector<std::string> read_by_queries(const Scene& scene) {
  std::vector<std::string> names;
  for (const std::string& name : scene.inputs()) {
    const RoomFacts::Ranked& ranked = *scene.described(name);
    const Grid grid = grid_of(ranked, scene.input(name)->shape);
    const Domain domain = ranked.field.domain;
    if (grid.by_token &&
        (domain == Domain::query || domain == Domain::probe || ranked.field.axes[0] == Axis::query_len))
      names.push_back(name);
  }
  return names;
}

/// Row t reads what row t - 1 (or t + 1) should: its queries go there, and what is answered comes back.
void add_reads(List& list, const Scene& scene) {
  const std::vector<std::string> queries = read_by_queries(scene);
  if (queries.empty() || !scene.aligned() || scene.tokens() < 3 || !scene.is_causal()) return;
  const bool masks = scene.described("o") != nullptr && scene.described("o")->field.axes[0] == Axis::query_len;
  for (const int by : {-1, 1})
    list.push_back({by < 0 ? "reads before" : "reads after",
                    masks ? (by < 0 ? "the mask one key short (a query does not see its own key)"
                                    : "the mask one key long (a query sees the next key)")
                          : (by < 0 ? "o read before the token's own write" : "o read after the next token's write"),
                    masks ? "query t sees keys 0..t" : "read after writing token t",
                    [queries, by](const Scene& s) {
                      Problem p = s.problem;
                      for (const std::string& name : queries) shift_if_there(s, p.inputs, name, by, 0);
                      for (auto& [name, cotangent] : p.cotangents) shift_if_there(s, p.cotangents, name, by, 0);
                      Arrays answer = answer_of(s, p);
                      for (const std::string& name : queries) shift_if_there(s, answer, "d_" + name, -by, unknown);
                      shift_if_there(s, answer, "o", -by, unknown);
                      return answer;
                    },
                    by > 0, false});
}

/// How many tokens behind the last whole tile there are, for the usual tiles; and one.
std::set<std::size_t> usual_ends(const Scene& scene) {
  std::set<std::size_t> ends = {1};
  for (const std::size_t tile : {16, 32, 64, 128})
    if (tile < scene.tokens() && scene.tokens() % tile != 0) ends.insert(scene.tokens() % tile);
  return ends;
}

/// Adds final states after fewer tokens.
void add_early_ends(List& list, const Scene& scene, const std::set<std::size_t>& ends) {
  if (!scene.aligned() || scene.tokens() < 3) return;
  for (const std::size_t missing : ends)
    list.push_back({fmt::format("{} tokens missing", missing),
                    missing == 1 ? "what is carried out before the last token's write"
                                 : fmt::format("what is carried out before the last {} tokens", missing),
                    "store it after the last token", [missing](const Scene& s) {
                      Arrays answer = answer_of(s, tokens_of(s, 0, s.tokens() - missing));
                      std::erase_if(answer, [](const auto& tensor) { return !tensor.first.starts_with("final_"); });
                      return answer;
                    }});
}

/// o without the token's own write, and with its decay: a mask of j < i.
void add_own_write(List& list, const Scene& scene) {
  if (scene.input("q") == nullptr || scene.input("log_decay") == nullptr || !scene.aligned() || scene.tokens() < 3)
    return;
  const auto decayed = [](const Scene& s, Arrays& arrays, const std::string& name) {
    Array& x = arrays.at(name);
    const Array& g = *s.input("log_decay");
    const Grid to = grid_in(s, name, x), from = grid_in(s, "log_decay", g);
    const bool has_rows = !from.by_token || from.rows == to.rows;
    require(to.heads == from.heads && has_rows && (from.cols == 1 || from.cols == to.cols),
            "log_decay: other heads than the queries");
    each_row(to, x.data, [&](std::size_t h, std::size_t t, std::span<double> row) {
      for (std::size_t c = 0; c < row.size(); ++c)
        row[c] *= std::exp(g.data[from.at_token(h, t, from.cols == 1 ? 0 : c)]);
    });
  };
  list.push_back({"own write missing", "the token's own write missing from o (a mask of j < i)",
                  "a token reads its own write, j <= i", [decayed](const Scene& s) {
                    Problem p = tokens_of(s, 0, s.tokens());
                    const Scene apart(*s.room, with_heads_apart(s, p), s.batch);
                    p = apart.problem;
                    decayed(apart, p.inputs, "q");
                    shift_if_there(apart, p.inputs, "q", -1, 0);
                    Arrays answer = answer_of(apart, p);
                    shift_if_there(s, answer, "o", 1, unknown);
                    std::erase_if(answer, [](const auto& tensor) { return tensor.first.starts_with("d_"); });
                    return answer;
                  }});
}

/// Masks of fewer queries than keys, which end where the keys do.
void add_decode_masks(List& list, const Scene& scene) {
  const std::vector<std::string> queries = read_by_queries(scene);
  if (queries.empty() || scene.aligned() || !scene.is_causal()) return;
  const RoomFacts::Ranked& q = *scene.described(queries.front());
  if (q.field.axes[0] != Axis::query_len) return;
  std::vector<std::string> keys;
  for (const std::string& name : scene.inputs())
    if (scene.described(name)->field.axes[0] == Axis::seq_len && grid_in(scene, name, *scene.input(name)).by_token)
      keys.push_back(name);
  const std::size_t n = grid_of(q, scene.input(queries.front())->shape).rows, T = scene.tokens();
  if (n >= T) return;
  const auto add = [&](std::size_t left, const std::string& what) {
    list.push_back({what, what, "query i of n sees keys 0..T - n + i",
                    [keys, left](const Scene& s) { return answer_of(s, tokens_of(s, 0, left, keys)); }});
  };
  if (T > n + 1) add(T - 1, "the mask one key short (a query does not see its own key)");
  if (T > n + 1) add(n, "the mask aligned with the first key, not with the last (query i sees keys 0..i)");
}

/// f(grid, numbers) of every tensor that has tokens.
void each_with_tokens(const Scene& scene, Arrays& arrays, const std::function<void(const Grid&, Values&)>& f) {
  for (auto& [name, array] : arrays)
    if (const Grid grid = grid_in(scene, name, array); grid.by_token) f(grid, array.data);
}

void add_direction(List& list, const Scene& scene) {
  if (scene.tokens() < 2 || !scene.aligned()) return;
  list.push_back({"backwards", "the sequence walked from the last token to the first", "walk it from token 0",
                  [](const Scene& s) {
                    return answer_rearranged(s,
                                             [&](Arrays& arrays, bool) { each_with_tokens(s, arrays, reverse_rows); });
                  },
                  true, false});
}

// ---- writes ----

/// Rows of `x` times the numbers that `by` has for them, one or as many as they are long; false if they do not fit.
bool multiply_rows(const Scene& scene, Arrays& arrays, const std::string& x, const std::string& by,
                   const std::function<double(double)>& f) {
  const auto found = arrays.find(x);
  const Array* factors = scene.input(by);
  if (found == arrays.end() || factors == nullptr) return false;
  const Grid to = grid_in(scene, x, found->second), from = grid_in(scene, by, *factors);
  if (from.rows != to.rows || (from.cols != 1 && from.cols != to.cols)) return false;
  if (to.heads != from.heads) return false;
  for (std::size_t h = 0; h < to.heads; ++h)
    for (std::size_t r = 0; r < to.rows; ++r)
      for (std::size_t c = 0; c < to.cols; ++c)
        found->second.data[to.at(h, r, c)] *= f(factors->data[from.at(h, r, from.cols == 1 ? 0 : c)]);
  return true;
}

/// The gradient of x f(by) for `x` and for `by`, whose own part is the sum over a row of d_x times `factor`.
void pull_back_rows(const Scene& scene, Arrays& answer, const std::string& x, const Array& factor,
                    const std::string& by, const std::function<double(double)>& f) {
  const auto d = answer.find("d_" + x), d_by = answer.find("d_" + by);
  if (d == answer.end() || d_by == answer.end()) return;
  const Grid grid = grid_in(scene, x, factor), to = grid_in(scene, by, d_by->second);
  each_row(grid, d->second.data, [&](std::size_t h, std::size_t r, std::span<double> row) {
    for (std::size_t c = 0; c < row.size(); ++c)
      d_by->second.data[to.at(h, r, to.cols == 1 ? 0 : c)] += row[c] * factor.data[grid.at(h, r, c)];
  });
  multiply_rows(scene, answer, "d_" + x, by, f);
}

void add_writes(List& list, const Scene& scene) {
  const Array *beta = scene.input("beta"), *decay = scene.input("log_decay");
  const Array *k = scene.input("k"), *v = scene.input("v");
  if (k == nullptr || v == nullptr) return;
  const bool weighted = beta != nullptr && scene.described("beta")->field.domain == Domain::write_strength;
  // S = a (S + k v^T): the write decays like the rest.
  if (decay != nullptr && !weighted) {
    const std::string target = decay->shape.size() == k->shape.size() ? "k" : "v";
    Arrays fits = scene.problem.inputs;
    if (multiply_rows(scene, fits, target, "log_decay", [](double) { return 1.0; }))
      list.push_back({"write decayed", "the write decayed by its own token's gate (S = a (S + k v^T))",
                      "decay the old state, then add k v^T", [target](const Scene& s) {
                        Problem p = s.problem;
                        const auto exp = [](double g) { return std::exp(g); };
                        multiply_rows(s, p.inputs, target, "log_decay", exp);
                        Arrays answer = answer_of(s, p);
                        pull_back_rows(s, answer, target, p.inputs.at(target), "log_decay", exp);
                        return answer;
                      }});
  }
  if (!weighted) return;
  list.push_back({"v by beta", "beta multiplied into v as well as into the write",
                  "multiply the error v - S^T k by beta, once", [](const Scene& s) {
                    Problem p = s.problem;
                    const auto same = [](double b) { return b; };
                    require(multiply_rows(s, p.inputs, "v", "beta", same), "beta: no factor of v");
                    Arrays answer = answer_of(s, p);
                    pull_back_rows(s, answer, "v", s.problem.inputs.at("v"), "beta", same);
                    return answer;
                  }});
  // beta (v + S^T k) = -beta (-v - S^T k)
  list.push_back({"error added", "the prediction added, not subtracted (v + S^T k for v - S^T k)",
                  "write beta k (v - S^T k)^T", [](const Scene& s) {
                    return answer_of_multiplied(s, {"beta", "v"}, -1);
                  }});
}

/// Rows of one input times what another says of their token: a gate in a term that it does not belong to.
void add_gated_rows(List& list, const Scene& scene) {
  struct Factor {
    std::string name;
    std::function<double(double)> f;
  };
  for (const std::string& gate : scene.inputs()) {
    const Domain domain = scene.described(gate)->field.domain;
    std::vector<Factor> factors;
    if (domain == Domain::log_decay)
      factors = {{"exp(" + gate + ")", [](double g) { return std::exp(g); }},
                 {"exp(-" + gate + ")", [](double g) { return std::exp(-g); }},
                 {"1 - exp(" + gate + ")", [](double g) { return -std::expm1(g); }}};
    else if (weighs(domain))
      factors = {{gate, [](double b) { return b; }}};
    for (const std::string& name : scene.inputs()) {
      const Grid grid = grid_in(scene, name, *scene.input(name));
      if (name == gate || !grid.by_token || scene.described(name)->field.domain == Domain::log_decay) continue;
      for (const Factor& factor : factors) {
        list.push_back({name + " times " + factor.name, name + " multiplied by " + factor.name,
                        "take " + name + " as it is", [name, gate, f = factor.f](const Scene& s) {
                          const Scene apart(*s.room, with_heads_apart(s, s.problem), s.batch);
                          Problem p = apart.problem;
                          require(multiply_rows(apart, p.inputs, name, gate, f), name, ": no rows for ", gate);
                          p.cotangents.clear();
                          return answer_of(apart, p);
                        }});
        list.back().effort = scene.problem.cotangents.empty() ? 1 : 0.25;
      }
    }
  }
}

/// The room that writes beta k v^T without the error correction, or "".
std::string plain_room(std::string_view room) {
  constexpr std::pair<std::string_view, std::string_view> rooms[] = {
      {"deltanet", "linear_attention"}, {"gated_deltanet", "mamba2"}, {"kda", "gla"}};
  for (const auto& [corrected, plain] : rooms)
    if (room == corrected || room == text(corrected, arguments::room_suffix))
      return text(plain, room.substr(corrected.size()));
  return "";
}

void add_plain_write(List& list, const Scene& scene) {
  if (plain_room(scene.room->name).empty() || scene.input("beta") == nullptr) return;
  for (const auto& [name, value] : scene.problem.params)  // others beside the scale have no meaning there
    if (name != "scale" && !scene.room->name.ends_with(arguments::room_suffix)) return;
  list.push_back({"no error", "the error correction missing (beta v written, not beta (v - S^T k))",
                  "subtract what the state predicts for k", [](const Scene& s) {
                    Problem p = s.problem;
                    const auto same = [](double b) { return b; };
                    require(multiply_rows(s, p.inputs, "v", "beta", same), "beta: no factor of v");
                    p.inputs.erase("beta");
                    p.mechanism = plain_room(s.room->name);
                    // With arguments, its own room answers whatever the case names.
                    const bool own = p.mechanism.ends_with(arguments::room_suffix);
                    Arrays answer = hypotheses::answer_of(own ? *s.room : listed_room(p.mechanism), p);
                    if (!answer.contains("d_v")) return answer;
                    answer["d_beta"] = Array(s.problem.inputs.at("beta").shape);
                    pull_back_rows(s, answer, "v", s.problem.inputs.at("v"), "beta", same);
                    return answer;
                  }});
}

// ---- options, heads, axes, cotangents ----

void add_option(List& list, const std::string& name, const std::optional<Param>& value, const std::string& what,
                const std::string& mend, bool ahead = false) {
  list.push_back({"option " + what, what, mend,
                  [name, value](const Scene& s) {
                    Problem p = s.problem;
                    if (value)
                      p.params[name] = *value;
                    else
                      p.params.erase(name);
                    return answer_of(s, p);
                  },
                  ahead, false});
}

void add_options(List& list, const Scene& scene) {
  const Params& given = scene.problem.params;
  std::set<std::string> told;
  for (const std::string_view option : scene.room->options) {
    const std::string name(option);
    const auto now = given.find(name);
    const std::string mine = now == given.end() ? "" : word_of(now->second);
    if (name == "window") {
      if (now == given.end()) continue;
      const long w = std::get<long>(now->second);
      add_option(list, name, Param(w + 1), "the window one key long", "a query sees the newest " + mine + " keys");
      if (w > 1)
        add_option(list, name, Param(w - 1), "the window one key short", "a query sees the newest " + mine + " keys");
      add_option(list, name, std::nullopt, "the window ignored", "a query sees the newest " + mine + " keys");
      continue;
    }
    if (name == "causal") {
      const bool causal = mine != "false";
      add_option(list, name, Param(!causal), causal ? "the causal mask missing" : "a causal mask that nobody asked for",
                 causal ? "query t sees keys 0..t" : "every query sees all keys", true);
      continue;
    }
    for (const Params& variant : scene.room->variants()) {
      const auto other = variant.find(name);
      const std::string theirs = other == variant.end() ? "" : word_of(other->second);
      const std::string what =
          name + (theirs.empty() ? " left out" : " = " + theirs) + (mine.empty() ? "" : ", not " + mine);
      if (theirs == mine || !told.insert(what).second) continue;
      add_option(list, name, other == variant.end() ? std::nullopt : std::optional(other->second), what,
                 "read params." + name);
    }
  }
}

/// Every output head's tensors where another one's were; `of` says whose.
void permute_heads(const Scene& scene, Arrays& arrays, const std::vector<std::size_t>& of, bool back) {
  for (auto& [name, array] : arrays) {
    const RoomFacts::Ranked* ranked = scene.described(name);
    if (ranked == nullptr || ranked->field.heads != Field::Heads::own) continue;
    const Grid grid = grid_of(*ranked, array.shape);
    if (!grid.by_head || grid.heads % of.size() != 0) continue;
    const Values from = array.data;
    const std::size_t n = grid.rows * grid.cols;
    for (std::size_t h = 0; h < grid.heads; ++h) {  // of the states of several sequences, all
      const std::size_t moved = h - h % of.size() + of[h % of.size()];
      const std::size_t source = back ? h : moved, to = back ? moved : h;
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source * n), n,
                  array.data.begin() + static_cast<std::ptrdiff_t>(to * n));
    }
  }
}

void add_heads(List& list, const Scene& scene) {
  const std::size_t own = scene.own_heads(), shared = scene.shared_heads(), group = scene.group();
  const auto sequences = static_cast<std::size_t>(scene.batch);
  if (group < 2) return;
  if (shared / sequences > 1)
    list.push_back({"heads interleaved", "head h reading key/value head h mod H_kv, not h / group",
                    "heads of a group lie side by side",
                    [own, sequences](const Scene& s) {
                      const std::size_t H = own / sequences, Hs = s.shared_heads() / sequences, G = H / Hs;
                      std::vector<std::size_t> of(own);
                      // Place (g, j) of group g has the head g + j Hs, which reads g.
                      for (std::size_t b = 0; b < sequences; ++b)
                        for (std::size_t i = 0; i < H; ++i) of[b * H + i] = b * H + i / G + (i % G) * Hs;
                      return answer_rearranged(s,
                                               [&](Arrays& arrays, bool back) { permute_heads(s, arrays, of, back); });
                    },
                    false, true});
  for (const std::string& name : scene.inputs()) {
    const RoomFacts::Ranked& ranked = *scene.described(name);
    if (shared / sequences < 2 || ranked.field.heads == Field::Heads::own ||
        !grid_in(scene, name, *scene.input(name)).by_head)
      continue;
    list.push_back({name + " interleaved", "head h reading " + name + " of head h mod H_kv, not h / group",
                    "heads of a group lie side by side",
                    [name, own, sequences](const Scene& s) {
                      const std::size_t H = own / sequences, Hs = s.shared_heads() / sequences;
                      Arrays answer = answer_of(s, with_heads_apart(s, s.problem, {name}, [=](std::size_t h) {
                                                  return h / H * Hs + h % H % Hs;
                                                }));
                      // The gradients of tensors that heads share are in parts.
                      std::erase_if(answer, [&](const auto& tensor) {
                        const RoomFacts::Ranked* of = s.described(tensor.first);
                        return of != nullptr && of->field.heads == Field::Heads::shared;
                      });
                      return answer;
                    },
                    false, true});
  }
}

/// Gradients of what heads share, of wrong heads.
void add_group_gradients(List& list, const Scene& scene) {
  if (scene.group() < 2 || scene.problem.cotangents.empty()) return;
  if (scene.shared_heads() > static_cast<std::size_t>(scene.batch))
    list.push_back({"gradients interleaved",
                    "gradients of what heads share summed over heads h mod H_kv, not over those of h / group",
                    "heads of a group lie side by side",
                    [](const Scene& s) {
                      const std::size_t sequences = static_cast<std::size_t>(s.batch), own = s.own_heads(),
                                        H = own / sequences, Hs = s.shared_heads() / sequences;
                      Arrays sums;
                      for (const auto& [name, parts] : answer_of(s, with_heads_apart(s, s.problem))) {
                        const RoomFacts::Ranked* ranked = s.described(name);
                        if (!name.starts_with("d_") || ranked == nullptr || ranked->field.heads == Field::Heads::own ||
                            parts.shape.empty() || static_cast<std::size_t>(parts.shape[0]) != own)
                          continue;
                        Array sum = parts;
                        const std::size_t n = parts.data.size() / own;
                        sum.shape[0] = static_cast<int>(Hs * sequences), sum.data.assign(Hs * sequences * n, 0.0);
                        for (std::size_t h = 0; h < own; ++h)
                          for (std::size_t i = 0; i < n; ++i)
                            sum.data[(h / H * Hs + h % H % Hs) * n + i] += parts.data[h * n + i];
                        sums[name] = std::move(sum);
                      }
                      return sums;
                    },
                    false, true});
  for (const bool last : {false, true})
    list.push_back({last ? "last head's gradient" : "first head's gradient",
                    std::string("gradients of what heads share taken of the ") + (last ? "last" : "first") +
                        " head of each group, not summed over it",
                    "sum them over the heads of the group", [last](const Scene& s) {
                      const std::size_t G = s.group();
                      Problem p = s.problem;
                      for (auto& [name, array] : p.cotangents) {
                        const Grid grid = grid_in(s, name, array);
                        each_row(grid, array.data, [&](std::size_t h, std::size_t, std::span<double> row) {
                          if (h % G != (last ? G - 1 : 0)) std::fill(row.begin(), row.end(), 0.0);
                        });
                      }
                      Arrays answer = answer_of(s, p);
                      for (auto& [name, array] : answer) {
                        const RoomFacts::Ranked* ranked = s.described(name);
                        if (!name.starts_with("d_") || ranked == nullptr || ranked->field.heads == Field::Heads::own)
                          std::fill(array.data.begin(), array.data.end(), unknown);
                      }
                      return answer;
                    }});
}

void add_axes(List& list, const Scene& scene) {
  if (scene.own_heads() / static_cast<std::size_t>(scene.batch) < 2 || !scene.aligned()) return;
  for (const bool other : {false, true})
    list.push_back({other ? "[B, T, H, d]" : "[B, H, T, d]",
                    other ? "tensors read by head and written by token ([B, T, H, d] for [B, H, T, d])"
                          : "tensors taken for [B, H, T, d], which are [B, T, H, d]",
                    "tokens come before heads",
                    [other](const Scene& s) {
                      return answer_rearranged(s, [&](Arrays& arrays, bool back) {
                        each_with_tokens(
                            s, arrays, [&](const Grid& n, Values& x) { exchange_axes(n, s.batch, x, back != other); });
                      });
                    },
                    true, true});
}

/// Heads for tokens, and tokens for heads: what lies at axes 1 and 2 of [B, T, H, d] changes places.
void exchange_heads_and_tokens(const Scene& scene, Arrays& arrays) {
  const auto sequences = static_cast<std::size_t>(scene.batch);
  for (auto& [name, array] : arrays) {
    const Grid grid = grid_in(scene, name, array);
    if (!grid.by_token) continue;
    const Values from = array.data;
    const std::size_t H = grid.heads / sequences, T = grid.rows;
    for (std::size_t h = 0; h < grid.heads; ++h)
      for (std::size_t t = 0; t < T; ++t) {
        const std::size_t source = grid.at(h, t, 0), to = ((h / H * T + t) * H + h % H) * grid.cols;
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source), grid.cols,
                    array.data.begin() + static_cast<std::ptrdiff_t>(to));
      }
    array.shape[0] = static_cast<int>(sequences * T), array.shape[1] = static_cast<int>(H);
  }
}

/// A kernel for [B, H, T, d] that is given [B, T, H, d]. With states, or heads that share others, shapes do not fit.
void add_untransposed(List& list, const Scene& scene) {
  const std::size_t heads = scene.own_heads();
  const auto fits = [&](const auto& one) {
    const Grid grid = grid_in(scene, one.first, one.second);
    return !grid.by_head || (grid.by_token && grid.heads == heads);
  };
  const Problem& problem = scene.problem;
  if (heads / static_cast<std::size_t>(scene.batch) < 2 || !scene.in_parts || !scene.aligned() ||
      !std::all_of(problem.inputs.begin(), problem.inputs.end(), fits) ||
      !std::all_of(problem.cotangents.begin(), problem.cotangents.end(), fits))
    return;
  list.push_back({"heads for tokens", "heads taken for tokens, and tokens for heads",
                  "transpose axes 1 and 2 of inputs and outputs",
                  [](const Scene& s) {
                    return answer_rearranged(s, [&](Arrays& arrays, bool) { exchange_heads_and_tokens(s, arrays); });
                  },
                  true, true});
}

/// One input of another head, or laid out in another way than it is.
void add_places(List& list, const Scene& scene) {
  for (const std::string& name : scene.inputs()) {
    const Grid grid = grid_in(scene, name, *scene.input(name));
    if (!grid.by_head || grid.heads / static_cast<std::size_t>(scene.batch) < 2) continue;
    const std::string own = "give each head its own " + name;
    const Move rotated = [](const Moved& m) {
      const auto n = static_cast<std::ptrdiff_t>(m.grid.rows * m.grid.cols);
      std::rotate(m.values.begin(), m.back ? m.values.end() - n : m.values.begin() + n, m.values.end());
    };
    add_form(list, name, {"of another head", "of the next head", own, rotated, Gradient::moved, false, true});
    const Move first = [](const Moved& m) {
      const std::size_t heads = m.grid.heads / static_cast<std::size_t>(m.scene.batch), n = m.grid.rows * m.grid.cols;
      for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] = m.values[i - i / n % heads * n];
    };
    add_form(list, name, {"of head 0", "of head 0 for all heads", own, first, Gradient::unknown, false, true});
    if (!grid.by_token || grid.rows < 2) continue;
    for (const bool other : {false, true})
      add_form(list, name,
               {other ? "as [B, T, H, d]" : "as [B, H, T, d]",
                other ? "read with the strides of tokens and heads exchanged"
                      : "taken for [B, H, T, d], which is [B, T, H, d]",
                "tokens come before heads",
                [other](const Moved& m) { exchange_axes(m.grid, m.scene.batch, m.values, other); }, Gradient::unknown,
                true, true});
  }
}

void add_cotangents(List& list, const Scene& scene) {
  if (scene.problem.cotangents.size() < 2) return;
  for (const auto& [name, array] : scene.problem.cotangents) {
    if (std::all_of(array.data.begin(), array.data.end(), [](double x) { return x == 0; })) continue;
    const std::string output = name;
    for (const bool ignored : {false, true})
      list.push_back({"d_" + output + (ignored ? " ignored" : " subtracted"),
                      "d_" + output + (ignored ? " ignored" : " with the wrong sign"),
                      "add what the gradients owe to d_" + output, [output, ignored](const Scene& s) {
                        Problem p = s.problem;
                        for (double& x : p.cotangents.at(output).data) x = ignored ? 0 : -x;
                        return answer_of(s, p);
                      }});
  }
}

// ---- what suites do not count

/// Changes of a ridge: systems without any may have no solution, and tend to one as it vanishes.
std::vector<Change> ridge_changes(const std::string& x) {
  constexpr double hardly = 1e-9;
  return {
      {"zero", x + " ignored (0 in its place)", "add " + x + " to the diagonal", [](double b) { return hardly * b; },
       [](double) { return hardly; }},
      {"inverse", "1 / " + x + " for " + x, "add " + x + " itself to the diagonal", [](double b) { return 1 / b; },
       [](double b) { return -1 / (b * b); }},
      {"root", "the root of " + x + " for " + x, "add " + x + " itself to the diagonal",
       [](double b) { return std::sqrt(b); }, [](double b) { return 0.5 / std::sqrt(b); }},
  };
}

void add_ridges_and_probes(List& list, const Scene& scene) {
  for (const std::string& name : scene.inputs()) {
    const Domain domain = scene.described(name)->field.domain;
    if (domain == Domain::ridge)
      for (const Change& change : ridge_changes(name)) add_elementwise(list, name, change);
    if (domain == Domain::probe)  // what is subtracted along it is linear in it
      for (const Change& change : weight_changes(name))
        if (change.key == "double" || change.key == "half") add_elementwise(list, name, change);
  }
}

/// Behind a tile of any other size.
void add_further_ends(List& list, const Scene& scene) {
  constexpr std::size_t largest_tile = 128;
  const std::set<std::size_t> usual = usual_ends(scene);
  std::set<std::size_t> ends;
  for (std::size_t missing = 2; missing < std::min(scene.tokens(), largest_tile); ++missing)
    if (!usual.contains(missing)) ends.insert(missing);
  const std::size_t known = list.size();
  add_early_ends(list, scene, ends);
  List early;
  add_early_ends(early, scene, usual);
  std::vector<std::string> states;
  for (const RoomFacts::Ranked& ranked : scene.room->outputs())
    if (ranked.field.name.starts_with("final_")) states.emplace_back(ranked.field.name);
  for (const std::string& state : states) {
    if (states.size() < 2) break;
    for (const Convention& end : early) {
      const std::string what = end.what + " (" + state + " alone)";
      list.push_back({what, what, end.mend, [state, answer = end.answer](const Scene& s) {
                        Arrays all = answer(s);
                        std::erase_if(all, [&](const auto& tensor) { return tensor.first != state; });
                        return all;
                      }});
    }
  }
  for (std::size_t i = known; i < list.size(); ++i) list[i].effort = scene.problem.cotangents.empty() ? 1 : 0.25;
}

/// Settings that are numbers of something: one more and one less.
void add_counts(List& list, const Scene& scene) {
  const bool carries_tails = std::ranges::any_of(
      scene.room->outputs(), [](const auto& r) { return r.rank > 0 && r.field.axes[0] == Axis::tail_len; });
  for (const auto& [name, value] : scene.problem.params) {
    const auto* count = std::get_if<long>(&value);
    if (count == nullptr) continue;
    for (const long other : {*count - 1, *count + 1}) {
      const std::string what = fmt::format("{} = {}, not {}", name, other, *count);
      if (name != "window")  // which is told of among the options
        add_option(list, name, Param(other), what, "read params." + name);
      else if (carries_tails && other > 0)  // whose cotangents are as long as the window that is given
        list.push_back({"outputs of " + what, what, "read params.window", [other](const Scene& s) {
                          Problem p = s.problem;
                          p.params["window"] = other, p.cotangents.clear();
                          return answer_of(s, p);
                        }});
    }
  }
}

/// A setting for all heads that is the number of one: each head takes that of its own number. None where the case says
/// the decay of each head.
void add_numbered_heads(List& list, const Scene& scene) {
  const auto& options = scene.room->options;
  const std::size_t own = scene.own_heads(), each = own / static_cast<std::size_t>(scene.batch), group = scene.group();
  const bool is_there = std::find(options.begin(), options.end(), "head") != options.end();
  if (!is_there || own < 2 || scene.input("log_decay") != nullptr) return;
  const auto add = [&](const std::string& whose, std::size_t modulo, std::size_t over) {
    const std::string what = "the decay of each " + whose + ", not of params.head";
    list.push_back({what, what, "take params.head for all heads", [=](const Scene& s) {
                      Arrays answer;
                      for (std::size_t h = 0; h < own; ++h) {
                        Problem p = s.problem;
                        p.params["head"] = std::lround(s.number("head", 0)) + static_cast<long>(h % modulo / over);
                        for (const auto& [name, array] : answer_of(s, p)) {
                          const RoomFacts::Ranked* ranked = s.described(name);
                          if (ranked == nullptr || ranked->field.heads != Field::Heads::own) continue;
                          const std::size_t n = array.data.size() / own;
                          Values& to = answer.try_emplace(name, array).first->second.data;
                          for (std::size_t i = h * n; i < (h + 1) * n; ++i) to[i] = array.data[i];
                        }
                      }
                      return answer;
                    }});
    list.back().whole_sequences = true, list.back().effort = static_cast<double>(own);
  };
  add("head's own number", each, 1);
  if (each < own) add("head's number among all sequences", own, 1);
  if (group > 1) add("key/value head's number", each, group);
}

}  // namespace

std::string digits(double x) { return fmt::format("{:.17g}", x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<Convention> conventions_of(const Scene& scene) {
  List list;
  add_scales(list, scene);
  add_bandwidths(list, scene);
  add_gates(list, scene);
  add_states(list, scene);
  add_cotangents(list, scene);
  add_norms(list, scene);
  add_reads(list, scene);
  add_own_write(list, scene);
  add_decode_masks(list, scene);
  add_early_ends(list, scene, usual_ends(scene));
  add_options(list, scene);
  add_heads(list, scene);
  add_group_gradients(list, scene);
  add_exchanges(list, scene);
  add_substitutes(list, scene);
  add_channel_orders(list, scene);
  add_shifts(list, scene);
  add_writes(list, scene);
  add_gated_rows(list, scene);
  add_plain_write(list, scene);
  add_sums(list, scene);
  add_firsts(list, scene);
  add_axes(list, scene);
  add_places(list, scene);
  add_direction(list, scene);
  add_tiles(list, scene);
  add_chunks(list, scene);
  return list;
}

std::vector<Convention> further_conventions_of(const Scene& scene) {
  List list;
  add_untransposed(list, scene);
  add_ridges_and_probes(list, scene);
  add_counts(list, scene);
  add_numbered_heads(list, scene);
  add_further_blocks(list, scene);
  add_input_forms(list, scene);
  add_further_ends(list, scene);
  return list;
}

}  // namespace assay::hypotheses
