#include "millrace/streamer/memory_sink.hpp"
#include "test/conformance/sink/sink_conformance.hpp"

namespace millrace::test {
namespace {

class MemoryPlace final : public SinkPlace {
 public:
  std::unique_ptr<Sink> open() override { return std::make_unique<MemorySink>(); }
};

const bool added_memory =
    add_sink_fixture({.name = "memory",
                      .make_place = [] { return std::make_unique<MemoryPlace>(); },
                      .lasts = false,
                      .many_at_once = false,
                      .programs = 200});

}  // namespace
}  // namespace millrace::test
