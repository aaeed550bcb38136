#!/usr/bin/env bash
# train.sh PROGRAM trains on cuda:0 on the virtual runtime. The training must end with the bits of
# virtual:h200. The environment names the runtime, its schedule and the kernels. The report shows
# that the training used a GPU, and that the GPU computed.
set -uo pipefail

program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export MILLRACE_VIRTUAL_REPORT=$folder/report

fail() {
  echo "$1"
  cat "$folder"/log* 2>/dev/null
  exit 1
}

digest() { grep -o '"weights_digest": "[^"]*"' "$1"; }

# compare OPTION... runs one training on both devices.
compare() {
  local device found=()
  for device in cuda:0 virtual:h200; do
    rm -f "$folder/report"
    "$program" train --data synthetic --examples 640 --batch-size 64 --epochs 1 --seed 5 --device "$device" \
      --json "$folder/$device" "$@" >"$folder/log" 2>&1 || fail "train $* failed on $device"
    found+=("$(digest "$folder/$device")")
    if [ "$device" = cuda:0 ]; then
      grep -q cudaLaunchKernelExC "$folder/report" || fail "train $* launched nothing"
      ! grep -q "without a host implementation" "$folder/report" || fail "train $* launched kernels that do not compute"
    fi
  done
  echo "$*: ${found[0]}"
  [ -n "${found[0]}" ] || fail "train $* has no digest"
  [ "${found[0]}" = "${found[1]}" ] || fail "train $*: ${found[0]} on cuda:0, ${found[1]} on virtual:h200"
}

compare --pipeline base --copy side-stream
compare --pipeline base --copy driver-async --allocator torch
compare --pipeline sparse-dist --copy precise --waits precise
compare --pipeline fused-sparse-dist --copy ring --waits precise
compare --pipeline semi-sync --copy in-place --start-batch 2
compare --pipeline prefetch-sparse-dist --copy precise --cache-load-factor 0.2
