#include <fmt/format.h>

#include "files/in_words.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/pages/calibration.hpp"
#include "tools/pages/confidence.hpp"

namespace assay {
namespace {

/// "12,345,678"
std::string grouped(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string rms_of(const Gauge& g) {
  if (g.elements == 0) return "-";
  return g.rms() < 10 ? fmt::format("{:.2f}", g.rms()) : fmt::format("{:.0f}", g.rms());
}

std::string_view verdict_of(const CalibrationRow& row) {
  return !asks_anything(row.fit) ? "-" : row.passed() ? "ok" : "OUT";
}

/// One line a variant.
Table table_of(std::span<const CalibrationRow> rows, bool with_room) {
  Table table;
  if (with_room) table.words({"mechanism", "form"});
  table.words({"variant", "standard"});
  for (const Format precision : case_precisions) table.numbers({name_of(precision)});
  table.numbers({"rms", "tensors", "widened", "elements", "exact", "max|z|", "beyond 7", "of limit", "slack"})
      .words({""});
  for (const CalibrationRow& row : rows) {
    std::vector<std::string> cells;
    if (with_room) cells = {std::string(row.room), std::string(row.form)};
    cells.insert(cells.end(), {row.variant, std::string(name_of(row.fit))});
    for (const Format precision : case_precisions)
      cells.push_back(rms_of(row.by_precision[static_cast<std::size_t>(precision)]));
    const Gauge all = row.whole();
    cells.insert(cells.end(),
                 {rms_of(all), text(all.tensors), text(all.widened), text(all.elements), text(all.exact_elements),
                  fmt::format("{:.3g}", all.largest), text(all.beyond_seven), fmt::format("{:.2g}", all.of_limit),
                  fmt::format("{:.3g}", all.median_slack()), std::string(verdict_of(row))});
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string summary_of(const Calibration& c) {
  const Gauge all = c.whole();
  std::size_t asked = 0, out = 0;
  for (const CalibrationRow& row : c.rows) asked += asks_anything(row.fit) ? 1 : 0, out += row.passed() ? 0 : 1;
  std::string lines = fmt::format(
      "{} of which anything is asked, {} tensors, {} element checks and {} of elements that must be exact:\n"
      "{} beyond the limit, {} of the variants out; at most {:.1e} of the checks of such kernels are with 95% "
      "confidence, if they were independent\n",
      counted(asked, "variant"), grouped(all.tensors), grouped(all.elements), grouped(all.exact_elements),
      grouped(all.beyond_limit), out, upper_bound_95(all.beyond_limit, all.elements + all.exact_elements));
  if (c.cases < c.asked) lines += fmt::format("{} of {} cases were run\n", grouped(c.cases), grouped(c.asked));
  lines += fmt::format(
      "tensors whose sigma took in the contract's own rounding: {}; |error| > 7 sigma, where sigma is known from few "
      "draws: {};\n"
      "tensors left out as UNDECIDED: {}; "
      "cases without an answer: {}\n",
      grouped(all.widened), grouped(all.beyond_seven), grouped(all.undecided), c.unanswered);
  for (const CalibrationRow& row : c.rows)
    for (const std::string& alarm : row.alarms) lines += "beyond its limit: " + alarm + '\n';
  return lines;
}

std::string styles_of(const CalibrateOptions& options) {
  const auto names = [](const auto& styles) { return names_in(styles, [](Style style) { return name_of(style); }); };
  return options.styles.empty() ? names(calibration_styles) : names(options.styles);
}

constexpr std::string_view about_columns =
    "standard   whose spread counts: the same roundings, a contract that allows more (wider), one whose draws know "
    "nothing of\n"
    "           rounding to one side (biased), another kernel's (other); of the last two nothing is asked\n"
    "fp64...    root mean square of z = error / sigma over all elements of all tensors, in that precision; rms: in "
    "all\n"
    "widened    tensors whose sigma took in the contract's own rounding, for it is beyond what the draws allow\n"
    "elements   that may err; exact: those that may not. beyond 7: of the elements, those with |z| > 7\n"
    "of limit   the largest |error| / limit, limit = reach * sigma + bound (docs/judge-derivation.md): 1 is rejected\n"
    "slack      the median of limit / |error|\n";

constexpr std::string_view opening = R"(
# Calibration

Is sigma as large as the errors that correct kernels have? Kernels that are right, made in many ways, each judged by what is expected under the contract
that describes it. Everything here is measured by one command, on the CPU executor, with the same result on every machine:

)";

constexpr std::string_view what_is_measured = R"(
A part of it is measured, and judged, in seconds:

    build/assay-lab calibrate --mechanism deltanet --precision bf16,fp32 --seeds 3

and more of it on as many machines as there are, each with seeds of its own, as if it had been one run:

    build/assay-lab calibrate --seeds 3 --seed 0 --format json -o 0.json
    build/assay-lab calibrate --seeds 3 --seed 3 --format json -o 3.json
    build/assay-lab calibrate --merge 0.json --merge 3.json

## What is measured

z = error / sigma of every element of every output and gradient, against the oracle. Nothing is fitted and nothing typed: sigma is what the judge takes
([judge.md](../docs/judge.md)). A table says, for every **variant** of a kernel,

| column | is |
| --- | --- |
| fp64 to e5m2 | the root mean square of z over all elements of all tensors in that precision; `rms`: over all of them |
| widened | tensors whose sigma took in the contract's own rounding |
| elements | checked that may err (sigma > 0); `exact`: checked that may not, whose error must be within the oracle's bound |
| max\|z\|, beyond 7 | the largest \|z\|, and how many elements have \|z\| > 7 |
| of limit | the largest \|error\| / limit. An element's limit is reach · sigma + bound, reach being 7 for a sigma that is known and, by Student's t, more for one that few draws know: 1 is as rare as \|z\| = 7 of a normal number, 2.6 · 10⁻¹² |
| slack | the median of limit / \|error\|: how much wider the limit is than the error at hand. Normal errors under a limit of 7 sigma have 10.4 |

`ok` is a variant whose root mean square is in [0.7, 1.3], with no element beyond its limit and a slack of 100 at most. The interval is for those variants
whose **standard**, the kernel and contract whose spread is sigma, has their very roundings (`same`). Where the standard allows more (`wider`) only 1.3 and the limits count. Nothing is asked where
it describes another kernel (`other`), lines that show what comes of taking one kernel for another, and of kernels that round to one side (`biased`).

**What could have failed.** Sigma takes in the contract's own rounding where that is beyond the limits of the draws ([stalls](../docs/judge-derivation.md#witnesses)), and a kernel judged by itself *is* that rounding. There its
limits hold by construction. So they do where it takes in the run with operands kept, for the variant that is nearly that run. `widened` counts those tensors. In all others the limits are those of the draws, which know nothing of the run that is judged.

## Variants

| variant | what runs | standard | expected rms |
| --- | --- | --- | --- |
| `tile N` | each compiled tile shape, under the contract of the precision | itself | 1 |
| `sums of N` | accumulators that round after N products instead of 16 (bf16, fp16), 8 (tf32), 32 (fp8), 1 (fp32, fp64) | itself: that contract (`products`) | 1 |
| `operands wide` | nothing is rounded between products | itself | 1 |
| `P wide` | P stays as wide as the sums that it comes from | itself | 1 |
| `D of a wide o` | attention whose backward takes D = rowsum(dO ∘ O) from an O that has not been stored | itself | 1 |
| `bf16_state`, `fla` | the contract of that name, where the form has its sites | itself | 1 |
| `token by token` | the reference itself in emulated fp32 (tf32 to e5m2: of inputs in that format), one operation after the other: no tiles, no chunks, no triangular systems | itself, by draws that jitter each operation | 1 |
| `D of P and dP` | softmax attention row by row with P and dS rounded as factors and D = Σ P ∘ dP; no tile program has this D | itself | 1 |
| `toward zero` | every site truncates, the accumulators of tensor cores included | itself, `biased`: one truncation errs by s²/3 in the mean, four times what sigma has for it, and many err alike; beyond its limits sigma comes from this very run | 0.7 where it does, up to the limit where not |
| `operands wide, by the contract` | as above | the contract of the precision, which allows more | below 1 |
| `tile N, by tile M` | the smallest tile | the form's first, which is what `assay check` takes for a kernel of unknown tiles | see below |
| `token by token, by the contract` | as above; in fp64, the reference in double | the first tile's | see below |
| `D of P and dP, by the contract` | as above | the first tile's | 1 |

The order of heads or of sequences is no variant. In fp64 the reference has no draws of its own: its operations are the machine's.

)";

constexpr std::string_view about_checks = R"(
Elements of one tensor err together, and variants of one case have inputs in common, so that these are fewer independent checks than their number. `beyond 7` counts what a
limit of seven sigma would have rejected if sigma were taken for known. 16 draws know it to 15 degrees of freedom where neighbours tell nothing, and Student's t with 15 degrees of freedom exceeds 7 four times in
1,000,000. That is why the limit is reach · sigma.

)";

constexpr std::string_view remarks = R"(## What is not within it, and why

- `tile N, by tile M`: the tile shape decides what is rounded, not only in which order. A token of the first chunk reads no state, and in chunks of 64 tokens that is every token up to the 64th; in
  chunks of 16 its operands have been stored in the precision. Where nothing else of a row is stored (gradients of decays and step sizes, which leave in fp32), the error of the one is many times the
  spread of the other. `mamba2`, `falcon2` and `falcon3a` show it most; by itself, every tile shape is calibrated. So a kernel is to be judged at its own tile shape, and who
  judges one of unknown tiles by `assay check` must know that it stands for the form's first.
- `token by token, by the contract`: a sum of 16 products that a tensor core makes exactly, as of the first tokens of a state that leaves in fp32, is exact under bf16's contract, and an fp32 unit rounds it 16
  times. Such kernels have another contract (`products`), by which they are judged as they should be.
- `toward zero`: a single truncation has a root mean square of 2 in units of nearest's sigma, n of one sign in a row have sqrt(3 n). Where that is beyond the limit of the root mean square, which is about 1.45 for a large
  tensor, sigma takes in the run itself and 0.7 is left. Where few elements err alike (decoding: 96 of them), the limit is wider than 2, sigma stays that of nearest, and 1.4 to 1.9 show. No
  number of such a kernel says anything of the draws, so nothing is asked of it.
- `P wide` of `lla` in fp16: with outlier channels and two steps of conjugate gradients, one element of dq overflows fp16 in the kernel's own run (sigma there is 49,000), which is the contract's doing.
- `operands wide, by the contract`: a rounding not only errs, it also absorbs what erred before it, and a kernel that leaves it out keeps that: where the contract's kernel answers 0 in all draws, it answers the residue of its
  sums. Sigma takes in the form's own run with operands kept ([judge-derivation.md](../docs/judge-derivation.md#witnesses)), which is this variant but for the last rounding: where it does, counted under `widened`, the variant is within its limits by construction.
- Single numbers (the gradient of a bandwidth) are known from K draws alone, without neighbours; their limits are the widest, and make most of `beyond 7`.

)";

}  // namespace

