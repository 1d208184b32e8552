#include "judge/hypotheses/sequence_form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace assay::hypotheses {
namespace {

using Borders = std::vector<std::size_t>;

/// In place of the index of a state, or of a row, that is zero.
constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
constexpr std::ptrdiff_t no_row = -1;

bool is_final(const std::string& tensor) { return tensor.starts_with("final_"); }
bool is_initial(const std::string& tensor) { return tensor.starts_with("initial_"); }
std::string initial_of(const std::string& output) { return "initial_" + output.substr(6); }

/// The first row of each sequence, and the number of rows; nothing where rows are of no sequence, or sequences without
/// rows.
std::optional<Borders> packed_borders(const Scene& scene) {
  const Array* cu = scene.input("cu_seqlens");
  if (cu == nullptr || scene.input("lengths") != nullptr || cu->data.size() < 3) return std::nullopt;
  Borders borders;
  for (const double x : cu->data) borders.push_back(static_cast<std::size_t>(std::max(0.0, x)));
  const bool all_have = std::adjacent_find(borders.begin(), borders.end(), std::greater_equal<>()) == borders.end();
  if (!all_have || borders.front() != 0 || borders.back() != scene.tokens()) return std::nullopt;
  return borders;
}

/// Before which rows a kernel begins anew, with the initial state of which sequence, and behind how many rows it takes
/// the final state of each.
struct Course {
  std::map<std::size_t, std::size_t> starts;
  Borders ends;
};

Course right_course(const Borders& borders) {
  Course course;
  for (std::size_t n = 0; n + 1 < borders.size(); ++n)
    course.starts[borders[n]] = n, course.ends.push_back(borders[n + 1]);
  return course;
}

/// A course cut into stretches at every row where something begins or ends.
class Stretches {
 public:
  Stretches(const Course& course, std::size_t rows) : course_(course) {
    std::set<std::size_t> cuts = {0, rows};
    for (const auto& [row, sequence] : course.starts) cuts.insert(row);
    cuts.insert(course.ends.begin(), course.ends.end());
    at_.assign(cuts.begin(), cuts.end());
  }

  std::size_t count() const { return at_.size() - 1; }
  bool begins(std::size_t n) const { return course_.starts.contains(at_[n]); }
  /// The one that begins with that row.
  std::size_t from(std::size_t row) const {
    return static_cast<std::size_t>(std::lower_bound(at_.begin(), at_.end(), row) - at_.begin());
  }
  Array cu_seqlens() const {
    Array cu({static_cast<int>(at_.size())});
    std::transform(at_.begin(), at_.end(), cu.data.begin(), [](std::size_t row) { return static_cast<double>(row); });
    return cu;
  }
  /// How many follow one another from the last state that was given, at most.
  std::size_t longest() const {
    std::size_t most = 1, run = 0;
    for (std::size_t n = 0; n < count(); ++n) run = begins(n) ? 1 : run + 1, most = std::max(most, run);
    return most;
  }

 private:
  const Course& course_;
  Borders at_;
};

void copy_state(const Values& from, std::size_t i, Values& to, std::size_t j, std::size_t size) {
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(i * size), size,
              to.begin() + static_cast<std::ptrdiff_t>(j * size));
}

/// Outputs of a kernel on that course: those of its stretches as sequences, answered again while one that does not
/// begin anew has another start than the end of the one before.
Arrays answer_on(const Scene& s, const Course& course) {
  const Stretches stretches(course, s.tokens());
  Problem p = s.problem;
  p.cotangents.clear();
  const Arrays right = hypotheses::answer_of(*s.room, p);
  p.inputs.at("cu_seqlens") = stretches.cu_seqlens();
  std::map<std::string, std::size_t> sizes;  // of the states of one sequence
  for (const auto& [name, end] : right) {
    if (!is_final(name)) continue;
    const std::size_t size = sizes[name] = end.data.size() / course.ends.size();
    Array& start = p.inputs[initial_of(name)];
    const Values given = start.data;
    start.shape = end.shape, start.shape[0] = static_cast<int>(s.own_heads());
    start.shape.insert(start.shape.begin(), static_cast<int>(stretches.count()));
    start.data.assign(stretches.count() * size, 0.0);
    for (const auto& [row, sequence] : course.starts)
      if (!given.empty()) copy_state(given, sequence, start.data, stretches.from(row), size);
  }
  Arrays answer = hypotheses::answer_of(*s.room, p);
  for (std::size_t round = 1; round < stretches.longest(); ++round) {
    for (const auto& [name, size] : sizes)
      for (std::size_t n = 1; n < stretches.count(); ++n)
        if (!stretches.begins(n)) copy_state(answer.at(name).data, n - 1, p.inputs.at(initial_of(name)).data, n, size);
    answer = hypotheses::answer_of(*s.room, p);
  }
  Arrays told;
  for (const auto& [name, array] : answer) {
    const RoomFacts::Ranked* ranked = s.described(name);
    if (ranked != nullptr && grid_of(*ranked, array.shape).by_token) told[name] = array;
    if (!is_final(name)) continue;
    told[name] = right.at(name);
    for (std::size_t n = 0; n < course.ends.size(); ++n) {
      const auto start = course.starts.find(course.ends[n]);
      const bool empty = start != course.starts.end() && start->second == n;
      const std::size_t next = stretches.from(course.ends[n]);
      if (empty)
        copy_state(p.inputs.at(initial_of(name)).data, next, told.at(name).data, n, sizes.at(name));
      else
        copy_state(array.data, next - 1, told.at(name).data, n, sizes.at(name));
    }
  }
  return told;
}

