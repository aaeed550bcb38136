// DeviceMemory on streams that are not attached, in programs that report nothing.

#include <set>

#include "test/interop/bench.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kBlock = 16 * MiB;

}  // namespace

TEST_CASE("a single stream reuses its own memory, and no event is recorded") {
  DropInBench bench;
  CUstream_st* const stream = bench.create_stream();
  void* const weights = bench.allocate(kBlock, stream);
  void* first = nullptr;
  for (int i = 0; i < 10; ++i) {
    void* const block = bench.allocate(kBlock, stream);
    if (first == nullptr) first = block;
    CHECK(block == first);
    bench.work(block, kBlock, stream);
    bench.free(block, stream);
  }
  CHECK(bench.records() == 0);
  bench.free(weights, stream);
  bench.check_order();
}

TEST_CASE("freed memory serves another stream once it is complete, without a declared order") {
  const std::uint64_t schedule = GENERATE(range(0, 8));
  DropInBench bench{schedule_of(schedule)};
  CUstream_st* const copy = bench.create_stream();
  CUstream_st* const main = bench.create_stream();
  void* const batch = bench.allocate(kBlock, copy);
  bench.work(batch, kBlock, copy);
  bench.free(batch, copy);
  bench.gpu.synchronize(StreamHandle{copy});  // Millrace does not see this call
  void* found = nullptr;
  for (int i = 0; i < 4 && found != batch; ++i) {  // a query may return "not ready" a few times
    if (found != nullptr) bench.free(found, main);
    found = bench.allocate(kBlock, main);
    bench.work(found, kBlock, main);
  }
  CHECK(found == batch);
  bench.check_order();
}

TEST_CASE("memory that is not complete is not given to another stream, and adds no wait") {
  DropInBench bench;
  CUstream_st* const copy = bench.create_stream();
  CUstream_st* const main = bench.create_stream();
  void* const batch = bench.allocate(kBlock, copy);
  bench.work(batch, kBlock, copy);
  bench.free(batch, copy);
  void* const other = bench.allocate(kBlock, main);
  bench.work(other, kBlock, main);
  CHECK(other != batch);
  CHECK(bench.gpu.calls(Call::wait) == 0);
  bench.check_order();
}

TEST_CASE("one-shot streams do not increase the reserved memory") {
  const std::size_t bytes = GENERATE(std::size_t{1000}, kBlock);
  DropInBench bench;
  std::set<void*> handles;
  for (int step = 0; step < 100; ++step) {
    CUstream_st* const stream = bench.create_stream();
    handles.insert(stream);
    void* const first = bench.allocate(bytes, stream);
    void* const second = bench.allocate(bytes, stream);
    bench.work(first, bytes, stream);
    bench.work(second, bytes, stream);
    bench.free(first, stream);
    bench.free(second, stream);
    bench.gpu.synchronize(StreamHandle{stream});
    bench.destroy(stream);
  }
  CHECK(handles.size() < 100);  // the driver reuses them
  CHECK(bench.reserved() <= 2 * std::max(bytes, 2 * MiB));
  bench.check_order();
}

TEST_CASE("a handle that a new stream has is not mistaken for the former stream") {
  const std::uint64_t seed = GENERATE(range(1, 9));
  const bool names_stream = GENERATE(false, true);
  DropInBench bench{adversarial(seed)};
  CUstream_st* const former = bench.create_stream();
  void* const block = bench.allocate(kBlock, former);
  bench.work(block, kBlock, former);
  bench.destroy(former);  // its work has not run yet
  CUstream_st* const now = bench.create_stream();
  REQUIRE(now == former);

  if (names_stream) {
    bench.free(block, now);
  } else {
    bench.free(block);
  }
  void* const next = bench.allocate(kBlock, now);
  bench.work(next, kBlock, now);
  CHECK(next != block);
  bench.check_order();

  bench.memory.device().synchronize();
  CHECK(bench.allocate(kBlock, now) == block);
}

TEST_CASE("a use recorded by a handle is not covered by the next stream with that handle") {
  const std::uint64_t seed = GENERATE(range(1, 9));
  DropInBench bench{adversarial(seed)};
  CUstream_st* const owner = bench.create_stream();
  CUstream_st* const user = bench.create_stream();
  CUstream_st* const third = bench.create_stream();
  void* const block = bench.allocate(kBlock, owner);
  bench.gpu.synchronize();
  bench.memory.record_use(block, user);
  bench.work(block, kBlock, user);
  bench.destroy(user);
  CUstream_st* const now = bench.create_stream();
  REQUIRE(now == user);
  bench.free(block, owner);
  for (int i = 0; i < 8; ++i) {
    void* const other = bench.allocate(kBlock, third);
    CHECK(other != block);
    bench.work(other, kBlock, third);
    bench.gpu.synchronize(StreamHandle{third});
  }
  bench.check_order();
}

