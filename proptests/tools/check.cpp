// assay check: healthy answers pass, broken ones fail and are located, and no file is too odd to be refused in one
// sentence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "files/problem_file.hpp"
#include "files/safetensors.hpp"
#include "judge/contract/contract.hpp"
#include "judge/court/evidence.hpp"
#include "judge/court/judge_answer.hpp"
#include "judge/sigma/expected.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"
#include "reference/core/rounding.hpp"
#include "tools/run/device.hpp"

namespace assay {
namespace {

/// What the room's own emulation answers to a case, as a kernel would write it.
Safetensors emulated(const std::string& path, Format precision, std::size_t form = 0) {
  ProblemFile file = read_problem(read_safetensors(path), path);
  const KernelForm& kernel = find_kernels(kernel_rooms(), file.room->name)->forms[form];
  if (!kernel.has_gradients) file.problem.cotangents.clear();
  Answer answer = kernel.run(file.problem, Policy::of(kernel.sites, precision), 0);
  TensorFile to;
  for (auto& [name, array] : answer.outputs)
    to.put(name, std::move(array), answer_field(*file.room, name), file.batch, dtype_of(precision));
  for (auto& [name, array] : answer.gradients)
    to.put("d_" + name, std::move(array), answer_field(*file.room, "d_" + name), file.batch, dtype_of(precision));
  return std::move(to).finish({});
}

/// Changes every number of a stored tensor: f(value, its index along each axis of the file).
void change(StoredTensor& tensor, const std::function<double(double, const std::vector<int>&)>& f) {
  Array array = load("tensor", tensor);
  std::vector<int> index(array.shape.size());
  for (double& x : array.data) {
    x = f(x, index);
    for (std::size_t a = index.size(); a-- > 0;) {
      if (++index[a] < array.shape[a]) break;
      index[a] = 0;
    }
  }
  tensor = store(array, tensor.dtype);
}

/// Two sequences, two heads on one, 70 tokens: a chunk and a ragged one.
class Check : public CliFiles {
 protected:
  void make(const std::string& mechanism = "deltanet", const std::string& precision = "bf16",
            const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"case",        mechanism, "--shape", "2,70,2/1,8,6",
                                     "--precision", precision, "-o",      path("case.st")};
    args.insert(args.end(), more.begin(), more.end());
    const Ran made = run_assay(args);
    ASSERT_EQ(made.code, exit_passed) << made.err;
  }
  Ran check(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"check", path("case.st"), path("out.st")};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  }
  Json verdicts(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"--format", "json"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = check(args);
    EXPECT_EQ(ran.err, "");
    return Json::parse(ran.out);
  }
  void put(const Safetensors& out) const { write_safetensors(path("out.st"), out); }

  /// That it is bad input, said in one sentence that has all of `parts`, and that nothing is printed.
  static void expect_refused(const Ran& ran, const std::vector<std::string>& parts) {
    EXPECT_EQ(ran.code, exit_usage) << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_TRUE(ran.err.starts_with("assay: ")) << ran.err;
    for (const std::string& part : parts) EXPECT_NE(ran.err.find(part), std::string::npos) << part << "\n" << ran.err;
  }
};

TEST_F(Check, passes_what_a_correct_kernel_answers) {
  for (const auto& [mechanism, precision] :
       {std::pair{"deltanet", Format::bf16}, {"softmax_attention", Format::fp32}}) {
    make(mechanism, name_of(precision));
    put(emulated(path("case.st"), precision));
    const Ran ran = check();
    EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
    // The verdict, what would have been seen, and what not; without the latter two where that is asked for.
    const std::size_t verdict = ran.out.find("\nPASS  "), seen = ran.out.find("\ndetects  ", verdict);
    ASSERT_NE(seen, std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.find('\n', verdict + 1), seen) << ran.out;
    EXPECT_LE(std::count(ran.out.begin() + static_cast<std::ptrdiff_t>(seen), ran.out.end(), '\n'), 3) << ran.out;
    EXPECT_EQ(check({"--quick"}).out, ran.out.substr(0, seen + 1));
    EXPECT_NE(check({"--rows"}).out.find("shape B,T,H,K,V = 2,70,2/1,8,6"), std::string::npos) << ran.out;
  }
}

/// Four draws of the model settle what is far within its limits; sixteen decide everything else.
TEST_F(Check, asks_for_all_draws_where_four_leave_a_doubt) {
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,96,2,16", "--no-cotangents", "-o", path("case.st")}).code, 0);
  struct Gain {
    double by;
    int draws;
    bool passes;
  };
  for (const Gain& gain : {Gain{0, 4, true}, {0.006, 16, true}, {0.05, 16, false}}) {
    Safetensors out = emulated(path("case.st"), Format::fp32);
    for (auto& [name, tensor] : out.tensors) change(tensor, [&](double x, const auto&) { return x * (1 + gain.by); });
    put(out);
    for (const Json& row : verdicts()["rows"]) {
      EXPECT_EQ(row["draws"], gain.draws) << gain.by << ' ' << row["tensor"];
      EXPECT_EQ(row["verdict"] == "PASS", gain.passes) << gain.by << ' ' << row["tensor"];
    }
  }
}

