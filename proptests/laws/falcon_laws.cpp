#include "proptests/laws/falcon_laws.hpp"

namespace assay::laws {

bool flag(const ExactProblem& p, std::string_view name, bool by_default) {
  const auto it = p.params.find(name);
  return it == p.params.end() ? by_default : std::get<bool>(it->second);
}

std::string word(const ExactProblem& p, std::string_view name) {
  const auto it = p.params.find(name);
  return it == p.params.end() ? "" : std::get<std::string>(it->second);
}

int widest(const ExactProblem& p, int all) {
  if (!p.mechanism.starts_with("falcon3")) return 1;
  const auto it = p.params.find("window");
  return it == p.params.end() ? all : static_cast<int>(std::get<long>(it->second));
}

FalconHead falcon_head(const ExactProblem& p, int head) {
  const int own = heads_of(p);
  const ExactMatrix k = head_of(p.inputs.at("k"), own, head), v = head_of(p.inputs.at("v"), own, head);
  const int T = k.size(0), K = k.size(1), V = v.size(1);
  const bool shifted = word(p, "alignment") != "same_step", starts = shifted && flag(p, "sequence_start", true);
  std::vector<std::vector<Mp100>> xs, vs;
  const auto add = [&](const ExactMatrix& from_x, int row_x, const ExactMatrix& from_v, int row_v) {
    xs.emplace_back(), vs.emplace_back();
    for (int i = 0; i < K; ++i) xs.back().push_back(from_x(row_x, i));
    for (int c = 0; c < V; ++c) vs.back().push_back(from_v(row_v, c));
  };
  if (p.inputs.contains("tail_k")) {
    const ExactMatrix tail_k = head_of(p.inputs.at("tail_k"), own, head),
                      tail_v = head_of(p.inputs.at("tail_v"), own, head);
    for (int j = 0; j < tail_k.size(0); ++j) add(tail_k, j, tail_v, j);
  }
  FalconHead h{head_of(p.inputs.at("q"), own, head), {}, {}, head_of(p.inputs.at("initial_state"), own, head), {}};
  for (int t = 0; t < T; ++t) {
    h.rows.emplace_back();
    if (starts && t == 0) continue;
    if (!shifted)
      add(k, t, v, t);
    else if (t > 0)
      add(k, t - 1, v, t);
    else {
      const ExactMatrix carried = head_of(p.inputs.at("k_carry"), own, head);
      ExactMatrix row(1, K);
      row.data = carried.data;
      add(row, 0, v, 0);
    }
    const int last = static_cast<int>(xs.size());
    h.rows.back() = {std::max(0, last - widest(p, last)), last};
  }
  const int n = static_cast<int>(xs.size());
  h.x = ExactMatrix(n, K), h.v = ExactMatrix(n, V);
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < K; ++i) h.x(j, i) = xs[static_cast<std::size_t>(j)][static_cast<std::size_t>(i)];
    for (int c = 0; c < V; ++c) h.v(j, c) = vs[static_cast<std::size_t>(j)][static_cast<std::size_t>(c)];
  }
  return h;
}

Mp100 row_dot(const ExactMatrix& a, int j, const ExactMatrix& b, int l) {
  Mp100 sum = 0;
  for (int i = 0; i < a.size(1); ++i) sum += a(j, i) * b(l, i);
  return sum;
}

Mp100 row_times(const ExactMatrix& a, int j, const ExactMatrix& state, int c) {
  Mp100 sum = 0;
  for (int i = 0; i < a.size(1); ++i) sum += a(j, i) * state(i, c);
  return sum;
}

Mp100 window_energy(const FalconHead& h, const FalconHead::Row& row) {
  Mp100 sum = 0;
  for (int j = row.first; j < row.last; ++j) sum += row_dot(h.x, j, h.x, j);
  return row.size() == 0 ? sum : Mp100(sum / row.size());
}

