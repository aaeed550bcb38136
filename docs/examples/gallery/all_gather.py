"""verl-project/verl#3020: FSDP2 gathers the weights of the next layer on a stream of its own."""

import torch
from figures import MIB, buffer, show, use

main, gather = torch.cuda.current_stream(), torch.cuda.Stream()


def gathered(layer):
    with torch.cuda.stream(gather):
        weights = buffer((160 + 24 * (layer % 5)) * MIB)
        use(weights)
    return weights, gather.record_event()


for step in range(4):
    activations = []
    weights, ready = gathered(0)
    for layer in range(16):
        ahead = gathered(layer + 1)
        main.wait_event(ready)
        activations.append(buffer(64 * MIB))
        use(activations[-1])
        use(weights)
        weights.record_stream(main)
        weights, ready = ahead
    del weights, ahead
    main.synchronize()
    while activations:  # backward, with gradients of the layers' sizes
        gradient = buffer(160 * MIB)
        use(gradient)
        use(activations.pop())
        del gradient
    torch.cuda.synchronize()
show()
