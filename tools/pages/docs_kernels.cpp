#include "tools/pages/docs_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "reference/core/inputs.hpp"
#include "reference/core/sha256.hpp"
#include "tools/print/table.hpp"

namespace assay {
namespace {

using nlohmann::json;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  require(in.good(), path.string(), ": cannot be read; run from the repository's root or give --source");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Files of a folder with one of those endings, as paths from the repository's root.
std::set<std::string> files_in(const std::filesystem::path& source, const std::string& folder,
                               const std::set<std::string>& endings) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(source / folder))
    if (endings.contains(entry.path().extension().string()))
      files.insert(folder + "/" + entry.path().filename().string());
  return files;
}

std::string code(std::string_view word) { return fmt::format("`{}`", word); }

/// "accumulators `S`, `W`; output `out`": the sites of every role that has some.
std::string sites_of(const KernelForm& form) {
  constexpr std::string_view roles[] = {"operands", "gates", "accumulators", "outputs"};
  std::string text;
  for (std::size_t role = 0; role < std::size(roles); ++role) {
    std::string names;
    for (int i = 0; i < form.sites.size; ++i)
      if (static_cast<std::size_t>(form.sites.entries[i].role) == role)
        names += (names.empty() ? " " : ", ") + code(form.sites.entries[i].view());
    if (!names.empty()) text += fmt::format("- {}:{}\n", roles[role], names);
  }
  return text;
}

/// The form's sentences on dimensions beyond those that most have, and on many queries on more keys.
std::string obstacles_of(const Room& room, const KernelForm& form) {
  const int shared = groups_heads(room.inputs()) ? 1 : 0;
  std::set<std::string> sentences;
  for (const Shape& shape : {Shape{1, 8, 2, shared, 1024, 16, 0}, Shape{1, 8, 2, shared, 16, 1024, 0},
                             Shape{1, 128, 2, shared, 16, 16, 0}, Shape{1, 128, 2, shared, 16, 16, 64}}) {
    CaseSpec spec;
    spec.mechanism = room.name, spec.shape = shape;
    try {
      if (const std::string s = form.obstacle(room.make(spec)); !s.empty()) sentences.insert(s);
    } catch (const InputError&) {  // the room itself does not take that shape
    }
  }
  std::string text;
  for (const std::string& s : sentences) text += (text.empty() ? "" : "; ") + s;
  return text.empty() ? "none" : text;
}

/// For every precision and K of a form in a room's entry, the worst over tensors and cases.
std::string errors_of(const json& entry, std::string_view form) {
  struct Worst {
    std::string tensor;
    double error = 0, emulation = 0, difference = 0, identical = 1;
    int cases = 0, undetermined = 0;
  };
  std::map<std::pair<std::string, int>, Worst> all;
  for (const json& r : entry.at("results")) {
    if (r.at("form") != form) continue;
    Worst& w = all[{r.at("precision").get<std::string>(), r.at("key_dim").get<int>()}];
    const double error = r.at("error");
    if (!(error <= w.error)) w.error = error, w.tensor = r.at("tensor");
    w.emulation = std::max(w.emulation, r.at("emulation_error").get<double>());
    w.difference = std::max(w.difference, r.at("difference").get<double>());
    if (r.at("tensor") == "o") w.identical = r.at("identical");
    w.cases = r.at("cases");
    w.undetermined = std::max(w.undetermined, r.value("undetermined", 0));
  }
  if (all.empty()) return "";
  Table table = Table()
                    .words({"precision"})
                    .numbers({"K", "cases"})
                    .words({"worst error"})
                    .numbers({"of", "its emulation's", "between the two", "same bits of `o`"});
  for (const auto& [key, w] : all)
    table.add(key.first, key.second, w.cases, fmt::format("{:.1e}", w.error), code(w.tensor),
              fmt::format("{:.1e}", w.emulation), fmt::format("{:.1e}", w.difference),
              fmt::format("{:.1f}%", 100 * w.identical));
  std::string undetermined;
  for (const auto& [key, w] : all)
    if (w.undetermined > 0)
      undetermined += fmt::format("{} {} of {} in {} at {}", undetermined.empty() ? "" : ",", w.undetermined, w.cases,
                                  key.first, key.second);
  if (undetermined.empty()) return table.markdown(Table::Cells::markup);
  return table.markdown(Table::Cells::markup) +
         "\nCases that are left out, for roundings decide all of their answer:" + undetermined + ".\n";
}