TEST_CASE("the handle of a destroyed stream frees only memory that the stream owned") {
  DropInBench bench;
  CUstream_st* const stream = bench.create_stream();
  void* const block = bench.allocate(kBlock, stream);
  bench.work(block, kBlock, stream);
  bench.destroy(stream);
  bench.free(block, stream);
  CHECK_FALSE(bench.memory.is_live(block));
  bench.check_order();

  CUstream_st* const other = bench.create_stream();
  void* const of_other = bench.allocate(kBlock, other);
  bench.destroy(bench.create_stream());
  CUstream_st* const gone = bench.create_stream();
  bench.destroy(gone);
  CHECK_THROWS_AS(bench.memory.deallocate(of_other, gone), DeviceError);
  CHECK(bench.memory.is_live(of_other));
}

TEST_CASE("a stream whose memory another stream wants is marked only by its next call") {
  DropInBench bench;
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  void* const weights = bench.allocate(kBlock, main);
  void* const scratch = bench.allocate(kBlock, main);
  bench.work(scratch, kBlock, main);
  bench.free(scratch);  // names no stream
  bench.gpu.synchronize();
  void* const batch = bench.allocate(kBlock, copy);
  CHECK(batch != scratch);
  CHECK(bench.records() == 0);
  bench.memory.record_use(weights, main);  // any call that names main
  CHECK(bench.records() == 1);
  bench.gpu.synchronize();
  CHECK(bench.allocate(kBlock, copy) == scratch);
  bench.check_order();
}

TEST_CASE("a thread that returns to a stream records one marker on it") {
  DropInBench bench;
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  for (int step = 0; step < 3; ++step) {
    std::vector<void*> batch;
    for (int i = 0; i < 4; ++i) batch.push_back(bench.allocate(kBlock, copy));
    void* const activations = bench.allocate(kBlock, main);
    bench.free(activations);
    for (void* const tensor : batch) bench.free(tensor);
  }
  CHECK(bench.records() == 4);  // one per stream and step, except in the first step
}

TEST_CASE("before a request fails, the host waits for destroyed streams") {
  DropInBench bench;
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const gone = bench.create_stream();
  const std::size_t most = 700 * MiB;
  void* const block = bench.allocate(most, gone);
  bench.work(block, most, gone);
  bench.destroy(gone);
  bench.free(block);
  void* const next = bench.allocate(most, main);
  bench.work(next, most, main);
  bench.check_order();
}

TEST_CASE("a captured stream is refused, or served if captures are to be found") {
  const bool find = GENERATE(false, true);
  const bool is_known = GENERATE(false, true);  // false: first seen during its capture
  CAPTURE(find, is_known);
  DropInBench bench{{}, {.find_captures = find}};
  CUstream_st* const stream = bench.create_stream();
  if (is_known) bench.free(bench.allocate(kBlock, stream));
  bench.gpu.set_capture_status({stream}, CaptureStatus::active);
  if (find) {
    void* const block = bench.memory.allocate(kBlock, stream);
    bench.memory.deallocate(block, stream);
    CHECK(bench.memory.statistics().graph_pools.reserved > 0);
  } else {
    try {
      static_cast<void>(bench.memory.allocate(kBlock, stream));
      FAIL("a captured stream got memory");
    } catch (const DeviceError& error) {
      CHECK(error.code() == ErrorCode::capture);
    }
  }
  bench.gpu.set_capture_status({stream}, CaptureStatus::none);
  bench.free(bench.allocate(kBlock, stream));
  CHECK(bench.memory.statistics().live_blocks <= 1);
}

TEST_CASE("on attached streams no event is recorded without a request") {
  DropInBench bench;
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  const StreamRef attached_main = bench.memory.attach(main, {.name = "main"});
  const StreamRef attached_copy = bench.memory.attach(copy, {.name = "copy"});
  for (int i = 0; i < 4; ++i) {
    void* const a = bench.memory.allocate(kBlock, attached_main);
    void* const b = bench.memory.allocate(kBlock, attached_copy);
    bench.memory.deallocate(a, attached_main);
    bench.memory.deallocate(b, attached_copy);
  }
  CHECK(bench.records() == 0);
  const std::uint64_t looked_up = bench.gpu.calls(Call::stream_id);
  bench.free(bench.allocate(kBlock, main), main);  // by its handle
  CHECK(bench.gpu.calls(Call::stream_id) == looked_up);
  bench.memory.detach(attached_main);
  bench.memory.detach(copy);
  bench.destroy(copy);
  CUstream_st* const next = bench.create_stream();
  REQUIRE(next == copy);
  bench.free(bench.allocate(kBlock, next), next);  // no longer an attached handle
  CHECK(bench.gpu.calls(Call::stream_id) > looked_up);
  bench.check_order();
}

TEST_CASE("a declared order makes memory usable before its work is complete") {
  const std::uint64_t seed = GENERATE(range(1, 6));
  DropInBench bench{adversarial(seed)};
  CUstream_st* const copy = bench.create_stream();
  CUstream_st* const main = bench.create_stream();
  auto* const event = static_cast<CUevent_st*>(bench.gpu.create_event().value);
  void* const batch = bench.allocate(kBlock, copy);
  bench.work(batch, kBlock, copy);
  bench.free(batch);
  bench.memory.record(event, copy);
  bench.memory.wait(main, event);
  void* const next = bench.allocate(kBlock, main);
  CHECK(next == batch);
  bench.work(next, kBlock, main);
  bench.memory.forget(event);
  bench.check_order();
}

}  // namespace millrace::test
