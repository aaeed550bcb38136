#!/usr/bin/env bash
# Builds a suite of benchmarks in the released configuration (preset release) and runs it:
#   bench/run.sh allocator [OPTION...]
#
#   --json FILE         keep the results
#   --compare FILE      print them beside the results of an earlier run
#   --table, --svg FILE write a table (Markdown), a picture
#   other options       passed to bench_allocator: --quick, --filter REGEX, --repetitions N,
#                       --device cuda:0, --help
#
# docs/benchmarks.md describes the measurements.
set -euo pipefail
began_in=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage_error() {
  echo "bench/run.sh: $1; right: $2" >&2
  exit 2
}

# Paths are relative to the caller's folder. This script works in another folder.
absolute() {
  case $1 in /*) echo "$1" ;; *) echo "$began_in/$1" ;; esac
}

[ $# -ge 1 ] || usage_error "no suite is named" "bench/run.sh allocator [--json FILE] [--quick]"
[ "$1" = allocator ] || usage_error "no suite is called '$1'" "bench/run.sh allocator"
shift

json='' compare='' written=()
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --json | --compare | --table | --svg | --data)
      [ $# -ge 2 ] || usage_error "$1 is without a file" "$1 FILE"
      case $1 in
        --json) json=$(absolute "$2") ;;
        --compare) compare=$(absolute "$2") ;;
        --data) arguments+=(--data "$(absolute "$2")") ;;
        *) written+=("$1" "$(absolute "$2")") ;;
      esac
      shift
      ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

# Report an unreadable file before the measurement, which takes minutes.
[ -z "$compare" ] || bench/allocator/table.py --check "$compare"

CMAKE_ARGS="${CMAKE_ARGS-} -DMILLRACE_BENCH=ON" tools/build.sh release bench_allocator

if [ -z "${MILLRACE_DATA-}" ] && [ -d ../shared/data ]; then
  export MILLRACE_DATA=$PWD/../shared/data
fi
# OpenBLAS starts threads that would spin during the measurement.
export OPENBLAS_NUM_THREADS=1

if [ -z "${MILLRACE_COMMIT-}" ]; then
  MILLRACE_COMMIT=$(git rev-parse HEAD 2>/dev/null || echo unknown)
  [ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || MILLRACE_COMMIT+=+changes
  export MILLRACE_COMMIT
fi

kept=${json:-build/release/bench_allocator.json}
build/release/bin/bench_allocator --json "$kept" "${arguments[@]}"
if [ -n "$compare" ]; then
  bench/allocator/table.py "$compare" "$kept" "${written[@]}"
elif [ ${#written[@]} -gt 0 ]; then
  bench/allocator/table.py "$kept" "${written[@]}"
fi
