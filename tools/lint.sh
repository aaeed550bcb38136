#!/usr/bin/env bash
# Runs clang-tidy 14:
#
#   tools/lint.sh            the public headers of all libraries and allocator/src/ordering with the checks of
#                            .clang-tidy; the sources of pipeline and streamer with those of `for_sources`
#   tools/lint.sh FILE...    these sources, with the checks of .clang-tidy
#
# A build has to be configured, for the headers that it generates. millrace.h is C, for which these checks are not made.
#
# A source by itself takes at least five seconds of CPU, most of it for the headers that all have in common. So the
# sources of several folders are one unit, as in a unity build, and get the checks that find mistakes, not those of
# style. All together take 102 s of CPU, half of it for pipeline and streamer; with all checks and a unit for each
# folder those took 260 s. The other sources of allocator, and those of the program and of tests, are not checked.
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

# What of pipeline and streamer is one unit: names in unnamed namespaces differ within it. Left out are sources that
# need headers of MPI or CUDA, and one that needs definitions of the build.
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

# One source that includes all public headers of a library, but those that need CUDA's.
headers_of() {
  local source=$folder/$1.cpp
  (cd "$1/include" && find . -name '*.hpp' ! -name 'cuda_*_adaptor.hpp' | sort | sed 's|^\./\(.*\)|#include \"\1"|') >"$source"
  echo "$source"
}

# One source that includes those of some folders: unit_of NUMBER FOLDER...
unit_of() {
  local source=$folder/unit-$1.cpp
  shift
  find "$@" -maxdepth 1 -name '*.cpp' | sort | grep -vE "$left_out" | sed "s|.*|#include \"$PWD/&\"|" >"$source"
  echo "$source"
}

# tidy CHECKS FILE...: CHECKS are added to those of .clang-tidy.
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
