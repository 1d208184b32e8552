#pragma once
// `assay-lab`: the judge on trial, records and pages. Users need `assay` alone.
#include <vector>

#include "files/case_file.hpp"
#include "tools/verbs/command.hpp"

namespace assay {

struct Calibration;

const CommandLine& lab_command_line();

namespace commands {
extern const Command bench, calibrate, docs, emit, identities, merge_of_lab, mutants, paper;
}

/// As merged() of tools/verbs/merge.hpp, of `assay-lab mutants`: what each rule kills is counted again.
Json merged_mutants(std::vector<Json> pages, const std::vector<std::string>& names);
/// As above, of `assay-lab calibrate`.
Calibration merged_calibration(std::vector<Json> pages, const std::vector<std::string>& names);

}  // namespace assay
