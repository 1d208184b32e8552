#include "files/case_file.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <new>
#include <sstream>
#include <utility>

#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "files/names.hpp"
#include "files/strict_json.hpp"
#include "oracles/scalars/scalar.hpp"

namespace assay {
namespace {

/// Deeper than any record needs, and shallow enough for the recursive parts of the JSON library.
constexpr std::size_t max_depth = 16;
/// More than any record has; objects that keep their order look names up one by one.
constexpr std::size_t max_names = 4096;

constexpr std::string_view problem_keys[] = {"id", "mechanism", "params", "inputs", "cotangents"};
constexpr std::string_view result_keys[] = {"expect", "status", "row", "message", "outputs", "gradients", "bounds"};

/// "line 3, column 14" of byte `offset`.
std::string position(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const auto start = before.rfind('\n');
  return assay::text("line ", line, ", column ", before.size() - (start == std::string_view::npos ? 0 : start + 1));
}

/// "a list", "a number" for messages.
std::string kind_of(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_string()) return "the text '" + excerpt(value.get_ref<const std::string&>()) + "'";
  return excerpt(value.dump());
}

/// A number that matters. JSON integers are exact and let pass; 0.1 without quotes is not what it looks like.
std::string decimal_from(const Json& value, const std::string& name) {
  // Beyond this many digits a number means what it means without them, and only costs time.
  constexpr std::size_t max_length = 5000;
  if (value.is_string()) {
    const auto& digits = value.get_ref<const std::string&>();
    require_domain(digits.size() <= max_length, -1, name, ": more than ", max_length, " characters");
    return digits;
  }
  require_domain(value.is_number_integer(), -1, name, ": expected a decimal string, got ", kind_of(value));
  return value.dump();
}

void fill(const Json& value, const std::string& name, std::size_t axis, BasicArray<std::string>& array) {
  if (axis == array.shape.size()) {
    array.data.push_back(decimal_from(value, name));
    return;
  }
  require_domain(value.is_array(), -1, name, ": expected a list of ", array.shape[axis], ", got ", kind_of(value));
  require_domain(value.size() == static_cast<std::size_t>(array.shape[axis]), -1, name, ": expected ",
                 array.shape[axis], " entries as in its neighbours, got ", value.size());
  for (std::size_t i = 0; i < value.size(); ++i) fill(value[i], text(name, "[", i, "]"), axis + 1, array);
}

}  // namespace

// The first entries say what the shape is.
BasicArray<std::string> array_from(const Json& value, const std::string& name) {
  BasicArray<std::string> array;
  for (const Json* at = &value; at->is_array(); at = &at->front()) {
    array.shape.push_back(static_cast<int>(at->size()));
    if (at->empty()) break;
  }
  fill(value, name, 0, array);
  return array;
}

namespace {

BasicArrays<std::string> arrays_from(const Json& record, const char* key) {
  BasicArrays<std::string> arrays;
  const auto it = record.find(key);
  if (it == record.end()) return arrays;
  require_domain(it->is_object(), -1, key, ": expected an object of tensors, got ", kind_of(*it));
  for (const auto& [name, value] : it->items()) arrays[name] = array_from(value, text(key, ".", excerpt(name)));
  return arrays;
}

}  // namespace

Json parse_json(const std::string& text, std::string_view source) {
  std::istringstream in(text);
  StrictJson<Json> document({max_depth, max_names}, [&](const std::string& why) {
    const auto offset = in.rdbuf()->pubseekoff(0, std::ios::cur, std::ios::in);
    throw InputError(assay::text(source, ": ", position(text, static_cast<std::size_t>(offset)), ": ", excerpt(why)));
  });
  Json::sax_parse(in, &document);
  return std::move(document).take();
}

void spell_numbers(const Room& room, Params& params) {
  for (const RoomFacts::Ranked& ranked : room.inputs()) {
    const auto param = params.find(ranked.field.name);
    if (ranked.field.place != Field::Place::param || param == params.end()) continue;
    if (const long* number = std::get_if<long>(&param->second)) param->second = std::to_string(*number);
  }
}

