"""Reads and writes allocation traces in Millrace's own format, which docs/record.md defines.

    from millrace import trace

    log = trace.read("packed_weights.trace.gz")
    for event in log.events:
        if event.kind == "allocated":
            print(event.time_us, log.streams[event.stream].name, log.blocks[event.block].bytes)

Needs only the standard library, and no libmillrace.so. Files may be gzipped.
"""

from millrace.trace._format import MAGIC, VERSION
from millrace.trace._read import parse, read
from millrace.trace._records import Block, Device, Event, Frame, Stream, Trace, TraceError
from millrace.trace._write import Writer

__all__ = ["MAGIC", "VERSION", "Block", "Device", "Event", "Frame", "Stream", "Trace", "TraceError", "Writer", "parse", "read"]
