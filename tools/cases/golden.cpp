#include "tools/cases/golden.hpp"

#include <algorithm>
#include <cmath>

#include "arguments/file_case.hpp"
#include "files/problem_file.hpp"
#include "judge/court/argument_form.hpp"
#include "language/room.hpp"

namespace assay {
namespace {

class GoldenWriter {
 public:
  explicit GoldenWriter(const Room& room) : room_(room) {}

  void add(const GoldenCase& golden) {
    const Problem problem = room_.make(golden.spec);
    for (const RoomFacts::Ranked& ranked : room_.inputs())
      if (const auto it = problem.inputs.find(ranked.field.name); it != problem.inputs.end())
        put(golden.name + "/" + it->first, it->second, ranked);
    for (const RoomFacts::Ranked& ranked : room_.outputs())
      if (const auto it = problem.cotangents.find(ranked.field.name); it != problem.cotangents.end())
        put(golden.name + (is_input(it->first) ? "/cotangents." : "/d_") + it->first, it->second, ranked);

    const std::optional<BasicAnswer<Enclosed>> enclosed = room_.enclosed(problem);
    const BasicAnswer<Enclosed> answer = enclosed ? *enclosed : estimated(problem);
    for (const RoomFacts::Ranked& ranked : room_.outputs()) expected(golden.name + "/", ranked, answer.outputs);
    for (const RoomFacts::Ranked& ranked : room_.inputs()) expected(golden.name + "/d_", ranked, answer.gradients);

    cases_.push_back({{"name", golden.name},
                      {"mechanism", language::pinned_name(room_)},
                      {"params", json_of(problem.params)},
                      {"shape", text_of(golden.spec.shape)},
                      {"precision", name_of(golden.spec.precision)},
                      {"style", name_of(golden.spec.style)},
                      {"seed", golden.spec.seed},
                      {"bounds", enclosed ? "proven" : "estimated"}});
  }

  Safetensors finish() {
    return std::move(file_).finish({{"format", "assay-golden 1"},
                                    {"mechanism", language::pinned_name(room_)},
                                    {"generator", "assay fixtures generate"},
                                    {"cases", cases_.dump()}});
  }

 private:
  /// Whether it is an input: d_NAME of a tensor that is computed on the way and given out, too, is the gradient.
  bool is_input(std::string_view name) const { return find_field(room_.inputs(), name) != nullptr; }

  void put(const std::string& key, const Array& array, const RoomFacts::Ranked& ranked) {
    file_.put(key, array, ranked, batch, exact_dtype(array));
  }

  /// Where no enclosure decides between equal numbers: pairs from 100 digits. Their distance from the truth is their
  /// own rounding, 2^-106 of hi, and the tier's error, which is below its distance from 50 digits.
  BasicAnswer<Enclosed> estimated(const Problem& problem) const {
    const BasicAnswer<HiLo> high = room_.values(problem, Tier::mp100), low = room_.values(problem, Tier::mp50);
    const auto both = [](const BasicArrays<HiLo>& xs, const BasicArrays<HiLo>& ys) {
      BasicArrays<Enclosed> result;
      for (const auto& [name, array] : xs) {
        BasicArray<Enclosed>& to = result[name];
        to.shape = array.shape;
        for (std::size_t i = 0; i < array.data.size(); ++i) {
          const HiLo x = array.data[i], y = ys.find(name)->second.data[i];
          to.data.push_back(
              {x, power_of_two_above(0x1p-106 * std::abs(x.hi) + std::abs((x.hi - y.hi) + (x.lo - y.lo)))});
        }
      }
      return result;
    };
    return {both(high.outputs, low.outputs), both(high.gradients, low.gradients)};
  }

  void expected(const std::string& prefix, const RoomFacts::Ranked& ranked, const BasicArrays<Enclosed>& answer) {
    const auto it = answer.find(ranked.field.name);
    if (it == answer.end()) return;
    file_.put(prefix + it->first, it->second, ranked, batch);
  }

