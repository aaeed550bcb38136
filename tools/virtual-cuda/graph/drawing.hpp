#pragma once

#include <string>

#include "graph/graph.hpp"

namespace millrace::virtual_cuda {

/** @brief The graph in the language of Graphviz: nodes with their work, child graphs, edges. */
[[nodiscard]] std::string draw(const Graph& graph);

}  // namespace millrace::virtual_cuda
