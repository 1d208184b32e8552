#pragma once
// The roundings of the marks `round(x, "Tc")` of a program in emulated arithmetic: evidence `form` (docs/judge.md).
#include <map>
#include <string>
#include <utility>

#include "reference/core/format.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay::language {

/// While it lives, numbers in emulated arithmetic are rounded where programs say so, on this thread. One at a time; the
/// one before is back when it ends.
class SiteRounding {
 public:
  using Formats = std::map<std::string, Format, std::less<>>;

  SiteRounding(Formats formats, Rounding rounding, RandomBits random)
      : formats_(std::move(formats)), rounding_(rounding), random_(random), before_(active) {
    active = this;
  }
  SiteRounding(const SiteRounding&) = delete;
  SiteRounding& operator=(const SiteRounding&) = delete;
  ~SiteRounding() { active = before_; }

  /// The one of this thread, or null.
  static SiteRounding* current() { return active; }

  /// Format::exact where nothing is said of the site.
  Format at(const std::string& site) const {
    const auto found = formats_.find(site);
    return found == formats_.end() ? Format::exact : found->second;
  }
  double rounded(double x, Format format) { return round_to(x, format, rounding_, random_.next()); }

 private:
  Formats formats_;
  Rounding rounding_;
  RandomBits random_;
  SiteRounding* before_;
  static inline thread_local SiteRounding* active = nullptr;
};

}  // namespace assay::language
