#include "judge/hypotheses/attention_form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "judge/hypotheses/matrix.hpp"
#include "reference/core/inputs.hpp"

namespace assay::hypotheses {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The step that is made otherwise. Weights are P = e^(s - lse), dS = P (d_o v^T - D) with D = <d_o, o>.
struct TileTold {
  std::string_view slip;    ///< its name, by which the algorithm asks for it
  std::string_view tensor;  ///< that fails then, whatever else does
  bool by_tiles;            ///< whether the size of tiles shows
  const char *what, *mend;
  Counted counted = Counted::by_suites;

  bool is_forward() const { return tensor == "o"; }
  /// Whether it merges tiles of keys that were answered apart.
  bool merges_splits() const { return slip.starts_with("splits_"); }
};
constexpr TileTold tile_slips[] = {
    {"sums_not_rescaled", "o", true, "sums of earlier tiles not rescaled when the maximum grows",
     "multiply the accumulator by exp(old maximum - new one)"},
    {"norm_not_rescaled", "o", true, "the row's sum of earlier tiles not rescaled when the maximum grows",
     "multiply it, like the accumulator, by exp(old maximum - new one)"},
    {"half_not_rescaled", "o", true, "the second half of the accumulator's columns not rescaled when the maximum grows",
     "rescale all blocks of it"},
    {"rescaled_in_base_2", "o", true, "sums of earlier tiles rescaled by 2^(old maximum - new one)",
     "scores in base e are rescaled by exp"},
    {"last_keys_lost", "o", true, "the last, partial tile of keys left out", "divide the number of keys upwards"},
    {"masked_as_zero", "o", false, "masked scores counted as 0, not left out", "mask with -inf before the maximum"},
    {"loop_without_offset", "o", true,
     "tiles of keys beyond the query's own index left out (their number forgets Tk - Tq)",
     "query i of n sees keys 0..T - n + i"},
    {"window_of_last_row", "o", true, "tiles of keys left out that the first queries of a tile still see",
     "the first tile is that of the window of the tile's first query"},
    {"unmasked", "d_q", false, "the backward pass without the mask", "weights of keys that are not seen are 0"},
    {"base_2", "d_q", false, "the backward pass with weights 2^(s - lse)",
     "lse and scores to one base, and the exponential to the same"},
    {"unnormalised", "d_q", false, "the backward pass with the row's maximum for its lse (weights without their sum)",
     "save max + ln sum e^(s - max)"},
    {"lse_of_row_before", "d_q", false, "the backward pass with the lse of the row before", "read lse at its row"},
    {"delta_added", "d_q", false, "D = <d_o, o> added to the scores' gradient, not subtracted",
     "subtract D: P (dP - D)"},
    {"delta_unnormalised", "d_q", false, "D = <d_o, o> of an o that was not yet divided by the row's sum",
     "take D of the o that is stored"},
    {"delta_of_first_row", "d_q", true, "D = <d_o, o> of the first query of each tile for all of its queries",
     "every query has its own D"},
    {"values_halved", "d_q", false, "d_o v^T over the first half of the value dimensions alone",
     "add up all blocks of them"},
    {"last_tile_alone", "d_q", true, "d_q of the last tile of keys alone, which overwrites those before",
     "add up what all tiles of keys owe"},
    {"diagonal_lost", "d_k", true, "d_k and d_v without the tile of the diagonal",
     "queries begin with the tile that the keys are in"},
    {"last_queries_lost", "d_k", true, "d_k and d_v without the last, partial tile of queries",
     "divide the number of queries upwards"},
    {"v_unnormalised", "d_v", false, "d_v of weights that were not divided by their sum", "d_v = P^T d_o"},
    {"v_of_scores", "d_v", false, "d_v of the scores' gradient (dS^T d_o)", "d_v = P^T d_o"},
    {"mask_by_tiles", "o", true, "all keys seen of the tile that the query's own key is in",
     "mask within the tile of the diagonal, too", Counted::no},
    {"last_tile_unmasked", "o", true, "the last tile of keys not masked for the last tile of queries",
     "a partial tile of the diagonal is masked like the others", Counted::no},
    {"window_by_tiles", "o", true, "all keys seen of the tile that the window begins in",
     "mask within the window's first tile, too", Counted::no},
    {"first_key_lost", "o", false, "the first key left out", "keys begin with 0", Counted::no},
    {"last_tile_lost", "o", true, "the last tile of keys left out, partial or not", "divide the number of keys upwards",
     Counted::no},
    {"products_halved", "o", false, "scores over the first half of the key dimensions alone",
     "add up all blocks of them", Counted::no},
    {"last_key_lost", "o", false, "the last key left out", "the last key is T - 1", Counted::no},
    {"rows_packed", "o", false, "the mask of row i / group, as if rows of the heads of a group were packed",
     "divide row indices where rows are packed, and nowhere else", Counted::no},
    {"padding_seen", "o", true, "padding behind the last key counted as keys of zeros",
     "mask what is behind the last key", Counted::no},
    {"window_of_first_row", "o", true, "the window of a tile's first query for all of its queries",
     "every query has its own window", Counted::no},
    {"first_tile_again", "o", true, "the first tile of keys counted twice", "read every tile once", Counted::no},
    {"own_tile_lost", "o", true, "the tile of the query's own key left out, where it is not the first",
     "the last tile is the one of the diagonal", Counted::no},
    {"splits_averaged", "o", true, "splits of the keys merged by their plain mean",
     "weigh each split's o by exp(its lse - lse of all)", Counted::no},
    {"splits_in_base_2", "o", true, "splits of the keys merged with weights 2^lse, not e^lse",
     "lse and weights to one base", Counted::no},
    {"splits_by_maximum", "o", true, "splits of the keys merged with weights of their maxima, not of their lse",
     "weigh each split's o by exp(its lse - lse of all)", Counted::no},
    {"splits_undivided", "o", true, "splits of the keys merged without dividing by the sum of their weights",
     "divide by the sum of exp(lse - max)", Counted::no},
    {"splits_by_norm_of_first", "o", true, "o divided by the sum of the first tile of keys alone",
     "add up the weights of all tiles", Counted::no},
    {"splits_but_last_lost", "o", true, "the last tile of keys alone, which overwrites those before",
     "add up what all tiles of keys give", Counted::no},
    {"delta_of_next_row", "d_q", false, "D = <d_o, o> of the next row", "read D at its row", Counted::no},
    {"delta_halved", "d_q", false, "D = <d_o, o> over the first half of the value dimensions alone",
     "add up all blocks of them", Counted::no},
    {"scores_unscaled", "d_q", false, "the backward pass with weights of scores that are not scaled",
     "multiply the scores by the scale in both passes", Counted::no},
    {"mask_short", "d_q", false, "the backward pass with a mask one key short (without the query's own key)",
     "query t sees keys 0..t in both passes", Counted::no},
    {"window_unseen", "d_q", false, "the backward pass without the window", "weights of keys that are not seen are 0",
     Counted::no},
    {"q_first_tile_again", "d_q", true, "what the first tile of keys owes d_q added twice",
     "add what each tile of keys owes, once", Counted::no},
    {"lse_in_base_2", "d_q", false, "the backward pass with its lse multiplied by ln 2, as one of base 2",
     "lse and scores to one base, and the exponential to the same", Counted::no},
    {"delta_otherwise", "d_k", false, "another number for D = <d_o, o> in each row",
     "D of a row is the sum of d_o o over that row, of its own head and all value dimensions", Counted::no},
};

/// Attention by tiles of `tile` queries and keys.
class Tiles {
 public:
  Tiles(const Scene& scene, const TileTold& slip, std::size_t tile)
      : scene_(scene),
        slip_(&slip),
        tile_(tile),
        causal_(scene.is_causal()),
        window_(scene.number("window", infinity)) {
    const Array &q = *scene.input("q"), &k = *scene.input("k");
    n_ = static_cast<std::size_t>(q.shape[1]), T_ = static_cast<std::size_t>(k.shape[1]);
    scale_ = 1 / scene.number("bandwidth", std::sqrt(static_cast<double>(q.shape.back())));
  }

