// Inputs that are read otherwise than they lie, and chunks of any size, are named. The wrong answers are those of
// healthy kernels on changed inputs, or written out here token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "arguments/programs/library.hpp"
#include "language/program/mutants.hpp"
#include "language/room.hpp"
#include "proptests/oracles/bench.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// The numbers of every row of an array [heads, tokens, channels], and its place.
using ReadRow = std::function<void(int head, int token, std::vector<double>& row)>;

void read_rows(Array& x, const ReadRow& f) {
  const int heads = x.shape[0], tokens = x.shape[1], channels = x.shape.size() > 2 ? x.shape[2] : 1;
  for (int h = 0; h < heads; ++h)
    for (int t = 0; t < tokens; ++t) {
      const auto at = x.data.begin() + (h * tokens + t) * channels;
      std::vector<double> row(at, at + channels);
      f(h, t, row);
      std::copy(row.begin(), row.end(), at);
    }
}

struct ReadOtherwise {
  const char *room, *input;
  ReadRow (*f)(const Array& given);
  const char* named;
};
const ReadOtherwise readings[] = {
    {"mamba2", "q",
     [](const Array&) -> ReadRow {
       return [](int, int, std::vector<double>& row) {
         double squares = 0;
         for (const double x : row) squares += x * x;
         for (double& x : row) x /= std::sqrt(squares / static_cast<double>(row.size()));
       };
     },
     "q divided by its root mean square"},
    {"gated_deltanet", "v",
     [](const Array&) -> ReadRow {
       return [](int, int, std::vector<double>& row) { std::fill(row.begin() + 6, row.end(), 0.0); };
     },
     "v without the second half of its channels"},
    {"gated_deltanet", "k",
     [](const Array&) -> ReadRow {
       return [](int, int, std::vector<double>& row) { std::rotate(row.begin(), row.begin() + 8, row.end()); };
     },
     "k with the halves of its channels exchanged"},
    {"deltanet", "k",
     [](const Array&) -> ReadRow {
       return [](int, int, std::vector<double>& row) { std::rotate(row.begin(), row.begin() + 1, row.end()); };
     },
     "k of the next channel"},
    {"kda", "beta",
     [](const Array& given) -> ReadRow {
       return [given](int h, int t, std::vector<double>& row) {
         const int tokens = given.shape[1];
         row[0] = given.data[static_cast<std::size_t>(h * tokens + tokens - 1 - t)];
       };
     },
     "beta read from the last token to the first"},
    {"mamba2", "log_decay",
     [](const Array& given) -> ReadRow {
       return [given](int h, int t, std::vector<double>& row) {
         row[0] = given.data[static_cast<std::size_t>(h / 2 * 2 * given.shape[1] + t)];
       };
     },
     "log_decay of the first head of each group"},
    {"mamba2", "log_decay",
     [](const Array&) -> ReadRow {
       return [](int, int, std::vector<double>& row) { row[0] = std::max(row[0], -0.1); };
     },
     "log_decay cut off below -0.1"},
    {"kda", "log_decay",
     [](const Array&) -> ReadRow {
       return [](int, int, std::vector<double>& row) {
         double sum = 0;
         for (const double x : row) sum += x;
         std::fill(row.begin(), row.end(), sum / static_cast<double>(row.size()));
       };
     },
     "log_decay of all channels averaged"},
    {"mamba2", "log_decay",
     [](const Array&) -> ReadRow {
       return [](int, int, std::vector<double>& row) { row[0] = std::log(std::max(1 + row[0], 1e-30)); };
     },
     "1 + log_decay for exp(log_decay)"},
};

TEST(CausesInInputs, name_what_is_read_otherwise) {
  for (const ReadOtherwise& reading : readings) {
    const Bench& bench = bench_for(reading.room);
    const Answer answer = bench.call().with([&](Problem& p) {
      Array& x = p.inputs.at(reading.input);
      const Array given = x;
      read_rows(x, reading.f(given));
    });
    SCOPED_TRACE(reading.room);
    expect_named(bench, answer, reading.named);
  }
}

