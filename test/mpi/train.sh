#!/usr/bin/env bash
# train.sh MPIEXEC FLAG RANKS PROGRAM: `millrace train` on RANKS processes must end with the weights
# and the AUC of the same number of threads. One process must load the checkpoint that they save. An
# error of one rank must end all ranks and print its reason.
set -uo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
data=(train --data synthetic --examples 1001 --batch-size 96 --epochs 2 --sharding row-wise)
fact() { grep -o "\"$1\": [^,]*" "$2" | head -1; }
fail() {
  echo "$1"
  cat "$folder"/log* 2>/dev/null
  exit 1
}

timeout -k 5 100 "$1" "$2" "$3" "$4" "${data[@]}" --group mpi --pipeline sparse-dist --save "$folder/run" \
  --json "$folder/processes" >"$folder/log" 2>&1 || fail "the processes failed"
"$4" "${data[@]}" --ranks "$3" --json "$folder/threads" >"$folder/log" 2>&1 || fail "the threads failed"
"$4" "${data[@]:0:7}" --load "$folder/run" --eval --json "$folder/one" >"$folder/log" 2>&1 || fail "one failed"
for name in weights_digest auc steps; do
  echo "$name: $(fact "$name" "$folder/processes")"
  [ -n "$(fact "$name" "$folder/processes")" ] || fail "there is no $name"
  [ "$(fact "$name" "$folder/processes")" = "$(fact "$name" "$folder/threads")" ] || fail "another $name"
done
[ "$(fact weights_digest "$folder/one")" = "$(fact weights_digest "$folder/processes")" ] ||
  fail "what was saved is not what was loaded"

printf '{"schema": "millrace.model/1", "width": 8, "tables": {"s0": {"rows": 900}},
  "dense_arch": [8], "over_arch": [8]}' >"$folder/model"
timeout -k 5 60 "$1" "$2" "$3" "$4" "${data[@]}" --group mpi --model "$folder/model" >"$folder/log" 2>&1
code=$?
[ "$code" -ne 0 ] && [ "$code" -ne 124 ] || fail "an error ended with $code"
# The failed rank prints the reason. Another rank prints it if mpiexec ends the failed rank earlier.
grep -qE "rank [0-9]+( failed)?: id [0-9]+ of feature 's0' is not a row" "$folder/log" || fail "the reason is missing"

# Ranks with different options. One case shows before the group exists, the other one after that.
[ "$3" -eq 2 ] || exit 0
for other in "--ranks 3" "--seed 2"; do
  # shellcheck disable=SC2086
  timeout -k 5 40 "$1" "$2" 1 "$4" "${data[@]}" --group mpi : "$2" 1 "$4" "${data[@]}" --group mpi $other \
    >"$folder/log" 2>&1
  code=$?
  [ "$code" -ne 0 ] && [ "$code" -ne 124 ] || fail "$other of one rank ended with $code"
  grep -Eq "2 processes were started, not 3|rank 1 was given other options" "$folder/log" || fail "no reason for $other"
done
