// Captures that the program did not announce, and that the detector finds.

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <vector>

#include "millrace/memory/capture_detector.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {
namespace {

struct DetectorRig : Bench {
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  GraphPool pool{allocator};
  CaptureDetector detector{allocator, pool};

  void set_capturing(StreamRef stream, bool capturing) {
    device.set_capture_status(stream.handle(),
                              capturing ? CaptureStatus::active : CaptureStatus::none);
  }
};

}  // namespace

TEST_CASE("a captured stream that is given to a call is given memory of the pool", "[graph]") {
  DetectorRig rig;
  void* const before = rig.detector.allocate(10 * MiB, rig.main);
  rig.detector.deallocate(before);
  rig.set_capturing(rig.main, true);
  void* const during = rig.detector.allocate(10 * MiB, rig.main);
  CHECK(during != before);
  CHECK(rig.pool.statistics().allocated == 10 * MiB);
  CHECK(rig.detector.allocate(MiB, rig.copy) != nullptr);
  CHECK(rig.pool.statistics().allocated == 10 * MiB);
  rig.set_capturing(rig.copy, true);  // copy joined the capture
  void* const joined = rig.detector.allocate(MiB, rig.copy);
  CHECK(rig.pool.statistics().allocated == 11 * MiB);
  rig.detector.deallocate(joined, rig.copy);
  rig.detector.deallocate(during, rig.main);
  rig.set_capturing(rig.main, false);
  rig.set_capturing(rig.copy, false);
  CHECK(rig.detector.allocate(10 * MiB, rig.main) == before);
  CHECK(rig.pool.statistics().allocated == 0);
  CHECK(rig.pool.statistics().capturing == 0);
}

TEST_CASE("a capture that ended is noticed when asked", "[graph]") {
  DetectorRig rig;
  rig.set_capturing(rig.main, true);
  void* const output = rig.detector.allocate(MiB, rig.main);
  CHECK(rig.detector.poll());
  rig.set_capturing(rig.main, false);
  CHECK_FALSE(rig.detector.poll());
  CHECK_FALSE(rig.ordered.capturing());
  rig.ordered.synchronize();
  rig.set_capturing(rig.copy, true);  // the next capture, of another stream
  CHECK(rig.detector.allocate(MiB, rig.copy) != output);
  CHECK(rig.pool.statistics().capturing == 1);
  rig.set_capturing(rig.copy, false);
}

TEST_CASE("a capture whose stream was destroyed after its end has ended", "[graph]") {
  DetectorRig rig;
  {
    Stream temporary{rig.ordered, {.name = "temporary"}};
    rig.set_capturing(temporary, true);
    rig.detector.deallocate(rig.detector.allocate(MiB, temporary), temporary);
    rig.set_capturing(temporary, false);
  }
  CHECK_FALSE(rig.detector.poll());
  CHECK_FALSE(rig.ordered.capturing());
  rig.set_capturing(rig.main, true);  // the next capture
  CHECK(rig.detector.allocate(MiB, rig.main) != nullptr);
  CHECK(rig.pool.statistics().capturing == 1);
  rig.set_capturing(rig.main, false);
}

TEST_CASE("memory that was freed in a capture has no owner, though the pool keeps it", "[graph]") {
  DetectorRig rig;
  rig.set_capturing(rig.main, true);
  void* const freed = rig.detector.allocate(MiB, rig.main);
  rig.detector.deallocate(freed, rig.main);
  CHECK_FALSE(rig.allocator.is_live(freed));
  CHECK_FALSE(rig.allocator.owner(freed));
  rig.set_capturing(rig.main, false);
}

TEST_CASE("a broken capture goes on until it is ended", "[graph]") {
  DetectorRig rig;
  rig.set_capturing(rig.main, true);
  void* const output = rig.detector.allocate(MiB, rig.main);
  rig.device.set_capture_status(rig.main.handle(), CaptureStatus::invalidated);
  CHECK(rig.detector.poll());
  rig.detector.deallocate(output, rig.main);
  CHECK(rig.pool.statistics().capturing == 1);
  rig.set_capturing(rig.main, false);
  CHECK_FALSE(rig.detector.poll());
}

