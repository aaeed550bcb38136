#!/usr/bin/env bash
# Trains with every pipeline under many adversarial schedules:  tools/soak.sh [SCHEDULES]
# Each cell runs with SCHEDULES schedules (default 200; CI runs 10). MILLRACE_SEED selects other
# schedules. A failed cell reports its schedule.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

schedules=${1:-200}
case $schedules in
'' | *[!0-9]*)
  echo "soak: the number of schedules is '$schedules', but must be a number" >&2
  exit 2
  ;;
esac
cmake --preset dev -DMILLRACE_TESTS=ON >/dev/null
cmake --build --preset dev --target test_pipeline
echo "$schedules schedules a cell, MILLRACE_SEED=${MILLRACE_SEED:-1}"
MILLRACE_SCHEDULES=$schedules build/dev/bin/test_pipeline "[law6]" --durations yes
