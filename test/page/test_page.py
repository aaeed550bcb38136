#!/usr/bin/env python3
"""Opens pages that the program wrote in a headless browser, uses them, and compares them with the program's JSON.

    test/page/test_page.py PROGRAM

Each function whose name begins with `law_` is a law of the page. Ends with 4 if there is no browser, or if the program
was built without the viewer.
"""

import json
import os
import pickle
import re
import subprocess
import sys
import tempfile

import against_json
from browser import Browser, find_chromium

SKIPPED = 4
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SNAPSHOT = os.path.join(ROOT, "test", "observe", "snapshots", "capture_streams.pickle.gz")
TRACE = os.path.join(ROOT, "bench", "traces", "sparse_dist.trace.gz")
# The pages of the other commands. Nothing but the words differs.
OTHERS = {
    "explain a snapshot": ["explain", SNAPSHOT],
    "explain a snapshot against another": ["explain", SNAPSHOT, "--against", SNAPSHOT.replace(".pickle", ".expandable.pickle")],
    "explain a trace": ["explain", TRACE],
    "explain a trace of many waits": ["explain", TRACE.replace("sparse_dist", "sharded_transformer"), "--replay", "none"],
    "replay a trace": ["replay", TRACE, "--allocator", "torch,millrace"],
    "replay a trace of reuse after waits": ["replay", TRACE.replace("sparse_dist", "ranking_with_evaluation")],
    "pipelines": ["pipelines", "--pipeline", "base", "--copy", "side-stream", "--allocator", "torch,millrace", "--steps", "3", "--ranks",
                  "1", "--batch-size", "64", "--seeds", "1"],
    "stream bench": ["stream", "bench", "--rows", "400", "--table-rows", "4000", "--steps", "3", "--capture", "ring"],
}
# Files of `explain` that the test makes: the options of bench/make_snapshot.py.
MADE = {
    "two devices and a pool.pickle": ["--events", "4000", "--devices", "2", "--pools", "1", "--pool-ids"],
    "no stacks, wrapped.pickle": ["--events", "3000", "--stacks", "0", "--wrapped"],
    "log.csv": ["--events", "3000", "--rmm"],
}
FOOTPRINT = ["footprint", "--workload", "sparse_data_dist_base", "--allocator", "torch,millrace", "--copy", "side-stream",
             "--seeds", "1", "--steps", "6", "--batch-bytes", "64MiB", "--format", "json"]


class Page:
    """What the page says, read as a user would."""

    def __init__(self, browser, path):
        self.browser, self.path = browser, path

    def open(self, fragment=""):
        self.browser.open(self.path, fragment)
        self.browser.settle()
        return self

    def js(self, script):
        return self.browser.run(script)

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def bytes(self, selector):
        """The exact number behind a size that is shown; None if the page says that it is not known."""
        value = self.js(f"document.querySelector({json.dumps(selector)})?.querySelector('data')?.value ?? null")
        return None if value is None else int(value)

    def box(self, selector):
        return self.js(f"""(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
                           return [b.left, b.top, b.width, b.height]; }})()""")

    def state(self):
        """The view, from the link that keeps it, which follows the view with some delay."""
        self.js("new Promise(done => setTimeout(done, 250))")
        text = self.js("location.hash").lstrip("#")
        return dict(pair.split("=", 1) for pair in text.split("&") if pair)

    def search(self, text):
        self.browser.key("/")
        self.browser.type(text)
        self.browser.wait_for("document.getElementById('found').textContent !== ''")
        self.browser.settle()
        found = self.text("#found")
        self.browser.key("Enter")
        return int(re.match(r"[\d,]+", found)[0].replace(",", "")), found

    def select_some_block(self):
        """Clicks into the map, until a block is selected."""
        left, top, width, height = self.box(".map canvas")
        for part_y in range(19, 0, -1):
            for part_x in (10, 13, 7, 16):
                self.browser.click(left + 104 + (width - 114) * part_x / 20, top + height * part_y / 20)
                if self.text("#selection h2"):
                    return int(re.search(r"[\d,]+", self.text("#selection h2"))[0].replace(",", ""))
        raise AssertionError("no click into the map selected a block")

    def fact(self, name):
        return self.text(f'#selection [data-fact="{name}"]')


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


def check_other(browser, path, document):
    """What holds on the page of any command. document: of explain, or None"""
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


def check_free_memory(page):
    """A pointer that rests on free memory shows whose it is."""
    page.open()
    left, top, width, height = page.box(".map canvas")
    for part in range(1, 60):
        page.browser.mouse("mouseMoved", left + 104 + (width - 114) * (part % 10 + 0.5) / 10, top + height * part / 60)
        text = page.text(".tip") or ""
        if text.startswith("free, in a segment of"):
            assert "0x" in text and ("stream " in text or "not used since" in text), text
            page.browser.click(left + 104 + (width - 114) * (part % 10 + 0.5) / 10, top + height * part / 60)
            check_place(page)
            return
    raise AssertionError("no free memory under the pointer")