/// The sentence on batches of the form's sequences in a room's entry, or "".
std::string packed_of(const json& entry, std::string_view form) {
  int batches = 0, failed = 0;
  std::size_t sequences = 0;
  std::set<int> lengths;
  for (const json& r : entry.value("packed", json::array())) {
    if (r.at("form") != form) continue;
    batches += r.at("batches").get<int>(), failed += r.at("failed").get<int>();
    sequences = r.at("lengths").size();
    for (const json& length : r.at("lengths")) lengths.insert(length.get<int>());
  }
  if (batches == 0) return "";
  return fmt::format("\n{} batches of {} sequences of {} to {} tokens, packed: {}.\n", batches, sequences,
                     *lengths.begin(), *lengths.rbegin(),
                     failed == 0 ? "every sequence has the bits that it has alone"
                                 : fmt::format("**in {} a sequence has other bits than alone**", failed));
}

/// Times of others for the same forward pass, measured on an H200 in bf16 beside ours, but not in the same run.
struct Peer {
  std::string_view room, form, shape, who;
  double milliseconds;
};
constexpr Peer peers[] = {
    {"softmax_attention", "tiled", "2,4096,8/8,64,64", "FlashAttention-2", 0.180},
    {"softmax_attention", "tiled", "2,4096,8/8,64,64", "cuDNN", 0.105},
    {"softmax_attention", "tiled", "2,4096,8/8,128,128", "FlashAttention-2", 0.314},
    {"softmax_attention", "tiled", "2,4096,8/8,128,128", "cuDNN", 0.152},
    {"softmax_attention", "tiled", "4,4096,16/16,128,128", "FlashAttention-2", 0.894},
    {"softmax_attention", "tiled", "4,4096,16/16,128,128", "cuDNN", 0.479},
    {"softmax_attention", "tiled", "1,16384,16/16,128,128", "FlashAttention-2", 3.60},
    {"softmax_attention", "tiled", "1,16384,16/16,128,128", "cuDNN", 1.74},
    {"softmax_attention", "split_decode", "1,1/32768,64/8,128,128", "cuDNN", 0.0377},
    {"softmax_attention", "split_decode", "32,1/32768,64/8,128,128", "cuDNN", 0.963},
    {"parallax", "tiled", "4,4096,16/16,128,128", "its authors", 1.175},
    {"parallax", "tiled", "4,4096,16/16,128,128", "cuDNN's softmax attention", 0.479},
    {"parallax", "split_decode", "1,1/32768,64/8,128,128", "its authors", 2.316},
    {"parallax", "split_decode", "1,1/32768,64/8,128,128", "cuDNN's softmax attention", 0.0377},
    {"parallax", "split_decode", "32,1/32768,64/8,128,128", "its authors", 2.626},
    {"parallax", "split_decode", "32,1/32768,64/8,128,128", "cuDNN's softmax attention", 0.963},
    {"deltanet", "chunkwise", "4,8192,16/16,128,128", "flash-linear-attention", 0.995},
};

/// The H200's ceilings, measured: bytes read in a second, and bf16 products and sums sustained.
constexpr double bytes_per_second = 4.55e12, products_per_second = 716e12;

/// Products and sums of a causal forward pass, two for every pair of elements that meet; 0 where chunks are free to
/// choose.
double products_of(std::string_view room, std::string_view form, const Shape& shape) {
  const double of_room = room == "softmax_attention" ? 1 : room == "parallax" ? 2 : 0, keys = shape.seq_len;
  const double pairs = form == "split_decode" ? keys * shape.queries() : keys * (keys + 1) / 2;
  return of_room * 2 * (shape.key_dim + shape.value_dim) * pairs * shape.batch * shape.heads;
}

