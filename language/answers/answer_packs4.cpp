#include "language/answers/answer_packs.hpp"

namespace assay::language {
template BasicAnswer<WordBall> answer_in_packs<4>(const Posed<double>&, bool, int);
template BasicAnswer<WordBall> answer_in_packs<4>(const Posed<std::string>&, bool, int);
}  // namespace assay::language
