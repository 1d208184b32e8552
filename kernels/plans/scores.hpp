#pragma once
// Changes of scores, as launches hand them to tile programs (kernels/programs/scores.hpp): none, or the arguments of a
// problem. Such a problem is that of the program of arguments/programs, whose names it has.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/plans/attention.hpp"
#include "kernels/programs/scores.hpp"

namespace assay::tile {

struct PlainLaunch {
  using Scores = PlainScores;
  const Visibility& sees(const AttentionShape& shape) const { return shape.sees; }
  template <class B>
  PlainScores::Args<B> of_queries() const {
    return {};
  }
  template <class B>
  PlainScores::Args<B> of_keys() const {
    return {};
  }
  /// The factor of a score's gradient that gives that of its product.
  template <class Device>
  typename Device::Real slope(const AttentionInputs<Device>& in) const {
    return in.inv_bandwidth();
  }
  /// The factor of a probe's gradient that gives that of a score.
  template <class Device>
  typename Device::Real bandwidth(const AttentionInputs<Device>& in) const {
    return in.device.template positive_gate<"bandwidth">(in.h);
  }
  void add_outputs(Answer&) const {}
  template <class Device>
  void add_gradients(const AttentionInputs<Device>& in, const typename Device::Values& dh, Arrays& gradients) const {
    gradients["bandwidth"] = bandwidth_gradient(in.device, dh, in.shape.bandwidth);
  }
};

/// A count or a switch of a problem.
inline int count_of(const Problem& problem, std::string_view name, int missing) {
  const auto found = problem.params.find(name);
  return found == problem.params.end() ? missing
                                       : static_cast<int>(std::min(std::get<long>(found->second), long{1} << 30));
}
inline bool is_set(const Problem& problem, std::string_view name) {
  const auto found = problem.params.find(name);
  return found != problem.params.end() && std::get<bool>(found->second);
}

inline double scale_of(const Problem& problem) {
  const auto scale = problem.inputs.find("scale");
  return scale != problem.inputs.end() ? scale->second.data[0] : 1 / problem.inputs.at("bandwidth").data[0];
}
/// The bandwidth whose reciprocal the scale is, to the last bit; 0 if there is none.
inline double exact_bandwidth(const Problem& problem) {
  if (const auto h = problem.inputs.find("bandwidth"); h != problem.inputs.end()) return h->second.data[0];
  int exponent = 0;
  const double scale = scale_of(problem);
  return std::frexp(scale, &exponent) == 0.5 ? 1 / scale : 0;
}

/// The problem without its arguments: what heads, lengths and operands there are.
inline Problem without_arguments(const Problem& problem) {
  Problem plain;
  plain.cotangents = problem.cotangents;
  for (const char* name : {"q", "k", "v", "rho"})
    if (const auto found = problem.inputs.find(name); found != problem.inputs.end()) plain.inputs.insert(*found);
  plain.params = {{"bandwidth", std::string("1")}, {"causal", false}};
  return plain;
}
/// Heads and lengths of a problem with arguments; `plain` is the problem without them.
inline AttentionShape shape_of(const Problem& problem, const Problem& plain) {
  AttentionShape shape(plain);
  if (const double h = exact_bandwidth(problem); h > 0) shape.bandwidth = h;
  return shape;
}

inline KeyWindows windows_of(const Problem& problem, const AttentionShape& shape) {
  const int n = shape.queries, m = shape.keys, left = count_of(problem, "window_left", -1),
            right = count_of(problem, "window_right", -1);
  // One that reaches further than there are rows is none, and has room to add to.
  const int reach = n + m;
  return {n, m, left < 0 || left >= reach ? 0 : left + 1, right >= reach ? -1 : right,
          is_set(problem, "from_start") ? 0 : m - n};
}

/// The arguments of a problem on a device, for launches over query tiles and over key tiles. `Packed`: the rows of all
/// heads that share a key/value head are one block of rows, as in decoding.
template <class Device, bool Packed = false>
class ArgumentLaunch {
 public:
  using Scores = ArgumentScores;
  using Real = typename Device::Real;
  using Values = typename Device::Values;

