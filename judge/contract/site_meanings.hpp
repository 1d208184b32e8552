#pragma once
// Meanings of rounding sites, in plain words. Their letters are those of the formulas at the top of kernels/*/*.hpp.
#include <span>
#include <string>
#include <string_view>

namespace assay {

/// One site's meaning. `forms` are mechanisms, single forms as "mechanism:form", or a form of all mechanisms as
/// "*:form"; none: all others.
struct SiteMeaning {
  std::string_view site, forms, words;
};
std::span<const SiteMeaning> site_meanings();

/// The meaning of a site of a mechanism's form; null if there is none in the list.
const SiteMeaning* find_meaning(std::string_view mechanism, std::string_view form, std::string_view site);

/// "the triangular inverse (Tc)".
std::string site_in_words(std::string_view mechanism, std::string_view form, std::string_view site);

}  // namespace assay
