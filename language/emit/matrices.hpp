#pragma once
// A contraction as products of matrices, as text (language/evaluate/products.hpp).
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "language/emit/scope.hpp"

namespace assay::language::device {

/// The numbers of a contraction's last axis that a mask lets see: the first one, and how many.
struct Cut {
  std::string first;
  Dim length;
};

class Matrices {
 public:
  /// Of a contraction, itself or within addition v, which is stored where `to` says. Keeps references to all of them.
  /// Throws InputError if rows, columns or terms run over more than two axes.
  Matrices(const Scope& scope, int v, int contraction, const std::optional<Cut>& cut, const Place& to);

  /// Whether it sums.
  bool have_sums() const { return !sums_.empty(); }
  /// A call for all of it. `in_place`: sums go on where the first term of each is.
  std::vector<std::string> product(bool in_place) const;
  /// What it runs over, and the statement for an element, if it does not sum.
  std::vector<Dim> axes() const { return dims_of(result_); }
  std::string element(const Indices& at) const;

 private:
  /// An element's text, where that letter's index is 1, and others are 0.
  using Text = std::function<std::string(char)>;

  const std::string& letters(int operand) const { return operand == 0 ? left_ : right_; }
  std::vector<Dim> dims_of(const std::string& letters) const;
  std::string group(const std::string& letters) const;
  /// Of the numbers that are made (false), or of all (true).
  Indices at(const std::string& letters, char one, bool of_all) const;
  std::string shifted(char letter, std::string index) const;
  std::string steps(const std::string& group, const std::string& letters, const Text& text, bool of_places) const;
  int value_of(int operand) const;
  std::string key(int operand) const;
  std::string operand(int which, const std::string& lines) const;
  std::string result() const;

  const Scope& scope_;
  int contraction_;
  const std::optional<Cut>& cut_;
  const Place& to_;
  Sum sum_;
  std::string left_, right_, result_;         ///< letters
  std::string both_, rows_, columns_, sums_;  ///< letters of both operands and the result, and of the others
  int of_rows_ = 0, of_columns_ = 1;          ///< operands
  bool are_dots_ = false;                     ///< of lines that both operands have, which are the rows
};

}  // namespace assay::language::device
