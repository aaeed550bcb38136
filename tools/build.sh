#!/usr/bin/env bash
# Configures and builds a preset:  tools/build.sh PRESET [TARGET...]
# CMAKE_ARGS in the environment is passed to cmake. The number of jobs is the number of processors,
# limited by the free memory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mib_per_job=1792

# Free memory in MiB: the machine's, or that of the control group if it is less.
free_mib() {
  local free limit used
  free=$(($(awk '/^MemAvailable:/ {print $2}' /proc/meminfo) / 1024))
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  if [ "$limit" != max ]; then
    used=$(cat /sys/fs/cgroup/memory.current)
    limit=$(((limit - used) / 1024 / 1024))
    [ "$limit" -ge "$free" ] || free=$limit
  fi
  echo "$free"
}

jobs() {
  local by_memory=$(($(free_mib) / mib_per_job)) by_cpu
  by_cpu=$(nproc)
  [ "$by_memory" -ge 1 ] || by_memory=1
  echo $((by_cpu < by_memory ? by_cpu : by_memory))
}

[ $# -ge 1 ] || {
  echo "usage: tools/build.sh PRESET [TARGET...]" >&2
  exit 2
}
preset=$1
shift
# Compiler cache entries of one clone serve other clones.
export CCACHE_BASEDIR=${CCACHE_BASEDIR-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR-1}
# Without this, ccache stores nothing that uses a precompiled header.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS-pch_defines,time_macros}
# shellcheck disable=SC2086  # several arguments are meant
cmake --preset "$preset" ${CMAKE_ARGS-} --log-level=NOTICE >/dev/null
cmake --build --preset "$preset" --parallel "$(jobs)" ${1+--target "$@"}