Params params_from(const Json& record) {
  Params params;
  const auto it = record.find("params");
  if (it == record.end()) return params;
  require_domain(it->is_object(), -1, "params: expected an object, got ", kind_of(*it));
  for (const auto& [key, value] : it->items()) {
    const std::string name = text("params.", excerpt(key));
    if (value.is_boolean()) {
      params[key] = value.get<bool>();
    } else if (value.is_number_integer()) {
      require_domain(!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::numeric_limits<long>::max(), -1,
                     name, ": ", value.dump(), " is too large");
      params[key] = value.get<long>();
    } else if (value.is_number_float()) {
      params[key] = value.dump();  // the shortest decimal that the number is nearest to: 0.1 is what it looks like
    } else {
      require_domain(value.is_string(), -1, name, ": expected a number, a decimal string, a name or a boolean, got ",
                     kind_of(value));
      params[key] = decimal_from(value, name);
    }
  }
  return params;
}

Json json_of(const Params& params) {
  Json object = Json::object();
  for (const auto& [name, value] : params) std::visit([&, &key = name](const auto& v) { object[key] = v; }, value);
  return object;
}

namespace {

std::string text_from(const Json& record, const char* key) {
  const auto it = record.find(key);
  require_domain(it != record.end(), -1, key, ": missing");
  require_domain(it->is_string(), -1, key, ": expected text, got ", kind_of(*it));
  return it->get<std::string>();
}

Case case_from(Json record) {
  Case c;
  try {
    require_domain(record.is_object(), -1, "expected an object, got ", kind_of(record));
    for (const std::string_view key : result_keys) record.erase(std::string(key));
    for (const auto& [key, value] : record.items())
      if (std::ranges::find(problem_keys, key) == std::end(problem_keys)) c.ignored.push_back(excerpt(key));
    c.problem.id = text_from(record, "id");
    c.problem.mechanism = text_from(record, "mechanism");
    c.problem.params = params_from(record);
    if (const auto room = find_room(c.problem.mechanism)) spell_numbers(*room, c.problem.params);
    c.problem.inputs = arrays_from(record, "inputs");
    c.problem.cotangents = arrays_from(record, "cotangents");
  } catch (const Refusal& refusal) {
    c.refusal = {refusal.status(), refusal.row(), refusal.what(), {}};
  }
  c.record = record.is_object() ? std::move(record) : Json::object();
  return c;
}

Json nested(const BasicArray<Cell>& array, std::size_t axis, std::size_t& at) {
  if (axis == array.shape.size()) {
    const Cell& cell = array.data[at++];
    if (cell.kind == Cell::Kind::undefined) return nullptr;
    if (cell.kind == Cell::Kind::count) return std::stol(cell.text);
    return cell.text;
  }
  Json list = Json::array();
  for (int i = 0; i < array.shape[axis]; ++i) {
    const bool left_out = axis + 1 == array.shape.size() && array.data[at].kind == Cell::Kind::left_out;
    if (left_out)
      ++at;
    else
      list.push_back(nested(array, axis + 1, at));
  }
  return list;
}

/// Three digits, not below x.
std::string rounded_up(double x) {
  if (x == 0) return "0.0";
  // Printing takes away at most half a unit of the third digit, 0.5 percent.
  return to_decimal(x * 1.006, 3);
}

Json to_json(const BasicArrays<Cell>& arrays) {
  Json object = Json::object();
  for (const auto& [name, array] : arrays) {
    std::size_t at = 0;
    object[name] = nested(array, 0, at);
  }
  return object;
}

}  // namespace

std::vector<Case> read_cases(const std::string& text, std::string_view source) {
  Json file = parse_json(text, source);
  require(file.is_object(), source, ": expected an object with format, version and cases, got ", kind_of(file));
  const auto format = file.find("format"), version = file.find("version"), cases = file.find("cases");
  require(format != file.end() && *format == "assay-cases", source, R"(: expected "format": "assay-cases")");
  require(version != file.end() && *version == 1, source, R"(: expected "version": 1)");
  require(cases != file.end() && cases->is_array(), source, ": expected a list of cases");
  std::vector<Case> all;
  for (Json& record : *cases) all.push_back(case_from(std::move(record)));
  return all;
}

