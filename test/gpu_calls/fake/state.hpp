#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

#include "test/gpu_calls/fake/fake.hpp"

namespace millrace::test::fake {

inline constexpr int kDevices = 2;

struct Stream {
  int device;
  unsigned flags;
  unsigned long long id;
};

struct Event {
  unsigned flags;
  std::int64_t time;
};

struct State {
  std::mutex mutex;
  std::vector<Call> calls;
  std::set<int> contexts;
  std::map<std::string, int> failures;
  std::map<std::string, std::function<void()>> hooks;
  std::vector<Stream*> dead_streams;  ///< whose handles come back, the last one first
  bool busy = false;
  std::int64_t time = 0;
  std::size_t events = 0;
  unsigned long long stream_ids = 10;
};
[[nodiscard]] State& state();

/// Takes a call down. @return the error that it is to give
int called(const std::string& name, const void* object = nullptr, long long value = 0);
/// The same for a function of the runtime, whose last error it sets.
cudaError_t runtime(const std::string& name, const void* object = nullptr, long long value = 0);
/// The current device of the thread, which gets a context if it has none: as the runtime does.
int current_device();
/// -1: none.
[[nodiscard]] int device_of_context();
void set_context(int device);

}  // namespace millrace::test::fake