  static constexpr int batch = 1;
  const Room& room_;
  TensorFile file_;
  Json cases_ = Json::array();
};

}  // namespace

std::vector<GoldenCase> golden_cases(const Room& room) {
  const auto spec = [&](Shape shape, Style style, const Params& params, std::uint64_t seed) {
    return CaseSpec{std::string(room.name), shape, Format::bf16, style, seed, params};
  };
  const std::vector<RoomFacts::Ranked> inputs = room.inputs();
  const int one = groups_heads(inputs) ? 1 : 0;
  std::vector<GoldenCase> cases;
  // One token, one short of a tile of 16, a tile, one more, two tiles and a tail.
  for (const int T : {1, 15, 16, 17, 35})
    cases.push_back({"length_" + std::to_string(T),
                     spec({1, T, 2, one, 8, 8, 0}, Style::normal, {}, static_cast<std::uint64_t>(T))});
  const std::vector<Params> variants = room.variants();
  for (std::size_t i = 1; i < variants.size(); ++i) {
    std::string name;
    for (const auto& [key, value] : variants[i]) {
      if (!name.empty()) name += "_";
      if (const std::string* word = std::get_if<std::string>(&value)) name += *word;
      if (const long* n = std::get_if<long>(&value)) name += key + "_" + std::to_string(*n);
      if (const bool* b = std::get_if<bool>(&value)) name += (*b ? "" : "not_") + key;
    }
    cases.push_back({name, spec({1, 19, 2, 2 * one, 6, 10, 0}, Style::normal, variants[i], 100 + i)});
  }
  const auto has = [&](std::initializer_list<Domain> domains) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const RoomFacts::Ranked& r) {
      return std::find(domains.begin(), domains.end(), r.field.domain) != domains.end();
    });
  };
  // Where a room has nothing that a style shapes, its case would be that of `normal`.
  std::vector<Style> styles = {Style::integers};
  if (has({Domain::key}))
    styles.insert(styles.end(), {Style::nearly_parallel_keys, Style::repeated_keys, Style::outlier_channels});
  if (has({Domain::bandwidth})) styles.push_back(Style::rising_scores);
  if (has({Domain::write_strength, Domain::log_decay, Domain::gain, Domain::decay_fraction}))
    styles.push_back(Style::gate_ends);
  if (has({Domain::key}) && has({Domain::value})) styles.push_back(Style::cancelling_values);
  for (const Style style : styles)
    cases.push_back({std::string(name_of(style)), spec({1, 18, 2, one, 8, 8, 0}, style, {}, 7)});
  return cases;
}

Safetensors golden_file(const Room& room) {
  GoldenWriter writer(room);
  for (const GoldenCase& golden : golden_cases(room)) writer.add(golden);
  return writer.finish();
}

namespace {

using Words = std::vector<std::pair<std::string, std::string>>;

constexpr Shape packed_shape{.seq_len = 11, .heads = 2, .shared_heads = 1, .key_dim = 4, .value_dim = 4};

std::vector<GoldenRequest> golden_requests_of_scores(const CaseSpec& base) {
  const bool softmax = base.mechanism == "softmax_attention";
  CaseSpec packed = base, window = base, masks = base, pages = base, blocks = base;
  packed.argument_style = "short_sequences", packed.params["soft_cap"] = std::string("2");
  packed.with = softmax ? Words{{"sink", ""}, {"lse", ""}} : Words{{"lse", ""}};
  window.shape.query_len = 5, window.params = {{"window_left", 3L}, {"lse_base", std::string("2")}};
  window.with = {{"alibi_slopes", ""}, {"lse", ""}};
  masks.argument_style = "empty_rows", masks.params["causal"] = false, masks.with = {{"bias", ""}, {"lse", ""}};
  std::vector<GoldenRequest> all = {{"packed", packed}, {"window", window}, {"masks", masks}};
  if (!softmax) return all;
  pages.shape.batch = 2, pages.shape.query_len = 3, pages.with = {{"page_table", "4"}};
  blocks.params = {{"scale_block", std::string("[4,2]")}, {"value_dim", 2L}}, blocks.with = {{"k_scale", ""}};
  all.insert(all.end(), {{"pages", pages}, {"blocks", blocks}});
  return all;
}

std::vector<GoldenRequest> golden_requests_of_states(const CaseSpec& base, const arguments::Facts& facts) {
  const auto takes = [&](std::string_view name) { return arguments::takes_argument(facts, name); };
  CaseSpec packed = base, front_end = base;
  packed.argument_style = "short_sequences", packed.with = {{"state_at", ""}};
  packed.params = {{"state_layout", std::string("v_first")}, {"state_every", 2L}, {"checkpoint_every", 3L}};
  front_end.params = {{"l2_norm", std::string("root")}, {"l2_eps", std::string("1e-6")}};
  if (takes("beta_gate"))
    front_end.params["beta_gate"] = std::string("sigmoid"), front_end.params["beta_scale"] = std::string("2");
  if (takes("dt"))
    front_end.with = {{"dt", ""}, {"skip", ""}, {"z", ""}}, front_end.params["dt_max"] = std::string("1");
  else if (takes("gate"))
    front_end.params["gate"] = std::string("softplus");
  return {{"packed", packed}, {"front_end", front_end}};
}

}  // namespace

