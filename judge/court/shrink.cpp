#include "judge/court/shrink.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "reference/core/error.hpp"

namespace assay {
namespace {

using Specs = std::vector<CaseSpec>;

class Search {
 public:
  Search(CaseSpec failing, bool grouped, const std::function<bool(const CaseSpec&)>& fails, int runs)
      : grouped_(grouped), fails_(fails), limit_(runs) {
    found_.spec = std::move(failing);
    tried_.insert(found_.spec.repro());
  }

  Shrunk run() {
    leap();
    to_one_head_of_other_numbers();
    while (!found_.stopped) {
      const CaseSpec before = found_.spec;
      narrow();
      if (found_.spec.repro() == before.repro()) break;
    }
    return found_;
  }

 private:
  /// Whether the case fails; then it is the smallest known.
  bool accept(const CaseSpec& spec) {
    if (found_.stopped || !tried_.insert(spec.repro()).second) return false;
    if (found_.runs == limit_) {
      found_.stopped = true;
      return false;
    }
    ++found_.runs;
    try {
      if (!fails_(spec)) return false;
    } catch (const InputError&) {  // the mechanism or the kernel does not take it
      return false;
    }
    ++found_.failures;
    found_.spec = spec;
    return true;
  }

  /// The smallest of `list`, from small to large, that fails, if failing is monotone; some smaller one if it is not.
  void bisect(const Specs& list) {
    if (list.empty() || accept(list.front())) return;
    for (std::size_t passes = 0, fails = list.size(); fails - passes > 1;) {
      const std::size_t middle = (passes + fails) / 2;
      (accept(list[middle]) ? fails : passes) = middle;
    }
  }
  void first_of(const Specs& list) {
    for (const CaseSpec& spec : list)
      if (accept(spec)) return;
  }
  /// The case as it is, with that changed.
  template <class Change>
  CaseSpec with(Change change) const {
    CaseSpec spec = found_.spec;
    change(spec.shape);
    return spec;
  }
  template <class Set>
  Specs each(const std::vector<int>& values, Set set) const {
    Specs list;
    for (const int n : values) list.push_back(with([&](Shape& shape) { set(shape, n); }));
    return list;
  }

  static void set_tokens(Shape& shape, int n) {
    shape.seq_len = n;
    shape.query_len = std::min(shape.query_len, n);
  }
  static void set_heads(Shape& shape, int heads) { shape.heads = heads, shape.shared_heads = 0; }

  /// Everything small at once, or all but one thing.
  void leap() {
    const auto heads = [](Shape& s) { s.batch = 1, set_heads(s, 1); };
    const auto tokens = [](Shape& s) { set_tokens(s, std::min(s.seq_len, few_tokens)); };
    const auto dims = [](Shape& s) {
      s.key_dim = std::min(s.key_dim, few_dims), s.value_dim = std::min(s.value_dim, few_dims);
    };
    first_of({with([&](Shape& s) { heads(s), tokens(s), dims(s); }), with([&](Shape& s) { tokens(s), dims(s); }),
              with([&](Shape& s) { heads(s), dims(s); }), with([&](Shape& s) { heads(s), tokens(s); }), with(heads),
              with(tokens), with(dims)});
  }

  /// One head of these numbers may hide what others show.
  void to_one_head_of_other_numbers() {
    constexpr std::uint64_t seeds = 4;
    Specs others;
    for (std::uint64_t n = 1; n <= seeds && found_.spec.shape.own() > 1; ++n) {
      others.push_back(with([](Shape& s) { s.batch = 1, set_heads(s, 1); }));
      others.back().seed += n;
    }
    first_of(others);
  }

  /// 1, 2, and what is one short of, at and one beyond a chunk of 16, 32, 64, and their multiples.
  static std::vector<int> boundaries(int below) {
    std::set<int> all = {1, 2, 3};
    for (int chunk = 16; chunk < below + 1; chunk *= 2)
      for (int n = chunk; n <= std::min(below, 3 * chunk); n += chunk) all.insert({n - 1, n, n + 1});
    return {all.begin(), all.lower_bound(below)};
  }
  /// 1, 2, 4, ...
  static std::vector<int> powers(int below) {
    std::vector<int> all;
    for (int n = 1; n < below; n *= 2) all.push_back(n);
    return all;
  }
  static std::vector<int> between(int from, int below) {
    std::vector<int> all;
    for (int n = from; n < below; ++n) all.push_back(n);
    return all;
  }

  void narrow() {
    const Shape& shape = found_.spec.shape;
    bisect(each(powers(shape.batch), [](Shape& s, int n) { s.batch = n; }));
    Specs fewer;
    for (int heads = 1; heads <= std::min(4, shape.heads); heads *= 2)
      for (int shared = 1; shared <= heads; shared *= 2)
        if ((grouped_ || shared == heads) && (heads < shape.heads || shared * shape.batch < shape.shared()))
          fewer.push_back(with([&](Shape& s) { s.heads = heads, s.shared_heads = shared == heads ? 0 : shared; }));
    first_of(fewer);
    bisect(each(boundaries(shape.seq_len), set_tokens));
    const std::vector<int> shorter = boundaries(shape.seq_len);
    bisect(each(between(shorter.empty() ? 1 : shorter.back() + 1, shape.seq_len), set_tokens));
    if (shape.query_len > 0) bisect(each(powers(shape.query_len), [](Shape& s, int n) { s.query_len = n; }));
    bisect(each(powers(std::min(shape.key_dim, shape.value_dim)),
                [](Shape& s, int n) { s.key_dim = n, s.value_dim = n; }));
    bisect(each(powers(shape.key_dim), [](Shape& s, int n) { s.key_dim = n; }));
    bisect(each(powers(shape.value_dim), [](Shape& s, int n) { s.value_dim = n; }));
    CaseSpec plain = found_.spec;
    plain.style = Style::normal;
    accept(plain);
    for (const auto& [name, value] : Params(found_.spec.params)) {
      plain = found_.spec;
      plain.params.erase(name);
      accept(plain);
    }
  }

  bool grouped_;
  const std::function<bool(const CaseSpec&)>& fails_;
  int limit_;
  std::set<std::string> tried_;
  Shrunk found_;
};

}  // namespace

Shrunk shrink(const CaseSpec& failing, bool grouped_heads, const std::function<bool(const CaseSpec&)>& fails,
              int runs) {
  return Search(failing, grouped_heads, fails, runs).run();
}

}  // namespace assay
