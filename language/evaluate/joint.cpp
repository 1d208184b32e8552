#include "language/evaluate/joint.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "language/evaluate/channels.hpp"
#include "language/program/builder.hpp"
#include "language/program/infer.hpp"
#include "language/program/lists.hpp"

namespace assay::language {
namespace {

using Flags = std::vector<char>;

/// The states that every value depends on.
std::vector<Flags> dependences(const Block& body, int carry) {
  std::vector<Flags> on(index(values_of(body)), Flags(index(carry), 0));
  for (int i = 0; i < carry; ++i) on[index(i)][index(i)] = 1;
  for (int v = body.first(); v < values_of(body); ++v)
    for (const int a : body.node(v)->args)
      for (std::size_t i = 0; i < index(carry); ++i) on[index(v)][i] |= on[index(a)][i];
  return on;
}

/// Classes of states that depend on one another from step to step, none on a later one.
std::vector<std::vector<int>> cycles(const Block& body, int carry, const std::vector<Flags>& on) {
  const std::size_t n = index(carry);
  std::vector<Flags> reach(n);
  for (std::size_t i = 0; i < n; ++i) reach[i] = on[index(body.results[i])];
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) reach[i][j] |= static_cast<char>(reach[i][k] & reach[k][j]);
  std::vector<std::vector<int>> classes;
  Flags done(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    if (done[i] != 0 || reach[i][i] == 0) continue;
    std::vector<int>& one = classes.emplace_back();
    for (std::size_t j = 0; j < n; ++j)
      if (reach[i][j] != 0 && reach[j][i] != 0) one.push_back(static_cast<int>(j)), done[j] = 1;
  }
  const auto reached = [&](const std::vector<int>& c) {
    return std::count(reach[index(c[0])].begin(), reach[index(c[0])].end(), 1);
  };
  std::ranges::stable_sort(classes, [&](const auto& a, const auto& b) { return reached(a) < reached(b); });
  return classes;
}

/// Tries one class of states.
class Candidate {
 public:
  Candidate(const Block& body, std::vector<int> states, const std::vector<Flags>& on) : body_(body) {
    joint_.states = std::move(states);
    const std::size_t n = index(values_of(body));
    depends_.assign(n, 0);
    for (std::size_t v = 0; v < n; ++v)
      for (const int s : joint_.states) depends_[v] |= on[v][index(s)];
    joint_.linear.assign(n, 0), joint_.given.assign(n, 0);
    Flags needed(n, 0);
    for (const int s : joint_.states) needed[index(body.results[index(s)])] = 1;
    for (int v = values_of(body) - 1; v >= body.first(); --v)
      if (needed[index(v)] != 0)
        for (const int a : body.node(v)->args) needed[index(a)] = 1;
    for (std::size_t v = 0; v < n; ++v) (depends_[v] != 0 ? joint_.linear : joint_.given)[v] = needed[v];
  }

  std::optional<Joint> tried() && {
    if (!is_linear() || !mixes()) return std::nullopt;
    for (const bool alike : {true, false})
      for (const Dim& dim : body_.type(joint_.states[0]).axes) {
        if (dim.name.empty()) continue;
        joint_.columns = dim.name;
        if (goes_along() && (alike ? made() : has_channels())) return std::move(joint_);
      }
    return std::nullopt;
  }

 private:
  bool is_state(int v) const { return std::find(joint_.states.begin(), joint_.states.end(), v) != joint_.states.end(); }
  bool moves(int v) const { return depends_[index(v)] != 0; }

  bool is_linear() const {
    for (int v = body_.first(); v < values_of(body_); ++v) {
      if (joint_.linear[index(v)] == 0) continue;
      const Node& node = *body_.node(v);
      const auto moved = std::count_if(node.args.begin(), node.args.end(), [&](int a) { return moves(a); });
      const bool any = any_of(node.op, {Op::add, Op::sub, Op::neg, Op::expand, Op::transpose, Op::index, Op::shift,
                                        Op::sum, Op::cumsum, Op::detach, Op::round});
      const bool one = any_of(node.op, {Op::mul, Op::contract}) && moved == 1;
      const bool first = node.op == Op::div && moved == 1 && moves(node.args[0]);
      const bool chosen = node.op == Op::select && !moves(node.args[0]);
      if (!any && !one && !first && !chosen) return false;
    }
    for (const int s : joint_.states)
      if (body_.type(s).kind != Kind::real) return false;
    return true;
  }

  /// Whether elements of a column meet: otherwise enclosures lose nothing.
  bool mixes() const {
    for (int v = body_.first(); v < values_of(body_); ++v)
      if (joint_.linear[index(v)] != 0 &&
          any_of(body_.node(v)->op, {Op::contract, Op::sum, Op::cumsum, Op::shift, Op::index}))
        return true;
    return false;
  }

  int place(const Type& type) const {
    int at = -1;
    for (std::size_t r = 0; r < type.axes.size(); ++r)
      if (type.axes[r].name == joint_.columns) at = at < 0 ? static_cast<int>(r) : -2;
    return at;
  }

  /// Whether a contraction does not sum along the columns of what moves.
  bool keeps_columns(const Node& node) const {
    const Contraction c = contraction_from(node.attributes.spec);
    const bool first = moves(node.args[0]);
    const char letter = (first ? c.left : c.right)[index(place(body_.type(node.args[first ? 0 : 1])))];
    return c.result.find(letter) != std::string::npos;
  }

