#include "tools/pages/arguments_page.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "arguments/file_case.hpp"
#include "arguments/registry.hpp"
#include "judge/court/argument_form.hpp"
#include "kernels/arguments/device_forms.hpp"
#include "kernels/arguments/rooms.hpp"

namespace assay {
namespace {

using arguments::Argument;
using arguments::Facts;
using arguments::Group;
using arguments::Part;

constexpr std::string_view opening =
    R"(<!-- written by `assay-lab docs`; edit arguments/registry.cpp and tools/pages/arguments_page.cpp instead -->

# Arguments

What real kernels take beside q, k and v: scales, caps, biases, sinks, packed sequences, raw gates, pages.
`assay oracle` answers cases with them exactly, values and gradients, and `assay check` judges kernels that take them. A case without any of these names means what it meant.

```
assay case softmax_attention --shape 1,24/40,4/2,16 --param soft_cap=30 --with sink --with lse -o case.safetensors
assay check case.safetensors out.safetensors --mutants
assay oracle cases.json -o answers.json
```

- An argument is defined once, as a program of [the mechanism language](mechanism-language.md): [arguments/programs](../arguments/programs). Programs are joined,
  front end and recurrence and what follows, so that gradients run through all of it by the language's own rules.
- An argument that a mechanism does not take is refused with its name and the reason; so is a name that nobody knows. The status is DOMAIN.
- Rows outside of every sequence are padding: inputs and cotangents there may be "nan", outputs and gradients are null. Gradients of what sequences share are summed.
- A row that sees nothing has o = 0, lse = -inf and no gradient; with a sink its lse is the sink.
- `assay check` judges such cases by evidence model: draws of the joined program, each operand of a product off by one rounding and every operation by one of fp32.
  Where a tile program of ours takes the arguments (T below) it judges by contract, too: `--contract flash_attention`. `--mutants` says which errors in the joined formula the case would have failed.
- Front ends of recurrences are launches in front of the recurrence's own, with sites of their own. `unit` is what a norm leaves in, `length` what it divides by, `gate` a log decay, `strength` a beta between sigmoid and state, `dt` a step.
  A kernel that promises less says so: a contract with `{"length": "bf16"}`. States inside of a sequence are calls that continue one another.
- `assay-lab mutants --arguments` plants the errors of published kernels in these programs and in what calls them, and `check --why` knows them; [published bugs](published-bugs.md), one by one.
- `check` says which arguments a kernel might have left out of this case unseen (`cannot see`), `--shrink` drops those that a failure does not need, `assay suite --with sink --param soft_cap=30` has
  eight cases with them, `assay report --style short_sequences --with sink` judges our kernels. Golden files with them are in [fixtures/arguments](../fixtures/arguments). In Python they are [arguments of `assay.case`](python.md#arguments-of-real-kernels).

## Names

Shapes are of one head of one sequence; heads stand in front of all axes, sequences in front of heads.
)";

constexpr std::string_view keys_chosen = R"(
## Chosen keys

Every row has a list of the keys that it may see: what an indexer chose in DeepSeek's sparse attention, NSA and MoBA. `topk_indices` has the lists, `topk_length` says how much of each counts.
The answer is that of a mask which admits what the lists name. Windows, masks, caps, sinks and pages are as they are without lists, and so are gradients.

- An entry is a key's number in the row's own sequence, from 0, wherever that lies in a pack or in pages. Kernels that count through the pack or the cache are handed other numbers.
- -1 is no key. A list of nothing else leaves its row without keys: o = 0, and lse is -inf or the sink. fla's `naive_dsa` has NaN there, and fails.
- Entries behind `topk_length` are not looked at, and may be anything.
- An entry that counts and names no key is refused. So is a key or block that a list names twice: FlashMLA and fla's `parallel_nsa` count it twice, fla's `naive_dsa` once, and no top-k has it.
- Keys that no list names may be NaN, and are in cases that `assay case` writes: a kernel that reads them is found. Their gradients are 0, and judged.
- [B, T, H, n] has lists for H heads, which divide those of q: one, those of k, or all. [B, T, n] is one list for all of them. `topk_length` is [B, T], or [B, T, H].
- With `topk_block_size` S an entry b names keys bS to bS + S - 1, as far as there are keys: `block_indices` and `block_counts` of NSA, blocks of MoBA.
- A causal mask hides chosen keys, too; cases of FlashMLA, which has none, say `causal=false`.

```
assay case softmax_attention --shape 1,24/40,4/1,32,16 --param value_dim=16 --param causal=false --with topk_indices --with topk_length --with sink -o case.safetensors
```

One row in JSON, which sees keys 2 and 0 alike, so that o is (5 + 3) / 2 = 4 and lse is ln 2. Nobody chose key 1:

```json
{"format": "assay-cases", "version": 1, "cases": [{"id": "two keys", "mechanism": "softmax_attention", "params": {"scale": "1", "causal": false},
  "inputs": {"q": [["0"]], "k": [["1"], ["nan"], ["1"], ["1"]], "v": [["3"], ["nan"], ["5"], ["7"]], "topk_indices": [[2, -1, 0, 3]], "topk_length": [3]},
  "cotangents": {"lse": ["0"]}}]}
```
)";

constexpr std::string_view caches = R"(
## Caches as stored

Keys and values of a quantised cache are codes: numbers in the case's dtype. `k_scale` and `v_scale` say what they are multiples of: one scale for all, for a head, for a token of a head, or for a block of `scale_block`.

- In files scales are [H], [H, T] or [H, T, blocks], the rows of all sequences one after the other. Those of keys in pages are [pages, S, H] or [pages, S, H, blocks], of `bhtd` [pages, H, S, ...]; their blocks have one row.
- `scale_layout` says where scales of blocks lie in a file. It changes no answer, and gradients of scales lie as the scales do. `linear` is by rows and columns, as JSON has them.
- `swizzled_4x4` is how vLLM and FlashInfer store `v_scale` for kernels of trtllm-gen; `k_scale` lies by rows and columns. Scale c of the n of token t is in row 4 floor(t / 4) + floor(4 c / n), column 4 (c mod n/4) + t mod 4.
  n and the rows of a page, or of all sequences where there are none, are multiples of 4.
- `swizzled_128x4` is the layout of products with scales of blocks in cuBLAS and TensorRT-LLM: rows padded to 128 and columns to 4, in tiles of 512 numbers, those of the same rows one after the other.
  Scale c of row r is number 16 (r mod 32) + 4 floor((r mod 128) / 32) + c mod 4 of its tile. Padding is 0 in cases that `assay case` writes, and not read. Scales of pages do not lie so.
- A kernel that reads swizzled scales by rows and columns finds a number of the right size for each block. `check` says what it looks like: `v_scale read linearly`.

```
assay case softmax_attention --shape 2,4/40,8/2,64 --style nvfp4 --with page_table=16 --with lengths_k=40,24 --param scale_layout=swizzled_4x4 -o cache.safetensors
assay case softmax_attention --shape 2,4/40,8/2,64 --style fp8_per_token_head --with page_table=16 -o cache.safetensors
```
)";

