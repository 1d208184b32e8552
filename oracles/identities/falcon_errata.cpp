// The mistakes of the FALCON paper (falcon-family.md section 7). Its algorithms run in falcon_formulas.cpp, one line as
// printed and the others correct; formulas outside of them stand here.
#include <algorithm>

#include "oracles/identities/errata.hpp"
#include "oracles/identities/falcon_formulas.hpp"

namespace assay::identities {
namespace falcon_formulas {
namespace {

using Values = Erratum::Values;

/// Rows per chunk: with seven tokens two full chunks and a short one.
constexpr int chunk = 3;

ExactProblem small(std::string_view mechanism, const Params& params, int T = 7) {
  ExactProblem p = make(mechanism, params, T, 3, 2);
  for (auto& [name, array] : p.cotangents)
    if (name.starts_with("final_tail")) array.data.assign(array.data.size(), 0);
  return p;
}

Vector gradients(const BasicAnswer<Mp200>& a, const std::vector<std::string_view>& names) {
  return flat(a.gradients, names);
}
Vector output(const BasicAnswer<Mp200>& a, std::string_view name) { return flat(a.outputs, {name}); }
Vector room_output(ExactProblem p, std::string_view name) {
  p.cotangents.clear();
  return output(answer(p), name);
}

// ---- Algorithms 6, 8, 11 -----------------------------------------------------------------

using Names = std::vector<std::string_view>;

std::function<Values()> line_of_algorithm_6(std::string_view id, const Names& names) {
  return [=] {
    const ExactProblem p = small("falcon3a", {{"window", 3L}});
    return Values{gradients(masked_formula(p, chunk, {id}), names), gradients(masked_formula(p, chunk), names),
                  gradients(answer(p), names)};
  };
}

ExactProblem delta_rule() { return small("deltanet", {{"alignment", "next_latent"}, {"scale", "1"}}); }

std::function<Values()> line_of_algorithm_8(std::string_view id, const Names& names) {
  return [=] {
    const ExactProblem p = delta_rule();
    return Values{gradients(wy_formula(p, chunk, {id}), names), gradients(wy_formula(p, chunk), names),
                  gradients(answer(p), names)};
  };
}

/// Some rows at the floor, some above.
ExactProblem clamped() { return small("falcon2_lite", {{"decay_floor", "0.75"}}); }

std::function<Values()> line_of_algorithm_11(std::string_view id, const Names& names) {
  return [=] {
    const ExactProblem p = clamped();
    return Values{gradients(lite_formula(p, chunk, {id}), names), gradients(lite_formula(p, chunk), names),
                  gradients(answer(p), names)};
  };
}

/// A row with eta = 0 and x != 0, where sigma = sqrt(eta) has no derivative.
Values zero_gain() {
  ExactProblem p = delta_rule();
  p.inputs["beta"].data[3] = 0;
  return {gradients(wy_formula(p, chunk), {"beta"}), gradients(ratio_formula(p, chunk), {"beta"}),
          gradients(answer(p), {"beta"})};
}

/// Algorithm 11 behind Algorithm 10 with eta^_1 = 1e-6 and x_1 = 0.
Values dummy_gain_in_dx() {
  const ExactProblem p = clamped();
  const Mp200 dummy = Mp200(1) / 1000000;
  Vector reference(static_cast<std::size_t>(p.inputs.at("k").shape[1]), 0);
  const Vector keys = gradients(answer(p), {"k"});
  reference.insert(reference.end(), keys.begin(), keys.end() - p.inputs.at("k").shape[1]);
  return {gradients(lite_formula(p, chunk, {}, {}, dummy), {"x"}), gradients(lite_formula(p, chunk), {"x"}), reference};
}

// ---- what the algorithms cannot do -----------------------------------------------------------

/// Algorithm 1 on 4 + 5 rows of one sequence.
Values segment_starts_again() {
  const ExactProblem p = small("falcon1", {}, 9);
  const auto in_segments = [&](bool start_again) {
    ExactProblem second = segment_of(p, 4, 5);
    second.inputs["initial_state"] = array_of(run(recurrence_of(segment_of(p, 0, 4))).final_state);
    if (start_again) {
      second.params.erase("sequence_start");
      second.inputs.erase("k_carry");
    }
    return run(recurrence_of(second)).final_state.data;
  };
  return {in_segments(true), in_segments(false), room_output(p, "final_state")};
}

/// Algorithm 10 with eps_eta = 0.1 where phi(0) is not 0.
Values dummy_gain_writes() {
  const ExactProblem p = clamped();
  const Vector ones(static_cast<std::size_t>(p.inputs.at("k").shape[1]), 1);
  return {output(lite_formula(p, chunk, {}, ones, Mp200(1) / 10), "final_state"),
          output(lite_formula(p, chunk, {}, ones), "final_state"), room_output(p, "final_state")};
}

/// Algorithm 4 against Algorithm 3 where eta lambda > 1.
Values clamp_of_algorithm_4() {
  ExactProblem raw = small("falcon3", {{"window", 3L}});
  for (Mp200& lambda : raw.inputs["lambda"].data) lambda += 8;
  for (Mp200& beta : raw.inputs["beta"].data) beta = Mp200(15) / 8;
  ExactProblem clamped_raw = raw;
  clamped_raw.set_number("decay_floor", Mp200(1) / 16);
  return {output(flow_formula(clamped_raw, chunk), "final_state"), output(ratio_formula(raw, chunk), "final_state"),
          room_output(raw, "final_state")};
}

// ---- conditions -------------------------------------------------------------------------------

/// (4.24): O = (Q X^T o M) V.
Values no_initial_state() {
  const ExactProblem p = small("falcon3a", {{"window", 3L}});
  const Matrix q = matrix_of(p.inputs.at("q")), x = write_features(p);
  const Matrix printed = entrywise(q * transposed(x), mask_of(p)) * matrix_of(p.inputs.at("v"));
  Matrix S = matrix_of(p.inputs.at("initial_state")), corrected = printed;
  const Vector gamma = gains_of(p).gamma;
  for (int t = 0; t < q.rows; ++t) {
    S = gamma[static_cast<std::size_t>(t)] * S;
    add_rows(corrected, t, rows_of(q, t, 1) * S);
  }
  return {printed.data, corrected.data, room_output(p, "o")};
}

/// Row t of the stationary mask, tokens and steps counted from 1.
Mp200 stationary_weight(int t, int j, int B, const Mp200& rho, const Mp200& gamma) {
  Mp200 sum = 0;
  for (int u = std::max(0, t - j - B + 1); u <= t - j; ++u) sum += pow(gamma, u);
  return rho / B * sum;
}

/// 4.6 where B_s < B at the start: one key, one value channel per token, so that o is the mask.
Values stationary_mask_at_the_start() {
  constexpr int T = 7, B = 3;
  ExactProblem p = make("falcon3a", {{"window", long{B}}, {"eps", "0"}}, T, T, T);
  const Mp200 rho = p.inputs["beta"].data[0], alpha = p.inputs["alpha"].data[0];
  p.inputs["beta"].data.assign(T, rho);
  p.inputs["alpha"].data.assign(T, alpha);
  p.inputs["q"].data.assign(p.inputs["q"].data.size(), 1);
  p.inputs["k"] = p.inputs["v"] = array_of(unit(T));
  p.inputs["initial_state"] = array_of(Matrix(T, T));
  Matrix printed(T, T), corrected(T, T);
  for (int j = 2; j <= T; ++j)
    for (int t = j; t <= T; ++t) {
      printed(t - 1, j - 1) = corrected(t - 1, j - 1) = stationary_weight(t, j, B, rho, 1 - alpha);
      if (j > B) continue;
      Mp200& weight = corrected(t - 1, j - 1) = 0;
      for (int s = j; s <= std::min(t, j + B - 1); ++s)
        weight += rho / std::min(B, s - 1) * pow(Mp200(1 - alpha), t - s);
    }
  return {printed.data, corrected.data, room_output(p, "o")};
}

/// The minimizer of the sum of (3.1) has T ridges.
Values ridge_of_every_step() {
  ExactProblem p = small("rls", {});
  for (Mp200& s : p.inputs["initial_state"].data) s = 0;
  const Matrix x = write_features(p), v = matrix_of(p.inputs.at("v"));
  const Mp200 lambda = p.inputs.at("lambda").data.front();
  const auto minimizer = [&](const Mp200& ridge) {
    return solve(ridge * unit(x.cols) + transposed(x) * x, transposed(x) * v).data;
  };
  return {minimizer(x.rows * lambda), minimizer(lambda), room_output(p, "final_state")};
}

/// eta ridge at 3 x, read off as the decay of a state that the write does not touch.
Values scale_of_the_decay() {
  ExactProblem p = make("falcon1", {{"alignment", "same_step"}, {"ridge_coupling", "live"}}, 1, 2, 1);
  const Vector x = p.inputs["k"].data;
  const Mp200 beta = p.inputs["beta"].data[0], ratio = p.inputs["lambda"].data[0], eps = p.number("eps");
  const auto decay = [&](const Mp200& c) {
    return Mp200(beta * ratio / (1 + ratio + eps / (c * c * (x[0] * x[0] + x[1] * x[1]))));
  };
  p.inputs["k"].data = {3 * x[0], 3 * x[1]};
  p.inputs["initial_state"].data = {x[1], -x[0]};
  p.inputs["v"].data = {0};
  return {{decay(1)}, {decay(3)}, {1 - room_output(p, "final_state")[0] / x[1]}};
}

std::vector<Erratum> algorithm_6() {
  const auto line = line_of_algorithm_6;
  return {
      {"E1", "Alg 6 line 7", "dH = Diag(d delta) dO_hist", "Diag(delta) dO_hist", "dq", line("E1", {"q"})},
      {"E2", "Alg 6 line 8", "d delta += rowdot(O_hist, H)", "rowdot(dO_hist, H)", "dalpha", line("E2", {"alpha"})},
      {"E3", "Alg 6 line 13", "dV_ext += dW^T dO", "W^T dO", "dv", line("E3", {"v"})},
      {"E4", "Alg 6 line 62", "dalpha = -exp(-lg) lg", "-exp(-lg) d(lg)", "dalpha", line("E4", {"alpha"})},
      {"E5", "Alg 6 line 63", "dalpha_t += dalpha_t, twice the value", "accumulate the local value once", "dalpha",
       line("E5", {"alpha"})},
      {"G2", "Alg 6 line 20", "dS_in(M+1) = 0", "the cotangent of the final state", "dS_init",
       line("G2", {"initial_state"})},
  };
}

std::vector<Erratum> algorithm_8() {
  const auto line = line_of_algorithm_8;
  return {
      {"E6", "Alg 8 line 5", "dL = +tril(dB X^T, -1)", "-tril(dB X^T, -1), as lines 39 and 46", "dx",
       line("E6", {"k"})},
      {"E7", "Alg 8 lines 11-16, 23", "forward M, Lambda, E carry bars; line 16 then takes the cotangent of M",
       "dE = M^T dO with the forward M", "dv", line("E7", {"v"})},
      {"E8", "Alg 8 line 63", "mask [d sigma > 0]", "[sigma > 0]", "deta", line("E8", {"beta"})},
      {"E9", "Alg 8 line 64", "eta_t = 0 gets deta = 0", "e_t.r_t unless x_t = 0", "deta", zero_gain},
  };
}

std::vector<Erratum> algorithm_11() {
  const auto line = line_of_algorithm_11;
  return {
      {"E10", "Alg 11 lines 12-13", "forward S^_out and S_in where cotangents belong",
       "dS^_out = delta_C dS_in(k+1), du_C += <dS^_out, S^_out>", "dS_init", line("E10", {"initial_state"})},
      {"E11", "Alg 11 lines 14, 19, 25", "the WY backward is stored in dV and deta, then added again",
       "it returns dV^ and deta^, which lines 19 and 25 map once", "dv, dbeta", line("E11", {"v", "beta"})},
      {"E12", "Alg 11 line 19", "s V^", "s dV^", "dv", line("E12", {"v"})},
      {"E13", "Alg 11 line 20", "<s V^, V>", "<s dV^, V>", "dlambda", line("E13", {"lambda"})},
      {"E14", "Alg 11 lines 25-26", "eta^", "deta^", "dbeta", line("E14", {"beta"})},
      {"E15", "Alg 11 line 38", "-exp(-lg) lg", "-exp(-lg) d(lg)", "dlambda", line("E15", {"lambda"})},
      {"E16", "Alg 11 line 53", "dS_init = S_in(1)", "dS_in(1)", "dS_init", line("E16", {"initial_state"})},
      {"E17", "Alg 11 and Alg 10 line 4", "dummy eta^_1 = eps_eta leaks into dx_1", "zero dx_1, or eta^_1 = 0",
       "dx at eps_eta = 1e-6", dummy_gain_in_dx},
      {"G3", "Alg 11 line 1", "dS_in(M+1) = 0", "the cotangent of the final state", "dS_init",
       line("G3", {"initial_state"})},
  };
}

std::vector<Erratum> gaps_and_conditions() {
  return {
      {"G1", "Alg 1, 3, 4, 5, 10", "no-op at every local t = 1", "only at a sequence start", "S_T of a 4 + 5 split",
       segment_starts_again},
      {"G4", "Alg 10 line 4", "eta^_1 = eps_eta has no effect", "only if x_1 = 0", "S_T at eps_eta = 0.1",
       dummy_gain_writes},
      {"G5", "Alg 3 and Alg 4", "said to realize the same recurrence", "Alg 4 is the clamped Alg 3; raw needs ratios",
       "S_T at eta lambda > 1", clamp_of_algorithm_4},
      {"C1", "(4.22)-(4.24)", "no term of S_0", "add prod gamma S_0^T q_t", "o", no_initial_state},
      {"C2", "4.6, stationary mask", "for all j", "for j >= B + 1", "M", stationary_mask_at_the_start},
      {"C3", "App. A", "cumulative ridge objective, read as the sum of (3.1)", "lambda once, not T times", "S_T",
       ridge_of_every_step},
      {"E18", "4.1", "the invariance becomes exact for eps << |x|^2",
       "it stays approximate: eta ridge is off by (eps / |x|^2) (1 - 1/c^2) / (1 + lambda_bar), relatively",
       "eta ridge at c = 3", scale_of_the_decay},
  };
}

std::vector<Erratum> all_errata() {
  std::vector<Erratum> list;
  for (auto&& part : {algorithm_6(), algorithm_8(), algorithm_11(), gaps_and_conditions()})
    list.insert(list.end(), part.begin(), part.end());
  return list;
}

}  // namespace
}  // namespace falcon_formulas

ErrataChapter falcon_errata() { return {"FALCON", "falcon-family.md, section 7", falcon_formulas::all_errata()}; }

}  // namespace assay::identities