  Arrays answer() const {
    const Array &q = *scene_.input("q"), &v = *scene_.input("v");
    Arrays answer;
    if (slip_->is_forward()) answer["o"] = Array({q.shape[0], q.shape[1], v.shape[2]});
    for (const char* name : {"q", "k", "v"})
      if (!slip_->is_forward()) answer["d_" + std::string(name)] = Array(scene_.input(name)->shape);
    for (std::size_t h = 0; h < scene_.own_heads(); ++h) {
      if (slip_->is_forward())
        add("o", slip_->merges_splits() ? merged(h) : output(h), h, answer);
      else
        gradients(h, answer);
    }
    return answer;
  }

 private:
  bool is(RowOf<tile_slips> row) const { return slip_ == row.told; }

  Matrix shared(const char* name, std::size_t h) const { return head_of(*scene_.input(name), h / scene_.group()); }
  void add(const std::string& tensor, const Matrix& m, std::size_t h, Arrays& answer) const {
    const bool own = tensor == "o" || tensor == "d_q";
    add_to_head(answer.at(tensor), m, own ? h : h / scene_.group());
  }

  /// The key at the query's own place.
  double place(std::size_t query) const {
    return static_cast<double>(is("rows_packed") ? query / scene_.group() : query) + static_cast<double>(T_) -
           static_cast<double>(n_);
  }
  bool sees(std::size_t query, std::size_t key) const {
    const auto at = static_cast<double>(key), size = static_cast<double>(tile_);
    const auto tile_of = [size](double index) { return std::floor(index / size); };
    const double begin = place(is("window_of_first_row") ? query / tile_ * tile_ : query) - window_ + 1;
    if (is("last_key_lost") && key + 1 == T_) return false;
    if (is("last_tile_unmasked") && query / tile_ == (n_ - 1) / tile_ && key / tile_ == (T_ - 1) / tile_) return true;
    if (causal_ && (is("mask_by_tiles") ? tile_of(at) > tile_of(place(query)) : at > place(query))) return false;
    if (is("window_by_tiles") ? tile_of(at) < tile_of(std::max(0.0, begin)) : at < begin) return false;
    if (is("first_key_lost")) return key > 0 || place(query) <= 0;
    if (is("last_tile_lost")) return key < (T_ - 1) / tile_ * tile_;
    const std::size_t next = std::min((query / tile_ + 1) * tile_, n_);
    if (is("last_keys_lost")) return key < T_ / tile_ * tile_;
    if (is("loop_without_offset")) return key < (next + tile_ - 1) / tile_ * tile_;
    if (is("window_of_last_row")) {
      return tile_of(at) >= tile_of(std::max(0.0, place(next - 1) - window_ + 1));
    }
    return true;
  }
  Matrix scores(std::size_t h) const {
    Matrix q = head_of(*scene_.input("q"), h);
    const std::size_t half = q.cols / 2;
    if (is("products_halved"))
      q = mapped(std::move(q), [half](std::size_t, std::size_t c, double x) { return c < half ? x : 0; });
    return scale_ * (q * transposed(shared("k", h)));
  }

