#pragma once
// Programs from wherever users have them: as JSON, or as Python, which python3 traces.
#include <string>
#include <vector>

namespace assay {

/// A request to a file of Python: which of its mechanisms, and settings as typed, NAME=VALUE.
struct Tracing {
  std::string mechanism;
  std::vector<std::string> settings;
};

/// The text of a program: what FILE.json holds, and for FILE.py its mechanism as JSON. Throws InputError, the front
/// end's own sentence, if that is none, or if there is no python3 or no front end.
std::string program_text(const std::string& file, const Tracing& tracing);

/// Makes find_room() know the files of Python that are words of this command: they are traced where a mechanism's name
/// goes. A case that names one runs nothing: a user who judges it types the file.
void trace_typed(const std::vector<std::string>& words);

}  // namespace assay
