// Every limit and erratum of the lists, by name, and the measuring itself on trial.
#include "oracles/identities/identities.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "oracles/identities/errata.hpp"
#include "tools/lab/identity_rows.hpp"

namespace assay::identities {
namespace {

/// A name that a test can have.
std::string test_name(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

class EveryIdentity : public ::testing::TestWithParam<Identity> {};

TEST_P(EveryIdentity, IsMetAtItsRate) {
  const IdentityResult r = measure(GetParam());
  EXPECT_TRUE(r.passed) << GetParam().statement << ": order " << r.measured_order << ", coefficient " << r.coefficient
                        << ", predicted " << r.predicted_coefficient << ", error " << r.error;
}

INSTANTIATE_TEST_SUITE_P(Identities, EveryIdentity, ::testing::ValuesIn(identities()), [](const auto& limit) {
  return test_name(std::string(limit.param.mechanism) + "_" + std::string(limit.param.name));
});

struct NamedErratum {
  std::string chapter;
  Erratum erratum;
};

std::vector<NamedErratum> all_errata() {
  std::vector<NamedErratum> list;
  for (const ErrataChapter& chapter : errata())
    for (const Erratum& e : chapter.errata)
      list.push_back({std::string(chapter.source.substr(0, chapter.source.find('-'))), e});
  return list;
}

class EveryErratum : public ::testing::TestWithParam<NamedErratum> {};

TEST_P(EveryErratum, MissesAsPrintedAndAgreesAsCorrected) {
  const ErratumResult r = measure(GetParam().erratum);
  EXPECT_TRUE(r.confirmed) << GetParam().erratum.printed << ": off by " << r.printed_error << ", corrected "
                           << r.corrected_error;
}

INSTANTIATE_TEST_SUITE_P(Errata, EveryErratum, ::testing::ValuesIn(all_errata()), [](const auto& e) {
  return test_name(e.param.chapter + "_" + std::string(e.param.erratum.id));
});

TEST(Errata, NamesAreUnique) {
  std::set<std::string> names;
  for (const NamedErratum& e : all_errata())
    EXPECT_TRUE(names.insert(e.chapter + std::string(e.erratum.id)).second) << e.chapter << ' ' << e.erratum.id;
}

Identity of(int order, std::function<Mp200(const Mp200&)> f, Vector predicted) {
  return {"toy",
          "toy",
          "",
          "",
          order,
          [f = std::move(f)](const Mp200& eps) { return Vector{f(eps)}; },
          [predicted = std::move(predicted)] { return predicted; }};
}

TEST(Measuring, FindsOrderAndCoefficient) {
  const IdentityResult linear = measure(of(1, [](const Mp200& e) { return Mp200(3 * e + 5 * e * e); }, {Mp200(3)}));
  EXPECT_TRUE(linear.passed);
  EXPECT_NEAR(linear.coefficient, 3, 1e-12);
  EXPECT_NEAR(linear.measured_order, 1, 1e-12);
  EXPECT_TRUE(measure(of(2, [](const Mp200& e) { return Mp200(-e * e / 7 + e * e * e); }, {Mp200(-1) / 7})).passed);
  EXPECT_TRUE(measure(of(2, [](const Mp200& e) { return Mp200(e * e); }, {})).passed);
}

TEST(Measuring, RefusesAnotherOrderCoefficientOrSign) {
  const auto linear = [](const Mp200& e) { return Mp200(3 * e + 5 * e * e); };
  EXPECT_FALSE(measure(of(2, linear, {Mp200(3)})).passed);
  EXPECT_FALSE(measure(of(2, linear, {})).passed);
  EXPECT_FALSE(measure(of(1, linear, {Mp200(-3)})).passed);
  EXPECT_FALSE(measure(of(1, linear, {Mp200(3) + ldexp(Mp200(1), -90)})).passed);
  EXPECT_FALSE(measure(of(1, [](const Mp200&) { return Mp200(0); }, {Mp200(3)})).passed);
  EXPECT_FALSE(measure(of(1, [](const Mp200& e) { return sqrt(e); }, {})).passed);
}

TEST(Measuring, AnIdentityLeavesNothing) {
  EXPECT_TRUE(measure(of(0, [](const Mp200&) { return Mp200(0); }, {Mp200(1)})).passed);
  EXPECT_TRUE(measure(of(0, [](const Mp200&) { return ldexp(Mp200(1), -600); }, {Mp200(1)})).passed);
  EXPECT_FALSE(measure(of(0, [](const Mp200&) { return ldexp(Mp200(1), -400); }, {Mp200(1)})).passed);
  // Nothing compared with nothing proves nothing.
  EXPECT_FALSE(measure(of(0, [](const Mp200&) { return Mp200(0); }, {Mp200(0)})).passed);
}

TEST(Measuring, PairsOfProgramsMustAgreeAndBeTwo) {
  nlohmann::json file = nlohmann::json::parse(rows_text("delta_family"));
  const auto row = [&](std::string_view name) -> nlohmann::json& {
    return *std::find_if(file.at("rows").begin(), file.at("rows").end(),
                         [&](const nlohmann::json& r) { return r.at("name").get<std::string>() == name; });
  };
  const auto passes = [&](std::string_view name) {
    const std::vector<Identity> rows = identities_from(file.dump());
    return measure(*std::find_if(rows.begin(), rows.end(), [&](const Identity& r) { return r.name == name; })).passed;
  };
  for (const char* name : {"constant_decay", "shared_factor", "small_steps"}) EXPECT_TRUE(passes(name)) << name;
  row("constant_decay").at("pairs").at(0).at(1) = row("undecaying").at("pairs").at(0).at(1);
  row("shared_factor").at("pairs").at(0).at(0) = row("shared_factor").at("pairs").at(0).at(1);
  row("small_steps").at("order") = 2;
  EXPECT_FALSE(passes("constant_decay")) << "a decay against none";
  EXPECT_FALSE(passes("shared_factor")) << "one program beside itself";
  EXPECT_FALSE(passes("small_steps")) << "another order";
}

TEST(Measuring, AnErratumMustMissAndItsCorrectionMustNot) {
  const auto erratum = [](const Mp200& printed, const Mp200& corrected) {
    return Erratum{"E0", "", "", "", "o", [=] { return Erratum::Values{{printed}, {corrected}, {Mp200(2)}}; }};
  };
  EXPECT_TRUE(measure(erratum(3, 2)).confirmed);
  EXPECT_EQ(measure(erratum(3, 2)).printed_error, 0.5);
  EXPECT_FALSE(measure(erratum(2, 2)).confirmed);
  EXPECT_FALSE(measure(erratum(3, 3)).confirmed);
  Erratum unproven = erratum(3, 2);
  unproven.proof = [] { return IdentityResult{}; };
  EXPECT_FALSE(measure(unproven).confirmed);
}

}  // namespace
}  // namespace assay::identities