std::vector<Case> load_cases(const std::string& path) { return read_cases(read_text(path), path); }

CaseResult attempt(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const Refusal& refusal) {
    return {refusal.status(), refusal.row(), refusal.what(), {}};
  } catch (const InputError& error) {
    return {Status::domain, -1, error.what(), {}};
  } catch (const std::bad_alloc&) {
    return {Status::unsupported, -1, "the answer does not fit into memory", {}};
  } catch (const std::length_error&) {
    return {Status::unsupported, -1, "the answer does not fit into memory", {}};
  }
}

Refusal unknown_mechanism(std::string_view name) {
  std::string meant = mechanism_called(name);
  if (find_room(meant) == nullptr) {
    std::vector<std::string> names;
    for (const Room* room : rooms()) names.emplace_back(room->name);
    meant = nearest_name(name, names);
  }
  return {Status::unsupported, -1,
          text("mechanism '", excerpt(name), "' is not in this build",
               meant.empty() ? "" : " (did you mean " + meant + "?)")};
}

std::shared_ptr<const Room> room_named(std::string_view name, std::string_view flag) {
  auto room = find_room(name);
  if (room != nullptr) return room;
  std::vector<std::string> names;
  for (const Room* known : rooms()) names.emplace_back(known->name);
  std::string meant = mechanism_called(name);
  meant = find_room(meant) == nullptr ? did_you_mean(name, names) : " (did you mean " + meant + "?)";
  throw InputError(text(flag, ": there is no ", name, meant, "; there are ", names_in(names)));
}

std::vector<std::shared_ptr<const Room>> rooms_named(const std::vector<std::string>& names, std::string_view flag) {
  std::vector<std::shared_ptr<const Room>> found;
  found.reserve(names.size());
  for (const std::string& name : names) found.push_back(room_named(name, flag));
  for (const Room* room : names.empty() ? rooms() : std::span<const Room* const>())
    found.push_back(find_room(room->name));
  return found;
}

CaseResult answer_case(const Case& c, const DecimalOptions& options) {
  CaseResult result;
  bool is_plain = false;
  CaseResult refused = attempt([&] {
    if (auto found = arguments::answer_with_arguments(c, options)) return void(result.answer = std::move(*found));
    is_plain = true;
    if (c.refusal) return;
    const auto room = find_room(c.problem.mechanism);
    if (room == nullptr) throw unknown_mechanism(c.problem.mechanism);
    result.answer = room->decimals(c.problem, options);
  });
  if (is_plain && c.refusal) return *c.refusal;
  if (refused.status != Status::ok) return refused;
  for (const std::string& name : c.ignored) result.message += (result.message.empty() ? "ignored: " : ", ") + name;
  return result;
}

Json result_record(const Case& c, const CaseResult& result) {
  Json record = c.record;
  record["status"] = name_of(result.status);
  if (result.row >= 0) record["row"] = result.row;
  if (!result.message.empty()) record["message"] = result.message;
  record["outputs"] = to_json(result.answer.outputs);
  record["gradients"] = to_json(result.answer.gradients);
  if (!result.answer.bounds.empty()) {
    Json& bounds = record["bounds"] = Json::object();
    for (const auto& [name, bound] : result.answer.bounds) bounds[name] = rounded_up(bound);
  }
  return record;
}

std::string case_file_text(const std::vector<Json>& records) {
  std::string text = R"({"format": "assay-cases", "version": 1, "cases": [)";
  for (std::size_t i = 0; i < records.size(); ++i)
    text += (i > 0 ? ",\n" : "\n") + records[i].dump(-1, ' ', false, Json::error_handler_t::replace);
  return text + "\n]}\n";
}

}  // namespace assay
