#include <cuda_runtime_api.h>

#include "test/gpu_calls/bench.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// @param waits_before  number of earlier waits for events
void check_that_it_slept(std::size_t waits_before) {
  CHECK(fake::calls("cudaStreamSynchronize").empty());
  const auto waits = fake::calls("cudaEventSynchronize");
  REQUIRE(waits.size() == waits_before + 1);
  CHECK((waits.back().value & cudaEventBlockingSync) != 0);
}

}  // namespace

TEST_CASE("a long wait for a stream or for an event sleeps") {
  const auto gpu = stand_in();
  const StreamHandle stream = gpu->create_stream();
  const std::size_t before = fake::calls("cudaEventSynchronize").size();
  SECTION("a stream") {
    fake::set_busy(true);
    gpu->synchronize(stream);
    check_that_it_slept(before);
    const auto records = fake::calls("cudaEventRecord");
    CHECK(records.back().object == reinterpret_cast<std::uintptr_t>(stream.value));
  }
  for (const bool timed : {false, true}) {
    DYNAMIC_SECTION("an event, " << (timed ? "timed" : "not timed")) {
      const EventHandle event = gpu->create_event(timed);
      gpu->record(event, stream);
      fake::set_busy(true);
      gpu->synchronize(event);
      check_that_it_slept(before);
      CHECK(fake::calls("cudaEventSynchronize").back().object ==
            reinterpret_cast<std::uintptr_t>(event.value));
      gpu->destroy_event(event);
    }
  }
  gpu->destroy_stream(stream);
}

// The driver's pool gives memory back at a synchronization, and not at a query.
TEST_CASE("a wait for complete work queries first, then synchronizes, and leaves no event") {
  const auto gpu = stand_in();
  const StreamHandle stream = gpu->create_stream();
  const EventHandle event = gpu->create_event(false);
  gpu->record(event, stream);
  const std::size_t events = fake::live_events();
  const auto check_calls = [](const auto& wait, const std::string& query,
                              const std::string& synchronization, const void* object) {
    const std::size_t before = fake::calls().size();
    wait();
    const auto calls = fake::calls();
    REQUIRE(calls.size() == before + 2);
    CHECK(calls[before].name == query);
    CHECK(calls[before + 1].name == synchronization);
    CHECK(calls[before + 1].object == reinterpret_cast<std::uintptr_t>(object));
  };
  check_calls([&] { gpu->synchronize(stream); }, "cudaStreamQuery", "cudaStreamSynchronize",
              stream.value);
  check_calls([&] { gpu->synchronize(event); }, "cudaEventQuery", "cudaEventSynchronize",
              event.value);
  CHECK(fake::live_events() == events);
  gpu->destroy_event(event);
  gpu->destroy_stream(stream);
}

TEST_CASE("a wait for the legacy stream records nothing that other streams would wait for") {
  const auto gpu = stand_in();
  const std::size_t records = fake::calls("cudaEventRecord").size();
  fake::set_busy(true);
  gpu->synchronize(gpu->legacy_stream());
  CHECK(fake::calls("cudaEventRecord").size() == records);
  CHECK(fake::calls("cudaStreamSynchronize").size() == 1);
}

TEST_CASE("the default streams synchronize with the legacy stream, whatever their flags are") {
  const auto gpu = stand_in();
  CHECK(gpu->blocking(gpu->per_thread_stream()));
  CHECK(gpu->blocking(gpu->legacy_stream()));
}

TEST_CASE("a trim of the driver's pool does nothing on a GPU without pools") {
  fake::reset();
  fake::set_pools(false);
  const auto gpu = CudaDevice::create(0);
  REQUIRE_FALSE(gpu->has_driver_pool());
  CHECK_NOTHROW(gpu->trim_pool(0));
  CHECK(fake::calls("cudaMemPoolTrimTo").empty());
  CHECK_THROWS_AS(gpu->allocate_async(512, gpu->legacy_stream()), DeviceError);
}
