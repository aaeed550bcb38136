#!/usr/bin/env python3
"""Opens pages that the program wrote in a headless browser, uses them, and compares them with the program's JSON.

    test/page/test_page.py PROGRAM

Each function whose name begins with `law_` is a law of the page. Ends with 4 if there is no browser, or if the program
was built without the viewer.
"""

import json
import os
import subprocess
import sys
import tempfile

import against_json
from browser import Browser, find_chromium
from commands import FOOTPRINT, MADE, OTHERS
from free_memory import check_places
from other_pages import ALONE, check_others
from page import Page

SKIPPED = 4


def law_a_page_opens_from_disk_without_errors_and_without_a_network(page, runs):
    assert page.browser.errors == [], page.browser.errors
    assert page.js("document.title").startswith("millrace footprint sparse_data_dist_base")


def law_figures_computed_from_the_blocks_are_those_of_the_json(page, runs):
    for i, run in enumerate(runs):
        page.open(f"run={i}&grouping=tag")
        assert page.bytes('[data-level="reserved"]') == run["peak_reserved_bytes"], run["allocator"]
        live = page.bytes('[data-level="live"]')
        assert 0 < live <= run["peak_allocated_bytes"]
        rows = page.js("[...document.querySelectorAll('.holders tbody tr')].map(r => Number(r.querySelector('data').value))")
        assert sum(rows) == live, (rows, live)


def law_waiting_and_stranded_bytes_are_those_of_the_json(page, runs):
    against_json.check_recorded(page, runs)


def law_the_ladder_is_that_of_the_json(page, runs):
    page.open()
    shown = page.js("[...document.querySelectorAll('.ladder tr')].map(r => Number(r.querySelector('data').value))")
    ladder = runs[0]["ladder"]
    assert shown == [ladder[level] for level in ("l0", "l1", "l2", "l3", "reserved")]
    compared = dict(against_json.rows_of(page, "What is reserved for this work", 0))
    assert compared["this run's blocks, at least"] == ladder["l2"] and compared["packed offline"] == ladder["l3"]
    of_runs = [compared[f"{run['allocator']} side-stream"] for run in runs]
    assert of_runs == [run["peak_reserved_bytes"] for run in runs], compared
    assert compared["torch, replayed"] > 0 and compared["millrace, ring, replayed"] > 0
    assert "saves most" in page.text("#summary")


def law_the_summary_is_text_for_screen_readers(page, runs):
    page.open()
    assert "were reserved" in page.text("#summary")
    unnamed = page.js("[...document.querySelectorAll('canvas, section, button, input, select')].filter(e =>"
                      "!e.getAttribute('aria-label') && !e.textContent.trim()).length")
    assert unnamed == 0, f"{unnamed} elements have no name"
    assert "At the peak" in page.js("document.querySelector('.memory canvas').getAttribute('aria-label')")


def law_a_click_shows_the_size_the_stream_and_the_life_of_a_block(page, runs):
    page.open()
    block = page.select_some_block()
    size = page.bytes('#selection [data-fact="size"]')
    assert size > 0
    assert page.fact("stream") and page.fact("allocated") and page.fact("life") and page.fact("before")
    assert page.fact("address").startswith("0x")
    assert page.state()["block"] == str(block)
    count, _ = page.search(f"block:{block}")
    assert count == 1
    count, _ = page.search(f"={size}B block:{block}")
    assert count == 1, "the size in the table is not that of the block"


def law_one_can_go_to_the_earlier_owner_of_memory_and_back(page, runs):
    page.open()
    for _ in range(400):  # from the end backwards: late blocks reuse memory
        page.browser.key("N")
        if page.js("!!document.querySelector('#selection [data-fact=\"before\"] button')"):
            break
    block = page.state()["block"]
    before = page.js("document.querySelector('#selection [data-fact=\"before\"] button').dataset.block")
    page.browser.key("[")
    assert page.state()["block"] == before
    after = page.js("document.querySelector('#selection [data-fact=\"after\"] button').dataset.block")
    assert int(before) < int(after) <= int(block)


def law_a_search_counts_what_the_table_counts(page, runs):
    page.open("grouping=tag")
    name, held = page.js("(() => { const row = document.querySelector('.holders tbody tr');"
                         "return [row.querySelector('button').innerText, row.querySelector('data').title]; })()")
    page.browser.run("document.querySelector('.holders tbody tr button').click()")
    page.browser.wait_for("document.getElementById('found').textContent !== ''")
    at_peak = page.text("#found")
    assert page.state()["query"]
    shown = page.js("document.querySelector('.holders tbody tr data').innerText")
    assert shown in at_peak, (name, held, at_peak, shown)
    page.browser.key("Escape")
    assert "query" not in page.state()


