"""RLinf#1233, Trinity-RFT#541: generation and training take turns, and each step reserves more."""

import random

import torch
from figures import MIB, buffer, show, use

random.seed(1)
main, generate = torch.cuda.current_stream(), torch.cuda.Stream()
reserved = []
for step in range(9):
    generate.wait_stream(main)
    with torch.cuda.stream(generate):
        blocks = [buffer(random.randint(20, 400) * MIB) for _ in range(24)]
        for block in blocks:
            use(block)
    generate.synchronize()
    del blocks, block
    activations = [buffer(random.randint(20, 400) * MIB) for _ in range(24)]
    for layer in activations:
        use(layer)
    main.synchronize()
    del activations, layer
    reserved.append(torch.cuda.memory_reserved())
show(after_step_1=reserved[0], after_step_9=reserved[-1])
