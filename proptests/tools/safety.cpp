// Other people's files and kernels: nothing of theirs is overwritten, nothing in their names does anything but be
// shown, and what is wrong is said before a kernel is run.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "files/case_file.hpp"
#include "files/problem_file.hpp"
#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/print/escape.hpp"
#include "tools/print/table.hpp"
#include "tools/run/child.hpp"
#include "tools/run/user_kernel.hpp"

namespace assay {
namespace {

class Safety : public CliFiles {
 protected:
  void SetUp() override {
    CliFiles::SetUp();
    made = path("case.st"), answer = path("answer.st");
    ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,6,2,4", "--no-cotangents", "-o", made}).code, exit_passed);
    Safetensors exact = answer_file(read_problem(read_safetensors(made), made), Tier::w2, 1, "0");
    std::erase_if(exact.tensors, [](const auto& tensor) { return tensor.first.find('.') != std::string::npos; });
    write_safetensors(answer, exact);
  }
  /// With a command that notes down that it was run, and answers.
  Ran kernel(const std::vector<std::string>& more, const std::string& first = "true") const {
    const std::string command = "touch " + path("ran") + "; " + first + "; : {case}; cp " + answer + " {out}";
    std::vector<std::string> args = {"check", made, "--kernel", command};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  }
  static void expect_refused(const Ran& ran, const std::string& sentence) {
    EXPECT_EQ(ran.code, exit_usage) << ran.out;
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(sentence), std::string::npos) << ran.err;
  }

