#include "graph/drawing.hpp"

#include <string_view>

#include "engine/kernels.hpp"

namespace millrace::virtual_cuda {
namespace {

std::string_view text_of(Direction direction) {
  switch (direction) {
    case Direction::host_to_host:
      return "host to host";
    case Direction::host_to_device:
      return "host to device";
    case Direction::device_to_host:
      return "device to host";
    case Direction::on_device:
      return "device to device";
    case Direction::peer:
      return "device to another device";
  }
  return "";
}

struct Label {
  std::string operator()(const EmptyWork&) const { return "empty"; }
  std::string operator()(const CopyWork& work) const {
    return "copy, " + std::string{text_of(work.direction)} + ", " + bytes(work.bytes());
  }
  std::string operator()(const FillWork& work) const { return "fill, " + bytes(work.bytes()); }
  std::string operator()(const HostWork&) const { return "host function"; }
  std::string operator()(const KernelWork& work) const { return "kernel " + work.kernel->name; }
  std::string operator()(const RecordWork&) const { return "event record"; }
  std::string operator()(const WaitWork&) const { return "event wait"; }
  std::string operator()(const AllocWork& work) const { return "allocation, " + bytes(work.bytes); }
  std::string operator()(const FreeWork&) const { return "free"; }
  std::string operator()(const ChildWork&) const { return "child graph"; }
  std::string operator()(const ConditionalWork& work) const {
    if (work.type == cudaGraphCondTypeWhile) return "while";
    if (work.type == cudaGraphCondTypeIf) return work.bodies.size() == 2 ? "if, else" : "if";
    return "switch, " + std::to_string(work.bodies.size()) + " cases";
  }
  std::string operator()(const AssignWork&) const { return "default values"; }

  static std::string bytes(std::size_t count) { return std::to_string(count) + " bytes"; }
};

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  return out += '"';
}

// A node's name begins with the names of the nodes whose child graph or body contains it.
std::string name_of(const std::string& parent, const CUgraphNode_st& node) {
  return parent + "n" + std::to_string(node.number);
}

void add(std::string& out, const Graph& graph, const std::string& parent);

void add_inside(std::string& out, const Graph& graph, const std::string& name) {
  out += "subgraph cluster_" + name + " {\n";
  add(out, graph, name);
  out += "}\n";
}

void add(std::string& out, const Graph& graph, const std::string& parent) {
  for (const auto& node : graph.nodes) {
    const std::string name = name_of(parent, *node);
    out += name + " [label=" +
           in_quotes(std::to_string(node->number) + ": " + std::visit(Label{}, node->work)) +
           "];\n";
    if (const auto* const child = std::get_if<ChildWork>(&node->work))
      add_inside(out, *child->graph, name);
    if (const auto* const conditional = std::get_if<ConditionalWork>(&node->work))
      for (std::size_t i = 0; i < conditional->bodies.size(); ++i)
        add_inside(out, *conditional->bodies[i], name + "b" + std::to_string(i));
    for (const cudaGraphNode_t earlier : node->after)
      out += name_of(parent, *earlier) + " -> " + name + ";\n";
  }
}

}  // namespace

std::string draw(const Graph& graph) {
  std::string out = "digraph {\nnode [shape=box];\n";
  add(out, graph, "");
  return out += "}\n";
}

}  // namespace millrace::virtual_cuda
