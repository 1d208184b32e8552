// A reader of a site's letters can read what they stand for.
#include "judge/contract/site_meanings.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "judge/forms/sequential.hpp"
#include "kernels/arguments/rooms.hpp"
#include "kernels/core/kernel_room.hpp"

namespace assay {
namespace {

TEST(SiteMeanings, every_site_of_every_form_has_one_of_its_own) {
  std::set<const SiteMeaning*> used;
  std::vector<std::pair<std::string_view, const KernelForm*>> forms;
  for (const KernelRoom* room : kernel_rooms()) {
    for (const KernelForm* form : forms_of(*room)) forms.emplace_back(room->name, form);
    if (const KernelRoom* more = tile::kernel_rooms::with_arguments(room->name))
      for (const KernelForm& form : more->forms) forms.emplace_back(room->name, &form);
  }
  for (const auto& [room, form] : forms) {
    std::map<std::string_view, std::string_view> seen;
    for (int i = 0; i < form->sites.size; ++i) {
      const std::string_view site = form->sites.entries[i].view();
      const SiteMeaning* meaning = find_meaning(room, form->name, site);
      ASSERT_NE(meaning, nullptr) << room << ' ' << form->name << ' ' << site << " has no meaning";
      const auto [other, is_new] = seen.emplace(meaning->words, site);
      EXPECT_TRUE(is_new) << room << ' ' << form->name << ": " << site << " and " << other->second << " are both "
                          << meaning->words;
      used.insert(meaning);
    }
  }
  for (const SiteMeaning& meaning : site_meanings())
    EXPECT_TRUE(used.contains(&meaning)) << "no form has the site " << meaning.site << " of " << meaning.forms;
}

/// The page of every mechanism has them of each of its forms.
TEST(SiteMeanings, are_said_before_the_letters) {
  EXPECT_EQ(site_in_words("deltanet", "recurrent", "S"), "the state after every token (S)");
  EXPECT_EQ(site_in_words("softmax_attention+arguments", "tiled", "tanh"), "the tangent of a soft-cap (tanh)");
  EXPECT_EQ(site_in_words("deltanet", "chunkwise", "nowhere"), "nowhere");
}

}  // namespace
}  // namespace assay
