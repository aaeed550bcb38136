#!/usr/bin/env python3
"""The laws of millrace.trace, which reads and writes traces in Python:

    test/trace_set/test_reader.py PROGRAM

Each function whose name begins with `law_` is a law. PROGRAM, the millrace program, reads the same files.
"""

import gzip
import io
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"))

from millrace import trace  # noqa: E402

PROGRAM = sys.argv[1]


class RandomProgram:
    """Writes a valid random trace, and notes what a reader has to find in it."""

    def __init__(self, seed, steps, file):
        self.random = random.Random(seed)
        self.time, self.address = 0, 1 << 32
        self.writer = trace.Writer(file, clock=lambda: self.time)
        self.expected, self.blocks, self.live, self.freed = [], [], [], []
        self.writer.program(f"program {seed}")
        self.streams = []
        for device in range(2):
            self.writer.device(device, 1 << 35, f"GPU {device}")
            for i in range(3):
                stream = trace.Stream(device, f"s{i}", handle=self.random.getrandbits(64), legacy=i == 0)
                assert self.writer.stream(stream) == len(self.streams)
                self.streams.append(stream)
        self.markers = [0] * len(self.streams)
        for _ in range(steps):
            self.time += self.random.choice((0, 1, 300))
            self.step()
        self.writer.finish()

    def note(self, kind, **fields):
        self.expected.append(trace.Event(kind, self.time, **fields))

    def step(self):
        choose, writer = self.random.choice, self.writer
        stream = self.random.randrange(len(self.streams))
        device = self.streams[stream].device
        what = choose(("allocate", "allocate", "free", "complete", "use", "mark", "wait", "pass", "pass_stream",
                       "pass_device", "fail", "reserve"))
        if what == "allocate":
            size, address = self.random.randrange(1, 1 << 30), self.address
            self.address += size + choose((0, 512))
            frames = [trace.Frame("step.py", f"layer_{self.random.randrange(4)}", 7), trace.Frame("main.py", "é", 1)]
            label = writer.label(choose(("", "weights")))
            number = writer.allocated(stream, address, size, writer.stack(frames), label)
            self.blocks.append((stream, address, size, frames))
            self.live.append(number)
            self.note("allocated", block=number, stream=stream, device=device, address=address, bytes=size)
        elif what in ("free", "use") and self.live:
            number = choose(self.live)
            of, address, size, _ = self.blocks[number]
            if what == "use":
                writer.used(number, stream)
                self.note("used", block=number, stream=stream, device=self.streams[of].device)
                return
            self.live.remove(number)
            self.freed.append(number)
            writer.freed(number, stream)
            self.note("freed", block=number, stream=stream, device=self.streams[of].device, address=address, bytes=size)
        elif what == "complete" and self.freed:
            number = self.freed.pop(0)
            of, address, size, _ = self.blocks[number]
            writer.completed(number)
            self.note("completed", block=number, stream=of, device=self.streams[of].device, address=address, bytes=size)
        elif what == "mark":
            self.markers[stream] = writer.marked(stream)
            self.note("marked", stream=stream, device=device, marker=self.markers[stream])
        elif what in ("wait", "pass") and self.markers[stream] > 0:
            marker = self.random.randint(1, self.markers[stream])
            waiter = choose([i for i, each in enumerate(self.streams) if each.device == device])
            if what == "wait":
                writer.waited(waiter, stream, marker)
                self.note("waited", stream=waiter, other=stream, marker=marker, device=device)
            else:
                writer.passed(stream, marker)
                self.note("passed", stream=stream, marker=marker, device=device)
        elif what == "pass_stream":
            writer.passed_stream(stream)
            self.note("passed_stream", stream=stream, device=device)
        elif what == "pass_device":
            writer.passed_device(device)
            self.note("passed_device", device=device)
        elif what == "fail":
            writer.failed(stream, 1 << 40)
            self.note("failed", stream=stream, device=device, bytes=1 << 40)
        elif what == "reserve":
            writer.reserved(device, 0, 1 << 20)
            self.note("reserved", device=device, address=0, bytes=1 << 20)


def written(seed, steps=300):
    file = io.BytesIO()
    return RandomProgram(seed, steps, file), file.getvalue()


def refused(data):
    try:
        trace.parse(data, "file")
    except trace.TraceError as error:
        return str(error)
    raise AssertionError("a trace was read that has to be refused")


def records(*records):
    """A trace of a device with one stream, followed by these records."""
    file = io.BytesIO()
    writer = trace.Writer(file)
    writer.device(0, 0, "")
    writer.stream(trace.Stream(0, "main"))
    return file.getvalue() + b"".join(bytes([kind, len(payload)]) + bytes(payload) for kind, *payload in records)


def law_what_was_written_is_read():
    for seed in range(50):
        program, data = written(seed)
        log = trace.parse(data)
        assert log.events == program.expected, seed
        assert log.streams == program.streams and log.complete and log.warnings == []
        assert [(b.stream, b.address, b.bytes) for b in log.blocks] == [each[:3] for each in program.blocks]
        assert all(log.stack(block.stack) == each[3] for block, each in zip(log.blocks, program.blocks))