  /// Row by row, tile by tile, with a running maximum.
  Matrix output(std::size_t h) const {
    const Matrix s = scores(h), v = shared("v", h);
    Matrix o(n_, v.cols);
    for (std::size_t i = 0; i < n_; ++i) {
      double largest = -infinity, norm = 0;
      for (std::size_t begin = 0; begin < T_; begin += tile_) {
        const std::size_t end = std::min(begin + tile_, T_);
        const auto score = [&](std::size_t j) { return sees(i, j) ? s(i, j) : is("masked_as_zero") ? 0 : -infinity; };
        double now = largest;
        for (std::size_t j = begin; j < end; ++j) now = std::max(now, score(j));
        if (now == -infinity) continue;
        const double older = is("rescaled_in_base_2") ? std::exp2(largest - now) : std::exp(largest - now);
        norm *= is("norm_not_rescaled") ? 1 : older, largest = now;
        const std::size_t rescaled = is("sums_not_rescaled") ? 0 : is("half_not_rescaled") ? v.cols / 2 : v.cols;
        for (std::size_t c = 0; c < rescaled; ++c) o(i, c) *= older;
        for (std::size_t j = begin; j < end; ++j) {
          const double weight = times(i, j) * std::exp(score(j) - largest);
          norm += weight;
          for (std::size_t c = 0; c < v.cols; ++c) o(i, c) += weight * v(j, c);
        }
      }
      if (is("padding_seen"))  // scores 0, values 0
        norm += static_cast<double>((tile_ - T_ % tile_) % tile_) * std::exp(-largest);
      for (std::size_t c = 0; c < v.cols && norm > 0; ++c) o(i, c) /= norm;
    }
    return o;
  }

