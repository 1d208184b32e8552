#include "language/answers/answer_body.hpp"

namespace assay::language {
template BasicAnswer<Emulated> answer(const Posed<double>&, bool);
template std::vector<Value<Emulated>> Posed<double>::values<Emulated>(std::span<const int>, bool) const;
}  // namespace assay::language
