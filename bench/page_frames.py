#!/usr/bin/env python3
"""Measures how fast a page of `--html` loads and answers zoom and pan in a headless browser.

    bench/page_frames.py PAGE [--frames N]

Prints JSON with these figures:
- seconds from the start of the navigation to the first picture, and to the last name
- for zooms and pans, milliseconds from the event to the frame after its picture (this includes the
  wait for the display's next frame)
- for zooms and pans, milliseconds that the page itself took to draw
"""

import argparse
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "page"))
from browser import Browser, find_chromium  # noqa: E402

# Zooms in on a place until little of the run is visible, pans there, and zooms out again.
STEPS = """(async frames => {
  const canvas = document.querySelector('.map canvas');
  const box = canvas.getBoundingClientRect();
  const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const drawn = () => performance.getEntriesByName('millrace:draw').at(-1).duration;
  const turn = async (deltaY, shiftKey) => {
    const start = performance.now();
    canvas.dispatchEvent(new WheelEvent('wheel', {deltaY, shiftKey, bubbles: true, cancelable: true,
      clientX: box.left + box.width * 0.63, clientY: box.top + box.height / 2}));
    await frame();
    return [performance.now() - start, drawn()];
  };
  const out = {zoom: [], pan: []};
  for (let i = 0; i < frames; i++) out.zoom.push(await turn(-60, false));
  for (let i = 0; i < frames; i++) out.pan.push(await turn(i % 2 ? -80 : 80, true));
  for (let i = 0; i < frames; i++) out.zoom.push(await turn(60, false));
  for (let i = 0; i < frames; i++) out.pan.push(await turn(i % 2 ? -80 : 80, true));
  return out;
})"""


def summary(pairs):
    def of(values):
        values = sorted(values)
        return {"median": round(statistics.median(values), 1), "p95": round(values[int(len(values) * 0.95)], 1),
                "most": round(values[-1], 1)}
    return {"frames": len(pairs), "until_shown_ms": of([p[0] for p in pairs]), "drawing_ms": of([p[1] for p in pairs])}


def measure(browser, page, frames):
    """Measures the page in an open browser."""
    start = time.monotonic()
    browser.open(page)
    named = time.monotonic() - start
    shown = browser.run("performance.getEntriesByName('millrace:shown')[0].startTime") / 1000
    turns = browser.run(f"{STEPS}({frames})")
    return {
        "page": os.path.basename(page), "page_bytes": os.path.getsize(page),
        "browser": browser.call("Browser.getVersion")["product"], "processors": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1), "first_picture_s": round(shown, 2), "all_names_s": round(named, 2),
        **{kind: summary(pairs) for kind, pairs in turns.items()}, "errors": browser.errors,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page")
    parser.add_argument("--frames", type=int, default=25, help="of each kind, in each of two rounds (default 25)")
    arguments = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        sys.exit("page_frames: no Chromium")
    with Browser(chromium, timeout=120) as browser:
        result = measure(browser, arguments.page, arguments.frames)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
