#include "reference/core/blocks.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <system_error>
#include <vector>

#include "reference/core/error.hpp"

namespace assay {
namespace {

constexpr std::string_view scale_names[] = {"fp32", "e4m3", "e8m0"};

// ---- spelling

std::string extent_name(int extent) { return extent == Blocks::all ? "all" : std::to_string(extent); }

/// Reads from the front of a text. All return whether it began so, and take off what they have read.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool word(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  bool number(int& x) {
    constexpr int most = 1 << 20;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), x);
    if (error != std::errc() || x < 1 || x > most) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }
  bool extent(int& x) {
    if (!word("all")) return number(x);
    x = Blocks::all;
    return true;
  }
  bool format(Format& format) {
    const std::string_view name = rest_.substr(0, rest_.find('/'));
    for (const auto list : {std::span<const Format>(scaled_formats), std::span<const Format>(all_formats)})
      for (const Format known : list)
        if (name == name_of(known) && info(known).bits <= 8) {
          format = known;
          return word(name);
        }
    return false;
  }
  bool scale(ScaleFormat& scale) {
    for (std::size_t i = 0; i < std::size(scale_names); ++i)
      if (word(scale_names[i])) {
        scale = static_cast<ScaleFormat>(i);
        return true;
      }
    return false;
  }

 private:
  std::string_view rest_;
};

// ---- rounding

/// A block's scale in its format; of two levels it is a multiple of `unit`.
double scale_of(double wanted, ScaleFormat scale, double unit) {
  if (!(wanted > 0) || std::isinf(wanted)) return wanted;
  if (scale == ScaleFormat::fp32) return round_to(wanted, Format::fp32);
  if (scale == ScaleFormat::e4m3) return unit > 0 ? round_to(wanted / unit, Format::e4m3) * unit : 0;
  int exponent = 0;
  const double fraction = std::frexp(wanted, &exponent);
  return std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent);
}

/// What numbers of a block are divided by, and what they are multiplied by again.
struct Scale {
  double before = 0, after = 0;
};

/// Multiples of a scale have a grid that is fixed, whatever is below its normal numbers.
double rounded(double x, const Scale& scale, Format format, Rounding rounding, std::uint64_t word) {
  if (scale.after == 0) return std::isnan(x) ? x : 0;
  const double y = x / scale.before;
  const bool vanishes = std::fabs(y) < info(format).min_positive / 2;
  const Rounding mode = rounding == Rounding::jittered && !vanishes ? Rounding::stochastic : rounding;
  return round_to(y, format, mode, word) * scale.after;
}

/// The blocks of an array: which one a number belongs to.
class Partition {
 public:
  Partition(std::size_t rows, std::size_t cols, const Blocks& blocks)
      : down_(std::min(rows, size(blocks.rows))),
        across_(std::min(cols, size(blocks.cols))),
        modulo_(size(blocks.modulo)),
        run_(size(blocks.run)),
        shares_(modulo_ == 0 ? 1 : (modulo_ + run_ - 1) / run_),
        groups_((rows + down_ - 1) / down_ * shares_),
        columns_((cols + across_ - 1) / across_) {}

  std::size_t count() const { return groups_ * columns_; }
  /// Blocks of the same rows.
  std::size_t groups() const { return groups_; }
  std::size_t of_group() const { return columns_; }
  std::size_t at(std::size_t row, std::size_t col) const {
    const std::size_t share = modulo_ == 0 ? 0 : row % down_ % modulo_ / run_;
    return (row / down_ * shares_ + share) * columns_ + col / across_;
  }

 private:
  static std::size_t size(int n) { return static_cast<std::size_t>(n); }
  std::size_t down_, across_, modulo_, run_, shares_, groups_, columns_;
};

