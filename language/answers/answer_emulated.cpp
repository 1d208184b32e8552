#include "language/answers/answer_body.hpp"

namespace assay::language {
template BasicAnswer<Emulated> answer(const Posed<double>&, bool);
}  // namespace assay::language
