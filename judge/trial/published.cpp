#include "judge/trial/published.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "arguments/file_case.hpp"
#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "files/new_file.hpp"
#include "judge/court/argument_form.hpp"
#include "judge/court/cache.hpp"
#include "judge/held_out/arguments.hpp"
#include "judge/trial/argument_trial.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

constexpr bool its_own = true, of_its_kind = false;
constexpr std::string_view softmax = "softmax_attention", gated = "gated_deltanet", kda = "kda";

constexpr PublishedThread threads_[] = {
    // caps and sinks
    {"FA#2402", "s tanh(s) in place of c tanh(s / c)", its_own, softmax, "cap", "score_times_its_tanh"},
    {"sglang#33915", "soft-cap dropped on the way", its_own, softmax, "cap", "cap_dropped"},
    {"modular#6198", "sink dropped by the generic path", its_own, softmax, "sink", "sink_dropped"},
    {"FA#1973", "no gradient for the sink", its_own, softmax, "sink", "sink_gradient_missing"},
    {"mlx#3452", "sink: one query differs from many", of_its_kind, softmax, "decode_sink", "sink_in_every_split"},
    {"vllm-metal#550", "sink wrong in two of three paths", of_its_kind, softmax, "sink", "sink_in_base_e"},
    // lse
    {"pytorch#181645", "lse times ln 2", its_own, softmax, "cap", "lse_times_ln_2"},
    {"FA#889", "lse as an output", of_its_kind, softmax, "cap", "lse_off_by_ln_2"},
    {"FA#1137", "lse as an output", of_its_kind, softmax, "documents", "lse_cotangent_dropped"},
    {"pytorch#196678", "NaN gradients below lse = -88", its_own, softmax, "low_lse", "nan_gradients_of_low_lse"},
    {"cudnn-fe#1072", "NaN gradients below lse = -88", its_own, softmax, "low_lse", "nan_gradients_of_low_lse"},
    // masks, biases, alignment, ALiBi
    {"pytorch#158212", "masks and biases", of_its_kind, softmax, "documents", "documents_ignored"},
    {"pytorch#191612", "masks and biases", of_its_kind, softmax, "bias_before_the_scale", "bias_gradient_missing"},
    {"mlx#3360", "masks and biases", of_its_kind, softmax, "masks", "mask_of_the_next_key"},
    {"mlx#2835", "causal from the first key, or from the last", its_own, softmax, "cap", "aligned_at_the_first_key"},
    {"FA#2876", "no gradient for ALiBi's slopes", its_own, softmax, "alibi_in_a_window", "slope_gradient_missing"},
    // packed sequences
    {"FA#2544", "score change left out of the packed backward", of_its_kind, softmax, "packed",
     "slope_of_the_cap_forgotten"},
    {"FA#2562", "backward of a sequence without queries", of_its_kind, softmax, "packed_unequal",
     "no_query_leaves_gradients_unwritten"},
    {"FA#2324", "ends of packed sequences", of_its_kind, softmax, "packed", "key_behind_the_sequence"},
    {"tilelang#2461", "dk takes in lse that nobody wrote", its_own, softmax, "packed", "lse_of_padding_read"},
    {"pytorch#194167", "paged: rows behind the first sequence unwritten", its_own, softmax, "decode_pages",
     "later_sequences_unwritten"},
    // quantised caches
    {"aiter#3498", "scales of a quantised cache", of_its_kind, softmax, "blocks", "scale_of_the_next_block"},
    {"vllm#50085", "swizzled scales of v for a linear reader", its_own, softmax, "nvfp4_swizzled",
     "scale_layout_dropped"},
    {"vllm#55976", "the same, of pages", its_own, softmax, "nvfp4_pages", "scale_layout_dropped"},
    {"vllm#53681", "scales of a quantised cache", of_its_kind, softmax, "mxfp8", "scales_dropped"},
    // wide heads
    {"TE#3216", "dq five times as large at K = 256", its_own, softmax, "wide_heads", "query_gradient_five_times"},
    {"vllm#46952", "latent attention wrong at 32 heads", of_its_kind, softmax, "latent", "queries_of_the_next_head"},
    {"sglang#14936", "latent attention", of_its_kind, softmax, "absorbed", "scale_of_the_absorbed_width"},
    // chosen keys
    {"cudnn-fe#676", "NaN of rows that chose nothing", its_own, softmax, "empty_choices", "rows_without_keys_are_nan"},
    {"cudnn-fe#385", "dq of chosen keys out of all proportion", of_its_kind, softmax, "chosen",
     "query_gradient_five_times"},
    {"cudnn-fe#421", "the backward's weights without the sink", its_own, softmax, "chosen_latent",
     "sink_left_out_of_the_backward"},
    {"flashinfer#5095", "entries behind the length are seen", its_own, softmax, "choice_lengths",
     "entries_behind_the_length"},
    {"miles#2079", "an entry of -1 read and written", of_its_kind, softmax, "chosen", "missing_entry_is_the_last_key"},
    // front ends
    {"tokenspeed#847", "raw gates", of_its_kind, gated, "softplus", "dt_bias_forgotten"},
    {"FlashKDA#7", "one of two published gates for the other", its_own, kda, "softplus", "gate_of_the_other_kind"},
    {"fla#1107", "bounded gates with and without a_log", of_its_kind, kda, "bounded", "a_log_not_read"},
    {"gym#461", "gradients of saturated gates", of_its_kind, kda, "softplus", "gate_slope_forgotten"},
    {"llama.cpp#237", "error of the size of the answer", of_its_kind, gated, "doubled", "write_strength_not_squashed"},
    {"vllm#53877", "beta rounded between sigmoid and state", its_own, gated, "strength", "strength_in_bf16"},
    {"mlx-lm#1624", "eps 128 times as large", its_own, gated, "keys_near_eps", "eps_of_the_mean"},
    {"maxtext#5098", "another eps in the backward", its_own, gated, "keys_near_eps", "eps_of_the_forward_pass_alone"},
    {"vllm#51779", "norm in bf16 or in fp32", its_own, gated, "norm_in_fp32", "norm_in_bf16"},
    // states
    {"vllm#39273", "a state before the accepted token's", its_own, gated, "packed_states", "states_of_the_call_before"},
    {"tpu-inference#3189", "states at every token, and their layout", of_its_kind, gated, "packed_states",
     "state_gradient_not_transposed"},
    // mechanisms that are programs
    {"fla#29", "RWKV-6: judged as a program, mechanisms/json/rwkv6.json"},
    {"fla#36", "RWKV-6's states: judged as a program, mechanisms/json/rwkv6.json"},
    {"fla#351", "RWKV-7: judged as a program, mechanisms/json/rwkv7.json"},
    {"fla#920", "GDN-2: judged as a program, mechanisms/json/gdn2.json"},
    {"fla#950", "preconditioned KDA: judged as a program, mechanisms/json/preconditioned_kda.json"},
};

