#include "reference/core/inputs.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <span>

#include "reference/core/parse_number.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

struct StyleText {
  std::string_view name, summary;
};

/// In the order of Style.
constexpr StyleText style_texts[] = {
    {"normal", "independent standard normals; unit-norm queries and keys where the rule is a delta rule"},
    {"unit_keys", "keys of norm 1"},
    {"correlated_keys", "keys around one direction, mean cosine 0.9"},
    {"nearly_parallel_keys", "keys around one direction, mean cosine 0.99"},
    {"repeated_keys", "about sqrt(T) distinct keys, each met again and again with other values"},
    {"outlier_channels", "one key channel in 16 is 16 times larger, one value channel in 16 is 32 times larger"},
    {"rising_scores", "scores rise by 1/32 per key, so that every tile moves the running maximum"},
    {"long_memory", "log decays about -1e-3: the state remembers a thousand steps"},
    {"dead_memory", "log decays about -10: the state forgets at once"},
    {"gate_ends", "write strengths 0 or 1; log decays 0, -2^-20 or, now and then, -128, which is zero in fp32"},
    {"cancelling_values", "keys in equal pairs whose values cancel to a sixteenth"},
    {"subnormals", "every other value channel lies below the smallest normal number"},
    {"integers", "small integers: every product and partial sum is exact, so correct kernels agree to the bit"},
    {"ill_conditioned", "key matrices with singular values in geometric progression from 1 to 1e-3, before rounding"},
    {"dyadic", "integers and short fractions: gates closed or open, four keys met again and again, states of 12 bits"},
    {"slow_writes", "a large state, and writes of 2^-16 that all go one way: what a narrow state never takes up"},
    {"predicted_values",
     "an initial state of small integers, and values that it predicts but for what rounding leaves"},
    {"mixed_gates",
     "log decays of every size side by side, one in eight from -0.5 to -4096; write strengths from 0 to 1, both met"},
};
static_assert(std::size(style_texts) == std::size(all_styles));

/// The words between commas.
std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    words.push_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) return words;
    rest.remove_prefix(comma + 1);
  }
}

using Row = std::span<double>;
using ConstRow = std::span<const double>;

