#pragma once

#include <string>

#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace::trace {

/**
 * @brief The bytes of a snapshot's file, as torch.cuda.memory._dump_snapshot writes it: a pickle of
 *        plain data, in protocol 2.
 *
 * PyTorch's viewer (pytorch.org/memory_viz) and its script `_memory_viz.py` read it, and so does
 * `read_trace`, which finds the same snapshot. Events that its reader did not know are left out.
 */
[[nodiscard]] std::string write_torch_snapshot(const TorchSnapshot& snapshot);

}  // namespace millrace::trace
