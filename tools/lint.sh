#!/usr/bin/env bash
# Runs clang-tidy 14 with the checks of .clang-tidy:
#
#   tools/lint.sh            the public headers of all libraries, and allocator/src/ordering (half a minute)
#   tools/lint.sh FILE...    these sources
#
# A build has to be configured, for the header that it generates. clang 14 cannot parse some ranges of GCC 12's
# library, and a source takes five seconds of CPU: so CI checks what others build on, and not everything. millrace.h
# is C, for which these checks are not made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v clang-tidy-14 >/dev/null || {
  echo "lint: clang-tidy-14 is missing; install it (tools/install-deps.sh ci)" >&2
  exit 2
}
generated=$(find build/*/allocator/include -maxdepth 0 2>/dev/null | head -n 1)
[ -n "$generated" ] || {
  echo "lint: no build is configured; run cmake --preset dev" >&2
  exit 2
}
flags=(-std=c++20 -I"$generated")
for library in allocator pipeline streamer; do
  flags+=("-I$library/include" "-I$library/internal" "-I$library/src")
done

# One source that includes all public headers of a library, but those that need CUDA's.
headers_of() {
  local source=$folder/$1.cpp
  (cd "$1/include" && find . -name '*.hpp' ! -name 'cuda_*_adaptor.hpp' | sort | sed 's|^\./\(.*\)|#include "\1"|') >"$source"
  echo "$source"
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sources=("$@")
if [ $# -eq 0 ]; then
  for library in allocator pipeline streamer; do
    sources+=("$(headers_of "$library")")
  done
  sources+=(allocator/src/ordering/*.cpp)
fi
printf '%s\0' "${sources[@]}" |
  xargs -0 -P "$(nproc)" -I{} clang-tidy-14 --quiet --config-file=.clang-tidy \
    --header-filter='(allocator|pipeline|streamer)/(include|src)/.*[.]hpp' {} -- "${flags[@]}" 2>&1 |
  { grep -v ' warnings\? generated\.$' || true; }
