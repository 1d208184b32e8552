#include "tools/lab/lab.hpp"

namespace assay {

const CommandLine& lab_command_line() {
  static const CommandLine line{
      "assay-lab",
      "assay-lab: the judge of assay on trial, identities, and what writes its records and pages",
      {&commands::mutants, &commands::calibrate, &commands::merge_of_lab, &commands::identities, &commands::paper,
       &commands::bench, &commands::emit, &commands::docs}};
  return line;
}

}  // namespace assay