# Free memory at some addresses after some events: what the page says, and what its columns alone say.
PLACES = """(async () => {
  const {run, device} = millrace, {blocks, segments, free} = run, none = 0xffffffff;
  const drawn = () => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
  const fact = name => document.querySelector(`#place [data-fact="${name}"]`)?.innerText ?? null;
  const kind = run.askers.find(asker => asker.device === device.device);
  const all = Array.from({length: blocks.count}, (_, i) => ({
    device: blocks.device[i], low: blocks.address[i], high: blocks.address[i] + blocks.bytes[i], stream: blocks.stream[i],
    begin: blocks.allocated[i] === none ? 0 : blocks.allocated[i],
    end: Math.max(blocks.freed[i] === none ? run.events : blocks.freed[i], blocks.ready[i] === none ? 0 : blocks.ready[i])}))
    .filter(block => block.device === device.device && block.low >= 0);
  const takenAfter = (low, high, event) => Math.min(none, ...all.filter(b => b.begin > event && b.low < high && b.high > low).map(b => b.begin));
  /** What the page must say: [begin of the text, when it changes]. */
  const usable = (at, event, segment) => {
    const asker = millrace.state.asker;
    if (!device.knowsStranded || asker < 0) return ['not known', none];
    if (segments.pool[segment] !== device.poolOf(asker)) return ['no: it asks from another pool', none];
    if (!kind?.shares) return segments.stream[segment] === none ? ['not known', none] : [segments.stream[segment] === asker ? 'now' : 'no: its segment', none];
    const i = free.address.findIndex((low, i) => free.device[i] === device.device && low <= at && at < low + free.bytes[i] &&
                                     free.from[i] <= event && event < free.to[i]);
    if (i < 0) return [kind.fixed ? 'now' : 'not known', none];
    if (free.stream[i] === asker) return ['now', none];
    if (free.to[i] >= run.events) return ['not within the run', none];
    const taken = takenAfter(at, at + 1, event), back = segments.unmapped[segment];
    if (free.to[i] < Math.min(taken, back)) return ['from ', free.to[i]];
    return [`not before it is ${taken <= back ? 'taken again' : 'given back'} at `, free.to[i]];
  };
  const found = [];
  const samples = [];
  const step = Math.max(1, Math.floor(run.events / 40));
  for (let event = Math.floor(step / 2); event < run.events; event += step) {
    const here = [...segments.address.keys()].filter(s => segments.device[s] === device.device && segments.address[s] >= 0 &&
      (segments.mapped[s] === none || segments.mapped[s] <= event) && segments.unmapped[s] > event);
    for (const part of here.length ? [0.1, 0.5, 0.9] : []) {
      const s = here[Math.floor(event * 7 + part * 10) % here.length];
      samples.push([Math.floor(segments.address[s] + segments.bytes[s] * part), event]);
    }
  }
  const every = Math.ceil(free.address.length / 40);
  for (let i = 0; i < free.address.length; i += every) if (free.device[i] === device.device && free.from[i] < run.events) samples.push([free.address[i], free.from[i]]);
  for (const [at, event] of samples) {
    const s = device.segmentAt(at, event);
    const live = all.filter(b => b.begin <= event && b.end > event);
    if (s < 0 || live.some(b => b.low <= at && at < b.high)) continue;
    const low = Math.max(segments.address[s], ...live.filter(b => b.high <= at).map(b => b.high));
    const high = Math.min(segments.address[s] + segments.bytes[s], ...live.filter(b => b.low > at).map(b => b.low));
    const mapped = segments.mapped[s] === none ? 0 : segments.mapped[s];
    const ends = all.filter(b => b.begin >= mapped && b.begin <= event && b.low < high && b.high > low).map(b => b.end);
    const since = ends.length || segments.mapped[s] !== none ? Math.max(mapped, ...ends) : none;
    millrace.update({block: -1, place: at, moment: event});
    await drawn();
    const [text, when] = usable(at, event, s);
    const until = Math.min(takenAfter(low, high, event), segments.unmapped[s]);
    const asker = run.streams[millrace.state.asker];
    found.push({at: [at, event],
      shown: [fact('free since'), fact('taken again'), fact(asker ? `usable by ${asker.name.toLowerCase()}` : 'usable')],
      since: millrace.momentText(since, 'before the first event'), until: millrace.momentText(until, 'not within the run'),
      usable: text, when: when === none ? '' : millrace.momentText(when, '')});
  }
  millrace.update({place: -1});
  return found;
})()"""


def check_places(page):
    """At sampled places: all of the range is free for the time that is shown, and who may use it, and from when on, is right.
    Returns how often each text was seen."""
    seen = {}
    for place in page.js(PLACES):
        since, until, usable = place["shown"]
        assert since == place["since"] and until == place["until"], place
        assert usable.startswith(place["usable"] + place["when"]), place
        assert place["usable"] != "now" and place["usable"] != "not known" or usable == place["usable"], place
        seen[place["usable"].strip()] = seen.get(place["usable"].strip(), 0) + 1
    assert seen, "no free memory at the sampled places"
    return seen


