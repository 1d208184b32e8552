// Parallax (P), section 3.3 and Figure 2b: what the second branch costs on an H200, from the times of records/gpu,
// beside our attention and beside FlashAttention.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "files/case_file.hpp"
#include "files/input_file.hpp"
#include "reference/core/error.hpp"
#include "tools/papers/paper.hpp"

namespace assay {
namespace {

struct Times {
  std::string shape;
  double forward = 0, backward = 0;
  std::string forward_by, backward_by;  ///< of several kernels, the fastest
};

/// Attention that Parallax is compared with, and which rows of times are of it.
struct Rival {
  std::string name;
  std::vector<Times> decoding, training;
  bool named = false;  ///< whether rows say by which kernel
};

/// A form's times in bf16, as a kernel of that mechanism took them: with its probe.
std::vector<Times> times_of(const Json& record, const std::string& room, const std::string& form) {
  std::vector<Times> found;
  for (const Json& t : record.at("rooms").at(room).at("times"))
    if (t.at("form") == form && t.at("precision") == "bf16" && !t.value("without_probe", false))
      found.push_back({t.at("shape"), t.at("forward_ms"), t.value("backward_ms", 0.0), {}, {}});
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

/// The least of FlashAttention's times by any of its kernels, for each shape in the order of `shapes`.
std::vector<Times> best_of(const Json& measured, const std::vector<Times>& shapes) {
  std::vector<Times> best;
  const auto take = [](const Json& t, const char* name, double& least, std::string& by) {
    const double time = t.value(name, 0.0);
    if (time > 0 && (least == 0 || time < least)) least = time, by = t.at("kernel");
  };
  for (const Times& wanted : shapes) {
    Times one{wanted.shape, 0, 0, {}, {}};
    for (const Json& t : measured.at("times"))
      if (t.at("shape") == wanted.shape)
        take(t, "forward_ms", one.forward, one.forward_by), take(t, "backward_ms", one.backward, one.backward_by);
    if (one.forward > 0) best.push_back(std::move(one));
  }
  return best;
}

Table decoding(const Rival& rival, const std::vector<Times>& parallax) {
  Table table = Table().words({"matched in", rival.name + ": B,T,H,K,V"}).numbers({rival.name});
  if (rival.named) table.words({"by"});
  table.numbers({"Parallax: K", "Parallax", rival.name + " / Parallax"});
  if (rival.named) table.numbers({"paper"});
  const auto add = [&](const char* matched, const Times& a, const char* key_dim, const Times& p) {
    std::vector<std::string> row = {matched, a.shape, ms(a.forward)};
    if (rival.named) row.push_back(a.forward_by);
    row.insert(row.end(), {key_dim, ms(p.forward), ratio(a.forward, p.forward)});
    if (rival.named) row.emplace_back(">= 1");
    table.rows.push_back(std::move(row));
  };
  for (const Times& a : rival.decoding) {
    if (const Times* p = find(parallax, a.shape)) add("I/O", a, a.shape.ends_with(",128") ? "128" : "64", *p);
    const std::optional<std::string> half = half_as_wide(a.shape);
    if (const Times* p = half ? find(parallax, *half) : nullptr) add("products", a, "64", *p);
  }
  return table;
}

Table training(const Rival& rival, const std::vector<Times>& parallax) {
  Table table = Table().words({"B,T,H,K,V"});
  for (const char* pass : {" forward", " backward"}) {
    table.numbers({rival.name + pass});
    if (rival.named) table.words({"by"});
    table.numbers({std::string("Parallax") + pass, "ratio"});
  }
  const auto add = [&](std::vector<std::string>& row, double a, const std::string& by, double p) {
    row.push_back(a > 0 ? ms(a) : "-");
    if (rival.named) row.push_back(by.empty() ? "-" : by);
    row.push_back(ms(p)), row.push_back(a > 0 ? ratio(p, a) : "-");
  };
  for (const Times& a : rival.training)
    if (const Times* p = find(parallax, a.shape)) {
      std::vector<std::string> row = {a.shape};
      add(row, a.forward, a.forward_by, p->forward), add(row, a.backward, a.backward_by, p->backward);
      table.rows.push_back(std::move(row));
    }
  return table;
}

/// "0.84 to 0.93", of a column of the rows whose first cell is that, or of all.
std::string range_of(const Table& table, std::string_view first, std::size_t column) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const std::vector<std::string>& row : table.rows)
    if ((first.empty() || row[0] == first) && row[column] != "-")
      low = std::min(low, std::stod(row[column])), high = std::max(high, std::stod(row[column]));
  return low < high ? fmt::format("{:.2f} to {:.2f}", low, high) : fmt::format("{:.2f}", high);
}

Plot bars(const std::string& title, const Table& table, std::size_t name, std::size_t value) {
  constexpr double left = 230, row = 24, longest = 360;
  double most = 2;
  for (const std::vector<std::string>& cells : table.rows)
    if (cells[value] != "-") most = std::max(most, std::stod(cells[value]));
  const double unit = longest / most;
  Plot plot("paper", title, 680, 30 + row * static_cast<double>(table.rows.size()));
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::string& shown = table.rows[i][value];
    const double y = 8 + row * static_cast<double>(i), length = shown == "-" ? 0 : unit * std::stod(shown);
    const std::string words = name == 0 ? table.rows[i][0] : table.rows[i][0] + ": " + table.rows[i][name];
    plot.words(left - 8, y + 14, words, {}, "end");
    if (length > 0) plot.rect(left, y, length, row - 6, "bar", words + ' ' + shown);
    plot.words(left + longest + 40, y + 14, shown, {}, "end");
  }
  const double bottom = 8 + row * static_cast<double>(table.rows.size());
  plot.line(left + unit, 4, left + unit, bottom, "limit"), plot.words(left + unit + 4, bottom + 14, "1");
  return plot;
}

