// The independent judge of gradients: derivatives of the forward program by dual numbers.
#include <algorithm>

#include "language/answers/answer_body.hpp"

namespace assay::language {
namespace {

/// The input with the slopes of a direction.
template <class S>
Value<S> directed(const Value<S>& value, const Array& tangent, int block) {
  std::vector<S> data;
  const std::size_t first = value.layout.count() * static_cast<std::size_t>(block);
  walk<1>({&value.layout}, [&](std::size_t i, const auto& at) {
    data.push_back({value.real(at[0]).value, decltype(S::value)(tangent.data.at(first + i))});
  });
  return Value<S>::of(value.layout, std::move(data));
}

}  // namespace

template <class S>
BasicArrays<S> slopes(const Posed<double>& posed, const Arrays& tangent) {
  const Program& program = posed.mechanism().program;
  detail::require_memory(program, posed.sizes(), sizeof(S));
  for (const auto& [name, array] : tangent)
    require(program.input(name) != nullptr, "tangent: names an input unknown to ", program.name);
  BasicAnswer<S> result;
  for (int head = 0; head < posed.heads(); ++head) {
    const std::array<int, 1> heads{head};
    std::vector<Value<S>> values = posed.values<S>(heads, false);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (const auto d = tangent.find(program.inputs[i].name); d != tangent.end()) {
        const std::size_t blocks = static_cast<std::size_t>(std::max(posed.blocks_of(i), 1));
        require(d->second.data.size() == values[i].layout.count() * blocks, "tangent.", d->first,
                ": expected the shape of the input");
        values[i] = directed(values[i], d->second, posed.block_of(i, head));
      }
    const std::vector<Value<S>> results = evaluate<S>(*program.body, std::move(values), posed.sizes());
    detail::add_results(posed, results, head, result);
  }
  return std::move(result.outputs);
}

template BasicArrays<Dual<Mp50>> slopes(const Posed<double>&, const Arrays&);

}  // namespace assay::language
