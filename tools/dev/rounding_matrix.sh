#!/usr/bin/env bash
# Rounding gives the same bits as compiled by g++ and clang++ at -O0 to -O3, and from each instruction set's body alone.
# Usage: rounding_matrix.sh [COMPILER...]   (default: those of g++ and clang++ that are installed)
# Exit 0: every build printed the expected hash. A change of meaning changes the hash: check it with
# proptests/core/rounding.cpp first, then write the new one here.
set -euo pipefail
expected=8ce510660e7c982f

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compilers=("$@")
if [ $# -eq 0 ]; then
  for compiler in g++ clang++; do
    if command -v "$compiler" >/dev/null; then compilers+=("$compiler"); else echo "skipped  $compiler: not installed"; fi
  done
fi
[ ${#compilers[@]} -gt 0 ] || { echo "no compiler to test" >&2; exit 1; }

builds=(-O0 -O1 -O2 -O3 "-O3 -DASSAY_PER_MACHINE=")
if grep -qsw avx2 /proc/cpuinfo; then builds+=("-O3 -march=x86-64-v3 -DASSAY_PER_MACHINE="); fi

try() {  # BUILD: one line of the report; false unless the hash is the expected one
  local binary hash
  binary=$(mktemp "$work/XXXXXX")
  # shellcheck disable=SC2086  # a build is several words
  $1 -std=c++20 -ffp-contract=off -I"$root" "$root"/reference/core/rounding.cpp \
    "$root"/proptests/core/rounding_probe.cpp -o "$binary"
  hash=$("$binary")
  if [ "$hash" = "$expected" ]; then echo "same     $1"; else echo "DIFFERS  $1: $hash, expected $expected"; return 1; fi
}
export -f try
export root work expected

# shellcheck disable=SC2016  # the inner shell expands it
for compiler in "${compilers[@]}"; do printf "$compiler %s\0" "${builds[@]}"; done |
  xargs -0 -n 1 -P 2 bash -c 'try "$1"' _