std::vector<FalconStep> falcon_steps(const ExactProblem& p, const FalconHead& h, int head, int c) {
  const int own = heads_of(p);
  const ExactMatrix beta = head_of(p.inputs.at("beta"), own, head), lambda = head_of(p.inputs.at("lambda"), own, head);
  const Mp100 eps = parameter(p, "eps");
  std::vector<FalconStep> steps;
  for (int t = 0; t < h.q.size(0); ++t) {
    const FalconHead::Row& row = h.rows[static_cast<std::size_t>(t)];
    steps.emplace_back();
    if (row.size() == 0) continue;
    const Mp100 energy = window_energy(h, row);
    const Mp100 ridge = word(p, "ridge_coupling").empty() ? lambda(t, 0) : Mp100(lambda(t, 0) * energy);
    if (energy + ridge + eps == 0) continue;
    const Mp100& b = beta(t, beta.size(1) == 1 ? 0 : c);
    const Mp100 D = energy + ridge + eps;
    steps.back() = {b / (D * row.size()), (D - b * ridge) / D};
    if (p.params.contains("decay_floor"))
      steps.back().gamma = std::max(steps.back().gamma, parameter(p, "decay_floor"));
  }
  return steps;
}

void unrolled(const FalconHead& h, const std::vector<FalconStep>& steps, bool corrects, int c, ExactMatrix& o,
              ExactMatrix& state) {
  const int T = h.q.size(0), K = h.q.size(1);
  const auto at = [](int t) { return static_cast<std::size_t>(t); };
  // R(t, s): rows count from 0 here, s = -1 is the state before all.
  const auto R = [&](int t, int s) {
    Mp100 product = 1;
    for (int r = s + 1; r <= t; ++r) product *= steps[at(r)].gamma;
    return product;
  };
  std::vector<std::vector<Mp100>> written;  // w_t Z_tj
  for (int t = 0; t < T; ++t) {
    const FalconHead::Row& row = h.rows[at(t)];
    written.emplace_back();
    for (int j = row.first; j < row.last; ++j) {
      Mp100 z = h.v(j, c);
      if (corrects) z -= R(t - 1, -1) * row_times(h.x, j, h.state, c);
      for (int s = 0; s < t && corrects; ++s) {
        const Mp100 decay = R(t - 1, s);
        for (int i = h.rows[at(s)].first; i < h.rows[at(s)].last; ++i)
          z -= decay * row_dot(h.x, j, h.x, i) * written[at(s)][at(i - h.rows[at(s)].first)];
      }
      written.back().push_back(steps[at(t)].weight * z);
    }
    o(t, c) = R(t, -1) * row_times(h.q, t, h.state, c);
    for (int s = 0; s <= t; ++s) {
      const Mp100 decay = R(t, s);
      for (int i = h.rows[at(s)].first; i < h.rows[at(s)].last; ++i)
        o(t, c) += decay * row_dot(h.q, t, h.x, i) * written[at(s)][at(i - h.rows[at(s)].first)];
    }
  }
  for (int i = 0; i < K; ++i) {
    state(i, c) = R(T - 1, -1) * h.state(i, c);
    for (int s = 0; s < T; ++s)
      for (int j = h.rows[at(s)].first; j < h.rows[at(s)].last; ++j)
        state(i, c) += R(T - 1, s) * h.x(j, i) * written[at(s)][at(j - h.rows[at(s)].first)];
  }
}

std::string is_unrolled(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  return outputs_are(room, p, [&](int head) {
    const FalconHead h = falcon_head(p, head);
    ExactMatrix o(h.q.size(0), h.state.size(1)), state = h.state;
    for (int c = 0; c < o.size(1); ++c)
      unrolled(h, falcon_steps(p, h, head, c), !problem.mechanism.ends_with("a"), c, o, state);
    return std::vector<std::pair<std::string, ExactMatrix>>{{"o", o}, {"final_state", state}};
  });
}

std::string tail_is_the_newest_pairs(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  return outputs_are(room, p, [&](int head) {
    const FalconHead h = falcon_head(p, head);
    const int pairs = h.x.size(0), n = std::min(pairs, widest(p, pairs + 1) - 1);
    ExactMatrix k(n, h.x.size(1)), v(n, h.v.size(1));
    std::copy(h.x.data.end() - static_cast<std::ptrdiff_t>(k.data.size()), h.x.data.end(), k.data.begin());
    std::copy(h.v.data.end() - static_cast<std::ptrdiff_t>(v.data.size()), h.v.data.end(), v.data.begin());
    return std::vector<std::pair<std::string, ExactMatrix>>{{"final_tail_k", k}, {"final_tail_v", v}};
  });
}

