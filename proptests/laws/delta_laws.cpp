#include "proptests/laws/delta_laws.hpp"

namespace assay::laws {

FirstOrderHead first_order_head(std::string_view room, const ExactProblem& problem, int head) {
  const int own = heads_of(problem);
  const auto matrix = [&](const char* name) { return head_of(problem.inputs.at(name), own, head); };
  FirstOrderHead h;
  h.scale = parameter(problem, "scale");
  h.q = matrix("q"), h.k = matrix("k"), h.v = matrix("v"), h.state = matrix("initial_state");
  h.error = room == "kda" || room == "comba", h.decayed = room == "kda";
  h.p = room == "comba" ? matrix("p") : h.k;
  h.beta = ExactMatrix(h.k.size(0), 1);
  if (problem.inputs.contains("beta"))
    h.beta = matrix("beta");
  else
    std::fill(h.beta.data.begin(), h.beta.data.end(), Mp100(1));
  h.D = ExactMatrix(h.k.extent);
  if (room == "retnet") {
    const auto option = problem.params.find("head");
    const long index = option == problem.params.end() ? 0 : std::get<long>(option->second);
    std::fill(h.D.data.begin(), h.D.data.end(), Mp100(1 - ldexp(Mp100(1), static_cast<int>(-5 - index))));
  } else if (!problem.inputs.contains("log_decay")) {
    std::fill(h.D.data.begin(), h.D.data.end(), Mp100(1));
  } else {
    const ExactMatrix g = matrix("log_decay");
    for (int t = 0; t < h.D.size(0); ++t)
      for (int i = 0; i < h.D.size(1); ++i) h.D(t, i) = exp(g(t, g.size(1) == 1 ? 0 : i));
  }
  return h;
}

std::pair<ExactMatrix, ExactMatrix> one_chunk(const FirstOrderHead& h) {
  const int T = h.k.size(0), K = h.k.size(1), V = h.v.size(1);
  // The decay of channel i from after token j to token t, included; j = -1 is the state before the chunk.
  const auto decay = [&](int t, int j, int i) {
    Mp100 product = 1;
    for (int l = j + 1; l <= t; ++l) product *= h.D(l, i);
    return product;
  };
  const auto predictor = [&](int t, int i) { return h.decayed ? Mp100(h.D(t, i) * h.p(t, i)) : h.p(t, i); };
  ExactMatrix E = h.v, o(T, V), state(K, V);
  for (int t = 0; t < T; ++t) {
    for (int i = 0; h.error && i < K; ++i) {
      const Mp100 p = predictor(t, i), carried = decay(t - 1, -1, i);
      for (int x = 0; x < V; ++x) E(t, x) -= carried * p * h.state(i, x);
    }
    for (int j = 0; h.error && j < t; ++j) {
      Mp100 L = 0;
      for (int i = 0; i < K; ++i) L += h.beta(j, 0) * predictor(t, i) * decay(t - 1, j, i) * h.k(j, i);
      for (int x = 0; x < V; ++x) E(t, x) -= L * E(j, x);
    }
    for (int i = 0; i < K; ++i) {
      const Mp100 carried = decay(t, -1, i);
      for (int x = 0; x < V; ++x) o(t, x) += h.scale * carried * h.q(t, i) * h.state(i, x);
    }
    for (int j = 0; j <= t; ++j) {
      Mp100 A = 0;
      for (int i = 0; i < K; ++i) A += h.beta(j, 0) * h.q(t, i) * decay(t, j, i) * h.k(j, i);
      for (int x = 0; x < V; ++x) o(t, x) += h.scale * A * E(j, x);
    }
  }
  for (int i = 0; i < K; ++i)
    for (int x = 0; x < V; ++x) {
      state(i, x) = decay(T - 1, -1, i) * h.state(i, x);
      for (int j = 0; j < T; ++j) state(i, x) += h.beta(j, 0) * decay(T - 1, j, i) * h.k(j, i) * E(j, x);
    }
  return {o, state};
}

std::string is_one_chunk(const Room& room, const Problem& given) {
  const ExactProblem problem = exact(given);
  const ExactAnswer got = answer(room, problem);
  ExactArrays want{{"o", got.outputs.at("o")}, {"final_state", got.outputs.at("final_state")}};
  for (int head = 0; head < heads_of(problem); ++head) {
    const auto [o, state] = one_chunk(first_order_head(room.name, problem, head));
    set_head(want.at("o"), head, o);
    set_head(want.at("final_state"), head, state);
  }
  return same(got.outputs, want, {"o", "final_state"});
}

Problem with_closed_gates(const Room& room, Problem problem) {
  for (const auto& [f, rank] : room.inputs()) {
    if (f.domain != Domain::log_decay || f.place != Field::Place::input) continue;
    Array& a = problem.inputs.find(f.name)->second;
    const int H = a.shape[0], T = a.shape[1], width = rank > 1 ? a.shape[2] : 1;
    for (int h = 0; h < H; ++h)
      for (int x = 0; x < width; ++x) a.data[index(a, h, T / 2, x)] = -std::numeric_limits<double>::infinity();
  }
  return problem;
}

std::string closed_gates_have_gradient_zero(const Room& room, const Problem& problem) {
  const Problem closed = with_closed_gates(room, problem);
  const BasicAnswer<HiLo> got = room.values(closed, Tier::mp100);
  for (const auto& [name, a] : closed.inputs)
    for (std::size_t i = 0; i < a.data.size(); ++i)
      if (std::isinf(a.data[i]) && number(got.gradients.at(name).data[i]) != 0)
        return text("gradients.", name, ", element ", i, ": not zero at a closed gate");
  return backward_is_the_adjoint(room, closed);
}

std::string closed_gates_are_one_chunk(const Room& room, const Problem& problem) {
  return is_one_chunk(room, with_closed_gates(room, problem));
}

std::string keys_may_be_rotated(const Room& room, const Problem& problem) {
  const auto turned = [](ExactArray a, const Field& f, int rank) {
    const bool columns = rank == 2 && f.axes[1] == Axis::key_dim;
    if (!columns && f.axes[0] != Axis::key_dim) return a;
    // Vectors along the key axis start at every (outer, inner).
    const int K = columns ? a.shape[2] : a.shape[1], inner = columns || rank == 1 ? 1 : a.shape[2];
    const std::size_t stride = static_cast<std::size_t>(inner), length = static_cast<std::size_t>(K);
    // u = (1, 2, ..., K), |u|^2 = K (K + 1) (2 K + 1) / 6.
    const Mp100 square = Mp100(K) * (K + 1) * (2 * K + 1) / 6;
    for (std::size_t first = 0; first < a.data.size(); first += length * stride)
      for (std::size_t x = first; x < first + stride; ++x) {
        Mp100 along = 0;
        for (std::size_t i = 0; i < length; ++i) along += static_cast<int>(i + 1) * a.data[x + i * stride];
        for (std::size_t i = 0; i < length; ++i) a.data[x + i * stride] -= 2 * along / square * static_cast<int>(i + 1);
      }
    return a;
  };
  const ExactProblem plain = exact(problem);
  ExactProblem other = plain;
  ExactAnswer want = answer(room, plain);
  for (const auto& [f, rank] : room.inputs()) {
    if (rank == 0) continue;
    if (const auto it = other.inputs.find(f.name); it != other.inputs.end()) it->second = turned(it->second, f, rank);
    if (const auto it = want.gradients.find(f.name); it != want.gradients.end())
      it->second = turned(it->second, f, rank);
  }
  for (const auto& [f, rank] : room.outputs()) {
    if (const auto it = other.cotangents.find(f.name); it != other.cotangents.end())
      it->second = turned(it->second, f, rank);
    if (const auto it = want.outputs.find(f.name); it != want.outputs.end()) it->second = turned(it->second, f, rank);
  }
  return same(answer(room, other), want);
}

std::string value_columns_are_independent(const Room& room, const Problem& problem) {
  const auto last = [](const ExactArray& a, const Field& f, int rank) -> std::optional<ExactArray> {
    if (rank != 2 || f.axes[1] != Axis::value_dim) return std::nullopt;
    ExactArray column({a.shape[0], a.shape[1], 1});
    const auto V = static_cast<std::size_t>(a.shape[2]);
    for (std::size_t i = 0; i < column.data.size(); ++i) column.data[i] = a.data[i * V + V - 1];
    return column;
  };
  const ExactProblem whole = exact(problem);
  const ExactAnswer all = answer(room, whole);
  ExactProblem one = whole;
  ExactArrays outputs, gradients;
  std::vector<std::string> names_out, names_in;
  for (const auto& [f, rank] : room.inputs())
    if (const auto it = one.inputs.find(f.name); it != one.inputs.end())
      if (auto column = last(it->second, f, rank)) {
        it->second = *column;
        gradients[std::string(f.name)] = *last(all.gradients.find(f.name)->second, f, rank);
        names_in.emplace_back(f.name);
      }
  for (const auto& [f, rank] : room.outputs())
    if (const auto it = one.cotangents.find(f.name); it != one.cotangents.end())
      if (auto column = last(it->second, f, rank)) {
        it->second = *column;
        outputs[std::string(f.name)] = *last(all.outputs.find(f.name)->second, f, rank);
        names_out.emplace_back(f.name);
      }
  const ExactAnswer alone = answer(room, one);
  if (std::string s = same(alone.outputs, outputs, names_out); !s.empty()) return s;
  return same(alone.gradients, gradients, names_in);
}

std::string channels_may_be_rescaled(const Room& room, const Problem& problem) {
  const ExactProblem p = ungrouped(exact(problem));
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p), T = p.inputs.at("k").shape[1], K = p.inputs.at("k").shape[2];
  for (int head = 0; head < H; ++head)
    for (int i = 0; i < K; ++i) {
      ExactBalance balance;
      for (const char* name : {"q", "k", "p"})
        for (int t = 0; p.inputs.contains(name) && t < T; ++t)
          balance.add_row(name == std::string_view("k") ? 1 : -1, head_of(p.inputs.at(name), H, head),
                          head_of(got.gradients.at(name), H, head), t, i);
      for (const auto& [name, cotangent] : p.cotangents)
        if (name.starts_with("final_")) {
          const std::string initial = "initial_" + name.substr(6);
          balance.add_row(-1, head_of(cotangent, H, head), head_of(got.outputs.at(name), H, head), i);
          balance.add_row(1, head_of(p.inputs.at(initial), H, head), head_of(got.gradients.at(initial), H, head), i);
        }
      if (std::string s = balance.violation("rescaling channel ", i, " of head ", head); !s.empty()) return s;
    }
  return "";
}

