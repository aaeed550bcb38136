"""Reads and writes allocation traces in Millrace's own format, which docs/record.md defines.

    from millrace import trace

    log = trace.read("packed_weights.trace.gz")
    for event in log.events:
        if event.kind == "allocated":
            print(event.time_us, log.streams[event.stream].name, log.blocks[event.block].bytes)

Needs the standard library only, and no libmillrace.so. Files may be gzipped.
"""

import bisect
import gzip
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple, Optional

__all__ = ["Block", "Device", "Event", "Frame", "Stream", "Trace", "TraceError", "Writer", "parse", "read"]

MAGIC = b"\x8dMRTRACE"
VERSION = 1

_LEGACY, _BLOCKING, _FOR_ALL = 1, 2, 4
_TIMES_ARE_POSITIONS, _ADDRESSES_ARE_MADE_UP = 1, 2
_MOST_ADDRESS = 1 << 57
_MOST_TIME = 1 << 62
_MOST_DEVICES = 64

_PROGRAM, _DEVICE, _STREAM, _FRAME, _STACK, _LABEL = 1, 2, 3, 4, 5, 6
# Kinds of events, and the fields that each has after its time, in order.
_EVENTS = {
    16: ("allocated", ("stream", "address", "bytes", "stack", "label")),
    17: ("freed", ("block", "stream")),
    18: ("completed", ("block",)),
    19: ("failed", ("stream", "bytes")),
    20: ("used", ("block", "stream")),
    21: ("marked", ("stream", "growth")),
    22: ("waited", ("stream", "other", "back")),
    23: ("passed", ("stream", "back")),
    24: ("passed_stream", ("stream",)),
    25: ("passed_device", ("device",)),
    26: ("closed", ("stream",)),
    27: ("reserved", ("device", "address", "bytes")),
    28: ("released", ("device", "address", "bytes")),
    29: ("device_reset", ("device",)),
    30: ("pool_keeps", ("device", "bytes")),
    31: ("pool_trimmed", ("device", "bytes")),
    32: ("not_passed", ("stream", "back")),
    33: ("stream_not_passed", ("stream",)),
    127: ("ended", ()),
}
_KINDS = {name: kind for kind, (name, _) in _EVENTS.items()}


class TraceError(ValueError):
    """A file that is not a trace, or contradicts itself. The message names the file and the place."""


class Device(NamedTuple):
    number: int
    memory_bytes: int  # 0: unknown
    name: str
    times_are_positions: bool = False  # a microsecond an event
    addresses_are_made_up: bool = False  # blocks were not where the trace says


class Stream(NamedTuple):
    device: int
    name: str
    handle: int = 0
    legacy: bool = False  # the legacy default stream
    blocking: bool = False  # synchronizes with the legacy stream
    for_all: bool = False  # no stream: memory that all streams may use at once
    thread: int = 0  # of a per-thread stream without a handle of its own


class Frame(NamedTuple):
    file: str
    function: str
    line: int = 0  # 0: unknown


class Event(NamedTuple):
    """A step of the program. A field that the kind does not have is None.

    `kind` is a name of the table in docs/record.md, with _ for spaces. `block`, `stream` and `other` are indices into
    Trace.blocks and Trace.streams; `marker` is the number of a marker on `stream`, or for `waited` on `other`.
    """

    kind: str
    time_us: int
    block: Optional[int] = None
    stream: Optional[int] = None
    other: Optional[int] = None
    marker: Optional[int] = None
    device: Optional[int] = None
    address: Optional[int] = None
    bytes: Optional[int] = None


@dataclass
class Block:
    """An allocation. `freed` and `completed` are indices into Trace.events, or None."""

    device: int
    stream: int
    address: int
    bytes: int
    allocated: int
    stack: int = 0  # Trace.stack(block.stack) has its frames; 0: none
    label: int = 0  # a number of Trace.labels from 1; 0: none
    freed: Optional[int] = None
    completed: Optional[int] = None
    lost: bool = False  # its memory was allocated again, or its device was reset, before a free was seen


@dataclass
class Trace:
    program: str = ""
    devices: list = field(default_factory=list)
    streams: list = field(default_factory=list)
    blocks: list = field(default_factory=list)
    events: list = field(default_factory=list)
    frames: list = field(default_factory=list)
    stacks: list = field(default_factory=list)  # (outer stack from 1, frame)
    labels: list = field(default_factory=list)
    complete: bool = False  # the program ended, and all of it is in the file
    warnings: list = field(default_factory=list)

    def stack(self, number):
        """The frames of a stack, the innermost first."""
        frames = []
        while number != 0:
            number, frame = self.stacks[number - 1]
            frames.append(self.frames[frame])
        return frames

    def label(self, block):
        return self.labels[block.label - 1] if block.label != 0 else ""

    def count(self, kind, device=None):
        """How many events of a kind there are."""
        return sum(1 for event in self.events if event.kind == kind and device in (None, event.device))

    def peak_live(self, device=0):
        """The most requested bytes that are live at once: no allocator needs less."""
        live = peak = 0
        for event in self.events:
            if event.device != device:
                continue
            if event.kind == "allocated":
                live += event.bytes
                peak = max(peak, live)
            elif event.kind == "freed":
                live -= event.bytes
        return peak


