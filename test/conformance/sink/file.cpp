#include "sink/file/file_sink.hpp"
#include "sink/file/file_source.hpp"
#include "test/conformance/sink/sink_conformance.hpp"
#include "test/support/temporary_folder.hpp"

namespace millrace::test {
namespace {

/// Segments of a few batches, so that there are many.
class FilePlace final : public SinkPlace {
 public:
  std::unique_ptr<Sink> open() override {
    return std::make_unique<sink::FileSink>(
        sink::FileOptions{.folder = folder_.path() / "stream", .segment_bytes = 3000});
  }
  std::unique_ptr<RecordSource> source() override {
    return std::make_unique<sink::FileSource>(folder_.path() / "stream");
  }
  std::string spec() const override { return "file:" + (folder_.path() / "stream").string(); }

 private:
  TemporaryFolder folder_;
};

const bool added = add_sink_fixture({.name = "file",
                                     .make_place = [] { return std::make_unique<FilePlace>(); },
                                     .is_source = true,
                                     .whole_steps = true,
                                     .programs = 8});

}  // namespace
}  // namespace millrace::test
