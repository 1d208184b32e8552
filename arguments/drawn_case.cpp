#include "arguments/drawn_case.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "arguments/file_case.hpp"
#include "arguments/scale_layout.hpp"
#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "files/names.hpp"
#include "files/problem_file.hpp"
#include "files/shown.hpp"
#include "language/room.hpp"
#include "reference/core/parse_number.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"
#include "reference/core/sha256.hpp"

namespace assay::arguments {
namespace {

constexpr ArgumentStyle styles[] = {
    {"low_lse", "a bias near -240: rows whose lse is below -88, where e^lse is no number of fp32"},
    {"high_lse", "a bias near +240: rows whose lse is above 88"},
    {"empty_rows", "a mask under which every third row sees nothing, and others a few keys"},
    {"short_documents", "documents of one, two and three tokens"},
    {"short_sequences", "packed sequences of no token, one, two, and the rest; after them padding, which is NaN"},
    {"saturated_gates", "raw gates and write strengths far out on either side, where sigmoid and softplus are flat"},
    {"tiny_norms", "queries and keys to be normalised whose length is zero, or near sqrt(l2_eps)"},
    {"huge_norms", "the same with lengths of a thousand"},
    {"hard_cap", "scores of several times soft_cap"},
    {"mxfp8", "queries, keys and values as codes of E4M3, with a power of two for every 32 channels of a row"},
    {"nvfp4", "the same as codes of E2M1, with a scale of E4M3, times one of the tensor, for every 16 channels"},
    {"fp8_per_token_head", "keys and values as codes of E4M3, with a scale of fp32 for every token and head"},
    {"nothing_chosen", "lists of keys in which all entries are -1"},
    {"empty_choices", "every third row chose nothing"},
    {"choice_lengths", "0, 1, 63, 64 and 65 entries of a list that count, as far as lists are as long"},
    {"far_choices", "every third row's chosen keys have scores far apart, so that one of them has all the weight"},
    {"one_key_for_all", "a key that all rows chose, first of all"},
};

/// The nearest number of E2M1, ties to the even code; beyond the largest that.
double nearest_e2m1(double x) {
  constexpr std::array grid = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
  std::size_t best = 0;
  for (std::size_t code = 1; code < grid.size(); ++code) {
    const double here = std::fabs(grid.at(code) - std::fabs(x)), there = std::fabs(grid.at(best) - std::fabs(x));
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return std::copysign(grid.at(best), x);
}

/// Numbers that are drawn, by the name of what they are for.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}

  template <class F>
  Array each(const std::string& name, std::vector<int> shape, F&& number) const {
    const Stream stream(seed_, "argument " + name);
    Array array(std::move(shape));
    for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] = number(stream, i);
    return array;
  }
  Array normal(const std::string& name, std::vector<int> shape, double scale = 1, double middle = 0) const {
    return each(name, std::move(shape), [&](const Stream& s, std::size_t i) { return middle + scale * s.normal(i); });
  }
  Array uniform(const std::string& name, std::vector<int> shape, double low, double high) const {
    return each(name, std::move(shape),
                [&](const Stream& s, std::size_t i) { return low + (high - low) * s.uniform(i); });
  }