/// A number that stands alone gets the draws that show it; where none of them would, it is UNSEEN, whatever it is.
TEST_F(Check, sees_a_number_wherever_draws_can) {
  const auto verdict_of = [&](bool zero) {
    Safetensors out = emulated(path("case.st"), Format::fp32);
    if (zero) change(out.tensors.at("d_bandwidth"), [](double, const auto&) { return 0.0; });
    put(out);
    const Json page = verdicts();
    const auto row = std::find_if(page["rows"].begin(), page["rows"].end(),
                                  [](const Json& one) { return one["tensor"] == "d_bandwidth"; });
    return row->at("verdict").get<std::string>();
  };
  int seen = 0;
  for (int seed = 0; seed < 2; ++seed) {
    make("softmax_attention", "bf16", {"--seed", std::to_string(seed)});
    const std::string right = verdict_of(false), zero = verdict_of(true);
    EXPECT_TRUE(right == "PASS" || right == "UNSEEN") << right;
    EXPECT_EQ(zero == "UNSEEN", right == "UNSEEN") << zero;
    EXPECT_NE(zero, "PASS") << seed;
    seen += right == "PASS" ? 1 : 0;
  }
  EXPECT_GT(seen, 0);
}

/// What a case hides is named, with what shows it.
TEST_F(Check, says_what_the_case_cannot_see) {
  make("deltanet", "bf16", {"--no-cotangents"});
  put(emulated(path("case.st"), Format::bf16));
  const Ran ran = check();
  const std::size_t at = ran.out.find("\ncannot see  bf16: ");
  ASSERT_NE(at, std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("beta in bf16", at), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("; `assay suite deltanet` has cases that ", at), std::string::npos) << ran.out;
  EXPECT_NE(verdicts()["rows"][0]["cannot_see"].get<std::string>().find("beta in bf16"), std::string::npos);
}

/// More exact than the contract asks for is no fault, nor is a wider dtype.
TEST_F(Check, passes_a_wider_answer) {
  make();
  put(emulated(path("case.st"), Format::fp32));
  EXPECT_EQ(check().code, exit_passed) << check().out;
}

struct Broken {
  const char *name, *tensor;
  std::function<double(double, const std::vector<int>&)> change;  ///< indices [b][t][h][d] or [b][h][k][v]
  const char* where;
};

TEST_F(Check, fails_what_is_wrong_and_says_where) {
  make();
  const Safetensors healthy = emulated(path("case.st"), Format::bf16);
  const double nan = std::nan("");
  const Broken broken[] = {
      {"a head that is not written", "o", [](double x, const auto& i) { return i[2] == 1 ? 0 : x; },
       "all sequences, head 1 of 2, "},
      {"a NaN", "d_q", [nan](double x, const auto& i) { return i[0] == 1 && i[1] == 66 && i[3] == 5 ? nan : x; },
       "sequence 1 of 2, token 66 of 70 (position 2 of chunk 1), key dimension 5 of 8; 1 of"},
      {"wrong from the second chunk on", "o", [](double x, const auto& i) { return i[1] >= 64 ? 1.5 * x : x; },
       "tokens 64..69 of 70 (chunk 1), all value dimensions"},
      {"the last row", "d_v", [](double x, const auto& i) { return i[1] == 69 ? -x : x; }, "the last token 69 of 70"},
      {"a state's column", "final_state", [](double x, const auto& i) { return i[3] == 5 ? x + 0.5 : x; },
       "all sequences, all heads, all key dimensions, the last value dimension 5 of 6"},
      {"a sequence", "d_beta", [](double x, const auto& i) { return i[0] == 0 ? 2 * x + 1 : x; },
       "sequence 0 of 2, all heads, "},
      {"a gain", "d_k", [](double x, const auto&) { return 1.05 * x; },
       "all sequences, all tokens, all key dimensions; "},
  };
  for (const Broken& fault : broken) {
    Safetensors out = healthy;
    change(out.tensors.at(fault.tensor), fault.change);
    put(out);
    const Json page = verdicts();
    EXPECT_FALSE(page["passed"].get<bool>());
    ASSERT_EQ(page["rows"].size(), 7U);
    for (const Json& row : page["rows"]) {
      const bool wrong = row["tensor"] == fault.tensor;
      EXPECT_EQ(row["verdict"], wrong ? "FAIL" : "PASS") << fault.name << ": " << row["tensor"];
      const auto where = row["where"].get<std::string>();
      EXPECT_EQ(where.find(fault.where) != std::string::npos, wrong) << fault.name << ": " << where;
    }
  }
}

/// Elements are named as the file has them, [b][t][h][d].
TEST_F(Check, names_elements_by_their_index_in_the_file) {
  make();
  Safetensors out = emulated(path("case.st"), Format::bf16);
  change(out.tensors.at("o"), [](double x, const auto& i) { return i == std::vector<int>{1, 65, 1, 3} ? x + 100 : x; });
  put(out);
  const Ran ran = check({"--tensor", "o"});
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_NE(ran.out.find("\n      where: sequence 1 of 2, head 1 of 2, "), std::string::npos) << ran.out;
  const Ran html = check({"--tensor", "o", "--format", "html"});
  EXPECT_EQ(html.code, exit_failed);
  EXPECT_NE(html.out.find("\n      where: sequence 1 of 2, head 1 of 2, "), std::string::npos) << html.out;
  const Json page = verdicts({"--tensor", "o"});
  ASSERT_EQ(page["rows"].size(), 1U);
  for (const Json& row : page["rows"]) {
    EXPECT_EQ(row["max_error_at"], "o[1][65][1][3]");
    EXPECT_TRUE(row["reason"].get<std::string>().starts_with("[1][65][1][3] is ")) << row["reason"];
  }
}

