#include "tools/cases/golden.hpp"

#include <algorithm>
#include <cmath>

#include "files/problem_file.hpp"
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
  /// Of what is worked out on the way and given out too, d_NAME is the gradient.
  bool is_input(std::string_view name) const {
    const std::vector<RoomFacts::Ranked> inputs = room_.inputs();
    return std::any_of(inputs.begin(), inputs.end(), [&](const auto& ranked) { return ranked.field.name == name; });
  }

  void put(const std::string& key, const Array& array, const RoomFacts::Ranked& ranked) {
    file_.put(key, array, ranked, batch, exact_dtype(array));
  }

  /// Where no enclosure decides between equal numbers: pairs from 100 digits. What separates them from the truth is
  /// their own rounding, 2^-106 of hi, and the tier's error, which is below its distance from 50 digits.
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

std::vector<std::string> differences(const Safetensors& expected, const Safetensors& found) {
  std::vector<std::string> list;
  for (const auto& [name, tensor] : expected.tensors) {
    const auto it = found.tensors.find(name);
    if (it == found.tensors.end())
      list.push_back(name + ": missing");
    else if (it->second.dtype != tensor.dtype || it->second.shape != tensor.shape)
      list.push_back(name + ": another dtype or shape");
    else if (it->second.bytes != tensor.bytes)
      list.push_back(name + ": other values");
  }
  for (const auto& [name, tensor] : found.tensors)
    if (!expected.tensors.contains(name)) list.push_back(name + ": not expected");
  if (expected.metadata != found.metadata) list.emplace_back("__metadata__: differs");
  return list;
}

}  // namespace assay