  /// Tile by tile, each with its own maximum and sum, and these merged.
  Matrix merged(std::size_t h) const {
    const Matrix s = scores(h), v = shared("v", h);
    Matrix o(n_, v.cols);
    for (std::size_t i = 0; i < n_; ++i) {
      std::vector<Row> tiles((T_ + tile_ - 1) / tile_);
      Row all;
      for (std::size_t j = 0; j < T_; ++j)
        if (sees(i, j)) tiles[j / tile_].largest = std::max(tiles[j / tile_].largest, s(i, j));
      for (const Row& tile : tiles) all.largest = std::max(all.largest, tile.largest);
      for (std::size_t j = 0; j < T_; ++j)
        if (sees(i, j)) tiles[j / tile_].norm += std::exp(s(i, j) - tiles[j / tile_].largest);
      double sum = 0, most = -infinity;
      for (const Row& tile : tiles)
        if (tile.norm > 0) sum += weight_of(tile, all.largest), most = std::max(most, tile.lse());
      if (is("splits_undivided")) sum = std::exp(most - all.largest);
      if (is("splits_by_norm_of_first")) sum = weight_of(tiles.front(), all.largest);
      if (is("splits_but_last_lost")) sum = tiles.back().norm > 0 ? weight_of(tiles.back(), all.largest) : infinity;
      for (std::size_t j = 0; j < T_; ++j) {
        const Row& tile = tiles[j / tile_];
        if (!sees(i, j) || (is("splits_but_last_lost") && j / tile_ + 1 < tiles.size())) continue;
        const double weight = weight_of(tile, all.largest) / sum * std::exp(s(i, j) - tile.largest) / tile.norm;
        for (std::size_t c = 0; c < v.cols; ++c) o(i, c) += weight * v(j, c);
      }
    }
    return o;
  }

  /// The maximum of each row's scores, and the sum of e^(s - max).
  struct Row {
    double largest = -infinity, norm = 0;
    double lse() const { return largest + std::log(norm); }
  };
  /// The factor of a tile's o where tiles are merged; `largest`: the maximum of all of them.
  double weight_of(const Row& tile, double largest) const {
    if (is("splits_averaged")) return 1;
    if (is("splits_in_base_2")) return std::exp2(tile.lse() - largest);
    return std::exp(tile.largest - largest) * (is("splits_by_maximum") ? 1 : tile.norm);
  }
  std::vector<Row> rows_of(const Matrix& s) const {
    std::vector<Row> rows(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < T_; ++j)
        if (sees(i, j)) rows[i].largest = std::max(rows[i].largest, s(i, j));
      for (std::size_t j = 0; j < T_; ++j)
        if (sees(i, j)) rows[i].norm += std::exp(s(i, j) - rows[i].largest);
    }
    return rows;
  }

  void gradients(std::size_t h, Arrays& answer) const {
    const Matrix s = scores(h), v = shared("v", h), d_o = head_of(scene_.problem.cotangents.at("o"), h);
    const std::vector<Row> rows = rows_of(s);
    const Matrix right =
        mapped(s, [&](std::size_t i, std::size_t j, double x) { return sees(i, j) ? std::exp(x - rows[i].lse()) : 0; });
    const Matrix P = mapped(s, [&](std::size_t i, std::size_t j, double x) {
      if (!has_weight(i, j)) return 0.0;
      if (is("base_2")) return std::exp2(x - rows[i].lse());
      if (is("unnormalised")) return std::exp(x - rows[i].largest);
      if (is("lse_in_base_2")) return std::exp(x - std::numbers::ln2 * rows[i].lse());
      if (is("scores_unscaled")) return std::exp(x / scale_ - rows[i].lse());
      return std::exp(x - rows[is("lse_of_row_before") ? (i + n_ - 1) % n_ : i].lse());
    });
    const std::size_t width = is("values_halved") ? v.cols / 2 : v.cols;
    const Matrix dP = mapped(s, [&](std::size_t i, std::size_t j, double) {
      double sum = 0;
      for (std::size_t c = 0; c < width; ++c) sum += d_o(i, c) * v(j, c);
      return sum;
    });
    const Values D = is("delta_otherwise") ? deltas_shown(P, dP, h) : deltas(right * v, d_o, rows);
    const Matrix dS = each(P, mapped(dP, [&](std::size_t i, std::size_t, double x) { return x - D[i]; }));
    add("d_q",
        scale_ * (mapped(dS, [&](auto i, auto j, double x) { return adds_to_query(i, j) ? times(i, j) * x : 0; }) *
                  shared("k", h)),
        h, answer);
    const auto kept = [&](auto i, auto j, double x) { return adds_to_key(i, j) ? x : 0; };
    add("d_k", scale_ * (transposed(mapped(dS, kept)) * head_of(*scene_.input("q"), h)), h, answer);
    const Matrix weights = is("v_of_scores") ? dS : mapped(P, [&](std::size_t i, std::size_t, double x) {
      return is("v_unnormalised") ? x * rows[i].norm : x;
    });
    add("d_v", transposed(mapped(weights, kept)) * d_o, h, answer);
  }

