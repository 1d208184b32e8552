// Programs that stay and answer case after case: the line protocol, and every way to break it.
#include "tools/run/kernel_loop.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "files/case_file.hpp"
#include "files/problem_file.hpp"
#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using namespace std::chrono_literals;

class Loop : public CliFiles {
 protected:
  /// A program of the shell that notes down its process, then does `body` for every line.
  std::string program(const std::string& body, const std::string& before = "true") const {
    return "echo $$ >> " + path("starts") + "; " + before + "; while read -r problem out; do " + body + "; done";
  }
  int starts() const {
    const std::string noted = read("starts");
    return static_cast<int>(std::count(noted.begin(), noted.end(), '\n'));
  }
  /// What is said of a program that is asked, and asked again once it has answered.
  std::string complaint(const std::string& body, std::chrono::duration<double> limit = 20s) const {
    KernelLoop loop(body, {});
    try {
      loop.ask(path("case"), path("out"), limit);
      std::this_thread::sleep_for(300ms);
      loop.ask(path("case"), path("out"), limit);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Loop, answers_case_after_case_in_one_process) {
  KernelLoop loop(program("echo \"$problem $out\" >> " + path("asked") + "; echo done"), {});
  for (const std::string name : {"one", "two", "three"}) loop.ask(path(name), path(name + ".out"), 20s);
  EXPECT_EQ(starts(), 1);
  EXPECT_EQ(read("asked"), path("one") + ' ' + path("one.out") + '\n' + path("two") + ' ' + path("two.out") + '\n' +
                               path("three") + ' ' + path("three.out") + '\n');
}

TEST_F(Loop, says_in_one_sentence_what_a_program_does_wrong) {
  const std::string flag = "--kernel-loop: the program ";
  EXPECT_EQ(complaint(program("echo done")), "");
  EXPECT_EQ(complaint(program("echo error no such size")), flag + "answers: error no such size");
  EXPECT_EQ(complaint(program("echo loading; echo done")),
            flag + "said loading on standard output; expected done, or error MESSAGE, and nothing else");
  EXPECT_EQ(complaint(program("echo done", "echo ready")),
            flag + "said ready on standard output; expected done, or error MESSAGE, and nothing else");
  EXPECT_EQ(complaint(program("printf 'done\ndone\n'")),
            flag + "said more than one line for a case: done; expected done, or error MESSAGE, and nothing else");
  EXPECT_EQ(complaint(program("echo done; sleep 0.1; echo late")),
            flag + "said more than one line for a case: late; expected done, or error MESSAGE, and nothing else");
  EXPECT_EQ(complaint("echo oops >&2; exit 3"),
            "--kernel-loop: the program, which had a case to answer, ended with exit "
            "code 3: oops");
  EXPECT_EQ(complaint(program("kill -SEGV $$")),
            "--kernel-loop: the program, which had a case to answer, crashed with signal 11 (Segmentation fault)");
  EXPECT_EQ(complaint("read -r line; echo done"),
            "--kernel-loop: the program, which should read until its input ends, ended with exit code 0");
  EXPECT_EQ(complaint(program("sleep 100"), 0.3s),
            flag + "had not answered at the time limit, and was killed (answers must be flushed)");
  EXPECT_EQ(complaint(program("printf done; sleep 100"), 0.3s),
            flag + "had not answered at the time limit, and was killed (answers must be flushed)");
  EXPECT_EQ(complaint(program("exec <&- >&-; sleep 100")), flag + "has closed its standard output");
  // What the program complains of when it is cut off may follow.
  EXPECT_TRUE(complaint("head -c 200000 /dev/zero | tr '\\0' x; sleep 100")
                  .starts_with(flag + "said a line without an end on standard output"));
  EXPECT_EQ(
      complaint("/no/such/program"),
      "--kernel-loop: the program, which had a case to answer, ended with exit code 127: sh: 1: /no/such/program: "
      "not found");
}

/// A size that is not taken is no end; what dies is started anew, by whoever knew nothing when it was first.
TEST_F(Loop, goes_on_after_an_error_and_starts_anew_after_an_end) {
  KernelLoop loop(program("case $problem in *bad) echo error bad;; *dead) exit 1;; *) echo done;; esac"), {});
  loop.ask("good", "out", 20s);
  EXPECT_THROW(loop.ask("bad", "out", 20s), InputError);
  loop.ask("good", "out", 20s);
  EXPECT_EQ(starts(), 1);
  EXPECT_THROW(loop.ask("dead", "out", 20s), InputError);
  loop.ask("good", "out", 20s);
  EXPECT_EQ(starts(), 2);
  EXPECT_THROW(loop.ask("a path", "out", 20s), InputError);
}

/// Whether a process of that id runs.
bool runs(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  for (int i = 0; i < 3; ++i) status >> word;
  return status.good() && word != "Z";
}

TEST_F(Loop, ends_with_its_input_and_leaves_nothing_running) {
  for (const bool stubborn : {false, true}) {
    std::filesystem::remove(path("starts"));
    std::filesystem::remove(path("ended"));
    {
      KernelLoop loop(program("echo done") + (stubborn ? "; sleep 1000 & sleep 1000" : "; touch " + path("ended")), {});
      loop.ask("case", "out", 20s);
    }
    EXPECT_EQ(std::filesystem::exists(path("ended")), !stubborn);
    const int pid = std::stoi(read("starts"));
    for (int i = 0; i < 500 && runs(pid); ++i) std::this_thread::sleep_for(10ms);
    EXPECT_FALSE(runs(pid)) << stubborn;
  }
}

/// A program of the shell and Python that answers every case of deltanet with zeros.
class LoopChecked : public Loop {
 protected:
  void SetUp() override {
    Loop::SetUp();
    ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "2,70,4/2,8,6", "--no-cotangents", "-o", path("case.st")}).code,
              exit_passed);
    Safetensors exact = answer_file(read_problem(read_safetensors(path("case.st")), "case"), Tier::w2, 1, "0");
    std::erase_if(exact.tensors, [](const auto& tensor) { return tensor.first.find('.') != std::string::npos; });
    write_safetensors(path("answer.st"), exact);
  }
  Ran check(const std::string& command, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"check", path("case.st"), "--kernel-loop", command};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  }
  void expect_refused(const std::string& command, const std::string& sentence) const {
    const Ran ran = check(command);
    EXPECT_EQ(ran.code, exit_usage) << ran.out;
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(sentence), std::string::npos) << ran.err;
  }
};