std::string print(const Calibration& c, TableFormat format) {
  if (format == TableFormat::json) return json_text(c);
  const Table table = table_of(c.rows, true);
  if (format == TableFormat::csv) return table.csv();
  const bool markdown = format == TableFormat::markdown;
  return fmt::format(
      "assay-lab calibrate: sigma against the errors of healthy kernels, each under the contract that describes it\n"
      "inputs     styles {}; {} from {}\n{}\n{}\n{}reproduce: {}\n",
      styles_of(c.options), counted(c.options.seeds, "seed"), c.options.seed, about_columns,
      markdown ? table.markdown(Table::Cells::markup) : table.text(), summary_of(c), c.options.command());
}

std::string calibration_page(const Calibration& c) {
  const std::string command = c.options.command() + " --docs -o records/calibration.md";
  std::string page = fmt::format("<!-- written by `{0}` -->\n{1}    {0}\n{2}", command, opening, what_is_measured);
  page += fmt::format(
      "Cases: styles {}; {} of each kernel, precision and style, settings of the mechanism in turn. 70 tokens, 2 "
      "heads on 1, 16 dimensions\n(37 tokens, 8 dimensions where a system is solved for every query; 3 queries for "
      "`split_decode`){}. fp64, which is emulated in long double, in the first style alone.\n\n## "
      "Result\n\n```\n{}```\n",
      styles_of(c.options), counted(c.options.seeds, "seed"),
      c.options.shape.empty() ? "" : "; shape " + c.options.shape, summary_of(c));
  page += about_checks;
  page += remarks;
  page += "## Every variant\n";
  for (const std::span<const CalibrationRow> rows : by_kernel(c.rows))
    page += fmt::format("\n### {} {}\n\n{}", rows.front().room, rows.front().form,
                        table_of(rows, false).markdown(Table::Cells::markup));
  return page;
}

