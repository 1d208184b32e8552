#include "judge/verdict/detectability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "files/in_words.hpp"
#include "judge/verdict/judge.hpp"
#include "oracles/core/large.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// Whether an input belongs to the queries, one row for each: with more keys than queries that is an axis of its own.
bool is_read(const Field& field) {
  return field.axes[0] == Axis::query_len ||
         (field.axes[0] == Axis::seq_len && (field.domain == Domain::query || field.domain == Domain::probe));
}

/// Rows t of that axis become rows t + by; those without such a row stay.
void shift_rows(Array& array, std::size_t axis, int by) {
  const Array old = array;
  const auto rows = static_cast<std::size_t>(array.shape[axis]);
  std::size_t blocks = 1, width = 1;
  for (std::size_t r = 0; r < array.shape.size(); ++r)
    (r < axis ? blocks : width) *= static_cast<std::size_t>(array.shape[r]);
  width /= rows;
  for (std::size_t b = 0; b < blocks; ++b)
    for (std::size_t t = 0; t < rows; ++t) {
      const auto from = static_cast<std::ptrdiff_t>(t) + by;
      if (from < 0 || from >= static_cast<std::ptrdiff_t>(rows)) continue;
      std::copy_n(old.data.begin() + static_cast<std::ptrdiff_t>((b * rows + static_cast<std::size_t>(from)) * width),
                  width, array.data.begin() + static_cast<std::ptrdiff_t>((b * rows + t) * width));
    }
}

/// What faults are told by: how answers are rejected, by every expectation.
class Rejections {
 public:
  /// Keeps references to both.
  Rejections(std::span<const Expectation> expectations, const Detectability& share, int threads)
      : expectations_(expectations), share_(share) {
    for (const Expectation& expectation : expectations) {
      auto& list = all_.emplace_back(expectation.tensors.size());
      const int of_each = words::threads_of_each(threads, list.size());
      words::in_parallel(list.size(), threads,
                         [&](std::size_t t) { list[t].emplace(expectation.tensors[t].second, of_each); });
    }
  }

  std::span<const Expectation> expectations() const { return expectations_; }
  const Named<Expected>& tensors() const { return expectations_.front().tensors; }
  /// Whether those are the numbers of the heads with faults; else they are sums over these.
  bool is_of_heads(std::size_t tensor, const std::vector<double>& numbers) const {
    return share_.heads == 0 || numbers.size() * static_cast<std::size_t>(share_.all_heads) ==
                                    tensors()[tensor].second.value.size() * static_cast<std::size_t>(share_.heads);
  }
  /// `got`: of the heads with faults; the others are exact.
  bool rejects(std::size_t tensor, const std::vector<double>& got, double times = 1) const {
    return std::ranges::all_of(all_, [&](const auto& list) { return list[tensor]->rejects(got, times); });
  }

 private:
  std::span<const Expectation> expectations_;
  const Detectability& share_;
  std::vector<std::vector<std::optional<Rejection>>> all_;
};

/// Whether a tensor of what `run` answers is rejected. Outputs are asked first, gradients only where all of them pass.
template <class F>
bool shows(const Problem& problem, const Rejections& rejections, double times, F&& run) {
  Problem forward = problem;
  forward.cotangents.clear();
  const auto rejects_any = [&](const Arrays& answered) {
    for (std::size_t t = 0; t < rejections.tensors().size(); ++t)
      if (const auto got = answered.find(rejections.tensors()[t].first); got != answered.end() &&
                                                                         rejections.is_of_heads(t, got->second.data) &&
                                                                         rejections.rejects(t, got->second.data, times))
        return true;
    return false;
  };
  if (rejects_any(flat(run(forward)))) return true;
  return !problem.cotangents.empty() && rejects_any(flat({.outputs = {}, .gradients = run(problem).gradients}));
}

