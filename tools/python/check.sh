#!/usr/bin/env bash
# Builds the Python package and runs it with Numba on the virtual CUDA runtime:
#
#   tools/python/check.sh FOLDER
#
# FOLDER receives a virtual environment (300 MB, downloaded with pip). PYTHON (python3) is the
# interpreter, and MILLRACE (build/dev/bin/millrace) is the program. This script is not a part of
# CI. The exit code is 0 if all checks pass.
set -euo pipefail

if [ $# -ne 1 ]; then
  echo "usage: tools/python/check.sh FOLDER" >&2
  exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
millrace=${MILLRACE:-$source/build/dev/bin/millrace}
[ -x "$millrace" ] || {
  echo "$millrace is not there: build the target millrace, or name the program in MILLRACE" >&2
  exit 2
}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=$folder/venv/bin/python
[ -x "$python" ] || "${PYTHON:-python3}" -m venv "$folder/venv"

echo "== the wheel"
"$python" -m pip install --quiet scikit-build-core numba-cuda cuda-bindings
"$python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$folder/wheel" "$source"
"$python" -m pip install --quiet --no-deps --force-reinstall "$folder"/wheel/millrace-*.whl
# From here on the source folder is not used.
cd "$folder"
"$python" -m millrace --library

echo "== a C++ program that finds the package"
prefix=$("$python" -m millrace --cmake-prefix)
rm -rf "$folder/consumer"
cmake -S "$source/test/install/allocator_only" -B "$folder/consumer" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$folder/consumer" >/dev/null

failed=0
for schedule in instant adversarial:1 h200; do
  for test in calls numba_arrays; do
    if "$millrace" run --allocator own --virtual "$schedule" -- "$python" "$here/test/$test.py" >"$folder/$test.log" 2>&1; then
      echo "passed: $test under $schedule"
    else
      echo "FAILED: $test under $schedule; the end of $folder/$test.log:"
      tail -n 15 "$folder/$test.log"
      failed=1
    fi
  done
done
exit $failed
