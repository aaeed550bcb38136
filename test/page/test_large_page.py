#!/usr/bin/env python3
"""Explains a large snapshot, and uses its page in a headless browser.

    test/page/test_large_page.py PROGRAM [--events 100000] [--limits]

The snapshot is of bench/make_snapshot.py. With --limits, those of the project for 1,000,000 events on two cores hold:
explained within 20 s and 4 GB, and a page that is shown within 5 s and answers zoom and pan within 50 ms (the median).
Ends with 4 if there is no browser, or if the program was built without the viewer.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from browser import Browser, find_chromium
from test_page import ROOT, SKIPPED, check_other

sys.path.insert(0, os.path.join(ROOT, "bench"))
from page_frames import measure  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--limits", action="store_true")
    arguments = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        print("skipped: no Chromium (tools/install-deps.sh ci installs it where the distribution has one)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        snapshot, path = os.path.join(folder, "snapshot.pickle"), os.path.join(folder, "page.html")
        subprocess.run([sys.executable, os.path.join(ROOT, "bench", "make_snapshot.py"), "--events", str(arguments.events),
                        snapshot], check=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        start = time.monotonic()
        done = subprocess.run([arguments.program, "explain", snapshot, "--html", path, "--json", path + ".json"],
                              capture_output=True, text=True, check=False)
        seconds = time.monotonic() - start
        if "without the page's viewer" in done.stderr:
            print("skipped:", done.stderr.splitlines()[0])
            return SKIPPED
        assert done.returncode == 0, done.stderr
        # The most of all children so far: of the program, unless writing the snapshot took more.
        memory = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 2**20
        with open(path + ".json", encoding="utf-8") as file:
            document = json.load(file)
        with Browser(chromium, timeout=120) as browser:
            frames = measure(browser, path, 25)
            check_other(browser, path, document)
    print(f"{arguments.events:,} events: explained in {seconds:.1f} s, at most {memory:.1f} GiB; first picture after "
          f"{frames['first_picture_s']} s, zoom {frames['zoom']['until_shown_ms']['median']} ms, "
          f"pan {frames['pan']['until_shown_ms']['median']} ms (medians)")
    if arguments.limits:
        assert seconds < 20 and memory < 4 and frames["first_picture_s"] < 5
        assert frames["zoom"]["until_shown_ms"]["median"] < 50 and frames["pan"]["until_shown_ms"]["median"] < 50
    print("passed: the page of a large snapshot")
    return 0


if __name__ == "__main__":
    sys.exit(main())
