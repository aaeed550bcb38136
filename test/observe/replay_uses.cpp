#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/observe/driver_model.hpp"
#include "millrace/observe/replay.hpp"
#include "millrace/observe/trace/read_trace.hpp"
#include "millrace/observe/trace/trace_writer.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using namespace millrace::trace;
using test::MiB;

namespace {

class StringSink final : public TraceSink {
 public:
  bool write(std::string_view record) override {
    bytes += record;
    return true;
  }
  std::string bytes;
};

/// Buffers of the copy stream that main uses until they are freed, as with record_stream.
class RecordedUses {
 public:
  static constexpr std::size_t kBytes = 64 * MiB;

  RecordedUses() { writer_.device(0, std::uint64_t{1} << 36, "GPU"); }

  /// @param completes  whether the work on it is known to be complete before the next allocation
  void buffer(bool completes) {
    const std::uint64_t block = allocate(copy_);
    writer_.used(block, main_);
    writer_.freed(block, copy_);
    if (completes) writer_.completed(block);
  }

  void buffer_of_main() { writer_.freed(allocate(main_), main_); }
  void two_at_once() {
    allocate(copy_);
    allocate(copy_);
  }

  AllocationLog log() {
    writer_.finish();
    return parse_trace(sink_.bytes, "uses.trace");
  }

 private:
  std::uint64_t allocate(std::uint32_t stream) {
    next_address_ += kBytes;
    return writer_.allocated({.stream = stream, .address = next_address_, .bytes = kBytes});
  }

  StringSink sink_;
  TraceWriter writer_{sink_};
  const std::uint32_t main_ = writer_.stream({.name = "main"}),
                      copy_ = writer_.stream({.name = "copy"});
  std::uint64_t next_address_ = std::uint64_t{1} << 32;
};

std::size_t reserved(const AllocationLog& log, const Policy& policy) {
  return replay(log, 0, {.policy = policy}).statistics.bytes.reserved.peak;
}

}  // namespace

TEST_CASE("a completion in a trace covers the uses of other streams") {
  RecordedUses program;
  for (int i = 0; i < 5; ++i) program.buffer(true);
  const AllocationLog log = program.log();
  CHECK(reserved(log, Policy::torch()) == RecordedUses::kBytes);
  CHECK(reserved(log, Policy::millrace()) == RecordedUses::kBytes);
}

TEST_CASE("a block whose uses are not known to be complete is not reused in a replay") {
  RecordedUses program;
  for (int i = 0; i < 5; ++i) program.buffer(false);
  CHECK(reserved(program.log(), Policy::torch()) == 5 * RecordedUses::kBytes);
}

TEST_CASE("the model of the driver's pool reuses a block after the uses of other streams") {
  RecordedUses program;
  program.buffer_of_main();
  program.buffer(false);  // the copy stream waits for main, so it is also after main's free
  program.two_at_once();
  const DriverModel model = model_driver(program.log(), 0, 0);
  CHECK(model.most == 2 * RecordedUses::kBytes);
}
