// Tests of millrace.h. The default memory is that of a virtual device.

#include <atomic>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace.h"
#include "millrace/config.hpp"
#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/trace/read_trace.hpp"
#include "millrace/observe/trace/write_snapshot.hpp"
#include "test/interop/bench.hpp"
#include "test/support/snapshot_figures.hpp"
#include "test/support/temporary_folder.hpp"
#include "test/support/threaded_device.hpp"

namespace millrace::test {
namespace {

/// GPU 0 of the calling thread is a virtual one.
struct CBench : DropInBench {
  using DropInBench::DropInBench;
  DefaultMemoryScope scope{memory};

  [[nodiscard]] void* malloc(std::size_t bytes, CUstream_st* stream) {
    void* const address = millrace_malloc(static_cast<ssize_t>(bytes), 0, stream);
    if (address != nullptr) checking.allocated(address, bytes, gpu, {stream});
    return address;
  }
  void free(void* address, CUstream_st* stream) {
    checking.freed(address);
    millrace_free(address, 0, 0, stream);
  }
};

nlohmann::json read(const std::string& path) { return nlohmann::json::parse(std::ifstream{path}); }

}  // namespace

TEST_CASE("a C program allocates and frees on plain streams") {
  const std::uint64_t schedule = GENERATE(range(0, 6));
  CBench bench{schedule_of(schedule)};
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  for (int step = 0; step < 10; ++step) {
    void* const batch = bench.malloc(4 * MiB, copy);
    REQUIRE(batch != nullptr);
    bench.work(batch, 4 * MiB, copy);
    bench.order(copy, main);
    void* const activations = bench.malloc(8 * MiB, main);
    bench.work(batch, 4 * MiB, main);
    bench.work(activations, 8 * MiB, main);
    CHECK(millrace_record_stream(batch, 0, main) == MILLRACE_OK);
    bench.free(batch, copy);
    bench.free(activations, main);
  }
  bench.check_order();
  CHECK(bench.memory.statistics().live_blocks == 0);
}

TEST_CASE("a use that a C program records protects the memory from early reuse") {
  const std::uint64_t seed = GENERATE(range(1, 9));
  CBench bench{adversarial(seed)};
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  void* const batch = bench.malloc(4 * MiB, copy);
  bench.order(copy, main);
  REQUIRE(millrace_record_stream(batch, 0, main) == MILLRACE_OK);
  bench.work(batch, 4 * MiB, main);
  bench.free(batch, copy);
  void* const next = bench.malloc(4 * MiB, copy);
  bench.work(next, 4 * MiB, copy);
  bench.check_order();
}

TEST_CASE("PyTorch's hooks record uses, give free memory back and limit it") {
  const std::uint64_t seed = GENERATE(range(1, 5));
  CBench bench{adversarial(seed)};
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  void* const batch = bench.malloc(4 * MiB, copy);
  bench.order(copy, main);
  millrace_torch_record_stream(batch, main);
  bench.work(batch, 4 * MiB, main);
  bench.free(batch, copy);
  void* const next = bench.malloc(4 * MiB, copy);
  bench.work(next, 4 * MiB, copy);
  bench.free(next, copy);
  bench.check_order();

  bench.memory.device().synchronize();
  millrace_torch_reset();
  CHECK(bench.reserved() == 0);
  millrace_torch_memory_fraction(0.25, 0);
  CHECK(millrace_malloc(512 * MiB, 0, main) == nullptr);
  CHECK(millrace_last_status() == MILLRACE_OUT_OF_MEMORY);
  millrace_torch_memory_fraction(1.5, 0);
  CHECK(millrace_last_status() == MILLRACE_INVALID_ARGUMENT);
  millrace_torch_memory_fraction(1, 0);
  millrace_free(millrace_malloc(512 * MiB, 0, main), 0, 0, main);
  CHECK(bench.memory.statistics().live_blocks == 0);
  millrace_torch_record_stream(&bench, main);
  CHECK_THAT(millrace_last_error(), Catch::Matchers::ContainsSubstring("not a live allocation"));
}

TEST_CASE("each mistake of a C program has a status and a message, and changes nothing") {
  CBench bench;
  CUstream_st* const stream = bench.create_stream();
  void* const block = bench.malloc(MiB, stream);
  int foreign = 0;

  millrace_free(&foreign, 4, 0, stream);
  CHECK(millrace_last_status() == MILLRACE_INVALID_ARGUMENT);
  CHECK_THAT(millrace_last_error(), Catch::Matchers::ContainsSubstring("not a live allocation"));
  CHECK(millrace_free_owned(static_cast<char*>(block) + 256, 0) == MILLRACE_INVALID_ARGUMENT);
  CHECK(millrace_free_owned(reinterpret_cast<void*>(~std::uintptr_t{0}), 0) ==
        MILLRACE_INVALID_ARGUMENT);
  CHECK(millrace_record_stream(&foreign, 0, stream) == MILLRACE_INVALID_ARGUMENT);
  CHECK(millrace_transfer(&foreign, 0, stream) == MILLRACE_INVALID_ARGUMENT);
  CHECK(millrace_free_owned(block, 7) == MILLRACE_INVALID_ARGUMENT);
  CHECK_THAT(millrace_last_error(),
             Catch::Matchers::ContainsSubstring("GPU 7 has no memory in use"));
  CHECK(millrace_malloc(-1, 0, stream) == nullptr);
  CHECK_THAT(millrace_last_error(), Catch::Matchers::ContainsSubstring("-1 bytes"));
  CHECK(millrace_detach(0, stream) == MILLRACE_INVALID_ARGUMENT);
  CHECK(millrace_attach(0, stream, nullptr, 64) == MILLRACE_INVALID_ARGUMENT);
  CHECK(millrace_malloc(ssize_t{1} << 40, 0, stream) == nullptr);
  CHECK(millrace_last_status() == MILLRACE_OUT_OF_MEMORY);
  CHECK(millrace_get_statistics(0, nullptr) == MILLRACE_INVALID_ARGUMENT);
  CHECK(millrace_snapshot(0, nullptr) == MILLRACE_INVALID_ARGUMENT);
  CHECK(millrace_snapshot(0, "/nowhere/at/all.json") == MILLRACE_FILE);
  CHECK_THAT(millrace_last_error(), Catch::Matchers::ContainsSubstring("No such file"));

  CHECK(bench.memory.is_live(block));
  bench.free(block, stream);
  CHECK(millrace_free_owned(block, 0) == MILLRACE_INVALID_ARGUMENT);  // a second free
  CHECK(bench.memory.statistics().counts.frees == 1);
}

TEST_CASE("free, record and transfer accept a null pointer and ignore it") {
  CBench bench;
  millrace_free(nullptr, 0, 0, nullptr);
  CHECK(millrace_free_owned(nullptr, 5) == MILLRACE_OK);
  CHECK(millrace_record_stream(nullptr, 5, nullptr) == MILLRACE_OK);
  CHECK(millrace_transfer(nullptr, 5, nullptr) == MILLRACE_OK);
  CHECK(millrace_malloc(0, 0, nullptr) == nullptr);
  CHECK(bench.memory.statistics().counts.allocations == 0);
}

TEST_CASE("a call that succeeds keeps the thread's last error, and each thread has its own") {
  CBench bench;
  CHECK(millrace_transfer(&bench, 0, nullptr) == MILLRACE_INVALID_ARGUMENT);
  const std::string text = millrace_last_error();
  millrace_free(millrace_malloc(64, 0, nullptr), 64, 0, nullptr);
  CHECK(millrace_last_error() == text);
  std::string of_other = "?";
  std::thread{[&] { of_other = millrace_last_error(); }}.join();
  CHECK(of_other.empty());
}

TEST_CASE("a C program declares order by attached streams and by events") {
  const std::uint64_t seed = GENERATE(range(1, 6));
  CBench bench{adversarial(seed)};
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  auto* const event = static_cast<CUevent_st*>(bench.gpu.create_event().value);
  CHECK(millrace_attach(0, main, "main", MILLRACE_ATTACH_DEFAULT) == MILLRACE_OK);
  CHECK(millrace_attach(0, copy, nullptr, MILLRACE_ATTACH_INDEPENDENT) == MILLRACE_OK);
  const std::uint64_t looked_up = bench.gpu.calls(Call::stream_id);
  void* const batch = bench.malloc(4 * MiB, copy);
  bench.work(batch, 4 * MiB, copy);
  bench.free(batch, copy);
  CHECK(millrace_mark(0, copy) == MILLRACE_OK);
  CHECK(millrace_record_event(0, event, copy) == MILLRACE_OK);
  CHECK(millrace_wait_event(0, main, event) == MILLRACE_OK);
  void* const next = bench.malloc(4 * MiB, main);
  CHECK(next == batch);  // main is ordered after copy; copy is not complete
  CHECK(bench.gpu.calls(Call::stream_id) == looked_up);
  bench.work(next, 4 * MiB, main);
  CHECK(millrace_transfer(next, 0, main) == MILLRACE_OK);
  CHECK(millrace_synchronize(0, main) == MILLRACE_OK);
  bench.free(next, main);
  CHECK(millrace_forget_event(0, event) == MILLRACE_OK);
  CHECK(millrace_detach(0, main) == MILLRACE_OK);
  CHECK(millrace_detach(0, copy) == MILLRACE_OK);
  bench.check_order();
}

TEST_CASE("limits and trims of the C interface act on the memory") {
  CBench bench;
  CUstream_st* const stream = bench.create_stream();
  CHECK(millrace_set_limit(0, 32 * MiB) == MILLRACE_OK);
  CHECK(millrace_malloc(64 * MiB, 0, stream) == nullptr);
  CHECK(millrace_set_limit(0, 0) == MILLRACE_OK);
  CHECK(millrace_set_headroom(0, std::size_t{1} << 40) == MILLRACE_OK);
  CHECK(millrace_malloc(64 * MiB, 0, stream) == nullptr);
  CHECK(millrace_set_headroom(0, 0) == MILLRACE_OK);
  millrace_free(millrace_malloc(64 * MiB, 0, stream), 0, 0, stream);
  bench.gpu.synchronize();
  std::size_t released = 0;
  CHECK(millrace_trim(0, 0, &released) == MILLRACE_OK);
  CHECK(released >= 64 * MiB);
  CHECK(millrace_trim(0, 0, nullptr) == MILLRACE_OK);
}

TEST_CASE("statistics fill the part of the struct that the caller has") {
  CBench bench;
  CUstream_st* const stream = bench.create_stream();
  void* const block = bench.malloc(5 * MiB, stream);
  millrace_statistics found{};
  found.struct_bytes = sizeof found;
  REQUIRE(millrace_get_statistics(0, &found) == MILLRACE_OK);
  CHECK(found.requested == 5 * MiB);
  CHECK(found.requested_peak == 5 * MiB);
  CHECK(found.allocated >= found.requested);
  CHECK(found.reserved == bench.reserved());
  CHECK(found.reserved == found.active + found.cached);
  CHECK(found.live_blocks == 1);
  CHECK(found.allocations == 1);
  CHECK(found.served_grown == 1);

  millrace_statistics old{};
  old.struct_bytes = offsetof(millrace_statistics, allocated);
  old.allocated = 77;
  REQUIRE(millrace_get_statistics(0, &old) == MILLRACE_OK);
  CHECK(old.requested == 5 * MiB);
  CHECK(old.allocated == 77);
  bench.free(block, stream);
}

TEST_CASE("statistics as text are complete, or are refused with their size") {
  CBench bench;
  void* const block = bench.malloc(5 * MiB, nullptr);
  std::size_t size = 0;
  CHECK(millrace_statistics_json(0, nullptr, 0, &size) == MILLRACE_OK);
  CHECK(millrace_statistics_json(0, nullptr, 10, &size) == MILLRACE_INVALID_ARGUMENT);
  std::string text(size, '?');
  CHECK(millrace_statistics_json(0, text.data(), size - 1, nullptr) == MILLRACE_INVALID_ARGUMENT);
  REQUIRE(millrace_statistics_json(0, text.data(), size, nullptr) == MILLRACE_OK);
  CHECK(text.back() == '\0');
  const auto document = nlohmann::json::parse(text.c_str());
  CHECK(document.at("bytes").at("requested").at("current") == 5 * MiB);
  bench.free(block, nullptr);
}

TEST_CASE("a snapshot has every reserved byte, and replaces the file once it is complete") {
  CBench bench;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "snapshot.json").string();
  std::ofstream{path} << "older";
  CUstream_st* const stream = bench.create_stream();
  void* const block = bench.malloc(3 * MiB, stream);
  bench.free(bench.malloc(5 * MiB, stream), stream);
  void* const small = bench.malloc(100, stream);
  REQUIRE(millrace_snapshot(0, path.c_str()) == MILLRACE_OK);
  const nlohmann::json found = read(path);
  CHECK(found.at("millrace") == MILLRACE_VERSION);
  std::size_t total = 0, of_blocks = 0, live = 0, requested = 0;
  for (const auto& segment : found.at("segments")) {
    total += segment.at("total_size").get<std::size_t>();
    for (const auto& each : segment.at("blocks")) {
      of_blocks += each.at("size").get<std::size_t>();
      live += each.at("state") == "active_allocated" ? 1 : 0;
      requested += each.at("requested_size").get<std::size_t>();
    }
  }
  CHECK(total == bench.reserved());
  CHECK(of_blocks == total);
  CHECK(live == 2);
  CHECK(requested == 3 * MiB + 100);
  CHECK(std::distance(std::filesystem::directory_iterator{folder.path()}, {}) == 1);

