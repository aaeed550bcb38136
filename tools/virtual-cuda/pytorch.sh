#!/usr/bin/env bash
# Runs PyTorch's CUDA build from its wheel on the virtual CUDA runtime:
#
#   tools/virtual-cuda/pytorch.sh FOLDER [VERSION]
#
# FOLDER gets a virtual environment with torch==VERSION (default 2.14.1) and its packages: 5.6 GB, of
# which pip downloads 3 GB. An environment that has this version already is not changed. PYTHON names
# the Python (default python3), MILLRACE the millrace program (default build/dev/bin/millrace). CI does
# not run this script.
#
# Each schedule runs import, devices, copies, fills, events, streams, pools, graphs, statistics, and
# ten training steps of a transformer and of a DLRM. A last run repeats this with expandable segments.
# The script exits with 0 if
# - memory is the same under all schedules, and
# - `millrace replay` finds every decision of PyTorch's allocator in each snapshot, to the address.
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: tools/virtual-cuda/pytorch.sh FOLDER [VERSION]" >&2
  exit 2
fi
version=${2:-2.14.1}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
millrace=${MILLRACE:-$here/../../build/dev/bin/millrace}
[ -x "$millrace" ] || {
  echo "$millrace is not there: build the target millrace, or name the program in MILLRACE" >&2
  exit 2
}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=$folder/venv/bin/python

installed() { "$python" -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null; }
[ -x "$python" ] || "${PYTHON:-python3}" -m venv "$folder/venv"
[ "$(installed)" = "$version" ] || "$python" -m pip install --quiet --no-cache-dir "torch==$version"
echo "torch $(installed), $("$python" --version)"

# Prints for the row `torch` of a replay: allocations at PyTorch's address, all allocations, segments
# that were acquired for the same request, all segments.
decisions() { # SNAPSHOT
  "$millrace" replay --allocator torch --format json "$1" | "$python" -c '
import json, sys
decided = [replay["decisions"] for file in json.load(sys.stdin)["files"]
           for replay in file["replays"] if replay.get("decisions")]
print(sum(d["same"] for d in decided), sum(d["total"] for d in decided),
      sum(d["segments_same"] for d in decided), sum(d["segments_total"] for d in decided))
'
}

failed=0
for schedule in instant adversarial:1 h200 expandable; do
  log=$folder/${schedule%:*}.log
  snapshots=$folder/${schedule%:*}
  settings=''
  [ "$schedule" != expandable ] || schedule=h200 settings=expandable_segments:True
  rm -rf "$snapshots"
  mkdir -p "$snapshots"
  if ! PYTORCH_CUDA_ALLOC_CONF=$settings MILLRACE_VIRTUAL_REPORT=$snapshots/report.txt "$millrace" run --allocator own --virtual "$schedule,gpus=2" -- \
    "$python" -W ignore "$here/pytorch/steps.py" "$snapshots" >"$log" 2>&1; then
    echo "$schedule: failed; the end of $log:"
    tail -n 15 "$log"
    failed=1
    continue
  fi
  echo "$schedule${settings:+, $settings}"
  sed 's/^/  /' "$log"
  for snapshot in "$snapshots"/*.pickle; do
    read -r same all same_segments all_segments < <(decisions "$snapshot")
    echo "  replay of $(basename "$snapshot"): $same of $all allocations at PyTorch's address," \
      "$same_segments of $all_segments segments"
    if [ "$all" -eq 0 ] || [ "$same $same_segments" != "$all $all_segments" ]; then failed=1; fi
  done
  [ -z "$settings" ] || continue # expandable segments take other memory
  grep '^memory ' "$log" >"$snapshots/memory.txt"
  cmp -s "$snapshots/memory.txt" "$folder/instant/memory.txt" || {
    echo "  the memory is not that of the schedule instant"
    failed=1
  }
done
exit $failed
