#!/usr/bin/env bash
# killed_train.sh MPIEXEC FLAG PROGRAM: kills rank 1 of a training run. The job must end within
# 30 seconds with another code than 0, and its output must name the rank.
set -uo pipefail
# shellcheck source=test/mpi/rank_1.sh
source "$(dirname "${BASH_SOURCE[0]}")/rank_1.sh"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
timeout -k 5 100 "$1" "$2" 2 "$3" train --data synthetic --examples 1000 --epochs 1000000 --group mpi \
  >"$log" 2>&1 &
job=$!

for _ in $(seq 300); do
  grep -Eq '^ +2 ' "$log" && break  # an epoch is done
  sleep 0.1
done
victim=$(rank_1 "$job")
[ -n "$victim" ] || { cat "$log"; echo "there is no rank 1"; kill "$job" 2>/dev/null; exit 1; }
started=$SECONDS
kill -KILL "$victim"
wait "$job"
code=$?
took=$((SECONDS - started))
tail -20 "$log"
[ "$code" -ne 0 ] || { echo "the job ended as if all were well"; exit 1; }
[ "$took" -le 30 ] || { echo "the job took $took s to end"; exit 1; }
grep -q 'rank 1' "$log" || { echo "nobody names rank 1"; exit 1; }
echo "the job ended with $code after $took s"