/// The kernels that have the thread's fault: planted, or held out.
const KernelRoom& room_with(const PublishedThread& thread, const ArgumentCase& one) {
  const std::string name = std::string(thread.mechanism) + std::string(arguments::room_suffix);
  for (const KernelRoom* room : {find_argument_forms(name), held_out_with_arguments(name)})
    if (room != nullptr)
      for (const KernelForm& form : room->forms)
        if (form.name == one.form && std::any_of(form.mutants.begin(), form.mutants.end(),
                                                 [&](const Mutant& mutant) { return mutant.name == thread.mutant; }))
          return *room;
  throw InputError(text("--published: ", thread.thread, ": this program has no fault ", thread.mutant, " in ",
                        thread.mechanism, ' ', one.form));
}

PublishedTrial tried(const PublishedThread& thread, Cache& cache) {
  PublishedTrial trial{&thread, {}, {}, {}, {}};
  trial.healthy = trial.planted = Verdict::unsupported;
  if (thread.mutant.empty()) return trial;
  const std::vector<ArgumentCase> cases = argument_cases(thread.mechanism);
  const auto one = std::ranges::find_if(cases, [&](const ArgumentCase& c) { return c.name == thread.case_name; });
  require(one != cases.end(), "--published: ", thread.thread, ": there is no case ", thread.case_name);
  trial.command = command_of(one->request);
  const std::string contract(name_of(one->request.precision));
  const KernelRoom& healthy = *find_argument_forms(std::string(thread.mechanism) + std::string(arguments::room_suffix));
  trial.healthy = judged_answer(*one, healthy, "", contract, &cache).verdict;
  const Judged judged = judged_answer(*one, room_with(thread, *one), thread.mutant, contract, &cache);
  trial.planted = judged.verdict, trial.reason = judged.reason;
  for (const ReportRow& row : judged.rows)
    if (row.judgement.verdict == Verdict::fail && trial.reason.empty())
      trial.reason = row.tensor + ": " + row.judgement.reason;
  return trial;
}

}  // namespace

std::span<const PublishedThread> published_threads() { return threads_; }

std::vector<PublishedTrial> try_published(const std::vector<std::string>& names, int threads,
                                          const std::function<void(std::size_t, std::string_view)>& done) {
  std::vector<const PublishedThread*> chosen;
  std::vector<std::string> known;
  for (const PublishedThread& thread : threads_) {
    known.emplace_back(thread.thread);
    if (names.empty() || std::find(names.begin(), names.end(), thread.thread) != names.end()) chosen.push_back(&thread);
  }
  for (const std::string& name : names)
    require(std::find(known.begin(), known.end(), name) != known.end(), "--published: there is no ", excerpt(name),
            did_you_mean(name, known));
  // Truth and sigma of a case that several threads are about: in a folder of this process.
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("assay_published_" + std::to_string(getpid()));
  const FolderEnd cleanup(&folder);
  Cache cache(folder);
  std::vector<PublishedTrial> trials(chosen.size());
  std::mutex one_at_a_time;
  words::in_parallel(chosen.size(), threads, [&](std::size_t i) {
    trials[i] = tried(*chosen[i], cache);
    const std::lock_guard lock(one_at_a_time);
    done(chosen.size(), chosen[i]->thread);
  });
  return trials;
}

}  // namespace assay
