#!/usr/bin/env python3
"""Draws two timelines side by side: streams, event waits, and held memory. Draws only the streams
of a single timeline.

    tools/timeline-svg.py LEFT.json RIGHT.json -o PICTURE.svg [--from STEP] [--steps N]
    tools/timeline-svg.py ONE.json -o PICTURE.svg [--from BATCH] [--steps N]

The files come from --timeline. A step begins where the main stream zeroes the gradients. For a
single timeline, a step begins where the last stream begins the next batch: the n-th operation of
each stream belongs to batch n. The script needs only Python.
"""
import argparse
import json
import sys
from html import escape

WIDTH, MARGIN, LABEL, GAP = 1000, 12, 66, 26
ROW, ROW_GAP, MEMORY = 26, 12, 150
GIB = 1 << 30
STREAMS = ("main", "data-dist", "copy")
COLORS = {"main": "#4c78a8", "data-dist": "#72b7b2", "copy": "#e8903a"}
PHASES = (("backward", "#35587d"), ("update", "#35587d"), ("optimizer", "#8aa9cc"), ("zero", "#8aa9cc"))
STYLE = """text{font:12px system-ui,sans-serif;fill:#222}.t{font-weight:600;font-size:13px}.s{font-size:11px;fill:#555}
.w{fill:none;stroke:#555;stroke-width:.8;marker-end:url(#a)}.x{fill:#d9d9d9}.n{fill:#fff;text-anchor:middle}
.g{stroke:#ddd;stroke-width:1}"""


