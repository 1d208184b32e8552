#pragma once
// Contracts: which values a kernel may round, and to which format. Some have names, users write others as JSON
// (docs/contracts.md).
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/policy.hpp"
#include "reference/core/format.hpp"

namespace assay {

struct Contract {
  /// A site, or a group of sites, with a format of its own. Later rules override earlier ones.
  struct Rule {
    std::string site;  ///< its name, or a group's
    Format format = Format::fp32;
    bool required = true;     ///< a kernel without it has another contract
    std::string beside = {};  ///< only in kernels that have this site, too; "": in all
    bool stored =
        false;           ///< lies in memory and enters no product: of fp32 it keeps all digits, products in tf32 or not
    bool fixed = false;  ///< its format does not follow the precision
  };

  std::string name, summary;
  Format precision = Format::bf16;  ///< of inputs and outputs, and of what no rule names
  Rounding rounding = Rounding::nearest_even;
  bool follows = false;  ///< whether its rules in bf16 are about the precision of a case, whichever that is
  int products = 0;      ///< that an accumulator sums before it rounds; 0: as the units of the precision do
  std::vector<Rule> rules = {};
  std::string file = {};  ///< it was read from; "" where it is known by its name
  std::string json = {};  ///< all that the file holds, which may be a pipe

  /// The contract of a precision, named like it: Policy::of, to the bit.
  static Contract of(Format precision);

  /// Whether it is that of its precision, which is what device kernels keep.
  bool plain() const { return rules.empty() && rounding == Rounding::nearest_even && products == 0; }
  /// What it says of a case in that precision: of a contract that follows, bf16 is then fp16, or for fp32 operands are
  /// in tf32; any other is the same for every case.
  Contract in(Format case_precision) const;
  /// Names it on a command line: the file or the name.
  const std::string& argument() const { return file.empty() ? name : file; }
  /// One sentence why a kernel with these sites has another contract, or "".
  std::string obstacle(const tile::SiteTable& sites) const;
  /// How such a kernel rounds. Throws InputError if there is an obstacle.
  Policy policy(const tile::SiteTable& sites) const;
};

/// A group of sites that a rule may name.
struct SiteGroup {
  std::string_view name, summary;
  /// The sites of that group.
  std::vector<std::string_view> (*members)(const tile::SiteTable& sites);
};
std::span<const SiteGroup> site_groups();

/// Those with names: one for every precision, then those of kernels in use.
std::span<const Contract> named_contracts();
/// The contract of that name, or null.
const Contract* find_contract(std::string_view name);

/// A contract as its JSON text says. Throws InputError, one sentence that starts with `source`, if it says none.
Contract parse_contract(const std::string& text, const std::string& source);
/// The contract of that name or in that file. Throws InputError if there is neither.
Contract contract_from(const std::string& name_or_file);

}  // namespace assay