std::string a_detached_ridge_is_frozen(const Room& room, const Problem& problem) {
  ExactProblem detached = ungrouped(exact(problem));
  if (word(detached, "ridge_coupling").empty()) return "";
  detached.params["ridge_coupling"] = "detach";
  ExactProblem frozen = detached;
  frozen.params.erase("ridge_coupling");
  const int own = heads_of(detached);
  ExactArray energy(detached.inputs.at("lambda").shape);
  for (int head = 0; head < own; ++head) {
    const FalconHead h = falcon_head(detached, head);
    const auto T = static_cast<std::size_t>(h.q.size(0));
    for (std::size_t t = 0; t < T; ++t)
      energy.data[static_cast<std::size_t>(head) * T + t] = window_energy(h, h.rows[t]);
  }
  frozen.inputs["lambda"] = product(energy, detached.inputs.at("lambda"));
  const ExactAnswer got = answer(room, detached);
  ExactAnswer want = answer(room, frozen);
  want.gradients["lambda"] = product(energy, want.gradients.at("lambda"));
  return same(got, want);
}

std::string a_constant_stream_needs_no_window(const Room& room, const Problem& problem, std::string_view single) {
  ExactProblem p = exact(problem);
  for (const char* name : {"k_carry", "tail_k", "tail_v"}) p.inputs.erase(name);
  if (word(p, "alignment").empty()) p.params.erase("sequence_start");
  for (const char* name : {"k", "v"}) {
    ExactArray& a = p.inputs.at(name);
    const auto width = static_cast<std::size_t>(a.shape[2]), block = width * static_cast<std::size_t>(a.shape[1]);
    for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = a.data[i / block * block + i % width];
  }
  p.cotangents = {{"o", p.cotangents.at("o")}};
  ExactProblem narrow = p;
  narrow.mechanism = single;
  narrow.params.erase("window");
  if (single == room.name) narrow.params["window"] = 1L;
  return same(answer(room, p).outputs, answer(single, narrow).outputs, {"o", "final_state"});
}

std::string is_falcon3_of_one_pair(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  ExactProblem windowed = p;
  windowed.mechanism = "falcon3";
  windowed.params["window"] = 1L;
  ExactAnswer want = answer("falcon3", windowed);
  for (const char* name : {"final_tail_k", "final_tail_v"}) want.outputs.erase(name);
  return same(answer(room, p), want);
}

std::string without_ridge_it_is_deltanet(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  for (Mp100& x : p.inputs.at("lambda").data) x = 0;
  ExactProblem plain = p;
  plain.inputs.erase("lambda");
  for (const char* name : {"eps", "decay_floor", "ridge_coupling"}) plain.params.erase(name);
  plain.params["scale"] = "1";
  plain.params.try_emplace("alignment", "next_latent");
  for (int head = 0; head < heads_of(p); ++head) {
    const FalconHead h = falcon_head(p, head);
    ExactMatrix eta = head_of(p.inputs.at("beta"), heads_of(p), head);
    for (int t = 0; t < eta.size(0); ++t)
      eta(t, 0) /= window_energy(h, h.rows[static_cast<std::size_t>(t)]) + parameter(p, "eps");
    set_head(plain.inputs.at("beta"), head, eta);
  }
  plain.cotangents.clear();
  return same(answer(room, p).outputs, answer("deltanet", plain).outputs, {"o", "final_state"});
}

std::string the_last_write_is_recalled(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  p.params["eps"] = "0";
  for (Mp100& x : p.inputs.at("lambda").data) x = 0;
  for (Mp100& x : p.inputs.at("beta").data) x = 1;
  const ExactArray state = answer(room, p).outputs.at("final_state");
  for (int head = 0; head < heads_of(p); ++head) {
    const FalconHead h = falcon_head(p, head);
    if (h.rows.back().size() == 0) continue;
    const ExactMatrix S = head_of(state, heads_of(p), head);
    const int last = h.x.size(0) - 1;
    ExactArray read({S.size(1)}), value({S.size(1)});
    for (int c = 0; c < S.size(1); ++c) {
      read.data[static_cast<std::size_t>(c)] = row_times(h.x, last, S, c);
      value.data[static_cast<std::size_t>(c)] = h.v(last, c);
    }
    if (std::string s = same("S_T^T x", read, value); !s.empty()) return s;
  }
  return "";
}