/// A contract of fp32 does not allow a state in bf16; that it is stored so may be all there is to it.
TEST_F(Check, holds_a_kernel_to_its_contract) {
  make("deltanet", "fp32");
  Safetensors out = emulated(path("case.st"), Format::fp32);
  out.tensors.at("final_state") = store(load("", out.tensors.at("final_state")), "BF16");
  put(out);
  EXPECT_TRUE(verdicts()["passed"].get<bool>());
  const Json page = verdicts({"--strict-dtypes"});
  ASSERT_EQ(page["rows"].size(), 7U);
  for (const Json& row : page["rows"])
    EXPECT_EQ(row["verdict"], row["tensor"] == "final_state" ? "FAIL" : "PASS") << row["tensor"];
  EXPECT_EQ(check({"--precision", "bf16"}).code, exit_passed);
  // Two or more spacings are no rounding.
  change(out.tensors.at("final_state"), [](double x, const auto&) { return x * (1 + 0x1p-6); });
  put(out);
  EXPECT_FALSE(verdicts()["passed"].get<bool>());
}

/// What the model leaves open, between 2 and 5 times its limit, a contract with a name may allow: it is not said to
/// show.
TEST_F(Check, claims_no_state_that_may_pass) {
  for (const char* seed : {"1", "2", "3"}) {
    ASSERT_EQ(run_assay({"case", "gated_deltanet", "--shape", "1,8,1,4", "--seed", seed, "-o", path("case.st")}).code,
              exit_passed);
    put(emulated(path("case.st"), Format::bf16));
    const Ran ran = check();
    ASSERT_EQ(ran.code, exit_passed) << ran.out;
    const std::size_t shows = ran.out.find("detects  bf16: ");
    ASSERT_NE(shows, std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.substr(shows, ran.out.find('\n', shows) - shows).find("state in "), std::string::npos) << ran.out;
  }
}

TEST_F(Check, judges_the_tensors_asked_for) {
  make();
  Safetensors out = emulated(path("case.st"), Format::bf16);
  out.tensors.erase("d_beta");
  change(out.tensors.at("d_k"), [](double x, const auto&) { return 2 * x; });
  put(out);
  const Json page = verdicts({"--tensor", "o", "--tensor", "d_q,final_state"});
  EXPECT_TRUE(page["passed"].get<bool>());
  EXPECT_EQ(page["rows"].size(), 3U);
  EXPECT_EQ(check({"--tensor", "d_k"}).code, exit_failed);
  expect_refused(check({"--tensor", "d_beta"}), {"out.st: tensor d_beta: missing"});
  expect_refused(check({"--tensor", "d_z"}), {"--tensor: there is no d_z; there are final_state, o, d_beta"});
  out = emulated(path("case.st"), Format::bf16);
  out.tensors["lse"] = out.tensors.at("o"), put(out);
  expect_refused(check(), {"out.st: tensor lse: the case does not ask for it"});
  EXPECT_EQ(check({"--tensor", "o"}).code, exit_passed);
  out.tensors.erase("lse"), out.tensors["dq"] = out.tensors.at("d_q"), put(out);
  expect_refused(check(), {"out.st: tensor dq: the case does not ask for it (did you mean d_q?)"});
}

/// Few kernels have the gradient of what their caller passes as a number.
TEST_F(Check, gradients_of_params_may_be_missing) {
  make("softmax_attention");
  Safetensors out = emulated(path("case.st"), Format::bf16);
  put(out);
  EXPECT_EQ(verdicts()["rows"].size(), 5U);
  out.tensors.erase("d_bandwidth");
  put(out);
  const Json page = verdicts();
  EXPECT_TRUE(page["passed"].get<bool>());
  EXPECT_EQ(page["rows"].size(), 4U);
  EXPECT_EQ(page["not_judged"], Json::array({"d_bandwidth"}));
  EXPECT_NE(check().out.find("\nnot judged: d_bandwidth (the answer has none)\n"), std::string::npos);
  EXPECT_NE(check().out.find("\nPASS  4 tensors by "), std::string::npos);
  EXPECT_NE(check().out.find("; NOT JUDGED: d_bandwidth\n"), std::string::npos);
  expect_refused(check({"--tensor", "d_bandwidth"}), {"out.st: tensor d_bandwidth: missing"});
  out.tensors.erase("d_v");
  put(out);
  expect_refused(check(), {"out.st: tensor d_v: missing"});
}

/// A kernel that starts from nothing has no gradient of it.
TEST_F(Check, gradients_of_what_a_case_leaves_out_may_be_missing) {
  make("deltanet");
  Safetensors stored = read_safetensors(path("case.st"));
  stored.tensors.erase("initial_state");
  write_safetensors(path("case.st"), stored);
  Safetensors out = emulated(path("case.st"), Format::bf16);
  put(out);
  EXPECT_EQ(verdicts()["not_judged"], Json::array());
  out.tensors.erase("d_initial_state");
  put(out);
  const Json page = verdicts();
  EXPECT_TRUE(page["passed"].get<bool>());
  EXPECT_EQ(page["not_judged"], Json::array({"d_initial_state"}));
  out.tensors.erase("d_v");
  put(out);
  expect_refused(check(), {"out.st: tensor d_v: missing"});
}

/// Keys that are too long by a factor are no fault of the kernel, and nobody has the digits.
TEST_F(Check, says_that_a_delta_rule_grows) {
  make("deltanet");
  put(emulated(path("case.st"), Format::bf16));
  EXPECT_EQ(check().out.find("beta |k|^2"), std::string::npos);
  Safetensors stored = read_safetensors(path("case.st"));
  StoredTensor& keys = stored.tensors.at("k");
  Array longer = load("k", keys);
  for (double& x : longer.data) x *= 8;
  keys = store(longer, keys.dtype);
  write_safetensors(path("case.st"), stored);
  const Ran ran = check();
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_NE(ran.out.find("\ninputs: a delta rule grows where beta |k|^2 > 2: it is "), std::string::npos) << ran.out;
}