  std::string made, answer;
};

TEST_F(Safety, outputs_are_no_inputs) {
  const std::string before = read("case.st"), contract = write("contract.json", R"({"name": "mine", "base": "bf16"})");
  std::filesystem::create_hard_link(made, path("link.st"));
  for (const std::string& input : {made, answer, path("link.st"), contract}) {
    const Ran ran = run_assay({"check", made, answer, "--contract", contract, "-o", input});
    expect_refused(ran, input + ": is an input, and would be overwritten");
  }
  expect_refused(run_assay({"oracle", made, "-o", made}), "is an input");
  expect_refused(kernel({"--shrink", "--shrink-output", made}), "is an input");
  EXPECT_EQ(read("case.st"), before);
}

TEST_F(Safety, outputs_keep_their_permissions) {
  const auto mode_of = [](const std::string& file) {
    struct stat about {};
    return stat(file.c_str(), &about) == 0 ? about.st_mode & 0777U : 0U;
  };
  const std::string secret = write("secret", "old");
  chmod(secret.c_str(), 0600);
  EXPECT_EQ(run_assay({"check", made, answer, "-o", secret}).code, exit_passed);
  EXPECT_EQ(mode_of(secret), 0600U);
  EXPECT_NE(read("secret"), "old");
  const std::string kept = write("kept", "old");
  chmod(kept.c_str(), 0444);
  expect_refused(run_assay({"check", made, answer, "-o", kept}), kept + ": cannot be written: it is read-only");
  EXPECT_EQ(read("kept"), "old");
  const mode_t mask = umask(027);
  EXPECT_EQ(run_assay({"check", made, answer, "-o", path("new")}).code, exit_passed);
  umask(mask);
  EXPECT_EQ(mode_of(path("new")), 0640U);
}

/// Who knows our process id knows no name of ours.
TEST_F(Safety, temporary_names_are_not_foreseen) {
  const std::string victim = write("victim", "old");
  std::filesystem::create_symlink(victim, path("out." + std::to_string(getpid()) + ".tmp"));
  std::filesystem::create_symlink(victim, path("out.tmp"));
  EXPECT_EQ(run_assay({"check", made, answer, "-o", path("out")}).code, exit_passed);
  write_safetensors(path("out"), read_safetensors(answer));
  EXPECT_FALSE(std::filesystem::is_symlink(path("out")));
  EXPECT_EQ(read("victim"), "old");
}

TEST_F(Safety, streams_are_continued) {
  const std::string file = write("file", "before\n");
  const int descriptor = open(file.c_str(), O_WRONLY | O_APPEND);
  const Ran ran = run_assay({"check", made, answer, "-o", "/dev/fd/" + std::to_string(descriptor)});
  close(descriptor);
  EXPECT_EQ(ran.code, exit_passed) << ran.err;
  EXPECT_TRUE(read("file").starts_with("before\nassay check: ")) << read("file");
  EXPECT_TRUE(run_assay({"check", made, answer, "-o", "/dev/stdout"}).out.starts_with("assay check: "));
}

TEST_F(Safety, is_refused_before_a_kernel_is_run) {
  const std::string unfit = write("unfit.json", R"({"name": "unfit", "base": "bf16", "sites": {"none": "fp32"}})");
  expect_refused(kernel({"--form", "none"}), "--form: deltanet has no none");
  expect_refused(kernel({"--tile", "7"}), "--tile: chunkwise has no 7");
  expect_refused(kernel({"--tensor", "none"}), "--tensor: there is no none");
  expect_refused(kernel({"--tensor", "d_q"}), "--tensor: there is no d_q");
  expect_refused(kernel({"--contract", unfit}), "none");
  expect_refused(kernel({"--shrink", "--shrink-output", "/nonexistent/smallest"}), "/nonexistent/smallest: cannot be");
  expect_refused(kernel({"-o", "/nonexistent/out"}), "/nonexistent/out: cannot be written");
  expect_refused(kernel({"-o", ""}), "the name of the output is empty");
  Safetensors endless = read_safetensors(made);
  endless.tensors.at("q").bytes.at(1) = 0x7f, endless.tensors.at("q").bytes.at(0) = 0x80;  // of bf16
  write_safetensors(made, endless);
  expect_refused(kernel({}), made + ": NONFINITE: q[0][0][0][0]");
  endless.tensors.erase("q");
  write_safetensors(made, endless);
  expect_refused(kernel({}), made + ": DOMAIN: q: missing");
  EXPECT_FALSE(std::filesystem::exists(path("ran")));
}

/// Finite numbers, too, may be none that the mechanism takes.
TEST_F(Safety, what_is_outside_the_domain_is_refused_before_a_kernel_is_run) {
  ASSERT_EQ(run_assay({"case", "gla", "--shape", "1,6,2,4", "--no-cotangents", "-o", made}).code, exit_passed);
  Safetensors growing = read_safetensors(made);
  Array decay = load("log_decay", growing.tensors.at("log_decay"));
  decay.data.back() = 0.5;
  growing.tensors.at("log_decay") = store(decay, "F32");
  write_safetensors(made, growing);
  expect_refused(kernel({}), made + ": DOMAIN: log_decay[0][5][1][3]");
  expect_refused(run_assay({"check", made, "--kernel-loop", "touch " + path("ran")}), made + ": DOMAIN: log_decay");
  EXPECT_FALSE(std::filesystem::exists(path("ran")));
}

/// The case that a kernel is given is its own.
TEST_F(Safety, kernels_cannot_change_the_case) {
  const std::string before = read("case.st");
  EXPECT_EQ(kernel({}).code, exit_passed);
  for (const char* change : {"echo x > {case}", "rm {case}", "echo x >> {case}"})
    expect_refused(kernel({}, change), "--kernel: the command has changed {case}");
  EXPECT_EQ(read("case.st"), before);
  EXPECT_EQ(with_paths("run {case} {out} {case}", "a {out}", "b {case}"), "run 'a {out}' 'b {case}' 'a {out}'");
  EXPECT_EQ(with_paths("{cas{case}{out", "a", "b"), "{casa{out");
}

/// A plugin is started before the oracle is asked, and so are its further runs.
TEST_F(Safety, plugins_do_not_know_the_answer) {
  setenv("ASSAY_BUG", "looks_for_the_answer", 1);
  const Ran ran = run_assay({"check", made, "--plugin", plugin_built("wrong"), "--same-bits"});
  // It does find what is there.
  const ProblemFile file = read_problem(read_safetensors(made), made);
  BasicAnswer<Enclosed> known;
  EXPECT_EQ(answer_problem(file, Tier::w2, 1, {}, known).status, Status::ok);
  PluginCall call{.mechanism = "deltanet", .params = file.problem.params, .inputs = read_safetensors(made).tensors};
  call.outputs = {{"o", {1, 6, 2, 4}}, {"final_state", {1, 2, 4, 4}}};
  std::string said;
  try {
    run_plugin(plugin_built("wrong"), call, std::chrono::seconds(60));
  } catch (const InputError& error) {
    said = error.what();
  }
  unsetenv("ASSAY_BUG");
  EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  EXPECT_NE(said.find("says: has found the answer"), std::string::npos) << said;
}

TEST_F(Safety, bad_paths_are_bad_input) {
  const std::string endless(300, 'x');
  std::filesystem::create_symlink("loop", path("loop"));
  for (const std::string& bad : {path(endless), path("loop"), path("case.st/below")}) {
    for (const std::vector<std::string>& args : {std::vector<std::string>{"check", made, answer, "-o", bad},
                                                 {"check", bad, answer},
                                                 {"check", made, bad},
                                                 {"check", made, "--plugin", bad},
                                                 {"oracle", bad},
                                                 {"baseline", "compare", bad}}) {
      const Ran ran = run_assay(args);
      EXPECT_EQ(ran.code, exit_usage) << args[0] << ' ' << bad << ": " << ran.err;
      EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    }
  }
  const char* old = std::getenv("TMPDIR");
  const std::string kept = old == nullptr ? "" : old;
  setenv("TMPDIR", "/nonexistent", 1);
  const Ran ran = kernel({});
  if (old == nullptr)
    unsetenv("TMPDIR");
  else
    setenv("TMPDIR", kept.c_str(), 1);
  expect_refused(ran, "/nonexistent: no folder for temporary files");
}

TEST_F(Safety, results_that_nobody_gets_are_an_error) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"list"}, {"--help"}, {"--version"}}) {
    std::ostringstream out, err;
    out.setstate(std::ios::badbit);
    Console console{out, err, false};
    EXPECT_EQ(run(args, console), exit_usage) << args[0];
    EXPECT_EQ(err.str(), "assay: standard output: cannot be written\n");
  }
}

