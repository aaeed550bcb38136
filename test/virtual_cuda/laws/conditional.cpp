// The bodies that conditional nodes of graphs run. Kernels set the conditions through their host
// implementations.

#include "test/virtual_cuda/laws/conditional.hpp"

using namespace millrace::test;

TEST_CASE("an IF node runs its first body if the value is not 0, otherwise its second body") {
  const unsigned value = GENERATE(0U, 1U, 7U);
  const unsigned bodies = GENERATE(1U, 2U);
  CAPTURE(value, bodies);
  const Stream stream;
  const DeviceBlock block{kBytes};
  LaunchedGraph graph;
  const cudaGraphNode_t first = add_fill(graph, block, 1);
  const Conditional choice =
      add_conditional(graph, condition_of(graph, value), cudaGraphCondTypeIf, bodies, {first});
  cudaGraphNodeType type{};
  CUDA_OK(cudaGraphNodeGetType(choice.node, &type));
  CHECK(type == cudaGraphNodeTypeConditional);
  add_fill(choice.bodies[0], block, 2);
  if (bodies == 2) add_fill(choice.bodies[1], block, 3);
  for (int i = 0; i < 2; ++i) {
    graph.launch(stream);
    CHECK(read(block) == all(kBytes, value != 0 ? 2 : bodies == 2 ? 3 : 1));
  }
}

TEST_CASE("a SWITCH node runs the body of its value, or no body") {
  const unsigned value = GENERATE(0U, 2U, 3U, ~0U);
  CAPTURE(value);
  const Stream stream;
  const DeviceBlock block{kBytes};
  LaunchedGraph graph;
  const cudaGraphNode_t first = add_fill(graph, block, 9);
  const Conditional choice =
      add_conditional(graph, condition_of(graph, value), cudaGraphCondTypeSwitch, 3, {first});
  for (unsigned i = 0; i < 3; ++i) add_fill(choice.bodies[i], block, i);
  graph.launch(stream);
  CHECK(read(block) == all(kBytes, static_cast<unsigned char>(value < 3 ? value : 9)));
}

TEST_CASE("work after a conditional node runs after its whole body") {
  const Stream stream;
  const DeviceBlock block{kBytes};
  const PinnedBlock in_graph{kBytes}, behind{kBytes};
  LaunchedGraph graph;
  const Conditional outer = add_conditional(graph, condition_of(graph, 1), cudaGraphCondTypeIf);
  const cudaGraphNode_t first = add_fill(outer.bodies[0], block, 1);
  const Conditional inner =
      add_conditional(outer.bodies[0], condition_of(graph, 1), cudaGraphCondTypeSwitch, 2, {first});
  add_fill(inner.bodies[1], block, 3, {add_fill(inner.bodies[1], block, 2)});
  cudaGraphNode_t copy = nullptr;
  CUDA_OK(cudaGraphAddMemcpyNode1D(&copy, graph, &outer.node, 1, in_graph.get(), block.get(),
                                   kBytes, cudaMemcpyDeviceToHost));
  graph.enqueue(stream);
  CUDA_OK(cudaMemcpyAsync(behind.get(), block.get(), kBytes, cudaMemcpyDeviceToHost, stream));
  const Event end;
  CUDA_OK(cudaEventRecord(end, stream));
  const Stream other;
  CUDA_OK(cudaStreamWaitEvent(other, end, 0));
  CUDA_OK(cudaMemsetAsync(block.get(), 8, kBytes, other));
  CUDA_OK(cudaStreamSynchronize(other));
  CHECK(in_graph[0] == 3);
  CHECK(behind[kBytes - 1] == 3);
  CHECK(read(block) == all(kBytes, 8));
}

TEST_CASE("a kernel's host implementation sets the value that a later node sees") {
  const unsigned value = GENERATE(0U, 1U, 2U);
  const Kernels kernels;
  const Stream stream;
  const DeviceBlock block{kBytes};
  LaunchedGraph graph;
  const cudaGraphConditionalHandle handle = condition_of(graph, 1);
  const cudaGraphNode_t first = add_fill(graph, block, 9);
  const cudaGraphNode_t set = add_set(graph, handle, value, {first});
  const Conditional choice = add_conditional(graph, handle, cudaGraphCondTypeSwitch, 2, {set});
  for (unsigned i = 0; i < 2; ++i) add_fill(choice.bodies[i], block, i);
  graph.launch(stream);
  CHECK(read(block) == all(kBytes, static_cast<unsigned char>(value < 2 ? value : 9)));
}