def law_wheel_drag_and_keys_change_the_view_and_0_shows_everything(page, runs):
    page.open()
    assert "x0" not in page.state() and "x1" not in page.state()
    left, top, width, height = page.box(".map canvas")
    page.browser.wheel(left + width * 0.6, top + height / 2, -400)
    zoomed = page.state()
    span = float(zoomed["x1"]) - float(zoomed["x0"])
    page.browser.key("ArrowRight")
    moved = page.state()
    assert float(moved["x0"]) > float(zoomed["x0"])
    assert abs(float(moved["x1"]) - float(moved["x0"]) - span) < 1e-3 * span
    page.browser.key("ArrowUp")
    closer = page.state()
    assert float(closer["x1"]) - float(closer["x0"]) < 0.8 * span
    page.browser.key("0")
    assert "x0" not in page.state()
    page.browser.drag(left + 300, top + 50, left + 500, top + 60, shift=True)
    chosen = page.state()
    assert 0 < float(chosen["x0"]) < float(chosen["x1"])


def law_a_link_keeps_the_view(page, runs):
    link = "axis=time&x0=20000&x1=90000&coloring=tag&query=tag%3Abatch&block=12&theme=dark"
    page.open(link)
    assert page.state() == dict(pair.split("=") for pair in link.split("&"))
    assert page.text("#selection h2").startswith("Block 12")
    assert page.js("document.documentElement.dataset.theme") == "dark"
    assert page.js("document.getElementById('search').value") == "tag:batch"


def law_a_link_that_makes_no_sense_shows_the_usual_view(page, runs):
    page.open("x0=nonsense&x1=-5&block=999999999&coloring=none&run=7&device=-1&theme=%3Cscript%3E")
    assert page.browser.errors == [], page.browser.errors
    assert page.bytes('[data-level="live"]') > 0


def law_two_runs_are_on_one_axis_and_keys_switch_between_them(page, runs):
    page.open()
    assert runs[0]["allocator"] in page.text(".choices-bar")
    assert page.js("document.querySelectorAll('.holders thead th').length") == 4  # with the change
    page.browser.key("r")
    assert page.bytes('[data-level="reserved"]') == runs[1]["peak_reserved_bytes"]


def law_keys_zoom_the_addresses_and_move_the_moment(page, runs):
    page.open()
    before = page.text('[data-fact="moment"]')
    for key in ("ArrowUp", "ArrowRight"):
        page.js(f"document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', shiftKey: true, bubbles: true}}))")
    page.browser.settle()
    state = page.state()
    assert "y0" in state and "y1" in state and "at" in state, state
    assert page.text('[data-fact="moment"]') != before


def law_free_memory_is_free_for_the_time_that_is_shown(page, runs):
    seen = {}
    for i in range(len(runs)):
        for text, times in check_places(page.open(f"run={i}")).items():
            seen[text] = seen.get(text, 0) + times
    assert {"now", "from", "no: its segment"} <= set(seen), seen


def law_a_narrow_window_keeps_its_buttons(page, runs):
    page.browser.resize(800, 900)
    page.open()
    inside = page.js("[...document.querySelectorAll('header button')].every(b => b.getBoundingClientRect().right <= innerWidth)")
    page.browser.resize(1500, 950)
    assert inside


def law_dark_light_and_help_are_a_key_away(page, runs):
    page.open()
    before = page.js("document.documentElement.dataset.theme")
    page.browser.key("t")
    assert page.js("document.documentElement.dataset.theme") != before
    page.browser.key("?")
    assert page.js("document.querySelector('dialog').open") is True
    page.browser.key("Escape")
    assert page.js("document.querySelector('dialog').open") is False


def main(program):
    chromium = find_chromium()
    if chromium is None:
        print("skipped: no Chromium (tools/install-deps.sh ci installs it where the distribution has one)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        done = subprocess.run([program, *FOOTPRINT, "--html", path], capture_output=True, text=True, check=False)
        if "without the page's viewer" in done.stderr:
            print("skipped:", done.stderr.splitlines()[0])
            return SKIPPED
        assert done.returncode == 0, done.stderr
        runs = json.loads(done.stdout)["runs"]
        failed = 0
        laws = {name: law for name, law in globals().items() if name.startswith("law_")}
        with Browser(chromium, timeout=60) as browser:
            page = Page(browser, path).open()
            for name, law in laws.items():
                title = name[len("law_"):].replace("_", " ")
                try:
                    law(page, runs)
                    print(f"passed: {title}")
                except (AssertionError, RuntimeError, TimeoutError, TypeError, KeyError) as error:
                    failed += 1
                    print(f"FAILED: {title}\n        {type(error).__name__}: {error}")
            failed += check_others(program, browser, folder)
        print(f"{len(laws) + len(OTHERS) + len(MADE) + len(ALONE) - failed} passed, {failed} failed")
        return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
