#pragma once
// Case files (case-format.md, "JSON"): problems in, answers out, one record each.
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// JSON whose objects keep the order they were written in.
using Json = nlohmann::ordered_json;

/// The result of a case. Outputs only with Status::ok.
struct CaseResult {
  Status status = Status::ok;
  int row = -1;         ///< first offending row, or -1
  std::string message;  ///< one sentence, or "" if there is nothing to say
  Decimals answer;
};

/// One record of a case file.
// The JSON library's moves do not throw, but are hard to see through.
// NOLINTNEXTLINE(bugprone-exception-escape)
struct Case {
  Json record;                        ///< as read, without expectation or earlier results
  BasicProblem<std::string> problem;  ///< empty if the record poses none
  std::optional<CaseResult> refusal;  ///< why it poses none
  std::vector<std::string> ignored;   ///< names in the record that mean nothing here
};

/// Parses `text`, refusing what the library would let through: names that occur twice, and towers of brackets. `source`
/// names it in messages; throws InputError with the position.
Json parse_json(const std::string& text, std::string_view source);

/// Nested lists of numbers as decimals; a number alone is an array of no axes. Throws Refusal (DOMAIN) that names the
/// place.
BasicArray<std::string> array_from(const Json& value, const std::string& name);
/// The parameters under `params` in a record; none if it has none. Throws Refusal (DOMAIN).
Params params_from(const Json& record);
/// Makes decimal strings of the numbers of the equations, which JSON may hold as integers; counts stay integers.
void spell_numbers(const Room& room, Params& params);
/// The inverse of params_from: what stands under `params`.
Json json_of(const Params& params);

/// The cases in `text`, in order. `source` names the file in messages. A record that poses no problem is a Case with a
/// refusal; throws InputError, with the position, if the file itself is not a case file.
std::vector<Case> read_cases(const std::string& text, std::string_view source);

/// As above, of the file at `path`; throws InputError if it cannot be read.
std::vector<Case> load_cases(const std::string& path);

/// The refusal by `work`, as a result without an answer; Status::ok if it refuses nothing. Running out of memory is a
/// refusal, too.
CaseResult attempt(const std::function<void()>& work);

/// The refusal that no mechanism of this build has that name.
Refusal unknown_mechanism(std::string_view name);

/// The room called `name`. Throws InputError that begins with `flag` and lists those that exist.
std::shared_ptr<const Room> room_named(std::string_view name, std::string_view flag);
/// All of them, as above; those of mechanisms.def if there is no name.
std::vector<std::shared_ptr<const Room>> rooms_named(const std::vector<std::string>& names, std::string_view flag);

namespace arguments {
/// The answer to a case whose record says something that its mechanism's room does not know, and the table of arguments
/// does; nothing if it is no such case. Throws Refusal. Defined in arguments/answer.cpp.
std::optional<Decimals> answer_with_arguments(const Case& c, const DecimalOptions& options);
}  // namespace arguments

/// Answers one case, with arguments or without. Never throws for anything in the case: an unknown mechanism is
/// UNSUPPORTED.
CaseResult answer_case(const Case& c, const DecimalOptions& options);

Json result_record(const Case& c, const CaseResult& result);

/// Records as a case file, one to a line.
std::string case_file_text(const std::vector<Json>& records);

}  // namespace assay
