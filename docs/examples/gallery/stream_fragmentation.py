"""meta-pytorch/torchrec#4584: what the input stream freed is of no use to the main stream."""

import torch
from figures import MIB, buffer, show, use

main, inputs = torch.cuda.current_stream(), torch.cuda.Stream()
for step in range(12):
    inputs.wait_stream(main)
    with torch.cuda.stream(inputs):  # the batch is exchanged and permuted
        exchanged = [buffer((200 + 50 * (step % 3)) * MIB) for _ in range(6)]
        batch = buffer(256 * MIB)
        for part in exchanged:
            use(part)
        del exchanged, part
        use(batch)
    main.wait_stream(inputs)
    batch.record_stream(main)
    inputs.synchronize()
    activations = [buffer(256 * MIB) for _ in range(5)]
    for layer in activations:
        use(layer)
    use(batch)
    main.synchronize()
    del batch, activations, layer
show()