/// Whatever a name holds, no line of what is printed begins with it, and nothing in it is a control or markup.
TEST_F(Safety, names_are_only_shown) {
  const std::string name = "x\n::error::y\x1b[2J\xc2\x9b\xe2\x80\xae\xef\xbf\xbe<script>`a`[b](c)|.st";
  const std::string odd = path(name), wrong = path("wrong " + name);
  std::filesystem::copy(made, odd);
  Safetensors other = read_safetensors(answer);
  other.tensors.at("o").bytes.at(7) ^= 0x80;
  write_safetensors(wrong, other);
  for (const char* format : {"table", "markdown", "html", "json", "csv", "junit", "sarif", "github"}) {
    const Ran ran = run_assay({"check", odd, wrong, "--format", format});
    EXPECT_EQ(ran.code, exit_failed) << ran.err;
    std::istringstream lines(ran.out + ran.err);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_EQ(plain_text(line), line) << format;
      EXPECT_FALSE(line.starts_with("::error::y")) << format << ": " << line;
    }
    if (std::string(format) == "html" || std::string(format) == "markdown" || std::string(format) == "junit") {
      // Outside of code, where it is text.
      const std::string title = ran.out.substr(0, ran.out.find("contract  "));
      EXPECT_EQ(title.find("<script>"), std::string::npos) << title;
    }
  }
  for (const std::vector<std::string>& args : {std::vector<std::string>{"check", odd, path("none " + name)},
                                               {"check", made, answer, "--form", name},
                                               {"case", name, "--shape", "1,1,1,1"},
                                               {"list", "--format", name},
                                               {"list", name}}) {
    const Ran ran = run_assay(args);
    EXPECT_EQ(ran.code, exit_usage);
    std::istringstream lines(ran.err);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_EQ(plain_text(line), line);
      EXPECT_FALSE(line.starts_with("::error::")) << line;
    }
  }
}

TEST_F(Safety, baselines_are_only_shown) {
  const std::string file = path("base.json");
  ASSERT_EQ(run_assay({"baseline", "save", file, "--mechanism", "value_averaging", "--mechanism", "deltanet", "--form",
                       "chunkwise", "--precision", "fp32", "--shape", "1,4,1,2,2", "--seeds", "3"})
                .code,
            exit_passed);
  Json json = Json::parse(read("base.json"));
  Json row = json["rows"][0];
  row["form"] = "\x1b[2J\n::error::PWN <script>alert(1)</script> \xc2\x9b";
  json["rows"].push_back(row);
  write("base.json", json.dump());
  for (const char* format : {"table", "markdown", "json", "csv"}) {
    const Ran ran = run_assay({"baseline", "compare", file, "--format", format});
    EXPECT_EQ(ran.code, exit_failed) << ran.err;
    std::istringstream lines(ran.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_EQ(plain_text(line), line) << format;
      EXPECT_FALSE(line.starts_with("::error::")) << format;
    }
    EXPECT_EQ(ran.out.find("<script>") != std::string::npos, std::string(format) != "markdown") << format;
  }
}

TEST_F(Safety, messages_name_the_file) {
  Safetensors stranger = read_safetensors(made);
  stranger.metadata["mechanism"] = "nothing";
  write_safetensors(path("stranger.st"), stranger);
  expect_refused(run_assay({"check", path("stranger.st"), answer}),
                 path("stranger.st") + ": mechanism 'nothing' is not in this build");
  const std::string file = path("base.json");
  ASSERT_EQ(run_assay({"baseline", "save", file, "--mechanism", "value_averaging", "--precision", "fp32", "--shape",
                       "1,4,1,2,2", "--seeds", "3"})
                .code,
            exit_passed);
  Json json = Json::parse(read("base.json"));
  json["subject"]["shape"] = "0,0,0,0,0";
  write("base.json", json.dump());
  expect_refused(run_assay({"baseline", "compare", file}), file + ": shape");
}

TEST(Escapes, keep_text_text) {
  EXPECT_EQ(markdown_text("a|b <c> `d` [e](f) g_h & \n"), "a\\|b &lt;c> \\`d\\` [e]\\(f) g_h &amp; ?");
  EXPECT_EQ(markdown_code("a `` b"), "```a `` b```");
  EXPECT_EQ(markdown_code("`a"), "`` `a ``");
  EXPECT_EQ(markdown_block({"a", "````", "b\nc"}), "`````\na\n````\nb?c\n`````\n");
  EXPECT_EQ(xml("<a b=\"c\">&\n\x01\xef\xbf\xbe"), "&lt;a b=&quot;c&quot;&gt;&amp;&#10;??");
  EXPECT_EQ(workflow_text("a:b,c%\n\x1b", false), "a:b,c%25%0A?");
  EXPECT_EQ(workflow_text("a:b,c%\n\x1b", true), "a%3Ab%2Cc%25%0A?");
  EXPECT_EQ(shown_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shown_word("a\n\x1b'\\"), "$'a\\012\\033\\'\\\\'");
  EXPECT_EQ(Table({{{"a"}}, {{"x\ny"}}}).csv(), "a\nx?y\n");
}

}  // namespace
}  // namespace assay