double dot(ConstRow a, ConstRow b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void scale(Row row, double factor) {
  for (double& x : row) x *= factor;
}

void add(Row row, double factor, ConstRow other) {
  for (std::size_t i = 0; i < row.size(); ++i) row[i] += factor * other[i];
}

/// A zero row stays zero.
void set_length(Row row, double length) {
  const double norm = std::sqrt(dot(row, row));
  if (norm > 0) scale(row, length / norm);
}

void project_out(Row row, ConstRow unit) { add(row, -dot(row, unit), unit); }

/// Row-major position of element `inner` of `extent` within `outer`.
std::uint64_t flat(std::uint64_t outer, int extent, int inner) {
  return outer * static_cast<std::uint64_t>(extent) + static_cast<std::uint64_t>(inner);
}

/// One head's rows of a tensor and the position of the first; what has fewer axes is one row.
struct Rows {
  Row all;
  std::uint64_t first;
  int count, width;
  Row operator[](int i) const {
    const auto n = static_cast<std::size_t>(width);
    return all.subspan(static_cast<std::size_t>(i) * n, n);
  }
  /// The position of row i in the tensor.
  std::uint64_t at(int i) const { return first + static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(width); }
};

/// `count` orthonormal vectors of `length` >= count entries, by Gram-Schmidt, twice.
std::vector<std::vector<double>> orthonormal(const Stream& stream, int head, int count, int length) {
  std::vector<std::vector<double>> basis;
  for (int c = 0; c < count; ++c) {
    std::vector<double> next(static_cast<std::size_t>(length));
    for (int i = 0; i < length; ++i)
      next[static_cast<std::size_t>(i)] =
          stream.normal(flat(flat(static_cast<std::uint64_t>(head), count, c), length, i));
    for (int pass = 0; pass < 2; ++pass)
      for (const auto& previous : basis) project_out(next, previous);
    set_length(next, 1);
    basis.push_back(std::move(next));
  }
  return basis;
}

/// `count` numbers in geometric progression from 1 to `last`.
std::vector<double> geometric(int count, double last) {
  double ratio = 1;
  // Newton's method for ratio^(count - 1) = last, from above: it descends to the root and stays.
  for (int step = 0; count > 1 && step < 64; ++step) {
    double power = 1;  // ratio^(count - 2)
    for (int i = 2; i < count; ++i) power *= ratio;
    ratio -= (power * ratio - last) / ((count - 1) * power);
  }
  std::vector<double> numbers{1};
  while (static_cast<int>(numbers.size()) < count) numbers.push_back(numbers.back() * ratio);
  return numbers;
}

/// Which keys stand for which in exact attention. A key's code is written in pairs of channels, (1, 0) or (0, 1), and
/// a query is minus the complement of its target's code: the score is minus the number of differing bits over the
/// bandwidth, 0 at the target and at most -128 elsewhere. Two neighbours share a code, so that weights are 0 and 1 or
/// 1/2 and 1/2, and a mask one key too wide shows. Queries are zero in the channels left over.
/// Where the channels cannot tell all keys apart, keys and their values repeat with the period of the codes.
class Codes {
 public:
  Codes(std::uint64_t seed, const Shape& shape)
      : mask_(seed, "codes/mask"),
        rest_(seed, "codes/rest"),
        pairs_((shape.key_dim - 1) / 2),
        twins_((shape.seq_len - 1) / 2 < distinct()),
        count_(twins_ ? (shape.seq_len - 1) / 2 + 1 : distinct()),
        bits_(static_cast<int>(std::bit_width(static_cast<unsigned>(count_ - 1)))) {}

  int pairs() const { return pairs_; }
  /// The key that key j repeats: j itself, if there are channels enough.
  int source(int j) const { return twins_ ? j : j % count_; }
  /// The code bit of key j in the given pair of channels.
  bool bit(int group, int j, int pair) const {
    const int code = twins_ ? j / 2 : j % count_;
    const auto g = static_cast<std::uint64_t>(group);
    if (pair < bits_) return ((code >> pair) & 1) != mask_.integer(flat(g, pairs_, pair), 2);
    return rest_.integer(flat(flat(g, count_, code), pairs_, pair), 2) != 0;
  }

 private:
  int distinct() const { return 1 << std::min(pairs_, 30); }

  Stream mask_, rest_;
  int pairs_;
  bool twins_;
  int count_, bits_;  // of the codes; the pairs beyond bits_ are random
};

class Generator {
 public:
  Generator(const CaseSpec& spec, const RoomFacts& room)
      : spec_(spec),
        room_(room),
        codes_(spec.seed, spec.shape),
        dyadic_(spec.style == Style::dyadic),
        integers_(spec.style == Style::integers || dyadic_),
        averages_(find_field(room.outputs, "final_gram") == nullptr),
        root_key_dim_(std::sqrt(static_cast<double>(spec.shape.key_dim))) {
    for (const auto& [field, rank] : room.inputs) {
      softmax_ |= field.domain == Domain::bandwidth;
      delta_ |= field.domain == Domain::write_strength;
      momentum_ |= field.domain == Domain::gradient_weight;
      normalized_ |= field.domain == Domain::gain;
      solves_ |= field.domain == Domain::ridge;
      starts_ |= field.domain == Domain::state;
    }
    solves_ = solves_ && !normalized_ && !softmax_;
    averages_ = averages_ && !starts_;
  }

  Array input(const Field& field, int rank) const {
    Array array = blank(field, rank);
    for (int head = 0; head < array.shape[0]; ++head) fill(field, head, rows_of(array, head));
    if (field.missing == Field::Missing::worked_out) take_typed(field.name, *spec_.asked(field.name), array);
    return rounded(std::move(array), format_of(field.domain));
  }

  Array cotangent(const Field& field, int rank) const {
    Array array = blank(field, rank);
    const Stream stream = named("d_", field.name);
    for (std::size_t i = 0; i < array.data.size(); ++i)
      array.data[i] = integers_ ? small_integer(stream, i) : stream.normal(i);
    // A key's gradient sums the quotients of later rows: only rows with exact quotients keep their cotangents.
    if (dyadic_ && !softmax_ && !starts_ && field.name == "o")
      for (int head = 0; head < array.shape[0]; ++head) {
        const Rows rows = rows_of(array, head);
        for (int i = 0; i < rows.count; ++i) {
          const bool exact = !averages_ || std::has_single_bit(static_cast<unsigned>(i + 1));
          if (solves_ || !exact)
            keep_one(rows[i], exact ? spread(2 * stream.integer(rows.at(i), 4), rows.width) / 2 : -1);
        }
      }
    return rounded(std::move(array), spec_.precision);
  }

  double parameter(const Field& field) const {
    double x = 1 / root_key_dim_;
    switch (field.domain) {
      case Domain::bandwidth:
        x = integers_ ? 0x1p-7 : spec_.style == Style::unit_keys ? 0.5 : root_key_dim_;
        break;
      case Domain::regularizer:
        x = !dyadic_ || softmax_ ? 0x1p-10 : normalized_ && field.name == "eps" ? 0 : 1;
        break;
      case Domain::decay_floor:
        x = 0x1p-4;
        break;
      case Domain::temperature:
        x = 4;
        break;
      default:
        if (integers_)
          for (x = 1; x * x * spec_.shape.key_dim > 1;) x /= 2;
    }
    return round_to(x, format_of(field.domain));
  }

 private:
  template <class... Parts>
  Stream named(const Parts&... parts) const {
    return {spec_.seed, text(parts...)};
  }

  /// The size of a write that takes a state where it goes in 2^16 tokens.
  static constexpr double slow = 0x1p-16;
  /// A log decay of which the exponential is zero in every format.
  static constexpr double closed = -2048;

  static int small_integer(const Stream& stream, std::uint64_t index) { return stream.integer(index, 5) - 2; }

  Format format_of(Domain domain) const { return assay::format_of(domain, spec_.precision); }

  /// One number for all heads, or one for each head of a sequence; "" leaves the drawn ones.
  void take_typed(std::string_view name, std::string_view typed, Array& array) const {
    if (typed.empty()) return;
    std::vector<double> numbers;
    for (const std::string_view word : split_at_commas(typed)) {
      const auto x = parse_number<double>(word);
      require(x.has_value(), "--with: ", name, ": '", word, "' is no number");
      numbers.push_back(*x);
    }
    const auto heads = static_cast<std::size_t>(spec_.shape.heads);
    require(numbers.size() == 1 || numbers.size() == heads, "--with: ", name, ": expected one number or ", heads,
            ", got ", numbers.size());
    for (std::size_t h = 0; h < array.data.size(); ++h) array.data[h] = numbers[h % numbers.size()];
  }

  static Array rounded(Array array, Format format) {
    round_span(array.data.data(), array.data.size(), format);
    return array;
  }

  int length(Axis axis) const {
    const Shape& s = spec_.shape;
    switch (axis) {
      case Axis::query_len:
        return s.queries();
      case Axis::seq_len:
        return s.seq_len;
      case Axis::key_dim:
        return s.key_dim;
      case Axis::value_dim:
        return s.value_dim;
      case Axis::model_dim:
        return s.key_dim + 1;  // a matrix that is read transposed must show
      case Axis::tail_len:
        return room_.tail_len;
      case Axis::final_tail_len:
        break;
    }
    return room_.final_tail_len;
  }

  Array blank(const Field& field, int rank) const {
    std::vector<int> shape{field.heads == Field::Heads::own ? spec_.shape.own() : spec_.shape.shared()};
    // A broadcast input comes in every kind, by the seed.
    const int axes = field.broadcasts ? named(field.name, "/axes").integer(0, rank + 1) : rank;
    for (int r = 0; r < axes; ++r) shape.push_back(length(field.axes[static_cast<std::size_t>(r)]));
    return Array(std::move(shape));
  }

  static Rows rows_of(Array& array, int head) {
    const std::vector<int>& s = array.shape;
    const std::size_t size = array.data.size() / static_cast<std::size_t>(s[0]),
                      first = size * static_cast<std::size_t>(head);
    return {Row(array.data).subspan(first, size), first, s.size() > 2 ? s[1] : 1, s.size() > 1 ? s.back() : 1};
  }

  /// The shared head that goes with a head of `field`.
  int group_of(const Field& field, int head) const {
    return field.heads == Field::Heads::shared ? head : head / (spec_.shape.own() / spec_.shape.shared());
  }

  void fill(const Field& field, int head, const Rows& rows) const {
    const int group = group_of(field, head);
    const Stream stream = named(field.name);
    if (dyadic_ && !softmax_) return fill_dyadic(field, head, rows);
    if (integers_) return fill_integers(field.domain, group, rows, stream);
    for (std::size_t i = 0; i < rows.all.size(); ++i) rows.all[i] = draw(field.domain, stream, rows.first + i);
    switch (field.domain) {
      case Domain::query:
        return shape_queries(group, rows);
      case Domain::key:
        shape_keys(field, head, rows);
        if (momentum_ && field.name == "p") return follow_written_keys(field, head, rows);
        return;
      case Domain::value:
        if (spec_.style == Style::cancelling_values) cancel(rows);
        if (spec_.style == Style::slow_writes) go_one_way(group, rows);
        if (predicts() && field.name == "v") predict(head, rows);
        return scale_value_channels(rows);
      case Domain::state:
        return scale_value_channels(rows);
      case Domain::log_decay:
        if (momentum_ && field.name == "log_mu")
          for (std::size_t i = 0; i < rows.all.size(); ++i)
            rows.all[i] = log_momentum_decay(stream.uniform(rows.first + i));
        if (field.missing == Field::Missing::worked_out)
          rows.all[0] = log_decay(stream.uniform(rows.first), log_decay_of(head % spec_.shape.heads));
        return;
      default:
        return;
    }
  }

  double draw(Domain domain, const Stream& stream, std::uint64_t index) const {
    switch (domain) {
      case Domain::probe:
        return stream.normal(index) / root_key_dim_;
      case Domain::state:
        if (predicts()) return stream.integer(index, 15) - 7;  // every format holds it
        return (spec_.style == Style::slow_writes ? 1 : 0.1) * stream.normal(index);
      case Domain::write_strength:
        if (spec_.style == Style::slow_writes && !momentum_) return slow * (0.5 + stream.uniform(index));
        if (spec_.style == Style::mixed_gates) return with_ends(stream.uniform(index));
        return spec_.style == Style::gate_ends ? stream.integer(index, 2) : stream.uniform(index);
      case Domain::log_decay:
        return log_decay(stream.uniform(index));
      case Domain::ridge:
        return 0x1p-4 + stream.uniform(index);
      case Domain::gain:
        if (spec_.style == Style::slow_writes) return slow * (0.5 + stream.uniform(index));
        return spec_.style == Style::gate_ends ? 0x1p-4 + 1.875 * stream.integer(index, 2)
                                               : 0.125 + 1.75 * stream.uniform(index);
      case Domain::gradient_weight:
        if (spec_.style == Style::slow_writes) return slow * (0.5 + stream.uniform(index));
        return 0.25 + 1.5 * stream.uniform(index);
      case Domain::decay_fraction:
        return decay_fraction(stream.uniform(index));
      case Domain::normalizer:
        return 0.5 + stream.uniform(index);
      case Domain::weight:
        return stream.normal(index) / root_key_dim_;
      case Domain::bandwidth:
        return root_key_dim_ * (0.5 + stream.uniform(index));
      default:
        return stream.normal(index);
    }
  }

  /// One number in eight is zero or one.
  static double with_ends(double u) { return u < 0.0625 || u >= 0.9375 ? std::round(u) : u; }

  /// Whether that one of mixed gates is strong.
  bool is_strong(double u) const { return spec_.style == Style::mixed_gates && u >= 0.875; }

  /// As often in one binade as in the next, from -0.5 to -4096.
  static double strong_decay(double u) {
    constexpr int binades = 13;
    const double at = binades * (8 * u - 7), whole = std::floor(at);
    return -std::ldexp(1 + (at - whole), static_cast<int>(whole) - 1);
  }

  double log_decay(double u) const {
    return log_decay(u, -(1e-3 + 0.199 * u * u * u));  // cubed: what a chunk of 64 carries over must stay visible
  }

  /// log(1 - x) with x = 2^{-5-head}, RetNet's, by the terms of its series that a double holds: libm differs.
  static double log_decay_of(int head) {
    constexpr int terms = 12;
    const double x = std::ldexp(1.0, -5 - head);
    double sum = 0;
    for (int n = terms; n > 0; --n) sum = x * (1.0 / n + sum);
    return -sum;
  }

  /// `usual` where the style names no decay.
  double log_decay(double u, double usual) const {
    if (predicts()) return -slow * (0.5 + u);
    if (is_strong(u)) return strong_decay(u);
    switch (spec_.style) {
      case Style::long_memory:
        return -1e-3 * (0.5 + u);
      case Style::slow_writes:
        return -slow * (0.5 + u);
      case Style::dead_memory:
        return -10 * (0.9 + 0.2 * u);
      case Style::gate_ends:
        return u < 0.5 ? 0 : u < 1 - 0x1p-6 ? -0x1p-20 : -128;
      default:
        return usual;
    }
  }

  /// A write goes on along the momentum for 1 / (1 - mu) tokens. Where that times beta eta is more than about 2, steps
  /// overshoot and states grow from token to token, past fp16's range within 257 tokens at mu = 0.95: so momenta are
  /// short.
  double log_momentum_decay(double u) const {
    if (is_strong(u)) return strong_decay(u);
    switch (spec_.style) {
      case Style::dead_memory:
        return log_decay(u);
      case Style::gate_ends:
        return u < 0.25 ? 0 : u < 1 - 0x1p-6 ? -1 : -128;
      default:
        return -(0.25 + u);
    }
  }

  double decay_fraction(double u) const {
    if (is_strong(u)) return 0.5 + 3.5 * (u - 0.875);
    switch (spec_.style) {
      case Style::long_memory:
        return 1e-3 * (0.5 + u);
      case Style::slow_writes:
        return slow * (0.5 + u);
      case Style::dead_memory:
        return 0.9375;
      case Style::gate_ends:
        return u < 0.5 ? 0 : 0.9375;
      default:
        return 1e-3 + 0.199 * u * u * u;
    }
  }

  /// The direction that the keys of one shared head have in common.
  std::vector<double> direction(int group) const {
    std::vector<double> unit(static_cast<std::size_t>(spec_.shape.key_dim));
    const Stream stream = named("keys/direction");
    for (int x = 0; x < spec_.shape.key_dim; ++x)
      unit[static_cast<std::size_t>(x)] =
          stream.normal(flat(static_cast<std::uint64_t>(group), spec_.shape.key_dim, x));
    set_length(unit, 1);
    return unit;
  }

  void shape_queries(int group, const Rows& q) const {
    if (spec_.style == Style::rising_scores) {
      const std::vector<double> unit = direction(group);
      for (int i = 0; i < q.count; ++i) {
        project_out(q[i], unit);
        add(q[i], root_key_dim_, unit);
      }
    }
    if (delta_)
      for (int i = 0; i < q.count; ++i) set_length(q[i], 1);
  }

  void shape_keys(const Field& field, int head, const Rows& k) const {
    const int group = group_of(field, head);
    switch (spec_.style) {
      case Style::correlated_keys:
      case Style::slow_writes:
        correlate(k, direction(group), 0.9);
        break;
      case Style::nearly_parallel_keys:
        correlate(k, direction(group), 0.99);
        break;
      case Style::repeated_keys:
        repeat(named(field.name, "/choice"), group, k);
        break;
      case Style::outlier_channels:
        scale_outliers(k, 16);
        break;
      case Style::rising_scores:
        rise(k, direction(group));
        break;
      case Style::cancelling_values:
        for (int i = 1; i < k.count; i += 2) std::ranges::copy(k[i - 1], k[i].begin());
        break;
      case Style::ill_conditioned:
        return spread_spectrum(field, head, k);
      default:
        break;
    }
    if (delta_ || spec_.style == Style::unit_keys)
      for (int i = 0; i < k.count; ++i) set_length(k[i], 1);
  }

  /// With momentum, errors read by a key that has nothing to do with the written one grow from token to token: instead,
  /// the written key and a quarter of its length beside it.
  void follow_written_keys(const Field& field, int head, const Rows& p) const {
    std::vector<double> written(p.all.size());
    const Rows k{Row(written), p.first, p.count, p.width};
    Field of_k = field;
    of_k.name = "k";
    fill(of_k, head, k);
    scale(p.all, 0.25);
    for (int i = 0; i < p.count; ++i) add(p[i], 1, k[i]);
  }

  /// Rows of norm K^{1/2} whose cosine with `unit` is cosine^{1/2}, independent otherwise.
  void correlate(const Rows& k, ConstRow unit, double cosine) const {
    for (int i = 0; i < k.count; ++i) {
      project_out(k[i], unit);
      set_length(k[i], std::sqrt(1 - cosine));
      add(k[i], std::sqrt(cosine), unit);
      scale(k[i], root_key_dim_);
    }
  }

  void repeat(const Stream& choice, int group, const Rows& k) const {
    int distinct = 1;
    while (distinct * distinct < spec_.shape.seq_len) ++distinct;
    const Stream pool = named("keys/pool");
    for (int i = 0; i < k.count; ++i) {
      const std::uint64_t chosen = flat(static_cast<std::uint64_t>(group), distinct, choice.integer(k.at(i), distinct));
      for (int x = 0; x < k.width; ++x) k[i][static_cast<std::size_t>(x)] = pool.normal(flat(chosen, k.width, x));
    }
  }

  /// The noise between neighbours stays well below the rise over a tile of 64 keys.
  static void rise(const Rows& k, ConstRow unit) {
    for (int i = 0; i < k.count; ++i) {
      project_out(k[i], unit);
      scale(k[i], 0.25);
      add(k[i], i * 0x1p-5, unit);
    }
  }

  /// k = U diag(sigma) Q^T, scaled as a whole: to rows of norm at most 1 in a delta rule, to unit mean square
  /// elsewhere.
  void spread_spectrum(const Field& field, int head, const Rows& k) const {
    const int rank = std::min(k.count, k.width);
    const auto left = orthonormal(named(field.name, "/left"), head, rank, k.count);
    const auto right = orthonormal(named(field.name, "/right"), head, rank, k.width);
    const std::vector<double> sigma = geometric(rank, 1e-3);
    std::ranges::fill(k.all, 0.0);
    for (std::size_t c = 0; c < sigma.size(); ++c)
      for (int i = 0; i < k.count; ++i) add(k[i], sigma[c] * left[c][static_cast<std::size_t>(i)], right[c]);
    double longest = 0;
    for (int i = 0; i < k.count; ++i) longest = std::max(longest, dot(k[i], k[i]));
    if (delta_)
      scale(k.all, 1 / std::sqrt(longest));
    else
      set_length(k.all, std::sqrt(static_cast<double>(k.all.size())));
  }

  /// Values around one row. Where no step size makes the writes small, values do.
  void go_one_way(int group, const Rows& v) const {
    const Stream stream = named("values/common");
    const double size = starts_ && !delta_ && !normalized_ ? slow : 1;
    for (int i = 0; i < v.count; ++i)
      for (int x = 0; x < v.width; ++x) {
        double& value = v[i][static_cast<std::size_t>(x)];
        value = size * (stream.normal(flat(static_cast<std::uint64_t>(group), v.width, x)) + 0.25 * value);
      }
  }

  /// Whether values are to be what a state reads: a delta rule corrects by what is left of them.
  bool predicts() const { return spec_.style == Style::predicted_values && delta_ && !momentum_; }

  /// The input of this name; null if the room has none.
  const Field* input_named(std::string_view name) const {
    const auto it = std::ranges::find(room_.inputs, name, [](const RoomFacts::Ranked& r) { return r.field.name; });
    return it == room_.inputs.end() ? nullptr : &it->field;
  }

  /// Values that the initial state reads by their keys. Rounded, they are off by half a spacing at most: that much is
  /// left to write, and nothing where the read is rounded before it is subtracted.
  void predict(int head, const Rows& v) const {
    const Field *key = input_named("k"), *state = input_named("initial_state");
    if (key == nullptr || state == nullptr || state->axes != std::array{Axis::key_dim, Axis::value_dim}) return;
    const int K = spec_.shape.key_dim, group = head / (spec_.shape.own() / spec_.shape.shared()),
              of_key = key->heads == Field::Heads::shared ? group : head;
    std::vector<double> keys(static_cast<std::size_t>(v.count) * static_cast<std::size_t>(K)),
        states(static_cast<std::size_t>(K) * static_cast<std::size_t>(v.width));
    const Rows k{Row(keys), flat(static_cast<std::uint64_t>(of_key), v.count * K, 0), v.count, K},
        S{Row(states), flat(static_cast<std::uint64_t>(head), K * v.width, 0), K, v.width};
    fill(*key, of_key, k), fill(*state, head, S);
    std::ranges::fill(v.all, 0.0);
    for (int i = 0; i < v.count; ++i)
      for (int x = 0; x < K; ++x) add(v[i], k[i][static_cast<std::size_t>(x)], S[x]);
  }

  static void cancel(const Rows& v) {
    for (int i = 1; i < v.count; i += 2) {
      scale(v[i], 0x1p-4);
      add(v[i], -1, v[i - 1]);
    }
  }

  /// The channels that a style sets apart, in values and states alike.
  void scale_value_channels(const Rows& rows) const {
    if (spec_.style == Style::outlier_channels) scale_outliers(rows, 32);
    if (spec_.style != Style::subnormals) return;
    const FormatInfo format = info(spec_.precision);
    const double smallest_normal = format.min_positive * static_cast<double>(1LL << format.mantissa_bits);
    for (int i = 0; i < rows.count; ++i)
      for (std::size_t x = 1; x < rows[i].size(); x += 2) rows[i][x] *= smallest_normal / 8;
  }

  void scale_outliers(const Rows& rows, double factor) const {
    constexpr int period = 16;
    const int first = named("outliers").integer(0, std::min(period, rows.width));
    for (int i = 0; i < rows.count; ++i)
      for (int x = first; x < rows.width; x += period) rows[i][static_cast<std::size_t>(x)] *= factor;
  }

  void fill_integers(Domain domain, int group, const Rows& rows, const Stream& stream) const {
    const bool paired = softmax_ && (domain == Domain::key || domain == Domain::value);
    for (int i = 0; i < rows.count; ++i) {
      const std::uint64_t at = rows.at(paired ? codes_.source(i) : i);
      const Row row = rows[i];
      for (std::size_t x = 0; x < row.size(); ++x) row[x] = integer(domain, stream, at + x);
      if (domain == Domain::query && softmax_) aim(row, group, target(i, at));
      if (domain == Domain::key && softmax_) encode(row, group, i);
      if (domain == Domain::key && delta_ && !softmax_) one_hot(row, stream.integer(at, 2 * rows.width));
    }
  }

  static int integer(Domain domain, const Stream& stream, std::uint64_t index) {
    switch (domain) {
      case Domain::key:
      case Domain::probe:
        return stream.integer(index, 3) - 1;
      case Domain::value: {  // never 0: an output of 0 must be earned
        const int x = stream.integer(index, 8);
        return x < 4 ? x - 4 : x - 3;
      }
      case Domain::write_strength:
        return stream.integer(index, 2);
      case Domain::log_decay:
      case Domain::decay_fraction:
        return 0;
      case Domain::ridge:
      case Domain::gain:
      case Domain::gradient_weight:
      case Domain::normalizer:
        return 1;
      default:
        return small_integer(stream, index);
    }
  }

  /// Numbers of few bits whose products stay exact for some dozens of tokens, in rooms without a softmax. Keys have one
  /// entry, in one of four channels, so that no two channels mix; the others keep what they start with.
  void fill_dyadic(const Field& field, int head, const Rows& rows) const {
    const int group = group_of(field, head);
    const Stream stream = named(field.name);
    for (int i = 0; i < rows.count; ++i) {
      const std::uint64_t at = rows.at(i);
      const Row row = rows[i];
      for (std::size_t x = 0; x < row.size(); ++x) row[x] = fraction(field.domain, stream, at + x);
      // A quotient by what is in one channel is exact where that is a power of two.
      if (field.domain == Domain::query && divides()) one_hot(row, stream.integer(at, 2 * rows.width));
      if (field.domain == Domain::key) one_hot(row, spread(met(field, group, i), rows.width));
      if (field.domain == Domain::value && solves_) keep_one(row, spread(met(field, group, i), rows.width) / 2);
    }
    // A ragged tile that forgets its end shows it where its last gate is closed: in every second head.
    if (field.domain == Domain::log_decay && head % 2 == 1) rows.all.back() = closed;
  }

  /// Reads are divided by a sum of weights, or by a sum of squared keys.
  bool divides() const { return solves_ || room_.optional_outputs; }

  /// Twice one of four channels, plus 1 for a key of -1. Momenta predict by the keys that they write: others make
  /// states grow, and their bits. Where a system is solved or rows divide by their number, keys come in pairs that
  /// cancel, so that their mean is 0 every second row; and where a system is solved, a value has one entry, which goes
  /// with its key's.
  int met(const Field& field, int group, int i) const {
    const bool of_key = (momentum_ && field.name == "p") || field.domain == Domain::value;
    const Stream stream = named(of_key ? "k" : field.name, "/met");
    const auto token = [&](int t) { return flat(static_cast<std::uint64_t>(group), spec_.shape.seq_len, t); };
    if (!solves_ && !averages_) return stream.integer(token(i), 8);
    return stream.integer(token(i / 2), 8) ^ (i % 2);
  }
  /// The four channels, as far apart as `width` channels let them be.
  static int spread(int met, int width) { return 2 * (met / 2 * width / 4) + met % 2; }

  static void keep_one(Row row, int kept) {
    for (int x = 0; x < static_cast<int>(row.size()); ++x)
      if (x != kept) row[static_cast<std::size_t>(x)] = 0;
  }

  /// An element. Every second write replaces what its key held, so that bits do not pile up; the others leave fractions
  /// that bf16 does not hold in a product of two. Where there is no state to start with, the values are as wide.
  double fraction(Domain domain, const Stream& stream, std::uint64_t index) const {
    const auto one_of = [&](std::initializer_list<double> list) {
      return list.begin()[stream.integer(index, static_cast<int>(list.size()))];
    };
    switch (domain) {
      case Domain::value:
        return starts_ ? integer(domain, stream, index) : twelve_bits(stream, index);
      case Domain::state:
        return twelve_bits(stream, index);
      case Domain::write_strength:
        return one_of({1, 1, 0.5, 0x55p-7});
      case Domain::gain:
        return one_of({1, 1, 1.5, 0x5Dp-7});
      case Domain::gradient_weight:
        return one_of({1, 0.5});
      case Domain::ridge:
        return normalized_ ? one_of({0, 0, 0, 3}) : 2;
      case Domain::log_decay:
        return one_of({0, 0, 0, 0, 0, 0, 0, closed});
      case Domain::decay_fraction:
        return one_of({0, 0, 0, 0, 0, 0, 0.5, 0.75});
      default:
        return integer(domain, stream, index);
    }
  }
  static int twelve_bits(const Stream& stream, std::uint64_t index) { return stream.integer(index, 4095) - 2047; }

  /// The key that query i looks for: often the newest or oldest it sees, else any it sees; -1 if it sees none.
  int target(int i, std::uint64_t at) const {
    const int keys = spec_.shape.seq_len, end = i + keys - spec_.shape.queries() + 1;
    const int last = room_.causal ? std::clamp(end, 0, keys) : keys;
    const int first = room_.window > 0 ? std::max(0, end - room_.window) : 0;
    if (first >= last) return -1;
    const int kind = named("codes/kind").integer(at, 4);
    return kind == 0 ? last - 1 : kind == 1 ? first : first + named("codes/target").integer(at, last - first);
  }

  void aim(Row q, int group, int target) const {
    std::ranges::fill(q, 0.0);
    for (int pair = 0; target >= 0 && pair < codes_.pairs(); ++pair)
      channels(q, pair)[codes_.bit(group, target, pair) ? 1 : 0] = -1;
  }

  void encode(Row k, int group, int j) const {
    for (int pair = 0; pair < codes_.pairs(); ++pair) {
      const bool bit = codes_.bit(group, j, pair);
      channels(k, pair)[0] = bit ? 1 : 0;
      channels(k, pair)[1] = bit ? 0 : 1;
    }
  }

  static Row channels(Row row, int pair) { return row.subspan(2 * static_cast<std::size_t>(pair), 2); }

  static void one_hot(Row k, int choice) {
    std::ranges::fill(k, 0.0);
    k[static_cast<std::size_t>(choice / 2)] = choice % 2 == 0 ? 1 : -1;
  }

  const CaseSpec& spec_;
  const RoomFacts& room_;
  Codes codes_;
  bool dyadic_, integers_;
  bool softmax_ = false, delta_ = false, momentum_ = false;
  bool normalized_ = false;  // steps are divided by energies
  bool solves_ = false;      // systems that keys and ridge make up
  bool starts_ = false;      // there is an initial state
  bool averages_;            // every row divides by the number of its keys
  double root_key_dim_;
};

void check(const Shape& s) {
  for (const auto& [name, n] :
       {std::pair{"B", s.batch}, {"T", s.seq_len}, {"H", s.heads}, {"K", s.key_dim}, {"V", s.value_dim}})
    require(n >= 1, "shape: ", name, " must be at least 1, got ", n);
  require(s.query_len >= 0, "shape: the number of queries must be at least 1, got ", s.query_len);
  require(s.shared_heads >= 0 && (s.shared_heads == 0 || s.heads % s.shared_heads == 0), "shape: ", s.heads,
          " heads cannot share ", s.shared_heads, " key/value heads evenly");
  require(s.heads <= std::numeric_limits<int>::max() / s.batch, "shape: B times H is too large");
}

/// All digits of `x`, so that readers of any precision read the same number.
std::string decimal(double x) {
  constexpr int most = 767;  // digits of a double
  std::array<char, most + 16> digits{};
  char* const end = std::to_chars(digits.begin(), digits.end(), x, std::chars_format::general, most).ptr;
  return {digits.begin(), end};
}

int positive(std::string_view word, std::string_view shape) {
  const auto n = parse_number<int>(word);
  require(n && *n >= 1, "shape '", shape, "': '", word, "' is not a positive integer");
  return *n;
}

}  // namespace

