#include "proptests/core/bad_inputs.hpp"

namespace assay::bad_inputs {

Json numbers(const std::vector<int>& shape, bool negative, std::size_t depth, int* count) {
  int first = 0;
  if (count == nullptr) count = &first;
  if (depth == shape.size()) return std::string(negative ? "-0." : "0.") + std::vector{"25", "5", "75"}[(*count)++ % 3];
  Json list = Json::array();
  for (int i = 0; i < shape[depth]; ++i) list.push_back(numbers(shape, negative, depth + 1, count));
  return list;
}

Json good_case(const Room& room, const Lengths& lengths, int heads, int shared) {
  Json record{{"id", "a"},
              {"mechanism", room.name},
              {"params", Json::object()},
              {"inputs", Json::object()},
              {"cotangents", Json::object()}};
  const auto shape_of = [&](const RoomFacts::Ranked& r) {
    std::vector<int> shape;
    if (heads > 0) shape.push_back(r.field.heads == Field::Heads::own ? heads : shared);
    for (int i = 0; i < r.rank; ++i) shape.push_back(lengths.of(r.field.axes[static_cast<std::size_t>(i)]));
    return shape;
  };
  for (const RoomFacts::Ranked& r : room.inputs()) {
    const std::string name(r.field.name);
    if (r.field.missing == Field::Missing::absent || r.field.missing == Field::Missing::worked_out ||
        r.field.place == Field::Place::derived)
      continue;
    if (r.field.place == Field::Place::param)
      record["params"][name] = "0.5";
    else
      record["inputs"][name] = numbers(shape_of(r), r.field.domain == Domain::log_decay);
  }
  for (const RoomFacts::Ranked& r : room.outputs())
    if (r.field.missing != Field::Missing::absent)
      record["cotangents"][std::string(r.field.name)] = numbers(shape_of(r), false);
  return record;
}

std::string kinds_of_inputs(const Room& room) {
  std::string gates, optional, shared;
  for (const auto& [f, rank] : room.inputs()) {
    if (f.place != Field::Place::input) continue;
    const std::string name = text(' ', f.name);
    if (f.domain == Domain::log_decay) gates += name;
    if (f.missing != Field::Missing::error) optional += name;
    if (f.heads == Field::Heads::shared) shared += name;
  }
  return text("log gates:", gates, "; optional:", optional, "; shared:", shared);
}

CaseResult result_of(const Json& record, const DecimalOptions& options) {
  return answer_case(read_cases(case_file_text({record}), "in.json").at(0), options);
}

Json changed(Json record, const std::string& place, const Json& value) {
  const Json::json_pointer pointer(place);
  if (value.is_null())
    record[pointer.parent_pointer()].erase(pointer.back());
  else
    record[pointer] = value;
  return record;
}

std::string refusal(const Json& record, Status status, int row, const std::string& message) {
  const CaseResult r = result_of(record);
  if (r.status == status && r.row == row && r.message == message && r.answer.outputs.empty()) return "";
  return text(name_of(r.status), ", row ", r.row, ", '", r.message, "' instead of ", name_of(status), ", row ", row,
              ", '", message, "'; ");
}

std::string numbers_must_be_finite(const Room& room) {
  const Json good = good_case(room);
  if (const CaseResult r = result_of(good); r.status != Status::ok) return "the good case: " + r.message;
  std::string faults;
  const auto try_all = [&](const std::vector<RoomFacts::Ranked>& fields, const std::string& part) {
    for (const auto& [f, rank] : fields) {
      const std::string where = f.place == Field::Place::param ? "params" : part, name(f.name);
      if (!good[where].contains(name)) continue;
      const bool gate = f.domain == Domain::log_decay && part == "inputs";
      const int row = rank > 0 && f.axes[0] == Axis::seq_len ? 1 : -1;
      const std::string index = rank == 0 ? "" : rank == 1 ? "[1]" : "[1][0]";
      const std::string at = rank == 0 ? "" : rank == 1 ? "/1" : "/1/0";
      const std::string tensor = where == "inputs" ? name : text(where, ".", name);
      const auto with = [&](const char* number) { return changed(good, text("/", where, "/", name, at), number); };
      for (const char* number : {"nan", "inf", "-inf"})
        if (!gate || number != std::string_view("-inf"))
          faults += refusal(with(number), Status::nonfinite, row, text(tensor, index, ": not a finite number"));
      if (!gate) continue;
      if (result_of(with("-inf")).status != Status::ok) faults += name + ": -inf closes a gate; ";
      faults += refusal(with("0.5"), Status::domain, 1, name + index + ": a log decay must be <= 0");
    }
  };
  try_all(room.inputs(), "inputs");
  try_all(room.outputs(), "cotangents");
  return faults;
}

std::string shapes_must_fit(const Room& room) {
  const Json good = good_case(room);
  std::string faults;
  for (const char* part : {"inputs", "params"})
    faults += refusal(changed(good, text("/", part, "/w"), "1"), Status::domain, -1,
                      text(part, ".w: unknown to ", room.name));
  for (const auto& [f, rank] : room.inputs()) {
    const std::string name(f.name);
    if (f.place != Field::Place::input || !good["inputs"].contains(name)) continue;
    if (f.missing == Field::Missing::error)
      faults += refusal(changed(good, "/inputs/" + name, nullptr), Status::domain, -1, name + ": missing");
    const CaseResult deeper = result_of(changed(good, "/inputs/" + name, Json::array({good["inputs"][name]})));
    if (deeper.status != Status::domain) faults += name + ": another axis is accepted; ";
    if (rank == 0) continue;
    Json longer = good;
    Json& list = longer["inputs"][name];
    list.push_back(list[0]);
    const CaseResult r = result_of(longer);
    const bool says = r.message.find(": expected T = ") != std::string::npos ||
                      r.message.find(": expected K = ") != std::string::npos;
    if (r.status != Status::domain || r.row != -1 || !says) faults += name + ": one row too many: " + r.message + "; ";
  }
  return faults;
}

std::string any_strength_is_legal(const Room& room) {
  Json record = good_case(room);
  bool found = false;
  for (const auto& [f, rank] : room.inputs()) {
    Json& input = record["inputs"][std::string(f.name)];
    if (f.domain == Domain::write_strength || f.domain == Domain::gradient_weight)
      input = Json::array({"-3", "0", "5"}), found = true;
    if (f.domain == Domain::key && rank == 2) input[1] = Json::array({"0", "0"});
    if (input.is_null()) record["inputs"].erase(std::string(f.name));
  }
  const CaseResult r = result_of(record);
  return !found ? "no strengths" : r.status == Status::ok ? "" : r.message;
}

std::string empty_extents(const Room& room) {
  for (const Lengths lengths : {Lengths{.T = 0}, Lengths{.V = 0}}) {
    const CaseResult r = result_of(good_case(room, lengths));
    if (r.status != Status::ok) return r.message;
    const Json good = good_case(room, lengths);
    for (const auto& [name, a] : r.answer.outputs) {
      const std::string initial = "initial_" + name.substr(std::min<std::size_t>(name.size(), 6));
      if (!name.starts_with("final_") || !good["inputs"].contains(initial)) continue;
      const Json want = good["inputs"][initial].flatten();
      for (std::size_t i = 0; i < a.data.size(); ++i)
        if (Mp50(a.data[i].text) !=
            Mp50(std::next(want.begin(), static_cast<std::ptrdiff_t>(i)).value().get<std::string>()))
          return name + ": changed without tokens";
    }
  }
  const CaseResult none = result_of(good_case(room, {.K = 0}));
  return none.status == Status::domain && none.message == "k: expected K >= 1, got 0" ? "" : "K = 0: " + none.message;
}

std::string heads_must_divide(const Room& room) {
  Json uneven = good_case(room, {}, 2, 2);
  uneven["cotangents"]["o"].erase(1);
  return result_of(good_case(room, {}, 4, 2)).message +
         refusal(good_case(room, {}, 3, 2), Status::domain, -1, "heads: 3 is not a multiple of 2") +
         refusal(uneven, Status::domain, -1, "cotangents.o: expected 2 heads, got 1");
}

std::string overflow_names_the_first_token(const Room& room) {
  const Json record = changed(changed(good_case(room), "/inputs/v/1/0", "1e307"), "/params/scale", "1e10");
  const CaseResult r = result_of(record, {.digits = 10, .tier = Tier::fp64});
  if (r.status != Status::nonfinite || r.row != 1 || !r.message.starts_with("o[1][0]") ||
      r.message.find("double") == std::string::npos)
    return text("row ", r.row, ": ", r.message);
  const CaseResult in_more = result_of(record);
  return in_more.status == Status::ok ? "" : in_more.message;
}

}  // namespace assay::bad_inputs
