#include "proptests/core/exact_problem.hpp"

namespace assay::laws {

ExactProblem exact(const Problem& problem) {
  const auto widen = [](const Arrays& arrays) {
    ExactArrays result;
    for (const auto& [name, a] : arrays) result[name] = {a.shape, {a.data.begin(), a.data.end()}};
    return result;
  };
  return {problem.id, problem.mechanism, problem.params, widen(problem.inputs), widen(problem.cotangents)};
}

ExactAnswer answer(const Room& room, const ExactProblem& problem) {
  constexpr int digits = 110;  // more than Mp100 has
  const auto print = [](const ExactArrays& arrays) {
    BasicArrays<std::string> result;
    for (const auto& [name, a] : arrays) {
      BasicArray<std::string>& to = result[name];
      to.shape = a.shape;
      for (const Mp100& x : a.data) to.data.push_back(to_decimal(x, digits));
    }
    return result;
  };
  const auto parse = [](const BasicArrays<Cell>& arrays) {
    ExactArrays result;
    for (const auto& [name, a] : arrays) {
      ExactArray& to = result[name];
      to.shape = a.shape;
      for (const Cell& x : a.data)  // what is undefined stays zero
        to.data.push_back(x.kind == Cell::Kind::undefined ? Mp100(0) : from_decimal<Mp100>(x.text));
    }
    return result;
  };
  const Decimals printed = room.decimals(
      {problem.id, std::string(room.name), problem.params, print(problem.inputs), print(problem.cotangents)},
      {.digits = digits, .tier = Tier::mp100, .diagnostics = false});
  return {parse(printed.outputs), parse(printed.gradients)};
}

ExactAnswer answer(std::string_view room, const ExactProblem& problem) { return answer(listed_room(room), problem); }

std::string same(std::string_view name, const ExactArray& got, const ExactArray& want) {
  static const Mp100 error("1e-80");
  if (got.data.size() != want.data.size())
    return text(name, ": ", got.data.size(), " numbers where ", want.data.size(), " are expected");
  Mp100 largest = 0;
  for (const Mp100& x : want.data) largest = std::max(largest, Mp100(abs(x)));
  for (std::size_t i = 0; i < want.data.size(); ++i)
    if (!(abs(got.data[i] - want.data[i]) <= error * largest))
      return text(name, ", element ", i, ": ", to_decimal(got.data[i], 20), " instead of ",
                  to_decimal(want.data[i], 20));
  return "";
}

std::string same(const ExactArrays& got, const ExactArrays& want, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::string s = same(name, got.at(name), want.at(name)); !s.empty()) return s;
  return "";
}

std::string same(const ExactAnswer& got, const ExactAnswer& want) {
  for (const auto& [a, b] : {std::pair{&got.outputs, &want.outputs}, {&got.gradients, &want.gradients}}) {
    if (a->size() != b->size()) return "not the same tensors";
    for (const auto& [name, array] : *b) {
      if (!a->contains(name)) return name + ": missing";
      if (std::string s = same(name, a->at(name), array); !s.empty()) return s;
    }
  }
  return "";
}

ExactArray product(const ExactArray& a, const ExactArray& b) {
  return mapped(a, b, [](const Mp100& x, const Mp100& y) { return Mp100(x * y); });
}

ExactArray sum(const ExactArray& a, const ExactArray& b) {
  return mapped(a, b, [](const Mp100& x, const Mp100& y) { return Mp100(x + y); });
}

ExactArray scaled_rows(const ExactArray& a, const ExactArray& by) {
  ExactArray out = a;
  const std::size_t width = by.data.empty() ? 1 : a.data.size() / by.data.size();
  for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] *= by.data[i / width];
  return out;
}

ExactArray row_products(const ExactArray& a, const ExactArray& b) {
  ExactArray out({a.shape[0], a.shape[1]});
  const auto width = static_cast<std::size_t>(a.shape[2]);
  for (std::size_t i = 0; i < a.data.size(); ++i) out.data[i / width] += a.data[i] * b.data[i];
  return out;
}

int heads_of(const ExactProblem& problem) { return problem.cotangents.begin()->second.shape[0]; }

ExactMatrix head_of(const ExactArray& a, int own, int head) {
  const int block = head / (own / a.shape[0]), columns = a.shape.size() > 2 ? a.shape[2] : 1;
  ExactMatrix m(a.shape[1], columns);
  std::copy_n(a.data.begin() + static_cast<std::ptrdiff_t>(m.data.size()) * block, m.data.size(), m.data.begin());
  return m;
}

void set_head(ExactArray& a, int head, const ExactMatrix& m) {
  std::copy(m.data.begin(), m.data.end(), a.data.begin() + static_cast<std::ptrdiff_t>(m.data.size()) * head);
}

ExactProblem ungrouped(ExactProblem problem) {
  const int own = heads_of(problem);
  for (auto& [name, a] : problem.inputs) {
    const int shared = a.shape[0];
    if (shared == own) continue;
    ExactArray wide(a.shape);
    wide.shape[0] = own;
    wide.data.clear();
    const std::size_t size = a.data.size() / static_cast<std::size_t>(shared);
    for (int h = 0; h < own; ++h) {
      const auto from = a.data.begin() + static_cast<std::ptrdiff_t>(size) * (h / (own / shared));
      wide.data.insert(wide.data.end(), from, from + static_cast<std::ptrdiff_t>(size));
    }
    a = std::move(wide);
  }
  return problem;
}

Mp100 parameter(const ExactProblem& problem, std::string_view name) {
  return from_decimal<Mp100>(std::get<std::string>(problem.params.find(name)->second));
}

}  // namespace assay::laws
