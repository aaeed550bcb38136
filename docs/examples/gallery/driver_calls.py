"""NVIDIA/Fuser#5767: segments of a program run on streams that are made for each run."""

import torch
from figures import MIB, buffer, show, use

for run in range(64):
    main = torch.cuda.current_stream()
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for stream in streams:
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            part = buffer(40 * MIB)
            use(part)
            results.append(part)
    for stream, part in zip(streams, results):
        main.wait_stream(stream)
        part.record_stream(main)
    use(results[0])
    torch.cuda.synchronize()
    del part, results
show()
