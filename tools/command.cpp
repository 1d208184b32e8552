#include "tools/command.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <ostream>

#include "oracles/core/did_you_mean.hpp"
#include "oracles/core/input_file.hpp"
#include "reference/core/error.hpp"

namespace assay {

const std::vector<const Command*>& all_commands() {
  static const std::vector<const Command*> all = {
      &commands::list,     &commands::report, &commands::check,  &commands::baseline, &commands::make_case,
      &commands::oracle,   &commands::drift,  &commands::limits, &commands::mutants,  &commands::calibrate,
      &commands::fixtures, &commands::bench,  &commands::docs};
  return all;
}

namespace {

/// "help check" is "check --help". Throws InputError if the first word is no verb.
std::vector<std::string> with_verb(std::vector<std::string> args) {
  if (!args.empty() && args.front() == "help") {
    args.erase(args.begin());
    args.resize(std::min<std::size_t>(args.size(), 1));
    args.emplace_back("--help");
  }
  if (args.empty() || args.front().starts_with('-')) return args;
  std::vector<std::string> verbs;
  std::string all;
  for (const Command* command : all_commands()) {
    verbs.emplace_back(command->name);
    all += (all.empty() ? "" : ", ") + verbs.back();
  }
  require(std::find(verbs.begin(), verbs.end(), args.front()) != verbs.end(), "there is no verb ",
          excerpt(args.front()), did_you_mean(args.front(), verbs), "; there are ", all);
  return args;
}

}  // namespace

int run(const std::vector<std::string>& typed, Console& console) {
  try {
    const std::vector<std::string> args = with_verb(typed);
    CLI::App app(
        "assay: does an attention or fast-weight kernel compute what its mathematics says, and how far off is it?",
        "assay");
    app.set_version_flag("--version", ASSAY_VERSION);
    app.require_subcommand(1);
    std::function<int(Console&)> chosen;
    for (const Command* command : all_commands()) {
      CLI::App* verb = app.add_subcommand(std::string(command->name), std::string(command->summary));
      verb->callback([&chosen, action = command->add(*verb)] { chosen = action; });
    }
    try {
      // CLI11 takes them from the back.
      app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    } catch (const CLI::ParseError& error) {
      const bool asked = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
      app.exit(error, console.out, console.err);
      return asked ? exit_passed : exit_usage;
    }
    return chosen(console);
  } catch (const InputError& error) {
    // Names out of somebody's file may hold anything.
    constexpr std::size_t longest = 4000;
    console.err << "assay: " << excerpt(error.what(), longest) << '\n';
    return exit_usage;
  } catch (const std::bad_alloc&) {  // only what somebody asks for can be so large
    console.err << "assay: there is not enough memory for a problem of this size\n";
    return exit_usage;
  } catch (const std::exception& error) {
    console.err << "assay: internal error: " << error.what() << '\n';
    return exit_broken;
  }
}

OutputFile::OutputFile(std::string path, std::ostream& standard_output)
    : path_(std::move(path)), standard_output_(standard_output) {
  if (path_ == "-") return;
  namespace fs = std::filesystem;
  require(!fs::is_directory(path_), path_, ": is a directory");
  // A link stays a link to the file that it names; a device is written to, not replaced.
  if (fs::exists(path_)) path_ = fs::canonical(path_);
  temporary_ = fs::exists(path_) && !fs::is_regular_file(path_) ? path_ : text(path_, ".", getpid(), ".tmp");
  if (std::ofstream(temporary_, std::ios::app)) return;
  const std::string reason = std::strerror(errno);
  temporary_.clear();
  throw InputError(path_ + ": cannot be written: " + reason);
}

OutputFile::~OutputFile() {
  if (!temporary_.empty() && temporary_ != path_) std::remove(temporary_.c_str());
}

void OutputFile::commit(std::string_view contents) {
  commit([contents](std::ostream& out) { out << contents; });
}

void OutputFile::commit(const std::function<void(std::ostream&)>& write) {
  if (path_ == "-") {
    write(standard_output_);
    require((standard_output_ << std::flush).good(), "standard output: cannot be written");
    return;
  }
  std::ofstream file(temporary_, std::ios::binary);
  write(file);
  file.close();
  require(file.good(), path_, ": cannot be written: ", std::strerror(errno));
  if (temporary_ != path_)
    require(std::rename(temporary_.c_str(), path_.c_str()) == 0, path_, ": cannot be written: ", std::strerror(errno));
  temporary_.clear();
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
  draw();
}

void Progress::step(std::size_t total, std::string_view what) {
  {
    const std::scoped_lock lock(mutex_);
    total_ = total;
  }
  step(what);
}

void Progress::draw() {
  if (!console_.terminal) return;
  console_.err << "\r\033[K";
  if (total_ > 0) console_.err << done_ << '/' << total_ << ' ' << what_ << ", ";
  const auto passed = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_);
  console_.err << passed.count() << " s";
  console_.err << time_left(passed, done_, total_) << std::flush;
}

}  // namespace assay
