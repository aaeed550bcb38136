#!/usr/bin/env bash
# Formats all C++ and CUDA sources with clang-format 14:
#
#   tools/format.sh            rewrites the files that differ
#   tools/format.sh --check    prints the files that differ, and fails if any do
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1-} in
  "") mode=(-i) ;;
  --check) mode=(--dry-run -Werror) ;;
  *)
    echo "format: unknown argument '$1'; usage: tools/format.sh [--check]" >&2
    exit 2
    ;;
esac

# Other versions format code differently. The package is clang-format-14 in Debian and Ubuntu.
command -v clang-format-14 >/dev/null || {
  echo "format: clang-format-14 is missing; install it (tools/install-deps.sh ci)" >&2
  exit 2
}
git ls-files -z '*.hpp' '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -0 clang-format-14 "${mode[@]}"