Table table_of(const ModelCalibration& c) {
  Table table = Table()
                    .words({"mechanism", "precision"})
                    .numbers({"tensors", "median", "99%", "largest", "PASS", "UNDECIDED", "FAIL", "VACUOUS"});
  const auto number = [](double x) { return fmt::format("{:.2f}", x); };
  for (const ModelRow& row : c.rows)
    table.add(row.room, name_of(row.precision), row.tensors, number(row.median), number(row.high), number(row.largest),
              row.passed, row.undecided, row.failed, row.other);
  return table;
}

Table alarms_of(const ModelCalibration& c) {
  Table table = Table()
                    .words({"mechanism", "precision", "style"})
                    .numbers({"seed"})
                    .words({"variant", "tensor"})
                    .numbers({"model"});
  for (const ModelAlarm& a : c.alarms)
    table.add(a.room, name_of(a.precision), name_of(a.style), a.seed, a.variant, a.tensor,
              fmt::format("{:.2f}", a.excess));
  return table;
}

std::string model_page(const ModelCalibration& c) {
  std::string command = c.options.command();
  command.insert(std::string("build/assay-lab calibrate").size(), " --model");
  return "<!-- written by `" + command + " --docs -o records/model.md` -->\n\n# Calibration of the model\n\n" +
         "How far healthy kernels are from what evidence `model` expects "
         "([derivation](../docs/judge-derivation.md#model)): "
         "our tile "
         "programs in every shape,\nunder every contract that fits, and the reference token by token. In tf32 "
         "also a kernel that cuts off what does not fit, and in\n16 bits one that cuts off its sums, as tensor cores "
         "do. To cut off what is stored in 16 bits is a fault. In fp32 and\nfp64 no machine cuts off. Contracts "
         "that keep a state in fewer digits are promises of their own, and not here. "
         "An error is in the units of the column `model` of `assay check`:\nup to 2 (3 in fp32 and fp64) is PASS, "
         "beyond "
         "5 FAIL, between them UNDECIDED. What kernels of others do is "
         "in\n[published-kernels.md](published-kernels.md)."
         "\n\n    " +
         command + "\n\n" +
         fmt::format("{} tensors: {} UNDECIDED, {} FAIL.\n\n", c.count(&ModelRow::tensors),
                     c.count(&ModelRow::undecided), c.count(&ModelRow::failed)) +
         table_of(c).markdown() + (c.alarms.empty() ? "" : "\n## Beyond 5\n\n" + alarms_of(c).markdown());
}

}  // namespace assay
