#include "tools/program.hpp"

int main(int argc, char** argv) { return assay::program({argv + 1, argv + argc}); }
