"""vllm-project/vllm#52950: a trainer packs its weights for the server, on new streams at each step."""

import torch
from figures import GIB, MIB, buffer, show

main = torch.cuda.current_stream()
weights = buffer(64 * MIB)
reserved = []
for step in range(24):
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    packed = []
    for stream in streams:
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            bucket = buffer(GIB)
            bucket[: weights.numel()].copy_(weights)
            packed.append(bucket)
    for stream in streams:
        stream.synchronize()
    del packed, bucket
    reserved.append(torch.cuda.memory_reserved())
show(after_step_1=reserved[0], after_step_24=reserved[-1])