std::string written_keys_scale_like(const char* weight, const Room& room, const Problem& problem) {
  const ExactProblem p = ungrouped(exact(problem));
  const ExactAnswer got = answer(room, p);
  return same("<k, dk>", row_products(p.inputs.at("k"), got.gradients.at("k")),
              product(p.inputs.at(weight), got.gradients.at(weight)));
}

std::string gate_gradients_telescope(const Room& room, const Problem& problem) {
  const ExactProblem p = ungrouped(exact(problem));
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p), T = p.inputs.at("k").shape[1], K = p.inputs.at("k").shape[2];
  for (int head = 0; head < H; ++head) {
    const auto input = [&](const char* name) { return head_of(p.inputs.at(name), H, head); };
    const auto gradient = [&](const char* name) { return head_of(got.gradients.at(name), H, head); };
    const ExactMatrix g = gradient("log_decay");
    const bool decayed = room.name == "kda", undecayed = room.name == "comba";
    const bool by_channel = g.size(1) == K && !decayed;  // beta dbeta has no channels
    for (int channel = by_channel ? 0 : -1; channel < (by_channel ? K : 0); ++channel)
      for (int t = -1; t < T; ++t) {
        ExactBalance balance;
        const auto gate = [&](int sign, int at) {
          for (int i = 0; i < g.size(1); ++i)
            if (!by_channel || i == channel) balance.add(sign, g(at, i));
          if (undecayed && sign < 0) balance.add_row(-1, input("p"), gradient("p"), at, channel);
        };
        const auto state = [&](int sign, const ExactMatrix& a, const ExactMatrix& b) {
          for (int i = 0; i < K; ++i)
            if (!by_channel || i == channel) balance.add_row(sign, a, b, i);
        };
        if (t < 0) {
          state(1, input("initial_state"), gradient("initial_state"));
        } else {
          gate(1, t);
          if (decayed) balance.add_row(2, input("beta"), gradient("beta"), t);
          balance.add_row(decayed ? -1 : 1, input("k"), gradient("k"), t, channel);
          balance.add_row(-1, input("q"), gradient("q"), t, channel);
        }
        if (t + 1 < T)
          gate(-1, t + 1);
        else
          state(-1, head_of(p.cotangents.at("final_state"), H, head), head_of(got.outputs.at("final_state"), H, head));
        if (std::string s = balance.violation("token ", t, ", head ", head, ", channel ", channel); !s.empty())
          return s;
      }
  }
  return "";
}

std::string equal_channels_are(const char* scalar, const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem), one = p;
  one.inputs.at("log_decay") = make_one_gate(p.inputs.at("log_decay"));
  ExactAnswer got = answer(room, p);
  got.gradients.at("log_decay") = over_channels(got.gradients.at("log_decay"));
  return same(got, answer(scalar, one));
}

void expect_equal_channels_are(std::string_view scalar, std::string_view room) {
  const Subject s = subject(kernel_rooms(), room, "chunkwise"), other = subject(kernel_rooms(), scalar, "chunkwise");
  const LawCase c = *law_cases(s.room, s.form);
  Problem p = s.problem(c), one = p;
  one.mechanism = scalar;
  one.inputs.at("log_decay") = make_one_gate(p.inputs.at("log_decay"));
  const auto summed = [](Arrays arrays) {
    arrays.at("d_log_decay") = over_channels(arrays.at("d_log_decay"));
    return arrays;
  };
  expect_within(summed(flat(s.run(p, Format::exact, c.tile))), flat(other.run(one, Format::exact, c.tile)),
                summed(allowance(s, p, Format::fp64, c.tile)), 2);
}

}  // namespace assay::laws