void add_course(std::vector<Convention>& list, const Scene& scene, const std::string& what, const std::string& mend,
                const Course& course) {
  list.push_back({what, what, mend, [course](const Scene& s) { return answer_on(s, course); }, true});
  const double answers = 1 + static_cast<double>(Stretches(course, scene.tokens()).longest());
  list.back().effort = answers * (scene.problem.cotangents.empty() ? 1 : 0.25);  // without gradients
}

constexpr std::size_t usual_tiles[] = {64, 32, 16, 128};

/// States that begin anew elsewhere.
void add_starts(std::vector<Convention>& list, const Scene& scene, const Borders& borders) {
  const char* const mend = "start every sequence from its own initial state";
  const std::size_t sequences = borders.size() - 1;
  const Course right = right_course(borders);
  Course course = right;
  course.starts = {{0, 0}};
  add_course(list, scene, "the state carried from one sequence into the next", mend, course);
  for (std::size_t n = 1; n < sequences && sequences > 2; ++n) {
    course = right, course.starts.erase(borders[n]);
    add_course(list, scene, fmt::format("sequence {} going on from the state of sequence {}", n, n - 1), mend, course);
  }
  const auto add = [&](const std::string& what, const std::function<std::size_t(std::size_t)>& row) {
    course = right, course.starts = {{0, 0}};
    for (std::size_t n = 1; n < sequences; ++n)
      if (const std::size_t at = row(borders[n]); at < borders.back()) course.starts[at] = n;
    if (course.starts != right.starts) add_course(list, scene, what, mend, course);
  };
  add("states begun anew one row late (behind a sequence's first row)", [](std::size_t b) { return b + 1; });
  add("states begun anew one row early (before the last row of the sequence before)",
      [](std::size_t b) { return b - 1; });
  for (const std::size_t tile : usual_tiles) {
    if (tile >= borders.back()) continue;
    add(fmt::format("states begun anew with the chunk of {} rows in which a sequence begins", tile),
        [tile](std::size_t b) { return b / tile * tile; });
    add(fmt::format("states begun anew with the first chunk of {} rows behind a sequence's begin", tile),
        [tile](std::size_t b) { return (b + tile - 1) / tile * tile; });
  }
}

/// Final states of other rows.
void add_ends(std::vector<Convention>& list, const Scene& scene, const Borders& borders) {
  const auto add = [&](const std::string& what, const std::function<std::size_t(std::size_t, std::size_t)>& end) {
    const Course right = right_course(borders);
    Course course = right;
    for (std::size_t n = 0; n < course.ends.size(); ++n)
      course.ends[n] = std::min(end(borders[n], borders[n + 1]), borders.back());
    if (course.ends != right.ends)
      add_course(list, scene, what, "store each sequence's state behind its own last token", course);
  };
  add("final states before each sequence's last token", [](std::size_t, std::size_t end) { return end - 1; });
  add("final states behind the next sequence's first token", [](std::size_t, std::size_t end) { return end + 1; });
  for (const std::size_t tile : usual_tiles)
    add(fmt::format("final states before each sequence's last, partial chunk of {} tokens", tile),
        [tile](std::size_t begin, std::size_t end) { return begin + (end - begin) / tile * tile; });
}

