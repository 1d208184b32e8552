// Other people's files and kernels: answers that a plugin does not know, and text that stays text. The sentences on
// them, and names of ours that cannot be foreseen, are in proptests/transcripts/names.md.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>

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

TEST(WithPaths, replaces_what_is_named_and_nothing_in_it) {
  EXPECT_EQ(with_paths("run {case} {out} {case}", "a {out}", "b {case}"), "run 'a {out}' 'b {case}' 'a {out}'");
  EXPECT_EQ(with_paths("{cas{case}{out", "a", "b"), "{casa{out");
}

using Safety = CliFiles;

#ifndef __SANITIZE_ADDRESS__  // of whose own memory a part may not be read, and this plugin reads all
/// A plugin is started before the oracle is asked, and so are its further runs.
TEST_F(Safety, plugins_do_not_know_the_answer) {
  const std::string made = path("case.st");
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,6,2,4", "--no-cotangents", "-o", made}).code, exit_passed);
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
#endif

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
