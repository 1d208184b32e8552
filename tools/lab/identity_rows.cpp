#include "tools/lab/identity_rows.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "language/answers/answer.hpp"
#include "language/equal.hpp"
#include "language/room.hpp"
#include "oracles/identities/errata.hpp"
#include "reference/core/error.hpp"

namespace assay::identities {
namespace {

using Json = nlohmann::json;

/// The files say bodies of scans once, and name them by number.
void put_bodies(Json& block, const Json& bodies) {
  for (Json& node : block.at("nodes")) {
    if (node.size() < 3 || !node.at(2).contains("body")) continue;
    Json body = bodies.at(node.at(2).at("body").get<std::size_t>());
    put_bodies(body, bodies);
    node.at(2).at("body") = std::move(body);
  }
}

/// A row of a file.
class Row {
 public:
  Row(std::shared_ptr<const Json> file, std::size_t i) : file_(std::move(file)), i_(i) {}

  const std::string& words(const char* key) const { return row().at(key).get_ref<const std::string&>(); }
  /// Or one of a reference, in whose place it stands.
  bool is_of_programs() const { return row().contains("pairs"); }
  bool is_proven() const { return row().at("proven").get<bool>(); }
  int order() const { return row().at("order").get<int>(); }
  const Json& pairs() const { return row().at("pairs"); }
  bool has_rate() const { return !row().at("rate").is_null(); }
  const Json& rate() const { return row().at("rate"); }

  /// The program of that number, with the row's inputs.
  std::unique_ptr<const Room> program(const Json& number) const {
    Json written = file_->at("programs").at(number.get<std::size_t>());
    put_bodies(written.at("body"), file_->at("bodies"));
    Json inputs = Json::array();
    for (const Json& input : file_->at("inputs").at(row().at("inputs").get<std::size_t>()))
      inputs.push_back({{"name", input.at(0)},
                        {"type", input.at(1)},
                        {"domain", input.at(2)},
                        {"default", input.size() > 3 ? input.at(3) : Json()},
                        {"gradient", true}});
    written["format"] = "assay-mechanism", written["name"] = words("name"), written["settings"] = Json::object();
    written["inputs"] = std::move(inputs);
    return language::room_of(language::read_program(written.dump(), words("name")));
  }
  /// The seeded case.
  Problem problem(const Room& room) const {
    const Json& shape = row().at("shape");
    const auto length = [&](std::size_t axis) { return shape.at(axis).get<int>(); };
    return room.make({.mechanism = std::string(room.name),
                      .shape = {1, length(0), 1, 0, length(1), length(2)},
                      .precision = Format::fp32,
                      .seed = 1});
  }

 private:
  const Json& row() const { return file_->at("rows").at(i_); }

  std::shared_ptr<const Json> file_;
  std::size_t i_;
};

/// All pairs of the row: no number may differ, and each is known to a small part of the largest. One program beside
/// itself would prove nothing.
IdentityResult proven(const Row& row) {
  IdentityResult result;
  result.allowed = word_target, result.passed = true;
  for (const Json& pair : row.pairs()) {
    const auto left = row.program(pair.at(0)), right = row.program(pair.at(1));
    double largest = 0, bound = 0;
    for (const language::Distance& d : language::distances(*left, *right, row.problem(*left))) {
      largest = std::max(largest, d.largest), bound = std::max(bound, d.bound);
      result.passed = result.passed && !d.differs;
    }
    result.error = std::max(result.error, largest > 0 ? bound / largest : std::numeric_limits<double>::infinity());
    result.passed =
        result.passed && language::program_of(*left).program.digest() != language::program_of(*right).program.digest();
  }
  result.passed = result.passed && result.error <= result.allowed;
  return result;
}

/// The outputs in 200 digits, in the order of their names; those of a limit's program at that eps.
Vector outputs(const Row& row, const Json& number, double eps) {
  const auto room = row.program(number), first = row.program(row.pairs().at(0).at(0));
  Problem problem = row.problem(*first);  // one for all programs of the row, whichever axes they walk
  problem.cotangents.clear();
  if (row.order() > 0) problem.inputs.at("eps").data.assign(1, eps);
  const language::Posed<double> posed(language::program_of(*room), problem);
  const BasicAnswer<Mp200> found = language::answer<Mp200>(posed, false);
  Vector all;
  for (const auto& [name, array] : found.outputs) all.insert(all.end(), array.data.begin(), array.data.end());
  return all;
}

Identity identity_of(const Row& row) {
  Identity identity{
      row.words("name"), row.words("mechanism"), row.words("statement"), row.words("source"), row.order(), {}, {}};
  if (row.is_proven()) {
    identity.proof = [row] { return proven(row); };
    return identity;
  }
  identity.distance = [row](const Mp200& eps) {
    const Json& pair = row.pairs().at(0);
    const auto side = [&](std::size_t i) { return outputs(row, pair.at(i), static_cast<double>(eps)); };
    return difference(side(0), side(1));
  };
  // Of the coefficient's program no number depends on eps.
  identity.predicted = [row] {
    if (row.order() == 0) return outputs(row, row.pairs().at(0).at(1), 0);
    return row.has_rate() ? outputs(row, row.rate(), 1) : Vector();
  };
  return identity;
}

/// The identity of a reference that stands there.
Identity of_reference(const Row& row, const std::vector<Identity>& all) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Identity& one) {
    return one.mechanism == row.words("mechanism") && one.name == row.words("name");
  });
  require(found != all.end(), "no identity of a reference is called ", row.words("name"));
  return *found;
}

}  // namespace

std::string rows_text(std::string_view name) {
  std::string all;
  for (const EmbeddedRows& rows : std::span(embedded_rows, embedded_rows_count))
    if (rows.name == name) all += rows.part;
  require(!all.empty(), "no rows are called ", name);
  return all;
}

std::vector<Identity> identities_from(std::string_view text) {
  const auto file = std::make_shared<const Json>(Json::parse(text));
  const std::vector<Identity> references = lla_identities();
  std::vector<Identity> list;
  for (std::size_t i = 0; i < file->at("rows").size(); ++i) {
    const Row row(file, i);
    list.push_back(row.is_of_programs() ? identity_of(row) : of_reference(row, references));
  }
  return list;
}

std::vector<Identity> program_identities(std::string_view name) { return identities_from(rows_text(name)); }

std::vector<Erratum> program_errata(std::string_view name) {
  const auto file = std::make_shared<const Json>(Json::parse(rows_text(name)));
  std::vector<Erratum> list;
  for (std::size_t i = 0; i < file->at("rows").size(); ++i) {
    const Row row(file, i);
    // Pairs: as printed and as corrected, each beside what is right.
    const auto side = [row](std::size_t pair, std::size_t at) { return outputs(row, row.pairs().at(pair).at(at), 0); };
    list.push_back({row.words("name"), row.words("place"), row.words("printed"), row.words("corrected"),
                    row.words("quantity"), [side] {
                      return Erratum::Values{side(0, 0), side(1, 0), side(0, 1)};
                    }});
  }
  return list;
}

}  // namespace assay::identities
