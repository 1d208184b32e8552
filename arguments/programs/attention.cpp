// Softmax attention, Parallax and local linear attention with all that section 1 of docs/arguments.md has.
#include <algorithm>
#include <limits>
#include <utility>

#include "arguments/programs/chosen_keys.hpp"
#include "arguments/programs/families.hpp"
#include "arguments/programs/join.hpp"
#include "arguments/programs/library.hpp"
#include "oracles/core/bind.hpp"
#include "oracles/scalars/scalar.hpp"

namespace assay::arguments {
namespace {

/// Two sides of attention, and what a case of it has beside them.
class Attention {
 public:
  Attention(const Given& given, const Facts& facts)
      : given_(given), form_(facts.name), plan_(program_of(given, facts)) {}

  Plan plan() && {
    take_sides();
    take_scale();
    take_visibility();
    take_bias();
    plan_.choice = choice_of(given_, q_.head_count(), q_.rows());
    if (form_ == "softmax_attention") take_sink();
    if (form_ == "parallax") rho_ = tokens("rho", 2);
    if (form_ == "parallax_gate")
      x_ = tokens("x", 2), wholes_ = {taken(given_, plan_, "w_r", 2), taken(given_, plan_, "w_g", 1)};
    if (form_ == "lla") take_ridge();
    take_factors();
    take_outputs();
    for (int n = 0; n < sequences_.count(); ++n) add_piece(static_cast<std::size_t>(n));
    return std::move(plan_);
  }

 private:
  static language::Program program_of(const Given& given, const Facts& facts) {
    const std::string form = facts.name == "parallax_gate" ? "parallax" : facts.name;
    std::string settings;
    if (form == "lla") {
      const std::string mode = given.choice("lambda_mode", {"mass", "absolute", "max"});
      settings = mode == "mass" ? "" : "-lambda_mode-" + mode;
    }
    Join join;
    std::vector<std::string> outputs = {"o", "lse", "empty"};
    if (given.has_param("bandwidth")) join.then(part("inverse_bandwidth"));
    if (given.has_input("q_scale")) dequantize(join, "q", "q_scale", "T", "K");
    if (given.has_input("k_scale")) dequantize(join, "k", "k_scale", "S", "K");
    // The values that are channels of k have k's scales.
    if (given.has_input("v_scale") || (given.has_param("value_dim") && given.has_input("k_scale")))
      dequantize(join, "v", "v_scale", "S", "V");
    if (facts.name == "parallax_gate") {
      join.then(part("probe"));
      outputs.insert(outputs.end(), {"rho", "gate"});
    }
    return join.then(part(form + settings)).program(facts.name, outputs);
  }

  static void dequantize(Join& join, const char* operand, const char* factor, const char* rows, const char* channels) {
    join.then(part("dequantized"), {{"x", operand}, {"factor", factor}}, {{"y", operand}},
              {{"R", rows}, {"C", channels}});
  }

  void take_sides() {
    const bool paged = given_.has_input("page_table");
    q_ = taken(given_, plan_, "q", 2);
    k_ = taken(given_, plan_, "k", paged ? 3 : 2);
    if (paged) pages_ = merge_pages(k_);
    const std::optional<int> value_dim = given_.integer("value_dim", 1);
    if (value_dim) {
      require_domain(!given_.has_input("v"), -1, "value_dim: v is given, too");
      require_domain(!given_.has_input("v_scale"), -1, "value_dim: v is a part of k, whose scales are k_scale");
      require_domain(*value_dim <= k_.shape.back(), -1, "value_dim: ", *value_dim, " channels of the ", k_.shape.back(),
                     " of k");
      values_ = *value_dim;
    } else {
      v_ = taken(given_, plan_, "v", paged ? 3 : 2);
      if (paged) merge_pages(v_);
      require_domain(v_.heads == k_.heads && v_.head_count() == k_.head_count() && v_.rows() == k_.rows(), -1,
                     "v: shape ", assay::detail::shape_text(plan_.inputs.at("v").shape),
                     " does not go with that of k, ", assay::detail::shape_text(plan_.inputs.at("k").shape));
      values_ = v_.shape.back();
    }
    require_domain(!q_.heads || !k_.heads || q_.shape[0] % k_.shape[0] == 0, -1, "q: ", q_.head_count(),
                   " heads cannot share ", k_.head_count(), " heads of k evenly");
    heads_ = q_.heads || k_.heads, head_count_ = std::max(q_.head_count(), k_.head_count());
    sequences_ = sequences_of(given_, q_.rows(), k_.rows(), pages_);
    plan_.padded.insert({"q", "k", "v"});
    mark_tokens(q_);
    if (!paged) mark_tokens(k_);
    if (!paged && !value_dim) mark_tokens(v_);
  }

