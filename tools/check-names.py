#!/usr/bin/env python3
"""Checks that no two types of a namespace have the same name, for all code that is linked into one
program:

    tools/check-names.py

A program with two such types has undefined behavior. The linker keeps the functions of one type for
both, unless a compiler inlines them. Neither the compiler nor the linker reports it. Tests and
benchmarks are separate programs, so their types are compared within their folder. If such types
exist, the script lists them with their places and ends with 1.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TYPE = re.compile(r"(?:class|struct|union|enum class)\s+(?:\[\[\w+\]\]\s+)?(\w+)(?:\s+final)?\s*(?::[^:].*)?\{")
BEGIN, END = re.compile(r"(?:inline )?namespace ?([\w:]*) ?\{"), re.compile(r"\}\s*// namespace")
LINKED = ("allocator", "pipeline", "streamer")


def types_of(path):
    """The types that the file defines directly in a named namespace."""
    inside = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if begin := BEGIN.match(line):
            inside.append(begin[1])
        elif END.match(line) and inside:
            inside.pop()
        elif (found := TYPE.match(line)) and all(inside):
            yield "::".join([*inside, found[1]]), f"{path.relative_to(ROOT)}:{number}"


def main():
    places = collections.defaultdict(list)
    for folder in (*LINKED, "tools", "bench", "test"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".hpp", ".cpp", ".h", ".cu", ".cuh"):
                continue
            inner = path.relative_to(ROOT / folder).parts[:-1]
            program = "" if folder in LINKED else "/".join((folder, *inner[:1]))
            for name, place in types_of(path):
                places[name, program].append(place)
    wrong = 0
    for (name, program), found in sorted(places.items()):
        every = found if program == "" else found + places.get((name, ""), [])
        if len(every) > 1:
            wrong += 1
            print(f"{name} is defined {len(every)} times: {', '.join(every)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