class Masks {
 public:
  /// `healthy`: the kernel's o.
  Masks(const Room& room, const KernelUnderTest& kernel, Problem problem, const Rejections& rejections, std::size_t o,
        const std::vector<double>& healthy)
      : kernel_(kernel),
        problem_(std::move(problem)),
        rejections_(rejections),
        o_(o),
        healthy_(healthy),
        axis_(shape_of(rejections, o).size() - 2),
        rows_(shape_of(rejections, o)[axis_]),
        cols_(shape_of(rejections, o).back()) {
    problem_.cotangents.clear();
    for (const RoomFacts::Ranked& ranked : room.inputs()) {
      const auto given = problem_.inputs.find(ranked.field.name);
      if (ranked.rank == 0 || !is_read(ranked.field) || given == problem_.inputs.end()) continue;
      const std::vector<int>& shape = given->second.shape;
      if (shape.size() > axis_ && shape[axis_] == rows_) reads_.push_back(given->first);
    }
  }

  /// `sign` 1: short masks; -1: long ones.
  std::optional<MaskFault> fault(int sign) const {
    if (reads_.empty()) return std::nullopt;
    MaskFault found;
    for (int keys = 1; keys < rows_; keys *= 2) {
      const std::vector<double> got = planted(sign * keys);
      if (got == healthy_) return std::nullopt;
      if (keys == 1) count_rows(got, found);
      if (!rejections_.rejects(o_, got)) continue;
      found.keys = keys;
      break;
    }
    if (found.tested == 0) return std::nullopt;
    return found;
  }

 private:
  static const std::vector<int>& shape_of(const Rejections& rejections, std::size_t o) {
    return rejections.tensors()[o].second.shape;
  }
  /// The kernel's o with a mask that is short by as many keys: where query t + by is answered at t, its row t + by.
  std::vector<double> planted(int by) const {
    Problem shifted = problem_;
    for (const std::string& name : reads_) shift_rows(shifted.inputs.at(name), axis_, by);
    const Array answered = kernel_.form->run(shifted, kernel_.policy(), kernel_.tile).outputs.at("o");
    std::vector<double> got = healthy_;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const int row = static_cast<int>(i / static_cast<std::size_t>(cols_)) % rows_, at = row - by;
      if (at >= 0 && at < rows_) got[i] = answered.data[i - static_cast<std::size_t>(by * cols_)];
    }
    return got;
  }

  void count_rows(const std::vector<double>& got, MaskFault& found) const {
    const auto cols = static_cast<std::size_t>(cols_);
    for (std::size_t row = 0; row < got.size(); row += cols) {
      const auto at = static_cast<std::ptrdiff_t>(row), end = static_cast<std::ptrdiff_t>(row + cols);
      const bool changed = !std::equal(got.begin() + at, got.begin() + end, healthy_.begin() + at);
      found.tested += changed ? 1 : 0;
      found.rows += changed && std::ranges::all_of(rejections_.expectations(), [&](const Expectation& e) {
                      for (std::size_t i = row; i < row + cols; ++i)
                        if (!(excess_at(e.tensors[o_].second, got, i) <= 1)) return true;
                      return false;
                    });
    }
  }

  const KernelUnderTest& kernel_;
  Problem problem_;
  const Rejections& rejections_;
  std::size_t o_;
  const std::vector<double>& healthy_;
  std::size_t axis_;
  int rows_, cols_;
  std::vector<std::string> reads_;
};

constexpr Format narrower_formats[] = {Format::fp32, Format::tf32, Format::bf16, Format::e4m3};

/// The sites that a kernel carries from token to token, or sums in.
const SiteGroup* narrowed_group(const tile::SiteTable& sites) {
  for (const std::string_view name : {"state", "accumulators"})
    for (const SiteGroup& group : site_groups())
      if (group.name == name && !group.members(sites).empty()) return &group;
  return nullptr;
}

/// The gradient of a row x, from that of x / |x|, in place.
void pull_back_norm(std::span<const double> x, std::span<double> d) {
  double squares = 0, along = 0;
  for (std::size_t i = 0; i < x.size(); ++i) squares += x[i] * x[i], along += x[i] * d[i];
  if (!(squares > 0)) return;
  for (std::size_t i = 0; i < x.size(); ++i) d[i] = (d[i] - along / squares * x[i]) / std::sqrt(squares);
}

