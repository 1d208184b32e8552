#include "tools/pages/confidence.hpp"

#include <boost/math/distributions/binomial.hpp>

namespace assay {

using Binomial = boost::math::binomial_distribution<>;

double upper_bound_95(std::uint64_t events, std::uint64_t runs) {
  return events == runs ? 1
                        : Binomial::find_upper_bound_on_p(static_cast<double>(runs), static_cast<double>(events), 0.05);
}

double lower_bound_95(std::uint64_t events, std::uint64_t runs) {
  return events == 0 ? 0
                     : Binomial::find_lower_bound_on_p(static_cast<double>(runs), static_cast<double>(events), 0.05);
}

}  // namespace assay
