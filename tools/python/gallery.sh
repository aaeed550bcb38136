#!/usr/bin/env bash
# Runs the programs of docs/examples/gallery with PyTorch's own allocator and with Millrace. Prints
# the table of docs/gallery.md:
#
#   tools/python/gallery.sh FOLDER [PROGRAM...]
#
# FOLDER/venv has torch, and keeps the extension. If torch is missing, 2.14.1 is installed: 5.6 GB,
# of which pip downloads 3 GB. BUILD (build/dev) must have the targets millrace and millrace_shared.
# SCHEDULE (h200,memory=80GiB) is the schedule of the virtual CUDA runtime, or "gpu" for this
# machine's GPU. This script is not a part of CI. The exit code is 0 if every program ran with both
# allocators.
set -euo pipefail

if [ $# -lt 1 ]; then
  echo "usage: tools/python/gallery.sh FOLDER [PROGRAM...]" >&2
  exit 2
fi
# shellcheck source=tools/python/torch_environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/torch_environment.sh" "$1"
shift
# shellcheck disable=SC2154  # root, folder and python are set there
programs_at=$root/docs/examples/gallery
schedule=${SCHEDULE:-h200,memory=80GiB}
if [ $# -eq 0 ]; then
  for script in "$programs_at"/*.py; do
    name=$(basename "$script" .py)
    [ "$name" = figures ] || set -- "$@" "$name"
  done
fi

figures() { # NAME ALLOCATOR COMMAND...
  local log=$folder/$1.$2.log
  if ! "${@:3}" >"$log" 2>&1 || ! grep '^{' "$log" >"$folder/$1.$2.json"; then
    echo "$1 with $2 failed; the end of $log:" >&2
    tail -n 5 "$log" >&2
    return 1
  fi
}

failed=0
for program in "$@"; do
  script=$programs_at/$program.py
  figures "$program" pytorch on "$schedule" "$python" -W ignore "$script" &
  figures "$program" millrace on "$schedule" "$python" -W ignore -m millrace.torch "$script" || failed=1
  wait $! || failed=1
done
"$python" "$root/tools/python/gallery_table.py" "$folder" "$@"
echo
echo "$(date -u +%Y-%m-%d), torch $("$python" -c 'from importlib.metadata import version; print(version("torch"))')," \
  "$("$python" --version), $schedule"
exit $failed
