// A program of another project that uses assay: it runs a verb, and reads its output.
#include <iostream>
#include <sstream>

#include "tools/verbs/command.hpp"

int main() {
  std::ostringstream out;
  assay::Console console{out, std::cerr};
  const int code = assay::run({"list"}, console);
  std::cout << (code == 0 && out.str().find("gated_deltanet") != std::string::npos ? "gated_deltanet is there\n"
                                                                                   : out.str());
  return code;
}
