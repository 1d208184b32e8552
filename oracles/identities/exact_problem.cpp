#include "oracles/identities/exact_problem.hpp"

namespace assay::identities {
namespace {

/// Printed and read again, a number keeps this many digits.
constexpr int kept_digits = 195;

BasicArrays<std::string> texts(const BasicArrays<Mp200>& arrays) {
  BasicArrays<std::string> result;
  for (const auto& [name, array] : arrays) {
    BasicArray<std::string>& to = result[name];
    to.shape = array.shape;
    for (const Mp200& x : array.data) to.data.push_back(text_of(x));
  }
  return result;
}

BasicArrays<Mp200> numbers(const BasicArrays<Cell>& arrays) {
  BasicArrays<Mp200> result;
  for (const auto& [name, array] : arrays) {
    BasicArray<Mp200>& to = result[name];
    to.shape = array.shape;
    for (const Cell& cell : array.data) to.data.push_back(from_decimal<Mp200>(cell.text));
  }
  return result;
}

/// One head of [1][...] arrays.
BasicArrays<Mp200> single_head(const Arrays& arrays) {
  BasicArrays<Mp200> result;
  for (const auto& [name, array] : arrays) {
    BasicArray<Mp200>& to = result[name];
    to.shape.assign(array.shape.begin() + 1, array.shape.end());
    to.data.assign(array.data.begin(), array.data.end());
  }
  return result;
}

}  // namespace

Mp200 ExactProblem::number(std::string_view param) const {
  const auto it = params.find(param);
  require(it != params.end(), "params.", param, ": missing");
  if (const long* count = std::get_if<long>(&it->second)) return {*count};
  return from_decimal<Mp200>(std::get<std::string>(it->second));
}

void ExactProblem::set_number(std::string_view param, const Mp200& value) {
  params.insert_or_assign(std::string(param), text_of(value));
}

ExactProblem make(std::string_view mechanism, const Params& params, int T, int K, int V) {
  const Room& room = listed_room(mechanism);
  const Problem p = room.make({std::string(mechanism), {1, T, 1, 0, K, V, 0}, Format::fp32, Style::normal, 1, params});
  return {p.mechanism, p.params, single_head(p.inputs), single_head(p.cotangents)};
}

BasicAnswer<Mp200> answer(const ExactProblem& problem) {
  const Room& room = listed_room(problem.mechanism);
  const Decimals d =
      room.decimals({"", problem.mechanism, problem.params, texts(problem.inputs), texts(problem.cotangents)},
                    {.digits = kept_digits, .tier = Tier::mp200, .diagnostics = false});
  BasicArrays<Cell> outputs;
  for (const auto& [name, array] : d.outputs)
    if (!name.starts_with("rows.") && name != "empty_rows") outputs.emplace(name, array);
  return {numbers(outputs), numbers(d.gradients)};
}

Vector flat(const BasicArrays<Mp200>& arrays, const std::vector<std::string_view>& names) {
  Vector all;
  for (const std::string_view name : names) {
    const auto it = arrays.find(name);
    require(it != arrays.end(), name, ": missing in the answer");
    all.insert(all.end(), it->second.data.begin(), it->second.data.end());
  }
  return all;
}

Vector difference(const Vector& a, const Vector& b) {
  require(a.size() == b.size(), "vectors of ", a.size(), " and ", b.size(), " numbers have no difference");
  Vector d(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return d;
}

Vector scaled(const Vector& a, const Mp200& factor) {
  Vector result(a);
  for (Mp200& x : result) x *= factor;
  return result;
}

Mp200 norm(const Vector& a) {
  Mp200 sum = 0;
  for (const Mp200& x : a) sum += x * x;
  return sqrt(sum);
}

Mp200 relative_error(const Vector& a, const Vector& b) {
  const Mp200 off = norm(difference(a, b));
  return off == 0 ? off : Mp200(off / norm(b));
}

std::string text_of(const Mp200& x) { return to_decimal(x, kept_digits); }

}  // namespace assay::identities
