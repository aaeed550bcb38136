#!/usr/bin/env bash
# Counts the instructions of the allocator's entry points:  bench/costs.sh [SUBJECT [ENTRY...]]
#
# Builds bench_costs in the released configuration (preset release) and runs it under valgrind's
# callgrind with two counts. Prints a Markdown table of the differences. Without arguments: each
# entry of millrace, torch, cub and mutex-floor. docs/costs.md explains the figures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v valgrind >/dev/null || {
  echo "bench/costs.sh: valgrind is not installed; right: apt-get install valgrind" >&2
  exit 2
}

few=10000
CMAKE_ARGS="${CMAKE_ARGS-} -DMILLRACE_BENCH=ON" tools/build.sh release bench_costs
program=build/release/bin/bench_costs

# Instructions of the whole program. Fails if the subject does not have the entry.
instructions() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$@" 2>&1 |
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

# cost SUBJECT ENTRY: instructions of one call, or a dash.
cost() {
  "$program" "$1" "$2" 1 2>/dev/null || {
    echo "-"
    return
  }
  local one two
  one=$(instructions "$1" "$2" "$few")
  two=$(instructions "$1" "$2" $((2 * few)))
  echo $(((two - one) / few))
}

subjects=(millrace torch cub mutex-floor)
entries=()
[ $# -eq 0 ] || { subjects=("$1") && shift && entries=("$@"); }
[ ${#entries[@]} -gt 0 ] || mapfile -t entries < <("$program" list | cut -f1)

# Report a misspelled name before the count, which takes minutes.
for entry in "${entries[@]}"; do
  "$program" list | cut -f1 | grep -qx -- "$entry" || {
    echo "bench/costs.sh: no entry is called '$entry'; right: one of $("$program" list | cut -f1 | tr '\n' ' ')" >&2
    exit 2
  }
done
for subject in "${subjects[@]}"; do
  "$program" "$subject" pair 1 2>/dev/null || {
    echo "bench/costs.sh: this build has no subject '$subject'; right: one of millrace, torch, cub, mutex-floor" >&2
    exit 2
  }
done

header='| entry |' rule='|---|'
for subject in "${subjects[@]}"; do
  header+=" $subject |" rule+='---|'
done
printf '%s\n%s\n' "$header" "$rule"
for entry in "${entries[@]}"; do
  what=$("$program" list | awk -F'\t' -v entry="$entry" '$1 == entry { print $2 }')
  line="| \`$entry\`: $what |"
  for subject in "${subjects[@]}"; do line+=" $(cost "$subject" "$entry") |"; done
  echo "$line"
done