std::string_view name_of(Style style) { return style_texts[static_cast<std::size_t>(style)].name; }
std::string_view summary_of(Style style) { return style_texts[static_cast<std::size_t>(style)].summary; }

std::optional<Style> style_from(std::string_view name) {
  for (const Style style : all_styles)
    if (name_of(style) == name) return style;
  return std::nullopt;
}

Format format_of(Domain domain, Format precision) {
  switch (domain) {
    case Domain::query:
    case Domain::key:
    case Domain::value:
    case Domain::probe:
    case Domain::layer_input:
    case Domain::weight:
      return precision;
    default:
      return precision == Format::fp64 || precision == Format::exact ? precision : Format::fp32;
  }
}

Shape shape_from(std::string_view text) {
  std::vector<std::string_view> words = split_at_commas(text);
  if (words.size() == 4) words.push_back(words.back());
  require(words.size() == 5, "shape '", text, "': expected four or five numbers, B,T,H,d or B,T,H,K,V");
  const auto number = [&](std::string_view word) { return positive(word, text); };
  Shape s{.batch = number(words[0]),
          .seq_len = number(words[1].substr(words[1].find('/') + 1)),
          .heads = number(words[2].substr(0, words[2].find('/'))),
          .key_dim = number(words[3]),
          .value_dim = number(words[4])};
  if (const auto slash = words[1].find('/'); slash != std::string_view::npos)
    s.query_len = number(words[1].substr(0, slash));
  if (const auto slash = words[2].find('/'); slash != std::string_view::npos)
    s.shared_heads = number(words[2].substr(slash + 1));
  check(s);
  return s;
}

