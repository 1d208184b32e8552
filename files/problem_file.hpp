#pragma once
// One problem, or the answer to it, as a safetensors file (docs/case-format.md, "safetensors").
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/case_file.hpp"
#include "files/safetensors.hpp"
#include "files/sampled_parts.hpp"
#include "oracles/core/large.hpp"
#include "oracles/core/oracle.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/format.hpp"

namespace assay {

/// The formats that inputs are rounded to, and that a contract is known for.
inline constexpr Format case_precisions[] = {Format::fp64, Format::fp32, Format::tf32, Format::bf16,
                                             Format::fp16, Format::e4m3, Format::e5m2};

struct ProblemFile;

/// Where the numbers of a tensor of an answer lie in a file, if the frameworks' layout does not say it: of cases with
/// arguments. Places without a number are padding.
struct Scattered {
  std::vector<int> shape;                 ///< the file's
  std::vector<std::size_t> at = {};       ///< number i of the problem's tensor is number at[i] of the file's
  std::vector<std::size_t> endless = {};  ///< numbers of the problem's that are -inf; to the judge they are 0
  bool is_optional = false;               ///< whether it is judged only where an answer has it
};

/// Puts tensors of problems and answers into a file, in the file's layout, and keeps their digests.
class TensorFile {
 public:
  /// Under `name`, in that dtype.
  void put(const std::string& name, Array array, const RoomFacts::Ranked& ranked, int batch, const std::string& dtype);
  /// Pairs of doubles as `name` and `name`.lo; `name`.bound where every number has one.
  void put(const std::string& name, const BasicArray<Enclosed>& array, const RoomFacts::Ranked& ranked, int batch);
  /// Puts a tensor of an answer to `file`, whose tensor `tensor` lies as `name` does.
  void put(const std::string& name, Array array, const ProblemFile& file, const std::string& tensor,
           const std::string& dtype);
  void put(const std::string& name, const BasicArray<Enclosed>& array, const ProblemFile& file);

  /// The file with `metadata` and, under `sha256`, the digests of all tensors.
  Safetensors finish(std::map<std::string, std::string> metadata) &&;

 private:
  void put_stored(const std::string& name, const Array& laid_out, const std::string& dtype);

  Safetensors file_;
  Json digests_ = Json::object();
};

/// A problem as a file poses it.
// The JSON library's moves do not throw, but are hard to see through.
// NOLINTNEXTLINE(bugprone-exception-escape)
struct ProblemFile {
  std::map<std::string, std::string> metadata;  ///< as read
  Json digests = Json::object();                ///< SHA-256 of every tensor read, by name
  std::map<std::string, Format> dtypes;         ///< of every tensor read, by name
  std::shared_ptr<const Room> room;
  Problem problem;                             ///< the batch folded into the heads (files/layout.hpp)
  int batch = 1, heads = 0, shared_heads = 0;  ///< of one sequence, as far as its tensors say
  std::optional<CaseResult> refusal;           ///< why it poses none: an unknown mechanism, or heads that do not fit
  std::map<std::string, Scattered> scattered;  ///< of a case with arguments, every tensor of its answer
  std::optional<Shape> shape;                  ///< of a case with arguments
  std::optional<SampledParts> parts;           ///< which of a larger case these are

  bool has_arguments() const { return shape.has_value(); }
  /// The shape in a file of a tensor of an answer that the problem has in that shape.
  std::vector<int> shape_in_file(const std::string& tensor, const std::vector<int>& in_problem) const;
  /// Names elements of the tensor by their index in the file.
  std::function<std::string(std::size_t)> places_in_file(const std::string& tensor,
                                                         const std::vector<int>& in_problem) const;
};

namespace arguments {
/// Reads a case that has arguments: takes `tensors` and returns true; false of one that has none. The case's words are
/// in `to.metadata` and `to.problem.mechanism`; throws InputError that starts with `where`. Defined in
/// arguments/file_rooms.cpp.
bool read_case_with_arguments(ProblemFile& to, std::map<std::string, StoredTensor>& tensors, const std::string& where);
}  // namespace arguments

/// Takes the tensors out of `file`, one at a time. Throws InputError, one sentence that starts with `where`, if it is
/// no case: a tensor with an unknown name, too many or too few axes, batches that differ, no mechanism, params that are
/// no JSON object.
ProblemFile read_problem(Safetensors file, const std::string& where);

/// The contents of a file that should be a case. Throws InputError if it is there and of another kind.
Safetensors read_case(const std::string& path);

/// The case as if it named that mechanism; as it is where that is "". Throws InputError, about --mechanism, if there is
/// no such one.
Safetensors with_mechanism(Safetensors stored, const std::string& mechanism);

/// The result of a problem; its answer only with Status::ok. A message names indices of the file.
CaseResult answer_problem(const ProblemFile& file, std::optional<Tier> tier, int threads, const PartDone& done,
                          BasicAnswer<Enclosed>& answer);

/// The room's description of a tensor of its answer: of an output, or of the input that d_NAME is the gradient of.
/// Throws InputError if it has no such tensor.
RoomFacts::Ranked answer_field(const Room& room, std::string_view tensor);

/// A tensor that the case has an answer of and that is not looked at.
struct NotJudged {
  std::string tensor, why;
};

/// An answer that was given to a problem.
struct GivenAnswer {
  Answer answer;
  std::map<std::string, Format> stored;  ///< the dtypes of its tensors
  std::vector<NotJudged> not_judged;
};

/// The tensors of an answer, by name and shape, that `file` has: those named, or all if none is. Throws InputError, one
/// sentence that starts with `where` and names the tensor, if one is missing or of another shape, or, where all are
/// asked for, if it has one that the case does not ask for.
GivenAnswer read_outputs(Safetensors file, const ProblemFile& problem, const Named<std::vector<int>>& answered,
                         const std::vector<std::string>& tensors, const std::string& where);
/// Throws as read_outputs() does, and reads no numbers. Not of a sample.
void require_outputs(Safetensors& file, const ProblemFile& problem, const Named<std::vector<int>>& answered,
                     const std::vector<std::string>& tensors, const std::string& where);

/// The answer to a problem: the case's metadata and what became of it (status, row, message, tier), the digests of the
/// inputs, and, unless it is refused, every output `x` and gradient `d_x` as a pair x + x.lo with x.bound.
Safetensors answer_file(const ProblemFile& file, std::optional<Tier> tier, int threads, std::string_view tool_version,
                        const PartDone& done = {});

}  // namespace assay