/// Adds the answer to another problem, without the gradients of what was changed, an input or all whose names begin
/// with "initial_": these are of something else.
void add_changed(std::vector<Convention>& list, const std::string& what, const std::string& mend,
                 const std::string& changed, const std::function<void(const Scene&, Problem&)>& edit) {
  list.push_back({what, what, mend,
                  [changed, edit](const Scene& s) {
                    Problem p = s.problem;
                    edit(s, p);
                    Arrays answer = hypotheses::answer_of(*s.room, p);
                    const std::string d = "d_" + changed;
                    std::erase_if(answer, [&](const auto& tensor) {
                      return tensor.first == d || (d.ends_with('_') && tensor.first.starts_with(d));
                    });
                    return answer;
                  },
                  true});
}

/// Initial states of other sequences.
void add_state_orders(std::vector<Convention>& list, const Scene& scene, std::size_t sequences) {
  const std::vector<std::string> names = scene.inputs();
  if (std::none_of(names.begin(), names.end(), is_initial)) return;
  using Of = std::function<std::size_t(std::size_t sequence, std::size_t head, std::size_t heads)>;
  const auto add = [&](const std::string& what, const Of& of) {
    add_changed(list, what, "start every sequence from its own initial state", "initial_",
                [sequences, of](const Scene& s, Problem& p) {
                  const std::size_t heads = s.own_heads();
                  for (auto& [name, x] : p.inputs) {
                    if (!is_initial(name)) continue;
                    const Values from = x.data;
                    const std::size_t size = from.size() / (sequences * heads);
                    std::fill(x.data.begin(), x.data.end(), 0.0);
                    for (std::size_t n = 0; n < sequences; ++n)
                      for (std::size_t h = 0; h < heads; ++h)
                        if (const std::size_t source = of(n, h, heads); source != nowhere)
                          copy_state(from, source, x.data, n * heads + h, size);
                  }
                });
  };
  add("initial states of the sequence before", [sequences](std::size_t n, std::size_t h, std::size_t heads) {
    return (n + sequences - 1) % sequences * heads + h;
  });
  add("the initial states of sequence 0 for all sequences", [](std::size_t, std::size_t h, std::size_t) { return h; });
  add("no initial state but that of sequence 0 (the others start from zero)",
      [](std::size_t n, std::size_t h, std::size_t) { return n == 0 ? h : nowhere; });
  add("initial states in reverse order of sequences",
      [sequences](std::size_t n, std::size_t h, std::size_t heads) { return (sequences - 1 - n) * heads + h; });
  add("initial states taken for [H, N, K, V], which are [N, H, K, V]",
      [sequences](std::size_t n, std::size_t h, std::size_t) { return h * sequences + n; });
  list.back().whole_sequences = true;
}

/// Rows of an input that lie otherwise within their sequences: row t has row `of`(its sequence's first, end, t), or
/// zeros where that is none of the sequence's.
void add_rows(std::vector<Convention>& list, const Borders& borders, const std::string& name, const std::string& what,
              const std::function<std::ptrdiff_t(std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t)>& of) {
  add_changed(list, what, "read " + name + " at t, of the same sequence", name,
              [borders, name, of](const Scene& s, Problem& p) {
                Array& x = p.inputs.at(name);
                const Grid grid = grid_of(*s.described(name), x.shape);
                const Values from = x.data;
                for (std::size_t n = 0; n + 1 < borders.size(); ++n)
                  for (std::size_t t = borders[n]; t < borders[n + 1]; ++t) {
                    const auto begin = static_cast<std::ptrdiff_t>(borders[n]),
                               end = static_cast<std::ptrdiff_t>(borders[n + 1]),
                               source = of(begin, end, static_cast<std::ptrdiff_t>(t));
                    const bool there = source >= begin && source < end;
                    for (std::size_t h = 0; h < grid.heads; ++h)
                      for (std::size_t c = 0; c < grid.cols; ++c)
                        x.data[grid.at(h, t, c)] = there ? from[grid.at(h, static_cast<std::size_t>(source), c)] : 0;
                  }
              });
}

void add_row_orders(std::vector<Convention>& list, const Scene& scene, const Borders& borders) {
  for (const std::string& name : scene.inputs()) {
    const RoomFacts::Ranked& ranked = *scene.described(name);
    if (!grid_of(ranked, scene.input(name)->shape).by_token) continue;
    add_rows(list, borders, name, name + " a token late within its sequence",
             [](std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t t) { return t - 1; });
    add_rows(list, borders, name, name + " a token early within its sequence",
             [](std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t t) { return t + 1; });
    const bool decays = ranked.field.domain == Domain::log_decay;
    if (!decays && name != "k") continue;
    const std::string of = decays ? "the decay" : "the write";
    add_rows(list, borders, name, of + " of each sequence's first token lost",
             [](std::ptrdiff_t begin, std::ptrdiff_t, std::ptrdiff_t t) { return t == begin ? no_row : t; });
    add_rows(list, borders, name, of + " of each sequence's last token lost",
             [](std::ptrdiff_t, std::ptrdiff_t end, std::ptrdiff_t t) { return t + 1 == end ? no_row : t; });
  }
}

