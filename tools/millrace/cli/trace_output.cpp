#include "cli/trace_output.hpp"

#include "millrace/observe/trace/write_snapshot.hpp"
#include "millrace/observe/trace_snapshot.hpp"

namespace millrace::cli {
namespace {

class TextSink final : public trace::TraceSink {
 public:
  explicit TextSink(std::string& text) : text_(text) {}
  bool write(std::string_view record) override {
    text_.append(record);
    return true;
  }

 private:
  std::string& text_;
};

}  // namespace

std::string render_trace(const AllocationTrace& trace, const RecordedMemory& memory) {
  std::string text;
  TextSink sink{text};
  write_trace(trace, memory, sink);
  return text;
}

std::string render_snapshot(const AllocationTrace& trace, const RecordedMemory& memory) {
  // PyTorch programs use the default stream, number 0, where a loop here uses its main stream.
  const auto number_of = [&](StreamId stream) {
    return memory.stream_name(stream) == "main" ? 0 : std::int64_t{stream.slot} + 1;
  };
  return trace::write_torch_snapshot(
      torch_snapshot(trace, memory.device, {.stream = number_of, .marks = memory.marks}));
}

}  // namespace millrace::cli