/// The kernel with its rows of that input divided by their norms first, in its own format, and the gradient through it.
Answer normalised_inside(const KernelUnderTest& kernel, const Problem& given, const std::string& name) {
  Problem problem = given;
  Array& x = problem.inputs.at(name);
  const auto width = static_cast<std::size_t>(x.shape.back());
  for (std::size_t at = 0; at < x.data.size(); at += width) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += x.data[at + i] * x.data[at + i];
    for (std::size_t i = 0; i < width && squares > 0; ++i)
      x.data[at + i] = round_to(x.data[at + i] / std::sqrt(squares), kernel.precision);
  }
  Answer answer = kernel.form->run(problem, kernel.policy(), kernel.tile);
  if (const auto d = answer.gradients.find(name); d != answer.gradients.end())
    for (std::size_t at = 0; at < x.data.size(); at += width)
      pull_back_norm(std::span(given.inputs.at(name).data).subspan(at, width),
                     std::span(d->second.data).subspan(at, width));
  return answer;
}

/// A change of inputs by a kernel, and whether a tensor shows it.
struct Change {
  std::string name;
  std::function<bool()> shows;
};

/// Rounding to bf16 what is given in more, and dividing keys by their norms.
std::vector<Change> changes_of_inputs(const Room& room, const KernelUnderTest& kernel, const Problem& problem,
                                      const Rejections& rejections) {
  std::vector<Change> changes;
  for (const RoomFacts::Ranked& ranked : room.inputs()) {
    const std::string name(ranked.field.name);
    const auto given = problem.inputs.find(name);
    if (given == problem.inputs.end() || ranked.field.place != Field::Place::input) continue;
    if (ranked.field.domain == Domain::key && ranked.rank == 2)
      changes.push_back({name + " normalised inside", [=, &kernel, &problem, &rejections] {
                           return shows(problem, rejections, 1,
                                        [&](const Problem& p) { return normalised_inside(kernel, p, name); });
                         }});
    if (!(unit_roundoff(Format::bf16) > unit_roundoff(format_of(ranked.field.domain, kernel.precision)))) continue;
    std::vector<double> narrow = given->second.data;
    for (double& x : narrow) x = round_to(x, Format::bf16);
    if (narrow == given->second.data) continue;
    changes.push_back({name + " in bf16", [=, &kernel, &problem, &rejections] {
                         Problem rounded = problem;
                         rounded.inputs.at(name).data = narrow;
                         return shows(rounded, rejections, 1, [&](const Problem& p) {
                           return kernel.form->run(p, kernel.policy(), kernel.tile);
                         });
                       }});
  }
  return changes;
}

/// The formats of that group of sites that pass, and the first that shows: so many at once, later ones in vain.
void narrow(const SiteGroup& group, const KernelUnderTest& kernel, const Problem& problem, const Rejections& rejections,
            double certain, int at_once, Detectability& found) {
  const Policy policy = kernel.policy();
  double widest = 0;
  for (const std::string_view site : group.members(kernel.form->sites))
    widest = std::max(widest, unit_roundoff(policy.sites.entries[policy.sites.find(site)].format));
  std::vector<Format> formats;
  std::ranges::copy_if(narrower_formats, std::back_inserter(formats),
                       [&](Format format) { return unit_roundoff(format) > widest; });
  std::atomic<std::size_t> first = formats.size();
  words::in_parallel(formats.size(), at_once, [&](std::size_t k) {
    if (k > first) return;
    Contract contract = kernel.contract == nullptr ? Contract::of(kernel.precision) : *kernel.contract;
    contract.rules.push_back({std::string(group.name), formats[k]});
    KernelUnderTest narrower = kernel;
    narrower.contract = &contract;
    if (!shows(problem, rejections, certain,
               [&](const Problem& p) { return narrower.form->run(p, narrower.policy(), narrower.tile); }))
      return;
    for (std::size_t known = first; k < known && !first.compare_exchange_weak(known, k);) continue;
  });
  if (first < formats.size()) found.shown = formats[first];
  found.hidden.assign(formats.begin(), formats.begin() + static_cast<std::ptrdiff_t>(first));
}

