// Names that there are not: what was probably meant. Slips of the keyboard are in proptests/transcripts.
#include "files/did_you_mean.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "files/case_file.hpp"
#include "oracles/core/room.hpp"

namespace assay {
namespace {

TEST(DidYouMean, what_other_projects_call_mechanisms) {
  for (const auto& [theirs, ours] : {std::pair{"gdn", "gated_deltanet"},
                                     {"GDN", "gated_deltanet"},
                                     {"gated_delta", "gated_deltanet"},
                                     {"Gated-Delta-Rule", "gated_deltanet"},
                                     {"simple_gla", "mamba2"},
                                     {"sdpa", "softmax_attention"},
                                     {"flash_attention", "softmax_attention"},
                                     {"delta_rule", "deltanet"},
                                     {"deltnet", "deltanet"}})
    EXPECT_NE(std::string(unknown_mechanism(theirs).what()).find(text("(did you mean ", ours, "?)")), std::string::npos)
        << unknown_mechanism(theirs).what();
  for (const char* nobody : {"nothing", "rwkv7", "q"})
    EXPECT_STREQ(unknown_mechanism(nobody).what(), text("mechanism '", nobody, "' is not in this build").c_str());
}

/// A tensor of a case file is called by its name there. Single letters are other things elsewhere, and only unknown
/// names are translated.
TEST(DidYouMean, tensors_of_all_rooms_are_called_what_they_are) {
  for (const Room* room : rooms())
    for (const auto& fields : {room->inputs(), room->outputs()})
      for (const RoomFacts::Ranked& ranked : fields) {
        const std::string name(ranked.field.name);
        if (name.size() == 1 && name != "q" && name != "o") continue;
        EXPECT_EQ(tensor_called(name), name);
        EXPECT_EQ(tensor_called("d_" + name), "d_" + name);
      }
}

}  // namespace
}  // namespace assay
