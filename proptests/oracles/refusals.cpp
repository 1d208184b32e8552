// Every refusal of the specifications' tables, for every room: status, row, and a sentence naming tensor and index.
#include <gtest/gtest.h>

#include <string>

#include "files/case_file.hpp"
#include "proptests/core/bad_inputs.hpp"

namespace assay {
namespace {

/// Two query rows on three keys, K = 2, V = 1; delta rules have three tokens.
Json base_case(const std::string& mechanism) {
  Json c = Json::parse(R"({"id": "a", "params": {}, "inputs": {"k": [["1", "0"], ["0", "1"], ["1", "1"]],
    "v": [["1"], ["2"], ["3"]]}, "cotangents": {"o": [["1"], ["1"]]}})");
  c["mechanism"] = mechanism;
  Json& inputs = c["inputs"];
  if (mechanism == "softmax_attention" || mechanism == "parallax") {
    c["params"]["bandwidth"] = "2";
    inputs["q"] = Json::parse(R"([["1", "2"], ["3", "4"]])");
    if (mechanism == "parallax") inputs["rho"] = inputs["q"];
  } else {
    inputs["q"] = inputs["k"];
    inputs["beta"] = Json::parse(R"(["0.5", "0.5", "0.5"])");
    inputs["initial_state"] = Json::parse(R"([["1"], ["2"]])");
    if (mechanism == "gated_deltanet") inputs["log_decay"] = Json::parse(R"(["-1", "-inf", "0"])");
    c["cotangents"] = Json::parse(R"({"o": [["1"], ["1"], ["1"]], "final_state": [["1"], ["2"]]})");
  }
  return c;
}

using bad_inputs::result_of;

/// `mechanism` with the value at `place` ("/inputs/q/0/1") replaced; null removes it.
CaseResult changed(const std::string& mechanism, const std::string& place, const Json& value) {
  return result_of(bad_inputs::changed(base_case(mechanism), place, value));
}

const std::string mechanisms[] = {"softmax_attention", "parallax", "deltanet", "gated_deltanet"};

struct Change {
  const char *mechanism, *place;
  Json value;
  Status status;
  int row;
  const char* message;
};

void expect_refused(const Change& change, const CaseResult& result) {
  EXPECT_EQ(result.status, change.status) << change.place << ' ' << change.value;
  EXPECT_EQ(result.row, change.row) << change.place << ' ' << change.value;
  EXPECT_EQ(result.message, change.message);
  EXPECT_TRUE(result.answer.outputs.empty());
  EXPECT_TRUE(result.answer.gradients.empty());
}

TEST(Refusals, TheBaseCasesAreFine) {
  for (const std::string& mechanism : mechanisms) {
    const CaseResult result = result_of(base_case(mechanism));
    EXPECT_EQ(result.status, Status::ok) << mechanism << ": " << result.message;
    EXPECT_EQ(result.message, "");
  }
}

/// Those of delta rules are in the table of every room (proptests/core/bad_inputs.hpp).
TEST(Refusals, InputsAndCotangentsOfAttentionMustBeFinite) {
  for (const std::string mechanism : {"softmax_attention", "parallax"}) {
    const Json base = base_case(mechanism);
    for (const std::string part : {"inputs", "cotangents"})
      for (const auto& [name, value] : base[part].items())
        for (const char* number : {"nan", "inf", "+inf", "-inf"}) {
          const CaseResult result = changed(mechanism, "/" + part + "/" + name + "/1/0", number);
          EXPECT_EQ(result.status, Status::nonfinite) << mechanism << ' ' << name << ' ' << number;
          EXPECT_EQ(result.row, 1);
          EXPECT_EQ(result.message, (part == "inputs" ? "" : "cotangents.") + name + "[1][0]: not a finite number");
        }
  }
}

