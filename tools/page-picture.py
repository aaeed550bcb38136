#!/usr/bin/env python3
"""Makes the picture of a page for the documentation, in a headless browser:

    tools/page-picture.py PAGE PICTURE.png [--fragment VIEW] [--size 1500x950] [--click X,Y]

`VIEW` is the part of a link after `#`. The picture has at most 256 colors, which keeps the file small.
"""

import argparse
import os
import struct
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "page"))
from browser import Browser, find_chromium  # noqa: E402


def chunks(png):
    at = 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        yield kind, png[at + 8:at + 8 + length]
        at += 12 + length


def rows_of(png):
    """Returns the width and the rows of a PNG of 8-bit RGB or RGBA. Rows are lists of (r, g, b)."""
    data = b""
    for kind, body in chunks(png):
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and color in (2, 6), "an unexpected kind of PNG"
            size = 3 if color == 2 else 4
        elif kind == b"IDAT":
            data += body
    raw, rows, last = zlib.decompress(data), [], bytearray(width * size)
    for y in range(height):
        start = y * (width * size + 1)
        line, kind = bytearray(raw[start + 1:start + 1 + width * size]), raw[start]
        for i in range(len(line)):
            a = line[i - size] if i >= size else 0
            b, c = last[i], last[i - size] if i >= size else 0
            if kind == 1:
                line[i] = (line[i] + a) & 255
            elif kind == 2:
                line[i] = (line[i] + b) & 255
            elif kind == 3:
                line[i] = (line[i] + (a + b) // 2) & 255
            elif kind == 4:
                p = a + b - c
                nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
                line[i] = (line[i] + nearest) & 255
        last = line
        rows.append([tuple(line[i:i + 3]) for i in range(0, len(line), size)])
    return width, rows


def with_palette(png):
    """Reduces the picture to its 256 most frequent colors. Other colors become the nearest of them.
    """
    width, rows = rows_of(png)
    counts = {}
    for row in rows:
        for color in row:
            counts[color] = counts.get(color, 0) + 1
    palette = sorted(counts, key=counts.get, reverse=True)[:256]
    index = {color: i for i, color in enumerate(palette)}

    def nearest(color):
        if color not in index:
            index[color] = min(range(len(palette)), key=lambda i: sum((x - y) ** 2 for x, y in zip(color, palette[i])))
        return index[color]

    body = b"".join(b"\0" + bytes(nearest(color) for color in row) for row in rows)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (png[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0))
            + chunk(b"PLTE", b"".join(bytes(color) for color in palette)) + chunk(b"IDAT", zlib.compress(body, 9))
            + chunk(b"IEND", b""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page")
    parser.add_argument("picture")
    parser.add_argument("--fragment", default="theme=light")
    parser.add_argument("--size", default="1500x950")
    parser.add_argument("--click", help="a place in the page to click on, in pixels")
    arguments = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        sys.exit("page-picture: no Chromium")
    width, height = map(int, arguments.size.split("x"))
    with Browser(chromium, width, height, timeout=120) as browser:
        browser.open(arguments.page, arguments.fragment)
        browser.settle()
        if arguments.click:
            browser.click(*map(float, arguments.click.split(",")))
            browser.mouse("mouseMoved", 2, 2)
            browser.settle()
        browser.screenshot(arguments.picture)
    with open(arguments.picture, "rb") as file:
        png = file.read()
    with open(arguments.picture, "wb") as file:
        file.write(with_palette(png))


if __name__ == "__main__":
    main()
