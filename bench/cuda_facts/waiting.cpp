#include <fmt/format.h>
#include <time.h>

#include "cuda_facts/fact.hpp"
#include "cuda_facts/kernels.hpp"
#include "cuda_facts/measure.hpp"
#include "device/cuda/waits.hpp"

namespace millrace::facts {
namespace {

constexpr int kWaitingRounds = 40;

double processor_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e3;
}

struct Waited {
  double late, processor;  ///< microseconds per wait
};

/// Waits for kernels of one length. Returns the delay after the kernel's end, and the CPU time of
/// the wait.
template <typename Wait>
Waited waited(Nanoseconds kernel, Wait wait) {
  const auto stream = make_stream();
  const auto event = make_event(cudaEventDisableTiming | cudaEventBlockingSync);
  const auto spinning = make_event();
  std::vector<double> taken, processor;
  for (int i = 0; i < kWaitingRounds; ++i) {
    settle();
    enqueue_hold(stream.get(), kernel);
    check(cudaEventRecord(event.get(), stream.get()), "cudaEventRecord");
    check(cudaEventRecord(spinning.get(), stream.get()), "cudaEventRecord");
    const double before = processor_microseconds();
    taken.push_back(microseconds_of([&] { wait(stream.get(), event.get(), spinning.get()); }));
    processor.push_back(processor_microseconds() - before);
  }
  const double length = static_cast<double>(kernel.count()) / 1e3;
  return {median(std::move(taken)) - length, median(std::move(processor))};
}

Answer host_waits(int) {
  Answer answer;
  for (const Nanoseconds kernel : {Nanoseconds{20'000}, Nanoseconds{1'000'000}}) {
    const struct {
      const char* name;
      Waited found;
    } waits[] = {
        {"spinning event", waited(kernel,
                                  [](cudaStream_t, cudaEvent_t, cudaEvent_t event) {
                                    check(cudaEventSynchronize(event), "cudaEventSynchronize");
                                  })},
        {"sleeping event", waited(kernel,
                                  [](cudaStream_t, cudaEvent_t event, cudaEvent_t) {
                                    check(cudaEventSynchronize(event), "cudaEventSynchronize");
                                  })},
        {"stream", waited(kernel,
                          [](cudaStream_t stream, cudaEvent_t, cudaEvent_t) {
                            check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
                          })},
        {"event, as CudaDevice waits", waited(kernel, [](cudaStream_t, cudaEvent_t event,
                                                         cudaEvent_t) { cuda::wait_for(event); })},
        {"stream, as CudaDevice waits",
         waited(kernel,
                [](cudaStream_t stream, cudaEvent_t, cudaEvent_t) { cuda::wait_for(stream); })}};
    for (const auto& [name, found] : waits) {
      const auto microseconds = kernel.count() / 1000;
      answer.text += fmt::format("{}{}, kernel of {} us: {:.0f} us late, {:.0f} us of processor",
                                 answer.text.empty() ? "" : "; ", name, microseconds, found.late,
                                 found.processor);
      answer.data.push_back({{"wait", name},
                             {"kernel_us", microseconds},
                             {"late_us", found.late},
                             {"processor_us", found.processor}});
    }
  }
  return answer;
}

constexpr Fact kWaitingFacts[] = {
    {"host-waits", "How late does a host thread return from a wait, and what does it burn?",
     host_waits}};

}  // namespace

std::span<const Fact> waiting_facts() { return kWaitingFacts; }

}  // namespace millrace::facts
