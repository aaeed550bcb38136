#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "cuda_facts/fact.hpp"
#include "cuda_facts/kernels.hpp"
#include "cuda_facts/measure.hpp"
#include "device/cuda/context.hpp"

namespace millrace::facts {
namespace {

constexpr int kCostRounds = 2000;
constexpr int kBetweenSettlings = 100;  // so that queues do not fill up

void CUDART_CB nothing_on_host(void*) {}

double call_microseconds(const std::function<void()>& call) {
  int made = 0;
  return median_microseconds(
      kCostRounds,
      [&] {
        if (++made % kBetweenSettlings == 0) settle();
      },
      call);
}

Answer call_costs(int ordinal) {
  const auto stream = make_stream(), other = make_stream();
  const auto event = make_event(), timed = make_event(cudaEventDefault), held_event = make_event();
  const cudaStream_t s = stream.get();
  void *pinned = nullptr, *memory = nullptr;
  check(cudaHostAlloc(&pinned, 4096, cudaHostAllocDefault), "cudaHostAlloc");
  check(cudaMalloc(&memory, 4096), "cudaMalloc");
  const CUcontext context = cuda::primary_context(ordinal);
  unsigned long long id = 0;
  cudaStreamCaptureStatus status{};
  std::size_t free = 0, total = 0;
  std::vector<void*> from_pool;

  const struct {
    const char* name;
    std::function<void()> call;
  } calls[] = {
      {"context guard, context current", [&] { const cuda::CurrentContext current{context}; }},
      {"capture mode, there and back", [&] { const cuda::OutsideCapture outside; }},
      {"cudaStreamGetId", [&] { check(cudaStreamGetId(s, &id), "cudaStreamGetId"); }},
      {"cudaStreamIsCapturing",
       [&] { check(cudaStreamIsCapturing(s, &status), "cudaStreamIsCapturing"); }},
      {"event created and destroyed", [&] { static_cast<void>(make_event()); }},
      {"cudaEventRecord", [&] { check(cudaEventRecord(event.get(), s), "cudaEventRecord"); }},
      {"cudaEventRecord, timed",
       [&] { check(cudaEventRecord(timed.get(), s), "cudaEventRecord"); }},
      {"cudaStreamWaitEvent",
       [&] { check(cudaStreamWaitEvent(other.get(), event.get(), 0), "cudaStreamWaitEvent"); }},
      {"cudaEventQuery, complete", [&] { quietly(cudaEventQuery(event.get())); }},
      {"cudaStreamQuery, idle", [&] { quietly(cudaStreamQuery(other.get())); }},
      {"cudaEventSynchronize, complete",
       [&] { check(cudaEventSynchronize(event.get()), "cudaEventSynchronize"); }},
      {"cudaLaunchKernel", [&] { enqueue_nothing(s); }},
      {"cudaMemcpyAsync, 4 KiB in",
       [&] {
         check(cudaMemcpyAsync(memory, pinned, 4096, cudaMemcpyHostToDevice, s), "cudaMemcpyAsync");
       }},
      {"cudaMemsetAsync, 4 KiB",
       [&] { check(cudaMemsetAsync(memory, 0, 4096, s), "cudaMemsetAsync"); }},
      {"cudaLaunchHostFunc",
       [&] { check(cudaLaunchHostFunc(s, nothing_on_host, nullptr), "cudaLaunchHostFunc"); }},
      {"cudaMallocAsync, 1 MiB",
       [&] { check(cudaMallocAsync(&from_pool.emplace_back(), 1 << 20, s), "cudaMallocAsync"); }},
      {"cudaFreeAsync, 1 MiB",
       [&] {
         check(cudaFreeAsync(from_pool.back(), s), "cudaFreeAsync");
         from_pool.pop_back();
       }},
      {"cudaMemGetInfo", [&] { check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"); }},
  };
  Answer answer{{}, nlohmann::json::object()};
  const auto add = [&](const char* name, double taken) {
    answer.data[name] = taken;
    answer.text += fmt::format("{}{} {:.2f} us", answer.text.empty() ? "" : "; ", name, taken);
  };
  for (const auto& call : calls) {
    add(call.name, call_microseconds(call.call));
    settle();
  }
  {
    KernelGate gate{s};
    check(cudaEventRecord(held_event.get(), s), "cudaEventRecord");
    add("cudaEventQuery, not ready",
        median_microseconds(
            kCostRounds, [] {}, [&] { quietly(cudaEventQuery(held_event.get())); }));
  }
  settle();
  check(cudaFree(memory), "cudaFree");
  check(cudaFreeHost(pinned), "cudaFreeHost");
  return answer;
}

Answer device_costs(int) {
  constexpr int kCount = 100;  // six calls per round fit into the queue of a held stream
  const auto stream = make_stream(), other = make_stream();
  const auto event = make_event(), back = make_event();
  const cudaStream_t s = stream.get();
  // The work is enqueued behind a gate, so that the host's time is not measured.
  const auto each = [&](const std::function<void()>& work) {
    KernelGate gate{s};
    const double all = device_microseconds(s, [&] {
      for (int i = 0; i < kCount; ++i) work();
      gate.open();
    });
    settle();
    return all / kCount;
  };
  // Each record and wait follows its own kernel. Otherwise the driver would leave out records and
  // waits that are equivalent to an earlier one.
  const double kernel = each([&] { enqueue_nothing(s); });
  const double recorded = each([&] {
    enqueue_nothing(s);
    check(cudaEventRecord(event.get(), s), "cudaEventRecord");
  });
  const double there_and_back = each([&] {
    enqueue_nothing(s);
    check(cudaEventRecord(event.get(), s), "cudaEventRecord");
    check(cudaStreamWaitEvent(other.get(), event.get(), 0), "cudaStreamWaitEvent");
    enqueue_nothing(other.get());
    check(cudaEventRecord(back.get(), other.get()), "cudaEventRecord");
    check(cudaStreamWaitEvent(s, back.get(), 0), "cudaStreamWaitEvent");
  });
  const double record = recorded - kernel, round_trip = there_and_back - 2 * kernel;
  return {
      fmt::format("an empty kernel {:.2f} us, a record {:.2f} us, to another stream and back by "
                  "events {:.2f} us",
                  kernel, record, round_trip),
      {{"empty_kernel_us", kernel}, {"record_us", record}, {"event_round_trip_us", round_trip}}};
}

Answer timer_resolution(int) {
  const auto readings = timer_readings();
  std::uint64_t least = ~std::uint64_t{0};
  for (std::size_t i = 1; i < readings.size(); ++i) {
    if (readings[i] != readings[i - 1]) least = std::min(least, readings[i] - readings[i - 1]);
  }
  return {fmt::format("{} ns", least), {{"nanoseconds", least}}};
}

constexpr Fact kCostFacts[] = {
    {"call-costs", "What do the calls cost the host, on idle streams?", call_costs},
    {"device-costs", "What do kernels, records and waits cost on the device?", device_costs},
    {"globaltimer-resolution", "In what steps does %globaltimer advance?", timer_resolution},
};

}  // namespace

std::span<const Fact> cost_facts() { return kCostFacts; }

}  // namespace millrace::facts