std::string text_of(const Shape& s) {
  const std::string queries = s.query_len > 0 ? text(s.query_len, "/") : "";
  const std::string shared = s.shared_heads > 0 ? text("/", s.shared_heads) : "";
  return text(s.batch, ",", queries, s.seq_len, ",", s.heads, shared, ",", s.key_dim, ",", s.value_dim);
}

std::string word_of(const Param& param) {
  if (const bool* flag = std::get_if<bool>(&param)) return *flag ? "true" : "false";
  if (const long* count = std::get_if<long>(&param)) return text(*count);
  return std::get<std::string>(param);
}

std::string flags_of(const Params& params) {
  std::string flags;
  for (const auto& [name, value] : params) flags += text(" --param ", name, "=", word_of(value));
  return flags;
}

std::pair<std::string, Param> param_from(std::string_view flag) {
  const std::size_t equals = flag.find('=');
  require(equals != std::string_view::npos && equals > 0 && equals + 1 < flag.size(),
          "--param: expected NAME=VALUE, got '", flag, "'");
  const std::string name(flag.substr(0, equals)), value(flag.substr(equals + 1));
  if (value == "true" || value == "false") return {name, value == "true"};
  if (const auto count = parse_number<long>(value)) return {name, *count};
  return {name, value};
}

std::string_view CaseSpec::style_name() const {
  return argument_style.empty() ? name_of(style) : std::string_view(argument_style);
}

