// Every limit and erratum of the lists, by name, and the measuring itself on trial.
#include "oracles/identities/identities.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "oracles/identities/errata.hpp"
#include "reference/core/error.hpp"
#include "tools/lab/identity_rows.hpp"

namespace assay::identities {
namespace {

/// Lets `body` speak of a row of that name, of which there is one in `names`: what fails or is thrown there has the
/// row's name, and the next row still has its turn.
template <class Body>
void under_name(std::set<std::string>& names, const std::string& name, const Body& body) {
  EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
  SCOPED_TRACE(name);
  try {
    body();
  } catch (const std::exception& thrown) {
    ADD_FAILURE() << thrown.what();
  }
}

// One test for all rows: for tests of their names every process of this program would read all of the files.
TEST(Identities, AreMetAtTheirRates) {
  std::set<std::string> names;
  for (const Identity& limit : identities())
    under_name(names, text(limit.mechanism, ' ', limit.name), [&] {
      const IdentityResult r = measure(limit);
      EXPECT_TRUE(r.passed) << limit.statement << ": order " << r.measured_order << ", coefficient " << r.coefficient
                            << ", predicted " << r.predicted_coefficient << ", error " << r.error;
    });
  EXPECT_FALSE(names.empty());
}

TEST(Errata, MissAsPrintedAndAgreeAsCorrected) {
  std::set<std::string> names;
  for (const ErrataChapter& chapter : errata())
    for (const Erratum& e : chapter.errata)
      under_name(names, text(chapter.source.substr(0, chapter.source.find('-')), ' ', e.id), [&] {
        const ErratumResult r = measure(e);
        EXPECT_TRUE(r.confirmed) << e.printed << ": off by " << r.printed_error << ", corrected " << r.corrected_error;
      });
  EXPECT_FALSE(names.empty());
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