TEST_F(Check, takes_the_precision_from_q) {
  for (const auto& [precision, contract] : {std::pair{"bf16", "bf16"}, {"fp32", "fp32"}, {"tf32", "fp32"}}) {
    make("deltanet", precision);
    put(emulated(path("case.st"), *format_from(contract)));
    Safetensors stored = read_safetensors(path("case.st"));
    stored.metadata.erase("precision");
    write_safetensors(path("case.st"), stored);
    const Ran ran = check();
    EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
    EXPECT_NE(ran.out.find(std::string("precision: ") + contract + ", as q is stored; the case names none"),
              std::string::npos)
        << ran.out;
    EXPECT_EQ(check({"--precision", "fp16"}).out.find("as q is stored"), std::string::npos);
    stored.metadata["precision"] = "bf61";
    write_safetensors(path("case.st"), stored);
    expect_refused(check(), {"case.st: __metadata__.precision: there is no bf61 (did you mean bf16?); there are fp64"});
  }
}

TEST_F(Check, takes_the_form_that_fits) {
  const std::string in = path("case.st");
  ASSERT_EQ(run_assay({"case", "softmax_attention", "--shape", "1,3/90,2,16", "-o", in}).code, exit_passed);
  put(emulated(in, Format::bf16, 0));
  EXPECT_EQ(verdicts()["rows"][0]["form"], "tiled");
  // Decoding has no gradients to judge, so those given are not looked at.
  const Json decoded = verdicts({"--form", "split_decode"});
  EXPECT_EQ(decoded["rows"].size(), 1U);
  EXPECT_EQ(decoded["not_judged"], Json::array({"d_bandwidth", "d_k", "d_q", "d_v"}));
  put(emulated(in, Format::bf16, 1));
  const Json page = verdicts({"--form", "split_decode"});
  EXPECT_EQ(page["rows"][0]["form"], "split_decode");
  EXPECT_TRUE(page["passed"].get<bool>());
  expect_refused(check(), {"tensor d_k: missing"});
  expect_refused(check({"--form", "chunkwise"}),
                 {"--form: softmax_attention has no chunkwise; it has tiled, split_decode"});
  ASSERT_EQ(run_assay({"case", "softmax_attention", "--shape", "1,5,1,130", "-o", in}).code, exit_passed);
  // The model needs no kernel of ours; a contract does.
  expect_refused(check({"--contract", "bf16"}),
                 {"case.st: tiled: K and V are compiled in up to 128, got 130; split_decode: "});
}

/// A number of the equations may be an integer, typed or in the file.
TEST_F(Check, takes_numbers_that_are_integers) {
  for (const auto& [mechanism, param] : {std::pair{"deltanet", "scale=1"}, {"softmax_attention", "bandwidth=2"}}) {
    make(mechanism, "bf16", {"--param", param});
    Safetensors file = read_safetensors(path("case.st"));
    put(emulated(path("case.st"), Format::bf16));
    EXPECT_EQ(check().code, exit_passed) << check().err;
    std::string name = param, number = name.substr(name.find('=') + 1);
    name.resize(name.find('='));
    file.metadata["params"] = "{\"" + name + "\": " + number + "}";
    write_safetensors(path("case.st"), file);
    EXPECT_EQ(check().code, exit_passed) << check().err;
  }
  const Ran drift = run_assay({"drift", "deltanet", "--param", "scale=1", "--tokens", "64", "--no-sites"});
  EXPECT_EQ(drift.code, exit_passed) << drift.err;
}

TEST_F(Check, judges_by_the_tile_shape_asked_for) {
  make();
  put(emulated(path("case.st"), Format::bf16));
  const std::string any = check({"--legend"}).out;
  EXPECT_NE(any.find("\ntiles     each tensor is judged by the one of 64, 32, 16 that it fits; --tile asks for one\n"),
            std::string::npos)
      << any;
  EXPECT_EQ(verdicts()["rows"][0]["tile"], "64, 32, 16");
  const Json one = verdicts({"--tile", "64"});
  EXPECT_TRUE(one["passed"].get<bool>()) << one.dump(1);
  EXPECT_EQ(one["rows"][0]["tile"], "64");
  EXPECT_TRUE(one["command"].get<std::string>().ends_with(" --form chunkwise --precision bf16 --tile 64"));
  EXPECT_EQ(check({"--tile", "64"}).out.find("tiles "), std::string::npos);
  EXPECT_FALSE(verdicts({"--tile", "16"})["passed"].get<bool>());  // its gradient of the initial state is of 64
  expect_refused(check({"--tile", "128"}), {"--tile: chunkwise has no 128; it has 64, 32, 16"});
}