TEST_F(LoopChecked, is_judged_as_any_kernel_is) {
  const Ran ran = check(program("cp " + path("answer.st") + " $out; echo done"));
  EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("\nPASS  2 tensors by the model"), std::string::npos) << ran.out;
  expect_refused(program("echo done"), "--kernel-loop: the command has not written {out}");
  expect_refused(program("echo x > $problem; cp " + path("answer.st") + " $out; echo done"),
                 "--kernel-loop: the command has changed {case}");
  expect_refused(program("echo x > $out; echo done"), "--kernel-loop: {out}: ");
  expect_refused("python k.py {case} {out}", "--kernel-loop: the program reads the paths from its standard input");
  EXPECT_NE(check("true", {"--kernel", "true"}).err.find("excludes"), std::string::npos);
}

/// As many runs as the search likes, of one process.
TEST_F(LoopChecked, stays_while_a_smaller_case_is_looked_for) {
  const std::string zeros = write("zeros.py", R"(
import json, struct, sys
print(1, file=open(sys.argv[1], "a"))
for line in sys.stdin:
    case, out = line.split()
    with open(case, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    shapes = {"o": header["v"]["shape"], "final_state": header["initial_state"]["shape"]}
    answer, at = {}, 0
    for name, shape in shapes.items():
        size = 4
        for n in shape:
            size *= n
        answer[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    words = json.dumps(answer).encode()
    with open(out, "wb") as file:
        file.write(struct.pack("<Q", len(words)) + words + bytes(at))
    print("done", flush=True)
)");
  const std::string command = "python3 " + zeros + ' ' + path("starts");
  const Json smallest = Json::parse(check(command, {"--shrink", "--format", "json"}).out)["smallest"];
  EXPECT_EQ(smallest["shape"], "1,1,1,1,1");
  EXPECT_GE(smallest["runs"].get<int>(), 3);
  EXPECT_EQ(starts(), 1);
  // The search depends on how many runs it may make, and on no clock.
  const Json short_search =
      Json::parse(check(command, {"--shrink", "--shrink-runs", "1", "--format", "json"}).out)["smallest"];
  EXPECT_EQ(short_search["runs"], 1);
  EXPECT_TRUE(short_search["stopped"].get<bool>());
  EXPECT_EQ(short_search["shape"], "1,70,1,8,6");
}

/// docs/examples/deltanet_loop.py, around another kernel than that of numpy.
TEST_F(LoopChecked, is_what_the_example_does) {
  std::filesystem::copy(std::filesystem::path(source_dir()) / "docs/examples/deltanet_loop.py", folder);
  write("deltanet.py",
        "import os, shutil\ndef answer(problem, out):\n"
        "    if os.environ.get('ASSAY_BUG'):\n        raise ValueError('no\\nsuch size')\n"
        "    shutil.copy('" +
            path("answer.st") + "', out)\n");
  const std::string command = "python3 " + path("deltanet_loop.py");
  EXPECT_EQ(check(command).code, exit_passed) << check(command).err;
  setenv("ASSAY_BUG", "1", 1);
  expect_refused(command, "--kernel-loop: the program answers: error no such size");
  unsetenv("ASSAY_BUG");
}

}  // namespace
}  // namespace assay
