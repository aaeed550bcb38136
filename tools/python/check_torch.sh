#!/usr/bin/env bash
# Runs trainings of PyTorch with its own allocator and with Millrace, on the virtual CUDA runtime or on a GPU:
#
#   tools/python/check_torch.sh FOLDER
#   SCHEDULES=gpu tools/python/check_torch.sh FOLDER
#
# FOLDER/venv has torch. If it is missing, TORCH_VERSION (2.14.1) is installed there: 5.6 GB. The
# program and the library come from BUILD (build/dev). This script is not a part of CI. Under each
# schedule it runs, with unchanged code, a transformer and a DLRM with a side stream. It compares
# statistics and history with the snapshot, runs PyTorch's own tools on it, and checks pools, graphs
# and out of memory. With Millrace the names of the statistics and the requested bytes must be those
# of PyTorch's allocator. Then it checks the errors for users who lack something. The exit code is 0
# if all checks pass.
set -euo pipefail

if [ $# -ne 1 ]; then
  echo "usage: tools/python/check_torch.sh FOLDER" >&2
  exit 2
fi
# shellcheck source=tools/python/torch_environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/torch_environment.sh" "$1"
# shellcheck disable=SC2154  # root is set there
export PYTHONPATH=$PYTHONPATH:$root/tools/virtual-cuda/pytorch
tests=$root/tools/python/test
failed=0

run() { # NAME COMMAND...
  local log=$folder/$1.log
  if "${@:2}" >"$log" 2>&1; then
    echo "passed: $1 $(grep '^{' "$log" || true)"
  else
    echo "FAILED: $1; the end of $log:"
    tail -n 15 "$log"
    failed=1
  fi
}

schedules=${SCHEDULES:-instant adversarial:1 h200}
for schedule in $schedules; do
  for training in transformer dlrm; do
    for allocator in pytorch millrace; do
      out=$folder/$allocator
      mkdir -p "$out"
      switch=0
      [ "$allocator" = pytorch ] || switch=1
      run "$training.$allocator.${schedule%:*}" on "$schedule" \
        env MILLRACE_TORCH=$switch "$python" -W ignore "$tests/torch_training.py" "$training" "$out"
    done
    cmp "$folder/pytorch/names.txt" "$folder/millrace/names.txt" || failed=1
    if ! "$python" -c '
import json, sys
pytorch, millrace = (json.loads(next(line for line in open(path) if line.startswith("{"))) for path in sys.argv[1:])
wanted = {"backend": ("native", "millrace"), **{key: (pytorch[key],) * 2 for key in ("allocations", "with_a_frame", "requested")}}
wrong = [key for key, values in wanted.items() if (pytorch[key], millrace[key]) != values]
sys.exit(f"differs: {wrong}" if wrong else 0)
' "$folder/$training.pytorch.${schedule%:*}.log" "$folder/$training.millrace.${schedule%:*}.log"; then
      failed=1
    fi
  done
done

schedule=${schedules%% *}

# An error about something missing or wrong must be one line.
refuses() { # NAME WANTED VARIABLE=VALUE...
  local log=$folder/$1.log
  if on "$schedule" env "${@:3}" "$python" -W ignore -m millrace.torch "$tests/torch_training.py" dlrm "$folder" \
    >"$log" 2>&1 || ! grep -q "^python -m millrace.torch: .*$2" "$log"; then
    echo "FAILED: $1; the end of $log:"
    tail -n 5 "$log"
    failed=1
  else
    echo "passed: $1: $(grep '^python -m' "$log")"
  fi
}
refuses no_compiler 'no C++ compiler' CXX=/nowhere/g++ MILLRACE_TORCH_CACHE="$folder/empty"
refuses wrong_key 'backend:cudaMallocAsync' PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:21,backend:cudaMallocAsync
refuses no_caching 'PYTORCH_NO_CUDA_MEMORY_CACHING' PYTORCH_NO_CUDA_MEMORY_CACHING=1

# Also with a compiler that would link its own libstdc++ into the extension: the process must have
# only one.
printf '#!/bin/sh\nexec %s -static-libstdc++ "$@"\n' "${CXX:-g++}" >"$folder/static-g++"
chmod +x "$folder/static-g++"
run own_libstdcxx on "$schedule" env CXX="$folder/static-g++" MILLRACE_TORCH_CACHE="$folder/static" \
  "$python" -W ignore -m millrace.torch "$tests/torch_training.py" dlrm "$folder"
if ! symbols=$(nm -DC "$folder"/static/torch-*.so); then
  echo "FAILED: own_libstdcxx: no extension was built"
  failed=1
elif grep -q ' [TW] std::locale::' <<<"$symbols"; then
  echo "FAILED: own_libstdcxx: the extension has a libstdc++ of its own"
  failed=1
fi

for form in "" --pluggable; do
  # shellcheck disable=SC2086  # no word without a form
  run "settings$form" on "$schedule" "$python" -W ignore -m millrace.torch $form "$tests/torch_settings.py"
done
run pluggable on "$schedule" "$python" -W ignore -m millrace.torch --pluggable "$tests/torch_pluggable.py"
exit $failed