  /// Pages as rows of one table.
  static Pages merge_pages(Tensor& tensor) {
    const std::size_t at = tensor.heads ? 1 : 0;
    const Pages pages{tensor.shape[at], tensor.shape[at + 1]};
    tensor.shape[at] *= tensor.shape[at + 1];
    tensor.shape.erase(tensor.shape.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    return pages;
  }

  void mark_tokens(const Tensor& tensor) { plan_.tokens[tensor.name] = tensor.heads ? 1 : 0; }

  void take_scale() {
    const auto scale = given_.number("scale", Status::domain), bandwidth = given_.number("bandwidth");
    require_domain(scale || bandwidth, -1, "scale: missing, and bandwidth, which is 1 / scale, too");
    require_domain(!scale || !bandwidth, -1, "scale: bandwidth is given, too, which is 1 / scale");
    const std::string name = scale ? "scale" : "bandwidth";
    if (bandwidth) plan_.ranges["bandwidth"] = Range::positive;
    plan_.inputs[name] = {{}, {scale ? *scale : *bandwidth}};
    plan_.gradients.insert(name);
    number_ = name;
    if (const auto cap = given_.number("soft_cap")) {
      require_domain(sign_of(*cap) > 0, -1, "params.soft_cap: expected a number above 0, got ", *cap,
                     "; a case without it has no cap");
      plan_.params["soft_cap"] = *cap;
    }
    plan_.params["base_2"] = given_.choice("lse_base", {"e", "2"}) == "2";
  }

  void take_visibility() {
    const bool causal = given_.truth("causal", true);
    const auto window = given_.integer("window", 1), left = given_.integer("window_left", 0),
               right = given_.integer("window_right", 0);
    require_domain(!window || causal, -1, "params.window: is of causal attention, and causal is false");
    require_domain(!window || (!left && !right), -1, "params.window: window_left or window_right is given, too");
    plan_.params["from_start"] = given_.choice("causal_align", {"end", "start"}) == "start";
    plan_.params["window_left"] = long{window ? *window - 1 : left.value_or(-1)};
    plan_.params["window_right"] = long{causal ? 0 : right.value_or(-1)};
    for (const char* name : {"bias", "mask", "documents_q", "documents_k"})
      require_domain(!given_.has_input(name) || !sequences_.packed || given_.batch() > 1, -1, name,
                     ": is of a single sequence, and the case says where several start or end");
    const auto documents_q = given_.integers("documents_q", std::numeric_limits<int>::min()),
               documents_k = given_.integers("documents_k", std::numeric_limits<int>::min());
    require_domain(documents_q || !documents_k, -1, "documents_q: missing beside documents_k");
    if (!documents_q) return;
    documents("documents_q", *documents_q, q_.rows());
    documents("documents_k", documents_k ? *documents_k : *documents_q, k_.rows());
  }

  void documents(const char* name, const std::vector<int>& list, int rows) {
    require_domain(static_cast<int>(list.size()) == rows, -1, name, ": expected ", rows,
                   " integers, one for every row, got ", list.size());
    Numbers numbers{{rows}, {}};
    for (const int d : list) numbers.data.push_back(std::to_string(d));
    documents_.push_back(put(plan_, name, std::move(numbers), 1));
  }

  /// [Tq][Tk], or that for every query head; or for every sequence of a batch one or one for every head.
  void require_pairs(const char* name, const Numbers& numbers) const {
    const int batch = given_.batch(), heads = std::max(q_.head_count(), 1);
    std::vector<int> shape = {q_.rows() / batch, k_.rows() / batch};
    const bool shared = numbers.shape == shape;
    shape.insert(shape.begin(), heads);
    const std::string expected = text("[", shape[1], ", ", shape[2], "] or that for every head of q");
    bool fits = shared || numbers.shape == shape;
    if (given_.is_by_sequence(name))
      for (const int each : {1, heads}) shape[0] = batch * each, fits = fits || numbers.shape == shape;
    require_domain(fits, -1, name, ": expected ", expected,
                   batch > 1 ? ", with the sequences of the batch in front" : "", ", got shape ",
                   assay::detail::shape_text(numbers.shape));
  }

  /// Heads of that sequence of what every sequence of the batch has its own of; all of what they share.
  Picked of_sequence(const Tensor& tensor, std::size_t n) const {
    if (!given_.is_by_sequence(tensor.name) && !(tensor.name == "mask" && given_.is_by_sequence("bias")))
      return whole_of(tensor);
    if (!tensor.heads) return whole_of(tensor);
    const int each = tensor.shape[0] / given_.batch();
    std::vector<PickedAxis> axes = whole_axes(tensor.shape);
    axes[0].elements = first(each);
    Picked one = picked(tensor.name, axes);
    for (std::size_t& i : one.at) i += n * static_cast<std::size_t>(each) * axes[0].stride;
    return one;
  }

  void take_bias() {
    const std::string place = given_.choice("bias_place", {"after_cap", "before_cap", "before_scale"});
    plan_.params["before_cap"] = place == "before_cap";
    plan_.params["before_scale"] = place == "before_scale";
    plan_.params["signed"] = given_.choice("alibi_form", {"distance", "signed"}) == "signed";
    std::optional<Numbers> mask = given_.truths("mask"), bias = given_.numbers("bias");
    if (mask) require_pairs("mask", *mask);
    require_domain(!mask || !bias || given_.batch() == 1 || mask->shape == bias->shape || mask->shape.size() == 2 ||
                       bias->shape.size() == 2,
                   -1, "mask: of a batch that has a bias of several heads, too, expected its shape or [Tq][Tk]");
    if (bias) {
      require_pairs("bias", *bias);
      const bool capped = given_.has_param("soft_cap") && place != "after_cap";
      hide(*bias, mask, capped ? place : "");
      plan_.gradients.insert("bias");
      wholes_.push_back(put(plan_, "bias", *std::move(bias), 2));
    }
    if (mask) wholes_.push_back(put(plan_, "mask", *std::move(mask), 2));
    if (given_.has_input("alibi_slopes")) wholes_.push_back(by_head("alibi_slopes"));
  }

  /// Hides elements with a bias of -inf: the mask says so, and the bias becomes 0. `capped`: where the bias enters if a
  /// cap would make something finite of it.
  static void hide(Numbers& bias, std::optional<Numbers>& mask, const std::string& capped) {
    std::vector<bool> hidden(bias.data.size());
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      const auto infinite = parse_nonfinite(bias.data[i]);
      hidden[i] = infinite && *infinite < 0;
      if (!hidden[i]) continue;
      require_domain(capped.empty(), -1, assay::detail::element_text("bias", bias.shape, i), ": -inf with bias_place ",
                     capped, " masks nothing: the cap of it is finite");
      bias.data[i] = "0";
    }
    if (std::find(hidden.begin(), hidden.end(), true) == hidden.end()) return;
    if (!mask) mask = Numbers{bias.shape, std::vector<std::string>(bias.data.size(), "1")};
    if (mask->data.size() < bias.data.size()) {  // one for all heads beside a bias for each
      Numbers all{bias.shape, {}};
      for (std::size_t i = 0; i < bias.data.size(); ++i) all.data.push_back(mask->data[i % mask->data.size()]);
      mask = std::move(all);
    }
    for (std::size_t i = 0; i < mask->data.size(); ++i)
      if (hidden[i % hidden.size()]) mask->data[i] = "0";
  }

