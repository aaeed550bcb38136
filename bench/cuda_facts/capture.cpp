#include <fmt/format.h>

#include <functional>
#include <optional>
#include <thread>

#include "cuda_facts/fact.hpp"
#include "cuda_facts/kernels.hpp"
#include "cuda_facts/measure.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/vmm.hpp"

namespace millrace::facts {
namespace {

/// The resources of a call under capture. Each call gets new ones, because a broken capture affects
/// later calls.
struct Scene {
  int ordinal = 0;
  cuda::UniqueStream captured = make_stream(), other = make_stream();
  cuda::UniqueEvent in_capture = make_event(), outside = make_event(), fresh = make_event();
  void* memory = nullptr;

  explicit Scene(int of) : ordinal(of) {
    check(cudaMalloc(&memory, 1 << 20), "cudaMalloc");
    check(cudaEventRecord(outside.get(), other.get()), "cudaEventRecord");
    settle();
  }
  ~Scene() { quietly(cudaFree(memory)); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
};

cudaError_t map_a_page(int ordinal) {
  try {
    cuda::VirtualMemory memory{ordinal};
    const std::size_t bytes = memory.page_bytes();
    std::byte* const range = memory.reserve(bytes);
    const auto page = memory.create();
    memory.map(range, page);
    memory.allow(range, bytes);
    memory.unmap(range, bytes);
    memory.release(page);
    memory.free(range, bytes);
    return cudaSuccess;
  } catch (const DeviceError& error) {
    return error.code() == ErrorCode::capture ? cudaErrorStreamCaptureUnsupported
                                              : cudaErrorUnknown;
  }
}

/// A query about the captured stream with one result value.
template <auto kQuestion, typename Value>
cudaError_t ask(Scene& s) {
  Value value{};
  return kQuestion(s.captured.get(), &value);
}

struct CallInCapture {
  const char* name;
  cudaError_t (*make)(Scene&);
};

constexpr CallInCapture kCallsInCapture[] = {
    {"stream id of the captured stream", ask<cudaStreamGetId, unsigned long long>},
    {"stream id of another stream",
     [](Scene& s) {
       unsigned long long id = 0;
       return cudaStreamGetId(s.other.get(), &id);
     }},
    {"device of the captured stream", ask<cudaStreamGetDevice, int>},
    {"flags of the captured stream", ask<cudaStreamGetFlags, unsigned>},
    {"priority of the captured stream", ask<cudaStreamGetPriority, int>},
    {"the device's pool",
     [](Scene& s) {
       cudaMemPool_t pool = nullptr;
       return cudaDeviceGetMemPool(&pool, s.ordinal);
     }},
    {"attributes of an address",
     [](Scene& s) {
       cudaPointerAttributes attributes{};
       return cudaPointerGetAttributes(&attributes, s.memory);
     }},
    {"cudaMallocAsync and cudaFreeAsync on the captured stream",
     [](Scene& s) {
       void* memory = nullptr;
       const cudaError_t result = cudaMallocAsync(&memory, 1 << 20, s.captured.get());
       return result == cudaSuccess ? cudaFreeAsync(memory, s.captured.get()) : result;
     }},
    {"is the captured stream capturing", ask<cudaStreamIsCapturing, cudaStreamCaptureStatus>},
    {"is the legacy stream capturing",
     [](Scene&) {
       cudaStreamCaptureStatus status{};
       return cudaStreamIsCapturing(cudaStreamLegacy, &status);
     }},
    {"record on the captured stream",
     [](Scene& s) { return cudaEventRecord(s.fresh.get(), s.captured.get()); }},
    {"record on another stream",
     [](Scene& s) { return cudaEventRecord(s.fresh.get(), s.other.get()); }},
    {"record on the legacy stream",
     [](Scene& s) { return cudaEventRecord(s.fresh.get(), cudaStreamLegacy); }},
    {"query of an event recorded in the capture",
     [](Scene& s) { return cudaEventQuery(s.in_capture.get()); }},
    {"query of an event recorded outside",
     [](Scene& s) { return cudaEventQuery(s.outside.get()); }},
    {"synchronization with an event recorded outside",
     [](Scene& s) { return cudaEventSynchronize(s.outside.get()); }},
    {"query of the captured stream", [](Scene& s) { return cudaStreamQuery(s.captured.get()); }},
    {"query of another stream", [](Scene& s) { return cudaStreamQuery(s.other.get()); }},
    {"synchronization with another stream",
     [](Scene& s) { return cudaStreamSynchronize(s.other.get()); }},
    {"synchronization with the device", [](Scene&) { return cudaDeviceSynchronize(); }},
    {"captured stream waits for an event recorded outside",
     [](Scene& s) { return cudaStreamWaitEvent(s.captured.get(), s.outside.get(), 0); }},
    {"another stream waits for an event recorded outside",
     [](Scene& s) { return cudaStreamWaitEvent(s.other.get(), s.outside.get(), 0); }},
    {"another stream waits for an event recorded in the capture",
     [](Scene& s) { return cudaStreamWaitEvent(s.other.get(), s.in_capture.get(), 0); }},
    {"cudaMalloc",
     [](Scene&) {
       void* memory = nullptr;
       const cudaError_t result = cudaMalloc(&memory, 1 << 20);
       if (result == cudaSuccess) quietly(cudaFree(memory));
       return result;
     }},
    {"cudaFree", [](Scene& s) { return cudaFree(std::exchange(s.memory, nullptr)); }},
    {"cudaHostAlloc and cudaFreeHost",
     [](Scene&) {
       void* memory = nullptr;
       const cudaError_t result = cudaHostAlloc(&memory, 1 << 20, cudaHostAllocDefault);
       return result == cudaSuccess ? cudaFreeHost(memory) : result;
     }},
    {"cudaMallocAsync and cudaFreeAsync on another stream",
     [](Scene& s) {
       void* memory = nullptr;
       const cudaError_t result = cudaMallocAsync(&memory, 1 << 20, s.other.get());
       return result == cudaSuccess ? cudaFreeAsync(memory, s.other.get()) : result;
     }},
    {"creating and destroying an event",
     [](Scene&) {
       cudaEvent_t event = nullptr;
       const cudaError_t result = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
       return result == cudaSuccess ? cudaEventDestroy(event) : result;
     }},
    {"creating and destroying a stream",
     [](Scene&) {
       cudaStream_t stream = nullptr;
       const cudaError_t result = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
       return result == cudaSuccess ? cudaStreamDestroy(stream) : result;
     }},
    {"cudaMemGetInfo",
     [](Scene&) {
       std::size_t free = 0, total = 0;
       return cudaMemGetInfo(&free, &total);
     }},
    {"creating, mapping and unmapping a page", [](Scene& s) { return map_a_page(s.ordinal); }},
};

struct Trial {
  cudaError_t result = cudaSuccess;
  bool sound = false;  ///< the capture could still be ended afterwards
};

Trial attempt(const CallInCapture& call, int ordinal, cudaStreamCaptureMode mode, bool other_thread,
              bool relaxed) {
  Scene scene{ordinal};
  check(cudaStreamBeginCapture(scene.captured.get(), mode), "cudaStreamBeginCapture");
  enqueue_nothing(scene.captured.get());
  check(cudaEventRecord(scene.in_capture.get(), scene.captured.get()), "cudaEventRecord");

  Trial trial;
  const auto make = [&] {
    std::optional<cuda::OutsideCapture> outside;
    if (relaxed) outside.emplace();
    trial.result = call.make(scene);
    quietly(trial.result);
  };
  if (other_thread) {
    std::thread{[&] {
      quietly(cudaSetDevice(ordinal));
      make();
    }}.join();
  } else {
    make();
  }

  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(scene.captured.get(), &graph);
  quietly(ended);
  if (graph != nullptr) quietly(cudaGraphDestroy(graph));
  trial.sound = ended == cudaSuccess;
  settle();
  return trial;
}

void add(std::string& list, const std::string& what) { list += (list.empty() ? "" : ", ") + what; }

Answer calls_under_capture(int ordinal) {
  static constexpr struct {
    cudaStreamCaptureMode mode;
    const char* name;
  } modes[] = {{cudaStreamCaptureModeGlobal, "global"},
               {cudaStreamCaptureModeThreadLocal, "thread-local"},
               {cudaStreamCaptureModeRelaxed, "relaxed"}};
  Answer answer;
  answer.data = nlohmann::json::array();
  for (const auto& mode : modes) {
    for (const bool other_thread : {false, true}) {
      for (const bool relaxed : {false, true}) {
        std::string refused, broke;
        for (const CallInCapture& call : kCallsInCapture) {
          const Trial trial = attempt(call, ordinal, mode.mode, other_thread, relaxed);
          if (trial.result != cudaSuccess) add(refused, call.name);
          if (!trial.sound) add(broke, call.name);
          answer.data.push_back({{"mode", mode.name},
                                 {"thread", other_thread ? "another" : "capturing"},
                                 {"exchanged_to_relaxed", relaxed},
                                 {"call", call.name},
                                 {"result", cudaGetErrorName(trial.result)},
                                 {"capture_sound", trial.sound}});
        }
        answer.text +=
            fmt::format("{}{} capture, call on {} thread{}: refused: {}; broke the capture: {}",
                        answer.text.empty() ? "" : ". ", mode.name,
                        other_thread ? "another" : "its", relaxed ? " in relaxed mode" : "",
                        refused.empty() ? "none" : refused, broke.empty() ? "none" : broke);
      }
    }
  }
  return answer;
}

constexpr Fact kCaptureFacts[] = {
    {"calls-under-capture",
     "Which calls fail while a stream is captured, and which break the capture?",
     calls_under_capture},
};

}  // namespace

std::span<const Fact> capture_facts() { return kCaptureFacts; }

}  // namespace millrace::facts
