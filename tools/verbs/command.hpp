#pragma once
// The frame of the program: verbs, streams, exit codes. A verb is one file tools/verbs/VERB.cpp and one line in
// command.cpp.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <ext/stdio_filebuf.h>
#include <functional>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}

namespace assay {

class NewFile;

enum ExitCode {
  exit_passed = 0,  ///< the verb did what was asked; everything it judged passed
  exit_failed = 1,  ///< something it judged did not pass
  exit_usage = 2,   ///< bad usage or bad input
  exit_broken = 3,  ///< the tool itself broke
};

/// Where a verb writes: results to `out`, words for people to `err`, progress only if `err` is a terminal.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool terminal = false;
  bool shows_output = false;  ///< whether `out` is a terminal: what is no text does not go there
  /// Hears of every phase and step, from one thread at a time; what it throws ends the work. May be empty.
  std::function<void(std::string_view what, std::size_t done, std::size_t total)> hears = {};
};

/// A verb of the program.
struct Command {
  std::string_view name, summary;
  /// Adds the verb's options to `app`. Its result runs the verb once they are parsed, and gives the exit code.
  std::function<int(Console&)> (*add)(CLI::App& app);
};

namespace commands {
extern const Command baseline, check, contract, drift, fixtures, list, make_case, mechanism, merge, oracle, report,
    suite;
}

/// A program of verbs, in the order of its help.
struct CommandLine {
  std::string_view name, summary;
  std::vector<const Command*> verbs;
};
/// That of `assay`.
const CommandLine& command_line();

/// Parses `typed` (without the program's own name), runs one verb, turns exceptions into a sentence on `err`.
int run(const CommandLine& line, const std::vector<std::string>& typed, Console& console);
inline int run(const std::vector<std::string>& args, Console& console) { return run(command_line(), args, console); }

/// A file that appears under its name complete or not at all: written beside it, renamed by commit(). A path of no
/// file, such as /dev/stdout, is written to as it is. The writing is tried before the work, not after it.
class OutputFile {
 public:
  /// "-" is `standard_output`. Throws InputError if nothing can be written there, or if it is one of `inputs`.
  OutputFile(std::string path, std::ostream& standard_output, const std::vector<std::string>& inputs = {});
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Throws InputError if the text could not be written whole.
  void commit(std::string_view contents);
  /// As above, for what is not one text.
  void commit(const std::function<void(std::ostream&)>& write);

 private:
  void open_stream(int descriptor);

  std::string path_;
  std::ostream& standard_output_;
  std::unique_ptr<NewFile> file_;                           ///< of a file
  std::unique_ptr<__gnu_cxx::stdio_filebuf<char>> buffer_;  ///< of what is none
};

/// ", about 30 s left", as if the rest were like what is done; "" where that is nothing, or the first ten seconds'.
std::string time_left(std::chrono::seconds passed, std::size_t done, std::size_t total);

/// "3/30 what, 12 s" on one line that rewrites itself, with every step and every second, on a terminal only.
class Progress {
 public:
  /// A total of 0 is not known yet.
  explicit Progress(Console& console, std::size_t total = 0, std::chrono::milliseconds every = std::chrono::seconds(1));
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void step(std::string_view what);
  /// As above, of that many.
  void step(std::size_t total, std::string_view what);
  /// The same for work that calls it, which this outlives: measure(Progress(console).steps()).
  std::function<void(std::size_t total, std::string_view what)> steps() {
    return [this](std::size_t total, std::string_view what) { step(total, what); };
  }
  /// Another phase, of which so much is done; a total of 0 is not known.
  void phase(std::string_view what, std::size_t done = 0, std::size_t total = 0);
  /// A line that stays.
  void say(std::string_view line);

 private:
  void draw();
  void tell();

  Console& console_;
  std::mutex mutex_;
  std::size_t total_, done_ = 0;
  std::string what_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::condition_variable_any ends_;
  std::jthread clock_;  // last: it uses all of the above
};

}  // namespace assay