  /// A number for every query head.
  Tensor by_head(const std::string& name) {
    Tensor tensor = taken(given_, plan_, name, 0);
    require_domain(tensor.head_count() == q_.head_count() || (!q_.heads && tensor.head_count() == 1), -1, name,
                   ": expected ", q_.heads ? text(q_.head_count(), " numbers, one for every head of q") : "one number",
                   ", got shape ", assay::detail::shape_text(tensor.shape));
    return tensor;
  }

  void take_sink() {
    if (!given_.has_input("sink")) return;
    wholes_.push_back(by_head("sink"));
    Numbers& sink = plan_.inputs.at("sink");
    Numbers has_sink{sink.shape, {}};
    for (std::string& x : sink.data) {  // a sink of -inf is none
      const auto infinite = parse_nonfinite(x);
      const bool none = infinite && *infinite < 0;
      has_sink.data.emplace_back(none ? "0" : "1");
      if (none) x = "0";
    }
    wholes_.push_back(put(plan_, "has_sink", std::move(has_sink), 0));
  }

  Tensor tokens(const char* name, int rank) {
    Tensor tensor = taken(given_, plan_, name, rank);
    require_domain(tensor.rows() == q_.rows(), -1, name, ": expected ", q_.rows(), " rows, as q has, got ",
                   tensor.rows());
    plan_.padded.insert(name);
    mark_tokens(tensor);
    return tensor;
  }