std::string times_of(const json& entry, std::string_view room, std::string_view form) {
  Table table = Table()
                    .words({"shape B,T,H,K,V", "precision"})
                    .numbers({"forward", "floor", "of the time"})
                    .words({"others' forward"})
                    .numbers({"backward"});
  const auto milliseconds = [](double x) { return fmt::format("{:.3g} ms", x); };
  for (const json& t : entry.value("times", json::array())) {
    if (t.at("form") != form) continue;
    const std::string shape = t.at("shape");
    const double forward = t.at("forward_ms");
    std::string floor_text, share, others;
    const bool without_probe = t.value("without_probe", false);
    const std::string_view as = without_probe ? "softmax_attention" : room;
    if (t.contains("bytes")) {
      const double floor = 1e3 * std::max(t.at("bytes").get<double>() / bytes_per_second,
                                          products_of(as, form, shape_from(shape)) / products_per_second);
      floor_text = milliseconds(floor), share = fmt::format("{:.0f}%", 100 * floor / forward);
    }
    for (const Peer& peer : peers)
      if (peer.room == as && peer.form == form && peer.shape == shape)
        others += fmt::format("{}{} {} ({:.2f} of it)", others.empty() ? "" : "; ", peer.who,
                              milliseconds(peer.milliseconds), forward / peer.milliseconds);
    table.rows.push_back({shape + t.value("params", "") + (without_probe ? ", W_R = 0" : ""), t.at("precision"),
                          milliseconds(forward), floor_text, share, others,
                          t.contains("backward_ms") ? milliseconds(t.at("backward_ms")) : ""});
  }
  return table.rows.empty() ? "" : table.markdown(Table::Cells::markup);
}

/// The entry of a room in a record: null where it has none, or the room no device kernels.
json entry_of(const json& record, std::string_view room, const Digests& digests) {
  if (!digests.contains(std::string(room))) return nullptr;
  return record.at("rooms").value(std::string(room), json());
}
bool is_current(const json& entry, std::string_view room, const Digests& digests) {
  return assay::is_current(entry, digests.at(std::string(room)));
}

std::string section(const Room& room, const KernelForm& form, const std::vector<json>& records,
                    const Digests& digests) {
  std::string text = fmt::format("\n## {} {}\n\n{}. {}.\n\n- tiles:", room.name, form.name, form.summary,
                                 form.has_gradients ? "Forward and backward" : "Forward only");
  for (const std::string_view tile : form.tiles) text += " " + code(tile);
  text += fmt::format(
      "\n{}- obstacles at K or V of 1024, or 128 queries: {}\n- mutants: {}, listed in "
      "[{}](../docs/mechanisms/{}.md)\n",
      sites_of(form), obstacles_of(room, form), form.mutants.size(), room.name, room.name);
  if (!digests.contains(std::string(room.name))) return text + "\nNo device kernels.\n";
  bool measured = false;
  for (const json& record : records) {
    const json entry = entry_of(record, room.name, digests);
    const std::string errors = entry.is_null() ? "" : errors_of(entry, form.name);
    if (errors.empty()) continue;
    measured = true;
    const bool stale = !is_current(entry, room.name, digests);
    text +=
        fmt::format("\n{}, {}, driver {}, {}{}; memcheck: {}; {} failed:\n\n{}", entry.at("device").get<std::string>(),
                    entry.at("compiler").get<std::string>(), entry.at("driver").get<std::string>(),
                    entry.at("date").get<std::string>(), stale ? ", **stale: its sources have changed since**" : "",
                    entry.value("memcheck", "not run"), entry.at("failed").get<int>(), errors);
    text += packed_of(entry, form.name);
    const std::string times = times_of(entry, room.name, form.name);
    if (!times.empty()) text += "\n" + times;
  }
  return measured ? text : text + "\nNo device has run it yet.\n";
}