 private:
  std::uint64_t seed_;
};

double number_from(const std::string& name, const std::string& digits) {
  if (digits == "-inf") return -std::numeric_limits<double>::infinity();
  const auto x = parse_number<double>(digits);
  require(x && !std::isnan(*x), "--with: ", name, ": ", excerpt(digits), " is no number");
  return *x;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words(1);
  for (const char c : list)
    if (c == ',')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

/// The axes of `array` in that order.
Array permuted(const Array& array, const std::vector<std::size_t>& order) {
  const Picked all = picked("", whole_axes(array.shape, order));
  Array out(all.shape);
  for (std::size_t i = 0; i < all.at.size(); ++i) out.data[i] = array.data[all.at[i]];
  return out;
}

Array reshaped(Array array, std::vector<int> shape) {
  array.shape = std::move(shape);
  return array;
}

/// The metadata of either kind of case. One with arguments says its layout in any case.
std::map<std::string, std::string> metadata_of(const CaseSpec& spec, const Room* room, const Json& params,
                                               std::string_view tool_version) {
  const bool says_layout = asks_for_arguments(spec) && spec.layout == CaseSpec().layout;
  return {
      {"format", "assay-case 1"},
      {"mechanism", room != nullptr ? language::pinned_name(*room) : spec.mechanism},
      {"params", params.dump()},
      {"shape", text_of(spec.shape)},
      {"precision", name_of(spec.precision)},
      {"style", std::string(spec.style_name())},
      {"seed", std::to_string(spec.seed)},
      {"tool_version", std::string(tool_version)},
      {"generator", text("assay case ", spec.repro(), argument_flags(spec),
                         says_layout ? " --layout " + spec.layout : "", spec.cotangents ? "" : " --no-cotangents")}};
}

Safetensors plain_case(const Room& room, const CaseSpec& spec, std::string_view tool_version) {
  Problem problem = room.make(spec);
  TensorFile file;
  const int batch = spec.shape.batch;
  for (const RoomFacts::Ranked& ranked : room.inputs())
    if (const auto it = problem.inputs.find(ranked.field.name); it != problem.inputs.end())
      file.put(it->first, std::move(it->second), ranked, batch,
               dtype_of(format_of(ranked.field.domain, spec.precision)));
  for (const RoomFacts::Ranked& ranked : room.outputs())
    if (const auto it = problem.cotangents.find(ranked.field.name); spec.cotangents && it != problem.cotangents.end())
      file.put("d_" + it->first, std::move(it->second), ranked, batch, dtype_of(spec.precision));
  return std::move(file).finish(metadata_of(spec, &room, json_of(problem.params), tool_version));
}

class Maker {
 public:
  explicit Maker(const CaseSpec& request)
      : request_(request),
        facts_(facts_of(request.mechanism)),
        draw_(request.seed),
        B_(request.shape.batch),
        T_(request.shape.queries()),
        S_(request.shape.seq_len),
        H_(request.shape.heads),
        G_(request.shape.shared_heads > 0 ? request.shape.shared_heads : request.shape.heads) {}

  Safetensors make(std::string_view tool_version) && {
    require(facts_.family != Family::other || facts_.room != nullptr, unknown_mechanism(request_.mechanism).what());
    require(facts_.family != Family::other && facts_.family != Family::quantizer, "--with: ", request_.mechanism,
            " takes none of these arguments in files");
    layout_ = row_layout_from(request_.layout);
    require(layout_ != RowLayout::thd || B_ == 1,
            "--layout: thd is of packed sequences, a batch of one, and --shape has ", B_);
    for (const auto& [name, words] : request_.with) wishes_.emplace_back(name, words);
    take_style();
    take_params();
    refuse_unknown();
    facts_.room != nullptr ? draw_tensors() : draw_component();
    draw_gates();
    draw_numbers();
    quantize_operands();
    draw_visibility();
    draw_pages();
    draw_sequences();
    take_choice();
    excite();
    return finish(tool_version);
  }

 private:
  bool is_wished(std::string_view name) const {
    return std::any_of(wishes_.begin(), wishes_.end(), [&](const auto& w) { return w.first == name; });
  }
  std::string words_of(std::string_view name) const {
    for (const auto& [wish, words] : wishes_)
      if (wish == name) return words;
    return "";
  }
  void wish(const std::string& name) {
    if (!is_wished(name)) wishes_.emplace_back(name, "");
  }
  bool is(const char* style) const { return request_.argument_style == style; }
  bool has_param(std::string_view name) const { return params_.contains(name); }
  /// Whether that param is that word.
  bool says(std::string_view name, const char* word) const {
    const auto found = params_.find(name);
    return found != params_.end() && found->second == Param(std::string(word));
  }

  void take_style() {
    if (is("low_lse") || is("high_lse")) wish("bias");
    if (is("empty_rows")) wish("mask");
    if (is("short_documents")) wish("documents_q");
    if (is("short_sequences")) wish("cu_seqlens");
    for (const char* style : {"nothing_chosen", "empty_choices", "choice_lengths", "far_choices", "one_key_for_all"})
      if (is(style)) wish("topk_indices");
    if (is("choice_lengths")) wish("topk_length");
    if (is_wished("topk_length") || request_.params.contains("topk_block_size")) wish("topk_indices");
    if (!is_quantized()) return;
    if (!is("fp8_per_token_head")) wish("q_scale");
    wish("k_scale");
    if (!request_.params.contains("value_dim")) wish("v_scale");
  }
  bool is_quantized() const { return is("mxfp8") || is("nvfp4") || is("fp8_per_token_head"); }
  /// Channels that share a scale in the styles with blocks.
  int channels_of_block() const { return is("mxfp8") ? 32 : 16; }

  /// Params as the file has them; the mechanism's own go to its room, too.
  void take_params() {
    params_ = request_.params;
    if (is("hard_cap") && !has_param("soft_cap")) params_["soft_cap"] = std::string("2");
    if ((is("tiny_norms") || is("huge_norms")) && !has_param("l2_norm"))
      params_["l2_norm"] = std::string("root"), params_["l2_eps"] = std::string("1e-6");
    if (is("saturated_gates")) {
      if (takes("gate") && !has_param("gate")) params_["gate"] = std::string("softplus");
      if (takes("beta_gate") && !has_param("beta_gate")) params_["beta_gate"] = std::string("sigmoid");
    }
    require(!is_quantized() || !request_.params.contains("scale_block"),
            "--param: scale_block: ", request_.argument_style, " has blocks of its own");
    if (is("mxfp8") || is("nvfp4")) {
      const int block = channels_of_block();
      require(request_.shape.key_dim % block == 0 && request_.shape.value_dim % block == 0,
              "--style: ", request_.argument_style, ": expected K and V that are multiples of ", block);
      params_["scale_block"] = text("[1,", block, "]");
    }
    if (const auto block = params_.find("scale_block"); block != params_.end())
      if (const auto* words = std::get_if<std::string>(&block->second))
        block->second = words->starts_with('[') ? *words : "[" + *words + "]";
  }

  bool takes(std::string_view name) const { return takes_argument(facts_, name); }

  /// Refuses names that the mechanism does not take, before anything is drawn.
  void refuse_unknown() const {
    const auto refuse = [&](std::string_view name, Part part, const char* flag) {
      const auto arguments = all_arguments();
      const std::vector<std::string> own = own_names(facts_, part);
      if (std::find(own.begin(), own.end(), name) != own.end()) return;
      std::vector<std::string> known = own;
      for (const Argument& a : arguments)
        if (a.part == part || (part == Part::inputs && a.part == Part::cotangents)) known.emplace_back(a.name);
      const auto found = std::find_if(arguments.begin(), arguments.end(), [&](const Argument& a) {
        return a.name == name && (a.part == Part::params) == (part == Part::params);
      });
      require(found != arguments.end(), flag, ": ", request_.mechanism, " has no ", excerpt(name),
              did_you_mean(name, known));
      const std::string reason = why_not(facts_, *found);
      require(reason.empty(), flag, ": ", name, ": ", request_.mechanism, " does not take it: ", reason);
    };
    for (const auto& [name, value] : params_) refuse(name, Part::params, "--param");
    for (const auto& [name, words] : wishes_) refuse(name, Part::inputs, "--with");
  }

  // ---- the mechanism's own tensors

  void draw_tensors() {
    CaseSpec spec = request_;
    spec.params.clear();
    const std::vector<std::string> own = own_names(facts_, Part::params);
    for (const auto& [name, value] : params_)
      if (std::find(own.begin(), own.end(), name) != own.end() && name != "scale") spec.params[name] = value;
    if (facts_.family == Family::attention && has_param("scale") && has_param("bandwidth"))
      throw InputError("--param: scale and bandwidth = 1 / scale, and not both of them");
    Problem problem = facts_.room->make(spec);
    for (const auto& [name, value] : problem.params)
      if (!(name == "bandwidth" && has_param("scale"))) params_.try_emplace(name, value);
    if (facts_.family != Family::attention && !request_.params.contains("scale")) params_.erase("scale");
    for (const RoomFacts::Ranked& ranked : facts_.room->inputs()) {
      const auto it = problem.inputs.find(ranked.field.name);
      if (it == problem.inputs.end() || is_replaced(it->first)) continue;
      dtypes_[it->first] = dtype_of(format_of(ranked.field.domain, request_.precision));
      put(it->first, std::move(it->second));
    }
  }

  /// Whether an argument stands for that input.
  bool is_replaced(std::string_view name) const {
    const bool gated = has_param("gate") && !says("gate", "log");
    return (name == "log_decay" && (gated || is_wished("dt"))) || (name == "beta" && has_param("beta_gate")) ||
           (name == "v" && has_param("value_dim"));
  }

  /// A problem's tensor, [B * H][...], as the file has it.
  void put(const std::string& name, Array array) {
    std::vector<int> shape = array.shape;
    const int rank = static_cast<int>(shape.size()) + 1;
    if (!shape.empty() && has_rows(facts_, name, false, layout_, layout_ == RowLayout::thd ? rank - 1 : rank) &&
        (name != "lambda" || shape.size() > 1)) {
      const int heads = shape[0] / B_;
      shape[0] = heads, shape.insert(shape.begin(), B_);
      array = reshaped(std::move(array), shape);
      std::vector<std::size_t> order(shape.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      if (layout_ != RowLayout::bhtd) std::swap(order[1], order[2]);
      array = permuted(array, order);
      if (layout_ == RowLayout::thd) array.shape.erase(array.shape.begin());
    } else if (name.starts_with("initial_") || name == "k_carry") {
      shape[0] /= B_, shape.insert(shape.begin(), B_);
      array = reshaped(std::move(array), shape);
    } else if (!shape.empty() && B_ > 1) {  // what is no row and no state the batch shares
      shape[0] /= B_;
      array.data.resize(array.data.size() / static_cast<std::size_t>(B_));
      array.shape = std::move(shape);
    }
    tensors_[name] = std::move(array);
  }

  /// A tensor with rows, of so many heads; `inner`: what stands behind.
  std::vector<int> rows(int heads, std::vector<int> inner = {}) const {
    std::vector<int> shape;
    if (layout_ == RowLayout::thd) shape = {T_, heads};
    if (layout_ == RowLayout::bthd) shape = {B_, T_, heads};
    if (layout_ == RowLayout::bhtd) shape = {B_, heads, T_};
    shape.insert(shape.end(), inner.begin(), inner.end());
    return shape;
  }

  void draw_component() {
    const int D = request_.shape.key_dim;
    const std::vector<int> shape = layout_ == RowLayout::thd ? std::vector{T_, D} : std::vector{B_, T_, D};
    add("x", draw_.normal("x", shape));
    if (facts_.family == Family::norm) {
      add("z", draw_.normal("z", shape));
      add("weight", draw_.normal("weight", {D}, 0.5, 1));
      if (!has_param("eps")) params_["eps"] = std::string("1e-5");
      return;
    }
    const int width = request_.shape.value_dim;
    add("weight", draw_.normal("weight", {D, width}, 1 / std::sqrt(width)));
    add("bias", draw_.normal("bias", {D}));
    add("initial_state", draw_.normal("initial_state", {B_, D, width - 1}));
  }

  // ---- arguments

  /// In the precision of the case, or in fp32.
  void add(const std::string& name, Array array, bool narrow = true) {
    dtypes_[name] = dtype_of(narrow ? request_.precision : Format::fp32);
    tensors_[name] = std::move(array);
  }

  /// Adds the numbers that were typed, one for all or one for each; the drawn ones where nothing was typed.
  void add_drawn(const std::string& name, Array drawn, bool narrow) {
    add(name, as_typed(name, std::move(drawn)), narrow);
  }
  Array as_typed(const std::string& name, Array drawn) const {
    const std::string words = words_of(name);
    if (!words.empty()) {
      const std::vector<std::string> list = split(words);
      require(list.size() == 1 || list.size() == drawn.data.size(), "--with: ", name, ": expected one number or ",
              drawn.data.size(), ", got ", list.size());
      for (std::size_t i = 0; i < drawn.data.size(); ++i)
        drawn.data[i] = number_from(name, list[list.size() == 1 ? 0 : i]);
    }
    return drawn;
  }

  void draw_gates() {
    const int K = request_.shape.key_dim;
    if (has_param("gate") && !says("gate", "log") && takes("gate")) {
      const language::Input* plain = facts_.program == nullptr ? nullptr : facts_.program->input("log_decay");
      const bool channels = plain != nullptr && plain->type.axes.size() == 2;
      add_drawn("a", draw_.normal("a", channels ? rows(H_, {K}) : rows(H_), 2), true);
      if (says("gate", "softplus") || says("gate", "bounded"))
        add_drawn("a_log", draw_.uniform("a_log", {H_}, -2, 1), false);
      add_drawn("dt_bias", channels ? draw_.normal("dt_bias", {H_, K}) : draw_.normal("dt_bias", {H_}), false);
      if (says("gate", "bounded") && !has_param("lower_bound")) params_["lower_bound"] = std::string("-5");
    }
    if (has_param("beta_gate") && takes("beta_gate")) add_drawn("b", draw_.normal("b", rows(H_), 2), true);
    if (is_wished("dt")) {
      add_drawn("dt", draw_.normal("dt", rows(H_), 0.5, 0.5), true);
      if (is_wished("a_log"))
        add_drawn("a_log", draw_.uniform("a_log", {H_}, -2, 1), false);
      else
        add_drawn("rate", draw_.uniform("rate", {H_}, -2, -0.125), false);
      if (!has_param("dt_softplus")) params_["dt_softplus"] = true;
      if (is_wished("dt_bias")) add_drawn("dt_bias", draw_.normal("dt_bias", {H_}), false);
    }
    if (is_wished("skip")) add_drawn("skip", draw_.normal("skip", {H_}), false);
    if (is_wished("z")) add_drawn("z", draw_.normal("z", rows(H_, {request_.shape.value_dim})), true);
  }

  void draw_numbers() {
    if (is_wished("sink")) add_drawn("sink", draw_.normal("sink", {H_}), false);
    if (is_wished("alibi_slopes"))
      add_drawn(
          "alibi_slopes",
          draw_.each("alibi_slopes", {H_},
                     [&](const Stream&, std::size_t h) { return std::exp2(-8.0 * static_cast<double>(h + 1) / H_); }),
          false);
    for (const char* name : {"q_scale", "k_scale", "v_scale"}) {
      if (!is_wished(name)) continue;
      const bool queries = name[0] == 'q';
      std::vector<int> shape = {queries ? H_ : G_};
      if (is("fp8_per_token_head")) shape.push_back(B_ * (queries ? T_ : S_));
      if (const auto block = params_.find("scale_block"); block != params_.end()) {
        const Json list = parse_json(std::get<std::string>(block->second), "--param: scale_block");
        require(list.is_array() && list.size() == 2 && list[0].is_number_integer() && list[1].is_number_integer() &&
                    list[0].get<int>() > 0 && list[1].get<int>() > 0,
                "--param: scale_block: expected two positive integers, rows and channels");
        const int d = name[0] == 'v' ? request_.shape.value_dim : request_.shape.key_dim;
        const auto blocks = [](int n, int size) { return (n + size - 1) / size; };
        shape.push_back(blocks(B_ * (queries ? T_ : S_), list[0].get<int>()));
        shape.push_back(blocks(d, list[1].get<int>()));
      }
      add_drawn(name, draw_.uniform(name, shape, 0.5, 1.5), false);
    }
  }

  /// Codes in place of operands, and their scales: those of `quantize`, of a row and so many channels each.
  void quantize_operands() {
    for (const char* name : {"q", "k", "v"})
      if (is_quantized() && tensors_.contains(name) && tensors_.contains(std::string(name) + "_scale")) quantize(name);
  }
  void quantize(const std::string& name) {
    Array &x = tensors_.at(name), &scales = tensors_.at(name + "_scale");
    const int heads = name == "q" ? H_ : G_, rows = name == "q" ? T_ : S_;
    const auto d = static_cast<std::size_t>(x.shape.back());
    const std::size_t block = is("fp8_per_token_head") ? d : static_cast<std::size_t>(channels_of_block());
    const auto size_of = [](double most, double y) { return std::max(most, std::fabs(y)); };
    const double of_tensor =
        round_to(std::accumulate(x.data.begin(), x.data.end(), 0.0, size_of) / (448 * 6), Format::fp32);
    std::size_t s = 0;
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < B_ * rows; ++i) {
        const int b = i / rows, t = i % rows;
        const auto row =
            static_cast<std::size_t>(layout_ == RowLayout::bhtd ? (b * heads + h) * rows + t : i * heads + h) * d;
        for (std::size_t c = 0; c < d; c += block, ++s) {
          const auto first = x.data.begin() + static_cast<std::ptrdiff_t>(row + c),
                     last = first + static_cast<std::ptrdiff_t>(block);
          const double scale = scale_for(std::accumulate(first, last, 0.0, size_of), of_tensor);
          scales.data.at(s) = round_to(scale, Format::fp32);
          for (auto y = first; y != last; ++y) *y = scale == 0 ? 0 : code_of(*y / scale);
        }
      }
  }
  /// The scale of a block whose largest number has that size.
  double scale_for(double most, double of_tensor) const {
    constexpr int largest_exponent = 8;  // of E4M3
    constexpr double largest = 448;
    if (is("mxfp8")) return std::exp2(most > 0 ? std::ilogb(most) - largest_exponent : -127);
    if (is("fp8_per_token_head")) return most > 0 ? round_to(most / largest, Format::fp32) : 1;
    return round_to(most / (6 * of_tensor), Format::e4m3) * of_tensor;
  }
  double code_of(double x) const {
    return is("nvfp4") ? nearest_e2m1(x) : round_to(x, Format::e4m3, Overflow::saturate);
  }

  void draw_visibility() {
    const std::vector<int> pairs = {T_, S_};
    if (is_wished("bias") && facts_.family == Family::attention) {
      const double middle = is("low_lse") ? -240 : is("high_lse") ? 240 : 0;
      std::vector<int> shape = {H_, T_, S_};
      if (B_ > 1) shape.insert(shape.begin(), B_);
      if (words_of("bias") == "shared") shape = pairs, forget("bias");
      add_drawn("bias", draw_.normal("bias", shape, 1, middle), true);
    }
    if (is_wished("mask")) {
      const auto drawn = draw_.each("mask", pairs, [&](const Stream& s, std::size_t i) { return s.uniform(i) < 0.7; });
      Array mask = as_typed("mask", drawn);
      for (std::size_t row = 1; is("empty_rows") && row < static_cast<std::size_t>(T_); row += 3)
        std::fill_n(mask.data.begin() + static_cast<std::ptrdiff_t>(row * static_cast<std::size_t>(S_)), S_, 0.0);
      tensors_["mask"] = std::move(mask), dtypes_["mask"] = "BOOL";
    }
    if (is_wished("documents_q")) {
      add_integers("documents_q", documents(T_));
      if (T_ != S_ || is_wished("documents_k")) add_integers("documents_k", documents(S_));
    }
  }

  void forget(const std::string& name) {
    for (auto& [wish, words] : wishes_)
      if (wish == name) words.clear();
  }

  /// Documents of one, two, three, ... tokens.
  std::vector<int> documents(int rows) const {
    std::vector<int> list;
    for (int d = 0; static_cast<int>(list.size()) < rows; ++d)
      for (int n = 0; n <= d % (is("short_documents") ? 3 : rows) && static_cast<int>(list.size()) < rows; ++n)
        list.push_back(d);
    return list;
  }

  void add_integers(const std::string& name, std::vector<int> missing) {
    const std::string words = words_of(name);
    if (!words.empty()) {
      missing.clear();
      for (const std::string& word : split(words)) {
        const auto n = parse_number<int>(word);
        require(n.has_value(), "--with: ", name, ": ", excerpt(word), " is no integer");
        missing.push_back(*n);
      }
    }
    Array array({static_cast<int>(missing.size())});
    std::copy(missing.begin(), missing.end(), array.data.begin());
    tensors_[name] = std::move(array), dtypes_[name] = "I32";
  }

  /// Rows of all sequences, [B * S][G][...], in pages of that order, as the file has them. `rest`: slots of no row.
  Array in_pages(const Array& rows, const std::vector<int>& order, int size, double rest) const {
    const int each = (S_ + size - 1) / size;
    std::vector<int> shape = rows.shape;
    shape[0] = size, shape.insert(shape.begin(), static_cast<int>(order.size()));
    Array paged(shape);
    std::fill(paged.data.begin(), paged.data.end(), rest);
    const std::size_t row = rows.data.size() / static_cast<std::size_t>(B_ * S_);
    for (int i = 0; i < B_ * S_; ++i) {
      const int j = i % S_, page = order[static_cast<std::size_t>(i / S_ * each + j / size)];
      std::copy_n(
          rows.data.begin() + static_cast<std::ptrdiff_t>(row * static_cast<std::size_t>(i)), row,
          paged.data.begin() + static_cast<std::ptrdiff_t>(row * static_cast<std::size_t>(page * size + j % size)));
    }
    if (layout_ != RowLayout::bhtd) return paged;
    std::vector<std::size_t> axes(shape.size());
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    std::swap(axes[1], axes[2]);
    return permuted(paged, axes);
  }
  /// Keys and values in pages whose order says nothing, with one page more than is used.
  void draw_pages() {
    if (!is_wished("page_table")) return;
    const std::string words = words_of("page_table");
    constexpr int usual_page = 16;
    const int size = words.empty() ? usual_page : static_cast<int>(number_from("page_table", words));
    require(size > 0, "--with: page_table: expected rows of a page, got ", words);
    const int each = (S_ + size - 1) / size, pages = B_ * each + 1;
    std::vector<int> order(static_cast<std::size_t>(pages));
    std::iota(order.begin(), order.end(), 0);
    const Stream stream(request_.seed, "argument page_table");
    for (std::size_t i = order.size(); i-- > 1;)
      std::swap(order[i], order[static_cast<std::size_t>(stream.integer(i, static_cast<int>(i) + 1))]);
    for (const char* name : {"k", "v"}) {
      if (!tensors_.contains(name)) continue;
      Array& dense = tensors_.at(name);
      if (layout_ == RowLayout::bhtd) dense = permuted(dense, {0, 2, 1, 3});
      const int d = dense.shape.back();
      dense = in_pages(reshaped(std::move(dense), {B_ * S_, G_, d}), order, size, 0);
    }
    for (const char* name : {"k_scale", "v_scale"}) {
      const auto found = tensors_.find(name);
      if (found == tensors_.end() || found->second.shape.size() < 2) continue;
      Array& scales = found->second;
      require(scales.shape[1] == B_ * S_, "--param: scale_block: blocks of keys in pages have one row");
      const bool of_blocks = scales.shape.size() > 2;
      scales = permuted(scales, of_blocks ? std::vector<std::size_t>{1, 0, 2} : std::vector<std::size_t>{1, 0});
      scales = in_pages(scales, order, size, 1);
    }
    Array table({B_, each});
    for (std::size_t i = 0; i < table.data.size(); ++i) table.data[i] = order[i];
    tensors_["page_table"] = std::move(table), dtypes_["page_table"] = "I32";
    wish("lengths_k");
    add_lengths("lengths_k", S_, size - 1);
  }

  /// `most`, and for every further sequence `step` fewer.
  void add_lengths(const std::string& name, int most, int step) {
    std::vector<int> lengths(static_cast<std::size_t>(B_));
    for (int b = 0; b < B_; ++b) lengths[static_cast<std::size_t>(b)] = std::max(0, most - b * step);
    add_integers(name, std::move(lengths));
  }

  /// Sequences of no token, one, two, three eighths, the rest but two rows.
  static std::vector<int> starts(int rows) {
    std::vector<int> cu = {0, 0};
    for (const int end : {1, 3, 3 + rows * 3 / 8, rows - 2}) cu.push_back(std::clamp(end, cu.back(), rows));
    return cu;
  }

  void draw_sequences() {
    for (const char* name : {"cu_seqlens", "cu_seqlens_q", "cu_seqlens_k"})
      if (is_wished(name)) add_integers(name, starts(name[std::string_view(name).size() - 1] == 'k' ? S_ : T_));
    for (const char* name : {"lengths", "lengths_q", "lengths_k"}) {
      if (!is_wished(name) || tensors_.contains(name)) continue;
      add_lengths(name, (name[std::string_view(name).size() - 1] == 'k' ? S_ : T_) - 1, 3);
    }
    if (is_wished("state_at")) add_integers("state_at", {0, T_ / 2, T_ / 2});
    const auto cu = tensors_.find("cu_seqlens");
    for (auto& [name, array] : tensors_) {
      if (!name.starts_with("initial_") && name != "k_carry") continue;
      if (cu != tensors_.end()) {  // every sequence has its own
        std::vector<int> shape = array.shape;
        shape[0] = cu->second.shape[0] - 1;
        array = draw_.normal(name, shape);
      }
      if (says("state_layout", "v_first") && array.shape.size() == 4) array = permuted(array, {0, 1, 3, 2});
    }
  }

  // ---- keys that rows choose

  /// Where a row of the batch stands: which one of its sequence it is, and how many rows and keys that has. One outside
  /// of every sequence has no keys.
  struct Place {
    int row = 0, rows = 0, keys = 0;
  };
  std::vector<Place> places() const {
    const auto one_of = [&](const char* both, const char* side) -> const Array* {
      for (const char* name : {side, both})
        if (const auto found = tensors_.find(name); found != tensors_.end()) return &found->second;
      return nullptr;
    };
    const auto number = [](const Array* list, int n, int missing) {
      return list != nullptr && n < list->shape[0] ? static_cast<int>(list->data[static_cast<std::size_t>(n)])
                                                   : missing;
    };
    const Array *cu_q = one_of("cu_seqlens", "cu_seqlens_q"), *cu_k = one_of("cu_seqlens", "cu_seqlens_k"),
                *lengths_q = one_of("lengths", "lengths_q"), *lengths_k = one_of("lengths", "lengths_k");
    std::vector<Place> all(static_cast<std::size_t>(B_ * T_));
    const int count = cu_q != nullptr ? cu_q->shape[0] - 1 : B_;
    for (int n = 0; n < count; ++n) {
      const int begin = number(cu_q, n, n * T_), first_key = number(cu_k, n, n * S_);
      const int rows = number(lengths_q, n, number(cu_q, n + 1, (n + 1) * T_) - begin),
                keys = number(lengths_k, n, number(cu_k, n + 1, (n + 1) * S_) - first_key);
      for (int r = std::max(0, -begin); r < rows && begin + r < B_ * T_; ++r)
        all.at(static_cast<std::size_t>(begin + r)) = {r, rows, std::clamp(keys, 0, S_)};
    }
    return all;
  }

  int choice_block() const {
    const auto block = params_.find("topk_block_size");
    if (block == params_.end()) return 1;
    const long* keys = std::get_if<long>(&block->second);
    require(keys != nullptr && *keys > 0 && *keys <= std::numeric_limits<int>::max(),
            "--param: topk_block_size: expected an integer of at least 1");
    return static_cast<int>(*keys);
  }

  /// Keys, or blocks of them, of the first so many that a row may see, in an order that says nothing. One of seven is
  /// never chosen: kernels that read it anyway find NaN.
  std::vector<int> candidates(const Stream& stream, std::size_t list, const Place& place) const {
    const bool causal = !has_param("causal") || params_.at("causal") == Param(true);
    const int shift = says("causal_align", "start") ? 0 : place.keys - place.rows, block = choice_block();
    const int reach = causal ? std::clamp(place.row + shift + 1, 0, place.keys) : place.keys;
    std::vector<int> all;
    for (int b = 0; b <= (reach - 1) / block && reach > 0; ++b)
      if (b % 7 != 5) all.push_back(b);
    const std::size_t fixed = is("one_key_for_all") ? 1 : 0;  // the first of them is the first key
    for (std::size_t i = all.size(); i-- > fixed + 1;)
      std::swap(all[i], all[fixed + static_cast<std::size_t>(stream.integer(list * static_cast<std::size_t>(S_) + i,
                                                                            static_cast<int>(i - fixed) + 1))]);
    return all;
  }

  /// Lists as they were typed, of so many entries each; or drawn ones.
  void take_choice() {
    if (!is_wished("topk_indices")) return;
    const std::vector<std::string> words = split(words_of("topk_indices"));
    const std::size_t lists = static_cast<std::size_t>(B_ * T_) * static_cast<std::size_t>(G_);
    constexpr int most = 64, beyond = 66;  // lists of the style choice_lengths end behind its longest
    int entries = is("choice_lengths") ? beyond : std::clamp((S_ / choice_block() + 1) / 2, 1, most);
    if (words.size() > 1)
      entries = static_cast<int>(words.size() / lists);
    else if (!words.front().empty())
      entries = static_cast<int>(number_from("topk_indices", words.front()));
    require(entries > 0 && (words.size() == 1 || words.size() == lists * static_cast<std::size_t>(entries)),
            "--with: topk_indices: expected how many entries a list has, or those of ", lists, " lists, got ",
            words.size() > 1 ? text(words.size(), " numbers") : words.front());
    Array indices = words.size() > 1 ? as_typed("topk_indices", Array({B_, T_, G_, entries})) : drawn_choice(entries);
    require_integers("topk_indices", indices);
    if (layout_ == RowLayout::bhtd) indices = permuted(indices, {0, 2, 1, 3});
    if (layout_ == RowLayout::thd) indices.shape.erase(indices.shape.begin());
    tensors_["topk_indices"] = std::move(indices), dtypes_["topk_indices"] = "I32";
    if (is_wished("topk_length")) draw_choice_lengths(entries);
  }

  static void require_integers(const char* name, const Array& array) {
    for (const double x : array.data)
      require(x == std::trunc(x) && std::fabs(x) <= std::numeric_limits<int>::max(), "--with: ", name,
              ": expected integers, got ", x);
  }

  /// Lists of distinct keys, here and there with -1 among them, and -1 where there are no more.
  Array drawn_choice(int entries) const {
    const Stream stream(request_.seed, "argument topk_indices");
    const std::vector<Place> rows = places();
    Array indices({B_, T_, G_, entries});
    std::fill(indices.data.begin(), indices.data.end(), -1.0);
    const auto n = static_cast<std::size_t>(entries), heads = static_cast<std::size_t>(G_);
    for (std::size_t list = 0; list < rows.size() * heads; ++list) {
      const std::size_t row = list / heads;
      if (is("nothing_chosen") || (is("empty_choices") && row % 3 == 1)) continue;
      const std::vector<int> keys = candidates(stream, list, rows[row]);
      for (std::size_t e = 0; e < std::min(n, keys.size()); ++e)
        if (row % 2 == 0 || e % 5 != 3) indices.data[list * n + e] = keys[e];
    }
    return indices;
  }

  void draw_choice_lengths(int entries) {
    const std::vector<int> shape = layout_ == RowLayout::thd ? std::vector{T_} : std::vector{B_, T_};
    const auto drawn = draw_.each("topk_length", shape, [&](const Stream& s, std::size_t i) -> double {
      if (is("choice_lengths")) return std::min(entries, std::array{64, 63, 65, 0, 1}.at(i % 5));
      return s.integer(i, entries + 1);
    });
    Array lengths = as_typed("topk_length", drawn);
    require_integers("topk_length", lengths);
    tensors_["topk_length"] = std::move(lengths), dtypes_["topk_length"] = "I32";
  }

  /// Applies the style to the tensors.
  void excite() {
    const auto scale_rows = [&](const char* name, const auto& factor) {
      const auto it = tensors_.find(name);
      if (it == tensors_.end()) return;
      const auto d = static_cast<std::size_t>(it->second.shape.back());
      for (std::size_t i = 0; i < it->second.data.size(); ++i) it->second.data[i] *= factor(i / d);
    };
    for (const char* name : {"q", "k", "p"}) {
      // A kernel that forgets the norm shows.
      if (has_param("l2_norm") && !is("tiny_norms") && !is("huge_norms"))
        scale_rows(name, [](std::size_t row) { return std::array{1.0, 2.0, 0.5, 4.0, 0.25}.at(row % 5); });
      if (is("tiny_norms"))
        scale_rows(name, [](std::size_t row) { return std::array{1.0, 1e-2, 1e-3, 1e-4, 0.0}.at(row % 5); });
      if (is("huge_norms")) scale_rows(name, [](std::size_t row) { return row % 3 == 0 ? 1e3 : 1.0; });
    }
    if (is("hard_cap")) scale_rows("q", [](std::size_t) { return 4.0; });
    if (is("far_choices"))  // in the other rows gradients are more than what rounding leaves
      scale_rows("q", [](std::size_t row) { return row % 3 == 0 ? 64.0 : 1.0; });
    for (const char* name : {"a", "b", "dt"})
      if (const auto it = tensors_.find(name); is("saturated_gates") && it != tensors_.end())
        for (std::size_t i = 0; i < it->second.data.size(); ++i)
          it->second.data[i] = std::array{30.0, -30.0, 12.0, -12.0, 0.0, 88.0, -88.0}.at(i % 7);
  }

  // ---- the file

  Problem problem() const {
    Problem problem;
    problem.mechanism = request_.mechanism + std::string(room_suffix);
    problem.params = params_;
    problem.params["layout"] = request_.layout;
    for (const auto& [name, array] : tensors_) problem.inputs[name] = array;
    return problem;
  }

  void round() {
    for (auto& [name, array] : tensors_)
      for (double& x : array.data)
        for (const Format format : case_precisions)
          if (format != Format::tf32 && dtypes_.at(name) == dtype_of(format)) x = round_to(x, format);
  }

  /// Rows outside of every sequence hold nothing, and a kernel that reads them shall see it.
  void poison(const FileCase& file) {
    for (auto& [name, array] : tensors_) {
      if (!file.plan().padded.contains(name)) continue;
      const std::vector<bool> read = read_numbers(file.plan(), name);
      for (std::size_t i = 0; i < read.size(); ++i)
        if (!read[i]) array.data[file.place_in_file(name, i)] = std::numeric_limits<double>::quiet_NaN();
    }
  }

  /// Puts scales of blocks where scale_layout has them; what is left of tiles is 0, as quantisers leave it.
  void swizzle() {
    const auto given = params_.find("scale_layout");
    const auto* word = given == params_.end() ? nullptr : std::get_if<std::string>(&given->second);
    if (word == nullptr) return;
    const ScaleLayout layout = scale_layout_from(*word);
    const bool paged = tensors_.contains("page_table");
    for (const char* name : {"q_scale", "k_scale", "v_scale"}) {
      const auto found = tensors_.find(name);
      if (found == tensors_.end() || !is_swizzled(layout, name)) continue;
      Array& scales = found->second;
      if (!is_of_blocks(name, scales.shape.size(), paged)) continue;
      const bool heads_behind = scales.shape.size() == 4 && layout_ != RowLayout::bhtd;  // [pages][S][G][n]
      if (heads_behind) scales = permuted(scales, {0, 2, 1, 3});
      scales = swizzled(scales, layout, name);
      if (heads_behind) scales = permuted(scales, {0, 2, 1, 3});
    }
  }
  /// Rows and columns are the last axes.
  static Array swizzled(const Array& scales, ScaleLayout layout, std::string_view name) {
    std::vector<int> shape = scales.shape;
    const ScaleMatrix matrix{layout, shape[shape.size() - 2], shape.back()};
    matrix.admit(name);
    shape[shape.size() - 2] = matrix.stored_rows(), shape.back() = matrix.stored_cols();
    Array stored(shape);
    std::size_t from = 0;
    for (std::size_t first = 0; first < stored.data.size(); first += matrix.stored())
      for (int r = 0; r < matrix.rows; ++r)
        for (int c = 0; c < matrix.cols; ++c) stored.data[first + matrix.place(r, c)] = scales.data[from++];
    return stored;
  }

  Safetensors finish(std::string_view tool_version) {
    round();
    swizzle();
    const FileCase file(problem());
    poison(file);
    Safetensors out;
    Json digests = Json::object();
    const auto put_file = [&](const std::string& name, const Array& array, const std::string& dtype) {
      digests[name] = sha256(array);
      out.tensors[name] = dtype == "I32" || dtype == "BOOL" ? store_integers(array, dtype) : store(array, dtype);
    };
    for (const auto& [name, array] : tensors_) put_file(name, array, dtypes_.at(name));
    for (const auto& [name, tensor] : file.judged()) {
      if (!request_.cotangents || (name == "lse" && !is_wished("lse"))) continue;
      const Scattered scattered = file.scattered(name);
      Array drawn = draw_.normal("d_" + name, scattered.shape), cotangent(scattered.shape);
      std::fill(cotangent.data.begin(), cotangent.data.end(), std::numeric_limits<double>::quiet_NaN());
      for (const std::size_t i : scattered.at) cotangent.data[i] = round_to(drawn.data[i], request_.precision);
      put_file("d_" + name, cotangent, dtype_of(request_.precision));
    }
    Json params = json_of(params_);
    if (const auto block = params.find("scale_block"); block != params.end())
      *block = parse_json(block->get<std::string>(), "scale_block");
    out.metadata = metadata_of(request_, facts_.room.get(), params, tool_version);
    out.metadata["layout"] = request_.layout, out.metadata["sha256"] = digests.dump();
    // With cotangents d_lse says that it is asked for.
    if (is_wished("lse") && !request_.cotangents) out.metadata["outputs"] = Json{"lse"}.dump();
    return out;
  }

  const CaseSpec& request_;
  const Facts facts_;
  const Draw draw_;
  const int B_, T_, S_, H_, G_;
  RowLayout layout_ = RowLayout::bthd;
  Params params_;
  std::vector<std::pair<std::string, std::string>> wishes_;
  std::map<std::string, Array> tensors_;
  std::map<std::string, std::string> dtypes_;
};

}  // namespace

std::span<const ArgumentStyle> argument_styles() { return styles; }

bool is_argument_style(std::string_view name) {
  return std::any_of(std::begin(styles), std::end(styles), [&](const ArgumentStyle& s) { return s.name == name; });
}

bool set_style(CaseSpec& spec, std::string_view name) {
  const std::optional<Style> style = style_from(name);
  spec.style = style.value_or(Style::normal), spec.argument_style = is_argument_style(name) ? name : "";
  return style || !spec.argument_style.empty();
}

std::string argument_flags(const CaseSpec& spec) {
  std::string flags;
  for (const auto& [name, value] : spec.with)
    flags += " --with " + shown_word(value.empty() ? name : name + "=" + value);
  return spec.layout == CaseSpec().layout ? flags : flags + " --layout " + spec.layout;
}

bool asks_for_arguments(const CaseSpec& spec) {
  if (spec.layout != CaseSpec().layout || !spec.argument_style.empty()) return true;
  const Facts facts = facts_of(spec.mechanism);
  if (facts.room == nullptr) return !spec.with.empty() || facts.family != Family::other;
  const std::vector<RoomFacts::Ranked> inputs = facts.room->inputs();
  const auto is_of_room = [&](const auto& wish) {
    const RoomFacts::Ranked* input = find_field(inputs, wish.first);
    return input != nullptr && input->field.missing == Field::Missing::worked_out;
  };
  if (!std::all_of(spec.with.begin(), spec.with.end(), is_of_room)) return true;
  return std::any_of(spec.params.begin(), spec.params.end(), [&](const auto& param) {
    return param.first != "scale" && is_argument(facts, Part::params, param.first);
  });
}

Safetensors draw_case(const CaseSpec& spec, std::string_view tool_version) {
  const auto room = asks_for_arguments(spec) ? nullptr : find_room(spec.mechanism);
  return room != nullptr ? plain_case(*room, spec, tool_version) : Maker(spec).make(tool_version);
}

}  // namespace assay::arguments
