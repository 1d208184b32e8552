#pragma once
// Defects that were published, as files: a case each, what the published formula answers to it, and what a kernel
// answers that is right. fixtures/defects holds them, docs/tutorial.md finds them.
#include <map>
#include <string>
#include <vector>

#include "files/safetensors.hpp"
#include "judge/court/seeded_case.hpp"

namespace assay {

struct Defect {
  std::string name;  ///< of its folder
  SeededCase problem;
  std::string form;      ///< the unstable form that has it; "": the room's first form has it as a fault or a contract
  std::string fault;     ///< planted there; "": none
  std::string contract;  ///< that the defective kernel keeps; "": that of the case's precision
};

/// In the order of the tutorial.
const std::vector<Defect>& published_defects();

/// The files of its folder: case.safetensors, defective.safetensors, healthy.safetensors. The same bits under every
/// compiler and thread count.
std::map<std::string, Safetensors> files_of(const Defect& defect);

}  // namespace assay
