#pragma once
// The program as its users call it: words in, exit code and both streams out, and a folder for its files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "files/problem_file.hpp"
#include "tools/lab/lab.hpp"

namespace assay {

/// Checks of tests keep nothing in the folder of the user who runs them.
inline const int keeps_nothing = ::setenv("XDG_CACHE_HOME", "/dev/null", 1);

struct Ran {
  int code;
  std::string out, err;
};

/// The verbs of both programs, under the name of one.
inline const CommandLine& all_verbs() {
  static const CommandLine line = [] {
    CommandLine all = command_line();
    for (const Command* verb : lab_command_line().verbs)
      if (verb != &commands::merge_of_lab) all.verbs.push_back(verb);
    return all;
  }();
  return line;
}

inline Ran run_assay(const std::vector<std::string>& args, const CommandLine& line = all_verbs()) {
  std::ostringstream out, err;
  Console console{out, err, false};
  const int code = run(line, args, console);
  return {code, out.str(), err.str()};
}

/// The oracle's answer to a case as a kernel would write it: one number of each pair.
inline Safetensors right_answer(const Safetensors& problem) {
  Safetensors right = answer_file(read_problem(problem, "case"), std::nullopt, 1, "0");
  std::erase_if(right.tensors, [](const auto& one) { return one.first.find('.') != std::string::npos; });
  return right;
}

/// Whether a process of that id runs; one that has ended and is not yet waited for does not.
inline bool is_running(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  for (int i = 0; i < 3; ++i) status >> word;
  return status.good() && word != "Z";
}

/// An empty folder of its own for every test.
class CliFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(name.begin(), name.end(), '/', '_');
    folder = std::filesystem::temp_directory_path() / ("assay_" + name + '_' + std::to_string(getpid()));
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string& name) const { return (folder / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder;
};

}  // namespace assay
