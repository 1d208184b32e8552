#include "language/answers/answer_body.hpp"

namespace assay::language {
template BasicAnswer<Mp200> answer(const Posed<double>&, bool);
template BasicAnswer<Mp200> answer(const Posed<std::string>&, bool);
}  // namespace assay::language
