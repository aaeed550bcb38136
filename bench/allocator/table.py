#!/usr/bin/env python3
"""Makes a table and a picture from results of bench/run.sh allocator --json.

    bench/allocator/table.py RESULTS.json [--table FILE.md] [--svg FILE.svg]
    bench/allocator/table.py BEFORE.json AFTER.json [--table FILE.md] [--svg FILE.svg]
    bench/allocator/table.py --check RESULTS.json

Without --table the table goes to standard output. The script needs only Python. Exit code 2: a file
cannot be read, or the benchmark did not write it.
"""

import argparse
import json
import math
import re
import sys
from html import escape

SCHEMA = "millrace.bench-allocator/1"
FIELDS = ("suite", "case", "subject", "unit", "ns_per_pair", "device_calls_per_pair", "modeled_call_ns_per_pair",
          "reserved_over_live", "host_bytes_per_block", "given_up")
HEAD = ("date", "device", "cpu", "cores", "commit", "compiler", "command", "seeds", "subjects", "left_out", "rows")
COLORS = {"millrace": "#c0392b", "millrace-no-ranges": "#e08e79", "torch": "#e8a33a", "cub": "#4c78a8",
           "thrust-pool": "#72b7b2", "thrust-locked-pool": "#9ecac7", "driver-pool": "#54a24b", "cuda-malloc": "#8c6d46",
           "mutex-floor": "#888", "thread-local-floor": "#bbb"}


class BadInput(Exception):
    pass


class Results:
    """One file. Its rows are stored by (suite, case, subject)."""

    def __init__(self, path):
        try:
            with open(path, encoding="utf-8") as file:
                self.head = json.load(file)
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}; right: a file of bench/run.sh allocator --json")
        except ValueError as error:
            raise BadInput(f"{path}: not JSON ({error}); right: a file of bench/run.sh allocator --json")
        if not isinstance(self.head, dict) or self.head.get("schema") != SCHEMA:
            raise BadInput(f"{path}: not results of the allocator suite; right: \"schema\": \"{SCHEMA}\"")
        missing = [key for key in HEAD if key not in self.head]
        for number, row in enumerate(self.head.get("rows", [])):
            missing += [f"rows[{number}].{key}" for key in FIELDS if key not in row]
        if missing:
            raise BadInput(f"{path}: {missing[0]} is missing; right: a file of bench/run.sh allocator --json")
        self.rows = {(row["suite"], row["case"], row["subject"]): row for row in self.head["rows"]}
        self.cases = list(dict.fromkeys((row["suite"], row["case"]) for row in self.head["rows"]))
        named = [subject["subject"] for subject in self.head["subjects"]]
        self.subjects = [name for name in named if any(key[2] == name for key in self.rows)]

    def get(self, case, subject, field="ns_per_pair"):
        row = self.rows.get((*case, subject))
        return None if row is None else row[field]


