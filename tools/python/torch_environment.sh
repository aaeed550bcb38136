# shellcheck shell=bash
# Source this file in scripts that run PyTorch with Millrace from a build folder:
#
#   . tools/python/torch_environment.sh FOLDER
#
# It sets folder, build, python (from FOLDER/venv, or TORCH_PYTHON, which must have PyTorch), the
# function on, and the variables with which the package finds the library of the build. The package
# is that of the source folder. Its entry points come from pyproject.toml.
#
#   on SCHEDULE COMMAND...
#
# runs a command on the virtual CUDA runtime, or with the schedule "gpu" on this machine's GPU.
mkdir -p "$1"
folder=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${BUILD:-$root/build/dev}
python=${TORCH_PYTHON:-$folder/venv/bin/python}
# Tests of the package install more copies in other folders of the build.
library=$(find "$build/allocator" -maxdepth 1 -name 'libmillrace.so.*' -type f 2>/dev/null | sort | tail -n 1)
millrace=${MILLRACE:-$build/bin/millrace}
if [ -z "$library" ] || [ ! -x "$millrace" ]; then
  echo "$build has no millrace or no libmillrace.so: tools/build.sh dev millrace millrace_shared" >&2
  exit 2
fi
[ -x "$python" ] || "${PYTHON:-python3}" -m venv "$folder/venv"
if ! "$python" -c 'import importlib.metadata as m; m.version("torch")' 2>/dev/null; then
  if [ -n "${TORCH_PYTHON-}" ]; then
    echo "$TORCH_PYTHON has no PyTorch"
    exit 4
  fi
  "$python" -m pip install --quiet --no-cache-dir "torch==${TORCH_VERSION:-2.14.1}" numpy
fi

mkdir -p "$folder/site/millrace-0.dist-info"
printf 'Metadata-Version: 2.1\nName: millrace\nVersion: 0\n' >"$folder/site/millrace-0.dist-info/METADATA"
"$python" -c '
import sys, tomllib
points = tomllib.load(open(sys.argv[1], "rb"))["project"]["entry-points"]
for group, names in points.items():
    print(f"[{group}]", *(f"{name} = {value}" for name, value in names.items()), sep="\n")
' "$root/pyproject.toml" >"$folder/site/millrace-0.dist-info/entry_points.txt"

export PYTHONPATH=$root/tools/python:$folder/site PYTHONDONTWRITEBYTECODE=1
export MILLRACE_LIBRARY=$library MILLRACE_TORCH_CACHE=$folder/cache
export MILLRACE_INCLUDE=$root/allocator/include:$build/allocator/include
on() {
  if [ "$1" = gpu ]; then
    "${@:2}"
  else
    "$millrace" run --allocator own --virtual "$1" -- "${@:2}"
  fi
}