def read(path, most_bytes=1 << 30):
    """Reads a trace, plain or gzipped. Raises TraceError, and OSError if the file cannot be read.

    most_bytes: of the trace after gunzip; a longer one is refused.
    """
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            data = (gzip.GzipFile(fileobj=file) if packed else file).read(most_bytes + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise TraceError(f"{path}: {error}") from None
    if len(data) > most_bytes:
        raise TraceError(f"{path}: has more than {most_bytes} bytes")
    return parse(data, str(path))


def parse(data, source="trace"):
    """Like read, for a trace in memory."""
    if not data.startswith(MAGIC):
        raise TraceError(f"{source}: is not a Millrace trace")
    if data[len(MAGIC) : len(MAGIC) + 1] != bytes([VERSION]):
        raise TraceError(f"{source}: byte 8: is of another version; version {VERSION} can be read")
    return _Parser(data, source).run()


class _Places:
    """The blocks in use of a device, by address."""

    def __init__(self):
        self.starts, self.blocks = [], []

    def overlapping(self, address, size, blocks):
        found = []
        at = max(bisect.bisect_left(self.starts, address) - 1, 0)
        while at < len(self.starts) and self.starts[at] < max(address + size, address + 1):
            block = blocks[self.blocks[at]]
            if block.address == address or block.address + block.bytes > address:
                found.append(self.blocks[at])
            at += 1
        return found

    def add(self, address, number):
        at = bisect.bisect_left(self.starts, address)
        self.starts.insert(at, address)
        self.blocks.insert(at, number)

    def remove(self, address, number):
        at = bisect.bisect_left(self.starts, address)
        while self.blocks[at] != number:
            at += 1
        del self.starts[at], self.blocks[at]


class _Parser:
    def __init__(self, data, source):
        self.data, self.source = data, source
        self.trace = Trace()
        self.at = self.end = self.begin = 0
        self.kind = 0
        self.time = 0
        self.last_marker = []  # by stream
        self.places = {}  # by device
        self.held = {}  # reserved bytes, by device

    def run(self):
        position = len(MAGIC) + 1
        while True:
            record = self.record(position)
            if record is None:
                break
            self.begin, (self.kind, self.at, self.end) = position, record
            position = self.end
            self.apply()
        if not self.trace.complete:
            self.warn("the trace has no last record: the program was ended, or the file had no room")
        return self.trace

    def record(self, position):
        """Kind, first byte and end of the payload; None where the trace ends or is cut short."""
        if position >= len(self.data) or self.data[position] == 0:
            return None
        size, shift, at = 0, 0, position + 1
        while True:
            if at >= len(self.data) or shift > 63:
                return None
            byte = self.data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        return (self.data[position], at, at + size) if at + size <= len(self.data) else None

    # The fields of a payload.

    def number(self, what, most=(1 << 64) - 1):
        value = shift = 0
        while True:
            if self.at >= self.end or shift > 63:
                self.fail(f"ends before {what}")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if value > most:
            self.fail(f"{what} is {value}, at most {most} is possible")
        return value

    def text(self):
        size = self.number("the length of a text")
        if size > self.end - self.at:
            self.fail("ends in a text")
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "replace")

    def index(self, what, table, first=0):
        value = self.number(what)
        if value - first >= len(table):
            self.fail(f"names {what} {value}, and there are {len(table)}")
        return value

    def fail(self, problem):
        raise TraceError(f"{self.source}: byte {self.begin}: the record of kind {self.kind} {problem}")

    def warn(self, problem):
        if problem not in self.trace.warnings:
            self.trace.warnings.append(problem)

    # Records.

    def apply(self):
        trace = self.trace
        if self.kind == _PROGRAM:
            trace.program = self.text()
        elif self.kind == _DEVICE:
            number = self.number("a device", _MOST_DEVICES - 1)
            memory_bytes, name = self.number("bytes", _MOST_ADDRESS), self.text()
            flags = self.number("flags") if self.at < self.end else 0  # not in a trace of an earlier Millrace
            trace.devices.append(Device(number, memory_bytes, name, bool(flags & _TIMES_ARE_POSITIONS),
                                        bool(flags & _ADDRESSES_ARE_MADE_UP)))
        elif self.kind == _STREAM:
            device, flags = self.number("a device", _MOST_DEVICES - 1), self.number("flags")
            handle, thread = self.number("a handle"), self.number("a thread")
            trace.streams.append(Stream(device, self.text(), handle, bool(flags & _LEGACY), bool(flags & _BLOCKING),
                                        bool(flags & _FOR_ALL), thread))
            self.last_marker.append(0)
        elif self.kind == _FRAME:
            line, file, function = self.number("a line"), self.text(), self.text()
            trace.frames.append(Frame(file, function, line))
        elif self.kind == _STACK:
            outer = self.index("a stack", trace.stacks, 1)
            trace.stacks.append((outer, self.index("a frame", trace.frames)))
        elif self.kind == _LABEL:
            trace.labels.append(self.text())
        elif self.kind in _EVENTS:
            self.event(*_EVENTS[self.kind])
        else:
            self.warn("records of a kind that this version does not know are passed over")

    def event(self, kind, names):
        self.time += self.number("the time since the last event", _MOST_TIME - self.time)
        values = {name: self.field(name) for name in names}
        stack, label = values.pop("stack", 0), values.pop("label", 0)
        growth, back = values.pop("growth", None), values.pop("back", None)
        if growth is not None:
            self.last_marker[values["stream"]] += growth
            values["marker"] = self.last_marker[values["stream"]]
        if back is not None:
            of = values.get("other", values["stream"])
            if back >= self.last_marker[of]:
                self.fail("names a marker that its stream does not have")
            values["marker"] = self.last_marker[of] - back
        if values.get("stream") is not None:
            values.setdefault("device", self.trace.streams[values["stream"]].device)
        getattr(self, f"on_{kind}", self.add)(Event(kind, self.time, **values), stack, label)

    def field(self, name):
        trace = self.trace
        if name in ("stream", "other"):
            return self.index("stream", trace.streams)
        if name == "block":
            back = self.number("a block")
            if back >= len(trace.blocks):
                self.fail(f"names the block {back} before the last, and there are {len(trace.blocks)}")
            return len(trace.blocks) - 1 - back
        if name in ("stack", "label"):
            return self.index(f"a {name}", trace.stacks if name == "stack" else trace.labels, 1)
        if name == "device":
            return self.number("a device", _MOST_DEVICES - 1)
        if name in ("address", "bytes"):
            is_any = self.kind in (_KINDS["failed"], _KINDS["pool_keeps"], _KINDS["pool_trimmed"])
            return self.number(name, (1 << 64) - 1 if is_any else _MOST_ADDRESS)
        return self.number(name)

    def add(self, event, *_):
        self.trace.events.append(event)

    def places_of(self, device):
        return self.places.setdefault(device, _Places())

    def on_allocated(self, event, stack, label):
        places, blocks = self.places_of(event.device), self.trace.blocks
        for other in places.overlapping(event.address, event.bytes, blocks):
            self.warn("memory was allocated where an earlier block was in use: a free was not seen")
            self.lose(other)
        places.add(event.address, len(blocks))
        position = len(self.trace.events)
        blocks.append(Block(event.device, event.stream, event.address, event.bytes, position, stack, label))
        self.add(event._replace(block=len(blocks) - 1))

    def on_freed(self, event, *_):
        block = self.trace.blocks[event.block]
        if block.lost:
            return
        if block.freed is not None:
            self.fail("frees a block a second time")
        block.freed = len(self.trace.events)
        self.places_of(block.device).remove(block.address, event.block)
        self.add(event._replace(device=block.device, address=block.address, bytes=block.bytes))

    def on_completed(self, event, *_):
        block = self.trace.blocks[event.block]
        if block.lost:
            return
        if block.freed is None or block.completed is not None:
            self.fail("completes the free of a block that waits for none")
        block.completed = len(self.trace.events)
        self.add(event._replace(stream=block.stream, device=block.device, address=block.address, bytes=block.bytes))

    def on_used(self, event, *_):
        self.add(event._replace(device=self.trace.blocks[event.block].device))

    def on_reserved(self, event, *_):
        self.held[event.device] = self.held.get(event.device, 0) + event.bytes
        self.add(event)

    def on_released(self, event, *_):
        held = self.held.get(event.device, 0)
        if event.bytes > held:
            self.fail("gives back more memory than was taken")
        self.held[event.device] = held - event.bytes
        self.add(event)

    def on_device_reset(self, event, *_):
        for number in list(self.places_of(event.device).blocks):
            self.lose(number)
        self.add(event._replace(bytes=self.held.pop(event.device, 0)))

    def on_ended(self, _event, *_):
        self.trace.complete = True

    def lose(self, number):
        """The block is freed here, though the program did not say so."""
        block = self.trace.blocks[number]
        block.lost = True
        block.freed = len(self.trace.events)
        self.places_of(block.device).remove(block.address, number)
        self.add(Event("freed", self.time, number, block.stream, device=block.device, address=block.address,
                       bytes=block.bytes))