def check_unknown_stream(page):
    """Memory whose stream is not known is not said to be usable."""
    page.open()
    page.js("millrace.run.segments.stream.fill(0xffffffff), millrace.run.free.from.fill(0xffffffff), 0")
    assert set(check_places(page)) <= {"not known", "no: it asks from another pool"}


def check_place(page):
    """A click into free memory says how much it is, whose, and since when; its segment is selected by a key."""
    fact = lambda name: page.text(f'#place [data-fact="{name}"]')  # noqa: E731
    state = page.state()
    assert page.text("#place h2").startswith("Free memory") and "place" in state, state
    # The gap between what is there, from the columns alone.
    low, high, freed = page.js("""(() => { const {run, device, state} = millrace; const {blocks, segments} = run; const at = state.place;
        const s = device.segmentAt(at, state.moment); let [low, high, freed] = [segments.address[s], segments.address[s] + segments.bytes[s], 0];
        for (let i = 0; i < blocks.count; i++) {
          const [begin, end] = [blocks.allocated[i], Math.max(...[blocks.freed[i], blocks.ready[i]].filter((e, j) => j === 0 || e !== 0xffffffff))];
          const [a, b] = [blocks.address[i], blocks.address[i] + blocks.bytes[i]];
          if (blocks.device[i] !== state.device || (begin !== 0xffffffff && begin > state.moment) || a < 0) continue;
          if (end > state.moment) { if (b <= at) low = Math.max(low, b); else if (a > at) high = Math.min(high, a); }
          else if (a <= at && at < b) freed = Math.max(freed, end); }
        return [low, high, freed]; })()""")
    assert page.bytes('#place [data-fact="free"]') == high - low > 0
    assert int(fact("from"), 16) == low
    assert fact("free since") and fact("taken again") and fact("stream") and fact("reserved since")
    user = page.js("document.querySelector('#place [data-fact=\"last user\"] button')?.dataset.block ?? null")
    assert (user is not None) == (freed > 0), (user, freed)
    usable = page.js("[...document.querySelectorAll('#place dt')].filter(e => e.innerText.startsWith('Usable by ')).length")
    assert usable == 1
    assert page.bytes('#place [data-fact="segment"]') >= high - low
    page.open("&".join(f"{key}={value}" for key, value in state.items()))
    assert page.bytes('#place [data-fact="free"]') == high - low, "a link does not keep the selected memory"
    if user is not None:
        page.browser.run("document.querySelector('#place [data-fact=\"last user\"] button').click()")
        page.browser.settle()
        assert page.state()["block"] == user and page.text("#place h2") is None
        page.browser.key("g")
        assert page.text("#place h2").startswith("Segment") and page.bytes('#place [data-fact="live in it"]') > 0
    page.browser.key("Escape")
    assert "place" not in page.state()


def check_replay(page):
    """The waits without which a reuse would not have been safe are named, although the run has no work."""
    tags = page.js("millrace.run.tags")
    assert len(tags) > 1 and "batch" in tags, tags  # the labels of the trace, which has no stacks
    check_arrows(page, "run=1")  # PyTorch's decisions pass nothing from stream to stream
    unnamed = page.js("(() => { const {reuse, wait} = millrace.run.blocks; const ORDERED = 3;"
                      "return [...reuse.keys()].filter(i => reuse[i] === ORDERED && wait[i] === 0xffffffff).length; })()")
    assert unnamed == 0, f"{unnamed} blocks have no wait"
    page.browser.run("(() => { const {blocks} = millrace.run; const i = [...blocks.wait.keys()].find(i => blocks.wait[i] !== 0xffffffff);"
                     "millrace.update({block: i}); })()")
    page.browser.settle()
    assert "The wait of" in page.text('#selection [data-fact="wait"]')


def check_choices(page):
    """Nothing is offered that the run does not have, and keys choose only what is offered."""
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
    """The page says how many waits and reuses it has, and draws some of them if there are too many."""
    page.open(link)
    waits = page.js("millrace.run.arrows.count")
    label = page.js("document.querySelector('.lanes canvas').getAttribute('aria-label')")
    assert waits > 0 and f"{waits:,} waits" in label, (waits, label)
    assert ("drawn" in label) == (waits > 400 or "reuses" in label and int(re.search(r"([\d,]+) reuses", label)[1].replace(",", "")) > 100)
    names = page.js("millrace.run.streams.map(s => s.device + s.name)")
    assert len(set(names)) == len(names), names


def check_without_events(program, browser, folder):
    """A snapshot without a history shows the moment at which it was made."""
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
    """Memory that streams share is free for its last user until it is taken again, and the page does not say that others may use it then."""
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
