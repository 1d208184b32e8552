#include "language/answers/answer_body.hpp"

namespace assay::language {
template BasicAnswer<double> answer(const Posed<double>&, bool);
template BasicAnswer<double> answer(const Posed<std::string>&, bool);
template BasicArrays<double> outputs_from(const Posed<double>&, const BasicArrays<double>&);
}  // namespace assay::language
