#!/usr/bin/env bash
# ranks.sh MPIEXEC FLAG PROGRAM trains with two processes, each with a GPU of the virtual runtime.
# They must end with the weights of two threads with virtual devices, for each way to shard tables.
set -uo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
options=(train --data synthetic --examples 640 --batch-size 64 --epochs 1 --seed 5 --pipeline sparse-dist)

fail() {
  echo "$1"
  cat "$folder/log"
  exit 1
}

digest() { grep -o '"weights_digest": "[^"]*"' "$1"; }

for sharding in table-wise row-wise; do
  timeout -k 5 60 "$1" "$2" 2 "$3" "${options[@]}" --sharding "$sharding" --group mpi --device cuda:local \
    --json "$folder/processes" >"$folder/log" 2>&1 || fail "$sharding: the processes failed"
  "$3" "${options[@]}" --sharding "$sharding" --ranks 2 --device virtual:h200 --json "$folder/threads" \
    >"$folder/log" 2>&1 || fail "$sharding: the threads failed"
  echo "$sharding: $(digest "$folder/processes")"
  grep -q '"device": "cuda' "$folder/processes" || fail "$sharding: the processes had no GPU"
  [ -n "$(digest "$folder/processes")" ] || fail "$sharding: there is no digest"
  [ "$(digest "$folder/processes")" = "$(digest "$folder/threads")" ] || fail "$sharding: other weights"
done