  ArgumentLaunch(const Device& device, const AttentionShape& shape, const Problem& problem)
      : device_(device),
        shape_(shape),
        problem_(problem),
        has_bias_(problem.inputs.contains("bias")),
        has_slopes_(problem.inputs.contains("alibi_slopes")),
        has_mask_(problem.inputs.contains("mask")),
        has_documents_(problem.inputs.contains("documents_q")),
        has_sink_(has_finite_sink(problem)),
        has_dlse_(problem.cotangents.contains("lse")),
        pair_columns_(padded(shape.keys)),
        heads_(Packed ? shape.kv_heads : shape.heads),
        rows_(Packed ? shape.group * shape.queries : shape.queries),
        slope_(of_heads<"slope">("alibi_slopes", has_slopes_)),
        sink_(sinks()),
        center_(of_rows<"position">(has_slopes_, [&](int i) { return i + windows_of(problem, shape).offset; })),
        document_(of_rows<"document">(has_documents_, [&](int i) { return number("documents_q", i); })),
        dlse_(cotangent_of_lse()),
        position_(of_columns<"position">(has_slopes_, [](int j) { return j; })),
        document_of_key_(of_columns<"document">(has_documents_, [&](int j) { return number("documents_k", j); })),
        bias_(pairs<"bias">("bias", false)),
        seen_(pairs<"seen">("mask", false)),
        bias_by_key_(pairs<"bias">("bias", true)),
        seen_by_key_(pairs<"seen">("mask", true)),
        lse_(device.template result<"lse">(heads_, rows_, 1)),
        dslope_(device.template result<"dslope">(heads_, has_slopes_ ? rows_ : 0, 1)),
        dsink_(device.template result<"dsink">(heads_, has_sink_ ? rows_ : 0, 1)),
        dbias_(device.template zeros<"dbias">(heads_, has_bias_ ? rows_ : 0, pair_columns_)) {}

  KeyWindows sees(const AttentionShape&) const { return windows_of(problem_, shape_); }
  template <class B>
  ArgumentScores::Args<B> of_queries() const {
    return args<B>(bias_, seen_);
  }
  template <class B>
  ArgumentScores::Args<B> of_keys() const {
    return args<B>(bias_by_key_, seen_by_key_);
  }
  Real slope(const AttentionInputs<Device>&) const { return scale(); }
  Real bandwidth(const AttentionInputs<Device>&) const {
    return device_.template gate<"bandwidth">(1 / static_cast<typename Device::Wide>(scale_of(problem_)));
  }

  void add_outputs(Answer& answer) const {
    Array lse = device_.array_of(lse_, {rows_}), empty = lse;
    lse.shape = empty.shape = axes_of(shape_.head_axis, shape_.heads, {shape_.queries});
    for (std::size_t i = 0; i < lse.data.size(); ++i) {
      empty.data[i] = lse.data[i] == -INFINITY ? 1 : 0;
      if (empty.data[i] != 0) lse.data[i] = 0;
    }
    answer.outputs["lse"] = std::move(lse), answer.outputs["empty"] = std::move(empty);
  }
  void add_gradients(const AttentionInputs<Device>& in, const Values& dh, Arrays& gradients) const {
    gradients[problem_.inputs.contains("scale") ? "scale" : "bandwidth"] = scale_gradient(in, dh);
    if (has_slopes_) gradients["alibi_slopes"] = sums("alibi_slopes", dslope_);
    if (problem_.inputs.contains("sink")) gradients["sink"] = sums("sink", dsink_);
    if (has_bias_) gradients["bias"] = bias_gradient();
  }

