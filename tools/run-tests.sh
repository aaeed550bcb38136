#!/usr/bin/env bash
# Runs the tests of a built preset:  tools/run-tests.sh PRESET [CTEST ARGUMENT...]
# The last line is `N passed, M failed`, with `, K skipped` if some were. Fails if a test failed, or
# if no test was found.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

preset=$1
shift
report=$PWD/build/$preset/tests.xml
rm -f "$report"
ctest --preset "$preset" --no-tests=error --parallel "$(nproc)" --output-junit "$report" "$@"
code=$?

# The first element contains the sums: tests="5" failures="1" disabled="0" skipped="1".
sum_of() { sed -n "1,/>\$/ s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p; /<testcase/q" "$report" | head -n 1; }

if [ ! -f "$report" ]; then
  echo "run-tests: ctest wrote no report"
  echo "0 passed, 1 failed"
  exit 1
fi
failed=$(sum_of failures)
skipped=$(($(sum_of skipped) + $(sum_of disabled)))
passed=$(($(sum_of tests) - failed - skipped))
line="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || line+=", $skipped skipped"
echo "$line"
[ "$code" -eq 0 ] && [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
