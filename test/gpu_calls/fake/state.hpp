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
  std::vector<Stream*> dead_streams;  ///< their handles are reused, the last one first
  bool busy = false;
  bool has_pools = true;
  std::int64_t time = 0;
  std::size_t events = 0;
  unsigned long long stream_ids = 10;
};
[[nodiscard]] State& state();

/// Records a call. @return the error that the call must return
int called(const std::string& name, const void* object = nullptr, long long value = 0);
/// The same for a function of the runtime. Sets the runtime's last error.
cudaError_t runtime(const std::string& name, const void* object = nullptr, long long value = 0);
/// Returns the current device of the thread. Makes a context if there is none, as the runtime does.
int current_device();
/// Returns the device of the thread's context, or -1.
[[nodiscard]] int device_of_context();
void set_context(int device);

}  // namespace millrace::test::fake