std::string CaseSpec::repro() const {
  const std::string flags = text("--mechanism ", mechanism, " --shape ", text_of(shape), " --precision ",
                                 name_of(precision), " --style ", style_name(), " --seed ", seed);
  return flags + flags_of(params);
}

const std::string* CaseSpec::asked(std::string_view input) const {
  const auto it = std::find_if(with.begin(), with.end(), [&](const auto& one) { return one.first == input; });
  return it == with.end() ? nullptr : &it->second;
}

const RoomFacts::Ranked* find_field(const std::vector<RoomFacts::Ranked>& fields, std::string_view name) {
  const auto it = std::find_if(fields.begin(), fields.end(), [&](const auto& r) { return r.field.name == name; });
  return it == fields.end() ? nullptr : &*it;
}

bool groups_heads(const std::vector<RoomFacts::Ranked>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const RoomFacts::Ranked& r) {
    return r.field.place == Field::Place::input && r.field.heads == Field::Heads::shared;
  });
}

bool has_queries(const std::vector<RoomFacts::Ranked>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const RoomFacts::Ranked& r) {
    const auto* const end = r.field.axes.begin() + r.rank;
    return std::find(r.field.axes.begin(), end, Axis::query_len) != end;
  });
}

Problem make_problem(const CaseSpec& spec, const RoomFacts& room) {
  require(spec.mechanism == room.name, "mechanism: expected ", room.name, ", got '", spec.mechanism, "'");
  check(spec.shape);
  require(has_queries(room.inputs) || spec.shape.queries() == spec.shape.seq_len, "shape: ", room.name,
          " has one query per key");
  require(groups_heads(room.inputs) || spec.shape.shared() == spec.shape.own(), "shape: ", room.name,
          " has no grouped heads");

  const Generator generator(spec, room);
  Problem problem;
  problem.id = text(spec.mechanism, "/", name_of(spec.style), "_", spec.seed);
  problem.mechanism = spec.mechanism;
  problem.params = spec.params;
  for (const auto& [field, rank] : room.inputs) {
    const bool optional = field.missing == Field::Missing::absent;
    const bool carried = optional && (field.domain == Domain::key || field.domain == Domain::value);
    // A count is an integer; a number of the equations is digits, also where an integer was typed.
    if (const auto it = problem.params.find(field.name);
        field.place == Field::Place::param && it != problem.params.end())
      if (const long* number = std::get_if<long>(&it->second)) it->second = std::to_string(*number);
    if (field.place == Field::Place::param && !optional)
      problem.params.try_emplace(std::string(field.name), decimal(generator.parameter(field)));
    const bool normalizer = optional && field.domain == Domain::normalizer;
    const bool left_out = field.missing == Field::Missing::worked_out && spec.asked(field.name) == nullptr;
    if (field.place == Field::Place::input && !left_out && (!carried || room.continuation) &&
        (!normalizer || room.optional_outputs))
      problem.inputs.emplace(field.name, generator.input(field, rank));
    // A read normalized by features divides by sums of q.k, which a feature map keeps above zero.
    const bool feature =
        field.domain == Domain::query || field.domain == Domain::key || field.domain == Domain::normalizer;
    if (const auto it = problem.inputs.find(field.name); room.optional_outputs && feature && it != problem.inputs.end())
      for (double& x : it->second.data) x = std::fabs(x);
  }
  for (const auto& [field, rank] : room.outputs)
    if (field.missing != Field::Missing::absent || room.optional_outputs)
      problem.cotangents.emplace(field.name, generator.cotangent(field, rank));
  return problem;
}

}  // namespace assay