 private:
  /// Rows of pairs are padded to where tiles may begin.
  static int padded(int columns) { return ceil_div(columns, 8) * 8; }
  static bool has_finite_sink(const Problem& problem) {
    const auto found = problem.inputs.find("has_sink");
    return found != problem.inputs.end() &&
           std::any_of(found->second.data.begin(), found->second.data.end(), [](double has) { return has > 0; });
  }
  double number(const char* name, int i) const { return problem_.inputs.at(name).data[static_cast<std::size_t>(i)]; }
  /// As the program has it, a number for every head or one for all.
  double of_head(const char* name, int h) const {
    const std::vector<double>& data = problem_.inputs.at(name).data;
    return data[data.size() == 1 ? 0 : static_cast<std::size_t>(h)];
  }
  bool changes() const {
    return has_bias_ || has_slopes_ || problem_.params.contains("soft_cap") || exact_bandwidth(problem_) <= 0;
  }
  Real scale() const { return device_.template gate<"scale">(static_cast<typename Device::Wide>(scale_of(problem_))); }

  template <FixedString Site>
  Values of_heads(const char* name, bool there) const {
    std::vector<double> values;
    for (int h = 0; there && h < shape_.heads; ++h)
      values.insert(values.end(), static_cast<std::size_t>(shape_.queries), of_head(name, h));
    return device_.template array<Site>(heads_, there ? rows_ : 0, 1, values);
  }
  /// -inf where there is none.
  Values sinks() const {
    std::vector<double> values;
    for (int h = 0; has_sink_ && h < shape_.heads; ++h)
      values.insert(values.end(), static_cast<std::size_t>(shape_.queries),
                    of_head("has_sink", h) > 0 ? of_head("sink", h) : -INFINITY);
    return device_.template array<"sink">(heads_, has_sink_ ? rows_ : 0, 1, values);
  }
  template <FixedString Site, class F>
  Values of_rows(bool there, F f) const {
    std::vector<double> values;
    for (int h = 0; there && h < shape_.heads; ++h)
      for (int i = 0; i < shape_.queries; ++i) values.push_back(f(i));
    return device_.template array<Site>(heads_, there ? rows_ : 0, 1, values);
  }
  template <FixedString Site, class F>
  Values of_columns(bool there, F f) const {
    std::vector<double> values;
    for (int j = 0; there && j < shape_.keys; ++j) values.push_back(f(j));
    return device_.template array<Site>(1, there ? shape_.keys : 0, 1, values);
  }
  /// Natural ones.
  Values cotangent_of_lse() const {
    std::vector<double> values;
    if (has_dlse_) values = problem_.cotangents.at("lse").data;
    const double base = is_set(problem_, "base_2") ? std::log(2.0) : 1;
    for (double& x : values) x /= base;
    return device_.template array<"dlse">(heads_, has_dlse_ ? rows_ : 0, 1, values);
  }
  /// A number for every pair of every head, or of none; rows are padded with zeros.
  template <FixedString Site>
  Values pairs(const char* name, bool by_key) const {
    const int n = shape_.queries, m = shape_.keys, cols = by_key ? padded(n) : pair_columns_;
    const bool there = problem_.inputs.contains(name) && !(Packed && by_key);
    std::vector<double> values;
    for (int h = 0; there && h < shape_.heads; ++h)
      for (int r = 0; r < (by_key ? m : n); ++r)
        for (int c = 0; c < cols; ++c)
          values.push_back(c < (by_key ? n : m) ? pair(name, h, by_key ? c : r, by_key ? r : c) : 0);
    return device_.template array<Site>(heads_, there ? (by_key ? m : rows_) : 0, cols, values);
  }
  double pair(const char* name, int h, int i, int j) const {
    const std::vector<double>& data = problem_.inputs.at(name).data;
    const auto row = static_cast<std::size_t>(i) * static_cast<std::size_t>(shape_.keys) + static_cast<std::size_t>(j);
    const auto each = static_cast<std::size_t>(shape_.queries) * static_cast<std::size_t>(shape_.keys);
    return data[data.size() == each ? row : static_cast<std::size_t>(h) * each + row];
  }

