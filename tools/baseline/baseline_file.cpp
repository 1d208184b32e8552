#include "tools/baseline/baseline_file.hpp"

#include <limits>

#include "files/input_file.hpp"
#include "files/names.hpp"
#include "judge/contract/contract.hpp"
#include "reference/core/error.hpp"
#include "tools/print/escape.hpp"

namespace assay {
namespace {

Json json_of_case(const SeededCase& one) {
  return {{"mechanism", one.spec.mechanism},
          {"shape", text_of(one.spec.shape)},
          {"precision", name_of(one.spec.precision)},
          {"style", name_of(one.spec.style)},
          {"seed", one.spec.seed},
          {"params", json_of(one.spec.params)},
          {"fill", one.fill},
          {"cotangents", one.spec.cotangents}};
}

Json json_of_subject(const BaselineSubject& subject) {
  Json json = {{"seeds", subject.seeds}};
  if (!subject.contract.is_null()) json["contract"] = subject.contract;
  if (subject.is_user()) {
    json[subject.check.kernel.empty() ? "plugin" : "kernel"] = subject.check.kernel + subject.check.plugin;
    json["form"] = subject.check.standard.form;
    json["cases"] = Json::array();
    for (const SeededCase& one : subject.cases) json["cases"].push_back(json_of_case(one));
    return json;
  }
  const ReportOptions& options = subject.report;
  json["mechanisms"] = options.mechanisms, json["form"] = options.form;
  json["precisions"] = name_list(options.precisions);
  json["device"] = name_of(options.device), json["shape"] = options.shape,
  json["style"] = name_of(options.inputs.style);
  json["seed"] = options.inputs.seed, json["params"] = json_of(options.inputs.params);
  return json;
}

template <class T>
T known(const std::optional<T>& value, const char* what) {
  require(value.has_value(), "unknown ", what);
  return *value;
}

const Json& at(const Json& json, const char* key) {
  require(json.contains(key), key, ": missing");
  return json.at(key);
}

template <class T>
T value_of(const Json& json, const char* key) {
  const Json& value = at(json, key);
  try {
    return value.get<T>();
  } catch (const Json::exception&) {
    throw InputError(text(key, ": ", value.dump(), " is of another kind than expected"));
  }
}

std::string word(const Json& json, const char* key) { return value_of<std::string>(json, key); }

/// An integer: the library would make one of any number.
template <class T>
T whole(const Json& json, const char* key) {
  const Json& value = at(json, key);
  require(value.is_number_integer(), key, ": expected an integer");
  const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                               : std::in_range<T>(value.get<std::int64_t>());
  require(fits, key, ": ", value.dump(), " is out of range");
  return value.get<T>();
}

SeededCase case_of(const Json& json) {
  SeededCase one;
  one.spec.mechanism = word(json, "mechanism");
  one.room = room_named(one.spec.mechanism, "mechanism");
  one.spec.shape = shape_from(word(json, "shape"));
  one.spec.precision = known(format_from(word(json, "precision")), "precision");
  one.spec.style = known(style_from(word(json, "style")), "style");
  one.spec.seed = whole<std::uint64_t>(json, "seed");
  one.spec.params = params_from(json);
  if (json.contains("fill")) one.fill = value_of<std::map<std::string, std::string>>(json, "fill");
  one.spec.cotangents = value_of<bool>(json, "cotangents");
  return one;
}

BaselineSubject subject_of(const Json& json) {
  BaselineSubject subject;
  subject.seeds = whole<int>(json, "seeds");
  require(subject.seeds >= fewest_baseline_seeds && subject.seeds <= most_baseline_seeds, "seeds: expected ",
          fewest_baseline_seeds, " to ", most_baseline_seeds);
  set_contract(subject, json.value("contract", Json()), "contract");
  if (json.contains("cases")) {
    if (json.contains("kernel")) subject.check.kernel = word(json, "kernel");
    if (json.contains("plugin")) subject.check.plugin = word(json, "plugin");
    require(subject.check.kernel.empty() != subject.check.plugin.empty(), "expected a kernel or a plugin");
    subject.check.standard.form = word(json, "form");
    for (const Json& one : at(json, "cases")) subject.cases.push_back(case_of(one));
    return subject;
  }
  ReportOptions& options = subject.report;
  options.mechanisms = value_of<std::vector<std::string>>(json, "mechanisms");
  options.form = word(json, "form");
  for (const std::string& name : value_of<std::vector<std::string>>(json, "precisions"))
    options.precisions.push_back(known(format_from(name), "precision"));
  options.device = entry_named(all_runs_on, word(json, "device")).value_or(options.device);
  options.shape = word(json, "shape");
  if (!options.shape.empty()) shape_from(options.shape);  // refused with the file's name
  options.inputs.style = known(style_from(word(json, "style")), "style");
  options.inputs.seed = whole<std::uint64_t>(json, "seed");
  options.inputs.params = params_from(json);
  return subject;
}

/// Numbers that are none are null in JSON.
std::vector<double> numbers_of(const Json& row, const char* key, int seeds) {
  std::vector<double> numbers;
  for (const Json& x : at(row, key)) {
    require(x.is_null() || x.is_number(), key, ": expected numbers");
    numbers.push_back(x.is_null() ? std::numeric_limits<double>::quiet_NaN() : x.get<double>());
  }
  require(numbers.size() == static_cast<std::size_t>(seeds), "expected a number for each seed");
  return numbers;
}

}  // namespace

std::string BaselineRow::name() const {
  return mechanism + ' ' + form + ' ' + precision + ' ' + tensor + " (" + inputs + ')';
}

bool same_place(const BaselineRow& a, const BaselineRow& b) {
  return a.device == b.device && a.mechanism == b.mechanism && a.form == b.form && a.precision == b.precision &&
         a.inputs == b.inputs && a.tensor == b.tensor;
}

void set_contract(BaselineSubject& subject, Json contract, const std::string& source) {
  if (contract.is_null()) return;
  subject.report.contract =
      contract.is_string() ? contract_from(contract.get<std::string>()) : parse_contract(contract.dump(), source);
  subject.check.standard.contract = subject.report.contract->name;
  subject.contract = std::move(contract);
}

std::string dumped(const BaselineSubject& subject, const std::vector<BaselineRow>& rows) {
  Json records = Json::array();
  for (const BaselineRow& row : rows)
    records.push_back({{"device", row.device},
                       {"mechanism", row.mechanism},
                       {"form", row.form},
                       {"precision", row.precision},
                       {"inputs", row.inputs},
                       {"tensor", row.tensor},
                       {"relative_error", row.relative_error},
                       {"rms_z", row.rms_z},
                       {"worst_z", row.worst_z},
                       {"verdicts", row.verdicts}});
  return Json{{"format", "assay-baseline"},
              {"version", 1},
              {"tool_version", ASSAY_VERSION},
              {"subject", json_of_subject(subject)},
              {"rows", std::move(records)}}
             .dump(1, ' ', false, Json::error_handler_t::replace) +
         '\n';
}

std::pair<BaselineSubject, std::vector<BaselineRow>> parse_baseline(const std::string& text, const std::string& where) {
  const Json json = parse_json(text, where);
  const auto says = [&](const char* key, const Json& value) { return json.contains(key) && json[key] == value; };
  require(json.is_object() && says("format", "assay-baseline") && says("version", 1), where,
          ": no baseline of this version; `assay baseline save` writes them");
  try {
    BaselineSubject subject = subject_of(at(json, "subject"));
    std::vector<BaselineRow> rows;
    for (const Json& row : at(json, "rows")) {
      rows.push_back({word(row, "device"), word(row, "mechanism"), word(row, "form"), word(row, "precision"),
                      word(row, "inputs"), word(row, "tensor"), numbers_of(row, "relative_error", subject.seeds),
                      numbers_of(row, "rms_z", subject.seeds), numbers_of(row, "worst_z", subject.seeds),
                      value_of<std::vector<std::string>>(row, "verdicts")});
      require(rows.back().verdicts.size() == static_cast<std::size_t>(subject.seeds),
              "expected a verdict for each seed");
    }
    return {std::move(subject), std::move(rows)};
  } catch (const Json::exception& e) {
    throw InputError(where + ": " + excerpt(e.what()));
  } catch (const InputError& e) {
    throw InputError(where + ": " + excerpt(e.what(), 1000));
  }
}

}  // namespace assay