/// The heads of a large problem that get faults, which `found` then says; nothing where all do.
std::optional<Problem> part_with_faults(const Room& room, const Problem& whole, const Named<Expected>& tensors,
                                        std::size_t most_numbers, Detectability& found) {
  const HeadGroups groups = head_groups(room, whole);
  std::size_t numbers = 0;
  for (const auto& [name, tensor] : tensors) numbers += tensor.value.size();
  if (!groups.known || groups.shared < 2 || numbers <= most_numbers) return std::nullopt;
  const auto share = static_cast<double>(most_numbers) / static_cast<double>(numbers);
  const int count = std::max(1, static_cast<int>(share * groups.shared));
  found.heads = count * groups.each(), found.all_heads = groups.own;
  return groups_of(room, whole, groups, 0, count);
}

std::string words_of(const MaskFault& mask, std::string_view side) {
  if (mask.keys == 0) return fmt::format("no {} mask", side);
  std::string words = fmt::format("a mask {} {}", counted(mask.keys, "key"), side);
  if (mask.keys == 1) words += fmt::format(" ({} of {} rows alone)", mask.rows, mask.tested);
  return words;
}

}  // namespace

std::string Detectability::sentence() const {
  std::string text = short_mask ? words_of(*short_mask, "short") : "no mask";
  if (long_mask) text = (short_mask ? text + ", " : "") + words_of(*long_mask, "long");
  if (!group.empty()) {
    text += shown ? fmt::format("; {} in {}", group, name_of(*shown)) : fmt::format("; no narrower {}", group);
    if (shown && !hidden.empty()) text += ", not in " + std::string(name_of(hidden.back()));
  }
  return text + (heads > 0 ? fmt::format("; in {} of {} heads", heads, all_heads) : "");
}

Detectability detectability_of(const Room& room, const KernelUnderTest& kernel, const Problem& whole,
                               std::span<const Expectation> expectations, double certain, std::size_t most_numbers) {
  Detectability found;
  const Named<Expected>& tensors = expectations.front().tensors;
  const std::optional<Problem> part = part_with_faults(room, whole, tensors, most_numbers, found);
  const Problem& problem = part ? *part : whole;
  KernelUnderTest shared = kernel;  // with a task's share of the threads
  const Rejections rejections(expectations, found, kernel.threads);
  const std::vector<Change> changes = changes_of_inputs(room, shared, problem, rejections);
  std::vector<char> shown(changes.size());
  const SiteGroup* group = narrowed_group(kernel.form->sites);
  const auto o =
      std::ranges::find_if(tensors, [](const auto& t) { return t.first == "o" && t.second.shape.size() >= 2; });
  const auto at_o = static_cast<std::size_t>(o - tensors.begin());
  std::vector<double> healthy;
  if (o != tensors.end()) {
    Problem forward = problem;
    forward.cotangents.clear();
    healthy = kernel.form->run(forward, kernel.policy(), kernel.tile).outputs.at("o").data;
    if (!rejections.is_of_heads(at_o, healthy)) healthy.clear();
  }
  std::vector<std::function<void()>> tasks;  // the longest first
  int spare = 1;
  if (group != nullptr) tasks.emplace_back([&] { narrow(*group, shared, problem, rejections, certain, spare, found); });
  for (const int sign : {1, -1})
    if (!healthy.empty())
      tasks.emplace_back([&, sign] {
        const Masks masks(room, shared, problem, rejections, at_o, healthy);
        (sign > 0 ? found.short_mask : found.long_mask) = masks.fault(sign);
      });
  for (std::size_t i = 0; i < changes.size(); ++i)
    tasks.emplace_back([&, i] { shown[i] = static_cast<char>(changes[i].shows()); });
  const int at_once = std::clamp(static_cast<int>(tasks.size()), 1, std::max(kernel.threads, 1));
  shared.threads = words::threads_of_each(kernel.threads, tasks.size());
  spare = std::max(1, kernel.threads - at_once);
  words::in_parallel(tasks.size(), at_once, [&](std::size_t i) { tasks[i](); });
  for (std::size_t i = 0; i < changes.size(); ++i)
    if (shown[i] == 0) found.unseen.push_back(changes[i].name);
  if (group == nullptr) return found;
  found.group = group->name;
  if (group->name == "state" && std::ranges::find(found.hidden, Format::bf16) != found.hidden.end())
    found.unseen.emplace_back("state in bf16");
  return found;
}

}  // namespace assay