  // The snapshot has PyTorch's format, so the reader of PyTorch's snapshots accepts it.
  const std::string pickled = (folder.path() / "snapshot.pickle").string();
  REQUIRE(millrace_snapshot(0, pickled.c_str()) == MILLRACE_OK);
  const auto log = trace::read_trace(pickled);
  REQUIRE(log.snapshot);
  REQUIRE(log.snapshot->segments.size() == found.at("segments").size());
  for (std::size_t i = 0; i < log.snapshot->segments.size(); ++i) {
    const trace::TorchSegment& segment = log.snapshot->segments[i];
    const nlohmann::json& expected = found.at("segments").at(i);
    CHECK(segment.address == expected.at("address"));
    CHECK(segment.bytes == expected.at("total_size"));
    REQUIRE(segment.blocks.size() == expected.at("blocks").size());
    for (std::size_t j = 0; j < segment.blocks.size(); ++j)
      CHECK(segment.blocks[j].requested == expected.at("blocks").at(j).at("requested_size"));
  }
  bench.free(block, stream);
  bench.free(small, stream);
}

TEST_CASE("a snapshot is written through links and special files, which stay") {
  CBench bench;
  const TemporaryFolder folder;
  bench.free(bench.malloc(3 * MiB, nullptr), nullptr);
  const std::filesystem::path target = folder.path() / "target.json", link = folder.path() / "link";
  std::ofstream{target} << "older";
  std::filesystem::create_symlink(target, link);
  REQUIRE(millrace_snapshot(0, link.c_str()) == MILLRACE_OK);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(read(target.string()).contains("segments"));

  std::filesystem::remove(target);
  REQUIRE(millrace_snapshot(0, link.c_str()) == MILLRACE_OK);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(std::filesystem::exists(target));

  const std::filesystem::path device = folder.path() / "device";
  std::filesystem::create_symlink("/dev/full", device);
  CHECK(millrace_snapshot(0, device.c_str()) == MILLRACE_FILE);
  CHECK_THAT(millrace_last_error(), Catch::Matchers::ContainsSubstring("No space left"));
  CHECK(std::filesystem::read_symlink(device) == "/dev/full");
  CHECK(std::filesystem::is_character_file(device));
  CHECK(std::distance(std::filesystem::directory_iterator{folder.path()}, {}) == 3);
}

