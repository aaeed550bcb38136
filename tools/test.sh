#!/usr/bin/env bash
# Builds the tests and runs them:  tools/test.sh
# Installs missing packages first. The last line is `N passed, M failed`, with `, K skipped` if some
# were.
set -uo pipefail
if [ $# -ne 0 ]; then
  echo "usage: tools/test.sh   (ctest --test-dir build/dev -R NAME runs a part of what it has built)" >&2
  exit 2
fi
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if ! { "$tools/install-deps.sh" test && "$tools/build.sh" dev; }; then
  echo "The tests could not be built, which counts as one failure."
  echo "0 passed, 1 failed"
  exit 1
fi
"$tools/run-tests.sh" dev