class Timeline:
    """The parts of a file that the picture needs."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.facts = document["otherData"]
        self.stream_names, processes, names = [], {}, {}
        self.slices, self.counters = [], {}
        begins, ends = {}, {}
        for event in document["traceEvents"]:
            track, phase = (event["pid"], event["tid"]), event["ph"]
            if phase == "M":
                value = event["args"].get("name")
                if event["name"] == "process_name":
                    processes[event["pid"]] = value
                elif event["name"] == "thread_name":
                    names[track] = value
                    if processes[event["pid"]].endswith(" streams"):
                        self.stream_names.append(value)
            elif phase == "X" and event["cat"] in ("operation", "standstill"):
                self.slices.append((names[track], event["cat"], event["name"], event["ts"], event["ts"] + event["dur"]))
            elif phase == "s":
                begins[event["id"]] = (names[track], event["ts"])
            elif phase == "f":
                ends[event["id"]] = (names[track], event["ts"])
            elif phase == "C" and processes[event["pid"]] == "device memory":
                self.counters.setdefault(event["name"], []).append((event["ts"], event["args"]["bytes"]))
        self.arrows = [(begins[arrow], end) for arrow, end in ends.items()]
        self.steps = [begin for stream, _, name, begin, _ in self.slices if stream == "main" and name == "zero gradients"]

    def counter(self, name, begin, end):
        """The points of a step function between two times."""
        points, value = [], 0
        for when, now in self.counters[name]:
            if when <= begin:
                value = now
                continue
            if when >= end:
                break
            points.append((when, value))
            value = now
            points.append((when, value))
        first = next((v for t, v in reversed(self.counters[name]) if t <= begin), 0)
        return [(begin, first), *points, (end, value)]


def color(stream, name):
    if stream != "main":
        return COLORS[stream]
    return next((shade for word, shade in PHASES if word in name), COLORS["main"])


class Panel:
    """Half of the picture: the steps of one timeline."""

    def __init__(self, timeline, left, width, first, steps, most_bytes):
        self.timeline, self.left, self.width = timeline, left, width
        self.begin, self.end = timeline.steps[first], timeline.steps[first + steps]
        self.most = most_bytes
        self.out = []

    def x(self, time):
        time = min(max(time, self.begin), self.end)
        return round(self.left + (time - self.begin) / (self.end - self.begin) * self.width, 1)

    def row(self, stream):
        return 46 + STREAMS.index(stream) * (ROW + ROW_GAP)

    def draw(self, labels):
        facts = self.timeline.facts
        peak = max(value for _, value in self.timeline.counters["reserved"]) / GIB
        stranded = max(value for _, value in self.timeline.counter("stranded", self.begin, self.end)) / GIB
        self.add(f'<text class="t" x="{self.left}" y="20">{escape(facts["strategy"])}: {peak:.1f} GiB reserved, '
                 f'up to {stranded:.1f} of them stranded</text>')
        for stream in STREAMS:
            if labels:
                self.add(f'<text x="{MARGIN}" y="{self.row(stream) + 17}">{stream}</text>')
            self.add(f'<path class="g" d="M{self.left} {self.row(stream) + ROW}h{self.width}"/>')
        self.draw_slices()
        self.draw_arrows()
        self.draw_memory(labels)
        return self.out

    def add(self, line):
        self.out.append(line)

    def draw_slices(self):
        for stream, kind, name, begin, end in sorted(self.timeline.slices, key=lambda s: s[3]):
            if stream not in STREAMS or end <= self.begin or begin >= self.end:
                continue
            x, width = self.x(begin), round(self.x(end) - self.x(begin), 1)
            if width < 0.2:
                continue
            y = self.row(stream)
            if kind == "standstill":
                self.add(f'<rect class="x" x="{x}" y="{y + 9}" width="{width}" height="8"><title>{escape(name)}</title></rect>')
                continue
            inset = 0.4 if width > 1.5 else 0
            self.add(f'<rect x="{x}" y="{y}" width="{round(width - inset, 1)}" height="{ROW}" fill="{color(stream, name)}">'
                     f'<title>{escape(name)}</title></rect>')

    def draw_arrows(self):
        seen = set()
        for (source, leaves), (target, arrives) in self.timeline.arrows:
            inside = self.begin <= leaves and arrives <= self.end
            if source not in STREAMS or target not in STREAMS or source == target or not inside:
                continue
            x1, x2 = self.x(leaves), self.x(arrives)
            down = STREAMS.index(target) > STREAMS.index(source)
            y1 = self.row(source) + (ROW if down else 0)
            y2 = self.row(target) + (0 if down else ROW)
            if (round(x1), round(x2), y1, y2) in seen:
                continue
            seen.add((round(x1), round(x2), y1, y2))
            middle = (y1 + y2) / 2
            self.add(f'<path class="w" d="M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}"/>')

    def draw_memory(self, labels):
        top = self.row(STREAMS[-1]) + ROW + 34
        bottom = top + MEMORY

        def y(value):
            return round(bottom - value / self.most * MEMORY, 1)

        def path(points, close):
            line = "M" + "L".join(f"{self.x(t)} {y(v)}" for t, v in points)
            return line + (f"L{self.x(points[-1][0])} {bottom}L{self.x(points[0][0])} {bottom}Z" if close else "")

        def band(upper, depth):
            """Fills the area below a curve. Both lists have a point at the same times, or hold
            their value."""
            times = sorted({t for t, _ in upper} | {t for t, _ in depth})
            edges = []
            for time in times:
                for side in (0, -1):
                    edges.append((time, at(upper, time, side), at(depth, time, side)))
            top_line = [(t, u) for t, u, _ in edges]
            low_line = [(t, u - d) for t, u, d in reversed(edges)]
            return "M" + "L".join(f"{self.x(t)} {y(v)}" for t, v in top_line + low_line) + "Z"

        def at(points, time, side):
            """The value when `time` is reached (0) or left (-1)."""
            here = [value for when, value in points if when == time]
            return here[side] if here else [value for when, value in points if when < time][-1]

        for gib in range(0, int(self.most / GIB) + 1, 10):
            self.add(f'<path class="g" d="M{self.left} {y(gib * GIB)}h{self.width}"/>')
            if labels:
                self.add(f'<text class="s" x="{self.left - 6}" y="{y(gib * GIB) + 4}" text-anchor="end">{gib} GiB</text>')
        curves = {name: self.timeline.counter(name, self.begin, self.end) for name in ("reserved", "active", "stranded")}
        self.add(f'<path fill="#c9d8e8" d="{path(curves["active"], True)}"/>')
        self.add(f'<path fill="#e4572e" fill-opacity=".55" d="{band(curves["reserved"], curves["stranded"])}"/>')
        self.add(f'<path fill="none" stroke="#222" stroke-width="1.5" d="{path(curves["reserved"], False)}"/>')
        self.bottom = bottom


class Stages:
    """One timeline in which each stream does one thing with each batch."""

    SHADES = ("#4c78a8", "#e8903a", "#54a24b", "#b279a2", "#9d755d")

    def __init__(self, timeline, first, steps):
        self.boxes = {}
        for stream, kind, name, begin, end in sorted(timeline.slices, key=lambda s: s[3]):
            if kind == "operation" and stream in timeline.stream_names:
                self.boxes.setdefault(stream, []).append((name, begin, end))
        self.lanes = [stream for stream in timeline.stream_names if stream in self.boxes]
        last = self.boxes[self.lanes[-1]]
        if len(last) <= first + steps:
            sys.exit(f"there are {len(last)} batches")
        self.begin, self.end = last[first][1], last[first + steps][1]
        self.title = timeline.facts["title"]

    def x(self, time):
        left = MARGIN + LABEL
        time = min(max(time, self.begin), self.end)
        return left + (time - self.begin) / (self.end - self.begin) * (WIDTH - MARGIN - left)

    def draw(self):
        out = [f'<text class="t" x="{MARGIN + LABEL}" y="20">{escape(self.title)}: boxes of a color are of one batch</text>']
        for lane, stream in enumerate(self.lanes):
            y = 34 + lane * (ROW + ROW_GAP)
            out.append(f'<text x="{MARGIN}" y="{y + 17}">{escape(stream)}</text>')
            out.append(f'<path class="g" d="M{MARGIN + LABEL} {y + ROW}H{WIDTH - MARGIN}"/>')
            for batch, (name, begin, end) in enumerate(self.boxes[stream]):
                if end <= self.begin or begin >= self.end:
                    continue
                x, width = self.x(begin), self.x(end) - self.x(begin)
                out.append(f'<rect x="{x:.1f}" y="{y}" width="{max(width - 0.6, 0.5):.1f}" height="{ROW}" '
                           f'fill="{self.SHADES[batch % len(self.SHADES)]}"><title>{escape(name)}, batch {batch}: '
                           f'{(end - begin) / 1000:.2f} ms</title></rect>')
                if width > 24:
                    out.append(f'<text class="n" x="{x + width / 2:.1f}" y="{y + 17}">{batch}</text>')
        bottom = 34 + len(self.lanes) * (ROW + ROW_GAP)
        whole = (self.end - self.begin) / 1000
        for at in range(0, int(whole) + 1, max(1, round(whole / 8))):
            out.append(f'<text class="s" x="{self.x(self.begin + at * 1000):.1f}" y="{bottom + 8}" text-anchor="middle">{at}</text>')
        out.append(f'<text class="s" x="{MARGIN}" y="{bottom + 8}">ms</text>')
        return out, bottom + 18


def legend(y):
    parts = [("#4c78a8", "forward"), ("#35587d", "backward"), ("#e8903a", "copy to the device"),
             ("#72b7b2", "exchange of features"), ("#d9d9d9", "stands still, waiting"), ("#c9d8e8", "active"),
             ("#e4572e", "stranded for main"), ("#222", "reserved")]
    out, x = [], LABEL + MARGIN
    for fill, text in parts:
        out.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{fill}"/><text class="s" x="{x + 14}" y="{y}">{text}</text>')
        x += 30 + 6.1 * len(text)
    return out


def write(path, body, height):
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">\n<style>{STYLE}</style>\n'
                   '<defs><marker id="a" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto">'
                   '<path d="M0 0L6 3L0 6Z" fill="#555"/></marker></defs>\n'
                   f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("left")
    parser.add_argument("right", nargs="?")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--from", dest="first", type=int, default=10, help="the first step of the picture (10)")
    parser.add_argument("--steps", type=int, default=2, help="how many there are in it (2)")
    given = parser.parse_args()
    if given.right is None:
        write(given.output, *Stages(Timeline(given.left), given.first, given.steps).draw())
        return
    pair = [Timeline(given.left), Timeline(given.right)]
    for path, timeline in zip((given.left, given.right), pair):
        if len(timeline.steps) <= given.first + given.steps or "stranded" not in timeline.counters:
            sys.exit(f"{path}: has {len(timeline.steps)} steps, or no counter of stranded bytes")
    most = max(value for timeline in pair for _, value in timeline.counters["reserved"]) * 1.05
    width = (WIDTH - 2 * MARGIN - LABEL - GAP) / 2
    body = []
    for i, timeline in enumerate(pair):
        panel = Panel(timeline, MARGIN + LABEL + i * (width + GAP), width, given.first, given.steps, most)
        body += panel.draw(labels=i == 0)
    height = panel.bottom + 44
    facts = pair[0].facts
    note = (f'{facts["workload"]} with the allocator {facts["allocator"]} on {facts["device"]}, seed {facts["seed"]}: '
            f'times {facts["times"]}, bytes as the allocator decided. Steps {given.first + 1} to {given.first + given.steps}.')
    body += legend(panel.bottom + 18)
    body.append(f'<text class="s" x="{MARGIN + LABEL}" y="{panel.bottom + 36}">{escape(note)}</text>')
    write(given.output, body, height)


if __name__ == "__main__":
    main()
