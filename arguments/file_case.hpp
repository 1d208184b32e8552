#pragma once
// Cases with arguments as safetensors files: how their tensors lie there, and the plan that they are.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/folded.hpp"
#include "arguments/given.hpp"
#include "arguments/registry.hpp"
#include "arguments/scale_layout.hpp"
#include "files/problem_file.hpp"

namespace assay::arguments {

/// The room of cases with arguments is called as the mechanism is, with this behind.
inline constexpr std::string_view room_suffix = "+arguments";
/// "softmax_attention" of "softmax_attention+arguments"; "" of any other name.
std::string_view without_suffix(std::string_view room);

/// How tensors with rows lie: [B, T, H, d], [B, H, T, d], or packed [T, H, d].
enum class RowLayout { bthd, bhtd, thd };
/// Throws Refusal (DOMAIN) if there is no such layout.
RowLayout row_layout_from(std::string_view name);
/// Whether an input has rows, one for every token: then its layout is that of the file. Others lie in a file as they do
/// in JSON, with heads in front, and states with sequences before them. `rank`: the axes that the file's has.
bool has_rows(const Facts& facts, std::string_view input, bool is_paged, RowLayout layout, int rank);

/// A tensor of a case: as JSON has it, heads in front, and where its numbers lie in the file.
struct FileTensor {
  std::vector<int> file_shape, shape;
  std::vector<std::size_t> at;  ///< number i is number at[i] of the file's
};
/// The lie of a tensor with rows; the sequences of a batch become one after the other.
FileTensor rows_in_file(const std::vector<int>& file_shape, RowLayout layout, bool has_heads);

/// A tensor of the answer as the judge has it: at most three axes, heads or states in front, without padding.
struct JudgedTensor {
  std::vector<int> shape;
  std::vector<std::size_t> kept;  ///< number i is number kept[i] of the plan's tensor
  int states = 1;                 ///< of sequences, each with all heads
  std::vector<int> borders = {};  ///< of several sequences whose rows lie in order: the first of each, and the end
};

/// A case with arguments. Its problem has tensors in the file's shapes, integers and truth values as doubles, and under
/// params `layout`, too.
class FileCase {
 public:
  /// Throws Refusal, one sentence that names the argument.
  explicit FileCase(const Problem& problem);
  /// As above; those asked for last are remembered.
  static std::shared_ptr<const FileCase> of(const Problem& problem);

  const Plan& plan() const { return *plan_; }
  /// In decimals, which take longer to read than a draw takes to answer: made when first asked for, and kept.
  const Folded& folded() const;
  const BasicFolded<double>& folded_doubles() const { return *doubles_; }
  bool has_gradients() const { return doubles_->has_cotangents(); }

  /// By the names of a report, "o", "d_q".
  const std::map<std::string, JudgedTensor>& judged() const { return judged_; }
  /// The answer that the judge has of the plan's.
  template <class N>
  BasicAnswer<N> judged_answer(const BasicAnswer<N>& whole) const {
    BasicAnswer<N> answer;
    for (const auto& [name, tensor] : judged_) {
      const bool gradient = name.starts_with("d_");
      const std::string own = gradient ? name.substr(2) : name;
      const BasicArrays<N>& from = gradient ? whole.gradients : whole.outputs;
      const auto found = from.find(own);
      if (found == from.end()) continue;
      BasicArray<N>& to = (gradient ? answer.gradients : answer.outputs)[own];
      to.shape = tensor.shape;
      to.data.reserve(tensor.kept.size());
      for (const std::size_t i : tensor.kept) to.data.push_back(found->second.data[i]);
    }
    return answer;
  }
  /// Outputs and gradients in doubles, of the plan's program; computed when first asked for, and kept.
  const Answer& answer_in_doubles() const;
  /// As above, of another program in its place.
  Answer answer_in_doubles(const language::Mechanism& mechanism) const;

  /// Where the numbers of a tensor of the answer lie in a file.
  Scattered scattered(const std::string& tensor) const;
  /// The case's problem with heads in front, the rows of all sequences one after the other, those of none left out, and
  /// the states of all sequences, too; without `layout`. And back, of such a problem that may have other heads.
  Problem heads_first(const Problem& in_file) const;
  Problem in_file(const Problem& heads_first) const;
  const std::map<std::string, std::vector<std::string>>& choices() const { return given_->choices(); }

  /// Where number i of the plan's input lies in the file.
  std::size_t place_in_file(const std::string& input, std::size_t i) const { return inputs_.at(input).at[i]; }
  /// As pages print it.
  Shape shape() const;

 private:
  void take(const Problem& problem);
  void number_sequences();
  FileTensor lie(const std::string& name, const std::vector<int>& shape, bool output);
  FileTensor lie_of_choice(const std::string& name, const std::vector<int>& shape) const;
  FileTensor lie_of_scales(const std::string& name, const std::vector<int>& shape) const;
  ScaleMatrix scale_matrix(const std::string& name) const;
  FileTensor lie_of_other_scales(const std::string& name, const std::vector<int>& shape) const;
  std::vector<int> rows_shape(std::vector<int> shape) const;
  const std::vector<int>& shape_with_rows(const std::string& tensor) const;
  std::vector<std::size_t> rows_used(const std::string& tensor) const;
  std::vector<bool> read(const std::string& input) const;
  FileTensor lie_of_answer(const std::string& tensor) const;
  void judge(const std::string& name, const std::string& own, std::vector<int> shape, const std::vector<bool>& defined);
  std::vector<int> borders_of(const std::string& name, const std::string& own, const std::vector<int>& shape,
                              std::size_t axis, const std::vector<std::size_t>& used) const;
  std::vector<std::size_t> endless_rows() const;

  Facts facts_;
  RowLayout layout_ = RowLayout::bthd;
  ScaleLayout scale_layout_ = ScaleLayout::linear;
  bool has_heads_ = true, is_paged_ = false;
  int batch_ = 0;  ///< 0 until a tensor with rows says it
  std::string batch_of_;
  Json record_;
  Tensors tensors_;
  std::map<std::string, FileTensor, std::less<>> inputs_;
  std::unique_ptr<const Given> given_;
  std::unique_ptr<const Plan> plan_;
  std::unique_ptr<const BasicFolded<double>> doubles_;
  std::map<std::string, JudgedTensor> judged_;
  mutable std::once_flag asked_, folding_;
  mutable std::unique_ptr<const Folded> folded_;  ///< from the first question on
  mutable Answer in_doubles_;                     ///< from the first question on
};

}  // namespace assay::arguments
