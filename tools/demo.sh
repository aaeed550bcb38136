#!/usr/bin/env bash
# Builds the program `millrace` and demonstrates it:  tools/demo.sh [--build-only]
# Installs missing compilers and libraries first. The program is build/release/bin/millrace.
# MILLRACE_PRESET in the environment selects another preset than release.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if [ $# -gt 1 ] || [ "${1---build-only}" != --build-only ]; then
  echo "usage: tools/demo.sh [--build-only]" >&2
  exit 2
fi
"$root/tools/install-deps.sh" program
preset=${MILLRACE_PRESET:-release}
"$root/tools/build.sh" "$preset" millrace
[ $# -eq 1 ] || exec "$root/build/$preset/bin/millrace" footprint