/// Tables, plots and a sentence on Parallax beside that attention.
void compare(const Rival& rival, const Json& record, PaperResult& result) {
  Table decode = decoding(rival, times_of(record, "parallax", "split_decode")),
        train = training(rival, times_of(record, "parallax", "tiled"));
  const std::size_t decoded = rival.named ? 6 : 5, forward = rival.named ? 4 : 3, backward = rival.named ? 8 : 6;
  const std::string beside = rival.named ? " beside " + rival.name : "";
  const auto plot = [&](const std::string& title, const Table& table, std::size_t name, std::size_t value) {
    result.plots.push_back(bars(title, table, name, value));
  };
  plot("decoding in bf16: time of " + rival.name + " / time of Parallax", decode, 1, decoded);
  plot("training in bf16: forward, time of Parallax / time of " + rival.name, train, 0, forward);
  plot("training in bf16: backward, time of Parallax / time of " + rival.name, train, 0, backward);
  result.says.push_back(text(
      "Decoding with the same reading, ", rival.name, " takes ", range_of(decode, "I/O", decoded),
      " of Parallax' time; with as many products (heads half as wide) ", range_of(decode, "products", decoded), "."));
  result.says.push_back(text("Training takes ", range_of(train, "", forward), " of ", rival.name,
                             "'s time forward and ", range_of(train, "", backward), " backward."));
  result.tables.emplace_back("decoding" + beside + ": one query", std::move(decode));
  result.tables.emplace_back("training" + beside + ": all queries", std::move(train));
}

/// FlashAttention's times of that file, on the device of the record.
Rival flash_attention(const std::string& file, const std::string& device, const Rival& ours,
                      std::vector<std::string>& chosen) {
  try {
    const Json measured = parse_json(read_text(file), file);
    require(measured.at("device") == device,
            text(file, ": of ", measured.at("device").get<std::string>(), ", and the record is of ", device));
    std::string versions;
    for (const auto& [name, version] : measured.at("versions").items())
      versions += text(versions.empty() ? "" : ", ", name, " (", version.get<std::string>(), ")");
    chosen.push_back("FlashAttention: the fastest for each shape of " + versions + ", in CUDA graphs;");
    return {"FlashAttention", best_of(measured, ours.decoding), best_of(measured, ours.training), true};
  } catch (const Json::exception&) {
    throw InputError(file + ": no times that tools/gpu/attention_times.py wrote");
  }
}

}  // namespace

PaperResult parallax_ratios(const PaperOptions& options, const std::function<void(std::string_view)>& done) {
  require(!options.record.empty(),
          "--record: parallax-ratios needs times of a GPU, such as records/gpu/nvidia-h200.json");
  const Json record = parse_json(read_text(options.record), options.record);
  PaperResult result;
  try {
    const std::string device = record.at("device");
    const Rival ours{"attention", times_of(record, "softmax_attention", "split_decode"),
                     times_of(record, "softmax_attention", "tiled")};
    result.chosen = {
        text("our kernels on one ", device,
             ", in bf16, both by CUDA events in the same way; the paper compares its kernel with the best of"),
        "FlashAttention 2 and 3 in CUDA graphs and prints a picture without numbers (batch 1 to 2048, 128 to 32768 "
        "keys);"};
    compare(ours, record, result);
    if (!options.flash_attention.empty())
      compare(flash_attention(options.flash_attention, device, ours, result.chosen), record, result);
    result.chosen.emplace_back("of training it has no times, only that products double and reading does not (P (15))");
    result.says.emplace_back(
        "Products alone would make training 2. The paper's kernel is never slower than FlashAttention.");
  } catch (const Json::exception&) {
    throw InputError(options.record + ": no record of assay's with times of softmax_attention and parallax");
  }
  done("times");
  return result;
}

}  // namespace assay
