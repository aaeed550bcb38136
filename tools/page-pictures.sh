#!/usr/bin/env bash
# Makes the documentation's pictures of pages with a headless Chromium:
#
#   tools/page-pictures.sh [PROGRAM]
#
# PROGRAM is build/dev/bin/millrace by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=${1:-build/dev/bin/millrace}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$program" footprint --workload sparse_data_dist_base --allocator torch --copy side-stream --seeds 1 --steps 10 \
  --html "$folder/footprint.html" >/dev/null
tools/page-picture.py "$folder/footprint.html" docs/images/page-footprint.png --fragment 'theme=light&axis=events' \
  --size 1280x860
"$program" explain test/observe/snapshots/capture_streams.pickle.gz --html "$folder/explain.html" >/dev/null
tools/page-picture.py "$folder/explain.html" docs/images/page-explain.png --size 1280x860
ls -l docs/images/page-*.png
