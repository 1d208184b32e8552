#include "arguments/given.hpp"

#include <algorithm>
#include <limits>

#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "files/names.hpp"
#include "oracles/core/bind.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/core/parse_number.hpp"

namespace assay::arguments {
namespace {

int integer_from(const Json& value, const std::string& name, int least) {
  require_domain(value.is_number_integer(), -1, name, ": expected an integer, got ", excerpt(value.dump()));
  const bool fits = !value.is_number_unsigned() || value.get<std::uint64_t>() <= std::numeric_limits<int>::max();
  const auto n = fits ? value.get<std::int64_t>() : std::numeric_limits<std::int64_t>::max();
  require_domain(n >= least && n <= std::numeric_limits<int>::max(), -1, name, ": expected an integer of at least ",
                 least, ", got ", value.dump());
  return static_cast<int>(n);
}

std::vector<int> integers_from(const Json& value, const std::string& name, int least) {
  require_domain(value.is_array(), -1, name, ": expected a list of integers, got ", excerpt(value.dump()));
  std::vector<int> list;
  for (const Json& entry : value) list.push_back(integer_from(entry, text(name, "[", list.size(), "]"), least));
  return list;
}

/// The list with truth values as texts of numbers.
Json spelled(const Json& value, const std::string& name) {
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  require_domain(value.is_array(), -1, name, ": expected true or false, got ", excerpt(value.dump()));
  Json list = Json::array();
  for (const Json& entry : value) list.push_back(spelled(entry, text(name, "[", list.size(), "]")));
  return list;
}

/// A number of a tensor that holds integers.
int integer_from(const std::string& digits, const std::string& name, int least) {
  const auto n = parse_number<int>(digits);
  if (!n || *n < least)
    throw Refusal(
        Status::domain, -1,
        text(name, ": expected an integer", least > std::numeric_limits<int>::min() ? text(" of at least ", least) : "",
             ", got ", excerpt(digits)));
  return *n;
}

std::vector<int> integers_from(const Numbers& numbers, std::string_view name, int least) {
  require_domain(numbers.shape.size() == 1, -1, name, ": expected a list of integers, got ", numbers.shape.size(),
                 " axes");
  std::vector<int> list;
  for (const std::string& digits : numbers.data)
    list.push_back(integer_from(digits, text(name, "[", list.size(), "]"), least));
  return list;
}

}  // namespace

const Numbers* Given::stored(const char* part, std::string_view name) const {
  if (tensors_ == nullptr) return nullptr;
  const auto& all = std::string_view(part) == "inputs" ? tensors_->inputs : tensors_->cotangents;
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

Given::Given(const Json& record, const Tensors* tensors) : record_(record), tensors_(tensors) {
  for (const char* part : {"params", "inputs", "cotangents"})
    if (const auto it = record.find(part); it != record.end())
      require_domain(it->is_object(), -1, part, ": expected an object, got ", excerpt(it->dump()));
}

std::string Given::mechanism() const {
  const auto it = record_.find("mechanism");
  return it != record_.end() && it->is_string() ? it->get<std::string>() : "";
}

std::vector<std::string> Given::names(const char* part) const {
  std::vector<std::string> list;
  if (tensors_ != nullptr && std::string_view(part) != "params") {
    for (const auto& [name, numbers] : std::string_view(part) == "inputs" ? tensors_->inputs : tensors_->cotangents)
      list.push_back(name);
    return list;
  }
  if (const auto it = record_.find(part); it != record_.end())
    for (const auto& [name, value] : it->items()) list.push_back(name);
  return list;
}

const Json* Given::find(const char* part, std::string_view name) const {
  const auto it = record_.find(part);
  if (it == record_.end()) return nullptr;
  const auto found = it->find(name);
  return found == it->end() ? nullptr : &*found;
}

std::string Given::choice(std::string_view name, const std::vector<std::string>& choices) const {
  choices_[std::string(name)] = choices;
  const Json* value = find("params", name);
  if (value == nullptr) return choices.front();
  std::string word = value->is_string() ? value->get<std::string>() : value->dump();
  require_domain(std::ranges::find(choices, word) != choices.end(), -1, "params.", name, ": unknown value '",
                 excerpt(word), "'", did_you_mean(word, choices), "; there are ", names_in(choices));
  return word;
}

bool Given::truth(std::string_view name, bool missing) const {
  choices_[std::string(name)] = {missing ? "true" : "false", missing ? "false" : "true"};
  const Json* value = find("params", name);
  if (value == nullptr) return missing;
  require_domain(value->is_boolean(), -1, "params.", name, ": expected true or false, got ", excerpt(value->dump()));
  return value->get<bool>();
}

std::optional<int> Given::integer(std::string_view name, int least) const {
  const Json* value = find("params", name);
  if (value == nullptr) return std::nullopt;
  return integer_from(*value, text("params.", name), least);
}

std::optional<std::string> Given::number(std::string_view name, Status status) const {
  const Json* value = find("params", name);
  if (value == nullptr) return std::nullopt;
  require_domain(value->is_string() || value->is_number(), -1, "params.", name, ": expected a decimal string, got ",
                 excerpt(value->dump()));
  const std::string digits = value->is_string() ? value->get<std::string>() : value->dump();
  try {
    using std::isfinite;
    if (!isfinite(from_decimal<Mp50>(digits)))
      throw Refusal(status, -1, text("params.", name, ": not a finite number"));
  } catch (const Refusal&) {
    throw;
  } catch (const InputError& error) {
    throw Refusal(Status::domain, -1, text("params.", name, ": ", error.what()));
  }
  return digits;
}

Params Given::params() const {
  Json plain = {{"params", Json::object()}};
  for (const std::string& name : names("params"))
    if (const Json* value = find("params", name); !value->is_array()) plain["params"][name] = *value;
  return params_from(plain);
}

std::optional<Numbers> Given::tensor(const char* part, std::string_view name, const std::string& label) const {
  if (const Numbers* here = stored(part, name)) return *here;
  const Json* value = find(part, name);
  if (value == nullptr) return std::nullopt;
  return array_from(*value, label);
}

std::optional<std::vector<int>> Given::integers(std::string_view name, int least) const {
  if (const Numbers* here = stored("inputs", name)) return integers_from(*here, name, least);
  const Json* value = find("inputs", name);
  if (value == nullptr) return std::nullopt;
  return integers_from(*value, std::string(name), least);
}

std::optional<std::vector<std::vector<int>>> Given::rows_of_integers(std::string_view name) const {
  if (const Numbers* here = stored("inputs", name)) {
    require_domain(here->shape.size() == 2, -1, name, ": expected a list of lists, got ", here->shape.size(), " axes");
    std::vector<std::vector<int>> rows(static_cast<std::size_t>(here->shape[0]));
    for (std::size_t i = 0; i < here->data.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(here->shape[1]);
      rows[row].push_back(integer_from(here->data[i], text(name, "[", row, "][", rows[row].size(), "]"),
                                       std::numeric_limits<int>::min()));
    }
    return rows;
  }
  const Json* value = find("inputs", name);
  if (value == nullptr) return std::nullopt;
  require_domain(value->is_array(), -1, name, ": expected a list of lists, got ", excerpt(value->dump()));
  std::vector<std::vector<int>> rows;
  for (const Json& row : *value)
    rows.push_back(integers_from(row, text(name, "[", rows.size(), "]"), std::numeric_limits<int>::min()));
  return rows;
}

std::optional<BasicArray<int>> Given::integer_array(std::string_view name) const {
  const std::optional<Numbers> digits = numbers(name);
  if (!digits) return std::nullopt;
  BasicArray<int> array(digits->shape);
  for (std::size_t i = 0; i < array.data.size(); ++i)
    array.data[i] = integer_from(digits->data[i], assay::detail::element_text(name, digits->shape, i),
                                 std::numeric_limits<int>::min());
  return array;
}

std::optional<Numbers> Given::truths(std::string_view name) const {
  if (const Numbers* here = stored("inputs", name)) return *here;
  const Json* value = find("inputs", name);
  if (value == nullptr) return std::nullopt;
  return array_from(spelled(*value, std::string(name)), std::string(name));
}

std::optional<std::pair<int, int>> Given::pair(std::string_view name) const {
  const Json* value = find("params", name);
  if (value == nullptr) return std::nullopt;
  const std::vector<int> list = integers_from(*value, text("params.", name), 1);
  require_domain(list.size() == 2, -1, "params.", name, ": expected two integers, got ", list.size());
  return std::pair(list[0], list[1]);
}

int sign_of(const std::string& number) {
  const auto x = from_decimal<Mp50>(number);
  return x < 0 ? -1 : x > 0 ? 1 : 0;
}

bool is_less(const std::string& a, const std::string& b) { return from_decimal<Mp200>(a) < from_decimal<Mp200>(b); }

}  // namespace assay::arguments
