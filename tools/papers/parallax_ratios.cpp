// Parallax (P), section 3.3 and Figure 2b: what the second branch costs on an H200, from the times of records/gpu.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "files/case_file.hpp"
#include "files/input_file.hpp"
#include "reference/core/error.hpp"
#include "tools/papers/paper.hpp"

namespace assay {
namespace {

using json = Json;

struct Times {
  std::string shape;
  double forward = 0, backward = 0;
};

/// A form's times in bf16, as a kernel of that mechanism took them: with its probe.
std::vector<Times> times_of(const json& record, const std::string& room, const std::string& form) {
  std::vector<Times> found;
  for (const json& t : record.at("rooms").at(room).at("times"))
    if (t.at("form") == form && t.at("precision") == "bf16" && !t.value("without_probe", false))
      found.push_back({t.at("shape"), t.at("forward_ms"), t.value("backward_ms", 0.0)});
  return found;
}

const Times* find(const std::vector<Times>& times, const std::string& shape) {
  for (const Times& t : times)
    if (t.shape == shape) return &t;
  return nullptr;
}

std::string ms(double x) { return fmt::format("{:.3g} ms", x); }
std::string ratio(double a, double b) { return fmt::format("{:.2f}", a / b); }

/// "1,1/16384,64/16,128,128" with heads half as wide.
std::optional<std::string> half_as_wide(const std::string& shape) {
  if (!shape.ends_with(",128,128")) return std::nullopt;
  return shape.substr(0, shape.size() - 7) + "64,64";
}

Table decoding(const json& record) {
  const std::vector<Times> attention = times_of(record, "softmax_attention", "split_decode"),
                           parallax = times_of(record, "parallax", "split_decode");
  Table table{{{"matched in"},
               {"attention: B,T,H,K,V"},
               {"attention", true},
               {"Parallax: K", true},
               {"Parallax", true},
               {"attention / Parallax", true}},
              {}};
  for (const Times& a : attention) {
    if (const Times* p = find(parallax, a.shape))
      table.rows.push_back({"I/O", a.shape, ms(a.forward), a.shape.ends_with(",128") ? "128" : "64", ms(p->forward),
                            ratio(a.forward, p->forward)});
    const std::optional<std::string> half = half_as_wide(a.shape);
    if (const Times* p = half ? find(parallax, *half) : nullptr)
      table.rows.push_back({"products", a.shape, ms(a.forward), "64", ms(p->forward), ratio(a.forward, p->forward)});
  }
  return table;
}

Table training(const json& record) {
  const std::vector<Times> attention = times_of(record, "softmax_attention", "tiled"),
                           parallax = times_of(record, "parallax", "tiled");
  Table table{{{"B,T,H,K,V"},
               {"attention forward", true},
               {"Parallax forward", true},
               {"ratio", true},
               {"attention backward", true},
               {"Parallax backward", true},
               {"ratio", true}},
              {}};
  for (const Times& a : attention)
    if (const Times* p = find(parallax, a.shape))
      table.rows.push_back({a.shape, ms(a.forward), ms(p->forward), ratio(p->forward, a.forward), ms(a.backward),
                            ms(p->backward), ratio(p->backward, a.backward)});
  return table;
}

/// "0.84 to 0.93", of a column of the rows whose first cell is that, or of all.
std::string range_of(const Table& table, std::string_view first, std::size_t column) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const std::vector<std::string>& row : table.rows)
    if (first.empty() || row[0] == first)
      low = std::min(low, std::stod(row[column])), high = std::max(high, std::stod(row[column]));
  return low < high ? fmt::format("{:.2f} to {:.2f}", low, high) : fmt::format("{:.2f}", high);
}

Plot bars(const std::string& title, const Table& table, std::size_t name, std::size_t value) {
  constexpr double left = 230, row = 24, unit = 180;
  Plot plot("paper", title, 680, 30 + row * static_cast<double>(table.rows.size()));
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const double y = 8 + row * static_cast<double>(i), length = unit * std::stod(table.rows[i][value]);
    const std::string words = name == 0 ? table.rows[i][0] : table.rows[i][0] + ": " + table.rows[i][name];
    plot.words(left - 8, y + 14, words, {}, "end");
    plot.rect(left, y, length, row - 6, "bar", words + ' ' + table.rows[i][value]);
    plot.words(left + 2 * unit + 40, y + 14, table.rows[i][value], {}, "end");
  }
  const double bottom = 8 + row * static_cast<double>(table.rows.size());
  plot.line(left + unit, 4, left + unit, bottom, "limit"), plot.words(left + unit + 4, bottom + 14, "1");
  return plot;
}

}  // namespace

PaperResult parallax_ratios(const PaperOptions& options, const std::function<void(std::string_view)>& done) {
  require(!options.record.empty(),
          "--record: parallax-ratios needs times of a GPU, such as records/gpu/nvidia-h200.json");
  const json record = parse_json(read_text(options.record), options.record);
  PaperResult result;
  try {
    Table decode = decoding(record), train = training(record);
    result.plots = {bars("decoding in bf16: time of attention / time of Parallax", decode, 1, 5),
                    bars("training in bf16: forward, time of Parallax / time of attention", train, 0, 3),
                    bars("training in bf16: backward, time of Parallax / time of attention", train, 0, 6)};
    result.says = {
        text("Decoding with the same reading, attention takes ", range_of(decode, "I/O", 5),
             " of Parallax' time; with as many products (heads half as wide) ", range_of(decode, "products", 5), "."),
        text("Training takes ", range_of(train, "", 3), " of attention's time forward and ", range_of(train, "", 6),
             " backward; products alone would make it 2. The paper's kernel is never slower than FlashAttention.")};
    result.tables.emplace_back("decoding: one query", std::move(decode));
    result.tables.emplace_back("training: all queries", std::move(train));
    result.chosen = {
        text("our kernels on one ", record.at("device").get<std::string>(),
             ", in bf16, both by CUDA events in the same way; the paper compares its kernel with the best of"),
        "FlashAttention 2 and 3 in CUDA graphs and prints a picture without numbers (batch 1 to 2048, 128 to 32768 "
        "keys);",
        "of training it has no times, only that products double and reading does not (P (15))"};
  } catch (const json::exception&) {
    throw InputError(options.record + ": no record of assay's with times of softmax_attention and parallax");
  }
  done("times");
  return result;
}

}  // namespace assay
