#pragma once
// Errors at the door: what bad input gets. Inside the door, code assumes.
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace assay {

/// Bad usage or bad input: one sentence naming the thing. The CLI answers with exit code 2 and writes nothing.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Why a problem has no answer (case-format.md). `ok` is the only one that comes with outputs.
enum class Status { ok, domain, nonfinite, singular, unsupported };

constexpr std::string_view name_of(Status s) {
  constexpr std::string_view names[] = {"OK", "DOMAIN", "NONFINITE", "SINGULAR", "UNSUPPORTED"};
  return names[static_cast<int>(s)];
}

/// A well-formed problem that its mechanism refuses; `row` is the first offending row, or -1.
class Refusal : public InputError {
 public:
  Refusal(Status status, int row, const std::string& message) : InputError(message), status_(status), row_(row) {}
  Status status() const { return status_; }
  int row() const { return row_; }

 private:
  Status status_;
  int row_;
};

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Throws InputError with the concatenated message unless `ok`.
template <class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) throw InputError(text(parts...));
}

/// Refuses the problem as outside its mechanism's domain unless `ok`.
template <class... Parts>
void require_domain(bool ok, int row, const Parts&... parts) {
  if (!ok) throw Refusal(Status::domain, row, text(parts...));
}

}  // namespace assay