namespace {

trace::TorchSnapshot written(const TemporaryFolder& folder) {
  const std::string path = (folder.path() / "snapshot.pickle").string();
  REQUIRE(millrace_snapshot(0, path.c_str()) == MILLRACE_OK);
  return whole_snapshot(trace::read_trace(path));
}

}  // namespace

TEST_CASE("the events of a recorded history lead to the blocks of the snapshot") {
  CBench bench;
  const TemporaryFolder folder;
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  void* const older = bench.malloc(7 * MiB, main);  // allocated before the history
  const bool stacks = GENERATE(false, true);
  REQUIRE(millrace_record_history(0, 1000, stacks ? 16 : 0) == MILLRACE_OK);
  REQUIRE(millrace_annotate(0, "step 1") == MILLRACE_OK);
  std::vector<void*> live;
  for (std::size_t i = 1; i <= 30; ++i) {
    live.push_back(bench.malloc(i * 300'000, i % 3 == 0 ? copy : main));
    if (i % 2 == 0) bench.free(std::exchange(live[i / 2], nullptr), main);
  }
  const trace::TorchSnapshot snapshot = written(folder);
  const SnapshotFigures outcome{snapshot};
  std::map<std::uint64_t, std::uint64_t> blocks;
  std::size_t reserved = 0;
  for (const trace::TorchSegment& segment : snapshot.segments) {
    reserved += segment.bytes;
    for (const trace::TorchBlock& block : segment.blocks) {
      if (block.state != trace::BlockState::allocated) continue;
      blocks[block.address] = block.requested;
      const bool is_older = block.address == reinterpret_cast<std::uintptr_t>(older);
      CHECK((block.stack != trace::StackTable::kNone) == (stacks && !is_older));
    }
  }
  CHECK(outcome.live == blocks);
  CHECK(blocks.size() == bench.memory.statistics().live_blocks);
  CHECK(outcome.reserved == reserved);
  CHECK(reserved == bench.reserved());
  CHECK(outcome.allocations == 31);
  CHECK(blocks.at(reinterpret_cast<std::uintptr_t>(older)) == 7 * MiB);
  REQUIRE(snapshot.marks.size() == 2);
  CHECK(snapshot.labels.at(snapshot.marks[0].name) == "step 1");
  CHECK(snapshot.marks[0].time_us > 1'000'000'000'000'000);  // a date of this century

  REQUIRE(millrace_record_history(0, 0, 0) == MILLRACE_OK);
  const trace::TorchSnapshot present = written(folder);
  CHECK(present.traces.at(0).empty());
  CHECK(present.segments.size() == snapshot.segments.size());
  for (void* const each : live) {
    if (each != nullptr) bench.free(each, main);
  }
  bench.free(older, main);
}

TEST_CASE("a history keeps the newest allocations and all live ones") {
  const bool others_use = GENERATE(false, true);
  CAPTURE(others_use);
  CBench bench;
  const TemporaryFolder folder;
  CUstream_st* const stream = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  REQUIRE(millrace_record_history(0, 100, 0) == MILLRACE_OK);
  void* const kept = bench.malloc(MiB, stream);
  for (int i = 0; i < 2000; ++i) {  // without synchronization no work is known to be complete
    void* const address = bench.malloc(4096, stream);
    if (others_use && i % 7 == 0) REQUIRE(millrace_record_stream(address, 0, copy) == MILLRACE_OK);
    bench.free(address, stream);
  }
  const trace::TorchSnapshot snapshot = written(folder);
  const SnapshotFigures outcome{snapshot};
  CHECK(outcome.allocations >= 100);
  CHECK(outcome.allocations < (others_use ? 1000 : 130));
  CHECK(outcome.live.size() == 1);
  CHECK(outcome.live.contains(reinterpret_cast<std::uintptr_t>(kept)));
  CHECK(outcome.reserved == bench.reserved());
  bench.free(kept, stream);
}

TEST_CASE("a history can begin, be read and end while other threads use the memory") {
  ThreadedDevice device{std::size_t{256} << 20};
  DeviceMemory memory{device, 0, {}};
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, stream = static_cast<CUstream_st*>(device.create_stream().value)] {
      do {  // at least once: `ends` may be set before this thread begins
        void* const address = memory.allocate(MiB, stream);
        memory.annotate("step");
        memory.deallocate(address, stream);
      } while (!ends);
    });
  }
  for (std::size_t i = 0; i < 100; ++i) {
    memory.record_history({.allocations = 20 * (i % 3), .stack_frames = i % 2});
    const trace::TorchSnapshot snapshot = memory.snapshot();
    std::size_t held = 0;
    for (const trace::TorchSegment& segment : snapshot.segments) held += segment.bytes;
    CHECK(held <= memory.statistics().bytes.reserved.peak);
    if (i % 3 != 0) CHECK(SnapshotFigures{snapshot}.reserved == held);
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  std::size_t held = 0;
  for (const trace::TorchSegment& segment : memory.snapshot().segments) held += segment.bytes;
  CHECK(held > 0);
  CHECK(held == memory.statistics().bytes.reserved.current);
}

TEST_CASE("a program's own observer gets reports beside the history") {
  CBench bench;
  CUstream_st* const stream = bench.create_stream();
  AllocationTrace own;
  void* const older = bench.malloc(MiB, stream);
  bench.memory.observe(&own);
  bench.memory.record_history({.allocations = 10});
  bench.free(bench.malloc(MiB, stream), stream);
  bench.memory.record_history({});
  bench.free(bench.malloc(MiB, stream), stream);
  CHECK(own.blocks().size() == 2);  // not the older one
  bench.memory.observe(nullptr);
  bench.free(older, stream);
}

TEST_CASE("an observer that is added during a history gets reports, and so does the history") {
  CBench bench;
  CUstream_st* const stream = bench.create_stream();
  AllocationTrace own;
  bench.memory.record_history({.allocations = 10});
  bench.memory.observe(&own);
  bench.free(bench.malloc(MiB, stream), stream);
  CHECK(own.blocks().size() == 1);
  CHECK(SnapshotFigures{bench.memory.snapshot()}.allocations == 1);
  bench.memory.observe(nullptr);
  bench.free(bench.malloc(MiB, stream), stream);
  CHECK(own.blocks().size() == 1);
  CHECK(SnapshotFigures{bench.memory.snapshot()}.allocations == 2);
}

}  // namespace millrace::test
