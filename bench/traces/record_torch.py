"""Records the GPU memory requests of a PyTorch program as a trace in Millrace's format
(docs/record.md):

    millrace run --allocator own --virtual h200,memory=80GiB -- \\
        python bench/traces/record_torch.py OUT.trace SCRIPT [ARGUMENTS]

Python must find Millrace's package (PYTHONPATH=tools/python), and the program must use one GPU. The
trace contains requests with stream and Python stack, frees, Tensor.record_stream, event records,
waits, synchronizations, and the completion of freed blocks. Unlike a snapshot of PyTorch's, it
contains the order of the streams.

During the recording, every tensor is a block of the driver's pool, whose decisions are not in the
trace. A block that other streams used is freed when a poll finds their work complete. The script
polls at each request, as PyTorch's allocator does. Each address is a number that is used once, and
times are positions. Therefore a program with the same requests gives the same file. PyTorch's
memory statistics are 0. Requests of CUDA graphs are refused.

With --reserved in place of OUT.trace nothing is recorded: the program runs on PyTorch's own
allocator, and the last line of the output is the peak of its reserved bytes.
"""

import collections
import ctypes
import os
import runpy
import sys
import threading

import torch
import torch.cuda._gpu_trace as hooks
from millrace import trace

_MOST_FRAMES = 12
_ADDRESS_UNIT = 512


class Runtime:
    """The functions of the CUDA runtime that this script needs."""

    def __init__(self):
        major = torch.version.cuda.split(".")[0]
        self._library = ctypes.CDLL(f"libcudart.so.{major}")

    def call(self, name, *arguments):
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} returns {status}")

    def allocate(self, size, stream):
        address = ctypes.c_void_p()
        self.call("cudaMallocAsync", ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_void_p(stream))
        return address.value

    def free(self, address, stream):
        self.call("cudaFreeAsync", ctypes.c_void_p(address), ctypes.c_void_p(stream))

    def mark(self, stream):
        event = ctypes.c_void_p()
        without_timing = 2
        self.call("cudaEventCreateWithFlags", ctypes.byref(event), without_timing)
        self.call("cudaEventRecord", event, ctypes.c_void_p(stream))
        return event

    def is_complete(self, event):
        not_ready = 600
        status = self._library.cudaEventQuery(event)
        if status not in (0, not_ready):
            raise RuntimeError(f"cudaEventQuery returns {status}")
        if status == not_ready:
            self._library.cudaGetLastError()  # clear it, or PyTorch reports it as an error
        return status == 0

    def destroy(self, event):
        self.call("cudaEventDestroy", event)


class Live:
    """A block that the program holds."""

    def __init__(self, number):
        self.number, self.uses = number, set()


class Freed:
    """A freed block. Its work may not be complete."""

    def __init__(self, number, events, address, stream):
        self.number, self.events = number, events
        self.address, self.stream = address, stream  # for the delayed free; 0: it was made


class Sites:
    """Stacks of the program, without frames of this script and of runpy."""

    def __init__(self, script):
        self._script = os.path.dirname(os.path.abspath(script)) + os.sep
        self._packages = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__))) + os.sep
        self._main = threading.main_thread().ident
        self._hidden = (os.path.abspath(__file__), os.path.abspath(runpy.__file__), "<frozen runpy>")

    def here(self):
        frame = sys._getframe(2)
        if threading.get_ident() != self._main:  # backward: the line that called it
            frame = sys._current_frames()[self._main]
        frames = []
        while frame is not None and len(frames) < _MOST_FRAMES:
            code = frame.f_code
            if code.co_filename not in self._hidden:
                file = os.path.abspath(code.co_filename).removeprefix(self._script).removeprefix(self._packages)
                frames.append(trace.Frame(file, getattr(code, "co_qualname", code.co_name), frame.f_lineno or 0))
            frame = frame.f_back
        return frames