/// The beginning of the page.
constexpr std::string_view introduction =
    "<!-- written by `assay-lab docs` from the registry and records/gpu -->\n\n"
    "# Kernels\n\n"
    "Every form of every mechanism that has tile programs: what it promises, and what devices measured of it.\n\n"
    "- **Sites** are its roundings; the page of its [mechanism](../docs/mechanisms) says what each holds. The "
    "contract of a precision gives operands and outputs that precision (tf32: outputs fp32; fp8: outputs bf16), "
    "accumulators and gates fp32, or fp64 throughout; [judge.md](../docs/judge.md) makes the tolerance of them.\n"
    "- **Errors** are Frobenius norms, relative to the answer's, of the worst tensor and case: of the device, of "
    "its emulation on the CPU, and between the two. These stay below twice the emulation's error and what fp32 "
    "sums may differ by (`tools/gpu/gpu_check.cpp`). They are counted from the same program without rounding, "
    "those of an unstable form from its room's first, and two runs of such a form differ by what draws of its "
    "roundings err by, exponentials' errors among them.\n"
    "- **Same bits** are shares of elements. The emulation adds products of bf16, fp16 and tf32 as Hopper's "
    "`mma.sync` does. Those of a block, 16 or in tf32 8, are exact. They and the accumulator are cut off, "
    "towards zero, two bits below the last place that fp32 has at the largest exponent among them. A product's "
    "exponent is the sum of its factors'. What is left is summed exactly and cut off to fp32, towards zero. An H200 "
    "gave these bits in all of 24 kinds of sums; models that keep more or fewer bits, round, or align normalized "
    "products failed (`test_tensor_core_cuda`). `wgmma`, in forward passes of softmax attention and Parallax in "
    "bf16 and fp16, is emulated alike, but no model of it was measured; products in e4m3 are rounded to nearest. "
    "`gpu_check --agreement` counts equal elements with these sums and with rounded ones. The judge knows no "
    "tensor core: contracts round to nearest.\n"
    "- Device and emulation agree to the bit where a program rounds at its sites and nowhere else. Solves "
    "magnify one bit to many, so LLA and the MesaNets keep to arithmetic that has the same bits on both "
    "(`kernels/core/same_bits.hpp`). Elsewhere exponentials and logarithms differ, by two units, and functions "
    "of several operations, which a device rounds one by one and the emulation once.\n"
    "- **Times** are means of ten runs by CUDA events, kernels alone. The floor is what a forward pass takes at "
    "least: its inputs and outputs once in bf16 at 4.55 TB/s and, for softmax attention and Parallax, the "
    "products of visible pairs at 716 TFLOP/s, which are an H200's measured ceilings. Others' times were "
    "measured on an H200 too, but not in the same run (torch 2.11, FlashAttention 2, the published kernels).\n"
    "- **Batches** of sequences of several lengths are packed, as `cu_seqlens` layouts are: every array holds "
    "all of them, [heads][all rows][columns]. Every launch of a tile program computes all of them (on the device "
    "in bf16; in the other precisions it is a launch each). Each sequence gets the bits that it has alone "
    "(`kernels/core/batch.hpp`), on the CPU under randomised rounding too.\n"
    "- Rooms are run when their sources have changed (`tools/gpu/run`), each with its own date. A record is "
    "**stale** for a room where the digest of its sources (`tools/gpu/run --digests`) is another today.\n"
    "- Errors in every precision, judged against the oracle, are printed by `assay report`; times of the "
    "emulation by `assay-lab bench kernels`.\n";

/// A form's row of the table that the page begins with.
std::vector<std::string> row_of(const Room& room, const KernelForm& form, const std::vector<json>& records,
                                const Digests& digests) {
  std::vector<std::string> row = {std::string(room.name),
                                  std::string(form.name),
                                  form.has_gradients ? "yes" : "no",
                                  std::to_string(form.sites.size),
                                  std::to_string(form.tiles.size()),
                                  std::to_string(form.mutants.size())};
  for (const json& record : records) {
    const json entry = entry_of(record, room.name, digests);
    row.emplace_back(entry.is_null() || errors_of(entry, form.name).empty() ? "no record"
                     : is_current(entry, room.name, digests)                ? "recorded"
                                                                            : "stale");
  }
  return row;
}

/// The files of kernels/ and of the rounding of numbers that a file includes.
std::vector<std::string> sources_included(const std::string& file_text) {
  constexpr std::string_view begin = "#include \"";
  std::vector<std::string> headers;
  std::istringstream lines(file_text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(begin)) continue;
    std::string header = line.substr(begin.size(), line.find('"', begin.size()) - begin.size());
    if (header.starts_with("kernels/") || header == "reference/core/format.hpp" ||
        header == "reference/core/rounding.hpp")
      headers.push_back(std::move(header));
  }
  return headers;
}

