#include "sink/file/file_sink.hpp"
#include "sink/file/file_source.hpp"
#include "test/conformance/sink/sink_conformance.hpp"
#include "test/support/temporary_folder.hpp"

namespace millrace::test {
namespace {

/// Segments have only a few batches, so that a place has many segments.
class FilePlace final : public SinkPlace {
 public:
  explicit FilePlace(sink::Keep keep) : keep_(keep) {}

  std::unique_ptr<Sink> open() override {
    return std::make_unique<sink::FileSink>(sink::FileOptions{
        .folder = folder_.path() / "stream", .segment_bytes = 3000, .keep = keep_});
  }
  std::unique_ptr<RecordSource> source() override {
    return std::make_unique<sink::FileSource>(folder_.path() / "stream");
  }
  std::string spec() const override {
    return "file:" + (folder_.path() / "stream").string() +
           "?segment_bytes=3000&keep=" + (keep_ == sink::Keep::all ? "all" : "newest");
  }

 private:
  TemporaryFolder folder_;
  sink::Keep keep_;
};

const bool added_files =
    add_sink_fixture({.name = "file",
                      .make_place = [] { return std::make_unique<FilePlace>(sink::Keep::all); },
                      .is_source = true,
                      .whole_steps = true,
                      .programs = 8});
/// Not a source for these laws, because it does not return all batches that were written.
const bool added_compacted =
    add_sink_fixture({.name = "file-compacted",
                      .make_place = [] { return std::make_unique<FilePlace>(sink::Keep::newest); },
                      .whole_steps = true,
                      .programs = 8});

}  // namespace
}  // namespace millrace::test
