// Reading is validation: digests, bounds.
#include "proptests/language/programs.hpp"

#include <gtest/gtest.h>

#include "language/program/builder.hpp"
#include "language/program/gradient.hpp"
#include "reference/core/error.hpp"
#include "reference/core/sha256.hpp"

namespace assay::language {
namespace {

TEST(Programs, HaveTheDigestsOfTheFirstImplementation) {
  for (const Sample& sample : samples()) {
    const Program program = load_program(path_of(sample.name));
    EXPECT_EQ(program.digest(), sample.digest) << sample.name;
    // Its contractions did not absorb.
    std::string text = gradient_of(program).text();
    for (std::size_t at = 0; (at = text.find(R"("absorb":true,"spec")", at)) != std::string::npos;) text.erase(at, 14);
    EXPECT_EQ(Sha256().update(text).hex(), sample.gradient_digest) << sample.name;
  }
}

TEST(Programs, AreTheirOwnCanonicalForm) {
  for (const Sample& sample : samples())
    for (const Program& program : {load_program(path_of(sample.name)), gradient_of(load_program(path_of(sample.name)))})
      EXPECT_EQ(canonical(*program.body)->text, program.body->text) << sample.name;
}

/// A program of one input x of type "real T K" and one result.
std::string program_of(const std::string& nodes, const std::string& results = "[1]",
                       const std::string& type = "real T K") {
  return R"({"format":"assay-mechanism","version":1,"name":"test","settings":{},"outputs":["o"],"inputs":[{"name":"x",)"
         R"("type":")" +
         type + R"(","domain":"real","default":null,"gradient":true}],"body":{"params":[")" + type + R"("],"nodes":)" +
         nodes + R"(,"results":)" + results + "}}";
}
std::string digest_of(const std::string& text) { return read_program(text, "test").digest(); }

TEST(Programs, AgreeInTwoSpellings) {
  const std::string plain = program_of(R"([["exp",[0]],["add",[1,0]]])", "[2]");
  // Dead nodes, an equal node twice, signs and an axis that come and go, any order.
  EXPECT_EQ(digest_of(plain), digest_of(program_of(R"([["log",[0]],["exp",[0]],["exp",[0]],["add",[3,0]]])", "[4]")));
  EXPECT_EQ(digest_of(plain), digest_of(program_of(R"([["neg",[0]],["neg",[1]],["exp",[2]],["add",[3,2]]])", "[4]")));
  EXPECT_EQ(digest_of(plain),
            digest_of(program_of(
                R"([["expand",[0],{"at":0,"size":3}],["expand",[1],{"at":3,"size":2}],)"
                R"(["index",[2],{"axis":3,"i":1}],["index",[3],{"axis":0,"i":2}],["exp",[4]],["add",[5,0]]])",
                "[6]")));
  EXPECT_NE(digest_of(plain), digest_of(program_of(R"([["exp",[0]],["add",[0,1]]])", "[2]")));
  std::string hinted = plain;
  hinted.insert(hinted.find(R"("gradient":true)"), R"("hint":{"low":"-1"},)");
  EXPECT_EQ(digest_of(plain), digest_of(hinted));
}

TEST(Programs, DropWhatAStepDoesNotRead) {
  const auto scan = [](const std::string& args, const std::string& params, const std::string& node) {
    return program_of(R"([["const",[],{"value":"2"}],["const",[],{"value":"3"}],["scan",)" + args +
                          R"(,{"body":{"params":["real K")" + params + R"(],"nodes":[)" + node +
                          R"(],"results":[4]},"carry":0,"reverse":false,"xs":1}],["get",[3],{"i":0}]])",
                      "[4]");
  };
  const std::string nodes = R"(["expand",[1],{"at":0,"size":"K"}],["mul",[0,)";
  EXPECT_EQ(digest_of(scan("[0,1,2]", R"(,"real","real")", nodes + "3]]")),
            digest_of(scan("[0,2,1]", R"(,"real","real")", R"(["expand",[2],{"at":0,"size":"K"}],["mul",[0,3]])")));
}

/// The text with the first `from` replaced.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal_of(const std::string& text) {
  try {
    read_program(text, "gdn.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Programs, AreBounded) {
  std::string nodes = R"([["neg",[0]])";
  for (int i = 1; i < 100000; ++i) nodes += ",[\"exp\",[" + std::to_string(i) + "]]";
  EXPECT_EQ(read_program(program_of(nodes + ']', "[100000]"), "test").body->nodes.size(), 100000u);
  EXPECT_EQ(refusal_of(program_of(nodes + R"(,["exp",[0]]])")), "gdn.json: body: more than 100000 nodes");
  std::string block = R"({"params":["real"],"nodes":[["exp",[0]]],"results":[1]})";
  const auto scans = [&](int depth) {
    std::string text = block, types = "real";
    for (int d = 0; d < depth; ++d) {
      types += " 2";
      text = R"({"params":[")" + types + R"("],"nodes":[["scan",[0],{"body":)" + text +
             R"(,"carry":0,"reverse":false,"xs":1}],["get",[1],{"i":0}]],"results":[2]})";
    }
    return with(program_of("[]", "[0]", types), R"({"params":[")" + types + R"("],"nodes":[],"results":[0]})", text);
  };
  EXPECT_EQ(refusal_of(scans(8)), "");
  EXPECT_NE(refusal_of(scans(9)).find("more than 8 axes"), std::string::npos);
}

}  // namespace
}  // namespace assay::language