/// The scale of every block, of which `most` has the largest numbers.
std::vector<Scale> scales_of(const std::vector<double>& most, const Partition& partition, const BlockFormat& to) {
  std::vector<Scale> scales(most.size());
  const std::size_t n = partition.of_group();
  for (std::size_t g = 0; g < partition.groups(); ++g) {
    double unit = 1;
    if (to.blocks.two_level) {
      double of_row = 0;
      for (std::size_t i = 0; i < n; ++i) of_row = std::max(of_row, most[g * n + i]);
      unit = round_to(of_row / (info(to.format).max_finite * info(Format::e4m3).max_finite), Format::fp32);
    }
    for (std::size_t i = g * n; i < (g + 1) * n; ++i) {
      const double wanted = most[i] / info(to.format).max_finite, scale = scale_of(wanted, to.blocks.scale, unit);
      scales[i] = {to.blocks.late ? wanted : scale, scale};
    }
  }
  return scales;
}

}  // namespace

std::string name_of(Format format, const Blocks& blocks) {
  std::string name = name_of(format);
  if (blocks.none() || format == Format::exact) return name;
  name += text('/', extent_name(blocks.rows), 'x', extent_name(blocks.cols));
  if (blocks.scale != ScaleFormat::fp32) name += text(':', scale_names[static_cast<std::size_t>(blocks.scale)]);
  if (blocks.modulo > 0) name += text(" every ", blocks.modulo);
  if (blocks.run > 1) name += text('/', blocks.run);
  if (blocks.leading != Blocks::all) name += text(" of ", blocks.leading);
  if (blocks.two_level) name += " two_level";
  if (blocks.late) name += " late";
  if (blocks.centred) name += " centred";
  return name;
}

std::optional<BlockFormat> block_format_from(std::string_view text) {
  if (const std::optional<Format> format = format_from(text)) return BlockFormat{*format, {}};
  Reader read(text);
  BlockFormat found;
  Blocks& blocks = found.blocks;
  if (!read.format(found.format) || !read.word("/")) return std::nullopt;
  if (!read.extent(blocks.rows) || !read.word("x") || !read.extent(blocks.cols)) return std::nullopt;
  if (read.word(":") && !read.scale(blocks.scale)) return std::nullopt;
  if (read.word(" every ")) {
    if (!read.number(blocks.modulo)) return std::nullopt;
    if (read.word("/") && !read.number(blocks.run)) return std::nullopt;
  }
  if (read.word(" of ") && !read.number(blocks.leading)) return std::nullopt;
  blocks.two_level = read.word(" two_level");
  blocks.late = read.word(" late");
  blocks.centred = read.word(" centred");
  const bool levels_fit = !blocks.two_level || (blocks.scale == ScaleFormat::e4m3 && blocks.rows == 1);
  if (!levels_fit || name_of(found.format, blocks) != text) return std::nullopt;
  return found;
}

void round_by_blocks(double* x, std::size_t rows, std::size_t cols, const BlockFormat& to, Rounding rounding,
                     RandomBits& random) {
  const std::size_t width = std::min(cols, static_cast<std::size_t>(to.blocks.leading));
  if (rows == 0 || width == 0) return;
  std::vector<double> mean(width);
  for (std::size_t r = 0; to.blocks.centred && r < rows; ++r)
    for (std::size_t c = 0; c < width; ++c) mean[c] += x[r * cols + c] / static_cast<double>(rows);
  const Partition partition(rows, width, to.blocks);
  std::vector<double> most(partition.count());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < width; ++c) {
      double& of_block = most[partition.at(r, c)];
      of_block = std::max(of_block, std::fabs(x[r * cols + c] - mean[c]));
    }
  const std::vector<Scale> scales = scales_of(most, partition, to);
  const bool draws = rounding == Rounding::stochastic || rounding == Rounding::jittered;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < width; ++c) {
      double& y = x[r * cols + c];
      const std::uint64_t word = draws ? random.next() : 0;
      y = mean[c] + rounded(y - mean[c], scales[partition.at(r, c)], to.format, rounding, word);
    }
}

}  // namespace assay
