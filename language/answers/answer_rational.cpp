#include "language/answers/answer_body.hpp"

namespace assay::language {
template BasicAnswer<Rational> answer(const Posed<double>&, bool);
template BasicAnswer<Rational> answer(const Posed<std::string>&, bool);
}  // namespace assay::language
