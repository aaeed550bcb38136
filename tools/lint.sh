#!/usr/bin/env bash
# Runs clang-tidy 14:
#
#   tools/lint.sh            checks the public headers of all libraries and allocator/src/ordering
#                            with .clang-tidy, and the sources of pipeline and streamer with
#                            `for_sources`
#   tools/lint.sh FILE...    checks these sources with .clang-tidy
#
# A build must be configured, because its headers are generated. millrace.h is C, so these checks do
# not apply to it.
#
# A single source takes at least five seconds of CPU, most of it for common headers. Therefore the
# sources of several folders form one unit, as in a unity build. They get the checks that find
# mistakes, not those of style. All checks together take 102 s of CPU, half of it for pipeline and
# streamer; with all checks and a unit per folder, these two would take 260 s. The other sources of
# allocator, the program and the tests are not checked.
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
build=${generated%/allocator/include}
flags=(-std=c++20 -DFMT_HEADER_ONLY=1 -I"$generated" -I"$build/pipeline/embedded" -Icmake/embed/include)
for library in allocator pipeline streamer; do
  flags+=("-I$library/include" "-I$library/internal" "-I$library/src")
done

for_sources='-*,bugprone-dangling-handle,bugprone-unused-raii,bugprone-unused-return-value,bugprone-use-after-move'
for_sources+=',cppcoreguidelines-init-variables,cppcoreguidelines-slicing,misc-unused-*'
for_sources+=',modernize-use-emplace,modernize-use-nodiscard,modernize-use-override'
for_sources+=',performance-*,-performance-inefficient-string-concatenation,-performance-no-int-to-ptr'

# The units of pipeline and streamer. Names in unnamed namespaces differ within a unit. Sources that
# need headers of MPI or CUDA are left out, and one that needs definitions of the build.
units=(
  "pipeline/src/collective pipeline/src/collective/host pipeline/src/collective/rendezvous pipeline/src/collective/threads"
  "pipeline/src/collective/nccl pipeline/src/schedule/* pipeline/src/sharding"
  "pipeline/src/data"
  "pipeline/src/model pipeline/src/model/host"
  "streamer/src/apply streamer/src/capture streamer/src/record streamer/src/tracking"
  "streamer/src/ship streamer/src/sink"
)
for sink in streamer/src/sink/*/; do units+=("$(find "${sink%/}" -type d | sort | xargs)"); done
left_out='/(no_(mpi|cuda)|kinds)[.]cpp$'

# Makes one source that includes all public headers of a library, except those that need CUDA's.
headers_of() {
  local source=$folder/$1.cpp
  (cd "$1/include" && find . -name '*.hpp' ! -name 'cuda_*_adaptor.hpp' | sort | sed 's|^\./\(.*\)|#include \"\1"|') >"$source"
  echo "$source"
}

# Makes one source that includes those of some folders: unit_of NUMBER FOLDER...
unit_of() {
  local source=$folder/unit-$1.cpp
  shift
  find "$@" -maxdepth 1 -name '*.cpp' | sort | grep -vE "$left_out" | sed "s|.*|#include \"$PWD/&\"|" >"$source"
  echo "$source"
}

# tidy CHECKS FILE...: adds CHECKS to those of .clang-tidy.
tidy() {
  local checks=$1
  shift
  printf '%s\0' "$@" |
    xargs -0 -P "$(nproc)" -I{} clang-tidy-14 --quiet --config-file=.clang-tidy --checks="$checks" \
      --header-filter='(allocator|pipeline|streamer)/(include|src)/.*[.][ch]pp' {} -- "${flags[@]}" 2>&1 |
    { grep -v ' warnings\? generated\.$' || true; }
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ $# -gt 0 ]; then
  tidy '' "$@"
  exit
fi
headers=() sources=()
for library in allocator pipeline streamer; do
  headers+=("$(headers_of "$library")")
done
for number in "${!units[@]}"; do
  # shellcheck disable=SC2086  # several folders are meant
  sources+=("$(unit_of "$number" ${units[number]})")
done
failed=0
tidy -bugprone-suspicious-include "${headers[@]}" "$(unit_of ordering allocator/src/ordering)" || failed=1
tidy "$for_sources" "${sources[@]}" || failed=1
exit $failed
