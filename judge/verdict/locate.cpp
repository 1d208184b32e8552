#include "judge/verdict/locate.hpp"

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "reference/core/error.hpp"

namespace assay {
namespace {

using Indices = std::vector<int>;

Indices every_index(const NamedAxis& axis) {
  Indices all(static_cast<std::size_t>(axis.extent));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Whether each index of each axis is one of `box`.
std::vector<std::vector<char>> membership(const std::vector<NamedAxis>& axes, const std::vector<Indices>& box) {
  std::vector<std::vector<char>> in(axes.size());
  for (std::size_t a = 0; a < axes.size(); ++a) {
    in[a].resize(static_cast<std::size_t>(axes[a].extent));
    for (const int i : box[a]) in[a][static_cast<std::size_t>(i)] = 1;
  }
  return in;
}

/// The contents of the slices of one axis inside a box: one number for each index.
struct Slices {
  std::vector<double> squares;
  std::vector<char> failing;
  double count = 0;  ///< elements of a slice
};

std::vector<Slices> slices_of(const std::vector<NamedAxis>& axes, const Deviations& d,
                              const std::vector<Indices>& box) {
  const std::vector<std::vector<char>> in = membership(axes, box);
  std::vector<Slices> slices(axes.size());
  double elements = 1;
  for (const Indices& indices : box) elements *= static_cast<double>(indices.size());
  for (std::size_t a = 0; a < axes.size(); ++a) {
    slices[a].squares.resize(in[a].size());
    slices[a].failing.resize(in[a].size());
    slices[a].count = elements / static_cast<double>(box[a].size());
  }
  std::vector<std::size_t> index(axes.size());
  for (std::size_t i = 0; i < d.z.size(); ++i) {
    bool inside = true;
    for (std::size_t a = 0; a < axes.size(); ++a) inside = inside && in[a][index[a]] != 0;
    if (inside) {
      const double z = std::min(d.z[i], element_sigmas);
      for (std::size_t a = 0; a < axes.size(); ++a) {
        slices[a].squares[index[a]] += z * z;
        if (d.failing[i] != 0) slices[a].failing[index[a]] = 1;
      }
    }
    for (std::size_t a = axes.size(); a-- > 0;) {
      if (++index[a] < in[a].size()) break;
      index[a] = 0;
    }
  }
  return slices;
}

Indices wrong_in(const Slices& slices, double mean_square_limit) {
  const double n = slices.count;
  const double worst = *std::max_element(slices.squares.begin(), slices.squares.end()) / n;
  const double chance = quantile(complement(boost::math::chi_squared_distribution<double>(n), false_alarm_rate)) / n;
  const double limit = std::max({std::sqrt(worst), mean_square_limit, chance});
  Indices wrong;
  for (std::size_t i = 0; i < slices.squares.size(); ++i)
    if (slices.failing[i] != 0 || slices.squares[i] / n > limit) wrong.push_back(static_cast<int>(i));
  return wrong;
}

/// A way to say which indices, and how many it stands for.
struct Phrase {
  std::string text;
  std::size_t covers = 0;
};

std::string from_to(int first, int last) { return first == last ? text(first) : text(first, "..", last); }

/// "tokens 64..99 of 100 (chunk 1)"
Phrase as_range(const NamedAxis& axis, const Indices& indices) {
  const int first = indices.front(), last = indices.back(), count = last - first + 1;
  const std::string of = text(" of ", axis.extent);
  const bool to_end = last == axis.extent - 1, tail = to_end && axis.has_tail;
  const auto covers = static_cast<std::size_t>(count);
  if (count == axis.extent) return {"all " + axis.many, covers};
  const bool chunks =
      axis.chunk > 0 && axis.extent > axis.chunk && first % axis.chunk == 0 && (to_end || (last + 1) % axis.chunk == 0);
  if (count == 1) {
    const std::string place = axis.chunk > 0 && axis.extent > axis.chunk
                                  ? text(" (position ", first % axis.chunk, " of chunk ", first / axis.chunk, ")")
                                  : "";
    return {text(tail ? "the last " : "", axis.one, ' ', first, of, place), covers};
  }
  if (chunks) {
    const int a = first / axis.chunk, b = last / axis.chunk;
    return {text(axis.many, ' ', from_to(first, last), of, a == b ? " (chunk " : " (chunks ", from_to(a, b), ")"),
            covers};
  }
  if (tail && count < (axis.chunk > 0 ? axis.chunk : axis.extent / 2))
    return {text("the last ", count, ' ', axis.many, ", ", from_to(first, last), of), covers};
  return {text(axis.many, ' ', from_to(first, last), of), covers};
}

/// "tokens 3, 17, 98 of 100"
std::optional<Phrase> as_list(const NamedAxis& axis, const Indices& indices) {
  constexpr std::size_t most = 4;
  if (indices.size() > most) return {};
  std::string list;
  for (const int i : indices) list += text(list.empty() ? "" : ", ", i);
  return Phrase{text(axis.many, ' ', list, " of ", axis.extent), indices.size()};
}

/// "every 8th value dimension from 3 to 59 of 64"
std::optional<Phrase> as_progression(const NamedAxis& axis, const Indices& indices) {
  int step = 0;
  for (const int i : indices) step = std::gcd(step, i - indices.front());
  if (step < 2 || indices.size() < 3) return {};
  const int count = (indices.back() - indices.front()) / step + 1;
  const char* th = step % 10 == 2 && step % 100 != 12   ? "nd "
                   : step % 10 == 3 && step % 100 != 13 ? "rd "
                   : step % 10 == 1 && step % 100 != 11 ? "st "
                                                        : "th ";
  return Phrase{
      text("every ", step, th, axis.one, " from ", indices.front(), " to ", indices.back(), " of ", axis.extent),
      static_cast<std::size_t>(count)};
}

/// "positions 48..63 of every chunk of 64 tokens"
std::optional<Phrase> as_positions(const NamedAxis& axis, const Indices& indices) {
  if (axis.chunk == 0) return {};
  Indices positions;
  for (const int i : indices) positions.push_back(i % axis.chunk);
  const auto [low, high] = std::minmax_element(positions.begin(), positions.end());
  const int first = indices.front() / axis.chunk, last = indices.back() / axis.chunk;
  // Positions all over the chunk say nothing.
  if (first == last || *high - *low + 1 > axis.chunk / 2) return {};
  std::size_t covers = 0;
  for (int i = first * axis.chunk; i < std::min(axis.extent, (last + 1) * axis.chunk); ++i)
    if (i % axis.chunk >= *low && i % axis.chunk <= *high) ++covers;
  // The last chunk may be too short to have them.
  const bool every = first == 0 && (last + 1) * axis.chunk + *low >= axis.extent;
  return Phrase{
      text(*low == *high ? "position " : "positions ", from_to(*low, *high), " of ",
           every ? "every chunk of " : text("chunks ", from_to(first, last), " of "), axis.chunk, ' ', axis.many),
      covers};
}

/// The indices along an axis by sequence, counted from its own first.
std::map<int, Indices> by_sequence(const NamedAxis& axis, const Indices& indices) {
  std::map<int, Indices> own;
  for (const int i : indices) {
    const auto next = std::upper_bound(axis.borders.begin(), axis.borders.end(), i);
    own[static_cast<int>(next - axis.borders.begin()) - 1].push_back(i - *(next - 1));
  }
  return own;
}

/// "sequence 4 of 5", "tokens 3..9 of 40 in sequence 4 of 5", "the last token of all sequences"; nothing where the
/// sequences of an axis say no more than its indices.
std::optional<std::string> in_sequences(const NamedAxis& axis, const Indices& indices) {
  const int count = static_cast<int>(axis.borders.size()) - 1;
  if (count < 2 || static_cast<int>(indices.size()) == axis.extent) return {};
  const std::map<int, Indices> own = by_sequence(axis, indices);
  const auto length = [&](int n) {
    return axis.borders[static_cast<std::size_t>(n) + 1] - axis.borders[static_cast<std::size_t>(n)];
  };
  const auto all = [&](const auto& holds) {
    return std::all_of(own.begin(), own.end(), [&](const auto& one) { return holds(one.first, one.second); });
  };
  Indices touched;
  for (const auto& [n, place] : own) touched.push_back(n);
  const std::string sequences = describe({"sequence", "sequences", count}, touched);
  if (all([&](int n, const Indices& place) { return static_cast<int>(place.size()) == length(n); })) return sequences;
  const Indices& first = own.begin()->second;
  if (touched.size() == 1) {
    const NamedAxis alone{axis.one, axis.many, length(touched.front()), axis.chunk, axis.has_tail};
    return describe(alone, first) + " in " + sequences;
  }
  const bool gapless = first.back() - first.front() + 1 == static_cast<int>(first.size());
  if (gapless && all([&](int, const Indices& place) { return place == first; }))
    return text(first.size() == 1 ? axis.one : axis.many, ' ', from_to(first.front(), first.back()), " of ", sequences);
  if (all([&](int n, const Indices& place) { return place.size() == 1 && place.front() == length(n) - 1; }))
    return text("the last ", axis.one, " of ", sequences);
  return {};
}

}  // namespace

std::vector<NamedAxis> named_axes(const RoomFacts::Ranked& ranked, const std::vector<int>& shape, int batch) {
  std::vector<NamedAxis> axes;
  if (ranked.field.place == Field::Place::param || shape.empty()) return axes;
  const bool own = ranked.field.heads == Field::Heads::own;
  axes.push_back({"sequence", "sequences", batch});
  axes.push_back({own ? "head" : "key/value head", own ? "heads" : "key/value heads", shape[0] / batch});
  for (std::size_t a = 1; a < shape.size(); ++a) {
    const Axis axis = a <= ranked.field.axes.size() ? ranked.field.axes[a - 1] : Axis::tail_len;
    switch (axis) {
      case Axis::query_len:
        axes.push_back({"query", "queries", shape[a], usual_chunk, true});
        break;
      case Axis::seq_len:
        axes.push_back({"token", "tokens", shape[a], usual_chunk, true});
        break;
      case Axis::key_dim:
        axes.push_back({"key dimension", "key dimensions", shape[a], 0, true});
        break;
      case Axis::value_dim:
        axes.push_back({"value dimension", "value dimensions", shape[a], 0, true});
        break;
      case Axis::model_dim:
        axes.push_back({"model dimension", "model dimensions", shape[a], 0, true});
        break;
      case Axis::tail_len:
      case Axis::final_tail_len:
        if (a <= ranked.field.axes.size() && ranked.field.name.find("tail") != std::string_view::npos)
          axes.push_back({"pair of the tail", "pairs of the tail", shape[a], 0, true});
        else  // of a program, as its files count
          axes.push_back({text("index of axis ", a + 2), text("indices of axis ", a + 2), shape[a], 0, true});
        break;
    }
  }
  return axes;
}

Deviations deviations_of(const Expected& expected, const std::vector<double>& got) {
  Deviations d;
  for (std::size_t i = 0; i < got.size(); ++i) {
    d.z.push_back(z_at(expected, got, i));
    d.failing.push_back(!(excess_at(expected, got, i) <= 1));
  }
  d.mean_square_limit = expected.rms_limit * expected.rms_limit;
  return d;
}

std::vector<std::vector<int>> wrong_indices(const std::vector<NamedAxis>& axes, const Deviations& deviations) {
  std::vector<Indices> box;
  std::size_t elements = 1;
  for (const NamedAxis& axis : axes) {
    box.push_back(every_index(axis));
    elements *= static_cast<std::size_t>(axis.extent);
  }
  require(elements == deviations.z.size() && elements == deviations.failing.size(), "expected ", elements,
          " elements, got ", deviations.z.size());
  std::vector<char> settled(axes.size());
  for (std::size_t round = 0; round < axes.size(); ++round) {
    const std::vector<Slices> slices = slices_of(axes, deviations, box);
    double share = std::numeric_limits<double>::infinity();
    std::size_t clearest = 0;
    Indices indices;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      if (settled[a] != 0) continue;
      Indices wrong = wrong_in(slices[a], deviations.mean_square_limit);
      if (wrong.empty()) wrong = box[a];
      const double of_all = static_cast<double>(wrong.size()) / axes[a].extent;
      if (of_all < share) share = of_all, clearest = a, indices = std::move(wrong);
    }
    settled[clearest] = 1, box[clearest] = std::move(indices);
  }
  return box;
}

std::string describe(const NamedAxis& axis, const std::vector<int>& indices) {
  require(!indices.empty(), "no ", axis.one, " to describe");
  if (const auto found = in_sequences(axis, indices)) return *found;
  Phrase best = as_range(axis, indices);
  if (best.covers > indices.size())
    for (const std::optional<Phrase>& other :
         {as_positions(axis, indices), as_progression(axis, indices), as_list(axis, indices)})
      if (other && other->covers < best.covers) best = *other;
  return best.text + (best.covers > indices.size() ? text(" (", indices.size(), " of ", best.covers, ")") : "");
}

std::string locate(const std::vector<NamedAxis>& axes, const Deviations& deviations) {
  const std::vector<std::vector<int>> wrong = wrong_indices(axes, deviations);
  std::string where;
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (axes[a].extent > 1) where += (where.empty() ? "" : ", ") + describe(axes[a], wrong[a]);
  if (where.empty()) return "the number itself";
  const auto beyond =
      std::count_if(deviations.failing.begin(), deviations.failing.end(), [](char f) { return f != 0; });
  return where + (beyond == 0 ? "; no element alone is beyond its limit"
                              : text("; ", beyond, " of ", deviations.z.size(), " elements beyond their limits"));
}

}  // namespace assay
