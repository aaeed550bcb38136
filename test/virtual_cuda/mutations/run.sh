#!/usr/bin/env bash
# Runs the suite of the checker with each flaw, and prints which cases find it:
#   run.sh SUITE LIBCUDA FLAWS.DEF PART...
# The runtime is in the folder 13 next to LIBCUDA. Fails if the suite passes with a flaw, or does
# not pass without one.
set -euo pipefail
suite=$1 library=$2 flaws=$3
shift 3
runtime=$(dirname "$library")/13/libcudart.so.13
export MILLRACE_VIRTUAL_CHECK=on NVTX_INJECTION64_PATH=$library
export MILLRACE_VIRTUAL=${MILLRACE_VIRTUAL-adversarial:1}

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# Prints the names of the cases that fail with a flaw, in all parts of the suite. The file $errors
# gets the standard error of the parts.
failed_cases() {
  local part
  : >"$errors"
  for part in "${parts[@]}"; do
    # Reads Catch's XML, because the program's own exit code is 4 after races.
    MILLRACE_CHECKER_FLAW=$1 LD_PRELOAD="$library $runtime" timeout 60 "$suite" -r xml "[$part]" 2>>"$errors" |
      awk -v part="$part" '
        /<TestCase name=/ { name = $0; sub(/.*<TestCase name="/, "", name); sub(/".*/, "", name) }
        /<OverallResult success="false"/ { print name }
        /<OverallResultsCases/ { complete = 1 }
        END { if (!complete) print "the part " part " ended early" }' || true
  done
}

parts=("$@")
found=$(failed_cases none)
if [ -n "$found" ]; then
  printf 'without a flaw these fail:\n%s\n' "$found"
  tail -n 20 "$errors"
  exit 1
fi
missed=0
while read -r flaw; do
  found=$(failed_cases "$flaw")
  if [ -z "$found" ]; then
    echo "$flaw: NOT FOUND"
    missed=1
  else
    echo "$flaw: $(wc -l <<<"$found") cases, such as: $(head -n 1 <<<"$found")"
  fi
done < <(sed -n 's/^MILLRACE_FLAW(\(.*\))$/\1/p' "$flaws")
exit $missed
