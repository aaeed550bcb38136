// The debugging features of MILLRACE_DEBUG and DeviceMemory::Options.

#include <cstdlib>
#include <stdexcept>

#include "interop/debug_settings.hpp"
#include "test/interop/bench.hpp"

namespace millrace::test {
namespace {

/** Reads the bytes of a block in stream order. */
std::vector<unsigned char> bytes_of(Device& gpu, const void* block, std::size_t bytes,
                                    CUstream_st* stream) {
  std::vector<unsigned char> found(bytes);
  gpu.copy(found.data(), block, bytes, CopyKind::device_to_host, StreamHandle{stream});
  gpu.synchronize(StreamHandle{stream});
  return found;
}

/** Sets MILLRACE_DEBUG within a scope. */
class DebugVariable {
 public:
  explicit DebugVariable(const char* value) { setenv("MILLRACE_DEBUG", value, 1); }
  ~DebugVariable() { unsetenv("MILLRACE_DEBUG"); }
  DebugVariable(const DebugVariable&) = delete;
  DebugVariable& operator=(const DebugVariable&) = delete;
};

}  // namespace

TEST_CASE("the list of debug settings is parsed, and an unknown word is named") {
  CHECK_FALSE(DebugSettings::parse("").notify_tools);
  CHECK_FALSE(DebugSettings::parse(" , ").poison);
  CHECK(DebugSettings::parse("tools").notify_tools);
  CHECK_FALSE(DebugSettings::parse("tools").poison);
  const DebugSettings both = DebugSettings::parse("poison, tools,");
  CHECK(both.notify_tools);
  CHECK(both.poison);
  CHECK_THROWS_WITH(DebugSettings::parse("tools,poisson"),
                    "MILLRACE_DEBUG: 'poisson' is not known; it is a list of: tools, poison");
}

TEST_CASE("a program with an unknown word in MILLRACE_DEBUG gets no memory object") {
  const DebugVariable variable{"tool"};
  VirtualMachine machine;
  VirtualDevice& gpu = machine.add_device();
  CHECK_THROWS_AS((DeviceMemory{gpu, 0, {}}), std::invalid_argument);
}

TEST_CASE("poisoned memory is filled each time it is allocated, in the order of its first user") {
  const std::uint64_t seed = GENERATE(range(1, 6));
  DeviceMemory::Options options;
  options.poison = true;
  DropInBench bench{adversarial(seed), options};
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  for (int round = 0; round < 3; ++round) {
    void* const block = bench.memory.allocate(3000, main, copy);
    CHECK(bytes_of(bench.gpu, block, 3000, copy) == std::vector<unsigned char>(3000, 0xff));
    bench.gpu.fill(block, 7, 3000, StreamHandle{copy});  // the next allocation would find this
    CHECK(bytes_of(bench.gpu, block, 3000, copy) == std::vector<unsigned char>(3000, 7));
    bench.memory.deallocate(block, copy);
  }
}

TEST_CASE("memory of a capture is served and not poisoned") {
  DeviceMemory::Options options;
  options.poison = options.find_captures = true;
  DropInBench bench{{}, options};
  CUstream_st* const stream = bench.create_stream();
  bench.gpu.set_capture_status({stream}, CaptureStatus::active);
  void* const block = bench.memory.allocate(MiB, stream);
  CHECK(block != nullptr);
  bench.memory.deallocate(block, stream);
  bench.gpu.set_capture_status({stream}, CaptureStatus::none);
}

TEST_CASE("memory of a stream that a capture blocks is served and not poisoned") {
  DeviceMemory::Options options;
  options.poison = options.find_captures = true;
  DropInBench bench{{}, options};
  const StreamHandle captured = bench.gpu.create_stream({.blocking = true});
  bench.memory.deallocate(
      bench.memory.allocate(MiB, nullptr));  // the id of the stream is known now
  bench.gpu.set_capture_status(captured, CaptureStatus::active);
  void* const block = bench.memory.allocate(MiB, nullptr);
  CHECK(block != nullptr);
  bench.memory.deallocate(block);
  bench.gpu.set_capture_status(captured, CaptureStatus::none);
}

TEST_CASE("an object that ignores MILLRACE_DEBUG is not changed by it") {
  const DebugVariable variable{"not known"};
  DeviceMemory::Options options;
  options.reads_environment = false;
  DropInBench bench{{}, options};
  CHECK(bench.memory.allocate(MiB, nullptr) != nullptr);
}

TEST_CASE("memory that is reported to tools is allocated and freed as any other") {
  const DebugVariable variable{"tools,poison"};
  DropInBench bench;
  DeviceMemory& memory = bench.memory;
  std::vector<void*> blocks;
  for (std::size_t bytes = 1; bytes < 64 * MiB; bytes *= 3)
    blocks.push_back(memory.allocate(bytes, nullptr));
  CHECK(memory.statistics().live_blocks == blocks.size());
  memory.deallocate(blocks.front());
  memory.deallocate(blocks.back(), static_cast<CUstream_st*>(nullptr));
  CHECK(memory.statistics().live_blocks == blocks.size() - 2);
  CHECK_THROWS(memory.deallocate(blocks.front()));  // a second free is refused, as without tools
  CHECK(memory.allocate(0, nullptr) == nullptr);
}

}  // namespace millrace::test