  Values deltas(const Matrix& o, const Matrix& d_o, const std::vector<Row>& rows) const {
    const Matrix products = each(o, d_o);
    Values own(n_, 0.0);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t c = 0; c < (is("delta_halved") ? o.cols / 2 : o.cols); ++c) own[i] += products(i, c);
      own[i] *= is("delta_added") ? -1 : is("delta_unnormalised") ? rows[i].norm : 1;
    }
    if (is("delta_of_first_row"))
      for (std::size_t i = 0; i < n_; ++i) own[i] = own[i / tile_ * tile_];
    if (is("delta_of_next_row")) std::rotate(own.begin(), own.begin() + 1, own.end());
    return own;
  }

  /// D as d_q has it, of which it is one number in each row.
  Values deltas_shown(const Matrix& P, const Matrix& dP, std::size_t h) const {
    const Matrix k = shared("k", h), of_one = P * k,
                 owed = each(P, dP) * k - (1 / scale_) * head_of(scene_.seen.at("d_q"), h);
    Values D(n_, 0.0);
    for (std::size_t i = 0; i < n_; ++i) {
      double products = 0, squares = 0;
      for (std::size_t c = 0; c < k.cols; ++c)
        products += owed(i, c) * of_one(i, c), squares += of_one(i, c) * of_one(i, c);
      if (squares > 0) D[i] = products / squares;
    }
    return D;
  }

  /// Whether the backward pass weighs a key.
  bool has_weight(std::size_t query, std::size_t key) const {
    const double off = static_cast<double>(key) - place(query);
    if (is("unmasked")) return true;
    if (is("window_unseen")) return !causal_ || off <= 0;
    return sees(query, key) && (!is("mask_short") || off < 0);
  }
  /// How often a key counts.
  double times(std::size_t query, std::size_t key) const {
    const std::size_t number = key / tile_;
    if (is("first_tile_again") || is("q_first_tile_again")) return number == 0 ? 2 : 1;
    return is("own_tile_lost") && number > 0 && number == last_key(query) / tile_ ? 0 : 1;
  }

  /// The last key that a query sees; its own place without a mask.
  std::size_t last_key(std::size_t query) const {
    return causal_ ? static_cast<std::size_t>(std::max(0.0, place(query))) : T_ - 1;
  }
  bool adds_to_query(std::size_t query, std::size_t key) const {
    return !is("last_tile_alone") || key / tile_ == last_key(query) / tile_;
  }
  bool adds_to_key(std::size_t query, std::size_t key) const {
    if (is("last_queries_lost")) return query < n_ / tile_ * tile_;
    const double at = place(query);
    return !is("diagonal_lost") || at < 0 || key / tile_ != static_cast<std::size_t>(at) / tile_;
  }

  const Scene& scene_;
  const TileTold* slip_;
  std::size_t tile_, n_ = 0, T_ = 0;
  bool causal_;
  double window_, scale_ = 1;
};

}  // namespace

void add_attention_slips(std::vector<Convention>& list, const Scene& scene, const std::vector<std::size_t>& tiles,
                         Counted counted) {
  if (scene.room->name != "softmax_attention") return;
  for (const char* name : {"q", "k", "v"})
    if (scene.input(name) == nullptr || scene.input(name)->shape.size() != 3) return;
  for (const auto& [name, value] : scene.problem.params)
    if (name != "bandwidth" && name != "causal" && name != "window") return;
  const bool backward = scene.problem.cotangents.contains("o");
  for (const TileTold& told : tile_slips) {
    if (told.counted != counted || (!told.is_forward() && !backward)) continue;
    for (const std::size_t tile : tiles) {
      const std::string size = told.by_tiles ? fmt::format(" (tiles of {})", tile) : "";
      list.push_back({fmt::format("attention: {}{}", told.what, size), told.what + size, told.mend,
                      [&told, tile](const Scene& s) { return Tiles(s, told, tile).answer(); }});
      list.back().only = told.tensor, list.back().strict = told.slip == "delta_otherwise";
      list.back().block = told.by_tiles ? tile : 0, list.back().asks_room = false;
      list.back().effort = told.is_forward() && backward ? 0.25 : 1;
      if (!told.by_tiles) break;
    }
  }
}

}  // namespace assay::hypotheses
