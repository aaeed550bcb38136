#!/bin/sh
# Compares CUB's allocator on the virtual runtime (schedule instant) and on an empty runtime, in
# turn. Prints the least CPU time of a pair on each, and the ratio: the cost of the virtual runtime
# in a benchmark of allocators. The exit code is 1 if the ratio is more than 1.3.
# Usage: bench/virtual_cuda/cub.sh [BUILD [ROUNDS]]
set -eu
build=${1:-build/release}
rounds=${2:-10}
export MILLRACE_VIRTUAL=instant
for _ in $(seq "$rounds"); do
  printf '%s %s\n' "$("$build/bin/bench_cub_on_virtual_cuda")" "$("$build/bin/bench_cub_on_stub")"
done | awk '
  NR == 1 || $1 < ours { ours = $1 }
  NR == 1 || $2 < empty { empty = $2 }
  END {
    printf "virtual runtime %.1f ns, empty runtime %.1f ns a pair: %.2f times\n", ours, empty, ours / empty
    exit ours > 1.3 * empty
  }'
