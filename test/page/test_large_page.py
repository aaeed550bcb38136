#!/usr/bin/env python3
"""Explains a large snapshot, and uses its page in a headless browser.

    test/page/test_large_page.py PROGRAM [--events 100000] [--limits]

bench/make_snapshot.py makes the snapshot; --file takes any other file instead. Without --limits the
test checks counts that do not depend on time: memory per event, columns that are read once, blocks
that are visited for a picture, and the parts that are left out. With --limits it also checks the
project's limits for 1,000,000 events on two cores: `explain` takes less than 20 s and 4 GB, the
page is shown within 5 s, and it answers zoom and pan within 50 ms (the median). Ends with 4 if
there is no browser, or if the program was built without the viewer.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from browser import Browser, find_chromium
from commands import ROOT
from other_pages import check_other
from page import Page
from test_page import SKIPPED

sys.path.insert(0, os.path.join(ROOT, "bench"))
from page_frames import measure  # noqa: E402

MEMORY_OF_A_MILLION = 4e9  # bytes: the limit of the project
PAGE_BYTES_PER_EVENT = 64  # of typed columns in the browser
# `explain` leaves a part out above this number of events: tools/millrace/explain/rows.cpp.
LEFT_OUT = {"what other allocators would have reserved": 3_000_000, "the packed layout": 200_000, "the ladder": 100_000}


def explain(program, file, page):
    """Runs the program. @return seconds, the most bytes held, exit code and standard error"""
    start = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([program, "explain", file, "--html", page, "--json", page + ".json"],
                                   stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read().decode(errors="replace")
    return time.monotonic() - start, usage.ru_maxrss << 10, process.returncode, text


def check_left_out(device, events):
    for part, most in LEFT_OUT.items():
        beyond = part != "what other allocators would have reserved" and events > LEFT_OUT["what other allocators would have reserved"]
        if not beyond:  # without replays nothing else is computed either
            assert (part in device["left_out"]) == (events > most), (part, events, device["left_out"])


def check_counts(browser, path):
    """Checks what the page holds and visits, which does not depend on the machine."""
    page = Page(browser, path).open("axis=events")
    counts = lambda: page.js("millrace.counts")  # noqa: E731
    events, blocks = page.js("[millrace.run.events, millrace.run.blocks.count]")
    first = counts()
    assert first["bytes"] <= PAGE_BYTES_PER_EVENT * events + (1 << 20), (first, events)
    passes = 2  # rectangles, then names
    assert first["visited"] <= passes * blocks, (first, blocks)
    page.js(f"millrace.update({{x0: 0, x1: {events / 10}}})")
    browser.settle()
    begun = page.js("(() => { const {device, state} = millrace; let n = 0; while (n < device.order.length && device.begin[n] <= state.x1) n++; return n; })()")
    early = counts()
    assert 0 < early["visited"] <= passes * begun, ("blocks after the range are looked at", early, begun, blocks)
    for key in ("ArrowUp", "ArrowRight", "ArrowLeft", "ArrowDown", "0"):
        browser.key(key)
    assert counts()["columns"] == first["columns"], "columns are read more than once"
    for _ in range(3):  # stacks are read when the first one is shown, and only once
        browser.key("N")
        browser.settle()
    assert counts()["columns"] - first["columns"] in (0, 3), (counts(), first)
    return first["bytes"] / max(events, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--file", help="a snapshot to use instead of one that is made")
    arguments = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        print("skipped: no Chromium (tools/install-deps.sh ci installs it where the distribution has one)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        snapshot, path = os.path.join(folder, "snapshot.pickle"), os.path.join(folder, "page.html")
        if arguments.file:
            snapshot = arguments.file
        else:
            subprocess.run([sys.executable, os.path.join(ROOT, "bench", "make_snapshot.py"), "--events", str(arguments.events),
                            snapshot], check=True)
        seconds, memory, code, errors = explain(arguments.program, snapshot, path)
        if "without the page's viewer" in errors:
            print("skipped:", errors.splitlines()[0])
            return SKIPPED
        assert code == 0, errors
        with open(path + ".json", encoding="utf-8") as file:
            document = json.load(file)
        with Browser(chromium, timeout=120) as browser:
            frames = measure(browser, path, 25)
            events = browser.run("millrace.run.events")
            assert memory <= MEMORY_OF_A_MILLION * events / 1e6, (memory, events)
            for device in document["files"][0]["devices"]:
                of = browser.run(f"millrace.run.devicesOfEvents?.filter(d => d === {device['device']}).length ?? millrace.run.events")
                check_left_out(device, of)
            page_bytes = check_counts(browser, path)
            check_other(browser, path, document)
    print(f"{events:,} events: explained in {seconds:.1f} s, at most {memory / 2**30:.2f} GiB; {page_bytes:.0f} bytes of columns an event; first picture after "
          f"{frames['first_picture_s']} s, zoom {frames['zoom']['until_shown_ms']['median']} ms, "
          f"pan {frames['pan']['until_shown_ms']['median']} ms (medians)")
    if arguments.limits:
        assert seconds < 20 and memory < 4e9 and frames["first_picture_s"] < 5
        assert frames["zoom"]["until_shown_ms"]["median"] < 50 and frames["pan"]["until_shown_ms"]["median"] < 50
    print("passed: the page of a large snapshot")
    return 0


if __name__ == "__main__":
    sys.exit(main())
