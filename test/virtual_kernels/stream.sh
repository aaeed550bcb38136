#!/usr/bin/env bash
# stream.sh PROGRAM trains on cuda:0 on the virtual runtime, with each way of capture. The streamed
# rows must have the bits of the checkpoint, and the weights must be those of a training without
# streaming. Then it runs stream bench.
set -uo pipefail

program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export MILLRACE_VIRTUAL_REPORT=$folder/report

fail() {
  echo "$1"
  cat "$folder/log"
  exit 1
}

computed() {
  grep -q cudaLaunchKernelExC "$folder/report" || fail "$1 launched nothing"
  ! grep "without a host implementation" "$folder/report" || fail "$1 launched kernels that do not compute"
}

train() {
  "$program" train --data synthetic --examples 640 --batch-size 64 --epochs 1 --seed 7 --device cuda:0 \
    --pipeline sparse-dist --json "$folder/json" "$@" >"$folder/log" 2>&1 || fail "train $* failed"
  computed "train $*"
  grep -o '"weights_digest": "[^"]*"' "$folder/json"
}

plain=$(train)
# capture GATHER WAY tests one way of capture, with rows gathered on this stream.
capture() {
  local content sink streamed
  for content in weights weights-and-state; do
    sink=file:$folder/$1-$2-$content
    streamed=$(train --stream "$sink" --stream-gather "$1" --stream-capture "$2" --stream-content "$content" \
      --save "$folder/checkpoint") || fail "$streamed"
    [ "$streamed" = "$plain" ] || fail "$2 of $content: other weights"
    "$program" stream verify "$sink" "$folder/checkpoint" >"$folder/log" 2>&1 || fail "$2 of $content: other rows"
    echo "$1 $2 $content: $(tail -1 "$folder/log")"
  done
}

capture update sync
capture own ring
capture update mapped
capture own ring-kernel

"$program" stream bench --device cuda:0 --rows 2000 --tables 2 --table-rows 20000 --width 16 --steps 4 \
  >"$folder/log" 2>&1 || fail "stream bench failed"
computed "stream bench"