  /// One number, one for every token, or one for every channel of it; each for all heads or for every one.
  void take_ridge() {
    require_domain(given_.choice("solver", {"direct", "cg"}) == "direct", -1,
                   "params.solver: with these arguments direct alone");
    require_domain(given_.integer("blocks", 1).value_or(1) == 1, -1, "params.blocks: with these arguments 1 alone");
    require_domain(given_.choice("lambda0", {"refuse", "limit"}) == "refuse", -1,
                   "params.lambda0: with these arguments refuse alone");
    const auto lambda = given_.numbers("lambda");
    require_domain(lambda.has_value(), -1, "lambda: missing");
    plan_.ranges["lambda"] = Range::not_negative;
    plan_.gradients.insert("lambda");
    const auto axes = static_cast<int>(lambda->shape.size()), most = heads_ ? 3 : 2;
    require_domain(axes <= most, -1, "lambda: shape ", assay::detail::shape_text(lambda->shape), " has too many axes");
    ridge_ = {"lambda", lambda->shape, heads_ && axes > 0};
    const int own = axes - (ridge_.heads ? 1 : 0);
    if (own > 0)
      require_domain(ridge_.rows() == q_.rows(), -1, "lambda: expected ", q_.rows(), " rows, as q has, got ",
                     ridge_.rows());
    if (own > 1)
      require_domain(ridge_.shape.back() == q_.shape.back(), -1, "lambda: expected ", q_.shape.back(),
                     " channels, as q has, got ", ridge_.shape.back());
    if (own > 0) plan_.padded.insert("lambda"), mark_tokens(ridge_);
    plan_.inputs["lambda"] = *lambda;
  }

  Picked ridge(const std::vector<int>& rows) const {
    const std::vector<std::size_t> strides = strides_of(ridge_.shape);
    std::vector<PickedAxis> axes;
    std::size_t a = 0;
    if (ridge_.heads) axes.push_back({strides[a], first(ridge_.shape[a])}), ++a;
    axes.push_back({a < strides.size() ? strides[a] : 0, rows}), ++a;
    axes.push_back({a < strides.size() ? strides[a] : 0, first(q_.shape.back())});
    return picked("lambda", axes);
  }

  /// Scales of an operand: where every one of its numbers finds its own.
  struct Factor {
    std::string input, from;  ///< of the program, of the case
    Tensor operand;
    std::size_t head_stride = 0, row_stride = 0, channel_stride = 0;
    int row_block = 1, channel_block = 1;

    Picked of(const std::vector<int>& rows) const {
      std::vector<PickedAxis> axes;
      if (operand.heads) axes.push_back({head_stride, first(operand.shape[0])});
      axes.push_back({row_stride, rows});
      axes.push_back({channel_stride, first(operand.shape.back())});
      for (int& r : axes[axes.size() - 2].elements) r /= row_block;
      for (int& c : axes.back().elements) c /= channel_block;
      return picked(from, axes);
    }
  };

