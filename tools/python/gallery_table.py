"""Prints a Markdown table with the figures of the gallery's programs side by side:

    gallery_table.py FOLDER PROGRAM...

FOLDER contains PROGRAM.pytorch.json and PROGRAM.millrace.json. A failed program has no figures.
"""

import json
import pathlib
import sys

_COLUMNS = ("allocated", "reserved", "device_allocations")


def shown(name, value):
    if value is None:
        return "-"
    if isinstance(value, str) or name == "device_allocations":
        return str(value)
    return f"{value / (1 << 30):.2f} GiB"


def figures_of(path):
    text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return json.loads(text.splitlines()[-1]) if text else {}


def main():
    folder, programs = pathlib.Path(sys.argv[1]), sys.argv[2:]
    print("| program | live | reserved, PyTorch | reserved, Millrace | calls for memory, PyTorch | Millrace | also |")
    print("|---|---|---|---|---|---|---|")
    for program in programs:
        pair = [figures_of(folder / f"{program}.{allocator}.json") for allocator in ("pytorch", "millrace")]
        live, *rest = (shown(name, figures.get(name)) for name in _COLUMNS for figures in pair)
        also = [f"{name.replace('_', ' ')}: {shown(name, pair[0].get(name))}, {shown(name, pair[1].get(name))}"
                for name in dict.fromkeys([*pair[0], *pair[1]]) if name not in _COLUMNS]
        print("|", " | ".join([f"`{program}`", live, *rest[1:], "; ".join(also)]), "|")


if __name__ == "__main__":
    main()
