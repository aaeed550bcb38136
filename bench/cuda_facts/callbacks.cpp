#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "cuda_facts/fact.hpp"
#include "cuda_facts/kernels.hpp"
#include "cuda_facts/measure.hpp"

namespace millrace::facts {
namespace {

using namespace std::chrono_literals;

void CUDART_CB run(void* function) { (*static_cast<std::function<void()>*>(function))(); }

/// `function` must live until it has run.
void enqueue_host(cudaStream_t stream, std::function<void()>& function) {
  check(cudaLaunchHostFunc(stream, run, &function), "cudaLaunchHostFunc");
}

Answer calls_inside(int) {
  const auto stream = make_stream(), other = make_stream();
  const auto event = make_event();
  nlohmann::json results;
  std::function<void()> function = [&] {
    unsigned long long id = 0;
    cudaStreamCaptureStatus status{};
    results["stream id"] = name_of(cudaStreamGetId(other.get(), &id));
    results["is capturing"] = name_of(cudaStreamIsCapturing(other.get(), &status));
    results["query of an event"] = name_of(cudaEventQuery(event.get()));
    results["query of a stream"] = name_of(cudaStreamQuery(other.get()));
    results["record"] = name_of(cudaEventRecord(event.get(), other.get()));
    results["wait"] = name_of(cudaStreamWaitEvent(other.get(), event.get(), 0));
  };
  enqueue_host(stream.get(), function);
  settle();
  Answer answer{{}, results};
  for (const auto& [call, result] : results.items()) {
    answer.text +=
        fmt::format("{}{}: {}", answer.text.empty() ? "" : "; ", call, result.get<std::string>());
  }
  return answer;
}

Answer at_once(int) {
  const auto first = make_stream(), second = make_stream();
  std::atomic<bool> second_ran{false};
  bool met = false;
  std::function<void()> waits = [&] {
    const auto end = std::chrono::steady_clock::now() + 500ms;
    while (!second_ran && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    met = second_ran;
  };
  std::function<void()> runs = [&] { second_ran = true; };
  enqueue_host(first.get(), waits);
  enqueue_host(second.get(), runs);
  settle();
  return {met ? "yes" : "no: the second waited for the first to end", {{"at_once", met}}};
}

Answer latency(int) {
  const auto stream = make_stream();
  std::chrono::steady_clock::time_point began;
  std::function<void()> function = [&] { began = std::chrono::steady_clock::now(); };
  std::vector<double> taken;
  for (int i = 0; i < 200; ++i) {
    const auto enqueued = std::chrono::steady_clock::now();
    enqueue_host(stream.get(), function);
    settle();
    taken.push_back(std::chrono::duration<double, std::micro>(began - enqueued).count());
  }
  const double middle = median(taken);
  return {fmt::format("{:.1f} us from the call to the function's start on an idle stream", middle),
          {{"microseconds", middle}}};
}

constexpr Fact kCallbackFacts[] = {
    {"calls-in-callback", "Which calls fail in a host function?", calls_inside},
    {"callbacks-at-once", "Do host functions of two streams run at once?", at_once},
    {"callback-latency", "How long until a host function starts?", latency},
};

}  // namespace

std::span<const Fact> callback_facts() { return kCallbackFacts; }

}  // namespace millrace::facts