/// Initial states that decay with the sums of gates that earlier sequences have left.
void add_run_on_sums(std::vector<Convention>& list, const Scene& scene, const Borders& borders) {
  if (scene.input("initial_state") == nullptr || scene.input("log_decay") == nullptr) return;
  const auto layout = scene.problem.params.find("state_layout");
  const bool v_first = layout != scene.problem.params.end() && layout->second == Param(std::string("v_first"));
  for (const std::size_t tile : {std::size_t{0}, std::size_t{64}, std::size_t{32}, std::size_t{16}, std::size_t{128}}) {
    if (tile >= borders.back()) continue;
    const std::string chunks = tile > 0 ? fmt::format(" (chunks of {} rows)", tile) : "";
    add_changed(list, "sums of log decays that run on from the sequence before" + chunks,
                "a sequence's sums begin with its first token", "initial_",
                [borders, tile, v_first](const Scene& s, Problem& p) {
                  Array& state = p.inputs.at("initial_state");
                  const Array& g = *s.input("log_decay");
                  const Grid to = grid_of(*s.described("initial_state"), state.shape),
                             from = grid_of(*s.described("log_decay"), g.shape);
                  const std::size_t heads = s.own_heads();
                  each_row(to, state.data, [&](std::size_t i, std::size_t row, std::span<double> numbers) {
                    const std::size_t n = i / heads, h = i % heads * from.heads / heads, end = borders[n];
                    for (std::size_t c = 0; c < numbers.size(); ++c) {
                      double sum = 0;
                      for (std::size_t t = tile > 0 ? end / tile * tile : 0; t < end; ++t)
                        sum += g.data[from.at_token(h, t, from.cols == 1 ? 0 : v_first ? c : row)];
                      numbers[c] *= std::exp(sum);
                    }
                  });
                });
  }
}

/// The gradients of a kernel that sums what states owe on into the sequence before.
Arrays owed_across(const Scene& s, std::size_t sequences) {
  Problem p = s.problem;
  Arrays answer = hypotheses::answer_of(*s.room, p), own;
  for (const auto& [name, end] : answer) {
    if (!is_final(name)) continue;
    const Array zero(end.shape);
    p.inputs.try_emplace(initial_of(name), zero);
    own[name] = p.cotangents.try_emplace(name, zero).first->second;
  }
  answer = hypotheses::answer_of(*s.room, p);
  for (std::size_t round = 1; round < sequences; ++round) {
    for (const auto& [name, given] : own) {
      const Values& owed = answer.at("d_" + initial_of(name)).data;
      const std::size_t size = given.data.size() / sequences;
      for (std::size_t i = 0; i + size < given.data.size(); ++i)
        p.cotangents.at(name).data[i] = given.data[i] + owed[i + size];
    }
    answer = hypotheses::answer_of(*s.room, p);
  }
  std::erase_if(answer, [](const auto& tensor) { return !tensor.first.starts_with("d_"); });
  return answer;
}

}  // namespace

void add_packed_states(std::vector<Convention>& list, const Scene& scene) {
  constexpr std::size_t most = 16;
  const std::optional<Borders> borders = packed_borders(scene);
  const std::vector<RoomFacts::Ranked> outputs = scene.room->outputs();
  const bool carries = std::ranges::any_of(outputs, [](const auto& r) { return is_final(std::string(r.field.name)); });
  // A key that is carried in says where a sequence starts, too.
  if (!borders || !carries || scene.described("k_carry") != nullptr || borders->size() > most + 1) return;
  const std::size_t sequences = borders->size() - 1;
  add_starts(list, scene, *borders);
  add_ends(list, scene, *borders);
  add_state_orders(list, scene, sequences);
  add_row_orders(list, scene, *borders);
  add_run_on_sums(list, scene, *borders);
  if (scene.problem.cotangents.empty()) return;
  list.push_back({"state gradients across sequences",
                  "the state's gradient carried from one sequence into the one before",
                  "begin the backward pass of every sequence with what its own final state owes",
                  [sequences](const Scene& s) { return owed_across(s, sequences); }, true});
  list.back().only = "d_v", list.back().effort = 1 + static_cast<double>(sequences);
}

}  // namespace assay::hypotheses
