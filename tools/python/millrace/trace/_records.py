"""The contents of a trace: the program's blocks, streams and events."""

from dataclasses import dataclass, field
from typing import NamedTuple, Optional


class TraceError(ValueError):
    """A file that is not a trace, or that contradicts itself. The message names the file and the
    place."""


class Device(NamedTuple):
    number: int
    memory_bytes: int  # 0: unknown
    name: str
    times_are_positions: bool = False  # a microsecond per event
    addresses_are_made_up: bool = False  # blocks had other addresses


class Stream(NamedTuple):
    device: int
    name: str
    handle: int = 0
    legacy: bool = False  # the legacy default stream
    blocking: bool = False  # synchronizes with the legacy stream
    for_all: bool = False  # not a stream: memory that all streams may use immediately
    thread: int = 0  # of a per-thread stream without its own handle


class Frame(NamedTuple):
    file: str
    function: str
    line: int = 0  # 0: unknown


class Event(NamedTuple):
    """A step of the program. A field that the kind does not have is None.

    `kind` is a name of the table in docs/record.md, with _ for spaces. `block`, `stream` and
    `other` are indices into Trace.blocks and Trace.streams. `marker` is the number of a marker on
    `stream`, or for `waited` on `other`.
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
    stack: int = 0  # for Trace.stack; 0: none
    label: int = 0  # index into Trace.labels, from 1; 0: none
    freed: Optional[int] = None
    completed: Optional[int] = None
    lost: bool = False  # reused, or lost in a reset of the device, before a recorded free


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
    complete: bool = False  # the program ended, and the file is complete
    warnings: list = field(default_factory=list)

    def stack(self, number):
        """The frames of a stack. The innermost frame is first."""
        frames = []
        while number != 0:
            number, frame = self.stacks[number - 1]
            frames.append(self.frames[frame])
        return frames

    def label(self, block):
        return self.labels[block.label - 1] if block.label != 0 else ""

    def count(self, kind, device=None):
        """The number of events of a kind."""
        return sum(1 for event in self.events if event.kind == kind and device in (None, event.device))

    def peak_live(self, device=0):
        """The peak of live requested bytes, a lower bound for every allocator."""
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