/// A group whose index is one off reads everything of another one.
TEST(CausesInInputs, name_what_heads_share_of_another_head) {
  const Bench& bench = bench_for("mamba2");
  const Answer answer = bench.call().with([](Problem& p) {
    for (const char* name : {"q", "k"}) {
      std::vector<double>& x = p.inputs.at(name).data;
      std::rotate(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
    }
  });
  expect_named(bench, answer, "what heads share read of the next key/value head");
}

/// o and final_state of mamba2 whose states do not decay from one chunk to the next.
void answer_with_undecayed_states(const Problem& p, int size, Arrays& outputs) {
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k"), &v = p.inputs.at("v"), &g = p.inputs.at("log_decay");
  const int H = v.shape[0], T = v.shape[1], K = q.shape[2], V = v.shape[2], group = H / q.shape[0];
  const double scale = std::stod(std::get<std::string>(p.params.at("scale")));
  for (int h = 0; h < H; ++h)
    for (int c = 0; c < V; ++c) {
      const auto place = [&](int i) { return static_cast<std::size_t>((h * K + i) * V + c); };
      std::vector<double> start, added(static_cast<std::size_t>(K), 0.0);
      for (int i = 0; i < K; ++i) start.push_back(p.inputs.at("initial_state").data[place(i)]);
      double since = 1;
      for (int t = 0; t < T; ++t) {
        if (t % size == 0) since = 1;
        const double decay = std::exp(g.data[static_cast<std::size_t>(h * T + t)]);
        since *= decay;
        double o = 0;
        for (int i = 0; i < K; ++i) {
          double& x = added[static_cast<std::size_t>(i)];
          x = decay * x + number_at(k, h / group, t, i) * number_at(v, h, t, c);
          o += number_at(q, h / group, t, i) * (since * start[static_cast<std::size_t>(i)] + x);
        }
        outputs.at("o").data[static_cast<std::size_t>((h * T + t) * V + c)] = scale * o;
        if ((t + 1) % size != 0 && t + 1 < T) continue;
        for (std::size_t i = 0; i < start.size(); ++i) start[i] += added[i], added[i] = 0;
      }
      for (int i = 0; i < K; ++i) outputs.at("final_state").data[place(i)] = start[static_cast<std::size_t>(i)];
    }
}

TEST(CausesInInputs, name_mistakes_in_chunks_of_any_size) {
  const Bench& bench = bench_for("mamba2");
  for (const int size : {16, 23, 30}) {
    Answer answer = bench.call().healthy();
    answer_with_undecayed_states(bench.problem, size, answer.outputs);
    expect_named(bench, answer, text("the state not decayed from chunk to chunk (chunks of ", size, ")"));
  }
}

/// Energies that are means or squares, a factor too much, and a write that decays with the state.
TEST(CausesInInputs, include_other_sums_and_factors_of_both_terms) {
  const Room& room = listed_room("falcon1");
  Problem p = room.make({.mechanism = "falcon1", .shape = {1, 24, 2, 0, 4, 5, 0}});
  p.cotangents.clear();
  const language::Program& program = *arguments::find_mechanism_program("falcon1");
  const auto answer = [&](const language::Program& of) {
    return language::answer_in_doubles(language::Mechanism(of), p).outputs.at("o").data;
  };
  const std::vector<double> truth = answer(program);
  for (const std::string kind : {"mean for the sum", "root of it", "as well", "squared", "mul by parameter 5"}) {
    int other = 0;
    for (const language::Mutant& mutant : language::further_mutants_of(program, {})) {
      if (!mutant.what.ends_with(kind)) continue;
      try {
        const std::vector<double> o = answer(mutant.program);
        const auto off = [](double x, double y) { return std::abs(x - y) > 1e-3; };
        other += std::mismatch(o.begin(), o.end(), truth.begin(), std::not_fn(off)).first == o.end() ? 0 : 1;
      } catch (const std::exception&) {  // it refuses such numbers
      }
    }
    EXPECT_GT(other, 0) << kind;
  }
}

}  // namespace
}  // namespace assay
