#include "judge/forms/sequential.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "oracles/core/room.hpp"
#include "oracles/scalars/emulated.hpp"

namespace assay {

namespace {

constexpr tile::SiteTable::Init site_list[] = {{"op", tile::Role::accumulator}};
constexpr tile::SiteTable sites{site_list};
constexpr std::string_view tiles[] = {"1"};

constexpr tile::SiteTable::Init recurrent_list[] = {{"op", tile::Role::accumulator},
                                                    {"S", tile::Role::accumulator},
                                                    {"G", tile::Role::accumulator},
                                                    {"final", tile::Role::accumulator},
                                                    {"out", tile::Role::output}};
constexpr tile::SiteTable recurrent_sites{recurrent_list};
constexpr std::string_view no_tiles[] = {"none"};

std::string no_obstacle(const Problem&) { return ""; }

/// Whether the room's gradients of that input are as wide as its sums: those of states, gates and ridges, which no
/// product reads.
bool has_wide_gradient(const Room& room, const std::string& input) {
  constexpr Domain narrow[] = {Domain::query, Domain::key, Domain::value, Domain::probe};
  const auto inputs = room.inputs();
  return std::none_of(inputs.begin(), inputs.end(), [&](const RoomFacts::Ranked& r) {
    return r.field.name == input && std::find(std::begin(narrow), std::end(narrow), r.field.domain) != std::end(narrow);
  });
}

/// The answer of `emulated`, on this thread alone. Site `op` and, where the policy has them, `P` for what a product
/// reads, `S` and `G` for what is carried from token to token and back, `final` for the states that leave and `out` for
/// all that leaves else (where there is no `final`, for everything). Throws what the room throws on bad input, and
/// Refusal where a number overflows.
template <class F>
Answer run_in(const Room& room, const Problem& problem, const Policy& policy, F&& emulated) {
  const auto format_at = [&](std::string_view site) {
    return policy.sites.find(site) < 0 ? Format::exact : policy.sites.at(site);
  };
  const bool carries = policy.sites.find("final") >= 0;
  Answer answered;
  {
    const Format operations = policy.sites.at("op");
    const EmulatedArithmetic arithmetic(
        {operations, format_at("P"), format_at("S"), format_at("G"), carries && operations == Format::fp32},
        policy.rounding, policy.seed);
    answered = emulated(problem);
  }
  RandomBits random{RandomBits{policy.seed}.at(0), 0};
  const Format out = format_at("out"), state = carries ? policy.sites.at("final") : out,
               wide = carries ? Format::exact : out;
  store(answered.outputs, policy, random,
        [&](const std::string& name) { return name.starts_with("final_") ? state : out; });
  store(answered.gradients, policy, random,
        [&](const std::string& name) { return has_wide_gradient(room, name) ? wide : out; });
  return answered;
}

Answer run_listed(const Problem& problem, const Policy& policy, int) {
  const Room& room = listed_room(problem.mechanism);
  return run_in(room, problem, policy, [&](const Problem& p) { return room.emulated(p); });
}

constexpr KernelForm sequential = {
    "sequential", "the recurrence in the arithmetic of the contract", sites, tiles, {}, true, no_obstacle, run_listed};
constexpr KernelForm recurrent = {
    "recurrent", "token by token, no products of blocks", recurrent_sites, no_tiles, {}, true, no_obstacle, run_listed};

constexpr tile::SiteTable::Init factor_list[] = {{"P", tile::Role::operand}, {"out", tile::Role::output}};
constexpr tile::SiteTable with_factors = sites.with(factor_list);
constexpr KernelForm product_sum = {"product_sum",
                                    "row by row, D = sum_j P_ij dP_ij",
                                    with_factors,
                                    tiles,
                                    {},
                                    true,
                                    no_obstacle,
                                    [](const Problem& problem, const Policy& policy, int) {
                                      return run_in(listed_room(problem.mechanism), problem, policy,
                                                    emulated_product_sum);
                                    }};

}  // namespace

const KernelForm* sequential_form(std::string_view room) {
  return find_kernels(kernel_rooms(), room) != nullptr ? &sequential : nullptr;
}

const KernelForm* recurrent_form(std::string_view room) {
  // Attention sees all keys of a row at once: nothing is carried.
  constexpr std::string_view attention[] = {"softmax_attention", "parallax", "lla"};
  if (std::find(std::begin(attention), std::end(attention), room) != std::end(attention)) return nullptr;
  return find_kernels(kernel_rooms(), room) != nullptr ? &recurrent : nullptr;
}

std::vector<const KernelForm*> forms_of(const KernelRoom& kernels) {
  std::vector<const KernelForm*> forms;
  for (const KernelForm& form : kernels.forms) forms.push_back(&form);
  if (const KernelForm* by_token = recurrent_form(kernels.name)) forms.push_back(by_token);
  return forms;
}

bool is_reference(const KernelForm& form) { return form.sites.find("op") >= 0; }

const KernelForm* product_sum_form(std::string_view room) {
  return room == "softmax_attention" ? &product_sum : nullptr;
}

}  // namespace assay
