#pragma once
// Contracts: which values a kernel may round, and to which format. Some have names, users write others as JSON
// (docs/contracts.md).
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/policy.hpp"
#include "reference/core/blocks.hpp"
#include "reference/core/format.hpp"

namespace assay {

/// How a kernel adds products up. A contract allows one way or several: sigma is at least what each of them does.
enum class Accumulation : unsigned char {
  exact_blocks,  ///< blocks of products are summed exactly and rounded to nearest, as the executor does
  cut_off,       ///< blocks that are rounded towards zero, as Hopper's tensor cores do
  one_by_one,    ///< one product after the other, in any order, as units without blocks do
};
inline constexpr Accumulation all_accumulations[] = {Accumulation::exact_blocks, Accumulation::cut_off,
                                                     Accumulation::one_by_one};
constexpr const char* name_of(Accumulation a) {
  return a == Accumulation::exact_blocks ? "exact_blocks" : a == Accumulation::cut_off ? "cut_off" : "one_by_one";
}

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
    Blocks blocks = {};  ///< of scales that its numbers are multiples of; none: they are numbers of the format
  };

  /// An input that a kernel multiplies by something before it rounds it, perhaps.
  struct Factor {
    std::string input;
    std::string beside = {};  ///< only in kernels that have this site; "": in all
  };

  std::string name, summary;
  Format precision = Format::bf16;  ///< of inputs and outputs, and of what no rule names
  Rounding rounding = Rounding::nearest_even;
  int products = 0;  ///< that an accumulator sums before it rounds; 0: as the units of the precision do
  std::vector<Rule> rules = {};
  bool follows = false;  ///< whether its rules in bf16 are about the precision of a case
  /// The format of operands for a case in fp32, fp32 or tf32; nothing: it has no such kernels.
  std::optional<Format> of_fp32 = {};
  std::vector<Accumulation> accumulation = {};  ///< allowed; none: as accumulations() says
  std::vector<std::string> towards_zero = {};   ///< sites and groups that may be cut off in place of rounded to nearest
  /// Inputs that a kernel may multiply by a factor (a gate, a step size) before it rounds them, where the program
  /// multiplies the other operand: both are drawn.
  std::vector<Factor> factors = {};
  /// Gradients of inputs that query heads share are stored for each of these, in the precision, before they are summed.
  bool per_query_head = false;
  std::vector<std::string> sources = {};  ///< where it was read: package version, file, lines
  std::string file = {};                  ///< it was read from; "" where it is known by its name
  std::string json = {};                  ///< all that the file holds, which may be a pipe

  /// The contract of a precision, named like it: Policy::of, to the bit.
  static Contract of(Format precision);

  /// Whether it is that of its precision, which is what device kernels keep.
  bool plain() const {
    return rules.empty() && rounding == Rounding::nearest_even && products == 0 && accumulation.empty() &&
           towards_zero.empty() && factors.empty() && !per_query_head;
  }
  /// Whether operands are multiples of scales of blocks. Only softmax attention on the CPU executor has such.
  bool has_blocks() const;
  /// The contract for a case in that precision: one that follows has fp16, fp32 or tf32 in place of bf16. Any other is
  /// the same for every case.
  Contract in(Format case_precision) const;
  /// The ways of adding up that it allows a kernel with these sites.
  std::vector<Accumulation> accumulations(const tile::SiteTable& sites) const;
  /// The sites that may be cut off, of a kernel with these.
  std::vector<std::string_view> cut_off_sites(const tile::SiteTable& sites) const;
  /// The inputs that may carry a factor, of a kernel with these sites.
  std::vector<std::string_view> factored(const tile::SiteTable& sites) const;
  /// Its statements beyond its sites, one clause each: "operands rounded to nearest or towards zero".
  std::vector<std::string> clauses() const;
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
  std::vector<std::string_view> (*members)(const tile::SiteTable& sites);
};
std::span<const SiteGroup> site_groups();

/// The contracts with rules read from libraries (judge/contract/library_contracts.cpp).
std::vector<Contract> library_contracts();
/// Those of kernels with scales of blocks (judge/contract/block_contracts.cpp).
std::vector<Contract> block_contracts();
/// Those with names: one for every precision, then those of kernels in use.
std::span<const Contract> named_contracts();
/// The contract of that name, or null.
const Contract* find_contract(std::string_view name);

/// A contract as its JSON text says. Throws InputError, one sentence that starts with `source`, if it says none.
Contract parse_contract(const std::string& text, const std::string& source);
/// The contract of that name (NAME/PRECISION: of one that follows the case, in that precision) or in that file. Throws
/// InputError if there is neither.
Contract contract_from(const std::string& name_or_file);

}  // namespace assay