  template <class B>
  ArgumentScores::Args<B> args(const Values& bias, const Values& seen) const {
    const double cap = number_param(problem_.params, "soft_cap", 0.0);
    const BiasPlace place = is_set(problem_, "before_scale") ? BiasPlace::before_scale
                            : is_set(problem_, "before_cap") ? BiasPlace::before_cap
                                                             : BiasPlace::after_cap;
    const double in_base = is_set(problem_, "base_2") ? 1 : std::log(2.0);
    return {slope_.row_in(),
            center_.row_in(),
            document_.row_in(),
            sink_.row_in(),
            dlse_.row_in(),
            position_.row_in(),
            document_of_key_.row_in(),
            bias.in(),
            seen.in(),
            lse_.row_out(),
            dslope_.row_out(),
            dsink_.row_out(),
            dbias_.out(),
            scale(),
            device_.template gate<"scale">(static_cast<typename Device::Wide>(cap)),
            device_.template gate<"scale">(static_cast<typename Device::Wide>(in_base)),
            place,
            changes(),
            has_bias_,
            has_slopes_,
            is_set(problem_, "signed"),
            has_documents_,
            has_mask_,
            has_sink_,
            has_dlse_};
  }

  /// d_scale, or d_bandwidth = -d_scale / h^2.
  Array scale_gradient(const AttentionInputs<Device>& in, const Values& dh) const {
    using Wide = typename Device::Wide;
    if (!changes() && !has_sink_ && !has_dlse_) {
      Array d = bandwidth_gradient(device_, dh, in.shape.bandwidth);
      const double h = in.shape.bandwidth;
      if (problem_.inputs.contains("scale")) d.data[0] *= -h * h;
      return d;
    }
    Wide sum = device_.total(dh);
    const auto scale = static_cast<Wide>(scale_of(problem_));
    if (!problem_.inputs.contains("scale")) sum *= -scale * scale;
    return Array({}, {static_cast<double>(sum)});
  }
  /// Rows of every head summed, into the shape of the input.
  Array sums(const char* name, const Values& of_rows) const {
    using Wide = typename Device::Wide;
    Array sum(problem_.inputs.at(name).shape);
    const auto rows = device_.values(of_rows);
    std::vector<Wide> total(sum.data.size(), Wide(0));
    for (std::size_t i = 0; i < rows.size(); ++i) total[i * total.size() / rows.size()] += rows[i];
    for (std::size_t h = 0; h < total.size(); ++h) sum.data[h] = static_cast<double>(total[h]);
    return sum;
  }
  Array bias_gradient() const {
    using Wide = typename Device::Wide;
    Array gradient(problem_.inputs.at("bias").shape);
    std::vector<Wide> total(gradient.data.size(), Wide(0));
    const auto all = device_.values(dbias_);
    const auto cols = static_cast<std::size_t>(pair_columns_), keys = static_cast<std::size_t>(shape_.keys);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i % cols < keys) total[(i / cols * keys + i % cols) % total.size()] += all[i];
    for (std::size_t i = 0; i < total.size(); ++i) gradient.data[i] = static_cast<double>(total[i]);
    return gradient;
  }

  const Device& device_;
  const AttentionShape& shape_;
  const Problem& problem_;
  const bool has_bias_, has_slopes_, has_mask_, has_documents_, has_sink_, has_dlse_;
  const int pair_columns_, heads_, rows_;
  const Values slope_, sink_, center_, document_, dlse_, position_, document_of_key_;
  const Values bias_, seen_, bias_by_key_, seen_by_key_;
  mutable Values lse_, dslope_, dsink_, dbias_;  ///< what launches write
};

}  // namespace assay::tile