TEST_F(Check, ends_with_the_command_that_reproduces_it) {
  make();
  std::filesystem::create_directory(path("a folder, it's odd"));
  const std::string odd = path("a folder, it's odd/out.st");
  Safetensors out = emulated(path("case.st"), Format::bf16);
  change(out.tensors.at("o"), [](double x, const auto&) { return -x; });
  write_safetensors(odd, out);
  const Ran ran = run_assay({"check", path("case.st"), odd, "--format", "json"});
  const Json page = Json::parse(ran.out);
  std::string quoted = odd;
  quoted.replace(quoted.find('\''), 1, "'\\''");
  const std::string command =
      "build/assay check " + path("case.st") + " '" + quoted + "' --form chunkwise --precision bf16";
  EXPECT_EQ(page["command"], command);
  EXPECT_EQ(page["rows"][1]["command"], command + " --tensor o");
  Json again = Json::parse(run_assay({"check", path("case.st"), odd, "--form", "chunkwise", "--precision", "bf16",
                                      "--tensor", "o", "--format", "json"})
                               .out)["rows"][0];
  Json row = page["rows"][1];
  for (Json* one : {&again, &row}) one->erase("cannot_see");  // of all tensors that are judged together
  EXPECT_EQ(again, row);
  const std::string text = run_assay({"check", path("case.st"), odd}).out;
  EXPECT_TRUE(text.ends_with("\nreproduce: " + command + "\n")) << text;
}

TEST_F(Check, has_the_same_bits_from_any_number_of_threads) {
  make();
  put(emulated(path("case.st"), Format::bf16));
  EXPECT_EQ(check({"--threads", "1"}).out, check({"--threads", "3"}).out);
}

TEST_F(Check, refuses_what_it_cannot_judge) {
  make();
  const Safetensors good = emulated(path("case.st"), Format::bf16), problem = read_safetensors(path("case.st"));
  const std::string out = path("out.st"), in = path("case.st");
  const auto with = [&](const std::function<void(Safetensors&)>& edit) {
    Safetensors file = good;
    edit(file);
    put(file);
    return check();
  };
  expect_refused(with([](Safetensors& f) { f.tensors.erase("o"); }), {out + ": tensor o: missing"});
  const auto renamed = [](const std::string& from, const std::string& to) {
    return [=](Safetensors& f) {
      f.tensors[to] = f.tensors.at(from);
      f.tensors.erase(from);
    };
  };
  for (const auto& [ours, theirs] : {std::pair{"o", "out"},
                                     {"o", "output"},
                                     {"d_q", "dq"},
                                     {"d_q", "grad_q"},
                                     {"d_q", "q_grad"},
                                     {"final_state", "ht"},
                                     {"final_state", "state"},
                                     {"final_state", "finalstate"},
                                     {"d_beta", "db"},
                                     {"d_initial_state", "dh0"}})
    expect_refused(with(renamed(ours, theirs)),
                   {out + ": tensor " + ours + ": missing; is it " + theirs + "?; to this case deltanet answers",
                    "; --tensor judges some of them"});
  expect_refused(with([](Safetensors& f) {
                   f.tensors["o"].shape = {2, 2, 70, 6};
                 }),
                 {out + ": tensor o: expected shape [2, 70, 2, 6], got [2, 2, 70, 6]; that is [B, H, T, V]: transpose "
                        "axes 1 and 2"});
  expect_refused(with([](Safetensors& f) {
                   f.tensors["final_state"].shape = {2, 2, 6, 8};
                 }),
                 {out + ": tensor final_state: expected shape [2, 2, 8, 6], got [2, 2, 6, 8]; that is [B, H, V, K]: "
                        "transpose axes 2 and 3"});
  expect_refused(with([](Safetensors& f) { f.tensors["o"].shape = {1680}; }),
                 {out + ": tensor o: expected shape [2, 70, 2, 6], got [1680]"});
  expect_refused(with([](Safetensors& f) { f.tensors["d_q"].dtype = "I16"; }),
                 {out + ": tensor d_q: dtype I16 is not a floating-point type this tool reads (F64, F32, BF16, F16, "});
  put(good);
  std::filesystem::resize_file(out, std::filesystem::file_size(out) - 1);
  expect_refused(check(), {out + ": tensor ", "data_offsets lie outside the file"});
  std::filesystem::remove(out);
  expect_refused(check(), {out + ": cannot be read"});
  put(good);
  for (const char* seconds : {"nan", "inf", "0", "-1", "x"}) {
    const Ran ran = check({"--timeout", seconds});
    EXPECT_EQ(ran.code, exit_usage) << seconds;
    EXPECT_NE(ran.err.find(text("--timeout: expected a number from 0.001 to 1e+07, got ", seconds)), std::string::npos)
        << ran.err;
  }
  expect_refused(run_assay({"check", write("case.json", "{}"), out}), {"case.json: not a safetensors file"});
  expect_refused(run_assay({"check", path("none.safetensors"), out}), {"none.safetensors: cannot be read"});

  const auto with_case = [&](const std::function<void(Safetensors&)>& edit) {
    Safetensors file = problem;
    edit(file);
    write_safetensors(in, file);
    return check();
  };
  EXPECT_EQ(with_case([](Safetensors& f) { f.metadata.erase("precision"); }).code, exit_passed);
  EXPECT_EQ(check({"--precision", "bf16"}).code, exit_passed);
  expect_refused(with_case([](Safetensors& f) { f.metadata["mechanism"] = "nothing"; }), {"nothing"});
  expect_refused(with_case([](Safetensors& f) { f.tensors.erase("q"); }), {in + ": DOMAIN: ", "q"});
  expect_refused(with_case([](Safetensors& f) {
                   change(f.tensors["q"], [](double x, const auto& i) {
                     return i == std::vector<int>{1, 2, 0, 3} ? std::nan("") : x;
                   });
                 }),
                 {in + ": NONFINITE: q[1][2][0][3]: not a finite number"});
  for (const Room* room : rooms())
    if (find_kernels(kernel_rooms(), room->name) == nullptr) {
      ASSERT_EQ(run_assay({"case", std::string(room->name), "--shape", "1,3,1,4", "-o", in}).code, exit_passed);
      expect_refused(check(), {in + ": " + std::string(room->name) + " has no kernel and so no contract to judge by"});
    }
  EXPECT_EQ(names(), (std::vector<std::string>{"case.json", "case.st", "out.st"}));
}

