"""Two streams take turns. Each has four equal buffers, and is idle before the other begins."""

import torch

streams = (torch.cuda.Stream(), torch.cuda.current_stream())
for step in range(3):
    for stream in streams:
        with torch.cuda.stream(stream):
            buffers = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda") for _ in range(4)]
            for buffer in buffers:
                buffer.add_(1)
        stream.synchronize()
        del buffers, buffer
