#!/usr/bin/env bash
# killed_train.sh MPIEXEC FLAG PROGRAM: rank 1 of a training run is killed. The job has to end within
# 30 seconds, not with 0, and somebody has to say which rank it was.
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
timeout -k 5 100 "$1" "$2" 2 "$3" train --data synthetic --examples 1000 --epochs 1000000 --group mpi \
  >"$log" 2>&1 &
job=$!

# The process of rank 1 among what descends from the job.
rank_1() {
  local stat pid parent
  for stat in /proc/[0-9]*/stat; do
    pid=${stat#/proc/} pid=${pid%/stat}
    grep -qzx 'OMPI_COMM_WORLD_RANK=1' "/proc/$pid/environ" 2>/dev/null || continue
    parent=$pid
    while [ "$parent" -gt 1 ] && [ "$parent" -ne "$job" ]; do
      parent=$(sed -n 's/^PPid:\t//p' "/proc/$parent/status" 2>/dev/null)
      parent=${parent:-0}
    done
    [ "$parent" -eq "$job" ] && echo "$pid" && return
  done
}

for _ in $(seq 300); do
  grep -Eq '^ +2 ' "$log" && break  # an epoch is done
  sleep 0.1
done
victim=$(rank_1)
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