/// The command runs itself; what it writes is gone afterwards, and no path is more than a word to it.
TEST_F(Check, runs_a_kernel) {
  make("deltanet", "bf16", {"--no-cotangents"});
  std::filesystem::create_directory(path("it's $(a) folder"));
  const std::string in = path("it's $(a) folder/case.st"), said = path("said");
  std::filesystem::copy(path("case.st"), in);
  put(emulated(in, Format::bf16));
  const auto kernel = [&](const std::string& command, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"check", in, "--kernel", command};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  };
  const std::string answers = "test -s {case} && echo {out} > " + said + " && cp " + path("out.st") + " {out}";
  const Ran ran = kernel(answers);
  EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  const Json page = Json::parse(kernel(answers, {"--format", "json", "--timeout", "90.5"}).out);
  EXPECT_EQ(page["kernel"], answers);
  EXPECT_NE(page["command"].get<std::string>().find(" --kernel 'test -s {case} "), std::string::npos);
  EXPECT_NE(page["command"].get<std::string>().find("' --timeout 90.5 --form chunkwise"), std::string::npos);
  std::string out = read("said");
  out.pop_back();
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(out).parent_path())) << out;

  expect_refused(kernel("echo first; echo last >&2; exit 4 # {case} {out}"),
                 {"--kernel: the command ended with exit code 4: first / last"});
  expect_refused(kernel("kill -SEGV $$ # {case} {out}"), {"--kernel: the command crashed with signal 11"});
  expect_refused(kernel("sleep 100 # {case} {out}", {"--timeout", "0.2"}), {"--kernel: the command had not ended"});
  expect_refused(kernel("echo {case} {out} >&2"), {"--kernel: the command has not written {out}: "});
  expect_refused(kernel("echo {case} > {out}"), {"--kernel: {out}: the header claims"});
  expect_refused(kernel("cp {case} {out}"), {"--kernel: {out}: tensor final_state: missing"});
  expect_refused(kernel("cp {case} out"), {"--kernel: expected {case} and {out} in the command"});
  EXPECT_EQ(kernel(answers, {"--timeout", "0"}).code, exit_usage);
  expect_refused(run_assay({"check", in}), {"expected one of OUT, --kernel, --kernel-loop and --plugin"});
  expect_refused(run_assay({"check", in, path("out.st"), "--kernel", answers}), {"expected one of OUT, "});
}

TEST_F(Check, runs_a_plugin) {
  for (const char* precision : {"bf16", "fp32"}) {
    make("deltanet", precision, {"--no-cotangents"});
    const Ran ran = run_assay({"check", path("case.st"), "--plugin", plugin_built("deltanet"), "--rows"});
    EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
    EXPECT_NE(ran.out.find("\nPASS  2 tensors by the model, "), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("\nreproduce: build/assay check " + path("case.st") + " --plugin " +
                           plugin_built("deltanet") + " --form chunkwise"),
              std::string::npos)
        << ran.out;
  }
  const auto plugin = [&](const std::string& library, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"check", path("case.st"), "--plugin", library};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  };
  expect_refused(plugin(plugin_built("deltanet"), {"--tensor", "o"}),
                 {plugin_built("deltanet") + ": says: answers o and final_state"});
  expect_refused(plugin(path("none.so")), {"none.so: cannot be read"});
  expect_refused(plugin(write("text.so", "text")), {"text.so: cannot be loaded: "});
}

#ifdef ASSAY_PLUGIN_DELTANET_ON_DEVICE
/// On a GPU if there is one; if not, that is what is said.
TEST_F(Check, runs_a_plugin_on_a_device) {
  make("deltanet", "bf16", {"--no-cotangents"});
  const Ran ran = run_assay({"check", path("case.st"), "--plugin", plugin_built("deltanet_on_device")});
  if (gpu() != nullptr) {
    EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
    EXPECT_NE(ran.out.find("2 tensors: 2 PASS\n"), std::string::npos) << ran.out;
  } else {
    expect_refused(ran, {plugin_built("deltanet_on_device") + ": asks for memory on a device: "});
  }
}
#endif

