#!/bin/sh
# Checks that allocator.def has every CUDA call of the allocator in libmillrace-interpose.so. A call
# that is missing there would reach the function that the library itself exports, not the runtime.
#   all_wrapped.sh NM LIBRARY ALLOCATOR.DEF
set -eu
calls=$("$1" --undefined-only "$2" 2>/dev/null | sed -n 's/^ *U \(cuda[A-Z][A-Za-z0-9_]*\)$/\1/p' | sort -u)
[ -n "$calls" ] || { echo "$2 calls nothing of CUDA" >&2; exit 1; }
for name in $calls; do
  grep -q "^MILLRACE_ALLOCATOR($name)" "$3" || { echo "$name is not in $3" >&2; exit 1; }
done