  /// Whether no column meets another.
  bool goes_along() const {
    for (int v = 0; v < values_of(body_); ++v) {
      if (joint_.linear[index(v)] == 0 && !is_state(v)) continue;
      if (place(body_.type(v)) < 0) return false;
      const Node* node = body_.node(v);
      if (node == nullptr) continue;
      const int from = moves(node->args[0]) ? place(body_.type(node->args[0])) : -1;
      if (node->op == Op::contract && !keeps_columns(*node)) return false;
      if (any_of(node->op, {Op::shift, Op::cumsum}) && from == 0) return false;
      if (any_of(node->op, {Op::sum, Op::index}) && from == node->attributes.axis) return false;
    }
    return true;
  }

  // ---- the tangent

  /// A value that does not depend on the states, in the tangent: a parameter if it has no columns; made again if it is
  /// the same in all of them.
  bool collect(int v) {
    if (place(body_.type(v)) == -1) {
      if (std::ranges::find(joint_.constants, v) == joint_.constants.end()) joint_.constants.push_back(v);
      return true;
    }
    const Node* node = body_.node(v);
    if (node == nullptr) return false;
    if (node->op == Op::expand && node->attributes.dim.name == joint_.columns) return collect(node->args[0]);
    const bool again =
        any_of(node->op, {Op::expand, Op::transpose}) || (is_elementwise(node->op) && node->op != Op::round);
    return again && std::all_of(node->args.begin(), node->args.end(), [&](int a) { return collect(a); });
  }

  bool has_channels() {
    if (joint_.states.size() == 1)
      joint_.channels = channels_of(body_, joint_.states[0], joint_.linear, joint_.columns);
    return joint_.channels != nullptr;
  }

  bool made() {
    joint_.constants.clear();
    for (int v = body_.first(); v < values_of(body_); ++v) {
      if (joint_.linear[index(v)] == 0) continue;
      const Node& node = *body_.node(v);
      for (std::size_t i = 0; i < node.args.size(); ++i) {
        const bool dropped = any_of(node.op, {Op::add, Op::sub}) || (node.op == Op::select && i > 0);
        if (!moves(node.args[i]) && !dropped && !collect(node.args[i])) return false;
      }
    }
    std::vector<Type> params;
    for (const int s : joint_.states) params.push_back(body_.type(s));
    for (const int c : joint_.constants) params.push_back(body_.type(c));
    Builder b(std::move(params));
    std::map<int, int> at;
    for (std::size_t i = 0; i < joint_.states.size(); ++i) at[joint_.states[i]] = static_cast<int>(i);
    for (std::size_t i = 0; i < joint_.constants.size(); ++i)
      at[joint_.constants[i]] = static_cast<int>(joint_.states.size() + i);
    for (int v = body_.first(); v < values_of(body_); ++v)
      if (joint_.linear[index(v)] != 0) at[v] = direction(b, v, at);
    std::vector<int> results;
    for (const int s : joint_.states) results.push_back(at.at(body_.results[index(s)]));
    joint_.tangent = std::move(b).finish(std::move(results));
    return true;
  }

  int constant(Builder& b, int v, std::map<int, int>& at) const {
    if (const auto known = at.find(v); known != at.end()) return known->second;
    const Node& node = *body_.node(v);
    std::vector<int> args;
    for (const int a : node.args) args.push_back(constant(b, a, at));
    return at[v] = b.emit(node.op, std::move(args), node.attributes);
  }

  int direction(Builder& b, int v, std::map<int, int>& at) const {
    const Node& node = *body_.node(v);
    const bool sums = any_of(node.op, {Op::add, Op::sub});
    if (sums && !moves(node.args[1])) return at.at(node.args[0]);
    if (sums && !moves(node.args[0]))
      return node.op == Op::add ? at.at(node.args[1]) : b.emit(Op::neg, {at.at(node.args[1])});
    std::vector<int> args;
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      const int a = node.args[i];
      const bool still = !moves(a);
      args.push_back(!still ? at.at(a) : node.op == Op::select && i > 0 ? b.zeros(node.types[0]) : constant(b, a, at));
    }
    return b.emit(node.op, std::move(args), node.attributes);
  }

  const Block& body_;
  Flags depends_;
  Joint joint_;
};

/// The values that the results before `end` need that are not of a joint, whose next states are there.
Flags late_of(const Block& body, const std::vector<Joint>& joints, int end) {
  Flags needed(index(values_of(body)), 0), there(needed.size(), 0), of_joint(body.results.size(), 0);
  for (const Joint& joint : joints)
    for (const int s : joint.states) there[index(body.results[index(s)])] = 1, of_joint[index(s)] = 1;
  for (int i = 0; i < end; ++i)
    if (of_joint[index(i)] == 0) needed[index(body.results[index(i)])] = 1;
  for (int v = values_of(body) - 1; v >= body.first(); --v)
    if (needed[index(v)] != 0 && there[index(v)] == 0)
      for (const int a : body.node(v)->args) needed[index(a)] = 1;
  return needed;
}

}  // namespace

StepPlan plan_of(const Block& body, int carry, bool joins) {
  StepPlan plan;
  if (joins) {
    const std::vector<Flags> on = dependences(body, carry);
    for (std::vector<int>& states : cycles(body, carry, on))
      if (std::optional<Joint> joint = Candidate(body, std::move(states), on).tried())
        plan.joints.push_back(std::move(*joint));
  }
  plan.late = late_of(body, plan.joints, static_cast<int>(body.results.size()));
  plan.late_states = late_of(body, plan.joints, carry);
  plan.all_states = late_of(body, {}, carry);
  return plan;
}

}  // namespace assay::language
