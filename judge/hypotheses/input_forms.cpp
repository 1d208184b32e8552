#include "judge/hypotheses/input_forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

namespace assay::hypotheses {
namespace {

Move by_number(const std::function<double(double)>& f) {
  return [f](const Moved& m) { std::transform(m.values.begin(), m.values.end(), m.values.begin(), f); };
}
Move by_row(const std::function<void(std::span<double> row, bool back)>& f) {
  return [f](const Moved& m) {
    each_row(m.grid, m.values, [&](std::size_t, std::size_t, std::span<double> row) { f(row, m.back); });
  };
}
/// Head h has the rows of head `of`(h, the heads of its sequence, whether it is the gradient).
Move by_head(const std::function<std::size_t(std::size_t, std::size_t, bool back)>& of) {
  return [of](const Moved& m) {
    const Values from = m.values;
    const std::size_t heads = m.grid.heads / static_cast<std::size_t>(m.scene.batch), n = m.grid.rows * m.grid.cols;
    for (std::size_t h = 0; h < m.grid.heads; ++h) {
      const std::size_t source = h - h % heads + of(h % heads, heads, m.back);
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source * n), n,
                  m.values.begin() + static_cast<std::ptrdiff_t>(h * n));
    }
  };
}

// ---- channels ----

void divide_by_root_mean_square(std::span<double> row, bool) {
  double squares = 0;
  for (const double x : row) squares += x * x;
  const double by = std::sqrt(squares / static_cast<double>(row.size()));
  if (by > 0)
    for (double& x : row) x /= by;
}

void add_channels(std::vector<Convention>& list, const std::string& name, std::size_t channels) {
  const std::string all = "read all channels of " + name;
  for (const bool first : {true, false}) {
    const Move half = by_row([first](std::span<double> row, bool) {
      const std::size_t middle = row.size() / 2;
      std::fill_n(row.begin() + static_cast<std::ptrdiff_t>(first ? 0 : middle), first ? middle : row.size() - middle,
                  0.0);
    });
    add_form(list, name,
             {first ? "without first half" : "without second half",
              first ? "without the first half of its channels" : "without the second half of its channels", all, half});
  }
  const Move turned = by_row([](std::span<double> row, bool back) {
    std::rotate(row.begin(), back ? row.end() - 1 : row.begin() + 1, row.end());
  });
  add_form(list, name, {"next channel", "of the next channel", all, turned});
  if (channels % 2 != 0) return;
  const Move exchanged = by_row([](std::span<double> row, bool) {
    const auto middle = row.begin() + static_cast<std::ptrdiff_t>(row.size() / 2);
    std::swap_ranges(row.begin(), middle, middle);
  });
  add_form(list, name, {"halves exchanged", "with the halves of its channels exchanged", all, exchanged});
}

// ---- heads, sequences, tokens ----