constexpr std::string_view files = R"(
## Files

`assay case` writes cases with arguments: what is a setting as `--param NAME=VALUE`, what is a tensor as `--with NAME` (drawn) or `--with NAME=NUMBERS`, one for all or one for each. `--with lse` adds the cotangent of lse.
Names are those above, cotangents `d_o`, `d_lse`, ..., gradients `d_q`, `d_sink`, ...

- Tensors with a row for every token lie as `__metadata__.layout` says (`--layout`): `bthd` [B, T, H, d], which is the default, `bhtd` [B, H, T, d], or `thd` [T, H, d], packed. Pages are [pages, S, H, d], of `bhtd` [pages, H, S, d].
- States have sequences first, [N, H, K, V] (`v_first`: [N, H, V, K]); N is B where there is no `cu_seqlens`. Everything else lies as in JSON, heads first, and the batch shares it: `sink` [H], `dt_bias` [H, K], scales [H, ...].
- `bias` and `mask` are [Tq, Tk], [H, Tq, Tk] or [B, 1 or H, Tq, Tk]; `documents_q` [Tq] or [B, Tq]; `topk_indices` and `topk_length` have rows ([chosen keys](#chosen-keys)). Rows that `state_at` names count through the batch.
- Integers are I32 or I64, `mask` BOOL or U8. `cu_seqlens` need a batch of one; `lengths` of a batch count the rows of each sequence.
- Padding is NaN in cases that `assay case` writes, and nobody judges what a kernel leaves there. `lse` and the gradients of slopes, of scales and of settings are judged where the answer has them, `lse` always where the case has `d_lse`.

Styles that random numbers do not have, `--style`:

)";

constexpr std::string_view closing = R"(
## Components

Mechanisms of their own; in files without heads: x [B, T, D]. `assay case short_conv --shape B,T,1,D,W`.

| mechanism | inputs | params |
| --- | --- | --- |
| `short_conv` | `x` [T][D], `weight` [D][W], `bias` [D], `initial_state` [D][W - 1], the last inputs, oldest first; `cu_seqlens`, `lengths` | `activation`: silu, none |
| `gated_rmsnorm` | `x`, `z` [T][D], `weight` [D] | `eps`, `norm_before_gate` (true), `activation`: silu, sigmoid; `group_size` |
| `quantize` | `x` [R][C], `tensor_scale` of nvfp4 | `format`: fp8_e4m3, fp8_e5m2, mxfp8_e4m3, mxfp8_e5m2, nvfp4; `scale_block`, `scale_rounding` |

`quantize` gives `codes`, `scales`, `dequantized` and, for nvfp4, `tensor_scale`; it decides ties in rational numbers and has no gradient.
Of zeros alone, whose `tensor_scale` would be 0, it is 1 in nvfp4, and scales and codes are 0.
A cast goes to the nearest code, ties to the even one, and saturates.

## What programs cannot say

Three numbers of a case are -inf, which programs do not take: a bias of -inf is a mask, a sink of -inf is no sink, and the lse of a row that sees nothing is printed for
a zero. Packing, pages, blocks of scales and transposed states are lists of which number of the case a program reads ([arguments/plan.hpp](../arguments/plan.hpp)).
)";