std::vector<GoldenRequest> golden_requests(std::string_view mechanism) {
  const std::string name(mechanism);
  if (find_argument_forms(name + std::string(arguments::room_suffix)) == nullptr) return {};
  const CaseSpec base{.mechanism = name, .shape = packed_shape};
  const arguments::Facts facts = arguments::facts_of(name);
  return facts.family == arguments::Family::attention ? golden_requests_of_scores(base)
                                                      : golden_requests_of_states(base, facts);
}

Safetensors golden_arguments_file(std::string_view mechanism) {
  Safetensors all;
  Json cases = Json::array(), digests = Json::object();
  for (const GoldenRequest& golden : golden_requests(mechanism)) {
    const Safetensors posed = arguments::draw_case(golden.request, ASSAY_VERSION);
    const Safetensors answered = answer_file(read_problem(posed, golden.name), Tier::ball, 1, ASSAY_VERSION);
    for (const Safetensors* part : {&posed, &answered}) {
      for (const auto& [name, tensor] : part->tensors) all.tensors[golden.name + "/" + name] = tensor;
      const Json own = Json::parse(part->metadata.at("sha256"));
      for (const auto& [name, digest] : own.items()) digests[golden.name + "/" + name] = digest;
    }
    const auto said = [&](const char* key) { return posed.metadata.at(key); };
    cases.push_back({{"name", golden.name},
                     {"mechanism", said("mechanism")},
                     {"params", Json::parse(said("params"))},
                     {"layout", said("layout")},
                     {"shape", said("shape")},
                     {"precision", said("precision")},
                     {"style", said("style")},
                     {"seed", golden.request.seed},
                     {"bounds", "proven"}});
  }
  all.metadata = {{"format", "assay-golden 1"},
                  {"mechanism", std::string(mechanism)},
                  {"generator", "assay fixtures generate"},
                  {"cases", cases.dump()},
                  {"sha256", digests.dump()}};
  return all;
}

namespace {

constexpr std::string_view of_bounds = ".bound";

/// Whether no number of the file's tensor may be off by more than `word_target` of its largest.
bool is_sharp(const Safetensors& file, const std::string& bound) {
  const std::string name = bound.substr(0, bound.size() - of_bounds.size());
  const auto value = file.tensors.find(name);
  if (value == file.tensors.end()) return false;
  double largest = 0;
  for (const double x : load(name, value->second).data)
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  const Array radii = load(bound, file.tensors.at(bound));
  return std::ranges::all_of(radii.data, [&](double r) { return 0 <= r && r <= word_target * largest; });
}

/// Metadata, but for the digests of bounds.
auto comparable(std::map<std::string, std::string> metadata) {
  if (const auto digests = metadata.find("sha256"); digests != metadata.end()) {
    Json kept = Json::object();
    const Json all = Json::parse(digests->second);
    for (const auto& [name, digest] : all.items())
      if (!name.ends_with(of_bounds)) kept[name] = digest;
    digests->second = kept.dump();
  }
  return metadata;
}

}  // namespace

std::vector<std::string> differences(const Safetensors& expected, const Safetensors& found) {
  std::vector<std::string> list;
  for (const auto& [name, tensor] : expected.tensors) {
    const auto it = found.tensors.find(name);
    if (it == found.tensors.end())
      list.push_back(name + ": missing");
    else if (it->second.dtype != tensor.dtype || it->second.shape != tensor.shape)
      list.push_back(name + ": another dtype or shape");
    else if (it->second.bytes != tensor.bytes &&
             !(name.ends_with(of_bounds) && is_sharp(expected, name) && is_sharp(found, name)))
      list.push_back(name + ": other values");
  }
  for (const auto& [name, tensor] : found.tensors)
    if (!expected.tensors.contains(name)) list.push_back(name + ": not expected");
  if (comparable(expected.metadata) != comparable(found.metadata)) list.emplace_back("__metadata__: differs");
  return list;
}

}  // namespace assay
