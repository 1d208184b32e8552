// How large the terms are that an answer's numbers are sums of.
#include "language/answers/answer_body.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/scalars/sized.hpp"

namespace assay::language {

BasicAnswer<Sized> answer_in_sizes(const Posed<double>& posed, bool gradients, const HeldIn& numbers, int threads) {
  const Mechanism& mechanism = posed.mechanism();
  const Program& program = gradients ? mechanism.gradient : mechanism.program;
  detail::require_memory(program, posed.sizes(), sizeof(Sized));
  std::vector<std::vector<Value<Sized>>> of_head(static_cast<std::size_t>(posed.heads()));
  words::in_parallel(of_head.size(), threads, [&](std::size_t head) {
    Sized::hold_in(numbers);
    const std::array<int, 1> heads{static_cast<int>(head)};
    of_head[head] = evaluate<Sized>(*program.body, posed.template values<Sized>(heads, gradients), posed.sizes());
  });
  Sized::hold_in(numbers);
  BasicAnswer<Sized> result;
  for (int head = 0; head < posed.heads(); ++head) {
    const std::vector<Value<Sized>>& results = of_head[static_cast<std::size_t>(head)];
    detail::require_finite<Sized>(posed, program, results, head);
    detail::add_results(posed, results, head, result);
  }
  return result;
}

}  // namespace assay::language