struct Section {
  Group group;
  std::string_view title;
};
constexpr Section sections[] = {
    {Group::scores, "Scores and what a row sees"},
    {Group::sink, "Sink"},
    {Group::operands, "Operands"},
    {Group::chosen, "Lists of keys"},
    {Group::sequences, "Sequences"},
    {Group::both_sequences, "Sequences of queries and of keys"},
    {Group::states, "States"},
    {Group::gate, "Gates"},
    {Group::log_gate, "Their parameters"},
    {Group::write_gate, "Write strength"},
    {Group::norm, "Normalisation"},
    {Group::step, "Step, skip and output gate"},
};

std::vector<Facts> mechanisms() {
  std::vector<Facts> list;
  for (const Room* room : rooms()) list.push_back(arguments::facts_of(std::string(room->name)));
  for (const char* component : {"short_conv", "gated_rmsnorm", "quantize"})
    list.push_back(arguments::facts_of(component));
  return list;
}

const Argument& one_of(Group group) {
  for (const Argument& argument : arguments::all_arguments())
    if (argument.group == group && argument.name != "scale") return argument;
  return arguments::all_arguments().front();
}

std::string names_table() {
  std::string text;
  for (const Section& section : sections) {
    text += "\n### " + std::string(section.title) + "\n\n| name | is | what |\n| --- | --- | --- |\n";
    for (const Argument& argument : arguments::all_arguments())
      if (argument.group == section.group)
        text += "| `" + std::string(argument.name) + "` | " +
                (argument.part == Part::params   ? "param"
                 : argument.part == Part::inputs ? "input"
                                                 : "output") +
                " | " + std::string(argument.what) + " |\n";
  }
  return text;
}

std::string styles_table() {
  std::string text = "| style | what |\n| --- | --- |\n";
  for (const arguments::ArgumentStyle& style : arguments::argument_styles())
    text += "| `" + std::string(style.name) + "` | " + std::string(style.summary) + " |\n";
  return text;
}

bool has_tile_program(const Facts& facts) {
  return find_argument_forms(facts.name + std::string(arguments::room_suffix)) != nullptr;
}

bool has_launches(const Facts& facts) {
  return std::ranges::any_of(device_forms, [&](const DeviceForm& form) { return form.mechanism == facts.name; });
}

/// Whether it takes any.
bool takes_some(const Facts& facts) {
  const auto all = arguments::all_arguments();
  return std::any_of(all.begin(), all.end(),
                     [&](const Argument& argument) { return arguments::why_not(facts, argument).empty(); });
}

