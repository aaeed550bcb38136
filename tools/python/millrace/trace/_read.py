"""Reads a trace, and refuses one that contradicts itself."""

import bisect
import gzip
import zlib

from millrace.trace._format import (
    ADDRESSES_ARE_MADE_UP, BLOCKING, DEVICE, EVENTS, FOR_ALL, FRAME, KINDS, LABEL, LEGACY, MAGIC, MOST_ADDRESS,
    MOST_DEVICES, MOST_TIME, PROGRAM, STACK, STREAM, TIMES_ARE_POSITIONS, VERSION,
)
from millrace.trace._records import Block, Device, Event, Frame, Stream, Trace, TraceError


def read(path, most_bytes=1 << 30):
    """Reads a trace, plain or gzipped. Raises TraceError, and OSError if the file cannot be read.

    most_bytes: limit for the trace after gunzip; a longer trace is refused.
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
        """Kind, first byte and end of the payload; None if the trace ends or is cut off here."""
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
        if self.kind == PROGRAM:
            trace.program = self.text()
        elif self.kind == DEVICE:
            number = self.number("a device", MOST_DEVICES - 1)
            memory_bytes, name = self.number("bytes", MOST_ADDRESS), self.text()
            flags = self.number("flags") if self.at < self.end else 0  # older traces lack it
            trace.devices.append(Device(number, memory_bytes, name, bool(flags & TIMES_ARE_POSITIONS),
                                        bool(flags & ADDRESSES_ARE_MADE_UP)))
        elif self.kind == STREAM:
            device, flags = self.number("a device", MOST_DEVICES - 1), self.number("flags")
            handle, thread = self.number("a handle"), self.number("a thread")
            trace.streams.append(Stream(device, self.text(), handle, bool(flags & LEGACY), bool(flags & BLOCKING),
                                        bool(flags & FOR_ALL), thread))
            self.last_marker.append(0)
        elif self.kind == FRAME:
            line, file, function = self.number("a line"), self.text(), self.text()
            trace.frames.append(Frame(file, function, line))
        elif self.kind == STACK:
            outer = self.index("a stack", trace.stacks, 1)
            trace.stacks.append((outer, self.index("a frame", trace.frames)))
        elif self.kind == LABEL:
            trace.labels.append(self.text())
        elif self.kind in EVENTS:
            self.event(*EVENTS[self.kind])
        else:
            self.warn("records of a kind that this version does not know are passed over")

    def event(self, kind, names):
        self.time += self.number("the time since the last event", MOST_TIME - self.time)
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
            return self.number("a device", MOST_DEVICES - 1)
        if name in ("address", "bytes"):
            is_any = self.kind in (KINDS["failed"], KINDS["pool_keeps"], KINDS["pool_trimmed"])
            return self.number(name, (1 << 64) - 1 if is_any else MOST_ADDRESS)
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
        """Ends a block here, although the program did not free it."""
        block = self.trace.blocks[number]
        block.lost = True
        block.freed = len(self.trace.events)
        self.places_of(block.device).remove(block.address, number)
        self.add(Event("freed", self.time, number, block.stream, device=block.device, address=block.address,
                       bytes=block.bytes))
