#include "tools/verbs/command.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <ostream>

#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "files/names.hpp"
#include "files/new_file.hpp"
#include "reference/core/error.hpp"
#include "reference/core/parse_number.hpp"
#include "tools/print/escape.hpp"
#include "tools/run/front_end.hpp"

namespace assay {

const CommandLine& command_line() {
  static const CommandLine line{
      "assay",
      "assay: does an attention or fast-weight kernel compute what its mathematics says, and how far off is it?",
      {&commands::list, &commands::report, &commands::check, &commands::suite, &commands::merge, &commands::contract,
       &commands::baseline, &commands::make_case, &commands::oracle, &commands::drift, &commands::mechanism,
       &commands::fixtures}};
  return line;
}

namespace {

void require_written(std::ostream& out) { require((out << std::flush).good(), "standard output: cannot be written"); }

/// "; there are save, compare" after a verb that needs one of them and has none, "" after any other.
std::string verbs_to_choose(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  if (app->get_require_subcommand_min() == 0) return "";
  const std::vector<const CLI::App*> verbs = app->get_subcommands([](const CLI::App*) { return true; });
  return "; there are " + names_in(verbs, [](const CLI::App* verb) { return verb->get_name(); });
}

/// " (did you mean --tier?)" after words that the verb does not take, of flags that are like one of its own.
std::string flags_meant(const CLI::App* app) {
  const std::vector<std::string> unknown = app->remaining(true);
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  std::vector<std::string> flags;
  for (const CLI::Option* option : app->get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  std::string meant;
  for (const std::string& word : unknown)
    if (word.starts_with("--")) meant += did_you_mean(word.substr(0, word.find('=')), flags);
  return meant;
}

/// A refusal as it is printed: one line for programs, in a terminal lines that fit. Words in it may hold anything, for
/// they may come from a list of files or from a file.
std::string shown_refusal(std::string_view refusal, const Console& console) {
  constexpr std::size_t longest = 4000;
  std::string line = excerpt(refusal, longest);
  if (!console.terminal) return line;
  std::string lines = text_of_lines(wrapped({line}));
  lines.pop_back();  // the last line's end is the caller's
  return lines;
}

std::string usage(const CLI::App* app, const CLI::Error& error, const Console& console) {
  std::string choice;
  if (error.get_name() == "RequiredError") choice = verbs_to_choose(app);
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) choice = flags_meant(app);
  return CLI::FailureMessage::simple(app, CLI::Error(error.get_name(), shown_refusal(error.what() + choice, console)));
}

/// Those of `assay-lab`, which a checkout builds.
constexpr std::string_view verbs_of_lab[] = {"bench", "calibrate", "docs", "identities", "mutants", "paper"};

/// Those of the Python package, which `assay` has once it is installed.
constexpr std::string_view verbs_of_python[] = {"audit", "choose", "demo", "invariance", "pair"};

/// Flags of other programs that a user may try, with the advice on each.
struct OtherFlag {
  std::string_view flag, meant;
};
constexpr std::string_view no_tolerance =
    "limits come from the precision and the data, and there is no tolerance to set; --false-alarms says how often a "
    "correct kernel may fail";
constexpr OtherFlag other_flags[] = {{"--dtype", "--precision says what queries, keys and values are rounded to"},
                                     {"--rtol", no_tolerance},
                                     {"--atol", no_tolerance},
                                     {"--tolerance", no_tolerance}};

/// Throws InputError for a word that is a flag of other programs.
void refuse_other_flags(const std::vector<std::string>& args) {
  for (const std::string& word : args)
    for (const OtherFlag& other : other_flags)
      require(word.substr(0, word.find('=')) != other.flag, "there is no ", other.flag, ": ", other.meant);
}

/// "help check" is "check --help". Throws InputError if the first word is no verb.
std::vector<std::string> with_verb(const CommandLine& line, std::vector<std::string> args) {
  if (!args.empty() && args.front() == "help") {
    args.erase(args.begin());
    args.resize(std::min<std::size_t>(args.size(), 1));
    args.emplace_back("--help");
  }
  if (args.empty() || args.front().starts_with('-')) return args;
  if (args.front() == "limits") args.front() = "identities";  // its older name
  std::vector<std::string> verbs;
  for (const Command* command : line.verbs) verbs.emplace_back(command->name);
  const std::string all = names_in(verbs);
  if (std::find(verbs.begin(), verbs.end(), args.front()) != verbs.end()) return args;
  require(std::ranges::find(verbs_of_lab, args.front()) == std::end(verbs_of_lab), args.front(),
          " is a verb of assay-lab, which `make lab` builds in a checkout: build/assay-lab ", args.front());
  require(std::ranges::find(verbs_of_python, args.front()) == std::end(verbs_of_python), args.front(),
          " is a verb of the Python package: pip install . in a checkout, then python -m assay ", args.front());
  for (const std::string_view verb : verbs_of_python) verbs.emplace_back(verb);
  throw InputError(
      text("there is no verb ", excerpt(args.front()), did_you_mean(args.front(), verbs), "; there are ", all));
}

}  // namespace

int run(const CommandLine& line, const std::vector<std::string>& typed, Console& console) {
  trace_typed(typed);
  try {
    const std::vector<std::string> args = with_verb(line, typed);
    CLI::App app(std::string(line.summary), std::string(line.name));
    app.set_version_flag("--version", ASSAY_VERSION);
    app.require_subcommand(1);
    app.failure_message(
        [&console](const CLI::App* one, const CLI::Error& error) { return usage(one, error, console); });
    if (line.name == command_line().name)
      app.footer("audit, bench, choose, demo, invariance and pair are verbs of the Python package.");
    std::function<int(Console&)> chosen;
    for (const Command* command : line.verbs) {
      CLI::App* verb = app.add_subcommand(std::string(command->name), std::string(command->summary));
      verb->callback([&chosen, action = command->add(*verb)] { chosen = action; });
    }
    try {
      // CLI11 takes them from the back.
      app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    } catch (const CLI::ParseError& error) {
      const bool asked = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
      if (!asked) refuse_other_flags(args);
      if (args.empty()) {  // who types the name alone wants to know what there is
        console.err << app.help();
        return exit_usage;
      }
      app.exit(error, console.out, console.err);
      if (asked) require_written(console.out);
      return asked ? exit_passed : exit_usage;
    }
    const int code = chosen(console);
    require_written(console.out);
    return code;
  } catch (const InputError& error) {
    console.err << shown_refusal(text(line.name, ": ", error.what()), console) << '\n';
    return exit_usage;
  } catch (const std::bad_alloc&) {  // only a user's request can be so large
    console.err << line.name << ": there is not enough memory for a problem of this size\n";
    return exit_usage;
  } catch (const std::filesystem::filesystem_error& error) {  // names that are too long, links in a circle, no leave
    console.err << line.name << ": " << plain_text(error.path1().string()) << ": " << error.code().message() << '\n';
    return exit_usage;
  } catch (const std::exception& error) {
    console.err << line.name << ": internal error: " << plain_text(error.what()) << '\n';
    return exit_broken;
  }
}

namespace {

/// The descriptor of this process that the path names, as /dev/stdout and /dev/fd/3 do; -1 of another path.
int descriptor_named(std::filesystem::path path) {
  namespace fs = std::filesystem;
  constexpr int most_links = 40;
  const fs::path own = text("/proc/", getpid());
  std::error_code none;
  for (int i = 0; i < most_links && fs::is_symlink(fs::symlink_status(path, none)); ++i) {
    const fs::path folder = fs::canonical(path.parent_path().empty() ? "." : path.parent_path(), none);
    if (folder == own / "fd" || folder.string().starts_with((own / "task").string() + '/')) {
      return parse_number<int>(path.filename().string()).value_or(-1);
    }
    path = folder / fs::read_symlink(path, none);
  }
  return -1;
}

}  // namespace

OutputFile::OutputFile(std::string path, std::ostream& standard_output, const std::vector<std::string>& inputs)
    : path_(std::move(path)), standard_output_(standard_output) {
  if (path_ == "-") return;
  namespace fs = std::filesystem;
  require(!path_.empty(), "the name of the output is empty; - is standard output");
  require(!fs::is_directory(path_), path_, ": is a directory");
  std::error_code other;  // of inputs that are no files
  for (const std::string& input : inputs)
    require(input.empty() || !fs::is_regular_file(input, other) || !fs::equivalent(path_, input, other), path_,
            ": is an input, and would be overwritten");
  // An output that is a stream of ours is continued where it is.
  if (const int own = descriptor_named(path_); own == STDOUT_FILENO)
    path_ = "-";
  else if (own >= 0)
    open_stream(dup(own));
  else if (fs::exists(path_) && !fs::is_regular_file(path_))  // a device or a pipe is written to, not replaced
    open_stream(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  else
    file_ =
        std::make_unique<NewFile>(fs::exists(path_) && fs::is_symlink(path_) ? fs::canonical(path_) : fs::path(path_));
}

OutputFile::~OutputFile() = default;

void OutputFile::open_stream(int descriptor) {
  const char* reason = std::strerror(errno);
  require(descriptor >= 0, path_, ": cannot be written: ", reason);
  buffer_ = std::make_unique<__gnu_cxx::stdio_filebuf<char>>(descriptor, std::ios::out | std::ios::binary);
}

void OutputFile::commit(std::string_view contents) {
  commit([contents](std::ostream& out) { out << contents; });
}

void OutputFile::commit(const std::function<void(std::ostream&)>& write) {
  if (path_ == "-") {
    write(standard_output_);
    require((standard_output_ << std::flush).good(), "standard output: cannot be written");
  } else if (file_ != nullptr) {
    write(file_->stream());
    file_->commit();
  } else {
    std::ostream stream(buffer_.get());
    write(stream);
    const bool written = (stream << std::flush).good() && buffer_->close() != nullptr;
    require(written, path_, ": cannot be written: ", std::strerror(errno));
  }
}

std::string time_left(std::chrono::seconds passed, std::size_t done, std::size_t total) {
  if (done == 0 || done >= total || passed < std::chrono::seconds(10)) return "";
  return text(", about ", static_cast<std::size_t>(passed.count()) * (total - done) / done, " s left");
}

Progress::Progress(Console& console, std::size_t total, std::chrono::milliseconds every)
    : console_(console), total_(total) {
  if (!console.terminal) return;
  clock_ = std::jthread([this, every](const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!ends_.wait_for(lock, stop, every, [&] { return stop.stop_requested(); })) draw();
  });
}

Progress::~Progress() {
  if (!console_.terminal) return;
  clock_ = {};  // stops and joins
  console_.err << "\r\033[K" << std::flush;
}

void Progress::step(std::string_view what) {
  const std::scoped_lock lock(mutex_);
  ++done_, what_ = what;
  draw(), tell();
}

void Progress::step(std::size_t total, std::string_view what) {
  {
    const std::scoped_lock lock(mutex_);
    total_ = total;
  }
  step(what);
}

void Progress::phase(std::string_view what, std::size_t done, std::size_t total) {
  const std::scoped_lock lock(mutex_);
  if (what != what_) start_ = std::chrono::steady_clock::now();
  what_ = what, done_ = done, total_ = total;
  draw(), tell();
}

void Progress::say(std::string_view line) {
  const std::scoped_lock lock(mutex_);
  console_.err << (console_.terminal ? "\r\033[K" : "") << line << '\n';
}

void Progress::tell() {
  if (console_.hears) console_.hears(what_, done_, total_);
}

void Progress::draw() {
  if (!console_.terminal) return;
  console_.err << "\r\033[K";
  if (total_ > 0) console_.err << done_ << '/' << total_ << ' ';
  if (total_ > 0 || done_ == 0) console_.err << plain_text(what_) << (what_.empty() ? "" : ", ");
  const auto passed = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_);
  console_.err << passed.count() << " s";
  console_.err << time_left(passed, done_, total_) << std::flush;
}

}  // namespace assay
