#!/usr/bin/env python3
"""Finds places that share six or more consecutive lines of the same logic:

    tools/check-duplicates.py [--check] [product|tests]

Before the comparison, spaces, comments and lines without logic are removed: includes and imports,
using and namespace lines, access specifiers, lone braces, and declarations that end with
`override;`. Places that share lines form one group. Product code (allocator, pipeline, streamer,
tools, bench) and tests are compared separately.

Prints each group with its places. With --check it prints only groups of a part that has too many
groups, and ends with 1.
"""
import argparse
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED_LINES = 6
PARTS = {"product": ("allocator", "pipeline", "streamer", "tools", "bench"), "tests": ("test",)}
FEWER_GROUPS_THAN = {"product": 10, "tests": 25}
C_LIKE = {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh", ".ts"}

STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
PYTHON_DOCSTRING = re.compile(r'^\s*(?:r|f)?"""(?:.*?)"""', re.DOTALL | re.MULTILINE)
PYTHON_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
NO_LOGIC = re.compile(
    r"#\s*(include|pragma)\b|(inline )?namespace\b|using\b|(import|from) [\w.{*\"'].*(;|import .*)$|(import) [\w.]+( as \w+)?$|(public|private|protected):$|[\W_]*$"
)


def without(pattern, text, keep=None):
    """Removes the matches of a pattern from the text. Line numbers do not change."""

    def blank(found):
        return found[0] if keep and found[keep] else "\n" * found[0].count("\n")

    return pattern.sub(blank, text)


def lines_of_logic(path):
    """(number, line) for each line of the file that takes part in the comparison."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".py":
        text = without(PYTHON_COMMENT, without(PYTHON_DOCSTRING, text))
    else:
        text = without(STRING_OR_COMMENT, text, keep=1)
    statement = []  # Lines since the last end of a statement. A declaration is removed as a whole.
    for number, line in enumerate(text.splitlines(), 1):
        line = " ".join(line.split())
        if NO_LOGIC.match(line):
            if line.endswith(("}", "{", "};")):
                yield from statement
                statement = []
            continue
        statement.append((number, line))
        if line.endswith((";", "{", "}")) or path.suffix == ".py":
            if not line.endswith("override;"):
                yield from statement
            statement = []
    yield from statement


def sources_of(folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in C_LIKE | {".py"} and "node_modules" not in path.parts:
                yield path


def groups_in(folders):
    """Groups of places that share lines. Each is a list of (path, first line, last line)."""
    windows = collections.defaultdict(list)  # By text of a window: (path, index of its first line).
    sources = {path: list(lines_of_logic(path)) for path in sources_of(folders)}
    for path, lines in sources.items():
        for first in range(len(lines) - SHARED_LINES + 1):
            text = tuple(line for _, line in lines[first : first + SHARED_LINES])
            if windows[text] and windows[text][-1][0] == path and first - windows[text][-1][1] < SHARED_LINES:
                continue  # A table: it repeats itself within the window.
            windows[text].append((path, first))
    shared = {place: text for text, places in windows.items() if len(places) > 1 for place in places}

    group_of = {text: text for text in shared.values()}  # Overlapping windows form one group.

    def root(text):
        while group_of[text] != text:
            text = group_of[text]
        return text

    for (path, first), text in shared.items():
        if (path, first + 1) in shared:
            group_of[root(shared[path, first + 1])] = root(text)
    members = collections.defaultdict(lambda: collections.defaultdict(set))
    for (path, first), text in shared.items():
        members[root(text)][path].update(range(first, first + SHARED_LINES))
    for places in members.values():
        group = []
        for path, covered in places.items():
            ordered = sorted(covered)
            starts = [index for index in ordered if index - 1 not in covered]
            ends = [index for index in ordered if index + 1 not in covered]
            group += [(path, sources[path][a][0], sources[path][b][0]) for a, b in zip(starts, ends)]
        yield group


def show(groups):
    for group in sorted(groups, key=lambda group: (-max(last - first for _, first, last in group), group)):
        print("same lines in " + ", ".join(f"{p.relative_to(ROOT)}:{first}-{last}" for p, first, last in group))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="end with 1 if a part has too many groups")
    parser.add_argument("part", nargs="?", choices=PARTS, help="only this part (default: both)")
    options = parser.parse_args()
    too_many = False
    for part in [options.part] if options.part else PARTS:
        groups = list(groups_in(PARTS[part]))
        allowed = FEWER_GROUPS_THAN[part]
        wrong = options.check and len(groups) >= allowed
        if wrong or not options.check:
            show(groups)
        print(f"{part}: {len(groups)} groups of places share {SHARED_LINES} or more lines")
        if wrong:
            too_many = True
            print(f"{part} code in {', '.join(PARTS[part])} has {len(groups)} groups of duplicates; right: fewer than "
                  f"{allowed}, with one helper for what places share", file=sys.stderr)
    return 1 if too_many else 0


if __name__ == "__main__":
    sys.exit(main())
