// Reading cases and writing answers: what a file may hold, and what happens to one that holds something else.
#include "files/case_file.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace assay {
namespace {

const std::string deltanet = R"({"id": "a", "mechanism": "deltanet", "params": {"scale": "1"},
 "inputs": {"q": [["1", "2"]], "k": [["0.5", "1"]], "v": [["4"]], "beta": ["0.25"]}, "expect": {"status": "OK"}})";

std::string file_of(const std::string& records) {
  return R"({"format": "assay-cases", "version": 1, "cases": [)" + records + "]}";
}

/// A deltanet record whose q is `q`.
std::string with_q(const std::string& q) {
  std::string record = deltanet;
  const std::string old = R"([["1", "2"]])";
  return record.replace(record.find(old), old.size(), q);
}

std::string read_error(const std::string& text) {
  try {
    read_cases(text, "in.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

CaseResult result_of_record(const std::string& record) {
  const std::vector<Case> cases = read_cases(file_of(record), "in.json");
  EXPECT_EQ(cases.size(), 1u);
  return answer_case(cases.at(0), {});
}

TEST(CaseFile, KeepsDigitsAsText) {
  const Case c = read_cases(file_of(with_q(R"([["1.10", "-0e0"]])")), "in.json").at(0);
  EXPECT_EQ(c.problem.inputs.at("q"), (BasicArray<std::string>{{1, 2}, {"1.10", "-0e0"}}));
  EXPECT_EQ(c.problem.inputs.at("beta"), (BasicArray<std::string>{{1}, {"0.25"}}));
  EXPECT_EQ(std::get<std::string>(c.problem.params.at("scale")), "1");
}

TEST(CaseFile, EmptyListsAndBareNumbersHaveShapes) {
  const Case c =
      read_cases(file_of(R"({"id": "a", "mechanism": "x", "inputs": {"a": [], "b": [[], []], "c": "7"}})"), "in.json")
          .at(0);
  EXPECT_EQ(c.problem.inputs.at("a").shape, std::vector<int>{0});
  EXPECT_EQ(c.problem.inputs.at("b").shape, (std::vector<int>{2, 0}));
  EXPECT_EQ(c.problem.inputs.at("c"), (BasicArray<std::string>{{}, {"7"}}));
}

TEST(CaseFile, RefusesWhatIsNoTensor) {
  const struct {
    const char *q, *message;
  } rows[] = {
      {R"([["1", "2"], ["3"]])", "inputs.q[1]: expected 2 entries as in its neighbours, got 1"},
      {R"([["1", "2"], "3"])", "inputs.q[1]: expected a list of 2, got the text '3'"},
      {R"([["1", ["2"]]])", "inputs.q[0][1]: expected a decimal string, got a list"},
      {R"([[], ["2"]])", "inputs.q[1]: expected 0 entries as in its neighbours, got 1"},
      {R"([["1", 0.5]])", "inputs.q[0][1]: expected a decimal string, got 0.5"},
      {R"([["1", null]])", "inputs.q[0][1]: expected a decimal string, got null"},
      {R"([["1", true]])", "inputs.q[0][1]: expected a decimal string, got true"},
      {R"([["1", {}]])", "inputs.q[0][1]: expected a decimal string, got an object"},
      {R"([["1", 18446744073709551616]])", "inputs.q[0][1]: expected a decimal string, got 1.8446744073709552e+19"},
      {R"([["1", "two"]])", "q[0][1]: 'two' is not a number: no digits"},
      {R"([["1", ""]])", "q[0][1]: '' is not a number: no digits"},
      {R"([["1", "1e"]])", "q[0][1]: '1e' is not a number: no digits in the exponent"},
      {R"([["1", "0x10"]])", "q[0][1]: '0x10' is not a number: unexpected characters"},
      {R"([["1", " 1"]])", "q[0][1]: ' 1' is not a number: no digits"},
      {R"([["1", "1e1001"]])", "q[0][1]: expected a magnitude between 1e-1000 and 1e1000"},
      {R"([["1", "-1e-1001"]])", "q[0][1]: expected a magnitude between 1e-1000 and 1e1000"},
  };
  for (const auto& row : rows) {
    const CaseResult result = result_of_record(with_q(row.q));
    EXPECT_EQ(result.status, Status::domain) << row.q;
    EXPECT_EQ(result.message, row.message);
    EXPECT_TRUE(result.answer.outputs.empty());
  }
  EXPECT_EQ(result_of_record(with_q(R"([["1", ")" + std::string(6000, '1') + R"("]])")).message,
            "inputs.q[0][1]: more than 5000 characters");
}

TEST(CaseFile, IntegersAreExactAndPass) {
  const CaseResult text = result_of_record(deltanet), integers = result_of_record(with_q("[[1, 2]]"));
  ASSERT_EQ(text.status, Status::ok) << text.message;
  EXPECT_EQ(integers.status, Status::ok) << integers.message;
  EXPECT_EQ(integers.answer.outputs, text.answer.outputs);
  EXPECT_EQ(result_of_record(with_q("[[18446744073709551615, 2]]")).status, Status::ok);
}

TEST(CaseFile, ParamsAreTypedByJson) {
  const auto message = [](const std::string& value) {
    return result_of_record(R"({"id": "a", "mechanism": "softmax_attention", "params": {"bandwidth": "1", "window": )" +
                            value + R"(}, "inputs": {"q": [["1"]], "k": [["1"]], "v": [["1"]]}})")
        .message;
  };
  EXPECT_EQ(message("2"), "");
  EXPECT_EQ(message("2147483648"), "");
  EXPECT_EQ(message("\"2\""), "params.window: expected an integer");
  EXPECT_EQ(message("true"), "params.window: expected an integer");
  EXPECT_EQ(message("2.0"), "params.window: expected an integer");
  EXPECT_EQ(message("[2]"), "params.window: expected a number, a decimal string, a name or a boolean, got a list");
  EXPECT_EQ(message("18446744073709551615"), "params.window: 18446744073709551615 is too large");
}

/// A JSON number is the decimal that it is written as, or the shortest one of the double next to it.
TEST(CaseFile, ParamsMayBeNumbers) {
  const auto bandwidth = [](const std::string& value) {
    return read_cases(R"({"format": "assay-cases", "version": 1, "cases": [{"id": "a", "mechanism": "softmax_attention",
 "params": {"bandwidth": )" +
                          value + R"(}, "inputs": {}}]})",
                      "in.json")
        .front()
        .problem.params.at("bandwidth");
  };
  EXPECT_EQ(bandwidth("0.1"), Param("0.1"));
  EXPECT_EQ(bandwidth("0.08838834764831845"), Param("0.08838834764831845"));
  EXPECT_EQ(bandwidth("1e-7"), Param("1e-07"));
  EXPECT_EQ(bandwidth("0.1000000000000000000001"), Param("0.1"));
  const auto status = [](const std::string& value) {
    return result_of_record(R"({"id": "a", "mechanism": "softmax_attention", "params": {"bandwidth": )" + value +
                            R"(}, "inputs": {"q": [["1"]], "k": [["1"], ["2"]], "v": [["1"], ["3"]]}})");
  };
  EXPECT_EQ(status("0.25").answer.outputs, status("\"0.25\"").answer.outputs);
  EXPECT_EQ(status("1e-7").status, Status::ok);
}

TEST(CaseFile, HostileFilesAreOneSentence) {
  EXPECT_EQ(read_error(std::string(100'000, '[')), "in.json: line 1, column 17: more than 16 brackets deep");
  EXPECT_EQ(read_error(R"({"cases": [{"id": "a",)"
                       "\n"
                       R"( "id": "b"}]})"),
            "in.json: line 2, column 5: the name 'id' occurs twice in one object");
  EXPECT_NE(read_error("{\"format\": \"\xff\"}").find("line 1, column 13"), std::string::npos);
  EXPECT_NE(read_error("{\"format\": 1e999}").find("line 1, column 17"), std::string::npos);
  const std::string long_token = read_error("{\"format\": " + std::string(100'000, 'x') + "}");
  EXPECT_LT(long_token.size(), 300u);
  EXPECT_NE(long_token, "");
}

TEST(CaseFile, AnythingElseIsNotACaseFile) {
  EXPECT_EQ(read_error("[]"), "in.json: expected an object with format, version and cases, got a list");
  EXPECT_EQ(read_error("{}"), R"(in.json: expected "format": "assay-cases")");
  EXPECT_EQ(read_error(R"({"format": "assay-cases", "version": 2, "cases": []})"), R"(in.json: expected "version": 1)");
  EXPECT_EQ(read_error(R"({"format": "assay-cases", "version": 1, "cases": {}})"), "in.json: expected a list of cases");
  EXPECT_EQ(read_error(file_of("")), "");
  EXPECT_THROW(load_cases("/nowhere/in.json"), InputError);
  EXPECT_THROW(load_cases("/"), InputError);
}

TEST(CaseFile, ABadCaseDoesNotStopTheOthers) {
  const std::string bad[] = {
      "7",
      "[]",
      "{}",
      R"({"id": 3, "mechanism": "deltanet"})",
      R"({"id": "a"})",
      R"({"id": "a", "mechanism": "deltanet", "params": []})",
      R"({"id": "a", "mechanism": "deltanet", "inputs": "q"})",
      R"({"id": "a", "mechanism": "deltanet", "inputs": {"q": [["1"], []]}})",
      R"({"id": "a", "mechanism": "deltanet"})",
  };
  const std::string messages[] = {
      "expected an object, got 7",
      "expected an object, got a list",
      "id: missing",
      "id: expected text, got 3",
      "mechanism: missing",
      "params: expected an object, got a list",
      "inputs: expected an object of tensors, got the text 'q'",
      "inputs.q[1]: expected 1 entries as in its neighbours, got 0",
      "q: missing",
  };
  std::string records = deltanet;
  for (const std::string& record : bad) records.append(",").append(record).append(",").append(deltanet);
  const std::vector<Case> cases = read_cases(file_of(records), "in.json");
  ASSERT_EQ(cases.size(), 2 * std::size(bad) + 1);
  const CaseResult good = answer_case(cases[0], {});
  ASSERT_EQ(good.status, Status::ok) << good.message;
  for (std::size_t i = 0; i < std::size(bad); ++i) {
    const CaseResult refused = answer_case(cases[2 * i + 1], {}), next = answer_case(cases[2 * i + 2], {});
    EXPECT_EQ(refused.status, Status::domain) << bad[i];
    EXPECT_EQ(refused.message, messages[i]);
    EXPECT_EQ(next.answer.outputs, good.answer.outputs);
  }
}

TEST(CaseFile, UnknownMechanismsAreUnsupported) {
  const CaseResult result = result_of_record(R"({"id": "a", "mechanism": "delta_net", "inputs": {"q": ["nan"]}})");
  EXPECT_EQ(result.status, Status::unsupported);
  EXPECT_EQ(result.message, "mechanism 'delta_net' is not in this build (did you mean deltanet?)");
}

TEST(CaseFile, NamesWithoutMeaningAreReported) {
  std::string record = deltanet;
  record.insert(1, R"("cotangent": {}, "note": "x", )");
  const CaseResult result = result_of_record(record);
  EXPECT_EQ(result.status, Status::ok);
  EXPECT_EQ(result.message, "ignored: cotangent, note");
}

TEST(CaseFile, ResultsAreTheRecordAndTheAnswer) {
  const Case c = read_cases(file_of(deltanet), "in.json").at(0);
  const Json record = result_record(c, answer_case(c, {.digits = 3, .tier = {}}));
  std::vector<std::string> names;
  for (const auto& [name, value] : record.items()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"id", "mechanism", "params", "inputs", "status", "outputs", "gradients",
                                             "bounds"}));
  EXPECT_EQ(record["inputs"], c.record["inputs"]);
  EXPECT_EQ(record["status"], "OK");
  // S = k beta v = (0.5, 1), o = (1, 2) . S = 2.5.
  EXPECT_EQ(record["outputs"], Json::parse(R"({"final_state": [["5.00e-1"], ["1.00"]], "o": [["2.50"]]})"));
  EXPECT_EQ(record["gradients"], Json::object());
  // Dyadic numbers of few digits: nothing was rounded.
  EXPECT_EQ(record["bounds"], Json::parse(R"({"final_state": "0.0", "o": "0.0"})"));
}

TEST(CaseFile, RefusedRecordsSayWhyAndWhere) {
  const Case c = read_cases(file_of(with_q(R"([["1", "nan"]])")), "in.json").at(0);
  const Json record = result_record(c, answer_case(c, {}));
  EXPECT_EQ(record["status"], "NONFINITE");
  EXPECT_EQ(record["row"], 0);
  EXPECT_EQ(record["message"], "q[0][1]: not a finite number");
  EXPECT_EQ(record["outputs"], Json::object());
  EXPECT_EQ(record["gradients"], Json::object());
}

TEST(CaseFile, NullCountsAndRaggedRows) {
  const Case c = read_cases(file_of(R"({"id": "a", "mechanism": "parallax", "params": {"bandwidth": "1"}, "inputs": {
    "q": [["1"], ["2"], ["0"]], "k": [["1"], ["3"]], "v": [["1"], ["0"]], "rho": [["0"], ["0"], ["1"]]}})"),
                            "in.json")
                     .at(0);
  const CaseResult result = answer_case(c, {.digits = 2, .tier = {}});
  ASSERT_EQ(result.status, Status::ok) << result.message;
  const Json outputs = result_record(c, result)["outputs"];
  // Query 0 sees no key; query 1 sees key 0 alone; query 2 weighs both alike: score = p (1 - rho (k - 2)).
  EXPECT_EQ(outputs["score"], Json::parse(R"([[], ["1.0"], ["1.0", "0.0"]])"));
  EXPECT_EQ(outputs["diagnostics.density"], Json::parse("[0, 1, 1]"));
  EXPECT_EQ(outputs["diagnostics.score_min"], Json::parse(R"([null, "1.0", "0.0"])"));
  EXPECT_EQ(outputs["diagnostics.cpa"], Json::parse(R"([null, null, "1.0"])"));
  EXPECT_EQ(outputs["diagnostics.corr_norm"], Json::parse(R"([null, null, "1.0"])"));
  EXPECT_EQ(outputs["rows.lse"], Json::parse(R"(["-inf", "2.0", "6.9e-1"])"));
  EXPECT_EQ(outputs["empty_rows"], 1);
}

/// The text of the answers to the cases in `text`.
std::string answers_to(const std::string& text) {
  const std::vector<Case> cases = read_cases(text, "in.json");
  std::vector<Json> records(cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) records[i] = result_record(cases[i], answer_case(cases[i], {}));
  return case_file_text(records);
}

TEST(CaseFile, AnswersCanBeAskedAgain) {
  const std::string answers = answers_to(file_of(deltanet + "," + with_q("[[1]]")));
  EXPECT_EQ(answers_to(answers), answers);
}

}  // namespace
}  // namespace assay