std::string matrix() {
  std::string
      text =
          "\n## Who takes what\n\nFrom the table that refuses; a test has every tile program take what the table says. "
          "O: `assay oracle` answers it, in JSON and in files; M: `assay check` judges it, by evidence model; T: a "
          "tile "
          "program takes it, and contracts judge it; C: so do its launches on a device, sequence by sequence "
          "([record](../records/argument-kernels.md)).\n\n"
          "| argument |",
      line = "\n| --- |";
  std::vector<Facts> columns = mechanisms();
  std::map<std::string, std::vector<std::string>> reasons;
  for (const Facts& facts : columns)
    for (const Section& section : sections)
      if (const std::string why = arguments::why_not(facts, one_of(section.group)); !why.empty())
        reasons[why].push_back(facts.name);
  std::erase_if(columns, [](const Facts& facts) { return !takes_some(facts); });
  for (const Facts& facts : columns) text += " `" + facts.name + "` |", line += " --- |";
  text += line + '\n';
  for (const Argument& argument : arguments::all_arguments()) {
    text += "| `" + std::string(argument.name) + "` |";
    for (const Facts& facts : columns)
      text += !arguments::why_not(facts, argument).empty() ? " |"
              : !has_tile_program(facts)                   ? " O M |"
              : has_launches(facts)                        ? " O M T C |"
                                                           : " O M T |";
    text += '\n';
  }
  text += "\nThe reasons that refusals give:\n\n";
  for (const auto& [why, names] : reasons) {
    std::string list, last;
    for (const std::string& name : names)
      if (name != last) list += (list.empty() ? "`" : ", `") + name + '`', last = name;
    text += "- " + why + ": " + list + '\n';
  }
  return text;
}

/// Channels that a form on the CPU has room for, as it says itself.
int widest(const KernelForm& form, bool of_values, bool with_gradients) {
  constexpr int any = 4096;
  int last = 0;
  for (int d = 64; d <= any; d += 64) {
    const int K = of_values ? 64 : d, V = of_values ? d : 64;
    Problem problem;
    problem.inputs = {{"q", Array({1, 1, K})},
                      {"k", Array({1, 1, K})},
                      {"v", Array({1, 1, V})},
                      {"rho", Array({1, 1, K})},
                      {"bandwidth", Array({}, {1})}};
    if (with_gradients) problem.cotangents = {{"o", Array({1, 1, V})}};
    if (form.obstacle(problem).empty()) last = d;
  }
  return last;
}
std::string up_to(const KernelForm& form, bool with_gradients) {
  const int K = widest(form, false, with_gradients), V = widest(form, true, with_gradients);
  return K == V ? std::to_string(K) : std::to_string(K) + (V >= 4096 ? ", any V" : ", V " + std::to_string(V));
}

/// How wide heads may be.
std::string heads_table() {
  std::string text =
      "\n## Heads\n\nChannels of keys and values that tile programs with arguments have room for; on a device any "
      "multiple of 8, in bf16 alone beyond 64 or 128.\nA front end's room is its recurrence's.\n\n"
      "| mechanism | form | on the CPU | forward alone | on a device | forward alone |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  for (const Facts& facts : mechanisms()) {
    const KernelRoom* room = tile::kernel_rooms::with_arguments(facts.name);
    if (room == nullptr) continue;
    for (const KernelForm& form : room->forms) {
      const auto* const on_device = std::ranges::find_if(
          device_forms, [&](const DeviceForm& d) { return d.mechanism == facts.name && d.form == form.name; });
      const bool there = on_device != std::end(device_forms);
      text += "| " + facts.name + " | " + std::string(form.name) + " | " +
              (form.has_gradients ? up_to(form, true) : "") + " | " + up_to(form, false) + " | " +
              (there && on_device->widest > 0 ? std::to_string(on_device->widest) : "") + " | " +
              (there ? std::to_string(on_device->widest_forward) : "") + " |\n";
    }
  }
  return text;
}

}  // namespace

std::string arguments_page() {
  return std::string(opening) + names_table() + std::string(keys_chosen) + std::string(caches) + std::string(files) +
         styles_table() + matrix() + heads_table() + std::string(closing);
}

}  // namespace assay
