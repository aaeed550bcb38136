"""Writes a trace."""

from millrace.trace._format import (
    ADDRESSES_ARE_MADE_UP, BLOCKING, DEVICE, FOR_ALL, FRAME, KINDS, LABEL, LEGACY, MAGIC, PROGRAM, STACK, STREAM,
    TIMES_ARE_POSITIONS, VERSION,
)


class Writer:
    """Writes a trace to a file that is open for bytes.

    Devices, streams, frames, stacks and labels must precede the events that name them. Call the
    method of an event when it happens: for an allocation after it succeeded, for a free before it.
    `clock` returns microseconds that never decrease. Without it, times are positions: a microsecond
    per event.
    """

    def __init__(self, file, clock=None):
        self._file, self._clock = file, clock
        self._now, self._blocks = 0, 0
        self._last_marker = []
        self._frames, self._stacks, self._labels = {}, {}, {}
        file.write(MAGIC + bytes([VERSION]))

    def program(self, text):
        self._put(PROGRAM, text)

    def device(self, number, memory_bytes, name, times_are_positions=False, addresses_are_made_up=False):
        flags = TIMES_ARE_POSITIONS * times_are_positions + ADDRESSES_ARE_MADE_UP * addresses_are_made_up
        self._put(DEVICE, number, memory_bytes, name, flags)

    def stream(self, stream):
        """Returns the stream's number."""
        flags = LEGACY * stream.legacy + BLOCKING * stream.blocking + FOR_ALL * stream.for_all
        self._put(STREAM, stream.device, flags, stream.handle, stream.thread, stream.name)
        self._last_marker.append(0)
        return len(self._last_marker) - 1

    def stack(self, frames):
        """Returns the number of a stack whose innermost frame is first; 0 without frames."""
        number = 0
        for frame in reversed(frames):
            if frame not in self._frames:
                self._put(FRAME, frame.line, frame.file, frame.function)
                self._frames[frame] = len(self._frames)
            key = (number, self._frames[frame])
            if key not in self._stacks:
                self._put(STACK, *key)
                self._stacks[key] = len(self._stacks) + 1
            number = self._stacks[key]
        return number

    def label(self, text):
        """Returns the number of a text; 0 for an empty text."""
        if text == "":
            return 0
        if text not in self._labels:
            self._put(LABEL, text)
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
        """Records an event on the stream. Returns the number of its marker."""
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
        """Records that a query found the marker incomplete."""
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
        """Marks the trace as complete."""
        self._event("ended")

    def _back(self, block):
        return self._blocks - 1 - block

    def _event(self, kind, *fields):
        now = self._now + 1 if self._clock is None else max(self._now, self._clock())
        since, self._now = now - self._now, now
        self._put(KINDS[kind], since, *fields)

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