std::string features_may_be_rescaled(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  if (p.params.contains("eps")) p.params["eps"] = "0";
  if (p.params.contains("ridge_coupling")) p.params["ridge_coupling"] = "live";
  const ExactAnswer got = answer(room, p);
  const bool raw = p.inputs.contains("lambda") && !p.params.contains("ridge_coupling");
  Mp100 left = 0, size = 0;
  const auto add = [&](const ExactArrays& a, const ExactArrays& b, std::string_view name, int factor) {
    const auto it = a.find(name);
    if (it == a.end()) return;
    const ExactArray& other = b.find(name)->second;
    for (std::size_t i = 0; i < other.data.size(); ++i) {
      left += factor * it->second.data[i] * other.data[i];
      size += abs(Mp100(it->second.data[i] * other.data[i]));
    }
  };
  for (const char* name : {"q", "k", "k_carry", "tail_k"}) add(p.inputs, got.gradients, name, 1);
  for (const char* name : {"initial_state", "initial_normalizer"}) add(p.inputs, got.gradients, name, -1);
  for (const char* name : {"final_state", "final_normalizer"}) add(p.cotangents, got.outputs, name, 1);
  add(p.cotangents, got.outputs, "final_tail_k", -1);
  add(p.cotangents, got.outputs, "final_covariance", 2);
  if (raw) add(p.inputs, got.gradients, "lambda", 2);
  if (abs(left) <= Mp100("1e-80") * size) return "";
  return text("rescaling: ", to_decimal(left, 5), " is left of terms of size ", to_decimal(size, 5));
}

std::string degenerate_rows_are_defined(const Room& room, const Problem& problem,
                                        const std::vector<ReferenceLaw>& laws) {
  for (const bool all : {false, true})
    for (const bool no_op : {false, true}) {
      Problem p = problem;
      for (const char* name : {"k", "k_carry", "tail_k"}) {
        const auto it = p.inputs.find(name);
        if (it == p.inputs.end()) continue;
        Array& a = it->second;
        const std::size_t K = static_cast<std::size_t>(a.shape.back()),
                          T = it->first == "k_carry" ? 1 : static_cast<std::size_t>(a.shape[1]);
        for (std::size_t i = 0; i < a.data.size(); ++i)
          if (all || i / K % T % 5 < 3) a.data[i] = 0;
      }
      if (no_op) {
        p.params["eps"] = "0";
        if (p.inputs.contains("lambda"))
          for (double& x : p.inputs.at("lambda").data) x = 0;
      }
      for (const ReferenceLaw law : laws)
        if (std::string s = law(room, p); !s.empty())
          return text(all ? "no" : "little", " energy, ", no_op ? "no ridge" : "a ridge", ": ", s);
    }
  return "";
}

std::string a_huge_ridge_only_decays(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  ExactArray want = p.inputs.at("initial_state");
  for (int head = 0; head < heads_of(p); ++head) {
    const FalconHead h = falcon_head(p, head);
    const ExactMatrix beta = head_of(p.inputs.at("beta"), heads_of(p), head);
    ExactMatrix state = h.state;
    for (int t = 0; t < h.q.size(0); ++t)
      for (int c = 0; c < state.size(1) && h.rows[static_cast<std::size_t>(t)].size() > 0; ++c) {
        Mp100 keep = 1 - beta(t, beta.size(1) == 1 ? 0 : c);
        if (p.params.contains("decay_floor")) keep = std::max(keep, parameter(p, "decay_floor"));
        for (int i = 0; i < state.size(0); ++i) state(i, c) *= keep;
      }
    set_head(want, head, state);
  }
  if (want == p.inputs.at("initial_state")) return "";  // one row, and it does not write
  return is_of_first_order("final_state", [&](const Mp100& small) {
    for (Mp100& x : p.inputs.at("lambda").data) x = 1 / small;
    return sum(answer(room, p).outputs.at("final_state"), mapped(want, [](const Mp100& x) { return Mp100(-x); }));
  });
}

void expect_refusals(const Json& good, std::initializer_list<Refused> list) {
  EXPECT_EQ(bad_inputs::result_of(good).message, "");
  for (const auto& [place, value, status, row, message] : list)
    EXPECT_EQ(bad_inputs::refusal(bad_inputs::changed(good, place, value), status, row, message), "")
        << place << ' ' << value;
}

std::vector<double> doubles(const BasicArrays<Cell>& arrays, std::string_view name) {
  std::vector<double> list;
  for (const Cell& c : arrays.find(name)->second.data) list.push_back(from_decimal<double>(c.text));
  return list;
}