TEST_CASE("the legacy stream is not captured by the capture that blocks it", "[graph]") {
  DetectorRig rig;
  const StreamHandle legacy = rig.device.legacy_stream();
  rig.detector.deallocate(rig.detector.allocate(MiB, legacy));
  const StreamHandle blocking = rig.device.create_stream({.blocking = true});
  rig.device.set_capture_status(blocking, CaptureStatus::active);
  REQUIRE(rig.device.capture_status(legacy) == CaptureStatus::blocked);
  void* const block = rig.detector.allocate(MiB, legacy);
  CHECK(rig.pool.statistics().capturing == 0);
  CHECK(rig.detector.allocate(MiB, blocking) != nullptr);
  CHECK(rig.pool.statistics().allocated == MiB);
  rig.detector.deallocate(block, rig.ordered.resolve(legacy));
  rig.device.set_capture_status(blocking, CaptureStatus::none);
  CHECK_FALSE(rig.detector.poll());
}

TEST_CASE("a raw handle may be captured before it is known", "[graph]") {
  DetectorRig rig;
  const StreamHandle known = rig.device.create_stream(), unknown = rig.device.create_stream();
  rig.detector.deallocate(rig.detector.allocate(MiB, known));
  rig.set_capturing(known, true);
  rig.set_capturing(unknown, true);
  CHECK(rig.detector.allocate(MiB, known) != nullptr);
  CHECK(rig.pool.statistics().allocated == MiB);
  void* const output = rig.detector.allocate(MiB, unknown);
  CHECK(rig.pool.statistics().allocated == 2 * MiB);
  rig.set_capturing(known, false);
  rig.set_capturing(unknown, false);
  CHECK_FALSE(rig.detector.poll());
  // `unknown` gets its stream id here. Its block from the capture counts as in use until the device
  // is synchronized, because the stream may have used the block since the capture.
  rig.detector.deallocate(rig.detector.allocate(MiB, unknown));
  rig.detector.deallocate(output);
  rig.set_capturing(known, true);
  CHECK(rig.detector.allocate(MiB, known) != output);
  rig.set_capturing(known, false);
  CHECK_FALSE(rig.detector.poll());
  rig.ordered.synchronize();
}

TEST_CASE("a detector holds no lock while it asks the device", "[graph]") {
  struct Asks final : DeviceObserver {
    void before(Call call) override {
      if (call != Call::capture_status || asking) return;
      asking = true;
      auto other = std::async(std::launch::async, [this] { ask(); });
      if (other.wait_for(std::chrono::seconds{5}) != std::future_status::ready) {
        free = false;
        late.push_back(std::move(other));
      }
      asking = false;
    }
    std::function<void()> ask;
    std::atomic<bool> asking = false, free = true;
    std::vector<std::future<void>> late;
  };
  DetectorRig rig;
  Asks asks;
  asks.ask = [&rig] { static_cast<void>(rig.detector.poll()); };
  rig.set_capturing(rig.main, true);
  void* const during = rig.detector.allocate(MiB, rig.main);
  rig.device.add_observer(asks);
  CHECK(rig.detector.poll());
  rig.detector.deallocate(during, rig.main);
  static_cast<void>(rig.detector.allocate(MiB, rig.copy));
  rig.set_capturing(rig.main, false);
  CHECK_FALSE(rig.detector.poll());
  rig.device.remove_observer(asks);
  CHECK(asks.free);
}

TEST_CASE("a detector asks nothing in a host callback", "[graph]") {
  DetectorRig rig;
  void* const block = rig.detector.allocate(MiB, rig.main);
  const std::uint64_t asked = rig.device.calls(Call::capture_status);
  rig.device.callback(rig.copy.handle(), [&] { rig.detector.deallocate(block, rig.main); });
  rig.copy.synchronize();
  CHECK(rig.device.calls(Call::capture_status) == asked);
  CHECK_FALSE(rig.allocator.is_live(block));
}

}  // namespace millrace::test
