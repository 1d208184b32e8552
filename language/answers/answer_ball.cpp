#include "language/answers/answer_body.hpp"

namespace assay::language {
template BasicAnswer<Ball> answer(const Posed<double>&, bool);
template BasicAnswer<Ball> answer(const Posed<std::string>&, bool);
}  // namespace assay::language
