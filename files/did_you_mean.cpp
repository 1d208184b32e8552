#include "files/did_you_mean.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "files/input_file.hpp"
#include "files/names.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// Longer ones are no slip of the keyboard.
constexpr std::size_t longest = 64;

using Called = std::pair<std::string_view, std::string_view>;

constexpr Called mechanisms[] = {
    {"gdn", "gated_deltanet"},
    {"gated_delta", "gated_deltanet"},
    {"gated_delta_rule", "gated_deltanet"},
    {"gated_delta_net", "gated_deltanet"},
    {"delta", "deltanet"},
    {"delta_net", "deltanet"},
    {"delta_rule", "deltanet"},
    {"simple_gla", "mamba2"},
    {"mamba", "mamba2"},
    {"ssd", "mamba2"},
    {"lightning_attn", "retnet"},
    {"lightning_attention", "retnet"},
    {"retention", "retnet"},
    {"kimi", "kda"},
    {"kimi_delta_attention", "kda"},
    {"gated_linear_attention", "gla"},
    {"linear_attn", "linear_attention"},
    {"momentum_deltanet", "mdn"},
    {"local_linear_attention", "lla"},
    {"mesa_net", "mesanet"},
    {"attention", "softmax_attention"},
    {"softmax", "softmax_attention"},
    {"flash_attention", "softmax_attention"},
    {"flash_attn", "softmax_attention"},
    {"sdpa", "softmax_attention"},
    {"scaled_dot_product_attention", "softmax_attention"},
};

constexpr Called tensors[] = {
    {"out", "o"},
    {"output", "o"},
    {"attn_output", "o"},
    {"query", "q"},
    {"key", "k"},
    {"value", "v"},
    {"b", "beta"},
    {"g", "log_decay"},
    {"gk", "log_decay"},
    {"decay", "log_decay"},
    {"log_g", "log_decay"},
    {"state", "final_state"},
    {"last_state", "final_state"},
    {"recurrent_state", "final_state"},
    {"ht", "final_state"},
    {"h0", "initial_state"},
    {"init_state", "initial_state"},
    {"sm_scale", "scale"},
    {"softmax_scale", "scale"},
};

template <std::size_t N>
std::string_view called(const Called (&list)[N], std::string_view name) {
  for (const auto& [other, ours] : list)
    if (other == name) return ours;
  return {};
}

/// In small letters, with one kind of separator: "Gated-DeltaNet" is gated_deltanet.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, longest + 1))
    out += c == '-' || c == ' ' || c == '.' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// Letters added, left out, replaced, or exchanged with their neighbours.
std::size_t slips(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest_name(std::string_view typed, const std::vector<std::string>& names) {
  const std::string word = plain(typed);
  if (word.size() < 2 || word.size() > longest) return "";
  // One letter of three may be wrong; words of three letters are too near each other.
  std::size_t fewest = (word.size() < 4 ? 0 : word.size() / 3) + 1;
  std::string nearest;
  for (const std::string& name : names) {
    const std::size_t n = slips(word, plain(name));
    if (n < fewest && n < name.size()) fewest = n, nearest = name;
  }
  constexpr std::size_t telling = 3;  // letters that a beginning has at least
  for (const std::string& name : names)
    if (nearest.empty() && word.size() >= telling && plain(name).starts_with(word)) nearest = name;
  for (const std::string& name : names)
    if (nearest.empty() && name.size() > telling && word.starts_with(plain(name))) nearest = name;
  return nearest;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& names) {
  const std::string name = nearest_name(typed, names);
  return name.empty() ? "" : " (did you mean " + name + "?)";
}

std::string there_is_no(std::string_view typed, const std::vector<std::string>& names) {
  const bool quotes = std::any_of(names.begin(), names.end(),
                                  [](const std::string& name) { return name.find(',') != std::string::npos; });
  const auto word = [quotes](const std::string& name) { return quotes ? "'" + name + "'" : name; };
  return text("there is no ", word(excerpt(typed)), did_you_mean(typed, names), "; there are ", names_in(names, word));
}

std::string mechanism_called(std::string_view name) { return std::string(called(mechanisms, plain(name))); }

std::string tensor_called(std::string_view name) {
  std::string word = plain(name);
  bool gradient = false;
  const auto take = [&](std::string_view prefix, std::string_view suffix) {
    if (gradient || word.size() <= prefix.size() + suffix.size()) return;
    if (!word.starts_with(prefix) || !word.ends_with(suffix)) return;
    word = word.substr(prefix.size(), word.size() - prefix.size() - suffix.size()), gradient = true;
  };
  take("grad_", ""), take("d_", ""), take("", "_grad");
  const auto ours = [](const std::string& other) {
    const std::string_view found = called(tensors, other);
    return found.empty() ? other : std::string(found);
  };
  // "dq", but not every word that begins with a d.
  constexpr std::string_view short_names[] = {"q", "k", "v", "o", "g", "gk", "b", "beta", "h0", "ht", "log_decay"};
  if (!gradient && word.starts_with('d') && std::ranges::find(short_names, word.substr(1)) != std::end(short_names))
    word.erase(0, 1), gradient = true;
  word = ours(word);
  return gradient ? "d_" + word : word;
}

}  // namespace assay