def law_a_trace_that_is_cut_off_anywhere_is_read_up_to_there():
    program, data = written(7, 60)
    whole = trace.parse(data).events
    seen = set()
    for end in range(9, len(data)):
        log = trace.parse(data[:end])
        assert not log.complete and len(log.warnings) == 1
        assert log.events == whole[: len(log.events)]
        seen.add(len(log.events))
    assert seen == set(range(len(whole) + 1))
    assert trace.parse(data[:200] + bytes(1000)).events == trace.parse(data[:200]).events, "zeros are an end"


def law_the_program_reads_what_was_written_here_and_counts_the_same():
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(5):
            _, data = written(seed)
            path = pathlib.Path(folder) / "random.trace.gz"
            path.write_bytes(gzip.compress(data))
            log = trace.read(path)
            command = [PROGRAM, "replay", "--allocator", "torch", "--format", "json", str(path)]
            text = subprocess.run(command, check=True, capture_output=True).stdout
            for row in json.loads(text)["files"][0]["replays"]:
                device = row["device"]
                here = log.count("allocated", device), log.count("freed", device), log.peak_live(device)
                assert here == (row["allocations"], row["frees"], row["load_bytes"]), (seed, device)


def law_kinds_of_a_later_version_and_fields_after_the_last_are_passed_over():
    plain = records((16, 1, 0, 8, 8, 0, 0))
    later = records((99, 1, 2, 3), (16, 1, 0, 8, 8, 0, 0, 42))
    assert trace.parse(later).events == trace.parse(plain).events
    assert "does not know" in trace.parse(later).warnings[0]


def law_memory_that_is_allocated_where_a_block_is_in_use_ends_that_block():
    log = trace.parse(records((16, 1, 0, 8, 8, 0, 0), (16, 1, 0, 12, 8, 0, 0), (17, 1, 1, 0), (17, 1, 0, 0), (127, 1)))
    assert [event.kind for event in log.events] == ["allocated", "freed", "allocated", "freed"]
    assert [event.block for event in log.events] == [0, 0, 1, 1] and log.blocks[0].lost
    assert "a free was not seen" in log.warnings[0]
    assert log.peak_live() == 8


def law_a_reset_ends_the_blocks_of_its_device():
    log = trace.parse(records((16, 1, 0, 8, 8, 0, 0), (27, 1, 0, 0, 32), (29, 1, 0), (127, 1)))
    assert [event.kind for event in log.events] == ["allocated", "reserved", "freed", "device_reset"]
    assert log.events[-1].bytes == 32


def law_contradictions_are_refused_with_their_place():
    _, good = written(1, 5)
    assert "is not a Millrace trace" in refused(b"GIF89a")
    assert "another version" in refused(good[:8] + b"\2" + good[9:])
    allocated = (16, 1, 0, 8, 8, 0, 0)
    for problem, *wrong in [
        ("frees a block a second time", allocated, (17, 1, 0, 0), (17, 1, 0, 0)),
        ("completes the free of a block that waits for none", allocated, (18, 1, 0)),
        ("names the block 3 before the last", allocated, (17, 1, 3, 0)),
        ("names stream 7, and there are 1", (16, 1, 7, 8, 8, 0, 0)),
        ("names a stack 1, and there are 0", (16, 1, 0, 8, 8, 1, 0)),
        ("names a marker that its stream does not have", (22, 1, 0, 0, 0)),
        ("gives back more memory than was taken", (28, 1, 0, 0, 9)),
        ("ends before bytes", (16, 1, 0, 8)),
        ("ends in a text", (6, 200, 1)),
    ]:
        message = refused(records(*wrong))
        assert problem in message and "file: byte " in message, message


def law_damaged_files_are_refused_and_long_ones_too():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "a.trace.gz"
        _, data = written(2)
        packed = gzip.compress(data)
        middle = len(packed) // 2
        for wrong in (packed[:middle], packed[:middle] + b"\xff\xff\xff\xff" + packed[middle + 4 :]):
            path.write_bytes(wrong)
            try:
                trace.read(path)
            except trace.TraceError as error:
                assert str(path) in str(error)
            else:
                raise AssertionError("a damaged file was read")
        path.write_bytes(packed)
        try:
            trace.read(path, most_bytes=100)
        except trace.TraceError as error:
            assert "more than 100 bytes" in str(error)
        else:
            raise AssertionError("a long file was read")


def law_damage_anywhere_is_read_or_refused():
    chance = random.Random(3)
    for seed in range(300):
        data = bytearray(written(seed % 5, 40)[1])
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(9, len(data))] = chance.randrange(256)
        try:
            trace.parse(bytes(data))
        except trace.TraceError:
            pass


def main():
    laws = [each for name, each in sorted(globals().items()) if name.startswith("law_")]
    for law in laws:
        law()
        print(f"holds: {law.__name__[4:].replace('_', ' ')}")


if __name__ == "__main__":
    main()