TEST_CASE("a WHILE node runs its body until a kernel clears its condition") {
  const Kernels kernels;
  const Stream stream;
  const DeviceBlock outer_count{sizeof(int)}, inner_count{sizeof(int)}, total{sizeof(int)};
  LaunchedGraph graph;
  const cudaGraphConditionalHandle outer_condition = condition_of(graph, 1);
  const cudaGraphConditionalHandle inner_condition = condition_of(graph, 1);
  const Conditional outer = add_conditional(graph, outer_condition, cudaGraphCondTypeWhile);
  cudaGraphNode_t last = add_set(outer.bodies[0], inner_condition, 1);
  // The inner loop has 4 passes.
  cudaGraphNode_t copy = nullptr;
  const DeviceBlock four{sizeof(int)};
  set_counter(four, 4);
  CUDA_OK(cudaGraphAddMemcpyNode1D(&copy, outer.bodies[0], &last, 1, inner_count.get(), four.get(),
                                   sizeof(int), cudaMemcpyDeviceToDevice));
  const Conditional inner =
      add_conditional(outer.bodies[0], inner_condition, cudaGraphCondTypeWhile, 1, {copy});
  last = add_count_down(inner.bodies[0], inner_count, inner_condition);
  add_count_down(inner.bodies[0], total, 0, {last});
  add_count_down(outer.bodies[0], outer_count, outer_condition, {inner.node});
  for (int launches = 0; launches < 2; ++launches) {
    set_counter(outer_count, 3);
    set_counter(total, 0);
    graph.launch(stream);
    CHECK(counter_of(outer_count) == 0);
    CHECK(counter_of(total) == -12);
  }
}

TEST_CASE("a loop takes the time of all its passes") {
  const Kernels kernels;
  const Stream stream;
  const DeviceBlock counter{sizeof(int)};
  LaunchedGraph graph;
  add_loop(graph, counter, 5);
  const Event begin{cudaEventDefault}, end{cudaEventDefault};
  CUDA_OK(cudaEventRecord(begin, stream));
  graph.enqueue(stream);
  CUDA_OK(cudaEventRecord(end, stream));
  CUDA_OK(cudaEventSynchronize(end));
  float milliseconds = 0;
  CUDA_OK(cudaEventElapsedTime(&milliseconds, begin, end));
  CHECK(milliseconds >= 5);
  CHECK(counter_of(counter) == 0);
}

TEST_CASE("a query of a running loop does not end it early") {
  const Kernels kernels;
  const Stream stream;
  const DeviceBlock counter{sizeof(int)};
  LaunchedGraph graph;
  add_loop(graph, counter, 5);
  graph.enqueue(stream);
  cudaError_t answer = cudaErrorNotReady;
  for (int i = 0; i < 1'000'000 && answer == cudaErrorNotReady; ++i)
    answer = cudaStreamQuery(stream);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(answer);
  CHECK(counter_of(counter) == 0);
}

TEST_CASE("a loop with a kernel that has no host implementation ends after one pass") {
  const Kernels kernels;
  const Stream stream;
  const DeviceBlock block{kBytes};
  LaunchedGraph graph;
  cudaGraphConditionalHandle handle = condition_of(graph, 1);
  const Conditional loop = add_conditional(graph, handle, cudaGraphCondTypeWhile);
  void* arguments[] = {&handle};
  add_kernel(loop.bodies[0], cannot_stub, arguments, {add_fill(loop.bodies[0], block, 4)});
  for (int i = 0; i < 2; ++i) {
    CUDA_OK(cudaMemset(block.get(), 0, kBytes));
    CUDA_OK(cudaDeviceSynchronize());
    graph.launch(stream);
    CHECK(read(block) == all(kBytes, 4));
  }
}

TEST_CASE("a launch starts with the default value if the handle says so, otherwise with the last") {
  const bool assigned = GENERATE(true, false);
  CAPTURE(assigned);
  const Kernels kernels;
  const Stream stream;
  const DeviceBlock block{kBytes}, other{kBytes};
  LaunchedGraph graph;
  const cudaGraphConditionalHandle handle =
      condition_of(graph, 1, assigned ? static_cast<unsigned>(cudaGraphCondAssignDefault) : 0U);
  const Conditional choice = add_conditional(graph, handle, cudaGraphCondTypeSwitch, 3);
  for (unsigned i = 0; i < 3; ++i) add_fill(choice.bodies[i], block, i);
  add_set(graph, handle, 2, {choice.node});
  // Two launches are enqueued before the first launch takes effect.
  graph.enqueue(stream);
  CUDA_OK(cudaMemcpyAsync(other.get(), block.get(), kBytes, cudaMemcpyDeviceToDevice, stream));
  graph.launch(stream);
  CHECK(read(other) == all(kBytes, 1));
  CHECK(read(block) == all(kBytes, assigned ? 1 : 2));
}

TEST_CASE("a running launch outlives its graph") {
  const Stream stream;
  const DeviceBlock block{kBytes};
  {
    LaunchedGraph graph;
    const Conditional choice = add_conditional(graph, condition_of(graph, 1), cudaGraphCondTypeIf);
    add_fill(choice.bodies[0], block, 5);
    graph.enqueue(stream);
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(read(block) == all(kBytes, 5));
}
