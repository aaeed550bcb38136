#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "cuda_facts/fact.hpp"
#include "cuda_facts/kernels.hpp"
#include "cuda_facts/measure.hpp"

namespace millrace::facts {
namespace {

using namespace std::chrono_literals;

/// Whether the event completes soon, while other streams are still held.
bool completes_soon(cudaEvent_t event) {
  const auto end = std::chrono::steady_clock::now() + 100ms;
  while (std::chrono::steady_clock::now() < end) {
    const cudaError_t result = cudaEventQuery(event);
    quietly(result);
    if (result == cudaSuccess) return true;
    if (result != cudaErrorNotReady) check(result, "cudaEventQuery", event);
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

bool waits_for(cudaStream_t later, cudaStream_t held) {
  const auto event = make_event();
  KernelGate gate{held};
  enqueue_nothing(later);
  check(cudaEventRecord(event.get(), later), "cudaEventRecord");
  const bool waited = !completes_soon(event.get());
  gate.open();
  settle();
  return waited;
}

Answer default_streams(int) {
  const auto blocking = make_stream(cudaStreamDefault), other = make_stream(cudaStreamNonBlocking);
  const struct {
    const char* name;
    cudaStream_t later, held;
  } pairs[] = {
      {"legacy waits for a blocking stream", cudaStreamLegacy, blocking.get()},
      {"a blocking stream waits for legacy", blocking.get(), cudaStreamLegacy},
      {"legacy waits for a non-blocking stream", cudaStreamLegacy, other.get()},
      {"a non-blocking stream waits for legacy", other.get(), cudaStreamLegacy},
      {"legacy waits for the per-thread stream", cudaStreamLegacy, cudaStreamPerThread},
      {"the per-thread stream waits for legacy", cudaStreamPerThread, cudaStreamLegacy},
      {"the per-thread stream waits for a blocking stream", cudaStreamPerThread, blocking.get()},
  };
  Answer answer;
  for (const auto& pair : pairs) {
    const bool waited = waits_for(pair.later, pair.held);
    answer.data[pair.name] = waited;
    answer.text +=
        fmt::format("{}{}: {}", answer.text.empty() ? "" : "; ", pair.name, waited ? "yes" : "no");
  }
  return answer;
}

Answer snapshot(int) {
  const auto first = make_stream(), waiter = make_stream(), again = make_stream();
  const auto event = make_event(), reached = make_event();
  KernelGate first_gate{first.get()}, second_gate{again.get()};
  check(cudaEventRecord(event.get(), first.get()), "cudaEventRecord");
  check(cudaStreamWaitEvent(waiter.get(), event.get(), 0), "cudaStreamWaitEvent");
  check(cudaEventRecord(reached.get(), waiter.get()), "cudaEventRecord");
  check(cudaEventRecord(event.get(), again.get()), "cudaEventRecord");
  const bool waited = !completes_soon(reached.get());
  first_gate.open();
  const bool let_go = completes_soon(reached.get());
  const bool query_sees_new = !completes_soon(event.get());
  second_gate.open();
  settle();
  return {
      fmt::format("the waiter {} the first recording and {} for the second; a query sees {}",
                  waited ? "waited for" : "did not wait for", let_go ? "did not wait" : "waited",
                  query_sees_new ? "the second" : "the first"),
      {{"waited_for_first", waited},
       {"waited_for_second", !let_go},
       {"query_sees_second", query_sees_new}}};
}

Answer never_recorded(int) {
  const auto stream = make_stream();
  const auto event = make_event(), reached = make_event();
  const std::string query = name_of(cudaEventQuery(event.get()));
  const std::string wait = name_of(cudaStreamWaitEvent(stream.get(), event.get(), 0));
  check(cudaEventRecord(reached.get(), stream.get()), "cudaEventRecord");
  const bool passed = completes_soon(reached.get());
  settle();
  return {fmt::format("a query gives {}, a wait {} and {} the stream", query, wait,
                      passed ? "does not hold" : "holds"),
          {{"query", query}, {"wait", wait}, {"wait_holds", !passed}}};
}

Answer destroyed_while_waited(int) {
  const auto first = make_stream(), waiter = make_stream();
  auto event = make_event();
  const auto reached = make_event();
  KernelGate gate{first.get()};
  check(cudaEventRecord(event.get(), first.get()), "cudaEventRecord");
  check(cudaStreamWaitEvent(waiter.get(), event.get(), 0), "cudaStreamWaitEvent");
  event.reset();
  // Another event may reuse its handle, and be recorded on another stream.
  const auto next = make_event();
  check(cudaEventRecord(next.get(), make_stream().get()), "cudaEventRecord");
  check(cudaEventRecord(reached.get(), waiter.get()), "cudaEventRecord");
  const bool held = !completes_soon(reached.get());
  gate.open();
  const bool let_go = completes_soon(reached.get());
  settle();
  return {held && let_go ? "the wait holds as if the event were still there"
                         : fmt::format("held: {}, let go: {}", held, let_go),
          {{"held", held}, {"let_go", let_go}}};
}

Answer reversed_elapsed(int) {
  const auto stream = make_stream();
  const auto early = make_event(cudaEventDefault), late = make_event(cudaEventDefault);
  check(cudaEventRecord(early.get(), stream.get()), "cudaEventRecord");
  enqueue_hold(stream.get(), 2ms);
  check(cudaEventRecord(late.get(), stream.get()), "cudaEventRecord");
  settle();
  float milliseconds = 0;
  const std::string result = name_of(cudaEventElapsedTime(&milliseconds, late.get(), early.get()));
  return {fmt::format("{}, {} ms for a pair 2 ms apart", result, milliseconds),
          {{"result", result}, {"milliseconds", milliseconds}}};
}

constexpr Fact kOrderFacts[] = {
    {"default-streams", "Which of the default and other streams wait for each other?",
     default_streams},
    {"event-snapshot",
     "Does a wait keep the recording that it saw, when the event is recorded again?", snapshot},
    {"event-never-recorded", "What does an event do that was never recorded?", never_recorded},
    {"event-destroyed-while-waited", "May an event be destroyed while a stream waits for it?",
     destroyed_while_waited},
    {"elapsed-reversed", "What is the time from a later event to an earlier one?",
     reversed_elapsed},
};

}  // namespace

std::span<const Fact> order_facts() { return kOrderFacts; }

}  // namespace millrace::facts
