"""Checks the page of each command, and the page of each kind of file."""

import json
import os
import pickle
import re
import subprocess
import sys

import against_json
from commands import FOOTPRINT, MADE, OTHERS, ROOT
from free_memory import check_free_memory, check_places, check_unknown_stream
from page import Page


def check_other(browser, path, document):
    """Checks what holds on the page of any command. `document`: the JSON of explain, or None."""
    page = Page(browser, path).open()
    assert browser.errors == [], browser.errors
    reserved = page.bytes('[data-level="reserved"]')
    live = page.bytes('[data-level="live"]')
    assert live > 0 and (reserved is None or live <= reserved), (live, reserved)
    check_choices(page)
    if document is not None:
        against_json.check_explained(page, document)
    page.open()
    block = page.select_some_block()
    size = page.bytes('#selection [data-fact="size"]')
    assert page.fact("stream") and page.fact("allocated") and page.fact("life")
    count, _ = page.search(f"={size}B block:{block}")
    assert count == 1
    page.browser.key("Escape")
    whole = page.open().state()
    left, top, width, height = page.box(".memory canvas")
    browser.wheel(left + width / 2, top + height / 2, -300)
    assert page.state() != whole, "the wheel does not zoom"
    page.browser.key("0")
    assert page.state() == whole
    page.open("run=0&axis=events&theme=dark")
    assert browser.errors == [], browser.errors


def check_replay(page):
    """Checks that the page names the waits that make a reuse safe, although the run has no work."""
    tags = page.js("millrace.run.tags")
    assert len(tags) > 1 and "batch" in tags, tags  # the labels of the trace, which has no stacks
    check_arrows(page, "run=1")  # PyTorch passes no memory from stream to stream
    unnamed = page.js("(() => { const {reuse, wait} = millrace.run.blocks; const ORDERED = 3;"
                      "return [...reuse.keys()].filter(i => reuse[i] === ORDERED && wait[i] === 0xffffffff).length; })()")
    assert unnamed == 0, f"{unnamed} blocks have no wait"
    page.browser.run("(() => { const {blocks} = millrace.run; const i = [...blocks.wait.keys()].find(i => blocks.wait[i] !== 0xffffffff);"
                     "millrace.update({block: i}); })()")
    page.browser.settle()
    assert "The wait of" in page.text('#selection [data-fact="wait"]')


def check_choices(page):
    """Checks that the page offers only what the run has, and that keys choose only that."""
    offered = page.js("[...document.querySelector('select[aria-label=\"Color by\"]').options].map(o => o.value)")
    known = {"tag": page.js("millrace.run.blocks.tag.some(t => t !== 0xffffffff)"),
             "site": page.js("millrace.run.blocks.site.some(s => s !== 0xffffffff)")}
    assert all((name in offered) == has for name, has in known.items()), (offered, known)
    for expected in offered[1:] + offered[:1]:
        page.browser.key("c")
        assert page.js("document.querySelector('select[aria-label=\"Color by\"]').value") == expected
    names = page.js("[...document.querySelectorAll('.holders tbody tr button')].map(b => b.title)")
    assert names != ["not known"], names


def check_arrows(page, link=""):
    """Checks that the page counts its waits and reuses, and draws some of too many."""
    page.open(link)
    waits = page.js("millrace.run.arrows.count")
    label = page.js("document.querySelector('.lanes canvas').getAttribute('aria-label')")
    assert waits > 0 and f"{waits:,} waits" in label, (waits, label)
    assert ("drawn" in label) == (waits > 400 or "reuses" in label and int(re.search(r"([\d,]+) reuses", label)[1].replace(",", "")) > 100)
    names = page.js("millrace.run.streams.map(s => s.device + s.name)")
    assert len(set(names)) == len(names), names


def check_without_events(program, browser, folder):
    """Checks that a snapshot without a history shows the moment at which it was made."""
    file, path = os.path.join(folder, "plain.pickle"), os.path.join(folder, "plain.html")
    block = {"size": 10 << 20, "requested_size": (10 << 20) - 100, "state": "active_allocated", "address": 1 << 32}
    segment = {"device": 0, "address": 1 << 32, "total_size": 20 << 20, "stream": 0, "segment_type": "large",
               "blocks": [block, {"size": 10 << 20, "requested_size": 0, "state": "inactive", "address": (1 << 32) + (10 << 20)}]}
    with open(file, "wb") as out:
        pickle.dump({"segments": [segment], "device_traces": [[]]}, out)
    done = subprocess.run([program, "explain", file, "--html", path, "--format", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = Page(browser, path).open()
    against_json.check_explained(page, json.loads(done.stdout))
    assert page.bytes('[data-level="live"]') == (10 << 20) - 100
    page.select_some_block()


def check_shared_memory(program, browser, folder):
    """Checks shared memory: it is free for its last user until it is taken again, and the page does
    not say that other streams may use it then."""
    file, path = os.path.join(folder, "shared.trace"), os.path.join(folder, "shared.html")
    words = [word.replace("torch,millrace", "millrace") for word in FOOTPRINT]
    subprocess.run([program, *words, "--record", file], capture_output=True, check=True)
    subprocess.run([program, "explain", file, "--replay", "none", "--html", path], capture_output=True, check=True)
    seen = check_places(Page(browser, path).open())
    assert "not before it is taken again at" in seen, seen
    check_unknown_stream(Page(browser, path))


def made_files(folder):
    for name, options in MADE.items():
        file = os.path.join(folder, name)
        subprocess.run([sys.executable, os.path.join(ROOT, "bench", "make_snapshot.py"), *options, file], check=True)
        yield f"explain {name}", ["explain", file, "--replay", "none"]


ALONE = {"explain a snapshot without events": check_without_events, "explain a trace of shared memory": check_shared_memory}


def check_others(program, browser, folder):
    failed = 0
    for title, check in ALONE.items():
        try:
            check(program, browser, folder)
            print(f"passed: the page of: {title}")
        except (AssertionError, RuntimeError, TimeoutError, TypeError, KeyError, subprocess.CalledProcessError) as error:
            failed += 1
            print(f"FAILED: the page of: {title}\n        {type(error).__name__}: {error}")
    for title, words in [*OTHERS.items(), *made_files(folder)]:
        path = os.path.join(folder, title.replace(" ", "-") + ".html")
        done = subprocess.run([program, *words, "--html", path, "--json", path + ".json"], capture_output=True, text=True,
                              check=False)
        try:
            assert done.returncode == 0, done.stderr
            with open(path + ".json", encoding="utf-8") as file:
                document = json.load(file)
            check_other(browser, path, document if words[0] == "explain" else None)
            if title in ("explain a snapshot", "explain a trace"):
                check_free_memory(Page(browser, path))
                check_places(Page(browser, path).open())
                check_unknown_stream(Page(browser, path))
            if title.startswith("explain a trace"):
                check_arrows(Page(browser, path))
            if title == "replay a trace of reuse after waits":
                check_replay(Page(browser, path))
            if words[0] == "pipelines":
                against_json.check_recorded(Page(browser, path), document["rows"])
            print(f"passed: the page of: {title}")
        except (AssertionError, RuntimeError, TimeoutError, TypeError, KeyError) as error:
            failed += 1
            print(f"FAILED: the page of: {title}\n        {type(error).__name__}: {error}")
    return failed
