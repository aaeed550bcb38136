#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "engine/runtime.hpp"
#include "graph/condition.hpp"

namespace millrace::virtual_cuda {
struct Graph;
}  // namespace millrace::virtual_cuda

/** The object that a cudaGraphNode_t points to. */
struct CUgraphNode_st {
  std::uint64_t number = 0;  ///< numbers a graph's nodes in the order of creation
  millrace::virtual_cuda::Graph* graph = nullptr;
  millrace::virtual_cuda::Work work;
  std::vector<cudaGraphNode_t> after;
  bool enabled = true;                             ///< false only in executable graphs
  std::map<int, std::array<char, 64>> attributes;  ///< of a kernel; stored, not used
};

/** The object that a cudaUserObject_t points to. Guarded by the engine's lock. */
struct CUuserObject_st {
  void* object = nullptr;
  cudaHostFn_t destroy = nullptr;
  std::uint64_t references = 0;
};

namespace millrace::virtual_cuda {

/** @brief Maps a graph's nodes to the nodes of its copy. */
using NodeMap = std::unordered_map<const CUgraphNode_st*, cudaGraphNode_t>;

/** @brief The object that a cudaGraph_t points to: nodes and edges. It may have a cycle. */
struct Graph : std::enable_shared_from_this<Graph> {
  static constexpr std::uint32_t kMagic = 0x47524150;

  std::uint32_t magic = kMagic;
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  ///< in the order of creation
  std::map<cudaUserObject_t, std::uint64_t> users;     ///< references that the graph holds
  std::vector<std::shared_ptr<Condition>> conditions;  ///< conditions that were made for the graph
  std::weak_ptr<Graph> body_of;                        ///< the graph whose node has this body
  bool in_child_node = false;                          ///< a child node embeds this graph
  mutable std::weak_ptr<const Graph> instance;         ///< graph of the newest executable graph
  NodeMap from_original;                               ///< in a clone: the original's nodes
  std::uint64_t numbers = 0;
  /// Addresses of its allocation nodes. Copies share the set.
  std::shared_ptr<std::set<void*>> memory = std::make_shared<std::set<void*>>();

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  cudaGraphNode_t add(Work work, std::vector<cudaGraphNode_t> after);
  [[nodiscard]] bool owns(const CUgraphNode_st* node) const;
  /** @brief The nodes in an order that follows the edges; empty if the graph has a cycle. */
  [[nodiscard]] std::vector<cudaGraphNode_t> in_order() const;
  [[nodiscard]] std::vector<cudaGraphNode_t> dependents(const CUgraphNode_st* node) const;
  void remove(cudaGraphNode_t node);
  /** @brief A copy with child graphs and bodies. Its `from_original` is set. */
  [[nodiscard]] std::shared_ptr<Graph> clone() const;
  /** @brief A copy for a child node. It must not have conditional nodes. */
  [[nodiscard]] std::shared_ptr<Graph> clone_for_child_node() const;
};

[[nodiscard]] inline Graph* find_graph(cudaGraph_t handle) noexcept {
  auto* const graph = reinterpret_cast<Graph*>(handle);
  return graph != nullptr && graph->magic == Graph::kMagic ? graph : nullptr;
}
[[nodiscard]] inline cudaGraph_t handle_of(Graph* graph) noexcept {
  return reinterpret_cast<cudaGraph_t>(graph);
}
/** @brief Makes the program the owner of a graph, until `destroy_graph`. */
cudaGraph_t keep_graph(std::shared_ptr<Graph> graph);
/** @return false if the program does not own it */
bool destroy_graph(cudaGraph_t handle);

/** @brief Drops references; the last one calls the destructor function from a host thread. */
void release_user(cudaUserObject_t user, std::uint64_t references);

/** @brief The condition of a handle that was made for `graph` or for a graph that has `graph` as a
 * body. Null for other handles. */
[[nodiscard]] std::shared_ptr<Condition> find_condition(Graph& graph,
                                                        cudaGraphConditionalHandle handle);
/** @brief Whether the graph or a child graph has a conditional node. */
[[nodiscard]] bool has_conditional(const Graph& graph);

[[nodiscard]] cudaGraphNodeType type_of(const Work& work) noexcept;

}  // namespace millrace::virtual_cuda
