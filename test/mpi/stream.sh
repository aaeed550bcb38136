#!/usr/bin/env bash
# stream.sh MPIEXEC FLAG PROGRAM: two processes train and stream to one sink. The sink must have
# every row of their checkpoint bit by bit: at the end, after the tables move to other ranks, and
# after rank 1 is killed at a random instant and the job continues from its last checkpoint.
set -uo pipefail
# shellcheck source=test/mpi/rank_1.sh
source "$(dirname "${BASH_SOURCE[0]}")/rank_1.sh"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sink="file:$folder/sink" checkpoint="$folder/checkpoint"
program=$3
job=("$1" "$2" 2 "$program" train --data synthetic --examples 1000 --batch-size 50 --epochs 100000
  --group mpi --stream "$sink" --save "$checkpoint")
fail() {
  echo "$1"
  cat "$folder/log"
  exit 1
}
train() { timeout -k 5 100 "${job[@]}" "$@" >"$folder/log" 2>&1 || fail "failed: $*"; }
verified() {
  "$program" stream verify "$sink" "$checkpoint" >"$folder/log" 2>&1 || fail "$1: the sink is not the table"
  tail -2 "$folder/log"
}

train --steps 30 --sharding row-wise
verified "in the end"
train --steps 50 --sharding table-wise --load "$checkpoint"
verified "placed anew"

for round in 1 2 3; do
  before=$(stat -c %i "$checkpoint")
  timeout -k 5 100 "${job[@]}" --save-every 7 --load "$checkpoint" >"$folder/log" 2>&1 &
  started=$!
  for _ in $(seq 300); do
    [ "$(stat -c %i "$checkpoint")" != "$before" ] && break
    sleep 0.1
  done
  sleep "0.0$((RANDOM % 10))"
  victim=$(rank_1 "$started")
  [ -n "$victim" ] || fail "there is no rank 1"
  kill -KILL "$victim"
  wait "$started" && fail "the job ended as if all were well"
  train --steps 1 --load "$checkpoint" # trains no step, sends the missing rows
  verified "killed, round $round"
done