def nanoseconds(value):
    """Formats a time with three digits, in a suitable unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def ratio(value):
    return f"{value:.2f}" if value < 10 else f"{value:.3g}"


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def cell(results, case, subject):
    row = results.rows.get((*case, subject))
    if row is None:
        return "-"
    if row["ns_per_pair"] is None or row["given_up"]:
        reached = row["given_up"] or {}
        there = reached.get("ns_per_step_there")
        at = f", {nanoseconds(there)} each there" if there and row["ns_per_pair"] is None else ""
        begin = "" if row["ns_per_pair"] is None else nanoseconds(row["ns_per_pair"]) + ", "
        return f"{begin}given up at {reached.get('reached', 0):,}{at}"
    text = nanoseconds(row["ns_per_pair"])
    own = results.get(case, "millrace")
    if subject != "millrace" and own:
        text += f" ({ratio(row['ns_per_pair'] / own)})"
    return text


def times(results):
    rows = ([f"{case[0]}/{case[1]}"] + [cell(results, case, name) for name in results.subjects] for case in results.cases
            if case[0] != "cliffs")
    yield from table(["case"] + results.subjects, rows)


def cliff_of(name):
    """Splits the name of a case `name-10k` into (name, n)."""
    match = re.fullmatch(r"(.+)-(\d+)(k|M|)", name)
    return match[1], int(match[2]) * {"": 1, "k": 1000, "M": 1000000}[match[3]]


def cliffs(results):
    names = list(dict.fromkeys(cliff_of(case[1])[0] for case in results.cases if case[0] == "cliffs"))
    rows = []
    for name in names:
        cases = [case for case in results.cases if case[0] == "cliffs" and cliff_of(case[1])[0] == name]
        for subject in results.subjects:
            if all((*case, subject) not in results.rows for case in cases):
                continue
            texts = []
            for case in cases:
                row = results.rows.get((*case, subject))
                value = row and row["ns_per_pair"]
                if value is not None:
                    texts.append(nanoseconds(value))
                elif row:
                    reached = row["given_up"]
                    at = reached["ns_per_step_there"]
                    texts.append(f"given up at {reached['reached']:,}" + (f" ({nanoseconds(at)} each)" if at else ""))
                else:
                    texts.append("-")
            first, last = (results.get(cases[i], subject) for i in (0, -1))
            grown = ratio(last / first) if first and last and len(cases) > 1 else "-"
            sizes = " / ".join(f"{cliff_of(case[1])[1]:,}" for case in cases)
            unit = next(row["unit"] for key, row in results.rows.items() if key[:2] == cases[0])
            rows.append([f"{name}, {sizes}", unit, subject, " / ".join(texts), grown])
    yield from table(["n grows", "ns of a", "subject", "time", "last / first"], rows)


def figures(results, field, suites, digits):
    shown = [case for case in results.cases if case[0] in suites and
             any(results.get(case, name, field) is not None for name in results.subjects)]
    rows = []
    for case in shown:
        values = (results.get(case, name, field) for name in results.subjects)
        rows.append([f"{case[0]}/{case[1]}"] + ["-" if value is None else f"{value:,.{digits}f}" for value in values])
    yield from table(["case"] + results.subjects, rows)


def with_calls(results):
    """For each case with counted driver calls: CPU time plus the time that these calls would take.
    """
    rows = []
    for case in results.cases:
        sums = {}
        for name in results.subjects:
            own, calls = results.get(case, name), results.get(case, name, "modeled_call_ns_per_pair")
            if own is not None and calls is not None:
                sums[name] = own + calls
        if case[0] != "cliffs" and len(sums) > 1:
            rows.append([f"{case[0]}/{case[1]}"] + [nanoseconds(sums[name]) if name in sums else "-" for name in results.subjects])
    yield from table(["case"] + results.subjects, rows)


CALLS_NOTE = ("CPU time, and the host time of the driver calls by the profile of an H100 (modeled, not measured here): the device "
              "of the benchmark answers at once, which favors a subject that calls it often. Mapping counts each page; the "
              "benchmark's pages have 2 MiB if a case does not say otherwise, and those of an H100 32 MiB.")


def machine(results):
    head = results.head
    seeds = head["seeds"]
    drawn = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    return (f"{head['date']}, commit {head['commit'][:12]}{'+changes' if head['commit'].endswith('+changes') else ''}, device: "
            f"{head['device']}; {head['cpu']}, {head['cores']} cores; {head['compiler']}"
            f"{', with assertions' if head.get('assertions') else ''}; {drawn}. `{head['command']}`")


def parts_of_one(results):
    yield "Nanoseconds", times(results), ("Median CPU time of the thread for a pair (allocation and free); in brackets, as a "
                                          "multiple of `millrace`. Subjects of a case are interleaved.")
    yield "Cliffs", cliffs(results), "What must not grow. A case that takes too long is given up."
    yield ("Driver calls a pair", figures(results, "device_calls_per_pair", {s for s, _ in results.cases} - {"cliffs"}, 3),
           "Those that the program makes itself are left out.")
    yield "Nanoseconds with driver calls", with_calls(results), CALLS_NOTE
    yield ("Peak reserved / peak live", figures(results, "reserved_over_live", {"random", "churn", "traces", "training"}, 3),
           "Bytes; live as asked for.")
    yield ("Host bytes a live block", figures(results, "host_bytes_per_block", {"random", "cold", "cliffs"}, 0),
           "What malloc gave out while the blocks were made; `one-shot-streams`: a stream.")


def change(before, after, case, subject):
    values = [results.get(case, subject) for results in (before, after)]
    texts = [cell(results, case, subject).split(" (")[0] for results in (before, after)]
    return texts + [ratio(values[0] / values[1]) if all(values) else "-"]


def parts_of_two(before, after):
    own = [name for name in after.subjects if name in ("millrace", "millrace-no-ranges", "torch")]
    rows = []
    for case in after.cases:
        for subject in own:
            if (*case, subject) not in after.rows:
                continue
            mine, cub = after.get(case, subject), after.get(case, "cub")
            rows.append([f"{case[0]}/{case[1]}", subject] + change(before, after, case, subject) +
                        [ratio(cub / mine) if mine and cub else "-"])
    yield ("Nanoseconds", table(["case", "subject", "before", "after", "times faster", "times faster than cub, after"], rows),
           "Median CPU time of the thread for a pair (allocation and free).")
    yield "Nanoseconds with driver calls, after", with_calls(after), CALLS_NOTE
    for title, field, digits in (("Peak reserved / peak live", "reserved_over_live", 3),
                                 ("Driver calls a pair", "device_calls_per_pair", 3),
                                 ("Host bytes a live block", "host_bytes_per_block", 0)):
        rows = []
        for case in after.cases:
            for subject in own:
                values = [results.get(case, subject, field) for results in (before, after)]
                if all(value is not None for value in values) and values[0] != values[1]:
                    rows.append([f"{case[0]}/{case[1]}", subject] + [f"{value:,.{digits}f}" for value in values])
        yield title, table(["case", "subject", "before", "after"], rows), "Where it changed."


def page(files):
    yield "# Allocators on the same work" if len(files) == 1 else "# Allocators on the same work, before and after"
    for name, results in zip(("Before: ", "After: ") if len(files) == 2 else ("",), files):
        yield ""
        yield name + machine(results)
    for title, lines, note in (parts_of_one(files[0]) if len(files) == 1 else parts_of_two(*files)):
        yield f"\n## {title}\n\n{note}\n"
        yield from lines
    outs = files[-1].head["left_out"]
    if outs:
        yield "\n## Left out\n"
        for out in outs:
            yield f"- {'/'.join(part for part in (out['suite'], out['name']) if part)}: {out['why']}"


class Axis:
    """Maps nanoseconds to a logarithmic axis."""

    def __init__(self, values, left, right):
        self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        self.left, self.right = left, right

    def at(self, value):
        return self.left + (math.log10(value) - self.low) / max(1, self.high - self.low) * (self.right - self.left)

    def marks(self):
        return [10.0 ** power for power in range(self.low, self.high + 1)]


def picture(files):
    """Draws a line for each case and a dot for each subject. Hollow dots: before."""
    results = files[-1]
    cases = [case for case in results.cases if any(results.get(case, name) for name in results.subjects)]
    values = [value for file in files for case in cases for name in file.subjects if (value := file.get(case, name))]
    width, left, row_height, top = 1000, 300, 15, 64
    axis = Axis(values, left, width - 20)
    height = top + row_height * len(cases) + 12
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui,sans-serif" '
           f'font-size="11"><rect width="{width}" height="{height}" fill="#fff"/>',
           f'<text x="12" y="18" font-size="13" font-weight="600">Nanoseconds a pair (median CPU time)'
           f'{"; hollow: before" if len(files) == 2 else ""}</text>']
    x = 12
    for name in results.subjects:
        svg.append(f'<circle cx="{x + 5}" cy="32" r="4" fill="{COLORS.get(name, "#000")}"/>'
                   f'<text x="{x + 13}" y="36">{escape(name)}</text>')
        x += 26 + 6.2 * len(name)
    for mark in axis.marks():
        svg.append(f'<path d="M{axis.at(mark):.1f} {top - 6}V{height - 8}" stroke="#ddd"/>'
                   f'<text x="{axis.at(mark):.1f}" y="{top - 10}" text-anchor="middle" fill="#555">{nanoseconds(mark)}</text>')
    for number, case in enumerate(cases):
        y = top + row_height * number + 6
        svg.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{escape("/".join(case))}</text>'
                   f'<path d="M{left} {y}H{width - 20}" stroke="#f0f0f0"/>')
        for file in files:
            for name in reversed(file.subjects):
                if value := file.get(case, name):
                    color = COLORS.get(name, "#000")
                    fill = f'fill="{color}"' if file is results else f'fill="none" stroke="{color}"'
                    svg.append(f'<circle cx="{axis.at(value):.1f}" cy="{y}" r="4" {fill}><title>{escape(name)}: '
                               f'{nanoseconds(value)}</title></circle>')
    return "\n".join(svg) + "\n</svg>\n"


def write(path, text):
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; right: a file that can be written")


def run(arguments):
    files = [Results(path) for path in arguments.results]
    if arguments.check:
        return
    text = "\n".join(page(files)) + "\n"
    if arguments.table:
        write(arguments.table, text)
    else:
        print(text, end="")
    if arguments.svg:
        write(arguments.svg, picture(files))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", help="one file, or before and after")
    parser.add_argument("--table", metavar="FILE.md")
    parser.add_argument("--svg", metavar="FILE.svg")
    parser.add_argument("--check", action="store_true", help="only say whether the files can be read")
    arguments = parser.parse_args()
    if len(arguments.results) > 2:
        parser.error("at most two files: before and after")
    try:
        run(arguments)
    except BadInput as error:
        print(f"table.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
