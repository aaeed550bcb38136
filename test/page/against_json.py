"""Compares a page with the JSON of the command that wrote it."""

import re


def event_in_words(document, event):
    if event is None:
        return "the beginning"
    word = "line" if document["files"][0]["format"] in ("RMM log", "lifetimes") else "event"
    return f"{word} {event['position']:,}"


def short(stream):
    """The name of a stream in a column, from its name in the JSON."""
    if stream.startswith("stream ") and not re.fullmatch(r"stream \d+", stream):
        return stream[len("stream "):]
    return stream[:-len(" stream")] if stream.endswith(" stream") else stream


def check_moment(page, document, device):
    """Checks the levels at the peak, the requesting stream, the event and the holders of memory."""
    moment = device["peak"]
    parts = moment["parts"]
    known = {level: page.bytes(f'[data-level="{level}"]') for level in ("reserved", "live", "rounding", "waiting", "stranded", "pool")}
    assert known["reserved"] == moment["reserved_bytes"], ("reserved", known, moment["reserved_bytes"])
    assert known["live"] == parts["live"] + moment["in_no_segment_bytes"], ("live", known, parts)
    assert page.text('[data-fact="moment"]').strip() == event_in_words(document, moment["event"])
    if moment["reserved_bytes"] is None:
        assert known["stranded"] is None and known["pool"] is None, known
    else:
        assert known["waiting"] == parts["waiting"], (known, parts)
        assert known["stranded"] == parts["stream"], (known, parts)
        assert (known["pool"] or 0) == parts["pool"], (known, parts)
        rounding = None if parts["rounding"] is None else parts["rounding"] + parts["rest"]
        assert known["rounding"] == rounding, (known, parts)
        stream = short(moment["asker"]["stream"])
        assert f"Stranded for {stream}" in page.text(".levels"), (stream, page.text(".levels"))
    check_holders(page, moment)


def check_holders(page, moment):
    if moment["further_shares"] or moment["in_no_segment_bytes"]:
        return
    sites = {}
    for share in moment["shares"]:
        if share["part"] == "live":
            sites[share["site"]] = sites.get(share["site"], 0) + share["bytes"]
    shown = page.js("[...document.querySelectorAll('.holders tbody tr')].map(row =>"
                    "[row.querySelector('button').title, Number(row.querySelector('data').value)])")
    assert len(shown) == min(14, len(sites)), (len(shown), len(sites))
    for name, size in shown:
        assert sites.get(name) == size, (name, size, sites.get(name))


def check_parts(page, device):
    shown = dict(rows_of(page, "where it is at the peak", device["device"]))
    assert shown == device["peak"]["parts"], (shown, device["peak"]["parts"])


def rows_of(page, title, device):
    """The rows of a table, with signed bytes; none if there is no such table."""
    tables = page.js("millrace.run.tables.map(t => [t.title, t.device, t.rows.map(r => [r.label, r.is_less ? -r.bytes : r.bytes])])")
    return [row for name, of, rows in tables if name.startswith(title) and of == device for row in rows]


def check_shares(page, device):
    moment, number = device["peak"], device["device"]
    free = {"waiting", "stream", "pool", "hard", "soft", "driver"}
    kept = sum(share["bytes"] for share in moment["shares"] if share["part"] in free)
    if moment["further_shares"] == 0:
        assert sum(size for _, size in rows_of(page, "not live, by site", number)) == kept
    for title, part in (("free on other streams", "stream"), ("free in other pools", "pool")):
        assert sum(size for _, size in rows_of(page, title, number)) == (moment["parts"][part] or 0)


def check_changes(page, document):
    for device in document.get("changes", []):
        (name, whole), *rows = rows_of(page, "what changed of", device["device"])
        assert name == "all" and whole == device["second_bytes"] - device["first_bytes"]
        assert sum(size for _, size in rows) == whole, (rows, whole)


def check_ladder(page, device):
    ladder, number = device["ladder"], device["device"]
    shown = page.js("millrace.run.tables.filter(t => t.cumulative).map(t => [t.device, t.title, t.rows.map(r => r.bytes)])")
    of = [(title, rows) for table, title, rows in shown if table == number]
    if ladder is None:
        assert of == [], of
        return
    levels = [ladder["levels"][level] for level in ("l0", "l1", "l2", "l3", "reserved")]
    title = "Where the reserved memory went" if ladder["is_recorded"] else f"Where the memory of \"{ladder['allocator']}\" goes"
    assert len(of) == 1 and of[0][1] == levels and of[0][0].startswith(title), (of, ladder)


def check_what_if(page, device):
    shown = dict(rows_of(page, "what it would have reserved", device["device"]))
    assert shown.get("recorded") == device["peak"]["reserved_bytes"], shown
    assert shown.get("packed quickly") == device["packed_bytes"], shown
    for row in device["what_if"]:
        name = row["allocator"] if row["change"] == "none" else f"{row['allocator']}, {row['change']}"
        assert shown[name] == row["reserved_bytes"], (name, shown[name], row)


def check_summary(page, document, device):
    """Checks that the summary is that of the chosen device."""
    text = page.text("#summary")
    for other in document["files"][0]["devices"]:
        assert (f"device {other['device']}: at the peak" in text) == (other is device), (device["device"], text)


def check_explained(page, document):
    """Checks each device of the page of `explain`."""
    for device in document["files"][0]["devices"]:
        page.open(f"device={device['device']}&grouping=site")
        check_summary(page, document, device)
        check_ladder(page, device)
        check_what_if(page, device)
        check_moment(page, document, device)
        check_parts(page, device)
        check_shares(page, device)
    check_changes(page, document)


def check_recorded(page, runs):
    """Checks the runs of a table: bytes of blocks, with and without waiting ones, and freed bytes
    that the main stream cannot use.

    The JSON has the freed bytes at the ends of steps, and the page has them at each event."""
    for i, run in enumerate(runs):
        page.open(f"run={i}")
        held, active, unusable = page.js(
            "(() => { const {device, state} = millrace; const {active, held} = device.levels;"
            "const stranded = device.strandedLevels(state.asker).stream;"
            "return [Math.max(...held), Math.max(...active), stranded.map((b, i) => b + active[i] - held[i]).reduce((a, b) => Math.max(a, b))]; })()")
        assert held == run["peak_allocated_bytes"], (run["allocator"], held)
        assert unusable >= run["stranded_peak_bytes"], (run["allocator"], unusable, run["stranded_peak_bytes"])
        if run["allocator"] == "torch":  # in Millrace, ordered memory does not wait
            assert active == run["peak_active_bytes"], (run["allocator"], active)
            assert unusable == run["stranded_peak_bytes"], (unusable, run["stranded_peak_bytes"])
        assert "Stranded for main" in page.text(".levels")