/// What a plugin does wrong is a sentence.
TEST_F(Check, survives_every_plugin) {
  make("deltanet", "bf16", {"--no-cotangents"});
  const auto misbehaving = [&](const char* how, const std::vector<std::string>& more = {}) {
    setenv("ASSAY_MISBEHAVES", how, 1);
    std::vector<std::string> args = {"check", path("case.st"), "--plugin", plugin_built("misbehaving")};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_assay(args);
    unsetenv("ASSAY_MISBEHAVES");
    return ran;
  };
  const std::string library = plugin_built("misbehaving");
  expect_refused(misbehaving("crash"), {library + ": crashed with signal 11"});
  expect_refused(misbehaving("abort"), {library + ": crashed with signal 6", ": about to abort"});
  expect_refused(misbehaving("exit"), {library + ": ended with exit code 5"});
  for (const char* how : {"exit_0", "exit_filled"})
    expect_refused(misbehaving(how), {library + ": ends the process in run(), which has to return"});
  expect_refused(misbehaving("overwrites"), {library + ": tensor beta: the plugin has overwritten its input"});
  expect_refused(misbehaving("throw"), {library + ": ended with exit code 1: thrown"});
  expect_refused(misbehaving("hang", {"--timeout", "0.2"}), {library + ": had not ended at the time limit"});
  expect_refused(misbehaving("refuse"), {library + ": says: not today, not tomorrow"});
  expect_refused(misbehaving("version"), {library + ": has version 3 of assay_plugin.h, this program has 2"});
  expect_refused(misbehaving("version_0"), {library + ": has version 0 of assay_plugin.h, this program has 2"});
  expect_refused(misbehaving("memory"), {library + ": asks for memory 77, which assay_plugin.h has not"});
  expect_refused(misbehaving("null"), {library + ": assay_plugin() returned null"});
  expect_refused(misbehaving("no_run"), {library + ": has no run()"});
  expect_refused(misbehaving("dtype"), {library + ": tensor final_state: dtype 9 is none of assay_plugin.h"});
  // It writes nothing: what is poisoned fails.
  const Ran nothing = misbehaving("nothing", {"--format", "json"}),
            version_1 = misbehaving("version_1", {"--format", "json"});  // taken, without its `memory`
  for (const Ran& ran : {nothing, version_1}) {
    EXPECT_EQ(ran.code, exit_failed);
    const Json page = Json::parse(ran.out);
    ASSERT_EQ(page["rows"].size(), 2U);
    for (const Json& row : page["rows"]) {
      EXPECT_EQ(row["verdict"], "FAIL");
      EXPECT_NE(row["reason"].get<std::string>().find("nan, not a finite number"), std::string::npos) << row["reason"];
    }
  }
  // It says which dtype it writes: zeros of bf16 are no NaN, and they are wrong.
  const Json zeros = Json::parse(misbehaving("bf16_zeros", {"--format", "json"}).out);
  ASSERT_EQ(zeros["rows"].size(), 2U);
  for (const Json& row : zeros["rows"]) {
    EXPECT_EQ(row["verdict"], "FAIL");
    EXPECT_NE(row["reason"].get<std::string>().find(" is 0, expected"), std::string::npos) << row["reason"];
  }
}

/// A kernel may be within every limit and still answer other bits each time, or others in a batch than alone.
TEST_F(Check, demands_the_same_bits) {
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "3,20,2,8", "--precision", "bf16", "--no-cotangents", "-o",
                       path("case.st")})
                .code,
            exit_passed);
  const auto answered = [&](const char* bug, bool demanded) {
    setenv("ASSAY_BUG", bug, 1), setenv("ASSAY_RUNS", write("runs", "").c_str(), 1);
    std::vector<std::string> args = {"check", path("case.st"), "--plugin", plugin_built("wrong")};
    if (demanded) args.emplace_back("--same-bits");
    const Ran ran = run_assay(args);
    unsetenv("ASSAY_BUG"), unsetenv("ASSAY_RUNS");
    return ran;
  };
  for (const char* bug : {"none", "other_bits_again", "other_bits_in_batch", "reads_behind"})
    EXPECT_EQ(answered(bug, false).code, exit_passed) << bug;
  EXPECT_EQ(answered("none", true).code, exit_passed);
  const Ran behind = answered("reads_behind", true);
  EXPECT_EQ(behind.code, exit_failed);
  EXPECT_NE(behind.out.find("o[2][19][1][7] is "), std::string::npos) << behind.out;
  EXPECT_NE(behind.out.find(" with zeros around the inputs in place of NaN, and was "), std::string::npos)
      << behind.out;
  expect_refused(answered("writes_behind", false), {"tensor o: written behind its memory"});
  expect_refused(answered("writes_in_front", false), {"tensor o: written in front of its memory"});
  const Ran again = answered("other_bits_again", true), batch = answered("other_bits_in_batch", true);
  EXPECT_EQ(again.code, exit_failed);
  EXPECT_NE(again.out.find("\no: o[0][1][0][0] is "), std::string::npos) << again.out;
  EXPECT_NE(again.out.find(" when it is run again, and was "), std::string::npos) << again.out;
  EXPECT_NE(again.out.find(" --same-bits --form"), std::string::npos) << "the command that repeats it: " << again.out;
  EXPECT_EQ(batch.code, exit_failed);
  EXPECT_NE(batch.out.find("\no: o[2][19][1][7] is "), std::string::npos) << batch.out;
  EXPECT_NE(batch.out.find(" when sequence 2 is run alone, and was "), std::string::npos) << batch.out;

  // A command is run in the same way; a file cannot be run again.
  const std::string copy = "cp {case} " + path("seen.st") + " && cp " + path("out.st") + " {out}";
  write_safetensors(path("out.st"), emulated(path("case.st"), Format::bf16));
  const Ran fixed = run_assay({"check", path("case.st"), "--kernel", copy, "--same-bits"});
  EXPECT_EQ(fixed.code, exit_failed);
  EXPECT_NE(fixed.out.find("o has another shape when sequence 0 is run alone"), std::string::npos) << fixed.out;
  const Safetensors seen = read_safetensors(path("seen.st")), whole = read_safetensors(path("case.st"));
  const StoredTensor &part = seen.tensors.at("v"), &v = whole.tensors.at("v");
  EXPECT_EQ(part.shape, (std::vector<int>{1, 20, 2, 8}));
  EXPECT_TRUE(std::equal(part.bytes.rbegin(), part.bytes.rend(), v.bytes.rbegin())) << "the last sequence";
  expect_refused(run_assay({"check", path("case.st"), path("out.st"), "--same-bits"}),
                 {"--same-bits: expected --kernel or --plugin"});
}

