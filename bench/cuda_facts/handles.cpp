#include <fmt/format.h>

#include <map>
#include <set>
#include <thread>

#include "cuda_facts/fact.hpp"
#include "cuda_facts/kernels.hpp"
#include "cuda_facts/measure.hpp"

namespace millrace::facts {
namespace {

constexpr int kHandleRounds = 200;

unsigned long long id_of(cudaStream_t stream) {
  unsigned long long id = 0;
  check(cudaStreamGetId(stream, &id), "cudaStreamGetId", stream);
  return id;
}

Answer stream_handles(int) {
  std::set<void*> handles;
  std::set<unsigned long long> ids;
  int reused = 0;
  for (int i = 0; i < kHandleRounds; ++i) {
    const auto stream = make_stream();
    reused += handles.insert(stream.get()).second ? 0 : 1;
    ids.insert(id_of(stream.get()));
  }
  return {fmt::format("{} of {} new streams got a handle that an earlier one had; {} different ids",
                      reused, kHandleRounds, ids.size()),
          {{"streams", kHandleRounds}, {"handles_reused", reused}, {"ids", ids.size()}}};
}

Answer busy_stream_handle(int) {
  auto stream = make_stream();
  void* const before = stream.get();
  KernelGate gate{stream.get()};
  stream.reset();
  std::vector<cuda::UniqueStream> others;
  bool reused = false;
  for (int i = 0; i < kHandleRounds && !reused; ++i) {
    others.push_back(make_stream());
    reused = others.back().get() == before;
  }
  gate.open();
  settle();
  return {reused ? "yes" : fmt::format("not by the next {} streams", kHandleRounds),
          {{"reused_while_busy", reused}, {"streams", kHandleRounds}}};
}

Answer event_handles(int) {
  const auto stream = make_stream();
  std::set<void*> handles;
  int reused = 0;
  for (int i = 0; i < kHandleRounds; ++i) {
    const auto event = make_event();
    check(cudaEventRecord(event.get(), stream.get()), "cudaEventRecord");
    reused += handles.insert(event.get()).second ? 0 : 1;
  }
  settle();
  return {fmt::format("{} of {} new events got a handle that an earlier one had", reused,
                      kHandleRounds),
          {{"events", kHandleRounds}, {"handles_reused", reused}}};
}

Answer special_ids(int) {
  const unsigned long long null = id_of(nullptr), legacy = id_of(cudaStreamLegacy);
  const unsigned long long mine = id_of(cudaStreamPerThread);
  std::vector<unsigned long long> of_threads;
  for (int i = 0; i < 4; ++i) {
    std::thread{[&] { of_threads.push_back(id_of(cudaStreamPerThread)); }}.join();
  }
  const std::set<unsigned long long> different(of_threads.begin(), of_threads.end());
  return {fmt::format("0 and cudaStreamLegacy have {} id; cudaStreamPerThread had {} ids on 4 "
                      "threads that ran one after another, {} that of the main thread",
                      null == legacy ? "one" : "another", different.size(),
                      different.contains(mine) ? "one of them" : "none of them"),
          {{"null", null},
           {"legacy", legacy},
           {"per_thread_main", mine},
           {"per_thread_others", of_threads}}};
}

constexpr Fact kHandleFacts[] = {
    {"stream-handle-reuse", "Is the handle of a destroyed stream used again, and its id?",
     stream_handles},
    {"busy-stream-handle-reuse", "Is it used again while the destroyed stream's work still runs?",
     busy_stream_handle},
    {"event-handle-reuse", "Is the handle of a destroyed event used again?", event_handles},
    {"special-stream-ids", "Which ids do the legacy and the per-thread streams have?", special_ids},
};

}  // namespace

std::span<const Fact> handle_facts() { return kHandleFacts; }

}  // namespace millrace::facts
