#include "judge/hypotheses/input_forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

namespace assay::hypotheses {
namespace {

/// A change that a kernel makes to an input before it reads it, and to its gradient before it is the input's.
using Move = std::function<void(const Scene& scene, const Grid& grid, Values& values)>;

struct InputForm {
  std::string key, what, mend;
  Move there, back = {};  ///< without `back` the gradient is unknown, but for kernels that leave it as it is
  bool looks_ahead = false, whole_sequences = false;
};

void add_form(std::vector<Convention>& list, const std::string& name, const InputForm& form) {
  list.push_back({name + ' ' + form.key, name + ' ' + form.what, form.mend,
                  [name, there = form.there, back = form.back](const Scene& s) {
                    Problem p = s.problem;
                    Array& x = p.inputs.at(name);
                    const Grid grid = grid_of(*s.described(name), x.shape);
                    there(s, grid, x.data);
                    Arrays answer = hypotheses::answer_of(*s.room, p);
                    const auto d = answer.find("d_" + name);
                    if (d == answer.end()) return answer;
                    answer[d->first + ", raw"] = d->second;
                    if (back)
                      back(s, grid, d->second.data);
                    else
                      std::fill(d->second.data.begin(), d->second.data.end(), std::numeric_limits<double>::quiet_NaN());
                    return answer;
                  },
                  form.looks_ahead, form.whole_sequences});
}

Move by_number(const std::function<double(double)>& f) {
  return [f](const Scene&, const Grid&, Values& values) {
    std::transform(values.begin(), values.end(), values.begin(), f);
  };
}
Move by_row(const std::function<void(std::span<double>)>& f) {
  return [f](const Scene&, const Grid& grid, Values& values) {
    each_row(grid, values, [&](std::size_t, std::size_t, std::span<double> row) { f(row); });
  };
}
/// Head h has the rows of head `of`(h, the heads of its sequence).
Move by_head(const std::function<std::size_t(std::size_t, std::size_t)>& of) {
  return [of](const Scene& s, const Grid& grid, Values& values) {
    const Values from = values;
    const std::size_t heads = grid.heads / static_cast<std::size_t>(s.batch), n = grid.rows * grid.cols;
    for (std::size_t h = 0; h < grid.heads; ++h) {
      const std::size_t source = h - h % heads + of(h % heads, heads);
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source * n), n,
                  values.begin() + static_cast<std::ptrdiff_t>(h * n));
    }
  };
}

// ---- channels ----

void divide_by_root_mean_square(std::span<double> row) {
  double squares = 0;
  for (const double x : row) squares += x * x;
  const double by = std::sqrt(squares / static_cast<double>(row.size()));
  if (by > 0)
    for (double& x : row) x /= by;
}

void add_channels(std::vector<Convention>& list, const std::string& name, std::size_t channels) {
  const std::string all = "read all channels of " + name;
  for (const bool first : {true, false}) {
    const Move half = by_row([first](std::span<double> row) {
      const std::size_t middle = row.size() / 2;
      std::fill_n(row.begin() + static_cast<std::ptrdiff_t>(first ? 0 : middle), first ? middle : row.size() - middle,
                  0.0);
    });
    add_form(list, name,
             {first ? "without first half" : "without second half",
              first ? "without the first half of its channels" : "without the second half of its channels", all, half,
              half});
  }
  const auto turned = [](bool next) {
    return by_row(
        [next](std::span<double> row) { std::rotate(row.begin(), next ? row.begin() + 1 : row.end() - 1, row.end()); });
  };
  add_form(list, name, {"next channel", "of the next channel", all, turned(true), turned(false)});
  if (channels % 2 != 0) return;
  const Move exchanged = by_row([](std::span<double> row) {
    std::swap_ranges(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(row.size() / 2),
                     row.begin() + static_cast<std::ptrdiff_t>(row.size() / 2));
  });
  add_form(list, name, {"halves exchanged", "with the halves of its channels exchanged", all, exchanged, exchanged});
}

// ---- heads, sequences, tokens ----

void add_other_heads(std::vector<Convention>& list, const Scene& scene, const std::string& name, const Grid& grid) {
  const std::string own = "give each head its own " + name;
  const std::size_t heads = grid.heads / static_cast<std::size_t>(scene.batch), group = scene.group();
  const auto add = [&](const std::string& key, const std::string& what, const Move& there, const Move& back = {}) {
    add_form(list, name, {key, what, own, there, back, false, true});
  };
  if (heads > 2)
    add("of the head before", "of the head before", by_head([](auto h, auto n) { return (h + n - 1) % n; }),
        by_head([](auto h, auto n) { return (h + 1) % n; }));
  if (group > 1 && heads == scene.own_heads() / static_cast<std::size_t>(scene.batch)) {
    add("of head h / group", "of head h / group, as if heads of a group shared it",
        by_head([group](auto h, auto) { return h / group; }));
    add("of the group's first head", "of the first head of each group",
        by_head([group](auto h, auto) { return h - h % group; }));
    add("of head h mod group", "of head h mod group", by_head([group](auto h, auto) { return h % group; }));
  }
  if (scene.batch < 2 || grid.heads % static_cast<std::size_t>(scene.batch) != 0) return;
  add("of sequence 0", "of sequence 0 for all sequences", [](const Scene& s, const Grid& of, Values& values) {
    const std::size_t n = of.size() / static_cast<std::size_t>(s.batch);
    for (std::size_t i = n; i < values.size(); ++i) values[i] = values[i % n];
  });
  const auto turned = [](bool next) -> Move {
    return [next](const Scene& s, const Grid& of, Values& values) {
      const auto n = static_cast<std::ptrdiff_t>(of.size()) / s.batch;
      std::rotate(values.begin(), next ? values.begin() + n : values.end() - n, values.end());
    };
  };
  add("of the next sequence", "of the next sequence", turned(true), turned(false));
  if (scene.batch > 2) add("of the sequence before", "of the sequence before", turned(false), turned(true));
}