class Writer:
    """Writes a trace to a file that is open for bytes.

    Devices, streams, frames, stacks and labels come before the events that name them. Call a method for an event when
    it happens: an allocation after it succeeded, a free before it. `clock` gives microseconds that never decrease;
    without it, times are positions: a microsecond an event.
    """

    def __init__(self, file, clock=None):
        self._file, self._clock = file, clock
        self._now, self._blocks = 0, 0
        self._last_marker = []
        self._frames, self._stacks, self._labels = {}, {}, {}
        file.write(MAGIC + bytes([VERSION]))

    def program(self, text):
        self._put(_PROGRAM, text)

    def device(self, number, memory_bytes, name, times_are_positions=False, addresses_are_made_up=False):
        flags = _TIMES_ARE_POSITIONS * times_are_positions + _ADDRESSES_ARE_MADE_UP * addresses_are_made_up
        self._put(_DEVICE, number, memory_bytes, name, flags)

    def stream(self, stream):
        """Returns the stream's number."""
        flags = _LEGACY * stream.legacy + _BLOCKING * stream.blocking + _FOR_ALL * stream.for_all
        self._put(_STREAM, stream.device, flags, stream.handle, stream.thread, stream.name)
        self._last_marker.append(0)
        return len(self._last_marker) - 1

    def stack(self, frames):
        """The number of a stack whose innermost frame is the first; 0 without frames."""
        number = 0
        for frame in reversed(frames):
            if frame not in self._frames:
                self._put(_FRAME, frame.line, frame.file, frame.function)
                self._frames[frame] = len(self._frames)
            key = (number, self._frames[frame])
            if key not in self._stacks:
                self._put(_STACK, *key)
                self._stacks[key] = len(self._stacks) + 1
            number = self._stacks[key]
        return number

    def label(self, text):
        """The number of a text; 0 for none."""
        if text == "":
            return 0
        if text not in self._labels:
            self._put(_LABEL, text)
            self._labels[text] = len(self._labels) + 1
        return self._labels[text]

    def allocated(self, stream, address, size, stack=0, label=0):
        """Returns the number of the block."""
        self._event("allocated", stream, address, size, stack, label)
        self._blocks += 1
        return self._blocks - 1

    def freed(self, block, stream):
        self._event("freed", self._back(block), stream)

    def completed(self, block):
        self._event("completed", self._back(block))

    def failed(self, stream, size):
        self._event("failed", stream, size)

    def used(self, block, stream):
        self._event("used", self._back(block), stream)

    def marked(self, stream):
        """An event was recorded on the stream. Returns the number of the marker."""
        self._last_marker[stream] += 1
        self._event("marked", stream, 1)
        return self._last_marker[stream]

    def waited(self, stream, other, marker):
        self._event("waited", stream, other, self._last_marker[other] - marker)

    def passed(self, stream, marker):
        self._event("passed", stream, self._last_marker[stream] - marker)

    def passed_stream(self, stream):
        self._event("passed_stream", stream)

    def not_passed(self, stream, marker):
        """A query found the marker not complete."""
        self._event("not_passed", stream, self._last_marker[stream] - marker)

    def stream_not_passed(self, stream):
        self._event("stream_not_passed", stream)

    def passed_device(self, device):
        self._event("passed_device", device)

    def closed(self, stream):
        self._event("closed", stream)

    def reserved(self, device, address, size):
        self._event("reserved", device, address, size)

    def released(self, device, address, size):
        self._event("released", device, address, size)

    def pool_keeps(self, device, size):
        self._event("pool_keeps", device, size)

    def pool_trimmed(self, device, size):
        self._event("pool_trimmed", device, size)

    def device_reset(self, device):
        self._event("device_reset", device)

    def finish(self):
        """Says that the trace is complete."""
        self._event("ended")

    def _back(self, block):
        return self._blocks - 1 - block

    def _event(self, kind, *fields):
        now = self._now + 1 if self._clock is None else max(self._now, self._clock())
        since, self._now = now - self._now, now
        self._put(_KINDS[kind], since, *fields)

    def _put(self, kind, *fields):
        payload = b"".join(_text(each) if isinstance(each, str) else _varint(each) for each in fields)
        self._file.write(bytes([kind]) + _varint(len(payload)) + payload)


def _varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(text):
    encoded = text.encode("utf-8", "replace")
    return _varint(len(encoded)) + encoded
