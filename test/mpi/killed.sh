#!/usr/bin/env bash
# killed.sh MPIEXEC FLAG PROGRAM: rank 1 of 2 kills itself while rank 0 waits for it. The job must
# end within 30 seconds with another code than 0, and its output must name the rank.
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
started=$SECONDS
timeout -k 5 45 "$1" "$2" 2 "$3" '[alone]' >"$log" 2>&1
code=$?
took=$((SECONDS - started))
cat "$log"
[ "$code" -ne 0 ] || { echo "the job ended as if all were well"; exit 1; }
[ "$took" -le 30 ] || { echo "the job took $took s to end"; exit 1; }
grep -q 'rank 1' "$log" || { echo "nobody names rank 1"; exit 1; }
echo "the job ended with $code after $took s"
