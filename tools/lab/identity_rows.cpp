#include "tools/lab/identity_rows.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/embedded.hpp"
#include "language/answers/answer.hpp"
#include "language/equal.hpp"
#include "language/room.hpp"
#include "oracles/core/room.hpp"
#include "oracles/identities/errata.hpp"
#include "oracles/scalars/scalar.hpp"
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

class Row {
 public:
  Row(std::shared_ptr<const Json> file, std::size_t i) : file_(std::move(file)), i_(i) {}

  const std::string& words(const char* key) const { return row().at(key).get_ref<const std::string&>(); }
  /// Or an erratum that has no numbers.
  bool is_of_programs() const { return row().contains("pairs"); }
  bool is_proven() const { return row().at("proven").get<bool>(); }
  int order() const { return row().at("order").get<int>(); }
  const Json& pairs() const { return row().at("pairs"); }
  bool has_rate() const { return !row().at("rate").is_null(); }
  const Json& rate() const { return row().at("rate"); }

  /// The program of that number, with the row's inputs; of a reference's side the one that makes what it takes.
  std::unique_ptr<const Room> program(const Json& side) const {
    const Json& number = side.is_object() ? side.at("inputs") : side;
    Json written = file_->at("programs").at(number.get<std::size_t>());
    put_bodies(written.at("body"), file_->at("bodies"));
    Json inputs = Json::array();
    for (const Json& input : file_->at("inputs").at(row().at("inputs").get<std::size_t>()))
      inputs.push_back({{"name", input.at(0)},
                        {"type", input.at(1)},
                        {"domain", input.at(2)},
                        {"default", input.size() > 3 ? input.at(3) : Json()},
                        {"gradient", true}});
    written["format"] = "assay-mechanism", written["settings"] = Json::object();
    written["name"] = "row_" + words("name");  // errata have ids like 15a
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

/// The row's pairs from that one on: no number may differ, and each is known to a small part of the largest. One
/// program beside itself would prove nothing.
IdentityResult proven(const Row& row, std::size_t first = 0) {
  IdentityResult result;
  result.allowed = word_target, result.passed = true;
  for (std::size_t i = first; i < row.pairs().size(); ++i) {
    const Json& pair = row.pairs().at(i);
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

/// Printed and read again, a number keeps this many digits.
constexpr int kept_digits = 195;

/// What a reference answers on inputs of one head that a program has made: arrays, and numbers of its params.
Vector of_reference(const Json& side, const BasicArrays<Mp200>& made) {
  const Room& room = listed_room(side.at("mechanism").get_ref<const std::string&>());
  const std::vector<RoomFacts::Ranked> fields = room.inputs();
  BasicProblem<std::string> problem;
  problem.mechanism = room.name;
  for (const auto& [name, value] : side.at("params").items())
    problem.params.emplace(name, value.is_string() ? Param(value.get<std::string>()) : Param(value.get<long>()));
  for (const auto& [name, array] : made) {
    std::vector<std::string> texts;
    for (const Mp200& x : array.data) texts.push_back(to_decimal(x, kept_digits));
    const RoomFacts::Ranked* field = find_field(fields, name);
    require(field != nullptr, name, ": unknown to ", room.name);
    const std::vector<int> shape(array.shape.begin() + 1, array.shape.end());
    if (field->field.place == Field::Place::param)
      problem.params.emplace(name, Param(texts.front()));
    else
      problem.inputs.emplace(name, BasicArray<std::string>(shape, std::move(texts)));
  }
  const std::string& output = side.at("output").get_ref<const std::string&>();
  const bool diagnostics = output.starts_with("diagnostics.");
  const Decimals found =
      room.decimals(problem, {.digits = kept_digits, .tier = Tier::mp200, .diagnostics = diagnostics});
  Vector all;
  for (const Cell& cell : found.outputs.at(output).data) all.push_back(from_decimal<Mp200>(cell.text));
  return all;
}

/// The outputs in 200 digits, in the order of their names; those of a limit's program at that eps.
Vector outputs(const Row& row, const Json& side, double eps) {
  const auto room = row.program(side), first = row.program(row.pairs().at(0).at(0));
  Problem problem = row.problem(*first);  // one for all programs of the row, whichever axes they walk
  problem.cotangents.clear();
  if (row.order() > 0) problem.inputs.at("eps").data.assign(1, eps);
  const language::Posed<double> posed(language::program_of(*room), problem);
  const BasicAnswer<Mp200> found = language::answer<Mp200>(posed, false);
  if (side.is_object()) return of_reference(side, found.outputs);
  Vector all;
  for (const auto& [name, array] : found.outputs) all.insert(all.end(), array.data.begin(), array.data.end());
  return all;
}

/// An erratum's three quantities. A printed form that has no finite value is off by more than any number.
Erratum::Values values_of(const Row& row) {
  const auto side = [&row](std::size_t pair, std::size_t at) { return outputs(row, row.pairs().at(pair).at(at), 0); };
  Erratum::Values values{{}, row.is_proven() ? Vector() : side(1, 0), side(0, 1)};
  try {
    values.printed = side(0, 0);
  } catch (const Refusal& refusal) {
    if (refusal.status() != Status::nonfinite) throw;
    values.printed.assign(values.reference.size(), std::numeric_limits<Mp200>::quiet_NaN());
  }
  return values;
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
  // No number of the coefficient's program depends on eps.
  identity.predicted = [row] {
    if (row.order() == 0) return outputs(row, row.pairs().at(0).at(1), 0);
    return row.has_rate() ? outputs(row, row.rate(), 1) : Vector();
  };
  return identity;
}

}  // namespace

std::string rows_text(std::string_view name) {
  std::string all;
  for (const EmbeddedText& rows : embedded_rows)
    if (rows.name() == name) all += rows.text;
  require(!all.empty(), "no rows are called ", name);
  return all;
}

std::vector<Identity> identities_from(std::string_view text) {
  const auto file = std::make_shared<const Json>(Json::parse(text));
  std::vector<Identity> list;
  for (std::size_t i = 0; i < file->at("rows").size(); ++i) list.push_back(identity_of(Row(file, i)));
  return list;
}

std::vector<Identity> program_identities(std::string_view name) { return identities_from(rows_text(name)); }

std::vector<Erratum> program_errata(std::string_view name) {
  const auto file = std::make_shared<const Json>(Json::parse(rows_text(name)));
  std::vector<Erratum> list;
  for (std::size_t i = 0; i < file->at("rows").size(); ++i) {
    const Row row(file, i);
    Erratum erratum{row.words("name"),      row.words("place"),    row.words("printed"),
                    row.words("corrected"), row.words("quantity"), {}};
    // Pairs: as printed and as corrected, each beside what is right.
    if (row.is_of_programs()) {
      erratum.values = [row] { return values_of(row); };
      if (row.is_proven()) erratum.proof = [row] { return proven(row, 1); };
    }
    list.push_back(std::move(erratum));
  }
  return list;
}

}  // namespace assay::identities
