#include "judge/programs/program_form.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "arguments/listed_room.hpp"
#include "arguments/programs/library.hpp"
#include "judge/contract/contract.hpp"
#include "judge/forms/sequential.hpp"
#include "language/answers/answer.hpp"
#include "language/equal.hpp"
#include "language/evaluate/site_rounding.hpp"
#include "language/program/marked.hpp"
#include "language/room.hpp"
#include "oracles/core/make_room.hpp"
#include "oracles/core/memo.hpp"
#include "oracles/scalars/emulated.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using language::Mechanism;

constexpr tile::SiteTable::Init own_sites[] = {
    {"op", tile::Role::accumulator}, {"final", tile::Role::accumulator}, {"out", tile::Role::output}};

/// A form that was named.
struct Entry {
  std::string file, mechanism, summary;
  std::pair<std::shared_ptr<const Mechanism>, std::shared_ptr<const Mechanism>> mechanisms;  ///< the program, the form
  tile::SiteTable sites{own_sites};
  std::string chunk;
  std::array<std::string_view, 1> tiles;
  std::unique_ptr<KernelForm> kernel;
};

constexpr const char *token_by_token = "token-by-token", *what_is_read = "factors";
constexpr std::size_t longest_site = sizeof(tile::SiteTable::Entry::name) - 1;

void collect(const language::Block& block, std::set<std::string>& sites) {
  for (const language::Node& node : block.nodes) {
    if (node.op == language::Op::round) sites.insert(node.attributes.spec);
    if (node.op == language::Op::scan) collect(*node.attributes.body, sites);
  }
}

/// The written length of its chunks, as a tile shape is called.
std::string chunk_of(const language::Program& form) {
  for (const language::Input& input : form.inputs)
    if (const auto& axes = input.type.axes; axes.size() > 1 && !axes[0].name.empty() && axes[1].name.empty())
      return std::to_string(axes[1].written);
  return "none";
}

/// Whether kernels store a gradient of that input in the precision: those of what products read. States, and what is a
/// number of every token, are as wide as sums, and so are decays.
bool leaves_narrow(const Mechanism& program, const std::string& name) {
  for (const language::Input& input : program.program.inputs) {
    if (input.name != name) continue;
    return input.domain != "log_decay" && input.type.axes.size() > 1 && program.walks_tokens(input.type);
  }
  return false;
}

}  // namespace

tile::SiteTable sites_of_form(const Mechanism& form, const std::string& file) {
  std::set<std::string> marks;
  collect(*form.program.body, marks), collect(*form.gradient.body, marks);
  tile::SiteTable table(own_sites);
  for (const std::string& mark : marks) {
    const auto groups = site_groups();
    const bool taken = table.find(mark) >= 0 ||
                       std::any_of(groups.begin(), groups.end(), [&](const SiteGroup& g) { return g.name == mark; });
    require(!taken, file, ": round at ", mark, ": contracts use that name for something else; choose another");
    require(mark.size() <= longest_site, file, ": round at ", mark, ": names of sites have at most ", longest_site,
            " characters");
    require(table.size < tile::SiteTable::capacity, file, ": more than ", tile::SiteTable::capacity - table.size,
            " sites");
    tile::SiteTable::Entry& entry = table.entries[table.size++];
    std::copy(mark.begin(), mark.end(), std::begin(entry.name));
    entry.role = tile::Role::operand;
  }
  return table;
}

Answer run_as_form(const Mechanism& program, const Mechanism& form, const Problem& problem, const Policy& policy) {
  const Problem of_form = language::problem_of_form(program.program, form.program, problem);
  language::SiteRounding::Formats formats;
  for (int i = 0; i < policy.sites.size; ++i)
    formats.emplace(policy.sites.entries[i].view(), policy.sites.entries[i].format);
  if (policy.stats != nullptr)  // who asks wants to know which sites round, not how often
    for (const auto& [site, format] : formats)
      if (format != Format::exact) ++(*policy.stats)[site].roundings;
  const RandomBits random{policy.seed};
  BasicAnswer<Emulated> answered;
  {
    const Format operations = formats.at("op");
    const EmulatedArithmetic arithmetic(
        {.operations = operations, .approximate_exponentials = operations == Format::fp32}, policy.rounding,
        random.at(0));
    const language::SiteRounding rounding(formats, policy.rounding, {random.at(1), 0});
    const language::Posed<double> posed(form, of_form);
    answered = language::answer<Emulated>(posed, posed.has_cotangents());
  }
  RandomBits leaving{random.at(2), 0};
  Answer left = detail::doubles_of(answered);
  store(left.outputs, policy, leaving,
        [&](const std::string& name) { return formats.at(name.starts_with("final_") ? "final" : "out"); });
  store(left.gradients, policy, leaving,
        [&](const std::string& name) { return leaves_narrow(program, name) ? formats.at("out") : Format::exact; });
  return language::answer_of_program(program, form, problem, std::move(left));
}

