#include "gpu/kernels/measure.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/cuda/kernels.hpp"

namespace millrace::bench {
namespace {

constexpr int kIterations = 20;
constexpr std::size_t kLaunches = 8;  ///< between two events; they share the cost of the events

class Stopwatch {
 public:
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  /// Device time in seconds.
  template <typename Work>
  [[nodiscard]] double time(Work&& work) {
    check(cudaEventRecord(begin_.get(), stream()), "cudaEventRecord");
    work();
    check(cudaEventRecord(end_.get(), stream()), "cudaEventRecord");
    check(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return milliseconds / 1e3;
  }

 private:
  cuda::UniqueStream stream_ = cuda::make_stream();
  cuda::UniqueEvent begin_ = cuda::make_event(cudaEventDefault);
  cuda::UniqueEvent end_ = cuda::make_event(cudaEventDefault);
};

double measured_copy_rate() {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const DeviceArray<std::byte> from{kBytes}, to{kBytes};
  Stopwatch watch;
  std::vector<double> seconds;
  for (int i = 0; i < 11; ++i) {
    seconds.push_back(watch.time([&] {
      check(
          cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, watch.stream()),
          "cudaMemcpyAsync");
    }));
  }
  std::nth_element(seconds.begin(), seconds.begin() + 5, seconds.end());
  return 2.0 * kBytes / seconds[5];
}

}  // namespace

double copy_rate() {
  static const double rate = measured_copy_rate();
  return rate;
}

void measure(benchmark::State& state, const Measured& measured) {
  const double rate = copy_rate();
  Stopwatch watch;
  const Queue queue{watch.stream(), nullptr};
  std::size_t launch = 0;
  const auto some_launches = [&] {
    for (std::size_t i = 0; i < kLaunches; ++i) measured.enqueue(queue, launch++);
  };
  some_launches();
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  double total = 0;
  for (auto _ : state) {
    const double seconds = watch.time(some_launches) / kLaunches;
    state.SetIterationTime(seconds);
    total += seconds;
  }
  const double reached = measured.bytes * static_cast<double>(state.iterations()) / total;
  state.counters["bytes"] = measured.bytes;
  state.counters["GB_per_s"] = std::round(reached / 1e8) / 10;
  state.counters["of_copy"] = std::round(1e3 * reached / rate) / 1e3;
}

void register_kernel(const std::string& name, std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [body = std::move(body)](benchmark::State& state) { body(state); })
      ->UseManualTime()
      ->Iterations(kIterations)
      ->Unit(benchmark::kMicrosecond);
}

void fill_with_numbers(const DeviceArray<float>& array, float bound) {
  model::cuda::fill_uniform({cudaStreamLegacy, nullptr}, array.all(), 1, bound);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void register_benchmarks() {
  register_kernel("device_copy_1GiB", [](benchmark::State& state) {
    constexpr std::size_t kBytes = std::size_t{1} << 30;
    const DeviceArray<std::byte> from{kBytes}, to{kBytes};
    measure(state, {2.0 * kBytes, [&](Queue queue, std::size_t) {
                      check(
                          cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice,
                                          static_cast<cudaStream_t>(queue.stream)),
                          "cudaMemcpyAsync");
                    }});
  });
  register_embeddings();
  register_gathers();
  register_dense();
}

}  // namespace millrace::bench
