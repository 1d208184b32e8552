#pragma once
// The readers on which hostile files are tried: everything that reads a user's files, from bytes to a problem, an
// answer, a contract, a program or a baseline. Shared by the test and the fuzzer.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "files/case_file.hpp"
#include "files/problem_file.hpp"
#include "judge/contract/contract.hpp"
#include "judge/court/seeded_case.hpp"
#include "language/program/gradient.hpp"
#include "tools/baseline/baseline_file.hpp"

namespace assay::hostile {

/// One way into the tool. `read` throws InputError for what it refuses, and nothing else.
struct Door {
  std::string_view name;
  std::string valid;  ///< a file that passes
  std::function<void(const std::string& bytes)> read;
};

inline std::string text_of_file(const Safetensors& file) {
  const std::vector<std::uint8_t> bytes = serialize(file);
  return {bytes.begin(), bytes.end()};
}

inline Safetensors as_file(const std::string& bytes, const std::string& where) {
  return parse_safetensors({bytes.begin(), bytes.end()}, where);
}

/// The oracle's own answer as a kernel would write it: one of a pair of doubles.
inline std::string answer_to(const ProblemFile& problem) {
  Safetensors answer = answer_file(problem, Tier::fp64, 1, "0");
  std::erase_if(answer.tensors, [](const auto& tensor) { return tensor.first.find('.') != std::string::npos; });
  return text_of_file(answer);
}

/// Cases, answers, case lists, contracts, programs and baselines.
inline std::vector<Door> doors() {
  const Room& room = listed_room("deltanet");
  const Safetensors problem = arguments::draw_case({.mechanism = "deltanet", .shape = {1, 3, 2, 1, 2, 3, 0}}, "0");
  const ProblemFile posed = read_problem(problem, "case");
  return {
      {"case", text_of_file(problem),
       [](const std::string& bytes) {
         const ProblemFile read = read_problem(as_file(bytes, "case"), "case");
         // Whatever is let in has an answer or a refusal, and both are small.
         if (bytes.size() < 8192) answer_file(read, Tier::fp64, 1, "0");
       }},
      {"answer", answer_to(posed),
       [posed, answered = oracle_of(room, posed.problem).shapes()](const std::string& bytes) {
         read_outputs(as_file(bytes, "answer"), posed, answered, {}, "answer");
       }},
      {"cases", R"({"format": "assay-cases", "version": 1, "cases": [
{"id": "one", "mechanism": "deltanet", "params": {"scale": "0.5", "alignment": "same_step"},
 "inputs": {"q": [["1", "-2e-1"]], "k": [["1", "0"]], "v": [["2.5"]], "beta": ["1"]}, "cotangents": {"o": [["1"]]}},
{"id": "two", "mechanism": "softmax_attention", "params": {"window": 2, "causal": true},
 "inputs": {"bandwidth": "1", "q": [["1"]], "k": [["1"], ["2"]], "v": [["1"], ["3"]]}, "expect": {"status": "OK"}}]})",
       [](const std::string& bytes) {
         for (const Case& one : read_cases(bytes, "cases"))
           if (bytes.size() < 8192)
             result_record(one, answer_case(one, {.digits = 17, .tier = Tier::fp64, .diagnostics = false})).dump();
       }},
      {"contract", R"({"name": "mine", "description": "scores in fp32", "base": "bf16",
 "sites": {"P": "fp32", "state": "bf16"}, "rounding": "toward_zero", "products": 8})",
       [](const std::string& bytes) { parse_contract(bytes, "contract"); }},
      {"program", R"({"format": "assay-mechanism", "version": 1, "name": "sums", "settings": {"kind": "plain"},
 "inputs": [{"name": "x", "type": "real T 2", "domain": "value", "default": null, "gradient": true},
  {"name": "s", "type": "real", "domain": "scale", "gradient": false, "hint": {"low": "0"},
   "default": {"params": ["real T 2"], "nodes": [["const", [], {"value": "1/3"}]], "results": [1]}}],
 "outputs": ["o", "total"], "body": {"params": ["real T 2", "real"], "nodes": [
  ["const", [], {"value": "0"}], ["expand", [2], {"at": 0, "size": 2}],
  ["scan", [3, 0, 1], {"carry": 1, "xs": 1, "reverse": false, "body": {"params": ["real 2", "real 2", "real"],
   "nodes": [["exp", [1]], ["add", [0, 3]], ["contract", [4, 1], {"spec": "a,a->"}], ["mul", [5, 2]]], "results": [4, 6]}}],
  ["get", [4], {"i": 1}], ["get", [4], {"i": 0}]], "results": [5, 6]}})",
       [](const std::string& bytes) { language::gradient_of(language::read_program(bytes, "program")); }},
      {"baseline", R"({"format": "assay-baseline", "version": 1, "tool_version": "0.1.0",
 "subject": {"seeds": 3, "kernel": "true {case} {out}", "form": "chunkwise", "cases": [{"mechanism": "deltanet",
 "shape": "1,3,2/1,2,3", "precision": "bf16", "style": "normal", "seed": 1, "params": {}, "cotangents": false}]},
 "rows": [{"device": "", "mechanism": "deltanet", "form": "chunkwise", "precision": "bf16",
 "inputs": "--shape 1,3,2/1,2,3 --style normal", "tensor": "o", "relative_error": [0.001, null, 2e-3], "rms_z": [1, 0.9, 1],
 "worst_z": [3, 2.5, 3], "verdicts": ["PASS", "FAIL", "PASS"]}]})",
       [](const std::string& bytes) { parse_baseline(bytes, "baseline"); }},
  };
}

}  // namespace assay::hostile
