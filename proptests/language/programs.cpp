// Reading is validation: digests, refusals in one sentence each, damaged files.
#include "proptests/language/programs.hpp"

#include <gtest/gtest.h>

#include <random>

#include "language/program/builder.hpp"
#include "language/program/gradient.hpp"
#include "reference/core/error.hpp"
#include "reference/core/sha256.hpp"

namespace assay::language {
namespace {

TEST(Programs, HaveTheDigestsOfTheFirstImplementation) {
  for (const Sample& sample : samples) {
    const Program program = load_program(path_of(sample.name));
    EXPECT_EQ(program.digest(), sample.digest) << sample.name;
    // Its contractions did not absorb.
    std::string text = gradient_of(program).text();
    for (std::size_t at = 0; (at = text.find(R"("absorb":true,"spec")", at)) != std::string::npos;) text.erase(at, 14);
    EXPECT_EQ(Sha256().update(text).hex(), sample.gradient_digest) << sample.name;
  }
}

TEST(Programs, AreTheirOwnCanonicalForm) {
  for (const Sample& sample : samples)
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

struct Wrong {
  std::string text, sentence;
};

std::vector<Wrong> wrong_programs() {
  const auto node = [](const std::string& one) { return program_of('[' + one + ']'); };
  const std::string at = "test: body: node 0 ";
  return {
      {node(R"(["expp",[0]])"), at + "(expp): there is no operation \"expp\""},
      {node(R"(["exp",[7]])"), at + "(exp): there is no value 7 yet"},
      {node(R"(["exp",[1]])"), at + "(exp): there is no value 1 yet"},
      {node(R"(["exp",[-1]])"), at + "(exp): there is no value -1 yet"},
      {node(R"(["add",[0]])"), at + "(add): takes 2 operands, not 1"},
      {node(R"(["exp",[0],{}])"), at + "(exp): empty attributes"},
      {node(R"(["exp",[0],{"at":1}])"), at + "(exp): has no attributes"},
      {node(R"(["mul",[0,0],{"absorb":false}])"), at + "(mul): absorb: expected true, or nothing"},
      {node(R"(["sum",[0],{"axis":2}])"), at + "(sum): [real T K] has no axis 2"},
      {node(R"(["sum",[0],{"axs":1}])"), at + "(sum): attributes: axis is missing"},
      {node(R"(["sum",[0],{"axis":1,"at":1}])"), at + "(sum): attributes: there is no key at"},
      {node(R"(["index",[0],{"axis":0,"i":3}])"),
       at + "(index): index 3 into axis T: only axes of a written length have indices, from 0"},
      {node(R"(["transpose",[0],{"perm":[0,0]}])"),
       at + "(transpose): [0, 0] is no permutation of the axes of [real T K]"},
      {node(R"(["contract",[0,0],{"absorb":true,"spec":"ab,ab->a"}])"), ""},
      {node(R"(["contract",[0,0],{"absorb":1,"spec":"ab,ab->a"}])"),
       at + "(contract): attributes: absorb: expected true or false, got 1"},
      {node(R"(["contract",[0,0],{"spec":"ab,bc->ac"}])"), at + "(contract): axis T meets axis K"},
      {node(R"(["contract",[0,0],{"spec":"ab,ab->c"}])"),
       at + "(contract): index c is in one of both operands and the result alone, and must be in two"},
      {node(R"(["contract",[0,0],{"spec":"aa,aa->a"}])"), at + "(contract): an index occurs twice in one operand"},
      {program_of(R"([["contract",[0,0],{"spec":"aba,cbd->acd"}]])", "[1]", "real T K T"),
       at + "(contract): an index occurs twice in one operand"},
      {node(R"(["contract",[0,0],{"spec":"ab;ab->a"}])"), at + "(contract): \"ab;ab->a\" is not of the form ab,bc->ac"},
      {node(R"(["const",[],{"value":0.5}])"), "test: numbers are strings, not 0.5"},
      {node(R"(["const",[],{"value":"2/4"}])"), at + "(const): \"2/4\" is no reduced fraction"},
      {node(R"(["const",[],{"value":"-0"}])"), at + "(const): \"-0\" is no reduced fraction"},
      {node(R"(["iota",[],{"axis":"Q"}])"), "test: body: node 0 (iota): no input has axis Q"},
      {node(R"(["iota",[],{"axis":"T"}])"), "test: o: an output is real, not [int T]"},
      {node(R"(["expand",[0],{"at":0,"size":"Q"}])"), "test: body: node 0 (expand): no input has axis Q"},
      {node(R"(["expand",[0],{"at":0,"size":0}])"), at + "(expand): size: an axis is no 0 long"},
      {node(R"(["round",[0],{"site":"Tc"}])"), "test: round is of version 2, and the file is of version 1"},
      {node(R"(["solve",[0,0]])"), at + "(solve): A is [real T K], not square"},
      {node(R"(["contract",[0,0],{"spec":"ta,tb->ab"}],["solve",[1,0]])"),
       "test: body: node 1 (solve): axis T of b meets axis K of A"},
      {node(R"(["round",[0]])"), at + "(round): attributes: site is missing"},
      {node(R"(["round",[0],{"site":"T c"}])"),
       at + "(round): site: \"T c\" is no name: letters, digits and _, at most 64"},
      {node(R"(["select",[0,0,0]])"),
       at + "(select): takes a truth value and two alike, not [real T K], [real T K], [real T K]"},
      {node(R"(["softmax",[0,0]])"), at + "(softmax): takes scores and a mask, not [real T K], [real T K]"},
      {program_of("[]", "[1]"), "test: body: there is no value 1"},
      {program_of("[]", "[0,0]"), "test: outputs: expected a name of its own for each of the body's 2 results"},
      {program_of("[]", "[0]", "rael T"), "test: x: a type is real, int or bool with axes, not \"rael T\""},
      {program_of("[]", "[0]", "real A B C D E F G H I"), "test: x: [real A B C D E F G H I] has more than 8 axes"},
      {R"({"a":1,"a":2})", "test: the name 'a' occurs twice in one object"},
      {R"({"format":"assay-mechanism","version":4})", "test: no assay-mechanism of version 1, 2 or 3"},
  };
}

TEST(Programs, AreRefusedInOneSentence) {
  for (const Wrong& wrong : wrong_programs()) {
    std::string sentence;
    try {
      read_program(wrong.text, "test");
    } catch (const InputError& error) {
      sentence = error.what();
    }
    EXPECT_EQ(sentence, wrong.sentence) << wrong.text;
  }
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

TEST(Programs, AreRefusedByTheNodeOfTheirScan) {
  const std::string right = text_of_file(path_of("gated_deltanet"));
  EXPECT_EQ(refusal_of(with(right, R"({"spec":"a,ay->y"})", R"({"spec":"a,ya->y"})")),
            "gdn.json: body.0: node 7 (contract): axis V meets axis K");
  EXPECT_EQ(refusal_of(with(right, R"("carry":1)", R"("carry":2)")),
            "gdn.json: body: node 0 (scan): sequences of different first axes: [real T K], [real T V], [real T], [real "
            "T], [real]");
  EXPECT_EQ(refusal_of(with(right, R"("get",[7],{"i":1})", R"("get",[7],{"i":2})")),
            "gdn.json: body: node 2 (get): there is no result 2");
  EXPECT_EQ(refusal_of(with(right, R"("domain":"log_decay")", R"("domain":"log_dekay")")),
            "gdn.json: log_decay: there is no domain \"log_dekay\"");
  EXPECT_EQ(refusal_of(with(right, R"("gradient":true)", R"("gradient":true,"unit":"K")")),
            "gdn.json: input 0: there is no key unit");
  EXPECT_EQ(refusal_of(with(right, R"("name":"k")", R"("name":"q")")), "gdn.json: two inputs are called q");
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

/// One random change of a text.
std::string damaged(std::string text, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  const int changes = 1 + static_cast<int>(below(3));
  for (int c = 0; c < changes; ++c) {
    const std::size_t at = below(text.size());
    switch (below(6)) {
      case 0:  // a digit: operands, axes, results
      case 1:
      case 2: {
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) text[digit] = static_cast<char>('0' + below(10));
        break;
      }
      case 3:
        text.erase(at, 1 + below(8));
        break;
      case 4:
        text.insert(at, text.substr(below(text.size()), below(40)));
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
    }
  }
  return text;
}

TEST(Programs, SurviveDamage) {
  std::mt19937_64 random(20261122);
  int read = 0, refused = 0;
  for (const Sample& sample : samples) {
    const std::string right = text_of_file(path_of(sample.name));
    for (int i = 0; i < 400; ++i) {
      const std::string text = damaged(right, random);
      try {
        const Program program = read_program(text, "test");
        ++read;
        EXPECT_EQ(canonical(*program.body)->text, program.body->text) << text;
        const Program gradient = gradient_of(program);
        EXPECT_EQ(gradient.body->params.size(), gradient.inputs.size());
      } catch (const InputError& error) {
        ++refused;
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      }
    }
  }
  EXPECT_GT(read, 300);
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace assay::language