  void take_factors() {
    if (given_.has_input("q_scale")) factors_.push_back(factor("q_scale", "q_scale", q_));
    if (given_.has_input("k_scale")) factors_.push_back(factor("k_scale", "k_scale", k_));
    if (given_.has_input("v_scale")) factors_.push_back(factor("v_scale", "v_scale", v_));
    if (given_.has_param("value_dim") && given_.has_input("k_scale")) {
      factors_.push_back(factors_.back());
      factors_.back().input = "v_scale", factors_.back().operand.shape.back() = values_;
    }
    require_domain(!factors_.empty() || !given_.has_param("scale_block"), -1,
                   "params.scale_block: no operand has scales");
    require_domain(given_.has_param("scale_block") || !given_.has_param("scale_layout"), -1,
                   "params.scale_layout: is of blocks, and scale_block is missing, which says of what size");
    require_domain(given_.is_file() || !given_.has_param("scale_layout"), -1,
                   "params.scale_layout: is of files; JSON has scales by rows and columns");
  }

  Factor factor(const std::string& input, const std::string& from, const Tensor& operand) {
    const auto numbers = given_.numbers(from);
    plan_.inputs[from] = *numbers;
    plan_.gradients.insert(from);
    plan_.ranges[from] = Range::positive;
    Factor f{input, from, operand};
    std::vector<int> shape = numbers->shape;
    std::size_t a = 0;
    const auto wrong = [&](const auto&... why) {
      return [&, why...](bool ok) {
        require_domain(ok, -1, from, ": shape ", assay::detail::shape_text(numbers->shape), " ", why...);
      };
    };
    if (operand.heads && !shape.empty()) {
      wrong("has not one entry for each of the ", operand.shape[0], " heads")(shape[0] == operand.shape[0]);
      ++a;
    }
    const bool paged = pages_ && input != "q_scale" && shape.size() > a;
    if (paged) {
      wrong("is of pages: expected one for all or for a head, or [", pages_->count, ", ", pages_->size,
            "] of them")(shape.size() > a + 1 && shape[a] == pages_->count && shape[a + 1] == pages_->size);
      shape[a] *= shape[a + 1];
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(a) + 1);
      plan_.padded.insert(from);
    }
    const std::vector<std::size_t> strides = strides_of(shape);
    if (a > 0) f.head_stride = strides[0];
    const std::size_t own = shape.size() - a;
    wrong("has too many axes")(own <= 2);
    if (own == 1) {
      wrong("has not one entry for each of the ", operand.rows(), " rows")(shape[a] == operand.rows());
      f.row_stride = strides[a];
      plan_.padded.insert(from);
    }
    if (own < 2) return f;
    const auto block = given_.pair("scale_block");
    wrong("is of blocks, and scale_block is missing, which says of what size")(block.has_value());
    wrong("is of pages, whose blocks have one row")(!paged || block->first == 1);
    const auto blocks = [](int n, int size) { return (n + size - 1) / size; };
    wrong("does not fit blocks of [", block->first, ", ", block->second,
          "]")(shape[a] == blocks(operand.rows(), block->first) &&
               shape[a + 1] == blocks(operand.shape.back(), block->second));
    f.row_stride = strides[a], f.channel_stride = strides[a + 1];
    f.row_block = block->first, f.channel_block = block->second;
    return f;
  }

  Tensor output_of(const char* name, std::optional<int> channels) {
    std::vector<int> shape = {q_.rows()};
    if (heads_) shape.insert(shape.begin(), head_count_);
    if (channels) shape.push_back(*channels);
    Tensor tensor = output(given_, plan_, name, std::move(shape), heads_);
    mark_tokens(tensor);
    return tensor;
  }

  void take_outputs() {
    outputs_ = {output_of("o", values_), output_of("lse", {}), output_of("empty", {})};
    if (form_ != "parallax_gate") return;
    outputs_.push_back(output_of("rho", q_.shape.back()));
    outputs_.push_back(output_of("gate", {}));
  }