/// However a file is cut off, and whatever its header claims, it is refused in one sentence.
TEST_F(Check, refuses_every_damaged_file) {
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,3,1,2", "-o", path("case.st")}).code, exit_passed);
  const std::vector<std::uint8_t> bytes = serialize(emulated(path("case.st"), Format::bf16));
  const std::string whole(bytes.begin(), bytes.end());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write("out.st", whole.substr(0, size));
    expect_refused(check(), {path("out.st") + ": "});
  }
  const std::uint64_t header = whole.find('}', whole.rfind("]")) - 7;
  for (const std::uint64_t claim : {std::uint64_t{0}, std::uint64_t{1}, header - 1, header + 9, whole.size() - 8 + 1,
                                    std::uint64_t{1} << 32, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    std::string forged = whole;
    for (std::size_t i = 0; i < 8; ++i) forged[i] = static_cast<char>(claim >> (8 * i));
    write("out.st", forged);
    expect_refused(check(), {path("out.st") + ": "});
  }
  // Digits in the header replaced: of what is then a valid file, nothing is said.
  const ProblemFile problem = read_problem(read_safetensors(path("case.st")), "case");
  const Oracle oracle = oracle_of(*problem.room, problem.problem);
  int refused = 0;
  for (std::size_t at = whole.find("\"},\"d_"); at < whole.find("}}"); ++at)
    for (const char put : {'9', '-', '[', '"', '}', '\0'}) {
      if (std::isdigit(static_cast<unsigned char>(whole[at])) == 0) continue;
      std::vector<std::uint8_t> forged = bytes;
      forged[at] = static_cast<std::uint8_t>(put);
      try {
        read_outputs(parse_safetensors(forged, "out"), problem, oracle, {}, "out");
      } catch (const InputError& e) {
        EXPECT_TRUE(std::string(e.what()).starts_with("out: ")) << e.what();
        ++refused;
      }
    }
  EXPECT_GT(refused, 100);
}

/// Many tensors on the same bytes would be many times the file in memory.
TEST_F(Check, refuses_tensors_that_share_bytes) {
  std::string header = "{";
  for (int i = 0; i < 1000; ++i)
    header +=
        (i > 0 ? "," : "") + ("\"t" + std::to_string(i)) + R"(":{"dtype":"F32","shape":[64],"data_offsets":[0,256]})";
  header += "}";
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i));
  make();
  write("out.st", file + header + std::string(256, '\0'));
  expect_refused(check(), {"shares bytes with another tensor"});
}

/// A state that is rounded after every token, where writes are small: the model FAILs it, and without being asked by
/// name the contract that promises it excuses nothing.
TEST(Evidence, what_the_model_fails_no_contract_excuses) {
  const Room& room = listed_room("deltanet");
  const Problem problem = room.make({"deltanet", {1, 70, 2, 0, 16, 16, 0}, Format::bf16, Style::slow_writes, 0, {}});
  const KernelForm& form = find_kernels(kernel_rooms(), "deltanet")->forms.front();
  const Answer got = form.run(problem, find_contract("bf16_state_per_token")->policy(form.sites), 0);
  JudgeBy by{.tensors = {"final_state"}, .threads = 1, .precision = "bf16"};
  const Judged without = judge(problem, got, by);
  ASSERT_EQ(without.rows.size(), 1U) << without.reason;
  EXPECT_EQ(without.verdict, Verdict::fail);
  EXPECT_EQ(without.rows.front().evidence, "model");
  by.precision.clear(), by.contract = "bf16_state_per_token";
  EXPECT_EQ(judge(problem, got, by).verdict, Verdict::pass);
}

/// A contract that stores in bf16 what the model knows in fp32: within it lies what the model FAILs. Of one element's
/// error a contract's excess is a multiple.
TEST(Evidence, half_of_the_contracts_limits_overrules_the_model) {
  const Room& room = listed_room("value_averaging");
  Problem problem = room.make({"value_averaging", {1, 19, 1, 0, 8, 8, 0}, Format::fp32, Style::normal, 0, {}});
  problem.cotangents.clear();
  const Oracle oracle = oracle_of(room, problem);
  const Oracle::Tensor& truth = oracle.tensors.front().second;
  Contract stores = Contract::of(Format::fp32);
  stores.name = "stores", stores.rules = {{"out", Format::bf16}};
  const KernelForm& form = find_kernels(kernel_rooms(), "value_averaging")->forms.front();
  const Trial trial{.room = room, .kernel = {&form, Format::fp32, 0, 1, &stores}, .problem = problem, .oracle = oracle};
  const auto off_by = [&](double error) {
    Answer got;
    Array& o = got.outputs["o"] = Array(truth.shape);
    for (std::size_t i = 0; i < o.data.size(); ++i) o.data[i] = truth.value[i].hi;
    o.data.back() += error;
    OtherContracts others;
    return judge_by_both(trial, {}, got, {}, Decides::model, others).front();
  };
  const double limit = 0x1p-10 / off_by(0x1p-10).by_contract.value().excess;
  for (const double share : {0.45, 0.55, 0.9}) {
    const ReportRow row = off_by(share * limit);
    EXPECT_EQ(row.by_model.value().verdict, Verdict::fail) << share;
    EXPECT_EQ(row.by_contract.value().verdict, Verdict::pass) << share << ": " << row.by_contract.value().reason;
    EXPECT_EQ(row.judgement.verdict, share < 0.5 ? Verdict::pass : Verdict::fail) << share;
    EXPECT_EQ(row.evidence, share < 0.5 ? "contract stores" : "model") << share;
  }
}

}  // namespace
}  // namespace assay
