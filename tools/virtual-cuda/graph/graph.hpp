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

/** What a cudaGraphNode_t points to. */
struct CUgraphNode_st {
  std::uint64_t number = 0;  ///< in its graph, in the order of creation
  millrace::virtual_cuda::Graph* graph = nullptr;
  millrace::virtual_cuda::Work work;
  std::vector<cudaGraphNode_t> after;
  bool enabled = true;                             ///< in an executable graph
  std::map<int, std::array<char, 64>> attributes;  ///< of a kernel: kept, and not used
};

/** What a cudaUserObject_t points to. Guarded by the engine's lock. */
struct CUuserObject_st {
  void* object = nullptr;
  cudaHostFn_t destroy = nullptr;
  std::uint64_t references = 0;
};

namespace millrace::virtual_cuda {

/** @brief Where the nodes of a graph are in its copy. */
using NodeMap = std::unordered_map<const CUgraphNode_st*, cudaGraphNode_t>;

/** @brief What a cudaGraph_t points to: nodes and the edges between them, without a cycle. */
struct Graph : std::enable_shared_from_this<Graph> {
  static constexpr std::uint32_t kMagic = 0x47524150;

  std::uint32_t magic = kMagic;
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  ///< in the order of creation
  std::map<cudaUserObject_t, std::uint64_t> users;     ///< references that the graph holds
  std::vector<std::shared_ptr<Condition>> conditions;  ///< whose handles were made for the graph
  std::weak_ptr<Graph> body_of;                        ///< the graph whose conditional node runs it
  bool in_child_node = false;                          ///< which embeds it
  mutable std::weak_ptr<const Graph> instance;         ///< of the executable graph made last
  NodeMap from_original;                               ///< of a clone
  std::uint64_t numbers = 0;
  /// Memory of its allocation nodes; copies share it.
  std::shared_ptr<std::set<void*>> memory = std::make_shared<std::set<void*>>();

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  cudaGraphNode_t add(Work work, std::vector<cudaGraphNode_t> after);
  [[nodiscard]] bool owns(const CUgraphNode_st* node) const;
  /** @brief Nodes so that each comes after those that it depends on; empty if there is a cycle. */
  [[nodiscard]] std::vector<cudaGraphNode_t> in_order() const;
  [[nodiscard]] std::vector<cudaGraphNode_t> dependents(const CUgraphNode_st* node) const;
  void remove(cudaGraphNode_t node);
  /** @brief A copy, child graphs and bodies included, whose `from_original` is filled. */
  [[nodiscard]] std::shared_ptr<Graph> clone() const;
  /** @brief A copy that a child node embeds: it cannot have conditional nodes. */
  [[nodiscard]] std::shared_ptr<Graph> clone_for_child_node() const;
};

[[nodiscard]] inline Graph* find_graph(cudaGraph_t handle) noexcept {
  auto* const graph = reinterpret_cast<Graph*>(handle);
  return graph != nullptr && graph->magic == Graph::kMagic ? graph : nullptr;
}
[[nodiscard]] inline cudaGraph_t handle_of(Graph* graph) noexcept {
  return reinterpret_cast<cudaGraph_t>(graph);
}
/** @brief A graph that the program owns, until `destroy_graph`. */
cudaGraph_t keep_graph(std::shared_ptr<Graph> graph);
/** @return false if the program does not own it */
bool destroy_graph(cudaGraph_t handle);

/** @brief Drops references; the last one calls the destructor function from a host thread. */
void release_user(cudaUserObject_t user, std::uint64_t references);

/** @brief The condition of this handle, if it was made for `graph` or for one that `graph` is a
 * body in. Null if it was not. */
[[nodiscard]] std::shared_ptr<Condition> find_condition(Graph& graph,
                                                        cudaGraphConditionalHandle handle);
/** @brief Whether the graph or a child graph has a conditional node. */
[[nodiscard]] bool has_conditional(const Graph& graph);

[[nodiscard]] cudaGraphNodeType type_of(const Work& work) noexcept;

}  // namespace millrace::virtual_cuda
