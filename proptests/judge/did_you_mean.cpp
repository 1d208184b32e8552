// Names that there are not: what is said of them is in proptests/transcripts/case-files.md and usage.md.
#include "files/did_you_mean.hpp"

#include <gtest/gtest.h>

#include <string>

#include "oracles/core/room.hpp"

namespace assay {
namespace {

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