/// All that heads share, of a head beside the right one: of single heads, an index that is one off.
void add_shared_of_other_heads(std::vector<Convention>& list, const Scene& scene) {
  std::vector<std::string> names;
  for (const std::string& name : scene.inputs()) {
    const RoomFacts::Ranked& ranked = *scene.described(name);
    if (ranked.field.heads == Field::Heads::shared && grid_of(ranked, scene.input(name)->shape).by_head)
      names.push_back(name);
  }
  const std::size_t heads = scene.shared_heads() / static_cast<std::size_t>(scene.batch);
  if (names.size() < 2 || scene.group() < 2 || heads < 2) return;
  for (const std::size_t by : {std::size_t{1}, heads - 1}) {
    const Move turned = by_head([by](std::size_t h, std::size_t n) { return (h + by) % n; });
    const std::string what = by == 1 ? "the next key/value head" : "the key/value head before";
    list.push_back({"shared of " + what, "what heads share read of " + what, "head h reads head h / group",
                    [names, turned](const Scene& s) {
                      Problem p = s.problem;
                      p.cotangents.clear();  // gradients of what is shared are sums over other heads
                      for (const std::string& name : names) {
                        Array& x = p.inputs.at(name);
                        turned(s, grid_of(*s.described(name), x.shape), x.data);
                      }
                      return hypotheses::answer_of(*s.room, p);
                    },
                    false, true});
    if (heads == 2) break;
  }
}

void add_backwards(std::vector<Convention>& list, const std::string& name) {
  const Move reversed = [](const Scene&, const Grid& grid, Values& values) {
    const Values from = values;
    each_row(grid, values, [&](std::size_t h, std::size_t t, std::span<double> row) {
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(grid.at(h, grid.rows - 1 - t, 0)), row.size(),
                  row.begin());
    });
  };
  add_form(list, name,
           {"backwards", "read from the last token to the first", "read " + name + " at t", reversed, reversed, true});
}

// ---- numbers ----

/// Bounds that kernels put to log decays against overflow, which are round numbers, and to weights.
void add_bounds(std::vector<Convention>& list, const Scene& scene, const std::string& name) {
  const Values& data = scene.input(name)->data;
  const bool decays = scene.described(name)->field.domain == Domain::log_decay;
  const auto add = [&](double bound, bool from_below) {
    const auto f = [bound, from_below](double x) { return from_below ? std::max(x, bound) : std::min(x, bound); };
    if (std::all_of(data.begin(), data.end(), [&](double x) { return f(x) == x; })) return;
    add_form(list, name,
             {fmt::format("bound {}", bound),
              from_below ? fmt::format("cut off below {}", bound) : fmt::format("cut off above {}", bound),
              "leave " + name + " as given", by_number(f)});
  };
  if (!decays) return add(1, false);
  for (int n = 1; n < 20; ++n) add(-n / 20.0, true);
  for (const int bound : {1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 20, 24, 25, 30, 32, 40, 50, 60, 64, 80, 88, 100})
    add(-bound, true);
}

void add_mean_of_channels(std::vector<Convention>& list, const std::string& name) {
  add_form(
      list, name,
      {"mean of channels", "of all channels averaged", "read it for every channel", by_row([](std::span<double> row) {
         double sum = 0;
         for (const double x : row) sum += x;
         std::fill(row.begin(), row.end(), sum / static_cast<double>(row.size()));
       })});
}

bool is_vector(Domain domain) {
  return domain == Domain::query || domain == Domain::key || domain == Domain::value || domain == Domain::probe;
}
bool is_weight(Domain domain) {
  return domain == Domain::write_strength || domain == Domain::gain || domain == Domain::gradient_weight;
}

}  // namespace

void add_input_forms(std::vector<Convention>& list, const Scene& scene) {
  add_shared_of_other_heads(list, scene);
  for (const std::string& name : scene.inputs()) {
    const Domain domain = scene.described(name)->field.domain;
    const Grid grid = grid_of(*scene.described(name), scene.input(name)->shape);
    if (!grid.by_head) continue;
    if (grid.heads > 1) add_other_heads(list, scene, name, grid);
    if (!grid.by_token) continue;
    if (grid.rows > 2) add_backwards(list, name);
    if (is_vector(domain) && grid.cols > 3) add_channels(list, name, grid.cols);
    const bool gate = domain == Domain::log_decay || is_weight(domain);
    if (gate) add_bounds(list, scene, name);
    if (gate && grid.cols > 1) add_mean_of_channels(list, name);
    if (domain != Domain::query && domain != Domain::key) continue;
    add_form(list, name,
             {"over root mean square", "divided by its root mean square inside the kernel",
              "leave " + name + " as given", by_row(divide_by_root_mean_square)});
    if (domain == Domain::key && scene.input("beta") != nullptr) {
      const double root = std::sqrt(static_cast<double>(grid.cols));
      for (const double by : {-1.0, 1 / root, root}) {
        const Move times = by_number([by](double x) { return by * x; });
        add_form(list, name,
                 {fmt::format("times {:.4g}", by), fmt::format("multiplied by {:.4g}", by), "take it as it is", times,
                  times});
      }
    }
  }
}

}  // namespace assay::hypotheses