  void add_piece(std::size_t n) {
    const std::vector<int>&queries = sequences_.queries[n], &keys = sequences_.keys[n];
    Piece piece;
    piece.inputs["q"] = rows_of(q_, queries);
    piece.inputs["k"] = rows_of(k_, keys);
    piece.inputs["v"] = given_.has_input("v") ? rows_of(v_, keys) : channels_of_keys(keys);
    piece.inputs[number_] = {number_, {}, {0}};
    if (form_ == "parallax") piece.inputs["rho"] = rows_of(rho_, queries);
    if (form_ == "parallax_gate") piece.inputs["x"] = rows_of(x_, queries);
    if (form_ == "lla") piece.inputs["lambda"] = ridge(queries);
    for (const Tensor& whole : wholes_) piece.inputs[whole.name] = of_sequence(whole, n);
    for (const Tensor& documents : documents_)
      piece.inputs[documents.name] = rows_of(documents, documents.name == "documents_q" ? queries : keys);
    for (const Factor& f : factors_) piece.inputs[f.input] = f.of(f.input == "q_scale" ? queries : keys);
    if (plan_.choice) choose(queries, keys, piece);
    for (const Tensor& out : outputs_) piece.outputs.emplace(out.name, placed(rows_of(out, queries)));
    plan_.pieces.push_back(std::move(piece));
  }

  /// Makes a mask of what rows of a sequence chose, with what the case's mask hides; keys that none chose are not read.
  void choose(const std::vector<int>& queries, const std::vector<int>& keys, Piece& piece) {
    const std::vector<bool> chosen = chosen_keys(*plan_.choice, queries, static_cast<int>(keys.size()));
    const std::size_t each = queries.size() * keys.size(), heads = static_cast<std::size_t>(std::max(head_count_, 1)),
                      lists = static_cast<std::size_t>(std::max(plan_.choice->heads, 1));
    const auto given = piece.inputs.find("mask");
    const bool is_given = given != piece.inputs.end(), of_heads = is_given && given->second.at.size() > each;
    const bool for_each = q_.heads && (lists > 1 || of_heads);
    Picked mask{"chosen", {static_cast<int>(queries.size()), static_cast<int>(keys.size())}, {}};
    if (for_each) mask.shape.insert(mask.shape.begin(), head_count_);
    Numbers& masks = plan_.inputs["chosen"];  // of all sequences, one after the other
    for (std::size_t h = 0; h < (for_each ? heads : 1); ++h)
      for (std::size_t i = 0; i < each; ++i) {
        const bool seen =
            !is_given || plan_.inputs.at("mask").data[given->second.at[of_heads ? h * each + i : i]] != "0";
        mask.at.push_back(masks.data.size());
        masks.data.emplace_back(seen && chosen[h * lists / heads * each + i] ? "1" : "0");
      }
    masks.shape = {static_cast<int>(masks.data.size())};
    piece.inputs["mask"] = std::move(mask);
    leave_unread(chosen, keys.size(), piece);
  }

  /// `chosen`: by lists, rows and keys.
  void leave_unread(const std::vector<bool>& chosen, std::size_t keys, Piece& piece) const {
    const std::size_t heads = static_cast<std::size_t>(std::max(head_count_, 1)),
                      lists = static_cast<std::size_t>(std::max(plan_.choice->heads, 1)), each = chosen.size() / lists,
                      groups = static_cast<std::size_t>(std::max(k_.head_count(), 1));
    std::vector<bool> read(groups * keys, false);
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < each; ++i)
        if (chosen[h * lists / heads * each + i]) read[h * groups / heads * keys + i % keys] = true;
    for (const char* name : {"k", "v"}) {
      Picked& rows = piece.inputs.find(name)->second;
      const std::size_t channels = static_cast<std::size_t>(rows.shape.back());
      for (std::size_t i = 0; i < rows.at.size(); ++i) rows.unread.push_back(!read[i / channels]);
    }
  }

  /// The first channels of the keys, as values.
  Picked channels_of_keys(const std::vector<int>& keys) const {
    std::vector<PickedAxis> axes = whole_axes(k_.shape);
    axes[axes.size() - 2].elements = keys, axes.back().elements = first(values_);
    return picked("k", axes);
  }

  const Given& given_;
  const std::string form_;
  Plan plan_;
  Sequences sequences_;
  Tensor q_, k_, v_, rho_, x_, ridge_;
  std::vector<Tensor> wholes_, documents_, outputs_;  ///< what all sequences share; of rows; what comes out
  std::vector<Factor> factors_;
  std::string number_;  ///< scale or bandwidth
  std::optional<Pages> pages_;
  int values_ = 0, head_count_ = 0;
  bool heads_ = false;
};

}  // namespace

Plan plan_attention(const Given& given, const Facts& facts) { return Attention(given, facts).plan(); }

}  // namespace assay::arguments