namespace {

// ---- forms that were named

/// Calls what it is handed, which makes an entry's mechanisms, if it is not known.
template <class Make>
std::shared_ptr<const Entry> entry_of(const std::string& file, const std::string& mechanism, Make&& make) {
  static Memo<Entry> known(64);
  return known.find(file + '\n' + mechanism, [&] {
    auto entry = std::make_shared<Entry>();
    entry->file = file, entry->mechanism = mechanism;
    entry->mechanisms = make();
    const language::Program& form = entry->mechanisms.second->program;
    entry->summary = "the program " + form.digest();
    entry->sites = sites_of_form(*entry->mechanisms.second, file);
    entry->chunk = chunk_of(form);
    entry->tiles = {entry->chunk};
    entry->kernel = std::make_unique<KernelForm>(
        KernelForm{entry->file,
                   entry->summary,
                   entry->sites,
                   entry->tiles,
                   {},
                   true,
                   [](const Problem&) { return std::string(); },
                   {entry.get(), [](const void* own, const Problem& problem, const Policy& policy, int) {
                      const auto& [ours, theirs] = static_cast<const Entry*>(own)->mechanisms;
                      return run_as_form(*ours, *theirs, problem, policy);
                    }}});
    return entry;
  });
}

std::shared_ptr<const Entry> find_entry(const std::string& file, const std::string& mechanism) {
  return entry_of(file, mechanism, [&] {
    auto program = language::find_mechanism(mechanism), form = language::find_mechanism(file);
    require(form != nullptr, "--form: ", file, ": not the file of a program");
    require(program != nullptr, "--form: ", mechanism, " is no program, and ", file,
            " can be a form of programs alone");
    return std::pair(std::move(program), std::move(form));
  });
}
std::shared_ptr<const KernelForm> kernel_of(std::shared_ptr<const Entry> entry) {
  const KernelForm* kernel = entry->kernel.get();
  return {std::move(entry), kernel};
}

}  // namespace

bool is_program_form(std::string_view name) { return language::program_path(name) > 0; }

std::shared_ptr<const KernelForm> program_form(const std::string& file, const std::string& mechanism) {
  return kernel_of(find_entry(file, mechanism));
}

std::shared_ptr<const KernelForm> own_form(const std::string& mechanism) {
  return kernel_of(entry_of(token_by_token, mechanism, [&] {
    auto program = language::find_mechanism(mechanism);
    require(program != nullptr, mechanism, " is no program");
    auto form = std::make_shared<const Mechanism>(with_factors_marked(*program));
    return std::pair(std::move(program), std::move(form));
  }));
}

Mechanism with_factors_marked(const Mechanism& program) {
  return Mechanism(language::with_operands_marked(program.program, what_is_read),
                   language::with_operands_marked(program.gradient, what_is_read));
}

namespace {

/// Whether the form has all that the problem says, and is of the program for these settings.
bool computes(const language::Program& form, const language::Program& program, const Problem& problem) {
  for (const auto& [name, array] : problem.inputs)
    if (form.input(name) == nullptr) return false;
  const language::Program& plain = *arguments::find_mechanism_program(problem.mechanism);
  return std::ranges::all_of(program.settings, [&](const auto& setting) {
    return form.settings.contains(setting.first) ||
           language::spelled(setting.second, "") == language::spelled(plain.settings.at(setting.first), "");
  });
}

}  // namespace

std::vector<PublishedForm> published_forms(const Problem& problem) {
  constexpr std::size_t most_work = std::size_t{1} << 24;
  const std::string& mechanism = problem.mechanism;
  const std::shared_ptr<const Room> room = find_room(mechanism);
  const auto k = problem.inputs.find("k");
  if (room == nullptr || k == problem.inputs.end()) return {};
  const Params settings = arguments::settings_of(room->inputs(), problem);
  const language::Program* program = arguments::find_mechanism_program(mechanism, settings);
  if (program == nullptr) return {};
  std::size_t numbers = 0;
  for (const auto& [name, array] : problem.inputs) numbers += array.data.size();
  const std::vector<int>& keys = k->second.shape;
  const auto channels = static_cast<std::size_t>(keys.back()), tokens = static_cast<std::size_t>(keys.end()[-2]);
  std::vector<PublishedForm> forms;
  const auto add = [&](const language::Program* form, std::size_t per_number, std::string how) {
    if (form == nullptr || numbers * per_number > most_work || !computes(*form, *program, problem)) return;
    std::string name = form->name;
    for (const auto& [setting, value] : form->settings) name += text('-', setting, '-', language::spelled(value, ""));
    const auto make = [&] {
      const Mechanism own(*program), other(*form);
      return std::pair(
          std::make_shared<const Mechanism>(own),
          std::make_shared<const Mechanism>(
              form == program ? with_factors_marked(own)
                              : Mechanism(*form, language::with_operands_marked(other.gradient, what_is_read))));
    };
    forms.push_back({kernel_of(entry_of(name, mechanism, make)), std::move(how)});
  };
  for (const long length : {16L, 32L, 64L}) {
    Params params = settings;
    params["chunk"] = length;
    add(arguments::find_mechanism_program(mechanism + "_chunks", params), static_cast<std::size_t>(length),
        text("in chunks of ", length, " by the inverse"));
  }
  add(arguments::find_mechanism_program(mechanism + "_moments", settings), tokens, "by moments");
  if (recurrent_form(mechanism) == nullptr) add(program, tokens * channels, "as its equations are written");
  return forms;
}

void require_equal(const KernelForm& form, const Problem& problem, const Oracle& truth, int threads) {
  const auto entry = find_entry(std::string(form.name), problem.mechanism);
  const auto room = find_room(entry->file);
  for (const language::Distance& d : language::distances(truth, *entry->mechanisms.first, *room, problem, threads))
    require(language::outcome_of(d) == language::Outcome::equal, "--form ", entry->file,
            ": not proven to compute what the mechanism does on this case: ", d.tensor, ": ", language::words_of(d));
}

}  // namespace assay