/// Without what a formatter moves: comments, white space, the ends of lines. No literal holds "//".
std::string code_of(const std::string& file_text) {
  std::string code;
  std::istringstream lines(file_text);
  for (std::string line; std::getline(lines, line);) {
    line.erase(std::min(line.find("//"), line.size()));
    if (line.ends_with('\\')) line.pop_back();
    std::erase_if(line, [](char c) { return std::string_view(" \t\n\v\f\r").find(c) != std::string_view::npos; });
    code += line;
  }
  return code;
}

/// Literals that follow each other as the one that they are.
std::string without_seams(const std::string& code) {
  std::string joined;
  for (std::size_t i = 0; i < code.size(); ++i)
    if (code.compare(i, 2, "\"\"") == 0)
      ++i;
    else
      joined += code[i];
  return joined;
}

}  // namespace

// Only the includes of kernels/FAMILY/ROOM.cpp count, which says what the registry holds.
std::set<std::string> kernel_sources(const std::filesystem::path& source, std::string_view room) {
  std::set<std::string> known;
  const std::string stem = text("kernels/", find_kernels(kernel_rooms(), room)->folder, '/', room);
  std::vector<std::string> queue = sources_included(bytes_of(source / (stem + ".cpp")));
  for (const char* ending : {".hpp", "_gpu.cpp"}) queue.push_back(stem + ending);
  while (!queue.empty()) {
    const std::filesystem::path file = queue.back();
    queue.pop_back();
    if (!known.insert(file.string()).second) continue;
    std::filesystem::path implementation = file;
    implementation.replace_extension(".cpp");
    std::filesystem::path launches = file;
    launches.replace_extension().concat("_gpu.cpp");
    if (file.extension() == ".hpp" && exists(source / implementation) && !exists(source / launches))
      queue.push_back(implementation.string());
    for (std::string& header : sources_included(bytes_of(source / file))) queue.push_back(std::move(header));
  }
  return known;
}

std::string kernel_sources_digest(const std::filesystem::path& source, std::string_view room) {
  std::string all;
  for (const std::string& file : kernel_sources(source, room)) all += file + code_of(bytes_of(source / file));
  return Sha256().update(without_seams(all)).hex();
}

Digests kernel_sources_digests(const std::filesystem::path& source) {
  Digests digests;
  for (const KernelRoom* room : kernel_rooms())
    if (exists(source / text("kernels/", room->folder, '/', room->name, "_gpu.cpp")))
      digests[std::string(room->name)] = kernel_sources_digest(source, room->name);
  return digests;
}

std::vector<json> gpu_records(const std::filesystem::path& source) {
  std::vector<json> records;
  for (const std::string& file : files_in(source, "records/gpu", {".json"}))
    records.push_back(json::parse(bytes_of(source / file)));
  return records;
}

std::string kernels_page(const std::vector<json>& records, const Digests& digests) {
  std::string text(introduction);
  for (const json& record : records) {
    const auto current = std::count_if(digests.begin(), digests.end(), [&](const auto& room) {
      const json entry = entry_of(record, room.first, digests);
      return !entry.is_null() && is_current(entry, room.first, digests);
    });
    text += fmt::format("\n{}: {} of {} mechanisms with device kernels are recorded from today's sources.\n",
                        record.at("device").get<std::string>(), current, digests.size());
  }

  Table table = Table().words({"mechanism", "form", "gradients"}).numbers({"sites", "tiles", "mutants"});
  for (const json& record : records) table.words({record.at("device").get<std::string>()});
  std::string sections;
  for (const Room* room : rooms()) {
    const KernelRoom* kernels = find_kernels(kernel_rooms(), room->name);
    if (kernels == nullptr) continue;
    for (const KernelForm& form : kernels->forms) {
      table.rows.push_back(row_of(*room, form, records, digests));
      sections += section(*room, form, records, digests);
    }
  }
  return text + "\n" + table.markdown(Table::Cells::markup) + sections;
}

}  // namespace assay
