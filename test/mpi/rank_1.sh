# shellcheck shell=bash
# rank_1 JOB: prints the id of the process of rank 1 among the descendants of process JOB, if any.
rank_1() {
  local stat pid parent
  for stat in /proc/[0-9]*/stat; do
    pid=${stat#/proc/} pid=${pid%/stat}
    grep -qzx 'OMPI_COMM_WORLD_RANK=1' "/proc/$pid/environ" 2>/dev/null || continue
    parent=$pid
    while [ "$parent" -gt 1 ] && [ "$parent" -ne "$1" ]; do
      parent=$(sed -n 's/^PPid:\t//p' "/proc/$parent/status" 2>/dev/null)
      parent=${parent:-0}
    done
    [ "$parent" -eq "$1" ] && echo "$pid" && return
  done
}