class Recorder:
    def __init__(self, file, script):
        self._runtime, self._writer, self._sites = Runtime(), trace.Writer(file), Sites(script)
        self._lock = threading.RLock()
        self._streams, self._live = {}, {}
        self._events = {}  # by event of the program: stream and marker of its last record
        self._freed = collections.defaultdict(collections.deque)  # by stream, in the order of frees
        self._next_address = 1 << 40
        self._on = True
        self._writer.program(" ".join([os.path.basename(script), *sys.argv[3:]]))

    def install(self):
        """Installs this object as PyTorch's allocator. The callbacks live as long as the process.
        """
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self._callbacks = [
            ctypes.CFUNCTYPE(pointer, size, ctypes.c_int, pointer)(self._guarded(self._allocate)),
            ctypes.CFUNCTYPE(None, pointer, size, ctypes.c_int, pointer)(self._guarded(self._free)),
            ctypes.CFUNCTYPE(None, pointer, pointer)(self._guarded(self._use)),
        ]
        allocate, free, use = (ctypes.cast(each, pointer).value for each in self._callbacks)
        allocator = torch._C._cuda_customAllocator(allocate, free)
        allocator.set_record_stream_fn(use)
        torch.cuda.memory.change_current_allocator(torch.cuda.memory._CUDAAllocator(allocator))
        nothing = lambda *_, **__: collections.defaultdict(int)
        torch.cuda.memory.memory_stats = torch.cuda.memory_stats = nothing
        hooks.register_callback_for_event_record(self._guarded(self._record))
        hooks.register_callback_for_event_wait(self._guarded(self._wait))
        hooks.register_callback_for_event_deletion(self._guarded(lambda event: self._events.pop(event, None)))
        hooks.register_callback_for_event_synchronization(self._guarded(self._pass_event))
        hooks.register_callback_for_stream_synchronization(
            self._guarded(lambda stream: self._writer.passed_stream(self._stream(stream))))
        hooks.register_callback_for_device_synchronization(self._guarded(lambda: self._writer.passed_device(0)))
        torch._C._activate_gpu_trace()
        properties = torch.cuda.get_device_properties(0)  # it would create PyTorch's allocator
        self._writer.device(0, properties.total_memory, properties.name, addresses_are_made_up=True)

    def finish(self):
        torch.cuda.synchronize()
        with self._lock:
            self._poll()
            self._writer.finish()

    def stop(self):
        """Stops recording. PyTorch still frees its remaining blocks."""
        with self._lock:
            self._on = False

    def _guarded(self, call):
        """Runs callbacks one at a time. An exception ends the program, because the trace would be
        wrong."""

        def guarded(*arguments):
            with self._lock:
                if not self._on and call.__name__ not in ("_allocate", "_free"):
                    return None
                try:
                    return call(*arguments)
                except BaseException as error:
                    sys.stderr.write(f"record_torch: {call.__name__}: {error!r}\n")
                    os._exit(1)

        return guarded

    def _stream(self, handle):
        handle = handle or 0
        if handle not in self._streams:
            number = 0 if handle == 0 else len(self._streams.keys() - {0}) + 1
            name = f"stream {number}" if number else "default stream"
            self._streams[handle] = self._writer.stream(trace.Stream(0, name, number, legacy=number == 0))
        return self._streams[handle]

    def _allocate(self, size, _device, stream):
        if size == 0:  # PyTorch's allocator has no block for it
            return None
        stream = stream or 0
        address = self._runtime.allocate(size, stream)
        if not self._on:
            return address
        self._poll()
        number = self._writer.allocated(self._stream(stream), self._next_address, size,
                                        self._writer.stack(self._sites.here()))
        self._next_address += -(-size // _ADDRESS_UNIT) * _ADDRESS_UNIT
        self._live[address] = Live(number)
        return address

    def _free(self, address, _size, _device, stream):
        if not self._on or not address:
            return
        stream, live = stream or 0, self._live.pop(address)
        number = self._stream(stream)
        self._writer.freed(live.number, number)
        others = sorted(live.uses - {stream}, key=self._stream)
        events = [self._runtime.mark(each) for each in (stream, *others)]
        if not others:
            self._runtime.free(address, stream)
        self._freed[stream].append(Freed(live.number, events, address if others else 0, stream))

    def _use(self, address, stream):
        stream = stream or 0
        live = self._live.get(address)
        if live is None or stream in live.uses:
            return
        live.uses.add(stream)
        self._writer.used(live.number, self._stream(stream))

    def _poll(self):
        for queue in self._freed.values():
            while queue and all(self._runtime.is_complete(event) for event in queue[0].events):
                freed = queue.popleft()
                for event in freed.events:
                    self._runtime.destroy(event)
                if freed.address:
                    self._runtime.free(freed.address, freed.stream)
                self._writer.completed(freed.number)

    def _record(self, event, stream):
        number = self._stream(stream)
        self._events[event] = (number, self._writer.marked(number))

    def _wait(self, event, stream):
        number, record = self._stream(stream), self._events.get(event)
        if record is not None and record[0] != number:
            self._writer.waited(number, *record)

    def _pass_event(self, event):
        record = self._events.get(event)
        if record is not None:
            self._writer.passed(*record)


def run(script):
    sys.argv[:] = sys.argv[2:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: record_torch.py (OUT.trace | --reserved) SCRIPT [ARGUMENTS]")
    out, script = sys.argv[1:3]
    torch.backends.cuda.enable_cudnn_sdp(False)  # cuDNN does not run on the virtual CUDA runtime
    if out == "--reserved":
        run(script)
        print(torch.cuda.max_memory_reserved())
        return
    with open(out, "wb") as file:
        recorder = Recorder(file, script)
        recorder.install()
        try:
            run(script)
            recorder.finish()
        finally:
            recorder.stop()


if __name__ == "__main__":
    main()