TEST(Refusals, TheTables) {
  const Json two = Json::parse(R"([["1"], ["2"]])");
  const Change changes[] = {
      // lla-family.md section 12
      {"softmax_attention", "/params/bandwidth", "0", Status::domain, -1, "bandwidth: expected a finite number > 0"},
      {"softmax_attention", "/params/bandwidth", "-1", Status::domain, -1, "bandwidth: expected a finite number > 0"},
      {"softmax_attention", "/params/bandwidth", "nan", Status::domain, -1, "bandwidth: expected a finite number > 0"},
      {"parallax", "/params/bandwidth", "inf", Status::domain, -1, "bandwidth: expected a finite number > 0"},
      {"parallax", "/params/bandwidth", nullptr, Status::domain, -1, "params.bandwidth: missing"},
      {"parallax", "/params/bandwidth", true, Status::domain, -1, "params.bandwidth: expected a decimal string"},
      {"parallax", "/params/bandwidth", "wide", Status::domain, -1,
       "params.bandwidth: 'wide' is not a number: no digits"},
      {"softmax_attention", "/params/window", 0, Status::domain, -1, "window: expected at least 1, got 0"},
      {"parallax", "/params/window", -3, Status::domain, -1, "window: expected at least 1, got -3"},
      {"parallax", "/params/causal", "no", Status::domain, -1, "params.causal: expected true or false"},
      {"parallax", "/inputs/rho", nullptr, Status::domain, -1, "rho: missing"},
      {"parallax", "/inputs/rho", two, Status::domain, -1, "rho: expected K = 2, got 1"},
      {"softmax_attention", "/inputs/k", two, Status::domain, -1, "k: expected K = 2, got 1"},
      {"softmax_attention", "/inputs/v", two, Status::domain, -1, "v: expected T = 3, got 2"},
      {"softmax_attention", "/inputs/q", Json::parse(R"(["1", "2"])"), Status::domain, -1,
       "q: expected 2 axes, got shape [2]"},
      {"softmax_attention", "/cotangents/o", Json::parse(R"([["1"]])"), Status::domain, -1,
       "cotangents.o: expected T (queries) = 2, got 1"},
      {"softmax_attention", "/cotangents/final_state", two, Status::domain, -1,
       "cotangents.final_state: unknown to softmax_attention"},
      {"softmax_attention", "/inputs/rho", two, Status::domain, -1, "inputs.rho: unknown to softmax_attention"},
      {"softmax_attention", "/params/scale", "1", Status::domain, -1,
       "scale: bandwidth is given, too, which is 1 / scale"},
      // delta-family.md section 7
      {"gated_deltanet", "/inputs/log_decay/0", "0.5", Status::domain, 0, "log_decay[0]: a log decay must be <= 0"},
      {"gated_deltanet", "/inputs/log_decay/2", "1e-999", Status::domain, 2, "log_decay[2]: a log decay must be <= 0"},
      {"gated_deltanet", "/inputs/log_decay", nullptr, Status::domain, -1, "log_decay: missing"},
      {"gated_deltanet", "/params/error", "both", Status::domain, -1, "params.error: unknown value 'both'"},
      {"gated_deltanet", "/params/error", 1, Status::domain, -1, "params.error: expected a name"},
      {"gated_deltanet", "/params/scale", "nan", Status::nonfinite, -1, "params.scale: not a finite number"},
      {"gated_deltanet", "/params/alignment", "same_step", Status::domain, -1,
       "params.alignment: unknown to gated_deltanet"},
      {"deltanet", "/inputs/q", Json::parse("[[], [], []]"), Status::domain, -1, "k: expected K = 0, got 2"},
      {"deltanet", "/inputs/beta", Json::parse(R"(["1", "1"])"), Status::domain, -1, "beta: expected T = 3, got 2"},
      {"deltanet", "/inputs/initial_state", Json::parse(R"([["1", "2"], ["3", "4"]])"), Status::domain, -1,
       "initial_state: expected V = 1, got 2"},
      {"deltanet", "/inputs/log_decay", Json::parse(R"(["0"])"), Status::domain, -1,
       "inputs.log_decay: unknown to deltanet"},
      // falcon-family.md sections 1 and 9
      {"deltanet", "/params/alignment", "shifted", Status::domain, -1, "params.alignment: unknown value 'shifted'"},
      {"deltanet", "/params/sequence_start", "yes", Status::domain, -1,
       "params.sequence_start: expected true or false"},
      {"deltanet", "/inputs/k_carry", Json::parse(R"(["1", "2"])"), Status::domain, -1,
       "k_carry: only a next_latent continuation (sequence_start false) takes it"},
  };
  for (const Change& change : changes) expect_refused(change, changed(change.mechanism, change.place, change.value));
}

TEST(Refusals, AWindowNeedsACausalMask) {
  Json record = base_case("parallax");
  record["params"]["causal"] = false;
  EXPECT_EQ(result_of(record).status, Status::ok);
  record["params"]["window"] = 2;
  EXPECT_EQ(result_of(record).status, Status::domain);
  EXPECT_EQ(result_of(record).message, "window: needs causal = true");
}

TEST(Refusals, AContinuationNeedsTheCarriedKey) {
  Json record = base_case("deltanet");
  record["params"]["alignment"] = "next_latent";
  EXPECT_EQ(result_of(record).status, Status::ok);
  record["params"]["sequence_start"] = false;
  EXPECT_EQ(result_of(record).message, "k_carry: a next_latent continuation (sequence_start false) needs it");
  record["inputs"]["k_carry"] = Json::parse(R"(["1"])");
  EXPECT_EQ(result_of(record).message, "k_carry: expected K = 2, got 1");
  record["inputs"]["k_carry"] = Json::parse(R"(["1", "inf"])");
  EXPECT_EQ(result_of(record).message, "k_carry[1]: not a finite number");
  EXPECT_EQ(result_of(record).row, -1);
  record["inputs"]["k_carry"] = Json::parse(R"(["1", "2"])");
  EXPECT_EQ(result_of(record).status, Status::ok);
}

TEST(Refusals, NameTheHead) {
  Json record = bad_inputs::good_case(listed_room("deltanet"), {}, 2, 2);
  record["inputs"]["k"][1][2][0] = "nan";
  EXPECT_EQ(bad_inputs::refusal(record, Status::nonfinite, 2, "k[1][2][0]: not a finite number"), "");
  record = bad_inputs::good_case(listed_room("deltanet"), {}, 2, 2);
  record["inputs"]["v"] = record["inputs"]["v"][0];
  EXPECT_EQ(bad_inputs::refusal(record, Status::domain, -1, "v: expected 3 axes, got shape [3, 2]"), "");
  record = bad_inputs::good_case(listed_room("deltanet"), {}, 2, 4);
  EXPECT_EQ(bad_inputs::refusal(record, Status::domain, -1, "heads: 2 is not a multiple of 4"), "");
}

}  // namespace
}  // namespace assay