Json windowed_case(const Room& room) {
  Json record = bad_inputs::good_case(room);
  record["params"]["window"] = 3;
  for (const char* name : {"final_tail_k", "final_tail_v"}) record["cotangents"][name].erase(2);
  return record;
}

Json continued_case(const Room& room) {
  Json record = windowed_case(room);
  record["params"]["sequence_start"] = false;
  record["inputs"]["k_carry"] = Json::parse(R"(["1", "2"])");
  record["inputs"]["tail_k"] = record["inputs"]["tail_v"] = Json::parse(R"([["1", "2"], ["3", "4"]])");
  return record;
}

void expect_window_refusals(const Room& room) {
  expect_refusals(windowed_case(room),
                  {{"/params/window", 0, Status::domain, -1, "window: expected at least 1, got 0"},
                   {"/params/window", -2, Status::domain, -1, "window: expected at least 1, got -2"},
                   {"/params/window", "3", Status::domain, -1, "params.window: expected an integer"},
                   {"/inputs/beta/1", "nan", Status::nonfinite, 1, "beta[1]: not a finite number"},
                   {"/inputs/v", Json::parse(R"([["1", "1"]])"), Status::domain, -1, "v: expected T = 3, got 1"},
                   {"/cotangents/final_tail_k", Json::parse(R"([["1", "1"]])"), Status::domain, -1,
                    "cotangents.final_tail_k: expected the tail's length = 2, got 1"},
                   {"/cotangents/final_tail_v/1/0", "nan", Status::nonfinite, -1,
                    "cotangents.final_tail_v[1][0]: not a finite number"},
                   {"/params/sequence_start", false, Status::domain, -1,
                    "k_carry: a next_latent continuation (sequence_start false) needs it"}});
  Json continued = continued_case(room);
  for (const char* name : {"final_tail_k", "final_tail_v"}) continued["cotangents"].erase(name);
  expect_refusals(continued,
                  {{"/params/window", 2, Status::domain, -1, "tail_k: expected at most window - 1 = 1 rows, got 2"},
                   {"/inputs/tail_v", nullptr, Status::domain, -1, "tail_v: expected as many rows as tail_k, 2, got 0"},
                   {"/inputs/tail_v", Json::parse(R"([["1", "2"]])"), Status::domain, -1,
                    "tail_v: expected the tail's length = 2, got 1"},
                   {"/inputs/tail_k/1/0", "inf", Status::nonfinite, -1, "tail_k[1][0]: not a finite number"},
                   {"/inputs/k_carry", nullptr, Status::domain, -1,
                    "k_carry: a next_latent continuation (sequence_start false) needs it"}});
  continued["params"]["sequence_start"] = true;
  continued["inputs"].erase("k_carry");
  EXPECT_EQ(bad_inputs::refusal(continued, Status::domain, -1, "tail_k: a sequence start has no tail"), "");
}

void expect_short_segments(const Room& room) {
  Json none = continued_case(room);
  for (const char* name : {"q", "k", "v", "beta", room.name == "falcon3" ? "lambda" : "alpha"})
    none["inputs"][name] = Json::array();
  none["cotangents"]["o"] = Json::array();
  const CaseResult r = bad_inputs::result_of(none);
  ASSERT_EQ(r.message, "");
  EXPECT_EQ(doubles(r.answer.outputs, "final_state"), (std::vector{0.25, 0.5, 0.75, 0.25}));
  EXPECT_EQ(doubles(r.answer.outputs, "final_tail_k"), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(doubles(r.answer.gradients, "tail_v"), doubles(r.answer.gradients, "tail_k"));
  EXPECT_EQ(doubles(r.answer.gradients, "tail_k"), (std::vector{0.25, 0.5, 0.75, 0.25}));

  Json one = bad_inputs::good_case(room, {.T = 1});
  for (const char* name : {"final_tail_k", "final_tail_v"}) one["cotangents"][name] = Json::array();
  const CaseResult start = bad_inputs::result_of(one);
  ASSERT_EQ(start.message, "");
  EXPECT_EQ(doubles(start.answer.outputs, "final_state"), (std::vector{0.25, 0.5, 0.75, 0.25}));
  EXPECT_TRUE(start.answer.outputs.at("final_tail_k").data.empty());
  for (const char* name : {"k", "v", "beta"})
    for (const double x : doubles(start.answer.gradients, name)) EXPECT_EQ(x, 0) << name;
}

}  // namespace assay::laws