void add_other_heads(std::vector<Convention>& list, const Scene& scene, const std::string& name, const Grid& grid) {
  const std::string own = "give each head its own " + name;
  const std::size_t heads = grid.heads / static_cast<std::size_t>(scene.batch), group = scene.group();
  const auto add = [&](const std::string& key, const std::string& what, const Move& move,
                       Gradient gradient = Gradient::raw) {
    add_form(list, name, {key, what, own, move, gradient, false, true});
  };
  if (heads > 2)
    add("of the head before", "of the head before",
        by_head([](auto h, auto n, bool back) { return (h + (back ? 1 : n - 1)) % n; }), Gradient::moved);
  if (group > 1 && heads == scene.own_heads() / static_cast<std::size_t>(scene.batch)) {
    add("of head h / group", "of head h / group, as if heads of a group shared it",
        by_head([group](auto h, auto, bool) { return h / group; }));
    add("of the group's first head", "of the first head of each group",
        by_head([group](auto h, auto, bool) { return h - h % group; }));
    add("of head h mod group", "of head h mod group", by_head([group](auto h, auto, bool) { return h % group; }));
  }
  if (scene.batch < 2 || grid.heads % static_cast<std::size_t>(scene.batch) != 0) return;
  add("of sequence 0", "of sequence 0 for all sequences", [](const Moved& m) {
    const std::size_t n = m.grid.size() / static_cast<std::size_t>(m.scene.batch);
    for (std::size_t i = n; i < m.values.size(); ++i) m.values[i] = m.values[i % n];
  });
  const auto turned = [](bool next) -> Move {
    return [next](const Moved& m) {
      const auto n = static_cast<std::ptrdiff_t>(m.grid.size()) / m.scene.batch;
      std::rotate(m.values.begin(), next != m.back ? m.values.begin() + n : m.values.end() - n, m.values.end());
    };
  };
  add("of the next sequence", "of the next sequence", turned(true), Gradient::moved);
  if (scene.batch > 2) add("of the sequence before", "of the sequence before", turned(false), Gradient::moved);
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
    const Move turned = by_head([by](std::size_t h, std::size_t n, bool) { return (h + by) % n; });
    const std::string what = by == 1 ? "the next key/value head" : "the key/value head before";
    list.push_back({"shared of " + what, "what heads share read of " + what, "head h reads head h / group",
                    [names, turned](const Scene& s) {
                      Scene outputs = s;
                      outputs.problem.cotangents.clear();  // gradients of what is shared are sums over other heads
                      return answer_moved(outputs, names, Gradient::unknown, turned);
                    },
                    false, true});
    if (heads == 2) break;
  }
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
              "leave " + name + " as given", by_number(f), Gradient::raw});
  };
  if (!decays) return add(1, false);
  for (int n = 1; n < 20; ++n) add(-n / 20.0, true);
  for (const int bound : {1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 20, 24, 25, 30, 32, 40, 50, 60, 64, 80, 88, 100})
    add(-bound, true);
}

void add_mean_of_channels(std::vector<Convention>& list, const std::string& name) {
  add_form(list, name,
           {"mean of channels", "of all channels averaged", "read it for every channel",
            by_row([](std::span<double> row, bool) {
              double sum = 0;
              for (const double x : row) sum += x;
              std::fill(row.begin(), row.end(), sum / static_cast<double>(row.size()));
            }),
            Gradient::raw});
}

}  // namespace

void add_form(std::vector<Convention>& list, const std::string& name, const InputForm& form) {
  list.push_back({name + ' ' + form.key, name + ' ' + form.what, form.mend,
                  [name, gradient = form.gradient, move = form.move](const Scene& s) {
                    return answer_moved(s, {name}, gradient, move);
                  },
                  form.looks_ahead, form.whole_sequences});
}

void add_input_forms(std::vector<Convention>& list, const Scene& scene) {
  add_shared_of_other_heads(list, scene);
  for (const std::string& name : scene.inputs()) {
    const Domain domain = scene.described(name)->field.domain;
    const Grid grid = grid_of(*scene.described(name), scene.input(name)->shape);
    if (!grid.by_head) continue;
    if (grid.heads > 1) add_other_heads(list, scene, name, grid);
    if (!grid.by_token) continue;
    if (grid.rows > 2)
      add_form(list, name,
               {"backwards", "read from the last token to the first", "read " + name + " at t",
                [](const Moved& m) { reverse_rows(m.grid, m.values); }, Gradient::moved, true});
    const auto is = [&](std::initializer_list<Domain> some) { return std::ranges::find(some, domain) != some.end(); };
    if (is({Domain::query, Domain::key, Domain::value, Domain::probe}) && grid.cols > 3)
      add_channels(list, name, grid.cols);
    const bool gate = is({Domain::log_decay, Domain::write_strength, Domain::gain, Domain::gradient_weight});
    if (gate) add_bounds(list, scene, name);
    if (gate && grid.cols > 1) add_mean_of_channels(list, name);
    if (domain != Domain::query && domain != Domain::key) continue;
    add_form(list, name,
             {"over root mean square", "divided by its root mean square inside the kernel",
              "leave " + name + " as given", by_row(divide_by_root_mean_square), Gradient::raw});
    if (domain == Domain::key && scene.input("beta") != nullptr) {
      const double root = std::sqrt(static_cast<double>(grid.cols));
      for (const double by : {-1.0, 1 / root, root}) {
        const Move times = by_number([by](double x) { return by * x; });
        add_form(list, name,
                 {fmt::format("times {:.4g}", by), fmt::format("multiplied by {:.4g}", by), "take it as it is", times});
      }
    }
  }
}

}  // namespace assay::hypotheses
